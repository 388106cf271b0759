"""What trained readers answer: to sets of questions, once and for all, or to one question."""

from collections.abc import Hashable
from functools import cache

import exca

from helpers.batches.sequences import make_windows
from helpers.data.examples import DataError, Example
from helpers.data.sets import question_set
from helpers.files import fingerprint
from helpers.models.pretrained import load_saved, load_tokenizer, longest_input
from helpers.presets.schema import DataSettings, Preset
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
        distinct = {(e.question, e.context): e for examples in sets.values() for e in examples}
        windows, models = windows_over(self.preset, list(distinct.values())), map(self.load, self.readers)
        if self.together:
            predictions = joint_answers(self.preset, models, windows)
        else:
            predictions = answers(self.preset, *models, windows)
        texts = {asked: prediction.text for asked, prediction in zip(distinct, predictions, strict=True)}
        return {name: [texts[e.question, e.context] for e in examples] for name, examples in sets.items()}


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


def ask(preset: Preset, asked: dict[Hashable, Answering]) -> dict[Hashable, Texts]:
    """What is answered, under the same names; asked once, and kept."""
    engine.run(asked.values(), preset.engine, "answers")
    return {name: task.result() for name, task in asked.items()}


@cache
def questions_fingerprint(data: DataSettings, name: str) -> str:
    """Stands for what a set of questions asks, and not for what counts as right."""
    return fingerprint(*(repr((e.id, e.question, e.context)) for e in question_set(data, name)))


def answer(model: str, question: str, passage: str, *, no_answer: bool = False) -> Prediction:
    """The best span of ``passage`` with its probability among the 20 best; transformers 5 has no pipeline for this.

    ``model`` is a folder in Hugging Face format or a name on the Hub. With ``no_answer`` the empty answer takes
    part. Raises EncoderError for a model that cannot be loaded, DataError for an empty question or passage.
    """
    if not question.strip() or not passage.strip():
        raise DataError("question and passage must not be empty")
    tokenizer = load_tokenizer(model)
    reader = load_saved(model)
    longest = min(384, longest_input(reader))
    example = Example("question", question, passage, (), None, "question")
    windows = make_windows([example], tokenizer, max_length=longest, stride=longest // 3)
    return decoding.decode(windows, predict(reader, windows, precision="fp32"), no_answer=no_answer)[0]
