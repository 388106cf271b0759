"""A trained reader that answers questions, loaded in one line.

It answers as scoring does (`TrainedReader.answer`), or in the form of transformers' pipeline, which version 5.3 dropped
(`TrainedReader.__call__`).
"""

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from huggingface_hub import try_to_load_from_cache
from tokenizers import Encoding
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from helpers import metrics, paths
from helpers.data.examples import DataError, Example, check_text
from helpers.data.load import load, load_set
from helpers.errors import EncoderError
from helpers.extractive_qa import (
    HIGHEST_LIMIT,
    Prediction,
    answer,
    decode,
    ensemble_log_probs,
    reader_facts,
    windows_of,
    windows_over,
)
from helpers.files import write_whole
from helpers.loop import training_device
from helpers.models.encoders import check_inputs, load_saved, load_tokenizer, loading, longest_input
from helpers.presets.schema import AnswerSettings, Preset, WindowSettings
from helpers.sequences import Windows, make_windows
from helpers.training import Logits, Outputs, Training, predict

# What the pipeline did with models that say nothing of their training.
MAX_WINDOW = 384  # tokens of a window, where the model reads as many
OVERLAP = 128  # tokens that neighbouring windows share, at most half of them
MAX_ANSWER = 15  # tokens
TRAINING_NAME = r"[A-Z][\w.-]+"  # such as Reader-news-seed0
PAIRED = 100  # highest starts and ends that are paired; the pipeline paired all, of which the rest is next to nothing

BATCHES = {"cuda": 64, "cpu": 8}  # windows of like length at once; padding costs a CPU more than small batches do


