"""Forms in which trained models are asked: readers about passages, others about texts with labels or endings."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape

import ipywidgets
import pandas as pd
from IPython.display import HTML, display

from helpers import engine, papers
from helpers.data.examples import Choice, Example, Pair
from helpers.data.sets import question_set
from helpers.errors import UserError
from helpers.multitask import examples_for, heads_of, probabilities
from helpers.notebooks.session import preset_for
from helpers.papers.case import answer_with_words, compare
from helpers.presets.schema import Preset
from helpers.reading import Reader
from helpers.results import figures
from helpers.trainings import Training, trainings_of

Models = dict[str, tuple[Training, str]]  # by name: a training, and one of its heads
BOXES = {Example: ("question", "context"), Pair: ("first", "second"), Choice: ("context", "endings")}
UNLABELLED = {Example: {"answers": (), "span": None}, Pair: {"label": None}, Choice: {"label": None}}
WORD = '<span style="background: rgba(1, 115, 178, {0:.2f})" title="{0:.3f}">{1}</span>'
ROW = "<details><summary><b>{}</b> ({:.2f}), {}</summary>{}</details>"


def trained_models(parameters: dict[str, object], names: str = "") -> Models:
    """Print how many trainings of each notebook are done; return models whose names hold all ``names`` (by commas)."""
    patterns, models = [rf"\b{re.escape(name.strip())}\b" for name in names.split(",") if name.strip()], {}
    for card in (card for paper in papers.ALL for card in paper.notebooks if card.plans):
        preset = preset_for(card.name, parameters)
        schedule = engine.Schedule({} if card.left_out(preset) else {plan: plan(preset) for plan in card.plans})
        trainings = trainings_of(*schedule.tasks.values())
        done = [training for training in trainings if training.is_done()]
        errors = [str(error) for error in schedule.outcomes.values() if isinstance(error, UserError)]
        print(f"{card.name}: {len(done)} of {len(trainings)} trainings are done", *errors[:1], sep="; ")
        for training in done:
            models |= {f"{training.label}: {head}".removesuffix(": "): (training, head) for head in heads_of(training)}
    return {name: models[name] for name in models if all(re.search(pattern, name) for pattern in patterns)}


def show(models: Models, example: Example | Pair | Choice, attention: bool = False) -> None:
    """Display what models make of an example: the most confident reader first, and its ``attention``."""
    facts, table = {box: getattr(example, box) for box in BOXES[type(example)]}, None
    if isinstance(example, Example):
        facts["expected"] = " / ".join(example.answers)
    else:
        table = pd.DataFrame({name: probabilities(*model, example) for name, model in models.items()}).T
        has_classes = len(table.columns) > 1 and example.label is not None
        facts["expected"] = table.columns[example.label] if has_classes else example.label
    texts = {name: " / ".join(fact) if isinstance(fact, tuple) else fact for name, fact in facts.items()}
    page = "".join(f"<p><b>{name}:</b> {escape(str(text))}</p>" for name, text in texts.items() if text is not None)
    if table is not None:
        display(HTML(page), table.round(3))
        return
    answers = {}
    for name, (reader, head) in models.items():
        no_answer = any(map(reader.preset.data.may_be_unanswerable, [head] if head else reader.domains))
        answers[name] = answer_with_words(reader.preset, reader.load(head), example, no_answer)
    ranked = sorted(answers, key=lambda name: -answers[name][0].probability)
    for name in ranked:
        answer, shares = answers[name]
        passage = " ".join(WORD.format(share, escape(word)) for word, share in shares)
        page += ROW.format(escape(answer.text or "no answer"), answer.probability, escape(name), passage)
    display(HTML(page))
    if attention:
        reader, head = models[ranked[0]]
        display(figures.case(compare(reader.preset, {ranked[0]: reader.load(head)}, example)))


def form(topics: dict[str, tuple[list, Models]]) -> None:
    """Display what models make of the first example, and a form. Texts typed there replace those of the example."""

    def ask(about: str, number: int = 1, attention: bool = False, **typed: str) -> None:
        examples, models = topics[about]
        example = examples[min(number, len(examples)) - 1]
        texts = {box: text.strip() for box, text in typed.items() if text.strip() and getattr(example, box) is not None}
        texts |= {"endings": tuple(texts["endings"].splitlines())} if "endings" in texts else {}
        try:
            show(models, replace(example, **(UNLABELLED[type(example)] | texts if texts else {})), attention)
        except UserError as error:
            print(error)

    ask(first := next(iter(topics)))
    boxes = {box: ipywidgets.Textarea(description=box) for box in BOXES[type(topics[first][0][0])]}
    ipywidgets.interact_manual(ask, about=list(topics), number=(1, 200), attention=False, **boxes)


def ask_box(models: Models, kind: type[Example | Pair | Choice]) -> None:
    """Ask about examples of a kind: readers about those of all domains, other models about those of their own."""
    topics, all_readers = {}, {}
    for name, model in models.items():
        for about, examples in examples_for(*model).items():
            if isinstance(examples[0], kind):
                topics.setdefault(about, (examples, all_readers if kind is Example else {}))[1][name] = model
    form(topics) if topics else print("nothing of this kind is trained yet")


def attention_slider(readers: dict[str, Reader], examples: Sequence[Example]) -> None:
    """Display a slider over examples, and a picture of what readers make of the one it stands at."""
    preset, models = next(iter(readers.values())).preset, {name: reader.load() for name, reader in readers.items()}
    number = ipywidgets.IntSlider(1, 1, len(examples), continuous_update=False, description="question")
    picture = ipywidgets.Image()  # an Output widget makes nbclient wait for ever

    def draw(_: object = None) -> None:
        picture.value = figures.content(figures.case(compare(preset, models, examples[number.value - 1])), "png")

    number.observe(draw, "value")
    draw()
    display(ipywidgets.VBox([number, picture]))


def question_box(readers: dict[str, Reader], preset: Preset) -> None:
    """Ask one of some readers by its name about the preset's test questions, or about texts of one's own."""
    form({name: (question_set(preset.data, "test"), {name: (reader, "")}) for name, reader in readers.items()})
