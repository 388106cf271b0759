"""A result is a record: raw scores, one per run, beside what the paper prints and how the run was made.

Means, intervals and tests are computed on reading (``helpers.results.comparisons``), never stored.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, JsonValue, PlainSerializer, ValidationError, model_validator

from helpers import paths
from helpers.files import fingerprint, json_rows, write_whole
from helpers.presets.schema import Limit
from helpers.results.provenance import STRICT, Run

Cell = tuple[str, str, int]  # method, column and seed


def optional(default: Any) -> Any:
    """A field that a file leaves out where it has its default."""
    return Field(default=default, exclude_if=lambda value: value == default)


Name = Annotated[str, Field(pattern=r"^[^|\n]+$")]  # "|" separates the parts of an example key
Value = Annotated[float, AfterValidator(lambda value: round(value, 6))]
Tenth = Annotated[
    float,
    AfterValidator(lambda value: round(value, 1)),
    PlainSerializer(lambda value: int(value) if value.is_integer() else value),
]
# What it is drawn as; heatmaps show tables of numbers, a case what readers do with an example, a profile corpora.
Kind = Literal["table", "bars", "curve", "scatter", "matrix", "heatmaps", "case", "profile"]

PROFILE = ("sizes", "passage_lengths", "question_lengths", "question_words")


class RecordError(ValueError):
    """A record that cannot be used; the message names file and field and says what to do."""


class Printed(BaseModel):
    """One number of the paper's, and ``text``, where it prints that in another unit."""

    model_config = STRICT
    method: Name
    column: Name
    value: Value
    text: str | None = optional(None)
    x: float | None = optional(None)
    metric: str | None = optional(None)


class Score(BaseModel):
    """One number of one run. ``x`` is the position on a curve; ``metric`` is needed where a record has several."""

    model_config = STRICT
    method: Name
    column: Name
    seed: Annotated[int, Field(ge=0)]
    value: Value
    x: float | None = optional(None)
    metric: str | None = optional(None)


class Claim(BaseModel):
    """What a paper says of its result, to be held against ours: one row is above another, on average over ``columns``
    (all, if none is named), by more than ``times`` what the two rows ``than`` are apart on average over
    ``than_columns``; or the two are no more than ``within`` apart; of several metrics in the first. ``primary`` is the
    paper's headline, one of a record at most; a ``control`` is ours."""

    model_config = STRICT
    text: str
    above: Name
    below: Name
    columns: list[Name] = optional([])
    than: Annotated[list[Name], Field(max_length=2)] = optional([])
    than_columns: list[Name] = optional([])
    times: float = optional(1.0)
    within: Annotated[float, Field(gt=0)] | None = optional(None)
    primary: bool = optional(False)
    control: bool = optional(False)
    printed_for: str = optional("")  # what the paper's number is of, where it is not of the same


class Record(BaseModel):
    """One table, figure or case study.

    ``average`` says whether a mean over the columns means anything. ``baselines`` are methods that the others are
    compared with, ``claims`` what the paper says, ``limits`` what was less because there was no GPU. ``examples``
    holds, for ``method|column|seed``, each example's score in ``unit`` to one decimal, so that intervals can be over
    examples as well; the examples of a column stand in the same order everywhere, and ``examples_of`` has the
    fingerprint of their ids. Where every seed draws examples of its own, ``draws`` names them, by seed; where the test
    examples are among them, there are none of these two.
    """

    model_config = STRICT
    artefact: Annotated[str, Field(pattern=r"^[a-z0-9_]+/[a-z0-9_]+$")]
    kind: Kind = "table"
    preset: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*(\+[\w.=,-]+)?$")]
    title: str
    unit: str
    notes: list[str] = optional([])
    average: bool = optional(True)
    baselines: list[Name] = optional([])
    claims: list[Claim] = optional([])
    scores: list[Score] = []
    paper: list[Printed] = []
    payload: dict[str, JsonValue] | None = optional(None)
    run: Run
    limits: list[Limit] = optional([])
    draws: dict[str, str] = optional({})
    examples_of: dict[str, str] = optional({})
    examples: dict[str, list[Tenth]] = optional({})

    @property
    def label(self) -> str:
        """The title up to its colon, such as "HRKD, Table 2"."""
        return self.title.partition(":")[0]

    @model_validator(mode="after")
    def _kind_fits(self) -> Self:
        payload, rows = self.payload or {}, {score.method for score in self.scores}
        places = [score.x for score in self.scores if score.x is not None]
        if payload.get("scale", "log") != "log" or ("scale" in payload and min(places, default=1) <= 0):
            raise ValueError("payload: scale can only be 'log', and only where every x is above 0")
        needs = {
            "curve": ("a score with x", places),
            "scatter": ("scores of two metrics", len({score.metric for score in self.scores}) == 2),
            "matrix": ("the same rows as columns", rows == {score.column for score in self.scores} != set()),
            "heatmaps": ("panels of rows of numbers in its payload", _are_tables(payload.get("panels"))),
            "case": ("readers in its payload", payload.get("readers")),
            "profile": (f"{', '.join(PROFILE)} in its payload", all(payload.get(part) for part in PROFILE)),
        }
        if self.kind in needs and not needs[self.kind][1]:
            raise ValueError(f"kind is {self.kind!r}, which needs {needs[self.kind][0]}")
        return self

    @model_validator(mode="after")
    def _rows_are_known(self) -> Self:
        keys = Counter((score.method, score.column, score.seed, score.x, score.metric) for score in self.scores)
        for (method, column, seed, *_), number in keys.items():
            if number > 1:
                raise ValueError(f"scores has two rows for {method}, {column}, seed {seed}")
        for baseline in self.baselines:
            if all(score.method != baseline for score in self.scores):
                raise ValueError(f"baselines names {baseline!r}, but no score is of that method")
        if len(chief := [claim for claim in self.claims if claim.primary]) > 1 or any(claim.control for claim in chief):
            raise ValueError("claims has several primary ones, or one of ours; a record has one headline, the paper's")
        rows = {row_label(score) for score in self.scores}
        for claim in self.claims:
            for row in (claim.above, claim.below, *claim.than):
                if row not in rows:
                    raise ValueError(f"claims: {claim.text!r} is about {row!r}, but no score is of that row")
        return self

    @model_validator(mode="after")
    def _examples_fit(self) -> Self:
        plain = [score for score in self.scores if score.x is None and score.metric in (None, self.unit)]
        means = {example_key(score.method, score.column, score.seed): score.value for score in plain}
        lengths: dict[str, int] = {}
        for key, values in self.examples.items():
            if key not in means:
                raise ValueError(f"examples has {key!r}, but scores has no such row; keys are method|column|seed")
            column, number = key.split("|")[1], len(values)
            if column not in self.examples_of:
                raise ValueError(f"examples has {key!r}, but examples_of has no fingerprint for column {column!r}")
            if lengths.setdefault(column, number) != number or not values:
                raise ValueError(f"examples[{key!r}] has {number} values, others of its column {lengths[column]}")
            if abs(sum(values) / number - means[key]) > 0.06:  # each is rounded by at most 0.05
                raise ValueError(f"examples[{key!r}] averages {sum(values) / number:.2f}, its score {means[key]}")
        return self


