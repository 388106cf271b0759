"""How long the trainings that are left will take, by the steps of those that are done, and a bar that says so."""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import pairwise
from statistics import mean, median
from typing import NamedTuple, Self

from tqdm.auto import tqdm

from helpers import paths
from helpers.files import write_whole
from helpers.notebooks import inventory
from helpers.notebooks.inventory import Inventory, Training

ENOUGH = 10  # trainings that tell how much of the time is none of them
BREAK = 120.0  # seconds without a training, after which a run is taken for another one
BAR = "{desc}: {percentage:3.0f} %|{bar}| {elapsed} so far{postfix}"
EVERY = 2.0  # seconds between two looks
PATIENCE = 20  # times as long as plans took to be looked at, before they are again


class Usual(NamedTuple):
    """How long it took where records were made: seconds of a step of each kind of training, for each second of
    training those by the clock in which nothing was trained, and how many steps of each kind a notebook took in all,
    as its plans go on with what depends on their results."""

    steps: Mapping[str, float] = {}
    between: float = 0.0
    work: Mapping[str, Mapping[str, int]] = {}

    @classmethod
    def of(cls, parameters: Mapping[str, object], encoder: str) -> Self:
        """With the same encoder, of the preset's records or else of mini's; empty where no file says so. The work is
        that of the preset as it is."""
        preset, own = str(parameters["preset"]), is_as_it_is(parameters)
        for name in (preset, "mini"):
            with suppress(OSError, ValueError, TypeError, KeyError):
                read = json.loads(paths.steps(name).read_text(encoding="utf-8"))
                if read["encoder"] == paths.public_name(encoder):
                    steps = {str(kind): float(seconds) for kind, seconds in read["seconds"].items()}
                    work = dict(read.get("work", {})) if own and name == preset else {}
                    return cls(steps, float(read["between"]), work)
        return cls()

    def unknown(self, known: Inventory, notebooks: Iterable[str]) -> Counter[str]:
        """Steps by kind that nobody has planned yet, of notebooks whose plans go on; what several need is taken to be
        the same."""
        more = Counter()
        for name in (name for name in notebooks if known.waiting.get(name)):
            planned = known.steps(known.notebooks[name])
            for kind, steps in self.work.get(name, {}).items():
                more[kind] = max(more[kind], steps - planned[kind])
        return more


UNKNOWN = Usual()


def is_as_it_is(parameters: Mapping[str, object]) -> bool:
    """Whether nothing is another than the preset has it."""
    return all(value is None for name, value in parameters.items() if name != "preset")


def write_steps(known: Inventory, preset: str) -> None:
    """Write down how long steps took here, where all trainings of a preset are done and nobody has done so yet."""
    done, left = known.split()
    if done and not left and not paths.steps(preset).exists():
        of_step, kinds = step_seconds(done.values()), sorted({training.kind for training in done.values()})
        seconds = {kind: round(of_step(kind), 5) for kind in kinds}
        between = round(max(0.0, share([*done.values()], known.processes) - 1 / known.processes), 3)
        work = {name: dict(sorted(known.steps(keys).items())) for name, keys in known.notebooks.items()}
        content = {"encoder": paths.public_name(known.encoder), "between": between, "seconds": seconds, "work": work}
        with suppress(OSError):  # it may be that nothing can be written
            write_whole(paths.steps(preset), json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def step_seconds(done: Iterable[Training], usual: Mapping[str, float] | None = None) -> Callable[[str], float]:
    """Seconds of a step of trainings of a kind: the mean over those that are done of this kind, or else what is
    ``usual``, times how much slower than usual those are that are done (the median of their kinds), or else the mean of
    this class, or of all. Raises LookupError where none is done and nothing is usual."""
    spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for training in done:
        for name in (training.kind, training.kind.partition(",")[0], ""):
            spent[name][0] += training.seconds
            spent[name][1] += training.steps
    usual, own = usual or {}, {name: seconds / steps for name, (seconds, steps) in spent.items() if steps}
    slower = median([own[kind] / usual[kind] for kind in own.keys() & usual.keys() if usual[kind]] or [1.0])
    known = {kind: slower * seconds for kind, seconds in usual.items()} | own
    if not known:
        raise LookupError("no training is done yet")

    def seconds(kind: str) -> float:
        names = (name for name in (kind, kind.partition(",")[0], "") if name in known)
        return known[name] if (name := next(names, None)) is not None else mean(known.values())

    return seconds


def share(done: Iterable[Training], processes: int) -> float:
    """Seconds by the clock for each second of training: one a process, or what the times say at which trainings ended,
    with all that is done between them. Breaks between runs are left out."""
    ends, clock, spent, counted = sorted((known.ended, known.seconds) for known in done), 0.0, 0.0, 0
    for (before, _), (after, seconds) in pairwise(ends):
        if after - before < BREAK + 2 * seconds:
            clock, spent, counted = clock + after - before, spent + seconds, counted + 1
    return clock / spent if counted >= ENOUGH and clock and spent else 1 / processes


def seconds_left(left: Mapping[str, int], done: list[Training], processes: int, usual: Usual = UNKNOWN) -> float:
    """By the clock, of so many steps by kind. Raises LookupError where no training is done yet and nothing is
    ``usual``."""
    of_step = step_seconds(done, usual.steps)
    by_the_clock = max(share(done, processes), 1 / processes + usual.between)
    return by_the_clock * sum(of_step(kind) * steps for kind, steps in left.items())


@contextmanager
def bar_over(known: Inventory, parameters: dict[str, object], notebooks: list[str]) -> Iterator[tqdm]:
    """One bar over all trainings of some notebooks, with the time left, while they run; hidden where nothing is left.
    What plans go on with is found out as they do, without taking much of the time."""
    ended, rest = threading.Event(), 0.0  # until plans are looked at again
    usual = Usual.of(parameters, known.encoder)

    def show() -> None:
        nonlocal rest
        stale, begun = known.look(), time.monotonic()
        if stale and begun > rest:
            inventory.survey(known, parameters, stale)
            rest = time.monotonic() + PATIENCE * (time.monotonic() - begun)
        keys = {key for name in notebooks for key in known.notebooks.get(name, ())}
        left = {key for key in keys if known.trainings[key].seconds is None}
        measured = [training for training in known.trainings.values() if training.seconds is not None]
        try:
            of_step = step_seconds(measured, usual.steps)
        except LookupError:
            bar.set_postfix_str(f"{len(left)} trainings left, the time is known once one is done")
            return
        steps = known.steps(keys - left), known.steps(left) + usual.unknown(known, notebooks)
        work = [sum(of_step(kind) * number for kind, number in part.items()) for part in steps]
        bar.total, bar.n = sum(work), work[0]
        minutes = seconds_left(steps[1], measured, known.processes, usual) / 60
        bar.set_postfix_str(f"about {minutes:.0f} minutes left, {len(keys - left)} of {len(keys)} trainings done")

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
