"""HRKD, hierarchical relational knowledge distillation (Dong et al. 2021): its card."""

from functools import partial
from importlib import import_module

from helpers.papers.card import Artefact, Flag, Notebook, OwnDomains, Paper

_algorithm = partial(import_module, f"{__name__}.algorithm")  # where it is needed, as torch takes seconds

GAIN = "points of accuracy"
SHARE = "% of the weight"
PARAMETERS = (
    *("mnli.folder", "mnli.train_size", "reviews.folder", "reviews.train_size", "encoder", "seeds"),
    *("hrkd.student", "hrkd.student_layers", "hrkd.epochs", "hrkd.mnli_learning_rate", "hrkd.reviews_learning_rate"),
)
SWITCHES = ("hrkd.attention", "hrkd.padding", "hrkd.train_graph", "hrkd.steer")


def _left_out(preset, *corpora: str) -> str:
    return "" if set(corpora) & set(_algorithm().corpora(preset)) else "the preset has no texts for it"


CARD = Paper(
    key="hrkd",
    title="Dong et al. 2021: hierarchical relational knowledge distillation",
    reference="https://doi.org/10.18653/v1/2021.emnlp-main.250",
    artefacts=(
        Artefact("table1", "HRKD, Table 1: texts of each domain", unit="examples", average=False),
        Artefact("table2", "HRKD, Table 2: accuracy on MNLI", unit="accuracy"),
        Artefact("table3", "HRKD, Table 3: accuracy on Amazon Reviews", unit="accuracy"),
        Artefact("compression", "HRKD: what a student costs and keeps", unit="accuracy", average=False, ours=True),
        Artefact("sizes", "HRKD: accuracy against size", "curve", "accuracy", average=False, ours=True),
        Artefact(
            "figure2", "HRKD, Figure 2: above BERT_B-single → TinyBERT-KD, with few texts", "curve", GAIN, average=False
        ),
        Artefact("table4", "HRKD, Table 4: what each part is worth", unit="accuracy"),
        Artefact(
            "table5", "HRKD, Table 5: three texts of one label and one of the other", "heatmaps", SHARE, average=False
        ),
        Artefact("table6", "HRKD, Table 6: two texts of each label", "heatmaps", SHARE, average=False),
        Artefact("ratios", "HRKD: how far the ratios move", "curve", SHARE, average=False, ours=True),
        Artefact(
            "own", "Accuracy of each domain's teacher and student, and of a student alone", unit="accuracy", ours=True
        ),
    ),
    notebooks=(
        Notebook(
            "10_hrkd_main",
            (*PARAMETERS, *SWITCHES),
            lambda preset: _algorithm().main_plans(preset),
            lambda preset: _left_out(preset, "mnli", "reviews"),
            parts=("corpora",),
        ),
        Notebook(
            "11_hrkd_fewshot",
            PARAMETERS,
            lambda preset: _algorithm().few_shot(preset),
            lambda preset: _left_out(preset, preset.hrkd.few_shot),
        ),
        Notebook(
            "12_hrkd_ablation",
            PARAMETERS,
            lambda preset: _algorithm().ablations(preset),
            lambda preset: _left_out(preset, "reviews"),
        ),
    ),
    growth={"table2": "mnli", "table3": "reviews"},
    settings=("hrkd", "mnli", "reviews"),
    unread=("data", "windows", "answers"),
    own_domains=OwnDomains(
        command="compress",
        help="Train a small classifier of your own domains by a large one, and compare it with one trained alone.",
        name="HRKD",
        product="classifier",
        examples="texts",
        notebook="10_hrkd_main",
        section="reviews",
        work=partial(import_module, f"{__name__}.own"),
        settings={"reviews.labels": [], "reviews.split": "content", "own_draws": False},
        flags=(
            Flag("teacher", "encoder", "folder or Hub name of the encoder that the teacher begins as", encoder=True),
            Flag("student", "hrkd.student", "that of the student; without one, layers of the teacher", encoder=True),
            Flag("unified", "hrkd.one_head", "one classifier for all domains, in the subfolder all", switch=True),
        ),
    ),
)
