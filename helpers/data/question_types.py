"""What kind of question a question is, by its question word."""

from collections.abc import Iterable

QUESTION_TYPES = ("what", "who", "when", "where", "which", "why", "how", "other")
QUESTION_WORDS = ("what", "who", "when", "where", "which", "why", "how", "name", "is", "does", "can")


def question_word(question: str) -> str:
    """The first question word of a question, lower case; "other" where it has none."""
    return _first_of(QUESTION_WORDS, question)


def question_type(question: str) -> str:
    """Which of ``QUESTION_TYPES`` a question is of: the first of their words in it, "other" where it has none.

    Wherever it stands: "Can you guess who ...", "In what year ..." and "In which ..." are of who, what and which;
    "whom" and "whose" are of who. "Is ...", "Name ..." and queries of mere key words are of "other".
    """
    return _first_of(QUESTION_TYPES[:-1], question)


def by_type(questions: Iterable[str]) -> dict[str, list[int]]:
    """The numbers of the questions of each type, in the order of ``QUESTION_TYPES``; of those that occur."""
    types = [question_type(question) for question in questions]
    return {kind: [n for n, own in enumerate(types) if own == kind] for kind in QUESTION_TYPES if kind in types}


def _first_of(known: tuple[str, ...], question: str) -> str:
    words = "".join(letter if letter.isalpha() else " " for letter in question.lower()).split()
    words = ["who" if word in ("whom", "whose") else word for word in words]
    return next((word for word in words if word in known), "other")
