"""Command line: ``python -m helpers run`` executes notebooks, ``python -m helpers figures`` redraws their figures."""

import argparse
import ast
import glob
import os
import sys
from io import TextIOWrapper
from itertools import pairwise

from helpers import paths
from helpers.errors import UserError

# Each command imports what it needs, because torch and transformers take seconds to import.


def run_command(arguments: argparse.Namespace) -> int:
    """Execute notebooks, or list what they have trained; return the exit status."""
    parameters = {name: as_value(text) for name, text in arguments.p}
    if "preset" in parameters:
        raise UserError("-p preset: expected --preset; write --preset NAME")
    if arguments.preset or not arguments.notebooks:
        parameters["preset"] = arguments.preset or "mini"
    check_notebooks()
    if arguments.preset:
        from helpers.presets.load import load_preset

        load_preset(arguments.preset)  # which finds a misspelt name before torch is imported
    from helpers.notebooks import runner

    if arguments.list:
        return runner.list_tasks(arguments.notebooks, parameters)
    return runner.run(arguments.notebooks, parameters, force=arguments.force)


def check_notebooks() -> None:
    """Raise UserError where there are no notebooks."""
    if not paths.NOTEBOOKS.is_dir():
        raise UserError(f"{paths.NOTEBOOKS}: expected notebooks, found none; pip install a clone with --editable")


def redraw(arguments: argparse.Namespace) -> int:
    """Redraw the figures and the report of a preset, or of one folder of results; return the exit status."""
    check_notebooks()
    from helpers import papers, records
    from helpers.notebooks import runner
    from helpers.papers.advice import ADVICE
    from helpers.presets.load import PRESET_NAMES, load_preset
    from helpers.results import findings

    preset = arguments.preset or "mini"
    run_name = load_preset(preset).name if preset.endswith(".toml") else preset
    if not records.read_all(run_name):
        others = [folder.name for folder in paths.find_results("", f"{glob.escape(run_name)}+*")]
        choice = f"give --preset {' or '.join(map(repr, others))}" if others else "run its notebooks first"
        raise records.RecordError(f"no records of preset {run_name!r}; {choice}")
    if any(run_name in presets for presets in findings.WORLDS.values()) and paths.results("") == paths.published(""):
        findings.update_documents(papers.list_papers(), ADVICE)
    parameters = {"preset": preset} if preset in PRESET_NAMES or run_name != preset else {"results": run_name}
    return runner.run([runner.REPORT], parameters, force=True)


def build_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="python -m helpers", description=" ".join(__doc__.split()))
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    presets = "smoke (tests), mini, study, lab (your files), lab-large, paper, or the path of a TOML file"
    for name, function, text in (
        ("figures", redraw, "Redraw every figure and the report from stored records."),
        ("run", run_command, "Run notebooks headlessly, skip those that are done, and write the report."),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--preset", help=f"{presets} (default: mini, or that of the notebooks that are named)")
        command.add_argument("--publish", action="store_true", help="write the committed results, not results/local")
        command.set_defaults(function=function)
    command.add_argument("notebooks", nargs="*", help="such as 02_imm_main, or 02 for short (default: all)")
    pair = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
    command.add_argument("-p", **pair, help="a parameter of the notebooks, or any key of the preset")
    command.add_argument("--list", action="store_true", help="only list the notebooks, and how much of each is trained")
    command.add_argument("--force", action="store_true", help="run notebooks again although nothing changed")
    return parser


def as_value(text: str) -> object:
    """Read a Python literal, such as a number, True or None, as its value, and anything else as text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def split_pairs(arguments: list[str]) -> list[str]:
    """Return the arguments with ``-p NAME=VALUE`` as ``-p NAME VALUE``."""
    parts = [text.split("=", 1) if before == "-p" else [text] for before, text in pairwise(["", *arguments])]
    return [part for of_text in parts for part in of_text]


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parsed = build_parser().parse_args(split_pairs(sys.argv[1:] if arguments is None else arguments))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # "±" where the terminal has ASCII alone
    if parsed.publish:
        os.environ["HELPERS_RESULTS"] = str(paths.published(""))
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")  # a bar in a log is a line a second
    try:
        return parsed.function(parsed)
    except KeyboardInterrupt as stop:
        state = str(stop) or "what is finished is kept"
        print(f"\nstopped: {state}; the same command goes on from there", file=sys.stderr)
        return 130
    except Exception as error:  # our own speak to the person at the keyboard; any other is a bug with its traceback
        if not type(error).__module__.startswith("helpers") and not isinstance(error, OSError):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
