"""Your own domains in, better readers out: IMM on 2 to 16 files of questions, and what it is worth beside Single."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from helpers.data.domains import load_domains
from helpers.data.examples import DataError
from helpers.notebooks import session
from helpers.papers.imm import algorithm
from helpers.papers.imm import tables as imm_tables
from helpers.papers.imm.runs import Histories, Trained, readers_of
from helpers.presets.schema import Preset
from helpers.results import comparisons, provenance, records, tables
from helpers.tasks.spans import budget
from helpers.training.engine import run_plans

MOST = 16  # domains; every round trains two readers for each
TITLE = "# A reader of "  # of a card, by which our own folders are known
NAME = "own"  # of the preset, and so of the folder of its trainings and of its record


def preset_for(domains: dict[str, str], parameters: dict[str, object]) -> Preset:
    """The settings of the preset that ``parameters`` name, for domains by name and file. Raises DataError."""
    if not 2 <= len(domains) <= MOST:
        raise DataError(f"IMM needs 2 to {MOST} domains, not {len(domains)}: give --domain NAME=FILE for each")
    places = {name: str(Path(file).expanduser().resolve()) for name, file in domains.items()}
    data = {"data.source": "files", "data.folder": str(Path.cwd()), "data.domains": places, "data.adversarial": None}
    return session.load_preset(parameters, "imm", **data, **{"data.train_share": 1.0, "name": NAME})


def improve(preset: Preset, out: Path) -> records.Record:
    """Train Single and IMM readers of every domain, save each domain's best with a model card, return the scores."""
    started, code = time.perf_counter(), provenance.code()
    load_domains(preset.data)  # what is wrong is found before anything is trained
    out.mkdir(parents=True, exist_ok=True)
    for folder in (out / domain for domain in preset.data.domains):
        card_of = folder / "README.md"
        if folder.exists() and not (card_of.is_file() and TITLE in card_of.read_text(encoding="utf-8")):
            raise DataError(f"{folder} holds something that is no reader of ours; give another --out")
    plans = {seed: algorithm.algorithm1(preset, seed, preset.imm, preset.imm.rounds) for seed in range(preset.seeds)}
    outcomes = run_plans(plans, preset.engine)
    histories: Histories = {seed: outcome.value for seed, outcome in outcomes.items()}
    rows = {
        "Single": {seed: history[0] for seed, history in histories.items()},
        "IMM": {seed: history[-1] for seed, history in histories.items()},
    }
    trained = Trained(rows, {"IMM": {seed: readers_of(outcome.tasks) for seed, outcome in outcomes.items()}})
    parameters = preset.model_dump(mode="json", exclude={"cpu": True, "data": {"folder", "domains"}})
    parameters["encoder"] = session.public_name(preset.encoder)
    record = records.Record(
        artefact="imm/own",
        preset=NAME,
        title="F1 of each domain's reader, alone and with the others",
        unit="F1",
        baselines=["Single"],
        notes=preset.without_gpu(),
        run=provenance.run_info(parameters, started, code, training_seconds=trained.seconds),
        **imm_tables.table(rows),
    )
    records.write(record)
    for domain in preset.data.domains:
        seed = max(histories, key=lambda seed: algorithm.valid(histories[seed][-1][domain]))
        reader = histories[seed][-1][domain]
        made_in = next(k for k, theta in enumerate(histories[seed]) if theta[domain] is reader)
        text = card(preset, record, domain, seed, made_in)
        put(reader.folder(), text, out / domain)
    return record


def put(reader: Path, text: str, folder: Path) -> None:
    """A copy of a reader with its card in place of ``folder``, whole or not at all."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(reader, new)
    (new / "README.md").write_text(text, encoding="utf-8")
    if folder.exists():
        shutil.rmtree(folder)
    new.rename(folder)


def card(preset: Preset, record: records.Record, domain: str, seed: int, made_in: int) -> str:
    """The model card: how the reader was made and what it scores."""
    loaded = load_domains(preset.data)
    sizes = ", ".join(f"{name} {len(one.train):,}" for name, one in loaded.items())
    scores = {s.method: s.value for s in record.scores if (s.column, s.seed) == (domain, seed)}
    encoder = Path(preset.encoder).name if Path(preset.encoder).exists() else preset.encoder
    history = (
        f"trained on {domain} alone: no round of IMM was better on its validation questions"
        if made_in == 0
        else f"of round {made_in} of IMM: trained on the other domains, taught by their readers, "
        f"weighted by similarity ({preset.imm.similarity}), then on {domain}, taught by its predecessor"
    )
    versions = ", ".join(f"{name} {number}" for name, number in record.run.versions.items())
    return f"""---
pipeline_tag: question-answering
tags: [knowledge-distillation, reading-comprehension]
---
{TITLE}{domain}

Finds the answer to a question in a passage. It starts from the encoder {encoder} and is the reader
{history} (iterative multi-source mutual knowledge transfer, Liu et al. 2020).

| | F1 on {len(loaded[domain].test):,} test questions of {domain} |
|---|---|
| this reader | {scores["IMM"]:.1f} |
| trained on {domain} alone, same seed | {scores["Single"]:.1f} |

It is the best on validation questions of {preset.seeds} trained with different seeds. Over all of them, with 95 %
intervals:

{compared(record, domain)}

Training questions: {sizes}. Rounds: at most {preset.imm.rounds}. Optimiser steps of a reader trained alone:
{budget(preset):,} of {preset.training.batch_size} windows, learning rate {preset.training.learning_rate:g}.
Seed {seed}.
Device: {record.run.device}. Versions: {versions}.

```
python -m helpers answer path/to/this/folder "your question" passage.txt
```
"""


def compared(record: records.Record, domain: str) -> str:
    """Single, IMM and their difference on one domain, in a line."""
    table = tables.frame(record)[domain].str.replace("*", "")
    found = comparisons.compare(record, "IMM", "Single", [domain])
    text = f"{domain}: Single {table['Single']}, IMM {table['IMM']}, difference {tables.signed(found.difference)}"
    if found.low is None:
        return text
    return f"{text} ({tables.interval(found)}; P(IMM > Single) {tables.chance(found.probability)})"
