"""What every notebook does first and last: check its parameters and fix the seeds; save its results."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import time
from ast import AnnAssign, Assign, Call, Dict, Name, literal_eval, parse, unparse, walk
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from glob import escape
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from IPython import get_ipython

import helpers
from helpers import engine, papers, paths, records
from helpers.data.folders import find_copy, find_local, find_source, find_unlabelled, list_read, with_every_domain
from helpers.data.load import fingerprint_examples, state_overlaps
from helpers.errors import UserError
from helpers.extractive_qa import labels_of
from helpers.files import file_fingerprint, fingerprint
from helpers.models.encoders import encoder_fingerprint
from helpers.papers.export import check_export
from helpers.papers.model_folders import check_keep
from helpers.presets.load import keys, load_preset, nearest_key, override
from helpers.presets.schema import EXAMPLES, Preset
from helpers.results.stats import interval_over_passages

WITHOUT_EFFECT = ("keep", "export", "results", "reader")  # parameters that change no number
SettingsByKey = Mapping[str, object]
MAX_RUN_NAME = 66  # characters of a run's name that say what differs
DIGITS = 6  # of a fingerprint, in such a name
Code = tuple[str, bool]  # commit, and whether the code differs from it
INJECTED = "# Parameters"  # how papermill's own cell begins


class ParameterError(UserError):
    """A parameter that a notebook does not know, or of the wrong type."""


class Parameter(NamedTuple):
    """A notebook's parameter: its type as annotated, its default, and the preset's key that it sets, if any."""

    type: str
    default: object
    key: str


def notebook_names() -> list[str]:
    """List all notebooks, in order."""
    return sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))


def parameters_of(notebook: str) -> dict[str, Parameter]:
    """Read a notebook's parameters from its cell tagged ``parameters``, and their keys from its call of `start`.

    Parameters are annotated literals, keys literals too. Not with papermill, which takes seconds to import.
    """
    cells = json.loads((paths.NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    sources, keys_by_name = ["".join(cell["source"]) for cell in cells], {}
    for call in [node for source in sources if "= start(" in source for node in walk(parse(source))]:
        if isinstance(call, Call) and unparse(call.func) == "start":
            for table in [argument for argument in call.args if isinstance(argument, Dict)]:
                pairs = zip(table.keys, table.values, strict=True)
                keys_by_name |= {unparse(value): literal_eval(key) for key, value in pairs if key}
    (tagged,) = (number for number, cell in enumerate(cells) if "parameters" in cell["metadata"].get("tags", []))
    lines = {line.target.id: line for line in parse(sources[tagged]).body}
    return {
        name: Parameter(unparse(line.annotation), literal_eval(line.value), keys_by_name.get(name, ""))
        for name, line in lines.items()
    }


def unknown_parameter(where: str, name: str, declared: Iterable[str]) -> ParameterError:
    """Return the error about a parameter that is not among those ``declared``."""
    near = next(iter(get_close_matches(name, [*declared, *keys()], 1, 0.75)), nearest_key(name))
    _, mark, last = name.rpartition("_")
    alike = [other for other in declared if mark and other.endswith(mark + last)]  # reviews_dir for data_dir
    meant = dict.fromkeys(filter(None, [near, *alike, *(key for key in keys() if key.rpartition(".")[2] == name)]))
    question = f"; did you mean {' or '.join(map(repr, meant))}?" if meant else "."
    names = f"There is {', '.join(declared)}, and every key of a preset, such as training.warmup"
    return ParameterError(f"{where}: unknown parameter {name!r}{question} {names}")


def preset_for(notebook: str, name: str) -> Preset:
    """Load a preset with what it has for the notebook's paper and for the notebook alone. Raises PresetError."""
    paper, _ = papers.find_paper(notebook)
    return load_preset(name, *([paper.key, notebook.partition("_")[2]] if paper else []))


