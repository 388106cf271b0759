"""IMM's Table 3 after all rounds, how good its teachers are, and how sure those of Table 1."""

import numpy as np
import pandas as pd
import pytest

from helpers.papers import reading, rows
from helpers.papers.imm import ablations, algorithm, tables
from helpers.presets.load import load
from helpers.training import engine

SINGLES = "teachers of round 0"


@pytest.fixture
def preset(results):
    known = load("smoke", "imm", seeds=2)
    return known.changed("imm", controls=True, other_seeds=1, rounds=2, ablation_rounds=1)


def test_rows_after_all_rounds_are_controls_of_some_seeds(preset):
    assert list(ablations.later_plans(preset)) == [("IMM", 0), ("-KD1, KD2", 0), (SINGLES, 0)]
    assert [seed for _, seed in ablations.later_plans(preset.changed("imm", other_seeds=0))] == [0, 1] * 3
    assert ablations.later_plans(preset.changed("imm", controls=False)) == {}
    assert ablations.later_plans(preset.changed("imm", rounds=1)) == {}


def test_what_later_teachers_are_worth(preset):
    trained = ablations.later_rounds(preset)
    assert {row: [*seeds] for row, seeds in trained.rows.items()} == {row: [0] for row in ablations.LATER}
    said = [(claim.text, claim.above, claim.below, claim.control) for claim in ablations.later(trained)["claims"]]
    assert said == [
        ("IMM beats itself without KD1, KD2 after 2 rounds", "IMM", "-KD1, KD2", True),
        (f"IMM beats itself with {SINGLES} after 2 rounds", "IMM", SINGLES, True),
    ]
    assert trained.histories["IMM", 0].teachers[-1] != trained.histories[SINGLES, 0].teachers[-1]
    parts = ablations.leads(trained)
    points = {(s.method, s.column, s.metric): s.value for s in parts["scores"]}
    assert {row for row, _, _ in points} == {"IMM", SINGLES}  # none gains over itself
    levels = {}
    for row, rounds in ((row, rounds) for (row, _), rounds in trained.histories.items()):
        for name, readers in (("new", rounds.new[-1]), ("teacher", {i: t for i, (t,) in rounds.teachers[-1].items()})):
            f1 = reading.tested(preset, {(name, i): reader for i, reader in readers.items()})
            levels |= {(row, name, i): value for (_, i), value in f1.items()}
    for (row, domain, metric), value in points.items():
        who = "teacher" if metric == ablations.LEAD else "new"
        apart = levels[row, who, domain] - levels["-KD1, KD2", "new", domain]
        assert value == pytest.approx(apart)
    average = np.mean([value for (row, who, _), value in levels.items() if (row, who) == ("IMM", "teacher")])
    assert f"; of the teachers of each row: {average:.1f} (IMM), " in parts["notes"][-2]
    assert ablations._averages({"A": [1.0, 2.0], "B": [3.0], "C": [1.5]}) == "1.5 (A; C), 3.0 (B)"


def test_table_1_says_how_sure_its_teachers_are_and_what_rows_cost(preset):
    trained = rows.Trained.of(preset, ["Single"])
    done = engine.run_plans({0: algorithm.baselines(preset, 0, ["Single"])}, preset.engine)
    trained.add_rows(0, done[0])
    parts = {"training": [0.6, 0.85, 0.7], "validation": [0.3, 0.4, 0.5]}
    sure = pd.DataFrame({f"gold probability, {part} questions": values for part, values in parts.items()})
    notes = tables.table1(trained, sure)["notes"]
    assert notes[-1] == (
        "probability that readers of Single give right answers, by domain: training questions 0.60 to 0.85, "
        "validation questions 0.30 to 0.50"
    )
    steps = sum(reader.steps for reader in trained.rows["Single"][0].values())
    assert notes[1] == f"trainings for one seed of a row by itself, and their steps in all: Single: 3 ({steps:,})"
