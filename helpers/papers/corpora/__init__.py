"""The corpora themselves: their card."""

from helpers.papers.card import Artefact, Notebook, Paper

FOLDERS = ("data.folder", "data.train_size", "mnli.folder", "reviews.folder", "tasks.folder")


CARD = Paper(
    key="corpora",
    title="The corpora",
    artefacts=(Artefact("overview", "Sizes, lengths and question words of the corpora", "profile", "questions"),),
    notebooks=(
        Notebook("00_corpora", ("data.folder", "data.train_size", "data.test_size")),
        Notebook("17_playground", (*FOLDERS, "encoder"), parts=("shown",), shows_models=True),
        Notebook(
            "18_growth",
            left_out=lambda p: "" if p.sizes else "the preset names no presets of other sizes",
            shows_growth=True,
        ),
    ),
)
