"""Students of teachers from elsewhere, on questions with answers and without, beside those teachers."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from helpers.answering import load_reader
from helpers.batches import Batches, plan_steps, upsampled
from helpers.data.load import load, question_set
from helpers.data.unlabelled import fingerprint_unlabelled, load_unlabelled
from helpers.extractive_qa import Questions
from helpers.papers import shared
from helpers.papers.a2d.losses import joint_loss
from helpers.papers.imm import algorithm as imm_algorithm
from helpers.papers.measure import time_in_turns
from helpers.papers.shared import Models
from helpers.papers.your_domains.teachers import (
    StoredTeachers,
    TeacherAnswers,
    TeacherOutputs,
    answer_all,
    list_teachers,
    taught_windows,
)
from helpers.paths import public_name
from helpers.presets.schema import Preset, TrainingSettings
from helpers.records import Score
from helpers.sequences import Windows
from helpers.task import Plan
from helpers.training import Training

TEACHER, UNTAUGHT, TAUGHT, LONGER = "Teacher", "Mix", "Taught", "Mix, as many steps"
TIMED = 50  # questions that a reader is timed on
MILLISECONDS, SIZE = "ms per question", "million parameters"


@dataclass(frozen=True)
class PartlyLabelled(Questions):
    """The training questions of domains, and those of ``data.unlabelled``, which weigh 0 in the likelihood.

    A file of a domain's name adds to it, and another is one more domain. All domains are up-sampled to equal numbers.
    """

    def settings(self, preset: Preset) -> dict:
        names = load_unlabelled(preset.data).examples
        unlabelled = {name: fingerprint_unlabelled(preset.data, name) for name in names}
        return super().settings(preset) | {"unlabelled": unlabelled}

    def batches(self, preset: Preset, optim: TrainingSettings, seed: int) -> Batches:
        unlabelled = load_unlabelled(preset.data).examples
        parts = [(name, True, len(load(preset.data, name).train)) for name in self.names]
        parts += [(name, False, len(examples)) for name, examples in unlabelled.items()]
        windows = [taught_windows(preset, name, is_labelled) for name, is_labelled, _ in parts]
        weight_W = np.repeat(np.float32([is_labelled for _, is_labelled, _ in parts]), [len(each) for each in windows])
        domains = list(dict.fromkeys(name for name, *_ in parts))
        domain_of_example = np.repeat([domains.index(name) for name, *_ in parts], [size for *_, size in parts])
        joined = Windows.concatenate(windows).with_labels(weight=weight_W)
        epochs = upsampled(joined, domain_of_example, batch_size=optim.batch_size, seed=seed)
        counts = np.bincount(domain_of_example)
        windows_of_domain = np.bincount(domain_of_example[joined.example_W])
        steps = optim.epochs * (windows_of_domain * counts.max() / counts).sum() / optim.batch_size
        return Batches(joined, plan_steps(epochs, max(1, round(steps))))


def untaught_training(preset: Preset, seed: int) -> Training:
    """Return the training of Mix, the student without a teacher."""
    names = list(preset.data.domains)
    return imm_algorithm.reader_training(preset, seed, UNTAUGHT, names, names, stages=1)


def longer_training(preset: Preset, seed: int) -> Training:
    """Return Mix's training with about as many steps as the taught one, which has the unlabelled questions too."""
    mix = untaught_training(preset, seed)
    labelled = Counter({name: len(load(preset.data, name).train) for name in mix.data.names})
    every = labelled + Counter(
        {name: len(questions) for name, questions in load_unlabelled(preset.data).examples.items()}
    )
    # Domains are up-sampled to the largest.
    times = len(every) * max(every.values()) / (len(labelled) * max(labelled.values()))
    return replace(mix, label=f"{LONGER}, seed {seed}", data=replace(mix.data, times=times))


def taught_training(preset: Preset, seed: int) -> Training:
    """Return the training of Mix's student by the preset's teachers: on answers where there are some, and on theirs.

    The loss is A2D's without attention and confusing answers, at ``teacher_temperature``. ``preset`` is that of the
    seed.
    """
    # A higher temperature asks for larger logits, which few steps do not reach: in the miniature world validation F1 of
    # students at 1, 2, 4 and 8 is 76.2, 72.4, 65.5 and 68.1 after 112 steps (without a teacher 76.3), and 89.4, 91.6, -
    # and 84.1 after 225 (89.2).
    mix, tau, teachers = untaught_training(preset, seed), preset.teacher_temperature, list_teachers(preset)
    unlabelled = load_unlabelled(preset.data).examples
    outputs = [
        TeacherOutputs(
            preset=preset,
            label=f"outputs of the teacher on {'' if is_labelled else 'unlabelled '}{name}",
            teachers=teachers,
            domain=name,
            temperature=tau,
            is_labelled=is_labelled,
        )
        for is_labelled, names in ((True, mix.data.names), (False, unlabelled))
        for name in names
    ]
    return replace(
        mix,
        label=f"{TAUGHT}, seed {seed}",
        data=PartlyLabelled(**vars(mix.data)) if unlabelled else mix.data,
        loss=partial(joint_loss, weights={"CE": 1.0, "KD": tau**2}, temperature=tau),
        teacher=StoredTeachers(tuple(outputs)),
    )


