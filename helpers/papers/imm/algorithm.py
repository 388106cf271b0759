"""IMM: iterative multi-source mutual knowledge transfer for reading comprehension (Liu et al. 2020).

Algorithm 1 and the methods it is compared with, as plans of trainings (``helpers.training.engine.run_plans``).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from helpers.data.domains import load_domains
from helpers.data.sets import question_set
from helpers.data.similarity import nearest, question_similarity
from helpers.papers.imm.trainings import (
    ImmTraining,
    Readers,
    SwitchError,
    Teachers,
    cross_fitted,
    lessons,
    other_seeds,
    reader,
    singles,
    teacher_logits,
)
from helpers.presets.papers import ImmSettings
from helpers.presets.schema import Preset
from helpers.tasks import metrics
from helpers.tasks.answering import answering
from helpers.training.engine import Plan, is_done

METHODS = ("Single", "Mix", "FT", "MS-FT", "MFT", "MS-MFT", "BAM", "IMM")  # the rows of Table 1
# s_ij as the released code has them, row by row (multi_iter.sh); rounded there, so that rows sum to 1 within 0.01.
RELEASED = {
    "SQuAD": {"NewsQA": 0.46, "HotpotQA": 0.26, "NQ": 0.01, "TriviaQA": 0.27},
    "NewsQA": {"SQuAD": 0.50, "HotpotQA": 0.24, "NQ": 0.01, "TriviaQA": 0.25},
    "HotpotQA": {"SQuAD": 0.34, "NewsQA": 0.29, "NQ": 0.03, "TriviaQA": 0.35},
    "NQ": {"SQuAD": 0.22, "NewsQA": 0.12, "HotpotQA": 0.35, "TriviaQA": 0.31},
    "TriviaQA": {"SQuAD": 0.34, "NewsQA": 0.30, "HotpotQA": 0.34, "NQ": 0.02},
}
NOT_TAUGHT = "-KD1, KD2"  # the row of Table 3 without any distillation
# The rows of Table 3 by what they switch off, and below them what else of the teacher can be matched.
VARIANTS = {
    "IMM": {},
    "-SIMI": {"similarity": "uniform"},
    "-KD1": {"teach_multi_domain": False},
    "-KD2": {"teach_target": False},
    NOT_TAUGHT: {"teach_multi_domain": False, "teach_target": False},
    "all probabilities": {"kd_space": "probabilities"},
    "raw logits": {"kd_space": "logits"},
}
# More of them, which isolate parts (``imm.controls``): equal weights as large as those of Eq. 7, lambda, and teachers.
CONTROLS = {
    "-SIMI, 1/(N - 1)": {"similarity": "equal"},
    "λ from 1/2": {"annealing": "half"},
    "λ constant": {"annealing": "constant"},
    "teachers of round 0": {"taught_by": "first"},
    "cross-fitted teachers": {"taught_by": "cross-fitted"},
    "two nearest sources": {"sources": 2},
}
OURS = ("all probabilities", "raw logits", *CONTROLS)  # which the paper does not have
RUNS = 100  # seeds from one run to the next
REPEATED = ("Mix", "FT", "BAM")  # also as the best on validation of as many runs as IMM has rounds, and one
Weights = dict[str, dict[str, float]]  # s_ij by target i and source j


def valid(reader: ImmTraining) -> float:
    """Best F1 on the validation set (EvalModel of Algorithm 1)."""
    return reader.result()["best"]


def gain(new: ImmTraining, old: ImmTraining) -> float:
    """How much better a reader is than another on the validation set."""
    return valid(new) - valid(old)


class Rounds(NamedTuple):
    """The readers of all rounds of Algorithm 1: theta^(0) ... theta^(K), those that are kept, and the new ones of every
    round, kept or not, with their teachers."""

    theta: list[Readers]
    new: list[Readers]
    teachers: list[Teachers]


def algorithm1(
    preset: Preset,
    seed: int,
    switches: ImmSettings,
    rounds: int,
    gain: Callable[[ImmTraining, ImmTraining], float] = gain,
) -> Plan:
    """Algorithm 1 for K = ``rounds``, or until no domain has a ``gain``. Returns its ``Rounds``."""
    theta = singles(preset, seed)  # line 1
    done, folds = Rounds([theta], [], []), cross_fitted(theta) if switches.taught_by == "cross-fitted" else {}
    wave = [*theta.values(), *(reader for readers in folds.values() for reader in readers)]
    s = yield from similarities(preset, seed, switches.similarity)  # line 2
    for k in range(rounds):  # lines 3 to 13; all targets of a round start from the same theta^(k)
        taught_by = done.theta[0] if switches.taught_by == "first" else theta
        teachers = folds or {j: [reader] for j, reader in taught_by.items()}
        if switches.teach_multi_domain or switches.teach_target:
            wave += [teacher_logits(teachers[j], j) for j in theta]  # once for all targets
        phi = {i: multi_domain_reader(i, theta, teachers, s, switches, k) for i in theta}  # lines 5, 6
        new = {i: fine_tuned(i, phi[i], theta, teachers, switches, k) for i in theta}  # lines 7, 8
        yield [*wave, *phi.values(), *new.values()]
        wave, gains = [], {i: gain(new[i], theta[i]) for i in theta}
        theta = {i: theta[i] if gains[i] < 0 else new[i] for i in theta}  # lines 9 to 11
        for kept, of_round in zip(done, (theta, new, teachers), strict=True):
            kept.append(of_round)
        if max(gains.values()) <= 0:
            break
    return done


def multi_domain_reader(
    i: str, theta: Readers, teachers: Teachers, s: Weights, switches: ImmSettings, k: int
) -> ImmTraining:
    """phi_i^(k): trained on the other domains, taught by their readers, weighted by s_ij (Eqs. 4 to 7)."""
    weights = nearest(s[i], switches.sources)
    others = [j for j in theta if j in weights]
    taught = lessons(teachers, others, switches) if switches.teach_multi_domain else {}
    start = theta[i].key if switches.multi_domain_start == "theta" else ""
    parts = {"start": start, "weights": weights, "order": k if switches.new_order else 0}
    return reader(theta[i], f"IMM phi, {i}, round {k + 1}", others, **parts, **taught)


def fine_tuned(
    i: str, phi: ImmTraining, theta: Readers, teachers: Teachers, switches: ImmSettings, k: int
) -> ImmTraining:
    """theta_i^(k+1): goes on from phi_i^(k) on its own domain, taught by theta_i^(k) (Eqs. 8 to 11)."""
    taught = lessons(teachers, [i], switches) if switches.teach_target else {}
    order = k if switches.new_order else 0
    return reader(theta[i], f"IMM theta, {i}, round {k + 1}", [i], [i], start=phi.key, order=order, **taught)


def plans(preset: Preset, rounds: int, *, repeated: bool = False) -> dict[tuple[str, int], Plan]:
    """What Table 1 needs, by ("baselines", "IMM" or, if it is asked for, "repeated", seed)."""
    drawn = {seed: preset.drawn(seed) for seed in range(preset.seeds)}
    needed = {("baselines", seed): baselines(own, seed) for seed, own in drawn.items()}
    needed |= {("IMM", seed): algorithm1(own, seed, own.imm, rounds) for seed, own in drawn.items()}
    others = range(other_seeds(preset)) if repeated else ()
    return needed | {("repeated", seed): several_runs(drawn[seed], seed, rounds + 1) for seed in others}


def rehearsal(preset: Preset, seed: int) -> Plan:
    """Algorithm 1 as if every reader that is not trained yet were better than the one before: all that it can come to
    train."""

    def expected(new: ImmTraining, old: ImmTraining) -> float:
        return gain(new, old) if is_done(new) and is_done(old) else 1.0

    switches = preset.imm
    if switches.similarity == "measured":  # by what is known only once the readers are there
        switches = switches.model_copy(update={"similarity": "uniform"})
    return algorithm1(preset, seed, switches, switches.rounds, expected)


def baselines(preset: Preset, seed: int, rows: Sequence[str] = METHODS[:-1], theta: Readers | None = None) -> Plan:
    """The rows of Table 1 beside IMM (section 5.2), or some of them: for each method its reader of each domain. BAM's
    teachers are ``theta``, by default the row Single."""
    names, own = list(preset.data.domains), singles(preset, seed)
    theta, like = theta or own, next(iter(own.values()))
    teachers = {j: [theta[j]] for j in names}
    s = tfidf(preset)
    nearest = {i: max(s[i], key=s[i].__getitem__) for i in names}
    ordered = {i: [j for j in names if j in (i, nearest[i])] for i in names}
    mix = reader(like, "Mix", names, names, stages=1)
    others = {i: reader(like, f"mix without {i}", [j for j in names if j != i]) for i in names}
    source = {j: reader(like, f"source {j}", [j]) for j in sorted(set(nearest.values()))}
    unified = reader(like, "BAM, unified", names, **lessons(teachers, names, preset.imm))

    def second(method: str, first: Readers, domains: dict[str, list[str]]) -> Readers:
        return {i: reader(like, f"{method}, {i}", domains[i], [i], start=first[i].key) for i in names}

    alone, everything = {i: [i] for i in names}, {i: names for i in names}
    methods = {
        "Single": own,
        "Mix": {i: mix for i in names},
        "FT": second("FT", others, alone),
        "MS-FT": second("MS-FT", {i: source[nearest[i]] for i in names}, alone),
        "MFT": second("MFT", others, everything),
        "MS-MFT": second("MS-MFT", {i: source[nearest[i]] for i in names}, ordered),
        "BAM": second("BAM", {i: unified for i in names}, alone),
    }
    methods = {row: methods[row] for row in rows}
    models = [model for readers in methods.values() for model in readers.values()]
    starts = {model.start for model in models} | {model.key for model in models}
    firsts = [first for first in (mix, *others.values(), *source.values()) if first.key in starts]
    if unified.key in starts:
        firsts += [*(teacher_logits(teachers[j], j) for j in names), unified]
    yield [*theta.values(), *firsts, *models]
    return methods


def several_runs(preset: Preset, seed: int, runs: int) -> Plan:
    """``REPEATED`` rows of Table 1 as often as IMM has rounds, and once more, taught by the same readers. Returns the
    rows of every run, the first of which are Table 1's."""
    made, theta = [], singles(preset, seed)
    for run in range(runs):
        made.append((yield from baselines(preset, seed + RUNS * run, REPEATED, theta)))
    return made


