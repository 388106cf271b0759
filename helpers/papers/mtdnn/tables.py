"""MtDNN's tables and figures: what they need trained, as records, with the paper's claims."""

import numpy as np
import pandas as pd
from scipy.special import expit

from helpers.data.examples import Example
from helpers.papers.mtdnn import algorithm
from helpers.papers.mtdnn.algorithm import BOTH, CHOICES, QA, SENTENCES, weighted
from helpers.papers.mtdnn.trainings import general, questions
from helpers.papers.rows import Trained, better
from helpers.paths import public_name
from helpers.presets.schema import Preset
from helpers.results import records
from helpers.results.records import Claim, Printed, Score
from helpers.tasks import kinds, metrics
from helpers.tasks.changes import KINDS, OUTCOMES, changes
from helpers.tasks.kinds import Reply
from helpers.tasks.multitask import Predictions
from helpers.training.engine import run, run_plans

ALL = "all questions"
LARGER = ", larger"
SHARES = range(0, 101, 10)  # of the questions that are left without an answer
CASES = 3  # of each kind of change
SHOWN = OUTCOMES[:2]  # what changes no score is left aside
Replies = dict[tuple[str, int], dict[str, list[Reply]]]  # by row and seed, what is replied to each part


def readers(preset: Preset) -> Trained:
    """Train all that the tables and figures need, if it is not there."""
    done = run_plans(algorithm.plans(preset), preset.engine)
    rows = {seed: {row: {questions(preset): model} for row, model in made.value.items()} for seed, made in done.items()}
    return Trained.done(preset, {seed: made._replace(value=rows[seed]) for seed, made in done.items()})


def replies(trained: Trained) -> Replies:
    """What every reader replies to the questions of valid and test; asked once, and kept."""
    asked = {
        (row, seed, part): Predictions.of(model.preset, {task: [model.key]}, part, f"{model.label}, {part}")
        for row, seed, task, model in trained.models()
        for part in ("valid", "test")
    }
    run(asked.values(), trained.preset.engine, "answers")
    found: Replies = {}
    for (row, seed, part), predicted in asked.items():
        found.setdefault((row, seed), {})[part] = predicted.values()[questions(trained.preset)]
    return found


def answers(preset: Preset, seed: int, said: dict[str, list[Reply]]) -> list[str]:
    """The answers to a seed's test questions: none above the threshold that its validation questions have best F1 with
    (section 3.1.5)."""
    return kinds.answers(said["test"], kinds.threshold(preset.drawn(seed), questions(preset), said["valid"]))


def test_questions(preset: Preset, seed: int) -> list[Example]:
    """The questions that a seed's readers are tested on."""
    return kinds.examples_of(preset.drawn(seed), questions(preset), "test")


def without_answer(preset: Preset, asked: Replies) -> float:
    """How many percent of the seeds' test questions have no answer."""
    seeds = {seed for _, seed in asked}
    return 100 * float(np.mean([not example.answers for seed in seeds for example in test_questions(preset, seed)]))


def scores(preset: Preset, asked: Replies, rows: dict[str, str]) -> dict:
    """Parts of a record: F1 and EM of some rows, by what they are called in the record, of all questions, of those with
    an answer and of those without (SQuAD 2.0's HasAns and NoAns)."""
    cells: dict[records.Cell, metrics.Scores] = {}
    for (row, seed), said in asked.items():
        if row in rows:
            examples = test_questions(preset, seed)
            values = metrics.score(examples, answers(preset, seed, said))
            for column, part in {ALL: values, **metrics.by_answerability(examples, values)}.items():
                cells[rows[row], column, seed] = part
    cells = {cell: cells[cell] for cell in sorted(cells, key=lambda cell: [*rows.values()].index(cell[0]))}
    ids = {(column, seed): values.ids for (_, column, seed), values in cells.items()}
    parts = records.scored({cell: values.f1 for cell, values in cells.items()}, ids, "F1")
    parts["scores"] += records.scored({cell: values.em for cell, values in cells.items()}, ids, "EM")["scores"]
    never = f"a reader that never answers has {without_answer(preset, asked):.1f} F1 and EM of all questions"
    return {**parts, "notes": [*notes(preset), never]}


