"""IMM: iterative multi-source mutual knowledge transfer for reading comprehension (Liu et al. 2020, IJCAI)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from helpers import reading
from helpers.batches.plans import Batches
from helpers.data.load import training_questions
from helpers.data.similarity import nearest, question_similarity, similarities, tfidf_weights
from helpers.engine import Plan
from helpers.loop import Batch
from helpers.papers import shared
from helpers.papers.card import Artefact, Notebook, Paper
from helpers.papers.shared import Models
from helpers.presets.papers import ImmSettings
from helpers.presets.schema import Preset
from helpers.reading import SIDES, Span, TeacherLogits, log_probabilities, windows_of
from helpers.results.records import Claim, Score
from helpers.teachers import StoredTeacher

# --- Losses (section 4) ---------------------------------------------------------------------------------------------


def gold_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Square the difference of the gold start's and end's probabilities, summed, shape B (Eqs. 5 and 9).

    ``student`` and ``teacher`` are start and end logits (B×L each), ``gold`` the true positions (B each).
    """
    pairs = zip(student, teacher, gold, strict=True)
    return sum((probability_at(s, g, mask_BxL) - probability_at(t, g, mask_BxL)).square() for s, t, g in pairs)


def probability_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Square the distance of the whole start and end distributions, summed, shape B. ``gold`` plays no part."""
    pairs = [[log_probabilities(side, mask_BxL).exp() for side in pair] for pair in zip(student, teacher, strict=True)]
    return sum((s - t).square().sum(-1) for s, t in pairs)


def logit_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Square the difference of start and of end logits, each a mean over real tokens, summed, shape B.

    The released code does so, at every token of the window, before any softmax. ``gold`` is unused.
    """
    gaps = [(s.float() - t.float()).masked_fill(mask_BxL == 0, 0.0) for s, t in zip(student, teacher, strict=True)]
    return sum(gap.square().sum(-1) for gap in gaps) / mask_BxL.sum(-1)


def probability_at(logits_BxL: Tensor, position_B: Tensor, mask_BxL: Tensor) -> Tensor:
    """Return the softmax probability of one position of each example, shape B."""
    return log_probabilities(logits_BxL, mask_BxL).gather(1, position_B[:, None])[:, 0].exp()


DIVERGENCES = {"gold": gold_divergence, "probabilities": probability_divergence, "logits": logit_divergence}

Readers = dict[str, "Reader"]  # by domain


@dataclass(frozen=True, kw_only=True, eq=False)
class Reader(reading.Reader):
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
        terms = reading.likelihood(output, batch)
        if not self.teachers:
            return terms
        lam = {"linear": progress, "half": (1 + progress) / 2, "constant": 0.5}[self.annealing]
        divergence_B = DIVERGENCES[self.matched](
            (output.start_logits, output.end_logits),
            (batch["teacher_start"], batch["teacher_end"]),
            (batch["start"], batch["end"]),
            batch["attention_mask"],
        )
        divergence = reading.weighted_mean(divergence_B, batch.get("weight"))
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


# --- Algorithm 1 ----------------------------------------------------------------------------------------------------


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


# --- Baselines (section 5.2) ----------------------------------------------------------------------------------------

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
OTHER_DISTANCES = {"all probabilities": {"kd_space": "probabilities"}, "raw logits": {"kd_space": "logits"}}
CONTROLS = {
    "-SIMI, 1/(N - 1)": {"similarity": "equal"},
    "λ from 1/2": {"annealing": "half"},
    "λ constant": {"annealing": "constant"},
    "two nearest sources": {"sources": 2},
}

# --- Tables and figures ---------------------------------------------------------------------------------------------

HEADLINES = ("BAM", UNTAUGHT)  # the best earlier method of Table 1; Table 3's row without distillation
PRINTED_ROUNDS = 3  # of IMM in the paper's tables (section 5.3)
FLAT = 1.0  # points of F1 within which a curve is flat, as "tends to converge" is read here (section 5.3)

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


def similarity(preset: Preset) -> dict:
    """Tabulate s_ij of every two domains (row i, column j), with the cosines as payload (section 4, step 1)."""
    names, (cosines, weights) = list(preset.data.domains), question_similarity(training_questions(preset.data))
    scores = [
        Score(method=names[i], column=names[j], seed=0, value=float(value)) for (i, j), value in np.ndenumerate(weights)
    ]
    axes = {"x": "source domain j", "y": "target domain i"}
    return {"scores": scores, "payload": {"cosines": pd.DataFrame(cosines, names, names).to_dict("index"), **axes}}


def table1(preset: Preset) -> Plan:
    """Make Table 1: F1 of every method's reader of each domain."""
    models, _ = yield from train_methods(preset, preset.imm.rounds)
    parts = yield from f1_table(models, preset.imm.rounds)
    sure = yield from shared.tabulate_gold_probabilities(models, "Single")
    spread = "; ".join(f"{name} {sure[name].min():.2f} to {sure[name].max():.2f}" for name in list(sure)[:2])
    note = f"probability that readers of Single give right answers, by domain: {spread}"
    return {**parts, "notes": [*parts["notes"], note]}


