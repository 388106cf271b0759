"""How long a preset's trainings take on 1 to 64 workers, by the seconds that each took: nothing is trained.

    python benchmarks/schedule.py --preset mini --figure docs/figures/schedule.png

All trainings of the preset have to be done. "In step" is an engine that carries out the next level of all plans
together and waits for the slowest. "Without waiting" is `helpers/training/schedule.py` itself, by a clock of its own.
Notebooks run one after another, as commands run them; "at once" is the same with the plans of all notebooks side by
side. What teachers' outputs and answers take is not counted. Then the same of IMM with many domains, as a plan whose
trainings take as long as their domains have questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from matplotlib.axes import Axes

from helpers import papers
from helpers.notebooks.parameters import preset_for
from helpers.results import canvas, methods
from helpers.results.tables import duration
from helpers.training.cached import CachedTraining
from helpers.training.jobs import result_in
from helpers.training.schedule import Schedule, carry_out

WORKERS = (1, 2, 4, 8, 16, 32, 64)


class Task(NamedTuple):
    """A training that took so long, and the keys of what it builds on."""

    key: str
    seconds: float
    needs: tuple[str, ...] = ()

    def builds_on(self) -> tuple[str, ...]:
        return self.needs


Waves = list[list[Task]]  # of a plan
Notebooks = list[list[Waves]]  # the plans of each


class Clock:
    """Workers that do nothing, as long as a task takes."""

    def __init__(self):
        self.now, self.ends = 0.0, {}

    def start(self, task: Task, wait: bool, at_once: int) -> Future:
        """A future that is done when the task is."""
        future = Future()
        self.ends[future] = self.now + task.seconds
        return future

    def wait(self, running: object, return_when: str) -> None:
        """Go on to the moment at which the first ends."""
        first = min(self.ends, key=self.ends.__getitem__)
        self.now = self.ends.pop(first)
        first.set_result(None)


def without_waiting(notebooks: Notebooks, workers: int) -> float:
    """Seconds by the clock."""
    clock, done = Clock(), set()
    for plans in notebooks:
        plans_by_number = {number: iter(waves) for number, waves in enumerate(plans)}
        schedule = Schedule(plans_by_number, lambda task, known=frozenset(done): task.key in known)
        for _ in carry_out(schedule, clock.start, lambda: workers, clock.wait):
            pass
        done |= schedule.done
    return clock.now


def in_step(notebooks: Notebooks, workers: int) -> float:
    """The same where all plans wait for each other after each of their levels."""
    levels: list[dict[str, Task]] = []
    done: set[str] = set()
    for plans in notebooks:
        first = len(levels)
        for waves in plans:
            base = first
            for wave in waves:
                level: dict[str, int] = {}
                for task in wave:
                    level[task.key] = max([base, *(level[key] + 1 for key in task.needs if key in level)])
                    levels += [{} for _ in range(level[task.key] + 1 - len(levels))]
                    if task.key not in done:
                        levels[level[task.key]][task.key] = task._replace(needs=())
                base = 1 + max(level.values(), default=base - 1)
        done |= {key for tasks in levels for key in tasks}
    return sum(without_waiting([[[list(tasks.values())]]], workers) for tasks in levels)


def measured(parameters: dict[str, object]) -> Notebooks:
    """The plans of a preset's notebooks, with the seconds that each training took."""
    notebooks = []
    for paper in papers.ALL:
        for card in (card for card in paper.notebooks if card.plans):
            preset = preset_for(parameters, card.name)
            if not card.left_out(preset):
                notebooks.append([list(recorded(plan)) for plan in card.plans(preset).values()])
    return notebooks


def recorded(plan: Iterator) -> Iterator[list[Task]]:
    """A plan's waves."""
    for wave in plan:
        yield [Task(task.key, seconds_of(task), tuple(task.builds_on())) for task in wave]


def seconds_of(task: object) -> float:
    """How long a training took."""
    return result_in(task.infra.uid_folder())["seconds"] if isinstance(task, CachedTraining) else 0.0


