"""Risk against coverage: how many answers are wrong where only the surest are given."""

import numpy as np
import pandas as pd

from helpers.answering import answer_surely
from helpers.papers.shared import Models
from helpers.records import Record
from helpers.results.figures import Picture, plain_style
from helpers.task import Plan
from helpers.training import Outputs

COVERAGES = range(10, 101, 10)  # percent of the questions
PROMISED = "expected"


def coverage(models: Models, record: Record) -> Plan:
    """Tabulate the percentage of wrong answers of each domain's best readers by that of the questions answered.

    Test questions are answered from the highest confidence on; seeds are averaged. The columns `PROMISED` have the mean
    of 1 - confidence instead: where scores are probabilities, they agree.
    """
    tasks = {}
    for name, row in record.payload["best"].items():
        for seed, of_seed in models.by_row[row].items():
            readers = dict.fromkeys((f"test/{name}", f"valid/{name}"), of_seed[name])
            label = f"confidence of {of_seed[name][0].label} in {name}"
            preset = models.preset.for_seed(seed)
            tasks[name, seed] = Outputs(preset=preset, label=label, models=readers, compute=answer_surely)
    yield tasks.values()
    rows = []
    for (name, seed), task in tasks.items():
        result = task.result()
        sure = np.array(result["confidence"])
        order = np.argsort(-sure, kind="stable")
        for column, values in {name: result["is_right"], f"{name}, {PROMISED}": sure}.items():
            for percent in COVERAGES:
                answered = np.asarray(values, float)[order][: max(1, round(percent / 100 * len(order)))]
                rows.append((column, percent, seed, 100 * (1 - answered.mean())))
    names = ["domain", "% of questions answered", "seed", "% of answers wrong"]
    return pd.DataFrame(rows, columns=names).pivot_table(index=names[1], columns=names[0], values=names[3], sort=False)


def draw_coverage(table: pd.DataFrame) -> Picture:
    """Draw the columns of `coverage`, the expected ones dashed in the colour of theirs."""
    colors = [f"C{number // 2}" for number in range(table.shape[1])]
    style = ["--" if name.endswith(PROMISED) else "o-" for name in table]
    with plain_style():
        figure = Picture(3.0)
        ax = table.plot(ax=figure.subplots(), color=colors, style=style, markersize=4, ylabel="% of answers wrong")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
