"""Amazon reviews as Blitzer et al. 2007 give them: a file a label, positive.review and negative.review, in tags that
look like XML and are none (nothing in them is escaped, and most files have no root)."""

import re
from collections.abc import Iterator
from pathlib import Path

from helpers.data.examples import DataError
from helpers.data.formats.files import Rows

SUFFIX = ".review"
UNLABELLED = "unlabeled"  # the authors' name for reviews without a label
_FIELD = re.compile(r"^<(?P<name>\w+)>[^\S\n]*\n(?P<content>.*?)^</(?P=name)>", re.DOTALL | re.MULTILINE)
_HINT = "fetch the file again, or close the review"


def review_files(path: Path) -> list[Path]:
    """The files of reviews of the domain at ``path``: in that folder, or beside it with names such as
    <its name>.positive.review; positive ones first."""
    folder, begin = (path, "") if path.is_dir() else (path.parent, f"{path.name}.")
    files = folder.glob(f"*{SUFFIX}") if folder.is_dir() else ()
    mine = [file for file in files if file.name.startswith(begin) and label_of(file) != UNLABELLED]
    return sorted(mine, key=label_of, reverse=True)


def label_of(file: Path) -> str:
    """The label that the file's name gives all of its reviews."""
    return file.name.removesuffix(SUFFIX).rpartition(".")[2]


def review_rows(file: Path) -> tuple[Rows, list[str]]:
    """The rows (text, label and id) of one file, and notes on it. The text is the review itself, without its title."""
    raw = file.read_bytes()
    try:
        content, notes = raw.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        content, notes = raw.decode("latin-1"), [f"{file.name}: it is not UTF-8, and was read as Latin-1"]
    if not re.match(r"\s*<(data|review)>", content):
        raise DataError(f"{file}: expected reviews, each between lines <review> and </review>; {_HINT}")
    return list(_rows(content, label_of(file))), notes


def _rows(content: str, label: str) -> Iterator[tuple[str, object]]:
    count, place, body = 0, "", []
    for number, line in enumerate(content.split("\n"), 1):
        tag = line.strip()
        if tag == "<review>":
            if place:
                yield place, DataError(f"{place}: it is not closed before line {number}; {_HINT}")
            count += 1
            place, body = f"review {count} from line {number}", []
        elif tag == "</review>":
            yield place, _row("\n".join(body), place, label) if place else DataError(f"line {number} closes no review")
            place = ""
        else:
            body.append(line)
    if place:
        yield place, DataError(f"{place}: it is not closed before the file ends; {_HINT}")


def _row(body: str, place: str, label: str) -> dict[str, str] | DataError:
    fields = {field["name"]: field["content"].strip() for field in _FIELD.finditer(body)}
    if "review_text" not in fields:
        return DataError(f"{place}: <review_text> is missing or not closed; add it, or remove the review")
    return {"id": fields.get("unique_id", ""), "text": fields["review_text"], "label": label}
