"""Kills, full disks and damaged files while two runs share the work: do records come out as if nothing had happened?

    python benchmarks/soak.py --kills 100 --parts smoke "mini 12_hrkd_ablation 15_mtdnn_main" --out soak

Each part is a preset and its notebooks (all, if none is named), with one seed, two processes and a checkpoint every few
seconds. All parts run once in peace. Then two runs of all parts share another folder, until as many times as asked for,
after a random while, one run, one of its workers, one of its notebooks' kernels, or a run with all of its processes was
killed; in between files may for a while not grow beyond a size, as on a full disk, and a byte is turned over in a file
of every kind that trainings leave. Runs that were killed or failed begin again, and what both have finished is partly
deleted, so that there is work to the end. At last all records are deleted, and one run in peace makes them from what is
there: they have to be those of the first.

The folder is kept where they are not. Run it from a checkout that nobody changes meanwhile.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psutil

from helpers.results import provenance
from helpers.results.comparisons import repeated
from helpers.results.records import read
from helpers.training.jobs import SEAL

MARK = "HELPERS_SOAK"  # in the environment of all processes of a run, those of a session of their own too
PRESET = """name = "soak-{preset}"
extends = "{preset}"
seeds = 1
sizes = []
[engine]
processes = 2
[training]
checkpoint_minutes = 0.03
"""
RUNS = 2
WAIT = 3.0, 30.0  # seconds between two disturbances
PATIENCE = 60.0  # seconds until what is to be disturbed has to be there
AGAIN = 3  # times that a disturbance is tried that found nothing to disturb
LIMITED = 120.0  # seconds that a run on a full disk may take
LIMITS = 2_000, 20_000, 200_000, 400_000, 1_000_000  # bytes that a file may have on a full disk
LONGEST = 45 * 60.0  # seconds that a run in peace may take
WORDS = {"run": "-m helpers run", "worker": "multiprocessing.forkserver", "kernel": "ipykernel"}  # how they are begun
KILLED = *WORDS, "run and all of its processes"
FORGOTTEN = 0.3  # of the trainings, where all are done
LOOK = 0.2  # seconds between two looks at the processes
FULL = re.compile(r"cannot (?:save the (?P<what>[a-z ]+?)|write) \S*?(?P<suffix>\.\w+)?:")  # what said a full disk


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
        self.log, self.said, self.full = Counter(), Counter(), set()
        self.runs: list[Run] = []
        self.begun = count(1)
        self.seconds: dict[tuple[int, float], float] = {}  # of each process on the processor
        self.finished: dict[Path, int] = {}
        results.mkdir()
        (scratch := results.with_name(f"{results.name}-scratch")).mkdir()
        self.own = dict.fromkeys(("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"), str(scratch))

    @property
    def mark(self) -> str:
        """What the marks of all runs begin with."""
        return f"{os.getpid()} {self.results.name} "

    def begin(self, limit: int = 0) -> Run:
        """One run of all parts, every second one from the last to the first, whose files cannot grow beyond ``limit``
        bytes."""
        number, command = next(self.begun), f"{shlex.quote(sys.executable)} -m helpers run --preset"
        script = [f"{command} {shlex.join(part)}" for part in self.parts][:: 1 if number % 2 else -1]
        mark = f"{self.mark}{number}."
        shell = subprocess.Popen(
            ["bash", "-c", " && ".join(script)],
            env={**os.environ, **self.own, MARK: mark, "HELPERS_RESULTS": str(self.results), "HF_HUB_OFFLINE": "1"},
            start_new_session=True,
            stdout=subprocess.PIPE,  # not a file, which could not grow either
            stderr=subprocess.STDOUT,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None,
        )
        threading.Thread(target=self._listen, args=(shell,), daemon=True).start()
        return Run(shell, mark)

    def _listen(self, shell: subprocess.Popen) -> None:
        """Keep what a run says, and count its errors, whatever numbers are in them."""
        with (self.results / "said.txt").open("a", errors="replace") as kept:
            for line in (line.decode(errors="replace") for line in shell.stdout):
                kept.write(line)
                kept.flush()
                if any(word in line for word in ("FAILED", "Error", "damaged", "cannot", "Killed")):
                    self.said[re.sub(r"\d+", "0", line.strip())[:200]] += 1
                self.full |= {found["what"] or found["suffix"] or "another file" for found in FULL.finditer(line)}

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
        """Note what is done, and what processes have cost."""
        self.processes()
        for file in self.results.glob(f"*/models/*/*/{SEAL}"):
            with suppress(FileNotFoundError):
                if self.finished.get(file) != (changed := file.stat().st_mtime_ns):
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
        """Delete some of what is done, and what says so of notebooks. What the other run builds on may be among it."""
        self.look()
        for file in [*self.results.glob(f"*/models/*/*/{SEAL}")]:
            if self.chance.random() < FORGOTTEN:
                shutil.rmtree(file.parent, ignore_errors=True)
                self.log["done work deleted"] += 1
        self.forget_notebooks()

    def forget_notebooks(self) -> None:
        """Delete what says which notebooks were executed."""
        for file in self.results.glob("*/models/*.done"):
            file.unlink(missing_ok=True)

    def disturb(self, event: Event) -> bool:
        """Let something happen; whether it could."""
        return {"kill": self._kill, "full": self._fill, "damage": self._damage}[event.kind](event.what)

    def _kill(self, what: str) -> bool:
        """Kill what is asked for as soon as a run has it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            run = self.chance.choice(self.runs)
            if there := [process for process in self.processes(run.mark) if is_a(process, what)]:
                with suppress(psutil.Error):
                    self.chance.choice(there).kill()
                    if what not in WORDS:
                        self.kill_all(run.mark)
                    self.log[f"kills of a {what}"] += 1
                    return True
            self.watch(LOOK)
        return False

    def _fill(self, limit: int) -> bool:
        """One more run for a while, whose files cannot grow beyond ``limit`` bytes."""
        self.forget()
        run, deadline = self.begin(limit), time.monotonic() + LIMITED
        while run.shell.poll() is None and time.monotonic() < deadline:
            self.watch(LOOK)
        self.kill_all(run.mark)
        run.shell.wait()
        self.log["full disks"] += 1
        return True

    def _damage(self, name: str) -> bool:
        """Turn over a byte in a file of this name, as soon as there is one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            files = sorted(self.results.glob(f"*/models/**/{name}"))
            if files and damage(file := self.chance.choice(files), self.chance):
                self.log["damaged files"] += 1
                self.log["damaged files of what was done"] += any((at / SEAL).exists() for at in file.parents[:3])
                return True
            self.watch(LOOK)
        return False

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
        deadline = time.monotonic() + LONGEST
        while run.shell.poll() is None:
            if time.monotonic() > deadline:
                self.kill_all(run.mark)
            self.look()
            time.sleep(LOOK)
        return run.shell.returncode

    def end(self) -> None:
        """End all processes."""
        self.kill_all()
        for run in self.runs:
            run.shell.wait()
        self.runs = []


def is_a(process: psutil.Process, what: str) -> bool:
    """Whether a process is of this kind, by how it was begun; a worker is a child of the fork server."""
    try:
        line, parent = " ".join(process.cmdline()), process.parent()
        if process.name() == "bash" or WORDS.get(what, "") not in line:
            return False
        return what != "worker" or (parent is not None and WORDS["worker"] in " ".join(parent.cmdline()))
    except psutil.Error:
        return False


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
    """The names of the files that trainings leave and that are read again, but for locks."""
    files = (file for file in results.glob("*/models/*/*/**/*") if file.is_file())
    return sorted({file.name for file in files if file.suffix not in (".lock", ".yaml")} - {"lock"})


def records(results: Path) -> list[Path]:
    """The files of all records."""
    return [file for file in sorted(results.glob("*/*/*.json")) if file.parent.name != "models"]


def facts(results: Path) -> dict[str, dict]:
    """What every run has to repeat of its records."""
    return {file.relative_to(results).as_posix(): repeated(read(file)) for file in records(results)}


def difference(expected: dict | None, found: dict | None) -> str:
    """Where two records first differ, in words."""
    if expected is None or found is None:
        return "only in peace" if found is None else "only with disturbances"
    keys = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    first = keys[0]
    pairs = zip(expected.get(first) or [], found.get(first) or [], strict=False)
    example = next((pair for pair in pairs if pair[0] != pair[1]), (expected.get(first), found.get(first)))
    return f"{', '.join(keys)}; for example {example[0]!r} and {example[1]!r}"[:400]


def table(rows: dict[str, object]) -> Iterator[str]:
    """Rows of a table in Markdown."""
    yield from ("| what | number |", "|---|---|")
    yield from (f"| {name} | {value:,} |" for name, value in rows.items())


def soak(given: argparse.Namespace, folder: Path) -> int:
    """Both halves, and what they come to; 0 where all records are the same."""
    chance, code, begun = random.Random(given.seed), provenance.code(), time.monotonic()

    def say(text: object) -> None:
        print(f"{(time.monotonic() - begun) / 60:5.1f} min  {text}", file=sys.stderr, flush=True)

    say(f"{code}, seed {given.seed}, {given.kills} kills, parts {given.parts}, in {folder}")
    parts = [part.split() for part in given.parts]
    for part in parts:
        (preset := folder / f"{part[0]}.toml").write_text(PRESET.format(preset=part[0]))
        part[0] = str(preset)
    quiet, disturbed = (Soak(folder / name, parts, chance) for name in ("quiet", "disturbed"))
    status: int | None = None
    try:
        if quiet.in_peace():
            say(f"the run in peace failed: {dict(quiet.said)}")
            return 1
        say(f"the run in peace has ended: {dict(quiet.log)}")
        kinds = [*kinds_of_files(quiet.results), "checkpoint.safetensors"]
        left = deque((event, AGAIN) for event in events(given.kills, kinds, chance))
        while left:
            event, tries = left.popleft()
            disturbed.watch(chance.uniform(*WAIT))
            if not (happened := disturbed.disturb(event)) and tries:
                left.append((event, tries - 1))
            say(f"{' '.join(map(str, event))}{'' if happened else ': nothing to disturb'}; {len(left)} left")
        disturbed.end()
        disturbed.forget_notebooks()
        for file in records(disturbed.results):
            file.unlink()
        say("the last run begins")
        status = disturbed.in_peace()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for half in (quiet, disturbed):
            half.end()
        log, needed = disturbed.log, quiet.log["work done"]
        twice = log["work done"] - needed - log["done work deleted"] - log["damaged files of what was done"]
        rows = {"minutes": round((time.monotonic() - begun) / 60), "work needed": needed, **log}
        rows["work done twice"] = max(0, twice)
        for half in (quiet, disturbed):
            rows[f"processor seconds, {half.results.name}"] = round(sum(half.seconds.values()))
        print("\n".join(table(rows)), flush=True)
        print(f"a full disk was said of: {', '.join(sorted(disturbed.full)) or 'nothing'}")
        for line, times in disturbed.said.most_common(20):
            say(f"{times} x {line}")
    expected, found = (facts(half.results) for half in (quiet, disturbed))
    differ = [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
    for name in differ:
        print(f"{name} differs: {difference(expected.get(name), found.get(name))}")
    changed = " The package was changed meanwhile, so this shows nothing." if provenance.code() != code else ""
    print(f"{len(expected)} records, {len(differ)} differ; status of the last run: {status}.{changed}")
    return 1 if differ or status or changed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--parts", nargs="+", default=["smoke", "mini 12_hrkd_ablation 15_mtdnn_main"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a new folder (default: one for temporary files)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if given.out:
        given.out.mkdir(parents=True)  # it is deleted in the end, so it has to be new
    folder = (given.out or Path(tempfile.mkdtemp(prefix="soak-"))).resolve()
    status = soak(given, folder)
    if status == 0:
        shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(main())
