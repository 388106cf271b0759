"""One task's model by itself, out of a model of several: saved as transformers loads it, and what its card says."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import AutoTokenizer

from helpers.models.multitask import load_multitask, part_of
from helpers.models.pretrained import save_encoder
from helpers.presets.schema import Preset
from helpers.tasks import kinds, spans


class Use(NamedTuple):
    """What a model does, the Hub's tag for that, and an example of its use, in Markdown."""

    does: str
    tag: str
    example: str


_CLASSIFY = """```python
from transformers import pipeline

classify = pipeline("text-classification", "path/to/this/folder", truncation=True)
print(classify({"text": "your text"}))  # of a pair the second one is "text_pair"
```"""
_CHOOSE = """```python
from transformers import AutoModelForMultipleChoice, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")
model = AutoModelForMultipleChoice.from_pretrained("path/to/this/folder")
inputs = tokenizer([context] * len(endings), endings, truncation=True, padding=True, return_tensors="pt")
print(endings[model(**{name: values[None] for name, values in inputs.items()}).logits.argmax()])
```"""
_ANSWER = """```
python -m helpers answer path/to/this/folder "your question" passage.txt
```"""
USES = {
    "labels": Use("Says which label a text, or a pair of texts, has", "text-classification", _CLASSIFY),
    "score": Use("Gives a text, or a pair of texts, a score", "text-classification", _CLASSIFY),
    "choices": Use("Says which of several endings fits a context", "multiple-choice", _CHOOSE),
    "questions": Use("Finds the answer to a question in a passage", "question-answering", _ANSWER),
}


def kind_of(preset: Preset, task: str) -> str:
    """What is asked for: "labels", a "score", "choices", or the answers to "questions" about passages."""
    return "questions" if kinds.is_reading(preset, task) else kinds.task_of(preset, task).kind


def labels_of(preset: Preset, task: str) -> tuple[str, ...]:
    """The names of a task's labels by their numbers; none where it has no labels."""
    return () if kinds.is_reading(preset, task) else kinds.task_of(preset, task).labels


def save_part(preset: Preset, saved: Path, task: str, limit: float | None, folder: Path) -> None:
    """Save one task's model of the model ``saved``, with its tokenizer, its labels' names, and how it is given its
    texts: as ``answer`` asks it where it answers questions, with the threshold ``limit`` above which there is none,
    else by the tokenizer's ``model_max_length``."""
    own = part_of(load_multitask(saved, [task]), task, labels_of(preset, task))
    tokenizer = AutoTokenizer.from_pretrained(saved)
    del own.config.heads  # of the tasks together
    if kinds.is_reading(preset, task):
        own.config.update(spans.reading(preset, [task]))
        if limit is not None:
            own.config.null_threshold = max(limit, float(np.finfo(np.float32).min))  # JSON has no infinity
    else:
        tokenizer.model_max_length = preset.tasks.max_length
    if kind_of(preset, task) == "score":
        own.config.problem_type = "regression"  # or else a pipeline takes it for a probability
    save_encoder(own, tokenizer, folder)
