"""Plans of tasks: which begin when, what a failure stops, workers, two runs at once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import torch
from conftest import plan_of

from helpers import engine, progress
from helpers.engine import TasksFailed, carry_out, run
from helpers.errors import UserError
from helpers.presets.load import load_preset
from helpers.presets.schema import EngineSettings
from helpers.task import FREED, Spent, Task

HERE, TWO = EngineSettings(processes=1, threads=1), EngineSettings(processes=2, threads=1)
FRUGAL = EngineSettings(processes=1, threads=1, keep="results")


@dataclass(frozen=True, kw_only=True, eq=False)
class Step(Task):
    """A task that notes that it was done, and fails or dies where it is told to."""

    name: str
    after: tuple["Step", ...] = ()
    seconds: float = 0.0
    does: str = ""

    def work(self) -> dict:
        if self.does == "fail":
            raise RuntimeError("as told")
        if self.does == "die always":
            os._exit(9)
        if self.does == "die" and not (marker := self.folder / "died").exists():
            marker.touch()
            os._exit(9)
        time.sleep(self.seconds)
        with (self.preset.models / "done.txt").open("a") as file:
            file.write(f"{self.name}\n")
        return {"name": self.name, "process": os.getpid(), "threads": torch.get_num_threads()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Stored(Step):
    """A step that reads the files of those before it and leaves one."""

    def work(self) -> dict:
        if self.does == "free" and not (marker := self.folder / "freed before").exists():
            marker.touch()
            self.after[0].free()  # as another run may
        for need in self.after:
            need.file("value.safetensors")
        (self.folder / "value.safetensors").write_text(self.name)
        return super().work()


@pytest.fixture
def stored(results):
    preset = load_preset("smoke")
    return lambda name, *after, **parts: Stored(preset=preset, label=f"step {name}", name=name, after=after, **parts)


@pytest.fixture
def step(results):
    preset = load_preset("smoke")
    return lambda name, *after, **parts: Step(preset=preset, label=f"step {name}", name=name, after=after, **parts)


def done_steps(step):
    file = step("x").preset.models / "done.txt"
    return file.read_text().split() if file.exists() else []


def test_a_plan_goes_on_when_its_tasks_are_done_and_does_nothing_twice(step):
    def plan():
        first = step("a")
        yield [step("b", first)]
        assert first.result()["name"] == "a"
        yield [step("c")]
        return "value"

    for _ in range(2):
        assert run(plan(), HERE) == "value"
        assert done_steps(step) == ["a", "b", "c"]


def test_plans_inside_a_plan_send_their_values(step):
    def inner(name):
        yield [step(name)]
        return name * 2

    def outer():
        first = yield {name: inner(name) for name in "ab"}
        second = yield {"c": inner("c")}
        nothing = yield {}
        return first | second | nothing

    assert run(outer(), HERE) == {"a": "aa", "b": "bb", "c": "cc"}


def test_tasks_of_one_key_are_one_in_all_plans(step):
    plans = {names: plan_of(*(step(name, step("shared")) for name in names)) for names in ("ab", "bc")}
    carry_out(plans, HERE)
    assert sorted(done_steps(step)) == ["a", "b", "c", "shared"]


def test_without_a_bar_progress_is_a_line_a_minute(step, monkeypatch, capsys):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    run(plan_of(step("a"), step("b")), HERE)
    assert not capsys.readouterr().err
    monkeypatch.setattr(progress, "REPORTED", 0.5)
    run(plan_of(step("a"), step("b")), HERE)  # which has nothing to do
    assert not capsys.readouterr().err
    run(plan_of(step("b"), step("c", seconds=0.9)), HERE)
    assert capsys.readouterr().err == "1 of 2 tasks done; step c\n"


def test_a_failure_stops_only_what_needs_it(step):
    def plan(*tasks):
        yield tasks
        return "done"

    def refuse():
        yield [step("a")]
        raise ValueError("no such domain")

    def outer():
        yield {"inner": refuse(), "other": plan(step("x", bad))}

    bad = step("bad", does="fail")
    outcomes = carry_out({"bad": plan(step("x", bad)), "raises": outer(), "good": plan(step("y"))}, HERE)
    assert outcomes["good"] == "done" and sorted(done_steps(step)) == ["a", "y"]
    assert isinstance(outcomes["bad"], TasksFailed) and str(outcomes["raises"]) == "no such domain"
    message = str(outcomes["bad"])
    assert "step bad: RuntimeError: as told" in message and "not begun, as a need failed: step x" in message
    with pytest.raises(TasksFailed, match="as told"):
        run(plan(bad), HERE)


def test_workers_share_the_cores_and_die_with_one_retry(step):
    def plan():
        a, b = step("a", seconds=0.3), step("b", seconds=0.3)
        yield [a, b, step("dies", does="die"), step("c", a)]
        return [a.result(), b.result()]

    first, second = run(plan(), TWO)
    assert first["process"] != os.getpid() and {first["threads"], second["threads"]} == {1}
    assert set(done_steps(step)) == {"a", "b", "c", "dies"}  # c may have to be done twice


def test_workers_write_where_results_lie_now(step, monkeypatch, tmp_path):
    for folder in "one", "two":
        monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path / folder))
        run(plan_of(step("a", seconds=0.2), step("b", seconds=0.2)), TWO)
        assert sorted(done_steps(step)) == ["a", "b"]


def test_a_task_beside_one_that_always_dies_is_done(step):
    plan = plan_of(step("a", seconds=1.0), step("dies", does="die always"), step("b", seconds=1.0))
    with pytest.raises(TasksFailed, match=r"^1 of 3 tasks failed:\n  step dies: BrokenProcessPool"):
        run(plan, TWO)
    assert sorted(done_steps(step)) == ["a", "b"]


def test_threads_and_processes_follow_settings_and_cores(step, monkeypatch):
    monkeypatch.setattr(engine, "cores", lambda: 8)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    settings = [EngineSettings(threads=t, processes=p) for t, p in ((0, 0), (2, 0), (3, 5))]
    assert [engine.count_slots(each) for each in settings] == [8, 4, 5]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert engine.count_slots(EngineSettings(threads=1)) == 2
    monkeypatch.setenv("HELPERS_PROCESSES", "6")
    assert [engine.count_slots(each) for each in settings] == [6, 6, 6]
    monkeypatch.delenv("HELPERS_PROCESSES")
    monkeypatch.setattr(torch, "set_num_threads", lambda number: threads.append(number))
    threads = []
    engine.submit(EngineSettings(threads=0), step("a"), 1)
    engine.submit(EngineSettings(threads=3), step("b"), 1)
    assert threads[0] == 8 and threads[2] == 3


def has_file(task):
    return (task.folder / "value.safetensors").exists()


def plan_with_spent(spent, first, *later):
    yield [first]
    yield Spent([spent])
    yield later


def test_files_of_spent_tasks_are_deleted_when_nothing_needs_them_and_made_again(stored, step):
    a, b = stored("a"), stored("b", stored("a"))
    run(plan_with_spent(a, b, stored("c", a)), HERE)
    assert has_file(a)
    run(plan_with_spent(a, b, stored("d", a, seconds=0.1)), FRUGAL)
    assert done_steps(step) == ["a", "b", "c", "d"] and not has_file(a) and has_file(b)
    assert a.is_done() and a.result()["name"] == "a"
    for _ in range(2):  # where nothing is left to do, nothing is done again
        run(plan_with_spent(a, b, stored("c", a)), FRUGAL)
    assert done_steps(step) == ["a", "b", "c", "d"]
    run(plan_with_spent(a, b, stored("e", stored("b", a), a)), FRUGAL)
    assert done_steps(step) == ["a", "b", "c", "d", "a", "e"] and not has_file(a) and has_file(b)


def test_a_task_whose_needs_another_run_deletes_waits_until_they_are_made_again(stored, step):
    a = stored("a")
    run(plan_of(stored("b", a, does="free")), FRUGAL)
    assert done_steps(step) == ["a", "a", "b"] and has_file(a)
    with pytest.raises(TasksFailed, match="as told"):
        run(plan_of(stored("c", a, does="fail")), FRUGAL)


def test_a_kill_while_files_are_deleted_or_made_again_leaves_a_task_that_is_done_again(stored, step, monkeypatch):
    a = stored("a")
    run(plan_of(a), HERE)
    (a.folder / FREED).touch()  # and nothing was deleted yet
    with monkeypatch.context() as patch, pytest.raises(TasksFailed):
        patch.setattr(Step, "work", lambda self: 1 / 0)  # after its file is there
        run(plan_of(stored("b", a)), FRUGAL)
    assert has_file(a) and a.is_freed()
    run(plan_of(stored("b", a)), FRUGAL)
    assert done_steps(step) == ["a", "a", "b"] and not a.is_freed()


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from test_engine import *
from helpers import engine, progress
preset = load_preset("smoke")
tasks = [Step(preset=preset, label=n, name=n, seconds=0.4) for n in "abcdefgh"]
engine.run(plan_of(*tasks), EngineSettings(processes=2, threads=1))
"""


