"""Widgets for notebooks that are open in Jupyter."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import ipywidgets
from IPython.display import display

from helpers.data.examples import Choice, DataError, Example, Pair
from helpers.models.pretrained import EncoderError
from helpers.notebooks.playground import Playground
from helpers.presets.schema import Preset
from helpers.results import attention
from helpers.tasks.views import Readers, compare

WIDE = {"width": "90%"}
MOST = 200  # examples of a list
# The texts of an example, with what the form calls them, and what is not known of one's own.
TEXTS = {
    Example: {"question": "question", "context": "passage"},
    Pair: {"first": "text", "second": "second text"},
    Choice: {"context": "context", "endings": "endings"},
}
UNKNOWN = {Example: {"group": "own", "answers": (), "span": None}, Pair: {"label": None}, Choice: {"label": None}}


class Form:
    """An example to pick, and its texts to change: then it is one's own, of which nothing is expected. Whoever picks
    another has that one's texts. ``changed`` is called whenever the example is another one."""

    def __init__(self, examples: Sequence[Example | Pair | Choice], changed: Callable[[], object] = lambda: None):
        self.changed, self.filling = changed, False
        self.picked = ipywidgets.Dropdown(description="example", layout=WIDE)
        names = TEXTS[type(examples[0])]
        settings = {"continuous_update": False, "layout": WIDE}
        self.boxes = {name: ipywidgets.Textarea(description=text, **settings) for name, text in names.items()}
        self.offer(examples)
        for box in self.boxes.values():
            box.observe(self._say, names="value")
        self.picked.observe(self._fill, names="value")

    def offer(self, examples: Sequence[Example | Pair | Choice]) -> None:
        """Let one pick among other examples."""
        self.examples, first = examples[:MOST], next(iter(self.boxes))
        self.filling = True  # the list has no value for a moment
        self.picked.options = [(f"{n}: {getattr(example, first)}", n) for n, example in enumerate(self.examples)]
        self.picked.index = 0
        self.filling = False
        self._fill()

    @property
    def example(self) -> Example | Pair | Choice:
        """The picked example, or one's own."""
        picked = self.examples[self.picked.value]
        given = {name: box.value.strip() for name, box in self.boxes.items()}
        if given == _texts(picked, self.boxes):
            return picked
        if "endings" in given:
            given["endings"] = tuple(line.strip() for line in given["endings"].splitlines() if line.strip())
        if "second" in given:
            given["second"] = given["second"] or None
        return replace(picked, id="own", **UNKNOWN[type(picked)], **given)

    def _fill(self, _=None) -> None:
        if self.filling:
            return
        self.filling = True
        for name, text in _texts(self.examples[self.picked.value], self.boxes).items():
            self.boxes[name].value = text
        self.filling = False
        self._say()

    def _say(self, _=None) -> None:
        if not self.filling:
            self.changed()


def _texts(example: Example | Pair | Choice, names: Sequence[str]) -> dict[str, str]:
    """An example's texts as a form has them: endings a line each, none as an empty one."""
    values = {name: getattr(example, name) or "" for name in names}
    return {name: ("\n".join(text) if isinstance(text, tuple) else text).strip() for name, text in values.items()}


def question_browser(preset: Preset, readers: Readers, examples: list[Example]) -> ipywidgets.Widget:
    """Pick a question, or write one's own, about its passage or one's own, and see what both readers do."""
    shown = ipywidgets.Output()

    def refresh() -> None:
        example = form.example
        shown.clear_output(wait=True)
        with shown:
            try:
                if not example.context.strip():
                    raise DataError("the passage is empty: write one, or pick another question")
                case = compare(preset, readers, example)
            except DataError as error:
                print(error)
                return
            print(f"expected: {' / '.join(example.answers) or 'not known, the question or its passage is your own'}")
            print("; ".join(f"{name}: {view['answer']!r}" for name, view in case["readers"].items()))
            display(attention.draw(case))

    form = Form(examples)
    form.changed = refresh
    refresh()
    return ipywidgets.VBox([form.picked, *form.boxes.values(), shown])


def ask_box(playground: Playground, kind: str) -> ipywidgets.Widget:
    """Pick an example of what can be asked about, or write one's own, and have the trained models asked."""
    if not (topics := list(playground.topics[kind])):
        return ipywidgets.HTML("")
    topic = ipywidgets.Dropdown(options=topics, description="about", layout=WIDE)
    form = Form(playground.examples(kind, topics[0]))
    words = ipywidgets.Text(value=playground.words, description="models", layout=WIDE)
    by = ipywidgets.Dropdown(options=["the surest reader"], description="shaded by", layout=WIDE)
    looks = ipywidgets.Checkbox(description="attention")
    ask, shown = ipywidgets.Button(description="ask", button_style="primary"), ipywidgets.Output()

    def choose(_=None) -> None:
        form.offer(playground.examples(kind, topic.value))

    def answer(_=None) -> None:
        shown.clear_output(wait=True)
        with shown:
            try:
                page = playground.page(kind, topic.value, form.example, words.value, by.value, looks.value)
            except (DataError, EncoderError) as error:
                print(error)
                return
            display(page)

    def name_models(_=None) -> None:
        by.options = ["the surest reader", *playground.asked(kind, topic.value, words.value)]

    topic.observe(choose, names="value")
    words.observe(name_models, names="value")
    ask.on_click(answer)
    name_models()
    of_readers = [by, looks] if kind == "spans" else []
    return ipywidgets.VBox([topic, form.picked, *form.boxes.values(), words, *of_readers, ask, shown])
