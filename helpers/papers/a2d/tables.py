"""A2D's tables and figures as records, from trained readers."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable
from statistics import median

import numpy as np
import pandas as pd

from helpers import paths
from helpers.data.examples import Example, groups_of
from helpers.files import fingerprint
from helpers.papers.a2d.runs import ABLATIONS, Runs, kinds_of, row_name
from helpers.papers.a2d.trainings import Answers, Reader, joint_answers, loaded, question_sets
from helpers.papers.corpora import QUESTION_TYPES, question_type
from helpers.presets.schema import Preset
from helpers.results import comparisons, intervals, records, tables
from helpers.results.records import Claim, Record, Score
from helpers.tasks import metrics
from helpers.tasks.spans import windows_over
from helpers.training import engine

FREE = {"bleu_1": "Bleu-1", "bleu_4": "Bleu-4", "rouge_l": "Rouge-L"}  # as the paper calls them
INFERENCE, FASTER = "inference", "times faster than its ensemble"
FEW = 10  # questions of a type that are too few to speak of it
TIMED = 200  # questions that Table 4 times
Rows = dict[tuple[str, int], list[list[Reader]]]  # by row and seed: readers that answer together
Found = dict[tuple[str, int], list[dict[str, list[str]]]]  # by row and seed: the answers of each of these


def readers_by_row(runs: Runs) -> Rows:
    """Each table row's readers by seed: every member by itself (the row's score is their mean), the ensemble, and the
    students."""
    rows: Rows = {}
    for (kind, seed), run in runs.items():
        rows[kind, seed] = [[member] for member in run.members]
        rows[f"{kind} (E)", seed] = [run.members]
        rows |= {(row_name(kind, name), seed): [[student]] for name, student in run.students.items()}
    return rows


def present(preset: Preset, names: list[str]) -> list[str]:
    """Those of these sets of questions that the preset has; not all have adversarial ones."""
    known = question_sets(preset)
    return [name for name in names if name in known]


def answered(preset: Preset, rows: Rows, sets: list[str]) -> Found:
    """What every row answers to these sets of questions; asked once, and kept."""
    asked = question_sets(preset)
    known = {name: fingerprint(*(repr((e.id, e.question, e.context)) for e in asked[name])) for name in sets}
    tasks = {
        key: [
            Answers(
                preset=preset,
                label=f"answers of {key[0]}, seed {key[1]}, {number} of {len(groups)}",
                readers=[reader.infra.uid() for reader in together],
                questions=known,
                infra={"folder": paths.models(preset.name)},
            )
            for number, together in enumerate(groups, 1)
        ]
        for key, groups in rows.items()
    }
    engine.run([task for group in tasks.values() for task in group], preset.engine, "answers")
    return {key: [task.fit() for task in group] for key, group in tasks.items()}


def table(preset: Preset, found: Found, sets: list[str]) -> dict:
    """Tables 1, 2 and 5 as parts of a record: F1 and EM of every row, set and seed, and every question's F1."""
    asked, f1, exact = question_sets(preset), {}, {}
    for (row, seed), together in found.items():
        for name in sets:
            f1[row, name, seed], exact[row, name, seed] = _means(asked[name], [one[name] for one in together])
    ids = {name: fingerprint(*groups_of(asked[name])) for name in sets}
    first, second = records.scored(f1, "F1"), records.scored(exact, "EM")  # most is said of F1
    scores = first["scores"] + second["scores"]
    return {**first, "scores": scores, "examples_of": ids, "unit": "F1", "average": False}


def table3(preset: Preset, found: Found) -> dict:
    """Table 3: BLEU and ROUGE-L of free answers; the mean over the members for a row of several readers."""
    test = question_sets(preset)["Test"]
    references, scores = [example.answers for example in test], []
    for (row, seed), groups in found.items():
        each = [metrics.free_answers(one["Test"], references) for one in groups]
        for key, column in FREE.items():
            value = float(np.mean([one[key] for one in each]))
            scores.append(Score(method=row, column=column, seed=seed, value=value))
    return {"scores": scores, "unit": "score", "average": False}


