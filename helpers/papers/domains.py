"""Your own domains: readers of each by several methods, side by side, and the best of each on validation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from helpers.data.load import load_domains
from helpers.engine import Plan
from helpers.errors import UserError
from helpers.papers import a2d, imm, shared
from helpers.papers.shared import Models
from helpers.presets.schema import GENERAL, Preset
from helpers.reading import Reader
from helpers.results.records import Record

ENSEMBLE, DISTILLED, BEST = "Mix ensemble", "A2D", "best on validation"
METHODS = ("Single", "Mix", "FT", "BAM", "IMM", ENSEMBLE, DISTILLED)
FEWEST = 100  # questions to train or test on; with fewer, a score says little


def select_methods(names: str) -> list[str]:
    """Return the methods that a text names, in the order of `METHODS`; all where it is empty. Raises UserError."""
    words = names.replace(ENSEMBLE, "Ensemble").split()
    chosen = [method for method in METHODS if method.replace(ENSEMBLE, "Ensemble") in words]
    if unknown := set(words) - {method.replace(ENSEMBLE, "Ensemble") for method in chosen}:
        raise UserError(f"methods: {min(unknown)!r}; expected some of {', '.join(METHODS)}, separated by spaces")
    return ["Single", *(method for method in chosen or METHODS if method != "Single")]


def initialised_from(preset: Preset, start: str, general: str) -> Plan:
    """Return the preset whose readers start from the reader ``start``, or from one trained on the file ``general``."""
    if start:
        preset = preset.model_copy(update={"encoder": start, "random_layers": 0})
    if general:
        file = Path(general).expanduser().resolve()
        if not file.exists():
            raise UserError(f"general: {general!r} is not there; expected a file or folder of questions")
        place = {"source": "files", "folder": str(file.parent), "domains": {GENERAL: file.name}}
        alone = preset.changed("data", **place, adversarial=None, narrative="", train_size=0, train_share=1.0)
        reader = imm.reader(alone, 0, "general reader", [GENERAL], [GENERAL], stages=1)
        yield [reader]
        preset = preset.model_copy(update={"encoder": str(reader.saved()), "random_layers": 0})
    return preset


def readers(preset: Preset, methods: Sequence[str]) -> Plan:
    """Train readers of every domain by some methods, with every seed. Returns their `Models`."""
    runs = yield {seed: _readers_of_seed(preset, seed, methods) for seed in range(preset.seeds)}
    models = Models(preset)
    for method in methods:
        for seed, rows in runs.items():
            models.add(method, seed, *rows[method])
    return models


def _readers_of_seed(preset: Preset, seed: int, methods: Sequence[str]) -> Plan:
    names, drawn = list(preset.data.domains), preset.drawn(seed)
    plans = {"baselines": imm.baselines(drawn, seed, [row for row in methods if row in imm.METHODS[:-1]])}
    if "IMM" in methods:
        plans["IMM"] = imm.algorithm1(drawn, seed, drawn.imm, drawn.imm.rounds)
    values = yield plans
    rows = {row: (readers, ()) for row, readers in values["baselines"].items()}
    if "IMM" in methods:
        history = values["IMM"]
        rows["IMM"] = history.theta[-1], [new for readers in history.new for new in readers.values()]
    if {ENSEMBLE, DISTILLED} & set(methods):
        (student,) = a2d.distillation(preset, "BERT", seed).values()
        members = student.ensemble.members
        rows |= {ENSEMBLE: (dict.fromkeys(names, members), ()), DISTILLED: (dict.fromkeys(names, student), ())}
        yield [*members, *([student] if DISTILLED in methods else [])]
    return rows


def table(models: Models) -> Plan:
    """Make the record's parts: F1 of every method's reader on each domain's test questions, and of those that are best.

    The payload names the best method of each domain on validation, averaged over seeds; the last row are its readers.
    """
    best = yield from best_on_validation(models)
    chosen = Models(models.preset, dict(models.of_rows), dict(models.needs))
    for seed in range(models.preset.seeds):
        chosen.add(BEST, seed, {name: models.of_rows[row][seed][name] for name, row in best.items()})
    parts = yield from shared.answer_table(chosen, lambda domain: {domain: f"test/{domain}"})
    claim = shared.better(BEST, "Single", "beats")
    facts = {"baselines": ["Single"], "claims": [claim], "payload": {"best": best}}
    return {**parts, **facts, "notes": sizes(models.preset)}


def best_on_validation(models: Models) -> Plan:
    """Return the method of each domain whose reader has the best F1 on its validation questions, over seeds.

    An ensemble is not chosen: it is not one reader.
    """
    cells = {
        (row, domain, seed): (members, f"valid/{domain}") for row, domain, seed, members in models if len(members) == 1
    }
    f1 = shared.mean_f1(models.preset, (yield from shared.answer_sets(models.preset, cells)))
    rows, seeds = list(dict.fromkeys(row for row, *_ in cells)), range(models.preset.seeds)
    return {
        name: max(rows, key=lambda row: mean(f1[row, name, seed] for seed in seeds))
        for name in models.preset.data.domains
    }


def sizes(preset: Preset) -> list[str]:
    """State the training and test questions of each domain, and which domains have too few."""
    domains = load_domains(preset.data)
    counts = {name: (len(domain.train), len(domain.test)) for name, domain in domains.items()}
    listed = ", ".join(f"{name} {train:,} and {test:,}" for name, (train, test) in counts.items())
    few = [name for name, numbers in counts.items() if min(numbers) < FEWEST]
    notes = [f"training and test questions: {listed}"]
    return notes + [f"fewer than {FEWEST} questions to train or to test on: {', '.join(few)}"] * bool(few)


def best_readers(models: Models, best: dict[str, str]) -> dict[str, Reader]:
    """Return each domain's reader by its best method, of the seed with the best F1 on validation questions."""
    readers = {name: [of_seed[name][0] for of_seed in models.of_rows[row].values()] for name, row in best.items()}
    return {name: max(of_seeds, key=lambda reader: reader.best) for name, of_seeds in readers.items()}


def keep(models: Models, record: Record, folder: str) -> None:
    """Copy the best reader of each domain into a subfolder of ``folder``, in Hugging Face format with a README.md."""
    best = record.payload["best"]
    readers = {name: (best[name], reader) for name, reader in best_readers(models, best).items()}
    usage = (
        'from helpers import load_reader\n\nload_reader("FOLDER").answer("your question", "a passage")\n\n'
        "# Without helpers:\nfrom transformers import AutoModelForQuestionAnswering, AutoTokenizer\n\n"
        'model = AutoModelForQuestionAnswering.from_pretrained("FOLDER")\n'
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")'
    )
    shared.keep_models(readers, folder, record, usage)
