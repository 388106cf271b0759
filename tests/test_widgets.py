"""Ask trained readers about passages."""

import base64
from dataclasses import replace

import nbformat
import numpy as np
import pandas as pd
import pytest
from ipywidgets import VBox
from record_files import claimed

from helpers import classification
from helpers.data.examples import Domain, Example
from helpers.errors import EncoderError
from helpers.extractive_qa import Prediction
from helpers.notebooks import runner, widgets
from helpers.notebooks.runner import WIDGET
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
    """What is displayed: its data by MIME type."""
    shown = []
    monkeypatch.setattr(widgets, "display", lambda data, raw: shown.append(data))
    return shown


@pytest.fixture
def forms(monkeypatch, shown):
    """The boxes of each form, by description, and its answers as "answers"."""
    forms = []
    show = widgets.show_widget

    def show_form(widget, *static):
        row, *others, answers = widget.children
        forms.append({box.description: box for box in (*row.children, *others)} | {"answers": answers})
        show(widget, *static)

    monkeypatch.setattr(widgets, "show_widget", show_form)
    return forms


def test_trained_readers_are_those_that_plans_ask_for_and_that_are_done(models, monkeypatch, capsys):
    monkeypatch.setattr(widgets.papers, "list_papers", lambda: [imm.PAPER, hrkd.PAPER, mtdnn.PAPER])
    assert [*widgets.trained_readers("smoke", names="news, seed 0")] == ["Single, news, seed 0"]
    done, _, number, *_ = capsys.readouterr().out.split()
    assert done == "2" and int(number) > 50  # HRKD's are no readers
    assert widgets.trained_readers("smoke", names="seed 00") == {}
    assert widgets.trained_readers("smoke", {"training.epochs": 2.0}) == {}


def test_readers_show_answers_and_where_they_see_them(models):
    page = widgets.answer_page(models, Example("q", "Who leads <Gamma>?", PASSAGE, ("Ann Lee",), (0, 7), "q"), {}, True)
    assert "Who leads &lt;Gamma&gt;?" in page and "<b>expected:</b> Ann Lee" in page
    assert page.count("<details>") == len(models) == 2 and all(name in page for name in models)
    assert page.count(">&lt;Gamma&gt;.</span>") == 2 * 6
    assert page.startswith('<div class="tex2jax_ignore mathjax_ignore">') and page.endswith("</div>")
    assert page.count('src="data:image/png;base64,') == 1  # the surest reader's attention


def test_a_reader_of_real_text_answers_beside_the_others(models, forms, capsys):
    folder = models["Single, news, seed 0"][0].saved()
    widgets.ask_box({"Single, news, seed 0": models["Single, news, seed 0"]}, str(folder))
    (form,) = forms
    assert form["answers"].value.count("<details>") == 2 and str(folder) in form["answers"].value
    assert "miniature world" in capsys.readouterr().out
    answer, shares = widgets.mark_answer(Prediction("q", "Ann Lee", (0, 7), 0.0, 1.0, 0.0, "", []), "Ann Lee leads")
    assert answer.text == "Ann Lee" and shares == [("Ann", 1.0), ("Lee", 1.0), ("leads", 0.0)]


def test_of_a_method_the_reader_of_fewest_domains_and_the_last_round_is_asked(models):
    reader, _ = models["Single, news, seed 0"]
    of_all = replace(reader, data=replace(reader.data, names=("news", "trivia")))
    names = ("IMM theta, news, round 1, seed 0", "IMM theta, news, round 2, seed 0", "Single, news, seed 0")
    readers = {"BAM, unified, seed 0": (of_all, ""), **dict.fromkeys(names, (reader, "")), "Mix, seed 0": (of_all, "")}
    assert [*widgets.choose_readers(readers, "news")] == ["BAM, unified, seed 0", *names[1:], "Mix, seed 0"]
    assert [*widgets.choose_readers(readers, "trivia")] == ["BAM, unified, seed 0", "Mix, seed 0"]


