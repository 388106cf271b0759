"""Records: written and read back, refused with a clear line when broken, and turned into tables."""

import errno
import json
import os
import subprocess
import time

import pytest
import torch
from pydantic import ValidationError
from safetensors import SafetensorError

from helpers import files, paths
from helpers.files import fingerprint
from helpers.papers.card import Artefact, Paper
from helpers.results import comparisons, html, provenance, tables
from helpers.results.records import Record, RecordError, Score, example_key, printed, read, read_all, write

RUN = {
    "commit": "0123456789abcdef",
    "dirty": False,
    "device": "a CPU, 2 threads",
    "versions": {"python": "3.11.7"},
    "seconds": 71.0,
    "peak_memory_mb": 900,
    "parameters": {"preset": "mini", "seed": 0, "learning_rate": 2e-3},
}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def small(**changes) -> Record:
    """Two methods, two columns, two seeds; only Single on ``a`` differs between seeds."""
    values = {("Single", "a"): (40, 60), ("Single", "b"): (70, 70), ("Mix", "a"): (55, 55), ("Mix", "b"): (60, 60)}
    content = {
        "artefact": "imm/table1",
        "preset": "mini",
        "title": "A small table",
        "unit": "F1",
        "baselines": ["Single"],
        "scores": [
            {"method": method, "column": column, "seed": seed, "value": value, "metric": "F1"}
            for (method, column), pair in values.items()
            for seed, value in enumerate(pair)
        ],
        "run": RUN,
    }
    return Record.model_validate(content | changes)


def test_written_and_read_back(results):
    scores = [Score(method="Mix", column="a", seed=0, value=200 / 3)]
    examples = {example_key("Mix", "a", 0): [100.0, 100.0, 0.0], example_key("Mix", "a", 1): [100.0, 0.0, 200 / 3]}
    scores.append(Score(method="Mix", column="a", seed=1, value=500 / 9))
    record = small(
        scores=[score.model_dump() for score in scores],
        baselines=[],
        examples=examples,
        examples_of={"a": fingerprint("1", "2", "3")},
        payload={"note": "é", "many": list(range(100))},
        paper=[row.model_dump() for row in printed("imm/table1")],
        notes=["two seeds, CPU"],
    )
    path = write(record)
    assert path == results / "mini" / "imm" / "table1.json"
    assert read(path) == record
    assert record.scores[0].value == 66.666667
    first = path.read_bytes()
    write(read(path))
    assert path.read_bytes() == first
    lines = first.decode().splitlines()
    assert '"Mix|a|0": [100, 100, 0], "Mix|a|1": [100, 0, 66.7]' in first.decode()
    assert sum('"column": "SQuAD"' in line for line in lines) == 8
    assert not [line for line in lines if line.count('"method"') > 1]


def test_a_record_without_a_kind_is_a_table_and_written_as_one():
    path = write(small())
    assert path.read_text().splitlines()[1:3] == [' "artefact": "imm/table1",', ' "kind": "table",']
    path.write_text(path.read_text().replace(' "kind": "table",\n', ""))
    assert read(path).kind == "table"


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "No space left on device; free some space"),
        (errno.EACCES, "Permission denied$"),
    ],
)
def test_what_cannot_be_written_names_the_file_and_asks_for_space_where_it_is_missing(
    results, monkeypatch, number, says
):
    def refused(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "replace", refused)
    with pytest.raises(OSError, match=rf"cannot write .*table1\.json: .*{says}"):
        write(small())
    assert list((results / "mini" / "imm").iterdir()) == []


@pytest.mark.parametrize(("number", "asked"), [(errno.ENOSPC, True), (errno.EACCES, False)])
def test_an_error_that_has_its_number_in_its_text_alone_asks_for_space_too(number, asked):
    error = files.unwritten("save x", SafetensorError(f"{os.strerror(number)} (os error {number})"))
    assert ("free some space" in str(error)) is asked


def test_fingerprints_stand_for_texts_in_their_order():
    assert fingerprint("1", "2", "3") == fingerprint(1, 2, 3) == "ad53e8806d17c82d"
    assert fingerprint("2", "1") != fingerprint("1", "2")


def test_a_killed_write_leaves_the_old_record(results, monkeypatch):
    path = write(small())

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write(small(title="another"))
    assert read(path).title == "A small table"
    assert [file.name for file in path.parent.iterdir()] == ["table1.json"]


