"""Presets: TOML files read into strict models. An unknown key, a wrong type or a value out of range is an error."""

import copy
import tomllib
from operator import attrgetter
from pathlib import Path

import pydantic

from helpers import paths
from helpers.errors import UserError
from helpers.presets.papers import Settings
from helpers.presets.schema import Limit, Preset

NAMES = ("smoke", "mini", "study", "study-small", "study-large", "lab", "paper")


class PresetError(UserError):
    """A preset that cannot be used; the message names file and key."""


def load(preset: str, *topics: str, **overrides: object) -> Preset:
    """The preset called ``preset`` (a name, or the path of a TOML file) with ``section.key`` overrides.

    A file that ``extends`` a shipped preset stands on its values, tables of papers too. First apply the preset's
    ``[papers.<topic>]`` tables, in the order given. Where there is no GPU, a shipped preset, and no other, is then
    limited in the numbers that limits.toml names, but for those overridden. Raises PresetError.
    """
    path = paths.PRESETS / f"{preset}.toml" if preset in NAMES else Path(preset)
    if not path.is_file():
        raise PresetError(f"no preset {preset!r}: give one of {', '.join(NAMES)} or the path of a TOML file")
    shipped = path.resolve().parent == paths.PRESETS
    values = _whole(path)
    if not shipped and values.get("name") in NAMES:
        raise PresetError(f"{path.name}: the name {values['name']!r} is taken, and names the results; give it another")
    papers = values.pop("papers")
    for topic in topics:
        values = _upon(values, _flat(papers.get(topic, {})))
    if "data.train_size" in overrides:  # who asks for so many questions means so many
        overrides = {"data.train_share": 1.0, **overrides}
    try:
        asked = Preset(**_changed(values, overrides))
        limits = tuple(limit for limit in _limits(path.stem, asked, topics) if shipped and limit.key not in overrides)
        if not limits or _has_gpu():
            return asked
        return Preset(**_changed(values, {limit.key: limit.value for limit in limits} | overrides), limits=limits)
    except pydantic.ValidationError as error:
        raise PresetError(f"{path.name}: {_explain(error)}") from None
    except TypeError:
        raise PresetError(f"{path.name}: a section is no table; write it as [section] with keys below it") from None


def keys() -> dict[str, object]:
    """Every key that a preset may have, with its section, and its type."""
    known: dict[str, object] = {}
    for name, field in Preset.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Settings):
            known |= {f"{name}.{key}": inner.annotation for key, inner in kind.model_fields.items()}
        elif name != "limits":
            known[name] = kind
    return known


def _has_gpu() -> bool:
    import torch  # takes seconds, and most presets have no limits

    return torch.cuda.is_available()


def _read(path: Path) -> dict:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PresetError(f"{path.name}: not valid TOML: {error}") from None


def _whole(path: Path) -> dict:
    """The values of a file, and below them those of the shipped preset that it extends."""
    values = {"papers": {}} | _read(path)
    base, own = values.pop("extends", None), values["papers"]
    if not isinstance(own, dict) or not all(isinstance(table, dict) for table in own.values()):
        raise PresetError(f"{path.name}: papers is no table; write [papers.<paper>] with keys below it")
    if base is None:
        return values
    if base not in NAMES:
        raise PresetError(f"{path.name}: extends is {base!r}; give one of {', '.join(NAMES)}")
    below = _whole(paths.PRESETS / f"{base}.toml")
    # A file's own seeds, or encoder, are meant for all papers, whatever its base says of single ones.
    papers = {
        topic: {key: value for key, value in _flat(below["papers"].get(topic, {})).items() if key not in values}
        | _flat(own.get(topic, {}))
        for topic in below["papers"] | own
    }
    changes = _flat({section: value for section, value in values.items() if section != "papers"})
    return _upon(below, changes) | {"papers": papers}


def _upon(values: dict, changes: dict[str, object]) -> dict:
    """``values`` with each "section.key" of ``changes``, without adversarial questions for a domain that they leave
    out."""
    values = _changed(values, changes)
    if (domains := changes.get("data.domains")) and values["data"].get("adversarial", {}).get("domain") not in domains:
        values["data"].pop("adversarial", None)
    return values


def _limits(shipped: str, preset: Preset, topics: tuple[str, ...]) -> list[Limit]:
    """What changes in the preset ``shipped``, as it was asked for, where there is no GPU."""
    groups, limits = _read(paths.PRESETS / "limits.toml").get(shipped, {}), {}
    for group in (group for topic in ("all", *topics) for group in groups.get(topic, [])):
        for key, value in group.items():
            if key == "why":
                continue
            limits.pop(key, None)  # a later group wins, also where it has the preset's own value
            if value != (instead := attrgetter(key)(preset)):
                limits[key] = Limit(key=key, value=value, instead_of=instead, why=group["why"])
    return list(limits.values())


def _flat(table: dict, prefix: str = "") -> dict[str, object]:
    """{"training": {"epochs": 1}} and {"training.epochs": 1} alike as the latter. Domains and tasks stay a
    table, so that they replace the preset's."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        inner = isinstance(value, dict) and not (prefix + key).endswith((".domains", ".tasks"))
        flat |= _flat(value, f"{prefix}{key}.") if inner else {prefix + key: value}
    return flat


def _changed(values: dict, changes: dict[str, object]) -> dict:
    """A copy of nested ``values`` with each "section.key" of ``changes`` replaced."""
    changed = copy.deepcopy(values)
    for key, value in changes.items():
        *sections, last = key.split(".")
        place = changed
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return changed


def _explain(error: pydantic.ValidationError) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"] if part != "[key]")
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "unknown key"
        elif problem["type"] not in ("missing", "value_error"):  # their input is the section around the key
            message += f" (got {problem['input']!r:.80})"
        lines.append(f"{key}: {message}")
    return "; ".join(lines)