def questions(preset: Preset) -> dict[str, list[str]]:
    """The training questions of each domain."""
    return {name: [e.question for e in domain.train] for name, domain in load_domains(preset.data).items()}


def tfidf(preset: Preset) -> Weights:
    """Section 4, step 1: s_ij from the TF-IDF of the training questions."""
    names = list(preset.data.domains)
    _, s = question_similarity(questions(preset))
    # Rounded, as they are part of cache keys and another machine may add them up in another order.
    return {i: {j: round(float(s[a, b]), 6) for b, j in enumerate(names) if a != b} for a, i in enumerate(names)}


def similarities(preset: Preset, seed: int, which: str) -> Plan:
    """s_ij: as the paper has it ("tf-idf"), all 1 (-SIMI, "uniform") or 1/(N - 1) ("equal"), by how well the readers of
    the others do on the domain's validation questions ("measured"), or as in the released code ("released"). Raises
    SwitchError where the released table does not fit the domains, or there is but one."""
    names = list(preset.data.domains)
    if len(names) < 2:
        raise SwitchError(
            f"IMM's readers learn from those of other domains, and there is only {names[0]}; give another"
        )
    if which == "tf-idf":
        return tfidf(preset)
    if which in ("uniform", "equal"):
        weight = 1.0 if which == "uniform" else round(1 / (len(names) - 1), 6)
        return {i: {j: weight for j in names if j != i} for i in names}
    if which == "released":
        if set(names) != set(RELEASED):
            raise SwitchError(f"imm.similarity = 'released' is for the domains {', '.join(RELEASED)}, not {names}")
        return {i: {j: RELEASED[i][j] for j in names if j != i} for i in names}
    theta = singles(preset, seed)
    asked = {(i, j): answering(preset, [theta[j]], [f"valid/{i}"]) for i in names for j in names if i != j}
    yield [*theta.values(), *asked.values()]
    weights: Weights = {i: {} for i in names}
    for (i, j), task in asked.items():
        examples = question_set(preset.data, f"valid/{i}")
        weights[i][j] = float(metrics.score(examples, task.result()[f"valid/{i}"]).f1.mean())
    # Where nobody scores anything, all are alike.
    return {
        i: {j: round(f1 / sum(row.values()) if any(row.values()) else 1 / len(row), 6) for j, f1 in row.items()}
        for i, row in weights.items()
    }
