"""A2D's tables and the case of Figure 3, from made-up answers."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.data.examples import Example
from helpers.notebooks import session
from helpers.papers import reading, rows
from helpers.papers.a2d import algorithm, tables
from helpers.presets.load import load
from helpers.results import attention, comparisons
from helpers.results import tables as result_tables
from helpers.results.records import Record, Score
from helpers.results.tables import LENGTH
from helpers.tasks import views


@pytest.fixture
def preset():
    return load("smoke", "a2d")


def example(name: str, question: str, answer: str = "Rome", group: str = "") -> Example:
    context = f"They met in {answer} ."
    start = context.index(answer)
    return Example(name, question, context, (answer,), (start, start + len(answer)), group or name)


def ask(monkeypatch, **sets) -> None:
    for module in (tables, reading, rows):
        monkeypatch.setattr(module, "question_set", lambda data, name: sets[name])


def made_record(artefact: str, **parts) -> Record:
    run = {"commit": "0" * 40, "dirty": False, "device": "CPU", "versions": {}, "seconds": 1.0, "peak_memory_mb": 1}
    run["parameters"] = {}
    return Record(artefact=artefact, preset="mini", title="t", run=run, **{"unit": "score", **parts})


def test_a_table_is_the_mean_over_the_members_and_of_the_worst_variant(monkeypatch, preset):
    ask(monkeypatch, AddSent=[example("a", "Where ?"), example("a-1", "Where ?", group="a"), example("b", "Where ?")])
    found = {
        ("RMR", 0): [{"AddSent": ["Rome", "Rome", "Paris"]}, {"AddSent": ["Rome", "Paris", "Rome"]}],
        ("RMR + A2D", 0): [{"AddSent": ["Paris", "in Rome", "Rome"]}],
    }
    parts = tables.scores(preset, found, ["AddSent"])
    values = {(score.method, score.metric): score.value for score in parts["scores"]}
    # Members: a is right and b wrong, then a is wrong (a variant is) and b right: half of each. The student's clean
    # "Paris" does not count, as there is a variant.
    assert values["RMR", "F1"] == values["RMR", "EM"] == 50
    assert parts["examples"]["RMR|AddSent|0"] == [50, 50]
    assert values["RMR + A2D", "F1"] == pytest.approx((200 / 3 + 100) / 2) and values["RMR + A2D", "EM"] == 50
    assert [score.metric for score in parts["scores"]] == ["F1", "F1", "EM", "EM"]


def test_table4_times_ensemble_and_student_on_some_of_many_questions(monkeypatch, preset):
    ask(monkeypatch, test=[example(str(number), "Where ?") for number in range(450)])
    clock, read = [0.0], []
    monkeypatch.setattr(rows.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(reading, "windows_over", lambda preset, asked: asked)
    monkeypatch.setattr(tables, "notes", lambda preset, runs: ["one seed"])

    def answer(preset, members, asked):
        read.append([one.id for one in asked])
        clock[0] += len(members)

    monkeypatch.setattr(reading, "joint_answers", answer)
    reader = SimpleNamespace(result=lambda: {"parameters": 2000}, load=lambda key: key, key="k")
    runs = {("RMR", 0): algorithm.Distilled([reader, reader], None, {"A2D": reader}, [])}
    parts = tables.table4(preset, runs, repeats=3)
    assert [(score.method, score.metric, score.value) for score in parts["scores"]] == [
        ("RMR + A2D", "times faster than its ensemble", 2),
        ("RMR (E)", "seconds", 2),
        ("RMR + A2D", "seconds", 1),
        ("RMR (E)", "thousand parameters", 4),
        ("RMR + A2D", "thousand parameters", 2),
    ]
    assert parts["notes"] == ["one seed", "times are for 150 test questions"]  # each third, so that 200 are enough
    assert len(read) == 2 * (3 + 1) and all(ids == [str(number) for number in range(0, 450, 3)] for ids in read)


def test_table3_keeps_every_questions_rouge_and_the_length_apart(monkeypatch):
    preset = load("smoke", "a2d", own_draws=False)
    asked = [
        replace(example("a", "Why ?"), answers=("he ran to town",)),
        replace(example("b", "Why ?"), answers=("yes",)),
    ]
    ask(monkeypatch, test=asked)
    monkeypatch.setattr(tables, "made", lambda preset, runs: {"notes": ["one seed"], "training_seconds": 1.0})
    right, half, none = ["he ran to town", "yes"], ["he ran", "yes"], ["no", "no"]
    found = {("RMR", seed): [{"Test": right}, {"Test": none}] for seed in (0, 1)}
    found |= {(row, seed): [{"Test": half}] for row in ("RMR (E)", "RMR + A2D") for seed in (0, 1)}
    parts = tables.table3(preset, {("RMR", 0): None}, found)
    values = {(s.method, s.column, s.metric): s.value for s in parts["scores"] if s.seed == 0}
    assert values["RMR", "Bleu-1", None] == values["RMR", "Rouge-L", None] == 50  # of its two readers one is right
    assert values["RMR", "Length", LENGTH] == pytest.approx((100 + 100 * 2 / 5) / 2)
    assert values["RMR + A2D", "Length", LENGTH] == pytest.approx(100 * 3 / 5)
    assert values["RMR + A2D", "Bleu-4", None] == 0 < values["RMR + A2D", "Bleu-4, smoothed", None]
    assert parts["examples"]["RMR|Rouge-L|1"] == [50, 50]
    assert parts["examples"]["RMR + A2D|Rouge-L|0"] == pytest.approx([100 * 2 * 2 / 6, 100])
    record = made_record("a2d/table3", **{key: parts[key] for key in ("scores", "claims", "examples", "examples_of")})
    assert {column for claim in record.claims for column in claim.columns} == {"Bleu-1", "Bleu-4", "Rouge-L"}
    own, lengths = comparisons.by_metric(record)
    assert comparisons.estimates(own).loc["RMR", "Rouge-L"].over == "2 seeds and 2 examples"
    assert comparisons.estimates(own).loc["RMR", "Bleu-1"].over == "2 seeds"
    assert not result_tables.frame(lengths).stack().str.contains(r"\*").any()  # neither more nor less is better
    first = own.model_copy(update={"scores": [score for score in own.scores if score.seed == 0]})  # BLEU of one run
    assert result_tables.varying(comparisons.estimates(first)) == "95 % interval over examples, one seed"
    ours = load("smoke", "a2d")  # every seed has questions of its own
    monkeypatch.setattr(
        reading, "question_set", lambda data, name: [replace(e, id=f"{e.id}{data.draw}") for e in asked]
    )
    assert ours.own_draws and "examples" not in tables.table3(ours, {("RMR", 0): None}, found)


def test_our_row_of_table5_is_a_control(monkeypatch, preset):
    ask(monkeypatch, test=[example("a", "Where ?")])
    monkeypatch.setattr(tables, "made", lambda preset, runs: {"notes": ["one seed"]})
    names = [algorithm.row_name("RMR", row) for row in algorithm.ABLATIONS]
    found = {(row, 0): [{"Test": ["Rome"]}] for row in ("RMR", "RMR (E)", *names)}
    parts = tables.table5(preset, {("RMR", 0): None}, found, ["Test"])
    ours = "- Joint Training, full second stage"
    assert ours in {score.method for score in parts["scores"]}
    assert {claim.below: claim.control for claim in parts["claims"]} == {row: row == ours for row in names[1:]}
    assert sum(ours in note and "1.5 budgets" in note for note in parts["notes"]) == 1


def test_the_curves_of_steps(monkeypatch):
    preset = load("smoke", "a2d", **{"a2d.lengths": [0.5, 2.0]})
    ask(
        monkeypatch,
        test=[example("a", "Where ?")],
        AddSent=[example("a", "Where ?"), example("a-1", "Where ?", group="a")],
    )
    lines = ("RMR", "RMR + A2D", "RMR + one teacher", "RMR, smoothed labels")
    made = {("longer", seed): {(line, x): f"{line} {x}" for line in lines for x in (0.5, 2.0)} for seed in (0, 1)}

    def answered(preset, rows, columns):
        assert columns == {"Test": "test", "AddSent": "AddSent"}
        right = {row: groups[0][0].startswith("RMR + A2D") for row, groups in rows.items()}
        texts = {
            True: {"Test": ["Rome"], "AddSent": ["Rome", "Rome"]},
            False: {"Test": ["Rome"], "AddSent": ["Rome", "Oslo"]},
        }
        return {row: [texts[well]] for row, well in right.items()}

    monkeypatch.setattr(reading, "answered", answered)
    monkeypatch.setattr(rows, "seconds", lambda trainings: 1.0)
    parts = tables.steps(preset, "RMR", made, ["Dev", "Test", "AddSent"])
    assert parts.pop("training_seconds") == 1.0
    record = made_record("a2d/steps", kind="curve", **parts)
    values = {(score.method, score.x, score.column): score.value for score in record.scores}
    assert len(values) == 4 * 2 * 2 and values["RMR", 0.5, "Test"] == 100
    assert values["RMR + A2D", 2.0, "AddSent"] == 100 and values["RMR + one teacher", 2.0, "AddSent"] == 0
    first = record.claims[0]
    assert all(claim.control and not claim.primary for claim in record.claims)
    assert first.text == "RMR + A2D beats RMR on AddSent at the longest"
    assert {claim.above for claim in record.claims} == {"RMR + A2D, 2"}
    assert [(claim.below, claim.columns[0]) for claim in record.claims] == [
        (f"{rival}, 2", column)
        for rival in ("RMR", "RMR, smoothed labels", "RMR + one teacher")
        for column in ("AddSent", "Test")
    ]


def test_figure4_shows_types_of_which_there_are_enough(monkeypatch, preset):
    asked = [example(f"w{i}", "Where ?") for i in range(10)] + [example(f"h{i}", "How ?") for i in range(9)]
    ask(monkeypatch, test=asked)
    right, wrong = ["Rome"] * 19, ["Paris"] * 19
    found = {("RMR", 0): [{"Test": wrong}], ("RMR + A2D", 0): [{"Test": right}], ("- ATT", 0): [{"Test": wrong}]}
    monkeypatch.setattr(tables, "made", lambda preset, runs: {"notes": ["one seed"], "training_seconds": 1.0})
    parts = tables.figure4(preset, {("RMR", 0): None}, found, "Test")
    assert {(score.method, score.column, score.value) for score in parts["scores"]} == {
        ("RMR", "where", 0),
        ("RMR + A2D", "where", 100),
    }
    assert parts["notes"] == [
        "one seed",
        "questions on Test: where 10, how 9; types with fewer than 10 in a seed are not shown",
    ]
    assert [(claim.above, claim.below, claim.columns) for claim in parts["claims"]] == [("RMR + A2D", "RMR", ["where"])]


def test_the_share_of_the_gain_that_is_kept():
    values = {"RMR": 60, "RMR (E)": 70, "RMR + A2D": 69, "BERT": 80, "BERT (E)": 79, "BERT + A2D": 81}
    means = {(row, "Test", seed): value for row, value in values.items() for seed in range(3)}
    # The ensemble is 5 below the reader, level with it, and 15 above: that it gains may be chance.
    means |= {(row, "Add", seed): value for (row, _, seed), value in means.items()}
    means |= {("RMR (E)", "Add", seed): value for seed, value in enumerate((55, 60, 75))}
    scores = [Score(method=m, column=c, seed=s, value=value, metric="F1") for (m, c, s), value in means.items()]
    record = made_record("a2d/table1", unit="F1", scores=scores)
    table = tables.kept(record)
    less = "\N{MINUS SIGN}"
    assert table.loc["RMR, Test"].tolist() == ["+10.0 (+10.0 to +10.0)", "+9.0 (+9.0 to +9.0)", "90 % (90 to 90)"]
    assert table.loc["RMR, Add"].tolist() == [f"+3.3 ({less}22.5 to +29.2)", "+9.0 (+9.0 to +9.0)", "–"]
    assert table.loc["BERT, Test"].tolist() == [f"{less}1.0 ({less}1.0 to {less}1.0)", "+1.0 (+1.0 to +1.0)", "–"]


def meeting(name: str, between: int = 0) -> Example:
    """They met in Rome; other towns stand in the passage too, ``between`` words later."""
    context = "They met in Rome ," + " and so on" * between + " and not in Oslo , Bonn or Kiel ."
    return Example(name, "Where ?", context, ("Rome",), (12, 16), name)


def said(asked: list[Example], texts: list[str]) -> list[SimpleNamespace]:
    """A reader's answers, and how sure it is of each."""
    scores = (-0.1, -0.9, -0.3, -0.2, -0.5, -0.6)
    starts = [one.context.index(text) for one, text in zip(asked, texts, strict=True)]
    return [
        SimpleNamespace(id=one.id, text=text, score=score, span=(start, start + len(text)))
        for one, text, score, start in zip(asked, texts, scores, starts, strict=False)
    ]


