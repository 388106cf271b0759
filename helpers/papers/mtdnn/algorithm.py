"""MtDNN (He 2019): a reader of SQuAD 2.0 that trains on other tasks as well.

All tasks share an encoder (section 3.1). The next batch's task is drawn by weight: questions have one of their own, all
other tasks share the rest alike; an epoch ends when the questions are used up (weighted stochastic batch selection,
section 3.3, Algorithm 1 of the appendix, `helpers.batches.plans.weighted`). As plans of one wave each.
"""

from helpers.papers.mtdnn.trainings import general, reader
from helpers.presets.papers import MtDnnSettings
from helpers.presets.schema import Preset
from helpers.tasks import kinds
from helpers.tasks.multitask import MultiTaskTraining
from helpers.training.engine import Plan

QA, CHOICES, SENTENCES, BOTH = "QA", "QA+MCC", "QA+SC", "QA+MCC+SC"  # multiple choice, sentence classification


def plan(preset: Preset, seed: int) -> Plan:
    """The readers of Tables 1 to 3, by row; those of Table 3 are called by their table too."""
    draw, known, beside = preset.drawn(seed), preset.mtdnn, groups(preset)
    larger = draw.model_copy(update={"encoder": known.large})

    # ours: encoders that read other questions first
    encoders = preset.encoder, known.large
    firsts = {name: general(preset.model_copy(update={"encoder": name})) for name in encoders if name}

    def row(name: str, weight: float = known.weight, encoded: Preset = draw) -> MultiTaskTraining:
        return reader(encoded, seed, name, beside[name], weight, firsts[encoded.encoder])

    # Table 1: questions drawn with several weights, and alone
    rows = {weighted(weight): row(BOTH, weight) for weight in weights(known)}
    # Table 2: which tasks beside the questions
    rows |= {name: row(name) for name in beside}
    # Table 3: a larger encoder
    if known.large:
        rows |= {f"{name}, larger": row(name, encoded=larger) for name in (QA, BOTH)}
    yield [*filter(None, firsts.values()), *rows.values()]
    return rows


def groups(preset: Preset) -> dict[str, list[str]]:
    """The tasks beside the questions, by what the paper calls the row."""
    tasks = {name: kinds.head_of(preset, name).kind for name in preset.tasks.tasks}
    choices = [name for name, kind in tasks.items() if kind == "choices"]
    sentences = [name for name, kind in tasks.items() if kind != "choices"]
    named = {QA: [], CHOICES: choices, SENTENCES: sentences, BOTH: [*choices, *sentences]}
    # Where all are of one kind, its row is the last one already.
    return {
        row: beside for row, beside in named.items() if row == QA or (beside and (row == BOTH or beside != named[BOTH]))
    }


def weights(known: MtDnnSettings) -> list[float]:
    """Those of Table 1, that of the other tables among them."""
    return sorted({*known.weights, known.weight})


def weighted(weight: float) -> str:
    """What the paper calls a row of Table 1."""
    return f"QA({weight:g})+MCC+SC"


def plans(preset: Preset) -> dict[int, Plan]:
    """What all tables and figures need, by seed."""
    return {seed: plan(preset, seed) for seed in range(preset.seeds)}
