"""The files of one domain of labelled texts, by part."""

from pathlib import Path

from helpers.data.examples import DataError
from helpers.data.formats.folders import find_parts, unread
from helpers.data.formats.labelled import KNOWN, Labelled, labelled
from helpers.data.formats.reviews import SUFFIX, review_files, review_rows
from helpers.data.formats.stored import stored_rows

Parts = dict[str, list[Labelled]]  # train, valid and test, or "all" where nothing says a part


def read_texts(path: Path, labels: list[str], genre: str = "") -> tuple[Parts, list[str]]:
    """The texts of the domain at ``path``, and notes on them; ``labels`` and ``genre`` are those of `labelled`.

    ``path`` is a file; a folder of one file, of files whose names say their part, or of reviews; or, where there is
    none of that name, the beginning of such files' names (fiction: fiction.train.jsonl). Raises `DataError`.
    """
    parts: Parts = {}
    notes: list[str] = []

    def add(part: str, rows: list, columns: list[str], file: Path) -> None:
        records, new = labelled(rows, columns, str(file), labels, genre)
        parts.setdefault(part, []).extend(records)
        notes.extend(new)

    try:
        if reviews := [path] if path.name.endswith(SUFFIX) else review_files(path):
            for file in reviews:
                rows, new = review_rows(file)
                notes += new
                add("all", rows, ["id", "text", "label"], file)
        else:
            beside = not path.exists() and path.parent.is_dir()
            given = find_parts(path.parent, path.name) if beside else find_parts(path)
            notes += unread(path, path.name)
            for part, (file, shards) in given.items():
                for shard in shards or (file,):
                    columns, rows = stored_rows(shard, KNOWN)
                    add(part, rows, columns, shard)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    return parts, notes
