"""Kills, full disks and damaged files while two runs share the work: do records come out as if nothing had happened?

    python benchmarks/soak.py --kills 100 --parts smoke "soak 12_hrkd_ablation 15_mtdnn_main"

Each part is a preset and its notebooks (all, if none is named); ``soak`` is mini with one seed, two processes and a
checkpoint every few seconds. All parts run once in peace. Then two runs of all parts share another folder, until as
many times as asked for, after a random while, one run, one of its workers, one of its notebooks' kernels, or a run with
all of its processes was killed; in between files may for a while not grow beyond a size, as on a full disk, and a byte
is turned over in a file of every kind that trainings leave. Runs that were killed or failed begin again, and what both
have finished is partly deleted, so that there is work to the end. At last one run goes on in peace, and its records
have to be those of the first.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from helpers.results.comparisons import repeated
from helpers.results.records import read

MARK = "HELPERS_SOAK"  # in the environment of all processes of a run, those of a session of their own too
PRESET = """name = "soak"
extends = "mini"
seeds = 1
[engine]
processes = 2
[training]
checkpoint_minutes = 0.03
"""
RUNS = 2
WAIT = 10.0, 60.0  # seconds between two disturbances
LIMITED = 120.0  # seconds that a run on a full disk may take
LIMITS = 2_000, 20_000, 200_000, 400_000, 1_000_000  # bytes that a file may have on a full disk
WORDS = {"run": "-m helpers run", "worker": "multiprocessing.forkserver", "kernel": "ipykernel"}  # how they are begun
KILLED = *WORDS, "run and all of its processes"
FORGOTTEN = 0.3  # of the trainings, where all are done
LOOK = 0.2  # seconds between two looks at the processes


class Event(NamedTuple):
    """A disturbance: ``kill`` of a kind of process, ``full`` disk for files above so many bytes, or a byte to
    ``damage`` in a file of such a name."""

    kind: str
    what: str | int


class Run(NamedTuple):
    """The shell of a run, and what marks all of its processes."""

    shell: subprocess.Popen
    mark: str


class Soak:
    """Runs of some parts that share a folder of results, and what became of them."""

    def __init__(self, results: Path, parts: list[list[str]], chance: random.Random):
        self.results, self.parts, self.chance = results, parts, chance
        self.log = Counter()
        self.runs: list[Run] = []
        self.begun = 0
        self.seconds: dict[tuple[int, float], float] = {}  # of each process on the processor
        self.finished: dict[Path, int] = {}

    @property
    def mark(self) -> str:
        """What the marks of all runs begin with."""
        return f"{os.getpid()} {self.results.name} "

    def begin(self, limit: int = 0) -> Run:
        """One run of all parts, whose files cannot grow beyond ``limit`` bytes."""
        self.begun += 1
        mark, command = f"{self.mark}{self.begun}.", f"{sys.executable} -m helpers run --preset"
        script = " && ".join(f"{command} {' '.join(part)}" for part in self.parts)
        shell = subprocess.Popen(
            ["bash", "-c", script],
            env={**os.environ, MARK: mark, "HELPERS_RESULTS": str(self.results)},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=(self.results / "errors.txt").open("ab"),
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None,
        )
        return Run(shell, mark)

    def processes(self, mark: str = "") -> list[psutil.Process]:
        """Those of the run with this mark, or of all that there ever were."""
        there = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK, "").startswith(mark or self.mark):
                    spent = process.cpu_times()
                    self.seconds[process.pid, process.create_time()] = spent.user + spent.system
                    there.append(process)
        return there

    def watch(self, seconds: float) -> None:
        """Look on for a while, and begin again what has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.runs = [run for run in self.runs if not self._ended(run)]
            while len(self.runs) < RUNS:
                self.runs.append(self.begin())
            self.look()
            time.sleep(LOOK)

    def look(self) -> None:
        """Note what is trained, and what processes have cost."""
        self.processes()
        for file in self.results.glob("*/models/*/*/job.pkl"):
            try:
                changed = file.stat().st_mtime_ns
            except FileNotFoundError:
                continue
            if self.finished.get(file) != changed:
                self.finished[file] = changed
                self.log["work done"] += 1

    def _ended(self, run: Run) -> bool:
        if (status := run.shell.poll()) is None:
            return False
        self.log[{0: "runs that came to their end", 1: "runs that failed"}.get(status, "runs that were killed")] += 1
        if status == 0:
            self.forget()
        return True

    def forget(self) -> None:
        """Delete some of what is done, and what says so of notebooks."""
        for file in [*self.results.glob("*/models/*/*/job.pkl")]:
            if self.chance.random() < FORGOTTEN:
                shutil.rmtree(file.parent, ignore_errors=True)
                self.log["done work deleted"] += 1
        for file in self.results.glob("*/models/*.done"):
            file.unlink(missing_ok=True)

    def disturb(self, event: Event) -> None:
        """Let something happen."""
        if event.kind == "kill":
            self._kill(event.what)
        elif event.kind == "full":
            run = self.begin(limit=event.what)
            deadline = time.monotonic() + LIMITED
            while run.shell.poll() is None and time.monotonic() < deadline:
                self.watch(LOOK)
            self.kill_all(run.mark)
            run.shell.wait()
            self.log["full disks"] += 1
        elif files := sorted(self.results.rglob(str(event.what))):
            self.log["damaged files"] += damage(self.chance.choice(files), self.chance)

    def _kill(self, what: str) -> None:
        """Kill what is asked for as soon as a run has it."""
        deadline = time.monotonic() + WAIT[1]
        while time.monotonic() < deadline:
            run = self.chance.choice(self.runs)
            there = [process for process in self.processes(run.mark) if WORDS.get(what, "") in line_of(process)]
            if there:
                self.log[f"kills of a {what}"] += 1
                if what not in WORDS:
                    return self.kill_all(run.mark)
                with suppress(psutil.Error):
                    return self.chance.choice(there).kill()
            self.watch(LOOK)
        self.log[f"no {what} to kill"] += 1

    def kill_all(self, mark: str = "") -> None:
        """Kill all processes of the run with this mark, or of all runs, until there is none."""
        while there := self.processes(mark):  # dead ones have no environment
            for process in there:
                with suppress(psutil.Error):
                    process.kill()
            time.sleep(LOOK)

    def in_peace(self) -> int:
        """One run to its end; its status."""
        self.runs.append(run := self.begin())
        while run.shell.poll() is None:
            self.look()
            time.sleep(LOOK)
        return run.shell.returncode

    def end(self) -> None:
        """End all processes."""
        self.kill_all()
        for run in self.runs:
            run.shell.wait()
        self.runs = []


