"""A2D's tables and figures (Hu et al. 2018, section 4)."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import get_args

import numpy as np

from helpers import extractive_qa, papers, records
from helpers.data.examples import Example
from helpers.data.load import ADVERSARIAL_SETS, narrative, question_set, question_set_names
from helpers.data.question_types import QUESTION_TYPES, by_type
from helpers.papers import shared
from helpers.papers.a2d import FASTER, case
from helpers.papers.a2d.algorithm import (
    ALL_DOMAINS,
    STAGED,
    STAGED_WHOLE,
    Kind,
    before_and_after,
    collect_controls,
    collect_rows,
    kind_of,
    list_ablations,
    list_kinds,
    name_student,
    vary_ensembles,
)
from helpers.papers.a2d.free_answers import score_free_answers
from helpers.papers.measure import time_in_turns
from helpers.papers.shared import Models
from helpers.presets.schema import Preset
from helpers.records import Claim, Score
from helpers.task import Plan

SET_BY_COLUMN = {"Dev": "valid", "Test": "test"} | {name: name for name in ADVERSARIAL_SETS}
ABLATED = ("Dev", "Test", "AddSent")
ABLATION_NAMES = {  # what claims call the ablations
    "- Vanilla KD": "without soft labels",
    "- ATT": "without attention",
    "- ANS": "without confusing answers",
    STAGED: "in two stages",
    STAGED_WHOLE: "in two whole stages",
}
READER_NAMES = {f"{kind} (E)": "its ensemble" for kind in get_args(Kind)}
READER_NAMES |= {
    name_student(kind, part): f"itself {text}" for kind in get_args(Kind) for part, text in ABLATION_NAMES.items()
}
PAPER_TEMPERATURE = 2  # section 4.2
TIMES_THE_STEPS = "times the steps (one student per seed)"
VARIED = {  # settings of our curves: what holds their values, what x is, how two students differ
    "members": ("member_counts", "number of teachers (one: the first member)", "with {:g} teachers than with {:g}"),
    "temperature": (
        "temperatures",
        "temperature (the paper: 2; one student per seed)",
        "at temperature {:g} than at {:g}",
    ),
}


def answer_columns(models: Models, columns: Iterable[str]) -> Plan:
    """Have readers answer the sets of some columns, if there are any. Returns texts by row, column and seed.

    The row of a reader by itself has the texts of every member of the ensemble.
    """
    names, texts = question_set_names(models.preset.data), {}
    sets = {column: SET_BY_COLUMN[column] for column in columns if SET_BY_COLUMN[column] in names}
    cells = {((row, n), column, s): (readers, sets[column]) for row, n, s, readers in models for column in sets}
    answered = yield from shared.answer_sets(models.preset, cells, together=True)
    for ((row, _), column, seed), (name, of_reader) in answered.items():
        texts.setdefault((row, column, seed), (name, []))[1].extend(of_reader)
    return texts


def score_columns(models: Models, columns: Iterable[str]) -> Plan:
    """Have readers answer the sets of some columns. Returns F1 and EM as parts of a record."""
    texts = yield from answer_columns(models, columns)
    cells = shared.score_cells(models.preset, texts)
    questions = {cell: scores.f1 for cell, scores in cells.items()}, shared.passages_of(models.preset, texts)
    return add_notes(models, {**shared.f1_and_em(cells), "questions": questions})


def add_notes(models: Models, parts: dict, temperatures: Sequence[float] = ()) -> dict:
    """Return the parts of a record with notes on how its readers were trained, their settings, and the seconds."""
    a2d = models.preset.a2d
    trainings = {kind_of(readers[0]): readers[0].optim for *_, readers in models}
    by_seed = [of_row for seeds in models.by_row.values() for of_row in seeds.values()]
    students = max(len(of_row) for of_row in by_seed if ALL_DOMAINS in of_row)
    is_mean = any(ALL_DOMAINS not in of_row for of_row in by_seed)
    of_reader = "the mean over its ensemble's members" if is_mean else "its ensemble's first member"
    sizes = sorted({len(readers) for *_, readers in models} - {1}) or [a2d.members]
    notes = [
        f"every {kind} reader: {training.epochs:g} epochs, {training.batch_size} windows per step"
        for kind, training in trainings.items()
    ]
    notes += [
        f"ensembles of {' or '.join(map(str, sizes))}; a reader's own row is {of_reader}, that of A2D "
        f"over {students} student{'s' * (students > 1)}",
        f"temperature {' or '.join(f'{tau:g}' for tau in temperatures or [a2d.temperature])}, gamma "
        f"{a2d.answer_weight:g}, delta {a2d.attention_weight:g}",
        shared.state_training_sizes(models.preset.data),
    ]
    settings = {"a2d": a2d.model_copy(update={"students": students}), "data": models.preset.data}
    facts = {"notes": notes + parts.get("notes", []), "settings": settings, "training_seconds": models.seconds}
    return parts | facts


def state_row_better(above: str, below: str, column: str, on: str = "on", **parts) -> Claim:
    """State that one row beats another on a column."""
    return shared.state_better(above, below, f" {on} {column}", READER_NAMES, columns=[column], **parts)


def find_printed(table: str, kind: Kind, above: str, below: str, column: str) -> dict:
    """Find what the paper prints for a difference that has another name there: it has RMR, and Table 5 is of Dev."""
    rows = [row.removeprefix("BERT, ").replace("BERT", "RMR") for row in (above, below)]
    is_dev = table == "table5" and column == "Test"
    conditions = ["with RMR"] * (kind == "BERT") + ["on Dev"] * is_dev
    gap = papers.printed_gap(f"a2d/{table}", *rows, "Dev" if is_dev else column)
    return {"printed": gap, "printed_for": " ".join(conditions)} if conditions else {}


def state_claims(kinds: Sequence[Kind], columns: Iterable[str]) -> list[Claim]:
    """State the claims of Tables 1 and 2 on columns of test questions. Those about a second reader are controls.

    The clean questions beside adversarial ones are of the paper's Dev.
    """
    claims = []
    for kind, column in product(kinds, columns):
        ensemble, student, is_control = f"{kind} (E)", f"{kind} + A2D", kind != kinds[0]
        is_clean = column == "Test"
        gain = {"above": student, "below": kind, "columns": [column], "control": is_control}
        for rival in [kind] if is_clean else [kind, ensemble]:
            primary = not is_control and (is_clean or (rival, column) == (ensemble, "AddSent"))
            table = "table1" if is_clean else "table2"
            printed = {} if is_control else find_printed(table, kind, student, rival, column)
            claims.append(state_row_better(student, rival, column, primary=primary, control=is_control, **printed))
        if is_clean:
            text = f"{student} keeps part of what {READER_NAMES[ensemble]} gains on {column}"
            share = papers.printed_gap("a2d/table1", "RMR + A2D", "RMR", column)
            share /= papers.printed_gap("a2d/table1", "RMR (E)", "RMR", column)
            more = {"than": [ensemble, kind], "share": True, "printed": round(100 * share, 1), "beside": not is_control}
            more["printed_for"] = "with RMR" * (kind == "BERT")
        else:
            text = f"{student} gains more over {kind} on {column} than on clean questions"
            more = {"than": [student, kind], "than_columns": ["clean"]}
            if not is_control:
                on_dev = papers.printed_gap("a2d/table1", "RMR + A2D", "RMR", "Dev")
                beyond = papers.printed_gap("a2d/table2", "RMR + A2D", "RMR", column) - on_dev
                more |= {"printed": round(beyond, 1), "printed_for": "with RMR" * (kind == "BERT")}
        claims.append(Claim(text=text, **gain, **more))
    return claims


def table1(preset: Preset, columns: Sequence[str] = ("Dev", "Test")) -> Plan:
    """Make Table 1: a reader, an ensemble, and the reader distilled from it. The first column selects."""
    kinds = list_kinds(preset)
    models, claims = collect_rows(preset, kinds, each=preset.a2d.students), state_claims(kinds, columns[1:])
    return {**(yield from score_columns(models, columns)), **name_baselines(kinds), "claims": claims}


def name_baselines(kinds: Sequence[Kind]) -> dict:
    """Name what rows are compared with: the ensemble and the distilled reader with the reader of their kind."""
    controls = {row: kind for kind in kinds[1:] for row in (f"{kind} (E)", f"{kind} + A2D")}
    return {"baselines": [*kinds], "compared_with": controls}


def table2(preset: Preset) -> Plan:
    """Make Table 2: the same on adversarial questions; nothing where the preset has none."""
    return (yield from table1(preset, ADVERSARIAL_SETS)) if preset.data.adversarial else {}


def with_stories(preset: Preset) -> Preset:
    """Return the preset of Table 3, whose questions about summaries have free answers."""
    return preset.model_copy(update={"data": narrative(preset.data)})


def table3(preset: Preset) -> Plan:
    """Make Table 3: BLEU and ROUGE-L of free answers to questions about stories."""
    preset = with_stories(preset)
    kind, *_ = list_kinds(preset)
    models = collect_rows(preset, [kind])
    parts = tabulate_free_answers(preset, (yield from answer_columns(models, ["Test"])))
    claims = state_free_answers(kind, parts["scores"])
    return {**add_notes(models, parts), "baselines": [kind], "untaught": kind, "claims": claims}


def state_free_answers(kind: Kind, scores: Iterable[Score]) -> list[Claim]:
    """State the claims of Table 3: the distilled reader beats the reader by itself, and its ensemble in Bleu-1.

    Where a seed's Bleu-4 is 0, as no four words in a row match, that one is not tested.
    """
    student = f"{kind} + A2D"
    bleu_4 = [score.value for score in scores if (score.method, score.column) == (student, "Bleu-4")]
    zeros = bleu_4.count(0.0)
    floor = f"the student's Bleu-4, which is not smoothed, is 0 in {zeros} of {len(bleu_4)} seeds" if zeros else ""
    return [
        state_row_better(student, kind, "Bleu-1", "in"),
        state_row_better(student, kind, "Bleu-4", "in", untested=floor),
        state_row_better(student, kind, "Rouge-L", "in"),
        state_row_better(student, f"{kind} (E)", "Bleu-1", "in", primary=True),
    ]


def table4(preset: Preset) -> Plan:
    """Make Table 4: how long ensemble and student take for at most 200 test questions, in turns, and their sizes."""
    models, scores = collect_rows(preset, list_kinds(preset)), []
    yield [reader for *_, readers in models for reader in readers]
    pairs = [(kind, seed) for kind in list_kinds(preset) for seed in models.by_row[kind]]
    for kind, seed in pairs:
        readers = {row: models.by_row[row][seed][ALL_DOMAINS] for row in (f"{kind} (E)", f"{kind} + A2D")}
        questions = question_set(preset.for_seed(seed).data, "test")
        questions = questions[:: math.ceil(len(questions) / 200)]
        windows, work = extractive_qa.windows_over(preset, questions), {}
        for row, members in readers.items():
            loaded = [one.load() for one in members]
            work[row] = partial(extractive_qa.answer, preset, loaded, windows, together=True)
        slow, fast = (seconds := time_in_turns(work)).values()
        sizes = {row: sum(one.result()["parameters"] for one in members) / 1000 for row, members in readers.items()}
        values = {FASTER: {f"{kind} + A2D": slow / fast}, "seconds": seconds, "thousand parameters": sizes}
        cell = {"column": f"ensemble of {preset.a2d.members}", "seed": seed}
        for metric, by_row in values.items():
            scores += [Score(method=row, value=value, metric=metric, **cell) for row, value in by_row.items()]
    return add_notes(models, {"scores": scores, "notes": [f"times are for {len(questions)} test questions"]})


def state_ablations(kind: Kind, parts: Iterable[str], columns: Iterable[str]) -> list[Claim]:
    """State the claims of Table 5 on all columns but the first: each part helps."""
    student, (_, *columns), claims = f"{kind} + A2D", columns, []
    for part, column in product([part for part in parts if part != "A2D"], columns):
        row, is_control = name_student(kind, part), part == STAGED_WHOLE
        primary = part == "- ANS" and column == columns[-1]  # AddSent, where the paper loses most
        printed = {} if is_control else find_printed("table5", kind, student, row, column)
        flags = {"primary": primary, "control": is_control, **printed}
        claims.append(state_row_better(student, row, column, **flags))
    return claims


def table5(preset: Preset) -> Plan:
    """Make Table 5: what each part is worth. The paper says that each helps."""
    kind, *_ = list_kinds(preset)
    models, student = collect_rows(preset, [kind], list_ablations(preset)), f"{kind} + A2D"
    parts = yield from score_columns(models, ABLATED)
    columns = dict.fromkeys(score.column for score in parts["scores"])
    claims = state_ablations(kind, list_ablations(preset), columns)
    return {**parts, "baselines": [student], "claims": claims}


def figure4(preset: Preset) -> Plan:
    """Make Figure 4: F1 by the question's type, for the reader by itself and the distilled one."""
    kind, *_ = list_kinds(preset)
    models, student = collect_rows(preset, [kind]), f"{kind} + A2D"
    texts = yield from answer_columns(models, ABLATED)
    texts = {cell: texts[cell] for cell in texts if cell[0] in (kind, student) and cell[1] == "Test"}
    parts = add_notes(models, score_by_type(preset, texts))
    types = dict.fromkeys(score.column for score in parts["scores"])
    claims = [state_row_better(student, kind, name, "on questions of type") for name in types]
    return parts | {"baselines": [kind], "claims": claims}


