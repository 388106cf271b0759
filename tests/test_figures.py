"""Figures and the report: drawn from records alone, byte for byte the same, legible."""

import matplotlib
import nbformat
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from helpers import paths
from helpers.papers.card import Artefact, Paper
from helpers.results import claims, figures, heatmaps, report
from helpers.results.records import Record, printed, write

DOMAINS = ["news", "stories", "web"]
RUN = {
    "commit": "0123456789abcdef",
    "dirty": True,
    "device": "a CPU, 2 threads",
    "versions": {},
    "seconds": 300.0,
    "peak_memory_mb": 1900,
    "parameters": {},
}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path / "results"))


def record(artefact: str, scores: list[tuple], **more) -> Record:
    rows = [dict(zip(("method", "column", "seed", "value", "x", "metric"), score, strict=False)) for score in scores]
    base = {"artefact": artefact, "preset": "mini", "title": "Title", "unit": "F1", "scores": rows, "run": RUN}
    return Record.model_validate(base | more)


def table() -> Record:
    means = {"Single": 60, "Mix": 50}
    scores = [(m, d, seed, mean + 2 * seed) for m, mean in means.items() for d in DOMAINS for seed in (0, 1)]
    paper = [row.model_dump() for row in printed("imm/table1")]
    return record("imm/table1", scores, baselines=["Single"], notes=["two seeds, CPU"], paper=paper)


def similarity() -> Record:
    scores = [(a, b, 0, 0.9 if (i + 1) % 3 == j else 0.1) for i, a in enumerate(DOMAINS) for j, b in enumerate(DOMAINS)]
    cosines = {a: {b: 1.0 if a == b else 0.5 for b in DOMAINS} for a in DOMAINS}
    return record("imm/similarity", scores, kind="matrix", payload={"cosines": cosines})


def curve() -> Record:
    scores = [("IMM", "all", s, 50 + x + s, x) for x in (2.0, 0.0, 1.0) for s in (0, 2)]
    return record("imm/figure3", scores, kind="curve")


def ratios() -> Record:
    layers = {f"layer {m}": {"news": {str(n): 1 / (m + 1) for n in range(m + 1)}} for m in range(1, 6)}
    payload = {"panels": layers | {"domains": {"web": {"0": 0.0, "1": 0.25}}}, "x": "layer", "y": "domain"}
    return record("hrkd/table5", [], kind="heatmaps", unit="ratio", payload=payload)


def corpora() -> Record:
    histogram = {"edges": [0, 10, 30], "counts": [3, 1]}
    payload = {
        "sizes": {name: {"train": 1000, "valid": 10, "test": 20} for name in DOMAINS},
        "passage_lengths": {name: histogram for name in DOMAINS},
        "question_lengths": {name: histogram for name in DOMAINS},
        "question_words": {name: {"what": 0.75, "who": 0.25} for name in DOMAINS},
    }
    return record("corpora/overview", [], kind="profile", payload=payload)


def case() -> Record:
    view = {"answer": "a", "attention": [[1.0], [0.5]], "probabilities": {"gold": 0.5}}
    payload = {"question": ["q"], "passage": ["a", "b"], "answers": {"gold": [0, 0]}}
    return record("a2d/figure3", [], kind="case", payload=payload | {"readers": {"before": view, "after": view}})


def test_redrawn_byte_for_byte():
    for each in (table(), similarity(), curve(), ratios(), corpora(), case()):
        write(each)
    drawn = {path: path.read_bytes() for path in figures.redraw("mini")}
    assert len(drawn) == 12
    for path in drawn:
        path.unlink()
    with matplotlib.rc_context({"font.size": 20, "figure.dpi": 50, "axes.facecolor": "red"}):
        assert {path: path.read_bytes() for path in figures.redraw("mini")} == drawn
    for path, content in drawn.items():
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")
        assert b"<dc:date>" not in content and b"Software" not in content
    assert len(set(drawn.values())) == 12


def test_bars_stand_for_means_and_intervals():
    ax = figures.bar_table(table())
    assert [bar.get_height() for bar in ax.patches] == [61, 61, 61, 61, 51, 51, 51, 51]
    ends = ax.collections[0].get_segments()[0][:, 1]
    assert ends.tolist() == pytest.approx([61 - 12.7062, 61 + 12.7062], abs=1e-4)  # 60 and 62: an error of 1
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [*DOMAINS, "AVE."]
    assert ax.get_ylabel() == "F1 (95 % interval over seeds)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["Single", "Mix"]


def test_curve_runs_along_x():
    ax = figures.curve(curve(), "all")
    assert ax.lines[0].get_xydata().tolist() == [[0, 51], [1, 52], [2, 53]]
    band = ax.collections[0].get_paths()[0].vertices
    assert [band[:, 1].min(), band[:, 1].max()] == pytest.approx([51 - 12.7062, 53 + 12.7062], abs=1e-4)


