"""What a preset whose corpora are downloaded costs, before they are there: its plans, followed with stand-ins."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from helpers import engine, papers, paths
from helpers.classification import DomainTexts, Tasks, task_sequences
from helpers.data.downloads import find_download
from helpers.data.folders import find_copy, find_own
from helpers.data.planned import SCALE
from helpers.extractive_qa import windows_of
from helpers.presets.load import override
from helpers.presets.schema import EXAMPLES, DatasetSettings, DataSettings, Download, Preset
from helpers.task import RESULT, Plan, Task
from helpers.training import Outputs, Training

BASE, LARGE = "data/mini", "data/mini/large"  # stand-ins for BERT-base and BERT-large
# Windows that one H100 trains per second in batches of 128 (docs/performance.md); BERT-large by its multiplications.
SPEED = {BASE: 1346, LARGE: 1346 / 3.5}
GIGABYTES = {BASE: 0.44, LARGE: 1.34}  # of a saved model
BYTES_OF_TOKEN = 4  # start and end logits of a teacher in half precision
BYTES_OF_WORD = 21  # of a passage in memory, with its word pieces and their places
ENOUGH = 5  # seeds for a verdict
ENCODERS = {"hrkd.mnli_student": "", "hrkd.reviews_student": "", "hrkd.student_layers": 1, "mnemonic.glove": ""}


def plan_preset(preset: Preset) -> Preset:
    """Return a preset with stand-ins a hundredth as large for its corpora, and small encoders."""
    encoder = LARGE if "-large" in preset.encoder else BASE
    planned = override(preset, {**ENCODERS, "encoder": encoder, "mtdnn.large": preset.mtdnn.large and LARGE})
    return planned.model_copy(update={name: plan_section(getattr(planned, name)) for name in EXAMPLES})


def plan_section(settings: DatasetSettings) -> DatasetSettings:
    """Return a section of examples with stand-ins for what it downloads."""
    if settings.source != "hub":
        return settings
    sizes = {name: getattr(settings, name) for name in ("train_size", "valid_size", "test_size")}
    changes: dict = {name: size and max(1, size // SCALE) for name, size in sizes.items()}
    if hasattr(settings, "split"):
        changes["split"] = "content"  # so few texts cannot be split jointly
    return settings.model_copy(update={"source": "planned", "folder": "", **changes})


@dataclass
class Costs:
    """The trainings of some notebooks, and the outputs of teachers, each counted once. ``spent`` are keys of those
    with files that are deleted on the way."""

    trainings: dict[str, Training] = field(default_factory=dict)
    outputs: dict[str, Outputs] = field(default_factory=dict)
    spent: set[str] = field(default_factory=set)

    def add(self, schedule: engine.Schedule, keep: str) -> None:
        """Add the trainings and the teachers' outputs among the tasks of a schedule."""
        self.spent |= schedule.spent.keys() if keep == "results" else ()
        for task in schedule.tasks.values():
            if isinstance(task, Training):
                self.trainings[task.key] = task
            elif isinstance(task, Outputs) and all(name.startswith("train/") for name in task.models):
                self.outputs[task.key] = task

    def __str__(self) -> str:
        """Add up steps, windows, hours and gigabytes."""
        steps = windows = hours = 0.0
        for training in self.trainings.values():
            number = count_windows(training)
            windows += number
            domains = len(training.data.names) if isinstance(training.data, DomainTexts) else 1
            steps += number / training.optim.batch_size / domains  # whose batches are of every domain
            hours += number / SPEED[training.preset.encoder] / 3600
        gigabytes = {key: GIGABYTES[training.preset.encoder] for key, training in self.trainings.items()}
        gigabytes |= {key: count_tokens(outputs) * BYTES_OF_TOKEN / 1e9 for key, outputs in self.outputs.items()}
        left = sum(size for key, size in gigabytes.items() if key not in self.spent)
        deleted = sum(gigabytes.values()) - left
        amounts = f"{steps / 1e6:,.2f} M steps, {windows / 1e6:,.1f} M windows, {hours:,.0f} h, {left:,.0f} GB"
        return f"{len(self.trainings):,} trainings, {amounts}" + f" and {deleted:,.0f} deleted" * bool(round(deleted))


def count_windows(training: Training) -> float:
    """Estimate the windows, or texts, that a training reads, from the stand-ins of its corpora."""
    data, preset, optim = training.data, training.preset, training.optim
    if isinstance(data, Tasks):
        splits = {task: data.splits.get(task, ("train",)) for task in data.names}
        sizes = {
            task: sum(len(task_sequences(preset, task, split)) for split in of_task) for task, of_task in splits.items()
        }
        if data.probs:  # an epoch ends with the first task
            first, total = data.names[0], sum(data.probs.values())
            return SCALE * optim.epochs * sizes[first] * total / data.probs[first]
        return SCALE * optim.epochs * sum(sizes.values())
    scaled = optim.model_copy(update={"epochs": SCALE * optim.epochs})
    if isinstance(data, DomainTexts):
        even = replace(data, order="mixed") if data.order == "turns" else data  # without turns' last, short batches
        return even.steps(preset, scaled) * optim.batch_size * len(data.names)
    return data.steps(preset, scaled) * optim.batch_size


