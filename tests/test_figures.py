"""Figures: drawn from records alone, byte for byte the same, with what they have to show."""

from itertools import pairwise

import matplotlib
import pytest
from matplotlib.ticker import FixedLocator
from record_files import DOMAINS, claimed, curve, every_kind, record

from helpers import paths
from helpers.results import figures, stats

pytestmark = pytest.mark.usefixtures("results")


def texts(labels):
    return [label.get_text() for label in labels]


def marks(ax, marker):
    """The places of marks that are not in a legend alone."""
    return [tuple(line.get_xydata()[0]) for line in ax.lines if line.get_marker() == marker and len(line.get_xdata())]


def test_redrawn_byte_for_byte():
    for each in every_kind():
        figures.save(each)
    files = [*paths.results("mini").glob("*/*")]
    drawn = {path: path.read_bytes() for path in files}
    assert len(drawn) == len(set(drawn.values())) == 8
    assert all(b"prefers-color-scheme: dark" in content for content in drawn.values())
    for path in drawn:
        path.unlink()
    with matplotlib.rc_context({"font.size": 20, "figure.dpi": 50, "axes.facecolor": "red"}):
        for each in every_kind():
            figures.save(each)
    assert {path: path.read_bytes() for path in files} == drawn
    for content in drawn.values():
        assert content.startswith(b"<?xml")
        head, _, picture = content.partition(b"</style>")
        assert b'[style*="stroke: #1b1c1d"] { stroke: #dcddde !important }' in head
        assert b"#1b1c1d" in picture and b"var(" not in picture  # which few programs but browsers read
        assert b"<dc:date>" not in content and b"Software" not in content


def test_an_svg_has_no_last_digits():
    text = '<g clip-path="url(#{0})"><use href="#{1}" x="{2}"/></g> 3.14159 <clipPath id="{0}"/><path id="{1}"/>'
    for ids in (("pfffffffff0", "m0123456789", "7.404952"), ("p0000000001", "maaaaaaaaa0", "7.404953")):
        assert figures.drop_last_digits(text.format(*ids)) == text.format("p0", "m1", "7.40")


@pytest.mark.parametrize("kind", range(8))
def test_no_label_is_cut_off_and_none_lies_over_another(kind):
    figure = figures.draw_record(every_kind()[kind])
    figure.draw_without_rendering()  # lays it out
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        if isinstance(axis.get_major_locator(), FixedLocator):  # others have labels outside the picture too
            boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
            assert all(box.x0 > -1 and box.y0 > -1 for box in boxes)
            assert not any(one.padded(-1).overlaps(other.padded(-1)) for one, other in pairwise(boxes))


def test_a_table_is_drawn_above_its_baseline_beside_the_papers_differences():
    figure = figures.draw_record(claimed())
    (ax,) = figure.axes
    assert texts(ax.get_yticklabels()) == ["B", "C"]
    assert marks(ax, "o") == [(5, 0), (0, 1)] and marks(ax, "D") == [(9.5, 0)]
    verdict = stats.judge(claimed())[0]
    ends = [line.get_xdata().tolist() for line in ax.lines[1:] if len(line.get_xdata()) == 2]
    assert ends[0] == [verdict.estimate.low, verdict.estimate.high]
    assert texts(figure.legends[0].get_texts()) == ["ours", "the paper"]
    assert figure.get_supxlabel() == "F1 above A (95 % interval over 5 seeds)"
    assert figures.readable("RMR (E)") == "ensemble of RMR" and figures.readable("B") == "B"


def test_ablations_are_drawn_as_the_paper_claims_them():
    claims = [{"text": "A beats itself without K", "above": "A", "below": row} for row in "BC"]
    claims.append({"text": "a control", "above": "B", "below": "A", "control": True})
    figure = figures.draw_record(claimed(claims=claims))
    assert marks(figure.axes[0], "o") == [(-5, 0), (0, 1)] and marks(figure.axes[0], "D") == [(-9.5, 0)]
    assert figure.get_supxlabel() == "F1 of A above the row (95 % interval over 5 seeds)"
    controls = [claim | {"control": True} for claim in claims[:2]]
    assert marks(figures.draw_record(claimed(claims=controls)).axes[0], "o") == [(-5, 0), (0, 1)]


