"""Results in words and tables: in notebooks, as an HTML page per preset, and as the findings in README.md.

Nothing of it is written by hand; all is computed from records. A paper is anything that has a key, a title, a
reference, the meanings of its methods, and artefacts in reading order.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import nbformat
import pandas as pd
from IPython.display import HTML, display
from matplotlib.figure import Figure
from nbconvert import HTMLExporter

from helpers import paths
from helpers.errors import UserError
from helpers.files import write_whole
from helpers.results import figures, records, stats
from helpers.results.records import Record
from helpers.results.stats import UNDECIDED, Verdict

README = paths.ROOT / "README.md"
BEGIN, END = "<!-- findings, written by `python -m helpers figures` -->", "<!-- end of findings -->"
UNITS = {"accuracy": "points of accuracy", "score": "points"}  # of differences
LINKED = 100_000  # characters of a page that the executed notebook does not keep
KEY = (
    f"A verdict needs {stats.SEEDS} seeds. Claims are tested at 5 % by t tests over seeds: a headline by itself, a "
    "table's other claims together, and controls, which are claims of ours, together (Holm's correction)."
)


def describe(record: Record, verdict: Verdict) -> str:
    """Say in a sentence what became of a claim, and what the paper reports."""
    claim, outcome, found, _, printed = verdict
    unit, digits = record.by_metric()[0].unit, stats.decimals(record.by_metric()[0])
    amount, size, reported = "the same score in every seed", "", ""
    if any(found.values):
        amount = f"{found.mean:+z,.{digits}f} {UNITS.get(unit, unit)}"
        amount += f" (95 % CI {found.low:+z,.{digits}f} to {found.high:+z,.{digits}f})" if found.over else ""
    if printed is not None:
        reported = f" The paper reports {printed:+z.{paper_decimals(record)}f} {claim.printed_for}".rstrip() + "."
    if printed is not None and claim.primary and not claim.printed_for and found.over:
        size = ", smaller than reported" * (found.high < printed) + ", larger than reported" * (found.low > printed)
    text = claim.text.replace(" beats ", " against ").replace(" is better than ", " against ")
    return f"{outcome.capitalize()}{size}: {text}, {amount}.{reported}"


def paper_decimals(record: Record) -> int:
    """Return how many decimals the paper prints, two at most."""
    return next((digits for digits in (0, 1) if all(round(p.value, digits) == p.value for p in record.paper)), 2)


def numbers(record: Record, baseline: str = "") -> pd.DataFrame:
    """Return one metric's scores with intervals as text and the paper's beside them, or ours above a baseline."""
    rows, estimates, ours, printed = [row for row in record.rows if row != baseline], [], {}, {}
    form = f"{'+' * bool(baseline)}z,.{stats.decimals(record)}f"
    for name, columns in stats.groups(record).items():
        for row in rows:
            subtracted = [(-1, baseline, columns)] if baseline else []
            if found := stats.estimate(record, [(1, row, columns), *subtracted]):
                ends = f" ({found.low:{form}} to {found.high:{form}})" if found.low < found.high else ""
                ours.setdefault(name, {})[row] = f"{found.mean:{form}}{ends}"
                estimates.append(found)
    for number in record.paper if not baseline else ():
        text = number.text or f"{number.value:,.{paper_decimals(record)}f}"
        printed.setdefault(number.column, {})[number.row] = text
    over = figures.intervals(estimates).replace("every seed", "means")
    heading = f"ours{baseline and f' minus {baseline}'}, {record.unit} ({over})"
    parts = {heading: pd.DataFrame(ours, index=rows), "the paper": pd.DataFrame(printed)}
    return pd.concat({name: part for name, part in parts.items() if not part.empty}, axis=1)


def tables(record: Record) -> list[str]:
    """Return the tables of a record as HTML: each metric, then differences from each baseline."""
    metrics = record.by_metric() if record.kind != "matrix" else []
    found = [numbers(metric) for metric in metrics]
    found += [numbers(metrics[0], name) for name in record.baselines if len(metrics[0].rows) > 1]
    return [table.to_html(border=0, na_rep="") for table in found]


def show(record: Record) -> None:
    """Display a record in a notebook: its figure, its claims, and its tables."""
    figure, page = figures.draw(record), HTML(f'<div class="results">{TEMPLATE.section(record, "")}</div>')
    display(*(part for part in (figure, page) if part))


def page(preset: str | Path, papers: Sequence[Any]) -> HTML:
    """Return the report of a preset for a notebook's cell: what was found, and all results."""
    everything = records.read_all(preset)
    sections = [(paper, own) for paper in papers if (own := select(everything, paper))]
    if not sections:
        return HTML(f"<p>There are no results of preset {preset} yet: run its notebooks first.</p>")
    return HTML(TEMPLATE.page(preset, sections, encode(headlines([record for _, own in sections for record in own]))))


