"""What A2D does with unusual data and settings: several domains, long passages, no gold answer, other keys."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers.data import domains, sets
from helpers.data.examples import Domain, Example
from helpers.models.glove import glove_digest
from helpers.models.mnemonic import make_reader
from helpers.models.pretrained import load_tokenizer
from helpers.notebooks.widgets import question_browser
from helpers.papers.a2d import algorithm
from helpers.presets.load import load
from helpers.results import attention, canvas
from helpers.tasks import views
from helpers.tasks.spans import windows_over

WORDS = "Ann leads Gamma . " * 3 + "Bob leads Delta for $5 million to $10 million . " + "Cora leads Omega . " * 3


def example(name: str, question: str, answer: str) -> Example:
    start = WORDS.index(answer)
    return Example(name, question, WORDS, (answer,), (start, start + len(answer)), name)


def key(preset, kind="RMR"):
    return algorithm.reader(algorithm.preset_for(preset, kind), kind, 0, "x").key


def test_questions_of_several_domains_may_have_the_same_id(monkeypatch):
    rows = {name: [example("1", "Who ?", answer)] for name, answer in (("a", "Ann"), ("b", "Bob"))}
    monkeypatch.setattr(sets, "load_one", lambda data, name: Domain(name, [], rows[name], rows[name]))
    preset = load("smoke", "a2d", **{"data.adversarial": None, "data.domains": {"a": "news", "b": "search"}})
    assert [(e.id, e.group) for e in sets.question_set(preset.data, "test")] == [("a/1", "a/1"), ("b/1", "b/1")]
    assert [e.id for e in sets.question_set(preset.data, "test/b")] == ["1"]


def test_a_free_answer_without_a_span_is_not_trained_on(monkeypatch):
    free = Example("1", "Why ?", "They met .", ("because of the rain", "rain"), None, "1")
    unanswerable = Example("2", "Why ?", "They met .", (), None, "2")
    made = Domain("stories", [free, unanswerable], [free], [free])
    monkeypatch.setattr(domains.mini, "load_domain", lambda name, **sizes: made)
    preset = load("smoke", **{"data.seed": 4321})  # a seed of its own, as domains are kept
    found = domains.load_one(preset.data, "news")
    assert [e.id for e in found.train] == ["2"] and [e.id for e in found.test] == ["1"]


def test_the_order_of_the_domains_changes_nothing():
    names = {"encyclopedia": "encyclopedia", "search": "search"}
    one, other = (load("smoke", "a2d", **{"data.domains": d}) for d in (names, dict(reversed(names.items()))))
    assert key(one) == key(other)


def test_a_key_changes_with_what_a_reader_depends_on_and_with_nothing_else(tmp_path):
    small = {"data.domains": {"encyclopedia": "encyclopedia"}}
    rmr, bert = (key(load("smoke", "a2d", **small), kind) for kind in ("RMR", "BERT"))
    for idle in ({"training.learning_rate": 5e-3}, {"training.clip": 2.0}, {"training.weight_decay": 0.5}):
        assert key(load("smoke", "a2d", **small, **idle)) == rmr
        assert key(load("smoke", "a2d", **small, **idle), "BERT") != bert
    for own in ({"mnemonic.learning_rate": 5e-3}, {"mnemonic.hidden": 5}, {"mnemonic.batch_size": 3}):
        assert key(load("smoke", "a2d", **small, **own)) != rmr
        assert key(load("smoke", "a2d", **small, **own), "BERT") == bert
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("the 1 2\n")
    second.write_text("the 1 2\n")
    vectors = [key(load("smoke", "a2d", **small, **{"mnemonic.glove": str(file)})) for file in (first, second)]
    assert vectors[0] == vectors[1] != rmr  # the content counts, not the place
    second.write_text("the 1 3\n")
    glove_digest.cache_clear()
    assert key(load("smoke", "a2d", **small, **{"mnemonic.glove": str(second)})) != vectors[0]


def test_members_and_student_start_from_different_weights():
    preset = load("smoke", "a2d", **{"data.domains": {"encyclopedia": "encyclopedia"}})
    plan = algorithm.distillation(preset, "RMR", 0, ("A2D",))
    members = [one for one in next(plan) if "member" in one.label]
    assert sorted(one.seed for one in members) == [100, 200]
    with pytest.raises(ValueError, match="less than or equal to 100"):
        load("smoke", "a2d", seeds=101)


@pytest.fixture
def case():
    """Two untrained readers and a preset whose windows hold a third of the passage."""
    preset = load("smoke", "a2d", **{"windows.max_length": 40, "windows.stride": 12})
    readers = {
        name: make_reader(load_tokenizer(preset.encoder), seed, **preset.mnemonic.model()).eval()
        for seed, name in enumerate(("before", "after"))
    }
    return preset, readers


def answering(monkeypatch, text: str) -> None:
    start = WORDS.index(text)
    found = SimpleNamespace(text=text, span=(start, start + len(text)))
    monkeypatch.setattr(views, "joint_answers", lambda preset, members, windows: [found])


def test_of_a_long_passage_the_window_with_the_gold_answer_is_shown(case, monkeypatch):
    preset, readers = case
    assert len(windows_over(preset, [example("1", "Who leads Delta ?", "Bob")])) > 2
    answering(monkeypatch, "Ann")  # wrong, and in another window
    found = views.compare(preset, readers, example("1", "Who leads Omega ?", "Cora"))
    first, last = found["answers"]["gold"]
    assert "".join(found["passage"][first : last + 1]).replace("##", "") == "cora"
    assert "confusing" not in found["answers"] and found["readers"]["before"]["answer"] == "Ann"
    for view in found["readers"].values():
        assert np.shape(view["attention"]) == (len(found["passage"]), len(found["question"]))
        assert set(view["probabilities"]) == {"gold"} and 0 <= view["probabilities"]["gold"] <= 1


def test_of_windows_with_the_gold_answer_the_one_with_both_is_shown(case, monkeypatch):
    preset, readers = case
    asked, wrong = example("1", "Who leads Delta ?", "Bob"), "Omega"
    windows = windows_over(preset, [asked])
    spans = {"gold": asked.span, "confusing": (WORDS.index(wrong), WORDS.index(wrong) + len(wrong))}
    held = [[name for name, span in spans.items() if views._inside(windows, n, span)] for n in range(len(windows))]
    assert held.index(["gold"]) < held.index(["gold", "confusing"])
    answering(monkeypatch, wrong)
    assert set(views.compare(preset, readers, asked)["answers"]) == {"gold", "confusing"}


def test_without_a_gold_answer_the_window_with_the_given_one_is_shown(case, monkeypatch):
    preset, readers = case
    answering(monkeypatch, "Cora")
    typed = Example("typed", "Who leads Omega ?", WORDS, (), None, "typed")
    found = views.compare(preset, readers, typed)
    assert set(found["answers"]) == {"given"} and attention.draw(found).axes


def test_an_answer_that_no_window_holds_is_left_out(case, monkeypatch):
    preset, readers = case
    answering(monkeypatch, WORDS.strip())
    gold = example("1", "What is said ?", WORDS.strip())
    found = views.compare(preset, readers, gold)
    assert found["answers"] == {} and attention.draw(found).axes


def test_prices_are_not_formulas(case, monkeypatch):
    preset, readers = case
    answering(monkeypatch, "$5 million to $10 million")
    found = views.compare(preset, readers, example("1", "For how much ?", "Bob"))
    for view in found["readers"].values():
        view["answer"] = "$100 % & #1_a {x $"  # as a formula, an error
    figure = attention.draw(found)
    assert canvas.content(figure, "png")
    assert "$100" in figure.axes[0].get_title(loc="left")


def test_the_widget_shows_a_question_and_takes_another(case, capsys):
    preset, readers = case
    with torch.inference_mode():
        questions = [example("1", "Who leads Delta ?", "Bob"), example("2", "Who leads Omega ?", "Cora")]
        picked, typed, passage, _ = question_browser(preset, readers, questions).children
        assert picked.options[0][0] == "0: Who leads Delta ?" and "expected: Bob" in capsys.readouterr().out
        typed.value = "Who leads Gamma ?"
        assert "your own" in capsys.readouterr().out
        picked.index = 1
        assert "expected: Cora" in capsys.readouterr().out and typed.value == "Who leads Omega ?"
        passage.value = ""
        assert "the passage is empty" in capsys.readouterr().out
