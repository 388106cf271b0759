"""A mistake of the person at the keyboard is answered by a sentence, in a notebook as on the command line."""

import shutil

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from helpers import paths
from helpers.batches.texts import EncoderError
from helpers.data.examples import DataError
from helpers.notebooks import runner
from helpers.notebooks.parameters import ParameterError
from helpers.papers.a2d.algorithm import ChoiceError
from helpers.papers.imm.trainings import SwitchError
from helpers.presets.load import PresetError


@pytest.fixture
def shell():
    yield InteractiveShell()
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("kind", [ParameterError, PresetError, DataError, EncoderError, ChoiceError, SwitchError])
def test_a_cell_shows_one_line(shell, capsys, kind):
    shell.user_ns["kind"] = kind
    result = shell.run_cell("raise kind('no parameter sed; it has seeds')")
    assert type(result.error_in_exec) is kind
    assert capsys.readouterr().out.splitlines() == [f"{kind.__name__}: no parameter sed; it has seeds"]


def test_a_mistake_in_the_code_shows_its_traceback(shell, capsys):
    shell.run_cell("raise ValueError('as asked')")
    assert "Traceback" in capsys.readouterr().out


def write_notebook(path, *sources):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata.tags = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}}), path)


def test_the_runner_reports_the_sentence_and_the_notebook_shows_it_alone(results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(runner.report, "export", lambda preset, executed: None)
    broken = "from helpers.errors import UserError\n\nraise UserError('no domain sqad; there is squad')"
    write_notebook(tmp_path / "00_corpora.ipynb", 'preset: str = "mini"  # its name', broken)
    write_notebook(tmp_path / "99_report.ipynb", 'preset: str = "mini"  # its name')
    assert runner.run(["00_corpora"], {"preset": "smoke"}) == 1
    sentence = "UserError: no domain sqad; there is squad"
    assert f"00_corpora: FAILED: {sentence} (see " in capsys.readouterr().out
    (file,) = (paths.models("smoke") / "running/smoke").glob("00_corpora.*.ipynb")
    executed = nbformat.read(file, as_version=4)
    (shown,) = [o for cell in executed.cells for o in cell.get("outputs", []) if o.output_type == "error"]
    assert shown.traceback == [sentence]
    write_notebook(tmp_path / "00_corpora.ipynb", 'preset: str = "mini"  # its name')
    monkeypatch.setattr(runner.psutil, "pid_exists", lambda number: number == 7)
    for name in ("00_corpora.7.ipynb", "00_corpora.8.ipynb", "01_imm_similarity.8.ipynb"):
        shutil.copy(file, file.with_name(name))
    assert runner.run(["00_corpora"], {"preset": "smoke"}) == 0
    # Those of runs that are over are gone.
    left = sorted(path.name for path in file.parent.glob("*.ipynb"))
    assert left == ["00_corpora.7.ipynb", "01_imm_similarity.8.ipynb"]
