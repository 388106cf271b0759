"""What the papers' tables share: rows of trained models, the answers of readers, scores, costs, notes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd

from helpers import metrics, paths, records
from helpers.data.load import domains_of_set, load, load_domains, question_set
from helpers.errors import UserError
from helpers.extractive_qa import Questions, Reader, answer_questions, average_gold_probability, likelihood
from helpers.paths import public_name
from helpers.presets.schema import GENERAL, DataSettings, Preset, TextsSettings
from helpers.records import Cell, Claim
from helpers.task import Plan, Task
from helpers.training import Outputs, Training, trainings_of

Members = tuple[Training, ...]  # one model, or those of an ensemble
AnswersByCell = dict[Cell, tuple[str, list[list[str]]]]  # a set's name, and the answers of each reader


@dataclass
class Models:
    """The trained models of a table by row, seed and domain.

    ``needs`` has the trainings that a row needs for a seed besides the history of its models, such as rejected ones.
    ``notes`` state what came before all of them.
    """

    preset: Preset
    notes: list[str] = field(default_factory=list)
    by_row: dict[str, dict[int, dict[str, Members]]] = field(default_factory=dict)
    needs: dict[tuple[str, int], list[Training]] = field(default_factory=dict)

    def add(self, row: str, seed: int, models: dict[str, Training | Members], needs: Iterable[Training] = ()) -> None:
        """Add one seed of a row: a model, or an ensemble, for each domain."""
        members = {name: model if isinstance(model, tuple) else (model,) for name, model in models.items()}
        self.by_row.setdefault(row, {})[seed] = members
        self.needs[row, seed] = list(needs)

    def __iter__(self) -> Iterator[tuple[str, str, int, Members]]:
        """Iterate over row, domain, seed and models."""
        for row, seeds in self.by_row.items():
            for seed, models in seeds.items():
                yield from ((row, domain, seed, members) for domain, members in models.items())

    def first(self, row: str, seed: int | None = None) -> Training:
        """Return a row's first model, of the first seed or of another: the only one where its domains share one."""
        return next(iter(self.by_row[row][min(self.by_row[row]) if seed is None else seed].values()))[0]

    def trainings(self, row: str, seed: int) -> list[Training]:
        """List the trainings that one seed of a row needs if it is trained by itself."""
        return trainings_of(*(model for m in self.by_row[row][seed].values() for model in m), *self.needs[row, seed])

    @property
    def seconds(self) -> float:
        """Seconds of all trainings, each counted once, whenever they ran."""
        return add_up_seconds(model for row, seed in self.needs for model in self.trainings(row, seed))


def general_reader(preset: Preset, seed: int = 0) -> Training:
    """Return the training of a reader of the preset's ``warmup_data``, one for all seeds.

    With ``warmup_per_seed`` each seed has its own, of its own draw. The questions are one more domain of the preset, so
    that none is a test question of the others. Raises UserError.
    """
    domains = preset.data.domains
    if GENERAL in domains:
        raise UserError(f"a domain is called {GENERAL!r}, as the questions to learn first are; give it another name")
    file = paths.find(preset.warmup_data)
    place = str(file.resolve()) if preset.data.source == "files" and file.exists() else preset.warmup_data
    unanswerable = [name for name in domains if preset.data.may_be_unanswerable(name)]
    if isinstance(preset.data.unanswerable, list) and preset.data.may_be_unanswerable(GENERAL):
        unanswerable.append(GENERAL)
    changes = {"domains": {**domains, GENERAL: place}, "unanswerable": unanswerable, "narrative": ""}
    alone = preset.changed("data", **changes, train_size=preset.warmup_size, train_share=1.0)
    seed = seed if preset.warmup_per_seed else 0
    return Training(
        preset=alone.for_seed(seed),
        label=f"general reader, seed {seed}" if preset.warmup_per_seed else "general reader",
        seed=seed,
        model=Reader(),
        data=Questions((GENERAL,), (GENERAL,)),
        optim=preset.training.model_copy(update={"epochs": preset.warmup_epochs or preset.training.epochs}),
        loss=likelihood,
    )