def with_settings(preset: Preset, settings: Mapping[str, object]) -> Preset:
    """Return a preset with other values by key; None leaves its own.

    In a folder that lacks its domains, every entry is one. Raises PresetError, and ParameterError for a folder that is
    not there, or where the preset's texts are not from files.
    """
    changed = override(preset, {key: value for key, value in settings.items() if value is not None})
    updates: dict[str, object] = {}
    for name in [name for name in EXAMPLES if settings.get(f"{name}.folder")]:
        section, parameter = getattr(changed, name), f"{EXAMPLES[name]} ({name}.folder)"
        if not paths.find_folder(section.folder):
            raise ParameterError(f"{parameter}: expected a folder, found none at {section.folder}; correct the path")
        if section.is_generated:
            raise ParameterError(
                f"{parameter}: preset {preset.name} reads no folder (its {name}.source is {section.source!r}); "
                f'give preset lab, or a file of your own with source = "files" below [{name}]'
            )
        if section.source == "hub" and not any(
            find_copy(section, source) or find_local(section, one) for one, source in section.named.items()
        ):
            corpora = ", ".join(f"{source.replace(':', '/')} or {one}" for one, source in section.named.items())
            raise ParameterError(
                f"{parameter}: expected corpora of preset {preset.name} in {section.folder}, such as {corpora:.100}, "
                "found none; data/README.md has their layouts, and preset lab reads any domains"
            )
        updates[name] = with_every_domain(section)
    data = updates.get("data", changed.data)
    if data.unlabelled and data.source == "files" and not data.folder:
        updates["data"] = find_unlabelled(data)  # the teacher's answers are all there are
    if settings.get("warmup_data") is None and updates.get("data", preset.data).domains != preset.data.domains:
        updates["warmup_data"] = ""  # a file of the preset's own corpora
    return changed.model_copy(update=updates)


def settle(notebook: str, name: str, settings: SettingsByKey, options: SettingsByKey) -> tuple[Preset, str]:
    """Return the preset in force and the name of the run, before anything is trained.

    ``settings`` are values by key, ``options`` the parameters that set none, by name. Raises UserError, also for a text
    that no record could hold and for a place where no model can be kept.
    """
    declared = parameters_of(notebook)
    if unknown := [key for key in settings if key not in keys()]:
        raise unknown_parameter(notebook, unknown[0], declared)
    original, (paper, card) = preset_for(notebook, name), papers.find_paper(notebook)
    preset = with_settings(original, settings)
    text = json.dumps([name, options, preset.model_dump()], ensure_ascii=False)
    if match := re.search('[^"]*[\ud800-\udfff][^"]*', text):  # a byte that Python could not decode
        problem = "is not UTF-8 here; rename it, or set PYTHONUTF8=1 if the locale has ASCII alone"
        raise ParameterError(f"{notebook}: {match[0]!a} {problem}")
    if not preset.data.is_labelled and "unlabelled" not in declared:
        raise ParameterError(f"{notebook}: it needs questions with answers; give their folder with -p data_dir")
    if not preset.teacher and (preset.data.unlabelled or not preset.data.is_labelled):
        raise ParameterError(f"{notebook}: unlabelled: no teacher answers these questions; give -p teacher too")
    for parameter, value in options.items():
        if not isinstance(value, str | None):
            raise ParameterError(f"{notebook}: {parameter}: expected str, found {value!r}; put it in quotes")
    if folder := options.get("keep"):
        if not (names := [*card.keeps(preset)]):
            raise ParameterError(f"{notebook}: keep: there is no model to keep without texts; give their folder too")
        check_keep(folder, names, [getattr(preset, section).folder for section in paper.examples])
    if form := options.get("export"):
        if not folder:
            raise ParameterError(f"{notebook}: export: no reader is kept; give a folder with -p keep")
        check_export(form)
    if results := options.get("results"):  # of the report alone
        return preset, check_results(notebook, results)
    others = {name: value for name, value in options.items() if value not in (None, declared[name].default)}
    others = {name: value for name, value in others.items() if name not in WITHOUT_EFFECT}
    return preset, name_run(original, preset, [key for key in settings if settings[key] is not None], others)