def table4(preset: Preset, rows: Rows, notes: Iterable[str] = (), repeats: int = 3) -> dict:
    """Table 4: how long ensemble and student take for test questions, turn by turn in one run, and their sizes.

    Tokenised text to answers, readers loaded; the median of ``repeats``. At most ``TIMED`` questions, evenly spread,
    because an ensemble reads them again and again.
    """
    asked = question_sets(preset)["Test"]
    asked = asked[:: math.ceil(len(asked) / TIMED)]
    test, scores = windows_over(preset, asked), []
    for (row, seed), ((*together,),) in [(key, groups) for key, groups in rows.items() if len(groups) == 1]:
        size = sum(reader.fit()["parameters"] for reader in together) / 1000
        scores.append(Score(method=row, column=INFERENCE, seed=seed, value=size, metric="thousand parameters"))
    for kind, seed in [key for key, groups in rows.items() if len(groups) > 1]:
        of = {name: list(loaded(preset, rows[name, seed][0])) for name in (f"{kind} (E)", f"{kind} + A2D")}
        seconds = defaultdict(list)
        for _ in range(repeats + 1):
            for name, members in of.items():
                begun = time.perf_counter()
                joint_answers(members, preset, test)
                seconds[name].append(time.perf_counter() - begun)
        slow, fast = (median(values[1:]) for values in seconds.values())  # the first warms up
        scores += [
            Score(method=name, column=INFERENCE, seed=seed, value=value, metric="seconds")
            for name, value in zip(of, (slow, fast), strict=True)
        ]
        student = f"{kind} + A2D"
        scores.append(Score(method=student, column=INFERENCE, seed=seed, value=slow / fast, metric=FASTER))
    order = (FASTER, "seconds", "thousand parameters")
    scores.sort(key=lambda score: order.index(score.metric))
    timed = f"times are for {len(asked)} test questions"
    return {"scores": scores, "unit": FASTER, "average": False, "notes": [*notes, timed]}


def figure4(preset: Preset, found: Found, name: str, notes: Iterable[str] = ()) -> dict:
    """Figure 4: F1 by the question's type on one set of questions, for the reader alone and the distilled one."""
    kinds = [row.removesuffix(" + A2D") for row in dict.fromkeys(row for row, _ in found) if row.endswith(" + A2D")]
    found = {key: groups for key, groups in found.items() if key[0].removesuffix(" + A2D") in kinds}
    asked = question_sets(preset)[name]
    first = list({example.group: example for example in asked}.values())
    types = np.asarray([question_type(example.question) for example in first])
    shown = [one for one in QUESTION_TYPES if np.count_nonzero(types == one) >= FEW]
    ids = {one: [e.id for e, own in zip(first, types, strict=True) if own == one] for one in shown}
    values = {}
    for (row, seed), together in found.items():
        f1, _ = _means(asked, [one[name] for one in together])
        values |= {(row, one, seed): f1[types == one].tolist() for one in shown}
    counts = ", ".join(f"{one} {np.count_nonzero(types == one)}" for one in QUESTION_TYPES if one in types)
    return {
        **records.scored(values),
        "kind": "bars",
        "examples_of": {one: fingerprint(*of) for one, of in ids.items()},
        "unit": "F1",
        "average": False,
        "notes": [*notes, f"questions on {name}: {counts}; types with fewer than {FEW} are not shown"],
        "claims": [
            Claim(text=f"A2D helps {kind} with {one!r}", above=f"{kind} + A2D", below=kind, columns=[one])
            for kind in kinds
            for one in shown
        ],
    }


