"""Distillation in 2 minutes: an ensemble of readers of three domains, and one reader distilled from it (make look)."""

import re
import textwrap

from helpers import engine, records
from helpers.data.load import question_set
from helpers.papers import shared
from helpers.papers.your_domains.comparison import train_readers
from helpers.presets.load import load_preset
from helpers.results import findings, stats

DOMAINS = ("encyclopedia", "trivia", "search")
ROWS = {
    "Single": "a reader per domain",
    "Mix": "one reader of all domains",
    "Mix ensemble": "an ensemble of such readers",
    "A2D": "one reader distilled from it",
}
STUDY = {"supported in study": "imm/your_domains", "equal steps": "imm/your_domains_equal"}
WIDTH = 25  # letters of a column of study's


def look(preset):
    """Train the readers of `ROWS`, and return what to print.

    The question shown is one that the distilled reader alone answers better than a reader of its domain: of those with
    the largest gain in F1 that with the shortest passage.
    """
    models = yield from train_readers(preset)
    cells = {(row, domain, seed): (readers, f"test/{domain}") for row, domain, seed, readers in models}
    answers = yield from shared.answer_sets(preset, cells)
    scores = shared.score_cells(preset, answers)
    domains, in_study = list(preset.data.domains), state_study()
    heads = [f"F1 of {preset.data.test_size} questions{'':9}", *domains, *(f"{head:{WIDTH}}" for head in STUDY)]
    lines = ["   ".join(heads).rstrip()]
    changes = []
    for row, name in ROWS.items():
        means = "".join(f"{scores[row, domain, 0].f1.mean():{len(domain) + 3}.1f}" for domain in domains)
        lines.append(f"{name:28}{means}   {in_study.get(row, '')}".rstrip())
    for domain in domains:
        texts = (answers[row, domain, 0][1][0] for row in ("Single", "A2D"))
        gains = scores["A2D", domain, 0].f1 - scores["Single", domain, 0].f1
        examples = question_set(preset.for_seed(0).data, f"test/{domain}")
        for gain, example, old, new in zip(gains, examples, *texts, strict=True):
            changes.append((gain, -len(example.context), domain, example, old, new))
    gain, _, domain, example, old, new = max(changes, key=lambda change: change[:2])
    if gain <= 0:
        return lines
    # Of the passage only the sentences in which an answer begins
    begins = [example.context.find(text) for text in (old, new) if text]
    sentences = re.finditer(r"\S.*?(?:[.?!](?=\s)|$)", example.context, re.S)
    shown = [one.group() for one in sentences if any(one.start() <= begin < one.end() for begin in begins)]
    passage = textwrap.wrap(f"Passage ({domain}): ... {' ... '.join(shown)}", 88)
    lines += ["", *passage, f"Question: {example.question}"]
    return [*lines, f"Reader of {domain}: {textwrap.shorten(old, 40) or '(no answer)'}", f"Distilled: {new}"]


def state_study() -> dict[str, str]:
    """State by row how far preset study has it above a reader per domain, and how far with equal steps.

    Both are means of F1 over all domains and seeds. Says so where they are not supported, or exact match (EM) may fall.
    """
    stored = {record.artefact: record for record in records.read_all("study", "imm")}
    texts: dict[str, list[str]] = {}
    for artefact in STUDY.values():
        verdicts = stats.judge(stored[artefact], stored.values())
        for each in [verdict for verdict in verdicts if verdict.claim.below == "Single"]:
            exact = findings.estimate_exact_match(stored[artefact], each.claim)
            limits = [each.outcome] * (each.outcome != stats.SUPPORTED)
            limits += [f"EM {exact.mean:+.1f}"] if findings.misleads(each, exact) else []
            gain = f"{each.estimate.mean:+.1f}" + f" ({', '.join(limits)})" * bool(limits)
            texts.setdefault(each.claim.above, []).append(f"{gain:{WIDTH}}")
    return {row: "   ".join(gains) for row, gains in texts.items()}


def main() -> None:
    """Train and print."""
    changes = {"data.domains": {name: name for name in DOMAINS}, "data.test_size": 200, "methods": "Mix Ensemble A2D"}
    preset = load_preset("mini", "imm", **changes)
    print("\n".join(engine.run(look(preset), preset.engine)))


if __name__ == "__main__":
    main()
