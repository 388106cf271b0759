"""MtDNN's tables and figures (He 2019, sections 4 and 5)."""

from collections.abc import Iterable
from functools import partial
from itertools import product

import numpy as np

from helpers import metrics, papers
from helpers.classification import examples_of, save_task
from helpers.data.examples import Example
from helpers.papers import model_folders, shared
from helpers.papers.mtdnn import find_question_task
from helpers.papers.mtdnn.algorithm import (
    BOTH,
    CHOICES,
    LARGER,
    QA,
    SENTENCES,
    Answered,
    group_tasks,
    list_probs,
    name_row,
    train_and_test,
)
from helpers.presets.schema import Preset
from helpers.records import Claim, Number, Record, Score
from helpers.task import Plan


def percent_unanswerable(tested: dict[tuple[str, int], Answered]) -> float:
    """Return the share of test questions without an answer, in percent."""
    return 100 * float(np.mean([not example.answers for cell in tested.values() for example in cell.examples]))


ALL_QUESTIONS = "all questions"
TASK_NAMES = {  # what claims call rows
    QA: "QA alone",
    CHOICES: "QA with multiple choice (MCC)",
    SENTENCES: "QA with sentence tasks (SC)",
    BOTH: "QA with other tasks (MCC, SC)",
}
ALONE = "QA(1.0)"  # the paper's name for questions alone in Table 1


def split_by_answerability(examples: list[Example], scores: metrics.Scores) -> dict[str, metrics.Scores]:
    """Split scores into SQuAD 2.0's "HasAns" and "NoAns", each where there is such a question."""
    answerable = np.array([bool(example.answers) for example in examples])
    parts = {"HasAns": answerable, "NoAns": ~answerable}
    return {name: metrics.Scores(scores.em[mask], scores.f1[mask]) for name, mask in parts.items() if mask.any()}


def make_table(preset: Preset, rows: dict[str, str], claims: list[Claim], baseline: str = QA, **settings: str) -> Plan:
    """Make Tables 1 to 3: F1 and EM of readers, by the name in the table, of questions with an answer and without.

    ``settings`` are the fields of the preset that these readers have others of.
    """
    models, tested = yield from train_and_test(preset)
    cells, passages = {}, {}
    for (name, row), seed in product(rows.items(), preset.seed_numbers):
        examples = tested[row, seed].examples
        scores = metrics.score(examples, tested[row, seed].answers())
        for column, part in {ALL_QUESTIONS: scores, **split_by_answerability(examples, scores)}.items():
            cells[name, column, seed] = part
        passages[ALL_QUESTIONS] = [example.context for example in examples]
    never = f"a reader that never answers has {percent_unanswerable(tested):.1f} F1 and EM of all questions"
    notes = [*make_notes(preset.model_copy(update=settings)), never]
    questions = {cell: scores.f1 for cell, scores in cells.items()}, passages
    facts = {"claims": claims, "notes": notes, "settings": settings, "training_seconds": models.seconds}
    facts["questions"] = questions
    return {**shared.f1_and_em(cells), **facts, "baselines": [baseline]}


def table1(preset: Preset) -> Plan:
    """Make Table 1: questions drawn more or less often, and questions alone."""
    prob, least = preset.mtdnn.question_prob, list_probs(preset)[0]
    others = [(f"{least:g}", name_row(least))] * (prob > least) + [("all", ALONE)]
    text = f"taking {prob:g} of the batches from the questions is better than"
    claims = [
        Claim(text=f"{text} {name}", above=name_row(prob), below=row, columns=[ALL_QUESTIONS], primary=number == 0)
        for number, (name, row) in enumerate(others)
    ]
    rows = {name_row(prob): name_row(prob) for prob in list_probs(preset)} | {ALONE: QA}
    return (yield from make_table(preset, rows, claims, ALONE))


FIGURE3 = {"x": "probability that a batch is of questions", "above": 1.0}


def figure3(preset: Preset, table: Record) -> dict:
    """Make Figure 3 of the record of Table 1: scores by the probability of questions, drawn as differences from 1."""
    probs = {name_row(prob): prob for prob in list_probs(preset)} | {ALONE: 1.0}

    def point(number: Number) -> Number:
        return number.model_copy(update={"method": number.metric, "metric": None, "x": probs[number.method]})

    return {
        "scores": [point(score) for score in table.scores if score.column == ALL_QUESTIONS],
        "paper": [point(number) for number in table.paper if number.method in probs],
        "unit": "F1 or EM",
        "payload": FIGURE3,
    }


def table2(preset: Preset) -> Plan:
    """Make Table 2: which tasks beside the questions."""
    rows = {row: row for row in group_tasks(preset)}
    return (yield from make_table(preset, rows, state_claims(rows, "bert-base")))


def state_claims(rows: Iterable[str], encoder: str) -> list[Claim]:
    """State that all tasks beat each other row, and the gain by the paper's text, which differs from its table's.

    That some of the tasks beat questions alone is a control.
    """
    better = partial(shared.state_better, names=TASK_NAMES, columns=[ALL_QUESTIONS])
    claims = [better(BOTH, row, primary=row == QA) for row in rows if row != BOTH]
    claims += [better(row, QA, control=True) for row in rows if row not in (QA, BOTH)]
    gain = papers.printed_gap("mtdnn/text", encoder, f"{QA}, {encoder}", ALL_QUESTIONS)
    in_text = {"on": ", by the final model's F1 in section 4.4", "printed": gain}
    return [*claims, better(BOTH, QA, **in_text)]


def figure4(table: Record) -> dict:
    """Make Figure 4 of the record of Table 2: its F1, drawn as differences from questions alone."""
    scores, paper = ([score for score in part if score.metric == "F1"] for part in (table.scores, table.paper))
    return {"scores": scores, "paper": paper, "baselines": table.baselines}


