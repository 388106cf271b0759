"""Forms in which trained readers are asked about passages."""

import base64
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from html import escape

import ipywidgets
from IPython.display import display

from helpers import engine, papers
from helpers.answering import TrainedReader, calibrate, load_reader
from helpers.classification import Tasks, is_reading
from helpers.data.examples import DataError, Example
from helpers.data.load import load, question_set
from helpers.errors import UserError
from helpers.extractive_qa import Prediction, Questions
from helpers.notebooks.session import SettingsByKey, preset_for, with_settings
from helpers.papers.a2d.case import answer_with_words, compare_readers
from helpers.papers.corpora import PAGE
from helpers.presets.schema import Preset
from helpers.results import figures
from helpers.training import Training, trainings_of

ReadersByName = dict[str, tuple[Training, str]]  # by name: a training, and the one of its tasks that is asked about
ReadersByPlace = dict[str, TrainedReader]
TOY = (
    "These readers know the miniature world alone, and answer nonsense about other texts. "
    "Parameter reader puts a reader of real text beside them: a folder, or a name on the Hub."
)
WORD = '<span style="background: rgba(1, 115, 178, {0:.2f})" title="{0:.3f}">{1}</span>'
ROW = "<details><summary><b>{}</b> ({:.2f}), {}</summary>{}</details>"


def trained_readers(preset: str, settings: SettingsByKey | None = None, names: str = "") -> ReadersByName:
    """Print how many trainings are done with other ``settings`` of a preset by key.

    Return the readers whose names hold all ``names`` (by commas), but not those that another one is trained on from.
    """
    patterns, readers = [rf"\b{re.escape(name.strip())}\b" for name in names.split(",") if name.strip()], {}
    counts, problems, starts = {}, [], set()
    for card in (
        card for paper in papers.list_papers() if "data" in paper.examples for card in paper.notebooks if card.plans
    ):
        changed = with_settings(preset_for(card.name, preset), settings or {})
        schedule = engine.Schedule({} if card.left_out(changed) else card.make_plans(changed))
        trainings = trainings_of(*schedule.tasks.values())
        counts |= {training.key: training.is_done() for training in trainings}
        problems += [str(error) for error in schedule.outcomes.values() if isinstance(error, Exception)]
        for training in trainings:
            starts.add(training.start and training.start.key)
            if training.is_done() and not training.is_freed():
                readers |= readers_of(training)
    print(f"{sum(counts.values())} of {len(counts)} trainings are done", *dict.fromkeys(problems), sep="\n")
    return {
        name: (reader, task)
        for name, (reader, task) in readers.items()
        if reader.key not in starts and all(re.search(pattern, name) for pattern in patterns)
    }


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


def answer_page(readers: ReadersByName, example: Example, others: ReadersByPlace, attention: bool = False) -> str:
    """Return HTML with the answers to a question, the most confident reader first, and its ``attention``.

    ``others`` are kept readers or those of the Hub. Raises DataError for an empty text, and EncoderError.
    """
    for box, text in (("question", example.question), ("passage", example.context)):
        if not text.strip():
            raise DataError(f"{box}: expected a text, found none; write one, or choose a question by its number")
    facts = {"question": example.question, "passage": example.context}
    facts |= {"expected": " / ".join(example.answers)} if example.answers else {}
    page = "".join(f"<p><b>{name}:</b> {escape(text)}</p>" for name, text in facts.items())
    answers = {}
    for name, (reader, task) in readers.items():
        no_answer = any(map(reader.preset.data.may_be_unanswerable, [task] if task else reader.data.names))
        limit = null_threshold(reader, task)
        answers[name] = answer_with_words(reader.preset, reader.load(task), example, no_answer, limit)
    for name, other in others.items():
        answers[name] = mark_answer(other.answer(example.question, example.context), example.context)
    ranked = sorted(answers, key=lambda name: -answers[name][0].probability)
    for name in ranked:
        answer, shares = answers[name]
        passage = " ".join(WORD.format(share, escape(word)) for word, share in shares)
        page += ROW.format(escape(answer.text or "no answer"), answer.probability, escape(name), passage)
    if surest := [name for name in ranked if name in readers][: int(attention)]:
        reader, task = readers[surest[0]]
        figure = figures.case(compare_readers(reader.preset, {surest[0]: reader.load(task)}, example))
        picture = base64.b64encode(figures.content(figure, "png")).decode()
        page += f'<img alt="attention of {escape(surest[0])}" src="data:image/png;base64,{picture}">'
    return PAGE.format(page)


