"""What the papers' tables count, average and time."""

from collections.abc import Callable
from timeit import timeit

import numpy as np
import pandas as pd

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


def average_columns(parts: dict) -> dict[tuple[str, int], float]:
    """Average the scores of a record's parts over columns, by row and seed."""
    table = pd.DataFrame(score.model_dump() for score in parts["scores"])
    return table.groupby(["method", "seed"])["value"].mean().to_dict()


def time_in_turns(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Time pieces of work in turns after a warm-up; return the median of three times in seconds."""
    turns = [[timeit(function, number=1) for function in work.values()] for _ in range(4)]
    return dict(zip(work, np.median(turns[1:], axis=0).tolist(), strict=True))
