"""Algorithm 1, the methods that it is compared with, and its parts that can be left out (Liu et al. 2020)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch

from helpers.batches import Batches
from helpers.data.examples import DataError
from helpers.data.load import training_questions
from helpers.errors import UserError
from helpers.extractive_qa import SIDES, Questions, Reader, likelihood, store_logits
from helpers.papers import shared
from helpers.papers.imm.losses import taught_loss
from helpers.papers.shared import Models
from helpers.presets.schema import DataSettings, ImmSettings, Preset
from helpers.task import Plan, Spent
from helpers.training import Outputs, StoredTeacher, Training

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
        if settings.multi_domain_start == "theta":
            problem = "readers that start from theta have more steps than others in every round"
            raise UserError(f'imm.steps: {problem}, expected equal ones; set imm.multi_domain_start = "encoder"')
        order |= {"budget": tuple(preset.data.domains), "stages": stages}
    loss, teacher = likelihood, None
    if teachers:
        loss = partial(taught_loss, divergence=settings.divergence, annealing=settings.annealing)
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
    """Return theta^(0) of IMM: per domain a `Training` of its reader, in one stage, which ``do()`` carries out."""
    return {i: reader_training(preset, seed, f"Single, {i}", [i], [i], stages=1) for i in preset.data.domains}


def question_similarity(questions_by_domain: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines of the domains' questions, one document of TF-IDF each, and weights (section 4, step 1).

    Both arrays are N × N, in the order of the mapping. Row i of the weights is row i of the cosines divided by its sum
    over j ≠ i, with 0 on the diagonal; where no word is shared, all others weigh 1 / (N - 1). Raises DataError.
    """
    count = len(questions_by_domain)
    if count < 2:
        listing = ", ".join(questions_by_domain) or "none"
        raise DataError(
            f"similarity needs at least 2 domains, found {listing}; give two files or more: notebooks 01 to 05 and 18 "
            "compare readers of several domains, and 06_a2d_main reads one"
        )
    vectors, _ = vectorise(questions_by_domain)
    cosines = np.clip(vectors @ vectors.T, 0.0, 1.0)
    off_diagonal = 1 - np.eye(count)
    others = cosines * off_diagonal
    sums = others.sum(axis=1, keepdims=True)
    return cosines, np.divide(others, sums, out=off_diagonal / (count - 1), where=sums > 0)


def nearest(weights: dict[str, float], number: int) -> dict[str, float]:
    """Return the ``number`` largest weights (0: all), in their order, scaled to the sum of all."""
    if not 0 < number < len(weights):
        return weights
    largest = sorted(weights, key=weights.get, reverse=True)[:number]
    scale = sum(weights.values()) / (sum(weights[name] for name in largest) or 1.0)
    return {name: scale * weight for name, weight in weights.items() if name in largest}


