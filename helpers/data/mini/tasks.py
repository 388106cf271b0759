"""The miniature tasks of a multi-task model: nine in the shapes of GLUE's and of uneven sizes, and one of multiple
choice.

Everything follows from one seed and the words of tasks.toml. Two small tasks, inference-small and paraphrase, share a
skill with a large one.
"""

import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pydantic

from helpers.data.examples import Choice, DataError, Pair, Task
from helpers.data.formats.folders import ALL_PARTS
from helpers.data.mini import sentences
from helpers.data.mini.texts import GENRES, REVIEWS, SHARED
from helpers.data.mini.world import identifier


@dataclass(frozen=True)
class Source:
    """One miniature task: see tasks.toml."""

    kind: Literal["labels", "score", "choices"]
    size: int  # training examples
    labels: tuple[str, ...]
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class _Tasks:
    tasks: dict[str, Source]
    words: sentences.Words


_TOML = tomllib.loads(Path(__file__).with_name("tasks.toml").read_text(encoding="utf-8"))
_TASKS = pydantic.TypeAdapter(_Tasks).validate_python(_TOML)
SOURCES, WORDS = _TASKS.tasks, _TASKS.words
STREAMS = {name: 300 + number for number, name in enumerate(SOURCES)}  # of random numbers


def _inference(source: str, genres: tuple[str, ...]) -> Callable:
    return partial(sentences.make_inference, genres=[GENRES[name] for name in genres], labels=SOURCES[source].labels)


MAKERS: dict[str, Callable] = {  # of one example, given random numbers: its texts and its label
    "acceptability": partial(sentences.make_acceptable, wrong_forms=WORDS.wrong_forms),
    "sentiment": partial(sentences.make_sentiment, things=list(REVIEWS.values()), shared=SHARED),
    "inference": _inference("inference", WORDS.genres),
    "inference-small": _inference("inference-small", WORDS.other_genres),
    "paraphrase-questions": partial(sentences.make_questions, styles=WORDS.styles),
    "paraphrase": sentences.make_paraphrase,
    "similarity": sentences.make_similar,
    "answering": partial(sentences.make_answering, styles=WORDS.styles),
    "reference": partial(sentences.make_reference, encounters=WORDS.encounters),
    "continuation": partial(sentences.make_continuation, links=WORDS.links),
}


def load_task(
    source: str,
    name: str,
    *,
    seed: int = 0,
    train_size: int = 0,
    times: float = 1.0,
    valid_size: int = 100,
    test_size: int = 200,
    unlabelled_size: int = 0,
) -> Task:
    """One of ``SOURCES`` as the task ``name``; ``train_size`` 0 takes the task's own size, so many ``times``.

    A smaller part is the beginning of a larger one, and no two examples of a task have the same first text. Raises
    DataError for a source that is none of them.
    """
    if source not in SOURCES:
        raise DataError(f"{name}: unknown miniature task {source!r}; there are {', '.join(SOURCES)}")
    task = SOURCES[source]
    sizes = (train_size or max(1, round(times * task.size)), valid_size, test_size, unlabelled_size)
    kind = Choice if task.kind == "choices" else Pair
    parts = {}
    for number, (part, size) in enumerate(zip(ALL_PARTS, sizes, strict=True)):
        rows = _different(source, number, seed)
        parts[part] = [kind(identifier(name, seed, part, i), *_labelled(next(rows), task, part)) for i in range(size)]
    return Task(name, kind=task.kind, labels=task.labels, metrics=task.metrics, **parts)


def _different(source: str, part: int, seed: int) -> Iterator[tuple]:
    """Examples of one part without end. The checksum of its first text says which part a text may stand in, so that
    parts share none whatever their sizes."""
    rng, seen = np.random.default_rng([seed, STREAMS[source], part]), set()
    while True:
        row = MAKERS[source](rng)
        if zlib.crc32(row[0].encode()) % len(ALL_PARTS) == part and row[0] not in seen:
            seen.add(row[0])
            yield row


def _labelled(row: tuple, task: Source, part: str) -> tuple:
    """Texts and label, that of a class by its number, and none where it is to be unknown."""
    *texts, label = row
    return *texts, None if part == "unlabelled" else task.labels.index(label) if task.labels else label