def steps(preset: Preset) -> Plan:
    """Make curves of F1 by steps (not in the paper), on all columns but Dev, which selects.

    There are none without ``a2d.lengths`` or where ``control_seeds`` is 0. Else all seeds are compared.
    """
    if not preset.control_seeds or not preset.a2d.lengths:
        return {}
    kind, *_ = list_kinds(preset)
    models = collect_controls(preset, kind)
    scores = yield from score_curves(models)
    payload = {"x": TIMES_THE_STEPS, "above": kind}
    notes = [f"epochs are for 1 times the steps; with more, {kind} is one reader, the ensemble's first member"]
    return add_notes(models, {"scores": scores, "claims": state_lengths(scores), "payload": payload, "notes": notes})


def score_curves(models: Models) -> Plan:
    """Have readers answer all columns but Dev, which selects. Returns F1 as scores of curves."""
    f1 = shared.average_f1(models.preset, (yield from answer_columns(models, ABLATED[1:])))
    return [Score(method=m, column=c, seed=seed, value=value, x=x) for ((m, x), c, seed), value in f1.items()]


def ensembles(preset: Preset, key: str) -> Plan:
    """Make curves of F1 by a setting of ``a2d``, one of `VARIED` (not in the paper).

    There are none without values or where ``control_seeds`` leaves no seed.
    """
    name, x, _ = VARIED[key]
    preset = preset.for_controls()
    if not preset or not (places := getattr(preset.a2d, name)):
        return {}
    kind, *_ = list_kinds(preset)
    models = vary_ensembles(preset, kind, key, places)
    scores = yield from score_curves(models)
    payload = {"x": x, "scale": "log", "above": kind}
    parts = {"scores": scores, "claims": state_places(scores, key), "payload": payload}
    return add_notes(models, parts, places if key == "temperature" else ())


