"""Errors that the person at the keyboard can mend."""


class UserError(ValueError):
    """What was given cannot be used; the message says what is wrong and what to do, so no traceback is needed."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback: the message alone."""
        return f"{type(self).__name__}: {self}".splitlines()


class EncoderError(UserError):
    """An encoder or tokenizer that cannot be used; the message says which and what to do."""
