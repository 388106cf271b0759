"""Your own domains: readers of each by several methods, side by side, and the best of each on validation."""

from dataclasses import replace

from helpers.papers import Notebook, imm

NO_FILES = "the preset has no files; give yours with --preset lab -p data_dir FOLDER"

NOTEBOOK = Notebook(
    "19_your_domains",
    ("your_domains.tables:side_by_side", "your_domains.tables:side_by_side_equal"),
    left_out=lambda preset: NO_FILES if preset.data.is_generated and not preset.control_seeds else "",
    takes=("methods",),
    keeps=lambda preset: preset.data.domains,
)
PAPER = replace(imm.PAPER, notebooks=(*imm.PAPER.notebooks, NOTEBOOK))
