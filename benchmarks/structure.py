"""How much one has to read: python benchmarks/structure.py, with HELPERS_RESULTS at trained results of preset smoke."""

import json
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from traceback import walk_stack

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "helpers"
NAME = re.compile(r"^(?:def|class) ([A-Za-z]\w*)|^([A-Za-z]\w*)(?:: .+)? = ", re.M)  # of a module's top level
SHARED = re.compile(r"PAPER|(table|figure)\d|read|read_adversarial|label_names|list_candidates")
PRESET, TRAINING = "presets/load.py:override", "papers/imm/algorithm.py:reader_training"
LOAD, SOURCE = "data/load.py:", "data/mini/__init__.py:read"


def list_loaded() -> list[Path]:
    """List the modules that importing IMM's tables loads, where nothing else of the package is imported yet."""
    from helpers.papers.imm import tables  # noqa: F401

    files = [getattr(module, "__file__", None) for module in sys.modules.values()]
    return [Path(file) for file in files if file and PACKAGE in Path(file).parents]


def follow() -> tuple[set[str], dict[str, list[str]]]:
    """Make Table 1 on preset smoke. Return the modules that ran, and the functions that hand three settings on."""
    from helpers.notebooks import session
    from helpers.papers.imm import tables

    modules, stations, plan = set(), {}, None

    def watch(frame, event, _):
        if name := name_of(frame.f_code):
            modules.add(name.partition(":")[0])
            if name in (PRESET, TRAINING, SOURCE) and name not in stations:
                waiting, stations[name] = plan, [name_of(each.f_code) for each, _ in walk_stack(frame)][::-1]
                while name == TRAINING and waiting:  # a plan that waits for others is not open, but handed the value on
                    stations[name].append(name_of(waiting.gi_code))
                    waiting = waiting.gi_yieldfrom

    sys.settrace(watch)  # which returns None: calls alone are traced, not lines
    run = session.start("02_imm_main", "smoke")
    plan = tables.table1(run.preset)
    run.save("imm/table1", **run.run(plan))
    sys.settrace(None)
    names = stations[SOURCE]
    stations[SOURCE] = names[[name.startswith(LOAD) for name in names].index(True) :]
    ends = {"imm.divergence": TRAINING, "training.learning_rate": TRAINING, "data.folder": SOURCE}
    return modules, {key: list(filter(None, stations[PRESET] + stations[end])) for key, end in ends.items()}


@cache
def name_of(code) -> str:
    """Name the package's function of some code with its module; "" for the engine's, others, and an import."""
    file, name = Path(code.co_filename), code.co_qualname
    is_function = PACKAGE in file.parents and "<" not in name and file.name != "engine.py"
    return f"{file.relative_to(PACKAGE).as_posix()}:{name}" if is_function else ""


def find_repeated() -> dict[str, list[str]]:
    """Return the public names that stand in more than one module, with these."""
    places = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for name in set(map(max, NAME.findall(file.read_text(encoding="utf-8")))):
            places[name].append(file.relative_to(PACKAGE).as_posix())
    return {name: files for name, files in places.items() if len(files) > 1 and not SHARED.fullmatch(name)}


def main() -> None:
    loaded, (modules, stations) = list_loaded(), follow()
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in loaded)
    facts = {"loaded": len(loaded), "lines": lines, "run": sorted(modules), "stations": stations}
    print(json.dumps(facts | {"repeated": find_repeated()}, indent=1))


if __name__ == "__main__":
    main()
