"""MT-DNN with distillation (Liu et al. 2019): its card."""

from functools import partial
from importlib import import_module

from helpers.papers.card import Artefact, Flag, Notebook, OwnDomains, Paper

_algorithm = partial(import_module, f"{__name__}.algorithm")  # where it is needed, as torch takes seconds

PARAMETERS = (
    *("tasks.folder", "tasks.train_size", "encoder", "seeds", "mtdnn_kd.models", "mtdnn_kd.members"),
    *("mtdnn_kd.soft", "mtdnn_kd.san", "mtdnn_kd.tuning_epochs"),
)


def _left_out(preset) -> str:
    return "" if preset.tasks.tasks else "the preset names no tasks"


CARD = Paper(
    key="mtdnn_kd",
    title="Liu et al. 2019: MT-DNN with knowledge distillation",
    reference="https://arxiv.org/abs/1904.09482",
    artefacts=(
        Artefact("table1", "MT-DNN, Table 1: the tasks", unit="examples", average=False),
        Artefact("table2", "MT-DNN, Table 2: GLUE's score", unit="score"),
        Artefact("table3", "MT-DNN, Table 3: the students and the ensembles", unit="score", average=False),
        Artefact(
            "own",
            "Score of each task's model: trained alone, with the other tasks, and by teachers",
            unit="score",
            ours=True,
        ),
    ),
    notebooks=(
        Notebook("13_mtdnn_kd_main", PARAMETERS, lambda preset: _algorithm().plans(preset), _left_out),
        Notebook("14_mtdnn_kd_ensembles", PARAMETERS, lambda preset: _algorithm().plans(preset), _left_out),
    ),
    growth={"table2": "tasks"},
    settings=("mtdnn_kd", "tasks"),
    unread=("data", "windows", "answers"),
    own_domains=OwnDomains(
        command="multitask",
        help="Train one model of your own tasks together, save a model a task, and compare it with one trained alone.",
        name="MT-DNN",
        product="model",
        examples="examples",
        notebook="13_mtdnn_kd_main",
        section="tasks",
        work=partial(import_module, f"{__name__}.own"),
        settings={
            "own_draws": False,
            **{"mtdnn_kd.taught": [], "mtdnn_kd.chosen_by": ["*"], "mtdnn_kd.san": False},
            **{"tasks.unlabelled_size": 0, "data.adversarial": None},
        },
        flags=(
            Flag("encoder", "encoder", "folder or Hub name of the encoder that models begin as", encoder=True),
            Flag(
                *("teachers", "mtdnn_kd.taught", "ensembles teach all tasks of classes or scores"),
                switch=True,
                value=["*"],
            ),
        ),
        option="task",
        questions="data",
        also=("data", "windows", "answers"),
    ),
)
