"""Widgets for notebooks that are open in Jupyter."""

from dataclasses import replace

import ipywidgets
from IPython.display import display

from helpers.data.examples import DataError, Example
from helpers.presets.schema import Preset
from helpers.results import attention
from helpers.tasks.views import Readers, compare


def question_browser(preset: Preset, readers: Readers, examples: list[Example], most: int = 200) -> ipywidgets.Widget:
    """Pick a question, or type one's own about the passage shown, and see what both readers do."""
    examples = examples[:most]
    names = [(f"{number}: {example.question}", number) for number, example in enumerate(examples)]
    wide, hint = {"layout": {"width": "90%"}}, "a question about the same passage, then Enter"
    picked = ipywidgets.Dropdown(options=names, description="question", **wide)
    typed = ipywidgets.Text(description="or your own", placeholder=hint, continuous_update=False, **wide)
    shown = ipywidgets.Output()

    def refresh(_=None) -> None:
        example = examples[picked.value]
        if typed.value.strip():
            example = replace(example, id="typed", group="typed", question=typed.value, answers=(), span=None)
        shown.clear_output(wait=True)
        with shown:
            try:
                case = compare(preset, readers, example)
            except DataError as error:
                print(error)
                return
            print(example.context)
            print("; ".join(f"{name}: {view['answer']!r}" for name, view in case["readers"].items()))
            display(attention.draw(case))

    picked.observe(refresh, names="value")
    typed.observe(refresh, names="value")
    refresh()
    return ipywidgets.VBox([picked, typed, shown])
