"""What a preset would download, told without asking the network."""

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from helpers.data.originals import folder_of
from helpers.presets.downloads import PARQUET_COPY, Collection, HubDataset
from helpers.presets.schema import DataSettings


class Item(NamedTuple):
    """One file, or one configuration of a dataset on the Hub; 0 bytes, or None: not known."""

    text: str
    bytes: int
    here: bool | None


HERE = {True: "here", False: "not here", None: "perhaps here"}


def plan(*settings: DataSettings) -> list[str]:
    """What loading the data of these settings downloads, in lines to show: from where, how much, what it is checked
    against, and whether it is here. What several settings share is listed once."""
    notes: dict[str, None] = {}  # as dicts, notes and names stay in order
    lines, items = [], []
    known = {name: download for data in settings for name, download in data.downloads.items()}
    uses: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for data in settings:
        if data.source == "mini":
            notes["nothing is downloaded: the miniature world is made from its seed"] = None
        elif data.source == "files":
            notes[f"nothing is downloaded: the data are the files in {data.folder or 'the folder data_dir'}"] = None
        for use, source in _sources(data) if data.source == "hub" else ():
            name, _, of_it = source.partition(":")
            uses[name, "" if getattr(known.get(name), "subsets", ()) else of_it][use] = None  # subsets are one download
    for (name, of_it), names in uses.items():
        download = known.get(name)
        found = _files(name, download, of_it) if isinstance(download, Collection) else _tables(name, download, of_it)
        lines.append(f"{', '.join(names)}: {name}{of_it and ':'}{of_it}{_rows(download, of_it)}")
        lines += [f"  {item.text}: {HERE[item.here]}" for item in found]
        items += found
    if items:
        missing = [item.bytes for item in items if not item.here]
        lines.append(f"in all {_size(*(item.bytes for item in items))}, still to download {_size(*missing)}")
    return [*notes, *lines]


def _sources(data: DataSettings) -> list[tuple[str, str]]:
    """What for, and the source's name."""
    sources = list(data.domains.items())
    if data.narrative:
        sources.append(("free answers", data.narrative))
    if data.adversarial:
        sources += [(name, getattr(data.adversarial, name)) for name in ("AddSent", "AddOneSent")]
    return sources


def _files(name: str, known: Collection, corpus: str) -> list[Item]:
    if corpus not in known.corpora:
        return [Item(f"the preset has no such corpus, only {', '.join(known.corpora)}", 0, False)]
    items = []
    for own, file in known.corpora[corpus].files.items():
        path, checks = folder_of(name, corpus) / own, f"bytes, SHA-256 {file.sha256[:12]}…, " if file.sha256 else ""
        here = path.is_file() and file.bytes in (0, path.stat().st_size)  # the checksum is for when it is read
        items.append(Item(f"{file.url}, {_size(file.bytes)}, checked: {checks}rows", file.bytes, here))
    return items


def _tables(name: str, known: HubDataset | None, config: str) -> list[Item]:
    if known is None:
        text = "the Hub, latest revision, size not known, nothing checked"
        return [Item(text, 0, _is_prepared(name, config or "*", "*"))]
    chosen = [config] if config in known.configurations else list(known.configurations)
    return [
        Item(
            f"the Hub, {one} at revision {known.revision}, {_size(table.bytes)}, checked: columns, rows",
            table.bytes,
            _is_prepared(name, one, known.revision),
        )
        for one in chosen
        for table in [known.configurations[one]]
    ]


def _is_prepared(name: str, config: str, revision: str) -> bool | None:
    """Whether `datasets` has it as it reads it, below <owner>___<dataset>/<configuration>/<version>/<commit>."""
    from datasets import config as settings  # takes a second
    from datasets.naming import camelcase_to_snakecase

    *owner, last = name.split("/")
    folder = Path(settings.HF_DATASETS_CACHE) / "___".join([*owner, camelcase_to_snakecase(last)])
    if revision == PARQUET_COPY:  # neither configuration nor commit can be told from the folders' names
        return None if folder.is_dir() else False
    return any(path.is_dir() and not path.suffix for path in folder.glob(f"{config}/*/{revision}"))


def _rows(known: Collection | HubDataset | None, of_it: str) -> str:
    parts = known.corpora if isinstance(known, Collection) else known.configurations if known else {}
    chosen = [parts[of_it]] if of_it in parts else parts.values()
    rows = [f"{number:,} {split}" for part in chosen for split, number in part.rows.items()]
    return (rows and f", rows: {', '.join(rows)}") or ""


def _size(*sizes: int) -> str:
    total, unknown = sum(sizes), sizes.count(0)
    known = f"{total / 1e9:,.2f} GB" if total >= 1e9 else f"{total / 1e6:,.1f} MB"
    if not unknown:
        return known
    return f"{known} and {unknown} of unknown size" if total else "size not known"
