"""The papers, a folder each: its card, its algorithm, its cached trainings, its tables.

Another paper is one more name in ``ALL``.
"""

from importlib import import_module

from helpers.papers.card import Notebook, Paper


def load(key: str) -> Paper:
    """The card of the paper in the folder of this name."""
    return import_module(f"{__name__}.{key}").CARD


TEXTS = ("mnli", "reviews")  # sections of a preset with labelled texts
BESIDE = (*TEXTS, "tasks")  # all sections with examples besides [data]

ALL: list[Paper] = [load(key) for key in ("corpora", "imm", "a2d", "hrkd", "mtdnn_kd", "mtdnn")]


def card_of(notebook: str) -> tuple[Paper | None, Notebook]:
    """The paper and the card of a notebook; no paper where none declares it, as for the report."""
    declared = {card.name: (paper, card) for paper in ALL for card in paper.notebooks}
    return declared.get(notebook, (None, Notebook(notebook)))


def parameter_name(key: str) -> str:
    """What the key of a preset is called as a parameter: its last part, and before that its section where it is one of
    ``BESIDE``; ``data_dir`` and the like for folders."""
    section, _, last = key.rpartition(".")
    last = "dir" if last == "folder" else last
    return f"{section}_{last}" if section in BESIDE or last == "dir" else last


def parameters() -> dict[str, str]:
    """All parameters that stand for a key of the preset, and these keys."""
    return {parameter_name(key): key for paper in ALL for card in paper.notebooks for key in card.parameters}


def artefact(name: str) -> dict[str, object]:
    """What its card says of an artefact such as ``imm/table1``; nothing of one that no paper declares."""
    declared = {f"{paper.key}/{artefact.name}": artefact for paper in ALL for artefact in paper.artefacts}
    known = vars(declared[name]) if name in declared else {}
    return {key: value for key, value in known.items() if key not in ("name", "ours")}


def foreign(paper: Paper) -> list[str]:
    """The sections of a preset that other papers alone read."""
    others = (section for other in ALL if other is not paper for section in other.settings)
    return [section for section in dict.fromkeys(others) if section not in paper.settings]


def unread(paper: Paper) -> list[str]:
    """The sections of a preset that a paper does not read."""
    return [*foreign(paper), *paper.unread]


def examples_of(artefact: str) -> list[str]:
    """The sections of a preset whose examples an artefact such as ``imm/table1`` is of; none of what no paper
    declares."""
    return [section for paper in ALL if paper.key == artefact.partition("/")[0] for section in sections_of(paper)]


def sections_of(paper: Paper) -> list[str]:
    """The sections of a preset with examples that a paper reads."""
    return [section for section in ("data", *BESIDE) if section not in unread(paper)]


def concerns(key: str, notebook: str) -> bool:
    """Whether a key of the preset matters to a notebook: of the data alone where nothing is trained, and not where it
    is another paper's, or a parameter of other notebooks of its paper alone."""
    paper, card = card_of(notebook)
    if paper is None:
        return False
    others = {parameter for other in paper.notebooks for parameter in other.parameters} - set(card.parameters)
    section = key.partition(".")[0]
    return section not in unread(paper) and key not in others and (section == "data" or card.plans is not None)
