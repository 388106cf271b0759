"""Facts about a miniature regime that no headline compares, on draws that no run has (docs/regimes.md).

    python benchmarks/regimes.py imm training.epochs=2.0 warmup_size=1500
    python benchmarks/regimes.py imm_steps seeds=1    # what twice the steps add to IMM, too

prints one line of JSON: the settings that differ from preset mini, and the facts. Scores are of validation questions
and texts. Those of IMM, HRKD, MtDNN and on adversarial questions are of these draws' test parts, which are larger.
"""

import json
import sys
from ast import literal_eval
from dataclasses import replace
from statistics import mean

from helpers import engine, metrics
from helpers.classification import (
    examples_of,
    main_score,
    read_predictions,
    score_task,
)
from helpers.papers import shared
from helpers.papers.a2d import algorithm as a2d_algorithm
from helpers.papers.a2d import tables as a2d_tables
from helpers.papers.hrkd import algorithm as hrkd_algorithm
from helpers.papers.hrkd import list_corpora
from helpers.papers.hrkd import tables as hrkd_tables
from helpers.papers.imm import algorithm as imm_algorithm
from helpers.papers.measure import average_columns
from helpers.papers.mtdnn import algorithm as mtdnn_algorithm
from helpers.papers.mtdnn import find_question_task
from helpers.papers.mtdnn import tables as mtdnn_tables
from helpers.papers.mtdnn_kd import algorithm as mtdnn_kd_algorithm
from helpers.papers.mtdnn_kd import tables as mtdnn_kd_tables
from helpers.presets.load import load_preset
from helpers.presets.schema import EXAMPLES

SEED, DRAWS = 1, 3  # draws 1 to 3; those of runs begin at `data.seed` of preset mini


def imm_facts(preset):
    """Are readers of one domain trained to their end, good enough to teach those that fine-tuning gives, and unsure?"""
    models, f1 = yield from score_imm(preset, ("Single", "Mix", "FT"))
    sure = yield from shared.tabulate_gold_probabilities(models, "Single")
    return {
        **{row: mean(map(mean, draws)) for row, draws in f1.items()},
        "FT - Single by draw": [mean(ft) - mean(single) for ft, single in zip(f1["FT"], f1["Single"], strict=True)],
        "lowest Single": min(map(min, f1["Single"])),
        "highest Single": max(map(max, f1["Single"])),
        "gold probability": sure["training questions"].round(2).tolist(),
        **(yield from imm_steps(preset, ("Single",))),
    }


def imm_steps(preset, rows=("Single", "IMM")):
    """How much do twice the steps of every reader add? The general readers are the same."""
    _, once = yield from score_imm(preset, rows)
    _, twice = yield from score_imm(preset.changed("training", epochs=2 * preset.training.epochs), rows)
    return {
        f"{row}, twice the steps": [mean(b) - mean(a) for a, b in zip(once[row], twice[row], strict=True)]
        for row in rows
    }


def score_imm(preset, rows):
    """Train rows of Table 1. Returns the models, and F1 on test questions by row: of each draw, a list of domains."""
    models, _ = yield from imm_algorithm.train_methods(preset, preset.imm.max_rounds, rows)
    table = yield from shared.answer_table(models)
    f1 = {row: [[] for _ in range(preset.seeds)] for row in models.by_row}
    for score in table["scores"]:
        f1[score.method][score.seed].append(score.value)
    return models, f1


def a2d_facts(preset):
    """Is RMR trained to its end, and does an ensemble know more than a reader that can be fooled?"""
    kind, *_ = a2d_algorithm.list_kinds(preset)
    models = shared.Models(preset)
    for seed in range(preset.seeds):
        (student,) = a2d_algorithm.student_trainings(preset.for_seed(seed), kind, seed).values()
        members = a2d_algorithm.members_of(student)
        models.add("one", seed, {one.label: one for one in members})
        models.add("ensemble", seed, {a2d_algorithm.ALL_DOMAINS: members})
        data = replace(members[0].data, times=2.0)
        twice = replace(members[0], data=data, label=f"twice, seed {seed}")
        models.add("twice the steps", seed, {a2d_algorithm.ALL_DOMAINS: twice})
    f1 = shared.average_f1(preset, (yield from a2d_tables.answer_columns(models, ("Dev", "clean", "AddSent"))))
    table = {(row, column): [f1[row, column, s] for s in range(preset.seeds)] for row, column, _ in f1}
    facts = {f"{row}, {column}": values for (row, column), values in table.items()}
    return facts | {"seconds of one reader": members[0].result()["seconds"]}


