"""The corpora themselves: their card."""

from helpers.papers.card import Artefact, Notebook, Paper

CARD = Paper(
    key="corpora",
    title="The corpora",
    artefacts=(Artefact("overview", "Sizes, lengths and question words of the corpora", "profile", "questions"),),
    notebooks=(Notebook("00_corpora", ("data.folder", "data.train_size", "data.test_size")),),
)
