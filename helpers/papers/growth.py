"""When a method helps: tables against the number of training examples, from the records of several presets."""

from collections.abc import Iterator

import numpy as np

from helpers import paths
from helpers.data.sections import load
from helpers.papers.card import Paper
from helpers.presets.schema import Preset
from helpers.results import comparisons, records, summary
from helpers.results.records import Record, RecordError, Score


def growth(paper: Paper, presets: list[str]) -> dict:
    """Parts of a record: the rows that the claims of a paper's tables compare, by the number of training examples in
    each of ``presets`` that has the table, if all of these have the row; averaged over columns where that means
    something. Raises RecordError where none has, or no row is in all."""
    scores, notes, unit, known = [], [], "", [*_sized(paper, paper.growth, presets)]
    for record, number in known:
        first = next(iter(comparisons.by_metric(record)))
        everywhere = set.intersection(*({*comparisons.rows(of)} for of, _ in known if of.label == record.label))
        scores += _points(first, number, everywhere)
        size = f"{number:,} training examples a domain or task on average, {summary.seeds([record])}"
        notes.append("; ".join([f"{record.label}, preset {record.preset}: {size}", *record.notes[:1]]))
        unit = first.unit
    if not scores:
        raise RecordError(f"{paper.key}: the presets {', '.join(presets)} have no row in common that a claim compares")
    payload = {"x": "training examples of a domain or task, on average", "scale": "log"}
    title = f"{paper.title.partition(':')[0]}: {unit} by the number of training examples"
    parts = {"title": title, "kind": "curve", "unit": unit, "average": False, "payload": payload}
    return {**parts, "scores": scores, "notes": notes, "draws": {}}  # the records that it is made of name theirs


def regimes(paper: Paper, presets: list[str]) -> dict:
    """Parts of a record: a paper's scatters of all ``presets`` that have them together. A line is a number of training
    examples, and what a record's title says beyond the first's, a column what was a row, with its average over the
    domains. Raises RecordError where none has any."""
    scores, title = [], ""
    for record, number in _sized(paper, paper.regimes, presets):
        title = title or record.title
        beyond = record.title.partition(":")[0].removeprefix(title.partition(":")[0])
        for metric in comparisons.by_metric(record):
            values: dict[tuple[str, int], list[float]] = {}
            for score in metric.scores:
                values.setdefault((score.method, score.seed), []).append(score.value)
            line = {"method": f"{number:,} training examples a domain{beyond}", "metric": metric.unit}
            scores += [
                Score(column=row, seed=seed, value=float(np.mean(of)), **line) for (row, seed), of in values.items()
            ]
    return {
        "title": f"{title}, by size",
        "kind": "scatter",
        "unit": scores[0].metric,
        "average": False,
        "scores": scores,
        "draws": {},
    }


def _sized(paper: Paper, tables: dict[str, str], presets: list[str]) -> Iterator[tuple[Record, int]]:
    """A paper's records of some tables in all presets, each with its number of training examples."""
    files = [
        (file, section)
        for table, section in tables.items()
        for name in presets
        if (file := paths.record(name, f"{paper.key}/{table}")).exists()
    ]
    if not files:
        raise RecordError(f"{paper.key}: no records in the presets {', '.join(presets)}: run their notebooks first")
    for file, section in files:
        record = records.read(file)
        yield record, training_examples(record, section)


def training_examples(record: Record, section: str) -> int:
    """Those of a domain or task, on average over all of a section of the preset that a record was made with, in its
    first draw."""
    settings = getattr(Preset(**record.run.parameters["preset"]).drawn(0), section)
    return round(np.mean([len(load(settings, name).train) for name in settings.named]))


def _points(record: Record, number: int, everywhere: set[str]) -> Iterator[Score]:
    """Scores of a record's rows that are ``everywhere``, at a number of examples, one a seed that has all columns where
    these are averaged."""
    compared = {row for claim in record.claims for row in (claim.above, claim.below, *claim.than)}
    columns = comparisons.columns(record)
    groups = {record.label: columns} if record.average else {column: [column] for column in columns}
    values = {(score.method, score.column, score.seed): score.value for score in record.scores}
    for method in (row for row in comparisons.rows(record) if row in compared & everywhere):
        for seed in comparisons.seeds(record):
            for column, group in groups.items():
                found = [values[key] for inner in group if (key := (method, inner, seed)) in values]
                if len(found) == len(group):
                    yield Score(method=method, column=column, seed=seed, value=float(np.mean(found)), x=number)
