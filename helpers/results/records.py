"""A result is a record: raw scores, one per run, beside what the paper prints and how the run was made.

Means, intervals and tests are computed on reading (``helpers.statistics``), never stored.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, Field, JsonValue, ValidationError, model_validator

from helpers import paths
from helpers.results.provenance import Run, STRICT

# The order of the papers, and within a paper the order in which its results are read; others follow by name.
ORDER = {
    "corpora": ["overview"],
    "imm": ["similarity", "table1", "figure3", "table2", "table3"],
    "a2d": ["table1", "table2", "table4", "table5", "figure4", "figure4_addsent", "weights", "figure3", "table3"],
    "hrkd": [],
    "mtdnn_kd": [],
    "mtdnn": [],
}
WIDTH = 118  # characters; what fits stays on one line of the file

Name = Annotated[str, Field(pattern=r"^[^|\n]+$")]  # "|" separates the parts of an example key
Value = Annotated[float, AfterValidator(lambda value: round(value, 6))]
Tenth = Annotated[float, AfterValidator(lambda value: round(value, 1))]


class RecordError(ValueError):
    """A record that cannot be used; the message names file and field and says what to do."""


class Printed(BaseModel):
    """One number as the paper prints it."""

    model_config = STRICT
    method: Name
    column: Name
    value: Value
    x: float | None = None
    metric: str | None = None


class Score(BaseModel):
    """One number of one run. ``x`` is the position on a curve; ``metric`` is needed where a record has several."""

    model_config = STRICT
    method: Name
    column: Name
    seed: Annotated[int, Field(ge=0)]
    value: Value
    x: float | None = None
    metric: str | None = None


class Claim(BaseModel):
    """What a paper says of its result, to be held against ours: one row is above another, on average over ``columns``
    (all, if none is named), by more than ``times`` what the two rows ``than`` are apart on average over
    ``than_columns``. Where a record has several metrics, the first is meant."""

    model_config = STRICT
    text: str
    above: Name
    below: Name
    columns: list[Name] = []
    than: Annotated[list[Name], Field(max_length=2)] = []
    than_columns: list[Name] = []
    times: float = 1.0


class Record(BaseModel):
    """One table, figure or case study.

    ``average`` says whether a mean over the columns means anything. ``baselines`` are methods that the others are
    compared with, ``claims`` what the paper says. ``examples`` holds, for ``method|column|seed``, each example's score
    in ``unit`` to one decimal, so that intervals can be over examples as well; the examples of a column stand in the
    same order everywhere, and ``examples_of`` has the fingerprint of their ids.
    """

    model_config = STRICT
    artefact: Annotated[str, Field(pattern=r"^[a-z0-9_]+/[a-z0-9_]+$")]
    preset: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")]
    title: str
    unit: str
    notes: list[str] = []
    average: bool = True
    baselines: list[Name] = []
    claims: list[Claim] = []
    scores: list[Score] = []
    paper: list[Printed] = []
    payload: dict[str, JsonValue] | None = None
    run: Run
    examples_of: dict[str, str] = {}
    examples: dict[str, list[Tenth]] = {}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        values: dict[tuple, float] = {}
        for score in self.scores:
            key = (score.method, score.column, score.seed, score.x, score.metric)
            if key in values:
                raise ValueError(f"scores has two rows for {score.method}, {score.column}, seed {score.seed}")
            values[key] = score.value
        for baseline in self.baselines:
            if all(score.method != baseline for score in self.scores):
                raise ValueError(f"baselines names {baseline!r}, but no score is of that method")
        rows = {row_label(score) for score in self.scores}
        for claim in self.claims:
            for row in (claim.above, claim.below, *claim.than):
                if row not in rows:
                    raise ValueError(f"claims: {claim.text!r} is about {row!r}, but no score is of that row")
        lengths: dict[str, int] = {}
        for key, scores in self.examples.items():
            method, column, seed = [*key.split("|"), "", ""][:3]
            if column not in self.examples_of:
                raise ValueError(f"examples has {key!r}, but examples_of has no fingerprint for column {column!r}")
            if not scores or lengths.setdefault(column, len(scores)) != len(scores):
                raise ValueError(f"examples[{key!r}] has {len(scores)} values, others of its column {lengths[column]}")
            rows = [(method, column, seed, None, metric) for metric in (None, self.unit)]
            found = [value for row, value in values.items() if (*row[:2], str(row[2]), *row[3:]) in rows]
            if not found:
                raise ValueError(f"examples has {key!r}, but scores has no such row; keys are method|column|seed")
            if abs(sum(scores) / len(scores) - found[0]) > 0.06:  # each is rounded by at most 0.05
                raise ValueError(f"examples[{key!r}] averages {sum(scores) / len(scores):.2f}, its score {found[0]}")
        return self


def row_label(score: Score | Printed) -> str:
    """A row's name: the method, and the position where it is on a curve."""
    return score.method if score.x is None else f"{score.method}, {score.x:g}"


