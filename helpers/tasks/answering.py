"""What trained readers answer: to sets of questions, once and for all, or to whatever they are asked."""

from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path

import exca
import numpy as np
from torch import nn
from transformers import PreTrainedTokenizerFast

from helpers.batches.sequences import Windows, make_windows
from helpers.data.examples import DataError, Example
from helpers.data.sets import may_be_unanswerable, question_set
from helpers.files import fingerprint
from helpers.models.onnx import OnnxModel, exported_folder
from helpers.models.pretrained import load_saved, load_tokenizer, longest_input
from helpers.presets.schema import AnswerSettings, DataSettings, Preset
from helpers.tasks import decoding
from helpers.tasks.decoding import Prediction
from helpers.tasks.logits import Logits
from helpers.tasks.spans import answers, joint_answers, predict, windows_over
from helpers.training import engine
from helpers.training.cached import Cached, CachedTraining
from helpers.training.loop import training_device

LONGEST = 384  # tokens of a window, where neither model nor its configuration says fewer


class Answering(Cached):
    """What one reader, or several together, answers to sets of questions. Apart from the trainings, so that other
    questions train nothing."""

    readers: list[str]  # keys
    together: bool  # answers are decoded from the mean of the readers' distributions, not from logits
    questions: dict[str, str]  # set -> fingerprint
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict[str, list[str]]:
        """The answer's text to each question of each set."""
        sets = {name: question_set(self.preset.data, name) for name in self.questions}
        asked = {name: self._asked(name, examples) for name, examples in sets.items()}
        distinct = {key: e for name, examples in sets.items() for key, e in zip(asked[name], examples, strict=True)}
        windows, models = windows_over(self.preset, list(distinct.values())), map(self.load, self.readers)
        no_answer = np.array([allowed for *_, allowed in distinct])
        if self.together:
            predictions = joint_answers(self.preset, models, windows, no_answer)
        else:
            predictions = answers(self.preset, *models, windows, no_answer)
        texts = {key: prediction.text for key, prediction in zip(distinct, predictions, strict=True)}
        return {name: [texts[key] for key in keys] for name, keys in asked.items()}

    def builds_on(self) -> list[str]:
        """The keys of its readers."""
        return self.readers

    def windows_read(self) -> int:
        """Those of all questions, once a reader."""
        return sum(_number_of_windows(self.preset, name) for name in self.questions) * len(self.readers)

    def _asked(self, name: str, examples: list[Example]) -> list[tuple[str, str, bool]]:
        """What an answer depends on: the question, its passage, and whether there may be none."""
        allowed = may_be_unanswerable(self.preset.data, name)
        return [(e.question, e.context, may) for e, may in zip(examples, allowed, strict=True)]


Texts = dict[str, list[str]]  # by set, the answer to each of its questions


def answering(preset: Preset, readers: list[CachedTraining], sets: list[str], *, together: bool = False) -> Answering:
    """The task of asking readers sets of questions, by the names that ``question_set`` knows."""
    return Answering(
        preset=preset,
        label=f"answers of {', '.join(reader.label for reader in readers)}",
        readers=[reader.key for reader in readers],
        together=together,
        questions={name: questions_fingerprint(preset.data, name) for name in sets},
    )


def ask(preset: Preset, asked: dict[Hashable, Answering], after: engine.After | None = None) -> dict[Hashable, Texts]:
    """What is answered, under the same names; asked once, and kept. ``after`` as in `engine.run`."""
    engine.run(asked.values(), preset.engine, "answers", after)
    return {name: task.result() for name, task in asked.items()}


@cache
def questions_fingerprint(data: DataSettings, name: str) -> str:
    """Stands for what a set of questions asks, and not for what counts as right."""
    asked = [repr((e.id, e.question, e.context)) for e in question_set(data, name)]
    allowed = may_be_unanswerable(data, name)
    return fingerprint(*asked, *([allowed] if any(allowed) else []))


@cache
def _number_of_windows(preset: Preset, name: str) -> int:
    return len(windows_over(preset, question_set(preset.data, name)))


class Reader:
    """A trained reader, ready to be asked; `load_reader` makes one.

    It reads windows of the length and stride that it was trained with, in the precision of its training (float32 where
    nothing says so), and answers are as long at most as they were then, where its configuration says so. The empty
    answer takes part (``no_answer``) where it was trained on questions without an answer, unless one says otherwise,
    and wins where its score is higher by more than the configuration's ``null_threshold`` (0 without).
    """

    def __init__(self, model: nn.Module, tokenizer: PreTrainedTokenizerFast):
        self.model, self.tokenizer = model, tokenizer
        known, longest = model.config, int(min(LONGEST, longest_input(model)))
        self.windows = getattr(known, "windows", None) or {"max_length": longest, "stride": longest // 3}
        self.answers = AnswerSettings(**getattr(known, "answers", {}))
        self.unanswerable = bool(getattr(known, "unanswerable", False))
        self.null_threshold = float(getattr(known, "null_threshold", 0.0))
        self.precision = getattr(known, "precision", "fp32")

    def answer(
        self, question: str | Sequence[str], passage: str | Sequence[str], *, no_answer: bool | None = None
    ) -> Prediction | list[Prediction]:
        """The best span of a passage, or a list of them where questions or passages are lists: one passage may stand
        for all questions, and one question for all passages.

        A `Prediction` has the answer's ``text``, its ``span`` (half-open, in characters of the passage; None where the
        text is ""), its ``probability`` among the ``n_best`` spans, and these, best first, with text, span, score and
        probability each. Raises DataError for an empty question or passage and for lists of different lengths.
        """
        several = [texts for texts in (question, passage) if not isinstance(texts, str)]
        number = len(several[0]) if several else 1
        questions, passages = ([t] * number if isinstance(t, str) else list(t) for t in (question, passage))
        if len(questions) != len(passages):
            raise DataError(f"{len(questions)} questions for {len(passages)} passages; give one each, or one for all")
        pairs = enumerate(zip(questions, passages, strict=True), 1)
        examples = [Example(f"question {n}", asked, text, (), None, f"question {n}") for n, (asked, text) in pairs]
        for example in examples:
            if not example.question.strip() or not example.context.strip():
                raise DataError(f"{example.id}: question and passage must not be empty")
        found = self.answer_all(examples, no_answer=no_answer)
        return found if several else found[0]

    def answer_all(self, examples: list[Example], *, no_answer: bool | None = None) -> list[Prediction]:
        """The answer to each question, in their order."""
        if not examples:
            return []
        return decoding.decode(
            *self.read(examples),
            n_best=self.answers.n_best,
            max_answer_tokens=self.answers.max_tokens,
            no_answer=self.unanswerable if no_answer is None else no_answer,
            null_threshold=self.null_threshold,
        )

    def read(self, examples: list[Example], precision: str = "") -> tuple[Windows, Logits]:
        """The windows that the reader cuts questions and passages into, and its logits of their tokens, in its own
        precision unless another one is asked for."""
        windows = make_windows(examples, self.tokenizer, **self.windows)
        return windows, predict(self.model, windows, precision=precision or self.precision)


def load_reader(model: Path | str) -> Reader:
    """The reader in a folder in Hugging Face format, or of a name on the Hub; from a folder that holds it as ONNX
    onnxruntime computes its logits, on the CPU. Raises EncoderError where it cannot be loaded or is no trained reader,
    OnnxError where onnxruntime is missing. transformers 5 has no pipeline for questions about passages."""
    folder = exported_folder(model)
    known = OnnxModel(folder) if folder else load_saved(model).to(training_device())
    return Reader(known, load_tokenizer(str(model)))
