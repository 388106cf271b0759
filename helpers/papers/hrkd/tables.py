"""HRKD's tables of accuracy (Dong et al. 2021, section 3)."""

from collections.abc import Collection, Iterable
from functools import partial

from helpers import records
from helpers.classification import predict_examples, read_predictions
from helpers.data.load import label_names, load
from helpers.papers import shared
from helpers.papers.hrkd import CORPORA, GAIN, list_corpora
from helpers.papers.hrkd.algorithm import (
    AGAIN,
    ALONE,
    CONTROL_ROWS,
    HRKD,
    OURS,
    PLAIN,
    RANDOM,
    RELATION_ABLATIONS,
    RELATION_STUDENTS,
    ROWS,
    SKIPPING,
    STUDENTS,
    TABLE4,
    TEACHERS,
    WRITTEN,
    student_setting,
    train,
)
from helpers.papers.measure import average_columns, count_examples
from helpers.paths import public_name
from helpers.presets.schema import Preset
from helpers.records import Claim, Score
from helpers.task import Plan
from helpers.training import Outputs

STUDENT_NAMES = {  # what claims call rows
    OURS: "the graph (HRKD)",
    WRITTEN: "the graph as written",
    PLAIN: "plain distillation (TinyBERT-KD)",
    STUDENTS[0]: "a student per domain, taught by its teacher",
    STUDENTS[-1]: "Meta-KD",
    ALONE: "an untaught student",
    "- Domain Rel.": "itself without Domain Rel.",
}


def compute_accuracies(preset: Preset, corpus: str, rows: Iterable[str] = ROWS) -> Plan:
    """Have the models of rows label the test texts. Returns accuracies, notes and seconds as parts of a record."""
    models, outputs = (yield from train(preset, corpus, rows)), {}
    for row, domain, seed, (model,) in models:
        outputs[row, domain, seed] = Outputs(
            preset=model.preset,
            label=f"classes by {model.label}",
            models={f"{corpus}/test/{name}": (model,) for name in model.data.names},
            compute=predict_examples,
        )
    yield outputs.values()
    hits = {cell: score_hits(corpus, cell[1], task) for cell, task in outputs.items()}
    return {
        "scores": records.make_scores(hits),
        "notes": make_notes(preset, corpus),
        "training_seconds": models.seconds,
    }


def score_hits(corpus: str, domain: str, outputs: Outputs) -> list[float]:
    """Return 100 for each test text of a domain whose likeliest class is right, else 0."""
    texts = load(getattr(outputs.preset, corpus), domain).test
    classes = read_predictions(outputs)[domain].argmax(1)
    return [100.0 * (number == text.label) for number, text in zip(classes.tolist(), texts, strict=True)]


def make_notes(preset: Preset, corpus: str) -> list[str]:
    """State how the rows were made: budget, start, training texts, chance."""
    hrkd, training, texts = preset.hrkd, preset.training, getattr(preset, corpus)
    names = ("student", "epochs", "learning_rate")
    encoder, epochs, rate = (student_setting(preset, corpus, name) for name in names)
    labels = len(label_names(texts))
    student = public_name(encoder) or f"layers of the teacher's pretrained encoder ({hrkd.student_layers})"
    return [
        f"teachers: {training.epochs:g} epochs, learning rate {training.learning_rate:g}; students: {epochs:g} "
        f"epochs, {rate:g}; {training.batch_size} texts of each domain per step, or as many of one, or of all mixed",
        f"students are initialised from {student.partition('@')[0]}",
        shared.state_training_sizes(texts, "texts"),
        f"guessing one of the {labels} labels is right for {100 / labels:.1f} % of the texts",
    ]


def table1(preset: Preset) -> dict:
    """Count the texts of each part of every domain (Table 1)."""
    corpora = [getattr(preset, corpus) for corpus in list_corpora(preset)]
    return {"scores": [score for texts in corpora for score in count_examples(texts)]}


def table2(preset: Preset, corpus: str = "mnli") -> Plan:
    """Make Table 2: accuracy of every row's model of each domain; nothing where the preset has no texts for it."""
    if corpus not in list_corpora(preset):
        return {}
    rows = [row for row in ROWS if row not in CONTROL_ROWS or preset.control_seeds]
    return {
        **(yield from compute_accuracies(preset, corpus, rows)),
        **compare_rows(rows),
        "claims": state_claims(rows),
    }


