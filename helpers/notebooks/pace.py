"""How long the trainings that are left will take, by the steps of those that are done, and a bar that says so."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from tqdm.auto import tqdm

from helpers.notebooks import inventory
from helpers.notebooks.inventory import Inventory, Training

ENOUGH = 10  # trainings that tell how much of the time is none of them
BREAK = 120.0  # seconds without a training, after which a run is taken for another one
BAR = "{desc}: {percentage:3.0f} %|{bar}| {elapsed} so far{postfix}"
EVERY = 2.0  # seconds between two looks
PATIENCE = 20  # times as long as plans took to be looked at, before they are again


def step_seconds(done: Iterable[Training]) -> Callable[[str], float]:
    """Seconds of a step of trainings of a kind: the mean over those that are done of this kind, or else of this class,
    or else of all. Raises LookupError where none is done."""
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for training in done:
        for name in (training.kind, training.kind.partition(",")[0], ""):
            spent[name][0] += training.seconds
            spent[name][1] += training.steps
    if not spent:
        raise LookupError("no training is done yet")

    def seconds(kind: str) -> float:
        name = next(name for name in (kind, kind.partition(",")[0], "") if name in spent)
        return spent[name][0] / spent[name][1]

    return seconds


def share(done: Iterable[Training], processes: int) -> float:
    """Seconds by the clock for each second of training: one a process, or what the times say at which trainings ended,
    with all that is done between them. Breaks between runs are left out."""
    ends, clock, spent, counted = sorted((known.ended, known.seconds) for known in done), 0.0, 0.0, 0
    for (before, _), (after, seconds) in pairwise(ends):
        if after - before < BREAK + 2 * seconds:
            clock, spent, counted = clock + after - before, spent + seconds, counted + 1
    return clock / spent if counted >= ENOUGH and clock and spent else 1 / processes


def seconds_left(left: Iterable[Training], done: list[Training], processes: int) -> float:
    """By the clock. Raises LookupError where no training is done yet."""
    of_step = step_seconds(done)
    return share(done, processes) * sum(of_step(training.kind) * training.steps for training in left)


@contextmanager
def bar_over(known: Inventory, parameters: dict[str, object], notebooks: list[str]) -> Iterator[tqdm]:
    """One bar over all trainings of some notebooks, with the time left, while they run; hidden where nothing is left.
    What plans go on with is found out as they do, without taking much of the time."""
    ended, rest = threading.Event(), 0.0  # until plans are looked at again

    def show() -> None:
        nonlocal rest
        stale, begun = known.look(), time.monotonic()
        if stale and begun > rest:
            inventory.survey(known, parameters, stale)
            rest = time.monotonic() + PATIENCE * (time.monotonic() - begun)
        keys = {key for name in notebooks for key in known.notebooks.get(name, ())}
        done = [known.trainings[key] for key in keys if known.trainings[key].seconds is not None]
        left = [known.trainings[key] for key in keys if known.trainings[key].seconds is None]
        measured = [training for training in known.trainings.values() if training.seconds is not None]
        try:
            of_step = step_seconds(measured)
        except LookupError:
            bar.set_postfix_str(f"{len(left)} trainings left, the time is known once one is done")
            return
        work = [sum(of_step(training.kind) * training.steps for training in part) for part in (done, left)]
        bar.total, bar.n = sum(work), work[0]
        minutes = seconds_left(left, measured, known.processes) / 60
        bar.set_postfix_str(f"about {minutes:.0f} minutes left, {len(done)} of {len(keys)} trainings done")

    def keep_showing() -> None:
        while not ended.wait(EVERY):
            show()

    left = [name for name in notebooks if name in known.notebooks and known.split(name)[1]]
    with tqdm(total=1, desc="trainings", bar_format=BAR, disable=not left) as bar:
        shower = threading.Thread(target=keep_showing, daemon=True)
        if not bar.disable:
            show()
            shower.start()
        try:
            yield bar
        finally:
            ended.set()
            if shower.is_alive():
                shower.join()