@pytest.mark.parametrize(
    ("before", "after", "between", "chosen"),
    [
        (["Rome", "Oslo", "Bonn", "Bonn"], ["Rome", "Rome", "Rome", "Kiel"], 0, "c"),  # of b and c the surer
        (["Rome", "Oslo", "Bonn", "Bonn"], ["Rome", "Rome", "Rome", "Kiel"], 100, "b"),  # c's are not in one window
        (["Rome", "Oslo", "Bonn", "Bonn"], ["Rome", "Kiel", "Kiel", "Kiel"], 0, "d"),  # none is mended: surest wrong
        (["Rome"] * 4, ["Rome"] * 4, 0, "a"),
    ],
)
def test_the_case_is_chosen_by_the_rule(monkeypatch, preset, before, after, between, chosen):
    asked = [meeting(name, between if name == "c" else 0) for name in "abcd"]
    ask(monkeypatch, test=asked)
    texts = {"before": before, "after": after}

    monkeypatch.setattr(views, "joint_answers", lambda preset, members, windows: said(asked, texts[members[0]]))
    monkeypatch.setattr(views, "compare", lambda preset, readers, example: {})
    case = views.choose(preset, {name: name for name in texts}, "Test", asked)
    assert case.example.id == chosen
    assert ("there is none" in case.rule) == (chosen in "ad") and case.rule.startswith("of the Test questions")


