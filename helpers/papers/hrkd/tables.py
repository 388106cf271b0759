"""HRKD's tables and figures: what they need trained, as records, with the paper's claims."""

import itertools
from collections.abc import Iterable
from functools import partial

import numpy as np

from helpers.data.texts import label_names, load_texts
from helpers.files import fingerprint
from helpers.papers import rows as shared
from helpers.papers.hrkd import algorithm
from helpers.papers.hrkd.algorithm import (
    ABLATIONS,
    ALONE,
    CORPORA,
    HRKD,
    META,
    OF_DOMAINS,
    OURS,
    PLAIN,
    SINGLE,
    VARIANTS,
)
from helpers.papers.rows import Trained
from helpers.presets.schema import Preset
from helpers.results import records
from helpers.results.records import Claim, Score
from helpers.tasks import footprint, labels, ratios
from helpers.tasks.classifiers import Labelling, labelling
from helpers.training.engine import After, run, run_plans

TIMED = 64  # texts that models are timed on
FASTER = "times faster than its teacher"
SPEEDS = {1: "ms a text, one at a time", 32: "ms a text, 32 at a time"}


def table1(preset: Preset) -> dict:
    """Table 1: texts of each part of every domain."""
    values = []
    for corpus in algorithm.corpora(preset):
        for name, domain in load_texts(getattr(preset, corpus)).items():
            parts = {"#Train": domain.train, "#Dev": domain.valid, "#Test": domain.test}
            values += [Score(method=name, column=part, seed=0, value=len(texts)) for part, texts in parts.items()]
    return {"scores": values}


def methods(preset: Preset, after: After | None = None, **rows: Iterable[str]) -> dict[str, Trained]:
    """Train all that Tables 2 and 3 need, if it is not there; by the section of the corpus."""
    done = run_plans(algorithm.plans(preset, **rows), preset.engine, after=after)
    trained: dict[str, Trained] = {}
    for (corpus, seed), outcome in done.items():
        table = trained.setdefault(corpus, Trained.of(preset, outcome.value))
        known = shared.trainings_of(outcome.tasks)
        for row, models in outcome.value.items():
            table.add(row, seed, models, shared.ancestry(models.values(), known))
    return trained


def ablations(preset: Preset) -> Trained:
    """Train all that Tables 4 to 6 need."""
    trained = Trained.of(preset, (*ABLATIONS, *VARIANTS))
    for (row, seed), outcome in run_plans(algorithm.ablations(preset), preset.engine).items():
        known = shared.trainings_of(outcome.tasks)
        trained.add(row, seed, algorithm.alike(outcome.value, outcome.value.domains), known)
    return trained


def table(trained: Trained, corpus: str, after: After | None = None) -> dict:
    """Tables 2 and 3: accuracy of every row's model of each domain on its test texts."""
    rows = [row for row in (HRKD, PLAIN, OURS) if row in trained.rows]
    scored = scores(trained, corpus, of_domains=rows, after=after)
    beaten = [
        (OURS, PLAIN),
        (OURS, f"{META} → Meta-distillation"),
        (PLAIN, f"{SINGLE} → {algorithm.KD}"),
        (OURS, ALONE),
    ]
    return {
        **scored,
        "baselines": [row for row in (PLAIN, ALONE) if row in trained.rows],
        "claims": [
            Claim(text=f"{above} is better than {below}", above=above, below=below)
            for above, below in beaten
            if {above, below} <= set(trained.rows)
        ],
        "notes": notes(trained.preset, corpus),
        "training_seconds": trained.seconds,
    }


def table4(trained: Trained, corpus: str) -> dict:
    """Table 4: HRKD without its parts, one more in each row, and below them our switches."""
    parts = list(ABLATIONS)[1:]
    return {
        **scores(trained, corpus),
        "baselines": ["HRKD"],
        "claims": [Claim(text=f"HRKD is better than {row}", above="HRKD", below=row) for row in parts],
        "notes": notes(trained.preset, corpus),
        "training_seconds": trained.seconds,
    }


