"""MT-DNN with knowledge distillation: ensembles of multi-task models teach one model (Liu et al. 2019)."""

from helpers.papers import Exhibit, Notebook, Paper

NO_TASKS = "the preset names no tasks"

PAPER = Paper(
    key="mtdnn_kd",
    title="Liu et al. 2019: MT-DNN with knowledge distillation",
    reference="https://arxiv.org/abs/1904.09482",
    method="MT-DNN_KD",
    caveat="Teachers nearly memorised their texts.",
    remark="In the miniature world teachers are nearly sure of the texts that they teach with (notebook 14)",
    claim="Ensembles teach a multi-task model more than labels alone",
    headlines=("table2",),
    exhibits=(
        Exhibit("table1", "MT-DNN_KD, Table 1: the tasks", unit="examples", average=False),
        Exhibit("table2", "MT-DNN_KD, Table 2: GLUE's score", unit="score"),
        Exhibit("table3", "MT-DNN_KD, Table 3: the students and the ensembles", unit="score", average=False),
        Exhibit("tuning", "MT-DNN_KD, ours: before tuning, gently tuned and tuned", unit="score"),
    ),
    notebooks=(
        Notebook("13_mtdnn_kd_main", ("mtdnn_kd.tables:table2",), lambda p: "" if p.tasks.tasks else NO_TASKS),
        Notebook(
            "14_mtdnn_kd_ensembles",
            ("mtdnn_kd.tables:table3", "mtdnn_kd.tables:tuning"),
            lambda p: "" if p.tasks.tasks else NO_TASKS,
        ),
    ),
    settings=("mtdnn_kd", "tasks"),
    examples=("tasks",),
)
