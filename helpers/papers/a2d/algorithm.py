"""The trainings of an ensemble and of its students (Hu et al. 2018, section 3.4)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Literal

from torch import nn

from helpers import extractive_qa
from helpers.extractive_qa import Questions, likelihood
from helpers.models.attention import attention_layers
from helpers.models.encoders import load_saved, load_tokenizer, vocabulary_fingerprint
from helpers.papers.a2d.ensemble import EnsembleTargets, collect_targets
from helpers.papers.a2d.losses import joint_loss, smoothed_loss, weigh_terms
from helpers.papers.a2d.mnemonic import glove_digest, make_reader
from helpers.papers.shared import Models
from helpers.presets.schema import Preset
from helpers.training import Model, Outputs, Training

Kind = Literal["RMR", "BERT"]  # the paper's reader, and one that is not in the paper


@dataclass(frozen=True)
class MnemonicReader(Model):
    """The reader RMR, which starts from nothing in every training."""

    def settings(self, preset: Preset) -> dict:
        rmr = preset.mnemonic
        facts = rmr.model() | {"glove": glove_digest(rmr.glove)}
        return {"vocabulary": vocabulary_fingerprint(preset.encoder), "mnemonic": facts}

    def build(self, training: Training) -> nn.Module:
        if training.start:
            return load_saved(training.start.saved())
        preset = training.preset
        return make_reader(load_tokenizer(preset.encoder), training.seed, **preset.mnemonic.model())


@dataclass(frozen=True)
class BertReader(extractive_qa.Reader):
    """A BERT reader whose attention an ensemble keeps. Raises EncoderError before training where it cannot be read."""

    def build(self, training: Training) -> nn.Module:
        model = super().build(training)
        attention_layers(model)
        return model


ALL_DOMAINS = "all domains"
STAGED, STAGED_WHOLE = "- Joint Training", "- Joint Training, full second stage"  # match the attention first
# The rows of Table 5, each with the term of Eq. 1 that it leaves out; the last is not in the paper.
ABLATIONS = {"A2D": "", "- Vanilla KD": "KD", "- ATT": "ATT", "- ANS": "ANS", STAGED: "ATT", STAGED_WHOLE: "ATT"}
SMOOTHING = 0.1


def mixed_reader_training(
    preset: Preset, kind: Kind, seed: int, label: str, terms: dict | None = None, **fields
) -> Training:
    """Return the training of a reader on all domains, selected on them: on labels, or by some ``terms`` of Eq. 1.

    ``fields`` are other fields of the training.
    """
    names = tuple(sorted(preset.data.domains))
    changes = preset.mnemonic.training() if kind == "RMR" else {}
    keeps_attention = "ATT" in (terms or {})
    parts = {"data": Questions(names, names), **fields}
    return Training(
        preset=preset,
        label=f"{label}, seed {seed}",
        seed=seed,
        model=MnemonicReader() if kind == "RMR" else BertReader(keeps_attention=keeps_attention),
        optim=preset.training.model_copy(update=changes),
        loss=partial(joint_loss, weights=terms, temperature=preset.a2d.temperature) if terms else likelihood,
        **parts,
    )


def kind_of(reader: Training) -> Kind:
    """Return the kind of a reader."""
    return "RMR" if isinstance(reader.model, MnemonicReader) else "BERT"


def ensemble_outputs(preset: Preset, label: str, members: tuple[Training, ...], domains: Iterable[str] = ()) -> Outputs:
    """Return the outputs of an ensemble on the training windows of some domains, or of those it was trained on."""
    names = domains or members[0].data.names
    settings = {"temperature": preset.a2d.temperature, "top_k": preset.a2d.top_k}
    return Outputs(
        preset=preset,
        label=label,
        models={f"train/{name}": members for name in names},
        compute=partial(collect_targets, **settings),
    )


def student_trainings(preset: Preset, kind: Kind, seed: int, rows: Iterable[str] = ("A2D",)) -> dict[str, Training]:
    """Return the trainings of section 3.4 with the preset of a seed: a student by row, for each of some `ABLATIONS`."""
    numbers = range(1, preset.a2d.members + 1)
    members = tuple(  # step 1
        mixed_reader_training(preset, kind, seed + 100 * n, f"{kind}, member {n}") for n in numbers
    )
    outputs = ensemble_outputs(preset, f"{kind}, outputs of the members, seed {seed}", members)  # steps 2 and 3
    train = partial(mixed_reader_training, preset, kind, seed, teacher=EnsembleTargets((outputs,)))  # step 4
    labels = {row: f"{kind} + A2D" if row == "A2D" else f"{kind}, {row}" for row in ABLATIONS}
    staged = begin_with_attention(train, kind, members[0].data.names, preset.a2d.attention_weight)
    return {
        row: train(labels[row], weigh_terms(preset, term), **staged.get(row, {}))
        for row, term in ABLATIONS.items()
        if row in rows
    }


def begin_with_attention(train: Callable[..., Training], kind: Kind, names: Sequence[str], weight: float) -> dict:
    """Return by row the fields of students without joint training: they start from one that matched attention alone."""
    first = train(f"{kind}, {STAGED}, first stage", {"ATT": weight or 1.0}, data=Questions(names, stages=2))
    return {
        STAGED: {"start": first, "data": Questions(names, names, after=first.data)},
        STAGED_WHOLE: {"start": first, "data": Questions(names, names, after=first.data, again=True)},
    }


def name_student(kind: Kind, row: str = "A2D") -> str:
    """Return what tables call a student; the paper's rows of Table 5 bear no reader's name."""
    if row == "A2D":
        return f"{kind} + A2D"
    return row if kind == "RMR" else f"{kind}, {row}"


def members_of(student: Training) -> tuple[Training, ...]:
    """Return the members of the ensemble that teaches a student."""
    outputs, *_ = student.teacher.outputs
    return next(iter(outputs.models.values()))


def collect_controls(preset: Preset, kind: Kind) -> Models:
    """Return readers that tell distillation from a stronger signal and from longer training, by line and ``times``.

    They are all members of the ensemble, each by itself (of longer trainings the first alone), A2D, the same with the
    first member as its only teacher, and a reader with smoothed labels. All but the members share the student's initial
    weights and order.
    """
    models = Models(preset)
    for seed in preset.seed_numbers:
        (student,) = student_trainings(preset.for_seed(seed), kind, seed).values()
        members = members_of(student)
        first = members[0]
        alone = ensemble_outputs(student.preset, f"outputs of {first.label}", (first,))
        lines = {
            kind: first,
            f"{kind} + A2D": student,
            f"{kind} + one teacher": replace(student, teacher=EnsembleTargets((alone,))),
            f"{kind}, smoothed labels": replace(first, seed=seed, loss=partial(smoothed_loss, smoothing=SMOOTHING)),
        }
        for (line, one), times in product(lines.items(), sorted(preset.a2d.lengths)):
            label, data = f"{line}, {times:g} times the steps, seed {seed}", replace(one.data, times=times)
            readers = {ALL_DOMAINS: replace(one, label=label, data=data)}
            if line == kind and times == 1:  # the other members are trained anyway
                readers = {member.label: member for member in members}
            models.add((line, times), seed, readers)
    return models


def vary_ensembles(preset: Preset, kind: Kind, key: str, values: Iterable[float]) -> Models:
    """Return students, and their ensembles, by line and value of a setting of ``a2d``, and readers by themselves.

    These are the members of the ensemble that the preset has. Ensembles are the same at every temperature.
    """
    models = Models(preset)
    for seed in preset.seed_numbers:
        drawn = preset.for_seed(seed)
        (student,) = student_trainings(drawn, kind, seed).values()
        models.add((kind, None), seed, {member.label: member for member in members_of(student)})
        for value in values:
            (student,) = student_trainings(drawn.changed("a2d", **{key: value}), kind, seed).values()
            ensemble = {ALL_DOMAINS: members_of(student)}
            models.add((f"{kind} (E)", value if key == "members" else None), seed, ensemble)
            of_value = replace(student, label=f"{student.label}, {key} {value:g}")
            models.add((f"{kind} + A2D", value), seed, {ALL_DOMAINS: of_value})
    return models


def list_kinds(preset: Preset) -> list[Kind]:
    """List the kinds of readers: RMR, and BERT where controls have seeds; BERT without RMR."""
    if not preset.a2d.rmr:
        return ["BERT"]
    return ["RMR", "BERT"] if preset.has_controls else ["RMR"]


def list_ablations(preset: Preset) -> list[str]:
    """List the rows of Table 5, without the control where ``control_seeds`` is 0."""
    return [row for row in ABLATIONS if row != STAGED_WHOLE or preset.control_seeds]


def collect_rows(preset: Preset, kinds: Sequence[Kind], rows: Iterable[str] = ("A2D",), each: int = 1) -> Models:
    """Return the readers of a table's rows with every seed: each member by itself, the ensemble, and students.

    Kinds after the first are controls, with at most ``control_seeds`` seeds. A row has ``each`` students of an
    ensemble, which differ in first weights and in the order of questions.
    """
    models = Models(preset)
    for kind, seed in product(kinds, preset.seed_numbers):
        if kind != kinds[0] and seed >= preset.control_seeds:
            continue
        students = student_trainings(preset.for_seed(seed), kind, seed, rows)
        members = members_of(students["A2D"])
        models.add(kind, seed, {member.label: member for member in members})
        models.add(f"{kind} (E)", seed, {ALL_DOMAINS: members})
        for part, first in students.items():
            row = name_student(kind, part)
            others = {f"{row}, student {n}, seed {seed}": seed + 100 * (len(members) + n) for n in range(2, each + 1)}
            of_row = {label: replace(first, label=label, seed=number) for label, number in others.items()}
            models.add(row, seed, {ALL_DOMAINS: first, **of_row})
    return models


def before_and_after(preset: Preset) -> dict[str, Training]:
    """Return the two readers of Figure 3: the first seed's first member, and the student."""
    kind, *_ = list_kinds(preset)
    (student,) = student_trainings(preset.for_seed(0), kind, 0).values()
    return {"before": members_of(student)[0], "after": student}
