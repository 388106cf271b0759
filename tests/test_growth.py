"""Tables against the number of training examples."""

import pytest

from helpers import engine, papers
from helpers.notebooks.session import preset_for
from helpers.papers.card import Paper
from helpers.papers.growth import at_size, growth
from helpers.presets.load import load
from helpers.results.records import Claim, Record, Score

CLAIMS = [Claim(text=f"IMM beats {row}", above="IMM", below=row) for row in ("BAM", "raw logits")]
RUN = {"commit": "abc", "dirty": False, "device": "a CPU", "versions": {}, "seconds": 1.0, "parameters": {}}


def points_of(artefact, values):
    """Points and parts of a paper's table with scores by method and column; few examples have no raw logits."""

    def table(preset):
        yield []
        rows = {row for row, _ in values if preset.data.train_size >= 24 or row != "raw logits"}
        scores = [Score(method=m, column=c, seed=0, value=value) for (m, c), value in values.items() if m in rows]
        return {"scores": scores, "claims": [claim for claim in CLAIMS if claim.below in rows]}

    preset = load("smoke").model_copy(update={"sizes": [1 / 3, 1.0]})
    paper = Paper("imm", "Liu: mutual", growth={artefact: (table, "data")})
    parts = engine.run(growth(paper, preset), preset.engine)
    Record.model_validate({**parts, "artefact": "imm/growth", "kind": "curve", "preset": "smoke", "run": RUN})
    return {(score.method, score.column, score.x): score.value for score in parts["scores"]}, parts


def test_each_seeds_mean_by_the_number_of_examples():
    values = {("Mix", "a"): 1.0, ("IMM", "a"): 60.0, ("IMM", "b"): 70.0, ("BAM", "a"): 50.0, ("BAM", "b"): 51.0}
    points, parts = points_of("table1", values | {("raw logits", "a"): 2.0})
    # A row that no claim compares, and one that a size lacks, are left out.
    means = {"IMM": 65.0, "BAM": 50.5}
    assert points == {(method, "IMM, Table 1", x): value for x in (8, 24) for method, value in means.items()}
    assert parts["title"] == "Liu: F1 by the number of training examples"
    numbers = "IMM, Table 1: 8 training examples per domain or task on average, 1 seed"
    assert parts["notes"] == [numbers, numbers.replace("8", "24")]


def test_columns_without_an_average_are_panels():
    points, _ = points_of("table2", {(m, c): 50.0 for m in ("IMM", "BAM") for c in ("Dev", "AddSent")})
    assert {column for _, column, _ in points} == {"Dev", "AddSent"} and len(points) == 8


SIZES = {  # the numbers of the records of preset study, at a third of the training examples and at three times as many
    "imm": {"data.train_share": (0.0667, 0.6), "training.epochs": (8.0, 2.0), "imm.controls": (False, False)},
    "a2d": {"data.train_size": (500, 4500), "training.epochs": (2.2, 0.55), "mnemonic.epochs": (3.4, 0.85)},
    "hrkd": {"mnli.train_size": (33, 300), "reviews.train_size": (27, 240), "training.epochs": (9.0, 2.25)},
    "mtdnn_kd": {"tasks.train_times": (0.3333, 3.0), "training.epochs": (6.0, 1.5), "mtdnn_kd.tuning_epochs": (8, 2)},
    "mtdnn": {"data.train_size": (267, 2400), "tasks.train_times": (0.3333, 3.0), "training.epochs": (4.0, 1.0)},
}
SIZES["hrkd"]["hrkd.epochs"] = (9.0, 2.25)


@pytest.mark.parametrize("paper", [paper for paper in papers.ALL if paper.growth], ids=lambda paper: paper.key)
def test_sizes_of_study(paper):
    preset = preset_for(paper.notebooks[0].name, {"preset": "study"})
    small, same, large = (at_size(preset, size) for size in preset.sizes)
    assert same == preset and small.seeds == large.seeds == 5
    for key, values in SIZES[paper.key].items():
        section, _, name = key.partition(".")
        assert (getattr(getattr(small, section), name), getattr(getattr(large, section), name)) == values, key