def start_run(results, program=PROGRAM, **settings):
    code = program.format(tests=str(Path(__file__).parent))
    environment = {**os.environ, "HELPERS_RESULTS": str(results)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, **settings)


def wait_until(fact, seconds=60):
    deadline = time.monotonic() + seconds
    while not fact() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fact()


INTERRUPTED = """
import sys
sys.path.insert(0, {tests!r})
from test_engine import *
from multiprocessing import active_children
preset = load_preset("smoke")
tasks = [Step(preset=preset, label=n, name=n, seconds=1.5 if n > "b" else 0.0) for n in "abcdef"]
signal.signal(signal.SIGINT, lambda *_: None)
engine.start_fork_server("test_engine")
time.sleep(0.3)
os.killpg(0, signal.SIGINT)  # while that process imports for the workers, which it does not disturb
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    run(plan_of(*tasks), TWO)
except KeyboardInterrupt as stop:
    print(*stop._render_traceback_(), sep="\\n", flush=True)
wait_until(lambda: not active_children(), 10)
print(run(plan_of(*tasks), TWO))
"""


def test_an_interrupt_is_one_sentence_ends_the_workers_and_the_same_plan_goes_on(step, results):
    """Here it reaches all processes, as from a terminal; from Jupyter it reaches the run alone (test_kernels.py)."""
    shown = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    program = start_run(results, INTERRUPTED, **shown)
    try:
        wait_until(lambda: len([*step("x").preset.models.glob("*/result.json")]) == 2)
        os.killpg(program.pid, signal.SIGINT)
        printed, errors = program.communicate(timeout=180)
    finally:
        program.kill()
    # The interrupt may come before the run has heard of them.
    assert printed == "Stopped: 2 of 6 tasks done and kept; run this cell again to go on from there\nNone\n"
    assert "Traceback" not in errors and "Error" not in errors
    assert sorted(done_steps(step)) == list("abcdef") and program.returncode == 0