def test_a_case_says_how_many_questions_were_mended_and_broken(monkeypatch, preset):
    asked = [meeting(name) for name in "abcdef"]
    answers = {
        "before": ["Rome", "Oslo", "Bonn", "Rome", "Oslo", "Rome"],
        "after": ["Oslo", "Rome", "Rome", "Rome", "Kiel", "in Rome"],  # the last is wrong in part: neither
    }
    monkeypatch.setattr(views, "joint_answers", lambda preset, members, windows: said(asked, answers[members[0]]))
    monkeypatch.setattr(views, "compare", lambda preset, readers, example: {})
    case = views.choose(preset, {name: name for name in answers}, "Test", asked)
    expected = "of the 6 Test questions distillation mended 2 (an F1 of 0 before, of 100 after) and broke 1 "
    assert case.changes == expected + "(100 before, 0 after)"
    monkeypatch.setattr(tables, "made", lambda preset, runs: {"training_seconds": 1.0})
    assert tables.figure3(preset, {("RMR", 0): None}, case)["notes"][2] == case.changes


def test_a_case_is_drawn_around_its_answers():
    words = [f"w{number}" for number in range(90)]
    view = {
        "answer": "w80",
        "attention": np.full((90, 2), 0.5).tolist(),
        "probabilities": {"gold": 0.25, "confusing": 0.5},
    }
    answers = {"gold": [5, 6], "confusing": [80, 80]}
    case = {"question": ["who", "?"], "passage": words, "answers": answers, "readers": {"before": view, "after": view}}
    tokens = attention.shown(case)
    assert len(tokens) == attention.MOST and {0, 5, 6, 20, 80, 89} <= set(tokens) and 45 not in tokens
    figure = attention.draw(case)
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert sum(label.startswith("…") for label in labels) == 1  # where tokens are left out
    bars = [bar.get_width() for bar in figure.axes[2].patches]
    assert bars == [0.25, 0.25, 0.5, 0.5]
    early = attention.draw({**case, "answers": {"gold": [5, 6]}}).axes[0].get_xticklabels()
    assert [label.get_text() for label in early][-2:] == ["w82", "w83…"]  # the end of the passage is left out


