"""What the command line does, one function a command. Each returns the exit status."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from helpers import paths

# Every command imports what it needs, because torch and transformers take seconds.


def run(given: argparse.Namespace) -> int:
    from helpers.notebooks import runner

    return runner.run(given.notebooks, given.parameters, force=given.force)


def redraw(given: argparse.Namespace) -> int:
    from helpers.notebooks import runner
    from helpers.results import figures
    from helpers.results.records import RecordError

    drawn = figures.redraw(given.preset)
    if not drawn:
        raise RecordError(f"no records of preset {given.preset!r}: run its notebooks first")
    for path in drawn:
        print(os.path.relpath(path))
    return runner.run([runner.REPORT], {"preset": given.preset}, force=True)


def status(given: argparse.Namespace) -> int:
    from helpers.notebooks import session
    from helpers.papers.a2d import runs as a2d_runs
    from helpers.papers.imm import runs as imm_runs
    from helpers.training import engine

    parameters = session.of_a_preset(given.parameters)
    preset = session.load_preset(parameters, "imm")
    stories = session.load_preset(parameters, "a2d", "a2d_narrativeqa")
    needed = imm_runs.notebooks(preset) | a2d_runs.notebooks(session.load_preset(parameters, "a2d"), stories)
    distinct, by_row, by_notebook = {}, 0, 0
    for name, rows in needed.items():
        unique = {reader.infra.uid(): reader for row in rows for reader in row}
        done = sum(engine.is_done(reader) for reader in unique.values())
        print(f"{name}: {done} of {len(unique)} trainings done")
        by_row, by_notebook, distinct = by_row + sum(map(len, rows)), by_notebook + len(unique), distinct | unique
    done = [reader for reader in distinct.values() if engine.is_done(reader)]
    left = len(distinct) - len(done)
    print(
        f"trainings needed one by one for every row and point: {by_row}; for every notebook by itself: {by_notebook}; "
        f"distinct: {len(distinct)}, done: {len(done)}; {by_row / len(distinct):.1f} : 1"
    )
    if given.readers:
        for reader in done:
            print(f"  {reader.label}: {os.path.relpath(reader.folder())}")
    if left and done:
        seconds = sum(reader.fit()["seconds"] for reader in done) / len(done) * left / engine.processes(preset.engine)
        print(f"left of what is known so far: {left}, about {seconds / 60:.0f} minutes")
    elif left:
        print(f"left of what is known so far: {left}; the time is known once one is done")
    return 0


def own_domains(given: argparse.Namespace) -> int:
    from helpers.data.examples import DataError
    from helpers.notebooks import session
    from helpers.papers.imm import own

    domains: dict[str, str] = {}
    for text in given.domain:
        name, _, file = text.partition("=")
        if not name or not file or name in domains:
            raise DataError(f"--domain {text}: write NAME=FILE, each name once")
        domains[name] = file
    if given.rounds is not None and given.rounds < 1:
        raise DataError(f"--rounds {given.rounds}: at least 1")
    parameters = session.of_a_preset(given.parameters)
    if "data_dir" in parameters:
        raise DataError("-p data_dir has no meaning here: --domain names the files")
    settings = {"encoder": given.encoder, "rounds": given.rounds}
    preset = own.preset_for(domains, parameters | {key: value for key, value in settings.items() if value})
    for key, value in preset.cpu.items():
        print(f"no GPU, hence {key} = {value}")
    record = own.improve(preset, given.out)
    for name in domains:
        print(own.compared(record, name))
    print("readers: " + ", ".join(os.path.relpath(given.out / name) for name in domains))
    return 0


def data(given: argparse.Namespace) -> int:
    from helpers.data.domains import load_one
    from helpers.data.examples import DataError
    from helpers.notebooks import session

    preset = session.load_preset(session.of_a_preset(given.parameters))
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
    from helpers.data.examples import DataError
    from helpers.tasks.answering import answer as find

    try:
        passage = sys.stdin.read() if given.passage == "-" else Path(given.passage).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{given.passage}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    best = find(given.model, given.question, passage)
    print(f"{best.text}\t{best.probability:.3f}")
    return 0


COMMANDS = {
    "run": run,
    "figures": redraw,
    "status": status,
    "data": data,
    "imm": own_domains,
    "pretrain": pretrain,
    "answer": answer,
}
