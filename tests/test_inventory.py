"""What is trained and what is left, found out once and then kept; how long that takes; and one bar over it."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from helpers import __main__ as cli
from helpers import paths
from helpers.notebooks import inventory, pace
from helpers.notebooks.inventory import Inventory, Training
from helpers.papers import imm
from helpers.papers.imm import algorithm
from helpers.presets.load import load
from helpers.training import engine

SMOKE = {"preset": "smoke"}


@pytest.fixture
def one_paper(monkeypatch):
    """Of all notebooks Table 1 of IMM's alone, so that there is little to replay."""
    table1 = [card for card in imm.CARD.notebooks if card.name == "02_imm_main"]
    monkeypatch.setattr(inventory.papers, "ALL", [SimpleNamespace(**{**vars(imm.CARD), "notebooks": table1})])
    return "02_imm_main"


def test_what_is_trained_is_seen_without_a_replay(results, one_paper, monkeypatch, capsys):
    known = inventory.of(SMOKE)
    done, left = known.split(one_paper)
    assert not done and len(left) >= 3 and len(known.waiting[one_paper]) >= 1
    single = algorithm.singles(load("smoke", "imm", "imm_main").drawn(0), 0)["news"]
    engine.run([single], single.preset.engine)
    with monkeypatch.context() as patch:
        patch.setattr(inventory, "survey", lambda *given: pytest.fail("its wave is not done"))
        done, _ = inventory.of(SMOKE).split()
    assert list(done) == [single.key] and done[single.key].seconds == single.result()["seconds"]
    assert inventory.of(SMOKE).model(single.key) == single.folder()
    assert cli.main(["status", "--preset", "smoke", "--readers"]) == 0
    assert f"\n  {single.label}: {os.path.relpath(single.folder())}\n" in capsys.readouterr().out
    (single.folder() / "model.safetensors").write_bytes(b"half of it")
    assert inventory.kept(SMOKE).look() == [one_paper]
    assert not inventory.of(SMOKE).split()[0]  # it has to be trained again


def test_plans_are_replayed_where_a_wave_is_done_and_where_sources_change(results, one_paper, monkeypatch):
    known = inventory.of(SMOKE)
    keys = set(known.trainings)
    preset = load("smoke", "imm", "imm_main").drawn(0)
    first_wave = next(algorithm.algorithm1(preset, 0, preset.imm, 1))
    engine.run(first_wave, preset.engine)
    again = inventory.kept(SMOKE)
    assert again.look() == [one_paper]  # Algorithm 1 goes on after its first wave
    waited = {key for plan in inventory.of(SMOKE).waiting[one_paper] for key in plan}
    assert waited != {key for plan in known.waiting[one_paper] for key in plan} and keys <= set(
        inventory.of(SMOKE).trainings
    )
    monkeypatch.setattr(inventory, "state_of", lambda *given: "of other sources")
    assert inventory.kept(SMOKE) is None