def start_from_general(preset: Preset, seed: int = 0) -> Plan:
    """Return the preset whose encoder is that of a seed's general reader; the preset itself where it has none.

    So every reader starts from one that has read before, as BERT has (not in the papers).
    """
    if not preset.warmup_data:
        return preset
    yield [reader := general_reader(preset, seed)]
    return preset.model_copy(update={"encoder": str(reader.saved()), "random_layers": 0})


def state_general(preset: Preset) -> list[str]:
    """State what the general readers learned; nothing where the preset has none."""
    if not preset.warmup_data:
        return []
    first, *others = [general_reader(preset, seed) for seed in (preset.seed_numbers if preset.warmup_per_seed else [0])]
    general, name = load(first.preset.data, GENERAL), public_name(preset.warmup_data)
    scores = " to ".join(dict.fromkeys(f"{end([r.best for r in (first, *others)]):.1f}" for end in (min, max)))
    anew = ", per seed others" if preset.warmup_per_seed else ""
    learned = f"every encoder first learned {len(general.train):,} questions of {name}{anew}"
    return [f"{learned}: {scores} F1 on validation questions", *general.overlaps]


def add_up_seconds(tasks: Iterable[Task]) -> float:
    """Add up the seconds of all distinct trainings among tasks and what they need, whenever they ran."""
    return sum(training.result()["seconds"] for training in trainings_of(*tasks))


def tabulate_costs(models: Models) -> pd.DataFrame:
    """Tabulate what each row costs with its first seed.

    Columns are the optimiser steps of the longest tested model from the pretrained encoder on, stage by stage and
    together, and the trainings, steps and minutes of all models that the row needs, with teachers and rejected ones.
    """
    table = {}
    for row, seeds in models.by_row.items():
        seed, first = next(iter(seeds.items()))
        histories = [_stages(model) for members in first.values() for model in members]
        longest, needed = max(histories, key=sum), [training.result() for training in models.trainings(row, seed)]
        table[row] = {
            "stages of the longest model": " + ".join(f"{steps:,}" for steps in longest),
            "steps of the longest": sum(longest),
            "trainings": len(needed),
            "steps in all": sum(result["steps"] for result in needed),
            "minutes": round(sum(result["seconds"] for result in needed) / 60, 1),
        }
    return pd.DataFrame.from_dict(table, orient="index")


def _stages(model: Training) -> list[int]:
    return [*(_stages(model.start) if model.start else []), model.result()["steps"]]


def answer_sets(preset: Preset, cells: dict[Cell, tuple[Members, str]], *, together: bool = False) -> Plan:
    """Have readers answer sets of questions, given by cell. Returns `AnswersByCell`.

    Several readers answer from the mean of their distributions, and with ``together`` a single one too, otherwise from
    its logits. Where questions may have no answer, the threshold is chosen on validation questions.
    """
    groups: dict[tuple, list[Cell]] = {}  # the same readers answer all their sets at once
    for cell, (readers, _) in cells.items():
        groups.setdefault((cell[2], *(reader.key for reader in readers)), []).append(cell)
    tasks = {}
    for (seed, *_), group in groups.items():
        data = preset.for_seed(seed).data
        readers, _ = cells[group[0]]
        sets = [cells[cell][1] for cell in group]
        domains = dict.fromkeys(domain for name in sets for domain in domains_of_set(data, name))
        validation = [f"valid/{domain}" for domain in domains if data.may_be_unanswerable(domain)]
        options = {"together": True} if together or len(readers) > 1 else {}
        options |= {"thresholds": True} if validation else {}
        outputs = Outputs(
            preset=preset.for_seed(seed),
            label=f"answers of {', '.join(reader.label for reader in readers)}",
            models=dict.fromkeys([*sets, *validation], readers),
            compute=partial(answer_questions, **options) if options else answer_questions,
        )
        tasks |= dict.fromkeys(group, outputs)
    yield tasks.values()
    return {cell: (name, [tasks[cell].result()["answers"][name]]) for cell, (_, name) in cells.items()}


