"""MtDNN: a reader of SQuAD 2.0 that trains on other tasks as well (He 2019, "Multi-Task Deep Neural Networks for
Generalized Text Understanding")."""

from helpers.papers import Exhibit, Notebook, Paper
from helpers.presets.schema import Preset

NO_OTHER_TASKS = "the preset names no tasks besides questions; give tasks_dir"


def find_question_task(preset: Preset) -> str:
    """Return the task of questions about passages: the preset's first domain."""
    return next(iter(preset.data.domains))


PAPER = Paper(
    key="mtdnn",
    title="He 2019: multi-task deep neural networks for generalized text understanding (MtDNN)",
    method="MtDNN",
    claim="Other tasks improve a reader of SQuAD 2.0",
    caveat="Undecided if corrected for looks. Multiple choice alone helps (post hoc). Counting facts is a shortcut.",
    headlines=("table2",),
    exhibits=(
        Exhibit("table1", "MtDNN, Table 1: how often a batch is of questions", average=False),
        Exhibit("table2", "MtDNN, Table 2: which tasks help", average=False),
        Exhibit("table3", "MtDNN, Table 3: a larger encoder", average=False),
        Exhibit("figure3", "MtDNN, Figure 3: score by how often a batch is of questions", "curve", average=False),
        Exhibit("figure4", "MtDNN, Figure 4: score by the tasks beside the questions", "bars", average=False),
        Exhibit("thresholds", "MtDNN: when to give no answer", "curve", average=False),
        Exhibit("answers", "MtDNN, section 5: what changes in the answers", "table", "% of the questions", False),
    ),
    notebooks=(
        Notebook(
            "15_mtdnn_main",
            ("mtdnn.tables:table1", "mtdnn.tables:table2", "mtdnn.tables:table3"),
            left_out=lambda p: "" if p.tasks.tasks else NO_OTHER_TASKS,
            keeps=lambda p: [find_question_task(p), *p.tasks.tasks],
        ),
        Notebook(
            "16_mtdnn_answers",
            ("mtdnn.tables:answers", "mtdnn.tables:thresholds"),
            left_out=lambda p: "" if p.tasks.tasks else NO_OTHER_TASKS,
        ),
    ),
    settings=("mtdnn", "tasks"),
    examples=("data", "tasks"),
)
