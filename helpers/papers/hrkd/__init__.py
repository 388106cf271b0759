"""HRKD: hierarchical relational knowledge distillation over several domains (Dong et al. 2021, EMNLP)."""

from helpers.papers import Exhibit, Notebook, Paper
from helpers.presets.schema import Preset

NO_TEXTS = "the preset has no texts for it; give mnli_dir or reviews_dir"
CORPORA = {"mnli": "MNLI", "reviews": "Amazon Reviews"}  # sections of a preset, and the paper's names
GAIN, SHARE, MOVED = "points of accuracy", "% of the weight", "% of the weight that the ratios move"


def list_corpora(preset: Preset) -> list[str]:
    """List the sections of the corpora that the preset has."""
    return [corpus for corpus in CORPORA if getattr(preset, corpus).has_source]


PAPER = Paper(
    key="hrkd",
    title="Dong et al. 2021: hierarchical relational knowledge distillation (HRKD)",
    reference="https://doi.org/10.18653/v1/2021.emnlp-main.250",
    method="HRKD",
    claim="Weighting domains by a graph improves plain distillation",
    caveat="Weights are noise or equal.",
    remark="By the paper's equations every domain has nearly always the same weight, and the graph gets no gradient. "
    "The released code never trains the graph, so its weights are noise. In `lab` Tables 3 and 4 are of separate "
    "trainings, so one difference has two values",
    headlines=("table2", "table3"),
    exhibits=(
        Exhibit("table1", "HRKD, Table 1: texts of each domain", "table", "examples", False),
        Exhibit("table2", "HRKD, Table 2: accuracy on MNLI", "table", "accuracy"),
        Exhibit("table3", "HRKD, Table 3: accuracy on Amazon Reviews", "table", "accuracy"),
        Exhibit("compression", "HRKD: what a student costs and keeps", "table", "accuracy", False),
        Exhibit("figure2", "HRKD, Figure 2: above a student per domain, with few texts", "curve", GAIN, False),
        Exhibit("table4", "HRKD, Table 4: what each part is worth", "table", "accuracy"),
        Exhibit("table5", "HRKD, Table 5: three texts of one label and one of the other", "heatmaps", SHARE, False),
        Exhibit("table6", "HRKD, Table 6: two texts of each label", "heatmaps", SHARE, False),
        Exhibit("ratios", "HRKD: how far the ratios move", "curve", MOVED, False),
    ),
    notebooks=(
        Notebook(
            "10_hrkd_main",
            ("hrkd.tables:table2", "hrkd.tables:table3"),
            left_out=lambda p: "" if list_corpora(p) else NO_TEXTS,
            keeps=lambda p: p.reviews.domains if "reviews" in list_corpora(p) else (),
        ),
        Notebook(
            "11_hrkd_fewshot",
            ("hrkd.tables:figure2",),
            left_out=lambda p: "" if p.hrkd.few_shot in list_corpora(p) else NO_TEXTS,
        ),
        Notebook(
            "12_hrkd_ablation",
            ("hrkd.tables:table4",),
            left_out=lambda p: "" if "reviews" in list_corpora(p) else NO_TEXTS,
        ),
    ),
    settings=("hrkd", "mnli", "reviews"),
    examples=("mnli", "reviews"),
)
