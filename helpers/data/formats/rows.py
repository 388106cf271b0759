"""What the file formats share: what they yield, and checking rows against pydantic models.

Every format yields for each record its example (`Located`, with what was repaired or cannot be trained on) or the
`DataError` that says why the record is refused, without the file's name. What makes reading on impossible it raises.
"""

import hashlib
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, TypeVar

import pydantic
from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from helpers.data.examples import DataError, Example

if TYPE_CHECKING:
    import datasets

Dataset: TypeAlias = "datasets.Dataset"  # which takes a second to import
_EXPECTED = {
    "string_type": "text",
    "string_unicode": "text without half characters (lone surrogates)",
    "int_type": "a whole number",
    "list_type": "a list",
    "bool_type": "true or false",
}
_NOUNS = {"data": "article", "qas": "question"}  # one of a list, where it is not the list's name less its s


class Located(NamedTuple):
    """An example, where in its file it was read (for messages), and its document.

    ``part`` is its part where the file itself says so, ``notes`` what was repaired or cannot be trained on, and
    ``made`` whether its id was made of its content, as the file has none.
    """

    where: str
    example: Example
    document: str
    part: str = ""
    notes: tuple[str, ...] = ()
    made: bool = False


Record = Located | DataError  # an example, or why there is none


class Row(pydantic.BaseModel):
    """One record of a file, as its format has it; what it holds besides is left alone."""

    model_config = pydantic.ConfigDict(strict=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _is_object(cls, value: object) -> object:
        if not isinstance(value, dict):
            raise PydanticCustomError("object", f"an object with {next(iter(cls.model_fields))!r}")
        return value


def _filled(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty", "text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("string_unicode", "text") from None
    return text


Text = Annotated[str, AfterValidator(_filled)]  # with more in it than white space
# Some files number their questions instead of naming them.
Identifier = Annotated[Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
R = TypeVar("R", bound=Row)
M = TypeVar("M")


def checked(model: type[R], value: object, file: object, *places: str) -> R:
    """``value`` as a ``model``. Raises `DataError` that names ``file``, the record (``places``, and where in ``value``
    it stands, with its id), the field, what was expected and what was found."""
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]
    kind, given = problem["type"], problem["input"]
    steps, field = [place + _id_of(value) for place in places], ""
    for key in problem["loc"]:
        if isinstance(key, int):
            noun = _NOUNS.get(field) or field.removesuffix("s").replace("_", " ")
            value, field = value[key] if isinstance(value, list) else None, ""  # or an object of lists
            steps.append(f"{noun} {key + 1}{_id_of(value)}")
        else:
            value, field = value.get(key) if isinstance(value, dict) else None, key
    if kind == "missing":
        keys = listed(given) if isinstance(given, dict) else "unknown"
        says = f"{field!r} is missing; the keys are {keys}"
    elif kind == "empty":
        says = f"{repr(field) if field else 'it'} is empty; fill it in or remove the record"
    else:
        expected = problem["ctx"]["expected"].replace("'", "") if kind == "literal_error" else problem["msg"]
        says = f"expected {f'{field!r} to be ' if field else ''}{_EXPECTED.get(kind, expected)}, found {found(given)}"
    raise DataError(": ".join(filter(None, (str(file), ", ".join(steps), says))))


def found(value: object) -> str:
    """``value`` as a message shows it, cut short."""
    try:
        return _cut(repr(value), 80)
    except RecursionError:
        return "a value nested too deeply to show"


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def listed(names: Collection[object]) -> str:
    """``names`` as a message lists them: eight, and how many more."""
    shown = [repr(_cut(name, 22) if isinstance(name, str) else found(name)) for name in list(names)[:8]]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more or "none"


def _id_of(value: object) -> str:
    identifier = value.get("qid", value.get("id")) if isinstance(value, dict) else None
    return said(identifier) if type(identifier) in (str, int) and str(identifier).strip() else ""


def said(identifier: object) -> str:
    """An id behind a place, as messages have it, cut short."""
    return f" (id {identifier!s:.60})"


def check_impossible(is_impossible: bool | None, answered: bool, where: str) -> None:
    """Raises DataError where a question says of itself that it has an answer, or none, and is not so."""
    if is_impossible is not None and is_impossible == answered:
        there = "there are answers" if answered else "there is no answer"
        raise DataError(
            f"{where}: 'is_impossible' is {str(is_impossible).lower()}, yet {there}; correct one of the two"
        )


def settled(make: Callable[..., M], *given: object) -> "M | DataError":
    """What ``make`` makes of ``given``, or the `DataError` that it raises: this is refused, and the next one read."""
    try:
        return make(*given)
    except DataError as refusal:
        return refusal


def made_id(context: object, question: object) -> str:
    """The id of a question that has none, made of its content."""
    return f"{digest(context)[:8]}-{digest(question)[:8]}"


def digest(*texts: object) -> str:
    """A hash of ``texts`` that is the same in every process and on every machine, as 32 hexadecimal digits."""
    joined = "\x00".join(map(str, texts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=16).hexdigest()
