"""Readers from elsewhere as teachers: what they say of a student's windows, and their own answers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from helpers import paths
from helpers.answering import TrainedReader, load_reader
from helpers.batches import Batches
from helpers.data.examples import PARTS, Example
from helpers.data.load import domains_of_set, fingerprint_examples, identify_set, load, question_set
from helpers.data.unlabelled import fingerprint_unlabelled, load_unlabelled
from helpers.errors import UserError
from helpers.extractive_qa import SIDES, Prediction, decode, distributions, finite_log, windows_of, windows_over
from helpers.files import write_whole
from helpers.loop import training_device
from helpers.models.encoders import encoder_fingerprint, load_tokenizer, longest_input, vocabulary_fingerprint
from helpers.papers.your_domains.projection import align_windows, cut_windows, project, question_ranges, retokenise
from helpers.presets.schema import DataSettings, Preset, WindowSettings
from helpers.sequences import Windows, make_windows
from helpers.task import Plan, Task
from helpers.training import StoredTeacher, Training, predict


@dataclass(frozen=True, kw_only=True, eq=False)
class Teacher(Task):
    """A trained reader, a folder or a name on the Hub. Its result has the number of its ``parameters``."""

    unhashed = (*Task.unhashed, "name")
    name: str

    def settings(self) -> dict:
        return {"reader": encoder_fingerprint(self.name)}

    def work(self) -> dict:
        """Load the reader, so that one that cannot be used is refused before anything is trained."""
        return {"parameters": sum(weight.numel() for weight in self.load().model.parameters())}

    def load(self) -> TrainedReader:
        """Load the reader. Raises EncoderError."""
        return load_reader(self.name)


Teachers = tuple[Teacher, ...]


def list_teachers(preset: Preset) -> Teachers:
    """List the teachers that the preset names. Raises UserError where it names none, or one twice."""
    names = [preset.teacher] if paths.find_folder(preset.teacher) else preset.teacher.split()
    if not names or len(set(names)) < len(names):
        raise UserError(f"teacher: expected different folders or names, found {preset.teacher!r}; correct them")
    return tuple(Teacher(preset=preset, label=f"teacher {paths.public_name(name)}", name=name) for name in names)


# --- what teachers say of a student's windows -------------------------------------------------------------------------


class Carried(NamedTuple):
    """A teacher's distributions on a student's windows, flat, by side.

    ``dropped`` is the share of its probability that fell on no token of the student, ``cut`` the number of windows that
    have more tokens than the teacher reads.
    """

    sides: dict[str, np.ndarray]
    dropped: float
    cut: int


def carry(reader: TrainedReader, windows: Windows, tokenizer: PreTrainedTokenizerFast, temperature=1.0) -> Carried:
    """Return a reader's softened distributions on windows of ``tokenizer``, whatever its own tokenizer.

    It reads the same stretches of the passages.
    """
    is_alike = reader.tokenizer.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    read = windows if is_alike else retokenise(windows, reader.tokenizer, WindowSettings(**reader.windows).max_question)
    longest = longest_input(reader.model.cpu(), int(read.lengths_W.max()))
    reader.model.to(training_device())
    if cut := int((read.lengths_W > longest).sum()):
        read = cut_windows(read, longest)
    values = distributions(read, predict(reader.model, read, reader.precision), temperature)
    questions = question_ranges(read, reader.tokenizer), question_ranges(windows, tokenizer)
    places = align_windows(read, windows, questions)
    pairs = [project(*pair, windows) for pair in zip(values, places, strict=True)]
    dropped = max(0.0, 1 - float(np.mean([mass_W for _, mass_W in pairs])))
    return Carried({side: flat for side, (flat, _) in zip(SIDES, pairs, strict=True)}, dropped, cut)


def taught_windows(preset: Preset, name: str, is_labelled: bool = True) -> Windows:
    """Cut the training questions of a domain into windows, or those of a file of ``data.unlabelled``."""
    return windows_of(preset, [name], "train") if is_labelled else _unlabelled_windows(preset, name)


@cache
def _unlabelled_windows(preset: Preset, name: str) -> Windows:
    return windows_over(preset, load_unlabelled(preset.data).examples[name])


@dataclass(frozen=True, kw_only=True, eq=False)
class TeacherOutputs(Task):
    """The teachers' mean distributions on the training windows of a domain, or of a file of ``data.unlabelled``.

    The tensors ``start`` and ``end`` are flat, float16. The result has the number of ``windows``, those ``cut``, and
    the share ``dropped``, a mean over teachers.
    """

    teachers: Teachers
    domain: str
    temperature: float
    is_labelled: bool = True

    def settings(self) -> dict:
        data = self.preset.data
        if self.is_labelled:
            examples = fingerprint_examples(data, self.domain, "train")
        else:
            examples = fingerprint_unlabelled(data, self.domain)
        vocabulary = vocabulary_fingerprint(self.preset.encoder)
        return {"examples": examples, "windows": self.preset.windows.model_dump(), "vocabulary": vocabulary}

    def work(self) -> dict:
        windows, tokenizer = self.windows(), load_tokenizer(self.preset.encoder)
        carried = [carry(teacher.load(), windows, tokenizer, self.temperature) for teacher in self.teachers]
        means = {side: np.mean([each.sides[side] for each in carried], axis=0) for side in SIDES}
        tensors = {side: torch.from_numpy(mean).half() for side, mean in means.items()}
        save_file(tensors, self.folder / "outputs.safetensors")
        dropped, cut = np.mean([each.dropped for each in carried]), max(each.cut for each in carried)
        return {"windows": len(windows), "dropped": float(dropped), "cut": cut}

    def windows(self) -> Windows:
        return taught_windows(self.preset, self.domain, self.is_labelled)

    def tensors(self) -> dict[str, Tensor]:
        """Read the stored tensors by name. Raises DamagedFile."""
        return load_file(self.file("outputs.safetensors"))


@dataclass(frozen=True)
class StoredTeachers:
    """The outputs that teach on all training windows, one after another (`helpers.training.Teacher`)."""

    outputs: tuple[TeacherOutputs, ...]

    def add_to(self, batches: Batches, training: Training) -> None:
        parts = [outputs.tensors() for outputs in self.outputs]
        of_tokens = {side: torch.cat([part[side] for part in parts]) for side in SIDES}
        batches.teachers.append(StoredTeacher(batches.sequences, of_tokens))


# --- the teachers' answers --------------------------------------------------------------------------------------------


def answer_all(
    readers: Sequence[TrainedReader], examples: list[Example], no_answer: bool | np.ndarray | None = None
) -> list[Prediction]:
    """Return the answers of a reader, or of several from the mean of their distributions on the first one's windows.

    The threshold of no answer is the mean of theirs.

    Without ``no_answer``, no answer is possible where the readers were trained for it.
    """
    first = readers[0]
    if len(readers) == 1:
        return first.answer_all(examples, no_answer=no_answer)
    windows = make_windows(examples, first.tokenizer, **first.windows)
    carried = [carry(reader, windows, first.tokenizer).sides for reader in readers]
    logits = finite_log(*(np.mean([sides[side] for sides in carried], axis=0) for side in SIDES))
    if no_answer is None:
        no_answer = all(reader.unanswerable for reader in readers)
    threshold = float(np.mean([reader.calibration["null_threshold"] for reader in readers]))
    return decode(windows, logits, no_answer=no_answer, null_threshold=threshold, **first.answers.model_dump())


@dataclass(frozen=True, kw_only=True, eq=False)
class TeacherAnswers(Task):
    """The teachers' answers to sets of questions. The result has the texts of the ``answers`` by set."""

    teachers: Teachers
    sets: tuple[str, ...]

    def settings(self) -> dict:
        return {"examples": {name: identify_set(self.preset, name) for name in self.sets}}

    def work(self) -> dict:
        readers, answers, data = [teacher.load() for teacher in self.teachers], {}, self.preset.data
        for name in self.sets:
            no_answer = np.array([*map(data.may_be_unanswerable, domains_of_set(data, name))])
            predictions = answer_all(readers, question_set(data, name), no_answer)
            answers[name] = [prediction.text for prediction in predictions]
        return {"answers": answers}