def state_places(scores: Sequence[Score], key: str) -> list[Claim]:
    """State that the student is better at the last place of a curve than at the first.

    Of temperatures, state that it beats a reader by itself at the paper's, which is not that of our tables.
    """
    kind, student, (*_, comparison) = scores[0].method, f"{scores[0].method} + A2D", VARIED[key]
    first, *_, last = places = sorted({score.x for score in scores} - {None})
    text = f"{student} is better {comparison.format(last, first)}"
    above, below = f"{student}, {last:g}", f"{student}, {first:g}"
    columns = dict.fromkeys(score.column for score in scores)
    claims = [Claim(text=f"{text} on {c}", above=above, below=below, columns=[c], control=True) for c in columns]
    if key == "temperature" and PAPER_TEMPERATURE in places:
        above = f"{student}, {PAPER_TEMPERATURE}"
        text = f"{student} beats {kind} on Test at the paper's temperature, {PAPER_TEMPERATURE}"
        claims.append(Claim(text=text, above=above, below=kind, columns=["Test"], control=True))
    return claims


members = partial(ensembles, key="members")
temperatures = partial(ensembles, key="temperature")


def state_lengths(scores: Sequence[Score]) -> list[Claim]:
    """State that A2D is better than its rivals with the most steps, and that these beat a reader by itself on Test."""
    kind, lengths = scores[0].method, sorted({score.x for score in scores} - {None})
    cheaper = f"{kind} + one teacher", f"{kind}, smoothed labels"
    columns = reversed(dict.fromkeys(score.column for score in scores))
    places = [(f"{kind} + A2D", below, column, lengths[-1]) for below, column in product((kind, *cheaper), columns)]
    places += [(above, kind, "Test", times) for above, times in product(cheaper, lengths)]
    return [
        Claim(
            text=f"with {'' if times == 1 else f'{times:g} times '}the tables' steps {above} beats {below} on {column}",
            above=f"{above}, {times:g}",
            below=f"{below}, {times:g}",
            columns=[column],
            control=True,
        )
        for above, below, column, times in places
    ]


