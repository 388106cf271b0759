"""What a person reads: README commands and paths, the command line, project files."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from packaging.specifiers import SpecifierSet
from traitlets import import_item

from helpers import __main__ as cli
from helpers import paths, records
from helpers.notebooks.runner import REPORT, link_from
from helpers.notebooks.saving import refresh_git
from helpers.presets.load import keys
from helpers.results import findings, report, stats

ROOT = paths.ROOT
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "data/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "results/README.md"], ids=lambda path: path.name)
def test_commands_and_paths_in_documents_exist(document):
    text = document.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for target in re.findall(r"\bmake ([a-z-]+)", text):
        assert target in targets, f"{document.name}: make {target}"
    for line in re.findall(r"python -m helpers ([^\n`]+)", text.replace("\\\n", " ")):
        cli.build_parser().parse_args(re.sub(r'"[^"]*"', "words", line).split("  #")[0].split())
    for path in re.findall(r"`((?:helpers|notebooks|data|results|tests|benchmarks|docs)/[\w./-]*)`", text):
        produced = path.startswith("results/") or "cache" in path
        assert produced or (ROOT / path).exists(), f"{document.name}: {path}"
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / link).exists(), f"{document.name}: link to {link}"


def test_settings_in_deviations_are_keys_of_a_preset():
    rows = [
        line
        for page in (ROOT / "docs/deviations").glob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    settings = [key for row in rows for key in re.findall(r"`(\w+\.\w+|warmup_data|control_seeds)`", row)]
    assert set(settings) <= set(keys()) and len(settings) > 50


def test_wrong_use_is_one_line_on_stderr(results, capsys, monkeypatch, tmp_path):
    def error_of(*arguments):
        assert cli.main(list(arguments)) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert error_of("run", "--preset", "maxi").startswith("error: no preset 'maxi'")
    assert "no notebook 02_imm_mian; choose from 02_imm_main" in error_of("run", "02_imm_mian")
    assert "data_dir (data.folder): expected a folder, found none at gone" in error_of(
        "run", "18", "-p", "data_dir", "gone"
    )
    assert "unknown parameter 'sedes'; did you mean 'seeds'?" in error_of("run", "-p", "sedes", "5")
    assert "'data_dir'; did you mean 'mnli_dir' or 'reviews_dir'?" in error_of(
        "run", "10", "-p", "data_dir", "my/files"
    )
    assert "unknown parameter 'colour'. There is preset," in error_of("run", "--list", "-p", "colour", "5")
    assert "seeds: expected a valid integer, found 'many'" in error_of("run", "02_imm_main", "-p", "seeds", "many")
    assert error_of("run", "-p", "seeds=0").startswith("error: preset mini: seeds: ")
    assert not results.exists()
    assert "no records of preset 'smoke'" in error_of("figures", "--preset", "smoke")
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path / "site-packages/notebooks")
    assert "expected notebooks, found none; pip install a clone" in error_of("run")


def test_the_lock_pins_every_dependency_for_the_first_python_3_11():
    """Distributions ship early 3.11s (Debian 12: 3.11.2), and one package that wants a later one stops `make`."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pinned = dict(line.lower().split("==") for line in lines if line and not line.startswith("#"))
    assert pinned["torch"] == "2.13.0"
    for name in re.findall(r'^    "([\w-]+)>=', (ROOT / "pyproject.toml").read_text(), re.M):
        assert name.lower() in {re.sub(r"[-_.]+", "-", each) for each in pinned}, name
    for one in metadata.distributions():
        if one.name and pinned.get(one.name.lower()) == one.version.split("+")[0]:
            assert SpecifierSet(one.metadata["Requires-Python"] or "").contains("3.11.0"), one.name
    assert "-r requirements.lock" in (ROOT / "environment.yml").read_text()
    assert "make test" in (ROOT / ".ci/run").read_text()


def test_readme_and_documents_are_short():
    def count(page):
        return sum(any(map(str.isalnum, word)) for word in page.read_text(encoding="utf-8").split())

    assert count(findings.README) <= 550
    assert sum(map(count, DOCUMENTS)) <= 7920  # words, without signs


