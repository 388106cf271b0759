"""The report of a preset: every result with its table, figure, cost and what it shows, from records alone.

``notebooks/99_report.ipynb`` shows it, ``export`` makes it one HTML page. No sentence about a result is written by
hand: each is computed from the record.
"""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

import nbformat
import pandas as pd
from IPython.display import HTML
from nbconvert import HTMLExporter

from helpers import paths
from helpers.results import claims, figures, records, tables
from helpers.results.records import Record

PAPERS = {
    "corpora": "The corpora",
    "imm": "Liu et al. 2020: iterative multi-source mutual knowledge transfer",
    "a2d": "Hu et al. 2018: attention-guided answer distillation",
    "hrkd": "Dong et al. 2021: hierarchical relational knowledge distillation",
    "mtdnn_kd": "Liu et al. 2019: MT-DNN with knowledge distillation",
    "mtdnn": "He 2019: a multi-task network for SQuAD 2.0",
}

# Only inside the report: in a notebook the rest of the page is not ours to style.
STYLE = """
.results h2 { border-bottom: 1px solid #ccc; margin-top: 2.5rem; }
.results img { max-width: 100%; }
.results .run { color: #666; font-size: 13px; }
.results .tables { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; align-items: flex-start; }
.results table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
.results caption { text-align: left; color: #555; padding-bottom: .3rem; }
.results th, .results td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid #e5e5e5; }
.results td { white-space: nowrap; }
.results th:first-child { text-align: left; }
"""
PAGE = (
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }"
)


def show(preset: str | Path) -> HTML:
    """The whole report for a notebook's cell: all records of a preset, in the order of the papers."""
    found = records.read_all(preset)
    if not found:
        text = f"There are no results of preset {paths.preset_name(preset)!r} yet: run its notebooks first."
        return HTML(f"<p>{escape(text)}</p>")
    pieces, paper = [f"<style>{STYLE}</style>"], None
    for record in found:
        if (here := record.artefact.split("/")[0]) != paper:
            paper = here
            pieces.append(f"<h2>{escape(PAPERS.get(paper, paper))}</h2>")
        pieces.append(section(record))
    return HTML('<div class="results">' + "\n".join(pieces) + "</div>")


def overview(preset: str | Path) -> pd.DataFrame:
    """One row a record: artefact, title, seeds, device, seconds and commit."""
    rows = [
        (r.artefact, r.title, len(seeds(r)), r.run.device, r.run.seconds, _commit(r)) for r in records.read_all(preset)
    ]
    return pd.DataFrame(rows, columns=["artefact", "title", "seeds", "device", "seconds", "commit"])


def section(record: Record) -> str:
    """One result as HTML: title, what it shows, tables, figure, run line. The image is inside."""
    pieces = [f"<h3>{escape(record.title)} <small>({escape(record.artefact)})</small></h3>"]
    pieces += [f"<p>{escape(sentence)}</p>" for sentence in verdict(record)]
    if record.scores and not tables.is_matrix(record):  # a similarity matrix has its numbers in the figure
        pieces += [tables.html(record, metric) for metric in tables.metrics(record)]
    if figures.drawable(record):
        image = base64.b64encode(figures.png(figures.draw(record))).decode()
        pieces.append(f'<p><img alt="{escape(record.title)}" src="data:image/png;base64,{image}"></p>')
    pieces.append(f'<p class="run">{escape(run_line(record))}</p>')
    return "\n".join(pieces)


def run_line(record: Record) -> str:
    """How the result was made, in one line."""
    run, found = record.run, seeds(record)
    memory = [f"{run.peak_memory_mb:,} MiB"] if run.peak_memory_mb else []
    memory += [f"{run.peak_gpu_memory_mb:,} MiB on the GPU"] if run.peak_gpu_memory_mb else []
    trained = [f"trainings {_duration(run.training_seconds)}"] if run.training_seconds is not None else []
    amount = [f"seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"] if found else []
    return " · ".join(
        [f"commit {_commit(record)}", run.device, _duration(run.seconds), *trained, *memory, *amount, *record.notes]
    )


def seeds(record: Record) -> list[int]:
    """The seeds of a record's scores."""
    return sorted({score.seed for score in record.scores})


