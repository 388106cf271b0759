"""Asking trained models about an example of one's own, and the playground over all of them."""

import numpy as np
import pytest

from helpers.data.examples import Choice, DataError, Example, Pair
from helpers.notebooks import pages, widgets
from helpers.notebooks.playground import Playground
from helpers.papers.hrkd import algorithm as hrkd
from helpers.papers.imm import algorithm as imm
from helpers.papers.mtdnn.trainings import reader
from helpers.presets.load import load
from helpers.tasks import asking
from helpers.tasks.answering import load_reader
from helpers.training import engine

PASSAGE = "Ann Lee leads Gamma.  Bob leads Delta, and Cora leads Omega. " * 6  # several windows
QUESTION = "Who leads Delta ?"


@pytest.fixture(scope="module")
def trained(module_results):
    """A reader, a classifier with a head a domain, and a model of questions, labels and choices."""
    preset = load("smoke", "imm", "imm_main").drawn(0)
    texts, tasks = load("smoke", "hrkd", "hrkd_main").drawn(0), load("smoke", "mtdnn", "mtdnn_main").drawn(0)
    single = imm.singles(preset, 0)["news"]
    teacher = hrkd.by_labels(texts, "reviews", 0, hrkd.HRKD, list(texts.reviews.domains))["books"]
    several = reader(tasks, 0, "QA+MCC+SC", ["SWAG", "CoLA"], tasks.mtdnn.weight)
    engine.run([single, teacher, several], preset.engine)
    return single, teacher, several


@pytest.fixture(scope="module")
def playground(trained):
    return Playground({"preset": "smoke"}, "seed 0")


def test_a_model_is_asked_by_each_of_its_heads(trained):
    single, teacher, several = map(asking.models_of, trained)
    assert [(model.name, model.gives.kind) for model in single] == [("Single, news, seed 0", "spans")]
    assert [model.head for model in teacher] == trained[1].domains and teacher[0].gives.classes == 2
    assert {model.head: model.gives.kind for model in several} == {
        "encyclopedia": "spans",
        "SWAG": "choices",
        "CoLA": "labels",
    }
    assert teacher[0].name.endswith("seed 0: books")


def test_a_reader_answers_as_its_folder_does(trained):
    (model,) = asking.models_of(trained[0])
    said = asking.answer(model, QUESTION, PASSAGE)
    by_folder = load_reader(str(trained[0].folder())).answer(QUESTION, PASSAGE)
    assert said.prediction.span == by_folder.span
    assert said.prediction.probability == pytest.approx(by_folder.probability, abs=1e-5) and said.attention is None
    with pytest.raises(DataError, match="must not be empty"):
        asking.answer(model, QUESTION, " ")


def test_a_reader_of_one_domain_answers_always_where_only_others_may_have_no_answer(trained, monkeypatch):
    preset, rules = trained[0].preset, []
    decoded = asking.spans.decoded
    monkeypatch.setattr(asking.spans, "decoded", lambda *given: rules.append(given[-1]) or decoded(*given))
    others = preset.changed("data", unanswerable=["search"])
    (model,) = asking.models_of(trained[0].model_copy(update={"preset": others}))
    asking.answer(model, QUESTION, PASSAGE)
    assert rules == [False] and others.data.may_be_unanswerable("search")


def test_words_have_the_probabilities_of_their_tokens(trained):
    (model,) = asking.models_of(trained[0])
    words = asking.answer(model, QUESTION, PASSAGE).words
    assert [PASSAGE[slice(*word.span)] for word in words] == PASSAGE.split()
    short = "Ann Lee leads Gamma."
    found = asking.answer(model, QUESTION, short, attention=True)
    start = sum(word.start for word in found.words)
    assert 0 < start < 1  # the rest is the probability of no answer, and of the question's tokens
    windows = asking.spans.windows_over(trained[0].preset, [Example("own", QUESTION, short, (), None, "own")])
    logits = asking.spans.predict(model.load(), windows, precision="fp32")
    sides = asking.spans.distributions(windows, logits)
    first = int(windows.prefix_W[0])
    assert start == pytest.approx(sides[0][first : first + int(windows.count_W[0])].sum(), abs=1e-5)
    assert found.attention.shape == (len(short.split()), len(QUESTION.split()))
    assert found.attention.sum(1) == pytest.approx(1, abs=1e-3)  # of each word of the passage over the question


def test_words_that_the_window_leaves_out_have_no_attention(trained):
    (model,) = asking.models_of(trained[0])
    attention = asking.answer(model, QUESTION, PASSAGE, attention=True).attention
    read = ~np.isnan(attention).any(1)
    assert 0 < read.sum() < len(PASSAGE.split()) and attention[read].sum(1) == pytest.approx(1, abs=1e-3)


