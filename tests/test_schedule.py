"""Nothing waits for what it does not need: plans go on by themselves, tasks begin when what they build on is done."""

from concurrent.futures import BrokenExecutor, Future
from itertools import count
from typing import NamedTuple

import pytest
from filelock import Timeout

from helpers import papers
from helpers.presets.load import load
from helpers.presets.schema import EngineSettings
from helpers.training import engine
from helpers.training.cached import Cached, CachedTraining
from helpers.training.schedule import Crowded, Schedule, carry_out


class Task(NamedTuple):
    key: str
    parents: tuple[str, ...] = ()

    @property
    def label(self):
        return f"task {self.key}"

    def builds_on(self):
        return list(self.parents)


class Clock:
    """Workers without work: a task ends when ``seconds`` of it have passed, as ``errors`` say. ``log`` has when
    what began, with what it was told."""

    def __init__(self, seconds=None, errors=None):
        self.seconds, self.errors, self.now, self.ends, self.log = seconds or {}, errors or {}, 0.0, {}, []

    def start(self, task, wait, at_once):
        future = Future()
        self.ends[future] = self.now + self.seconds.get(task.key, 1.0), task
        self.log.append((self.now, task.key, wait, at_once))
        return future

    def wait(self, running, return_when):
        assert running and set(running) == set(self.ends)
        future = min(running, key=lambda one: self.ends[one][0])
        self.now, task = self.ends.pop(future)
        errors = self.errors.get(task.key, [])
        error = errors.pop(0) if errors else None
        if isinstance(error, BrokenExecutor):  # as a pool says it
            future.set_exception(error)
        else:
            future.set_result(error)

    @property
    def begun(self):
        return {key: now for now, key, _, _ in self.log}


def carried_out(plans, clock, room=9, cached=()):
    schedule = Schedule(plans, lambda task: task.key in cached)
    ended = [(task.key, error) for task, error in carry_out(schedule, clock.start, lambda: room, clock.wait)]
    return schedule, ended


def chain(*names):
    """A plan of one task a wave, each of which builds on the one before."""
    before = ()
    for name in names:
        yield [Task(name, before)]
        before = (name,)
    return "".join(names)


def test_a_plan_goes_on_as_soon_as_its_own_wave_is_done():
    clock = Clock({"slow": 10.0})
    schedule, ended = carried_out({1: chain("slow", "last"), 2: chain("a", "b", "c")}, clock)
    assert clock.begun == {"slow": 0.0, "a": 0.0, "b": 1.0, "c": 2.0, "last": 10.0} and clock.now == 11.0
    assert [key for key, _ in ended] == ["a", "b", "c", "slow", "last"]
    assert {name: outcome.value for name, outcome in schedule.outcomes().items()} == {1: "slowlast", 2: "abc"}
    assert [task.key for task in schedule.outcomes()[2].tasks] == ["a", "b", "c"]


def test_a_task_begins_as_soon_as_what_it_builds_on_is_done():
    wave = [
        Task("child", ("quick",)),
        Task("quick"),
        Task("slow"),
        Task("both", ("quick", "slow")),
        Task("x", ("old",)),
    ]
    clock = Clock({"slow": 5.0})
    carried_out({1: iter([wave])}, clock)
    assert clock.begun == {"quick": 0.0, "slow": 0.0, "x": 0.0, "child": 1.0, "both": 5.0}


def test_what_several_plans_ask_for_is_done_once_and_what_is_cached_is_not():
    clock = Clock({"shared": 3.0})
    plans = {1: chain("shared", "a"), 2: chain("cached", "shared", "b"), 3: chain("shared")}
    schedule, _ = carried_out(plans, clock, cached={"cached"})
    assert clock.begun == {"shared": 0.0, "a": 3.0, "b": 3.0} and len(clock.log) == 3
    assert schedule.done == schedule.tasks.keys() == {"shared", "a", "b", "cached"}
    schedule, ended = carried_out({1: chain("a", "b")}, clock, cached={"a", "b"})
    assert not ended and schedule.outcomes()[1].value == "ab" and len(clock.log) == 3


