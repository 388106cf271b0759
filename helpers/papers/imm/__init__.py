"""IMM, iterative multi-source mutual knowledge transfer (Liu et al. 2020): its card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.papers.card import Artefact, Notebook, OwnDomains, Paper

if TYPE_CHECKING:
    from helpers.presets.schema import Preset

# Every paper's modules are imported where they are needed, as torch takes seconds.


def _methods(preset: Preset) -> dict:
    from helpers.papers.imm import algorithm

    return algorithm.plans(preset, preset.imm.rounds)


def _curve(preset: Preset) -> dict:
    from helpers.papers.imm import algorithm

    return algorithm.plans(preset, preset.imm.curve)


def _ablations(preset: Preset) -> dict:
    from helpers.papers.imm import algorithm

    return algorithm.ablation_plans(preset)


def _own_domains(preset: Preset) -> tuple:
    from helpers.papers.imm import tables

    return tables.own_domains(preset)


SIZES = ("data.folder", "data.train_size", "data.test_size", "encoder", "seeds")
SWITCHES = ("imm.similarity", "imm.annealing", "imm.multi_domain_start")

CARD = Paper(
    key="imm",
    title="Liu et al. 2020: iterative multi-source mutual knowledge transfer",
    reference="https://doi.org/10.24963/ijcai.2020/525",
    artefacts=(
        Artefact("similarity", "Similarity of the domains' questions", "matrix", "similarity"),
        Artefact("table1", "IMM, Table 1: F1 of each method on each domain"),
        Artefact("figure3", "IMM, Figure 3: F1 against the number of rounds", "curve", average=False),
        Artefact("table2", "IMM, Table 2: F1 on adversarial questions", average=False),
        Artefact("table3", "IMM, Table 3: F1 without parts of IMM, and with other distances from the teacher"),
        Artefact("own", "F1 of each domain's reader, alone and with the others"),
    ),
    notebooks=(
        Notebook("01_imm_similarity", ("data.folder", "data.train_size")),
        Notebook("02_imm_main", (*SIZES, "imm.rounds", "imm.kd_space", *SWITCHES), _methods),
        Notebook("03_imm_iterations", (*SIZES, "imm.curve", "imm.kd_space", *SWITCHES), _curve),
        Notebook("04_imm_ablations", (*SIZES, "imm.ablation_rounds", *SWITCHES), _ablations),
        Notebook("05_imm_adversarial", (*SIZES, "imm.rounds", "imm.kd_space", *SWITCHES), _methods),
    ),
    settings=("imm",),
    own_domains=OwnDomains(
        "IMM",
        "Train readers of your own domains that teach each other, and compare them with Single.",
        _own_domains,
        ("encoder", "rounds"),
    ),
)
