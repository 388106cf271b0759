"""Which trainings the notebooks of a preset need and which are done, kept in a file: to find out takes a replay of all
plans, to look what was done since takes a moment, and no torch."""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from helpers import papers, paths
from helpers.files import fingerprint, write_whole
from helpers.notebooks.parameters import preset_for
from helpers.training.jobs import JOB, SEAL, result_in


@dataclass
class Training:
    """A training: what a person calls it, its steps, and once it is done the seconds that it took, when it ended (as
    files have it), and a stamp of what it left. Steps of a ``kind`` take alike."""

    label: str
    kind: str
    steps: int
    seconds: float | None = None
    ended: float = 0.0
    stamp: list[int] = field(default_factory=list)


@dataclass
class Inventory:
    """By notebook the cache keys of the trainings that it needs, as far as they are known, and for each of its plans
    that goes on the keys that this waits for; all trainings by key. ``state`` is that of sources and data, ``places``
    are the files and folders that this depends on."""

    folder: str  # of the preset's trainings
    limits: str
    processes: int
    encoder: str
    places: list[str]
    state: str = ""
    notebooks: dict[str, list[str]] = field(default_factory=dict)
    waiting: dict[str, list[list[str]]] = field(default_factory=dict)
    trainings: dict[str, Training] = field(default_factory=dict)

    def model(self, key: str) -> Path:
        """Where a trained model lies."""
        return Path(self.folder) / key / "model"

    def split(self, notebook: str = "") -> tuple[dict[str, Training], dict[str, Training]]:
        """The trainings of a notebook, or all, that are done, and those that are not."""
        keys = self.notebooks[notebook] if notebook else self.trainings
        done = {key: self.trainings[key] for key in keys if self.trainings[key].seconds is not None}
        return done, {key: self.trainings[key] for key in keys if key not in done}

    def steps(self, keys: Iterable[str]) -> Counter[str]:
        """The steps of some trainings by kind."""
        counted = Counter()
        for key in keys:
            counted[self.trainings[key].kind] += self.trainings[key].steps
        return counted

    def look(self) -> list[str]:
        """See what has ended since; returns the notebooks that have to be surveyed anew: those with a plan that may go
        on, and those with a training of which something was changed or removed."""
        folder, stale = Path(self.folder), set()
        for key, training in self.trainings.items():
            if training.seconds is not None and training.stamp != stamp(folder / key):
                stale |= {name for name, keys in self.notebooks.items() if key in keys}
            elif training.seconds is None and (folder / key / SEAL).exists():
                self.trainings[key] = ended(training, folder / key)
        for name, plans in self.waiting.items():
            if any(all((folder / key / SEAL).exists() for key in keys) for keys in plans):
                stale.add(name)
        return sorted(stale)


def of(parameters: dict[str, object]) -> Inventory:
    """The inventory for these parameters of the preset, from its file as far as that still holds."""
    if known := kept(parameters):
        stale = known.look()
    else:
        known, stale = _begun(parameters), [card.name for paper in papers.ALL for card in paper.notebooks]
    if stale:
        survey(known, parameters, stale)
    with suppress(OSError):  # where nothing can be written the plans are replayed each time
        write_whole(_file(parameters), json.dumps(dataclasses.asdict(known)))
    return known


def kept(parameters: dict[str, object]) -> Inventory | None:
    """What the file says; None where there is none, or where sources or data are others by now."""
    try:
        read = json.loads(_file(parameters).read_text(encoding="utf-8"))
        trainings = {key: Training(**values) for key, values in read.pop("trainings").items()}
        known = Inventory(**read, trainings=trainings)
    except (OSError, ValueError, TypeError, KeyError):  # there is none, or it is another version's
        return None
    return known if known.state == state_of(parameters, known.places) else None


def _file(parameters: dict[str, object]) -> Path:
    given = sorted((name, value) for name, value in parameters.items() if value is not None)
    return paths.models(str(parameters["preset"])) / "needed" / f"{fingerprint(given)}.json"


def _begun(parameters: dict[str, object]) -> Inventory:
    from helpers.notebooks import session
    from helpers.training import engine

    preset, names = preset_for(parameters), [card.name for paper in papers.ALL for card in paper.notebooks]
    folders = [getattr(preset, section).folder for section in ("data", *papers.BESIDE)]
    named = [preset.encoder, preset.hrkd.student, preset.mtdnn.large, preset.mnemonic.glove, *folders]
    places = sorted({str(place.resolve()) for name in named if name for place in paths.places(name) if place.exists()})
    limits, processes = session.limits(parameters, *names), engine.processes(preset.engine)
    return Inventory(str(preset.models), limits, processes, preset.encoder, places, state_of(parameters, places))


def survey(known: Inventory, parameters: dict[str, object], notebooks: Iterable[str]) -> None:
    """Replay the plans of some notebooks."""
    from helpers.notebooks import session
    from helpers.papers.rows import trainings_of
    from helpers.training import engine
    from helpers.training.cached import kind_of

    for name in notebooks:
        preset, (_, card) = preset_for(parameters, name), papers.card_of(name)
        replayed = session.replayed(card, preset)
        trainings = trainings_of(task for outcome in replayed for task in outcome.tasks)
        waits = ([task.key for task in outcome.tasks if not engine.is_done(task)] for outcome in replayed)
        known.notebooks[name], known.waiting[name] = list(trainings), [keys for keys in waits if keys]
        for key, task in trainings.items():
            found = Training(task.label, kind_of(task), task.steps)
            known.trainings[key] = ended(found, task.infra.uid_folder()) if engine.is_done(task) else found
    needed = {key for keys in known.notebooks.values() for key in keys}
    known.trainings = {key: training for key, training in known.trainings.items() if key in needed}
    known.notebooks = {name: keys for name, keys in sorted(known.notebooks.items()) if keys}


def ended(training: Training, folder: Path) -> Training:
    """A training with what it left in its folder; as it is where that was an error, or cannot be read yet."""
    try:
        seconds = result_in(folder)["seconds"]
    except Exception:  # the training's own, or that of a damaged pickle, which is named when it is to be used
        return training
    when = (folder / JOB).stat().st_mtime
    return dataclasses.replace(training, seconds=seconds, ended=when, stamp=stamp(folder))


def stamp(folder: Path) -> list[int]:
    """Changes when the result or the weights in a training's folder do."""
    files = [folder / JOB, *sorted(folder.glob("*/*.safetensors")), *sorted(folder.glob("*.safetensors"))]
    stats = (file.stat() for file in files if file.exists() and not file.name.startswith("checkpoint"))
    return [number for known in stats for number in (known.st_mtime_ns, known.st_size)]


def state_of(parameters: dict[str, object], places: Iterable[str]) -> str:
    """Stands for everything that the plans depend on but for what is trained: sources, presets, data, machine."""
    preset = Path(str(parameters["preset"]))
    sources = [
        *sorted(paths.PACKAGE.rglob("*.py")),
        *sorted(paths.PRESETS.glob("*.toml")),
        *[preset] * preset.is_file(),
    ]
    machine = os.environ.get("CUDA_VISIBLE_DEVICES"), Path("/dev/nvidia0").exists(), os.cpu_count()
    return fingerprint(machine, *(file.read_bytes() for file in sources), *_stats(places))


def _stats(places: Iterable[str]) -> Iterator[tuple]:
    for place in map(Path, places):
        for file in sorted(place.rglob("*")) if place.is_dir() else [place] * place.exists():
            known = file.stat()
            yield str(file), known.st_mtime_ns, known.st_size
