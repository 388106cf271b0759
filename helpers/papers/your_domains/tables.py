"""The table of all methods, how sure its differences are, their costs, and the readers to keep."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from helpers import extractive_qa, metrics, paths
from helpers.answering import save_reader
from helpers.data.load import load_domains, question_set
from helpers.data.questions import ANSWERS_LEFT_OUT, MOVED
from helpers.models.encoders import load_tokenizer
from helpers.papers import model_folders, shared
from helpers.papers.export import export_reader
from helpers.papers.imm import algorithm as imm_algorithm
from helpers.papers.measure import average_columns, time_in_turns
from helpers.papers.shared import Models
from helpers.papers.your_domains import teaching
from helpers.papers.your_domains.comparison import (
    BEST,
    choose_on_validation,
    choose_readers,
    select_methods,
    train_readers,
)
from helpers.papers.your_domains.teaching import MILLISECONDS, SIZE, TIMED
from helpers.presets.schema import Preset
from helpers.records import Cell, Claim, Record, Score
from helpers.results import stats
from helpers.task import Plan

FEWEST = 100  # questions to train or test on; with fewer, a score says little
BASELINES = ("Single", "Mix")  # that every method is compared with, where they are trained
ADVISED = ("Mix", "Mix ensemble", "A2D")  # rows of the table of what to use
ALL = "all domains"
PIECES = 1.6  # per word: English has at most 1.3 with BERT's vocabulary, German 1.9
PASSAGES, CHARACTERS = 200, 1000  # that are cut into pieces to see this


def table(models: Models) -> Plan:
    """Make the record's parts: F1 and EM of every method's reader on each domain's test questions, and of the best.

    The payload names the best method of each domain on validation, its best seed, and the `compare`d differences; the
    last row are the readers of the best methods.
    """
    choice = yield from choose_on_validation(models)
    best, seeds = ({name: pair[number] for name, pair in choice.items()} for number in range(2))
    chosen = {
        seed: {name: models.by_row[row][seed][name] for name, row in best.items()}
        for seed in models.preset.seed_numbers
    }
    models = replace(models, by_row=models.by_row | {BEST: chosen})
    cells = {(row, domain, seed): (members, f"test/{domain}") for row, domain, seed, members in models}
    answers = yield from shared.answer_sets(models.preset, cells)
    scored = shared.score_cells(models.preset, answers)
    differences = compare(models.preset, scored)
    return {
        **shared.f1_and_em(scored),
        "baselines": [row for row in BASELINES if row in models.by_row],
        "claims": state_claims(models.by_row),
        "questions": ({cell: scores.f1 for cell, scores in scored.items()}, shared.passages_of(models.preset, answers)),
        "payload": {"best": best, "seeds": seeds, "differences": differences},
        "settings": list_settings(models),
        "notes": [*models.notes, *state_sizes(models.preset), *state_choices(best, differences)],
        "training_seconds": models.seconds,
    }


def state_claims(rows: Iterable[str]) -> list[Claim]:
    """State that the best readers and those to advise beat a reader per domain, and ensembles one of all domains."""
    pairs = [(row, "Single") for row in (BEST, *ADVISED)] + [(row, "Mix") for row in ADVISED if row != "Mix"]
    return [shared.state_better(*pair, control=True) for pair in pairs if {*pair} <= {*rows}]


def compare(preset: Preset, scored: Mapping[Cell, metrics.Scores]) -> list[dict]:
    """Estimate how far each row is above the `BASELINES` in F1, per domain and over all, with 95 % intervals.

    Intervals are over the passages of the test questions, each with its questions of all seeds. Domains count alike.
    Where there is one passage alone, the interval is its mean.
    """
    rows, seeds = (dict.fromkeys(cell[number] for cell in scored) for number in (0, 2))
    names, estimates = list(dict.fromkeys(name for _, name, _ in scored)), []
    drawn = [preset.for_seed(seed).data for seed in seeds]
    passages = {name: [text for data in drawn for text in shared.list_passages(data, f"test/{name}")] for name in names}
    f1 = {(row, name): np.concatenate([scored[row, name, seed].f1 for seed in seeds]) for row in rows for name in names}
    groups = {name: [name] for name in names} | ({ALL: names} if len(names) > 1 else {})
    for row in rows:
        for baseline in [other for other in BASELINES if other in rows and other != row]:
            for column, of_column in groups.items():
                values = [(f1[row, name] - f1[baseline, name]) / len(of_column) for name in of_column]
                texts = [passages[name] for name in of_column]
                mean, number = float(sum(map(np.mean, values))), len(set().union(*texts))
                low, high = stats.passage_interval(values, texts) if number > 1 else (mean, mean)
                labels = {"method": row, "baseline": baseline, "column": column, "passages": number}
                estimates.append({**labels, "mean": round(mean, 6), "low": round(low, 6), "high": round(high, 6)})
    return estimates


def is_sure(difference: Mapping) -> bool:
    """Return whether the interval of a difference excludes 0; never on a single passage."""
    return difference["passages"] > 1 and (difference["low"] > 0 or difference["high"] < 0)


def state_interval(difference: Mapping) -> str:
    """State the interval of a difference over passages, and on which side of 0 it is."""
    if difference["passages"] == 1:
        return "on one passage"
    interval = f"{difference['low']:+.1f} to {difference['high']:+.1f} over {difference['passages']} passages"
    side = "above" if difference["mean"] > 0 else "below"
    return f"{interval}: {side if is_sure(difference) else 'around'} 0"


def state_choices(best: Mapping[str, str], differences: list[dict]) -> list[str]:
    """State each domain's best method on validation questions, and by how much it is better on test questions."""
    notes = []
    for name, row in best.items():
        of_best = [each for each in differences if (each["method"], each["column"]) == (row, name)]
        above = [f"{each['mean']:+.1f} F1 above {each['baseline']} ({state_interval(each)})" for each in of_best]
        measured = f"; on test questions {', '.join(above)}" if above else ""
        notes.append(f"{name}: {row} is best on validation questions{measured}")
    return notes


