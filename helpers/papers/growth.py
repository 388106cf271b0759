"""When a method helps: the papers' headline tables against the number of training examples."""

import math
from collections.abc import Iterator

import numpy as np

from helpers import papers
from helpers.data.load import load_domains
from helpers.engine import Plan
from helpers.papers.card import Paper
from helpers.presets.schema import Preset
from helpers.results.records import Score

SEEDS = 5  # of the sizes besides the preset's own


def growth(paper: Paper, preset: Preset) -> Plan:
    """Make a record's parts: the rows that claims of a paper's tables compare, at each of the preset's sizes.

    A size is the number of training examples per domain or task on average. Rows are averaged over columns where that
    means something, and left out where a size lacks them.
    """
    presets = {size: at_size(preset, size) for size in preset.sizes}
    parts = yield {
        (name, size): table(of_size) for name, (table, _) in paper.growth.items() for size, of_size in presets.items()
    }
    scores, notes = [], []
    for name, (_, section) in paper.growth.items():
        card = papers.artefact(f"{paper.key}/{name}")
        label = card.title.partition(":")[0]
        everywhere = set.intersection(*({score.method for score in parts[name, size]["scores"]} for size in presets))
        for size, of_size in presets.items():
            part, number = parts[name, size], training_examples(of_size, section)
            scores += _points(part, everywhere, label if card.average else "", number)
            seeds = len({score.seed for score in part["scores"]})
            counted = "1 seed" if seeds == 1 else f"{seeds} seeds"
            notes.append(f"{label}: {number:,} training examples per domain or task on average, {counted}")
    return {
        "title": f"{paper.title.partition(':')[0]}: {card.unit} by the number of training examples",
        "unit": card.unit,
        "payload": {"x": "training examples of a domain or task, on average", "scale": "log"},
        "scores": scores,
        "notes": notes,
    }


def at_size(preset: Preset, size: float) -> Preset:
    """Return the preset with ``size`` times the training examples: three times as many for half of the epochs.

    Other sizes than 1 have fewer seeds, and no controls.
    """
    if size == 1:
        return preset
    epochs = round(2 ** -math.log(size, 3), 3)
    changed = preset.model_copy(update={"seeds": min(SEEDS, preset.seeds)}).changed("imm", controls=False)
    for section in ("data", "mnli", "reviews", "tasks"):
        settings = getattr(preset, section)
        if settings.train_size:
            sizes = {"train_size": round(size * settings.train_size)}
        else:
            key = "train_times" if section == "tasks" else "train_share"
            sizes = {key: round(size * getattr(settings, key), 4)}
        changed = changed.changed(section, **sizes)
    for section in ("training", "mnemonic", "hrkd", "mtdnn_kd"):
        key = "tuning_epochs" if section == "mtdnn_kd" else "epochs"
        changed = changed.changed(section, **{key: round(epochs * getattr(getattr(preset, section), key), 4)})
    return changed


def training_examples(preset: Preset, section: str) -> int:
    """Count the training examples of a section's domains or tasks in the first draw, on average."""
    return round(np.mean([len(domain.train) for domain in load_domains(getattr(preset.drawn(0), section)).values()]))


def _points(part: dict, everywhere: set[str], label: str, number: int) -> Iterator[Score]:
    """Yield the scores of rows that claims compare: averaged over columns as ``label``, or each of its own column."""
    compared = {row for claim in part["claims"] for row in (claim.above, claim.below, *claim.than)} & everywhere
    metric, values = part["scores"][0].metric, {}
    for score in part["scores"]:
        if score.method in compared and score.metric == metric:
            values.setdefault((score.method, label or score.column, score.seed), []).append(score.value)
    for (method, column, seed), of_columns in values.items():
        yield Score(method=method, column=column, seed=seed, value=float(np.mean(of_columns)), x=number)