def row_label(score: Score | Printed) -> str:
    """A row's name: the method, and the position where it is on a curve."""
    return score.method if score.x is None else f"{score.method}, {score.x:g}"


def example_key(method: str, column: str, seed: int) -> str:
    """The key of one run's row in ``Record.examples``."""
    return f"{method}|{column}|{seed}"


def scored(
    examples: dict[Cell, Sequence[float]], ids: dict[tuple[str, int], Sequence[str]], metric: str | None = None
) -> dict[str, Any]:
    """Parts of a record from the examples' scores by method, column and seed, and their ``ids`` by column and seed:
    ``scores``, each the mean of its examples; with ``examples`` and ``examples_of`` where seeds have the same examples,
    as only then one can be compared over seeds."""
    parts: dict[str, Any] = {"scores": []}
    for (method, column, seed), values in examples.items():
        score = Score(method=method, column=column, seed=seed, value=float(np.mean(values)), metric=metric)
        parts["scores"].append(score)
    names = {(column, fingerprint(*of_seed)) for (column, _), of_seed in ids.items()}
    if len(names) == len({column for column, _ in names}):
        parts["examples"] = {example_key(*key): [*map(float, values)] for key, values in examples.items()}
        parts["examples_of"] = dict(sorted(names, key=lambda name: [column for column, _ in ids].index(name[0])))
    return parts


def printed(artefact: str) -> list[Printed]:
    """The paper's own numbers for an artefact such as ``imm/table1``; empty where it prints none."""
    table = tomllib.loads((paths.PRESETS / "paper_results.toml").read_text(encoding="utf-8")).get(artefact, [])
    found = []
    for part in table if isinstance(table, list) else [table]:
        for method, values in part["rows"].items():
            texts = part.get("texts", {}).get(method, [None] * len(values))
            for column, value, text in zip(part["columns"], values, texts, strict=True):
                found.append(Printed(method=method, column=column, value=value, metric=part["metric"], text=text))
    return found


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
    except json.JSONDecodeError as error:
        problems = f"line {error.lineno}, column {error.colno} is not JSON ({error.msg})"
    except ValidationError as error:
        fields = [re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, item["loc"]))) for item in error.errors()]
        texts = [f"{name or 'record'}: {item['msg']}" for name, item in zip(fields, error.errors(), strict=True)]
        problems = "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")
    raise RecordError(f"{path}: {problems}; correct the file, or delete it and run the notebook that writes it")


def read_all(preset: str | Path, papers: Sequence[Any] = ()) -> list[Record]:
    """All records of a preset in the order of ``papers`` (by ``key``) and of their ``artefacts`` (by ``name``), others
    after them by name. Empty when nothing has run yet."""
    order = [name for paper in papers for name in (paper.key, *(f"{paper.key}/{a.name}" for a in paper.artefacts))]

    def rank(record: Record) -> list[tuple[int, str]]:
        names = record.artefact.split("/")[0], record.artefact
        return [(order.index(name) if name in order else len(order), name) for name in names]

    files = paths.results(preset).glob("*/*.json")
    ours = (path for path in files if path.parent not in (paths.models(preset), paths.notebooks(preset)))
    return sorted(map(read, ours), key=rank)


def _are_tables(panels: JsonValue, depth: int = 3) -> bool:
    """Whether ``panels`` are ``{title: {row: {column: number}}}``, nothing in them empty."""
    if not depth:
        return isinstance(panels, int | float)
    return isinstance(panels, dict) and bool(panels) and all(_are_tables(part, depth - 1) for part in panels.values())
