"""HRKD on somebody's own domains: what is trained, what it is worth beside a student alone, and how fast that goes."""

from dataclasses import replace
from functools import partial

import numpy as np
from torch import nn

from helpers.batches.plans import Batches
from helpers.data.texts import label_names
from helpers.models.heads import last_layer, save_head
from helpers.papers.card import OwnModel
from helpers.papers.hrkd import algorithm, tables
from helpers.papers.hrkd.algorithm import ALONE, HRKD, OURS
from helpers.papers.hrkd.trainings import TeacherTraining, teacher_loss
from helpers.papers.rows import Trained
from helpers.paths import public_name
from helpers.presets.schema import Preset
from helpers.results.records import Claim
from helpers.tasks import labels
from helpers.tasks.classifiers import ClassifierTraining, labelling
from helpers.tasks.pace import STEPS, Speed, Speeds, measured
from helpers.training.cached import Cached
from helpers.training.engine import After, Plan, replay, run_plans
from helpers.training.loop import Loss, fit

ROWS = {HRKD: "teacher", ALONE: "student alone", OURS: "student"}
SECTION = "reviews"  # of the preset
ALL = "all"  # the folder of a classifier of all domains
TEXTS = 32  # that the reading is measured on


def folders(preset: Preset) -> dict[str, list[str]]:
    """A classifier a domain, or one for all."""
    names = list(preset.reviews.domains)
    return {ALL: names} if preset.hrkd.one_head else {name: [name] for name in names}


def plans(preset: Preset) -> dict[int, Plan]:
    """What is trained, by seed."""
    return {seed: algorithm.compared(preset.drawn(seed), SECTION, seed, tuple(ROWS)) for seed in range(preset.seeds)}


def tasks(preset: Preset) -> list[Cached]:
    """All that `train` trains and asks."""
    done = [replay(plan, lambda task: True) for plan in plans(preset).values()]
    trainings = [training for outcome in done for training in outcome.tasks]
    return [*trainings, *map(labelling, trainings)]


def train(preset: Preset, after: After | None = None) -> tuple[dict, dict[str, OwnModel]]:
    """Teacher, student alone and student as parts of a record, and of each folder the student that is best on its
    domains' validation texts, of all seeds."""
    trained = Trained.done(preset, run_plans(plans(preset), preset.engine, after=after))
    models = {}
    for folder, names in folders(preset).items():
        students = {seed: of_domains[names[0]] for seed, of_domains in trained.rows[OURS].items()}
        best = max(students, key=lambda seed: accuracy(students[seed], names))
        head = "" if preset.hrkd.one_head else folder
        history = (
            "that learned from the layers and labels of a larger teacher, over all domains together, each weighted by "
            "what they have to do with each other (hierarchical relational knowledge distillation, Dong et al. 2021)"
        )
        models[folder] = OwnModel(partial(save_head, students[best].folder(), head), best, history)
    beats = Claim(text="the student is better than the student alone", above=OURS, below=ALONE)
    return {
        **tables.scores(trained, SECTION, after=after),
        "baselines": [ALONE],
        "claims": [beats],
        "notes": tables.notes(preset, SECTION),
        "training_seconds": trained.seconds,
    }, models


def accuracy(training: ClassifierTraining, domains: list[str]) -> float:
    """A trained model's mean accuracy on the validation texts of some of its domains."""
    _, _, found = max(training.result()["validation"], key=lambda evaluation: evaluation[1])
    return float(np.mean([found["domains"][name] for name in domains]))


def speeds(preset: Preset) -> Speeds:
    """Steps are a teacher's, a student's with its teacher beside it, and those of the student alone, which are the
    same but for the teacher's reading. Raises EncoderError, also where a domain's head could not be saved."""
    names = list(preset.reviews.domains)
    teachers = [
        algorithm.by_labels(preset.drawn(seed), SECTION, seed, HRKD, names)[names[0]] for seed in range(preset.seeds)
    ]
    student = algorithm.together(preset, SECTION, 0, OURS, {name: teachers[0] for name in names}, {})
    texts = student.sequences("valid")
    texts = texts.select(np.arange(min(TEXTS, len(texts))))

    def speed(classifier: nn.Module, learner: nn.Module, batches: Batches, loss: Loss) -> Speed:
        def steps(number: int) -> float:
            few = replace(batches, plan=batches.plan[:number])
            return fit(learner, few, loss, preset.training, seed=0, label="measuring").seconds

        return measured(steps, lambda: labels.predict(classifier, texts, preset.training.precision), len(texts))

    model = teachers[0].initial()
    batches = teachers[0].model_copy(update={"steps": STEPS}).batches()
    of_teacher = speed(model, model, batches, teacher_loss(student.classes, len(names), 0.0))
    learner, batches, loss = student.model_copy(update={"steps": STEPS}).lesson(model)
    last_layer(learner.student)
    of_student = speed(learner.student, learner, batches, loss)
    reading = of_teacher.window * len(names) * preset.training.batch_size
    alone, keys = of_student._replace(step=max(0.0, of_student.step - reading)), {task.key for task in teachers}

    def of(task: Cached) -> Speed:
        if isinstance(task, TeacherTraining) and task.encoder == "student":
            return alone
        return of_teacher if getattr(task, "training", task.key) in keys else of_student

    return of


def facts(preset: Preset, domains: list[str]) -> dict[str, object]:
    """What a classifier says, what it begins as, and how long it was trained, for its card."""
    known, names = preset.hrkd, list(preset.reviews.domains)
    steps = partial(algorithm.steps_of, preset, SECTION, names, "together")
    return {
        "labels": ", ".join(label_names(preset.reviews)),
        "start": public_name(known.student) or f"{known.student_layers} layers of {public_name(preset.encoder)}",
        "teacher_steps": steps(preset.training.epochs),
        "student_steps": steps(known.epochs),
    }
