"""The report of a preset: what was found, then every result with its table and figure, from records alone.

``show`` displays one result in a notebook; ``notebooks/99_report.ipynb`` shows ``page``, and ``export`` makes it one
HTML page.
"""

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
from helpers.results import comparisons, figures, html, methods, records, summary, tables
from helpers.results.records import Record

LINKED = 100_000  # characters of a page that a notebook does not keep
# Only inside the report: in a notebook the rest of the page is not ours to style.
STYLE = (paths.PACKAGE / "results" / "report.css").read_text(encoding="utf-8")


def page(preset: str | Path, papers: Sequence[Any]) -> HTML:
    """The whole report for a notebook's cell: what was found, then all records of a preset, in the order of the papers
    (their ``key``, ``title``, ``reference`` and ``artefacts``), and last how each was made."""
    name = paths.preset_name(preset)
    if not (found := records.read_all(preset, papers)):
        return HTML(f"<p>{escape(f'There are no results of preset {name!r} yet: run its notebooks first.')}</p>")
    cards = {paper.key: paper for paper in papers}
    groups = {key: list(group) for key, group in groupby(found, lambda record: record.artefact.partition("/")[0])}
    runs = html.table(("", _runs(found)))
    pieces = [
        f"<style>\n{STYLE}</style>",
        _part("found", _title(name), summary.findings(name, found, papers)),
        _part("limits", "Without a GPU", limits) if (limits := summary.limits(found)) else "",
        _contents(groups, cards),
        *(_paper(key, group, cards.get(key)) for key, group in groups.items()),
        _part(
            "made", "How each result was made", f"<details><summary>commits, machines, times</summary>{runs}</details>"
        ),
    ]
    return HTML('<div class="results">' + "\n".join(filter(None, pieces)) + "</div>")


def show(record: Record) -> None:
    """Display in a notebook what there is of a record: its tables, its figure and what it shows."""
    drawn = [figures.draw(record)] if figures.drawable(record) else []
    pieces = [HTML(html.table_html(record)), *drawn, HTML(html.sentences(record) + html.made(record))]
    display(*(piece for piece in pieces if getattr(piece, "data", True)))


def export(preset: str | Path, executed_notebook: str | Path) -> Path:
    """Write results/<preset>/report.html from the executed report notebook: one page, no code, images inside. The
    notebook keeps a link to it instead of the page, which would be there twice."""
    try:
        notebook = nbformat.read(executed_notebook, as_version=4)
    except FileNotFoundError:
        raise ValueError(f"{executed_notebook}: there is no executed report notebook; run 99_report first") from None
    # The basic template has no scripts or fonts from elsewhere, so that the page reads the same without a network.
    exporter = HTMLExporter(template_name="basic", exclude_input=True, exclude_input_prompt=True, embed_images=True)
    exporter.exclude_output_prompt = exporter.exclude_anchor_links = True
    body, _ = exporter.from_notebook_node(notebook)
    title = f"Reading distillation, preset {paths.preset_name(preset)}"
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
    )
    text = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
    write_whole(path := paths.report(preset), text)
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if len(output.get("data", {}).get("text/html", "")) > LINKED:
            output.data = {"text/html": f'<a href="../{path.name}">{path.name}</a>', "text/plain": path.name}
    nbformat.write(notebook, executed_notebook)
    return path


def _part(anchor: str, title: str, body: str) -> str:
    return f'<h2 id="{anchor}">{escape(title)}</h2>\n{body}'


def _title(name: str) -> str:
    better = summary.above(name)
    return f"What was found, preset {name}" + f", or {' or '.join(better)} where it has the result" * bool(better)


def _paper(key: str, group: Sequence[Record], card: Any) -> str:
    """A paper's section: its title with a link to it, what its methods are, and its results; ours are folded."""
    title, ours = escape(card.title) if card else key, {a.name for a in card.artefacts if a.ours} if card else set()
    link = f' <a href="{escape(card.reference)}">paper</a>' if card and card.reference else ""
    meanings = "".join(f"<dt>{escape(n)}</dt><dd>{escape(text)}</dd>" for n, text in methods.glossary(key).items())
    words = f"<details><summary>what the methods are</summary><dl>{meanings}</dl></details>" if meanings else ""
    sections = (html.section(record, record.artefact.partition("/")[2] in ours) for record in group)
    return "\n".join([f'<h2 id="{key}">{title}{link}</h2>', words, *sections])


def _contents(groups: dict[str, list[Record]], cards: dict[str, Any]) -> str:
    lines = []
    for key, group in groups.items():
        links = (f'<a href="#{html.anchor(record.artefact)}">{escape(_short(record, group))}</a>' for record in group)
        title = escape(cards[key].title if key in cards else key)
        lines.append(f'<li><a href="#{key}">{title}</a>: {", ".join(links)}</li>')
    return f'<nav aria-label="contents"><ul>{"".join(lines)}</ul></nav>'


def _short(record: Record, group: Sequence[Record]) -> str:
    """What a record is called among those of its paper: its table's or figure's number where no other has that."""
    label = record.label.partition(", ")[2]
    alone = sum(other.label == record.label for other in group) == 1
    return label if label and alone else record.title.partition(": ")[2] or record.title


def _runs(found: Sequence[Record]) -> pd.DataFrame:
    """A row a record: seeds, device, time, memory and commit."""
    rows = []
    for record in found:
        run, seeds = record.run, comparisons.seeds(record)
        trained = "" if run.training_seconds is None else tables.duration(run.training_seconds)
        memory = [f"{run.peak_memory_mb:,}"] if run.peak_memory_mb else []
        memory += [f"{run.peak_gpu_memory_mb:,} on the GPU"] if run.peak_gpu_memory_mb else []
        commit = run.commit[:10] + (" with changes" if run.dirty and run.commit != "unknown" else "")
        rows.append([len(seeds) or "", tables.duration(run.seconds), trained, ", ".join(memory), run.device, commit])
    columns = ["seeds", "run, by the clock", "trainings, added up", "peak MiB, without workers", "device", "commit"]
    return pd.DataFrame(rows, [record.artefact for record in found], columns)