def line_of(process: psutil.Process) -> str:
    """How a process was begun, but for the shell around a run."""
    try:
        return "" if process.name() == "bash" else " ".join(process.cmdline())
    except psutil.Error:
        return ""


def damage(file: Path, chance: random.Random) -> bool:
    """Turn over one byte of a file, where it is still there and has any."""
    try:
        with file.open("r+b") as opened:
            content = opened.read()
            if content:
                place = chance.randrange(len(content))
                opened.seek(place)
                opened.write(bytes([content[place] ^ (1 + chance.randrange(255))]))
    except FileNotFoundError:
        return False
    return bool(content)


def events(kills: int, kinds: list[str], chance: random.Random) -> list[Event]:
    """All disturbances, in a random order."""
    found = [Event("kill", KILLED[number % len(KILLED)]) for number in range(kills)]
    found += [Event("full", limit) for limit in LIMITS] + [Event("damage", kind) for kind in kinds]
    chance.shuffle(found)
    return found


def kinds_of_files(results: Path) -> list[str]:
    """The names of the files that trainings leave, but for locks."""
    files = (file for file in results.glob("*/models/**/*") if file.is_file() and file.suffix != ".lock")
    return sorted({file.name for file in files} - {"lock"})


def facts(results: Path) -> dict[str, dict]:
    """What every run has to repeat of its records."""
    files = (file for file in sorted(results.glob("*/*/*.json")) if file.parent.name != "models")
    return {file.relative_to(results).as_posix(): repeated(read(file)) for file in files}


def table(rows: dict[str, object]) -> Iterator[str]:
    """Rows of a table in Markdown."""
    yield from ("| what | number |", "|---|---|")
    yield from (f"| {name} | {value:,} |" for name, value in rows.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--parts", nargs="+", default=["smoke", "soak 12_hrkd_ablation 15_mtdnn_main"])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        (preset := Path(folder) / "soak.toml").write_text(PRESET)
        parts = [[str(preset) if word == "soak" else word for word in part.split()] for part in given.parts]
        quiet, disturbed = (Soak(Path(folder) / name, parts, chance) for name in ("quiet", "disturbed"))
        for soak in (quiet, disturbed):
            soak.results.mkdir()
        try:
            if quiet.in_peace():
                print((quiet.results / "errors.txt").read_text(), file=sys.stderr)
                return 1
            kinds = [*kinds_of_files(quiet.results), "checkpoint.safetensors"]
            for event in events(given.kills, kinds, chance):
                disturbed.watch(chance.uniform(*WAIT))
                disturbed.disturb(event)
                print(event, dict(disturbed.log), file=sys.stderr, flush=True)
            disturbed.end()
            status = disturbed.in_peace()
        finally:
            for soak in (quiet, disturbed):
                soak.end()
        expected, found = (facts(soak.results) for soak in (quiet, disturbed))
        differ = [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
        spent = {"seconds of processors in peace": quiet.seconds, "seconds of processors disturbed": disturbed.seconds}
        said = Counter((disturbed.results / "errors.txt").read_text(errors="replace").splitlines())
    rows = {name: round(sum(of.values())) for name, of in spent.items()}
    print("\n".join(table({"work needed": quiet.log["work done"], **disturbed.log, **rows, "records": len(expected)})))
    for line, times in said.most_common(20):
        print(f"{times} x {line}", file=sys.stderr)
    print(f"records that differ: {', '.join(differ) or 'none'}; status of the last run: {status}")
    return 1 if differ or status else 0


if __name__ == "__main__":
    sys.exit(main())
