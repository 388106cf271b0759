"""What models say of one example, as HTML: tables of probabilities, shaded passages, attention."""

from collections.abc import Mapping
from html import escape

import numpy as np

from helpers.data.examples import Choice, Example, Pair
from helpers.tasks.asking import WORD, Answer

BLUE, ORANGE = "1, 115, 178", "222, 143, 5"  # of an answer's start and of attention, and of an answer's end
LEFT = "text-align: left; vertical-align: top"


def answered(
    topic: str, example: Example, said: Mapping[str, Answer], seen: str, attention: np.ndarray | None = None
) -> str:
    """A question, what readers answer, and its passage as the reader called ``seen`` sees it."""
    rows = [
        [name, answer.prediction.text or "(no answer)", f"{answer.prediction.probability:.3f}"]
        for name, answer in said.items()
    ]
    starts, ends = ([getattr(word, side) for word in said[seen].words] for side in ("start", "end"))
    parts = [
        paragraph(topic, example.question),
        paragraph("expected", " / ".join(example.answers)) if example.answers else "",
        table(["reader", "answer", "probability"], rows),
        paragraph(f"{seen}: where the answer starts", shaded(example.context, starts), True),
        paragraph("where it ends", shaded(example.context, ends, ORANGE), True),
    ]
    if attention is not None:
        parts.append(attention_table(example, attention))
    return "".join(parts)


def judged(topic: str, example: Pair | Choice, said: Mapping[str, Mapping[str, float]]) -> str:
    """A text, a pair or a choice, and the probability that each model gives to its labels or endings, or its score."""
    names = list(dict.fromkeys(name for values in said.values() for name in values))
    surest = dict(sorted(said.items(), key=lambda item: -max(item[1].values())))
    rows = [
        [model, *(f"{values[name]:.3f}" if name in values else "" for name in names)]
        for model, values in surest.items()
    ]
    if isinstance(example, Choice):
        texts = [paragraph(topic, example.context)]
        right = None if example.label is None else example.endings[example.label]
    else:
        texts = [paragraph(topic, example.first)] + ([paragraph("and", example.second)] if example.second else [])
        right = names[example.label] if isinstance(example.label, int) and len(names) > 1 else example.label
    expected = "" if right is None else paragraph("expected", str(right))
    return "".join([*texts, expected, table(["model", *names], rows)])


def paragraph(title: str, text: str, is_html: bool = False) -> str:
    """A line with a title."""
    return f"<p><b>{escape(title)}:</b> {text if is_html else escape(text)}</p>"


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Rows below names of columns, in a box of its own where they are many."""
    head = "".join(f'<th style="{LEFT}">{escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{LEFT}">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    rows_and_head = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="max-height: 24em; overflow: auto">{rows_and_head}</div>'


def shaded(passage: str, values: list[float], colour: str = BLUE) -> str:
    """A passage, each word on a colour that is the stronger the higher its value (0 to 1), which a pointer shows."""
    words = zip(WORD.findall(passage), values, strict=True)
    return " ".join(
        f'<span style="background: rgba({colour}, {value:.2f})" title="{value:.3f}">{escape(word)}</span>'
        for word, value in words
    )


def attention_table(example: Example, attention: np.ndarray) -> str:
    """For each word of the question the passage's words, on a colour by how much each attends to it; words that the
    reader's window leaves out are left out."""
    most, rows = np.nanmax(attention), []
    for asked, values in zip(WORD.findall(example.question.strip()), attention.T, strict=True):
        kept = [number for number, value in enumerate(values) if not np.isnan(value)]
        words = WORD.findall(example.context)
        text = shaded(" ".join(words[number] for number in kept), [float(values[number] / most) for number in kept])
        rows.append(f'<tr><th style="{LEFT}">{escape(asked)}</th><td style="{LEFT}">{text}</td></tr>')
    title = "<p><b>attention</b> of the passage's words to each word of the question, against the strongest:</p>"
    return f"{title}<table><tbody>{''.join(rows)}</tbody></table>"
