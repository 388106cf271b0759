"""Where an answer stands in its passage, when the offset that a file states for it is not quite right."""

import re

from helpers.data.examples import DataError
from helpers.data.formats.rows import found

MOVED = "answers were placed where their text stands in the context, as their offsets were wrong"
NEAR = "answers were placed at the nearest of the places where they stand, as their offsets were a few characters off"
ALIKE = "answers differ from the context in case or white space; the context's own text is marked"
REACH = 5  # characters: further off than that, another place is as likely to be meant


def locate(context: str, text: str, start: int, where: str, repairs: list[str]) -> tuple[int, int]:
    """The character range of ``text`` in ``context``, at ``start`` or where it must have been meant.

    A repair has to be the only one possible, and of whole words: the text but for case and white space at ``start``;
    else the only place where it stands; else the nearest one, if it is at most `REACH` characters off and no other is
    as near. ``repairs`` gets what was done. Raises `DataError`, beginning with ``where``, if nothing or too much fits.
    """
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    alike = _alike(context, text, start)
    first = context.find(text)
    near = _nearest(context, text, start)
    if alike and near:
        raise DataError(
            f"{where}: {found(text)} is not at its offset {found(start)} (there: {found(context[slice(*alike)])}), but "
            f"stands at {near[0]}: either can be meant; correct the offset"
        )
    if alike:
        repairs.append(ALIKE)
        return alike
    if first < 0:
        there = context[max(start, 0) :][: len(text)]
        raise DataError(
            f"{where}: {found(text)} does not stand in the context (at offset {found(start)}: {found(there)})"
        )
    alone = first, first + len(text)
    if context.find(text, first + 1) < 0:
        if _cuts_word(context, *alone):
            raise DataError(
                f"{where}: {found(text)} is not at its offset {found(start)}, and stands in the context only as a "
                "part of a word; correct the answer"
            )
        repairs.append(MOVED)
        return alone
    if near and not _in_other_units(context, text, start, near[0]):
        repairs.append(NEAR)
        return near
    there = context[max(start, 0) :][: len(text)]
    raise DataError(
        f"{where}: {found(text)} is not at its offset {found(start)} (there: {found(there)}) and stands in the context "
        "more than once; correct the offset"
    )


def _alike(context: str, text: str, start: int) -> tuple[int, int] | None:
    """The whole words at ``start`` that are ``text`` but for case and white space."""
    if not 0 <= start < len(context):
        return None
    space = r"\s*" if text[0].isspace() else ""
    pattern = space + "(" + r"\s+".join(map(re.escape, text.split())) + ")"
    match = re.compile(pattern, re.IGNORECASE).match(context, start)
    return match.span(1) if match and not _cuts_word(context, *match.span(1)) else None


def _nearest(context: str, text: str, start: int) -> tuple[int, int] | None:
    """The place of ``text`` nearest to ``start``, if it is near, of whole words, and no other is as near."""
    places = (place for place in range(max(start - REACH, 0), start + REACH + 1) if context.startswith(text, place))
    ranked = sorted(places, key=lambda place: abs(place - start))
    if not ranked or (ranked[1:] and abs(ranked[0] - start) == abs(ranked[1] - start)):
        return None
    span = ranked[0], ranked[0] + len(text)
    return None if _cuts_word(context, *span) else span


def _in_other_units(context: str, text: str, start: int, near: int) -> bool:
    """Whether ``text`` stands elsewhere than ``near`` if ``start`` counts bytes, or JavaScript's and Java's units."""
    for coding, size in (("utf-8", 1), ("utf-16-le", 2)):
        place = len(context.encode(coding)[: max(start, 0) * size].decode(coding, "ignore"))
        if place != near and context.startswith(text, place):
            return True
    return False


def _cuts_word(context: str, first: int, last: int) -> bool:
    """Whether a word goes on beyond one of the edges; scripts without spaces between words have no such edges."""
    for edge in (first, last):
        around = context[max(edge - 1, 0) : edge + 1]
        if edge and len(around) == 2 and around.isalnum() and max(around) < "\u2e80":
            return True
    return False
