"""Files of questions in, better readers out."""

import pytest
from conftest import write_squad
from transformers import AutoModelForQuestionAnswering

from helpers import __main__ as cli
from helpers import paths
from helpers.data.mini import domains as mini
from helpers.results import records


@pytest.fixture
def files(tmp_path):
    """Two miniature domains as SQuAD files."""
    files = {name: tmp_path / f"{name}.json" for name in ("news", "trivia")}
    for name, file in files.items():
        write_squad(file, mini.load_domain(name, train_size=60).train)
    return files


def run(files, out, *more):
    domains = [part for name, file in files.items() for part in ("--domain", f"{name}={file}")]
    return cli.main(["imm", *domains, "--preset", "smoke", "--rounds", "1", "--out", str(out), *more])


def test_readers_with_model_cards_and_a_record(results, files, tmp_path, capsys):
    out = tmp_path / "readers"
    assert run(files, out) == 0
    said = capsys.readouterr().out
    record = records.read(results / "own/imm/own.json")
    assert {(s.method, s.column, s.seed) for s in record.scores} == {
        (method, column, seed) for method in ("Single", "IMM") for column in files for seed in (0, 1)
    }
    assert str(tmp_path) not in (results / "own/imm/own.json").read_text()
    for name in files:
        assert f"{name}: Single " in said and "P(IMM > Single)" in said
        assert AutoModelForQuestionAnswering.from_pretrained(out / name).config.num_hidden_layers == 1
        card = (out / name / "README.md").read_text()
        scored = [s.value for s in record.scores if (s.method, s.column) == ("IMM", name)]
        assert any(f"| this reader | {value:.1f} |" in card for value in scored)
        assert "news 24, trivia 24" in card and str(tmp_path) not in card and "pipeline_tag: question-answering" in card
        assert f"12 test questions of {name}" in card
    before = {path: path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl")}
    assert run(files, out) == 0  # nothing is trained again
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_wrong_use_is_one_line(results, files, tmp_path, capsys):
    assert run({"news": files["news"]}, tmp_path / "out") == 1
    assert "error: IMM needs 2 to 16 domains, not 1" in capsys.readouterr().err
    assert run({**files, "legal": tmp_path / "none.json"}, tmp_path / "out") == 1
    assert "none.json: no such file" in capsys.readouterr().err
    assert cli.main(["imm", "--domain", "news", "--out", str(tmp_path / "out")]) == 1
    assert "error: --domain news: write NAME=FILE" in capsys.readouterr().err
    for name in ("..", "a.b", "a|b"):
        assert run({"news": files["news"], name: files["trivia"]}, tmp_path / "out") == 1
        assert f"data.domains.{name}" in capsys.readouterr().err
    assert (
        run(files, tmp_path / "out", "-p", "data_dir", "x") == 1 and run(files, tmp_path / "out", "--rounds", "0") == 1
    )
    assert not (tmp_path / "out").exists() and not list(results.rglob("job.pkl"))


def test_a_folder_of_something_else_is_left_alone(results, files, tmp_path, capsys):
    (tmp_path / "out/news").mkdir(parents=True)
    (tmp_path / "out/news/thesis.tex").write_text("important")
    assert run(files, tmp_path / "out", "-p", "seeds", "1") == 1
    assert "holds something that is no reader of ours" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out/news").iterdir()] == ["thesis.tex"]
    assert not list(results.rglob("job.pkl"))
