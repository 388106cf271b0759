"""Algorithm 1, the methods that it is compared with, and its parts that can be left out (Liu et al. 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch

from helpers.batches import Batches
from helpers.extractive_qa import SIDES, Questions, Reader, likelihood, store_logits
from helpers.outputs import Outputs
from helpers.papers import shared
from helpers.papers.imm.losses import taught_loss
from helpers.papers.imm.similarity import nearest, similarities, tfidf_weights
from helpers.papers.shared import Models
from helpers.presets.papers import ImmSettings
from helpers.presets.schema import Preset
from helpers.task import Plan
from helpers.training import StoredTeacher, Training

Readers = dict[str, Training]  # by domain


@dataclass(frozen=True)
class DomainTeachers:
    """A reader of each domain that teaches on its questions, by its stored logits (`helpers.training.Teacher`)."""

    logits: dict[str, Outputs]

    def add_to(self, batches: Batches, training: Training) -> None:
        stored = [self.logits[name].tensors() for name in training.data.names]
        of_tokens = {side: torch.cat([tensors[side] for tensors in stored]) for side in SIDES}
        batches.teachers.append(StoredTeacher(batches.sequences, of_tokens))


def reader_training(
    preset: Preset,
    seed: int,
    label: str,
    domains: Sequence[str],
    selected_by: Sequence[str] = (),
    *,
    teachers: Readers | None = None,
    settings: ImmSettings | None = None,
    start: Training | None = None,
    stages: int = 2,
    **order,
) -> Training:
    """Return the training of a reader on ``domains``, taught by a reader of each where there are ``teachers``.

    With ``imm.steps = "equal"`` all readers have the same steps, in two stages or in one. ``order`` are fields of
    `helpers.extractive_qa.Questions`.
    """
    settings = settings or preset.imm
    if settings.steps == "equal":
        order |= {"budget": tuple(preset.data.domains), "stages": stages}
    loss, teacher = likelihood, None
    if teachers:
        loss = partial(taught_loss, divergence=settings.kd_space, annealing=settings.annealing)
        teacher = DomainTeachers({j: teacher_logits(preset, reader, j) for j, reader in teachers.items()})
    return Training(
        preset=preset,
        label=f"{label}, seed {seed}",
        seed=seed,
        model=Reader(),
        data=Questions(tuple(domains), tuple(selected_by), **order),
        optim=preset.training,
        loss=loss,
        teacher=teacher,
        start=start,
    )


def teacher_logits(preset: Preset, reader: Training, domain: str) -> Outputs:
    """Return the logits of a reader on a domain's training questions."""
    models = {f"train/{domain}": (reader,)}
    return Outputs(preset=preset, label=f"logits of {reader.label}", models=models, compute=store_logits)


def single_readers(preset: Preset, seed: int) -> Readers:
    """Return theta^(0): a reader of each domain, trained on it alone, in one stage."""
    return {i: reader_training(preset, seed, f"Single, {i}", [i], [i], stages=1) for i in preset.data.domains}


# --- Algorithm 1 ----------------------------------------------------------------------------------------------------


class Rounds(NamedTuple):
    """The readers of all rounds: theta^(0) to theta^(K) as accepted, and those newly trained in rounds 1 to K."""

    theta: list[Readers]
    new: list[Readers]


def algorithm1(preset: Preset, seed: int, settings: ImmSettings, rounds: int) -> Plan:
    """Run Algorithm 1 for K = ``rounds``, or until no domain improves. Returns its `Rounds`."""
    theta = single_readers(preset, seed)  # line 1
    history = Rounds([theta], [])
    s = similarities(preset.data, settings.similarity)  # line 2
    for k in range(1, rounds + 1):  # lines 3 to 13; all targets of a round start from the same theta
        phi = {i: phi_training(preset, seed, settings, k, i, theta, s[i]) for i in theta}  # lines 5 and 6
        new = {i: theta_training(preset, seed, settings, k, i, theta[i], phi[i]) for i in theta}  # lines 7 and 8
        yield [*theta.values(), *new.values()]
        gain = {i: new[i].best - theta[i].best for i in theta}  # EvalModel: F1 on validation questions
        theta = {i: theta[i] if gain[i] < 0 else new[i] for i in theta}  # lines 9 to 11
        history.theta.append(theta)
        history.new.append(new)
        if max(gain.values()) <= 0:
            break
    return history


