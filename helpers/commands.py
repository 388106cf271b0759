"""What the command line does, one function a command. Each returns the exit status."""

import argparse
import json
import os
import sys
from pathlib import Path

from helpers import papers, paths
from helpers.data.examples import DataError

SHOWN = 10  # lines of a list that may be long

# Every command imports what it needs, because torch and transformers take seconds.


def run(given: argparse.Namespace) -> int:
    from helpers.notebooks import runner

    return runner.run(given.notebooks, given.parameters, force=given.force)


def redraw(given: argparse.Namespace) -> int:
    from helpers.notebooks import runner
    from helpers.results import figures
    from helpers.results.records import RecordError

    if not (drawn := figures.redraw(given.preset)):
        raise RecordError(f"no records of preset {given.preset!r}: run its notebooks first")
    for path in drawn:
        print(os.path.relpath(path))
    return runner.run([runner.REPORT], {"preset": given.preset}, force=True)


def status(given: argparse.Namespace) -> int:
    from helpers.notebooks import session
    from helpers.papers.rows import seconds, trainings_of
    from helpers.training import engine

    parameters = session.of_the_preset(given.parameters)
    print(session.limits(parameters, *(card.name for paper in papers.ALL for card in paper.notebooks)), end="")
    distinct, apart = {}, 0
    for card in (card for paper in papers.ALL for card in paper.notebooks):
        preset = session.preset_for(parameters, card.name)
        plans = card.plans(preset) if card.plans and not card.left_out(preset) else {}
        needed = trainings_of(task for plan in plans.values() for task in engine.replay(plan).tasks)
        if needed:
            print(f"{card.name}: {sum(map(engine.is_done, needed.values()))} of {len(needed)} trainings done")
        distinct, apart = distinct | needed, apart + len(needed)
    done = list(filter(engine.is_done, distinct.values()))
    left = len(distinct) - len(done)
    print(
        f"trainings needed for every notebook by itself: {apart}; distinct: {len(distinct)}, done: {len(done)}; "
        f"{apart / max(1, len(distinct)):.1f} : 1"
    )
    if given.readers:
        for training in done:
            print(f"  {training.label}: {os.path.relpath(training.folder())}")
    if left and done:
        minutes = seconds(done) / len(done) * left / engine.processes(session.preset_for(parameters).engine) / 60
        print(f"left of what is known so far: {left}, about {minutes:.0f} minutes")
    elif left:
        print(f"left of what is known so far: {left}; the time is known once one is done")
    return 0


def own_domains(given: argparse.Namespace) -> int:
    from helpers import own
    from helpers.notebooks import session
    from helpers.tasks.pace import Pace

    (paper,) = (paper for paper in papers.ALL if paper.key == given.command)
    method = paper.own_domains
    domains: dict[str, str] = {}
    for text in given.domain:
        name, _, file = text.partition("=")
        if not name or not file or name in domains:
            raise DataError(f"--domain {text}: write NAME=FILE, each name once")
        domains[name] = file
    parameters, files = session.of_the_preset(given.parameters), own.overrides(method.name, domains)
    if clash := sorted(set(parameters) & set(files)):
        raise DataError(f"-p {clash[0]} has no meaning here: --domain names the files")
    flags = {papers.parameters()[name]: getattr(given, name) for name in method.options}
    parameters |= {key: value for key, value in flags.items() if value is not None}
    preset = session.preset_for(parameters, method.notebook, **files)
    print(session.limits(parameters, method.notebook, **files), end="")
    for line in own.told(preset):
        print(line)
    if not given.dry_run:
        own.check_place(domains, given.out)
    work = own.Work.of(method, preset)
    pace = Pace.measured(preset) if work.left else Pace(0.0, 0.0, 1)
    print(
        own.forecast(work, pace) if work.left else f"all {len(work.tasks)} trainings and scorings are done", flush=True
    )
    if given.dry_run:
        print(work.table().to_string())
        return 0
    with own.progress(work, pace) as after:
        record = own.improve(f"{paper.key}/own", method, session.Session(preset, parameters), given.out, after)
    for name in preset.data.domains:
        print(own.compared(record, name, method.name))
    print("readers: " + ", ".join(os.path.relpath(given.out / name) for name in preset.data.domains))
    print(f"record: {os.path.relpath(paths.record(record.preset, record.artefact))}")
    return 0


def data(given: argparse.Namespace) -> int:
    from helpers.data.domains import load_one
    from helpers.notebooks import session

    parameters = session.of_the_preset(given.parameters)
    preset = session.preset_for(parameters)
    if given.plan:
        return _print_plan(parameters)
    if given.files or given.write_repaired or given.drop_bad:
        return _check_files(given, bool(preset.data.unanswerable))
    print(session.limits(parameters, sections=("data",)), end="")
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


def _print_plan(parameters: dict[str, object]) -> int:
    """What all notebooks together would download."""
    from helpers.data.downloads import plan
    from helpers.notebooks import session

    notebooks = ["", *(card.name for paper in papers.ALL for card in paper.notebooks)]
    distinct = dict.fromkeys(session.preset_for(parameters, name).data for name in notebooks)
    print("\n".join(plan(*distinct)))
    return 0


def _check_files(given: argparse.Namespace, unanswerable: bool) -> int:
    """Files by themselves; with --write-repaired one of them, written anew as SQuAD's JSON, beside it what was left
    out."""
    from helpers.data import questions
    from helpers.data.formats.squad import write_squad
    from helpers.files import write_whole

    if len(given.files) != 1 and (given.write_repaired or not given.files):
        raise DataError("give one file: python -m helpers data FILE --write-repaired OUT")
    failed = 0
    for file in given.files:
        try:
            corpus = questions.read(file, unanswerable=unanswerable, drop_bad=given.drop_bad)
        except DataError as error:
            print(f"error: {error}", file=sys.stderr)
            failed += 1
            continue
        passages = len({example.context for example in corpus.examples})
        print(f"{file}: {len(corpus.examples):,} questions on {passages:,} passages")
        left_out = [f"left out: {line}" for line in corpus.left_out]
        more = [f"and {len(left_out) - SHOWN:,} more"] if len(left_out) > SHOWN else []
        for line in (*corpus.notes, *left_out[:SHOWN], *more):
            print(f"  {line}")
        if given.write_repaired:
            write_squad(corpus.examples, given.write_repaired, corpus.documents)
            print(f"written: {os.path.relpath(given.write_repaired)}")
            if left_out:
                listing = given.write_repaired.with_suffix(".left_out.txt")
                write_whole(listing, "\n".join(corpus.left_out) + "\n")
                print(f"left out: {os.path.relpath(listing)}")
    return 1 if failed else 0


def pretrain(given: argparse.Namespace) -> int:
    from helpers.pretrain import pretrain as train

    print(train(given.out or paths.MINI))
    return 0


def answer(given: argparse.Namespace) -> int:
    from helpers.tasks.answering import answer as find

    try:
        passage = sys.stdin.read() if given.passage == "-" else Path(given.passage).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{given.passage}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    best = find(given.model, given.question, passage)
    print(f"{best.text or '(no answer)'}\t{best.probability:.3f}")
    return 0


def predict(given: argparse.Namespace) -> int:
    from helpers.data import questions
    from helpers.files import write_whole
    from helpers.tasks.answering import answer_all

    examples = questions.read(given.questions, unanswerable=True).examples
    answers = {prediction.id: prediction.text for prediction in answer_all(given.model, examples)}
    write_whole(given.out, json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(answers):,} answers: {os.path.relpath(given.out)}")
    return 0
