"""How much one has to read: python benchmarks/structure.py, with HELPERS_RESULTS at trained results of preset smoke."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "helpers"
LISTING = (
    "import {}, json, sys; print(json.dumps([sys.modules[m].__file__ for m in sys.modules if m[:7] == 'helpers']))"
)
NAME = re.compile(r"^(?:def|class) ([A-Za-z]\w*)|^([A-Za-z]\w*)(?:: .+)? = ", re.M)  # of a module's top level
# Names that mean the same in each of their modules: a paper's card and tables, and what every source of data has.
SHARED = re.compile(r"PAPER|(table|figure)\d|read|read_adversarial|label_names|list_candidates")
PRESET, TRAINING = "presets/load.py:override", "papers/imm/algorithm.py:reader_training"
LOAD, SOURCE = "data/load.py:load", "data/mini/__init__.py:read"


def count_loaded(module: str = "helpers.papers.imm.tables") -> tuple[int, int]:
    """Count the modules that importing one loads, and their lines."""
    command = [sys.executable, "-c", LISTING.format(module)]
    files = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    return len(files), sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files)


def follow() -> tuple[set[str], dict[str, list[str]]]:
    """Make Table 1 on preset smoke. Return the modules that ran, and the stations of three settings.

    Stations are the functions, but for the engine's, that hand a value on from the cell to the preset, and then to a
    field of the first training, or from `helpers.data.load.load` to the source of the first domain.
    """
    from helpers.notebooks import session
    from helpers.papers.imm import tables

    modules, stations, plan = set(), {}, None

    def watch(frame, event, _):
        if event == "call" and (name := name_of(frame)):
            modules.add(name.partition(":")[0])
            if name in (PRESET, TRAINING, SOURCE) and name not in stations:
                opened = []
                while frame:
                    opened.insert(0, name_of(frame))
                    frame = frame.f_back
                stations[name] = opened
                waiting = plan  # a plan that waits for others is not open, but handed the value on
                while name == TRAINING and waiting:
                    opened.insert(opened.index("notebooks/session.py:Session.run") + 1, name_of(waiting.gi_frame))
                    waiting = waiting.gi_yieldfrom

    sys.setprofile(watch)
    try:
        run = session.start("02_imm_main", "smoke")
        plan = tables.table1(run.preset)
        run.save("imm/table1", **run.run(plan))
    finally:
        sys.setprofile(None)
    stations[SOURCE] = stations[SOURCE][stations[SOURCE].index(LOAD) :]
    ends = {"imm.kd_space": TRAINING, "training.learning_rate": TRAINING, "data.folder": SOURCE}
    return modules, {key: [n for n in stations[PRESET] + stations[end] if n] for key, end in ends.items()}


def name_of(frame) -> str:
    """Name the package's function of a frame with its module; "" for the engine's, others, and an import."""
    file, name = Path(frame.f_code.co_filename), frame.f_code.co_qualname
    is_function = PACKAGE in file.parents and "<" not in name and file.name != "engine.py"
    return f"{file.relative_to(PACKAGE).as_posix()}:{name}" if is_function else ""


def find_repeated() -> dict[str, list[str]]:
    """Return the public names that stand in more than one module, with these."""
    places = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for name in {name for match in NAME.findall(file.read_text(encoding="utf-8")) for name in match if name}:
            places[name].append(file.relative_to(PACKAGE).as_posix())
    return {name: files for name, files in places.items() if len(files) > 1 and not SHARED.fullmatch(name)}


def main() -> None:
    loaded, lines = count_loaded()
    modules, stations = follow()
    facts = {
        "loaded": loaded,
        "lines": lines,
        "run": sorted(modules),
        "stations": stations,
        "repeated": find_repeated(),
    }
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
