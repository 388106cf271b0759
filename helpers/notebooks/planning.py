"""What a preset whose corpora are downloaded costs, before they are there: its trainings on stand-ins, followed."""

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
from helpers.errors import UserError
from helpers.extractive_qa import windows_of
from helpers.presets.schema import EXAMPLES, DatasetSettings, DataSettings, Preset
from helpers.task import RESULT, Plan, Task
from helpers.training import Outputs, Training

BASE, LARGE = "data/mini", "data/mini/large"  # stand-ins for BERT-base and BERT-large
# Windows that one H100 trains per second in batches of 128 (docs/performance.md); BERT-large by its multiplications.
SPEED = {BASE: 1346, LARGE: 1346 / 3.5}
GIGABYTES = {BASE: 0.44, LARGE: 1.34}  # of a saved model
BYTES_OF_TOKEN = 4  # start and end logits of a teacher in half precision


def plan_preset(preset: Preset) -> Preset:
    """Return a preset with stand-ins a hundredth as large for its corpora, and small encoders."""
    changes: dict = {name: plan_section(getattr(preset, name)) for name in EXAMPLES}
    changes["encoder"] = LARGE if "-large" in preset.encoder else BASE
    changes["hrkd"] = preset.hrkd.model_copy(update={"mnli_student": "", "reviews_student": "", "student_layers": 1})
    changes["mtdnn"] = preset.mtdnn.model_copy(update={"large": preset.mtdnn.large and LARGE})
    changes["mnemonic"] = preset.mnemonic.model_copy(update={"glove": ""})
    return preset.model_copy(update=changes)


