"""The trainings of an ensemble and of its students (Hu et al. 2018, section 3.4)."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Literal

from torch import Tensor, nn

from helpers import extractive_qa
from helpers.batches import Batches
from helpers.loop import Batch
from helpers.models.attention import attention_layers, keep_attention
from helpers.models.encoders import load_saved, load_tokenizer, vocabulary_fingerprint
from helpers.papers.a2d.ensemble import EnsembleOutputs, add_outputs
from helpers.papers.a2d.losses import joint_loss, smoothed_likelihood, weigh_terms
from helpers.papers.a2d.mnemonic import glove_digest, make_reader
from helpers.papers.shared import Models
from helpers.presets.schema import Preset

Kind = Literal["RMR", "BERT"]  # the paper's reader, and one that is not in the paper


@dataclass(frozen=True, kw_only=True, eq=False)
class Reader(extractive_qa.Reader):
    """The training of RMR or of a BERT reader: a member of an ensemble, or a student of one by some ``terms`` of Eq. 1.

    It has ``times`` the preset's steps. A second stage starts from its first stage, ``start``, and continues its order
    of questions: for the remaining steps, or with ``anew`` for all. ``smoothing`` is of labels (`smoothed_likelihood`).
    Instead of one ``ensemble``, each domain may have a teacher of its own, ``by_domain`` in the order of ``domains``.
    """

    kind: Kind
    ensemble: EnsembleOutputs | None = None
    by_domain: tuple[EnsembleOutputs, ...] = ()
    terms: dict[str, float] = field(default_factory=lambda: {"CE": 1.0})
    times: float = 1.0
    anew: bool = False
    smoothing: float = 0.0

    def settings(self) -> dict:
        if self.kind == "BERT":
            return super().settings()
        rmr, encoder = self.preset.mnemonic, vocabulary_fingerprint(self.preset.encoder)
        return super().settings() | {"encoder": encoder, "mnemonic": rmr.model() | {"glove": glove_digest(rmr.glove)}}

    def steps(self) -> int:
        number = max(1, round(self.times * super().steps()))
        return number if self.anew or not self.start else number - self.start.steps()

    def initial(self) -> nn.Module:
        if self.kind == "RMR" and not self.start:
            return make_reader(load_tokenizer(self.preset.encoder), self.seed, **self.preset.mnemonic.model())
        model = super().initial() if self.kind == "BERT" else load_saved(self.start.saved())
        if self.kind == "BERT":
            attention_layers(model)  # an ensemble without is of no use, so say so before it is trained
        return keep_attention(model) if "ATT" in self.terms else model

    def batches(self) -> Batches:
        before = self.start.steps() if self.start else 0
        batches = extractive_qa.training_batches(self.preset, self.domains, before + self.steps(), self.seed)
        del batches.plan[:before]
        if outputs := self.by_domain or ((self.ensemble,) if self.ensemble else ()):
            add_outputs(batches, outputs)
        return batches

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        if self.smoothing:
            return {"CE": smoothed_likelihood(output, batch, self.smoothing)}
        return joint_loss(output, batch, self.terms, self.preset.a2d.temperature)


ALL = "all domains"
STAGED, STAGED_WHOLE = "- Joint Training", "- Joint Training, full second stage"  # match the attention first
# The rows of Table 5, each with the term of Eq. 1 that it leaves out; the last is not in the paper.
ABLATIONS = {"A2D": "", "- Vanilla KD": "KD", "- ATT": "ATT", "- ANS": "ANS", STAGED: "ATT", STAGED_WHOLE: "ATT"}
SMOOTHING = 0.1


def name_reader(preset: Preset, kind: Kind, seed: int, label: str, **parts) -> Reader:
    """Name the training of a reader on all domains, selected on them."""
    if kind == "RMR":  # has settings of its own
        preset = preset.changed("training", **preset.mnemonic.training()).model_copy(update={"random_layers": 0})
    names = tuple(sorted(preset.data.domains))
    parts = {"domains": names, "selected_by": names, **parts}
    return Reader(preset=preset, label=f"{label}, seed {seed}", kind=kind, seed=seed, **parts)


def name_students(preset: Preset, kind: Kind, seed: int, rows: Iterable[str] = ("A2D",)) -> dict[str, Reader]:
    """Name the trainings of section 3.4 for one seed. Returns a student by row, for each of some `ABLATIONS`."""
    preset, numbers = preset.drawn(seed), range(1, preset.a2d.members + 1)
    members = tuple(name_reader(preset, kind, seed + 100 * n, f"{kind}, member {n}") for n in numbers)  # step 1
    settings = {"temperature": preset.a2d.temperature, "top_k": preset.a2d.top_k}  # steps 2 and 3
    label = f"{kind}, outputs of the members, seed {seed}"
    ensemble = EnsembleOutputs(preset=preset, label=label, members=members, **settings)
    train = partial(name_reader, preset, kind, seed, ensemble=ensemble)  # step 4
    alone = {"terms": {"ATT": preset.a2d.attention_weight or 1.0}, "stages": 2, "selected_by": ()}
    first = train(f"{kind}, {STAGED}, first stage", **alone)
    staged = {STAGED: {"start": first}, STAGED_WHOLE: {"start": first, "anew": True}}
    students = {}
    for row in rows:
        label = f"{kind} + A2D" if row == "A2D" else f"{kind}, {row}"
        student = train(label, terms=weigh_terms(preset, ABLATIONS[row]), **staged.get(row, {}))
        students[label.removeprefix("RMR, ")] = student  # the paper's rows of Table 5 bear no reader's name
    return students


def name_controls(preset: Preset, kind: Kind) -> Models:
    """Name readers that tell distillation from a stronger signal and from longer training, by line and ``times``.

    They are the first member, A2D, the same with that member as its only teacher, and a reader with smoothed labels.
    All but the first share the student's initial weights and order.
    """
    models = Models(preset)
    for seed in range(preset.seeds):
        (student,) = name_students(preset, kind, seed).values()
        first = student.ensemble.members[0]
        lines = {
            kind: first,
            f"{kind} + A2D": student,
            f"{kind} + one teacher": replace(student, ensemble=replace(student.ensemble, members=(first,))),
            f"{kind}, smoothed labels": replace(first, seed=seed, smoothing=SMOOTHING),
        }
        for (line, one), times in product(lines.items(), sorted(preset.a2d.lengths)):
            label = f"{line}, {times:g} times the steps, seed {seed}"
            models.add((line, times), seed, {ALL: replace(one, label=label, times=times)})
    return models


def list_kinds(preset: Preset) -> list[Kind]:
    """List the kinds of readers: RMR, and BERT as a control unless ``other_seeds`` is 0; BERT without RMR."""
    if not preset.a2d.rmr:
        return ["BERT"]
    return ["RMR", "BERT"] if preset.other_seeds else ["RMR"]


def list_ablations(preset: Preset) -> list[str]:
    """List the rows of Table 5, without the control where ``other_seeds`` is 0."""
    return [row for row in ABLATIONS if row != STAGED_WHOLE or preset.other_seeds]


def name_rows(preset: Preset, kinds: Iterable[Kind], rows: Iterable[str] = ("A2D",), each: int = 1) -> Models:
    """Name the readers of a table's rows with every seed: each member by itself, the ensemble, and students.

    A row has ``each`` students of an ensemble, which differ in first weights and in the order of questions.
    """
    models = Models(preset)
    for kind, seed in product(kinds, range(preset.seeds)):
        students = name_students(preset, kind, seed, rows)
        members = students[f"{kind} + A2D"].ensemble.members
        models.add(kind, seed, {member.label: member for member in members})
        models.add(f"{kind} (E)", seed, {ALL: members})
        for row, first in students.items():
            others = {f"{row}, student {n}, seed {seed}": seed + 100 * (len(members) + n) for n in range(2, each + 1)}
            of_row = {label: replace(first, label=label, seed=number) for label, number in others.items()}
            models.add(row, seed, {ALL: first, **of_row})
    return models


def name_pair(preset: Preset) -> dict[str, Reader]:
    """Name the two readers of Figure 3: the first seed's first member, and the student."""
    kind, *_ = list_kinds(preset)
    (student,) = name_students(preset, kind, 0).values()
    return {"before": student.ensemble.members[0], "after": student}
