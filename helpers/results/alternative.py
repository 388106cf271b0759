"""What a record's figure shows, in words: the text that stands for the picture where it cannot be seen."""

from helpers.results import comparisons, tables
from helpers.results.records import Record, row_label


def text(record: Record) -> str:
    """Kind, title and numbers of a record's figure, from the same estimates that it is drawn from."""
    shown = DESCRIPTIONS.get(record.kind)
    return f"{record.title}. {shown(record)}" if shown else record.title


def _differences(record: Record) -> str:
    first = comparisons.by_metric(record)[0]
    baseline, digits = tables.baselines(first)[0], tables.decimals(first)
    found = comparisons.differences(first, baseline)
    headline = next((claim.columns for claim in record.claims if claim.primary and claim.columns), ())
    column = next((name for name in headline if name in found), found.columns[-1])
    said = (f"{row} {tables.signed(cell.mean, digits)}" for row, cell in found[column].items() if cell is not None)
    return f"Differences to {baseline} in {first.unit}, {column}: {', '.join(said)}."


def _levels(record: Record) -> str:
    first = comparisons.by_metric(record)[0]
    digits, lines = tables.decimals(first), []
    for row, cells in comparisons.estimates(first).iterrows():
        values = (f"{name} {cell.mean:.{digits}f}" for name, cell in cells.items() if cell is not None)
        lines.append(f"{row}: {', '.join(values)}")
    return f"{first.unit}. {'; '.join(lines)}."


def _curve(record: Record) -> str:
    first = comparisons.by_metric(record)[0]
    digits, lines = tables.decimals(first), []
    along = (record.payload or {}).get("x", "x")
    for column, cells in comparisons.estimates(first).items():
        for method in dict.fromkeys(score.method for score in first.scores):
            of_method = {score.x: row_label(score) for score in first.scores if score.method == method}
            points = {x: cells[row] for x, row in sorted(of_method.items(), key=lambda pair: pair[0] or 0)}
            values = [
                f"{cell.mean:.{digits}f}{'' if x is None else f' at {x:g}'}" for x, cell in points.items() if cell
            ]
            lines.append(f"{method}, {column}: {' to '.join(values[:1] + values[1:][-1:])}")
    return f"{first.unit} against {along}. {'; '.join(lines)}."


def _matrix(record: Record) -> str:
    others = [score for score in record.scores if score.method != score.column]
    most = max(others, key=lambda score: score.value)
    return f"The largest of {len(others)} weights is {most.value:.2f}, of {most.column} for {most.method}."


def _heatmaps(record: Record) -> str:
    return f"Heat maps in {record.unit}: {', '.join(record.payload['panels'])}."


def _case(record: Record) -> str:
    said = (f"{name} distillation the reader says “{of['answer']}”" for name, of in record.payload["readers"].items())
    return f"Attention maps; {', and '.join(said)}."


def _profile(record: Record) -> str:
    return f"Histograms of lengths, and shares of question words, of {', '.join(record.payload['sizes'])}."


DESCRIPTIONS = {
    "table": _differences,
    "bars": _levels,
    "curve": _curve,
    "matrix": _matrix,
    "heatmaps": _heatmaps,
    "case": _case,
    "profile": _profile,
}