@pytest.mark.parametrize(("limit", "answers"), [(-1e9, 1), (1e9, 0)])
def test_a_model_of_several_tasks_gives_no_answer_above_the_threshold_of_its_validation_questions(
    models, monkeypatch, limit, answers
):
    name, (several, task) = next((name, reader) for name, reader in models.items() if reader[1])
    spans = classification.predict_task(several.preset, several.load(task), task, "valid")
    chosen = classification.threshold(several.preset, task, spans)
    assert widgets.null_threshold(several, task) == np.clip(chosen, -1e38, 1e38)
    monkeypatch.setattr(widgets, "null_threshold", lambda reader, task: limit if task else 0.0)
    example = Example("q", "Who leads <Gamma>?", PASSAGE, ("Ann Lee",), (0, 7), "q")
    page = widgets.answer_page({name: (several, task)}, example, {})
    assert page.count("<b>no answer</b>") == answers


def test_a_slider_draws_the_question_that_it_stands_at(models, shown, monkeypatch):
    sliders = []
    monkeypatch.setattr(widgets.ipywidgets, "VBox", lambda children: sliders.append(children) or VBox(children))
    readers = {name: reader for name, (reader, head) in models.items() if name.endswith("news, seed 0")}
    texts = ("Who leads Omega?", "Who leads Delta?")
    widgets.attention_slider(readers, [Example("q", text, PASSAGE, ("Bob",), (24, 27), "q") for text in texts])
    number, picture = sliders[0]
    first = bytes(picture.value)
    assert base64.b64decode(shown[0]["image/png"]) == first and WIDGET in shown[0]
    number.value = 2
    assert first.startswith(b"\x89PNG") and bytes(picture.value) != first and number.max == 2


def test_a_form_asks_what_its_boxes_hold(models, forms, shown, monkeypatch, capsys):
    widgets.ask_box(models)
    (form,) = forms
    answers, button = form["answers"], form["Ask"]
    assert form["about"].options == ("news", "encyclopedia") and answers.value == shown[0]["text/html"]
    assert "<b>expected:</b>" in answers.value and answers.value.count("<details>") == 1
    before = form["question"].value
    form["question no."].value = 2
    assert form["question"].value != before and form["question no."].max > 2
    form["question"].value, form["passage"].value = "Who leads Omega?", PASSAGE
    button.click()
    assert "Who leads Omega?" in answers.value and "expected" not in answers.value
    form["passage"].value = " "
    button.click()
    assert "<b>error:</b> passage: expected a text, found none; write one" in answers.value
    form["passage"].value, form["attention"].value = PASSAGE, True
    with monkeypatch.context() as patch:
        patch.setattr(widgets, "compare_readers", raise_error)  # as for an encoder whose attention cannot be read
        button.click()
    assert "<b>error:</b> no attention" in answers.value
    others = {f"Other {name}": pair for name, pair in models.items() if "news" not in name}
    widgets.ask_box({**models, **others})
    assert forms[-1]["about"].options == ("encyclopedia", "news")  # first where there are methods to compare
    capsys.readouterr()
    widgets.ask_box({})
    assert capsys.readouterr().out.startswith("no reader is trained yet; run")
    reader, _ = models["Single, news, seed 0"]
    widgets.question_box({"mine": reader, "other": reader}, reader.preset)
    assert forms[-1]["about"].options == ("mine", "other") and forms[-1]["answers"].value.count("<details>") == 1


def test_an_executed_copy_has_what_stands_for_a_widget(shown):
    widgets.show_widget(VBox([]), "text/html", "<p>first</p>")
    output, bare = (
        nbformat.v4.new_output("display_data", data=data) for data in (shown[0], VBox([])._repr_mimebundle_())
    )
    assert not runner.is_widget(output) and {*output.data} == {"text/plain", "text/html"}
    assert runner.is_widget(bare) and not runner.is_widget(nbformat.v4.new_output("stream", text="x"))


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
