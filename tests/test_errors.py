"""A mistake of the person at the keyboard is answered by a sentence, in a notebook as on the command line."""

import io
import json
import pickle
import sys

import nbformat
import pytest
from conftest import write_notebook
from IPython.core.interactiveshell import InteractiveShell

from helpers import __main__ as cli
from helpers import paths
from helpers.data.examples import DataError
from helpers.errors import UserError
from helpers.files import write_whole
from helpers.notebooks import runner


@pytest.fixture
def shell():
    yield InteractiveShell()
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("kind", [UserError, DataError])
def test_a_cell_shows_one_line(shell, capsys, kind):
    shell.user_ns["kind"] = kind
    result = shell.run_cell("raise kind('no domain sqad; there is squad')")
    assert type(result.error_in_exec) is kind
    assert capsys.readouterr().out.splitlines() == [f"{kind.__name__}: no domain sqad; there is squad"]


def test_a_mistake_holds_no_escape_sequences():
    """Whichever name it quotes; also where a worker hands it on."""
    error = UserError("a\x1b[2J\x9b\u200b\udce9:\n  Ärzte 法律, 40 € ✓")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "a\\x1b[2J\\x9b\\u200b\\udce9:\n  Ärzte 法律, 40 € ✓"


def test_a_mistake_in_the_code_shows_its_traceback(shell, capsys):
    shell.run_cell("raise ValueError('as asked')")
    assert "Traceback" in capsys.readouterr().out


def test_links_are_followed_and_devices_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "text"
    with pytest.raises(OSError, match="cannot write /dev/null: it is no regular file"):
        write_whole("/dev/null", "text")


def test_what_the_terminal_cannot_print_is_replaced(results, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(printed := io.BytesIO(), encoding="ascii"))
    assert cli.main(["figures", "--preset", "f\u00e9"]) == 1
    sys.stderr.flush()
    assert b"no records of preset 'f?'" in printed.getvalue()


def test_the_runner_reports_the_sentence_and_the_notebook_shows_it_alone(results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    # A broken kernel among the user's own, where this is no virtual environment, is not the one that is started.
    broken = {"argv": ["false"], "display_name": "Python 3", "language": "python"}
    write_whole(tmp_path / "user/kernels/python3/kernel.json", json.dumps(broken))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    monkeypatch.delenv("JUPYTER_PREFER_ENV_PATH", raising=False)
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    monkeypatch.setattr(runner.report, "export", lambda preset, executed: None)
    sentence, first = "UserError: no domain sqad; there is squad", 'preset: str = "mini"  # its name'
    broken = "from helpers.errors import UserError\n\nraise UserError('no domain sqad; there is squad')"
    write_notebook(tmp_path / "00_corpora.ipynb", first, broken)
    write_notebook(tmp_path / "99_report.ipynb", first)
    assert runner.run(["00_corpora"], {"preset": "smoke"}) == 1
    assert f"00_corpora: FAILED: {sentence} (see " in capsys.readouterr().out
    (file,) = (paths.results("smoke") / "running").glob("00_corpora.*.ipynb")
    executed = nbformat.read(file, as_version=4)
    (shown,) = [o for cell in executed.cells for o in cell.get("outputs", []) if o.output_type == "error"]
    assert shown.traceback == [sentence]
    write_notebook(tmp_path / "00_corpora.ipynb", first)
    assert runner.run(["00_corpora"], {"preset": "smoke"}) == 0
    assert not file.exists() and (paths.notebooks("smoke") / "00_corpora.ipynb").exists()