def measure(models: Models) -> list[Score]:
    """Measure the milliseconds per question, in batches, of each method's readers of a domain, and count their weights.

    Readers of one size are timed once.
    """
    preset, seed = models.preset, min(models.preset.seed_numbers)
    (name, *_), scores = preset.data.domains, []
    questions = question_set(preset.for_seed(seed).data, f"test/{name}")[:TIMED]
    members = {row: models.by_row[row][seed][name] for row in models.by_row}
    windows = extractive_qa.windows_over(preset, questions)
    sizes = {row: tuple(reader.result()["parameters"] for reader in readers) for row, readers in members.items()}
    work = {}
    for size, row in {size: row for row, size in sizes.items()}.items():
        loaded = [reader.load() for reader in members[row]]
        work[size] = partial(extractive_qa.answer, preset, loaded, windows, together=len(loaded) > 1)
    seconds = time_in_turns(work)
    for row, size in sizes.items():
        values = {MILLISECONDS: 1000 * seconds[size] / len(questions), SIZE: sum(size) / 1e6}
        scores += [Score(method=row, column=ALL, seed=seed, value=value, metric=key) for key, value in values.items()]
    return scores


def summarise(record: Record) -> pd.DataFrame:
    """Tabulate by domain and method F1, EM, time and size, and the differences with their intervals over passages."""
    parts, lines = {part.unit: part for part in record.by_metric()}, {}
    columns = {name: [name] for name in parts["F1"].columns}
    for name, of_name in ({ALL: [*columns]} | columns if len(columns) > 1 else columns).items():
        for row in record.rows:
            line = {unit: stats.estimate(parts[unit], [(1, row, of_name)]).mean for unit in ("F1", "EM")}
            line = {unit: f"{value:.1f}" for unit, value in line.items()}
            for each in record.payload["differences"]:
                if (each["method"], each["column"]) == (row, name):
                    sure = "" if is_sure(each) else ", around 0"
                    interval = (
                        f" ({each['low']:+.1f} to {each['high']:+.1f}{sure})" if each["low"] < each["high"] else ""
                    )
                    line[f"F1 above {each['baseline']}"] = f"{each['mean']:+.1f}{interval}"
            if len(lines) < len(record.rows):  # time and size are of no domain
                measured = {(part.unit, score.method): score.value for part in parts.values() for score in part.scores}
                line |= {u: f"{measured[u, row]:.1f}" for u in (MILLISECONDS, SIZE) if (u, row) in measured}
            lines[name, row] = line
    order = ["F1", "EM", *(f"F1 above {row}" for row in record.baselines), MILLISECONDS, SIZE]
    return pd.DataFrame.from_dict(lines, orient="index").reindex(columns=order).fillna("")


def list_settings(models: Models) -> dict:
    """List the settings of the methods by section."""
    return {"imm": models.preset.imm, "a2d": models.preset.a2d, "data": models.preset.data}


def side_by_side(preset: Preset) -> Plan:
    """Train readers by the preset's methods, and make the parts of their `table` and of a teacher's."""
    models = yield from train_readers(preset)
    if preset.teacher:
        yield from teaching.score_teacher(teaching.collect_students(models))
    return (yield from table(models))


def side_by_side_equal(preset: Preset) -> Plan:
    """Do the same with as many steps for every method, a control; nothing where there is none."""
    equal = imm_algorithm.with_equal_steps(preset)
    return (yield from table((yield from train_readers(equal)))) if equal else {}


CURVE = ("Mix", "Ensemble", "A2D", "IMM")  # methods of the learning curve, where the preset has them


