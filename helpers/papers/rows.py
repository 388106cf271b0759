"""What the tables of all papers are made of: trainings counted once, answers scored, notes."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Self

import numpy as np
import pandas as pd
from torch import nn

from helpers.batches.sequences import Sequences
from helpers.data.adversarial import load_adversarial
from helpers.data.domains import load_domains
from helpers.data.sets import question_set
from helpers.presets.schema import DataSettings, Preset
from helpers.results import comparisons, intervals, records, tables
from helpers.results.records import Cell, Claim, Record
from helpers.tasks import labels, metrics
from helpers.tasks.spans import gold_probability, windows_of
from helpers.training.cached import CachedTraining
from helpers.training.engine import Outcome

LEFT = {"text-align": "left", "white-space": "normal"}
GOLD = {"train": "gold probability, training questions", "valid": "gold probability, validation questions"}
Members = CachedTraining | list[CachedTraining]  # a model, or those of an ensemble
Answers = dict[Cell, tuple[str, list[list[str]]]]  # by cell, a set of questions and the answers of one reader or more


def trainings_of(tasks: Iterable) -> dict[str, CachedTraining]:
    """The distinct trainings among tasks, by cache key."""
    return {task.key: task for task in tasks if isinstance(task, CachedTraining)}


def seconds(trainings: Iterable[CachedTraining]) -> float:
    """Seconds that trainings took, now or in an earlier run, each counted once."""
    return sum(training.result()["seconds"] for training in trainings_of(trainings).values())


@dataclass
class Trained:
    """The final models of each row of a table by seed and domain, and every training that the row needs were it done by
    itself, by seed and key. ``rounds`` is the largest number of them, where a method has several, and ``histories``
    what a row and seed went through."""

    preset: Preset
    rows: dict[str, dict[int, dict[str, Members]]]
    needs: dict[str, dict[int, dict[str, CachedTraining]]]
    rounds: int = 1
    histories: dict[tuple[str, int], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, preset: Preset, rows: Iterable[str], *, rounds: int = 1) -> Self:
        """A table with these rows, still empty."""
        rows = list(rows)
        return cls(preset, {row: {} for row in rows}, {row: {} for row in rows}, rounds)

    @classmethod
    def done(cls, preset: Preset, outcomes: dict[int, Outcome]) -> Self:
        """What plans returned, by seed: the models of their rows. Not all seeds need have all rows."""
        trained = cls.of(preset, max((list(outcome.value) for outcome in outcomes.values()), key=len))
        for seed, outcome in outcomes.items():
            trained.add_rows(seed, outcome)
        return trained

    def add(self, row: str, seed: int, models: dict[str, Any], needs: dict[str, Any]) -> None:
        """One seed of a row."""
        self.rows[row][seed], self.needs[row][seed] = models, needs

    def add_rows(self, seed: int, outcome: Outcome) -> None:
        """One seed of every row that a plan returned the models of, with what each needs of the plan's trainings."""
        known = trainings_of(outcome.tasks)
        for row, models in outcome.value.items():
            self.add(row, seed, models, ancestry(models.values(), known))

    def models(self) -> Iterator[tuple[str, int, str, Any]]:
        """Row, seed, domain and model."""
        for row, seeds in self.rows.items():
            for seed, models in seeds.items():
                for domain, model in models.items():
                    yield row, seed, domain, model

    @property
    def seconds(self) -> float:
        """Seconds of all trainings."""
        return seconds(
            training for seeds in self.needs.values() for known in seeds.values() for training in known.values()
        )


def as_list(members: Members) -> list[CachedTraining]:
    """The models of an ensemble, or the only one."""
    return members if isinstance(members, list) else [members]


def ancestry(models: Iterable[Members], known: dict[str, CachedTraining]) -> dict[str, CachedTraining]:
    """Trained models and all that they start from or learn from, by key."""
    ancestors, waiting = {}, [model for members in models for model in as_list(members)]
    while waiting:
        model = waiting.pop()
        if model.key not in ancestors:
            ancestors[model.key] = model
            waiting += [known[key] for key in model.parents()]
    return ancestors


