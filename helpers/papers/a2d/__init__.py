"""A2D, attention-guided answer distillation (Hu et al. 2018): its card."""

from functools import partial
from importlib import import_module

from helpers.papers.card import Artefact, Notebook, Paper

_algorithm = partial(import_module, f"{__name__}.algorithm")  # where it is needed, as torch takes seconds

OURS = {"average": False, "ours": True}
FASTER = "times faster than its ensemble"
PARAMETERS = (
    *("data.folder", "data.train_size", "data.test_size", "encoder", "mnemonic.glove", "seeds", "a2d.members"),
    *("a2d.temperature", "a2d.answer_weight", "a2d.attention_weight"),
)

CARD = Paper(
    key="a2d",
    title="Hu et al. 2018: attention-guided answer distillation",
    reference="https://doi.org/10.18653/v1/D18-1232",
    artefacts=(
        Artefact("table1", "A2D, Table 1: a reader, an ensemble, and the reader distilled from it", average=False),
        Artefact("table2", "A2D, Table 2: adversarial questions", average=False),
        Artefact("table4", "A2D, Table 4: how much faster the student is", unit=FASTER, average=False),
        Artefact("table5", "A2D, Table 5: what each part is worth", average=False),
        Artefact("figure4", "A2D, Figure 4: F1 by type of question", "bars", average=False),
        Artefact("figure4_addsent", "A2D, Figure 4 on adversarial questions (AddSent)", "bars", **OURS),
        Artefact("weights", "A2D, section 4.2: temperature and weights", **OURS),
        Artefact("steps", "A2D, ours: longer training, one teacher, smoothed labels", "curve", **OURS),
        Artefact("figure3", "A2D, Figure 3: a question before and after distillation", "case", "probability"),
        Artefact("table3", "A2D, Table 3: free answers about stories", unit="score", average=False),
    ),
    notebooks=(
        Notebook("06_a2d_main", PARAMETERS, lambda preset: _algorithm().plans(preset)),
        Notebook("07_a2d_ablation", PARAMETERS, lambda preset: _algorithm().all_plans(preset, "RMR")),
        Notebook("08_a2d_attention", PARAMETERS, lambda preset: _algorithm().plans(preset, "RMR")),
        Notebook(
            "09_a2d_narrativeqa",
            PARAMETERS,
            lambda preset: _algorithm().plans(_algorithm().narrative(preset), "RMR"),
            lambda preset: "" if preset.data.narrative else "data.narrative names no free answers",
        ),
    ),
    growth={"table1": "data"},
    settings=("a2d", "mnemonic"),
)