def test_a_case_without_a_gold_answer_is_drawn():
    view = {"answer": "a", "attention": [[1.0], [1.0]], "probabilities": {"confusing": 0.5}}
    case = {"question": ["q"], "passage": ["a", "b"], "answers": {"confusing": [0, 0]}}
    assert attention.draw({**case, "readers": {"before": view, "after": view}}).axes


def test_a_preset_without_rmr_has_bert_in_its_place():
    without = load("smoke", "a2d", **{"a2d.rmr": False})
    assert [algorithm.trained(without, asked) for asked in ("RMR BERT", "RMR")] == [["BERT"], ["BERT"]]
    assert {kind for kind, _ in algorithm.plans(without, "RMR")} == {"BERT"}
    assert algorithm.trained(load("smoke", "a2d"), "RMR BERT") == ["RMR", "BERT"]


def test_another_kind_of_reader_is_refused(preset):
    with pytest.raises(algorithm.ChoiceError, match="readers is 'QANet'; write RMR or BERT"):
        algorithm.plans(preset, "QANet")


def test_settings_for_a_paper_and_for_one_notebook():
    assert session.preset_for({"preset": "mini"}, "09_a2d_narrativeqa").mnemonic.epochs == 1.2
    assert session.preset_for({"preset": "mini"}, "06_a2d_main").mnemonic.epochs == 1.7
    assert session.preset_for({"preset": "mini"}, "99_report").seeds == load("mini").seeds
    both = load("mini", "a2d", "a2d_narrativeqa")
    assert load("mini", "a2d").seeds == both.seeds == load("mini").seeds
    assert both.mnemonic.epochs != load("mini", "a2d").mnemonic.epochs