def score_cells(preset: Preset, answers: AnswersByCell) -> dict[Cell, metrics.Scores]:
    """Score each question of each cell, averaged over its readers; see `metrics.adversarial_scores`."""
    cells = {}
    for cell, (name, by_reader) in answers.items():
        examples = question_set(preset.for_seed(cell[2]).data, name)
        scores = [metrics.adversarial_scores(examples, metrics.score(examples, of_reader)) for of_reader in by_reader]
        em, f1 = np.mean([score.em for score in scores], axis=0), np.mean([score.f1 for score in scores], axis=0)
        cells[cell] = metrics.Scores(em, f1)
    return cells


def average_f1(preset: Preset, answers: AnswersByCell) -> dict[Cell, float]:
    """Average F1 over the questions of each cell."""
    return {cell: float(scores.f1.mean()) for cell, scores in score_cells(preset, answers).items()}


def passages_of(preset: Preset, answers: AnswersByCell) -> dict[str, list[str]]:
    """Return the passage of each question that `score_cells` scores, by column, with the first seed."""
    passages: dict[str, list[str]] = {}
    for (_, column, seed), (name, _) in answers.items():
        if column not in passages:
            passages[column] = list_passages(preset.for_seed(seed).data, name)
    return passages


def list_passages(data: DataSettings, name: str) -> list[str]:
    """Return the passage of each question of a set; of variants, that of the original."""
    examples = question_set(data, name)
    passages = {example.group: example.context for example in reversed(examples)}
    passages |= {example.id: example.context for example in examples if example.id in passages}
    return [passages[group] for group in dict.fromkeys(example.group for example in examples)]


def f1_and_em(cells: dict[Cell, metrics.Scores]) -> dict:
    """Make parts of a record: F1 of every cell, and EM as a second metric."""
    f1 = records.make_scores({cell: scores.f1 for cell, scores in cells.items()}, "F1")
    return {"scores": f1 + records.make_scores({cell: scores.em for cell, scores in cells.items()}, "EM")}


def answer_table(models: Models, columns: Callable[[str], dict[str, str]] | None = None) -> Plan:
    """Make parts of a record: F1 of every model on its domain's test questions, or on the sets of ``columns``."""
    cells = {
        (row, column, seed): (members, name)
        for row, domain, seed, members in models
        for column, name in (columns(domain) if columns else {domain: f"test/{domain}"}).items()
    }
    answers = yield from answer_sets(models.preset, cells)
    f1 = {cell: scores.f1 for cell, scores in score_cells(models.preset, answers).items()}
    questions = f1, passages_of(models.preset, answers)
    return {"scores": records.make_scores(f1), "questions": questions, "training_seconds": models.seconds}


def tabulate_gold_probabilities(models: Models, row: str) -> Plan:
    """Tabulate the probability that a row's readers give to right answers, by domain; means over seeds."""
    tasks = {}
    for seed, readers in models.by_row[row].items():
        for domain, (reader,) in readers.items():
            tasks[seed, domain] = Outputs(
                preset=reader.preset,
                label=f"gold probability of {reader.label}",
                models={f"train/{domain}": (reader,), f"valid/{domain}": (reader,)},
                compute=average_gold_probability,
            )
    yield tasks.values()
    rows = [
        {"domain": domain, **task.result(), "validation F1": models.by_row[row][seed][domain][0].best}
        for (seed, domain), task in tasks.items()
    ]
    names = {"train": "training questions", "valid": "validation questions"}
    return pd.DataFrame(rows).drop(columns="files").rename(columns=names).groupby("domain", sort=False).mean()


def state_better(above: str, below: str, on: str = "", names: Mapping[str, str] = {}, **parts) -> Claim:
    """State that one row beats another. ``names`` are what the text calls rows that do not go by their own name."""
    text = f"{names.get(above, above)} beats {names.get(below, below)}{on}"
    return Claim(text=text, above=above, below=below, **parts)


def state_training_sizes(settings: DataSettings | TextsSettings, examples: str = "questions") -> str:
    """State the number of training examples per domain."""
    sizes = ", ".join(f"{name} {len(domain.train):,}" for name, domain in load_domains(settings).items())
    return f"training {examples}: {sizes}"
