"""Presets: TOML files read into strict models. An unknown key, a wrong type or a value out of range is an error."""

import copy
import tomllib
from pathlib import Path

import pydantic
import torch

from helpers import paths
from helpers.presets.schema import Preset

NAMES = ("smoke", "mini", "lab", "paper")


class PresetError(ValueError):
    """A preset that cannot be used; the message names file and key."""


def load(preset: str, *topics: str, **overrides: object) -> Preset:
    """The preset called ``preset`` (a name, or the path of a TOML file) with ``section.key`` overrides.

    First apply the preset's ``[papers.<topic>]`` tables, in the order given, and, where there is no GPU, ``[cpu]`` and
    ``[papers.<topic>.cpu]``. Raises PresetError.
    """
    path = paths.PRESETS / f"{preset}.toml" if preset in NAMES else Path(preset)
    if not path.is_file():
        raise PresetError(f"no preset {preset!r}: give one of {', '.join(NAMES)} or the path of a TOML file")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PresetError(f"{path.name}: not valid TOML: {error}") from None
    if path.parent != paths.PRESETS and values.get("name") in NAMES:
        raise PresetError(f"{path.name}: the name {values['name']!r} is taken, and names the results; give it another")
    papers, on_cpu = values.pop("papers", {}), _flat(values.pop("cpu", {}))
    for topic in topics:
        table = {**papers.get(topic, {})}
        on_cpu |= _flat(table.pop("cpu", {}))  # what a paper says for itself wins
        values = _changed(values, _flat(table))
    if overrides.get("data.train_size"):  # who asks for so many questions means so many
        overrides = {"data.train_share": 1.0, **overrides}
    applied = {key: value for key, value in on_cpu.items() if key not in overrides}
    try:
        without_gpu = Preset(**_changed(values, {**applied, **overrides}), cpu=applied)
        return without_gpu if not torch.cuda.is_available() else Preset(**_changed(values, overrides))
    except pydantic.ValidationError as error:
        raise PresetError(f"{path.name}: {_explain(error)}") from None
    except TypeError:
        raise PresetError(f"{path.name}: a section is no table; write it as [section] with keys below it") from None


def _flat(table: dict, prefix: str = "") -> dict[str, object]:
    """{"training": {"epochs": 1}} and {"training.epochs": 1} alike as the latter. Domains stay a table."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        inner = isinstance(value, dict) and prefix + key != "data.domains"
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
        key = ".".join(str(part) for part in problem["loc"])
        unknown = problem["type"] == "extra_forbidden"
        lines.append(f"{key}: " + ("unknown key" if unknown else f"{problem['msg']} (got {problem['input']!r})"))
    return "; ".join(lines)