def test_executed_copies_have_the_verdicts_of_today():
    words = {
        "Too few seeds",
        "",
        "No difference",
        *(report.shorten(word).capitalize() for word in report.OUTCOME_WORDS),
    }
    cells = r'data-label=."the paper.">[^<]*</td>(?:<td data-label=[^>]*>[^<]*</td>)*<td>(.*?)</td>'
    pattern, shown = re.compile(cells), {}
    for file in (ROOT / "results").glob("*/notebooks/*.ipynb"):
        shown[file.name] = {*pattern.findall(file.read_text(encoding="utf-8"))}
        assert shown[file.name] <= words, file
    assert stats.SUPPORTED.capitalize() in shown["06_a2d_main.ipynb"]


def test_executed_copies_are_of_the_notebooks_as_they_are():
    def sources(path, copy):
        cells = nbformat.read(path, 4).cells
        return [link_from(copy, cell.source) if cell.cell_type == "markdown" else cell.source for cell in cells]

    copies = [
        *paths.published("mini/notebooks").glob("*.ipynb"),
        paths.published("study/notebooks/18_your_domains.ipynb"),
    ]
    for copy in copies:
        original = paths.NOTEBOOKS / copy.name
        executed = [cell.source for cell in nbformat.read(copy, 4).cells if cell.id != "injected"]
        assert executed == sources(original, copy), copy.name
        link = f"[executed](../results/{copy.parts[-3]}/notebooks/{copy.name})"
        assert copy.stem == REPORT or link in original.read_text(encoding="utf-8"), copy.name
        links = re.findall(r"\]\((\.\./[^)#]+)", "\n".join(executed))
        assert all((copy.parent / link).exists() for link in links), copy.name


def test_a_notebook_that_ran_in_jupyterlab_is_unchanged_for_git(tmp_path):
    def run(*command):
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, env=environment)
        return done.stdout

    (tmp_path / "notebooks").mkdir()
    name = "notebooks/01_imm_similarity.ipynb"
    for each in (name, ".gitattributes"):
        shutil.copy(ROOT / each, tmp_path / each)
    run("git", "init", "-q")
    recipe = run("make", "-n", "-C", str(ROOT), "jupyter", f"RUN={sys.executable}")
    run("sh", "-c", re.search("^git config .+", recipe, re.M)[0])
    assert ("--allow-root" in recipe) == (os.getuid() == 0)
    run("git", "add", ".")
    run("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "all")
    notebook = nbformat.read(tmp_path / name, 4)
    spec = KernelSpecManager().get_kernel_spec("python3")
    notebook.metadata.kernelspec = {"name": "python3", "display_name": spec.display_name, "language": spec.language}
    notebook.metadata.language_info |= {"version": "3.11.9", "mimetype": "text/x-python", "file_extension": ".py"}
    for cell in [cell for cell in notebook.cells if cell.cell_type == "code"]:
        cell.execution_count, cell.outputs = 1, [nbformat.v4.new_output("stream", text="ran")]
    nbformat.write(notebook, tmp_path / name)
    import_item(re.search("post_save_hook=(\\S+)", recipe)[1])(model=notebook, os_path=str(tmp_path / name))
    assert run("git", "status", "--porcelain") == ""
    notebook.cells[1].source += "  # a change"
    nbformat.write(notebook, tmp_path / name)
    refresh_git(str(tmp_path / name))
    assert run("git", "status", "--porcelain") == f" M {name}\n"


def test_executed_copies_name_no_folder_of_one_machine():
    copies = sorted(paths.notebooks("mini").glob("*.ipynb"))
    assert len(copies) > 15 and not [path.name for path in copies if re.search("/tmp/|/home/|/work/", path.read_text())]


@pytest.mark.parametrize("preset", ["mini", "study", "lab", "lab-large"])
def test_every_figure_of_the_records_is_there(preset):
    stored = records.read_all(preset)
    expected = {"lab": {"a2d/table1"}, "lab-large": {"imm/table1"}}.get(preset, {"imm/table1", "imm/table3"})
    if preset == "mini":
        expected |= {"corpora/overview", *(f"imm/{name}" for name in ("similarity", "figure3", "table2"))}
    assert {record.artefact for record in stored} >= expected
    drawn = (record for record in stored if record.kind != "table" or record.baselines)
    there = set(paths.results(preset).glob("*/*.svg"))
    assert {paths.record(preset, record.artefact, "svg") for record in drawn} == there
    assert not [record.artefact for record in stored if record.run.dirty], "made from uncommitted code"