def costs(trained: Trained) -> pd.DataFrame:
    """What each row costs: optimiser steps in the history of one tested model, from the pretrained encoder on, and
    trainings, steps and minutes of all models that the row needs, teachers too (and of IMM's rejected ones), for one
    seed."""
    table = {}
    for row, seeds in trained.needs.items():
        known, models = seeds[0], trained.rows[row][0].values()
        histories = [list(stages(model, known)) for members in models for model in as_list(members)]
        table[row] = {
            "stages of a reader": " + ".join(f"{stage.steps:,}" for stage in reversed(max(histories, key=len))),
            "steps of a reader": max(sum(stage.steps for stage in history) for history in histories),
            "trainings": len(known),
            "steps in all": sum(training.steps for training in known.values()),
            "minutes": round(seconds(known.values()) / 60, 1),
        }
    return pd.DataFrame.from_dict(table, orient="index")


def stages(model: CachedTraining | None, known: dict[str, CachedTraining]) -> Iterator[CachedTraining]:
    """A model and those it started from, last first."""
    while model is not None:
        yield model
        model = known.get(model.start)


def seconds_in_turns(work: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """How long each piece of work takes: the median of ``repeats`` after a warm-up, all of them turn by turn."""
    measured: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats + 1):
        for name, function in work.items():
            begun = time.perf_counter()
            function()
            measured[name].append(time.perf_counter() - begun)
    return {name: median(seconds[1:]) for name, seconds in measured.items()}


def footprints(
    models: dict[str, CachedTraining], accuracies: dict[str, float], texts: Sequences, repeats: int = 3
) -> Iterator[tuple[str, str, float]]:
    """Row, metric and value of what a student (the second of ``models``) keeps and costs beside its teacher (the
    first), by row: accuracy, size, and how long each takes for a text, one at a time and 32 together, in turns."""
    teacher, student = models
    yield from ((row, "accuracy", accuracies[row]) for row in models)
    yield student, "% of the teacher's accuracy", 100 * accuracies[student] / accuracies[teacher]
    yield from ((row, "thousand parameters", model.result()["parameters"] / 1000) for row, model in models.items())
    for row, model in models.items():
        yield row, "MB", sum(file.stat().st_size for file in model.folder().glob("*.safetensors")) / 1e6
    loaded = {row: model.load(model.key, "labels") for row, model in models.items()}
    for size, how in {1: "one at a time", 32: "32 at a time"}.items():
        work = {row: partial(_classify, model, texts, size) for row, model in loaded.items()}
        taken = seconds_in_turns(work, repeats)
        yield from ((row, f"ms an example, {how}", 1000 * value / len(texts)) for row, value in taken.items())
        yield student, f"times faster than the teacher, {how}", taken[teacher] / taken[student]


def _classify(model: nn.Module, texts: Sequences, batch_size: int) -> None:
    """In batches of this size, as they come."""
    for begin in range(0, len(texts), batch_size):
        labels.predict(model, texts.select(np.arange(begin, min(begin + batch_size, len(texts)))), "fp32")


def scores_of(data: DataSettings, name: str, answers: list[list[str]]) -> metrics.Scores:
    """EM and F1 of each question of a set, averaged over several readers' answers; see `metrics.adversarial_scores`."""
    examples = question_set(data, name)
    scores = [metrics.adversarial_scores(examples, metrics.score(examples, texts)) for texts in answers]
    return metrics.Scores(
        scores[0].ids, np.mean([s.em for s in scores], axis=0), np.mean([s.f1 for s in scores], axis=0)
    )


