"""Presets: TOML files read into strict models. An unknown key, a wrong type or a value out of range is an error."""

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import pydantic

from helpers import paths
from helpers.errors import UserError
from helpers.presets.schema import EXAMPLES, Preset

PRESET_NAMES = ("smoke", "mini", "study", "lab", "lab-large", "paper")
TRAINED = ("training", "mnemonic", *EXAMPLES)  # sections of data and trainings

parse_toml = cache(tomllib.loads)  # which takes longer than all else here
Values = dict[tuple[str, ...], object]  # by section and key, such as ("training", "epochs")


class PresetError(UserError):
    """A preset that cannot be used; the message names file and key."""


def load_preset(preset: str, *topics: str, **overrides: object) -> Preset:
    """Load the preset of this name, or of this TOML file: ``load_preset("mini", "imm", seeds=2, **{"data.draw": 3})``.

    Its tables ``[papers.<topic>]`` are applied in the order of ``topics``, then `override`. Raises UserError."""
    path = paths.PRESETS / f"{preset}.toml" if preset in PRESET_NAMES else Path(preset)
    if not path.is_file():
        raise PresetError(f"no preset {preset!r}: give one of {', '.join(PRESET_NAMES)} or the path of a TOML file")
    values, tables = read(path)
    name = values.get(("name",))
    if name in PRESET_NAMES and path.resolve().parent != paths.PRESETS:
        raise PresetError(f"{path.name}: the name {name!r} is taken, and names the results; give it another")
    for topic in topics:
        if not isinstance(topic, str):
            raise PresetError(f"expected a topic such as 'imm', found {topic!r}; give settings by name, as seeds=2")
        if topic not in tables and (near := nearest_topic(topic, tables)):
            raise PresetError(f"no topic {topic!r}; did you mean {near!r}?")
        values = change(values, tables.get(topic, {}))
    loaded = validate(values, path.name)
    return override(loaded, overrides) if overrides else loaded


def nearest_topic(name: str, tables: Iterable[str]) -> str:
    """Return the topic most like a name; "" where none is, or it is a paper here, or a notebook without its number."""
    here = {path.parent.name for path in paths.PACKAGE.glob("papers/*/__init__.py")}
    here |= {path.stem.partition("_")[2] for path in paths.NOTEBOOKS.glob("*.ipynb")}
    return "" if name in here else next(iter(get_close_matches(name, sorted({*tables, *here}), 1, 0.65)), "")


def override(preset: Preset, settings: Mapping[str, object]) -> Preset:
    """Return a preset with other values by key ("training.epochs"). A number may be a text. Raises PresetError."""
    texts = [key for key, kind in keys().items() if kind is str]
    changes = {"data.train_share": 1.0} if "data.train_size" in settings else {}  # a number is no share of itself
    for key, value in settings.items():
        changes[key] = str(value) if key in texts and type(value) in (int, float) else value
    values = flatten(preset.model_dump(exclude_unset=True))
    return validate(change(values, flatten(changes)), f"preset {preset.name}")


def validate(values: Values, source: str) -> Preset:
    try:
        return Preset(**nest(values))
    except pydantic.ValidationError as error:
        raise PresetError(f"{source}: {explain(error)}") from None


def keys() -> dict[str, object]:
    """Return every key that a preset may have, such as "training.epochs", with its type."""
    types: dict[str, object] = {}
    for name, field in Preset.model_fields.items():
        section = getattr(field.annotation, "model_fields", {})
        types |= {f"{name}.{key}": inner.annotation for key, inner in section.items()} or {name: field.annotation}
    return types


