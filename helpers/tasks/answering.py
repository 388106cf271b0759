"""What trained readers answer: to sets of questions, once and for all, or to one question."""

from collections.abc import Hashable
from functools import cache

import exca
import numpy as np

from helpers.batches.sequences import make_windows
from helpers.data.examples import DataError, Example
from helpers.data.sets import may_be_unanswerable, question_set
from helpers.files import fingerprint
from helpers.models.pretrained import load_saved, load_tokenizer, longest_input
from helpers.presets.schema import AnswerSettings, DataSettings, Preset
from helpers.tasks import decoding
from helpers.tasks.decoding import Prediction
from helpers.tasks.spans import answers, joint_answers, predict, windows_over
from helpers.training import engine
from helpers.training.cached import Cached, CachedTraining


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


def answer(model: str, question: str, passage: str, *, no_answer: bool | None = None) -> Prediction:
    """The best span of ``passage`` with its probability among the 20 best; transformers 5 has no pipeline for this.
    Otherwise as `answer_all`; raises DataError for an empty question or passage too."""
    if not question.strip() or not passage.strip():
        raise DataError("question and passage must not be empty")
    example = Example("question", question, passage, (), None, "question")
    return answer_all(model, [example], no_answer=no_answer)[0]


def answer_all(model: str, examples: list[Example], *, no_answer: bool | None = None) -> list[Prediction]:
    """A reader's answer to each question.

    ``model`` is a folder in Hugging Face format or a name on the Hub. It reads windows of the length and stride that
    it was trained with, and answers are as long at most as they were then, where its configuration says so. With
    ``no_answer`` the empty answer takes part; by default where it was trained on questions without an answer. Raises
    EncoderError for a model that cannot be loaded.
    """
    reader = load_saved(model)
    longest = min(384, longest_input(reader))
    settings = getattr(reader.config, "windows", None) or {"max_length": longest, "stride": longest // 3}
    if no_answer is None:
        no_answer = getattr(reader.config, "unanswerable", False)
    decoded = AnswerSettings(**getattr(reader.config, "answers", {}))
    windows = make_windows(examples, load_tokenizer(model), **settings)
    logits = predict(reader, windows, precision="fp32")
    n_best, longest = decoded.n_best, decoded.max_tokens
    return decoding.decode(windows, logits, n_best=n_best, max_answer_tokens=longest, no_answer=no_answer)