def score_table(preset: Preset, answers: Answers, *, exact: bool = False) -> dict:
    """Parts of a record: F1 of every cell with every question's, and with ``exact`` EM as a second metric."""
    data = {seed: preset.drawn(seed).data for seed in {seed for _, _, seed in answers}}
    scores = {cell: scores_of(data[cell[2]], *answered) for cell, answered in answers.items()}
    asked = {(column, seed): name for (_, column, seed), (name, _) in answers.items()}
    sets = {cell: question_set(data[cell[1]], name) for cell, name in asked.items()}
    ids = {cell: list(dict.fromkeys(example.group for example in known)) for cell, known in sets.items()}
    parts = records.scored({cell: score.f1 for cell, score in scores.items()}, ids, "F1" if exact else None)
    if exact:
        parts["scores"] += records.scored({cell: score.em for cell, score in scores.items()}, ids, "EM")["scores"]
    return {**parts, "unit": "F1"}


def sample_answers(data: DataSettings, said: dict[str, tuple[str, list[list[str]]]], number: int) -> pd.DataFrame:
    """The first questions of the sets of some domains with a reader's answers beside those expected."""

    def rows() -> Iterator[dict[str, str]]:
        for domain, (name, (texts, *_)) in said.items():
            for example, text in zip(question_set(data, name)[:number], texts, strict=False):
                expected = " / ".join(example.answers) or "no answer"
                yield {"domain": domain, "question": example.question, "answer": text, "expected": expected}

    return pd.DataFrame(rows())


def misled(preset: Preset) -> pd.DataFrame | None:
    """The first adversarial question: what was added to its passage, and its answer."""
    sets = load_adversarial(preset.data)
    clean = {example.group: example for example in sets.get("clean", [])}
    for example in sets.get("AddSent", []):
        if example.id != example.group:
            added = example.context.removeprefix(clean[example.group].context).strip()
            row = {"question": example.question, "answer": " / ".join(example.answers), "added": added}
            return pd.DataFrame.from_dict(row, orient="index", columns=[""]).style.set_properties(**LEFT)
    return None


def sureness(trained: Trained, row: str) -> pd.DataFrame:
    """How much the readers of a row have to say as teachers: the probability of the gold answer on questions that they
    were trained on, near 1 where they know them by heart, and on others; means over seeds."""
    table: dict[str, dict[str, list[float]]] = {}
    for readers in trained.rows[row].values():
        for domain, reader in readers.items():
            model, cells = reader.load(reader.key), table.setdefault(domain, {})
            precision = reader.preset.training.precision
            cells.setdefault("validation F1", []).append(reader.result()["best"] / 100)
            for part, column in GOLD.items():
                windows = windows_of(reader.preset, [domain], part)
                cells.setdefault(column, []).append(gold_probability(model, windows, precision))
    return pd.DataFrame.from_dict(table, orient="index").map(np.mean).round(2)


def shares(record: Record, compared: dict[str, tuple[str, str, str]]) -> pd.DataFrame:
    """By name and column, how far a student and its teacher are above a baseline, with intervals, and which share of
    the teacher's gain the student has: none where that gain is not certain; nothing of rows that the record lacks."""
    lines, record = {}, comparisons.by_metric(record)[0]
    known = {*comparisons.rows(record)}
    for name, (student, teacher, baseline) in compared.items():
        for column in comparisons.columns(record) if known >= {student, teacher, baseline} else ():
            gain = {"above": student, "below": baseline, "than": [teacher, baseline], "columns": [column]}
            part, whole = comparisons.claimed(record, Claim(text=name, **gain))
            lines[f"{name}, {column}"] = {
                "ensemble's gain": tables.difference(intervals.estimate(whole)),
                "student's gain": tables.difference(intervals.estimate(part)),
                "share": tables.share(intervals.share(part, whole)),
            }
    return pd.DataFrame.from_dict(lines, orient="index")


def better(above: str, below: str, beats: str = "is better than", on: str = "", **parts) -> Claim:
    """The claim that one row beats another, in words: "- ATT" is the method "itself without ATT"."""
    named = f"itself without {below.lstrip('- ')}" if below.startswith("-") else below
    return Claim(text=f"{above} {beats} {named}{on}", above=above, below=below, **parts)


def notes(preset: Preset) -> Iterator[str]:
    """What one has to know about every table: the training questions."""
    sizes = ", ".join(f"{name} {len(domain.train):,}" for name, domain in load_domains(preset.data).items())
    yield f"training questions: {sizes}"
