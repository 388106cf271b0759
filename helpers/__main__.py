"""Command line: ``python -m helpers run | figures | status | data | imm | pretrain | answer``."""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

EPILOG = "Presets: smoke (tests), mini (the default), lab (your files), paper; or the path of a TOML file."


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m helpers", description=__doc__.splitlines()[0], epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, help: str, parameters: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help, epilog=EPILOG)
        made.add_argument("--preset", default="mini", help="preset name or TOML file (default: mini)")
        if parameters:
            made.add_argument(
                "-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="a notebook parameter"
            )
        return made

    run = command("run", "Run notebooks headlessly, skip what is done, and write the report.")
    run.add_argument("notebooks", nargs="*", help="such as 02_imm_main (default: all)")
    run.add_argument("--force", action="store_true", help="run notebooks again although nothing changed")
    command("figures", "Redraw every figure and the report from stored records.", parameters=False)
    status = command("status", "What is trained, what is left, and about how long it takes.")
    status.add_argument("--readers", action="store_true", help="list where each trained reader lies")
    command("data", "Load and check every domain; print sizes and what was repaired.")
    own = command("imm", "Train readers of your own domains that teach each other, and compare them with Single.")
    own.set_defaults(preset="lab")
    own.add_argument(
        "--domain", action="append", required=True, metavar="NAME=FILE", help="one for each domain, 2 to 16"
    )
    own.add_argument("--encoder", help="folder or Hub name of the pretrained encoder (default: the preset's)")
    own.add_argument("--rounds", type=int, help="largest number of rounds (default: the preset's)")
    own.add_argument("--out", type=Path, required=True, help="folder for the readers, one subfolder a domain")
    pretrain = command("pretrain", "Pretrain the miniature encoder into data/mini.", parameters=False)
    pretrain.add_argument("--out", type=Path, help="another folder to write to")
    answer = commands.add_parser("answer", help="Answer one question about a text with a trained reader.")
    answer.add_argument("model", help="folder of a reader in Hugging Face format, or a name on the Hub")
    answer.add_argument("question")
    answer.add_argument("passage", help="a text file, or - for standard input")
    return parser


def parameters_from(pairs: list[list[str]], preset: str) -> dict[str, object]:
    """-p pairs as values: numbers and True/False as such, anything else as text."""
    values: dict[str, object] = {"preset": preset}
    for name, text in pairs:
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
    return values


def main(arguments: list[str] | None = None) -> int:
    given = build_parser().parse_args(arguments)
    if hasattr(given, "p"):
        given.parameters = parameters_from(given.p, given.preset)
    from helpers.commands import COMMANDS

    try:
        return COMMANDS[given.command](given)
    except Exception as error:
        # Our own errors speak to the person at the keyboard; any other is a fault of ours and keeps its traceback.
        if not type(error).__module__.startswith("helpers") and not isinstance(error, OSError):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