def test_there_is_room_for_so_many_in_the_order_in_which_they_may_begin():
    clock = Clock({"a": 2.0, "b": 1.0})
    carried_out({1: iter([[Task(name) for name in "abcd"]])}, clock, room=2)
    assert clock.log == [(0.0, "a", False, 4), (0.0, "b", False, 4), (1.0, "c", False, 3), (2.0, "d", False, 2)]


def test_what_another_run_has_or_a_worker_died_of_is_tried_once_more_when_nothing_else_is_ready():
    clock = Clock(errors={"a": [Timeout("lock")], "b": [BrokenExecutor("killed"), BrokenExecutor("again")]})
    schedule, ended = carried_out({1: iter([[Task(name) for name in "abc"]]), 2: chain("d", "e")}, clock, room=1)
    assert [(key, wait) for _, key, wait, _ in clock.log] == [
        *(("a", False), ("b", False), ("c", False), ("d", False), ("e", False)),
        *(("a", True), ("b", True)),
    ]
    assert schedule.failed.keys() == {"b"} and dict(ended)["a"] is None and str(dict(ended)["b"]) == "again"


def test_what_finds_no_room_is_begun_again_as_often_as_that_is_so():
    clock = Clock(errors={"a": [Timeout("lock"), Crowded("4"), Crowded("2"), BrokenExecutor("killed"), None]})
    schedule, _ = carried_out({1: iter([[Task("a"), Task("b")]])}, clock, room=1)
    assert [(key, wait) for _, key, wait, _ in clock.log] == [("a", False), ("b", False), *[("a", True)] * 4]
    assert not schedule.failed


def test_a_failure_stops_what_builds_on_it_and_nothing_else():
    clock = Clock(errors={"bad": [ValueError("no disk")]})

    def plan():
        yield [Task("bad"), Task("good"), Task("child", ("bad", "good")), Task("grandchild", ("child", "bad"))]
        pytest.fail("goes on without its wave")

    schedule, ended = carried_out({1: plan(), 2: chain("a", "b"), 3: chain("bad", "never")}, clock)
    assert [key for key, _ in ended] == ["bad", "good", "a", "b"] and schedule.failed.keys() == {"bad"}
    assert [task.key for task in schedule.never_begun()] == ["child", "grandchild"]


def test_the_error_names_all_that_failed_and_what_was_not_begun(monkeypatch):
    told, errors = [], {"x": [ValueError("no disk")], "y": [OSError("no room")]}

    def start(task, wait, at_once):
        future = Future()
        future.set_result(errors[task.key].pop() if errors.get(task.key) else None)
        return future

    monkeypatch.setattr(engine, "is_done", lambda task: False)
    monkeypatch.setattr(engine, "workers", lambda settings: (start, lambda: 2))
    wave = [Task("x"), Task("y"), Task("z"), Task("xy", ("x", "y"))]
    with pytest.raises(engine.TrainingsFailed) as error:
        engine.run_plans({1: iter([wave]), 2: iter([wave])}, EngineSettings(), after=told.append)
    assert str(error.value).splitlines() == [
        "2 of 4 trainings failed:",
        "  task x: ValueError: no disk",
        "  task y: OSError: no room",
        "not begun, as they build on these: task xy",
    ]
    assert told == [Task("z")]


@pytest.mark.parametrize("paper", papers.ALL[1:], ids=lambda paper: paper.key)
def test_tasks_name_all_that_they_build_on_and_come_after_it(results, monkeypatch, paper):
    better = count()
    monkeypatch.setattr(Cached, "result", lambda task: {"best": next(better)})  # so that plans go on to their end
    for card in (card for card in paper.notebooks if card.plans):
        for plan in card.plans(load("smoke", paper.key, card.name)).values():
            known = {}
            for task in engine.replay(plan, lambda task: True).tasks:
                named = {key for key in known if key in task.model_dump_json(exclude={"preset", "infra"})}
                assert named - {task.key} <= set(task.builds_on()) <= known.keys(), task.label
                known[task.key] = task
            read = {key for task in known.values() for key in task.builds_on()}
            assert {key for key, task in known.items() if not isinstance(task, CachedTraining)} <= read