def learning_curve(preset: Preset) -> Plan:
    """Make a curve: F1 of methods, a mean of the domains, against the share of the questions that readers train on.

    Epochs stay the same, so readers of fewer questions take fewer steps. There are at most ``control_seeds`` seeds, and
    nothing where there is none, or no share.
    """
    preset = preset.for_controls()
    if not preset or not preset.train_shares:
        return {}
    methods = " ".join(method for method in select_methods(preset.methods) if method in CURVE)
    few = preset.model_copy(update={"methods": methods})
    models = yield {share: train_readers(few.changed("data", train_share=share)) for share in preset.train_shares}
    parts = yield {share: shared.answer_table(of_share) for share, of_share in models.items()}
    f1 = {share: average_columns(of_share) for share, of_share in parts.items()}
    scores = [
        Score(method=row, column=stats.AVERAGE, seed=seed, x=100 * share, value=f1[share][row, seed])
        for share, of_share in models.items()
        for row in of_share.by_row
        for seed in few.seed_numbers
    ]
    fewest = f"{100 * min(preset.train_shares):g}"
    return {
        "scores": scores,
        "claims": state_curve(fewest, dict.fromkeys(score.method for score in scores)),
        "payload": {**draw_gains(preset.data.train_size, preset.data.train_share), "scale": "log"},
        "settings": list_settings(models[min(models)]) | {"data": preset.data},  # the shares are the curve's
        "training_seconds": sum(of_share.seconds for of_share in models.values()),
    }


def draw_gains(size: int, share: float) -> dict[str, str]:
    """Name what the curve shows, gains over Single, and its axis of ``size`` training questions, 0 for all.

    Other tables have a ``share`` of them.
    """
    elsewhere = f" ({100 * share:g} in other tables)" * (share < 1)
    return {"x": f"% of {f'{size:,}' if size else 'all'} training questions of a domain{elsewhere}", "above": "Single"}


def state_curve(share: str, rows: Iterable[str]) -> list[Claim]:
    """State that methods beat a reader per domain with the smallest share of the questions, in percent."""
    text = f"with {share} % of the questions {{}} beats Single"
    return [
        Claim(text=text.format(row), above=f"{row}, {share}", below=f"Single, {share}", control=True)
        for row in rows
        if row != "Single"
    ]


STEPS = "optimiser steps of all trainings of a method"


def cost(models: Models, table: Record) -> dict:
    """Make parts of a record: F1 of `table`'s methods against the steps that each seed of them takes, with teachers."""
    scores = []
    for score in [score for score in table.scores if score.metric == "F1" and score.method in models.by_row]:
        trainings = models.trainings(score.method, score.seed)
        steps = float(sum(training.result()["steps"] for training in trainings))
        scores += [score, score.model_copy(update={"metric": STEPS, "value": steps})]
    readers = {row: len(members) for row, _, _, members in models}
    passes = ", ".join(f"{row} {number}" for row, number in readers.items())
    notes = [f"readers that answer a question: {passes}", *table.notes]
    return {"scores": scores, "baselines": ["Single"], "notes": notes, "settings": list_settings(models)}


def state_sizes(preset: Preset) -> list[str]:
    """State the training and test questions of each domain, which domains have too few, and what was mended."""
    domains = load_domains(preset.data)
    counts = {name: (len(domain.train), len(domain.test)) for name, domain in domains.items()}
    listed = ", ".join(f"{name} {train:,} and {test:,}" for name, (train, test) in counts.items())
    few = ", ".join(name for name, numbers in counts.items() if min(numbers) < FEWEST)
    notes = [f"training and test questions: {listed}"]
    notes += [f"fewer than {FEWEST} questions to train or to test on: {few}"] if few else []
    repairs = (note for domain in domains.values() for note in domain.notes)
    notes += [note for note in repairs if MOVED in note or ANSWERS_LEFT_OUT in note]
    return [*notes, *state_foreign(preset)]


def state_foreign(preset: Preset) -> list[str]:
    """State which domains have words that the encoder's vocabulary cuts into many pieces, as those of a language that
    it does not know."""
    if preset.data.is_generated:
        return []
    notes, tokenizer = [], load_tokenizer(preset.encoder)
    for name, domain in load_domains(preset.data).items():
        texts = [text[:CHARACTERS] for text in dict.fromkeys(example.context for example in domain.train)][:PASSAGES]
        words = sum(len(text.split()) for text in texts)
        pieces = sum(map(len, tokenizer(texts, add_special_tokens=False)["input_ids"]))
        if pieces > PIECES * words and not any(map(metrics.is_unspaced, texts)):
            problem = f"the encoder cuts a word into {pieces / words:.1f} pieces, so it may not know the language"
            notes.append(f"{name}: {problem}; give a multilingual one with -p encoder")
    return notes


def keep_best_readers(models: Models, record: Record, folder: str, export: str = "") -> None:
    """Copy the best reader of each domain into a subfolder of ``folder``, in Hugging Face format with a README.md.

    With ``export`` there is an ONNX file, too. Print by how much each is better than those of the `BASELINES`.
    """
    payload = record.payload
    readers = {name: (payload["best"][name], one) for name, one in choose_readers(models, payload).items()}
    model_folders.keep_models(readers, folder, record, model_folders.USES["spans"], save_reader)
    for name in readers if export else ():
        export_reader(paths.expand(folder) / name)
    print(*state_choices(payload["best"], payload["differences"]), sep="\n")
