"""The case study: which question is chosen, and which window of a long passage is shown."""

from types import SimpleNamespace

import numpy as np
import pytest

from helpers.data.examples import Example
from helpers.extractive_qa import windows_over
from helpers.models.encoders import load_tokenizer
from helpers.papers.a2d import case
from helpers.papers.a2d.mnemonic import make_reader
from helpers.presets.load import load_preset

WORDS = "Ann leads Gamma . " * 3 + "Bob leads Delta for $5 million to $10 million . " + "Cora leads Omega . " * 3


def span_of(text, context):
    return context.index(text), context.index(text) + len(text)


def example(name, question, answer, context=WORDS):
    return Example(name, question, context, (answer,), span_of(answer, context), name)


@pytest.fixture
def readers():
    """Two untrained readers and a preset whose windows hold a third of the passage."""
    preset = load_preset("smoke", "a2d", **{"windows.max_length": 40, "windows.stride": 12})
    tokenizer, sizes = load_tokenizer(preset.encoder), preset.mnemonic.model()
    return preset, {name: make_reader(tokenizer, n, **sizes).eval() for n, name in enumerate(("before", "after"))}


def answering(monkeypatch, text):
    prediction = SimpleNamespace(text=text, span=span_of(text, WORDS))
    monkeypatch.setattr(case, "answer", lambda *_, **__: [prediction])


def test_of_a_long_passage_the_window_with_the_gold_answer_is_shown(readers, monkeypatch):
    preset, pair = readers
    assert len(windows_over(preset, [example("1", "Who leads Delta ?", "Bob")])) > 2
    answering(monkeypatch, "Ann")  # wrong, and in another window
    payload = case.compare_readers(preset, pair, example("1", "Who leads Omega ?", "Cora"))
    first, last = payload["answers"]["gold"]
    assert "".join(payload["passage"][first : last + 1]).replace("##", "") == "cora"
    assert "".join(payload["question"]).replace("##", "") == "wholeadsomega?"
    assert "confusing" not in payload["answers"] and payload["readers"]["before"]["answer"] == "Ann"
    for reader in payload["readers"].values():
        attention = np.array(reader["attention"])
        assert attention.shape == (len(payload["passage"]), len(payload["question"]))
        assert attention.sum(1) == pytest.approx(1, abs=0.01)
        assert 0 <= reader["probabilities"]["gold"] <= 1


def test_words_outside_the_window_of_an_answer_have_no_share(readers, monkeypatch):
    preset, pair = readers
    answering(monkeypatch, "Ann")  # in the first window

    def distributions(window, logits):
        starts, ends = np.zeros((2, window.lengths_W[0]))
        starts[window.passage_start_W[0]] = 1.0
        ends[[0, window.passage_start_W[0]]] = 0.5  # half on [CLS]
        return starts, ends

    monkeypatch.setattr(case, "distributions", distributions)
    _, words = case.answer_with_words(preset, pair["before"], example("1", "Who leads Omega ?", "Cora"), True, 0.0)
    assert [word for word, _ in words] == WORDS.split()
    assert [share for _, share in words] == [1.0] + [0.0] * (len(words) - 1)


@pytest.mark.parametrize(("threshold", "answers"), [(1e9, True), (-3e38, False)])
def test_a_threshold_decides_whether_a_reader_answers(readers, threshold, answers):
    preset, pair = readers
    prediction, words = case.answer_with_words(preset, pair["before"], example("1", "Who ?", "Cora"), True, threshold)
    assert bool(prediction.text) == answers and len(words) == len(WORDS.split())


def test_of_windows_with_the_gold_answer_the_one_with_both_is_shown(readers, monkeypatch):
    preset, pair = readers
    question, wrong = example("1", "Who leads Delta ?", "Bob"), "Omega"
    windows = windows_over(preset, [question])
    spans = {"gold": question.span, "confusing": span_of(wrong, WORDS)}
    held = [list(case.best_window(windows.select(np.array([n])), 0, spans)[1]) for n in range(len(windows))]
    both = held.index(["gold", "confusing"])
    assert held.index(["gold"]) < both and case.best_window(windows, 0, spans)[0].rows == [windows.rows[both]]
    answering(monkeypatch, wrong)
    assert set(case.compare_readers(preset, pair, question)["answers"]) == {"gold", "confusing"}