def count_tokens(outputs: Outputs) -> int:
    """Estimate the tokens for which a teacher's outputs are stored."""
    windows = (windows_of(outputs.preset, [name.removeprefix("train/")], "train") for name in outputs.models)
    return SCALE * sum(int(of_domain.lengths_W.sum()) for of_domain in windows)


def follow(plan: Plan) -> engine.Schedule:
    """Return the schedule of a plan as if each task were done and every later model were better.

    So no algorithm ends early. Results have no answers: a plan fails where it tabulates them, after its trainings.
    """
    before = os.environ.get("HELPERS_RESULTS")
    with TemporaryDirectory() as folder:
        os.environ["HELPERS_RESULTS"] = folder
        try:
            schedule, numbers = engine.Schedule({"": plan}), count(1)
            while schedule.pending:
                for key, task in [*schedule.pending.items()]:
                    write_result(task, next(numbers))
                    schedule.mark_done(key)
        finally:
            del os.environ["HELPERS_RESULTS"]
            os.environ |= {} if before is None else {"HELPERS_RESULTS": before}
    return schedule


def write_result(task: Task, number: int) -> None:
    """Write a result with the score ``number`` for a task that was not carried out."""
    scores = dict.fromkeys(task.data.names, number) if isinstance(task, Training) else {}
    result = {"best": number, "validation": [[1, number, {"scores": scores}]], "steps": 1, "seconds": 0.0}
    task.folder.mkdir(parents=True, exist_ok=True)
    (task.folder / RESULT).write_text(json.dumps({**result, "parameters": 1, "files": {}}))


def list_costs(jobs: list) -> int:
    """Print what each notebook costs, what its seeds decide, and which corpora are not there."""
    total = Costs()
    print(
        f"estimates, from sizes that the preset states: trainings alone, hours on one H100 at {SPEED[BASE]:,} windows"
    )
    print("of BERT-base per second; RMR and small students are counted as BERT; words per passage are not checked")
    for job in jobs:
        costs = Costs()
        schedule = follow(job._replace(preset=plan_preset(job.preset)).plan())
        for each in (costs, total):
            each.add(schedule, job.preset.engine.keep)
        told = f"{costs}; {state_seeds(job.preset)}" if costs.trainings else "no trainings"
        outcome = schedule.outcomes.get("")
        failed = f"; {outcome!r}" if isinstance(outcome, Exception) and not schedule.tasks else ""
        print(f"{job}: {told}{failed}", flush=True)
    print(f"together, each counted once: {total}")
    declared = [(job.preset, papers.find_paper(job.notebook)[0]) for job in jobs]
    sections = [getattr(preset, name) for preset, paper in declared if paper for name in paper.examples]
    print(f"memory: {sum_memory(sections):.1f} GB for a process that reads all corpora")
    for line in dict.fromkeys(line for settings in sections for line in list_missing(settings)):
        print(line)
    return 0


def state_seeds(preset: Preset) -> str:
    """State what the numbers of seeds decide (docs/statistics.md)."""
    decides = "enough for verdicts" if preset.seeds >= ENOUGH else f"no verdict below {ENOUGH}"
    controls = min(preset.control_seeds, preset.seeds)
    return f"seeds: {preset.seeds} ({decides}), {controls} for controls and rows that no claim compares"


def sum_memory(sections: Iterable[DatasetSettings]) -> float:
    """Estimate the gigabytes of all texts and their word pieces."""
    pairs = [(settings.downloads, source) for settings in sections for source in list_sources(settings)]
    corpora = {source: find_download(downloads, source)[2] for downloads, source in pairs}
    return sum(sum(corpus.rows.values()) * corpus.words for corpus in corpora.values() if corpus) * BYTES_OF_WORD / 1e9


def list_sources(settings: DatasetSettings) -> list[str]:
    """List what a section reads: its domains or tasks, adversarial questions and stories."""
    sources = [*settings.named.values()]
    if isinstance(settings, DataSettings):
        sources += [*(settings.adversarial.places.values() if settings.adversarial else ()), settings.narrative]
    return [source for source in sources if source]


def list_missing(settings: DatasetSettings) -> list[str]:
    """List the corpora of a section that are not on this machine: where they come from, and where a copy belongs."""
    lines, copies = {}, {settings.named[name] for name in settings.named if find_own(settings, name)}
    for source in list_sources(settings) if settings.source == "hub" else ():
        corpus, _, download = find_download(settings.downloads, source)
        if not download or source in copies or find_copy(settings, source) or is_here(corpus, download):
            continue
        words = corpus.split(":") if download.files else corpus.split(":")[:1]
        name = "/".join(words)
        urls = ", ".join(file.url for file in download.files.values()) or f"https://huggingface.co/datasets/{name}"
        place = f"data/cache/{name}" if download.files else "the Hub's cache"
        facts = "; ".join(filter(None, (download.size, download.licence)))
        lines[name] = f"missing: {':'.join(words)} ({facts}): {urls}; goes to {place}, or give a folder with {name}"
    return [*lines.values()]


def is_here(corpus: str, download: Download) -> bool:
    """Return whether a corpus was downloaded before."""
    if download.files:
        return all(paths.CACHE.joinpath(*corpus.split(":"), name).exists() for name in download.files)
    import datasets  # here, because it takes a second to import

    return Path(datasets.config.HF_DATASETS_CACHE, corpus.partition(":")[0].replace("/", "___")).is_dir()
