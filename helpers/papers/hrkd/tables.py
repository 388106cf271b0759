"""HRKD's tables and figures: what they need trained, as records, with the paper's claims."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from helpers.data.texts import label_names, load_texts
from helpers.papers import rows as shared
from helpers.papers.hrkd import GAIN, algorithm
from helpers.papers.hrkd.algorithm import ABLATIONS, ALONE, CORPORA, HRKD, OF_DOMAINS, OURS, PLAIN, STUDENTS, VARIANTS
from helpers.papers.rows import Trained
from helpers.paths import public_name
from helpers.presets.schema import Preset
from helpers.results import records
from helpers.results.records import Claim, Score
from helpers.tasks import labels, ratios
from helpers.tasks.classifiers import Labelling, labelling
from helpers.training.engine import After, Outcome, run, run_plans

DISTANCES = "numbers: how far two domains' ratios, or shares of levels, are apart, over all test texts"
READ = f"students of {HRKD} are one for all domains, those of other teachers one a domain, of that domain's texts alone"
TIMED = 64  # texts that models are timed on
SINGLE, *_, META = STUDENTS  # what HRKD is compared with in Figure 2


def table1(preset: Preset) -> dict:
    """Table 1: texts of each part of every domain."""
    values = []
    for corpus in algorithm.corpora(preset):
        for name, domain in load_texts(getattr(preset, corpus)).items():
            parts = {"#Train": domain.train, "#Dev": domain.valid, "#Test": domain.test}
            values += [Score(method=name, column=part, seed=0, value=len(texts)) for part, texts in parts.items()]
    return {"scores": values}


def methods(preset: Preset, corpus: str) -> Trained:
    """Train all that Table 2 (corpus "mnli") or 3 ("reviews") needs, if it is not there."""
    plans = {seed: plan for (name, seed), plan in algorithm.plans(preset).items() if name == corpus}
    return Trained.done(preset, run_plans(plans, preset.engine))


def few_shot(preset: Preset) -> dict[float, Trained]:
    """Train all that Figure 2 needs; by share of the training texts."""
    presets = {share: algorithm.reduced(preset, preset.hrkd.few_shot, share) for share in preset.hrkd.shares}
    return _by_preset(presets, run_plans(algorithm.few_shot(preset), preset.engine))


def ablations(preset: Preset) -> Trained:
    """Train all that Tables 4 to 6 need."""
    trained = Trained.of(preset, (*ABLATIONS, *VARIANTS))
    for (row, seed), outcome in run_plans(algorithm.ablations(preset), preset.engine).items():
        student = outcome.value
        trained.add(row, seed, algorithm.alike(student, student.domains), shared.trainings_of(outcome.tasks))
    return trained


def sizes(preset: Preset) -> dict[int, Trained]:
    """Train the students of other sizes, by their number of the teacher's layers."""
    presets = {layers: algorithm.of_layers(preset, layers) for layers in preset.hrkd.sizes}
    return _by_preset(presets, run_plans(algorithm.sized(preset), preset.engine))


def _by_preset(presets: dict[float, Preset], done: dict[tuple[float, int], Outcome]) -> dict[float, Trained]:
    """What plans by (name of a preset, seed) have trained, by that name."""
    return {
        name: Trained.done(preset, {seed: outcome for (of, seed), outcome in done.items() if of == name})
        for name, preset in presets.items()
    }


def table(trained: Trained, corpus: str) -> dict:
    """Tables 2 and 3: accuracy of every row's model of each domain on its test texts."""
    others = [row for row in (PLAIN, META, SINGLE, ALONE) if row in trained.rows]
    return {
        **scores(trained, corpus, [row for row in (HRKD, PLAIN, OURS) if row in trained.rows]),
        "baselines": [PLAIN, ALONE],
        "claims": [shared.better(OURS, row, primary=row == PLAIN, control=row == ALONE) for row in others],
        "notes": [*notes(trained.preset, corpus), READ],
        "training_seconds": trained.seconds,
    }


def table4(trained: Trained) -> dict:
    """Table 4: HRKD without its parts, one more in each row, and below them our switches."""
    return {
        **scores(trained, "reviews"),
        "baselines": ["HRKD"],
        "claims": [shared.better("HRKD", row, primary=ABLATIONS[row] is None) for row in ABLATIONS if row != "HRKD"],
        "notes": notes(trained.preset, "reviews"),
        "training_seconds": trained.seconds,
    }


