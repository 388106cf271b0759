"""A2D's tables and figures: what they need trained, as records, with the paper's claims."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from helpers.data.examples import Example
from helpers.data.sets import question_set, question_set_names
from helpers.models.attention import keep_attention
from helpers.papers import reading
from helpers.papers import rows as shared
from helpers.papers.a2d import FASTER, algorithm
from helpers.papers.a2d.algorithm import Distilled, Row, Rows, Runs, kinds_of, row_name, rows_of
from helpers.papers.reading import Answers
from helpers.presets.schema import Preset
from helpers.results import comparisons
from helpers.results.records import Claim, Record
from helpers.tasks import views
from helpers.tasks.distilled import DistilledReader, Kind
from helpers.tasks.spans import budget
from helpers.training.engine import Plan, run_plans

SETS = {"Dev": "valid", "Test": "test"}  # what the paper calls sets of questions; others bear their own names
FREE = ("Bleu-1", "Bleu-4", "Rouge-L")  # the paper's columns of Table 3


def run(preset: Preset, plans: dict[tuple, Plan]) -> dict[tuple, Any]:
    """Train all that plans need, if it is not there."""
    return {key: outcome.value for key, outcome in run_plans(plans, preset.engine).items()}


def present(preset: Preset, columns: Iterable[str]) -> list[str]:
    """Those of these sets of questions that the preset has; not all have adversarial ones."""
    known = question_set_names(preset.data)
    return [column for column in columns if SETS.get(column, column) in known]


def answered(preset: Preset, rows: Rows, columns: list[str]) -> Answers:
    """What every group of readers answers to these sets of questions; asked once, and kept."""
    return reading.answered(preset, rows, sets_of(columns))


def sets_of(columns: Iterable[str]) -> dict[str, str]:
    """The sets of questions by their columns."""
    return {column: SETS.get(column, column) for column in columns}


def scores(preset: Preset, answers: Answers, columns: list[str]) -> dict:
    """F1 and EM of every row, column and seed as parts of a record, and every question's F1."""
    cells = {
        (row, column, seed): (SETS.get(column, column), [texts[column] for texts in groups])
        for (row, seed), groups in answers.items()
        for column in columns
    }
    return shared.score_table(preset, cells, exact=True)


def made(preset: Preset, runs: Runs) -> dict:
    """Baselines, notes and cost of what came of the runs, as parts of a record."""
    trained = [reader for run in runs.values() for reader in (*run.members, *run.stages, *run.students.values())]
    parts = {"baselines": kinds_of(runs)[:1], "notes": notes(preset, runs)}
    return {**parts, "training_seconds": shared.seconds(trained)}


def table1(preset: Preset, runs: Runs, answers: Answers) -> dict:
    """Table 1: a reader, an ensemble, and the reader distilled from it."""
    return {**made(preset, runs), **scores(preset, answers, ["Dev", "Test"]), "claims": claims(runs, ["Test"])}


def table2(preset: Preset, runs: Runs, answers: Answers) -> dict:
    """Table 2: the same on adversarial questions."""
    attacks = ["AddSent", "AddOneSent"]
    return {**made(preset, runs), **scores(preset, answers, ["clean", *attacks]), "claims": claims(runs, attacks)}


def table3(preset: Preset, runs: Runs, answers: Answers) -> dict:
    """Table 3: BLEU and ROUGE-L of free answers; the mean over the members for a row of several readers."""
    said, parts = [], made(preset, runs)
    for kind in kinds_of(runs):
        said += [_beats(f"{kind} + A2D", kind, column, "in") for column in FREE]
        said += [_beats(f"{kind} + A2D", f"{kind} (E)", "Bleu-1", "in", primary=True)]
    texts = {row: [of_reader["Test"] for of_reader in groups] for row, groups in answers.items()}
    measured = reading.free_answers(preset, "test", texts)
    return {**parts, **measured, "claims": _of_paper(runs, said), "notes": [*parts["notes"], *measured["notes"]]}


def table4(preset: Preset, runs: Runs, repeats: int = 3) -> dict:
    """Table 4: how long ensemble and student take for test questions, and their sizes."""
    compared = [
        (seed, {f"{kind} (E)": distilled.members, f"{kind} + A2D": [distilled.students["A2D"]]})
        for (kind, seed), distilled in runs.items()
    ]
    measured = reading.speed(preset, compared, FASTER, repeats)
    return {**measured, "notes": [*notes(preset, runs), *measured["notes"]]}


