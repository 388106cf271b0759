"""Somebody's own domains in, better readers out."""

import shutil
from pathlib import Path

from helpers import paths
from helpers.data.domains import load_domains
from helpers.data.examples import DataError
from helpers.notebooks.session import Session
from helpers.papers.card import OwnDomains, OwnModel
from helpers.presets.schema import Preset
from helpers.results import comparisons, tables
from helpers.results.records import Record
from helpers.tasks.spans import budget

MOST = 16  # domains
TITLE = "# A reader of "  # of a card, by which our own folders are known
NAME = "own"  # of the preset, and so of the folder of its trainings and of its record


def overrides(method: str, domains: dict[str, str]) -> dict[str, object]:
    """What a preset says instead where a method gets domains by name and file. Raises DataError."""
    if not 2 <= len(domains) <= MOST:
        raise DataError(f"{method} needs 2 to {MOST} domains, not {len(domains)}: give --domain NAME=FILE for each")
    files = {name: str(Path(file).expanduser().resolve()) for name, file in domains.items()}
    data = {"source": "files", "folder": str(Path.cwd()), "domains": files, "adversarial": None, "train_share": 1.0}
    return {"name": NAME, **{f"data.{key}": value for key, value in data.items()}}


def improve(artefact: str, method: OwnDomains, session: Session, out: Path) -> Record:
    """Train readers of every domain with and without the others, save each domain's best with a model card, and return
    the scores. Raises DataError, before anything is trained, on unreadable domains and on an ``out`` of other files."""
    preset = session.preset
    load_domains(preset.data)
    out.mkdir(parents=True, exist_ok=True)
    for folder in (out / domain for domain in preset.data.domains):
        known = folder / "README.md"
        if folder.exists() and not (known.is_file() and TITLE in known.read_text(encoding="utf-8")):
            raise DataError(f"{folder} holds something that is no reader of ours; give another --out")
    parts, models = method.train(preset)
    record = session.save(artefact, notes=preset.without_gpu(), **parts)
    for domain, model in models.items():
        put(model.folder, card(preset, record, domain, model, method.name), out / domain)
    return record


def put(model: Path, card: str, folder: Path) -> None:
    """A copy of a trained model with its card in place of ``folder``, whole or not at all."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(model, new)
    (new / "README.md").write_text(card, encoding="utf-8")
    if folder.exists():
        shutil.rmtree(folder)
    new.rename(folder)


def card(preset: Preset, record: Record, domain: str, model: OwnModel, method: str) -> str:
    """The model card of one domain's reader: how it was made and what it scores."""
    domains = load_domains(preset.data)
    own = {score.method: score.value for score in record.scores if (score.column, score.seed) == (domain, model.seed)}
    template = (paths.PACKAGE / "card.md").read_text(encoding="utf-8")
    return template.format(
        preset=preset,
        record=record,
        domain=domain,
        model=model,
        steps=budget(preset),
        encoder=Path(preset.encoder).name if Path(preset.encoder).exists() else preset.encoder,
        tests=len(domains[domain].test),
        f1=own[method],
        single=own["Single"],
        compared=compared(record, domain, method),
        sizes=", ".join(f"{name} {len(parts.train):,}" for name, parts in domains.items()),
        versions=", ".join(f"{name} {number}" for name, number in record.run.versions.items()),
    )


def compared(record: Record, domain: str, method: str) -> str:
    """Single, the method and their difference on one domain, in a line."""
    table = tables.frame(record)[domain].str.replace("*", "")
    found = comparisons.compare(record, method, "Single", [domain])
    text = f"{domain}: Single {table['Single']}, {method} {table[method]}, difference {tables.signed(found.difference)}"
    if found.low is None:
        return text
    return f"{text} ({tables.interval(found)}; P({method} > Single) {tables.chance(found.probability)})"