def of_imm(domains: int, rounds: int, seed: int, single: float) -> Iterator[Waves]:
    """The plans of IMM's Table 1 for a seed and so many domains, where a reader of one takes ``single`` seconds."""
    names = range(domains)

    def task(name: str, size: int, *needs: str) -> Task:
        return Task(f"{name}, {seed}", size * single, tuple(f"{key}, {seed}" for key in needs))

    singles = [task(f"single {i}", 1) for i in names]
    first = [task("mix", domains), *(task(f"without {i}", domains - 1) for i in names)]
    first += [task("unified", domains, *(f"single {i}" for i in names))]
    second = [task(f"FT {i}", 1, f"without {i}") for i in names]
    second += [task(f"MFT {i}", domains, f"without {i}") for i in names]
    second += [task(f"MS-FT {i}", 1, f"single {i}") for i in names]
    second += [task(f"MS-MFT {i}", 2, f"single {i}") for i in names]
    second += [task(f"BAM {i}", 1, "unified") for i in names]
    yield [[*singles, *first, *second]]
    waves: Waves = []
    for k in range(rounds):
        old = [f"theta {i} {k - 1}" if k else f"single {i}" for i in names]
        phi = [task(f"phi {i} {k}", domains - 1, *(old[j] for j in names if j != i)) for i in names]
        new = [task(f"theta {i} {k}", 1, f"phi {i} {k}", old[i]) for i in names]
        waves.append([*(() if k else singles), *phi, *new])
    yield waves


def table(ways: dict[str, Callable[[int], float]], total: float) -> dict[str, list[float]]:
    """Print seconds and efficiency by workers and way; returns the seconds."""
    print(f"| workers | {' | '.join(f'{way} | efficiency' for way in ways)} |\n|{'---|' * (1 + 2 * len(ways))}")
    seconds = {way: [simulated(workers) for workers in WORKERS] for way, simulated in ways.items()}
    for place, workers in enumerate(WORKERS):
        cells = (f"{duration(of[place])} | {total / workers / of[place]:.0%}" for of in seconds.values())
        print(f"| {workers} | {' | '.join(cells)} |")
    return seconds


def distinct(notebooks: Notebooks) -> dict[str, Task]:
    """All trainings, each once."""
    return {task.key: task for plans in notebooks for waves in plans for wave in waves for task in wave if task.seconds}


def told(title: str, notebooks: Notebooks) -> dict[str, list[float]]:
    """Print what there is to do and how long that takes; returns the speed-up by way and workers."""
    tasks, at_once = distinct(notebooks), [[waves for plans in notebooks for waves in plans]]
    total = sum(task.seconds for task in tasks.values())
    longest = max(task.seconds for task in tasks.values())
    chain = duration(without_waiting(at_once, len(tasks)))
    print(f"\n{title}: {len(tasks)} trainings, {duration(total)} together, the longest {duration(longest)}, ", end="")
    print(f"the critical path {chain} (notebook by notebook {duration(without_waiting(notebooks, len(tasks)))})\n")
    ways = {
        "in step": lambda workers: in_step(notebooks, workers),
        "without waiting": lambda workers: without_waiting(notebooks, workers),
    }
    if len(notebooks) > 1:
        ways["at once"] = lambda workers: without_waiting(at_once, workers)
    return {way: [total / of for of in seconds] for way, seconds in table(ways, total).items()}


@canvas.plain_style()
def drawn(speedups: dict[str, dict[str, list[float]]]) -> canvas.Drawing:
    """Speed-up by workers: a panel for each work, a line for each way."""
    figure = canvas.Drawing(canvas.WIDTH, canvas.HEIGHT)
    panels: list[Axes] = list(figure.subplots(1, len(speedups), sharey=True))
    for ax, (title, ways) in zip(panels, speedups.items(), strict=True):
        ax.plot(WORKERS, WORKERS, color="0.8", linewidth=1, label="no work waits")
        for (way, values), color in zip(ways.items(), methods.COLORS, strict=False):
            ax.plot(WORKERS, values, "o-", color=color, markersize=4, label=way)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xticks(WORKERS, WORKERS)
        ax.set_yticks(WORKERS, WORKERS)
        canvas.finish(ax, "workers", "times as fast as one" if ax is panels[0] else "", title)
        ax.legend(frameon=False, fontsize=9)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--domains", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--figure", type=Path, help="PNG file to draw")
    given = parser.parse_args()
    notebooks = measured({"preset": given.preset})
    singles = [task.seconds for task in distinct(notebooks).values() if not task.needs]
    many = [of_imm(given.domains, given.rounds, seed, mean(singles)) for seed in range(given.seeds)]
    works = {
        f"preset {given.preset}": notebooks,
        f"IMM, {given.domains} domains": [[waves for plans in many for waves in plans]],
    }
    speedups = {title: told(title, work) for title, work in works.items()}
    if given.figure:
        given.figure.parent.mkdir(parents=True, exist_ok=True)
        given.figure.write_bytes(canvas.content(drawn(speedups), "png"))


if __name__ == "__main__":
    main()