def mark_answer(answer: Prediction, passage: str) -> tuple[Prediction, list[tuple[str, float]]]:
    """Return an answer with the words of its passage, 1 for those that it holds and 0 for others."""
    first, last = answer.span or (0, 0)
    words = re.finditer(r"\S+", passage)
    return answer, [(word.group(), float(word.start() < last and first < word.end())) for word in words]


def choose_readers(readers: ReadersByName, domain: str) -> ReadersByName:
    """Choose of each method the reader that was trained on a domain and the fewest others, in its last round.

    Of a method's variants it is the first with the fewest words behind commas.
    """
    chosen: ReadersByName = {}
    for name, (reader, task) in readers.items():
        names, (method, *words) = [task] if task else reader.data.names, name.split(", ")
        rounds = [int(word.split()[1]) for word in words if word.startswith("round ")]
        rank = len(names), len(words), -max(rounds, default=0)
        if domain in names and (method not in chosen or rank < chosen[method][0]):
            chosen[method] = rank, name
    return {name: readers[name] for _, name in chosen.values()}


def form(topics: dict[str, tuple[Sequence[Example], ReadersByName]], others: ReadersByPlace | None = None) -> None:
    """Display a form: a topic, the number of one of its questions, boxes to change its texts, and a button that asks.

    Below stand the answers of the topic's readers, and of ``others``.
    """
    about = ipywidgets.Dropdown(options=list(topics), description="about")
    number = ipywidgets.BoundedIntText(1, 1, 1, description="question no.")
    question, passage = (
        ipywidgets.Textarea(description=name, rows=rows, layout={"width": "98%"})
        for name, rows in (("question", 2), ("passage", 8))
    )
    attention = ipywidgets.Checkbox(description="attention", indent=False)
    button, answers = ipywidgets.Button(description="Ask", button_style="primary"), ipywidgets.HTML()

    def choose(_: object = None) -> None:
        examples, _ = topics[about.value]
        number.max = len(examples)
        example = examples[number.value - 1]
        question.value, passage.value = example.question, example.context

    def ask(_: object = None) -> None:
        examples, readers = topics[about.value]
        example = examples[number.value - 1]
        if (question.value, passage.value) != (example.question, example.context):
            example = replace(example, question=question.value, context=passage.value, answers=(), span=None)
        try:
            answers.value = answer_page(readers, example, others or {}, attention.value)
        except UserError as error:
            answers.value = PAGE.format(f"<p><b>error:</b> {escape(str(error))}</p>")

    about.observe(choose, "value")
    number.observe(choose, "value")
    button.on_click(ask)
    choose()
    ask()
    choice = ipywidgets.HBox([about, number, attention, button])
    show_widget(ipywidgets.VBox([choice, question, passage, answers]), "text/html", answers.value)


def show_widget(widget: ipywidgets.Widget, kind: str, content: str | bytes) -> None:
    """Display a widget, with something to see in its place where no kernel runs; ``kind`` is the MIME type."""
    text = content if isinstance(content, str) else base64.b64encode(content).decode()
    display({**widget._repr_mimebundle_(), kind: text}, raw=True)


def ask_box(readers: ReadersByName, place: str | None = None) -> None:
    """Ask a reader of each method about the test questions of its domains, or about texts of one's own.

    The reader at a ``place``, a folder or a name on the Hub, answers beside them.
    """
    topics = {}
    for reader, task in readers.values():
        for name in [task] if task else reader.data.names:
            topics.setdefault(name, (load(reader.preset.data, name).test, choose_readers(readers, name)))
    if not topics:
        print("no reader is trained yet; run a notebook such as 02, or make reproduce")
        return
    if any(reader.preset.data.is_generated for reader, _ in readers.values()):
        print(TOY)
    ordered = sorted(topics.items(), key=lambda topic: -len(topic[1][1]))  # first where methods can be compared
    form(dict(ordered), {place: load_reader(place)} if place else {})


def attention_slider(readers: dict[str, Training], examples: Sequence[Example]) -> None:
    """Display a slider over examples, and a picture of what readers make of the one it stands at."""
    preset, models = next(iter(readers.values())).preset, {name: reader.load() for name, reader in readers.items()}
    number = ipywidgets.IntSlider(1, 1, len(examples), continuous_update=False, description="question")
    picture = ipywidgets.Image()

    def draw(_: object = None) -> None:
        picture.value = figures.content(
            figures.case(compare_readers(preset, models, examples[number.value - 1])), "png"
        )

    number.observe(draw, "value")
    draw()
    show_widget(ipywidgets.VBox([number, picture]), "image/png", picture.value)


def question_box(readers: dict[str, Training], preset: Preset) -> None:
    """Ask one of some readers by its name about the preset's test questions, or about texts of one's own."""
    form({name: (question_set(preset.data, "test"), {name: (reader, "")}) for name, reader in readers.items()})
