"""How much one has to read: python benchmarks/walk.py, with HELPERS_RESULTS at trained results of preset smoke.

Counts what importing a paper loads, what runs when notebook 02 makes Table 1 with everything trained, the stations of
settings on their way from a cell to a training's key (functions outside the engine), and names that stand twice.
"""

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
PACKAGE = ROOT / "helpers"
PAPER = "helpers.papers.imm.tables"
LISTING = "import sys, json, {}; print(json.dumps([m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'helpers']))"


def count_loaded(module: str) -> tuple[int, int]:
    """Count the modules of the package that importing one loads, and their lines."""
    command = [sys.executable, "-c", LISTING.format(module)]
    files = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    return len(files), sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files)


def definitions() -> list[tuple[str, ast.stmt]]:
    """List every statement of a module's top level, with the module's name."""
    files = sorted(PACKAGE.rglob("*.py"))
    return [(file.relative_to(PACKAGE).as_posix(), node) for file in files for node in ast.parse(file.read_text()).body]


def names_of(node: ast.stmt) -> list[str]:
    """List the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [name.id for target in targets if target for name in ast.walk(target) if isinstance(name, ast.Name)]


def repeated_names() -> list[str]:
    """List the public names that stand in more than one module."""
    places = {(name, module) for module, node in definitions() for name in names_of(node) if name[0] != "_"}
    return sorted(name for name, number in Counter(name for name, _ in places).items() if number > 1)
