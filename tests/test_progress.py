"""What is told of a run: how much there is to train, what is at work, and the minutes that are left."""

import time
from types import SimpleNamespace

import pytest
from conftest import plan_of

from helpers import engine, loop, progress, task
from helpers.extractive_qa import count_steps
from helpers.papers.imm.algorithm import reader_training
from helpers.presets.load import load_preset
from helpers.presets.schema import EngineSettings

HERE = EngineSettings(processes=1, threads=1)


@pytest.fixture
def trainings(results):
    """A reader of each of two domains, and one that starts from the second."""
    preset = load_preset("smoke", "imm")
    single = [reader_training(preset, 0, f"Single, {name}", [name], [name], stages=1) for name in ("news", "search")]
    return [*single, reader_training(preset, 0, "FT", ["news"], ["news"], start=single[1], stages=1)]


def progress_of(trainings, room=2):
    schedule = engine.Schedule({"": plan_of(*trainings)})
    return progress.Progress(schedule, room)


def write_steps(training, first, done, steps, seconds):
    training.folder.mkdir(parents=True, exist_ok=True)
    (training.folder / task.PROGRESS).write_text(f"{first} {done} {steps} {seconds}")


def test_what_there_is_to_train_is_counted_without_a_tokenizer(trainings):
    about = progress_of(trainings)
    estimates = [about.estimate_steps(training) for training in trainings]
    for training, estimate in zip(trainings, estimates, strict=True):
        exact = count_steps(training.preset, training.data.names, training.optim)
        assert 0 < estimate <= exact
    assert about.announce() == f"3 trainings to do, at least {sum(estimates):,} steps, 2 at once"
    assert progress_of(trainings[:1]).announce() == f"1 training to do, at least {estimates[0]} steps"
    assert progress_of([]).announce() == ""


def test_the_minutes_left_are_a_range_from_the_steps_done_and_their_speed(trainings):
    about = progress_of(trainings)
    assert about.estimate_minutes() is None
    news, search, tuned = trainings
    about.estimates = {news.key: 100, search.key: 200, tuned.key: 300}
    for training in (news, search):
        about.begin(training)
    assert about.describe() == "Single, news, seed 0 and Single, search, seed 0"
    write_steps(news, 0, 60, 120, 30.0)  # 2 steps a second; there are more than estimated
    write_steps(search, 100, 140, 240, 40.0)  # 1 a second, from a checkpoint on
    least, most = about.estimate_minutes()
    longest, total = 100 + 300 * 1.2, 60 + 100 + 300 * 1.2
    assert least == pytest.approx(longest / 2 / 60)
    assert most == pytest.approx((total / 2 + longest / 2) / 60)
    assert "Single, news, seed 0 (60 of 120 steps)" in about.describe() and "left" in about.describe()


def test_a_training_that_ends_counts_all_its_time(trainings, monkeypatch):
    news, *_ = trainings
    about, clock = progress_of(trainings), iter([10.0, 60.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    about.begin(news)
    write_steps(news, 0, 90, 100, 20.0)
    monkeypatch.setattr(type(news), "is_done", lambda self: True)
    about.end(news)
    assert about.speeds == [100 / 50] and about.exact == {news.key: 100}
    assert not (news.folder / task.PROGRESS).exists() and about.begun == {}


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        (0.1, 0.4, "less than a minute left"),
        (1.2, 1.6, "1 to 2 minutes left"),
        (2.9, 2.95, "3 minutes left"),
        (3.2, 7.1, "3 to 8 minutes left"),
        (70.0, 200.0, "1 to 4 hours left"),
    ],
)
def test_minutes_in_words(least, most, text):
    assert progress.state_minutes(least, most) == text


def test_a_training_tells_its_steps_while_it_runs_and_leaves_nothing(trainings, monkeypatch, capsys):
    told, write = [], loop.write_whole
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr(loop, "TOLD_EVERY", 0.0)
    monkeypatch.setattr(loop, "write_whole", lambda path, content: told.append((path, content)) or write(path, content))
    engine.run(plan_of(trainings[0]), HERE)
    steps = trainings[0].result()["steps"]
    first, done, of, _ = told[-1][1].split()
    file = trainings[0].folder / task.PROGRESS
    assert told[-1][0] == file and (int(first), int(done), int(of)) == (0, steps, steps)
    assert not file.exists()
    assert capsys.readouterr().err.startswith("1 training to do, at least ")


def test_a_bar_shows_what_is_at_work(trainings, monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "REFRESHED", 0.01)
    about = progress_of(trainings)
    about.begin(trainings[0])
    with about.shown(SimpleNamespace(disable=False, set_postfix_str=shown.append)):
        time.sleep(0.2)
    assert shown and set(shown) == {"Single, news, seed 0"}
