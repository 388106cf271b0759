"""The report of a preset: every result with its table, figure, cost and what it shows, from records alone.

``show`` displays one result in a notebook; ``notebooks/99_report.ipynb`` shows ``page``, and ``export`` makes it one
HTML page.
"""

import base64
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from IPython.display import HTML, display
from nbconvert import HTMLExporter

from helpers import paths
from helpers.files import write_whole
from helpers.results import canvas, claims, comparisons, figures, records, summary, tables
from helpers.results.records import Record

LINKED = 100_000  # characters of a page that a notebook does not keep
# Only inside the report: in a notebook the rest of the page is not ours to style.
STYLE = (paths.PACKAGE / "results" / "report.css").read_text(encoding="utf-8")
PAGE = (
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }"
)


def page(preset: str | Path, papers: Sequence[Any]) -> HTML:
    """The whole report for a notebook's cell: all records of a preset, in the order of the papers (their ``key`` and
    ``artefacts``) and under their ``title``, which links to their ``reference`` where they have one."""
    if not (found := records.read_all(preset, papers)):
        text = f"There are no results of preset {paths.preset_name(preset)!r} yet: run its notebooks first."
        return HTML(f"<p>{escape(text)}</p>")
    pieces, headings = [f"<style>\n{STYLE}</style>", summary.html(paths.preset_name(preset), found, papers)], {}
    for paper in papers:
        title = escape(paper.title)
        headings[paper.key] = f'<a href="{escape(paper.reference)}">{title}</a>' if paper.reference else title
    for key, group in groupby(found, lambda record: record.artefact.split("/")[0]):
        pieces += [f"<h2>{headings.get(key, key)}</h2>", *map(section, group)]
    return HTML('<div class="results">' + "\n".join(pieces) + "</div>")


def overview(preset: str | Path, papers: Sequence[Any] = ()) -> pd.DataFrame:
    """One row a record: artefact, title, seeds, device, seconds and commit."""
    found = records.read_all(preset, papers)
    rows = [(r.artefact, r.title, len(comparisons.seeds(r)), r.run.device, r.run.seconds, _commit(r)) for r in found]
    return pd.DataFrame(rows, columns=["artefact", "title", "seeds", "device", "seconds", "commit"])


def show(record: Record) -> None:
    """Display in a notebook what there is of a record: its tables, its figure and what it shows."""
    drawn = [figures.draw(record)] if figures.drawable(record) else []
    pieces = [HTML(tables.html(record)), *drawn, HTML(_sentences(record))]
    display(*(piece for piece in pieces if getattr(piece, "data", True)))


def section(record: Record) -> str:
    """One result as HTML: title, what it shows, tables, figure, run line. The image is inside."""
    title, image = escape(record.title), ""
    if figures.drawable(record):
        content = base64.b64encode(canvas.content(figures.draw(record), "png")).decode()
        image = f'<p><img alt="{title}" src="data:image/png;base64,{content}"></p>'
    heading = f"<h3>{title} <small>({escape(record.artefact)})</small></h3>"
    run = f'<p class="run">{escape(run_line(record))}</p>'
    return "\n".join(filter(None, [heading, _sentences(record), tables.html(record), image, run]))


def run_line(record: Record) -> str:
    """How the result was made, in one line."""
    run, seeds = record.run, comparisons.seeds(record)
    memory = [f"{run.peak_memory_mb:,} MiB"] if run.peak_memory_mb else []
    memory += [f"{run.peak_gpu_memory_mb:,} MiB on the GPU"] if run.peak_gpu_memory_mb else []
    trained = [f"trainings {tables.duration(run.training_seconds)}"] if run.training_seconds is not None else []
    amount = [f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"] if seeds else []
    made = [f"commit {_commit(record)}", run.device, tables.duration(run.seconds)]
    return " · ".join([*made, *trained, *memory, *amount, *record.notes])


def export(preset: str | Path, executed_notebook: str | Path) -> Path:
    """Write results/<preset>/report.html from the executed report notebook: one page, no code, images inside. The
    notebook keeps a link to it instead of the page, which would be there twice."""
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
    text = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
    write_whole(path := paths.report(preset), text)
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if len(output.get("data", {}).get("text/html", "")) > LINKED:
            output.data = {"text/html": f'<a href="../{path.name}">{path.name}</a>', "text/plain": path.name}
    nbformat.write(notebook, executed_notebook)
    return path


def _sentences(record: Record) -> str:
    """What the record shows, as a list; empty where there is nothing to say."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in claims.verdict(record))
    return items and f"<ul>{items}</ul>"


def _commit(record: Record) -> str:
    return record.run.commit[:10] + (" with changes" if record.run.dirty and record.run.commit != "unknown" else "")
