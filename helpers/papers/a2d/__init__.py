"""A2D, attention-guided answer distillation (Hu et al. 2018): its card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.papers.card import Artefact, Notebook, Paper

if TYPE_CHECKING:
    from helpers.presets.schema import Preset


def _main(preset: Preset) -> dict:
    from helpers.papers.a2d import algorithm

    return algorithm.plans(preset)


def _ablations(preset: Preset) -> dict:
    from helpers.papers.a2d import algorithm

    plans = algorithm.plans(preset, "RMR", tuple(algorithm.ABLATIONS))
    return plans | algorithm.weight_plans(preset, "RMR")


def _attention(preset: Preset) -> dict:
    from helpers.papers.a2d import algorithm

    return algorithm.plans(preset, "RMR")


def _stories(preset: Preset) -> dict:
    from helpers.papers.a2d import algorithm

    return algorithm.plans(algorithm.narrative(preset), "RMR")


def _without_stories(preset: Preset) -> str:
    return "" if preset.data.narrative else "data.narrative names no free answers"


FASTER = "times faster than its ensemble"
SETTINGS = ("members", "temperature", "answer_weight", "attention_weight")
PARAMETERS = (
    *("data.folder", "data.train_size", "data.test_size", "encoder", "mnemonic.glove", "seeds"),
    *(f"a2d.{name}" for name in SETTINGS),
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
        Artefact("figure4_addsent", "A2D, Figure 4 on adversarial questions (AddSent)", "bars", average=False),
        Artefact("weights", "A2D, section 4.2: temperature and weights", average=False),
        Artefact("figure3", "A2D, Figure 3: a question before and after distillation", "case", "probability"),
        Artefact("table3", "A2D, Table 3: free answers about stories", unit="score", average=False),
    ),
    notebooks=(
        Notebook("06_a2d_main", PARAMETERS, _main),
        Notebook("07_a2d_ablation", PARAMETERS, _ablations),
        Notebook("08_a2d_attention", PARAMETERS, _attention),
        Notebook("09_a2d_narrativeqa", PARAMETERS, _stories, _without_stories),
    ),
    settings=("a2d", "mnemonic"),
)
