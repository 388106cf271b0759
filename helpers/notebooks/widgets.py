"""Forms in which trained readers are asked about passages."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from html import escape

import ipywidgets
from IPython.display import HTML, display

from helpers import engine, papers
from helpers.answering import calibrate
from helpers.classification import Tasks, is_reading
from helpers.data.examples import Example
from helpers.data.load import load, question_set
from helpers.errors import UserError
from helpers.extractive_qa import Questions
from helpers.notebooks.session import SettingsByKey, preset_for, with_settings
from helpers.papers.a2d.case import answer_with_words, compare_readers
from helpers.presets.schema import Preset
from helpers.results import figures
from helpers.training import Training, trainings_of

ReadersByName = dict[str, tuple[Training, str]]  # by name: a training, and the one of its tasks that is asked about
PAGE = '<div class="tex2jax_ignore mathjax_ignore">{}</div>'  # "$5 or $10" in a text is no formula
WORD = '<span style="background: rgba(1, 115, 178, {0:.2f})" title="{0:.3f}">{1}</span>'
ROW = "<details><summary><b>{}</b> ({:.2f}), {}</summary>{}</details>"


def trained_readers(preset: str, settings: SettingsByKey | None = None, names: str = "") -> ReadersByName:
    """Print how many trainings of each notebook are done with other ``settings`` of a preset by key.

    Return the readers whose names hold all ``names`` (by commas).
    """
    patterns, readers = [rf"\b{re.escape(name.strip())}\b" for name in names.split(",") if name.strip()], {}
    for card in (
        card for paper in papers.list_papers() if "data" in paper.examples for card in paper.notebooks if card.plans
    ):
        changed = with_settings(preset_for(card.name, preset), settings or {})
        schedule = engine.Schedule({} if card.left_out(changed) else card.make_plans(changed, {}))
        trainings = trainings_of(*schedule.tasks.values())
        done = [training for training in trainings if training.is_done()]
        errors = [str(error) for error in schedule.outcomes.values() if isinstance(error, Exception)]
        print(f"{card.name}: {len(done)} of {len(trainings)} trainings are done", *errors[:1], sep="; ")
        for training in [training for training in done if not training.is_freed()]:
            readers |= readers_of(training)
    return {name: readers[name] for name in readers if all(re.search(pattern, name) for pattern in patterns)}


def readers_of(training: Training) -> ReadersByName:
    """Name the readers of a trained model: itself, or of a model of several tasks one for each that is questions."""
    if isinstance(training.data, Tasks):
        tasks = [task for task in training.data.names if is_reading(training.preset, task)]
        return {f"{training.label}: {task}": (training, task) for task in tasks}
    return {training.label: (training, "")} if isinstance(training.data, Questions) else {}


@cache  # the reader has to answer validation questions
def null_threshold(reader: Training, task: str) -> float:
    """Return by how much "no answer" has to score above a reader's best span; 0 where questions have answers."""
    names, preset = [task] if task else reader.data.names, reader.preset
    domains = [name for name in names if preset.data.may_be_unanswerable(name)]
    return calibrate(preset, reader.load(task), domains)["null_threshold"] if domains else 0.0


def show_answers(readers: ReadersByName, example: Example, attention: bool = False) -> None:
    """Display the readers' answers to a question, the most confident reader first, and its ``attention``."""
    facts = {"question": example.question, "context": example.context, "expected": " / ".join(example.answers)}
    page = "".join(f"<p><b>{name}:</b> {escape(text)}</p>" for name, text in facts.items())
    answers = {}
    for name, (reader, task) in readers.items():
        no_answer = any(map(reader.preset.data.may_be_unanswerable, [task] if task else reader.data.names))
        limit = null_threshold(reader, task)
        answers[name] = answer_with_words(reader.preset, reader.load(task), example, no_answer, limit)
    ranked = sorted(answers, key=lambda name: -answers[name][0].probability)
    for name in ranked:
        answer, shares = answers[name]
        passage = " ".join(WORD.format(share, escape(word)) for word, share in shares)
        page += ROW.format(escape(answer.text or "no answer"), answer.probability, escape(name), passage)
    display(HTML(PAGE.format(page)))
    if attention:
        reader, task = readers[ranked[0]]
        display(figures.case(compare_readers(reader.preset, {ranked[0]: reader.load(task)}, example)))


def form(topics: dict[str, tuple[list[Example], ReadersByName]]) -> None:
    """Display the answers to the first question, and a form. Texts typed there replace those of the example."""

    def ask(about: str, number: int = 1, attention: bool = False, **typed: str) -> None:
        examples, readers = topics[about]
        texts = {box: text.strip() for box, text in typed.items() if text.strip()}
        unanswered = {"answers": (), "span": None} if texts else {}
        example = replace(examples[min(number, len(examples)) - 1], **unanswered, **texts)
        try:
            show_answers(readers, example, attention)
        except UserError as error:
            print(error)

    ask(next(iter(topics)))
    boxes = {box: ipywidgets.Textarea(description=box) for box in ("question", "context")}
    ipywidgets.interact_manual(ask, about=list(topics), number=(1, 200), attention=False, **boxes)


def ask_box(readers: ReadersByName) -> None:
    """Ask all readers about the test questions of their domains, or about texts of one's own."""
    topics = {}
    for reader, task in readers.values():
        for name in [task] if task else reader.data.names:
            topics.setdefault(name, (load(reader.preset.data, name).test, readers))
    form(topics) if topics else print("no reader is trained yet")


def attention_slider(readers: dict[str, Training], examples: Sequence[Example]) -> None:
    """Display a slider over examples, and a picture of what readers make of the one it stands at."""
    preset, models = next(iter(readers.values())).preset, {name: reader.load() for name, reader in readers.items()}
    number = ipywidgets.IntSlider(1, 1, len(examples), continuous_update=False, description="question")
    picture = ipywidgets.Image()  # an Output widget makes nbclient wait for ever

    def draw(_: object = None) -> None:
        picture.value = figures.content(
            figures.case(compare_readers(preset, models, examples[number.value - 1])), "png"
        )

    number.observe(draw, "value")
    draw()
    display(ipywidgets.VBox([number, picture]))


def question_box(readers: dict[str, Training], preset: Preset) -> None:
    """Ask one of some readers by its name about the preset's test questions, or about texts of one's own."""
    form({name: (question_set(preset.data, "test"), {name: (reader, "")}) for name, reader in readers.items()})
