"""Execute the concluding cells of mini's executed notebooks again, without a training: python benchmarks/conclude.py

They show what preset study has, so run it when study's records change. Other cells and outputs stay as they are.
"""

import os
from pathlib import Path
from types import SimpleNamespace

import nbformat
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from helpers import paths
from helpers.results import report

PAGE = "text/html"
PLAIN = {"text/plain": "<IPython.core.display.HTML object>"}


def conclude(shell: InteractiveShell, source: str) -> list[str]:
    """Execute a cell, and return the pages that it displays. Raises what the cell raises."""
    with capture_output() as captured:
        run = shell.run_cell(source)
    run.raise_error()
    pages = [output.data[PAGE] for output in captured.outputs]
    return pages if run.result is None else [*pages, run.result._repr_html_()]


def refresh() -> dict[Path, nbformat.NotebookNode]:
    """Execute the concluding cells, and return the notebooks whose pages are other ones now."""
    os.environ.setdefault("HELPERS_RESULTS", str(paths.published("")))
    shell = InteractiveShell.instance()
    names = {name: getattr(report, name) for name in ("conclude", "show", "show_study")}
    shell.user_ns.update(names, session=SimpleNamespace(run_name="mini"))
    changed = {}
    for file in sorted(paths.notebooks("mini").glob("*.ipynb")):
        notebook = nbformat.read(file, as_version=4)
        before = nbformat.writes(notebook)
        for cell in notebook.cells:
            if cell.cell_type == "code" and "conclude(session.run_name" in cell.source:
                pages = conclude(shell, cell.source)
                while len(cell.outputs) < len(pages):  # a record is new
                    cell.outputs.insert(0, nbformat.v4.new_output("display_data", PLAIN))
                for output, page in zip(cell.outputs, pages, strict=True):
                    output.data[PAGE] = page
        if nbformat.writes(notebook) != before:
            changed[file] = notebook
    return changed


def main() -> None:
    """Write the executed notebooks whose last words have changed, and print their names."""
    for file, notebook in refresh().items():
        nbformat.write(notebook, file)
        print(file.name)


if __name__ == "__main__":
    main()
