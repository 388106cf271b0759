"""MtDNN for SQuAD 2.0 (He 2019, "Multi-Task Deep Neural Networks for Generalized Text Understanding"): its card."""

from functools import partial
from importlib import import_module

from helpers.papers.card import Artefact, Notebook, Paper

_algorithm = partial(import_module, f"{__name__}.algorithm")  # where it is needed, as torch takes seconds

PARAMETERS = (
    *("data.folder", "data.train_size", "data.test_size", "tasks.folder", "tasks.train_size", "encoder", "seeds"),
    *("mtdnn.weight", "mtdnn.dropout", "mtdnn.large"),
)
QUESTIONS = "% of the questions"


def _left_out(preset) -> str:
    return "" if preset.tasks.tasks else "the preset names no tasks beside the questions"


CARD = Paper(
    key="mtdnn",
    title="He 2019: MtDNN for SQuAD 2.0",
    artefacts=(
        Artefact("table1", "MtDNN, Table 1: how often a batch is of questions", average=False),
        Artefact("figure3", "MtDNN, Figure 3: score by how often a batch is of questions", "curve", average=False),
        Artefact("table2", "MtDNN, Table 2: which tasks help", average=False),
        Artefact("figure4", "MtDNN, Figure 4: score by the tasks beside the questions", "bars", average=False),
        Artefact("table3", "MtDNN, Table 3: a larger encoder", average=False),
        Artefact("thresholds", "MtDNN: when to give no answer", "curve", average=False, ours=True),
        Artefact("answers", "MtDNN, section 5: what changes in the answers", unit=QUESTIONS, average=False, ours=True),
    ),
    notebooks=(
        Notebook("15_mtdnn_main", PARAMETERS, lambda preset: _algorithm().plans(preset), _left_out),
        Notebook("16_mtdnn_answers", PARAMETERS, lambda preset: _algorithm().plans(preset), _left_out),
    ),
    growth={"table2": "data"},
    settings=("mtdnn", "tasks"),
)
