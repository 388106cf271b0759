"""The configs of MtDNN's trainings: questions, other tasks beside them, and what comes before both."""

from helpers.presets.schema import Preset
from helpers.tasks import kinds
from helpers.tasks.multitask import MultiTaskTraining, settings_of, steps_of, turns_of


def questions(preset: Preset) -> str:
    """The task of questions about passages: the preset's first domain."""
    return next(iter(preset.data.domains))


def general(preset: Preset) -> MultiTaskTraining | None:
    """Ours: a reader of the questions in ``mtdnn.general``, one for all seeds, as whose encoder that of all readers
    begins; None where no file is named."""
    if not preset.mtdnn.general:
        return None
    asked = preset.of_general(preset.mtdnn.general, preset.mtdnn.general_size).changed("data", unanswerable=False)
    return reader(asked, 0, "general reader", [], 1.0)


def reader(
    preset: Preset, seed: int, label: str, beside: list[str], weight: float, first: MultiTaskTraining | None = None
) -> MultiTaskTraining:
    """A reader whose batches are of questions with probability ``weight``, and else of any of the tasks ``beside``; of
    questions alone where there are none (section 4.4). It is selected by them, and as long as their epochs take. Its
    encoder begins as that of the reader ``first``, where there is one."""
    known, asked = preset.mtdnn, questions(preset)
    tasks = [asked, *beside]
    weights = {asked: weight, **{task: (1 - weight) / len(beside) for task in beside}} if beside else {}
    settings = settings_of(preset, {task: ["train"] for task in tasks}, {})
    sequences = {task: kinds.sequences_of(preset, task, "train") for task in tasks}
    turns = turns_of(sequences, settings["training"]["batch_size"], seed, weights, asked)
    return MultiTaskTraining(
        preset=preset,
        label=f"{label}, weight {weight:g}, seed {seed}" if beside else f"{label}, seed {seed}",
        tasks=tasks,
        selected_by=[asked],
        dropout=known.dropout,
        head_dropout=dict.fromkeys(tasks, known.dropout),
        weights=weights,
        epoch_of=asked if beside else "",
        start=first.key if first else "",
        fresh=first is not None,
        seed=seed,
        steps=steps_of(turns, preset.training.epochs),
        settings=settings,
    )
