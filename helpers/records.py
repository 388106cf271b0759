"""Results as records: raw scores, one per seed, what the paper prints, what it claims, and how the scores were made.

A record is one JSON file. Means, intervals and verdicts are computed on reading (``helpers.results.stats``).
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from helpers import paths
from helpers.errors import UserError
from helpers.files import json_rows, write_whole

Cell = tuple[str, str, int]  # method, column and seed
Name = Annotated[str, Field(pattern=r"^[^|\n]+$")]  # "|" ends a cell of a Markdown table


def optional(default: Any) -> Any:
    """Declare a field that a file leaves out where it has its default."""
    return Field(default=default, exclude_if=lambda value: value == default)


class RecordError(UserError):
    """A record that cannot be used; the message names file and field and says what to do."""


class Strict(BaseModel):
    """The base of all parts of a record: no type is converted, no field unknown, no number infinite."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Number(Strict):
    """A value in a table. ``x`` is its position on a curve; ``metric`` is needed where a record has several."""

    method: Name
    column: Name
    value: Annotated[float, AfterValidator(lambda value: round(value, 6))]
    x: float | None = optional(None)
    metric: str | None = optional(None)

    @property
    def row(self) -> str:
        """The method, and the position where it is on a curve."""
        return self.method if self.x is None else f"{self.method}, {self.x:g}"


class Printed(Number):
    """A number from the paper; ``text`` is its printed form where that is in another unit."""

    text: str | None = optional(None)


class Score(Number):
    seed: Annotated[int, Field(ge=0)]


class Claim(Strict):
    """A statement, tested on our scores: row ``above`` is above row ``below``.

    Both are averaged over ``columns`` of the record's first metric. With ``than``, their difference has to exceed that
    of those two rows, averaged over ``than_columns``, or is a ``share`` of it, in percent.
    """

    text: str
    above: Name
    below: Name
    columns: list[Name] = optional([])  # empty: all
    than: Annotated[list[Name], Field(max_length=2)] = optional([])
    than_columns: list[Name] = optional([])
    share: bool = optional(False)
    within: Annotated[float, Field(gt=0)] | None = optional(None)  # the two rows are at most that far apart
    primary: bool = optional(False)  # the paper's headline, at most one per record
    control: bool = optional(False)  # a claim that is not in the paper
    beside: bool = optional(False)  # what reports show beside the headlines
    printed: float | None = optional(None)  # the paper's difference where it is not that of the same rows and columns
    printed_for: str = optional("")  # the condition of the paper's number where it differs
    untested: str = optional("")  # what its scores lack for a test


class Run(Strict):
    """How a result was made."""

    commit: str
    dirty: bool  # whether the code differed from the commit's
    device: str
    versions: dict[str, str]
    seconds: Annotated[float, Field(ge=0)]
    training_seconds: Annotated[float, Field(ge=0)] | None = None  # of all trainings, cached ones too
    parameters: dict[str, JsonValue]
    digests: dict[str, str] = optional({})  # of the encoder, and of each domain's examples where all seeds share them
    deterministic: bool | None = optional(None)  # whether a GPU's run repeats its digits; None on a CPU, which does

    @property
    def processor(self) -> str:
        """The device without its number of threads."""
        return self.device.partition(",")[0]


