"""GloVe's word vectors, read from their text file: of all its words only those that are wanted."""

from collections.abc import Sequence
from functools import cache
from os import PathLike
from pathlib import Path

import torch

from helpers import paths
from helpers.data.examples import DataError
from helpers.data.formats.text import lines
from helpers.files import file_fingerprint

LARGEST = torch.finfo(torch.float32).max


def locate_glove(path: str | PathLike) -> Path:
    """A file, given absolute, from here or from the repository's root. Raises DataError where it is missing."""
    for place in (places := paths.places(path)):
        if place.is_file():
            return place
    raise DataError(f"{places[0]}: no such file; -p glove names GloVe's text file, a word and its numbers a line")


@cache
def glove_digest(path: str) -> str:
    """Sixteen hex digits that stand for the content of a file of vectors; empty where none is named. Raises
    DataError where it is missing."""
    return file_fingerprint(locate_glove(path)) if path else ""


def read_glove(path: str | PathLike, words: Sequence[str], width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The vectors of ``words`` (float32, words × width; zeros where the file lacks one) and which it has (bool, words).

    The file has a line "word v1 v2 … v_width" a word, in UTF-8, gzipped or not. A word may hold spaces itself
    (". . ." in glove.840B), and where it stands in the file twice, the first counts. Words are compared as they are:
    lower them first for a file in lower case. Raises `DataError` with file and line where the file is missing, where
    its vectors have another width, where a line is broken, and where it has none of the words.
    """
    path = locate_glove(path)
    if path.suffix == ".zip":
        raise DataError(f"{path}: unzip it, and give the .txt file that it holds for vectors of {width} numbers")
    wanted, vectors = set(words), {}
    number = 0
    for number, line in lines(path):
        where = f"{path}: line {number}"
        word, numbers = _parts(line.rstrip(" \r\n"), width, where, first=number == 1)
        if word in wanted and word not in vectors:
            vectors[word] = _floats(numbers, where)
    if number == 0:
        raise DataError(f"{path}: the file is empty; expected a word and {width} numbers a line; fetch it again")
    if wanted and not vectors:
        raise DataError(
            f"{path}: none of the {len(wanted):,} words, such as {words[0]!r}, is on its {number:,} lines; "
            "give vectors of the same language, and of words in the same case"
        )
    table = torch.zeros(len(words), width)
    for row, word in enumerate(words):
        table[row] = vectors.get(word, 0)
    return table, torch.tensor([word in vectors for word in words], dtype=torch.bool)


def _parts(line: str, width: int, where: str, *, first: bool) -> tuple[str, str]:
    """A line's word and its numbers, still as text. The spaces are counted, the numbers of most lines never read."""
    spaces = line.count(" ")
    if spaces == width:
        return tuple(line.split(" ", 1))
    pieces = line.split(" ")
    if spaces > width and not _is_number(pieces[-width - 1]):  # the word itself holds spaces
        return " ".join(pieces[:-width]), " ".join(pieces[-width:])
    if first and len(pieces) == 2 and all(piece.isdigit() for piece in pieces):
        raise DataError(
            f"{where} is word2vec's header ({line}), which GloVe's files do not have; remove the line, if the others "
            f"hold a word and {width} numbers each"
        )
    columns = next((i for i, piece in enumerate(reversed(pieces[1:])) if not _is_number(piece)), spaces)
    expected = f"expected a word and {width} numbers with single spaces between them, found {columns} numbers"
    if first and columns:
        raise DataError(f"{where}: {expected}; give a file of width {width}, or set the width to {columns}")
    raise DataError(f"{where}: {expected}, in {line!r:.60}; the line is broken: fetch the file again")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _floats(numbers: str, where: str) -> torch.Tensor:
    """The numbers as float32 (width), which all of them have to fit into."""
    for place, piece in enumerate(pieces := numbers.split(" "), 1):
        if not _is_number(piece) or not abs(float(piece)) <= LARGEST:  # "not <=", as nan is not larger either
            raise DataError(
                f"{where}: expected a finite number in place {place}, found {piece!r}; fetch the file again"
            )
    return torch.tensor([float(piece) for piece in pieces])
