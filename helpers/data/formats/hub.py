"""The same corpora by their names on the Hugging Face Hub, or from any folder that `datasets.load_dataset` reads."""

import re
from pathlib import Path

import datasets
from datasets.exceptions import (
    ChecksumVerificationError,
    DatasetBuildError,
    DatasetGenerationError,
    DatasetNotFoundError,
    SplitsVerificationError,
)
from huggingface_hub.constants import HF_HUB_CACHE
from huggingface_hub.errors import GatedRepoError
from pyarrow import ArrowException

from helpers.data.examples import Corpus, DataError
from helpers.data.formats.columns import from_rows
from helpers.presets.downloads import PARQUET_COPY, Configuration, HubDataset

_CLIENTS = {"httpx", "httpx2", "httpcore", "requests", "urllib3", "aiohttp"}  # which one is up to huggingface_hub


def load_hub(
    name: str, split: str, part: str = "", *, unanswerable: bool = False, pinned: HubDataset | None = None
) -> Corpus:
    """Load ``split`` of squad, squad_v2, mrqa, narrativeqa or any dataset with the columns of one of them.

    The arguments are those of `hub_rows`. Raises `DataError` as it does, and for rows that are not as their format
    has them.
    """
    rows = hub_rows(name, split, part, pinned=pinned)
    return from_rows(rows, f"{name}[{split}]", unanswerable=unanswerable)


def hub_rows(name: str, split: str, part: str = "", *, pinned: HubDataset | None = None) -> datasets.Dataset:
    """The rows of ``split`` of a dataset on the Hub, or of a folder of files, whatever their columns.

    ``pinned`` is what the preset says of the dataset: this revision is loaded, and columns and numbers of rows have to
    be as it says. ``part`` names a configuration, or, of a dataset of which the preset lists subsets, the rows whose
    column ``subset`` has this value, as mrqa's has (SQuAD, NewsQA, …). Raises `DataError` where all that is not there,
    and wherever `datasets.load_dataset` fails.
    """
    config, subset = (None, part or None) if pinned and pinned.subsets else (part or None, None)
    known = _configuration(pinned, name, split, config, subset) if pinned else None
    chosen: dict[str, str | None] = {"name": config, "revision": pinned and pinned.revision}
    if config and chosen["revision"] == PARQUET_COPY:
        chosen |= {"name": None, "data_dir": config}  # there a configuration is a folder, and no card names it
    try:
        rows = datasets.load_dataset(name, split=split, **chosen)
    except Exception as error:  # whatever network, caches, files and pyarrow raise passes through it
        raise DataError(_refusal(error, name, split, config)) from error
    if pinned and known:
        _check_revision(rows, name, pinned.revision)
        _check(name, "the columns", ", ".join(sorted(known.columns)), ", ".join(sorted(rows.column_names)))
        _check(name, f"rows of split {split!r}:", f"{known.rows[split]:,}", f"{len(rows):,}")
    if subset is not None:
        there = rows.unique("subset") if "subset" in rows.column_names else []
        if subset not in there:
            raise DataError(f"{name}[{split}] has no subset {subset!r}; it has {', '.join(there) or 'none'}")
        rows = rows.filter(lambda value: value == subset, input_columns="subset")
        if pinned:
            _check(name, f"rows of {subset} in {split!r}:", f"{pinned.subsets[subset][split]:,}", f"{len(rows):,}")
    return rows


def _configuration(pinned: HubDataset, name: str, split: str, config: str | None, subset: str | None) -> Configuration:
    """What ``pinned`` says of ``config``; without a name, of its only configuration."""
    several = pinned.configurations
    wanted = config or next(iter(several))
    if wanted not in several or (config is None and len(several) > 1):
        raise DataError(
            f"{name}: no configuration {config!r}; name one of {', '.join(several)}, as {name}:{next(iter(several))}"
        )
    parts = {f"configuration {wanted}": several[wanted].rows}
    if subset is not None:
        if subset not in pinned.subsets:
            raise DataError(f"{name}: no subset {subset!r}; the preset has {', '.join(pinned.subsets) or 'none'}")
        parts[f"subset {subset}"] = pinned.subsets[subset]
    for part, rows in parts.items():
        if split not in rows:
            raise DataError(f"{name}: {part} has no split {split!r}; the preset has {', '.join(rows)}")
    return several[wanted]


def _check_revision(rows: datasets.Dataset, name: str, revision: str) -> None:
    """Without the Hub, `datasets` takes the latest revision in its cache, whichever was asked for."""
    came = {Path(file["filename"]).parent.name for file in rows.cache_files}
    if other := [one for one in came if re.fullmatch("[0-9a-f]{40}", one) and one != revision != PARQUET_COPY]:
        raise DataError(
            f"{name}: expected revision {revision}, as the preset says, but only {other[0]} is in the cache of "
            "`datasets`; connect to the network and run again"
        )


def _check(name: str, what: str, expected: str, found: str) -> None:
    if found != expected:
        raise DataError(
            f"{name}: expected {what} {expected}, as the preset says, found {found}; it is not the data that the "
            f'preset means: name the right revision at downloads."{name}", or correct what it expects'
        )


def _refusal(error: Exception, name: str, split: str, config: str | None) -> str:
    """What `datasets.load_dataset` raised, in one line, and what to do."""
    chain: list[BaseException] = [error]
    while cause := chain[-1].__cause__:
        chain.append(cause)

    def raised(*kinds: type) -> bool:
        return any(isinstance(link, kinds) for link in chain)

    # "An error occurred while generating the dataset" is all that a DatasetGenerationError says itself.
    said = " ".join(str(chain[-1] if isinstance(error, DatasetGenerationError) else error).split())[:300]
    if isinstance(error, RuntimeError) and "script" in str(error):
        return (
            f"{name}: it is a loading script, which `datasets` runs no more; the Hub's copy of it as parquet files is "
            f'another revision: write revision = "{PARQUET_COPY}" at downloads."{name}" in the preset, with '
            "columns and rows below it, as paper.toml does for stanfordnlp/squad_adversarial"
        )
    if raised(GatedRepoError) or (raised(DatasetNotFoundError) and "gated dataset" in said):
        page = f"https://huggingface.co/datasets/{name}"
        return f"{name}: the dataset is gated; accept its terms at {page} and log in with `hf auth login`"
    if raised(DatasetNotFoundError):
        return f"{name}: {said} Correct the name or the revision, or log in with `hf auth login`"
    if raised(ConnectionError, TimeoutError) or {type(link).__module__.split(".")[0] for link in chain} & _CLIENTS:
        return (
            f"{name}: the Hub cannot be reached and the dataset is not in its cache ({said}); "
            "connect to the network, or download the files and load them from disk"
        )
    if raised(ArrowException, DatasetBuildError, SplitsVerificationError, ChecksumVerificationError):
        return (
            f"{name}: its files cannot be read ({said}); delete its folders below {datasets.config.HF_DATASETS_CACHE} "
            f"and {HF_HUB_CACHE} and run again; if that does not help, they are broken where they come from"
        )
    if raised(ValueError, FileNotFoundError):
        place = f"{name}, split {split!r}, configuration {config!r}"
        or_list = f', or list it at downloads."{name}".subsets, where rows have it in a column subset' if config else ""
        return f"{place}: {said}; correct the name that does not exist{or_list}"
    return f"{name}: it cannot be loaded: {type(error).__name__}: {said}; mend that and run again"
