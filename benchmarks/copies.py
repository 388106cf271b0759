"""Redo what executed notebooks show of records and sources, without a training: python benchmarks/copies.py

Run it when records, how they are shown, or sources change. Cells run statement by statement in a session that saves
nothing and returns the stored records. Statements that need trained models fail, and their outputs stay as they are.
"""

import ast
import base64
import os
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import RichOutput, capture_output

from helpers import paths, records
from helpers.notebooks.session import settle
from helpers.records import Record

SHOWING = ("session.save(", "show(", "_study(", "conclude(", "show_advice(", "getsource", "seed_curves(")
PAGES = ("text/html", "image/png", "text/latex")  # which tell outputs apart


class Stored:
    """A session of the stored records of a preset."""

    def __init__(self, notebook: str, preset: str) -> None:
        self.preset, self.run_name = settle(notebook, preset, {}, {})

    def run(self) -> dict:
        """Return parts that no record takes."""
        return {"stored": True}

    def save(self, artefact: str) -> Record:
        """Return the stored record. Raises OSError where there is none."""
        return records.read(paths.record(self.run_name, artefact))


class WithoutParts(ast.NodeTransformer):
    """Leave out what calls of ``session`` would be given: all but the name of a record."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "session.run":
            return ast.Call(node.func, [], [])
        if ast.unparse(node.func) == "session.save":
            return ast.Call(node.func, node.args, [])
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if "session.run" not in ast.unparse(node.test) or not node.orelse:
            return node
        # What a preset leaves out has no record.
        return ast.Try(node.body, [ast.ExceptHandler(ast.Name("OSError"), None, node.orelse)], [], [])


def execute(shell: InteractiveShell, statement: ast.stmt) -> list[RichOutput]:
    """Execute a statement, and return what it displays; nothing from where it fails."""
    source = ast.unparse(ast.fix_missing_locations(WithoutParts().visit(statement)))
    with capture_output() as captured:
        value = shell.run_cell(source).result
    shown = list(captured.outputs)
    if value is not None:
        data, metadata = shell.display_formatter.format(value)
        shown.append(RichOutput(data, metadata))
    return shown


def redo(shell: InteractiveShell, cell: Any) -> bool:
    """Put what a cell displays today in the place of its outputs of the same kind. Returns whether any has changed."""
    places, changed = list(cell.outputs), False
    for statement in ast.parse(cell.source).body:
        for output in execute(shell, statement):
            alike = [place for place in places if kinds_of(place) == kinds_of(output)]
            if not kinds_of(output) or not alike:
                continue
            places = places[places.index(alike[0]) + 1 :]
            data = {kind: encode(page) for kind, page in output.data.items()}
            for kind in [kind for kind, page in alike[0].data.items() if page.strip() != data[kind].strip()]:
                alike[0].data[kind], changed = data[kind], True
    return changed


def kinds_of(output: Any) -> list[str]:
    """List the kinds of pages that an output has; none where it is printed text."""
    return [kind for kind in PAGES if kind in (getattr(output, "data", None) or {})]


def encode(page: str | bytes) -> str:
    """Return a page as notebooks store it: pictures in base 64."""
    return str(page) if isinstance(page, str) else base64.b64encode(page).decode()


def refresh() -> dict[Path, nbformat.NotebookNode]:
    """Redo the executed notebooks, and return those that show something else now."""
    os.environ.setdefault("HELPERS_RESULTS", str(paths.published("")))
    pd.set_option("display.html.use_mathjax", False)  # as in a session
    shell, changed = InteractiveShell.instance(), {}
    for file in sorted(paths.published("").glob("*/notebooks/[01]*.ipynb")):
        notebook = nbformat.read(file, as_version=4)
        shell.reset()
        for cell in [cell for cell in notebook.cells if cell.cell_type == "code"]:
            if "session = start(" in cell.source:
                imports = [
                    line for line in ast.parse(cell.source).body if isinstance(line, ast.Import | ast.ImportFrom)
                ]
                shell.run_cell("\n".join(map(ast.unparse, imports)))
                shell.user_ns["session"] = Stored(file.stem, file.parent.parent.name)
            elif any(name in cell.source for name in SHOWING) and redo(shell, cell):
                changed[file] = notebook
    return changed


def main() -> None:
    """Write the executed notebooks that show something else now, and print their names."""
    for file, notebook in refresh().items():
        nbformat.write(notebook, file)
        print(file.relative_to(paths.published("")))


if __name__ == "__main__":
    main()
