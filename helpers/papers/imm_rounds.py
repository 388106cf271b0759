"""What IMM's rounds show beyond the paper: how many readers were accepted, and whether better teachers teach more."""

import itertools
from collections import Counter

import numpy as np

from helpers.engine import Plan
from helpers.papers import shared
from helpers.papers.imm import CONTROLS, UNTAUGHT, Histories, make_notes
from helpers.papers.shared import Models
from helpers.results.records import Score


def count_accepted(histories: Histories) -> dict:
    """Make parts of a record: in how many domains each round's new reader was accepted."""
    scores = [
        Score(method=row, column=f"round {k + 1}", seed=seed, value=sum(new[i] is not old[i] for i in new))
        for (row, seed), history in histories.items()
        for k, (old, new) in enumerate(itertools.pairwise(history.theta))
    ]
    runs, counts = len(histories), Counter(score.column for score in scores)
    ended = ", ".join(f"{column}: {runs - number} of {runs}" for column, number in counts.items() if number < runs)
    note = f"a run ends where no domain improves, and is not in later means; ended before {ended}"
    domains = len(next(iter(histories.values())).theta[0])
    return {"scores": scores, "unit": f"domains of {domains}", "notes": [note] if ended else []}


GAINED, LEAD = "F1 gained by the divergence", "F1 of the teachers above the reader without it"


def leads(models: Models, histories: Histories) -> Plan:
    """Compare what the divergence of Eqs. 5 and 9 gains with how much better its teachers are (not in the paper).

    Rows are those of Table 3 that have all of it and learn from all domains. Their last new readers are compared,
    accepted or not, with those of the row without any divergence.
    """
    readers = {
        (row, seed, who, i): model
        for (row, seed), history in histories.items()
        for who, of_round in (("new", history.new[-1]), ("teacher", history.theta[len(history.new) - 1]))
        for i, model in of_round.items()
    }
    f1, scores, levels = (yield from shared.test_f1(models.preset, readers)), [], {}
    for row, seed in histories:
        for i in models.preset.data.domains if "-KD" not in row and "sources" not in CONTROLS.get(row, {}) else ():
            untaught, teacher = f1[UNTAUGHT, seed, "new", i], f1[row, seed, "teacher", i]
            levels.setdefault("without the divergence", []).append(untaught)
            levels.setdefault(f"of the teachers of {row}", []).append(teacher)
            for metric, value in ((GAINED, f1[row, seed, "new", i] - untaught), (LEAD, teacher - untaught)):
                scores.append(Score(method=row, column=i, seed=seed, value=value, metric=metric))
    means = "; ".join(f"{name} {np.mean(values):.1f}" for name, values in levels.items())
    coupled = "both axes are differences to the same reader, so an error in its score alone tilts the points upwards"
    notes = make_notes(models, models.preset.imm.ablation_rounds)
    return {"scores": scores, "notes": [*notes, f"F1: {means}", coupled]}
