"""Ask trained models about an example: readers about passages, others about texts and choices."""

from dataclasses import replace

import pytest

from helpers.data.examples import Choice, Example, Pair
from helpers.multitask import heads_of, probabilities
from helpers.notebooks import widgets
from helpers.papers import hrkd, imm, mtdnn
from helpers.presets.load import load

PASSAGE = "Ann Lee leads <Gamma>. Bob leads Delta, and Cora leads Omega. " * 6  # several windows


@pytest.fixture(scope="module")
def models(module_results):
    """A reader, a classifier with a head per domain, and a model of questions, labels and choices, by name."""
    preset, texts = load("smoke", "imm", "imm_main").drawn(0), load("smoke", "hrkd", "hrkd_main").drawn(0)
    tasks = load("smoke", "mtdnn", "mtdnn_main").drawn(0)
    teacher = next(iter(hrkd.name_models(texts, "reviews", 0, "HRKD-teacher").values()))
    several = mtdnn.name_reader(tasks, 0, "QA+MCC+SC", ["SWAG", "CoLA"], tasks.mtdnn.weight)
    trainings = [imm.name_single_readers(preset, 0)["news"], teacher, several]
    for training in trainings:
        training.do()
    return {f"{one.label}: {head}".removesuffix(": "): (one, head) for one in trainings for head in heads_of(one)}


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, and the forms."""
    shown = []
    monkeypatch.setattr(widgets, "display", lambda *things: shown.extend(things))
    monkeypatch.setattr(widgets.ipywidgets, "interact_manual", lambda ask, **boxes: shown.append((ask, boxes)))
    return shown


def test_trained_models_are_those_that_plans_ask_for_and_that_are_done(models, monkeypatch, capsys):
    monkeypatch.setattr(widgets.papers, "ALL", [imm.CARD, hrkd.CARD, mtdnn.CARD])
    assert [*widgets.trained_models({"preset": "smoke"}, "news, seed 0")] == ["Single, news, seed 0"]
    assert "02_imm_main: 1 of " in (printed := capsys.readouterr().out) and "15_mtdnn_main: 1 of " in printed
    assert widgets.trained_models({"preset": "smoke"}, "seed 00") == {}


def test_readers_show_answers_and_where_they_see_them(models, shown):
    readers = {name: models[name] for name in models if name.endswith(("news, seed 0", "encyclopedia"))}
    widgets.show(readers, Example("q", "Who leads <Gamma>?", PASSAGE, ("Ann Lee",), (0, 7), "q"), attention=True)
    page, figure = shown
    assert "Who leads &lt;Gamma&gt;?" in page.data and "<b>expected:</b> Ann Lee" in page.data
    assert page.data.count("<details>") == len(readers) == 2 and all(name in page.data for name in readers)
    assert page.data.count(">&lt;Gamma&gt;.</span>") == 2 * 6
    assert len(figure.axes) == 3 + 4  # the surest reader's attention with its scale, probabilities, and four heads


def test_a_slider_draws_the_question_that_it_stands_at(models, shown):
    readers = {name: reader for name, (reader, head) in models.items() if name.endswith("news, seed 0")}
    texts = ("Who leads Omega?", "Who leads Delta?")
    widgets.attention_slider(readers, [Example("q", text, PASSAGE, ("Bob",), (24, 27), "q") for text in texts])
    number, picture = shown[0].children
    first = bytes(picture.value)
    number.value = 2
    assert first.startswith(b"\x89PNG") and bytes(picture.value) != first and number.max == 2


def test_classifiers_and_models_of_choices_give_probabilities(models, shown):
    books, films = ((name, model) for name, model in models.items() if name.endswith((": books", ": films")))
    pair = Pair("own", "A fine plot.", None, None)
    one, other = probabilities(*books[1], pair), probabilities(*films[1], pair)
    assert list(one) == ["negative", "positive"] and sum(one.values()) == pytest.approx(1) and one != other
    endings = ("He ran.", "She sat.", "It broke.")
    choices = next(model for name, model in models.items() if name.endswith("SWAG"))
    assert tuple(probabilities(*choices, Choice("own", "A man.", endings, None))) == endings
    widgets.show(dict([books, films]), replace(pair, label=1))
    widgets.show({"SWAG": choices}, Choice("own", "A man.", endings, 2))
    page, table, other_page, other_table = shown
    assert "<b>expected:</b> positive" in page.data and table.shape == (2, 2) and other_table.shape == (1, 3)
    assert "He ran. / She sat. / It broke." in other_page.data and "<b>expected:</b> It broke." in other_page.data


def test_a_form_asks_about_texts_of_ones_own(models, shown, monkeypatch, capsys):
    widgets.ask_box(models, Choice)
    *_, (ask, boxes) = shown
    assert boxes["about"] == ["SWAG"] and {"context", "endings"} < {*boxes}
    examples, show, (reader, _) = [], widgets.show, models["Single, news, seed 0"]
    monkeypatch.setattr(widgets, "show", lambda models, example, attention: examples.append(example))
    ask("SWAG", 2, context=" ", endings="")
    ask("SWAG", 999, context="A man.", endings="ran.\nsat.")
    assert examples[0].label is not None and examples[1] == Choice(examples[1].id, "A man.", ("ran.", "sat."), None)
    monkeypatch.setattr(widgets, "show", show)
    ask("SWAG", context="A man.", endings="ran.")
    assert "1 endings" in capsys.readouterr().out
    widgets.ask_box({}, Example)
    assert capsys.readouterr().out == "nothing of this kind is trained yet\n"
    widgets.question_box({"mine": reader, "other": reader}, reader.preset)
    assert shown[-1][1]["about"] == ["mine", "other"] and shown[-2].data.count("<details>") == 1
