"""Figures: drawn from records alone, byte for byte the same, legible."""

import json
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from helpers import paths
from helpers.results import claims, dots, figures, heatmaps, methods, summary
from helpers.results.dots import Dot
from helpers.results.intervals import estimate
from helpers.results.records import Claim, Record, printed, write

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


pytestmark = pytest.mark.usefixtures("results")


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


def test_dots_are_differences_with_intervals_and_the_papers_beside_them():
    figure = figures.draw(table())
    (ax,) = figure.axes
    marks = {line.get_marker(): line.get_xydata().tolist() for line in ax.lines if line.get_marker() in ("o", "D")}
    assert marks["o"] == [[-10, 0]] and marks["D"] == [[pytest.approx(0.86), 0]]  # Table 1 prints 75.89 and 75.03
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["Mix"]
    assert figure.get_supxlabel() == "F1 above Single (95 % interval over seeds)"
    # Mix is 10 below with each of two seeds, which are too few to decide anything.
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ours, open", "ours, by column", "the paper"]


def test_an_interval_is_grey_where_it_holds_zero_and_cut_where_it_is_long():
    apart, level = (
        Dot(name, estimate([np.array(values)[:, None]])) for name, values in (("a", [1, 2, 3]), ("b", [-9, 9]))
    )
    ax = dots.forest(Figure().subplots(), [apart, level], 4.0)
    shown = {line.get_ydata()[0]: line for line in ax.lines[1:] if len(line.get_xdata()) == 2}
    # 1, 2 and 3: an error of 0.577, times 4.303, the t quantile of 2 degrees of freedom
    assert shown[0].get_xdata().tolist() == pytest.approx([-0.48, 4.0], abs=0.01)
    assert shown[1].get_xdata().tolist() == [-4, 4]
    ends = [(line.get_marker(), *line.get_xdata(), *line.get_ydata()) for line in ax.lines if line.get_marker() in "<>"]
    assert ends == [(">", 4, 0), ("<", -4, 1), (">", 4, 1)]  # where they go on
    dots.legend(ax, [apart], 4.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ours, open", "interval goes on"]
    assert {shown[0].get_color(), shown[1].get_color()} == {dots.UNSURE}
    sure = dots.forest(Figure().subplots(), [Dot("c", estimate([np.array([[5.0], [5.1], [5.2]])]))], 9.0).lines
    assert {line.get_color() for line in sure[1:] if len(line.get_xdata())} == {dots.OURS}
    unknown = dots.forest(Figure().subplots(), [Dot("d", estimate([np.array([[5.0]])]))], 9.0).lines
    assert [line.get_color() for line in unknown[1:] if len(line.get_xdata())] == [dots.UNSURE]  # the dot alone


def test_a_claim_is_in_words_and_grey_while_it_is_open():
    both = {("Single", "x"): [50, 51, 52, 53, 54], ("IMM", "x"): [60, 61, 62, 63, 65]}
    judged = []
    for seeds in (5, 3):  # three show the same difference, and decide nothing
        scores = [(row, column, n, v) for (row, column), values in both.items() for n, v in enumerate(values[:seeds])]
        claim = Claim(text="IMM beats Single", above="IMM", below="Single", primary=True)
        judged += summary.judged([record("imm/table1", scores, claims=[claim])])["imm"]
    ax = summary.forest(judged).axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [f"{mark} Title: IMM beats Single" for mark in "✓○"]
    assert ax.get_title(loc="left") == "Preset mini: ✓ holds, ✗ does not hold, ○ is open"
    marks = [line for line in ax.lines if line.get_marker() == "o"]
    assert [line.get_color() for line in marks] == [dots.OURS, dots.UNSURE]
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["ours", "ours, open"]


def test_columns_without_an_average_have_panels_and_many_of_them_groups():
    def drawn(columns):
        scores = [(m, c, s, v + s) for m, v in {"A": 50, "B": 55}.items() for c in columns for s in (0, 1)]
        return figures.draw(record("a2d/table2", scores, baselines=["A"], average=False)).axes

    assert [ax.get_title(loc="left") for ax in drawn("xy")] == ["x", "y"]
    (ax,) = drawn("vwxyz")
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [*"vwxyz"]
    assert [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"] == [5] * 5


def test_levels_are_drawn_by_column_and_end_where_the_unit_does():
    scores = [(m, c, s, v + s) for m, v in {"A": 50, "B": 97}.items() for c in "xy" for s in (0, 2)]
    scores += [("C", "y", 0, 70.0)]
    paper = [{"method": "A", "column": "y", "value": 61.0}]
    (ax,) = figures.draw(record("a2d/figure4", scores, kind="bars", paper=paper, average=False)).axes
    points = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert points == [51, 51, 98, 98, 70]
    assert max(line.get_xdata().max() for line in ax.lines if len(line.get_xdata()) == 2) == 100
    assert [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "D"] == [61]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["A", "B", "C", "the paper"]


def test_a_table_without_anything_to_compare_with_has_no_picture():
    assert not figures.drawable(record("a2d/table4", [("A", "x", 0, 1.0)]))
    old = paths.record("mini", "a2d/table4", "png")
    old.parent.mkdir(parents=True)
    old.write_text("of earlier days")
    assert figures.save(record("a2d/table4", [("A", "x", 0, 1.0)]), "mini") == [] and not old.exists()


def test_a_method_has_one_colour_everywhere():
    one, other = record("imm/table1", [("IMM", "a", 0, 1.0)]), record("imm/figure3", [("Mix", "a", 0, 1.0)])
    [imm, mix], [again, unknown] = methods.colors(one, ["IMM", "Mix"]), methods.colors(other, ["Mix", "never heard of"])
    assert mix == again and len({imm, mix, unknown}) == 3


def test_methods_that_meet_in_a_figure_have_colours_of_their_own():
    for file in sorted(Path(__file__).with_name("golden").glob("*/*.json")):
        facts = json.loads(file.read_text())
        if facts["kind"] in ("curve", "scatter", "bars"):
            names = list(dict.fromkeys(score["method"] for score in facts["scores"]))
            colours = methods.colors(record(str(file.relative_to(file.parents[1]).with_suffix("")), []), names)
            assert len(set(colours)) == len(names), file.name


def test_names_stand_at_the_ends_of_lines_and_do_not_overlap():
    scores = [(m, "all", 0, v, x) for m, v in {"IMM": 50, "Mix": 50.01, "FT": 90}.items() for x in (0.0, 1.0)]
    ax = figures.draw(record("imm/figure3", scores, kind="curve")).axes[0]
    heights = {text.get_text(): text.xy[1] for text in ax.texts}
    assert list(heights) == ["IMM", "Mix", "FT"] and heights["FT"] == 90
    assert heights["Mix"] - heights["IMM"] > 1 and heights["IMM"] < 50 < heights["Mix"]


def test_curve_runs_along_x():
    ax = figures.draw(curve()).axes[0]
    assert ax.lines[0].get_xydata().tolist() == [[0, 51], [1, 52], [2, 53]]
    band = ax.collections[0].get_paths()[0].vertices
    assert [band[:, 1].min(), band[:, 1].max()] == pytest.approx([51 - 12.7062, 53 + 12.7062], abs=1e-4)


def test_a_method_without_a_point_in_a_column_draws_no_line_there():
    scores = [("HRKD", c, 0, 60.0 + x, x) for c in ("low", "high") for x in (1.0, 2.0)]
    scores += [("Meta-KD", "low", 0, 61.0, 1.0), ("single", "high", 0, 62.0)]  # a point, and a level without an x
    low, high = figures.draw(record("hrkd/growth", scores, kind="curve", average=False)).axes
    names = [sorted(text.get_text() for text in ax.texts) for ax in (low, high)]
    assert names == [["HRKD", "Meta-KD"], ["HRKD", "single"]]  # those at the ends of lines


def test_panels_of_curves_share_a_scale_with_room_for_all_and_each_has_its_own_places():
    scores = [("HRKD", c, 0, v + x, x) for c, v in {"low": 30, "high": 80}.items() for x in (27.0 + (c == "low"), 80.0)]
    payload = {"x": "examples", "scale": "log"}
    figure = figures.draw(record("hrkd/growth", scores, kind="curve", average=False, payload=payload))
    low, high = figure.axes
    assert low.get_ylim() == high.get_ylim() and low.get_ylim()[0] < 58 and low.get_ylim()[1] > 160
    assert [list(ax.get_xticks()) for ax in figure.axes] == [[28, 80], [27, 80]]
    assert figure.get_supxlabel() == "examples" and low.get_xlabel() == high.get_xlabel() == ""


def test_heat_map_numbers_can_be_read():
    ax, cosines = figures.draw(similarity()).axes
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
    assert [text.get_text() for text in cosines.texts] == ["0.50"] * 6


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
    values = {"gain": {"old": 1.0, "new": -3.0, "twin": 0.0}, "lead": {"old": 2.0, "new": -1.0, "twin": 2.0}}
    scores = [
        (method, column, seed, value + shift + seed, None, metric)
        for metric, of in values.items()
        for method, value in of.items()
        for column, shift in {"a": -1.0, "b": 1.0}.items()
        for seed in (0, 1)
    ]
    ax = figures.draw(record("imm/lead", scores, kind="scatter")).axes[0]
    means = {line.get_label(): (*line.get_xdata(), *line.get_ydata()) for line in ax.lines if line.get_marker() == "s"}
    # The twin's lead is the old one's: they stand side by side, 3 % of what is drawn apart: from the lower end of the
    # new one's interval to the upper end of theirs, 3 + 2 · 6.3531, as t is 12.7062 and the standard error 0.5.
    aside = 0.015 * (3 + 12.7062)
    assert means["new"] == (-0.5, -2.5) and means["old"] == pytest.approx((2.5 - aside, 1.5), abs=1e-5)
    assert means["twin"] == pytest.approx((2.5 + aside, 0.5), abs=1e-5)
    assert ax.get_xlabel() == "lead\n(rows of the same value side by side)"
    assert ax.get_ylabel().startswith("gain\n(95 % interval over seeds")
    fewer = [score for score in scores if score[:2] != ("new", "a")]  # its mean is of the column that it has
    marks = figures.draw(record("imm/lead", fewer, kind="scatter")).axes[0].lines
    assert [(*line.get_xdata(), *line.get_ydata()) for line in marks if line.get_label() == "new"] == [(0.5, -1.5)]
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
    ax = figures.draw(record("hrkd/figure2", scores, kind="curve", payload={"scale": "log"})).axes[0]
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "x"
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["2.5", "20", "14,350"]
    assert not any(tick.tick1line.get_visible() for tick in ax.xaxis.get_minor_ticks())


def similarity_value(row: int, column: int) -> float:
    return 0.9 if (row + 1) % 3 == column else 0.1


def test_lengths_are_densities():
    _, ax, _ = figures.draw(corpora()).axes
    values = ax.patches[0].get_data().values
    assert values.tolist() == [7.5, 1.25]  # 75 % over 10 words, 25 % over 20
    assert ax.get_xlabel() == "words in a question"


def test_question_words_are_percentages():
    *_, ax = figures.draw(corpora()).axes
    assert sorted({text.get_text() for text in ax.texts}) == ["25", "75"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == DOMAINS


def test_a_row_that_a_claim_compares_has_the_colour_of_its_verdict():
    # 2.6 above C with an error of 0.678: p = 0.019, which is enough for one claim, and not for three (0.056)
    values = {row: [3, 1, 2, 5, 2] for row in "ABD"} | {"C": [0] * 5}
    scores = [(row, "x", seed, value) for row, of in values.items() for seed, value in enumerate(of)]
    said = [Claim(text=f"{row} beats C", above=row, below="C") for row in "ABD"]

    def colors(number: int) -> list[str]:
        (ax,) = figures.draw(record("imm/table1", scores, baselines=["C"], claims=said[:number])).axes
        return [line.get_color() for line in ax.lines if line.get_marker() == "o"]

    assert colors(1) == colors(0) == [dots.OURS] * 3 and colors(3) == [dots.UNSURE] * 3
    assert colors(2) == [dots.OURS] * 3  # p = 0.037 for each of two
    scores = [(row, "x", seed, 50.0) for row in "AC" for seed in range(5)]
    (ax,) = figures.draw(record("imm/table1", scores, baselines=["C"], claims=said[:1])).axes
    assert [line.get_color() for line in ax.lines if line.get_marker() == "o"] == [dots.OURS]  # decided: there is none


def test_a_missing_payload_is_named():
    with pytest.raises(ValueError, match=r"profile', which needs sizes, passage_lengths, .* in its payload"):
        record("corpora/overview", [], kind="profile", payload={"sizes": {"news": {}}})
    with pytest.raises(ValueError, match="imm/table1: this record has no scores to draw"):
        figures.draw(record("imm/table1", []))


def test_verdicts_are_computed():
    assert claims.facts(similarity()) == [
        "Nearest to news: stories (0.90), to stories: web (0.90), to web: news (0.90)."
    ]
    assert claims.facts(case()) == ["The reader answers before distillation “a”, after distillation “a”."]
    assert claims.facts(corpora())[0].startswith("3 domains with 3,000 questions to train on: news 1,000, ")