def scores(trained: Trained, corpus: str, of_domains: Iterable[str] = (), after: After | None = None) -> dict:
    """Accuracy of every row, domain and seed with every text's, as parts of a record; ``of_domains`` are rows that are
    scored once more, by the weights that were best on each domain."""
    asked = _asked(trained, trained.rows) | _asked(trained, of_domains, OF_DOMAINS)
    run(asked.values(), trained.preset.engine, "classes", after)
    known = {seed: load_texts(getattr(trained.preset.drawn(seed), corpus)) for seed in {seed for _, _, seed in asked}}
    ids = {(name, seed): [text.id for text in known[seed][name].test] for _, name, seed in asked}
    return records.scored({cell: hits(task, cell[1]) for cell, task in asked.items()}, ids)


def _asked(trained: Trained, rows: Iterable[str], suffix: str = "") -> dict[shared.Cell, Labelling]:
    """By row, domain and seed what labels the domain's test texts, one task a model; with the ``suffix`` by the weights
    that were best on each domain, of the models that keep them."""
    asked, of_domains = {}, bool(suffix)
    for row in rows:
        for seed, models in trained.rows[row].items():
            kept = {domain: model for domain, model in models.items() if model.keep_of_domains() or not of_domains}
            distinct = {model.key: model for model in kept.values()}
            tasks = {key: labelling(model, of_domains=of_domains) for key, model in distinct.items()}
            asked |= {(row + suffix, domain, seed): tasks[model.key] for domain, model in kept.items()}
    return asked


def hits(task: Labelling, domain: str) -> list[float]:
    """100 for each text of a domain whose class is right, else 0."""
    known = getattr(load_texts(getattr(task.preset, task.corpus))[domain], task.part)
    return [100.0 * (said == text.label) for said, text in zip(task.result()[domain], known, strict=True)]


def averages(trained: Trained, corpus: str, rows: Iterable[str]) -> dict[tuple[str, int], float]:
    """Accuracy over all domains, by row and seed."""
    found = scores(replace(trained, rows={row: trained.rows[row] for row in rows}), corpus)["scores"]
    table = pd.DataFrame([(s.method, s.seed, s.value) for s in found], columns=[*"rsv"])
    return table.groupby(["r", "s"])["v"].mean().to_dict()


def figure2(preset: Preset, trained: dict[float, Trained]) -> dict:
    """Figure 2: how much better Meta-KD and HRKD are than single → TinyBERT-KD, by the share of the training texts."""
    values: dict[str, list[Score]] = {GAIN: [], "accuracy": []}
    for share, table in trained.items():
        found = averages(table, preset.hrkd.few_shot, table.rows)
        for (row, seed), accuracy in found.items():
            point = {"method": row, "column": "average", "seed": seed, "x": 100 * share}
            values[GAIN].append(Score(**point, value=accuracy - found[SINGLE, seed], metric=GAIN))
            values["accuracy"].append(Score(**point, value=accuracy, metric="accuracy"))
    few, many = (f", {100 * share:g}" for share in (min(trained), max(trained)))
    more, first = {"than": [OURS + many, SINGLE + many], "primary": True}, f"with {100 * min(trained):g} % of the texts"
    claims = [
        Claim(text=f"{first} {OURS} is better than {row}", above=OURS + few, below=row + few) for row in (SINGLE, META)
    ]
    if many != few:
        text = "HRKD gains more with few texts than with many"
        claims.insert(0, Claim(text=text, above=OURS + few, below=SINGLE + few, **more))
    return {
        "scores": values[GAIN] + values["accuracy"],
        "claims": claims,
        "payload": {"x": "% of the training texts", "scale": "log"},
        "notes": [f"on {CORPORA[preset.hrkd.few_shot]}", *notes(preset, preset.hrkd.few_shot), READ],
        "training_seconds": sum(table.seconds for table in trained.values()),
    }