def vectorise(questions_by_domain: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the TF-IDF vector of each domain's questions, of length 1, and the words. Raises DataError."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # here, because it takes a second to import

    vectorizer = TfidfVectorizer()
    words = vectorizer.build_analyzer()
    for domain, questions in questions_by_domain.items():
        if not any(words(question) for question in questions):
            raise DataError(f"domain {domain}: no word in its {len(questions)} questions; is its training part empty?")
    documents = ["\n".join(questions) for questions in questions_by_domain.values()]
    return vectorizer.fit_transform(documents).toarray(), vectorizer.get_feature_names_out()


@cache
def tfidf_weights(data: DataSettings) -> dict[str, dict[str, float]]:
    """Compute s_ij by target i and source j from the TF-IDF of the training questions. Raises DataError."""
    names, (_, s) = list(data.domains), question_similarity(training_questions(data))
    # Rounded, as they are part of keys and another machine may add them up in another order.
    return {i: {j: round(float(s[a, b]), 6) for b, j in enumerate(names) if a != b} for a, i in enumerate(names)}


def similarities(data: DataSettings, method: str) -> dict[str, dict[str, float]]:
    """Return s_ij: from TF-IDF as in the paper, 1 ("uniform", -SIMI), or 1/(N - 1) ("equal")."""
    s = tfidf_weights(data)
    if method == "tf-idf":
        return s
    return {i: {j: 1.0 if method == "uniform" else round(1 / len(row), 6) for j in row} for i, row in s.items()}


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
        rejected = [new[i] for i in theta if new[i] is not theta[i]]
        trained = [*phi.values(), *new.values()]
        logits = [need for training in trained for need in training.needs if isinstance(need, Outputs)]
        yield Spent([*phi.values(), *rejected, *logits])
        if max(gain.values()) <= 0:
            break
    return history


def phi_training(
    preset: Preset, seed: int, settings: ImmSettings, k: int, i: str, theta: Readers, s_i: dict[str, float]
) -> Training:
    """Return phi_i of round k: trained on other domains, taught by their readers, weighted by s_ij (Eqs. 4 to 7)."""
    weights = nearest(s_i, settings.num_source_domains)
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

TABLE1_ROWS = ("Single", "Mix", "FT", "MS-FT", "MFT", "MS-MFT", "BAM", "IMM")  # the rows of Table 1


def train_baselines(preset: Preset, seed: int, rows: Sequence[str] = TABLE1_ROWS) -> Plan:
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
    yield Spent(model.start for by_domain in readers.values() for model in by_domain.values() if model.start)
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
# Controls that are not in the paper: other distances from the teacher, and single parts of IMM.
OTHER_DISTANCES = {"all probabilities": {"divergence": "probabilities"}, "raw logits": {"divergence": "logits"}}
CONTROLS = {
    "-SIMI, 1/(N - 1)": {"similarity": "equal"},
    "λ from 1/2": {"annealing": "half"},
    "λ constant": {"annealing": "constant"},
    "two nearest sources": {"num_source_domains": 2},
}
Histories = dict[tuple[str, int], Rounds]  # by row and seed


def train_methods(
    preset: Preset,
    rounds: int,
    rows: Sequence[str] = TABLE1_ROWS,
    variants: Mapping[str, ImmSettings] | None = None,
    controls: Collection[str] = (),
) -> Plan:
    """Train ``rows`` of Table 1 with every seed, and ``variants`` of IMM, by default IMM where it is among the rows.

    Variants that are ``controls`` have at most ``control_seeds`` seeds.
    Returns the `Models`, and the `Histories` of the variants, which need their rejected readers too.
    """
    if variants is None:
        variants = {"IMM": preset.imm} if "IMM" in rows else {}
    started = yield {seed: shared.start_from_general(preset, seed) for seed in preset.seed_numbers}
    drawn = {seed: start.for_seed(seed) for seed, start in started.items()}
    runs = {
        (row, seed): algorithm1(drawn[seed], seed, settings, rounds)
        for row, settings in variants.items()
        for seed in drawn
        if row not in controls or seed < preset.control_seeds
    }
    values = yield runs | {seed: train_baselines(drawn[seed], seed, rows) for seed in drawn}
    models, histories = Models(preset, shared.state_general(preset)), {name: values[name] for name in runs}
    for seed in drawn:
        for row, readers in values[seed].items():
            models.add(row, seed, readers)
    for (row, seed), history in histories.items():
        tried = [history.theta[0], *history.new]
        models.add(row, seed, history.theta[-1], [reader for readers in tried for reader in readers.values()])
    return models, histories


def train_ablations(preset: Preset) -> Plan:
    """Train the rows of Table 3 with every seed. Returns their `Models` and `Histories`."""
    preset = preset.changed("imm", divergence="gold")  # each row changes something of IMM with Eqs. 5 and 9
    parts = {row: VARIANTS[row] for row in ("IMM", *(preset.imm.ablations or VARIANTS))}
    rows = parts | (OTHER_DISTANCES | CONTROLS if preset.control_seeds else {})
    variants = {row: preset.imm.model_copy(update=changes) for row, changes in rows.items()}
    return (yield from train_methods(preset, preset.imm.max_rounds, (), variants, {*OTHER_DISTANCES, *CONTROLS}))


def with_equal_steps(preset: Preset) -> Preset | None:
    """Return the control with equal steps; None without seeds, and where phi starts from theta, whose steps add up."""
    controls = preset.for_controls()
    return controls.changed("imm", steps="equal") if controls and preset.imm.multi_domain_start != "theta" else None
