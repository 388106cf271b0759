"""What a preset whose corpora are downloaded costs, before they are there: its plans, followed with stand-ins."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from helpers import engine, papers, paths
from helpers.classification import DomainTexts, Tasks, task_sequences
from helpers.data.downloads import find_download
from helpers.data.folders import find_copy, find_local, list_read, state_files
from helpers.data.planned import SCALE
from helpers.extractive_qa import windows_of
from helpers.presets.load import override
from helpers.presets.schema import EXAMPLES, DatasetSettings, Download, Preset
from helpers.task import RESULT, Plan, Task
from helpers.training import Outputs, Training

BASE, LARGE = "data/mini", "data/mini/large"  # stand-ins for BERT-base and BERT-large
# Of one H100 (docs/performance.md): windows per second where it is busy, as with many trainings at once, and seconds of
# a step of one training, which the host takes for any batch up to 128. BERT-large: by its multiplications and layers.
SPEED = {BASE: 1346, LARGE: 1346 / 3.5}
STEP = {BASE: 0.09, LARGE: 0.18}
GIGABYTES = {BASE: 0.44, LARGE: 1.34}  # of a saved model
BYTES_OF_TOKEN = 4  # start and end logits of a teacher in half precision
BYTES_OF_WORD = 21  # of a passage in memory, with its word pieces and their places
ENOUGH = 5  # seeds for a verdict
OTHER_ENCODERS = ("hrkd.mnli_student", "hrkd.reviews_student", "mtdnn.large")  # keys of sections
ENCODERS = {"hrkd.mnli_student": "", "hrkd.reviews_student": "", "hrkd.student_layers": 1, "mnemonic.glove": ""}
HEADING = f"""Estimates from sizes that the preset states, of trainings alone, on one H100. Notebooks share trainings.
Hours: the fewer where so many run at once (HELPERS_PROCESSES) that it is busy, {SPEED[BASE]} windows of BERT-base per
second; the more one by one, {STEP[BASE]} s per step. Both were measured on windows of 38 to 384 tokens. RMR and small
students count as BERT. GB: files that stay, and those that are deleted once nothing needs them (engine.keep)."""


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
        steps = windows = least = most = 0.0
        for training in self.trainings.values():
            number, encoder = count_windows(training), training.preset.encoder
            domains = len(training.data.names) if isinstance(training.data, DomainTexts) else 1
            of_training = number / training.optim.batch_size / domains  # whose batches are of every domain
            windows += number
            steps += of_training
            least += number / SPEED[encoder] / 3600
            most += max(number / SPEED[encoder], of_training * STEP[encoder]) / 3600
        gigabytes = {key: GIGABYTES[training.preset.encoder] for key, training in self.trainings.items()}
        gigabytes |= {key: count_tokens(outputs) * BYTES_OF_TOKEN / 1e9 for key, outputs in self.outputs.items()}
        left = sum(size for key, size in gigabytes.items() if key not in self.spent)
        deleted = sum(gigabytes.values()) - left
        amounts = f"{steps / 1e6:,.2f} M steps, {windows / 1e6:,.1f} M windows"
        hours = " to ".join(dict.fromkeys((f"{least:,.0f}", f"{most:,.0f}")))
        amounts += f", {hours} h, {left:,.0f} GB"
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
    """Print what each notebook costs, what its seeds decide, and which encoders and corpora are not there.

    Returns 1 if a plan failed, else 0.
    """
    total, has_failed = Costs(), False
    print(HEADING)
    for job in jobs:
        costs = Costs()
        schedule = follow(job._replace(preset=plan_preset(job.preset)).plan())
        for each in (costs, total):
            each.add(schedule, job.preset.engine.keep)
        told = str(costs) if costs.trainings else "no trainings"
        outcome = schedule.outcomes.get("")
        failed = f"; {outcome!r}" if isinstance(outcome, Exception) and not schedule.tasks else ""
        has_failed |= bool(failed)
        print(f"{job}: {told}{failed}", flush=True)
    print(f"together, each training counted once: {total}")
    for text in dict.fromkeys(state_seeds(job.preset) for job in jobs):
        print(text)
    declared = [(job.preset, papers.find_paper(job.notebook)[0]) for job in jobs]
    sections = [(name, getattr(preset, name)) for preset, paper in declared if paper for name in paper.examples]
    print(f"memory: {sum_memory([settings for _, settings in sections]):.1f} GB for a process that reads all corpora")
    for text in dict.fromkeys(state_files(settings) for _, settings in sections if settings.folder):
        print(text)
    encoders = [line for preset, paper in declared if paper for line in list_missing_encoders(preset, paper.settings)]
    corpora = [line for name, settings in sections for line in list_missing(settings, name)]
    if missing := dict.fromkeys([*encoders, *corpora]):
        print("missing; a run with a network fetches it, else put it where its line says:", *missing, sep="\n")
    return int(has_failed)


def state_seeds(preset: Preset) -> str:
    """State what the numbers of seeds decide (docs/statistics.md)."""
    decides = "enough for verdicts" if preset.seeds >= ENOUGH else f"no verdict below {ENOUGH}"
    controls = min(preset.control_seeds, preset.seeds)
    return f"seeds: {preset.seeds} ({decides}), {controls} for controls and rows that no claim compares"


def sum_memory(sections: Iterable[DatasetSettings]) -> float:
    """Estimate the gigabytes of all texts and their word pieces."""
    pairs = [(settings.downloads, source) for settings in sections for source in list_read(settings)]
    corpora = {source: find_download(downloads, source)[2] for downloads, source in pairs}
    return sum(sum(corpus.rows.values()) * corpus.words for corpus in corpora.values() if corpus) * BYTES_OF_WORD / 1e9


def list_missing(settings: DatasetSettings, section: str) -> list[str]:
    """List the corpora of a section that are not on this machine: where they come from, and where a copy belongs."""
    lines, copies = {}, {settings.named[name] for name in settings.named if find_local(settings, name)}
    for source in list_read(settings) if settings.source == "hub" else ():
        corpus, _, download = find_download(settings.downloads, source)
        if not download or source in copies or find_copy(settings, source) or is_here(corpus, download):
            continue
        words = corpus.split(":") if download.files else corpus.split(":")[:1]
        name = "/".join(words)
        place = f"FOLDER/{name} with -p {EXAMPLES[section]} FOLDER"
        fetch = f"hf download --repo-type dataset --revision {download.revision} --local-dir FOLDER/{name} {name}"
        if download.files:
            place = f"data/cache/{name}, or {place}"
            fetch = "\n  ".join(f"{file.url} as {file_name}" for file_name, file in download.files.items())
        lines[name] = f"{':'.join(words)} ({download.size}; licence {download.licence}): {place}\n  {fetch}"
    return [*lines.values()]


def list_missing_encoders(preset: Preset, sections: Collection[str]) -> list[str]:
    """List the encoders of a preset, and of some sections of it, that are not on this machine."""
    from huggingface_hub import try_to_load_from_cache  # here, because few plans need it

    parameters: dict[str, list[str]] = {}
    for key in ["encoder", *(key for key in OTHER_ENCODERS if key.partition(".")[0] in sections)]:
        parameters.setdefault(attrgetter(key)(preset), []).append(f"-p {key} FOLDER")
    lines = []
    for encoder, of_encoder in parameters.items():
        name, _, revision = encoder.partition("@")
        is_local = not name or paths.find(encoder).exists()
        if not is_local and not isinstance(try_to_load_from_cache(name, "config.json", revision=revision or None), str):
            fetch = f"hf download {f'--revision {revision} ' * bool(revision)}{name}"
            lines.append(f"{name}: the Hub's cache, or {' '.join(of_encoder)}\n  {fetch}")
    return lines


def is_here(corpus: str, download: Download) -> bool:
    """Return whether a corpus was downloaded before."""
    if download.files:
        return all(paths.CACHE.joinpath(*corpus.split(":"), name).exists() for name in download.files)
    import datasets  # here, because it takes a second to import

    return Path(datasets.config.HF_DATASETS_CACHE, corpus.partition(":")[0].replace("/", "___")).is_dir()