def test_heat_map_numbers_can_be_read():
    ax = heatmaps.similarity_heatmap(similarity())
    image = ax.images[0]
    assert len(ax.texts) == 6  # the diagonal is left out
    for text in ax.texts:
        column, row = (int(value) for value in text.get_position())
        value = similarity_value(row, column)
        assert text.get_text() == f"{value:.2f}"
        background = np.mean(to_rgb(image.cmap(image.norm(value))[:3]))
        assert text.get_color() == ("white" if background < 0.5 else "black")
    assert {text.get_color() for text in ax.texts} == {"white", "black"}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("source domain j", "target domain i")


def test_heat_maps_share_colours_and_wrap():
    figure = heatmaps.heatmaps(ratios())
    *panels, bar = figure.axes
    assert [ax.get_title(loc="left") for ax in panels] == [f"layer {m}" for m in range(1, 6)] + ["domains"]
    assert {ax.images[0].get_clim() for ax in panels} == {(0, 0.5)} and bar.get_ylabel() == "ratio"
    # Six of at most four abreast are two rows of three.
    assert [(ax.get_subplotspec().rowspan[0], ax.get_subplotspec().colspan[0]) for ax in panels] == [
        (row, column) for row in range(2) for column in range(3)
    ]
    assert [text.get_text() for text in panels[1].texts] == ["0.33"] * 3
    assert [text.get_text() for text in panels[5].texts] == ["0.00", "0.25"]
    names = [[tick.get_text() for tick in ax.get_yticklabels()] for ax in panels]
    assert names == [["news"], [""], [""], ["news"], [""], ["web"]]  # not again beside the same
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("layer", "domain")


def test_a_scatter_shows_one_metric_against_another():
    values = {"gain": {"old": 1.0, "new": -3.0}, "lead": {"old": 2.0, "new": -1.0}}
    scores = [
        (method, column, seed, value + shift + seed, None, metric)
        for metric, of in values.items()
        for method, value in of.items()
        for column, shift in {"a": -1.0, "b": 1.0}.items()
        for seed in (0, 1)
    ]
    ax = figures.draw(record("imm/lead", scores, kind="scatter")).axes[0]
    means = {line.get_label(): (*line.get_xdata(), *line.get_ydata()) for line in ax.lines if line.get_marker() == "s"}
    assert means == {"old": (2.5, 1.5), "new": (-0.5, -2.5)}
    assert ax.get_xlabel() == "lead" and ax.get_ylabel().startswith("gain (95 % interval over seeds")
    with pytest.raises(ValueError, match="scores of two metrics"):
        record("imm/lead", [score for score in scores if score[-1] == "gain"], kind="scatter")


