"""One example on its way through a loss: what its teacher says of it, and its student before and after training."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd
import torch
from pandas.io.formats.style import Styler
from torch import Tensor, nn

from helpers.batches.plans import Batches, gather
from helpers.batches.sequences import Windows
from helpers.data.examples import Example, Pair
from helpers.data.texts import label_names, load_texts
from helpers.tasks import labels
from helpers.tasks.classifiers import ClassifierTraining
from helpers.training.cached import CachedTraining
from helpers.training.loop import Batch, forward, training_device
from helpers.training.losses import log_probabilities, soft_label_cross_entropy

TEACHER, BEFORE, AFTER = "teacher", "student before", "student after"
SIDES = {"start": "first token", "end": "last token"}
AROUND = 200  # characters of a passage that are shown on either side of the answer


@torch.inference_mode()
def of_question(
    student: CachedTraining,
    windows: Windows,
    row: int,
    batches: Batches,
    terms: Callable[[object, Batch], dict[str, Tensor]],
    *,
    answers: Mapping[str, str],
    logits: bool = False,
    temperature: float = 1.0,
    prepare: Callable[[nn.Module], nn.Module] = lambda model: model,
) -> Styler:
    """The window ``row`` of those that a student trains on, as the ``batches`` of its training have it: probabilities
    of the first and last token of ``answers``, softened by ``temperature``, and the ``terms`` of the student's loss.

    ``answers`` give the prefix of their positions in a batch by their names. What a teacher says are ``logits``, or
    probabilities that are softened already. Models are asked as ``prepare`` makes them.
    """
    batch, precision = gather(batches.tensors, np.array([row]), batches.teachers), student.preset.training.precision
    models = {BEFORE: student.initial().to(training_device()).eval(), AFTER: student.load(student.key)}
    outputs = {name: forward(prepare(model), batch, precision) for name, model in models.items()}
    said = {name: [getattr(output, f"{side}_logits") for side in SIDES] for name, output in outputs.items()}
    said = {name: [_softmax(side / temperature, batch) for side in sides] for name, sides in said.items()}
    teacher = [batch[f"teacher_{side}"] for side in SIDES]
    said = {TEACHER: [_softmax(side / temperature, batch) for side in teacher] if logits else teacher, **said}
    table = {
        name: {
            f"{answer}, {called}": float(of_side[0, batch[prefix + side]])
            for answer, prefix in answers.items()
            for of_side, (side, called) in zip(sides, SIDES.items(), strict=True)
        }
        for name, sides in said.items()
    }
    for name, output in outputs.items():
        table[name] |= {term: float(value) for term, value in terms(output, batch).items()}
    example = windows.examples[windows.example_W[row]]
    facts = {"question": example.question, "answer": " / ".join(example.answers), "passage": _passage(example)}
    return captioned(pd.DataFrame.from_dict(table, orient="index"), facts)


def _softmax(logits_BxL: Tensor, batch: Batch) -> Tensor:
    return log_probabilities(logits_BxL, batch["attention_mask"]).exp()


def of_text(
    student: ClassifierTraining, teacher: str, domain: str, number: int = 0, temperature: float = 1.0
) -> Styler:
    """The ``number``-th training text of a domain: `compared` for the ``teacher`` (a key) and for its student as its
    training began and as it ended, softened by ``temperature``."""
    sequences = labels.sequences_of(student.texts, student.preset.encoder, domain, "train").select(np.array([number]))
    models = {
        TEACHER: student.load(teacher, "labels"),
        BEFORE: student.initial().to(training_device()).eval(),
        AFTER: student.load(student.key, "labels"),
    }
    said = {}
    for name, model in models.items():
        powers = labels.predict(model, sequences, student.preset.training.precision, student.classes)[0]
        powers **= 1 / temperature
        said[name] = powers / powers.sum()
    return compared(label_names(student.texts), load_texts(student.texts)[domain].train[number], said)


def compared(classes: Sequence[str], text: Pair, said: Mapping[str, np.ndarray]) -> Styler:
    """Probabilities of the classes (C each) that the teacher, the first of ``said``, and others give to a text, and the
    cross-entropies of the others with the teacher and with the label, if it has one."""
    teacher, table = next(iter(said)), {}
    targets = {"the teacher": torch.as_tensor(said[teacher])}
    if text.label is not None:
        targets["the label"] = torch.eye(len(classes))[text.label]
    for name, probabilities in said.items():
        table[name] = dict(zip(classes, map(float, probabilities), strict=True))
        logs = torch.as_tensor(probabilities).clamp_min(torch.finfo(torch.float32).tiny).log()[None]
        for target, wanted in targets.items() if name != teacher else ():
            table[name][f"cross-entropy with {target}"] = float(soft_label_cross_entropy(logs, wanted[None]))
    label = "" if text.label is None else classes[text.label]
    facts = {"text": text.first, "second text": text.second or "", "label": label}
    return captioned(pd.DataFrame.from_dict(table, orient="index"), facts)


def captioned(table: pd.DataFrame, facts: Mapping[str, str]) -> Styler:
    """A table of an example below the ``facts`` that are not empty."""
    lines = "<br>".join(f"<b>{name}</b>: {escape(fact)}" for name, fact in facts.items() if fact)
    return table.style.format("{:.3g}", na_rep="").set_caption(f'<div style="text-align: left">{lines}</div>')


def _passage(example: Example) -> str:
    """The passage around the answer."""
    first, last = example.span or (0, 0)
    begin, end = max(0, first - AROUND), last + AROUND
    dots = ["… " if begin else "", " …" if end < len(example.context) else ""]
    return dots[0] + example.context[begin:end] + dots[1]