def scores(trained: Trained, corpus: str, of_domains: Iterable[str] = (), after: After | None = None) -> dict:
    """Accuracy of every row, domain and seed with every text's as parts of a record; ``of_domains`` are rows that are
    scored once more, by the weights that were best on each domain."""
    preset, asked = trained.preset, {}
    for row, seed, domain, model in trained.models():
        asked[row, domain, seed] = labelling(model)
    for row, seed, domain, model in trained.models():
        if row in of_domains:
            asked[row + OF_DOMAINS, domain, seed] = labelling(model, of_domains=True)
    run(asked.values(), preset.engine, "classes", after)
    right = {cell: hits(task, cell[1]) for cell, task in asked.items()}
    known = load_texts(getattr(preset, corpus))
    ids = {name: fingerprint(*(text.id for text in domain.test)) for name, domain in known.items()}
    return {**records.scored(right), "unit": "accuracy", "examples_of": ids}


def hits(task: Labelling, domain: str) -> list[float]:
    """100 for each text of a domain whose class is right, else 0."""
    known = getattr(load_texts(getattr(task.preset, task.corpus))[domain], task.part)
    return [100.0 * (said == text.label) for said, text in zip(task.result()[domain], known, strict=True)]


def figure2(preset: Preset, corpus: str = "mnli") -> dict:
    """Figure 2: how much better Meta-KD and HRKD are than single → TinyBERT-KD, by the share of the training texts."""
    done = run_plans(algorithm.few_shot(preset, corpus), preset.engine)
    trained: dict[float, Trained] = {}
    for (share, seed), outcome in done.items():
        tables_of_share = trained.setdefault(share, Trained.of(algorithm.reduced(preset, corpus, share), outcome.value))
        known = shared.trainings_of(outcome.tasks)
        for row, models in outcome.value.items():
            tables_of_share.add(row, seed, models, shared.ancestry(models.values(), known))
    base, values, accuracies = f"{SINGLE} → {algorithm.KD}", [], []
    for share, each in trained.items():
        found = scores(each, corpus)["scores"]
        means = {
            (row, seed): np.mean([s.value for s in found if (s.method, s.seed) == (row, seed)])
            for row in each.rows
            for seed in range(preset.seeds)
        }
        for (row, seed), mean in means.items():
            cell = {"method": row, "column": "average", "seed": seed, "x": 100 * share}
            values.append(Score(**cell, value=mean - means[base, seed], metric="points of accuracy"))
            accuracies.append(Score(**cell, value=mean, metric="accuracy"))
    least, most = (f"{100 * share:g}" for share in (min(trained), max(trained)))
    better = OURS, f"{META} → Meta-distillation"
    claims = [
        Claim(
            text=f"{row} is better than {base} with {least} % of the texts",
            above=f"{row}, {least}",
            below=f"{base}, {least}",
        )
        for row in better
    ]
    gains = {"above": f"{OURS}, {least}", "below": f"{base}, {least}", "than": [f"{OURS}, {most}", f"{base}, {most}"]}
    claims.append(Claim(text=f"{OURS} gains more with {least} % than with {most} %", **gains))
    claims.append(
        Claim(
            text=f"{OURS} is better than Meta-KD with {least} %",
            above=f"{OURS}, {least}",
            below=f"{better[1]}, {least}",
        )
    )
    return {
        "scores": [*values, *accuracies],
        "claims": claims,
        "payload": {"x": "% of the training texts", "scale": "log"},
        "notes": notes(preset, corpus),
        "training_seconds": shared.seconds(itertools.chain.from_iterable(outcome.tasks for outcome in done.values())),
    }