def test_an_answer_without_a_gold_one_is_shown_and_one_that_no_window_holds_is_left_out(readers, monkeypatch):
    preset, pair = readers
    answering(monkeypatch, "Cora")
    assert set(case.compare_readers(preset, pair, Example("1", "Who ?", WORDS, (), None, "1"))["answers"]) == {
        "predicted"
    }
    answering(monkeypatch, WORDS.strip())
    assert case.compare_readers(preset, pair, example("1", "What is said ?", WORDS.strip()))["answers"] == {}


def meeting(name, between=0):
    """Ask where they met: in Rome. Other towns stand in the passage too, three times ``between`` words later."""
    context = "They met in Rome ," + " and so on" * between + " and not in Oslo , Bonn or Kiel ."
    return example(name, "Where ?", "Rome", context)


def chosen(monkeypatch, examples, texts):
    """Choose by what both readers answer, and how sure they are of each answer."""
    scores = (-0.1, -0.9, -0.3, -0.2, -0.5, -0.6)

    def answer(preset, models, windows, together):
        rows = zip(examples, texts[models[0]], scores, strict=False)
        return [SimpleNamespace(id=e.id, text=text, score=s, span=span_of(text, e.context)) for e, text, s in rows]

    monkeypatch.setattr(case, "answer", answer)
    return case.choose_cases(load_preset("smoke", "a2d"), {name: name for name in texts}, examples)


@pytest.mark.parametrize(
    ("before", "after", "between", "expected"),
    [
        (["Rome", "Oslo", "Bonn", "Bonn"], ["Rome", "Rome", "Rome", "Kiel"], 0, "c"),  # of b and c the surer
        (["Rome", "Oslo", "Bonn", "Bonn"], ["Rome", "Rome", "Rome", "Kiel"], 100, "b"),  # c's are not in one window
        (["Rome", "Oslo", "Rom", "Bonn"], ["Rome", "Rome", "Rome", "Kiel"], 0, "b"),  # c's are not apart
        (["Rome", "Oslo", "Bonn", "Bonn"], ["Rome", "Kiel", "Kiel", "Kiel"], 0, "d"),  # none is mended: surest wrong
        (["Rome"] * 4, ["Rome"] * 4, 0, "a"),
    ],
)
def test_the_case_is_chosen_by_the_rule(monkeypatch, before, after, between, expected):
    examples = [meeting(name, between if name == "c" else 0) for name in "abcd"]
    (one, *_), (rule, *_) = chosen(monkeypatch, examples, {"before": before, "after": after})
    assert one.id == expected and ("no mended question" in rule) == (expected in "ad")
    assert ("surest" in rule) == (expected != "a")


def test_a_typical_case_stands_beside_the_surest(monkeypatch):
    before, after = ["Oslo", "Bonn", "Oslo", "Kiel", "Rome"], ["Rome"] * 5
    cases, notes = chosen(monkeypatch, [meeting(name) for name in "abcde"], {"before": before, "after": after})
    assert [one.id for one in cases] == ["a", "c"] and "median" in notes[-1]  # -0.1; of -0.1, -0.2, -0.3, -0.9


def test_notes_count_the_questions_that_were_mended_and_broken(monkeypatch):
    before = ["Rome", "Oslo", "Bonn", "Rome", "Oslo", "Rome"]
    after = ["Oslo", "Rome", "Rome", "Rome", "Kiel", "in Rome"]  # the last is wrong in part: neither
    _, (_, changes, *_) = chosen(monkeypatch, [meeting(name) for name in "abcdef"], {"before": before, "after": after})
    assert changes.startswith(
        "of 6 questions, distillation turned 2 wrong answers right (F1 from 0 to 100) and 1 right"
    )
