"""IMM's tables and figures (Liu et al. 2020, section 5)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from helpers import papers
from helpers.data.load import ADVERSARIAL_SETS, training_questions
from helpers.papers import shared
from helpers.papers.imm.algorithm import (
    TABLE1_ROWS,
    UNTAUGHT,
    VARIANTS,
    Histories,
    question_similarity,
    train_ablations,
    train_methods,
    with_equal_steps,
)
from helpers.papers.shared import Models
from helpers.presets.schema import ADVERSARIAL, Preset
from helpers.records import Claim, Score
from helpers.task import Plan

HEADLINES = ("BAM", UNTAUGHT)  # the best earlier method of Table 1; Table 3's row without distillation
PRINTED_ROUNDS = 3  # of IMM in the paper's tables (section 5.3)
FLAT = 1.0  # points of F1 within which a curve is flat, as "tends to converge" is read here (section 5.3)


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
    models, _ = yield from train_methods(preset, preset.imm.max_rounds)
    parts = yield from f1_table(models)
    sure = yield from shared.tabulate_gold_probabilities(models, "Single")
    spread = "; ".join(f"{name} {sure[name].min():.2f} to {sure[name].max():.2f}" for name in list(sure)[:2])
    note = f"probability that readers of Single give right answers, by domain: {spread}"
    claims = [*parts["claims"], shared.state_better("Mix", "Single", control=True)]
    return {**parts, "claims": claims, "notes": [*parts["notes"], note]}


def table1_equal(preset: Preset) -> Plan:
    """Make Table 1 with as many steps for every method, a control; nothing where `with_equal_steps` has none."""
    return (yield from table1_control(with_equal_steps(preset)))


def table1_general(preset: Preset) -> Plan:
    """Make Table 1 with general readers of ``warmup_control_size`` questions, a control; nothing where that is 0."""
    controls, size = preset.for_controls(), preset.warmup_control_size
    weaker = controls.model_copy(update={"warmup_size": size}) if controls and size else None
    return (yield from table1_control(weaker, ("Single", "Mix", "FT", "BAM", "IMM")))


def table1_control(preset: Preset | None, rows: Sequence[str] = TABLE1_ROWS) -> Plan:
    """Make rows of Table 1 in another setting; nothing without one."""
    if not preset:
        return {}
    models, _ = yield from train_methods(preset, preset.imm.max_rounds, rows)
    parts = yield from f1_table(models, control=True)
    return {**parts, "claims": [*parts["claims"], shared.state_better("FT", "Single", control=True)]}


def table3(preset: Preset) -> Plan:
    """Make Table 3: F1 without parts of IMM, and with other distances from the teacher."""
    models, _ = yield from train_ablations(preset)
    return (yield from f1_table(models))


def f1_table(models: Models, **parts) -> Plan:
    """Make Tables 1 and 3: F1 on test questions, and the claim that IMM beats each row of the paper, with ``parts``."""
    keys = {}
    for row, _, _, (model,) in models:
        keys.setdefault(row, []).append(model.key)
    rows = [row for row in keys if row in (*TABLE1_ROWS, *VARIANTS) and keys[row] != keys["IMM"]]
    rounds = models.preset.imm.max_rounds
    claims = [state_imm_better(row, rounds, ", which reads one domain" * (row == "Single"), **parts) for row in rows]
    return {
        **(yield from shared.answer_table(models)),
        "baselines": list(dict.fromkeys(["IMM", *keys][:2])),  # whose gains the figure shows, and the first
        "claims": claims,
        "notes": make_notes(models, rounds),
        "settings": {"imm": models.preset.imm, "warmup_size": models.preset.warmup_size},
    }


def state_imm_better(row: str, rounds: int, on: str = "", **parts) -> Claim:
    """State that IMM beats a row; the paper's numbers are after its own number of rounds."""
    printed_for = f"after {PRINTED_ROUNDS} rounds" if rounds != PRINTED_ROUNDS else ""
    parts = {"beside" if "control" in parts else "primary": row in HEADLINES, **parts}
    names = {row: f"itself without {row[1:]}"} if row.startswith("-") else {}
    return shared.state_better("IMM", row, on, names, printed_for=printed_for, **parts)