def test_classifiers_and_models_of_choices_are_asked(trained):
    of_books, *_ = asking.models_of(trained[1])
    one = asking.judge(of_books, Pair("own", "A fine plot.", None, None))
    other = asking.judge(asking.models_of(trained[1])[1], Pair("own", "A fine plot.", None, None))
    assert list(one) == ["negative", "positive"] and sum(one.values()) == pytest.approx(1) and one != other
    with pytest.raises(DataError, match="seed 0: books reads one text"):
        asking.judge(of_books, Pair("own", "A fine plot.", "Another.", None))
    with pytest.raises(DataError, match="must not be empty"):
        asking.judge(of_books, Pair("own", "", None, None))
    heads = {model.head: model for model in asking.models_of(trained[2])}
    assert list(asking.judge(heads["CoLA"], Pair("own", "He ate.", None, None))) == ["unacceptable", "acceptable"]
    ends = ("He ran.", "She sat.", "It broke.")
    said = asking.judge(heads["SWAG"], Choice("own", "A man.", ends, None))
    assert tuple(said) == ends and sum(said.values()) == pytest.approx(1)
    with pytest.raises(DataError, match="endings"):
        asking.judge(heads["SWAG"], Choice("own", "A man.", ends[:1], None))


def test_the_playground_finds_what_is_trained_and_says_what_is_missing(playground, trained):
    assert list(playground.trained) == [training.key for training in trained]
    assert list(playground.topics["choices"]) == ["SWAG"]
    assert list(playground.topics["spans"]) == [
        *["encyclopedia", "news", "search"],
        "encyclopedia: encyclopedia-unanswerable",
    ]
    assert "reviews: books" in playground.topics["labels"]
    said = playground.overview().data
    assert "02_imm_main: 1 of " in said and "python -m helpers run 02_imm_main --preset smoke<" in said


def test_readers_are_chosen_by_words_of_their_names(playground):
    assert list(playground.asked("spans", "news")) == [
        "Single, news, seed 0",
        "QA+MCC+SC, weight 0.8, seed 0: encyclopedia",
    ]
    assert list(playground.asked("spans", "news", "Single, seed 0")) == ["Single, news, seed 0"]
    assert playground.asked("spans", "news", "seed 00") == playground.asked("spans", "news", "ingle") == {}
    assert list(playground.asked("choices", "SWAG", "")) == ["QA+MCC+SC, weight 0.8, seed 0: SWAG"]


@pytest.mark.parametrize("kind", ["spans", "labels", "choices"])
def test_one_example_is_shown_without_jupyter(playground, kind):
    page = playground.example(kind).data
    assert "<b>expected:</b>" in page and "seed 0" in page and "<table>" in page


def test_what_is_not_trained_yet_is_no_error(results):
    nothing = Playground({"preset": "smoke"})
    assert "Nothing of this kind" in nothing.example("spans").data and not nothing.trained
    assert "0 of " in nothing.overview().data
    assert widgets.ask_box(nothing, "spans").value == ""


def test_shading_says_what_it_was_given():
    text = pages.shaded("a <b>", [0.25, 1.0])
    assert text.count("<span") == 2 and "0.25)" in text and 'title="1.000">&lt;b&gt;' in text


def test_whoever_picks_another_example_has_its_texts():
    changes = []
    one = Example("1", "Who leads ?", "Ann leads.", ("Ann",), (0, 3), "1")
    other = Example("2", "Who follows ?", "Bob follows.", ("Bob",), (0, 3), "2")
    form = widgets.Form([one, other], lambda: changes.append(1))
    assert form.example is one
    form.boxes["question"].value = "Who sleeps ?"
    own = form.example
    assert (own.question, own.context, own.answers, own.span) == ("Who sleeps ?", "Ann leads.", (), None)
    form.boxes["context"].value = "Cora sleeps."
    assert form.example.context == "Cora sleeps."
    changes.clear()
    form.picked.index = 1
    assert form.example is other and form.boxes["question"].value == "Who follows ?" and changes == [1]


def test_a_choice_of_ones_own_has_an_ending_a_line():
    form = widgets.Form([Choice("1", "A man.", ("ran.", "sat."), 1)])
    form.boxes["endings"].value = "ran.\n\nsat.\nslept.\n"
    assert form.example.endings == ("ran.", "sat.", "slept.") and form.example.label is None


def test_the_form_asks_when_it_is_told_to(playground, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(playground, "page", lambda *given: asked.append(given))
    topic, picked, question, passage, words, by, looks, ask, _ = widgets.ask_box(playground, "spans").children
    topic.index, picked.index, words.value, looks.value = 1, 2, "Single", True
    assert by.options == ("the surest reader", "Single, news, seed 0") and not asked
    question.value, by.index = "Who leads ?", 1
    ask.click()
    ((kind, about, example, chosen, seen, attention),) = asked
    assert (kind, about, chosen, seen, attention) == ("spans", "news", "Single", "Single, news, seed 0", True)
    assert example.question == "Who leads ?" and example.context == passage.value and example.answers == ()