def test_all_records_in_the_order_of_the_papers(results):
    for artefact in ("mtdnn/table1", "imm/table1", "imm/figure9", "a2d/table1", "imm/similarity", "corpora/overview"):
        write(small(artefact=artefact))
    (paths.models("mini")).mkdir()
    (paths.models("mini") / "weights.json").write_text("{}")
    order = {"corpora": ["overview"], "imm": ["similarity", "table1"], "a2d": ["table1"]}
    papers = [Paper(key, key, artefacts=tuple(Artefact(name, name) for name in names)) for key, names in order.items()]
    found = [record.artefact for record in read_all("mini", papers)]
    assert found == ["corpora/overview", "imm/similarity", "imm/table1", "imm/figure9", "a2d/table1", "mtdnn/table1"]
    assert read_all("lab", papers) == []
    assert [record.artefact for record in read_all("mini")] == sorted(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["scores"][3].update(value="high"), r"scores\[3\].value: Input should be a valid number"),
        (lambda c: c["scores"][0].pop("seed"), r"scores\[0\].seed: Field required"),
        (lambda c: c["run"].update(colour="red"), r"run.colour: Extra inputs are not permitted"),
        (lambda c: c["scores"].append(c["scores"][0]), "two rows for Single, a, seed 0"),
        (lambda c: c.update(baselines=["FT"]), "'FT', but no score is of that method"),
        (lambda c: c.update(examples={"Mix|a|0": [55]}), "no fingerprint for column 'a'"),
        (lambda c: c.update(examples={"Mix|a|7": [55]}, examples_of={"a": "1"}), "scores has no such row"),
        (lambda c: c.update(examples={"Mix|a|0": [50, 0]}, examples_of={"a": "1"}), "averages 25.00, its score 55"),
        (
            lambda c: c.update(examples={"Mix|a|0": [55], "Mix|a|1": [55, 55]}, examples_of={"a": "1"}),
            "2 values, others of its column 1",
        ),
        (
            lambda c: c.update(kind="plot"),
            "kind: Input should be 'table', 'bars', 'curve', 'scatter', 'matrix', 'heatmaps', 'case' or",
        ),
        (lambda c: c.update(kind="curve"), "kind is 'curve', which needs a score with x"),
        (lambda c: c.update(payload={"scale": "square"}), "payload: scale can only be 'log', and only where every x"),
        (lambda c: c["scores"][0].update(x=0) or c.update(payload={"scale": "log"}), "only where every x is above 0"),
        (lambda c: c.update(kind="matrix"), "'matrix', which needs the same rows as columns"),
        (lambda c: c.update(kind="heatmaps"), "'heatmaps', which needs panels of rows of numbers in its payload"),
        (lambda c: c.update(kind="heatmaps", payload={"panels": {"t": {"r": {"c": "1"}}}}), "needs panels of rows of"),
        (lambda c: c.update(kind="heatmaps", payload={"panels": {"t": {"r": {}}}}), "needs panels of rows of numbers"),
        (lambda c: c.update(kind="case", payload={"question": "?"}), "'case', which needs readers in its payload"),
        (lambda c: c.update(kind="profile"), "'profile', which needs sizes, passage_lengths, question_lengths"),
    ],
)
def test_a_broken_record_names_file_and_field(change, message):
    path = write(small())
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(RecordError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert "run the notebook that writes it" in str(caught.value)


def test_what_is_not_a_record_at_all(tmp_path):
    path = write(small())
    path.write_text(path.read_text()[:40])
    with pytest.raises(RecordError, match=r"line \d+, column \d+ is not JSON"):
        read(path)
    with pytest.raises(RecordError, match="there is no such record yet"):
        read(tmp_path / "none.json")


def test_numbers_must_be_finite():
    with pytest.raises(ValidationError, match="finite"):
        Score(method="Mix", column="a", seed=0, value=float("nan"))
    with pytest.raises(ValidationError, match="finite"):
        small(payload={"cosine": float("inf")})


def test_folders_bear_the_name_of_the_preset(tmp_path, results):
    file = tmp_path / "my.toml"
    file.write_text('name = "mine"\n')
    assert paths.record(file, "imm/table1") == results / "mine" / "imm" / "table1.json"
    assert paths.record("mini", "imm/table1", "svg") == results / "mini" / "imm" / "table1.svg"
    for bad, message in (("../else", "names a folder"), (str(tmp_path / "none.toml"), "no such preset file")):
        with pytest.raises(ValueError, match=message):
            paths.results(bad)


def test_run_tells_commit_and_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    root = tmp_path / "root"
    (root / "results").mkdir(parents=True)
    (root / "code.py").write_text("1\n")
    (root / "results" / "old.json").write_text("1\n")
    monkeypatch.setattr(paths, "ROOT", root.resolve())

    def run() -> provenance.Run:
        return provenance.run_info({"seed": 0}, time.perf_counter() - 2.0, provenance.code())

    assert (run().commit, run().dirty) == ("unknown", True)
    for name in [name for name in os.environ if name.startswith("GIT_")]:  # a hook that runs the tests sets some
        monkeypatch.delenv(name)
    settings = ("user.name=a", "user.email=a@example.org", "core.hooksPath=none", "commit.gpgSign=false")
    git = ["git", "-C", str(root), *(word for setting in settings for word in ("-c", setting))]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(git + command, check=True)
    (root / "results" / "old.json").write_text("2\n")
    (root / "new.txt").write_text("not tracked\n")
    clean = run()
    assert (len(clean.commit), clean.dirty) == (40, False)
    assert clean.seconds == pytest.approx(2.0, abs=1.0)
    assert clean.parameters == {"seed": 0} and clean.peak_memory_mb > 10 and "threads" in clean.device
    (root / "code.py").write_text("2\n")
    assert run().dirty


def test_the_papers_own_averages():
    record = small(paper=[row.model_dump() for row in printed("imm/table1")])
    table = tables.printed_frame(record)
    assert table.loc["FT", "SQuAD"] == "89.52" and table.loc["IMM", comparisons.AVERAGE] == "77.94"
    # 77.94 - 77.11, where the columns give 77.936 - 77.114
    assert comparisons.paper_difference(record, "IMM", "BAM", []) == pytest.approx(0.83)
    assert comparisons.paper_difference(record, "IMM", "BAM", ["SQuAD"]) == pytest.approx(-0.06)
    assert printed("imm/none") == []
    without = [row.model_dump() for row in printed("imm/table1") if row.column != comparisons.AVERAGE]
    assert list(tables.printed_frame(small(paper=without))[comparisons.AVERAGE])[-2:] == ["77.11", "77.94"]  # computed
    assert list(tables.printed_frame(small(paper=without[:-1])).loc["IMM"])[-2:] == ["–", "–"]


@pytest.mark.parametrize("artefact", ["imm/table1", "hrkd/table2", "hrkd/table3", "hrkd/table4"])
def test_the_papers_rows_give_its_averages(artefact):
    # That they come out shows that the numbers were copied rightly.
    means = comparisons.paper_means(small(paper=[row.model_dump() for row in printed(artefact)]))
    averages = means.pop(comparisons.AVERAGE)
    gaps = (means.mean(axis=1) - averages).abs()
    # Half a unit of the last place; 84.14 is printed as 84.2 for HRKD-teacher in Table 2, and only there.
    assert list(gaps.index[gaps > (0.0051 if artefact == "imm/table1" else 0.051)]) == (
        ["HRKD-teacher"] if artefact == "hrkd/table2" else []
    )


def test_the_papers_numbers_have_the_decimals_that_it_prints():
    def shown(artefact: str, row: str) -> list[str]:
        record = small(paper=[row.model_dump() for row in printed(artefact)], average=False, unit="examples")
        return [*tables.printed_frame(record).loc[row]]

    assert shown("hrkd/table1", "Books") == ["1,631", "170", "199"]
    assert shown("hrkd/table4", "- Comp-Agg")[0] == "86.3" and shown("imm/table1", "Single")[0] == "88.30"
    assert sum(row.value for row in printed("hrkd/table1") if row.column == "#Train") == 353431 + 6480


@pytest.mark.parametrize("apart", [0.01, 20.0])
def test_the_best_is_most_or_least_as_the_metric_says_where_that_is_certain(apart):
    values = {
        "accuracy": (90, 80),
        "ms an example, batch 1": (9, 3),
        "thousand parameters": (109000, 14350),
        "MB": (438, 57.4),
        "times faster than its teacher": (1, 3),
        "examples": (100, 200),
    }
    # Over three seeds the second value goes up and down by a share of it, and so does the difference.
    scores = [
        {"method": method, "column": "here", "seed": seed, "value": value + shift * value * apart, "metric": metric}
        for metric, (first, second) in values.items()
        for seed, shift in enumerate((-1, 0, 1))
        for method, value, shift in (("teacher", first, 0), ("student", second, shift))
    ]
    record = small(unit="accuracy", baselines=[], scores=scores)
    best = {
        own.unit: [row for row, text in tables.frame(own)["here"].items() if "**" in text]
        for own in comparisons.by_metric(record)
    }
    sure = {"accuracy": ["teacher"], "examples": []}
    assert best == {metric: sure.get(metric, ["student"]) if apart < 1 else [] for metric in values}


def test_table_of_means_and_intervals():
    table = tables.frame(small())
    # Single's two seeds differ by 20, so an error of 10, times 12.706, the t quantile of one degree of freedom: more
    # than F1 can be. Nothing is certainly best in a and on average.
    assert table.to_dict("index") == {
        "Single": {"a": "50.0 (0 to 100)", "b": "**70.0** (70.0 to 70.0)", "AVE.": "60.0 (0 to 100)"},
        "Mix": {"a": "55.0 (55.0 to 55.0)", "b": "60.0 (60.0 to 60.0)", "AVE.": "57.5 (57.5 to 57.5)"},
    }


def test_rows_of_fewer_seeds_are_named_and_sizes_have_no_interval():
    of_single = [Score(method="Single", column="a", seed=seed, value=5, metric="MB") for seed in range(2)]
    record = small().model_copy(update={"scores": [*of_single, of_single[0].model_copy(update={"method": "Mix"})]})
    assert comparisons.fewer_seeds(record) == {1: ["Mix"]} and comparisons.fewer_seeds(small()) == {}
    assert "1 of 2 seeds: Mix. Their means do not compare" in html.table_html(record)
    (own,) = comparisons.by_metric(record)
    assert tables.frame(own).to_dict("index") == {"Single": {"a": "5.0"}, "Mix": {"a": "5.0"}}


def test_numbers_have_a_real_minus_and_zero_has_none():
    assert [tables.number(value, 1) for value in (-1234.56, -0.04, 0.04, 2)] == ["−1,234.6", "0.0", "0.0", "2.0"]


def test_differences_to_a_baseline():
    table = tables.differences(small(), "Single")
    assert list(table.index) == ["Mix"]
    assert table.loc["Mix", "a"] == "+5.0 (0.65)"  # 15 and -5: t = 0.5, and P(t < 0.5) = 1/2 + arctan(1/2) / pi
    assert table.loc["Mix", "b"] == "−10.0 (<0.01)"
    assert table.loc["Mix", "AVE."] == "−2.5 (0.35)"
    with pytest.raises(ValueError, match="no 'FT' to compare with; there are Single, Mix"):
        tables.differences(small(), "FT")


def test_a_missing_score_is_a_dash_and_takes_its_average_along():
    scores = [row.model_dump() for row in small().scores if (row.method, row.column) != ("Mix", "b")]
    table = tables.frame(small(scores=scores))
    assert (table.loc["Mix", "b"], table.loc["Mix", "AVE."]) == ("–", "–")
    assert tables.differences(small(scores=scores), "Single").loc["Mix", "b"] == "–"


def test_intervals_over_examples_where_there_is_one_seed():
    scores = [Score(method="Mix", column="a", seed=0, value=50.0).model_dump()]
    examples = {"Mix|a|0": [0.0, 100.0]}
    record = small(scores=scores, baselines=[], examples=examples, examples_of={"a": "1"})
    [(caption, table)], [] = tables.parts(record.model_copy(update={"unit": "points"}))
    assert caption == "Ours, points; in brackets 95 % interval over examples, one seed"
    assert table.loc["Mix", "a"] == "50.0 (−585 to 685)"  # an error of 50
    [(caption, table)], [] = tables.parts(small(scores=scores, baselines=[]))
    assert (caption, table.loc["Mix", "a"]) == ("Ours, F1", "50.0")


def test_what_intervals_are_over_where_rows_have_not_the_same_seeds():
    scores = [score for score in small().scores if score.column == "a" and (score.method, score.seed) != ("Mix", 1)]
    examples = {"Single|a|0": [40.0, 40.0], "Single|a|1": [60.0, 60.0], "Mix|a|0": [55.0, 55.0]}
    kept = {"scores": [score.model_dump() for score in scores], "examples": examples, "examples_of": {"a": "1"}}
    [(caption, _)], _ = tables.parts(small(**kept))
    assert caption == "Ours, F1; in brackets 95 % interval over seeds and examples; of one seed, over examples"
