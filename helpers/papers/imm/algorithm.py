"""IMM: iterative multi-source mutual knowledge transfer for reading comprehension (Liu et al. 2020).

Algorithm 1 and the methods it is compared with, as plans: each yields waves of trainings, parents first, and goes on
when they are done (``helpers.training.engine.run_plans``).
"""

from collections.abc import Callable

from helpers.data.domains import load_domains
from helpers.data.sets import question_set
from helpers.data.similarity import question_similarity
from helpers.papers.imm.trainings import ImmTraining, TeacherLogits
from helpers.presets.papers import ImmSettings
from helpers.presets.schema import Preset
from helpers.tasks import metrics
from helpers.tasks.answering import answering
from helpers.tasks.spans import budget, fit_settings
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
# The rows of Table 3 by what they switch off, and below them what else of the teacher can be matched.
VARIANTS = {
    "IMM": {},
    "-SIMI": {"similarity": "uniform"},
    "-KD1": {"teach_multi_domain": False},
    "-KD2": {"teach_target": False},
    "-KD1, KD2": {"teach_multi_domain": False, "teach_target": False},
    "all probabilities": {"kd_space": "probabilities"},
    "raw logits": {"kd_space": "logits"},
}
OURS = ("all probabilities", "raw logits")  # which the paper does not have
Readers = dict[str, ImmTraining]  # by domain
Weights = dict[str, dict[str, float]]  # s_ij by target i and source j


class SwitchError(ValueError):
    """A switch of IMM that does not fit the domains."""


def valid(reader: ImmTraining) -> float:
    """Best F1 on the validation set (EvalModel of Algorithm 1)."""
    return reader.result()["best"]


def gain(new: ImmTraining, old: ImmTraining) -> float:
    """How much better a reader is than another on the validation set."""
    return valid(new) - valid(old)


def algorithm1(
    preset: Preset,
    seed: int,
    switches: ImmSettings,
    rounds: int,
    gain: Callable[[ImmTraining, ImmTraining], float] = gain,
) -> Plan:
    """Algorithm 1. Returns theta^(0) ... theta^(K) for K = ``rounds``; fewer once no domain has a ``gain``."""
    check_similarity(preset, switches)
    theta = singles(preset, seed)  # line 1
    yield theta.values()
    s = yield from similarities(preset, seed, switches.similarity)  # line 2
    history = [theta]
    for k in range(rounds):  # lines 3 to 13; all targets of a round start from the same theta^(k)
        if switches.teach_multi_domain or switches.teach_target:
            yield [teacher_logits(theta[j], j) for j in theta]  # once for all targets
        phi = {i: multi_domain_reader(i, theta, s, switches, k) for i in theta}  # lines 5, 6
        yield phi.values()
        new = {i: fine_tuned(i, phi[i], theta, switches, k) for i in theta}  # lines 7, 8
        yield new.values()
        gains = {i: gain(new[i], theta[i]) for i in theta}
        theta = {i: theta[i] if gains[i] < 0 else new[i] for i in theta}  # lines 9 to 11
        history.append(theta)
        if max(gains.values()) <= 0:
            break
    return history


def multi_domain_reader(i: str, theta: Readers, s: Weights, switches: ImmSettings, k: int) -> ImmTraining:
    """phi_i^(k): trained on the other domains, taught by their readers, weighted by s_ij (Eqs. 4 to 7)."""
    others = [j for j in theta if j != i]
    taught = {"teachers": keys(theta, others), **divergence(switches)} if switches.teach_multi_domain else {}
    start = theta[i].key if switches.multi_domain_start == "theta" else ""
    return reader(theta[i], f"IMM phi, {i}, round {k + 1}", others, start=start, weights=s[i], **taught)


def fine_tuned(i: str, phi: ImmTraining, theta: Readers, switches: ImmSettings, k: int) -> ImmTraining:
    """theta_i^(k+1): goes on from phi_i^(k) on its own domain, taught by theta_i^(k) (Eqs. 8 to 11)."""
    taught = {"teachers": keys(theta, [i]), **divergence(switches)} if switches.teach_target else {}
    return reader(theta[i], f"IMM theta, {i}, round {k + 1}", [i], [i], start=phi.key, **taught)


def plans(preset: Preset, rounds: int) -> dict[tuple[str, int], Plan]:
    """What Table 1 needs, by ("baselines" or "IMM", seed)."""
    drawn = {seed: preset.drawn(seed) for seed in range(preset.seeds)}
    compared = {("baselines", seed): baselines(own, seed) for seed, own in drawn.items()}
    return compared | {("IMM", seed): algorithm1(own, seed, own.imm, rounds) for seed, own in drawn.items()}


def rehearsal(preset: Preset, seed: int) -> Plan:
    """Algorithm 1 as if every reader that is not trained yet were better than the one before: all that it can come to
    train."""

    def expected(new: ImmTraining, old: ImmTraining) -> float:
        return gain(new, old) if is_done(new) and is_done(old) else 1.0

    switches = preset.imm
    if switches.similarity == "measured":  # by what is known only once the readers are there
        switches = switches.model_copy(update={"similarity": "uniform"})
    return algorithm1(preset, seed, switches, switches.rounds, expected)