class Record(Strict):
    """One table, figure or case study."""

    artefact: Annotated[str, Field(pattern=r"^[a-z0-9_]+/[a-z0-9_]+$")]
    kind: Literal["table", "bars", "curve", "scatter", "matrix", "heatmaps", "case", "profile"] = "table"
    preset: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*(\+[\w.=,-]+)?$")]
    title: str
    unit: str
    notes: list[str] = optional([])
    average: bool = optional(True)  # whether a mean over the columns is meaningful
    baselines: list[Name] = optional([])  # methods that others are compared with; the first in the figure
    compared_with: dict[Name, Name] = optional({})  # by method its baseline in the figure, where that is not the first
    untaught: Name | None = optional(None)  # one reader without a teacher: a baseline below it has failed
    claims: list[Claim] = optional([])
    untested: str = optional("")  # what the regime lacks to test the claims
    outdated: str = optional("")  # why the code of today would score ``outdated_rows`` otherwise, until they run again
    outdated_rows: list[Name] = optional([])
    scores: list[Score] = []
    paper: list[Printed] = []
    payload: dict[str, JsonValue] | None = optional(None)
    run: Run
    later_runs: list[Run] = optional([])  # which added seeds
    draws: dict[str, str] = optional({})  # fingerprints by seed, where every seed draws its own data
    passages: dict[str, list[float]] = optional({})  # 95 % intervals over test passages, by a claim's text

    @property
    def paper_key(self) -> str:
        """The folder of the records of its paper."""
        return self.artefact.partition("/")[0]

    @property
    def label(self) -> str:
        """The title up to its colon, such as "HRKD, Table 2"."""
        return self.title.partition(":")[0]

    @property
    def subject(self) -> str:
        """The title behind its colon, or all of it."""
        return self.title.partition(": ")[2] or self.title

    @property
    def rows(self) -> list[str]:
        """The rows that have a score, in order."""
        return list(dict.fromkeys(score.row for score in self.scores))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(score.column for score in self.scores))

    @property
    def seeds(self) -> list[int]:
        return sorted({score.seed for score in self.scores})

    def setting(self, section: str, name: str) -> Any:
        """Return a setting of the preset that the record was made with."""
        return self.run.parameters["preset"][section][name]

    def by_metric(self) -> list[Self]:
        """Return a record per metric of the scores, in order, with that metric as its unit."""
        parts = []
        for metric in dict.fromkeys(score.metric for score in self.scores):
            scores = [score for score in self.scores if score.metric == metric]
            paper = [number for number in self.paper if metric is None or number.metric in (None, metric)]
            parts.append(self.model_copy(update={"unit": metric or self.unit, "scores": scores, "paper": paper}))
        return parts

    @model_validator(mode="after")
    def _check(self) -> Self:
        cells = Counter((score.row, score.column, score.seed, score.metric) for score in self.scores)
        for (row, column, seed, _), number in cells.items():
            if number > 1:
                raise ValueError(f"scores has {number} numbers for {row}, {column}, seed {seed}; expected one")
        baselines = {*self.baselines, *self.compared_with.values()}
        for field, names in {"baselines": baselines, "untaught": {self.untaught} - {None}}.items():
            if unknown := names - {score.method for score in self.scores}:
                raise ValueError(f"{field} names {unknown.pop()!r}, but no score is of that method")
        for claim in self.claims:
            if unknown := {claim.above, claim.below, *claim.than} - {*self.rows}:
                raise ValueError(f"claims: {claim.text!r} is about {unknown.pop()!r}, but no score is of that row")
        if sum(claim.primary for claim in self.claims) > 1:
            raise ValueError("claims has several primary ones; a record has one headline")
        return self


def make_scores(examples: dict[Cell, Sequence[float]], metric: str | None = None) -> list[Score]:
    """Return the mean of each cell's examples as a score."""
    return [
        Score(method=method, column=column, seed=seed, value=float(np.mean(values)), metric=metric)
        for (method, column, seed), values in examples.items()
    ]


def write(record: Record) -> Path:
    """Write a record to its place under results/ in one step."""
    path = paths.record(record.preset, record.artefact)
    write_whole(path, json_rows(record.model_dump()) + "\n")
    return path


def read(path: str | Path) -> Record:
    """Read one record. Raises RecordError with file, field and what to do."""
    try:
        return Record.model_validate(json.loads(Path(path).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise RecordError(f"{path}: there is no such record yet; run the notebook that writes it") from None
    except ValidationError as error:
        problems = []
        for details in error.errors()[:3]:
            place = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, details["loc"])))
            problems.append(f"{place or 'record'}: {details['msg']}")
    except ValueError as error:
        problems = [f"this is not JSON ({error})"]
    advice = "correct the file, or delete it and run the notebook that writes it"
    raise RecordError("; ".join([f"{path}: {problems[0]}", *problems[1:], advice]))


def read_all(preset: str, paper: str = "*") -> list[Record]:
    """Read all records of a preset, or those of a paper, by name. Empty when nothing has run yet."""
    files = paths.find_results(preset, f"{paper}/*.json")
    return [read(file) for file in files if file.parent.name not in ("models", "notebooks")]
