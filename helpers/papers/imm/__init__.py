"""IMM: iterative multi-source mutual knowledge transfer for reading comprehension (Liu et al. 2020, IJCAI)."""

import re

from helpers.papers import Advice, Exhibit, Notebook, Paper
from helpers.records import Record

NO_ADVERSARIAL = "the preset names no adversarial questions ([data.adversarial])"
NO_FILES = "the preset has no files; give yours with --preset lab -p data_dir FOLDER"

SEVERAL = "several small domains"


def count_trainings(record: Record) -> str:
    """Return how many trainings IMM took for one seed, by the record's notes; teachers and rejected readers count."""
    found = re.search(r"trainings of one seed .* IMM: (\d+) ", "\n".join(record.notes))
    return found[1] if found else "not recorded"


PAPER = Paper(
    key="imm",
    title="Liu et al. 2020: iterative multi-source mutual knowledge transfer (IMM)",
    reference="https://doi.org/10.24963/ijcai.2020/525",
    method="IMM",
    claim="Readers that teach each other in rounds beat readers taught once (BAM)",
    advice=(
        Advice(SEVERAL, "one reader of all domains", "your_domains", (("Mix", "Single"),)),
        Advice(
            SEVERAL,
            "an ensemble of such readers",
            "your_domains",
            (("Mix ensemble", "Single"),),
            lambda record: str(record.setting("a2d", "members")),
            lambda record: f"{record.setting('a2d', 'members')} ×",
        ),
        Advice(
            SEVERAL,
            "a reader distilled from these",
            "your_domains",
            (("A2D", "Single"),),
            lambda record: str(record.setting("a2d", "members") + 1),
        ),
        Advice(SEVERAL, "readers that teach each other (IMM)", "table1", (("IMM", "Single"),), count_trainings),
    ),
    exhibits=(
        Exhibit("similarity", "Similarity of the domains' questions", "matrix", "similarity"),
        Exhibit("table1", "IMM, Table 1: F1 of each method on each domain"),
        Exhibit("table1_equal", "IMM, Table 1 with equal steps: F1 of every method"),
        Exhibit("figure3", "IMM, Figure 3: F1 against the number of rounds", "curve", average=False),
        Exhibit("acceptance", "IMM, Figure 3: domains that accepted a round's new reader", average=False),
        Exhibit("table2", "IMM, Table 2: F1 on adversarial questions", average=False),
        Exhibit("table3", "IMM, Table 3: F1 without parts of IMM, and with other distances from the teacher"),
        Exhibit("table3_acceptance", "IMM, Table 3: domains that accepted a round's new reader", average=False),
        Exhibit("your_domains", "Side by side: F1 of each method's readers"),
        Exhibit("your_domains_equal", "Side by side: F1 of each method's readers with equal steps"),
        Exhibit("your_teacher", "Teacher and student: F1, size and time", average=False),
        Exhibit("cost", "Side by side: F1 by training cost", "scatter"),
    ),
    notebooks=(
        Notebook("01_imm_similarity"),
        Notebook("02_imm_main", ("imm.tables:table1", "imm.tables:table1_equal")),
        Notebook("03_imm_iterations", ("imm.tables:figure3",)),
        Notebook("04_imm_ablations", ("imm.tables:table3",)),
        Notebook("05_imm_adversarial", ("imm.tables:table2",), lambda p: "" if p.data.adversarial else NO_ADVERSARIAL),
        Notebook(
            "18_your_domains",
            ("your_domains.tables:side_by_side", "your_domains.tables:side_by_side_equal"),
            left_out=lambda p: NO_FILES if p.data.is_generated and not p.control_seeds else "",
            keeps=lambda p: p.data.domains,
        ),
    ),
    settings=("imm",),
)
