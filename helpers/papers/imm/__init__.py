"""IMM: iterative multi-source mutual knowledge transfer for reading comprehension (Liu et al. 2020, IJCAI)."""

from helpers.papers import Exhibit, Notebook, Paper

NO_ADVERSARIAL = "the preset names no adversarial questions ([data.adversarial])"
NO_FILES = "the preset has no files; give yours with --preset lab -p data_dir FOLDER"

PAPER = Paper(
    key="imm",
    title="Liu et al. 2020: iterative multi-source mutual knowledge transfer (IMM)",
    reference="https://doi.org/10.24963/ijcai.2020/525",
    method="IMM",
    limits=(("table1_equal", "IMM", "BAM"),),
    caveat="Undecided where other domains help more.",
    claim="Readers teaching each other in rounds beat readers taught once",
    exhibits=(
        Exhibit("similarity", "Similarity of the domains' questions", "matrix", "similarity"),
        Exhibit("table1", "IMM, Table 1: F1 of each method on each domain"),
        Exhibit("table1_equal", "IMM, Table 1 with equal steps: F1 of every method"),
        Exhibit("table1_general", "IMM, Table 1 with general readers of fewer questions: F1 of every method"),
        Exhibit("figure3", "IMM, Figure 3: F1 against the number of rounds", "curve", average=False),
        Exhibit("acceptance", "IMM, Figure 3: domains that accepted a round's new reader", average=False),
        Exhibit("table2", "IMM, Table 2: F1 on adversarial questions", average=False),
        Exhibit("table3", "IMM, Table 3: F1 without parts of IMM, and with other distances from the teacher"),
        Exhibit("table3_acceptance", "IMM, Table 3: domains that accepted a round's new reader", average=False),
        Exhibit("your_domains", "Side by side: F1 of each method's readers"),
        Exhibit("your_domains_equal", "Side by side with equal steps: F1 of each method's readers"),
        Exhibit("learning_curve", "Side by side: F1 by share of the training questions", "curve", average=False),
        Exhibit("your_teacher", "Teacher and student: F1, size and time", average=False),
        Exhibit("cost", "Side by side: F1 by training cost", "scatter"),
    ),
    notebooks=(
        Notebook("01_imm_similarity"),
        Notebook("02_imm_main", ("imm.tables:table1", "imm.tables:table1_equal", "imm.tables:table1_general")),
        Notebook("03_imm_iterations", ("imm.tables:figure3",)),
        Notebook("04_imm_ablations", ("imm.tables:table3",)),
        Notebook("05_imm_adversarial", ("imm.tables:table2",), lambda p: "" if p.data.adversarial else NO_ADVERSARIAL),
        Notebook(
            "18_your_domains",
            tuple(f"your_domains.tables:{name}" for name in ("side_by_side", "side_by_side_equal", "learning_curve")),
            left_out=lambda p: NO_FILES if p.data.is_generated and not p.control_seeds else "",
            keeps=lambda p: p.data.domains,
        ),
    ),
    settings=("imm", "a2d"),
)