def load_questions(preset: Preset) -> list[Example]:
    """Return the questions of Figure 3: adversarial ones whose passage was changed, or else those of the test part."""
    questions = question_set(preset.for_seed(0).data, "AddSent" if preset.data.adversarial else "test")
    return [example for example in questions if example.id != example.group] or questions


def figure3(preset: Preset) -> Plan:
    """Make Figure 3: a question as a reader sees it before and after distillation."""
    pair = before_and_after(preset)
    yield pair.values()
    readers = {when: reader.load() for when, reader in pair.items()}
    examples, notes = case.choose_cases(preset, readers, load_questions(preset))
    notes.append(f"{list_kinds(preset)[0]}, seed 0: the ensemble's first member, and the reader distilled from it")
    payload, *more = (case.compare_readers(preset, readers, example) for example in examples)
    payload |= dict(zip(["typical"], more, strict=False))
    seconds = shared.add_up_seconds(pair.values())
    settings = {"a2d": preset.a2d.model_copy(update={"students": 1})}
    return {"payload": payload, "notes": notes, "settings": settings, "training_seconds": seconds}


LENGTH = "% of the references' words"  # a metric of which neither more nor less is better
FREE = {"bleu_1": "Bleu-1", "bleu_4": "Bleu-4", "rouge_l": "Rouge-L", "bleu_4_smoothed": "Bleu-4, smoothed"}
FREE["length"] = "Length"