def claims(runs: Runs, sets: list[str]) -> list[Claim]:
    """What the paper says of Tables 1 and 2: the student is better than a reader by itself, keeps 80 % of what the
    ensemble gains (section 4.3: nearly), and gains more where there are confusing answers, above the ensemble."""
    said = []
    for kind in kinds_of(runs):
        one, together, student = kind, f"{kind} (E)", f"{kind} + A2D"
        for name in sets:
            on = {"columns": [name]}
            said.append(Claim(text=f"{student} beats {one} on {name}", above=student, below=one, **on))
            if name == "Test":
                kept = {"than": [together, one], "times": 0.8}
                text = f"{student} keeps 80 % of what {together} gains on {name}"
                said.append(Claim(text=text, above=student, below=one, **on, **kept))
            if name.startswith("Add"):
                said.append(Claim(text=f"{student} beats {together} on {name}", above=student, below=together, **on))
                more = {"than": [student, one], "than_columns": ["clean"]}
                text = f"{student} gains more over {one} on {name} than on clean questions"
                said.append(Claim(text=text, above=student, below=one, **on, **more))
    return said


def story_claims(runs: Runs) -> list[Claim]:
    """What the paper says of Table 3: the student is above a reader by itself, and in Bleu-1 above the ensemble."""
    said = []
    for kind in kinds_of(runs):
        student = f"{kind} + A2D"
        for column in FREE.values():
            text = f"{student} beats {kind} in {column}"
            said.append(Claim(text=text, above=student, below=kind, columns=[column]))
        text = f"{student} beats {kind} (E) in Bleu-1"
        said.append(Claim(text=text, above=student, below=f"{kind} (E)", columns=["Bleu-1"]))
    return said


def ablation_claims(runs: Runs, sets: list[str]) -> list[Claim]:
    """What the paper says of Table 5: every part helps."""
    return [
        Claim(
            text=f"{kind} + A2D is better than {row_name(kind, name)} on {column}",
            above=f"{kind} + A2D",
            below=row_name(kind, name),
            columns=[column],
        )
        for kind in kinds_of(runs)
        for name in ABLATIONS
        if name != "A2D"
        for column in sets
    ]


def kept(record: Record) -> pd.DataFrame:
    """How much of the ensemble's gain over a single reader the student has, by set of questions, with intervals; no
    share where the ensemble's gain is not certain."""
    lines, record = {}, comparisons.by_metric(record)[0]
    for row in dict.fromkeys(score.method for score in record.scores):
        if not row.endswith(" + A2D"):
            continue
        kind = row.removesuffix(" + A2D")
        for column in comparisons.columns(record):
            gains = {
                "ensemble's gain": comparisons.compare(record, f"{kind} (E)", kind, [column]),
                "student's gain": comparisons.compare(record, row, kind, [column]),
            }
            together, student = gains.values()
            share = f"{tables.signed(100 * student.difference / together.difference, 0)} %" if together.is_gain else "–"
            texts = {name: _with_interval(gain) for name, gain in gains.items()}
            lines[f"{kind}, {column}"] = texts | {"share": share.removeprefix("+")}
    return pd.DataFrame.from_dict(lines, orient="index")


def sample_answers(preset: Preset, found: Found, number: int = 6) -> pd.DataFrame:
    """The first test questions with the distilled reader's answers."""
    test = question_sets(preset)["Test"][:number]
    row = next(key for key in found if key[0].endswith(" + A2D"))
    answers = found[row][0]["Test"]
    rows = [
        {"question": example.question, "answer": answer, "expected": " / ".join(example.answers)}
        for example, answer in zip(test, answers, strict=False)
    ]
    return pd.DataFrame(rows)


def _means(asked: list[Example], answers: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """F1 and EM of each question, the least over its variants, averaged over several readers' answers."""
    each = [metrics.group_minima(asked, metrics.score(asked, texts)) for texts in answers]
    return np.mean([one.f1 for one in each], axis=0), np.mean([one.em for one in each], axis=0)


def _with_interval(gain: intervals.Comparison) -> str:
    text = tables.signed(gain.difference)
    return text if gain.low is None else f"{text} ({tables.bounds(gain)})"