def name_run(original: Preset, preset: Preset, changed: list[str], others: SettingsByKey) -> str:
    """Name a run by its preset, with the keys ``changed`` that differ from the ``original``, and ``others``, after "+".

    So "mini+seeds=2" is not taken for the preset's own results. What counts is content: a copy of the preset's own
    encoder or files changes nothing, and two encoders, files or folders of one name have two runs. Settings of the
    engine change results by rounding alone, or by the numbers that dropout draws.
    """
    changes = []
    for key in sorted(changed, key=[*keys()].index):
        value = attrgetter(key)(preset)
        if not (key.startswith("engine.") or value == attrgetter(key)(original) or is_copy(original, key, value)):
            changes.append(f"{key}={name_value(key, value)}")
    text = ",".join([*changes, *(f"{name}={name_value(name, value)}" for name, value in others.items())])
    if len(text) > MAX_RUN_NAME:
        text = f"{text[:MAX_RUN_NAME]}-{fingerprint(text)[:DIGITS]}"
    return f"{original.name}+{text}" if text else original.name


def check_results(notebook: str, name: str) -> str:
    """Return the name of a folder of results. Raises ParameterError where there is none."""
    names = [folder.name for folder in paths.find_results("", "*") if folder.is_dir() and folder.name != "local"]
    if name not in names:
        choice = f"give {' or '.join(names)}" if names else "run notebooks first"
        raise ParameterError(f"{notebook}: results: expected a folder of results, found no {name!r}; {choice}")
    return name


def name_value(key: str, value: object) -> str:
    """Name the value of a parameter in a folder's name, without any folder of this machine.

    Digits follow where the name does not say all, as those of a file's content.
    """
    text, content = str(value), identify_value(key, value)
    name = re.sub(r"[^\w.=-]+", "-", paths.public_name(text)).strip("-")
    return name if name == text == content else f"{name}-{fingerprint(content)[:DIGITS]}"


def is_copy(preset: Preset, key: str, value: object) -> bool:
    """Return whether the value of a key has the content of what the preset names, or that its ``copies`` state."""
    section, _, last = key.rpartition(".")
    settings = getattr(preset, section, None)
    if last == "folder" and settings.source == "hub":  # copies of the corpora are checked, other files are not
        settings = settings.model_copy(update={"folder": str(value)})
        return not any(find_local(settings, name) for name in settings.named)
    default = attrgetter(key)(preset)
    if identify_value(key, value) == preset.copies.get(str(default), identify_value(key, default)):
        return True
    folder = paths.find_folder(str(value)) if last == "folder" else None
    sources = sources_of(preset, section) if folder else []
    return bool(sources) and all(content_of(find_source(folder, name)) == preset.copies.get(name) for name in sources)


def sources_of(preset: Preset, section: str) -> list[str]:
    """List what a preset reads below the folder of a section."""
    warmup = [preset.warmup_data] if section == "data" and preset.warmup_data else []
    return [*list_read(getattr(preset, section)), *warmup]


def identify_value(key: str, value: object) -> str:
    """Fingerprint the encoder, file or folder of this machine that a key's value names; else return it as text."""
    name = str(value)
    if not name or keys().get(key) is not str or key == "methods":  # whose words are no places
        return name
    place = paths.find(name)
    if not key.endswith(".folder") and (place / "config.json").is_file():
        return encoder_fingerprint(name)
    return content_of(place) if place.exists() else name


@cache
def content_of(place: Path) -> str:
    """Fingerprint a file, the files in a folder, or those whose names begin like a place that is neither.

    The names of files count, unless one stands alone; hidden files do not.
    """
    if place.is_file():
        return file_fingerprint(place)
    if place.is_dir():
        root, patterns = place, ("*", "*/*", "*/*/*")  # ** would not follow links to folders
    else:
        root, patterns = place.parent, (f"{escape(place.name)}*",)
    files = {file.relative_to(root).as_posix(): file for pattern in patterns for file in root.glob(pattern)}
    visible = [name for name in sorted(files) if files[name].is_file() and "/." not in f"/{name}"]
    return fingerprint(*(f"{name!a} {file_fingerprint(files[name])}" for name in visible))


# --- how a result was made --------------------------------------------------------------------------------------------


