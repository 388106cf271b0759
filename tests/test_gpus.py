"""Trainings on several GPUs, pretended on a CPU: where each runs, and how many at once."""

import os

import pytest
import torch
from conftest import single_and_both, two_domains

from helpers.presets.schema import EngineSettings
from helpers.training import engine, gpus, local
from helpers.training.gpus import Crowded, Gpus, Width


@pytest.fixture
def pretended(monkeypatch):
    """Two GPUs that compute on the CPU."""
    monkeypatch.setattr(gpus, "devices", lambda: ["0", "GPU-1f"])


def learn(width, *rates, kind="Mix", memory=0.01):
    """Trainings that end one after another, at what is then the width; returns the widths after them."""
    found = []
    for rate in rates:
        width.learn(kind, width.number, rate, memory)
        found.append(width.number)
    return found


def test_twice_as_many_as_long_as_that_is_faster():
    # 10 steps a second alone; two with 8 each, 16 together; four with 4.5, 18: 1.125 times; eight with 2.3, 18.4
    width = Width()
    assert learn(width, 10.0, *[8.0] * 2, *[4.5] * 4, *[2.3] * 8) == [2, 2, 4, 4, 4, 4, *[8] * 8, 4]
    assert width.settled and learn(width, 100.0, 100.0) == [4, 4]


def test_one_alone_where_two_are_no_faster():
    assert learn(Width(), 10.0, 5.2, 5.2, 99.0) == [2, 2, 1, 1]
    width = Width()
    width.learn("Mix", 1, 10.0, 0.01)
    for at_once in (1, 2, 1, 2):  # the first of two begins alone, and does not run alone
        width.learn("Mix", at_once, 5.2, 0.01)
    assert width.number == 1 and width.settled


def test_no_more_than_the_memory_holds():
    assert learn(Width(), 10.0, *[10.0] * 2, *[10.0] * 3, memory=0.5) == [1] * 6  # a second would fill it
    # 0.28 each, as 1, 2 and then 3 show: three fit
    width = Width()
    assert learn(width, 10.0, memory=0.28) == [2] and learn(width, 10.0, 10.0, memory=0.56) == [2, 3]
    assert learn(width, *[10.0] * 3, memory=0.84) == [3, 3, 3] and width.settled


def test_only_trainings_of_a_kind_are_compared():
    width = Width()
    assert learn(width, 10.0) == [2]
    assert learn(width, 1.0, 1.0, kind="a larger one") == [2, 2] and not width.settled
    assert learn(width, 9.0) == [4]


def test_trainings_begun_at_another_width_say_nothing_of_this_one():
    width = Width()
    width.learn("Mix", 1, 10.0, 0.01)
    width.learn("Mix", 1, 1.0, 0.01)
    assert width.number == 2 and not width.settled


class Pools:
    """Stands for worker processes: a task of the GPU ``device`` waits until it is told how it ended."""

    def __init__(self):
        self.begun = []

    def __call__(self, workers, do, number, task, *more, device=None):
        self.begun.append((device, number, more))
        return gpus.Future()


class Task:
    label, steps, key = "Mix, news", 100, "a"

    def result(self):
        return {"seconds": 10.0}


def test_the_gpu_with_the_fewest_is_next(monkeypatch):
    monkeypatch.setattr(local, "in_worker", pools := Pools())
    monkeypatch.setattr(local, "cores", lambda: 8)
    run = Gpus(EngineSettings(threads=0), ["a", "b"], memory=lambda: 0.01)
    assert run.room() == 2
    _, two = (run.start(Task(), True, 9) for _ in range(2))
    assert pools.begun == [("a", 4, (True, False)), ("b", 4, (True, False))]
    two.set_result(None)
    assert run.room() == 4  # two each are tried
    for _ in range(3):
        run.start(Task(), True, 9)
    assert pools.begun[2:] == [("b", 2, (True, False)), ("a", 2, (True, True)), ("b", 2, (True, True))]
    assert Gpus(EngineSettings(processes=3), ["a"]).room() == Gpus(EngineSettings(processes=3), ["a", "b"]).room() == 3


def test_a_single_gpu_takes_several_too(monkeypatch):
    monkeypatch.setattr(local, "in_worker", pools := Pools())
    monkeypatch.setattr(local, "here", lambda *given: pytest.fail("in this process"))
    run = Gpus(EngineSettings(threads=1), ["a"], memory=lambda: 0.01)
    run.start(Task(), True, 9).set_result(None)
    assert run.room() == 2 and len(pools.begun) == 1
    run.start(Task(), True, 1)  # the last of all: a worker is there, and may hold memory
    assert len(pools.begun) == 2


def test_one_that_finds_no_memory_is_begun_again_with_fewer_until_it_is_alone(monkeypatch):
    monkeypatch.setattr(local, "in_worker", pools := Pools())
    monkeypatch.setattr(local, "dismiss", lambda: dismissed.append(True))
    run, dismissed = Gpus(EngineSettings(processes=8), ["a"], memory=lambda: 0.01), []
    left, rooms = [run.start(Task(), True, 9) for _ in range(8)], []
    while left:
        for future in left:
            future.set_result(Crowded("no memory"))
        rooms.append(run.room())
        left = [run.start(Task(), True, 9) for _ in range(rooms[-1])] if rooms[-1] > 1 else []
    assert rooms == [4, 2, 1] and len(dismissed) == 3  # a burst of eight halves once
    run.start(Task(), True, 9)
    assert pools.begun[-1][2] == (True, False)  # alone it has all there is
    monkeypatch.setattr(local, "fit", lambda *given: torch.OutOfMemoryError("no memory"))
    assert isinstance(gpus._fit(1, Task(), True, True), Crowded)
    assert not isinstance(gpus._fit(1, Task(), True, False), Crowded)


def test_workers_see_their_gpu_alone():
    for device in ("0", "GPU-1f"):
        assert local._pool(2, device).submit(os.getenv, "CUDA_VISIBLE_DEVICES").result() == device
    local._pool.cache_clear()


def test_all_is_trained_as_on_one(results, pretended, monkeypatch):
    preset = two_domains()
    found = single_and_both(preset)
    engine.run(found, EngineSettings(threads=1))
    monkeypatch.setattr(gpus, "devices", list)
    monkeypatch.setenv("HELPERS_RESULTS", str(results / "one"))
    expected = single_and_both(preset)
    engine.run(expected, EngineSettings(threads=1, processes=1))
    assert [task.result()["weights"] for task in found] == [task.result()["weights"] for task in expected]


def test_the_gpus_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-1f")
    assert gpus.devices() == ["3", "GPU-1f"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert gpus.devices() == ["0", "1"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert gpus.devices() == []