def case(trained: Trained, corpus: str, same: int) -> dict:
    """Tables 5 and 6: the ratios and the shares of levels of one text a domain, ``same`` of them with one label.

    Chosen are the first texts of the domains' test parts, all in the same place, with that many of one label. The
    scores test the paper's reading on the texts of every place: how far the ratios of two domains are apart where the
    two texts have the same label, and where they do not, as a mean over all pairs of domains.
    """
    preset = trained.preset
    known = load_texts(getattr(preset, corpus))
    values, shown = [], None
    for seed, models in trained.rows["HRKD"].items():
        model = next(iter(models.values()))
        texts = {name: labels.sequences_of(model.texts, preset.encoder, name, "test") for name in model.domains}
        ratios_NxVxD, shares_NxDxVxV = ratios.of_places(model.related(), texts)
        labels_NxD = np.stack([of.labels["label"][: len(ratios_NxVxD)] for of in texts.values()], 1)
        levels_NxVVxD = shares_NxDxVxV.reshape(*labels_NxD.shape, -1).transpose(0, 2, 1)
        for column, of_domains in {"ratios": ratios_NxVxD, "shares of levels": levels_NxVVxD}.items():
            for row, gap in ratios.distances(of_domains, labels_NxD).items():
                values.append(Score(method=row, column=column, seed=seed, value=100 * gap))
        if shown is None:
            counts = [max(np.bincount(row)) for row in labels_NxD]
            place = counts.index(same)
            shown = place, ratios_NxVxD[place], shares_NxDxVxV[place], labels_NxD[place]
    place, ratios_VxD, shares_DxVxV, labels_D = shown
    names = label_names(getattr(preset, corpus))
    rows = [f"{domain} ({names[label]})" for domain, label in zip(known, labels_D, strict=True)]
    levels = ["embeddings", *(f"layer {m}" for m in range(1, len(ratios_VxD)))]
    panels = {"ratio of the domain at each level": matrix(rows, levels, ratios_VxD.T)}
    for row, shares_VxV in zip(rows, shares_DxVxV, strict=True):
        panels[f"levels in the graphs of {row}"] = matrix(
            levels, levels, np.where(np.tri(len(levels)), shares_VxV, np.nan)
        )
    texts = {row: domain.test[place].first for row, domain in zip(rows, known.values(), strict=True)}
    reading = "texts of the same label have ratios nearer to each other"
    return {
        "scores": values,
        "claims": [Claim(text=reading, above=ratios.DIFFERENT, below=ratios.SAME, columns=["ratios"])],
        "payload": {"panels": panels, "x": "", "y": "", "text": texts},
        "notes": [f"texts {place + 1} of the test parts: the first place where {same} of {len(rows)} have one label"],
    }


def matrix(rows: list[str], columns: list[str], values: np.ndarray) -> dict[str, dict[str, float | None]]:
    """Values by row and column, None where there is none."""
    return {
        row: {
            column: None if np.isnan(value) else round(float(value), 4)
            for column, value in zip(columns, line, strict=True)
        }
        for row, line in zip(rows, values, strict=True)
    }


def drift(trained: Trained) -> dict:
    """How far the ratios are from all alike, over the training: the share of the weight that would have to move."""
    values = []
    for row, seeds in trained.rows.items():
        for seed, models in seeds.items():
            training = next(iter(models.values()))
            for step, _, found in training.result()["validation"]:
                if "ratios" in found:
                    value, x = ratios.moved(np.asarray(found["ratios"])), round(100 * step / training.steps)
                    values.append(Score(method=row, column="moved", seed=seed, value=value, x=x))
    return {"scores": values, "payload": {"x": "% of the training"}}


def compression(trained: Trained, corpus: str, repeats: int = 3) -> dict:
    """What a student costs and keeps: its size, its speed beside its teacher's, in turns in one run, and its accuracy."""
    values: dict[str, list[Score]] = {}

    def add(row: str, seed: int, metric: str, value: float) -> None:
        values.setdefault(metric, []).append(
            Score(method=row, column=CORPORA[corpus], seed=seed, value=value, metric=metric)
        )

    found = scores(trained, corpus)["scores"]
    for seed in range(trained.preset.seeds):
        means = {row: np.mean([s.value for s in found if (s.method, s.seed) == (row, seed)]) for row in (HRKD, OURS)}
        models = {row: next(iter(trained.rows[row][seed].values())) for row in (HRKD, OURS)}
        loaded = {row: model.load(model.key, "labels") for row, model in models.items()}
        texts = models[HRKD].sequences("test")
        texts = texts.select(np.linspace(0, len(texts) - 1, min(TIMED, len(texts))).astype(int))
        for row, model in models.items():
            add(row, seed, "accuracy", means[row])
        add(OURS, seed, "% of the teacher's accuracy", 100 * means[OURS] / means[HRKD])
        for row, model in models.items():
            add(row, seed, "thousand parameters", model.result()["parameters"] / 1000)
            add(row, seed, "MB", footprint.megabytes(model.folder()))
        for size, metric in SPEEDS.items():
            work = {row: partial(footprint.read, model, texts, size) for row, model in loaded.items()}
            seconds = shared.seconds_in_turns(work, repeats)
            for row, value in seconds.items():
                add(row, seed, metric, 1000 * value / len(texts))
            add(OURS, seed, f"{FASTER}, {metric.split(', ')[1]}", seconds[HRKD] / seconds[OURS])
    return {"scores": list(itertools.chain.from_iterable(values.values())), "notes": notes(trained.preset, corpus)}