def phi_training(
    preset: Preset, seed: int, settings: ImmSettings, k: int, i: str, theta: Readers, s_i: dict[str, float]
) -> Training:
    """Return phi_i of round k: trained on other domains, taught by their readers, weighted by s_ij (Eqs. 4 to 7)."""
    weights = nearest(s_i, settings.sources)
    sources = {j: theta[j] for j in theta if j in weights}
    return reader_training(
        preset,
        seed,
        f"IMM phi, {i}, round {k}",
        list(sources),
        teachers=sources if settings.teach_multi_domain else None,
        settings=settings,
        start=theta[i] if settings.multi_domain_start == "theta" else None,
        weights=weights,
        order=k - 1 if settings.new_order else 0,
    )


def theta_training(
    preset: Preset, seed: int, settings: ImmSettings, k: int, i: str, old: Training, phi: Training
) -> Training:
    """Return theta_i of round k: initialised from phi_i, trained on i, taught by the old theta_i (Eqs. 8 to 11)."""
    return reader_training(
        preset,
        seed,
        f"IMM theta, {i}, round {k}",
        [i],
        [i],
        teachers={i: old} if settings.teach_target else None,
        settings=settings,
        start=phi,
        order=k - 1 if settings.new_order else 0,
    )


# --- Baselines (section 5.2) ----------------------------------------------------------------------------------------

METHODS = ("Single", "Mix", "FT", "MS-FT", "MFT", "MS-MFT", "BAM", "IMM")  # the rows of Table 1


def train_baselines(preset: Preset, seed: int, rows: Sequence[str] = METHODS) -> Plan:
    """Train rows of Table 1 other than IMM. Returns each method's reader of each domain."""
    names, single, s = list(preset.data.domains), single_readers(preset, seed), tfidf_weights(preset.data)
    mix = reader_training(preset, seed, "Mix", names, names, stages=1)
    unified = reader_training(preset, seed, "BAM, unified", names, teachers=single)
    readers = {"Single": single, "Mix": dict.fromkeys(names, mix)}
    for i in names:
        closest = max(s[i], key=s[i].__getitem__)
        others = reader_training(preset, seed, f"mix without {i}", [j for j in names if j != i])
        source = reader_training(preset, seed, f"source {closest}", [closest])
        second_stages = {
            "FT": (others, [i]),
            "MS-FT": (source, [i]),
            "MFT": (others, names),
            "MS-MFT": (source, [j for j in names if j in (i, closest)]),
            "BAM": (unified, [i]),
        }
        for row, (start, domains) in second_stages.items():
            readers.setdefault(row, {})[i] = reader_training(preset, seed, f"{row}, {i}", domains, [i], start=start)
    readers = {row: readers[row] for row in readers if row in rows}
    yield [model for by_domain in readers.values() for model in by_domain.values()]
    return readers


# --- Parts that can be left out (Table 3) ---------------------------------------------------------------------------

UNTAUGHT = "-KD1, KD2"  # the row of Table 3 without any distillation
VARIANTS = {
    "IMM": {},
    "-SIMI": {"similarity": "uniform"},
    "-KD1": {"teach_multi_domain": False},
    "-KD2": {"teach_target": False},
    UNTAUGHT: {"teach_multi_domain": False, "teach_target": False},
}
LEFT_OUT = {"-SIMI": "SIMI", "-KD1": "KD1", "-KD2": "KD2", UNTAUGHT: "KD1, KD2"}  # the parts, by row
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
    preset = preset.changed("imm", kd_space="gold")  # each row settings something of IMM with Eqs. 5 and 9
    rows = VARIANTS | (OTHER_DISTANCES | CONTROLS if preset.other_seeds else {})
    variants = {row: preset.imm.model_copy(update=changes) for row, changes in rows.items()}
    return (yield from train(preset, variants, preset.imm.ablation_rounds))


def train(preset: Preset, variants: Mapping[str, ImmSettings], rounds: int, earlier: Sequence[str] = ()) -> Plan:
    """Train variants of IMM and ``earlier`` methods with every seed. A variant needs its rejected readers too."""
    start = yield from shared.start_from_general(preset)
    notes, preset = shared.state_general(preset), start
    drawn = {seed: preset.for_seed(seed) for seed in range(preset.seeds)}
    runs = {
        (row, seed): algorithm1(drawn[seed], seed, settings, rounds)
        for row, settings in variants.items()
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