def test_status_needs_no_torch_once_it_is_known(results):
    command = "main(['status', '--preset', 'smoke'])"
    code = f"import sys; from helpers.__main__ import main; {command}; print('torch' in sys.modules)"
    said = [
        subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said[0].endswith("True\n") and said[1] == said[0].removesuffix("True\n") + "False\n"
    assert "02_imm_main: 0 of " in said[0] and "done: 0; " in said[0]
    assert "left: " in said[0] and said[0].count("the time is known once one is done") > 1


def of_kind(kind, steps, seconds=None, ended=0.0):
    return Training("a training", kind, steps, seconds, ended)


def test_steps_take_as_long_as_those_of_their_kind_did():
    seconds = pace.step_seconds([of_kind("A, x", 10, 20.0), of_kind("A, x", 30, 20.0), of_kind("A, y", 10, 40.0)])
    assert seconds("A, x") == 1.0 and seconds("A, y") == 4.0
    assert seconds("A, z") == seconds("B, x") == 80 / 50
    with pytest.raises(LookupError):
        pace.step_seconds([])


def test_steps_of_other_kinds_take_as_long_as_usual_on_a_machine_this_fast():
    usual = {"A, x": 1.0, "A, y": 2.0, "B, x": 3.0}
    seconds = pace.step_seconds([of_kind("A, x", 10, 20.0)], usual)
    assert [seconds(kind) for kind in ("A, x", "A, y", "B, x")] == [2.0, 4.0, 6.0] and seconds("A, z") == 2.0
    unmeasured = pace.step_seconds([], usual)
    assert unmeasured("B, x") == 3.0 and unmeasured("C, x") == 2.0
    assert pace.seconds_left({"B, x": 30}, [], 2, pace.Usual(usual)) == 45.0
    assert pace.seconds_left({"B, x": 30}, [], 2, pace.Usual(usual, between=0.25)) == 67.5


def test_what_is_usual_is_written_once_all_is_done(results):
    # One at a time, each 10 s and with 5 s behind it, but for the last
    trainings = {str(n): of_kind("A, x", 10, 10.0, 15.0 * n) for n in range(pace.ENOUGH)} | {"b": of_kind("A, x", 30)}
    known = Inventory("", "", 1, "data/mini", [], notebooks={"one": ["0", "b"]}, trainings=trainings)
    pace.write_steps(known, "smoke")
    assert pace.Usual.of(SMOKE, "data/mini") == pace.Usual()
    trainings["b"].seconds, trainings["b"].ended = 30.0, 15.0 * pace.ENOUGH + 30
    pace.write_steps(known, "smoke")
    trainings["b"].seconds = 90.0
    pace.write_steps(known, "smoke")  # what the records took stays
    between = (15 * (pace.ENOUGH - 1) + 45) / (10 * (pace.ENOUGH - 1) + 30) - 1
    usual = pace.Usual({"A, x": 1.0}, round(between, 3))
    assert pace.Usual.of(SMOKE, "data/mini") == usual._replace(work={"one": {"A, x": 40}})
    assert pace.Usual.of({**SMOKE, "seeds": 2}, "data/mini") == usual  # which has other work
    written = json.loads(paths.steps("smoke").read_text())
    paths.steps("smoke").write_text(json.dumps({key: value for key, value in written.items() if key != "work"}))
    assert pace.Usual.of(SMOKE, "data/mini") == usual  # as earlier versions wrote it
    elsewhere = pace.Usual.of({"preset": "../elsewhere.toml"}, "data/mini")
    assert pace.Usual.of(SMOKE, "another/encoder") == elsewhere == pace.Usual()


def test_plans_that_go_on_have_as_much_left_as_they_usually_do():
    trainings = {"a": of_kind("A, x", 10), "b": of_kind("A, x", 5), "c": of_kind("B, x", 5)}
    notebooks, waiting = {"one": ["a", "c"], "two": ["a"], "three": ["b"]}, {"one": [["a"]], "two": [["a"]]}
    known = Inventory("", "", 1, "", [], notebooks=notebooks, waiting=waiting, trainings=trainings)
    work = {"one": {"A, x": 30, "B, x": 3}, "two": {"A, x": 40}, "three": {"A, x": 99}}
    # 20 of A are left of one, 30 of two, which may be the same; of B there are more than usual; three's plan has ended.
    assert pace.Usual(work=work).unknown(known, notebooks) == {"A, x": 30, "B, x": 0}
    assert pace.Usual(work=work).unknown(known, ["one"]) == {"A, x": 20, "B, x": 0}


def test_what_passes_between_trainings_counts_and_breaks_do_not():
    # two at a time, 10 s each, but 20 s of the clock for a pair; then a night, and the same once more
    run = [of_kind("A, x", 10, 10.0, ended) for ended in range(0, 200, 10)]
    later = [of_kind("A, x", 10, 10.0, 40_000.0 + ended) for ended in range(0, 200, 10)]
    assert pace.share(run, 2) == pace.share(run + later, 2) == 1.0
    assert pace.share(run[:5], 2) == 0.5  # too few to tell
    assert pace.seconds_left({"A, x": 30}, run, 2) == 30.0


def test_the_bar_says_what_is_left(tmp_path, capsys):
    trainings = {"a": of_kind("A, x", 10, 20.0), "b": of_kind("A, x", 10), "c": of_kind("A, x", 5)}
    trainings["a"].stamp = inventory.stamp(tmp_path / "a")
    known = Inventory(str(tmp_path), "", 1, "", [], notebooks={"one": ["a", "b"], "two": ["c"]}, trainings=trainings)
    with pace.bar_over(known, SMOKE, ["one"]) as bar:
        assert (bar.n, bar.total) == (20.0, 40.0) and "1 of 2 trainings done" in str(bar)
    trainings["b"].seconds, trainings["b"].stamp = 20.0, []
    with pace.bar_over(known, SMOKE, ["one"]) as bar:
        assert bar.disable  # nothing is left of this notebook


def test_all_waves_have_one_bar(results, monkeypatch):
    bars = []

    def made(**settings):
        bars.append(engine_bar(**settings))
        return bars[-1]

    engine_bar = engine.tqdm
    monkeypatch.setattr(engine, "tqdm", made)
    preset = load("smoke", "imm", seeds=1, **{"data.domains": {"news": "news", "encyclopedia": "encyclopedia"}})
    singles = algorithm.singles(preset, 0)

    def plan():
        yield [singles["news"]]
        yield [singles["encyclopedia"]]

    engine.run_plans({1: plan()}, preset.engine)
    assert len(bars) == 1 and (bars[0].n, bars[0].total) == (2, 2)
