"""IMM in two minutes: three miniature domains, one round, and a question that the round mended (make look).

With ``--readme`` the output is also written into README.md.
"""

import sys
import textwrap

from helpers import engine
from helpers.data.sets import question_set
from helpers.files import write_whole
from helpers.metrics import f1
from helpers.papers import imm, shared
from helpers.presets.load import load
from helpers.results.report import README

DOMAINS = ("encyclopedia", "trivia", "search")
BEGIN, END = "<!-- look, written by `python benchmarks/look.py --readme` -->\n```\n", "```\n<!-- end of look -->"
WIDTH = 100


def look(preset):
    """Train a reader per domain, let them teach each other for one round, and return what to print."""
    models, _ = yield from imm.train(preset, {"IMM": preset.imm}, 1, ("Single",))
    cells = {(row, domain, seed): (readers, f"test/{domain}") for row, domain, seed, readers in models}
    answers = yield from shared.answer_sets(preset, cells)
    scores = shared.score_cells(preset, answers)
    lines = [f"F1 on {preset.data.test_size} test questions      {'   '.join(DOMAINS)}"]
    for row, name in (("Single", "a reader per domain"), ("IMM", "after one round of IMM")):
        values = "".join(f"{scores[row, domain, 0].f1.mean():{len(domain) + 3}.1f}" for domain in DOMAINS)
        lines.append(f"{name:30}{values}")
    domain = DOMAINS[0]
    examples = question_set(preset.drawn(0).data, f"test/{domain}")
    before, after = (answers[row, domain, 0][1][0] for row in ("Single", "IMM"))
    rows = zip(examples, before, after, strict=True)
    mended = (row for row in rows if f1(row[1], row[0].answers) == 0 and f1(row[2], row[0].answers) == 1)
    example, wrong, right = min(mended, key=lambda row: len(row[0].context))
    lines += ["", *textwrap.wrap(f"Passage: {example.context}", WIDTH), f"Question: {example.question}"]
    return [*lines, f"The reader of {domain} alone: {wrong}", f"After one round of IMM: {right}"]


def main(*options: str) -> None:
    """Train, print, and write README if told so."""
    changes = {"data.domains": {name: name for name in DOMAINS}, "data.test_size": 200, "imm.rounds": 1}
    preset = load("mini", "imm", **changes)
    text = "\n".join(engine.run(look(preset), preset.engine)) + "\n"
    print(text, end="")
    if "--readme" in options:
        before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        write_whole(README, before + BEGIN + text + END + rest.partition(END)[2])


if __name__ == "__main__":
    main(*sys.argv[1:])
