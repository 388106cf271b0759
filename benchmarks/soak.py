"""Kills and full disks while two runs share a folder of results: do the records come out as if nothing had happened?

    python benchmarks/soak.py --kills 60                                                           (preset smoke)
    python benchmarks/soak.py --preset mini --kills 20 12_hrkd_ablation 15_mtdnn_main              (and some of mini)

The notebooks, all if none is named, run once undisturbed, with one seed. Then two runs share a new folder, one of which
takes the notebooks in reverse order; both delete what only later trainings need (engine.keep). After random whiles a
run, one of its workers, one of its kernels, or a run with all its processes is killed, and begun again. Beside them
runs a third whose files may not grow beyond a size, as on a full disk. When both runs have come to their end, all
records have to equal those of the undisturbed run. Further rounds follow, each in a new folder, until there were as
many kills as asked for.

The folder stays where something differs. Run this from a checkout that nobody changes meanwhile.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import same

from helpers.notebooks.session import notebook_names

PRESET = """name = "soak"
extends = "{preset}"
seeds = 1
[engine]
processes = 2
keep = "{keep}"
[training]
checkpoint_minutes = 0.02
"""
FORKED = "multiprocessing.forkserver"  # in the command lines of workers, kernels, and what they are forked from
KINDS = ("run", "worker", "kernel", "run with all its processes")
WAIT = 3.0, 20.0  # seconds between two kills
LIMITS = 20_000, 200_000, 400_000, 1_000_000  # bytes of a file on a full disk
PATIENCE = 30.0  # seconds in which the processes of a killed run have to end
LOOK = 0.2  # seconds between two looks


class Runs:
    """The runs of some notebooks, with a preset's settings, into one folder of results."""

    def __init__(self, folder: Path, preset: str, notebooks: list[str], keep: str = "results"):
        self.folder, self.preset, self.notebooks = folder, folder / "soak.toml", notebooks
        self.scratch = folder / "scratch"
        self.scratch.mkdir(parents=True)
        self.preset.write_text(PRESET.format(preset=preset, keep=keep))
        self.log = folder / "log.txt"

    def start(self, limit: int = 0, reverse: bool = False) -> subprocess.Popen:
        """Start a run. Its files cannot grow beyond ``limit`` bytes, unless that is 0."""
        command = [sys.executable, "-m", "helpers", "run", "--preset", str(self.preset)]
        scratch = dict.fromkeys(("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"), str(self.scratch))
        # The log is written by another process, which has no limit.
        log = subprocess.Popen(["tee", "-a", str(self.log)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        run = subprocess.Popen(
            [*command, *self.notebooks[:: -1 if reverse else 1]],
            env={**os.environ, **scratch, "HELPERS_RESULTS": str(self.folder), "HF_HUB_OFFLINE": "1"},
            stdout=log.stdin,
            stderr=subprocess.STDOUT,
        )
        log.stdin.close()
        if limit:
            resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (limit, limit))
        return run

    def full_disks(self) -> int:
        """Count the lines of the log that name a file which could not grow."""
        return self.log.read_text(errors="replace").count("File too large")


def processes_of(run: subprocess.Popen) -> dict[str, list[psutil.Process]]:
    """Return the processes of a run by `KINDS`, without kinds that are not there."""
    mains, lines, parents = [], {}, {}
    with suppress(psutil.Error):  # the run has ended
        mains = [psutil.Process(run.pid)]
        for process in mains[0].children(recursive=True):
            with suppress(psutil.Error):  # this one has
                lines[process], parents[process] = " ".join(process.cmdline()), process.parent()
    # The fork server and what it forks have one command line. A kernel leads a session of its own.
    forked = [each for each, line in lines.items() if FORKED in line and FORKED in lines.get(parents[each], "")]
    leaders = {each for each in forked if leads_session(each)}
    workers, kernels = [each for each in forked if each not in leaders], [*leaders]
    return {kind: some for kind, some in zip(KINDS, (mains, workers, kernels, [*mains, *lines]), strict=True) if some}


def leads_session(process: psutil.Process) -> bool:
    """Return whether a process began a session; False where it has ended."""
    with suppress(ProcessLookupError):
        return os.getsid(process.pid) == process.pid
    return False


def end(run: subprocess.Popen, whole: bool = False) -> int:
    """Kill a run, or the ``whole`` of its processes, and return how many of these did not end with it."""
    others = [process for process in processes_of(run).get(KINDS[-1], []) if process.pid != run.pid]
    for process in [run, *(others if whole else [])]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    run.wait()
    _, left = psutil.wait_procs(others, timeout=PATIENCE)
    for process in left:
        process.kill()
    return len(left)


def kill(runs: list[subprocess.Popen], counts: Counter, chance: random.Random) -> bool:
    """Kill a process of some run, of the kind that was killed least often; return whether there was a run."""
    alive = [run for run in runs if run.poll() is None]
    if not alive:
        return False
    if not (there := processes_of(run := chance.choice(alive))):
        return False
    kind = min(there, key=lambda kind: (counts[f"kills of a {kind}"], chance.random()))
    if kind in (KINDS[0], KINDS[-1]):
        counts["processes that outlived their run"] += end(run, whole=kind == KINDS[-1])
    else:
        try:
            chance.choice(there[kind]).kill()
        except psutil.NoSuchProcess:
            return False
    counts[f"kills of a {kind}"] += 1
    print(f"killed: {kind}", flush=True)
    return True


def disturb(runs: Runs, kills: int, counts: Counter, chance: random.Random, minutes: float) -> int:
    """Have two runs come to their end in spite of kills and a full disk; return the kills that are left.

    Raises TimeoutError where that takes longer than some ``minutes``.
    """
    shared = [runs.start(), runs.start(reverse=True)]
    limited = runs.start(limit=chance.choice(LIMITS))
    deadline, at = time.monotonic() + 60 * minutes, time.monotonic() + chance.uniform(*WAIT)
    try:
        while any(run.poll() != 0 for run in shared):
            if time.monotonic() > deadline:
                raise TimeoutError(f"two runs did not come to their end in {minutes:g} minutes; see {runs.log}")
            for number, run in enumerate(shared):
                if run.poll() not in (None, 0):
                    counts["runs that were begun again"] += 1
                    shared[number] = runs.start(reverse=bool(number))
            if kills and time.monotonic() > at and kill(shared, counts, chance):
                kills, at = kills - 1, time.monotonic() + chance.uniform(*WAIT)
            time.sleep(LOOK)
    finally:
        for run in (*shared, limited):
            end(run, whole=True)
    counts["files that could not grow"] += runs.full_disks()
    return kills


def soak(options: argparse.Namespace, folder: Path) -> int:
    """Compare disturbed rounds with an undisturbed run; return 0 where all records are the same."""
    chance, counts, begun = random.Random(options.seed), Counter(), time.monotonic()
    notebooks, kills, different = options.notebooks or notebook_names(), options.kills, 0
    undisturbed = Runs(folder / "undisturbed", options.preset, notebooks, keep="all")
    first = undisturbed.start()
    try:
        if first.wait():
            print(f"the undisturbed run failed; see {undisturbed.log}")
            return 1
    finally:
        end(first, whole=True)
    print(f"undisturbed: {time.monotonic() - begun:.0f} s", flush=True)
    while kills:
        counts["rounds"] += 1
        runs = Runs(folder / f"round-{counts['rounds']}", options.preset, notebooks)
        kills = disturb(runs, kills, counts, chance, options.minutes)
        different += same.main(undisturbed.folder / "soak", runs.folder / "soak", only=False)
    print("\n| what | number |\n|---|---|")
    for name, number in {"minutes": round((time.monotonic() - begun) / 60), **counts}.items():
        print(f"| {name} | {number:,} |")
    return 1 if different or counts["processes that outlived their run"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*")
    parser.add_argument("--preset", default="smoke")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=45.0, help="that a round may take")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("in", folder := Path(tempfile.mkdtemp(prefix="soak-")).resolve(), flush=True)
    status = soak(options, folder)
    if status == 0:
        shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(main())
