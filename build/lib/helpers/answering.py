"""A trained reader that answers questions, loaded in one line."""

from collections.abc import Sequence
from pathlib import Path

from torch import nn
from transformers import PreTrainedTokenizerFast

from helpers import decoding
from helpers.batches.sequences import make_windows
from helpers.data.examples import DataError, Example
from helpers.decoding import Prediction
from helpers.loop import training_device
from helpers.models.encoders import load_saved, load_tokenizer, longest_input
from helpers.paths import find_model
from helpers.presets.schema import AnswerSettings
from helpers.reading import predict

LONGEST = 384  # tokens of a window, where the model reads as many and its configuration says nothing


class TrainedReader:
    """A trained reader that answers questions; `load_reader` makes one.

    It reads windows of the length and stride of its training, in the precision of its training (float32 by default),
    and limits answers as that did. No answer is possible where the training had unanswerable questions, unless a
    call says otherwise. It wins where its score is higher by more than the configuration's ``null_threshold``.
    """

    def __init__(self, model: nn.Module, tokenizer: PreTrainedTokenizerFast):
        config = model.config
        if not (windows := getattr(config, "windows", None)):
            longest = longest_input(model, LONGEST)
            windows = {"max_length": longest, "stride": longest // 3}
        self.model, self.tokenizer, self.windows = model.to(training_device()), tokenizer, windows
        self.answers = AnswerSettings(**getattr(config, "answers", {}))
        self.unanswerable = bool(getattr(config, "unanswerable", False))
        self.null_threshold = float(getattr(config, "null_threshold", 0.0))
        self.precision = getattr(config, "precision", "fp32")

    def answer(
        self, question: str | Sequence[str], passage: str | Sequence[str], *, no_answer: bool | None = None
    ) -> Prediction | list[Prediction]:
        """Answer a question about a passage, or a list of questions, each about its passage in a second list.

        A `Prediction` has the answer's ``text``, its ``span`` (half-open, in characters of the passage; None where the
        text is ""), its ``probability`` among the ``n_best`` spans, and these, best first. Raises DataError for an
        empty question or passage, ValueError for lists of different lengths.
        """
        if isinstance(question, str):
            return self.answer([question], [passage], no_answer=no_answer)[0]
        examples = []
        for number, (text, context) in enumerate(zip(question, passage, strict=True), 1):
            if not text.strip() or not context.strip():
                raise DataError(f"question {number}: question and passage must not be empty")
            examples.append(Example(f"question {number}", text, context, (), None, f"question {number}"))
        return self.answer_all(examples, no_answer=no_answer)

    def answer_all(self, examples: list[Example], *, no_answer: bool | None = None) -> list[Prediction]:
        """Answer each example's question, in their order."""
        windows = make_windows(examples, self.tokenizer, **self.windows)
        return decoding.decode(
            windows,
            predict(self.model, windows, precision=self.precision),
            n_best=self.answers.n_best,
            max_answer_tokens=self.answers.max_tokens,
            no_answer=self.unanswerable if no_answer is None else no_answer,
            null_threshold=self.null_threshold,
        )


def load_reader(model: Path | str) -> TrainedReader:
    """Load a reader from a folder in Hugging Face format or by its name on the Hub.

    The name of a training in results/ does as well, or the beginning of it if no other begins so. Raises EncoderError
    where it cannot be loaded or is no trained reader. transformers 5 has no pipeline for questions about passages.
    """
    place = str(find_model(str(model)))
    return TrainedReader(load_saved(place), load_tokenizer(place))