def table1_equal(preset: Preset) -> Plan:
    """Make Table 1 with as many steps for every method, a control; nothing where ``other_seeds`` is 0."""
    if not preset.other_seeds:
        return {}
    models, _ = yield from train_methods(with_equal_steps(preset), preset.imm.rounds)
    parts = yield from f1_table(models, preset.imm.rounds)
    claims = [beats(row, preset.imm.rounds, control=True, beside=row in HEADLINES) for row in ("Mix", "FT", "BAM")]
    return {**parts, "claims": claims}


def table3(preset: Preset) -> Plan:
    """Make Table 3: F1 without parts of IMM, and with other distances from the teacher."""
    models, _ = yield from train_ablations(preset)
    return (yield from f1_table(models, preset.imm.ablation_rounds))


def f1_table(models: Models, rounds: int) -> Plan:
    """Make Tables 1 and 3: F1 on test questions, and the claim that IMM beats each row that the paper has."""
    keys = {}
    for row, _, _, (model,) in models:
        keys.setdefault(row, []).append(model.key)
    on = f" after {rounds} round{'s' * (rounds > 1)}" if rounds < models.preset.imm.rounds else ""
    compared = [row for row in keys if row in (*METHODS, *VARIANTS) and keys[row] != keys["IMM"]]
    return {
        **(yield from shared.answer_table(models, lambda domain: {domain: f"test/{domain}"})),
        "baselines": list(keys)[:1],
        "claims": [beats(row, rounds, on + ", which reads one domain" * (row == "Single")) for row in compared],
        "notes": make_notes(models, rounds),
        "settings": {"imm": models.preset.imm},
    }


def beats(row: str, rounds: int, on: str = "", **parts) -> Claim:
    """State that IMM beats a row; the paper's numbers are after its own number of rounds."""
    printed_for = f"after {PRINTED_ROUNDS} rounds" if rounds != PRINTED_ROUNDS else ""
    parts = {"primary": row in HEADLINES and "control" not in parts, **parts}
    return shared.state_better("IMM", row, "beats", on, printed_for=printed_for, **parts)


def make_notes(models: Models, rounds: int) -> list[str]:
    """State how the rows were made: budget, trainings, questions, rounds."""
    preset, table = models.preset, shared.tabulate_costs(models)
    steps = " to ".join(f"{number:,}" for number in sorted({*table["steps of a model"].agg(["min", "max"])}))
    over = "all domains" if preset.imm.steps == "equal" else "its own domains at each stage"
    needs = "; ".join(f"{row}: {n} ({s:,})" for row, n, s in table[["trainings", "steps in all"]].itertuples())
    epochs, size = preset.training.epochs, preset.training.batch_size
    return [
        *models.notes,
        f"each row's longest reader: {steps} steps of {size} windows ({epochs:g} × the questions of {over})",
        f"trainings of one seed of a row, and their steps: {needs}",
        shared.state_training_sizes(preset.data),
        f"IMM with at most {rounds} round{'s' * (rounds > 1)}",
    ]


def figure3(preset: Preset) -> Plan:
    """Make Figure 3: F1 against K on validation questions (as in the paper) and on test questions, over all domains.

    Readers that are accepted for their validation score cannot get worse there; only the test questions tell.
    """
    curve, names, few = preset.imm.curve, list(preset.data.domains), min(PRINTED_ROUNDS, preset.imm.curve)
    shown = ("IMM", UNTAUGHT) if preset.other_seeds else ("IMM",)
    variants = {row: preset.imm.model_copy(update=VARIANTS[row]) for row in shown}
    models, histories = yield from train(preset, variants, curve, METHODS)
    readers = {
        (row, seed, float(k), i): rounds.theta[min(k, len(rounds.theta) - 1)][i]
        for (row, seed), rounds in histories.items()
        for k in range(curve + 1)
        for i in names
    }
    readers |= {(row, seed, None, i): model for row, i, seed, (model,) in models if row not in variants}
    cells = {((row, x, i), i, seed): ((reader,), f"test/{i}") for (row, seed, x, i), reader in readers.items()}
    f1, scores = shared.average_f1(preset, (yield from shared.answer_sets(preset, cells))), []
    for row, seed, x in dict.fromkeys(key[:3] for key in readers):
        valid, test = [readers[row, seed, x, i].best for i in names], [f1[(row, x, i), i, seed] for i in names]
        for column, values in (("validation", valid), ("test", test)):
            scores.append(Score(method=row, column=column, seed=seed, value=float(np.mean(values)), x=x))
    last, on_test = f"IMM, {curve}", {"columns": ["test"]}
    rise, flat = f"{few} rounds of IMM are better than none", f"later rounds change F1 by at most {FLAT:g}"
    claims = [Claim(text=rise, above=f"IMM, {few}", below="IMM, 0", primary=True, **on_test)]
    text, beside = f"{few} rounds of IMM are better than as many without teachers", {"control": True, "beside": True}
    if UNTAUGHT in shown:
        claims.append(Claim(text=text, above=f"IMM, {few}", below=f"{UNTAUGHT}, {few}", **beside, **on_test))
    if curve > few:
        claims.append(Claim(text=flat, above=last, below=f"IMM, {few}", within=FLAT, **on_test))
    stopped = sum(len(rounds.new) < curve for (row, _), rounds in histories.items() if row == "IMM")
    note = f"{stopped} of {preset.seeds} seeds stopped before K = {curve}, as no domain improved"
    return {
        "scores": scores,
        "claims": claims,
        "payload": {"x": "largest number of rounds K"},
        "notes": [*make_notes(models, curve), note],
        "training_seconds": models.seconds,
    }


