"""Errors that the person at the keyboard can mend."""


def printable(text: object) -> str:
    """Return a text with characters that do not print escaped, as repr does; line ends stay.

    Names of files, columns and labels may hold escape sequences, which a terminal would obey.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(text))


class UserError(ValueError):
    """What was given cannot be used; the message says what is wrong and what to do, so no traceback is needed."""

    def __init__(self, message: object = ""):
        super().__init__(printable(message))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback: the message alone."""
        return f"{type(self).__name__}: {self}".splitlines()


class EncoderError(UserError):
    """An encoder or tokenizer that cannot be used; the message says which and what to do."""