class TrainedReader:
    """A trained reader that answers questions; `load_reader` makes one.

    A reader of this package has its settings in its configuration. It reads windows of the length and stride of its
    training, in its precision, and limits answers as it did. No answer is possible where the training had unanswerable
    questions, unless a call says otherwise. It wins where its score is higher by more than ``null_threshold``.
    ``temperature`` is that of probabilities. Any other model is read as by transformers' pipeline, in float32: a logit
    counts by its softmax over a window's passage and first token.
    """

    def __init__(self, model: nn.Module, tokenizer: PreTrainedTokenizerFast):
        config = model.config
        self.by_window = not (windows := getattr(config, "windows", None))
        if self.by_window:
            longest = longest_input(model, min(MAX_WINDOW, tokenizer.model_max_length))
            windows = {"max_length": longest, "stride": min(longest // 2, OVERLAP), "stride_is": "overlap"}
        self.model, self.tokenizer = model.to(training_device()), tokenizer
        self.windows = WindowSettings(**windows).model_dump(include=set(windows))
        self.answers = AnswerSettings(**getattr(config, "answers", {"max_tokens": MAX_ANSWER}))
        self.unanswerable = bool(getattr(config, "unanswerable", False))
        self.calibration = {
            "null_threshold": float(getattr(config, "null_threshold", 0.0)),
            "temperature": float(getattr(config, "answer_temperature", 1.0)),  # "temperature" is generation's
        }
        self.precision = getattr(config, "precision", "fp32")

    def __repr__(self) -> str:
        """Name the model, what it reads at once, and whether it may give no answer."""
        model, length = type(self.model).__name__, self.windows["max_length"]
        return f"TrainedReader({model}, max_length={length}, unanswerable={self.unanswerable})"

    def answer(
        self, question: str | Sequence[str], passage: str | Sequence[str], *, no_answer: bool | None = None
    ) -> Prediction | list[Prediction]:
        """Answer a question about a passage, or a list of questions, each about its passage in a list or all about one.

        A `Prediction` has the answer's ``text``, its ``span`` (half-open, in characters of the passage; None where the
        text is ""), its ``probability`` among the ``n_best`` spans, and these, best first. Raises DataError for what is
        neither texts nor lists of as many, and for a text that is empty or holds a lone surrogate.
        """
        if isinstance(question, str) and isinstance(passage, str):
            return self.answer([question], [passage], no_answer=no_answer)[0]
        return self.answer_all(_make_examples(question, passage), no_answer=no_answer)

    def answer_all(self, examples: list[Example], *, no_answer: bool | None = None) -> list[Prediction]:
        """Answer each example's question, in their order."""
        return self._answer_windows(make_windows(examples, self.tokenizer, **self.windows), no_answer)

    def _answer_windows(self, windows: Windows, no_answer: bool | None, **limits: int) -> list[Prediction]:
        # Answers the question of each example. ``limits`` other than the reader's are as in `decode`.
        batch_size = BATCHES[training_device().type]
        logits = predict(self.model, windows, precision=self.precision, batch_size=batch_size)
        if self.by_window:
            logits = ensemble_log_probs(windows, [leave_out_questions(windows, logits)])
        limits = self.answers.model_dump() | limits
        no_answer = self.unanswerable if no_answer is None else no_answer
        return decode(windows, logits, no_answer=no_answer, **self.calibration, **limits)

    def __call__(
        self,
        *,
        question: str | Sequence[str],
        context: str | Sequence[str],
        top_k: int = 1,
        max_answer_len: int | None = None,
        handle_impossible_answer: bool | None = None,
        align_to_words: bool = True,
    ) -> dict | list:
        """Answer a question, or a list of them, in the form that transformers' pipeline had.

        Returns ``answer``, ``score``, ``start`` and ``end`` (characters of the context, 0 where the answer is ""), or
        with ``top_k`` > 1 a list of the best; a list of these for a list. One context serves several questions too.
        Ends inside a word move to its ends with ``align_to_words``. What is None is the reader's setting.

        A reader of this package puts first what `answer` gives, and scores by probability. Other models score by
        P(start) P(end) of the window, as the pipeline did. Scores of equal texts add up. Raises DataError.
        """
        if top_k < 1 or (max_answer_len is not None and max_answer_len < 1):
            problem = f"top_k = {top_k}, max_answer_len = {max_answer_len}; expected at least 1"
            raise DataError(f"{problem}; raise what is lower")
        is_single = isinstance(question, str)
        questions = [question] if is_single else question
        examples = _make_examples(questions, context)
        most = 2 * top_k + 10  # spans of a window that the pipeline looked at
        limits = {"n_best": max(PAIRED, most)} if self.by_window else {}
        if max_answer_len is not None:
            limits["max_tokens"] = max_answer_len
        windows = make_windows(examples, self.tokenizer, **self.windows)
        predictions = self._answer_windows(windows, handle_impossible_answer, **limits)
        spans_E = most * np.bincount(windows.example_W, minlength=len(examples))
        tokenise = self.tokenizer.backend_tokenizer.encode
        results = []
        for example, prediction, spans in zip(examples, predictions, spans_E.tolist(), strict=True):
            words = tokenise(example.context, add_special_tokens=False) if align_to_words else None
            answers = self._list_answers(prediction, example.context, words, spans)
            results.append(answers[:top_k] if top_k > 1 else answers[0])
        return results[0] if is_single else results

    def _list_answers(self, prediction: Prediction, context: str, words: Encoding | None, spans: int) -> list[dict]:
        # Lists the distinct answers, best first, case aside. ``words`` are those of the context to align to. Of another
        # model the best ``spans`` count, and "no answer".
        candidates = sorted(prediction.n_best, key=lambda candidate: candidate.span != prediction.span)
        if self.by_window:
            with_span = [candidate for candidate in prediction.n_best if candidate.span]
            candidates = with_span[:spans] + [candidate for candidate in candidates if not candidate.span]
        answers: dict[str, dict] = {}
        for _, span, score, probability in candidates:
            begin, end = _align(*span, words) if span and words else span or (0, 0)
            text = context[begin:end]
            answer = answers.setdefault(text.lower(), {"score": 0.0, "start": begin, "end": end, "answer": text})
            answer["score"] += math.exp(score) if self.by_window else probability
        first, *others = answers.values()
        if self.by_window:
            return sorted(answers.values(), key=lambda answer: -answer["score"])
        return [first, *sorted(others, key=lambda answer: -answer["score"])]


def leave_out_questions(windows: Windows, logits: Logits) -> Logits:
    """Return logits that are -inf but at windows' first tokens, of "no answer", and passages."""
    lengths = windows.lengths_W
    position = np.arange(lengths.sum()) - np.repeat(windows.offsets_W, lengths)
    first = np.repeat(windows.passage_start_W, lengths)
    is_passage = (position >= first) & (position < first + np.repeat(windows.passage_len_W, lengths))
    return Logits(*(np.where(is_passage | (position == 0), side, -np.inf) for side in (logits.start, logits.end)))


def _align(begin: int, end: int, words: Encoding) -> tuple[int, int]:
    # Moves the ends of a span outwards to those of words, where the tokenizer says which these are.
    first, last = words.char_to_word(begin), words.char_to_word(end - 1)
    begin = begin if first is None else words.word_to_chars(first)[0]
    return begin, end if last is None else words.word_to_chars(last)[1]


def _is_list(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | dict)


def _make_examples(questions: Sequence[str], passages: str | Sequence[str]) -> list[Example]:
    # Makes examples of two lists of texts, or of one passage for all. Raises DataError where they are none.
    if isinstance(passages, str) and _is_list(questions):
        passages = [passages] * len(questions)
    if not _is_list(questions) or not _is_list(passages):
        kinds = f"{type(questions).__name__} and {type(passages).__name__}"
        raise DataError(f"expected two texts, or two lists of texts, found {kinds}; give one of these")
    if len(questions) != len(passages):
        length = "shorter" if len(passages) < len(questions) else "longer"
        problem = f"the list of passages is {length} than that of questions ({len(passages)}, {len(questions)})"
        raise DataError(f"{problem}; give each question its passage")
    pairs = zip(questions, passages, strict=True)
    return [_make_example(f"question {number}", *pair) for number, pair in enumerate(pairs, 1)]


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

    The name of a training in results/ does as well, or the beginning of it if no other begins so. The reader's
    ``answer(question, passage)``, of texts or lists, returns a `Prediction` each: ``text``, ``span`` and
    ``probability``. Raises EncoderError where it cannot be loaded or is no trained reader.
    """
    if not isinstance(model, str | os.PathLike):
        raise EncoderError(f"model: expected a folder or a name, found {model!r}; give one")
    folders = find_models(str(model))
    if len(folders) > 1:
        shown = ", ".join(str(folder.parent.relative_to(paths.trainings())) for folder in folders[:3])
        problem = f"{len(folders)} trainings begin with {str(model)!r}, such as {shown}"
        raise EncoderError(f"{problem}; give more of the name, or the folder")
    place = str(folders[0] if folders else model)
    beside = paths.find_folder(os.path.dirname(place))
    is_here = paths.find_folder(place) is not None
    if beside and not is_here:  # on the Hub a stranger may have a model of this name
        there = ", ".join(sorted(file.name for file in beside.iterdir() if file.is_dir())) or "none"
        raise EncoderError(f"{place}: no such folder; expected one of those in {beside}: {there}; correct the name")
    if not is_here and (place.count("/") > 1 or place.startswith(("models/", "./", "../", "~"))):  # no names on the Hub
        raise EncoderError(f"{place}: no such folder; expected a saved reader; correct it, or train with -p keep")
    if not is_here and re.fullmatch(TRAINING_NAME, place):
        raise EncoderError(f"{place}: no such folder, and no training here begins so; run a notebook, or give a folder")
    if not is_here and "/" in place and not try_to_load_from_cache(place, "config.json"):
        print(f"{place}: no such folder is here, so the Hub is asked", file=sys.stderr)
    with loading(place, "reader"):
        trained, tokenizer = load_saved(place), load_tokenizer(place)
        windows = getattr(trained.config, "windows", None) or {}
        check_inputs(trained, place, windows.get("max_length", 0))
        return TrainedReader(trained, tokenizer)


def find_models(name: str) -> list[Path]:
    """List the models whose training's name begins so, as with ``Reader-news-seed0``; none for a path.

    Presets may share a training, which counts once.
    """
    if paths.find_folder(name) or not re.fullmatch(TRAINING_NAME, name):
        return []
    folders = sorted(paths.trainings().glob(f"*/models/{name}*/model"))
    return list({folder.parent.name: folder for folder in folders}.values())


# --- readers to keep --------------------------------------------------------------------------------------------------


def calibrate(preset: Preset, model: nn.Module, domains: Sequence[str]) -> dict[str, float]:
    """Fit a reader's ``null_threshold`` and ``temperature``, as `decode` takes them, to validation questions.

    The threshold gives the questions that may have no answer the best F1 (He 2019, section 3.1.5), the temperature
    makes the confidence in an answer the probability that it is right (`fit_temperature`).
    """
    windows, precision = windows_of(preset, domains, "valid"), preset.training.precision
    allowed = [preset.data.may_be_unanswerable(name) for name in domains for _ in load(preset.data, name).valid]
    logits = predict(model, windows, precision)
    limits = {**preset.answers.model_dump(), "no_answer": allowed}
    pairs = zip(windows.examples, decode(windows, logits, **limits), allowed, strict=True)
    uncertain = [(example, prediction) for example, prediction, may in pairs if may]
    limit = metrics.best_threshold(*zip(*uncertain, strict=True)) if uncertain else 0.0
    limit = float(np.clip(limit, -HIGHEST_LIMIT, HIGHEST_LIMIT))  # JSON has no infinity
    predictions = decode(windows, logits, null_threshold=limit, **limits)
    return {"null_threshold": limit, "temperature": fit_temperature(windows.examples, predictions)}


def calibrated_facts(preset: Preset, model: nn.Module, domain: str) -> dict:
    """Return what the configuration of a reader of one domain records that is calibrated on it."""
    values = calibrate(preset, model, [domain])
    renamed = {"null_threshold": values["null_threshold"], "answer_temperature": values["temperature"]}
    return reader_facts(preset, [domain]) | renamed


def save_reader(training: Training, domain: str, folder: Path) -> None:
    """Copy a trained reader, calibrated on a domain's validation questions."""
    shutil.copytree(training.saved(), folder, copy_function=shutil.copyfile)  # modes as of new files
    facts = calibrated_facts(training.preset, training.load(), domain)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | facts
    write_whole(folder / "config.json", json.dumps(config, indent=2, sort_keys=True) + "\n")


def answer_surely(outputs: Outputs) -> tuple[dict, dict[str, Tensor]]:
    """Have a reader answer test questions of a domain, calibrated on its validation questions.

    Return for each question whether the answer ``is_right`` (exact match) and the ``confidence`` in it.
    """
    preset, ((name, (reader,)), *_) = outputs.preset, outputs.models.items()
    domain, model = name.removeprefix("test/"), reader.load()
    may, windows = preset.data.may_be_unanswerable(domain), windows_over(preset, load_set(preset, name))
    predictions = answer(preset, [model], windows, may, **calibrate(preset, model, [domain]))
    is_right = metrics.score(windows.examples, predictions, no_answer=may).em > 0
    return {"is_right": is_right.tolist(), "confidence": [each.confidence for each in predictions]}, {}


def fit_temperature(examples: Sequence[Example], predictions: Sequence) -> float:
    """Return the temperature of `decode` at which confidence tells best how often answers are right.

    ``predictions`` are decoded at temperature 1. Their confidence has the least cross-entropy with exact match (Guo et
    al. 2017), which counts as a little less than 1 and more than 0 (Platt 1999), as few questions are known.
    """
    from scipy.optimize import minimize_scalar

    is_right = metrics.score(examples, predictions).em > 0
    target = np.where(is_right, (is_right.sum() + 1) / (is_right.sum() + 2), 1 / ((~is_right).sum() + 2))
    shares = [np.array([candidate.probability for candidate in one.n_best]) for one in predictions]
    is_text = [np.array([candidate.text == one.text for candidate in one.n_best]) for one in predictions]

    def loss(log_temperature: float) -> float:
        powers = [share ** np.exp(-log_temperature) for share in shares]
        sums = [(power[chosen].sum(), power[~chosen].sum()) for power, chosen in zip(powers, is_text, strict=True)]
        right, wrong = np.maximum(sums, 1e-30).T
        logs = np.log(right / (right + wrong)), np.log(wrong / (right + wrong))
        return -float((target * logs[0] + (1 - target) * logs[1]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=np.log([0.1, 10.0]), method="bounded").x))
