"""What the papers' tables count and time."""

from collections.abc import Callable
from timeit import timeit

import numpy as np

from helpers.data.load import load_domains
from helpers.presets.schema import TasksSettings, TextsSettings
from helpers.records import Score


def count_examples(settings: TextsSettings | TasksSettings) -> list[Score]:
    """Count the examples of each part of every domain or task (Table 1 of HRKD and of MT-DNN)."""
    columns = {"#Train": "train", "#Dev": "valid", "#Test": "test"}
    return [
        Score(method=name, column=column, seed=0, value=len(getattr(domain, part)))
        for name, domain in load_domains(settings).items()
        for column, part in columns.items()
    ]


def time_in_turns(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Time pieces of work in turns after a warm-up; return the median of three times in seconds."""
    turns = [[timeit(function, number=1) for function in work.values()] for _ in range(4)]
    return dict(zip(work, np.median(turns[1:], axis=0).tolist(), strict=True))