def test_a_bar_in_a_notebook_follows_the_number_of_tasks(step, monkeypatch):
    from tqdm import notebook

    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    bars = []

    def make_bar(**settings):
        bars.append(notebook.tqdm(**settings, display=False))
        return bars[-1]

    monkeypatch.setattr(engine, "tqdm", make_bar)
    make_bar.write = print

    def plan():
        yield [step("a")]
        assert (bars[0].total, bars[0].container.children[1].max) == (1, 1)
        yield [step("b"), step("c")]

    run(plan(), HERE)
    _, widget, _ = bars[0].container.children
    assert (bars[0].total, widget.max, widget.value) == (3, 3, 3)


NAMES = "abcdefghijklmnopqrst"
EIGHT = """
import sys
sys.path.insert(0, {tests!r})
from test_engine import *
preset, children = load_preset("smoke"), []
for _ in range(8):
    children.append(os.fork())  # which imports nothing again
    if not children[-1]:
        run(plan_of(*(Step(preset=preset, label=n, name=n, seconds=0.3) for n in NAMES)), HERE)
        os._exit(0)
print(*children, flush=True)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def test_eight_runs_at_once_share_a_folder_and_random_kills_lose_nothing(step, results):
    """As the jobs of a Slurm array do. This is no Slurm: they are processes of one machine."""
    program = start_run(results, EIGHT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        children = [int(child) for child in program.stdout.readline().split()]
        wait_until(lambda: done_steps(step))
        for child in random.sample(children, 6):
            time.sleep(random.uniform(0, 0.2))
            os.kill(child, signal.SIGKILL)
        codes = [int(code) for code in program.communicate(timeout=120)[0].split()]
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
    assert len(codes) == 8 and codes.count(0) >= 2 and {*codes} <= {0, -signal.SIGKILL}
    done = [step(name, seconds=0.3).result() for name in NAMES]
    assert [result["name"] for result in done] == [*NAMES]
    assert len(done_steps(step)) <= len(NAMES) + 6  # only what a killed one was at is done twice


ROUNDS = """
import sys
sys.path.insert(0, {tests!r})
from test_engine import *
preset, children = load_preset("smoke"), []

def step(name, *after):
    return Stored(preset=preset, label=name, name=name, after=after, seconds=0.1)

