"""A2D: attention-guided answer distillation for reading comprehension (Hu et al. 2018, EMNLP).

An ensemble of readers with different seeds predicts all training questions once. One reader learns from its mean
distributions, its mean attention and its most confusing answers (Eq. 1).
"""

from helpers.papers import Exhibit, Notebook, Paper

NO_STORIES = "data.narrative names no free answers"
FASTER = "times faster than its ensemble"

PAPER = Paper(
    key="a2d",
    title="Hu et al. 2018: attention-guided answer distillation (A2D)",
    reference="https://doi.org/10.18653/v1/D18-1232",
    method="A2D",
    claim="A reader distilled from an ensemble beats one trained alone",
    limits=(("table1", "BERT + A2D", "BERT"),),
    caveat="One teacher gives most of it. On misleading passages its ensemble stays better.",
    remark="In the miniature world the temperature is 8, chosen for RMR by validation scores on other draws, before "
    "A2D's loss was corrected (elsewhere the paper's 2). Tables 1 and 2 average three students per seed, others have "
    "one, so verdicts may differ",
    exhibits=(
        Exhibit("table1", "A2D, Table 1: a reader, an ensemble, and the reader distilled from it", average=False),
        Exhibit("table2", "A2D, Table 2: adversarial questions", average=False),
        Exhibit("table3", "A2D, Table 3: free answers about stories", unit="score", average=False),
        Exhibit("table4", "A2D, Table 4: how much faster the student is", unit=FASTER, average=False),
        Exhibit("table5", "A2D, Table 5: what each part is worth", average=False),
        Exhibit("figure3", "A2D, Figure 3: a question before and after distillation", "case", "probability"),
        Exhibit("figure4", "A2D, Figure 4: F1 by type of question", "bars", average=False),
        Exhibit("steps", "A2D, ours: longer training, one teacher, smoothed labels", "curve", average=False),
        Exhibit("members", "A2D, ours: students of larger ensembles", "curve", average=False),
        Exhibit("temperatures", "A2D, ours: students at other temperatures", "curve", average=False),
    ),
    notebooks=(
        Notebook("06_a2d_main", ("a2d.tables:table1", "a2d.tables:table2")),
        Notebook(
            "07_a2d_ablation",
            tuple(f"a2d.tables:{name}" for name in ("table5", "figure4", "steps", "members", "temperatures")),
        ),
        Notebook("08_a2d_attention", ("a2d.tables:figure3",)),
        Notebook("09_a2d_narrativeqa", ("a2d.tables:table3",), lambda p: "" if p.data.narrative else NO_STORIES),
    ),
    settings=("a2d", "mnemonic"),
)
