"""What the tables of readers are made of: their answers, scored as free answers, by the type of question or along a
curve, and how fast they are."""

import math
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from helpers.data.question_types import QUESTION_TYPES, by_type
from helpers.data.sets import question_set
from helpers.papers import rows as shared
from helpers.presets.schema import Preset
from helpers.results import records, tables
from helpers.results.records import Score
from helpers.tasks import metrics
from helpers.tasks.answering import Texts, answering, ask
from helpers.tasks.spans import joint_answers, windows_over
from helpers.training.cached import CachedTraining
from helpers.training.engine import After

FREE = {"bleu_1": "Bleu-1", "bleu_4": "Bleu-4", "rouge_l": "Rouge-L", "bleu_4_smoothed": "Bleu-4, smoothed"}
FEW = 10  # questions of a type that are too few to speak of it
TIMED = 200  # questions that are enough to take the time
Row = tuple[str, int]  # of a table: its name, and the seed
Point = tuple[tuple[str, float], int]  # of a curve: its line and its place, and the seed
Groups = dict[Row | Point, list[list[CachedTraining]]]  # readers that answer together
Answers = dict[Row | Point, list[Texts]]  # what every group of readers answers, by column
Said = dict[Row, list[list[str]]]  # the same of one set of questions


def answered(preset: Preset, rows: Groups, columns: dict[str, str]) -> Answers:
    """What every group of readers answers to sets of questions, given by column; asked once, and kept."""
    asked = {
        (row, number): answering(preset.drawn(row[1]), readers, [*columns.values()], together=True)
        for row, groups in rows.items()
        for number, readers in enumerate(groups)
    }
    answers: Answers = {row: [] for row in rows}
    for (row, _), texts in ask(preset, asked).items():
        answers[row].append({column: texts[name] for column, name in columns.items()})
    return answers


def tested(
    preset: Preset, readers: dict[tuple[Any, str], CachedTraining], part: str = "test", after: After | None = None
) -> dict[tuple[Any, str], float]:
    """F1 of readers, by anything and their domain, on a part of the domain's questions. ``after`` as in `ask`."""
    asked = {key: answering(reader.preset, [reader], [f"{part}/{key[1]}"]) for key, reader in readers.items()}
    return {
        key: float(shared.scores_of(readers[key].preset.data, name, [texts]).f1.mean())
        for key, answers in ask(preset, asked, after).items()
        for name, texts in answers.items()
    }


def across(trained: shared.Trained, row: str) -> pd.DataFrame:
    """F1 of a row's reader of each domain (a line) on every domain's test questions, means over seeds."""
    names, seeds = trained.preset.data.domains, trained.rows[row]
    readers = {((i, seed), j): of_seed[i] for seed, of_seed in seeds.items() for i in names for j in names}
    table: dict[str, dict[str, list[float]]] = {}
    for ((i, _), j), f1 in tested(trained.preset, readers).items():
        table.setdefault(j, {}).setdefault(i, []).append(f1)
    return pd.DataFrame(table).map(np.mean).round(1)


def free_answers(preset: Preset, name: str, said: Said) -> dict:
    """Parts of a record: `metrics.free_answers` to a set of questions of every row and seed, averaged over several
    readers, with every question's ROUGE-L and notes on what is measured. Lengths are a metric of their own."""
    asked = {seed: question_set(preset.drawn(seed).data, name) for _, seed in said}
    references = {seed: [example.answers for example in examples] for seed, examples in asked.items()}
    found = {}
    for (row, seed), readers in said.items():
        measured = [metrics.free_answers(texts, references[seed]) for texts in readers]
        found[row, seed] = {key: np.mean([values[key] for values in measured], axis=0) for key in measured[0]}
    columns = {key: (column, None) for key, column in FREE.items()} | {"length": ("Length", tables.LENGTH)}
    scores = [
        Score(method=row, column=column, seed=seed, value=float(values[key]), metric=metric)
        for (row, seed), values in found.items()
        for key, (column, metric) in columns.items()
    ]
    each = {(row, FREE["rouge_l"], seed): values["rouge_l_each"] for (row, seed), values in found.items()}
    ids = {(FREE["rouge_l"], seed): [example.id for example in examples] for seed, examples in asked.items()}
    notes = [
        "Bleu is of all answers together, so its intervals are over seeds alone; Rouge-L is a mean over questions",
        "Bleu-4, smoothed: one is added to the matches of two words and more and to their number (Lin & Och 2004); "
        "where few answers have four words, that alone makes it large",
        "Length: words of the answers, in % of those of the references that are nearest in length, as Bleu counts them",
    ]
    return {**records.scored(each, ids), "scores": scores, "notes": notes}


