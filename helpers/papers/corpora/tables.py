"""What the corpora look like, and what a guess of the answer's type would score."""

from collections import Counter
from html import escape

import numpy as np

from helpers.data.domains import load_domains
from helpers.data.examples import Domain, Example
from helpers.data.mini import domains as mini
from helpers.data.question_types import QUESTION_WORDS, question_word
from helpers.data.sections import fingerprint
from helpers.presets.schema import DataSettings
from helpers.tasks.metrics import f1

BINS = 20
SHOWN = 700  # characters of a passage in an example


def sizes(domains: dict[str, Domain]) -> dict[str, dict[str, int]]:
    """Questions of each part and distinct passages, by domain."""
    return {
        name: {
            "train": len(domain.train),
            "valid": len(domain.valid),
            "test": len(domain.test),
            "passages": len({e.context for part in (domain.train, domain.valid, domain.test) for e in part}),
        }
        for name, domain in domains.items()
    }


def overview(data: DataSettings) -> dict:
    """The payload of the record ``corpora/overview``: sizes, lengths in words as histograms, question-word shares."""
    domains = load_domains(data)
    asked = {name: [e.question for e in domain.train] for name, domain in domains.items()}
    passages = {name: list({e.context for e in domain.train}) for name, domain in domains.items()}
    shares = {}
    for name, questions in asked.items():
        counts = Counter(map(question_word, questions))
        shares[name] = {word: counts[word] / len(questions) for word in (*QUESTION_WORDS, "other")}
    return {
        "sizes": sizes(domains),
        "passage_lengths": _histograms(passages),
        "question_lengths": _histograms(asked),
        "question_words": shares,
        "fingerprints": {name: fingerprint(data, name) for name in domains},
    }


def _histograms(texts: dict[str, list[str]]) -> dict[str, dict[str, list[int]]]:
    lengths = {name: [len(text.split()) for text in of] for name, of in texts.items()}
    longest = max(np.percentile(of, 99) for of in lengths.values())  # a few very long ones would squeeze the rest
    step = max(1, int(np.ceil(longest / BINS)))
    edges = np.arange(0, step * (BINS + 1) + 1, step)
    clipped = {name: np.minimum(of, edges[-1] - 1) for name, of in lengths.items()}
    return {
        name: {"edges": edges.tolist(), "counts": np.histogram(of, edges)[0].tolist()} for name, of in clipped.items()
    }


def example_html(domain: Domain) -> str:
    """The first training question with an answer, the answer marked in its passage."""
    example = next((e for e in domain.train if e.span is not None), domain.train[0])
    return f"<p><b>{escape(domain.name)}</b>: {escape(example.question)}<br>{_marked(example)}</p>"


def _marked(example: Example) -> str:
    if example.span is None:
        return escape(example.context[:SHOWN])
    start, end = example.span
    first = max(0, min(start - SHOWN // 2, len(example.context) - SHOWN))
    last = first + max(SHOWN, end - first)
    before, after = example.context[first:start], example.context[end:last]
    opening, closing = "…" if first else "", "…" if last < len(example.context) else ""
    return f"{opening}{escape(before)}<mark>{escape(example.context[start:end])}</mark>{escape(after)}{closing}"


def type_guess(data: DataSettings) -> dict[str, float]:
    """Expected F1 (0-100) on each miniature domain's test set of a random value of the right type.

    Empty for other data and without stories, whose answers are free: there the types are not known.
    """
    if data.source != "mini":
        return {}
    guesses = {}
    for name, domain in data.domains.items():
        if domain != mini.STORIES:
            drawn = {"seed": data.drawn_by, "conventions": data.conventions}
            asked = mini.candidates(domain, size=data.test_size or mini.TEST, **drawn)
            scores = [np.mean([f1(value, (answer,)) for value in values]) for answer, values in asked]
            guesses[name] = float(100 * np.mean(scores))
    return guesses