def ablations(preset: Preset) -> dict[tuple[str, int], Plan]:
    """What Table 3 needs, by (row, seed). Every row switches something of the preset's IMM with Eqs. 5 and 9."""
    paper = preset.imm.model_copy(update={"kd_space": "gold"})
    return {
        (name, seed): algorithm1(preset.drawn(seed), seed, paper.model_copy(update=changes), paper.ablation_rounds)
        for name, changes in VARIANTS.items()
        for seed in range(preset.seeds)
    }


def baselines(preset: Preset, seed: int) -> Plan:
    """The rows of Table 1 beside IMM (section 5.2): for each method its reader of each domain."""
    names = list(preset.data.domains)
    theta = singles(preset, seed)
    like = next(iter(theta.values()))
    s = tfidf(preset)
    nearest = {i: max(s[i], key=s[i].__getitem__) for i in names}
    ordered = {i: [j for j in names if j in (i, nearest[i])] for i in names}
    mix = reader(like, "Mix", names, names, steps=like.steps)
    others = {i: reader(like, f"mix without {i}", [j for j in names if j != i]) for i in names}
    source = {j: reader(like, f"source {j}", [j]) for j in sorted(set(nearest.values()))}
    yield [*theta.values(), mix, *others.values(), *source.values()]
    yield [teacher_logits(theta[j], j) for j in names]
    unified = reader(like, "BAM, unified", names, teachers=keys(theta, names), **divergence(preset.imm))
    yield [unified]

    def second(method: str, first: Readers, domains: dict[str, list[str]]) -> Readers:
        return {i: reader(like, f"{method}, {i}", domains[i], [i], start=first[i].key) for i in names}

    own, everything = {i: [i] for i in names}, {i: names for i in names}
    methods = {
        "Single": theta,
        "Mix": {i: mix for i in names},
        "FT": second("FT", others, own),
        "MS-FT": second("MS-FT", {i: source[nearest[i]] for i in names}, own),
        "MFT": second("MFT", others, everything),
        "MS-MFT": second("MS-MFT", {i: source[nearest[i]] for i in names}, ordered),
        "BAM": second("BAM", {i: unified for i in names}, own),
    }
    yield [reader for readers in methods.values() for reader in readers.values()]
    return methods


def singles(preset: Preset, seed: int) -> Readers:
    """theta^(0): a reader of each domain, trained on it alone with the whole budget."""
    steps = budget(preset)
    if steps < 2:
        raise SwitchError(f"training.epochs = {preset.training.epochs:g} makes {steps} step; two stages need two")
    return {i: training(preset, seed, f"Single, {i}", [i], [i], steps) for i in preset.data.domains}


def reader(
    like: ImmTraining, label: str, domains: list[str], target: list[str] | None = None, steps: int = 0, **parts
) -> ImmTraining:
    """A reader with the preset and seed of ``like``, and unless told otherwise half the budget: one of two stages."""
    return training(like.preset, like.seed, label, domains, target or [], steps or budget(like.preset) // 2, **parts)


def training(
    preset: Preset, seed: int, label: str, domains: list[str], target: list[str], steps: int, **parts
) -> ImmTraining:
    """The config of one reader's training."""
    return ImmTraining(
        preset=preset,
        label=f"{label}, seed {seed}",
        domains=domains,
        target=target,
        seed=seed,
        steps=steps,
        settings=fit_settings(preset, sorted({*domains, *target})),
        **parts,
    )


def teacher_logits(teacher: ImmTraining, domain: str) -> TeacherLogits:
    """What a reader says of a domain's training windows."""
    return TeacherLogits(preset=teacher.preset, label=f"outputs of {teacher.label}", reader=teacher.key, domain=domain)


def keys(readers: Readers, domains: list[str]) -> dict[str, str]:
    """The cache keys by which a training names its parents."""
    return {j: readers[j].key for j in domains}


def divergence(switches: ImmSettings) -> dict[str, str]:
    """What of the switches the losses of Eqs. 5, 6, 9 and 11 depend on."""
    return {"kd_space": switches.kd_space, "annealing": switches.annealing}


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
    """s_ij: as the paper has it ("tf-idf"), all 1 (-SIMI, "uniform"), by how well the readers of the others do on
    the domain's validation questions ("measured"), or as in the released code ("released")."""
    names = list(preset.data.domains)
    if which == "tf-idf":
        return tfidf(preset)
    if which == "uniform":
        return {i: {j: 1.0 for j in names if j != i} for i in names}
    if which == "released":
        return {i: {j: RELEASED[i][j] for j in names if j != i} for i in names}
    theta = singles(preset, seed)
    asked = {(i, j): answering(preset, [theta[j]], [f"valid/{i}"]) for i in names for j in names if i != j}
    yield asked.values()
    weights: Weights = {i: {} for i in names}
    for (i, j), task in asked.items():
        examples = question_set(preset.data, f"valid/{i}")
        weights[i][j] = float(metrics.score(examples, task.result()[f"valid/{i}"]).f1.mean())
    # Where nobody scores anything, all are alike.
    return {
        i: {j: round(f1 / sum(row.values()) if any(row.values()) else 1 / len(row), 6) for j, f1 in row.items()}
        for i, row in weights.items()
    }


def check_similarity(preset: Preset, switches: ImmSettings) -> None:
    """Raises SwitchError where the released table is asked for and does not fit the domains."""
    names = list(preset.data.domains)
    if switches.similarity == "released" and set(names) != set(RELEASED):
        raise SwitchError(f"imm.similarity = 'released' is for the domains {', '.join(RELEASED)}, not {names}")
