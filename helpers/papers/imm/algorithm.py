"""Algorithm 1, the methods that it is compared with, and its parts that can be left out (Liu et al. 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from helpers import extractive_qa
from helpers.batches import Batches
from helpers.engine import Plan
from helpers.extractive_qa import SIDES, TeacherLogits, windows_of
from helpers.loop import Batch
from helpers.papers import shared
from helpers.papers.imm.losses import DIVERGENCES
from helpers.papers.imm.similarity import nearest, similarities, tfidf_weights
from helpers.papers.shared import Models
from helpers.presets.papers import ImmSettings
from helpers.presets.schema import Preset
from helpers.teachers import StoredTeacher

Readers = dict[str, "Reader"]  # by domain


@dataclass(frozen=True, kw_only=True, eq=False)
class Reader(extractive_qa.Reader):
    """The training of a reader by Eqs. 4 to 11: on ``domains``, taught by a reader of each, weighted by s_ij.

    Without ``teachers`` it learns from the likelihood alone, without ``weights`` all domains count alike.
    """

    teachers: dict[str, TeacherLogits] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    matched: str = "gold"
    annealing: str = "linear"

    def batches(self) -> Batches:
        batches = super().batches()
        if self.weights:
            sizes = [len(windows_of(self.preset, [name], "train")) for name in self.domains]
            weights = np.repeat(np.float32([self.weights[name] for name in self.domains]), sizes)
            batches.sequences = batches.sequences.with_labels(weight=weights)
        if self.teachers:
            stored = [self.teachers[name].logits() for name in self.domains]
            logits = {side: torch.cat([outputs[side] for outputs in stored]) for side in SIDES}
            batches.teachers.append(StoredTeacher(batches.sequences, of_tokens=logits))
        return batches

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        """Compute L = lambda likelihood + (1 - lambda) divergence from the teacher (Eqs. 6, 11; means, Eqs. 7, 10)."""
        terms = extractive_qa.likelihood(output, batch)
        if not self.teachers:
            return terms
        lam = {"linear": progress, "half": (1 + progress) / 2, "constant": 0.5}[self.annealing]
        divergence_B = DIVERGENCES[self.matched](
            (output.start_logits, output.end_logits),
            (batch["teacher_start"], batch["teacher_end"]),
            (batch["start"], batch["end"]),
            batch["attention_mask"],
        )
        divergence = extractive_qa.weighted_mean(divergence_B, batch.get("weight"))
        return {"likelihood": lam * terms["likelihood"], "divergence": (1 - lam) * divergence}


def name_reader(
    preset: Preset, seed: int, label: str, domains: list[str], selected_by: Sequence[str] = (), stages: int = 2, **parts
) -> Reader:
    """Name the training of a reader. With ``imm.steps = "equal"`` all have the same steps, in two stages or in one."""
    parts |= {"seed": seed, "domains": tuple(domains), "selected_by": tuple(selected_by)}
    if preset.imm.steps == "equal":
        parts |= {"budget": tuple(preset.data.domains), "stages": stages}
    return Reader(preset=preset, label=f"{label}, seed {seed}", **parts)


def name_teachers(preset: Preset, teachers: Readers, switches: ImmSettings) -> dict:
    """Return `Reader`'s fields for teaching: teachers, matched, annealing; {} without teachers."""
    logits = {
        j: TeacherLogits(preset=preset, label=f"logits of {teacher.label}", reader=teacher, domain=j)
        for j, teacher in teachers.items()
    }
    return {"teachers": logits, "matched": switches.kd_space, "annealing": switches.annealing} if teachers else {}


def name_single_readers(preset: Preset, seed: int) -> Readers:
    """Name theta^(0): a reader of each domain, trained on it alone, in one stage."""
    return {i: name_reader(preset, seed, f"Single, {i}", [i], [i], stages=1) for i in preset.data.domains}


class Rounds(NamedTuple):
    """The readers of all rounds: theta^(0) to theta^(K) as accepted, and those newly trained in rounds 1 to K."""

    theta: list[Readers]
    new: list[Readers]


def algorithm1(preset: Preset, seed: int, switches: ImmSettings, rounds: int) -> Plan:
    """Run Algorithm 1 for K = ``rounds``, or until no domain improves. Returns its `Rounds`."""
    theta = name_single_readers(preset, seed)  # line 1
    history = Rounds([theta], [])
    s = similarities(preset.data, switches.similarity)  # line 2
    for k in range(1, rounds + 1):  # lines 3 to 13; all targets of a round start from the same theta
        phi = {i: name_phi(preset, seed, switches, k, i, theta, s[i]) for i in theta}  # lines 5 and 6
        new = {i: name_theta(preset, seed, switches, k, i, theta[i], phi[i]) for i in theta}  # lines 7 and 8
        yield [*theta.values(), *new.values()]
        gain = {i: new[i].best - theta[i].best for i in theta}  # EvalModel: F1 on validation questions
        theta = {i: theta[i] if gain[i] < 0 else new[i] for i in theta}  # lines 9 to 11
        history.theta.append(theta)
        history.new.append(new)
        if max(gain.values()) <= 0:
            break
    return history