def tabulate_free_answers(preset: Preset, answers: shared.AnswersByCell) -> dict:
    """Make parts of a record: BLEU and ROUGE-L of one column's answers, and their length.

    The length is another metric.
    """
    scores = []
    for (row, _, seed), (name, by_reader) in answers.items():
        references = [example.answers for example in question_set(preset.for_seed(seed).data, name)]
        measured = [score_free_answers(of_reader, references) for of_reader in by_reader]
        for key, column in FREE.items():
            metric, value = LENGTH if key == "length" else None, float(np.mean([each[key] for each in measured]))
            scores.append(Score(method=row, column=column, seed=seed, value=value, metric=metric))
    notes = [
        "Bleu is of all answers together; Rouge-L is a mean over questions",
        "Bleu-4, smoothed: one is added to the matches of two words and more and to their number (Lin & Och 2004); "
        "where few answers have four words, that alone makes it large",
        "Length: words of the answers, in % of those of the references that are nearest in length, as Bleu counts them",
    ]
    return {"scores": scores, "notes": notes}


MIN_QUESTIONS_OF_TYPE = 10  # types with fewer questions are not shown


def score_by_type(preset: Preset, answers: shared.AnswersByCell) -> dict:
    """Make parts of a record: F1 of one column's answers by the question's type, of types with enough questions."""
    f1, sizes = {}, {}
    for (row, column, seed), scores in shared.score_cells(preset, answers).items():
        name, _ = answers[row, column, seed]
        questions = {example.group: example.question for example in question_set(preset.for_seed(seed).data, name)}
        for kind, numbers in by_type(questions.values()).items():
            f1[row, kind, seed], sizes[kind, seed] = scores.f1[numbers], len(numbers)
    counts = {kind: [sizes.get((kind, seed), 0) for seed in preset.seed_numbers] for kind in QUESTION_TYPES}
    counted = ", ".join(f"{kind} {np.mean(numbers):.0f}" for kind, numbers in counts.items() if any(numbers))
    note = (
        f"questions of the set {name}: {counted}; types with fewer than {MIN_QUESTIONS_OF_TYPE} in a seed are not shown"
    )
    shown = {cell: values for cell, values in f1.items() if min(counts[cell[1]]) >= MIN_QUESTIONS_OF_TYPE}
    return {"scores": records.make_scores(shown), "notes": [note]}