def test_heat_maps_keep_the_order_of_rows_and_columns_and_gaps():
    rows = {"z": {"b": 1, "a": -20.5}, "c": {"d": 1000, "a": 3}}
    [ax, _] = heatmaps.heatmaps(record("hrkd/table5", [], kind="heatmaps", payload={"panels": {"one": rows}})).axes
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["b", "a", "d"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["z", "c"]
    cells = {text.get_position(): text.get_text() for text in ax.texts}
    assert cells == {(0, 0): "1.0", (1, 0): "-20.5", (1, 1): "3.0", (2, 1): "1,000.0"}


def test_a_logarithmic_axis_has_plain_numbers():
    scores = [("student", "all", 0, 50 + x, x) for x in (2.5, 20.0, 14350.2)]
    ax = figures.curve(record("hrkd/figure2", scores, kind="curve", payload={"scale": "log"}), "all")
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "x"
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["2.5", "20", "14,350"]
    assert not any(tick.tick1line.get_visible() for tick in ax.xaxis.get_minor_ticks())


def similarity_value(row: int, column: int) -> float:
    return 0.9 if (row + 1) % 3 == column else 0.1


def test_lengths_are_densities():
    ax = figures.lengths(corpora(), "question_lengths")
    values = ax.patches[0].get_data().values
    assert values.tolist() == [7.5, 1.25]  # 75 % over 10 words, 25 % over 20
    assert ax.get_xlabel() == "words in a question"


def test_question_words_are_percentages():
    ax = heatmaps.question_words(corpora())
    assert sorted({text.get_text() for text in ax.texts}) == ["25", "75"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == DOMAINS


def test_functions_draw_on_axes_that_they_are_given():
    given = Figure().subplots(1, 2)
    assert figures.bar_table(table(), ax=given[0]) is given[0]
    assert figures.curve(curve(), "all", ax=given[1]) is given[1]
    cosines = heatmaps.similarity_heatmap(similarity(), raw=True)
    assert [text.get_text() for text in cosines.texts] == ["0.50"] * 6


def test_a_missing_payload_is_named():
    with pytest.raises(ValueError, match=r"profile', which needs sizes, passage_lengths, .* in its payload"):
        record("corpora/overview", [], kind="profile", payload={"sizes": {"news": {}}})
    with pytest.raises(ValueError, match="imm/table1: this record has no scores to draw"):
        figures.draw(record("imm/table1", []))


def test_verdicts_are_computed():
    against, seeds = claims.verdict(table())
    assert against.startswith("Mix is 10.0 F1 below Single on average (95 % interval −10.0 to −10.0 over 2 seeds; ")
    assert against.endswith("P(Mix > Single) <0.01). In the paper the difference is +0.86.")
    assert seeds == "2 seeds: fewer than the 5 that a verdict needs."
    equal = record("imm/table1", [(m, "a", s, 50 + s) for m in ("Single", "Mix") for s in (0, 1)], baselines=["Single"])
    assert (
        "Mix is level with Single on a (95 %" in claims.verdict(equal)[0]
        and "does not tell them apart" in claims.verdict(equal)[0]
    )
    means = {("A", "x"): 60, ("A", "y"): 60, ("B", "x"): 50, ("B", "y"): 60}
    scores = [(*key, seed, mean) for key, mean in means.items() for seed in range(5)]
    found = claims.verdict(record("a2d/weights", scores, baselines=["A"], average=False))
    apart = [sentence.partition(" (95")[0] for sentence in found]
    assert apart == ["B is 10.0 F1 below A on x", "B is level with A on y"]
    assert claims.verdict(similarity()) == [
        "Nearest to news: stories (0.90), to stories: web (0.90), to web: news (0.90)."
    ]
    assert claims.verdict(case()) == []  # a case has no scores to compare
    assert claims.verdict(corpora())[0].startswith("3 domains with 3,000 questions to train on: news 1,000, ")


def test_run_line():
    line = "commit 0123456789 with changes · a CPU, 2 threads · 5 min · 1,900 MiB · seeds 0, 1 · two seeds, CPU"
    assert report.run_line(table()) == line


def test_report_is_one_page_without_code_or_links(tmp_path, monkeypatch):
    papers = [
        Paper("corpora", "The corpora", artefacts=(Artefact("overview", ""),)),
        Paper("imm", "Liu & others", artefacts=(Artefact("similarity", ""), Artefact("table1", ""))),
    ]
    assert "no results of preset &#x27;mini&#x27; yet" in report.page("mini", papers).data
    for each in (table(), similarity(), corpora()):
        write(each)
    shown = report.page("mini", papers).data
    assert "<h2>The corpora</h2>" in shown and "<h2>Liu &amp; others</h2>" in shown
    assert [shown.index(name) for name in ("corpora/overview", "imm/similarity", "imm/table1")] == sorted(
        shown.index(name) for name in ("corpora/overview", "imm/similarity", "imm/table1")
    )
    assert shown.count('src="data:image/png;base64,') == 3
    assert list(report.overview("mini", papers)["seeds"]) == [0, 1, 2]
    cell = new_code_cell("secret_code()", outputs=[new_output("display_data", {"text/html": shown})])
    executed = tmp_path / "99_report.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell("# The report"), cell]), executed)
    page = report.export("mini", executed)
    assert page == paths.report("mini")
    text = page.read_text()
    assert "Mix is 10.0 F1 below Single" in text and "The report" in text
    assert "secret_code" not in text and "<script" not in text and "http" not in text
    monkeypatch.setattr(report, "LINKED", 100)
    assert report.export("mini", executed).read_text() == text
    assert "report.html" in (kept := executed.read_text()) and "Mix is 10.0" not in kept
    with pytest.raises(ValueError, match="run 99_report first"):
        report.export("mini", tmp_path / "none.ipynb")


def test_a_heading_links_to_the_paper():
    write(table())
    card = Paper("imm", "Liu", "https://example.org/?a&b")
    assert '<h2><a href="https://example.org/?a&amp;b">Liu</a></h2>' in report.page("mini", [card]).data
    assert "<h2>imm</h2>" in report.page("mini", []).data


def test_a_notebook_is_shown_what_there_is_of_a_record(monkeypatch):
    shown = []
    monkeypatch.setattr(report, "display", lambda *pieces: shown.append(pieces))
    for each in (table(), similarity(), case(), ratios()):
        report.show(each)
    (tables, bars, sentences), (matrix, nearest), (picture,), (maps,) = shown
    assert "<caption>Ours, F1" in tables.data and sentences.data.startswith("<ul><li>Mix is 10.0 F1 below Single on")
    assert all(isinstance(drawn, Figure) for drawn in (bars, matrix, picture, maps))
    assert "Nearest to news" in nearest.data
