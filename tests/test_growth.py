"""Tables of several presets against the number of their training examples."""

import pytest

from helpers import papers
from helpers.papers.card import Paper
from helpers.papers.growth import growth, regimes
from helpers.presets.load import load
from helpers.results import figures
from helpers.results.records import Record, RecordError, write

RUN = {"commit": "abc", "dirty": False, "device": "a CPU", "versions": {}, "seconds": 1.0, "peak_memory_mb": 1}
CLAIM = {"text": "IMM beats BAM", "above": "IMM", "below": "BAM"}


pytestmark = pytest.mark.usefixtures("results")


def save(artefact, name, values, preset, **more):
    scores = [
        {"method": method, "column": column, "seed": seed, "value": value}
        for (method, column, seed), value in values.items()
    ]
    run = RUN | {"parameters": {"preset": preset.model_dump(mode="json", exclude={"limits"})}}
    parts = {
        "artefact": artefact,
        "preset": name,
        "title": "IMM, Table 1: F1",
        "unit": "F1",
        "run": run,
        "scores": scores,
    }
    write(Record.model_validate(parts | {"claims": [CLAIM]} | more))


def test_each_seeds_mean_by_the_number_of_examples():
    values = {("Mix", "news", 0): 1.0, ("IMM", "news", 0): 60.0, ("IMM", "search", 0): 70.0, ("BAM", "news", 0): 50.0}
    few, more = (load("smoke", **{"data.train_size": size}) for size in (24, 8))
    first = values | {("BAM", "search", 0): 51.0, ("IMM", "news", 1): 99.0}
    best = {("BAM, best of 4", column, 0): 52.0 for column in ("news", "search")}
    claims = [CLAIM, {"text": "IMM beats BAM, best of 4", "above": "IMM", "below": "BAM, best of 4"}]
    save("imm/table1", "first", first | best, few, claims=claims, notes=["4 epochs", "and more"])
    save("imm/table1", "second", values, more)
    paper = Paper("imm", "Liu: mutual", growth={"table1": "data"})
    parts = growth(paper, ["first", "second", "third"])
    points = [(s.method, s.column, s.seed, s.x, s.value) for s in parts["scores"]]
    # Rows that no claim compares or that another preset lacks, and seeds that lack a column, are left out.
    table = "IMM, Table 1"
    first = [("IMM", table, 0, 24.0, 65.0), ("BAM", table, 0, 24.0, 50.5)]
    assert points == [*first, ("IMM", table, 0, 8.0, 65.0)]
    assert parts["notes"] == [
        "IMM, Table 1, preset first: 24 training examples a domain or task on average, 2 seeds; 4 epochs",
        "IMM, Table 1, preset second: 8 training examples a domain or task on average, 1 seed",
    ]
    Record.model_validate({**parts, "artefact": "imm/growth", "preset": "first", "run": RUN | {"parameters": {}}})


def test_columns_that_have_no_average_are_panels_and_no_record_is_said():
    values = {("IMM", "Dev", 0): 60.0, ("IMM", "Test", 0): 70.0, ("BAM", "Dev", 0): 50.0, ("BAM", "Test", 0): 50.0}
    save("imm/table1", "first", values, load("smoke"), average=False)
    paper = Paper("imm", "Liu: mutual", growth={"table1": "data"})
    assert {(s.column, s.value) for s in growth(paper, ["first"])["scores"] if s.method == "IMM"} == {
        ("Dev", 60.0),
        ("Test", 70.0),
    }
    with pytest.raises(RecordError, match="imm: no records in the presets third: run their notebooks first"):
        growth(paper, ["third"])
    other = {"text": "A beats B", "above": "A", "below": "B"}
    save("imm/table1", "second", {("A", "Dev", 0): 1.0, ("B", "Dev", 0): 2.0}, load("smoke"), claims=[other])
    with pytest.raises(RecordError, match="the presets first, second have no row in common that a claim compares"):
        growth(paper, ["first", "second"])


def test_scatters_of_all_sizes_stand_together():
    def scatter(name, size, table="leads", title="T: gains"):
        scores = [
            {"method": row, "column": domain, "seed": 0, "value": value + shift, "metric": metric}
            for metric, value in {"gained": 1.0, "lead": -2.0}.items()
            for row in ("IMM", "raw logits")
            for domain, shift in {"news": 0.0, "search": 1.0}.items()
        ]
        preset = load("smoke", **{"data.train_size": size}).model_dump(mode="json", exclude={"limits"})
        run = RUN | {"parameters": {"preset": preset}}
        base = {"artefact": f"imm/{table}", "preset": name, "title": title, "unit": "F1", "kind": "scatter", "run": run}
        write(Record.model_validate(base | {"scores": scores}))

    scatter("first", 24)
    scatter("second", 8)
    scatter("first", 24, "leads_later", "T after all rounds: gains")
    paper = Paper("imm", "Liu: mutual", regimes={"leads": "data", "leads_later": "data"})
    parts = regimes(paper, ["first", "second"])
    assert {(s.method, s.column, s.metric): s.value for s in parts["scores"]} == {
        (f"{number} training examples a domain{beyond}", row, metric): value
        for number, beyond in ((24, ""), (8, ""), (24, " after all rounds"))
        for row in ("IMM", "raw logits")
        for metric, value in {"gained": 1.5, "lead": -1.5}.items()
    }
    more = {"artefact": "imm/regimes", "preset": "first", "run": RUN | {"parameters": {}}}
    assert figures.draw(Record.model_validate(parts | more)).axes


def test_sizes_of_the_study_are_thirds_of_each_other_and_steps_alike():
    papers_with = [paper for paper in papers.ALL if paper.growth]
    assert len(papers_with) == 5
    small, middle, large = (load(name, "imm") for name in load("study").sizes)
    shares = [preset.data.train_share for preset in (small, middle, large)]
    assert shares == pytest.approx(
        [middle.data.train_share / 3, middle.data.train_share, middle.data.train_share * 3], 1e-2
    )
    assert [preset.training.epochs for preset in (small, middle, large)] == [8.0, 4.0, 2.0]
    for key in ("mtdnn_kd", "mtdnn", "hrkd"):
        epochs = [load(name, key).training.epochs for name in load("study").sizes]
        assert epochs == pytest.approx([2 * epochs[1], epochs[1], epochs[1] / 2])