def taught(preset: Preset, seed: int, models: Models) -> dict[str, Training]:
    """Return the taught reader of all domains."""
    return dict.fromkeys(preset.data.domains, taught_training(preset, seed))


def collect_students(models: Models) -> Models:
    """Return the student without the teacher and with it; with unlabelled questions also without, for as many steps.

    The taught one is among the trained ``models``, and the others start from the same encoder.
    """
    students = Models(models.preset)
    for seed in models.by_row[TAUGHT]:
        student = models.first(TAUGHT, seed)
        rows = {UNTAUGHT: untaught_training(student.preset, seed), TAUGHT: student}
        if models.preset.data.unlabelled:
            rows[LONGER] = longer_training(student.preset, seed)
        for row, training in rows.items():
            students.add(row, seed, dict.fromkeys(models.preset.data.domains, training))
    return students


def score_teacher(models: Models) -> Plan:
    """Make parts of a record: F1 and EM of the teachers and of the students, `collect_students`, on test questions.

    These have answers, if need be the teachers'.
    """
    preset = models.preset
    teachers, columns = list_teachers(preset), list(preset.data.domains)
    tasks = {
        seed: TeacherAnswers(
            preset=preset.for_seed(seed),
            label="answers of the teacher to test questions",
            teachers=teachers,
            sets=tuple(f"test/{name}" for name in columns),
        )
        for seed in preset.seed_numbers
    }
    yield [*teachers, *tasks.values()]
    answers = {
        (TEACHER, name, seed): (f"test/{name}", [task.result()["answers"][f"test/{name}"]])
        for seed, task in tasks.items()
        for name in columns
    }
    cells = {(row, name, seed): (members, f"test/{name}") for row, name, seed, members in models}
    answers |= yield from shared.answer_sets(preset, cells)
    rows = [row for row in models.by_row if row != TAUGHT]
    return {
        **shared.f1_and_em(shared.score_cells(preset, answers)),
        "baselines": [UNTAUGHT],
        "claims": [shared.state_better(TAUGHT, row, control=True) for row in rows],
        "notes": state_teaching(models),
        "settings": {"data": preset.data},
        "training_seconds": models.seconds,
    }


def state_teaching(models: Models) -> list[str]:
    """State the teachers, what became of their probability, and the questions without answers."""
    preset = models.preset
    training = models.first(TAUGHT)
    results = [outputs.result() for outputs in training.teacher.outputs]
    windows, cut = (sum(result[key] for result in results) for key in ("windows", "cut"))
    dropped = sum(result["dropped"] * result["windows"] for result in results) / windows
    names = ", ".join(public_name(teacher.name) for teacher in list_teachers(preset))
    notes = [
        f"teacher: {names}; student: {public_name(preset.encoder)}",
        f"{dropped:.2%} of the teacher's probability fell on no token of the student and was dropped",
        f"{cut:,} of {windows:,} windows have more tokens than the teacher reads, and lost their end",
    ]
    examples, more = load_unlabelled(training.preset.data)
    listed = ", ".join(f"{name} {len(questions):,}" for name, questions in examples.items())
    return [*notes, *[f"questions without answers: {listed}"] * bool(listed), *more]


def weigh(models: Models) -> list[Score]:
    """Return the scores of size and speed: million parameters, and ms per question with its passage, in turns.

    Every reader of the first seed answers the same questions, one batch of all of them.
    """
    seed, teachers = models.preset.engine.first_seed, list_teachers(models.preset)
    drawn = models.preset.for_seed(seed)
    questions = question_set(drawn.data, "test")
    questions = questions[:: math.ceil(len(questions) / TIMED)]
    readers = {TEACHER: [teacher.load() for teacher in teachers]}
    parameters = {TEACHER: sum(teacher.result()["parameters"] for teacher in teachers)}
    for row in models.by_row:
        training = models.first(row, seed)
        readers[row], parameters[row] = [load_reader(training.saved())], training.result()["parameters"]
    seconds = time_in_turns({row: partial(answer_all, each, questions) for row, each in readers.items()})
    values = {SIZE: {row: number / 1e6 for row, number in parameters.items()}}
    values[MILLISECONDS] = {row: 1000 * value / len(questions) for row, value in seconds.items()}
    return [
        Score(method=row, column=metric, seed=seed, value=value, metric=metric)
        for metric, by_row in values.items()
        for row, value in by_row.items()
    ]


def table(models: Models) -> Plan:
    """Make the record's parts: F1, EM, size and speed of teachers and students. Nothing without a teacher."""
    if not models.preset.teacher:
        return {}
    students = collect_students(models)
    parts = yield from score_teacher(students)
    return parts | {"scores": parts["scores"] + weigh(students), "notes": [*models.notes, *parts["notes"]]}