def read(path: Path) -> tuple[Values, dict[str, Values]]:
    """Read a preset's values, and those of its tables ``[papers.<topic>]`` by topic. Raises PresetError.

    What a file sets for all papers wins over what the preset that it ``extends`` sets for single ones."""
    try:
        table = dict(parse_toml(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PresetError(f"{path.name}: not valid TOML: {error}; correct the file") from None
    base, papers = table.pop("extends", None), table.pop("papers", {})
    if not isinstance(papers, dict) or not all(isinstance(values, dict) for values in papers.values()):
        raise PresetError(f"{path.name}: papers is not a table; write [papers.<paper>] with keys below it")
    values, tables = flatten(table), {topic: flatten(values) for topic, values in papers.items()}
    if base is None:
        return values, tables
    if base not in PRESET_NAMES:
        raise PresetError(f"{path.name}: extends is {base!r}; give one of {', '.join(PRESET_NAMES)}")
    inherited, inherited_tables = read(paths.PRESETS / f"{base}.toml")
    for topic, inherited_values in inherited_tables.items():
        others = {key: value for key, value in inherited_values.items() if key not in values}
        tables[topic] = change(others, tables.get(topic, {}))
    return change(inherited, values), tables


def read_paper_settings(preset: str, paper: str, notebooks: Iterable[str]) -> dict[tuple[str, ...], list[float]]:
    """Read what a preset sets for a paper alone of its data and trainings, numbers by section and key.

    The first is for all of its notebooks, others are for some.
    """
    _, tables = read(paths.PRESETS / f"{preset}.toml")
    of_paper = tables.get(paper, {})
    variants = [of_paper, *(of_paper | tables.get(notebook, {}) for notebook in notebooks)]
    numbers = [key for key in of_paper if key[0] in TRAINED and type(of_paper[key]) in (int, float)]
    return {key: [variant[key] for variant in variants] for key in numbers}


def flatten(table: dict, section: tuple[str, ...] = ()) -> Values:
    """Flatten nested tables, but for domains and tasks, which replace those of another preset as a whole."""
    values: Values = {}
    for key, value in table.items():
        path = (*section, key) if section else tuple(key.split("."))
        is_section = isinstance(value, dict) and value and path[1:] not in (("domains",), ("tasks",))
        values |= flatten(value, path) if is_section else {path: value}
    return values


def change(values: Values, changes: Values) -> Values:
    """Return ``values`` with ``changes``, without adversarial questions for a domain that these leave out."""
    changed, domain = values | changes, ("data", "adversarial", "domain")
    if domain not in changes and changed.get(domain) not in changes.get(("data", "domains"), {changed.get(domain)}):
        return {key: value for key, value in changed.items() if key[:2] != domain[:2]}
    return changed


def nest(values: Values) -> dict:
    nested: dict = {}
    for (*sections, last), value in values.items():
        table = nested
        for section in sections:
            if not isinstance(table.get(section), dict):
                table[section] = {}
            table = table[section]
        table[last] = value
    return nested


def nearest_key(name: str) -> str:
    """Return the key that is most like a name, or else whose last part is most like the name's; "" where none is."""
    keys_by_name, last = {key.rpartition(".")[2]: key for key in reversed(keys())}, name.rpartition(".")[2]
    exact = [name] * (name in keys_by_name)
    near = exact or get_close_matches(name, keys(), 1, 0.75) or get_close_matches(last, keys_by_name, 1, 0.75)
    return keys_by_name.get(near[0], near[0]) if near else ""


def explain(error: pydantic.ValidationError) -> str:
    """Say for each key what is wrong with it and how to correct it, on one line."""
    problems = []
    for details in error.errors():
        key = ".".join(str(part) for part in details["loc"] if part != "[key]")
        problem = details["msg"].removeprefix("Value error, ").replace("Input should be ", "expected ")
        if details["type"] == "extra_forbidden":
            near = nearest_key(key.replace("_dir", ".folder"))  # which notebooks call so
            problem = f"unknown key; did you mean {near}?" if near else "unknown key; delete it"
        elif details["type"] == "missing":
            problem = "the key is missing; add it"
        elif details["type"] != "value_error":  # such a message has its own words for the value
            problem += f", found {details['input']!r:.80}"
        problems.append(f"{key}: {problem}" if key else problem)
    return "; ".join(problems)