def example_key(method: str, column: str, seed: int) -> str:
    """The key of one run's row in ``Record.examples``."""
    return f"{method}|{column}|{seed}"


def scored(values: dict[tuple[str, str, int], Sequence[float]], metric: str | None = None) -> dict[str, Any]:
    """The parts ``scores``, each the mean of its examples, and ``examples`` of a record, from the examples' scores by
    method, column and seed."""
    scores = [
        Score(method=method, column=column, seed=seed, value=float(np.mean(each)), metric=metric)
        for (method, column, seed), each in values.items()
    ]
    return {"scores": scores, "examples": {example_key(*key): list(map(float, each)) for key, each in values.items()}}


def fingerprint(ids: list[str]) -> str:
    """Sixteen hex digits that stand for these ids in this order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]


def printed(artefact: str) -> list[Printed]:
    """The paper's own numbers for an artefact such as ``imm/table1``; empty where it prints none."""
    with open(paths.PRESETS / "paper_results.toml", "rb") as file:
        table = tomllib.load(file).get(artefact)
    if table is None:
        return []
    return [
        Printed(method=method, column=column, value=value, metric=part["metric"])
        for part in (table if isinstance(table, list) else [table])
        for method, values in part["rows"].items()
        for column, value in zip(part["columns"], values, strict=True)
    ]


def write(record: Record) -> Path:
    """Write a record to its place under results/ in one step, so that a killed run never leaves half a file."""
    content = record.model_dump()
    for part in ("scores", "paper"):
        content[part] = [{k: v for k, v in row.items() if v is not None} for row in content[part]]
    content["examples"] = {k: [int(v) if v == int(v) else v for v in vs] for k, vs in record.examples.items()}
    content["claims"] = [claim.model_dump(exclude_defaults=True) for claim in record.claims]
    if record.average:
        del content["average"]
    empty = [key for key in ("notes", "baselines", "claims", "payload", "examples_of", "examples") if not content[key]]
    text = _layout({key: value for key, value in content.items() if key not in empty}) + "\n"
    path = paths.record(record.preset, record.artefact)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # mkstemp makes files that only their owner can read
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error}; free some space and run again") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def read(path: str | Path) -> Record:
    """Read one record. Raises RecordError with file, field and what to do."""
    remedy = "correct the file, or delete it and run the notebook that writes it"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecordError(f"{path}: there is no such record yet; run the notebook that writes it") from None
    try:
        return Record.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        problems = f"line {error.lineno}, column {error.colno} is not JSON ({error.msg})"
    except ValidationError as error:
        found = [f"{_field(item['loc'])}: {item['msg']}" for item in error.errors()]
        problems = "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
    raise RecordError(f"{path}: {problems}; {remedy}")


def read_all(preset: str | Path) -> list[Record]:
    """All records of a preset, in the order of the papers. Empty when nothing has run yet."""
    found = paths.results(preset).glob("*/*.json")
    ours = (path for path in found if path.parent not in (paths.models(preset), paths.notebooks(preset)))
    return sorted((read(path) for path in ours), key=lambda record: _rank(record.artefact))


def _rank(artefact: str) -> tuple:
    paper, name = artefact.split("/")
    known = ORDER.get(paper, [])
    first = list(ORDER).index(paper) if paper in ORDER else len(ORDER)
    return first, paper, known.index(name) if name in known else len(known), name


def _field(location: tuple) -> str:
    """('scores', 3, 'value') -> scores[3].value"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "record"


def _layout(value: Any, indent: int = 0, row: bool = False) -> str:
    """JSON that reads well in a diff: what is short, a row of a list or a list of plain values takes one line."""
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    plain = not any(isinstance(item, dict | list) for item in nested)
    if indent + len(flat) <= WIDTH or (plain and row):
        return flat
    if plain and not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    gap = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        items = (f"{json.dumps(key, ensure_ascii=False)}: {_layout(item, indent + 1)}" for key, item in value.items())
        return "{" + gap + f",{gap}".join(items) + gap[:-1] + "}"
    return "[" + gap + f",{gap}".join(_layout(item, indent + 1, row=True) for item in value) + gap[:-1] + "]"