def verdict(record: Record) -> list[str]:
    """What a record shows, in sentences computed from it: sizes, nearest domains, whether the paper's claims hold, or
    each method against a baseline in the first metric."""
    if sizes := (record.payload or {}).get("sizes"):
        total = sum(parts.get("train", 0) for parts in sizes.values())
        each = ", ".join(f"{name} {parts.get('train', 0):,}" for name, parts in sizes.items())
        return [f"{len(sizes)} domains with {total:,} questions to train on: {each}."]
    if tables.is_matrix(record):
        others = [score for score in record.scores if score.method != score.column]
        best = {score.method: score for score in sorted(others, key=lambda score: score.value)}
        order = dict.fromkeys(score.method for score in others)
        return ["Nearest to " + ", to ".join(f"{x}: {best[x].column} ({best[x].value:.2f})" for x in order) + "."]
    if record.claims:
        return [claims.judge(record, claim).sentence for claim in record.claims] + _few_seeds(record)
    metric = next(iter(tables.metrics(record)), None)
    return [
        sentence
        for columns in _together(record, metric)
        for baseline in record.baselines
        for row in tables.estimates(record, metric).index
        if row != baseline and (sentence := _against(record, row, baseline, columns, metric))
    ] + _few_seeds(record)


def export(preset: str | Path, executed_notebook: str | Path) -> Path:
    """Write results/<preset>/report.html from the executed report notebook: one page, no code, images inside."""
    try:
        notebook = nbformat.read(executed_notebook, as_version=4)
    except FileNotFoundError:
        raise ValueError(f"{executed_notebook}: there is no executed report notebook; run 99_report first") from None
    # The basic template has no scripts or fonts from elsewhere, so that the page reads the same without a network.
    exporter = HTMLExporter(template_name="basic", exclude_input=True, exclude_input_prompt=True, embed_images=True)
    exporter.exclude_output_prompt = True
    body, _ = exporter.from_notebook_node(notebook)
    title = f"Reading distillation, preset {paths.preset_name(preset)}"
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{PAGE}</style>'
    page = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
    path = paths.report(preset)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _together(record: Record, metric: str | None) -> list[list[str]]:
    """The columns, in groups of which the average means something."""
    columns = tables.columns(record, metric)
    return [columns] if record.average else [[column] for column in columns]


def _against(record: Record, row: str, baseline: str, columns: list[str], metric: str | None) -> str:
    found = tables.compare(record, row, baseline, columns, metric)
    if found is None:
        return ""
    digits = tables.decimals(score.value for score in record.scores)
    size = f"{abs(found.difference):.{digits}f}"
    if float(size) == 0:
        place = "level with"
    else:
        place = f"{size} {metric or record.unit} {'above' if found.difference > 0 else 'below'}"
    text = f"{row} is {place} {baseline} {'on average' if len(columns) > 1 else f'on {columns[0]}'}"
    printed = _paper_says(record, row, baseline, columns, metric)
    if found.low is None:
        return f"{text} (one run each, so without an interval). {printed}".strip()
    likely = tables.likely(f"P({row} > {baseline})", found.probability)
    text += f" (95 % interval {tables.interval(found, digits)}; {likely})"
    if found.low <= 0 <= found.high:
        text += "; the interval includes zero, so this does not tell them apart"
    return f"{text}. {printed}".strip()


def _paper_says(record: Record, row: str, baseline: str, columns: list[str], metric: str | None) -> str:
    printed = [s for s in tables.paper_scores(record, metric) if record.average or s.column in columns]
    means = {name: [s.value for s in printed if tables.row_label(s) == name] for name in (row, baseline)}
    if not all(means.values()) or len(means[row]) != len(means[baseline]):
        return ""
    gap = sum(means[row]) / len(means[row]) - sum(means[baseline]) / len(means[baseline])
    return f"In the paper the difference is {tables.signed(gap, 2)}."


def _few_seeds(record: Record) -> list[str]:
    number = len(seeds(record))
    if not (record.baselines or record.claims) or number >= claims.SEEDS:
        return []
    return [f"{number} seed{'s' if number > 1 else ''}: fewer than the {claims.SEEDS} that a claim needs."]


def _commit(record: Record) -> str:
    return record.run.commit[:10] + (" with changes" if record.run.dirty and record.run.commit != "unknown" else "")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
