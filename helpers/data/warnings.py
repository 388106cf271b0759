"""What to be warned of before something is trained: few examples, labels that are nearly the same, passages seen."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product

from helpers.data.examples import Choice, Domain, Example, Pair
from helpers.data.formats.folders import PARTS
from helpers.data.formats.labelled import as_number

SCATTER = 40.0  # points: how far a question's F1 is from the mean, about
QUESTIONS = 100  # which place an F1 within ±8 points (95 %)
TEXTS = 50  # which place an accuracy within ±14 points (95 %)


def of_questions(domain: Domain) -> list[str]:
    """What follows from parts of fewer than `QUESTIONS` questions, a line each that begins with "warning: "."""

    def placed(size: int) -> str:
        return f"an F1 only within ±{1.96 * SCATTER / size**0.5:.0f} points (95 %), and methods differ by less"

    return _few(domain, "questions", QUESTIONS, placed)


def of_texts(data: Domain, labels: tuple[str, ...]) -> list[str]:
    """What follows from parts of fewer than `TEXTS` texts, from ``labels`` that are nearly the same, and from those
    without a text, a line each."""
    name = data.name
    lines = _few(data, "texts", TEXTS, lambda size: f"an accuracy only within ±{100 * 0.98 / size**0.5:.0f} points")
    alike = defaultdict(list)
    for label in labels:
        alike[_written_alike(label)].append(label)
    for of_one in (names for names in alike.values() if len(names) > 1):
        says = "are classes of their own; write them alike if they are one"
        lines.append(f"warning: {name}: the labels {' and '.join(map(repr, of_one))} {says}")
    for label in labels:
        if label.lower() == "nan":
            lines.append(f"warning: {name}: a class is called {label!r}; remove its records if they have no label")
    if scores := [label for label in labels if not (as_number(label) or 0.0).is_integer()]:
        lines.append(f"warning: {name}: the labels {', '.join(scores[:3])} are read as classes, not as scores")
    of_train = {pair.label for pair in data.train}
    if without := [label for number, label in enumerate(labels) if number not in of_train]:
        lines.append(f"warning: {name}: no text that is trained on is labelled {', '.join(without)}")
    return lines


def seen_elsewhere(
    domains: Mapping[str, Domain], tested: Mapping[str, Sequence[Example]], trained: Mapping[str, Sequence[Example]]
) -> list[str]:
    """The passages or texts on which one domain or task is tested and another one trained, a line for each such two.
    Other examples are ``tested`` or ``trained`` on as well."""
    parts = ({name: getattr(known, part) for name, known in domains.items()} for part in ("test", "train"))
    both_sides = (of | other for of, other in zip(parts, (tested, trained), strict=True))
    passages, known = ({name: {_content(e) for e in of[name]} for name in of} for of in both_sides)
    return [
        f"warning: {name}: {len(both):,} of {len(passages[name]):,} test {_noun(both)} are trained on in {other}; "
        "leave them out there, or models that learn both have seen them"
        for name, other in product(passages, known)
        if name != other and (both := passages[name] & known[other])
    ]


def _content(example: Example | Pair | Choice) -> str | tuple:
    """What is read of it: a passage, or a text with what belongs to it."""
    if isinstance(example, Pair):
        return example.first, example.second
    return example.context if isinstance(example, Example) else (example.context, example.endings)


def _noun(contents: Collection[str | tuple]) -> str:
    return "passages" if all(isinstance(content, str) for content in contents) else "texts"


def _few(data: Domain, noun: str, enough: int, placed: Callable[[int], str]) -> list[str]:
    """A line for each part that is smaller than ``enough``; ``placed`` says how exactly a score is known by so many."""
    lines = []
    for part in PARTS:
        if (size := len(getattr(data, part))) >= enough:
            continue
        if part == "train":
            says = "train on are soon known by heart, and which ones they are decides the result"
        else:
            says = f"{'validate' if part == 'valid' else 'test'} on place {placed(max(1, size))}"
        lines.append(f"warning: {data.name}: {size:,} {noun} to {says}; raise {part}_size, or give more data")
    return lines


def _written_alike(label: str) -> str:
    """The same for labels that differ in case, or as numbers do as they are written (0 and 0.0)."""
    number = as_number(label)
    return label.casefold() if number is None else str(number)
