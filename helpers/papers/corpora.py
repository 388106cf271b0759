"""What the corpora look like, and what a guess of the answer's type would score."""

from collections import Counter
from html import escape

import numpy as np

from helpers.data.examples import Domain
from helpers.data.load import fingerprint_examples, load_domains, source_of
from helpers.data.question_types import QUESTION_WORDS, question_word
from helpers.metrics import f1
from helpers.papers import Exhibit, Notebook, Paper
from helpers.presets.schema import DataSettings

BINS = 20
PAGE = '<div class="tex2jax_ignore mathjax_ignore">{}</div>'  # "$5 or $10" in a text is no formula
PASSAGE_CHARACTERS = 700  # characters of a passage in an example


def overview(data: DataSettings) -> dict:
    """Return the payload of a profile: sizes, lengths in words as histograms, and shares of question words."""
    domains = load_domains(data)
    questions = {name: [example.question for example in domain.train] for name, domain in domains.items()}
    passages = {name: list({example.context for example in domain.train}) for name, domain in domains.items()}
    words = {name: Counter(map(question_word, texts)) for name, texts in questions.items()}
    return {
        "sizes": count_questions(domains),
        "passage_lengths": _histograms(passages),
        "question_lengths": _histograms(questions),
        "question_words": {
            name: {word: counts[word] / counts.total() for word in (*QUESTION_WORDS, "other")}
            for name, counts in words.items()
        },
        "fingerprints": {name: fingerprint_examples(data, name) for name in domains},
    }


def count_questions(domains: dict[str, Domain]) -> dict[str, dict[str, int]]:
    """Count the questions of each part and the distinct passages, by domain."""
    counts = {}
    for name, domain in domains.items():
        parts = {part: getattr(domain, part) for part in ("train", "valid", "test")}
        counts[name] = {part: len(examples) for part, examples in parts.items()}
        counts[name]["passages"] = len({example.context for examples in parts.values() for example in examples})
    return counts


def _histograms(texts: dict[str, list[str]]) -> dict[str, dict[str, list[int]]]:
    lengths = {name: [len(text.split()) for text in of_domain] for name, of_domain in texts.items()}
    longest = max(np.percentile(of_domain, 99) for of_domain in lengths.values())  # a few would squeeze the rest
    edges = np.arange(BINS + 2) * max(1, int(np.ceil(longest / BINS)))
    counts = {name: np.histogram(np.minimum(values, edges[-1] - 1), edges)[0] for name, values in lengths.items()}
    return {name: {"edges": edges.tolist(), "counts": of_domain.tolist()} for name, of_domain in counts.items()}


def show_example(domain: Domain) -> str:
    """Show the first training question with an answer, the answer marked in the passage around it."""
    example = next((e for e in domain.train if e.span is not None), domain.train[0])
    start, end = example.span or (0, 0)
    first = max(0, min(start - PASSAGE_CHARACTERS // 2, len(example.context) - PASSAGE_CHARACTERS))
    last = first + max(PASSAGE_CHARACTERS, end - first)
    before, answer, after = example.context[first:start], example.context[start:end], example.context[end:last]
    passage = f"{'…' * bool(first)}{escape(before)}<mark>{escape(answer)}</mark>{escape(after)}"
    dots = "…" * (last < len(example.context))
    text = f"<b>{escape(domain.name)}</b>: {escape(example.question)}<br>{passage}{dots}"
    return f'<p class="tex2jax_ignore mathjax_ignore">{text}</p>'  # as PAGE


def guess_types(data: DataSettings) -> dict[str, float]:
    """Return the expected F1 (0-100) on each domain's test set of a random value of the right type.

    Empty for data that are not generated, and without stories, whose answers are free: there the types are not known.
    """
    guesses = {}
    for name in data.domains if data.is_generated else ():
        questions = source_of(data).list_candidates(data, name)
        scores = [np.mean([f1(value, (answer,)) for value in values]) for answer, values in questions]
        if scores:
            guesses[name] = float(100 * np.mean(scores))
    return guesses


PAPER = Paper(
    key="corpora",
    title="The corpora",
    method="Corpora",
    exhibits=(Exhibit("overview", "Sizes, lengths and question words of the corpora", "profile", "questions"),),
    notebooks=(
        Notebook("00_corpora"),
        Notebook("17_playground", shows_models=True),
    ),
)
