"""What a preset says of the corpora that it downloads: where each lies, and what has to arrive."""

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from helpers.presets.papers import Settings

FileName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]  # of a file or folder in the cache
PARQUET_COPY = "refs/convert/parquet"  # the branch where the Hub keeps its own copy of a dataset
Rows = dict[str, Annotated[int, Field(ge=1)]]  # by split


class File(Settings):
    """One file by URL. 0 bytes, or no checksum: not known, so not checked."""

    url: str = Field(pattern=r"^https?://")
    bytes: int = Field(0, ge=0)
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    members: dict[FileName, str] = Field(
        {}, description="what is taken out of a .zip or .tar.gz: name here = path inside"
    )


class Originals(Settings):
    """One corpus as its authors' files, by the names that they get here. A split's file bears its name
    (train.jsonl.gz); where none does, all files together hold all splits."""

    rows: Rows
    files: dict[FileName, File] = Field(min_length=1)


class Collection(Settings):
    """Corpora to be had by URL; a preset names one as collection:corpus."""

    corpora: dict[FileName, Originals] = Field(min_length=1)


class Configuration(Settings):
    """One configuration of a dataset on the Hub."""

    rows: Rows
    columns: list[str] = Field(min_length=1)
    bytes: int = Field(0, ge=0, description="of its parquet files; 0: not known")


class HubDataset(Settings):
    """A dataset on the Hub, at one revision; a preset names it as dataset, dataset:configuration or dataset:subset."""

    revision: str = Field(pattern=f"^([0-9a-f]{{40}}|{PARQUET_COPY})$")
    configurations: dict[str, Configuration] = Field(min_length=1)
    subsets: dict[str, Rows] = Field({}, description="rows whose column subset has this value")


def _kind(value: object) -> str:
    return "hub" if isinstance(value, HubDataset) or (isinstance(value, dict) and "revision" in value) else "files"


Download = Annotated[
    Annotated[HubDataset, Tag("hub")] | Annotated[Collection, Tag("files")],
    Discriminator(_kind),
]