def table1(trained: Trained, asked: Replies) -> dict:
    """Table 1: questions drawn more or less often, and questions alone."""
    known, weights = trained.preset.mtdnn, algorithm.weights(trained.preset.mtdnn)
    rows = {weighted(weight): weighted(weight) for weight in weights} | {QA: "QA(1.0)"}
    others = {"all": "QA(1.0)"}
    if known.weight > weights[0]:
        others = {f"{weights[0]:g}": weighted(weights[0])} | others
    return {
        **scores(trained.preset, asked, rows),
        "baselines": ["QA(1.0)"],
        "claims": [
            Claim(
                text=f"taking {known.weight:g} of the batches from the questions is better than {name}",
                above=weighted(known.weight),
                below=row,
                columns=[ALL],
                primary=row == next(iter(others.values())),
            )
            for name, row in others.items()
        ],
        "training_seconds": trained.seconds,
    }


def figure3(table: records.Record) -> dict:
    """Figure 3: the scores of Table 1 by the weight of the questions."""
    places = {row: float(row.partition("(")[2].partition(")")[0]) for row in {score.method for score in table.scores}}

    def placed(score: Score | Printed) -> dict:
        return {"method": score.metric, "column": ALL, "value": score.value, "x": places[score.method]}

    return {
        "scores": [Score(**placed(score), seed=score.seed) for score in table.scores if score.column == ALL],
        "paper": [Printed(**placed(score)) for score in table.paper if score.method in places],
        "unit": "F1 or EM",
        "payload": {"x": "probability that a batch is of questions"},
    }


def table2(trained: Trained, asked: Replies) -> dict:
    """Table 2: which tasks beside the questions."""
    rows = {row: row for row in (QA, CHOICES, SENTENCES, BOTH) if row in trained.rows}
    others = [row for row in rows if row != BOTH] if BOTH in rows else []
    return {
        **scores(trained.preset, asked, rows),
        "baselines": [QA],
        "claims": [better(BOTH, row, columns=[ALL], primary=row == QA) for row in others],
        "training_seconds": trained.seconds,
    }


def figure4(table: records.Record) -> dict:
    """Figure 4: Table 2 drawn."""
    scores, paper = ([score for score in known if score.metric == "F1"] for known in (table.scores, table.paper))
    return {"scores": scores, "paper": paper, "examples": table.examples, "examples_of": table.examples_of}


def table3(trained: Trained, asked: Replies) -> dict:
    """Table 3: Table 2's first and last row with a larger encoder."""
    rows = {f"{row}{LARGER}": row for row in (QA, BOTH)}
    claims = [better(BOTH, QA, columns=[ALL], primary=True)]
    return {**scores(trained.preset, asked, rows), "baselines": [QA], "claims": claims}


def thresholds(trained: Trained, asked: Replies) -> dict:
    """F1 of all test questions where ever more of them, those likeliest to have none first, are left without an
    answer."""
    preset, values = trained.preset, []
    for (row, seed), said in asked.items():
        if row in (QA, BOTH):
            examples = test_questions(preset, seed)
            differences = np.asarray([reply.null_difference for reply in said["test"]])
            ranks = np.argsort(np.argsort(-differences, kind="stable"))
            for share in SHARES:
                empty = ranks < round(share / 100 * len(ranks))
                texts = ["" if none else reply.best_text for none, reply in zip(empty, said["test"], strict=True)]
                value = float(metrics.score(examples, texts, no_answer=True).f1.mean())
                values.append(Score(method=row, column=ALL, seed=seed, value=value, x=share))
    return {
        "scores": values,
        "payload": {"x": "% of the questions left without an answer"},
        "notes": [f"{without_answer(preset, asked):.0f} % of the questions have none"],
    }


