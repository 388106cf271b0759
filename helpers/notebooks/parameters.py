"""Which notebooks there are, and what may be asked of them and of a preset; none of it imports torch, which takes
seconds."""

import ast
import json
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from helpers import papers, paths
from helpers.errors import UserError
from helpers.presets.load import keys, load
from helpers.presets.schema import Preset

REPORT = "99_report"


class ParameterError(UserError):
    """A parameter that a notebook does not know, or of the wrong type."""


class Parameter(NamedTuple):
    """A notebook's parameter: its type as annotated, its default, and the comment beside it."""

    type: str
    default: object
    help: str


def names() -> list[str]:
    """All notebooks, in order."""
    return sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))


def asked(wanted: list[str], parameters: dict[str, object]) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    """The notebooks that are wanted (all, if none is), and the report last, each with those of the parameters that it
    declares; and all parameters as they are meant. Raises ParameterError for a notebook that there is not, and for a
    parameter that none of them has or that is of the wrong type."""
    chosen = [Path(name).stem for name in wanted] or names()
    if unknown := sorted(set(chosen) - set(names())):
        near = get_close_matches(unknown[0], names(), 1, 0.8)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ParameterError(f"no notebook {', '.join(unknown)}; there are {', '.join(names())}{meant}")
    chosen = [name for name in chosen if name != REPORT] + [REPORT]
    declared = {name: parameters_of(paths.NOTEBOOKS / f"{name}.ipynb") for name in chosen}
    everything = {key: value for known in declared.values() for key, value in known.items()}
    given = check(parameters, everything, chosen[0] if len(wanted) == 1 else "this set of notebooks")
    own = {name: {key: value for key, value in given.items() if key in known} for name, known in declared.items()}
    return own, given


def parameters_of(notebook: Path) -> dict[str, Parameter]:
    """The parameters of a notebook, read from the source of its cell tagged ``parameters``."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    if len(tagged) != 1:
        raise ParameterError(f"{notebook.name} has {len(tagged)} cells tagged 'parameters'; it needs one")
    lines, parameters = tagged[0].splitlines(), {}
    for node in ast.parse(tagged[0]).body:
        line = lines[node.lineno - 1]
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            raise ParameterError(f"{notebook.name}: write 'name: type = literal  # comment', not {line!r}")
        comment = line.partition("#")[2].strip()
        parameters[node.target.id] = Parameter(ast.unparse(node.annotation), ast.literal_eval(node.value), comment)
    return parameters


def check(values: dict[str, object], known: dict[str, Parameter], notebook: str) -> dict[str, object]:
    """``values`` in the declared types (a whole number may stand for a float, a number for a text, None for what the
    preset says). Raises ParameterError."""
    checked = {}
    for name, value in values.items():
        if name not in known:
            raise ParameterError(
                f"{notebook} has no parameter {name!r}; it has {', '.join(known)}; any other setting is a key of a "
                "preset: give the path of your copy of one by --preset"
            )
        if known[name].type == "float" and type(value) is int:
            value = float(value)
        if known[name].type == "str" and type(value) in (int, float):
            value = str(value)
        if type(value).__name__ != known[name].type and not (value is None and known[name].default is None):
            raise ParameterError(f"{notebook}: {name} has to be {known[name].type}, not {value!r}")
        checked[name] = value
    return checked


def preset_for(parameters: dict[str, object], notebook: str = "", **overrides: object) -> Preset:
    """The preset that parameters ask for, with what it has for the notebook's paper and for the notebook alone, those
    of its limits that matter to them, and ``overrides`` by key. A parameter may be a key of the preset too; one that
    is None leaves the preset's. Raises ParameterError, PresetError."""
    known = {key: key for key in keys()} | papers.parameters()
    asked = {known[name]: value for name, value in parameters.items() if name in known and value is not None}
    paper, _ = papers.card_of(notebook)
    topics = [paper.key, notebook.partition("_")[2]] if paper else []
    preset = load(str(parameters["preset"]), *topics, **{**asked, **overrides})
    limits = tuple(limit for limit in preset.limits if not paper or papers.concerns(limit.key, notebook))
    return preset.model_copy(update={"limits": limits})


def of_the_preset(parameters: dict[str, object]) -> dict[str, object]:
    """``parameters`` by their keys in the preset: given by the names that notebooks have for them, with their section,
    or without where only one section has such a key, those of other examples than [data] left aside. A number may stand
    for a text. Raises ParameterError."""
    kinds = keys()
    sections: dict[str, list[str]] = {}
    for key in kinds:
        sections.setdefault(key.rpartition(".")[2], []).append(key)
    others = {
        name: [k for k in several if k.partition(".")[0] not in papers.BESIDE] for name, several in sections.items()
    }
    known = {name: several[0] for name, several in others.items() if len(several) == 1} | papers.parameters()
    known |= {key: key for key in kinds} | {"preset": "preset"}
    if unknown := sorted(set(parameters) - set(known)):
        near = sections.get(unknown[0]) or get_close_matches(unknown[0], known, 3) or list(papers.parameters())
        raise ParameterError(f"no parameter {unknown[0]!r} here; give a key of the preset, such as {', '.join(near)}")
    named = {known[name]: value for name, value in parameters.items()}
    return {key: str(v) if kinds.get(key) is str and type(v) in (int, float) else v for key, v in named.items()}
