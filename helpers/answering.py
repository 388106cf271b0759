"""A trained reader that answers questions, loaded in one line."""

import re
from collections.abc import Sequence
from pathlib import Path

from torch import nn
from transformers import PreTrainedTokenizerFast

from helpers import extractive_qa, paths
from helpers.data.examples import DataError, Example, check_text
from helpers.errors import EncoderError
from helpers.extractive_qa import Prediction
from helpers.loop import training_device
from helpers.models.encoders import check_inputs, load_saved, load_tokenizer, loading, longest_input
from helpers.presets.schema import AnswerSettings, WindowSettings
from helpers.sequences import make_windows
from helpers.training import predict

MAX_WINDOW = 384  # tokens of a window, where the model reads as many and its configuration says nothing


class TrainedReader:
    """A trained reader that answers questions; `load_reader` makes one.

    It reads windows of the length and stride of its training, in the precision of its training (float32 by default),
    and limits answers as that did. No answer is possible where the training had unanswerable questions, unless a
    call says otherwise. It wins where its score is higher by more than the configuration's ``null_threshold``.
    """

    def __init__(self, model: nn.Module, tokenizer: PreTrainedTokenizerFast):
        config = model.config
        if not (windows := getattr(config, "windows", None)):
            longest = longest_input(model, MAX_WINDOW)
            windows = {"max_length": longest, "stride": longest // 3}
        self.model, self.tokenizer = model.to(training_device()), tokenizer
        self.windows = WindowSettings(**windows).model_dump(include=set(windows))
        self.answers = AnswerSettings(**getattr(config, "answers", {}))
        self.unanswerable = bool(getattr(config, "unanswerable", False))
        self.null_threshold = float(getattr(config, "null_threshold", 0.0))
        self.precision = getattr(config, "precision", "fp32")

    def answer(
        self, question: str | Sequence[str], passage: str | Sequence[str], *, no_answer: bool | None = None
    ) -> Prediction | list[Prediction]:
        """Answer a question about a passage, or a list of questions, each about its passage in a second list.

        A `Prediction` has the answer's ``text``, its ``span`` (half-open, in characters of the passage; None where the
        text is ""), its ``probability`` among the ``n_best`` spans, and these, best first. Raises DataError for what is
        neither two texts nor two lists of as many, and for a text that is empty or holds a lone surrogate.
        """
        if isinstance(question, str) and isinstance(passage, str):
            return self.answer([question], [passage], no_answer=no_answer)[0]
        if not _is_list(question) or not _is_list(passage):
            kinds = f"{type(question).__name__} and {type(passage).__name__}"
            raise DataError(f"expected two texts, or two lists of texts, found {kinds}; give one of these")
        if len(question) != len(passage):
            length = "shorter" if len(passage) < len(question) else "longer"
            problem = f"the list of passages is {length} than that of questions ({len(passage)}, {len(question)})"
            raise DataError(f"{problem}; give each question its passage")
        pairs = zip(question, passage, strict=True)
        examples = [_make_example(f"question {number}", *pair) for number, pair in enumerate(pairs, 1)]
        return self.answer_all(examples, no_answer=no_answer)

    def answer_all(self, examples: list[Example], *, no_answer: bool | None = None) -> list[Prediction]:
        """Answer each example's question, in their order."""
        windows = make_windows(examples, self.tokenizer, **self.windows)
        return extractive_qa.decode(
            windows,
            predict(self.model, windows, precision=self.precision),
            n_best=self.answers.n_best,
            max_answer_tokens=self.answers.max_tokens,
            no_answer=self.unanswerable if no_answer is None else no_answer,
            null_threshold=self.null_threshold,
        )


def _is_list(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | dict)


def _make_example(name: str, question: str, passage: str) -> Example:
    """Make an example without answers. Raises DataError for texts that no tokenizer reads."""
    if not isinstance(question, str) or not isinstance(passage, str):
        kinds = f"{type(question).__name__} and {type(passage).__name__}"
        raise DataError(f"{name}: expected texts, found {kinds}; give texts")
    try:
        check_text(question)
        check_text(passage)
    except UnicodeEncodeError as error:
        surrogate = error.object[error.start]
        raise DataError(f"{name}: holds a lone surrogate, {surrogate!r}, half of a character; remove it") from None
    except ValueError:
        raise DataError(f"{name}: question and passage must not be empty") from None
    return Example(name, question, passage, (), None, name)


def load_reader(model: Path | str) -> TrainedReader:
    """Load a reader from a folder in Hugging Face format or by its name on the Hub.

    The name of a training in results/ does as well, or the beginning of it if no other begins so. Raises EncoderError
    where it cannot be loaded or is no trained reader. transformers 5 has no pipeline for questions about passages.
    """
    folders = find_models(str(model))
    if len(folders) > 1:
        shown = ", ".join(str(folder.parent.relative_to(paths.results(""))) for folder in folders[:3])
        problem = f"{len(folders)} trainings begin with {str(model)!r}, such as {shown}"
        raise EncoderError(f"{problem}; give more of the name, or the folder")
    place = str(folders[0] if folders else model)
    with loading(place):
        trained, tokenizer = load_saved(place), load_tokenizer(place)
        windows = getattr(trained.config, "windows", None) or {}
        check_inputs(trained, place, windows.get("max_length", 0))
        return TrainedReader(trained, tokenizer)


def find_models(name: str) -> list[Path]:
    """List the models whose training's name begins so, as with ``Reader-news-seed0``; none for a path.

    Presets may share a training, which counts once.
    """
    if paths.find_folder(name) or not re.fullmatch(r"[A-Z][\w.-]+", name):
        return []
    folders = sorted(paths.results("").glob(f"*/models/{name}*/model"))
    return list({folder.parent.name: folder for folder in folders}.values())