def compare_rows(rows: Collection[str]) -> dict:
    """Name what the figure compares rows with: students with two others, the other teachers with HRKD's."""
    return {
        "baselines": [row for row in (PLAIN, ALONE) if row in rows],
        "compared_with": {row: HRKD for row in rows if row in TEACHERS and row != HRKD},
        "untaught": ALONE if ALONE in rows else None,
    }


def state_claims(rows: Iterable[str]) -> list[Claim]:
    """State the claims of Tables 2 and 3 about some rows."""
    ours = {"control": True, "beside": True}
    better = partial(shared.state_better, names=STUDENT_NAMES)
    claims = [
        better(OURS, PLAIN, primary=True),
        better(OURS, STUDENTS[-1], ", which has a student per domain"),
        better(OURS, STUDENTS[0]),
        better(OURS, RANDOM, **ours),
        better(WRITTEN, PLAIN, **ours),
        *(better(row, ALONE, control=True) for row in (OURS, PLAIN)),
    ]
    return [claim for claim in claims if {claim.above, claim.below} <= {*rows}]


table3 = partial(table2, corpus="reviews")


def figure2(preset: Preset) -> Plan:
    """Make Figure 2: the gain of other students over single → TinyBERT-KD, by share of the texts, from the front."""
    corpus, shares, (single, *_, meta) = preset.hrkd.few_shot, preset.hrkd.shares, STUDENTS
    presets = {share: preset.changed(corpus, train_share=share) for share in shares}
    parts = yield {share: compute_accuracies(presets[share], corpus, (single, meta, PLAIN, OURS)) for share in shares}
    scores = []
    for share in shares:
        accuracy = average_columns(parts[share])
        for (row, seed), value in accuracy.items():
            point = {"method": row, "column": "average", "seed": seed, "x": 100 * share}
            scores.append(Score(**point, metric=GAIN, value=value - accuracy[single, seed]))
            scores.append(Score(**point, metric="accuracy", value=value))
    return {
        "scores": scores,
        "title": name_figure2(corpus),
        "claims": state_gains(shares),
        "payload": {"x": "% of the training texts", "scale": "log"},
        "notes": [f"on {CORPORA[corpus]}", *make_notes(preset, corpus)],
        "training_seconds": sum(of_share["training_seconds"] for of_share in parts.values()),
    }


def name_figure2(corpus: str) -> str:
    """Return the title of Figure 2 with the corpus and the quantity."""
    return f"HRKD, Figure 2: accuracy on {CORPORA[corpus]} above a student per domain, by share of the training texts"


def state_gains(shares: Collection[float]) -> list[Claim]:
    """State the claims of Figure 2. With 2 % the paper has the largest "improvement rate", 10.1 % (section 3.5)."""
    (single, *_, meta), (few, many) = STUDENTS, (f"{100 * share:g}" for share in (min(shares), max(shares)))
    text, ours = f"with {few} % of the texts {STUDENT_NAMES[OURS]} beats", {"above": f"{OURS}, {few}"}
    claims = [Claim(text=f"{text} {STUDENT_NAMES[row]}", **ours, below=f"{row}, {few}") for row in (single, meta)]
    if few == "2":
        claims[0] = claims[0].model_copy(update={"printed": 10.1, "printed_for": "% on MNLI, as an improvement rate"})
    if many != few:
        text, than = "HRKD gains more with few texts than with many", [f"{OURS}, {many}", f"{single}, {many}"]
        claims.insert(0, Claim(text=text, **ours, below=f"{single}, {few}", than=than, primary=True))
    return claims


def table4(preset: Preset) -> Plan:
    """Make Table 4: accuracy of HRKD without its relations, and of other readings of these.

    The paper leaves out one part after the other. That is done where ratios differ at all, with skip connections.
    """
    full, without = TABLE4
    others = [row for row in RELATION_STUDENTS if row != OURS]
    parts = yield from compute_accuracies(preset, "reviews", (full, without, *others, AGAIN))
    return {**parts, "baselines": [without], "claims": state_parts()}


def state_parts() -> list[Claim]:
    """State the claims of Table 4: the relations help, and with skip connections each part of them does."""
    full, without = TABLE4
    claims = [
        shared.state_better(full, without, names=STUDENT_NAMES, primary=True),
        Claim(text=f"{SKIPPING} improve on HRKD without Domain Rel.", above=SKIPPING, below=without, control=True),
    ]
    for part in RELATION_ABLATIONS:
        text = f"with {SKIPPING}, HRKD is better with {part.removeprefix('- ')} than without"
        claims.append(Claim(text=text, above=SKIPPING, below=f"{SKIPPING} {part}", control=True))
    return claims