def table5(preset: Preset, runs: Runs, answers: Answers, columns: list[str]) -> dict:
    """Table 5: what each part is worth. The paper says that each helps."""
    kinds, parts = kinds_of(runs), made(preset, runs)
    pairs = [(kind, name) for kind in kinds for name in algorithm.ABLATIONS if name != "A2D"]
    staged = [
        f"{algorithm.STAGED}: the first half of its steps matches the attention alone, so only half have right answers",
        f"{algorithm.STAGED_WHOLE}: a row of ours, whose second stage has the whole budget, so 1.5 budgets in all",
    ]
    headline = kinds[0], "- ANS", columns[-1]  # AddSent, where the paper loses most
    said = []
    for kind, name in pairs:
        for column in [column for column in columns if column != "Dev"]:
            flags = {"primary": (kind, name, column) == headline, "control": name == algorithm.STAGED_WHOLE}
            said.append(_beats(f"{kind} + A2D", row_name(kind, name), column, **flags))
    return {
        **parts,
        "baselines": [f"{kinds[0]} + A2D"],
        "claims": _of_paper(runs, said),
        "notes": parts["notes"] + staged,
        **scores(preset, answers, columns),
    }


def weights(preset: Preset, runs: Runs, tried: dict[Row, Distilled], columns: list[str]) -> dict:
    """Section 4.2: the students of ``algorithm.weight_plans`` beside those of the tables."""
    kind = kinds_of(runs)[0]
    rows = {row: groups for row, groups in rows_of(runs).items() if row[0] in (kind, f"{kind} (E)", f"{kind} + A2D")}
    students = {row: distilled.students["A2D"] for row, distilled in tried.items()}
    rows |= {row: [[student]] for row, student in students.items()}
    return {
        "baselines": [f"{kind} + A2D"],
        "notes": notes(preset, runs),
        "training_seconds": shared.seconds(students.values()),
        **scores(preset, answered(preset, rows, columns), columns),
    }


def steps(preset: Preset, kind: Kind, readers: dict[Row, dict[tuple, DistilledReader]], columns: list[str]) -> dict:
    """Ours: F1 against the number of steps of the readers of ``algorithm.longer_plans``. Without Dev, by which weights
    were chosen."""
    points = {(point, seed): reader for (_, seed), made in readers.items() for point, reader in made.items()}
    own, shown = algorithm.preset_for(preset, kind), [column for column in columns if column != "Dev"]
    student, longest = f"{kind} + A2D", max(preset.a2d.lengths)
    rivals = kind, f"{kind}, smoothed labels", f"{kind} + one teacher"
    pairs = [(rival, column) for rival in rivals for column in reversed(shown)]
    said = [
        Claim(
            text=f"{student} beats {rival} on {column} at the longest",
            above=f"{student}, {longest:g}",
            below=f"{rival}, {longest:g}",
            columns=[column],
            control=True,
        )
        for rival, column in pairs
    ]
    return {
        "scores": reading.curve(preset, points, sets_of(shown)),
        "claims": said,
        "payload": {"x": "times the steps"},
        "notes": [
            f"1 is {budget(own):,} steps of {own.training.batch_size} windows ({own.training.epochs:g} epochs)",
            f"{kind} is the first of an ensemble's {preset.a2d.members} members, and the one teacher; all others start "
            "from the student's first weights",
            f"of a smoothed label a part of {algorithm.SMOOTHING:g} is divided among the tokens that may be answers",
            algorithm.WEIGHTS.format(preset.a2d),
            *shared.notes(preset),
        ],
        "training_seconds": shared.seconds(points.values()),
    }


def figure3(preset: Preset, runs: Runs, case: views.Case) -> dict:
    """Figure 3: one question as the first run's first member and its student see it."""
    (kind, seed), *_ = runs
    whose = f"{kind}, seed {seed}: the ensemble's first member, and the reader distilled from the ensemble"
    told = [whose, f"chosen: {case.rule}", case.changes]
    return {"payload": case.payload, "notes": told, "training_seconds": made(preset, runs)["training_seconds"]}