@dataclass(frozen=True, kw_only=True, eq=False)
class AnsweredFiles(Task):
    """Files of questions without answers, with those of teachers: a subfolder per domain, a file per part.

    The result tells whether a question is ``unanswerable`` to them.
    """

    teachers: Teachers

    def settings(self) -> dict:
        data = self.preset.data
        return {"examples": {name: fingerprint_examples(data, name) for name in data.domains}}

    @property
    def questions(self) -> Path:
        """The folder of the subfolders."""
        return self.folder / "questions"

    def work(self) -> dict:
        readers, unanswerable = [teacher.load() for teacher in self.teachers], False
        for name in self.preset.data.domains:
            for part in PARTS:
                examples = getattr(load(self.preset.data, name), part)
                predictions = answer_all(readers, examples)
                rows = [make_row(*pair) for pair in zip(examples, predictions, strict=True)]
                unanswerable |= any(not row["answers"] for row in rows)
                (self.questions / name).mkdir(parents=True, exist_ok=True)
                write_whole(self.questions / name / f"{part}.json", json.dumps(rows, indent=1) + "\n")
        return {"unanswerable": unanswerable}


def make_row(example: Example, prediction: Prediction) -> dict:
    """Make a row of a file from a question and the answer to it."""
    answers = [{"text": prediction.text, "answer_start": prediction.span[0]}] if prediction.span else []
    return {"id": example.id, "question": example.question, "context": example.context, "answers": answers}


def state_answers(preset: Preset) -> list[str]:
    """State where the answers are from if files have none."""
    text = "no question has an answer in its file: all answers, those of tests too, are the teacher's"
    return [] if preset.data.is_labelled else [f"{text}, so F1 is agreement with it"]


def answered_by_teachers(preset: Preset) -> Plan:
    """Return the preset whose questions have the teachers' answers; the preset itself where its files have answers."""
    if preset.data.is_labelled:
        return preset
    yield [task := AnsweredFiles(preset=preset, label="answers of the teacher", teachers=list_teachers(preset))]
    sizes = preset.data.model_dump(include={"seed", "draw", "train_size", "valid_size", "test_size"})
    places = {name: name for name in preset.data.domains}
    may = task.result()["unanswerable"]
    data = DataSettings(source="files", folder=str(task.questions), domains=places, unanswerable=may, **sizes)
    return preset.model_copy(update={"data": data})