def plan_section(settings: DatasetSettings) -> DatasetSettings:
    if settings.source != "hub":
        return settings
    sizes = {name: getattr(settings, name) for name in ("train_size", "valid_size", "test_size")}
    sizes = {name: size and max(1, size // SCALE) for name, size in sizes.items()}
    return settings.model_copy(update={"source": "planned", "folder": "", **sizes})


@dataclass
class Costs:
    """The trainings of some notebooks, and the outputs of teachers, each counted once."""

    trainings: dict[str, Training] = field(default_factory=dict)
    outputs: dict[str, Outputs] = field(default_factory=dict)

    def add(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if isinstance(task, Training):
                self.trainings[task.key] = task
            elif isinstance(task, Outputs) and all(name.startswith("train/") for name in task.models):
                self.outputs[task.key] = task

    def __str__(self) -> str:
        windows = {key: count_windows(training) for key, training in self.trainings.items()}
        steps = sum(
            number / training.optim.batch_size
            for number, training in zip(windows.values(), self.trainings.values(), strict=True)
        )
        hours = sum(windows[key] / SPEED[t.preset.encoder] for key, t in self.trainings.items()) / 3600
        disk = sum(GIGABYTES[training.preset.encoder] for training in self.trainings.values())
        disk += sum(map(count_tokens, self.outputs.values())) * BYTES_OF_TOKEN / 1e9
        return (
            f"{len(self.trainings):,} trainings, {steps / 1e6:,.2f} M steps, {sum(windows.values()) / 1e6:,.1f} M windows, "
            f"{hours:,.0f} h, {disk:,.0f} GB"
        )


def count_windows(training: Training) -> float:
    """Estimate the windows, or texts, that a training reads, from the stand-ins of its corpora."""
    data, preset, optim = training.data, training.preset, training.optim
    if isinstance(data, Tasks):
        sizes = {
            task: SCALE * sum(len(task_sequences(preset, task, split)) for split in data.splits.get(task, ("train",)))
            for task in data.names
        }
        first = data.names[0]
        if data.probs:
            return optim.epochs * sizes[first] * sum(data.probs.values()) / data.probs[first]
        return optim.epochs * sum(sizes.values())
    scaled = optim.model_copy(update={"epochs": optim.epochs * SCALE})
    if isinstance(data, DomainTexts):
        even = replace(data, order="mixed") if data.order == "turns" else data
        return even.steps(preset, scaled) * optim.batch_size * len(data.names)
    return data.steps(preset, scaled) * optim.batch_size


def count_tokens(outputs: Outputs) -> int:
    """Estimate the tokens for which a teacher's outputs are stored."""
    windows = (windows_of(outputs.preset, [name.removeprefix("train/")], "train") for name in outputs.models)
    return SCALE * sum(int(of_domain.lengths_W.sum()) for of_domain in windows)


def follow(plan: Plan) -> tuple[list[Task], object]:
    """Return all tasks of a plan as if each were done and every later reader were better, and the plan's outcome.

    So IMM has all its rounds. Results have no answers, so a plan ends where it tabulates them.
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
            os.environ.pop("HELPERS_RESULTS")
            if before is not None:
                os.environ["HELPERS_RESULTS"] = before
    return [*schedule.tasks.values()], schedule.outcomes.get("")


def write_result(task: Task, number: int) -> None:
    scores = dict.fromkeys(task.data.names, number) if isinstance(task, Training) else {}
    result = {"best": number, "validation": [[1, number, {"scores": scores}]], "steps": 1, "seconds": 0.0}
    task.folder.mkdir(parents=True, exist_ok=True)
    (task.folder / RESULT).write_text(json.dumps({**result, "parameters": 1, "files": {}}))


def list_costs(jobs: Iterable) -> int:
    """Print what each notebook costs, what is missing of the corpora, and what the seeds decide."""
    total, jobs = Costs(), list(jobs)
    print(f"estimates, from sizes that the preset states; hours on one H100 at {SPEED[BASE]:,} windows of BERT-base")
    print("per second, trainings alone; RMR and students are counted as their teachers' encoder")
    for job in jobs:
        costs = Costs()
        tasks, outcome = follow(job._replace(preset=plan_preset(job.preset)).plan())
        costs.add(tasks)
        total.add(tasks)
        failed = f"; {outcome}" if isinstance(outcome, UserError) and not tasks else ""
        print(
            f"{job}: {costs}, {state_seeds(job.preset)}{failed}" if costs.trainings else f"{job}: no trainings{failed}"
        )
    print(f"together, each counted once: {total}")
    sections = [
        getattr(job.preset, name)
        for job in jobs
        if (paper := papers.find_paper(job.notebook)[0])
        for name in paper.examples
    ]
    print(f"memory: {sum_memory(sections):.1f} GB for each process that reads all corpora")
    for line in dict.fromkeys(line for settings in sections for line in list_missing(settings)):
        print(line)
    return 0


def state_seeds(preset: Preset) -> str:
    """State what the numbers of seeds decide (docs/statistics.md)."""
    decides = "verdicts" if preset.seeds >= 5 else "no verdict, as fewer than five seeds decide nothing"
    controls = min(preset.control_seeds, preset.seeds)
    return f"{preset.seeds} seeds ({decides}), {controls} of rows that no claim compares"


def sum_memory(sections: Iterable[DatasetSettings]) -> float:
    """Estimate the gigabytes of texts: six bytes per word of a passage, and twelve of each word piece's place."""
    corpora = {
        source: find_download(settings.downloads, source)[2]
        for settings in sections
        for source in list_sources(settings)
    }
    return sum(sum(c.rows.values()) * max(c.words, 30) * 21 for c in corpora.values() if c) / 1e9


def list_sources(settings: DatasetSettings) -> list[str]:
    """List what a section reads: its domains or tasks, adversarial questions and stories."""
    sources = [*settings.named.values()]
    if isinstance(settings, DataSettings):
        sources += [*(settings.adversarial.places.values() if settings.adversarial else ()), settings.narrative]
    return [source for source in sources if source]


def list_missing(settings: DatasetSettings) -> list[str]:
    """List the corpora of a section that are not on this machine: where they come from, and where a copy belongs."""
    lines = []
    own = {settings.named[name] for name in settings.named if find_own(settings, name)}
    for source in list_sources(settings):
        corpus, _, download = find_download(settings.downloads, source)
        if (
            settings.source != "hub"
            or not download
            or source in own
            or find_copy(settings, source)
            or is_here(corpus, download)
        ):
            continue
        words = corpus.split(":") if download.files else corpus.split(":")[:1]
        urls = ", ".join(file.url for file in download.files.values()) or f"https://huggingface.co/datasets/{words[0]}"
        place = f"{paths.CACHE.relative_to(paths.ROOT)}/{'/'.join(words)}" if download.files else "the Hub's cache"
        facts = "; ".join(filter(None, (download.size, download.licence)))
        lines.append(f"missing: {corpus} ({facts}): {urls}; goes to {place}, or give a folder with {'/'.join(words)}")
    return lines


def is_here(corpus: str, download) -> bool:
    """Return whether a corpus was downloaded before."""
    if download.files:
        return all(paths.CACHE.joinpath(*corpus.split(":"), name).exists() for name in download.files)
    import datasets  # here, because it takes a second to import

    return Path(datasets.config.HF_DATASETS_CACHE, corpus.partition(":")[0].replace("/", "___")).is_dir()