def example(trained: Trained, asked: Replies) -> pd.DataFrame:
    """How the threshold decides (section 3.1.5), by the first seed's reader: the first test question with an answer,
    the first without, and the first whose reply it changes, where there is one.

    The probability of no answer is that of the null answer where it and the best span are all there is; after the
    threshold, that with the null score lowered by it.
    """
    row, preset = BOTH if BOTH in trained.rows else QA, trained.preset.drawn(0)
    examples, said = test_questions(trained.preset, 0), asked[row, 0]
    limit = kinds.threshold(preset, questions(preset), said["valid"])
    differences = np.array([reply.null_difference for reply in said["test"]])
    has_answer, before, after = np.array([bool(e.answers) for e in examples]), differences > 0, differences > limit
    table = {}
    for name, fits in {
        "first with an answer": has_answer,
        "first without": ~has_answer,
        "first that the threshold changes": before != after,
    }.items():
        for n in np.flatnonzero(fits)[:1]:
            table[name] = {
                "question": examples[n].question,
                "expected": " / ".join(dict.fromkeys(examples[n].answers)) or "no answer",
                "best span": said["test"][n].best_text,
                "probability of no answer": expit(differences[n]).round(3),
                "threshold": round(limit, 2),
                "after the threshold": expit(differences[n] - limit).round(3),
                "reply": "no answer" if after[n] else said["test"][n].best_text,
            }
    return pd.DataFrame.from_dict(table, orient="index")


def changed(trained: Trained, asked: Replies) -> dict:
    """Section 5: how the answers differ from those of a reader of questions alone, and the first questions of each kind
    of change for the better and for the worse."""
    preset, values, cases = trained.preset, [], {}
    for (row, seed), said in asked.items():
        if row not in (CHOICES, SENTENCES, BOTH):
            continue
        examples = test_questions(preset, seed)
        before, after = answers(preset, seed, asked[QA, seed]), answers(preset, seed, said)
        found = changes(examples, before, after, preset.data.may_be_unanswerable(questions(preset)))
        for (kind, outcome), numbers in found.items():
            if outcome in SHOWN:
                value = 100 * len(numbers) / len(examples)
                values.append(Score(method=f"{row}: {outcome}", column=kind, seed=seed, value=value))
                if row == BOTH and seed == 0:
                    cases[f"{kind}: {outcome}"] = [_case(examples[n], before[n], after[n]) for n in numbers[:CASES]]
    order = [f"{row}: {outcome}" for row in (CHOICES, SENTENCES, BOTH) for outcome in SHOWN]
    values.sort(key=lambda score: (order.index(score.method), KINDS.index(score.column), score.seed))
    return {"scores": values, "payload": {"cases": cases}, "notes": notes(preset)}


def _case(example: Example, before: str, after: str) -> dict[str, str]:
    expected = " / ".join(dict.fromkeys(example.answers)) or "no answer"
    return {"question": example.question, "expected": expected, QA: before or "-", BOTH: after or "-"}


def notes(preset: Preset) -> list[str]:
    """What one has to know about how the rows were made."""
    training, known = preset.training, preset.mtdnn
    sizes = {name: len(kinds.examples_of(preset, name, "train")) for name in [questions(preset), *preset.tasks.tasks]}
    first, before = general(preset), []
    if first:
        number = len(kinds.examples_of(first.preset, questions(first.preset), "train"))
        before = [
            f"every encoder first learned to answer {number:,} questions of {public_name(known.general)}: "
            f"{first.result()['best']:.1f} F1 on its validation questions"
        ]
    return [
        *before,
        f"epochs of the questions: {training.epochs:g}; {training.optimizer}, "
        f"learning rate {training.learning_rate:g}, batches of {training.batch_size}, dropout {known.dropout:g}",
        kinds.THRESHOLD,
        f"training examples: {', '.join(f'{name} {size:,}' for name, size in sizes.items())}",
    ]
