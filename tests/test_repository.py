"""What a person reads: README commands and paths, the command line, project files."""

import re
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.specifiers import SpecifierSet

from helpers import __main__ as cli
from helpers import papers, paths
from helpers.presets.load import keys
from helpers.results import front, html, report, summary

ROOT = paths.ROOT
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "data/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


HELP = """
import atexit, sys
from helpers.__main__ import main
atexit.register(lambda: print({"torch", "transformers", "datasets"} & set(sys.modules), file=sys.stderr))
main(["--help"])
"""


def test_help_imports_nothing_slow():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and done.stderr == "set()\n"
    for command in ("run", "figures", "status", "data", "pretrain", "answer"):
        assert command in done.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_paths_in_documents_exist(document):
    text = document.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for target in re.findall(r"\bmake ([a-z-]+)", text):
        assert target in targets, f"{document.name}: make {target}"
    for line in re.findall(r"python -m helpers ([^\n`]+)", text):
        cli.build_parser().parse_args(re.sub(r'"[^"]*"', "words", line).split("  #")[0].replace("\\\n", " ").split())
    for path in re.findall(r"`((?:helpers|notebooks|data|results|tests|benchmarks|docs)/[\w./-]*)`", text):
        produced = path.startswith("results/") or "cache" in path
        assert produced or (ROOT / path).exists(), f"{document.name}: {path}"
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / link).exists(), f"{document.name}: link to {link}"


def test_switches_in_deviations_are_keys_of_a_preset():
    known, found = keys(), 0
    for table in (ROOT / "docs/deviations.md").read_text(encoding="utf-8").split("\n\n"):
        header, *rows = table.splitlines()
        for row in rows if header.endswith("| switch |") else ():
            for key in re.findall(r"`([\w.]+)", row.removesuffix(" |").rpartition(" | ")[2]):
                assert key in known, f"deviations.md: {key}"
                found += 1
    assert found > 50


def test_wrong_use_is_one_line_on_stderr(results, tmp_path, capsys):
    def said(*arguments):
        assert cli.main(list(arguments)) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert said("run", "--preset", "maxi").startswith("error: no preset 'maxi'")
    assert not results.exists()
    assert "no parameter 'sedes' here; give a key of the preset, such as seeds" in said("status", "-p", "sedes", "5")
    assert "lab.toml: training.epoch: unknown key" not in said("status", "-p", "training.epoch", "5")
    assert "no parameter 'training.epoch' here" in said("status", "-p", "training.epoch", "5")
    assert said("status", "-p", "seeds", "many").startswith("error: mini.toml: seeds: ")
    assert "is no trained reader" in said("answer", "data/mini", "Who?", str(ROOT / "README.md"))
    assert "none.txt" in said("answer", "no-such-model", "Who?", str(tmp_path / "none.txt"))


def test_pinned_packages_install_on_the_first_python_3_11():
    """Distributions ship early 3.11s (Debian 12: 3.11.2), and one package that wants a later one stops `make`."""
    pinned = [line.split("==") for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line]
    here = {one.name.lower(): one for one in metadata.distributions() if one.name}
    asked = 0
    for name, version in pinned:
        one = here.get(name.lower())
        if one is not None and one.version.split("+")[0] == version and (wants := one.metadata["Requires-Python"]):
            assert SpecifierSet(wants).contains("3.11.0"), f"{name}=={version} wants Python {wants}"
            asked += 1
    if not asked:
        pytest.skip("none of the pinned versions is installed here")


def test_data_prints_sizes_and_fails_on_bad_data(tmp_path, capsys):
    assert cli.main(["data", "--preset", "mini"]) == 0
    assert "encyclopedia: 500 train, 100 valid, 200 test questions" in capsys.readouterr().out
    assert cli.main(["data", "--preset", "lab", "-p", "data_dir", str(tmp_path)]) == 1
    assert "wikipedia" in capsys.readouterr().err


def test_the_lock_pins_every_dependency():
    pinned = {}
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = line.split("==")
            pinned[re.sub(r"[-_.]+", "-", name).lower()] = version
    assert pinned["torch"] == "2.13.0"
    project = (ROOT / "pyproject.toml").read_text()
    for name in re.findall(r'^    "([\w-]+)>=', project, re.M):
        assert name.lower() in pinned, name
    assert "-r requirements.lock" in (ROOT / "environment.yml").read_text()
    assert "make test" in (ROOT / ".ci/run").read_text()


def test_the_first_screen_is_of_the_records():
    changed = subprocess.run(["git", "status", "--porcelain", "results"], capture_output=True, text=True, cwd=ROOT)
    if changed.returncode or changed.stdout:
        pytest.skip("results have been run anew; python -m helpers figures writes them into README.md")
    found = front.decisive(papers.ALL)
    text = front.README.read_text(encoding="utf-8")
    assert front.block(found, summary.judged(found), front.of_sizes(papers.ALL)) in text and front.picture().exists()


def test_findings_alone_are_written_anew_in_the_readme(results, tmp_path, monkeypatch):
    monkeypatch.setattr(front, "README", tmp_path / "README.md")
    written = f"# Title\n\n{front.BEGIN}\nwhat was found before\n{front.END}\n\nby hand\n"
    front.README.write_text(written)
    assert front.update(papers.ALL) == [] and front.README.read_text() == written  # without records
    results.mkdir()
    (results / "study").symlink_to(ROOT / "results/study")
    assert front.update(papers.ALL) == [results / "findings.png", front.README] and front.picture().exists()
    found = front.decisive(papers.ALL)
    expected = f"# Title\n\n{front.block(found, summary.judged(found), front.of_sizes(papers.ALL))}\n\nby hand\n"
    assert front.README.read_text() == expected and "preset [`study`](results/study/report.html)" in expected


def test_what_is_written_by_hand_of_the_readme_is_short():
    assert len(front.FINDINGS.sub("", front.README.read_text(encoding="utf-8")).split()) <= 520


@pytest.mark.parametrize("preset", ["mini", "study", "study-small", "study-large", "lab"])
def test_a_report_is_of_the_records_that_there_are(preset):
    ids = re.findall(r'<(?:section|details) id="([^"]+)"', paths.report(preset).read_text(encoding="utf-8"))
    there = {html.anchor(record.artefact) for record in report.records.read_all(preset)}
    assert {name for name in ids if "-" in name} == there


@pytest.mark.parametrize("preset", ["mini", "study", "study-small", "study-large", "lab"])
def test_every_figure_of_the_records_is_there(preset):
    found = report.records.read_all(preset)
    expected = {"imm/table1"} if preset == "lab" else {"imm/table1", "imm/table3"}  # which takes hours there
    if preset == "mini":
        expected |= {"corpora/overview", *(f"imm/{name}" for name in ("similarity", "figure3", "table2"))}
    assert {record.artefact for record in found} >= expected
    for record in found:
        if report.figures.drawable(record):
            assert paths.record(preset, record.artefact, "png").is_file()
        assert not record.run.dirty, f"{record.artefact} was made from uncommitted code"