def test_columns_without_an_average_have_a_panel_each():
    scores = [
        (row, c, s, v + s * (row == "B")) for row, v in {"A": 1, "B": 5}.items() for c in "xyzuv" for s in range(3)
    ]
    figure = figures.draw_record(record("imm/table1", scores, baselines=["A"], average=False))
    assert [ax.get_title(loc="left") for ax in figure.axes] == list("xyzuv")
    figure = figures.draw_record(record("imm/table1", scores, baselines=["A"]))
    assert len(figure.axes) == 1 and figure.get_supxlabel().startswith("average F1 above A")


def test_two_seeds_are_points_and_a_long_interval_leaves_the_picture():
    figure = figures.draw_record(claimed(seeds=2))
    points = [line.get_xdata().tolist() for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert points[:2] == [[4, 6], [2, -2]] and figure.get_supxlabel().endswith("(every seed)")
    scores = [(m, "x", s, v) for m, of in {"A": (1, 1, 1), "B": (-8, 0, 9)}.items() for s, v in enumerate(of)]
    (ax,) = figures.draw_record(record("imm/table1", scores, baselines=["A"])).axes
    assert ax.get_xlim() == (-2.5 * 9, 2.5 * 9)


def test_a_table_without_a_baseline_has_no_figure():
    plain = record("a2d/table4", [("A", "x", 0, 1.0)])
    assert figures.draw_record(plain) is None
    paths.results("mini").joinpath("a2d").mkdir(parents=True)
    old = paths.record("mini", plain.artefact, "svg")
    old.write_bytes(b"of an earlier record")
    figures.save(plain)
    assert not old.exists()


def test_rows_name_another_baseline_and_fewer_seeds():
    seeds = {"RMR": 5, "RMR + A2D": 5, "BERT": 5, "BERT (E)": 3, "BERT + A2D": 5}
    level = dict(zip(seeds, (80, 82, 70, 74, 71), strict=True))
    scores = [(row, "Test", seed, level[row] + 0.1 * seed) for row, most in seeds.items() for seed in range(most)]
    compared = {"BERT (E)": "BERT", "BERT + A2D": "BERT"}
    figure = figures.draw_record(record("a2d/table1", scores, baselines=["RMR", "BERT"], compared_with=compared))
    (ax,) = figure.axes
    assert texts(ax.get_yticklabels()) == [
        "RMR + A2D",
        "ensemble of BERT, above BERT (3\N{NO-BREAK SPACE}seeds)",
        "BERT + A2D, above BERT",
    ]
    assert [round(x, 6) for x, _ in marks(ax, "o")] == [2, 4, 1]
    assert figure.get_supxlabel() == "F1 above RMR, or the model named (95 % interval over 3 or 5 seeds)"


def test_curves_may_be_differences_from_the_scores_at_an_x():
    scores = [("F1", "all", s, 50 + 2 * x + s, x) for x in (0.5, 1.0) for s in range(3)]
    paper = [{"method": "F1", "column": "all", "value": 60 + x, "x": x} for x in (0.5, 1.0)]
    payload = {"x": "share", "above": 1.0}
    figure = figures.draw_record(record("mtdnn/figure3", scores, kind="curve", paper=paper, payload=payload))
    (ax,) = figure.axes
    assert ax.lines[0].get_ydata().tolist() == [-1, 0] and marks(ax, "D") == [(0.5, -0.5)]
    assert figure.get_suptitle() == "F1 above that at 1 (95 % interval over 3 seeds)"


def test_what_a_paper_prints_of_a_point_above_zero_is_drawn_where_the_curve_begins_at_zero():
    scores = [("A", "all", s, 50.0 + s, None) for s in range(3)]
    scores += [("B", "all", s, 50 + x + s, x) for x in (0, 3) for s in range(3)]
    both = {"above": "B, 3", "below": "B, 0", "columns": ["all"]}
    claims = [
        {"text": "rises", "printed": 2.9, **both},
        {"text": "elsewhere", "printed": 9, "printed_for": "x", **both},
    ]
    claims += [{"text": "falls", "above": "B, 0", "below": "B, 3", "columns": ["all"], "printed": 7}]  # B, 3 is no zero
    payload = {"x": "rounds", "above": "A"}
    figure = figures.draw_record(record("imm/figure3", scores, kind="curve", claims=claims, payload=payload))
    assert marks(figure.axes[0], "D") == [(3, 2.9)]
    assert texts(figure.legends[0].get_texts()) == ["B", "the paper, in its tables"]


def test_curves_may_be_differences_from_a_method():
    values = {("A", 1): 50, ("A", 2): 52, ("B", 1): 51, ("B", 2): 55, ("C", None): 60, ("D", None): 40}

    def draw(methods, above):
        scores = [(m, "all", s, value + s, x) for (m, x), value in values.items() if m in methods for s in range(3)]
        return figures.draw_record(record("a2d/steps", scores, kind="curve", payload={"x": "steps", "above": above}))

    at_same_x, without_x = draw("AB", "A"), draw("BCD", "C")
    assert at_same_x.axes[0].lines[0].get_xydata().tolist() == [[1, 1], [2, 3]]
    assert at_same_x.get_suptitle() == "F1 above A (95 % interval over 3 seeds)"
    assert texts(at_same_x.legends[0].get_texts()) == ["B"]
    assert without_x.axes[0].lines[0].get_xydata().tolist() == [[1, -9], [2, -5]]
    assert texts(without_x.legends[0].get_texts()) == ["B", "D"]
    values |= {(name, None): 50 for name in "EFG"}
    assert texts(draw("ABDEFG", "A").legends[0].get_texts()) == ["B"], "too many points beside a curve"


def test_curves_have_a_panel_per_column_and_levels_without_x():
    figure = figures.draw_record(curve())
    first, second = figure.axes
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["a", "b"]
    assert first.lines[0].get_xydata().tolist() == second.lines[0].get_xydata().tolist() == [[0, 51], [1, 52], [2, 53]]
    assert first.lines[1].get_xydata().tolist() == [[x, y] for x in (0, 1, 2) for y in (50 + x, 52 + x)]  # the seeds
    assert marks(first, "D") == [(1, 55)] and marks(second, "D") == []
    level = [line for line in first.lines if line.get_xdata()[0] > 1 and line.get_marker() == "o"]
    assert [(*line.get_ydata(),) for line in level] == [(51,)], "beside the panel"
    assert texts(figure.legends[0].get_texts()) == ["IMM", "one of all domains (Mix)", "the paper"]


def test_outdated_rows_are_grey_and_the_axis_says_so():
    scores = [(row, "x", seed, 5.0 + seed * place) for place, row in enumerate("ABC") for seed in range(5)]
    ours = record("imm/table1", scores, baselines=["A"], outdated="its loss was wrong", outdated_rows=["B"])
    colors = figures.color_rows(ours, "ABC")
    assert colors == {**figures.color_methods("ABC"), "B": figures.SOFT}
    picture = figures.draw_record(ours)
    drawn = [line.get_color() for line in picture.axes[0].lines if line.get_marker() == "o"]
    assert drawn == [figures.SOFT, figures.COLORS[0]] and "; grey: outdated)" in picture.get_supxlabel()


def test_rows_of_judged_controls_keep_their_colour_in_a_record_that_tests_nothing_else():
    scores = [(row, "x", seed, 5.0 + seed * place) for place, row in enumerate("ABC") for seed in range(5)]
    claims = [{"text": "", "above": "A", "below": "B"}, {"text": "", "above": "A", "below": "C", "control": True}]
    parts = {
        "claims": claims,
        "untested": "why",
        "paper": [{"method": row, "column": "x", "value": 1.0} for row in "AB"],
    }
    picture = figures.draw_record(record("imm/table1", scores, baselines=["A"], **parts))
    drawn = [line.get_color() for line in picture.axes[0].lines if line.get_marker() == "o"]
    assert drawn == [figures.SOFT, figures.COLORS[0]]
    assert texts(picture.legends[0].get_texts()) == ["ours", "ours, not tested", "the paper"]


def test_a_scatter_shows_gains_over_its_baseline():
    values = {"F1": {"A": (50.0, 54.0), "B": (51.0, 57.0)}, "steps": {"A": (10.0, 10.0), "B": (30.0, 30.0)}}
    scores = [(m, "x", s, v, None, k) for k, of in values.items() for m, both in of.items() for s, v in enumerate(both)]
    (ax,) = figures.draw_record(record("imm/cost", scores, kind="scatter", baselines=["A"])).axes
    assert marks(ax, "o") == [(10, 0), (30, 2)]  # gains of 1 and 3


def test_more_curves_than_can_be_told_apart_have_a_panel_per_x():
    methods = "ABCDEFGH"
    scores = [
        (m, "y", seed, place + x + seed % 2, x) for place, m in enumerate(methods) for x in (1, 2) for seed in (0, 1)
    ]
    shown = figures.draw_record(record("imm/figure3", scores, kind="curve", payload={"x": "rounds"}, untested="why"))
    assert [ax.get_title(loc="left") for ax in shown.axes] == ["rounds: 1", "rounds: 2"]
    assert texts(shown.axes[0].get_yticklabels()) == [*methods]
    assert marks(shown.axes[1], "o")[:2] == [(2, 0), (3, 1)]
    assert shown.get_supxlabel() == "F1 (every seed; not tested)"
    few = [score for score in scores if score[0] != "H"]
    assert len(figures.draw_record(record("imm/figure3", few, kind="curve", payload={"x": "rounds"})).axes) == 1


def test_a_method_has_one_colour_in_all_figures():
    colors = figures.color_methods(["IMM", "B", "Single", "IMM"])
    assert colors["IMM"] == figures.color_methods(["A2D", "IMM"])["IMM"]
    assert colors["B"] == figures.COLORS[1], "the first that neither IMM nor Single has"
    assert len(figures.color_methods(figures.read_methods()["imm"])) == len(figures.read_methods()["imm"])


def test_curves_of_differences_name_the_method_that_is_zero():
    scores = [
        (row, "average", seed, value * x, x)
        for row, value in (("A", 0.0), ("B", 1.0))
        for seed in (0, 1)
        for x in (1, 2)
    ]
    figure = figures.draw_record(record("hrkd/figure2", scores, kind="curve", unit="points"))
    assert figure.get_suptitle() == "points above A (every seed)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["B"]


def test_bars_are_grouped_by_column():
    ax = figures.draw_record(next(each for each in every_kind() if each.kind == "bars")).axes[0]
    assert texts(ax.get_yticklabels()) == ["x", "y"]
    assert [x for x, _ in marks(ax, "o")] == [51, 51, 98, 98] and [x for x, _ in marks(ax, "D") if x == x] == [61]


def test_heat_maps_have_their_values_in_cells_and_no_diagonal():
    by_kind = {each.kind: each for each in every_kind()}
    similarity, cosine = figures.draw_record(by_kind["matrix"]).axes
    assert sorted(texts(similarity.texts)) == ["0.10"] * 3 + ["0.90"] * 3 and texts(cosine.texts) == ["0.50"] * 6
    assert texts(similarity.get_yticklabels()) == DOMAINS
    figure = figures.draw_record(by_kind["heatmaps"])
    assert [ax.get_title(loc="left") for ax in figure.axes] == [f"layer {m}" for m in range(1, 6)]
    assert {ax.collections[0].get_clim() for ax in figure.axes} == {(0.167, 0.5)}  # one scale of colours
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("layer", "domain")


def test_a_case_is_drawn_by_words_around_its_answers():
    passage = [f"w{number}" for number in range(88)] + ["i", "##van"]
    view = {"answer": "$5 % {x $", "attention": [[0.25, 0.75, 0.5]] * 88 + [[0, 0.5, 0.25], [0, 0.25, 0.25]]}
    view["probabilities"] = {"gold": 0.25, "confusing": 0.5}
    answers = {"gold": [5, 6], "confusing": [88, 89]}
    payload = {"question": ["who", "am", "##i"], "passage": passage, "answers": answers}
    payload["readers"] = {"before": view, "after": view}
    figure = figures.case(payload)
    maps, bars = figure.axes[0], figure.axes[2]
    words = texts(maps.get_xticklabels())
    assert texts(maps.get_yticklabels()) == ["who", "ami"] and words[-1] == "ivan" and len(words) == figures.MOST_WORDS
    assert sum(word.startswith("…") for word in words) == 1  # where words are left out
    # "ami" receives what its pieces receive together, "ivan" gives the average of its pieces.
    assert maps.images[0].get_array()[:, [0, -1]].T.tolist() == [[0.25, 1.25], [0, 0.625]]
    bold = [label for label in maps.get_xticklabels() if label.get_weight() == "bold"]
    assert texts(bold) == ["w5", "w6", "ivan"]
    assert [bar.get_width() for bar in bars.patches] == [0.25, 0.25, 0.5, 0.5]
    assert "$5" in maps.get_title(loc="left") and figures.content(figure, "png")  # dollars are no formula
    assert figures.case(payload | {"answers": {}}).axes[2].patches[:] == []
    assert len(figures.case(payload | {"typical": payload}).axes) == 2 * len(figure.axes)
    assert figures.join_pieces(["Ġthe", "Ġsp", "ring", "Ġof"]) == {0: "the", 1: "spring", 3: "of"}
    assert figures.join_pieces(["▁a", "b"]) == {0: "ab"}


def test_a_training_is_drawn_by_its_losses_and_validation_scores():
    losses = [[2, {"label": 3.0}], [4, {"label": 1.0, "soft": 0.5}]]
    validation = [[2, 60.0, {"scores": {"a": 50.0, "b": 70.0}}], [4, 55.0, {"scores": {"a": 60.0, "b": 50.0}}]]
    figure = figures.training_curves("a reader", {"losses": losses, "validation": validation, "steps": 4})
    assert len(figure.axes) == 1  # two scores are no curve
    title = "a reader (dotted: weights kept)\nvalidation score: 60.0 after 2 steps, 55.0 after 4 steps"
    assert figure.get_suptitle() == title
    last = [6, 40.0, {"scores": {"a": 40.0, "b": 40.0}}]
    result = {"losses": losses, "validation": [*validation, last], "steps": 6}
    loss, score = figures.training_curves("a reader", result).axes  # of "soft" there is a single point
    assert [ax.get_title(loc="left") for ax in (loss, score)] == ["label", "validation score"]
    assert loss.lines[0].get_ydata().tolist() == [3.0, 1.0]
    assert texts(score.get_legend().texts) == ["a", "b", "mean"]
    assert score.lines[-2].get_ydata().tolist() == [60.0, 55.0, 40.0]
    assert loss.lines[-1].get_xdata() == [2, 2]  # where validation was best
    (alone,) = figures.training_curves("a reader", {"validation": validation, "steps": 4}).axes
    assert alone.get_title(loc="left") == "validation score"
    (alone,) = figures.training_curves("a reader", {"losses": losses, "validation": [], "steps": 4}).axes
    assert alone.get_title(loc="left") == "label"


def test_a_row_that_is_its_baseline_with_every_seed_says_so():
    gains = {"B": 0.0, "C": 1.0, "D": 0.0}
    estimates = {("", row): stats.Estimate((gain,) * 3, gain, gain, gain, "3 seeds") for row, gain in gains.items()}
    labels = figures.label_rows({"B": "A", "C": "A", "D": "B"}, "A", estimates)
    assert labels == ["B (identical)", "C", "D, above B (identical)"]