def make_notes(models: Models, rounds: int) -> list[str]:
    """State how the rows were made: budget, trainings, questions, rounds."""
    preset, table = models.preset, shared.tabulate_costs(models)
    steps = " to ".join(f"{number:,}" for number in sorted({*table["steps of the longest"].agg(["min", "max"])}))
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
    names, most = list(preset.data.domains), preset.imm.figure3_max_rounds
    shown = ("IMM", UNTAUGHT) if preset.has_controls else ("IMM",)
    variants = {row: preset.imm.model_copy(update=VARIANTS[row]) for row in shown}
    models, histories = yield from train_methods(preset, most, TABLE1_ROWS, variants, {UNTAUGHT})
    readers = {
        (row, seed, float(k), i): rounds.theta[min(k, len(rounds.theta) - 1)][i]
        for (row, seed), rounds in histories.items()
        for k in range(most + 1)
        for i in names
    }
    readers |= {(row, seed, None, i): model for row, i, seed, (model,) in models if row not in variants}
    cells = {((row, x, i), i, seed): ((reader,), f"test/{i}") for (row, seed, x, i), reader in readers.items()}
    f1, scores = shared.average_f1(preset, (yield from shared.answer_sets(preset, cells))), []
    for row, seed, x in dict.fromkeys(key[:3] for key in readers):
        valid, test = [readers[row, seed, x, i].best for i in names], [f1[(row, x, i), i, seed] for i in names]
        for column, values in (("validation", valid), ("test", test)):
            scores.append(Score(method=row, column=column, seed=seed, value=float(np.mean(values)), x=x))
    stopped = [len(rounds.new) < most for (row, _), rounds in histories.items() if row == "IMM"]
    note = f"{sum(stopped)} of {len(stopped)} seeds stopped before K = {most}, as no domain improved"
    return {
        "scores": scores,
        "claims": state_rounds(most, shown),
        "payload": {"x": "largest number of rounds K", "above": "Single"},
        "notes": [*make_notes(models, most), note],
        "training_seconds": models.seconds,
    }


def state_rounds(most: int, shown: Iterable[str]) -> list[Claim]:
    """State the claims of Figure 3 with up to ``most`` rounds. No rounds are Single, whose number is in Table 1."""
    few, on_test = min(PRINTED_ROUNDS, most), {"columns": ["test"]}
    printed = {"printed": papers.printed_gap("imm/table1", "IMM", "Single", "AVE.")} if few == PRINTED_ROUNDS else {}
    rise, flat = f"{few} rounds of IMM are better than none", f"later rounds change F1 by at most {FLAT:g}"
    claims = [Claim(text=rise, above=f"IMM, {few}", below="IMM, 0", primary=True, **on_test, **printed)]
    text, beside = f"{few} rounds of IMM are better than as many without teachers", {"control": True, "beside": True}
    if UNTAUGHT in shown:
        claims.append(Claim(text=text, above=f"IMM, {few}", below=f"{UNTAUGHT}, {few}", **beside, **on_test))
    if most > few:
        claims.append(Claim(text=flat, above=f"IMM, {most}", below=f"IMM, {few}", within=FLAT, **on_test))
    return claims


def table2(preset: Preset) -> Plan:
    """Make Table 2: F1 of each method on one domain's clean questions, AddSent and AddOneSent; empty without these."""
    if not preset.data.adversarial:
        return {}
    models, _ = yield from train_methods(preset, preset.imm.max_rounds)
    adversarial, rounds = preset.data.adversarial.domain, preset.imm.max_rounds
    sets = {name: name for name in ADVERSARIAL_SETS}
    parts = yield from shared.answer_table(models, lambda domain: sets if domain == adversarial else {})
    claims = [
        state_imm_better("Single", rounds, f" on {name}", columns=[name], primary=name == "AddSent")
        for name in ADVERSARIAL
    ]
    more = {"above": "IMM", "below": "Single", "than": ["IMM", "Single"], "than_columns": ["clean"]}
    text = "IMM gains more over Single on {} than on clean questions"
    claims += [Claim(text=text.format(name), columns=[name], **more) for name in ADVERSARIAL]
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
