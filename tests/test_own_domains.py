"""Files of questions in, better readers out."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from conftest import ROOT, arguments
from transformers import AutoModelForQuestionAnswering

from helpers import __main__ as cli
from helpers import own, papers, paths
from helpers.notebooks.session import preset_for
from helpers.presets.load import load
from helpers.presets.schema import EngineSettings
from helpers.results import records
from helpers.tasks.pace import Pace, Speed
from helpers.training import local

METHODS = ("Single", "Mix", "FT", "BAM", "IMM")


def run(files, out, *more):
    return cli.main(arguments(files, out, *more))


def test_readers_with_model_cards_and_a_record(results, files, tmp_path, capsys):
    out = tmp_path / "readers"
    assert run(files, out, "-p", "seeds", "2") == 0
    captured = capsys.readouterr()
    said = captured.out
    place = next(line for line in said.splitlines() if line.startswith("record: ")).removeprefix("record: ")
    (file,) = (results / "own/imm").glob("*.json")
    assert (ROOT / place).resolve() == file.resolve() or os.path.samefile(place, file)
    record = records.read(file)
    assert {(s.method, s.column, s.seed) for s in record.scores} == {
        (method, column, seed) for method in (*METHODS, "Chosen") for column in files for seed in (0, 1)
    }
    assert record.title.startswith("F1 of each domain's reader") and str(tmp_path) not in file.read_text()
    # Two seeds of: Single 2, asked 2; Mix 1, asked 2 and on validation 2; FT 4, asked 2; outputs stored 2, BAM 3, asked
    # 2; two stages of a round of IMM without teachers and of one with, 8, asked 2.
    assert re.search(r"64 trainings and scorings at most, 0 done before; about \d+ s \(a step takes", said)
    assert re.search(r"about \d+ s left; last done: nothing yet", captured.err)  # at once, by the measured pace
    assert re.search(r"100 %.*about \d+ s left; last done: answers of ", captured.err)
    for name in files:
        assert f"{name}: Single " in said and "P(chosen > Single)" in said
        assert AutoModelForQuestionAnswering.from_pretrained(out / name).config.num_hidden_layers == 1
        card = (out / name / "README.md").read_text()
        scored = [s.value for s in record.scores if (s.method, s.column) == ("Chosen", name)]
        assert any(f"| this reader | {value:.1f} |" in card for value in scored) and "| Single, same seed | " in card
        assert "news 24, trivia 24" in card and str(tmp_path) not in card and "pipeline_tag: question-answering" in card
        assert f"| F1 on test questions | {name} (12) |" in card
        assert "in windows of at most 96 tokens, each 32 tokens on" in card and "says nothing" not in card

    # Again, with the domains in another order: nothing is trained, and the record is the same one.
    before = {path: path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl")}
    assert run(dict(reversed(files.items())), out, "-p", "seeds", "2") == 0
    assert {path: path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl")} == before
    assert [path.name for path in (results / "own/imm").glob("*.json")] == [file.name]
    again = records.read(file)
    assert again.scores == record.scores
    assert re.search(r"all \d+ trainings and scorings are done", capsys.readouterr().out)

    # Other settings have a record of their own.
    assert run(files, out, "-p", "seeds", "1") == 0
    assert len(list((results / "own/imm").glob("*.json"))) == 2


def test_a_dry_run_says_what_would_be_trained_and_trains_nothing(results, files, tmp_path, capsys):
    assert run(files, tmp_path / "readers", "--dry-run", "-p", "training.epochs", "2", "-p", "seeds", "1") == 0
    said = capsys.readouterr().out
    assert "news: 24 train, 8 valid, 12 test questions" in said
    table = {line.split("  ")[0]: re.split(" {2,}", line.strip())[1:] for line in said.splitlines()}
    assert table["Single"] == ["2", "0", "6"]  # 2 epochs over the 24 questions of each domain, 8 at a time
    assert table["IMM phi"] == table["IMM theta"] == ["4", "0", "6"]  # without teachers, and with
    assert not (tmp_path / "readers").exists() and not list(results.rglob("job.pkl"))


def test_limits_of_the_preset_hold_for_own_domains_too(results, files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    asked = arguments(files, tmp_path / "out", "--dry-run", "--encoder", "data/mini", "-p", "train_size", "0")
    asked += ["-p", "windows.max_length", "160", "-p", "windows.stride", "64", "-p", "data.valid_size", "8"]
    assert cli.main(["imm", *(part for part in asked[1:] if part not in ("--preset", "smoke", "--rounds", "1"))]) == 0
    said = capsys.readouterr().out
    limits, _, rest = said.partition("news: ")
    assert "imm.rounds" in limits and "seeds" not in limits  # one, by the command itself
    assert "train_size" not in limits and "imm.curve" not in limits and "a2d" not in limits
    assert limits.startswith("no GPU, hence these limits of preset lab")
    assert rest.startswith("40 train, 8 valid, 12 test questions\n  news: one file: 20% of it")
    assert "  warning: news: 40 questions to train on" in rest
    assert rest.partition("Single ")[2].split()[0] == "2"  # one seed of two domains


def test_what_is_rehearsed_is_what_is_done_where_every_taught_reader_is_better(results, files, monkeypatch):
    method = next(paper.own_domains for paper in papers.ALL if paper.key == "imm")
    domains = method.settings | own.overrides(method, files)
    preset = preset_for({"preset": "smoke", "rounds": 2, "seeds": 1}, method.notebook, **domains)
    from helpers.papers.imm import algorithm

    def valid(reader):
        return (reader.label.count("IMM") + reader.label.count("round 2")) * (1 if reader.teachers else -1)

    monkeypatch.setattr(algorithm, "valid", valid)
    rehearsed = {task.key for task in method.work().tasks(preset)}
    # Single, Mix, FT, BAM with their answers, Mix's on validation too; a round without teachers, two with, answers.
    assert len(rehearsed) == (2 + 2) + (1 + 2 + 2) + (4 + 2) + (3 + 2) + (2 + 2) + 2 * (2 + 2 + 2) + 2
    done = []
    with own.progress(own.Work.of(method, preset), Pace(lambda task: Speed(0.1, 0.01), 1)) as after:
        method.work().train(preset, lambda task: (done.append(task.key), after(task)))
    assert set(done) == rehearsed and len(done) == len(rehearsed)


def test_a_pace_counts_steps_and_windows():
    class Task:
        steps = 10

        def windows_read(self):
            return 100

    pace = Pace(lambda task: Speed(0.5, 0.01), 2)
    assert pace.seconds([Task(), Task()]) == pytest.approx(2 * (5 + 1)) and pace.steps([Task()]) == [0.5]


def test_a_pace_is_measured_with_the_threads_of_trainings_side_by_side(monkeypatch):
    monkeypatch.setattr(local, "cores", lambda: 4)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    seen = []
    for settings in ({"threads": 0}, {"threads": 0, "processes": 2}, {"threads": 2}):
        preset = load("smoke").model_copy(update={"engine": EngineSettings(**settings)})
        of = Pace.of(lambda preset: seen.append(torch.get_num_threads()), preset)
        seen.append(of.processes)
    assert seen == [1, 4, 2, 2, 2, 2]


def test_wrong_use_is_one_line(results, files, tmp_path, capsys):
    def error(*given):
        assert run(*given) == 1
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    out = tmp_path / "out"
    assert "error: IMM needs 2 to 16 domains, not 1" in error({"news": files["news"]}, out)
    assert "none.json: no such file" in error({**files, "legal": tmp_path / "none.json"}, out)
    assert cli.main(["imm", "--domain", "news", "--out", str(out)]) == 1
    assert "error: --domain news: write NAME=FILE" in capsys.readouterr().err
    for name in ("..", "a.b", "a|b"):
        assert f"the name '{name}' cannot be used" in error({"news": files["news"], name: files["trivia"]}, out)
    spaced = error({"news": files["news"], "my law": files["trivia"]}, out)
    assert "the name 'my law' has a space: give the domain a name of letters, digits" in spaced
    assert "-p data.folder has no meaning here" in error(files, out, "-p", "data_dir", "x")
    assert "imm.rounds" in error(files, out, "--rounds", "0")
    assert "no parameter 'epoch' here" in error(files, out, "-p", "epoch", "1")
    several = error(files, out, "-p", "epochs", "1")
    assert "-p hrkd.epochs has no meaning here: IMM does not depend on it; there is training.epochs" in several
    assert "training.epochs: Input should be a finite number" in error(files, out, "-p", "training.epochs", "1e400")
    assert "-p name has no meaning here" in error(files, out, "-p", "name", "mine")
    assert "encoder '5' cannot be loaded" in error(files, out, "--encoder", "5")
    assert not out.exists() and not list(results.rglob("job.pkl"))


def test_a_folder_of_something_else_is_left_alone(results, files, tmp_path, capsys):
    (tmp_path / "out/news").mkdir(parents=True)
    (tmp_path / "out/news/thesis.tex").write_text("important")
    assert run(files, tmp_path / "out", "-p", "seeds", "1") == 1
    assert "holds something that is no reader of ours" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out/news").iterdir()] == ["thesis.tex"]
    assert not list(results.rglob("job.pkl"))


@pytest.mark.slow
def test_an_interrupt_ends_with_one_line_and_the_same_command_goes_on(results, files, tmp_path):
    command = [sys.executable, "-m", "helpers", *arguments(files, tmp_path / "readers", "-p", "engine.processes")]
    command += ["2", "-p", "training.epochs", "60", "-p", "seeds", "1", "--methods", "Mix FT"]  # some seconds
    environment = {**os.environ, "HELPERS_RESULTS": str(results)}
    started = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )
    deadline = time.monotonic() + 120
    while not list(results.rglob("files.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does
    said = started.communicate(timeout=60)[1].decode()
    assert started.returncode == 130
    last = said.replace("\r", "\n").strip().splitlines()[-1]
    assert last == "stopped; what is finished is kept: the same command goes on from there"
    assert "Traceback" not in said
    kept = {path: path.stat().st_mtime_ns for path in results.rglob("files.json")}
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert int(re.search(r"(\d+) done before", again.stdout)[1]) >= len(kept) > 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_help_says_which_preset_is_the_default(capsys):
    for command, preset in (("imm", "lab"), ("run", "mini"), ("data", "mini")):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        said = " ".join(capsys.readouterr().out.split())
        assert f"This command's is {preset}." in said and f"(default: {preset})" in said
