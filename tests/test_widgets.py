"""Ask trained readers about passages."""

import numpy as np
import pandas as pd
import pytest
from record_files import claimed

from helpers import classification
from helpers.data.examples import Domain, Example
from helpers.errors import EncoderError
from helpers.notebooks import widgets
from helpers.notebooks.session import start
from helpers.papers import corpora, hrkd, imm, mtdnn
from helpers.papers.imm import algorithm as imm_algorithm
from helpers.papers.mtdnn import algorithm as mtdnn_algorithm
from helpers.presets.load import load_preset
from helpers.results import report

PASSAGE = "Ann Lee leads <Gamma>. Bob leads Delta, and Cora leads Omega. " * 6  # several windows


@pytest.fixture(scope="module")
def models(module_results):
    """A reader, and a model of questions, labels and choices, by name."""
    preset, tasks = (
        load_preset("smoke", "imm", "imm_main").for_seed(0),
        load_preset("smoke", "mtdnn", "mtdnn_main").for_seed(0),
    )
    several = mtdnn_algorithm.multitask_reader_training(
        tasks, 0, "QA+MCC+SC", ["SWAG", "CoLA"], tasks.mtdnn.question_prob
    )
    trainings = [imm_algorithm.single_readers(preset, 0)["news"], several]
    for training in trainings:
        training.do()
    return {name: reader for one in trainings for name, reader in widgets.readers_of(one).items()}


def raise_error(*_):
    raise EncoderError("no attention")


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, and the forms."""
    shown = []
    monkeypatch.setattr(widgets, "display", lambda *things: shown.extend(things))
    monkeypatch.setattr(widgets.ipywidgets, "interact_manual", lambda ask, **boxes: shown.append((ask, boxes)))
    return shown


def test_trained_readers_are_those_that_plans_ask_for_and_that_are_done(models, monkeypatch, capsys):
    monkeypatch.setattr(widgets.papers, "list_papers", lambda: [imm.PAPER, hrkd.PAPER, mtdnn.PAPER])
    assert [*widgets.trained_readers("smoke", names="news, seed 0")] == ["Single, news, seed 0"]
    assert "02_imm_main: 1 of " in (printed := capsys.readouterr().out) and "15_mtdnn_main: 1 of " in printed
    assert "hrkd" not in printed  # which has no readers
    assert widgets.trained_readers("smoke", names="seed 00") == {}
    assert widgets.trained_readers("smoke", {"training.epochs": 2.0}) == {}


def test_readers_show_answers_and_where_they_see_them(models, shown):
    widgets.show_answers(models, Example("q", "Who leads <Gamma>?", PASSAGE, ("Ann Lee",), (0, 7), "q"), attention=True)
    page, figure = shown
    assert "Who leads &lt;Gamma&gt;?" in page.data and "<b>expected:</b> Ann Lee" in page.data
    assert page.data.count("<details>") == len(models) == 2 and all(name in page.data for name in models)
    assert page.data.count(">&lt;Gamma&gt;.</span>") == 2 * 6
    assert page.data.startswith('<div class="tex2jax_ignore mathjax_ignore">') and page.data.endswith("</div>")
    assert len(figure.axes) == 3  # the surest reader's attention with its scale, and probabilities


@pytest.mark.parametrize(("limit", "answers"), [(-1e9, 1), (1e9, 0)])
def test_a_model_of_several_tasks_gives_no_answer_above_the_threshold_of_its_validation_questions(
    models, shown, monkeypatch, limit, answers
):
    name, (several, task) = next((name, reader) for name, reader in models.items() if reader[1])
    spans = classification.predict_task(several.preset, several.load(task), task, "valid")
    chosen = classification.threshold(several.preset, task, spans)
    assert widgets.null_threshold(several, task) == np.clip(chosen, -1e38, 1e38)
    monkeypatch.setattr(widgets, "null_threshold", lambda reader, task: limit if task else 0.0)
    widgets.show_answers(
        {name: (several, task)}, Example("q", "Who leads <Gamma>?", PASSAGE, ("Ann Lee",), (0, 7), "q")
    )
    assert shown[0].data.count("<b>no answer</b>") == answers


def test_a_slider_draws_the_question_that_it_stands_at(models, shown):
    readers = {name: reader for name, (reader, head) in models.items() if name.endswith("news, seed 0")}
    texts = ("Who leads Omega?", "Who leads Delta?")
    widgets.attention_slider(readers, [Example("q", text, PASSAGE, ("Bob",), (24, 27), "q") for text in texts])
    number, picture = shown[0].children
    first = bytes(picture.value)
    number.value = 2
    assert first.startswith(b"\x89PNG") and bytes(picture.value) != first and number.max == 2


def test_a_form_asks_about_texts_of_ones_own(models, shown, monkeypatch, capsys):
    widgets.ask_box(models)
    *_, (ask, boxes) = shown
    assert boxes["about"] == ["news", "encyclopedia"] and {"question", "context"} < {*boxes}
    examples, (reader, _) = [], models["Single, news, seed 0"]
    with monkeypatch.context() as patch:
        patch.setattr(
            widgets, "show_answers", lambda readers, example, attention: examples.append((example, [*readers]))
        )
        ask("news", 2, question=" ", context="")
        ask("news", 999, question="Who?", context=PASSAGE)
    assert examples[0][0].answers and examples[0][1] == [*models]
    assert (examples[1][0].question, examples[1][0].answers, examples[1][0].span) == ("Who?", (), None)
    with monkeypatch.context() as patch:
        patch.setattr(widgets, "compare_readers", raise_error)  # as for an encoder whose attention cannot be read
        ask("news", attention=True)
    assert capsys.readouterr().out == "no attention\n"
    widgets.ask_box({})
    assert capsys.readouterr().out == "no reader is trained yet\n"
    widgets.question_box({"mine": reader, "other": reader}, reader.preset)
    assert shown[-1][1]["about"] == ["mine", "other"] and shown[-2].data.count("<details>") == 1


def test_dollar_signs_of_texts_are_no_formulas(monkeypatch, capsys, results):
    """What JupyterLab would typeset stands in an element of a class that it leaves alone."""
    text = "It costs $5 or $10."
    domain = Domain("shop", [Example("1", text, text, ("$5",), (9, 11), "1")], [], [])
    assert corpora.show_example(domain).startswith('<p class="tex2jax_ignore mathjax_ignore">')
    with pd.option_context("display.html.use_mathjax", True):
        start("17_playground", "mini")
        assert "mathjax_ignore" in pd.DataFrame({"question": [text]})._repr_html_()
    pages = []
    monkeypatch.setattr(report, "display", lambda *parts: pages.extend(parts))
    report.show(claimed())
    assert pages[-1].data.startswith('<div class="results tex2jax_ignore mathjax_ignore">')
