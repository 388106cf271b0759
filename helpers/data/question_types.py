"""What kind of question a question is, by its question word."""

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


def _first_of(known: tuple[str, ...], question: str) -> str:
    words = "".join(letter if letter.isalpha() else " " for letter in question.lower()).split()
    words = ["who" if word in ("whom", "whose") else word for word in words]
    return next((word for word in words if word in known), "other")