def case(trained: Trained, same: int, *, claimed: bool = True) -> dict:
    """Tables 5 and 6: the ratios and the shares of levels of one text a domain, ``same`` of them with one label.

    Chosen are the first texts of the domains' test parts, all in the same place, of which so many have one label. The
    scores test the paper's reading on the texts of every place: how far the ratios of two domains are apart where their
    texts have the same label, and where not. They are the same in both tables, so they stand with the claim alone.
    """
    values, panels = [], None
    for seed, models in trained.rows["HRKD"].items():
        model = next(iter(models.values()))
        texts = {name: labels.sequences_of(model.texts, model.preset.encoder, name, "test") for name in model.domains}
        found = ratios.of_places(model.related(), texts)
        for column, of_domains in {"ratios": found.ratios, "shares of levels": found.flat_shares()}.items():
            for row, gap in ratios.distances(of_domains, found.labels).items() if claimed else ():
                values.append(Score(method=row, column=column, seed=seed, value=100 * gap))
        if panels is None:
            most = [max(np.bincount(row)) for row in found.labels]
            place = min(range(len(most)), key=lambda n: abs(most[n] - same))
            names, known = label_names(model.texts), load_texts(model.texts)
            rows = [f"{domain}, {names[label]}" for domain, label in zip(known, found.labels[place], strict=True)]
            panels = found.panels(place, rows)
    reading = "the ratios of texts with the same label are nearer to each other"
    claim = Claim(text=reading, above=ratios.DIFFERENT, below=ratios.SAME, columns=["ratios"], primary=True)
    shown = {row: domain.test[place].first for row, domain in zip(rows, known.values(), strict=True)}
    return {
        "scores": values,
        "claims": [claim] if values else [],
        "payload": {"panels": panels, "x": "", "y": "", "text": shown},
        "notes": [
            f"text {place + 1} of each domain's test part: the first place where {most[place]} of {len(rows)} have one "
            "label",
            *[DISTANCES] * claimed,
        ],
    }


def drift(trained: Trained) -> dict:
    """How far the ratios are from all alike over the training: how much of a level's weight would have to move."""
    values = []
    for row, seeds in trained.rows.items():
        for seed, (model, *_) in ((seed, models.values()) for seed, models in seeds.items()):
            for step, _, found in model.result()["validation"]:
                if "ratios" in found:
                    x, moved = round(100 * step / model.steps), ratios.moved(np.asarray(found["ratios"]))
                    values.append(Score(method=row, column="moved", seed=seed, value=moved, x=x))
    return {"scores": values, "payload": {"x": "% of the training"}, "notes": notes(trained.preset, "reviews")}


def compression(trained: Trained, corpus: str) -> dict:
    """What a student costs and keeps beside its teacher: accuracy, size, and speed in turns in one run."""
    found, values = averages(trained, corpus, (HRKD, OURS)), {}
    for seed in trained.rows[OURS]:
        models = {row: next(iter(trained.rows[row][seed].values())) for row in (HRKD, OURS)}
        texts = models[HRKD].sequences("test")
        texts = texts.select(np.linspace(0, len(texts) - 1, min(TIMED, len(texts))).astype(int))
        for row, metric, value in shared.footprints(models, {row: found[row, seed] for row in models}, texts):
            score = Score(method=row, column=CORPORA[corpus], seed=seed, value=value, metric=metric)
            values.setdefault(metric, []).append(score)
    return {
        "scores": [score for of_metric in values.values() for score in of_metric],
        "notes": [*notes(trained.preset, corpus), f"times are for {len(texts)} texts"],
    }


def against_size(trained: Trained, others: dict[int, Trained], corpus: str) -> dict:
    """Accuracy against the number of parameters, of the student of the tables and of others."""
    values = []
    for table in (trained, *others.values()):
        found = averages(table, corpus, (HRKD, OURS))
        for row in (HRKD, OURS):
            for seed, models in table.rows[row].items():
                thousands = next(iter(models.values())).result()["parameters"] / 1000
                score = Score(method=row, column=CORPORA[corpus], seed=seed, value=found[row, seed], x=round(thousands))
                if score not in values:
                    values.append(score)
    payload = {"x": "thousand parameters", "scale": "log"}
    starts = [f"one of another size begins as {_start(table.preset)}" for table in others.values()]
    return {"scores": values, "payload": payload, "notes": [*notes(trained.preset, corpus), *starts]}


def notes(preset: Preset, corpus: str) -> list[str]:
    """What one has to know about how the rows were made."""
    known, training = preset.hrkd, preset.training
    sizes = ", ".join(f"{name} {len(domain.train):,}" for name, domain in load_texts(getattr(preset, corpus)).items())
    rate = getattr(known, f"{corpus}_learning_rate")
    number = len(label_names(getattr(preset, corpus)))
    return [
        f"epochs of the teachers: {training.epochs:g}, learning rate {training.learning_rate:g}; of the students: "
        f"{known.epochs:g}, {rate:g}; a step has {training.batch_size} texts of each domain, or of one, or as many of "
        "all mixed, as the method has it",
        f"students begin as {_start(preset)}",
        f"training texts: {sizes}",
        f"who guesses one of the {number} labels is right in {100 / number:.1f} % of the texts",
    ]


def _start(preset: Preset) -> str:
    known = preset.hrkd
    layers = f"{known.student_layers} layer{'s' * (known.student_layers > 1)}"
    return (public_name(known.student) or f"{layers} of the teacher's pretrained encoder").partition("@")[0]