def export(preset: str | Path, executed_notebook: str | Path) -> Path:
    """Write results/<preset>/report.html from the executed report notebook: one page, no code, images inside.

    The notebook keeps a link to it instead of the page, which would be there twice.
    """
    try:
        notebook = nbformat.read(executed_notebook, as_version=4)
    except FileNotFoundError:
        raise UserError(f"{executed_notebook}: there is no executed report notebook; run 99_report first") from None
    # The basic template has no scripts or fonts from elsewhere, so that the page reads the same without a network.
    exporter = HTMLExporter(template_name="basic", exclude_input=True, embed_images=True)
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = exporter.exclude_anchor_links = True
    body, path = exporter.from_notebook_node(notebook)[0], paths.report(preset)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>Reading distillation, preset {preset}</title>"
    write_whole(path, f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n')
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if len(output.get("data", {}).get("text/html", "")) > LINKED:
            output.data = {"text/html": f'<a href="../{path.name}">{path.name}</a>', "text/plain": path.name}
    nbformat.write(notebook, executed_notebook)
    return path


def update_readme(presets: Sequence[str], papers: Sequence[Any]) -> list[Path]:
    """Write README's findings and their picture, of each result from the first of ``presets`` that has it.

    A paper shows its first headline, and where that is undecided also its first decided one. Returns the paths
    written, none where there are no records.
    """
    decisive = {record.artefact: record for name in reversed(presets) for record in records.read_all(name)}
    if not decisive:
        return []
    folder = paths.results(presets[0]).parent
    lines, shown = [f"![Headline claims, ours and as printed]({folder.name}/findings.png)", ""], []
    for paper in papers:
        shown += (own := select(decisive.values(), paper))
        if chief := primary(own):
            decided = [each for each in chief if each[1].outcome != UNDECIDED]
            told = [chief[0], *decided[: chief[0][1].outcome == UNDECIDED]]
            sentences = [f"{record.label.rpartition(', ')[2]}: {describe(record, verdict)}" for record, verdict in told]
            name = chief[0][0].label.partition(", ")[0]
            lines.append(f"- **{name}**, {' '.join(sentences)} Claims: {count(own)}.")
    reports = [f"[`{name}`]({folder.name}/{name}/{paths.report(name).name})" for name in presets]
    lines += ["", f"From preset {' or '.join(reports)}. {KEY}"]
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    write_whole(README, "\n".join([before + BEGIN, *lines, END + rest.partition(END)[2]]))
    write_whole(folder / "findings.png", figures.content(headlines(shown), "png"))
    return [README, folder / "findings.png"]


def select(everything: Iterable[Record], paper: Any) -> list[Record]:
    """Select the records of a paper, in the order of its artefacts, others by name after them."""
    order = [f"{paper.key}/{artefact.name}" for artefact in paper.artefacts]
    own = sorted((r for r in everything if r.artefact.startswith(f"{paper.key}/")), key=lambda record: record.artefact)
    return sorted(own, key=lambda r: order.index(r.artefact) if r.artefact in order else len(order))


def primary(own: Iterable[Record]) -> list[tuple[Record, Verdict]]:
    """Return the headline claims of some records."""
    return [(record, verdict) for record in own for verdict in stats.judge(record) if verdict.claim.primary]


def count(own: Iterable[Record]) -> str:
    """Count the verdicts on the paper's claims, such as "3 supported, 1 refuted, 5 undecided"; empty without any."""
    outcomes = Counter(v.outcome for record in own for v in stats.judge(record) if not v.claim.control)
    return ", ".join(f"{outcomes[word]} {word}" for word in figures.MARKS if outcomes[word])


def headlines(everything: Iterable[Record]) -> Figure | None:
    """Draw the headline claims of all papers in one figure; None where there are none."""
    judged = [(f"{record.label}: {verdict.claim.text}", verdict) for record, verdict in primary(everything)]
    key = ", ".join(f"{mark} {outcome}" for outcome, mark in figures.MARKS.items())
    with figures.plain_style():
        return figures.claims(judged, f"Headline claims: {key}", "in each table's unit") if judged else None


def encode(figure: Figure | None) -> str:
    """Return a figure as a PNG in base 64, to stand inside a page; empty for none."""
    return base64.b64encode(figures.content(figure, "png")).decode() if figure else ""


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True
)
ENVIRONMENT.globals |= {
    "KEY": KEY,
    "MARKS": figures.MARKS,
    "judge": stats.judge,
    "describe": describe,
    "tables": tables,
    "count": count,
    "anchor": lambda record: record.artefact.replace("/", "-"),
    "picture": lambda record: encode(figures.draw(record)),
}
TEMPLATE = ENVIRONMENT.get_template("report.html").module