def hrkd_facts(preset):
    """Does a student learn anything without a teacher, does its teacher know more, and does it learn that?"""
    rows = (hrkd_algorithm.HRKD, hrkd_algorithm.MIX, hrkd_algorithm.ALONE, hrkd_algorithm.PLAIN)
    corpora, facts = list_corpora(preset), {}
    parts = yield {corpus: hrkd_tables.compute_accuracies(preset, corpus, rows) for corpus in corpora}
    for corpus, of_corpus in parts.items():
        for (row, _), value in average_columns(of_corpus).items():
            facts.setdefault(f"{corpus}, {row}", []).append(value)
        facts[f"{corpus}, seconds of these rows per draw"] = of_corpus["training_seconds"] / preset.seeds
    return facts


def mtdnn_kd_facts(preset):
    """Does the multi-task phase hold, is it worth it, and do ensembles know more than one model, and than labels?"""
    taught, facts = mtdnn_kd_algorithm.list_taught(preset), {}
    alone = preset.changed("mtdnn_kd", taught=[])  # these facts need no student
    rows = yield {seed: mtdnn_kd_algorithm.distil(alone.for_seed(seed), seed) for seed in range(preset.seeds)}
    for seed, of_rows in rows.items():
        first = next(iter(of_rows[mtdnn_kd_algorithm.MTDNN].values()))[0].start
        facts[f"after all tasks, draw {seed}"] = first.best_scores()
        for row in (mtdnn_kd_algorithm.SINGLE, mtdnn_kd_algorithm.MTDNN):
            facts[f"{row}, draw {seed}"] = {task: model.best for task, (model,) in of_rows[row].items()}
    models = shared.Models(preset)
    for seed, of_rows in rows.items():
        for row in (mtdnn_kd_algorithm.MTDNN, mtdnn_kd_algorithm.ENSEMBLE):
            models.add(row, seed, {task: of_rows[row][task] for task in taught})
    outputs = yield from mtdnn_kd_tables.predict_rows(models, models.by_row, "valid")
    for (row, seed), predicted in outputs.items():
        values = read_predictions(predicted)
        scores = [main_score(score_task(predicted.preset, task, "valid", of_task)) for task, of_task in values.items()]
        facts[f"{row}, taught tasks, draw {seed}"] = mean(scores)
    targets = yield from mtdnn_kd_tables.predict_rows(models, [mtdnn_kd_algorithm.ENSEMBLE], "train")
    for (_, seed), predicted in targets.items():
        right = {}
        for task, probabilities in read_predictions(predicted).items():
            labels = [example.label for example in examples_of(predicted.preset, task, "train")]
            right[task] = float(probabilities[range(len(labels)), labels].mean())
        facts[f"teachers' probability of right labels of training texts, draw {seed}"] = right
    return facts


def mtdnn_facts(preset):
    """How many batches do the other tasks get, and how good are questions alone?"""
    models, task = shared.Models(preset), find_question_task(preset)
    for seed in range(preset.seeds):
        rows = mtdnn_algorithm.row_trainings(preset, None, seed)
        models.add(mtdnn_algorithm.QA, seed, {task: rows[mtdnn_algorithm.QA]})
    both = mtdnn_algorithm.row_trainings(preset, None, 0)[mtdnn_algorithm.BOTH]
    turns = [name for name, _ in both.batches().schedule]
    facts = {f"batches of {name}": turns.count(name) for name in both.data.names}
    tested = yield from mtdnn_algorithm.answer_tests(models, task)
    for of_seed in tested.values():
        examples, scores = of_seed.examples, metrics.score(of_seed.examples, of_seed.answers())
        parts = {"all": scores, **mtdnn_tables.split_by_answerability(examples, scores)}
        parts["never answering"] = metrics.score(examples, [""] * len(examples))
        for name, part in parts.items():
            facts.setdefault(f"{mtdnn_algorithm.QA}, {name}", []).append(part.f1.mean())
    facts["seconds of QA per draw"] = models.seconds / preset.seeds
    return facts


FACTS = {
    "imm": imm_facts,
    "imm_steps": imm_steps,
    "a2d": a2d_facts,
    "hrkd": hrkd_facts,
    "mtdnn_kd": mtdnn_kd_facts,
    "mtdnn": mtdnn_facts,
}


def main(name: str, *settings: str) -> None:
    """Print the facts of one configuration."""
    paper = name.removesuffix("_steps")
    changes = dict(setting.split("=", 1) for setting in settings)
    changes = {key: literal_eval(value) for key, value in changes.items()}
    draws = {f"{section}.seed": SEED for section in EXAMPLES}
    preset = load_preset("mini", paper, **{"seeds": DRAWS, "trainings": "regimes", **draws, **changes})
    facts = engine.run(FACTS[name](preset), preset.engine)
    rounded = json.loads(json.dumps(facts), parse_float=lambda text: round(float(text), 2))
    print(json.dumps({"paper": name, "settings": changes, "facts": rounded}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