def table2(preset: Preset) -> Plan:
    """Make Table 2: F1 of each method's reader of one domain on its clean questions, AddSent and AddOneSent.

    It is empty where the preset names no adversarial questions.
    """
    if not preset.data.adversarial:
        return {}
    models, _ = yield from train_methods(preset, preset.imm.rounds)
    adversarial, attacks, rounds = preset.data.adversarial.domain, ("AddSent", "AddOneSent"), preset.imm.rounds
    sets = {name: name for name in ("clean", *attacks)}
    parts = yield from shared.answer_table(models, lambda domain: sets if domain == adversarial else {})
    claims = [beats("Single", rounds, f" on {name}", columns=[name], primary=name == "AddSent") for name in attacks]
    more = {"above": "IMM", "below": "Single", "than": ["IMM", "Single"], "than_columns": ["clean"]}
    text = "IMM gains more over Single on {} than on clean questions"
    claims += [Claim(text=text.format(name), columns=[name], **more) for name in attacks]
    return {
        **parts,
        "title": f"IMM, Table 2: F1 of the readers of {adversarial} on adversarial questions",
        "baselines": ["Single"],
        "claims": claims,
        "notes": make_notes(models, rounds),
    }


def count_accepted(histories: Histories) -> dict:
    """Make parts of a record: in how many domains each round's new reader was accepted."""
    scores = [
        Score(method=row, column=f"round {k + 1}", seed=seed, value=sum(new[i] is not old[i] for i in new))
        for (row, seed), history in histories.items()
        for k, (old, new) in enumerate(pairwise(history.theta))
    ]
    runs, counts = len(histories), Counter(score.column for score in scores)
    ended = ", ".join(f"{column}: {runs - number} of {runs}" for column, number in counts.items() if number < runs)
    note = f"a run ends where no domain improves, and is not in later means; ended before {ended}"
    first, *others = next(iter(histories.values())).theta[0].values()
    facts = {"unit": f"domains of {1 + len(others)}", "settings": {"imm": first.preset.imm}}
    return {"scores": scores, "notes": [note] if ended else [], **facts}


ABSENT = "the preset names no adversarial questions ([data.adversarial])"

CARD = Paper(
    key="imm",
    title="Liu et al. 2020: iterative multi-source mutual knowledge transfer (IMM)",
    reference="https://doi.org/10.24963/ijcai.2020/525",
    claim="Readers that teach each other in rounds beat readers taught once (BAM)",
    rankings=("your_domains_equal", "your_domains"),
    artefacts=(
        Artefact("similarity", "Similarity of the domains' questions", "matrix", "similarity"),
        Artefact("table1", "IMM, Table 1: F1 of each method on each domain"),
        Artefact("table1_equal", "IMM, Table 1 with equal steps: F1 of every method"),
        Artefact("figure3", "IMM, Figure 3: F1 against the number of rounds", "curve", average=False),
        Artefact("acceptance", "IMM, Figure 3: domains that accepted a round's new reader", average=False),
        Artefact("table2", "IMM, Table 2: F1 on adversarial questions", average=False),
        Artefact("table3", "IMM, Table 3: F1 without parts of IMM, and with other distances from the teacher"),
        Artefact("table3_acceptance", "IMM, Table 3: domains that accepted a round's new reader", average=False),
        Artefact("your_domains", "Side by side: F1 of each method's readers"),
        Artefact("your_domains_equal", "Side by side: F1 of each method's readers with equal steps"),
        Artefact("cost", "Side by side: F1 by training cost", "scatter"),
    ),
    notebooks=(
        Notebook("01_imm_similarity"),
        Notebook("02_imm_main", (table1, table1_equal)),
        Notebook("03_imm_iterations", (figure3,)),
        Notebook("04_imm_ablations", (table3,)),
        Notebook("05_imm_adversarial", (table2,), lambda p: "" if p.data.adversarial else ABSENT),
    ),
    settings=("imm",),
)