def name_phi(
    preset: Preset, seed: int, switches: ImmSettings, k: int, i: str, theta: Readers, s_i: dict[str, float]
) -> Reader:
    """Name phi_i of round k: trained on the other domains, taught by their readers, weighted by s_ij (Eqs. 4 to 7)."""
    weights = nearest(s_i, switches.sources)
    teachers = {j: theta[j] for j in theta if j in weights}
    parts = name_teachers(preset, teachers if switches.teach_multi_domain else {}, switches)
    parts |= {"start": theta[i] if switches.multi_domain_start == "theta" else None, "weights": weights}
    parts["order"] = k - 1 if switches.new_order else 0
    return name_reader(preset, seed, f"IMM phi, {i}, round {k}", [*teachers], **parts)


def name_theta(preset: Preset, seed: int, switches: ImmSettings, k: int, i: str, old: Reader, phi: Reader) -> Reader:
    """Name theta_i of round k: initialised from phi_i, trained on i, taught by the old theta_i (Eqs. 8 to 11)."""
    parts = name_teachers(preset, {i: old} if switches.teach_target else {}, switches)
    parts |= {"start": phi, "order": k - 1 if switches.new_order else 0}
    return name_reader(preset, seed, f"IMM theta, {i}, round {k}", [i], [i], **parts)


METHODS = ("Single", "Mix", "FT", "MS-FT", "MFT", "MS-MFT", "BAM", "IMM")  # the rows of Table 1


def train_baselines(preset: Preset, seed: int, rows: Sequence[str] = METHODS) -> Plan:
    """Train rows of Table 1 other than IMM. Returns each method's reader of each domain."""
    names, single, s = list(preset.data.domains), name_single_readers(preset, seed), tfidf_weights(preset.data)
    mix = name_reader(preset, seed, "Mix", names, names, stages=1)
    unified = name_reader(preset, seed, "BAM, unified", names, **name_teachers(preset, single, preset.imm))
    readers = {"Single": single, "Mix": dict.fromkeys(names, mix)}
    for i in names:
        closest = max(s[i], key=s[i].__getitem__)
        others = name_reader(preset, seed, f"mix without {i}", [j for j in names if j != i])
        source = name_reader(preset, seed, f"source {closest}", [closest])
        second_stages = {
            "FT": (others, [i]),
            "MS-FT": (source, [i]),
            "MFT": (others, names),
            "MS-MFT": (source, [j for j in names if j in (i, closest)]),
            "BAM": (unified, [i]),
        }
        for row, (start, domains) in second_stages.items():
            readers.setdefault(row, {})[i] = name_reader(preset, seed, f"{row}, {i}", domains, [i], start=start)
    readers = {row: readers[row] for row in readers if row in rows}
    yield [model for by_domain in readers.values() for model in by_domain.values()]
    return readers


UNTAUGHT = "-KD1, KD2"  # the row of Table 3 without any distillation
VARIANTS = {
    "IMM": {},
    "-SIMI": {"similarity": "uniform"},
    "-KD1": {"teach_multi_domain": False},
    "-KD2": {"teach_target": False},
    UNTAUGHT: {"teach_multi_domain": False, "teach_target": False},
}
# Controls that are not in the paper: other distances from the teacher, and single parts of IMM.
OTHER_DISTANCES = {"all probabilities": {"kd_space": "probabilities"}, "raw logits": {"kd_space": "logits"}}
CONTROLS = {
    "-SIMI, 1/(N - 1)": {"similarity": "equal"},
    "λ from 1/2": {"annealing": "half"},
    "λ constant": {"annealing": "constant"},
    "two nearest sources": {"sources": 2},
}
Histories = dict[tuple[str, int], Rounds]  # by row and seed


def train_methods(preset: Preset, rounds: int, rows: Sequence[str] = METHODS) -> Plan:
    """Train rows of Table 1 with every seed. Returns their `Models`, and the `Histories` of IMM."""
    return (yield from train(preset, {"IMM": preset.imm} if "IMM" in rows else {}, rounds, rows))


def train_ablations(preset: Preset) -> Plan:
    """Train the rows of Table 3 with every seed. Returns their `Models` and `Histories`."""
    preset = preset.changed("imm", kd_space="gold")  # each row switches something of IMM with Eqs. 5 and 9
    rows = VARIANTS | (OTHER_DISTANCES | CONTROLS if preset.other_seeds else {})
    variants = {row: preset.imm.model_copy(update=changes) for row, changes in rows.items()}
    return (yield from train(preset, variants, preset.imm.ablation_rounds))


def train(preset: Preset, variants: Mapping[str, ImmSettings], rounds: int, earlier: Sequence[str] = ()) -> Plan:
    """Train variants of IMM and ``earlier`` methods with every seed. A variant needs its rejected readers too."""
    start = yield from shared.start_from_general(preset)
    notes, preset = shared.state_general(preset), start
    drawn = {seed: preset.drawn(seed) for seed in range(preset.seeds)}
    runs = {
        (row, seed): algorithm1(drawn[seed], seed, switches, rounds)
        for row, switches in variants.items()
        for seed in drawn
    }
    values = yield runs | {seed: train_baselines(drawn[seed], seed, earlier) for seed in drawn}
    models, histories = Models(preset, notes), {name: values[name] for name in runs}
    for seed in drawn:
        for row, readers in values[seed].items():
            models.add(row, seed, readers)
    for (row, seed), history in histories.items():
        models.add(row, seed, history.theta[-1], [new for readers in history.new for new in readers.values()])
    return models, histories


def with_equal_steps(preset: Preset) -> Preset:
    """Return the control with equal steps for every method and at most ``other_seeds`` seeds."""
    return preset.changed("imm", steps="equal").model_copy(update={"seeds": min(preset.seeds, preset.other_seeds)})
