"""A record as HTML: what it shows of the paper's claims, its tables, its figure, and how it was made."""

import base64
import re
from html import escape

from matplotlib.figure import Figure

from helpers.results import canvas, claims, comparisons, figures, tables
from helpers.results.records import Record

FEWER = (
    "Their means do not compare with those of other rows; a difference is over the seeds that both of its rows have."
)
MARKS = {claims.HOLDS: ("holds", "✓"), claims.FAILS: ("fails", "✗"), claims.OPEN: ("open", "○")}


def section(record: Record, ours: bool = False) -> str:
    """One result with an anchor of its own; folded where it is ``ours``, beyond the paper."""
    name, title = anchor(record.artefact), escape(record.title)
    body = "\n".join(filter(None, [beside(sentences(record), picture(record)), table_html(record), made(record)]))
    if ours:
        return f'<details id="{name}"><summary>{title}</summary>\n{body}\n</details>'
    return f'<section id="{name}"><h3>{title}</h3>\n{body}\n</section>'


def anchor(artefact: str) -> str:
    """The name of a record's place on the page."""
    return artefact.replace("/", "-")


def sentences(record: Record) -> str:
    """What the record shows, as a list; a claim is marked by whether it holds, does not, or is open, and those that are
    neither primary nor decided are folded."""
    if not record.claims:
        return listed([f"<li>{escape(sentence)}</li>" for sentence in claims.facts(record)])
    shown, folded = [], []
    for claim, judgement in zip(record.claims, claims.judge(record), strict=True):
        first = claim.primary or judgement.outcome != claims.OPEN
        (shown if first else folded).append(claim_item(judgement, escape(judgement.sentence)))
    number = len(folded)
    more = f"<details><summary>{number} more claim{'s' if number > 1 else ''}, open</summary>{listed(folded)}</details>"
    return listed(shown) + more * bool(folded)


def claim_item(judgement: claims.Judgement, text: str) -> str:
    """An item of a list, marked by a claim's outcome."""
    word, mark = MARKS[judgement.outcome]
    return f'<li class="{word}"><span aria-hidden="true">{mark}</span> {text}</li>'


def picture(record: Record) -> str:
    """The record's figure inside the page, with what else tells the same in its place; empty where it has none."""
    if not figures.drawable(record):
        return ""
    instead = " ".join(claims.facts(record)) or "Its numbers are in the table beside it." * bool(record.scores)
    return image(figures.draw(record), f"{record.title}. {instead}")


def image(figure: Figure, text: str) -> str:
    """A PNG inside the page, and what it shows in words."""
    content = base64.b64encode(canvas.content(figure, "png")).decode()
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{content}">'


def table_html(record: Record) -> str:
    """Our numbers and the paper's side by side, the first metric open and all else folded, as is everything that a
    curve shows; a matrix has its numbers in the figure."""
    if record.kind == "matrix" or not record.scores:
        return ""
    shown, folded = [], []
    for number, own in enumerate(comparisons.by_metric(record)):
        numbers, differences = tables.parts(own)
        (folded if number or record.kind == "curve" else shown).append(table(*numbers))
        folded += [table(part) for part in differences]
    for number, rows in comparisons.fewer_seeds(record).items() if record.kind != "curve" else ():
        few = f"{number} of {len(comparisons.seeds(record))} seeds: {', '.join(rows)}"
        shown.append(f"<p><small>{escape(few)}. {FEWER}</small></p>")
    if folded:
        shown.append(f"<details><summary>more numbers</summary>{''.join(folded)}</details>")
    return "\n".join(shown)


def table(*parts: tables.Part) -> str:
    """Tables of texts as one, which scrolls by itself where it is too wide: each has its caption above its columns, and
    all have the same rows. What stands between double asterisks is bold, what stands in brackets small."""
    rows = dict.fromkeys(row for _, cells in parts for row in cells.index)
    groups = "".join(f'<th colspan="{len(cells.columns)}">{escape(caption)}</th>' for caption, cells in parts)
    columns = [column for _, cells in parts for column in cells.columns]
    head = "".join(f'<th scope="col">{escape(str(column))}</th>' for column in columns)
    lines = [f"<tr><td></td>{groups}</tr>" if any(caption for caption, _ in parts) else "", f"<tr><td></td>{head}</tr>"]
    for row in rows:
        inner = ""
        for _, cells in parts:
            texts = cells.loc[row] if row in cells.index else [""] * len(cells.columns)
            inner += "".join(f"<td>{_cell(str(text))}</td>" for text in texts)
        lines.append(f'<tr><th scope="row">{escape(str(row))}</th>{inner}</tr>')
    return f'<div class="table"><table>{"".join(lines)}</table></div>'


def _cell(text: str) -> str:
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(text))
    return re.sub(r"(\(.+?\))$", r"<small>\1</small>", text)


def made(record: Record) -> str:
    """How a result was made: its notes, folded."""
    notes = listed([f"<li>{escape(note)}</li>" for note in record.notes])
    return notes and f'<details class="made"><summary>how it was made</summary>{notes}</details>'


def beside(text: str, drawn: str) -> str:
    """A text with a picture to its right, where the page is wide enough."""
    return f'<div class="beside"><div>{text}</div><div>{drawn}</div></div>' if text and drawn else text or drawn


def listed(items: list[str]) -> str:
    """Items of a list, if there are any."""
    return f"<ul>{''.join(items)}</ul>" if items else ""
