"""IMM, iterative multi-source mutual knowledge transfer (Liu et al. 2020): its card."""

from functools import partial
from importlib import import_module

from helpers.papers.card import Artefact, Flag, Notebook, OwnDomains, Paper

# Imported where they are needed, as torch takes seconds.
_own = partial(import_module, f"{__name__}.own")
_algorithm = partial(import_module, f"{__name__}.algorithm")
_trainings = partial(import_module, f"{__name__}.trainings")
_ablations = partial(import_module, f"{__name__}.ablations")

SIZES = ("data.folder", "data.train_size", "data.test_size", "encoder", "seeds")
SWITCHES = ("imm.similarity", "imm.annealing", "imm.multi_domain_start")
ALL = (*SWITCHES, "imm.kd_space")
KEPT = {"average": False, "ours": True}


def _table1(preset) -> dict:
    needed, controls = _algorithm().plans(preset, preset.imm.rounds, repeated=preset.imm.controls), {}
    if preset.imm.controls:
        controls = _algorithm().plans(_trainings().equal_steps(preset), preset.imm.rounds)
    return needed | {("equal steps", *key): plan for key, plan in controls.items()}


def _rounds(preset) -> dict:
    return _algorithm().plans(preset, preset.imm.curve) | {
        ("later", *key): plan for key, plan in _ablations().later_plans(preset).items()
    }


CARD = Paper(
    key="imm",
    title="Liu et al. 2020: iterative multi-source mutual knowledge transfer",
    reference="https://doi.org/10.24963/ijcai.2020/525",
    artefacts=(
        Artefact("similarity", "Similarity of the domains' questions", "matrix", "similarity"),
        Artefact("table1", "IMM, Table 1: F1 of each method on each domain"),
        Artefact("table1_equal", "IMM, Table 1 with equal steps: F1 of every method", ours=True),
        Artefact("figure3", "IMM, Figure 3: F1 against the number of rounds", "curve", average=False),
        Artefact("acceptance", "IMM, Figure 3: domains that kept a round's new reader", **KEPT),
        Artefact("table2", "IMM, Table 2: F1 on adversarial questions", average=False),
        Artefact("table3", "IMM, Table 3: F1 without parts of IMM, and with other distances from the teacher"),
        Artefact("table3_new", "IMM, Table 3: F1 of the last new readers, kept or not", ours=True),
        Artefact("table3_kept", "IMM, Table 3: domains that kept a round's new reader", **KEPT),
        Artefact(
            "leads", "IMM, Table 3: what the divergence gains, by how good its teachers are", "scatter", ours=True
        ),
        Artefact("table3_later", "IMM, Table 3 after all rounds: teachers of the latest or the first round", ours=True),
        Artefact("leads_later", "IMM, Table 3 after all rounds: what the divergence gains", "scatter", ours=True),
        Artefact("own", "F1 of each domain's reader, by method", ours=True),
    ),
    notebooks=(
        Notebook("01_imm_similarity", SIZES[:2]),
        Notebook("02_imm_main", (*SIZES, "imm.rounds", *ALL), _table1),
        Notebook("03_imm_iterations", (*SIZES, "imm.rounds", "imm.curve", *ALL), _rounds),
        Notebook("04_imm_ablations", (*SIZES, "imm.ablation_rounds", *SWITCHES), lambda p: _ablations().plans(p)),
        Notebook("05_imm_adversarial", (*SIZES, "imm.rounds", *ALL), lambda p: _algorithm().plans(p, p.imm.rounds)),
    ),
    growth={"table1": "data"},
    regimes={"leads": "data", "leads_later": "data"},
    settings=("imm",),
    own_domains=OwnDomains(
        command="improve",
        alias="imm",
        help="Train readers of your own domains by several methods, and hand out each domain's best on validation.",
        name="IMM",
        product="reader",
        examples="questions",
        notebook="02_imm_main",
        section="data",
        work=_own,
        general=lambda preset: _own().of_general(preset).data if preset.imm.general else None,
        settings={"data.adversarial": None, "own_draws": False, "seeds": 1},
        flags=(
            Flag("encoder", "encoder", "folder or Hub name of the encoder that readers begin as", encoder=True),
            Flag("methods", "imm.methods", 'to choose from, beside Single, such as "Mix FT IMM"'),
            Flag("start", "imm.start", "trained reader to begin as, not an encoder", encoder=True),
            Flag("general", "imm.general", "file of questions that all learn first", encoder=True),
            Flag("teacher", "imm.teacher", "trained reader of any kind that teaches another method", encoder=True),
            Flag("ensemble", "imm.ensemble", "number of readers of all domains that teach another method together"),
            Flag("unlabelled", "imm.unlabelled", "file of questions that these answer for it", encoder=True),
            Flag("rounds", "imm.rounds", "largest number of rounds"),
        ),
    ),
)
