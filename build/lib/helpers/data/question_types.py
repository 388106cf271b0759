"""Types of questions by their question words."""

from collections.abc import Iterable

QUESTION_TYPES = ("what", "who", "when", "where", "which", "why", "how", "other")
QUESTION_WORDS = (*QUESTION_TYPES[:-1], "name", "is", "does", "can")


def question_word(question: str, words: tuple[str, ...] = QUESTION_WORDS) -> str:
    """Return the first of ``words`` that occurs in a question, lower case; "other" if none does. "whose" is "who"."""
    text = "".join(letter if letter.isalpha() else " " for letter in question.lower())
    tokens = ["who" if word in ("whom", "whose") else word for word in text.split()]
    return next((word for word in tokens if word in words), "other")


def by_type(questions: Iterable[str]) -> dict[str, list[int]]:
    """Return the numbers of the questions of each type that occurs, in the order of `QUESTION_TYPES`.

    "Can you guess who ..." is of the type "who"; "Is ..." and "Name ..." are of "other".
    """
    types = [question_word(question, QUESTION_TYPES[:-1]) for question in questions]
    return {kind: [n for n, other in enumerate(types) if other == kind] for kind in QUESTION_TYPES if kind in types}
