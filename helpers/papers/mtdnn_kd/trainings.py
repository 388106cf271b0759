"""The configs of MT-DNN's trainings: on all tasks (Algorithm 1), with teachers or without, and on one alone."""

from helpers.presets.schema import Preset
from helpers.tasks import kinds
from helpers.tasks.multitask import MultiTaskTraining, parts_of, settings_of, steps_of, turns_of


def mt_dnn(
    preset: Preset,
    seed: int,
    number: int,
    label: str = "MT-DNN",
    teachers: dict[str, list[str]] | None = None,
    *,
    tasks: list[str] | None = None,
    **switches: object,
) -> MultiTaskTraining:
    """One of the models on all tasks of a seed (those of the section [tasks], or ``tasks``): the ``number`` decides its
    initialisation and dropout (section 4.1). The student is trained as the first of them is, but for its ``teachers``
    (keys, by task)."""
    known = preset.mtdnn_kd
    switches = {"soft": known.soft, "teachers": teachers, **switches} if teachers else {}
    return _training(
        preset,
        tasks or list(preset.tasks.tasks),
        preset.training.epochs,
        {},
        label=f"{label}, seed {seed}" + f", model {number + 1}" * (not teachers),
        seed=seed * known.models + number,
        dropout=known.dropouts[number % len(known.dropouts)],
        **switches,
    )


def single(preset: Preset, seed: int, label: str, task: str) -> MultiTaskTraining:
    """The pretrained encoder trained on one task alone, for as many epochs as MT-DNN sees its texts, those of the
    fine-tuning among them."""
    known = preset.mtdnn_kd
    seed, name, dropout = seed * known.models, f"{label}, {task}, seed {seed}", known.dropouts[0]
    epochs = preset.training.epochs + known.tuning_epochs
    return _training(preset, [task], epochs, {}, label=name, seed=seed, dropout=dropout)


def tuned(
    preset: Preset, seed: int, label: str, task: str, model: MultiTaskTraining, *, fresh: bool = False
) -> MultiTaskTraining:
    """A ``model`` on all tasks fine-tuned on one by itself (section 2.1), with the same dropout; with a ``fresh`` head
    where it is to be a teacher (section 3)."""
    known = preset.mtdnn_kd
    return _training(
        preset,
        [task],
        known.tuning_epochs,
        {"learning_rate": known.tuning_learning_rate} if known.tuning_learning_rate else {},
        label=f"{label}, {task}, seed {seed}",
        seed=model.seed,
        dropout=model.dropout,
        start=model.key,
        fresh=fresh,
    )


def _training(
    preset: Preset,
    tasks: list[str],
    epochs: float,
    changes: dict,
    *,
    seed: int,
    teachers: dict[str, list[str]] | None = None,
    unlabelled: bool = False,
    **config: object,
) -> MultiTaskTraining:
    """A training of so many epochs on some tasks; ``changes`` are made to the section [training]."""
    known = preset.mtdnn_kd
    parts = {task: parts_of(preset, task, unlabelled and task in (teachers or {})) for task in tasks}
    settings = settings_of(preset, parts, changes)
    sequences = {task: kinds.sequences_over(preset, task, own) for task, own in parts.items()}
    return MultiTaskTraining(
        preset=preset,
        tasks=tasks,
        selected_by=tasks,
        head_dropout={task: known.head_dropouts.get(task, known.head_dropout) for task in tasks},
        san=known.san,
        seed=seed,
        steps=steps_of(turns_of(sequences, settings["training"]["batch_size"], seed), epochs),
        teachers=teachers or {},
        unlabelled=unlabelled,
        settings=settings,
        **config,
    )
