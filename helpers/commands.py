"""What the command line does, one function a command. Each returns the exit status."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from helpers import paths

# Every command imports what it needs, because torch and transformers take seconds.


def run(given: argparse.Namespace) -> int:
    from helpers import runner

    return runner.run(given.notebooks, given.parameters, force=given.force)


def redraw(given: argparse.Namespace) -> int:
    from helpers import figures, runner
    from helpers.records import RecordError

    drawn = figures.redraw(given.preset)
    if not drawn:
        raise RecordError(f"no records of preset {given.preset!r}: run its notebooks first")
    for path in drawn:
        print(os.path.relpath(path))
    return runner.run([runner.REPORT], {"preset": given.preset}, force=True)


def status(given: argparse.Namespace) -> int:
    from helpers import engine, notebook
    from helpers.papers import imm

    needs = {"02_imm_main": imm.table1_readers}  # what each notebook trains
    preset = notebook.load_preset(notebook.of_a_preset(given.parameters))
    distinct, needed = {}, 0
    for name, plan in needs.items():
        tasks = list(plan(preset).values())
        unique = {task.infra.uid(): task for task in tasks}
        done = sum(task.infra.status() == "completed" for task in unique.values())
        print(f"{name}: {done} of {len(unique)} trainings done")
        needed += len(unique)
        distinct |= unique
    done = [task for task in distinct.values() if task.infra.status() == "completed"]
    print(f"all notebooks: {needed} trainings needed one by one, {len(distinct)} distinct, {len(done)} done")
    for task in done:
        print(f"  {task.label}: {os.path.relpath(task.infra.uid_folder() / 'model')}")
    left = len(distinct) - len(done)
    if left and done:
        seconds = sum(task.fit()["seconds"] for task in done) / len(done) * left / engine.processes(preset.engine)
        print(f"left: {left}, about {seconds / 60:.0f} minutes")
    elif left:
        print(f"left: {left}; the time is known once one is done")
    return 0


def data(given: argparse.Namespace) -> int:
    from helpers import notebook
    from helpers.data.domains import load_one
    from helpers.data.examples import DataError

    preset = notebook.load_preset(notebook.of_a_preset(given.parameters))
    failed = 0
    for name in preset.data.domains:
        try:
            domain = load_one(preset.data, name)
        except DataError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed += 1
            continue
        print(f"{name}: {len(domain.train)} train, {len(domain.valid)} valid, {len(domain.test)} test questions")
        for note in domain.notes:
            print(f"  {note}")
    return 1 if failed else 0


def pretrain(given: argparse.Namespace) -> int:
    from helpers.pretrain import pretrain as train

    print(train(given.out or paths.MINI))
    return 0


def answer(given: argparse.Namespace) -> int:
    from helpers.answering import answer as find
    from helpers.data.examples import DataError

    try:
        passage = sys.stdin.read() if given.passage == "-" else Path(given.passage).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{given.passage}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    best = find(given.model, given.question, passage)
    print(f"{best.text}\t{best.probability:.3f}")
    return 0


COMMANDS = {"run": run, "figures": redraw, "status": status, "data": data, "pretrain": pretrain, "answer": answer}
