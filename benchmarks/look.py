"""IMM in 2 minutes: readers of three miniature domains teach each other for one round (make look).

With ``--readme`` the output is also written into README.md.
"""

import re
import sys
import textwrap

from helpers import engine
from helpers.data.load import question_set
from helpers.papers import shared
from helpers.papers.imm import algorithm
from helpers.presets.load import load_preset
from helpers.results.report import write_into_readme

DOMAINS = ("encyclopedia", "trivia", "search")
ROWS = {"Single": "a reader per domain", "IMM": "after one round of IMM"}
BEGIN, END = "<!-- look, written by `python benchmarks/look.py --readme` -->\n```\n", "```\n<!-- end of look -->"


def look(preset):
    """Train a reader per domain, let them teach each other, and return what to print.

    The question shown is the one whose F1 rises most, and of equal ones that with the shortest passage.
    """
    models, _ = yield from algorithm.train_methods(preset, 1, ("Single", "IMM"))
    cells = {(row, domain, seed): (readers, f"test/{domain}") for row, domain, seed, readers in models}
    answers = yield from shared.answer_sets(preset, cells)
    scores = shared.score_cells(preset, answers)
    lines, changes = [f"F1 on {preset.data.test_size} questions each     {'   '.join(DOMAINS)}"], []
    for row, name in ROWS.items():
        means = "".join(f"{scores[row, domain, 0].f1.mean():{len(domain) + 3}.1f}" for domain in DOMAINS)
        lines.append(f"{name:25}{means}")
    for domain in DOMAINS:
        texts = (answers[row, domain, 0][1][0] for row in ROWS)
        before, after = (scores[row, domain, 0].f1 for row in ROWS)
        examples = question_set(preset.for_seed(0).data, f"test/{domain}")
        for gain, example, old, new in zip(after - before, examples, *texts, strict=True):
            changes.append((gain, -len(example.context), domain, example, old, new))
    *_, domain, example, old, new = max(changes, key=lambda change: change[:2])
    better, worse = (sum(sign * gain > 0 for gain, *_ in changes) for sign in (1, -1))
    before, after = (models.by_row[row][0] for row in ROWS)
    same = [domain for domain in DOMAINS if before[domain][0].key == after[domain][0].key]
    lines += ["", f"Validation keeps the old readers of {' and '.join(same) or 'no domain'}."]
    lines += [f"{better} answers are better, {worse} worse. The largest gain:"]
    # Of the passage only the sentences with an answer
    shown = [part for part in re.split(r"(?<=[.?!])\s+", example.context) if old in part or new in part]
    passage = f"Passage ({domain}): ... {' ... '.join(shown)}"
    lines += ["", *textwrap.wrap(passage, 100), f"Question: {example.question}"]
    return [*lines, f"The reader of {domain} alone: {old}", f"After one round of IMM: {new}"]


def main(*options: str) -> None:
    """Train, print, and write README if told so."""
    changes = {"data.domains": {name: name for name in DOMAINS}, "data.test_size": 200}
    preset = load_preset("mini", "imm", **changes)
    text = "\n".join(engine.run(look(preset), preset.engine)) + "\n"
    print(text, end="")
    if "--readme" in options:
        write_into_readme(BEGIN, text, END)


if __name__ == "__main__":
    main(*sys.argv[1:])