def read_commit() -> Code:
    """Return the commit, and whether the code differs: result files do not count, new ones only beside the code.

    Without git, nothing vouches for the code: the commit is "unknown" and it differs.
    """

    def git(*arguments: str) -> list[str]:
        command = ["git", "--git-dir=.git", "--no-optional-locks", *arguments]  # not the repository of a folder above
        return subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout.splitlines()

    try:
        (commit,) = git("rev-parse", "HEAD")
        changes = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
        return commit, bool(changes or git("ls-files", "--others", "--exclude-standard", "helpers", "notebooks"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown", True


def describe_run(
    parameters: dict[str, Any], started: float, revision: Code, training_seconds: float | None = None, **facts: Any
) -> records.Run:
    """Describe a run at its end; ``facts`` are further fields.

    ``parameters`` are all that are in force. ``started`` is ``time.perf_counter()`` and ``revision`` is `read_commit`,
    both at the start, because the files may change meanwhile.
    """
    gpu = torch.cuda.is_available()
    packages = {name: version(name) for name in ("torch", "transformers", "datasets", "numpy")}
    return records.Run(
        commit=revision[0],
        dirty=revision[1],
        device=torch.cuda.get_device_name() if gpu else f"{_processor()}, {torch.get_num_threads()} threads",
        versions={"python": platform.python_version(), **packages, "helpers": helpers.__version__},
        seconds=round(time.perf_counter() - started, 1),
        training_seconds=None if training_seconds is None else round(training_seconds, 1),
        parameters=parameters,
        **facts,
    )


def _processor() -> str:
    """Name the processor, with family and model where its name has no number and so stands for several."""
    file = Path("/proc/cpuinfo")
    listed = file.read_text() if file.exists() else ""
    facts = dict(re.findall(r"^(model name|cpu family|model)\s*: *(.+)", listed, re.M))
    name = facts.get("model name") or platform.processor() or "CPU"
    is_exact = re.search(r"\d", name) or "cpu family" not in facts
    return name if is_exact else f"{name} family {facts['cpu family']} model {facts['model']}"


# --- one run of one notebook ------------------------------------------------------------------------------------------


@dataclass
class Session:
    """One run of one notebook: the preset in force, its settings by key as given, and the name of the run.

    ``options`` are the notebook's parameters that set no key."""

    preset: Preset
    settings: SettingsByKey
    run_name: str
    options: SettingsByKey = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    code: Code = field(default_factory=read_commit)

    def run(self, plan: engine.Plan) -> Any:
        """Carry out a plan and return its value; say so where the preset leaves all of it out. Raises TasksFailed."""
        value = engine.run(plan, self.preset.engine)
        if isinstance(value, dict) and not value:
            print(f"preset {self.preset.name} leaves this out")
        return value

    def save(self, artefact: str, *, training_seconds: float | None = None, **parts) -> records.Record:
        """Write the record of ``artefact`` and return it.

        Title, unit and kind are the card's unless ``parts`` have others. Its ``settings`` are the fields of the preset
        that the artefact was made with instead of the session's. Notes say what was left out as it is tested on. From
        ``questions``, the score of each question by cell and the passages by column, come intervals over passages.
        """
        (paper,) = (paper for paper in papers.list_papers() if paper.key == artefact.partition("/")[0])
        card = {card.name: card for card in paper.exhibits}[artefact.partition("/")[2]]
        values = {**self.settings, **self.options}.items()
        parameters = {key: value for key, value in values if key != "keep" and not key.startswith("engine.")}
        if first := self.preset.engine.first_seed:  # a figure of a table's record has its earlier seeds too
            parts["scores"] = [score for score in parts.get("scores", []) if score.seed >= first]
        seeds = sorted({score.seed for score in parts.get("scores", [])}) or [0]
        preset = self.preset.model_copy(update={**parts.pop("settings", {}), "seeds": len(seeds)})
        settings = preset.model_dump(mode="json", exclude={"engine": {"address"}})
        facts = {"title": card.title, "kind": card.kind, "unit": card.unit, "average": card.average}
        facts |= {"draws": identify_draws(preset, paper.examples, seeds), "paper": papers.read_printed(artefact)}
        is_preset = self.run_name == self.preset.name  # other files and settings may test what the preset's cannot
        facts["untested"] = preset.reason_untested(artefact) if parts.get("claims") and is_preset else ""
        by_question, passages = parts.pop("questions", ({}, {}))
        if by_question and not (facts["draws"] or preset.data.is_generated):  # the questions are the same for any seed
            intervals = {claim.text: interval_over_passages(claim, by_question, passages) for claim in parts["claims"]}
            facts["passages"] = {text: [*interval] for text, interval in intervals.items() if interval}
        drawn = preset.for_seed(min(seeds))
        more = state_label_checks(drawn) if parts.get("unit", card.unit) == "F1" and "data" in paper.examples else []
        for section in [getattr(drawn, name) for name in paper.examples]:
            more += state_overlaps(section) if section.has_source else []
        parts["notes"] = list(dict.fromkeys([*parts.get("notes", []), *more]))
        sources = {"digests": identify_sources(preset, paper.examples, is_drawn=bool(facts["draws"]))}
        sources["deterministic"] = preset.engine.deterministic if torch.cuda.is_available() else None
        run = describe_run(
            _public({**parameters, "preset": settings}), self.started, self.code, training_seconds, **sources
        )
        record = records.Record(artefact=artefact, preset=self.run_name, run=run, **facts | parts)
        if first:
            place = paths.record(self.run_name, artefact)
            stored = next(iter(paths.find_results(self.run_name, f"{artefact}.json")), place)
            elsewhere = {section for other in papers.list_papers() for section in other.settings} - {*paper.settings}
            record = add_seeds(records.read(stored), record, elsewhere)
        records.write(record)
        return record


def state_label_checks(preset: Preset) -> list[str]:
    """Do the label checks of all domains and state their results, test exact match first."""
    tasks = labels_of(preset, preset.data.domains)
    for task in tasks:
        task.do()
    results = {task.domain: task.result() for task in tasks}
    allowed = ", ".join(f"{domain} {result['em']['test']:.1f}" for domain, result in results.items())
    notes = [note for result in results.values() for note in result["notes"]]
    return [f"highest possible exact match on test questions: {allowed}", *notes]


def add_seeds(record: records.Record, later: records.Record, elsewhere: Collection[str]) -> records.Record:
    """Return a record with the seeds of a later run added, whose claims it takes; notes that differ name their seeds.

    Claims about controls of which the later run has no seeds stay. A record that has the later scores already, or whose
    exhibit has none, stays as it is. Raises RecordError where the two are not of the same settings, or share a seed.
    Sections ``elsewhere``, of other papers, do not count.
    """
    if later.scores == [score for score in record.scores if score.seed in later.seeds]:
        return record
    place = f"{record.preset}/{record.artefact}"
    if both := {*record.seeds} & {*later.seeds}:
        problem = f"it has seed {min(both)} already; set engine.first_seed to {max(record.seeds) + 1}"
        raise records.RecordError(f"{place}: {problem}")
    before, after = (pd.json_normalize(one.run.parameters["preset"]).to_dict("records")[0] for one in (record, later))
    for key in [key for key in before if key in after]:
        section = key.partition(".")[0]
        if before[key] != after[key] and section not in ("seeds", "control_seeds", "engine", *elsewhere):
            problem = f"{key} is {before[key]!r} in the record; expected {after[key]!r}"
            raise records.RecordError(f"{place}: {problem}; run it with engine.first_seed = 0")
    notes = [note for note in later.notes if note not in record.notes]
    others = [claim for claim in record.claims if not {claim.above, claim.below} <= {*later.rows}]
    first, last = later.seeds[0], later.seeds[-1]
    added = f"seeds {first} to {last}" if first < last else f"seed {first}"
    return record.model_copy(
        update={
            "scores": [*record.scores, *later.scores],
            "claims": [*later.claims, *others],
            "untaught": later.untaught,
            "passages": {},  # of seeds that are not all
            "draws": record.draws | later.draws,
            "notes": [*record.notes, *(f"{added}: {note}" for note in notes)],
            "later_runs": [*record.later_runs, later.run],
        }
    )


def identify_draws(preset: Preset, sections: Collection[str], seeds: Iterable[int]) -> dict[str, str]:
    """Identify the examples of some sections that each seed uses, by seed; empty if all seeds share them."""
    presets = {seed: preset.for_seed(seed) for seed in seeds}
    drawn = [s for s in sections if any(getattr(of_seed, s) != getattr(preset, s) for of_seed in presets.values())]
    identified = {}
    for seed, of_seed in presets.items() if drawn else ():
        settings = [getattr(of_seed, section) for section in drawn]
        prints = [fingerprint_examples(some, name) for some in settings if some.has_source for name in some.named]
        identified[str(seed)] = fingerprint(*prints)
    return identified


def identify_sources(preset: Preset, sections: Iterable[str], is_drawn: bool) -> dict[str, str]:
    """Identify the encoder's weights, and the examples of the domains of sections unless each seed draws others."""
    prints = {"encoder": paths.public_name(encoder_fingerprint(preset.encoder))}
    for section in sections if not is_drawn else ():
        settings = getattr(preset, section)
        names = settings.named if settings.has_source else ()
        prints |= {f"{section}/{name}": fingerprint_examples(settings, name) for name in names}
    return prints


def _public(value: Any) -> Any:
    """Return settings without what only this machine has."""
    if isinstance(value, dict):
        return {key: _public(inner) for key, inner in value.items() if key not in ("downloads", "copies")}
    return paths.public_name(value) if isinstance(value, str) else value


def assigned_in(source: str, *kinds: type) -> list[str]:
    """List the names that the statements of some ``kinds`` in a cell assign."""
    try:
        statements = parse(source).body
    except SyntaxError:  # of a cell that is no plain Python
        return []
    targets = [getattr(node, "target", None) or node.targets[0] for node in statements if isinstance(node, kinds)]
    return [target.id for target in targets if isinstance(target, Name)]


def check_cells(notebook: str) -> None:
    """Raise ParameterError for an unknown parameter in the cells that IPython ran, or one that their lines lack.

    papermill injects parameters that nobody declared without a word, and a line of the parameters cell may be misspelt.
    """
    declared, shell = parameters_of(notebook), get_ipython()
    lines, injected = list(declared), []
    for source in shell.user_ns.get("In", []) if shell else []:
        if source.startswith(INJECTED):
            injected = assigned_in(source, Assign)
        elif not declared.keys().isdisjoint(assigned_in(source, AnnAssign)):
            lines = assigned_in(source, Assign, AnnAssign)
    if unknown := [name for name in [*lines, *injected] if name not in declared]:
        raise unknown_parameter(notebook, unknown[0], declared)
    if missing := [name for name in declared if name not in lines]:
        line = f"{missing[0]}: {declared[missing[0]].type} = {declared[missing[0]].default!r}"
        raise ParameterError(f"{notebook}: the parameters cell has no {missing[0]!r}; write there the line {line}")


def start(notebook: str, preset: str, settings: SettingsByKey | None = None, **options: object) -> Session:
    """Load a notebook's preset with other ``settings`` by key (None: as it is), seed torch and print what is in force.

    ``options`` are parameters that set no key, such as ``keep``. Raises UserError.
    """
    check_cells(notebook)
    values = {key: value for key, value in (settings or {}).items() if value is not None}
    in_force, run_name = settle(notebook, preset, values, options)
    torch.manual_seed(0)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    pd.set_option("display.html.use_mathjax", False)  # "$5 or $10" in a table of texts is no formula
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    number = len(in_force.seed_numbers)
    seeds = f", {number} seed{'s' * (number > 1)}" * ("seeds" in (settings or {}))
    shown = values | {name: value for name, value in options.items() if value}
    print("; ".join([f"preset {in_force.name} on {device}{seeds}", *(f"{k} = {v!r}" for k, v in shown.items())]))
    if in_force.name == "smoke":
        print("preset smoke only tests that everything runs, on a few questions: its scores mean nothing")
    if run_name != in_force.name:
        print(f"results: {os.path.relpath(paths.results(run_name))}, as these are not the preset's own settings")
    return Session(in_force, values, run_name, options)