def case(preset: Preset, runs: Runs) -> tuple[views.Case, views.Readers, list[Example]]:
    """Figure 3's question, the first run's first member and its student, and the questions that it was chosen from: the
    adversarial ones, or the test questions where there are none."""
    where, ((_, seed), distilled) = "AddSent" if present(preset, ["AddSent"]) else "Test", next(iter(runs.items()))
    asked = question_set(preset.drawn(seed).data, SETS.get(where, where))
    questions = [example for example in asked if where == "Test" or example.id != example.group]
    models = [reader.load(reader.key) for reader in (distilled.members[0], distilled.students["A2D"])]
    readers = dict(zip(("before", "after"), map(keep_attention, models), strict=True))
    return views.choose(preset, readers, where, questions), readers, questions


def figure4(preset: Preset, runs: Runs, answers: Answers, column: str) -> dict:
    """Figure 4: F1 by the question's type on one set of questions, for the reader alone and the distilled one."""
    kinds, parts = kinds_of(runs), made(preset, runs)
    shown = {row: groups for row, groups in answers.items() if row[0].removesuffix(" + A2D") in kinds}
    texts = {row: [of_reader[column] for of_reader in groups] for row, groups in shown.items()}
    table = reading.by_question_type(preset, SETS.get(column, column), column, texts)
    words = dict.fromkeys(score.column for score in table["scores"])
    said = [_beats(f"{kind} + A2D", kind, word, "on questions of the type") for kind in kinds for word in words]
    return {
        **table,
        "notes": [*parts["notes"], *table["notes"]],
        "claims": _of_paper(runs, said),
        "training_seconds": parts["training_seconds"],
    }


def claims(runs: Runs, columns: list[str]) -> list[Claim]:
    """What the paper says of Tables 1 and 2: the student is better than a reader by itself, keeps 80 % of what the
    ensemble gains (section 4.3: nearly), and gains more, above the ensemble, on confusing ones. Primary: abstract's."""
    said = []
    for kind in kinds_of(runs):
        ensemble, student = f"{kind} (E)", f"{kind} + A2D"
        for column in columns:
            gain = {"above": student, "below": kind, "columns": [column]}
            said.append(_beats(student, kind, column))
            if column == "Test":
                text = f"{student} keeps 80 % of what {ensemble} gains on {column}"
                said.append(Claim(text=text, **gain, than=[ensemble, kind], times=0.8, primary=True))
            if column.startswith("Add"):
                said.append(_beats(student, ensemble, column, primary=column == "AddSent"))
                text = f"{student} gains more over {kind} on {column} than on clean questions"
                said.append(Claim(text=text, **gain, than=[student, kind], than_columns=["clean"]))
    return _of_paper(runs, said)


def _of_paper(runs: Runs, said: list[Claim]) -> list[Claim]:
    """Claims, but as controls where they are not of the first kind of reader, which is the paper's."""
    first, control = f"{kinds_of(runs)[0]} + A2D", {"primary": False, "control": True}
    return [claim if claim.above == first else claim.model_copy(update=control) for claim in said]


def _beats(above: str, below: str, column: str, on: str = "on", **flags: bool) -> Claim:
    return shared.better(above, below, "beats", f" {on} {column}", columns=[column], **flags)


def kept(record: Record) -> pd.DataFrame:
    """How much of the ensemble's gain over a single reader the student has, by set of questions."""
    kinds = [row.removesuffix(" + A2D") for row in comparisons.rows(record) if row.endswith(" + A2D")]
    return shared.shares(record, {kind: (f"{kind} + A2D", f"{kind} (E)", kind) for kind in kinds})


def notes(preset: Preset, runs: Runs) -> list[str]:
    """What one has to know about how the rows were made."""
    settings, steps = preset.a2d, []
    for kind in kinds_of(runs):
        own = algorithm.preset_for(preset, kind)
        amount = f"{budget(own):,} steps of {own.training.batch_size} windows ({own.training.epochs:g} epochs)"
        steps.append(f"every {kind} reader, member or student, has {amount}")
        steps += ["no GloVe: RMR learns all its word vectors"] if kind == "RMR" and not preset.mnemonic.glove else []
    return [
        *steps,
        f"ensembles of {settings.members}; a reader's own row is the mean over its ensemble's members",
        algorithm.WEIGHTS.format(settings),
        *shared.notes(preset),
    ]


def sample_answers(preset: Preset, answers: Answers, number: int = 6) -> pd.DataFrame:
    """The first test questions with the first distilled reader's answers."""
    student = next(groups[0]["Test"] for (row, _), groups in answers.items() if row.endswith(" + A2D"))
    return shared.sample_answers(preset.data, {"": ("test", [student])}, number).drop(columns="domain")