def by_question_type(preset: Preset, name: str, called: str, said: Said) -> dict:
    """Parts of a record: F1 by the question's type of every row and seed, for types with at least ``FEW`` questions,
    with a note on how many there are in the set that is ``called`` so."""
    data = {seed: preset.drawn(seed).data for _, seed in said}
    asked = {seed: {e.group: e.question for e in question_set(own, name)} for seed, own in data.items()}
    groups = {seed: by_type(questions.values()) for seed, questions in asked.items()}
    counts = {kind: [len(of_seed.get(kind, ())) for of_seed in groups.values()] for kind in QUESTION_TYPES}
    shown = [kind for kind, of_seeds in counts.items() if min(of_seeds) >= FEW]
    f1 = {(row, seed): shared.scores_of(data[seed], name, readers).f1 for (row, seed), readers in said.items()}
    values = {(row, kind, seed): of[groups[seed][kind]].tolist() for (row, seed), of in f1.items() for kind in shown}
    ids = {(kind, seed): [[*asked[seed]][n] for n in groups[seed][kind]] for kind in shown for seed in asked}
    counted = ", ".join(f"{kind} {np.mean(of_seeds):.0f}" for kind, of_seeds in counts.items() if any(of_seeds))
    few = f"questions on {called}: {counted}; types with fewer than {FEW} in a seed are not shown"
    return {**records.scored(values, ids), "notes": [few]}


def curve(preset: Preset, points: dict[Point, CachedTraining], columns: dict[str, str]) -> list[Score]:
    """F1 of one reader at every place of every line, on sets of questions given by column."""
    found = answered(preset, {point: [[reader]] for point, reader in points.items()}, columns)
    return [
        Score(method=line, column=column, seed=seed, value=float(f1.mean()), x=x)
        for ((line, x), seed), (texts,) in found.items()
        for column, name in columns.items()
        for f1 in [shared.scores_of(preset.drawn(seed).data, name, [texts[column]]).f1]
    ]


def speed(
    preset: Preset, compared: list[tuple[int, dict[str, list[CachedTraining]]]], faster: str, repeats: int = 3
) -> dict:
    """Parts of a record: by seed, how long an ensemble and its student, two rows, take for test questions, turn by turn
    in one run, how many times ``faster`` the student is, and their sizes.

    Tokenised text to answers, readers loaded; the median of ``repeats``. At most ``TIMED`` questions, evenly spread,
    because an ensemble reads them again and again.
    """
    values: dict[str, list[Score]] = {faster: [], "seconds": [], "thousand parameters": []}
    for seed, together in compared:
        questions = question_set(preset.drawn(seed).data, "test")
        questions = questions[:: math.ceil(len(questions) / TIMED)]
        windows, (ensemble, _) = windows_over(preset, questions), together.values()
        models = {row: [reader.load(reader.key) for reader in readers] for row, readers in together.items()}
        work = {row: partial(joint_answers, preset, members, windows) for row, members in models.items()}
        seconds = shared.seconds_in_turns(work, repeats)
        slow, fast = seconds.values()
        sizes = {row: sum(one.result()["parameters"] for one in own) / 1000 for row, own in together.items()}
        for metric, found in zip(values, ({[*together][1]: slow / fast}, seconds, sizes), strict=True):
            cells = {"column": f"ensemble of {len(ensemble)}", "seed": seed, "metric": metric}
            values[metric] += [Score(method=row, value=value, **cells) for row, value in found.items()]
    return {"scores": [*chain(*values.values())], "notes": [f"times are for {len(questions)} test questions"]}