def rounds(number):
    readers = [step("r0")]
    for n in range(1, 7):
        others = [step(f"p{{n}}", readers[-1]), step(f"q{{n}}", readers[-1])]
        readers.append(step(f"r{{n}}", *others))
        if number % 2:  # which needs what the other runs delete
            yield [readers[-1]]
            yield [step(f"s{{n}}", *others)]
        else:
            yield [readers[-1]]
        yield Spent(others)

for number in range(4):
    children.append(os.fork())
    if not children[-1]:
        run(rounds(number), FRUGAL)
        os._exit(0)
print(*children, flush=True)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def test_runs_that_share_a_folder_delete_what_the_others_need_and_all_end(stored, step, results):
    program = start_run(results, ROUNDS, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        children = [int(child) for child in program.stdout.readline().split()]
        wait_until(lambda: "r1" in done_steps(step))
        os.kill(children[0], signal.SIGKILL)
        codes = [int(code) for code in program.communicate(timeout=120)[0].split()]
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
    assert codes == [-signal.SIGKILL, 0, 0, 0]
    steps = done_steps(step)
    assert {name[0] for name in steps if steps.count(name) > 1} <= {"p", "q", "r"}
    assert len(steps) < 70  # of 25 or more: what is made again is bounded
    left = {file.parent for file in results.rglob("value.safetensors")}
    assert sum(json.loads((folder / "result.json").read_text())["name"][0] in "rs" for folder in left) == 13


NFS = "server:/a / ext4 rw 0 0\nserver:/b {} {} rw,{} 0 0\n"


@pytest.fixture
def mounted(monkeypatch, tmp_path):
    """Let the results lie on a file system of some type, mounted with an option."""

    def mount(kind, option="relatime"):
        (tmp_path / "mounts").write_text(NFS.format(tmp_path, kind, option))
        monkeypatch.setattr(engine, "MOUNTS", tmp_path / "mounts")
        engine.check_locks.cache_clear()

    yield mount
    engine.check_locks.cache_clear()


def test_a_run_on_a_networks_files_checks_once_that_locks_keep_others_out(step, mounted, monkeypatch, results, capfd):
    commands, run_process = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *command, **how: commands.append(1) or run_process(*command, **how))
    for kind, number in (("ext4", 0), ("fuseblk", 0), ("nfs4", 1), ("fuse.sshfs", 2)):
        mounted(kind)
        for name in "ab":
            run(plan_of(step(f"{name} on {kind}")), HERE)
        assert len(commands) == number
    assert "mounted" not in capfd.readouterr().err and not [*results.glob(".lock*")]
    mounted("lustre", "localflock")
    run(plan_of(step("c")), HERE)
    assert "(lustre) is mounted with localflock, so runs on several machines do the same work" in capfd.readouterr().err


def test_locks_that_keep_nobody_out_stop_a_run_with_the_file_systems_name(step, mounted, monkeypatch, tmp_path):
    mounted("nfs4")
    monkeypatch.setattr(engine, "TAKE_LOCK", engine.TAKE_LOCK.replace("sys.argv[1]", "sys.argv[1] + '2'"))
    with pytest.raises(UserError, match=f"found none on nfs4 at {tmp_path}; set HELPERS_RESULTS to a folder"):
        run(plan_of(step("a")), HERE)
    assert not done_steps(step)


@pytest.mark.slow
def test_two_runs_share_the_work_and_a_killed_one_leaves_no_process(step, results):
    first, other = start_run(results), start_run(results)
    deadline = time.monotonic() + 60
    while not done_steps(step) and time.monotonic() < deadline:
        time.sleep(0.05)
    first.kill()
    first.wait()
    assert other.wait(timeout=120) == 0
    assert set(done_steps(step)) == set("abcdefgh")
    assert len(done_steps(step)) <= 10  # what the killed run's two workers were at is done again
    workers = [json.loads(file.read_text())["process"] for file in step("x").preset.models.glob("*/result.json")]
    deadline = time.monotonic() + 10  # they end by themselves
    while any(map(psutil.pid_exists, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(psutil.pid_exists, workers))


def test_ray_that_is_not_there_is_one_sentence(step, monkeypatch):
    from helpers import cluster

    monkeypatch.setattr(cluster, "ray", None)
    with pytest.raises(cluster.ClusterError, match="'ray', which is not installed; pip install ray"):
        cluster.Cluster(EngineSettings(kind="ray"))
