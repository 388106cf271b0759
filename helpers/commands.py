"""What the command line does, one function a command. Each returns the exit status."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import papers, paths
from helpers.data.examples import DataError
from helpers.files import writable

if TYPE_CHECKING:
    from helpers.notebooks.inventory import Inventory

# Every command imports what it needs, because torch and transformers take seconds.


def run(given: argparse.Namespace) -> int:
    from helpers.notebooks.parameters import asked, preset_for

    preset_for(asked(given.notebooks, given.parameters)[1])  # what is mistyped is refused at once

    from helpers.notebooks import runner

    return runner.run(given.notebooks, given.parameters, force=given.force)


def redraw(given: argparse.Namespace) -> int:
    from helpers.notebooks import runner
    from helpers.presets.load import NAMES
    from helpers.results import figures, front, summary
    from helpers.results.records import RecordError

    if not (drawn := figures.redraw(given.preset)):
        raise RecordError(f"no records of preset {given.preset!r}: run its notebooks first")
    for path in drawn + (front.update(papers.ALL) if given.preset in summary.MINIATURE else []):
        print(os.path.relpath(path))
    if given.preset.endswith(".toml"):
        return runner.run([runner.REPORT], {"preset": given.preset}, force=True)
    preset, _, differs = given.preset.partition("+")
    if preset not in NAMES:
        return 0  # results of own domains, which no preset has a report for
    results = {"results": given.preset} if differs else {}
    return runner.run([runner.REPORT], {"preset": preset, **results}, force=True)


def status(given: argparse.Namespace) -> int:
    from helpers.notebooks import inventory
    from helpers.notebooks.pace import Usual, is_as_it_is, seconds_left, write_steps
    from helpers.notebooks.parameters import of_the_preset

    parameters = of_the_preset(given.parameters)
    known = inventory.of(parameters)
    print(known.limits, end="")
    done, left = known.split()
    preset, measured = str(parameters["preset"]), [*done.values()]
    usual = Usual.of(parameters, known.encoder)
    if is_as_it_is(parameters):
        write_steps(known, preset)

    def minutes(trainings: dict, *notebooks: str) -> str:
        if not measured and not usual.steps:
            return "the time is known once one is done"
        steps = known.steps(trainings) + usual.unknown(known, notebooks)
        return f"about {seconds_left(steps, measured, known.processes, usual) / 60:.0f} minutes"

    for name, keys in known.notebooks.items():
        _, waiting = known.split(name)
        print(
            f"{name}: {len(keys) - len(waiting)} of {len(keys)} trainings done",
            *([minutes(waiting, name)] if waiting else []),
            sep=", ",
        )
    apart, distinct = sum(map(len, known.notebooks.values())), len(known.trainings)
    print(
        f"trainings needed for every notebook by itself: {apart}; distinct: {distinct}, done: {len(done)}; "
        f"{apart / max(1, distinct):.1f} : 1"
    )
    if given.readers:
        for key, training in done.items():
            print(f"  {training.label}: {os.path.relpath(known.model(key))}")
    if given.curves is not None:
        draw_curves(known, {key: training.label for key, training in done.items() if given.curves in training.label})
    if left:
        print(f"left: {len(left)} that are known so far; {minutes(left, *known.notebooks)}")
    for folder in paths.other_results(preset):
        print(f"results with other settings: {os.path.relpath(paths.results(folder))}")
    return 0


def draw_curves(known: Inventory, labels: dict[str, str]) -> None:
    """A picture beside each trained model, by cache key and label; says where."""
    from helpers.files import write_whole
    from helpers.results import canvas, curves
    from helpers.training.jobs import result_in

    for key, label in labels.items():
        folder = known.model(key).parent
        write_whole(folder / "curve.png", canvas.content(curves.draw(result_in(folder), label), "png"))
        print(f"  {label}: {os.path.relpath(folder / 'curve.png')}")


def own_domains(given: argparse.Namespace) -> int:
    from helpers.notebooks.parameters import of_the_preset, preset_for

    method = given.method
    (paper,) = (paper for paper in papers.ALL if paper.own_domains is method)
    domains: dict[str, str] = {}
    for text in given.domain:
        name, _, file = text.partition("=")
        if not name or not file or name in domains:
            raise DataError(f"--{method.option} {text}: write NAME=FILE, each name once")
        domains[name] = file
    flags = {flag.key: value for flag in method.flags if (value := getattr(given, flag.name)) is not None}
    parameters = of_the_preset(given.parameters) | of_the_preset({"preset": given.preset, **flags})

    from helpers import own, own_files
    from helpers.model_cards import compared, overview
    from helpers.notebooks import session
    from helpers.tasks.pace import Pace, Speed

    files = own.overrides(method, domains, given.preset)
    own.check_parameters(method, parameters, files)
    settings = {key: value for key, value in method.settings.items() if key not in parameters} | files
    preset = preset_for(parameters, method.notebook, **settings)
    print(session.limits(parameters, method.notebook, **settings), end="")
    own_files.print_domains(method, preset)
    folders = method.work().folders(preset)
    if not given.dry_run:
        own.check_place(method, folders, given.out)
    work = own.Work.of(method, preset)
    pace = Pace.of(method.work().speeds, preset) if work.left else Pace(lambda task: Speed(0.0, 0.0), 1)
    print(own.forecast(work, pace), flush=True)
    if given.dry_run:
        print(work.table().to_string())
        return 0
    with own.progress(work, pace) as after:
        record = own.improve(paper, session.Session(preset, parameters), given.out, after)
    print(overview(record, method), end="")
    for name in own_files.domains_of(method, preset):
        print(compared(record, name, method))
    print(f"{method.product}s: " + ", ".join(os.path.relpath(given.out / name) for name in folders))
    print(f"record: {os.path.relpath(paths.record(record.preset, record.artefact))}")
    return 0


def data(given: argparse.Namespace) -> int:
    from helpers.checks import check

    return check(given)


def pretrain(given: argparse.Namespace) -> int:
    from helpers.pretrain import distil, enlarge
    from helpers.pretrain import pretrain as train

    folder = given.out or paths.MINI
    if given.large:
        print(enlarge(folder / "large"))
        return 0
    if not given.student:
        print(train(folder))
    print(distil(folder / "student", str(folder if not given.student else paths.MINI)))
    return 0


def answer(given: argparse.Namespace) -> int:
    from helpers.data.formats.text import text_of
    from helpers.tasks.answering import load_reader

    passage = sys.stdin.read() if given.passage == "-" else text_of(Path(given.passage))
    best = load_reader(given.model).answer(given.question, passage)
    print(f"{best.text or '(no answer)'}\t{best.probability:.3f}")
    return 0


def predict(given: argparse.Namespace) -> int:
    from helpers.data.unlabelled import read_asked
    from helpers.files import write_whole
    from helpers.tasks.answering import load_reader

    out = writable(given.out)
    examples = read_asked(Path(given.questions))
    answers = {prediction.id: prediction.text for prediction in load_reader(given.model).answer_all(examples)}
    write_whole(out, json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(answers):,} answers: {os.path.relpath(out)}")
    return 0


def export(given: argparse.Namespace) -> int:
    from helpers.export import export

    done = export(given.model, given.out, given.int8)
    asked = f"{done.questions} questions in {done.windows} windows of {done.tokens[0]} to {done.tokens[1]} tokens"
    print(f"compared with torch on {asked}: the largest difference of a logit is {done.exact:.1g}")
    if given.int8:
        print(f"with weights of 8 bits it is {done.difference:.2g}, and {done.alike:.1%} of windows are answered alike")
    print(
        f"{os.path.relpath(given.out)}: {done.size / 1e6:.1f} MB, {done.faster:.1f} times as fast as torch on this CPU"
    )
    return 0


def score(given: argparse.Namespace) -> int:
    from helpers.data import questions
    from helpers.tasks import scoring

    examples = questions.read(given.questions, unanswerable=True).examples
    found = scoring.table(examples, scoring.read_answers(given.answers, examples))
    print(found.to_string(float_format="{:.1f}".format))
    return 0


def glue_submission(given: argparse.Namespace) -> int:
    from helpers import submission

    out = writable(given.out)
    prepared = submission.prepare(given.models, given.tasks_dir)
    for file, reason in prepared.missing.items():
        print(f"missing: {file}: {reason}")
    if prepared.missing and not (given.partial and prepared.texts):
        raise DataError(
            f"the server needs every file, and {len(prepared.missing)} cannot be made: give what is missing"
            + " (--partial writes a zip of the others)" * bool(prepared.texts)
        )
    for file, number in submission.write(prepared, given.models, out):
        print(f"{file}: {number:,} predictions", flush=True)
    print(os.path.relpath(out))
    return 0