def table3(preset: Preset) -> Plan:
    """Make Table 3: Table 2's first and last row with a larger encoder; nothing where the preset names none."""
    if not preset.mtdnn.large:
        return {}
    rows = {row: f"{row}{LARGER}" for row in (QA, BOTH)}
    return (yield from make_table(preset, rows, state_claims(rows, "bert-large"), encoder=preset.mtdnn.large))


def thresholds(preset: Preset) -> Plan:
    """Compute F1 as more test questions are left unanswered, by null difference (not in the paper)."""
    _, tested = yield from train_and_test(preset)
    scores = []
    for row, seed in product((QA, BOTH), preset.seed_numbers):
        examples, spans, _ = tested[row, seed]
        order = np.argsort([-span.null_difference for span in spans], kind="stable")
        for share in range(0, 101, 10):  # percent of the questions
            none = {*order[: round(share / 100 * len(order))]}
            texts = ["" if number in none else span.best_text for number, span in enumerate(spans)]
            value = float(metrics.score(examples, texts, no_answer=True).f1.mean())
            scores.append(Score(method=row, column=ALL_QUESTIONS, seed=seed, value=value, x=share))
    notes = [f"{percent_unanswerable(tested):.0f} % of the questions have none"]
    return {"scores": scores, "payload": {"x": "% of the questions left without an answer"}, "notes": notes}


KINDS = ("now answered", "now none", "longer", "shorter", "another")  # of changes in the answers (section 5)
OUTCOMES = ("better", "worse")
CASES_PER_KIND = 3  # cases of each kind


def classify_change(example: Example, before: str, after: str, no_answer: bool) -> tuple[str, str] | None:
    """Classify a changed answer by `KINDS` and, by F1, `OUTCOMES`; None where F1 is the same."""
    old, new = (metrics.answer_f1(example, text, no_answer=no_answer) for text in (before, after))
    if old == new:
        return None
    normalize = metrics.choose_normalizer(example.context)
    before, after = (f" {normalize(text)} " for text in (before, after))  # whole words between spaces
    if not before.strip() or not after.strip():
        kind = "now answered" if after.strip() else "now none"
    else:
        kind = "longer" if before in after else "shorter" if after in before else "another"
    return kind, "better" if new > old else "worse"


def answers(preset: Preset) -> Plan:
    """Count how answers differ from those of the reader of questions alone, with the first cases of each kind."""
    _, tested = yield from train_and_test(preset)
    no_answer, rows = preset.data.may_be_unanswerable(find_question_task(preset)), list(group_tasks(preset))[1:]
    texts, scores = {cell: spans.answers() for cell, spans in tested.items()}, []
    for row, seed in product(rows, preset.seed_numbers):
        answered = zip(tested[row, seed].examples, texts[QA, seed], texts[row, seed], strict=True)
        changes = [classify_change(*each, no_answer) for each in answered]
        for outcome, kind in product(OUTCOMES, KINDS):
            share = 100 * changes.count((kind, outcome)) / len(changes)
            scores.append(Score(method=f"{row}: {outcome}", column=kind, seed=seed, value=share))
    cases = {f"{kind}: {outcome}": [] for kind, outcome in product(KINDS, OUTCOMES)}
    first = preset.engine.first_seed
    for example, before, after in zip(tested[BOTH, first].examples, texts[QA, first], texts[BOTH, first], strict=True):
        if changed := classify_change(example, before, after, no_answer):
            expected = " / ".join(dict.fromkeys(example.answers)) or "no answer"
            case = {"question": example.question, "expected": expected, QA: before or "-", BOTH: after or "-"}
            cases[": ".join(changed)].append(case)
    shown = {name: of_kind[:CASES_PER_KIND] for name, of_kind in cases.items()}
    return {"scores": scores, "payload": {"cases": shown}, "notes": make_notes(preset)}


def state_changes(record: Record) -> str:
    """Say in one sentence how many answers the other tasks change for the better and for the worse."""
    kinds = {kind: f"{BOTH}: {kind}" for kind in ("better", "worse")}
    sums = {
        kind: sum(s.value for s in record.scores if s.method == row) / len(record.seeds) for kind, row in kinds.items()
    }
    over = f"{len(record.seeds)} seed{'s' * (len(record.seeds) > 1)} of preset {record.preset}"
    return (
        f"{BOTH} answers {sums['better']:.1f} % of the test questions better than {QA} and "
        f"{sums['worse']:.1f} % worse, over {over}."
    )


def make_notes(preset: Preset) -> list[str]:
    """State how the rows were made."""
    task, loop = find_question_task(preset), preset.training
    sizes = ", ".join(f"{name} {len(examples_of(preset, name, 'train')):,}" for name in [task, *preset.tasks.tasks])
    return [
        *shared.state_general(preset),
        f"epochs of the questions: {loop.epochs:g}; {loop.optimizer}, learning rate {loop.learning_rate:g}, batches of "
        f"{loop.batch_size}, dropout {preset.mtdnn.dropout:g}",
        "a question has no answer where that is likelier by more than a threshold that was chosen on validation",
        f"training examples: {sizes}",
    ]


def keep_readers(preset: Preset, folder: str, table: Record) -> Plan:
    """Copy the model of all tasks that answers validation questions best, a folder per task, with Table 2's numbers."""
    models, _ = yield from train_and_test(preset)
    model = max((models.first(BOTH, seed) for seed in models.by_row[BOTH]), key=lambda model: model.best)
    for task, head in model.data.heads(model.preset).items():
        model_folders.keep_models({task: (BOTH, model)}, folder, table, model_folders.USES[head.kind], save_task)
