"""Command line: ``python -m helpers run | figures | status | data | improve | compress | multitask | pretrain |
answer | predict | export | score | glue-submission``."""

import argparse
import ast
import sys
from collections.abc import Callable
from pathlib import Path

from helpers import commands, papers

EPILOG = (
    "Presets: smoke (tests), mini, study, lab (your files), paper; or the path of a TOML file. This command's is {}."
)
GOES_ON = "what is finished is kept: the same command goes on from there"

RESUMED = (commands.run, commands.own_domains)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m helpers", description=" ".join(__doc__.split()))
    kinds = parser.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, does: Callable, help: str, preset: str = "mini", parameters: bool = True, alias: str = ""):
        texts = {"help": help, "description": help, "epilog": EPILOG.format(preset) if preset else None}
        added = kinds.add_parser(name, aliases=[alias] * bool(alias), **texts)
        added.set_defaults(does=does)
        if preset:
            added.add_argument("--preset", default=preset, help=f"preset name or TOML file (default: {preset})")
        if preset and parameters:
            pair = {"nargs": 2, "action": "append", "default": [], "metavar": ("NAME", "VALUE")}
            kind = (
                "a notebook's parameter"
                if name == "run"
                else "a key of the preset, such as test_size or training.epochs"
            )
            added.add_argument("-p", **pair, help=kind)
        return added

    run = command("run", commands.run, "Run notebooks headlessly, skip what is done, and write the report.")
    run.add_argument("notebooks", nargs="*", help="such as 02_imm_main (default: all)")
    run.add_argument("--force", action="store_true", help="run notebooks again although nothing changed")
    command("figures", commands.redraw, "Redraw every figure and the report from stored records.", parameters=False)
    status = command("status", commands.status, "What is trained, what is left, and about how long it takes.")
    status.add_argument("--readers", action="store_true", help="list where each trained reader lies")
    status.add_argument("--curves", metavar="TEXT", help="draw how those trainings went whose name has TEXT in it")
    data = command("data", commands.data, "Load and check every domain; print sizes and what was repaired.")
    data.add_argument("--plan", action="store_true", help="only say what would be downloaded, from where, how large")
    data.add_argument("files", nargs="*", metavar="FILE", help="check these instead of the preset's domains")
    data.add_argument("--write-repaired", type=Path, metavar="OUT", help="write FILE mended, as SQuAD's JSON")
    data.add_argument("--drop-bad", action="store_true", help="leave out what cannot be mended, and list it")
    for method in (paper.own_domains for paper in papers.ALL if paper.own_domains):
        own = command(method.command, commands.own_domains, method.help, preset="lab", alias=method.alias)
        domain = {"action": "append", "required": True, "metavar": "NAME=FILE"}
        forms = "; before FILE questions: for questions about passages, or another format, such as codah:"
        help = f"one for each {method.option}, 2 to 16{forms * bool(method.questions)}"
        own.set_defaults(method=method)
        own.add_argument(f"--{method.option}", dest="domain", **domain, help=help)
        for flag in method.flags:
            kind = {"action": "store_const", "const": flag.value} if flag.switch else {"type": as_value}
            default = " (default: the preset's)" * (flag.key not in method.settings)
            own.add_argument(f"--{flag.name}", **kind, help=f"{flag.help}{default}")
        own.add_argument("--out", type=Path, required=True, help=f"folder for the {method.product}s, one a subfolder")
        own.add_argument("--dry-run", action="store_true", help="only say what would be trained, and for how long")
    pretrain = command(
        "pretrain", commands.pretrain, "Pretrain the miniature encoder, and its student, into data/mini.", preset=""
    )
    pretrain.add_argument("--out", type=Path, help="another folder to write to")
    part = pretrain.add_mutually_exclusive_group()
    part.add_argument("--student", action="store_true", help="only the encoder's student, into student below it")
    part.add_argument("--large", action="store_true", help="only a larger encoder grown out of it, into large below it")
    answer = command("answer", commands.answer, "Answer one question about a text with a trained reader.", preset="")
    answer.add_argument("model", help="folder of a reader in Hugging Face format, or a name on the Hub")
    answer.add_argument("question")
    answer.add_argument("passage", help="a text file, or - for standard input")
    predict = command("predict", commands.predict, "Answer every question of a file with a trained reader.", preset="")
    predict.add_argument("model", help="as for answer")
    predict.add_argument("questions", help="a file of questions, in any format that data knows; answers may be missing")
    predict.add_argument("--out", type=Path, required=True, help="JSON file for the answers by question")
    export = command("export", commands.export, "Write a trained reader or classifier as ONNX, and time it.", preset="")
    export.add_argument("model", help="as for answer; or a classifier's folder")
    export.add_argument("--out", type=Path, required=True, help="folder for it, which answer and predict take as well")
    precision = export.add_mutually_exclusive_group()
    precision.add_argument("--onnx", action="store_true", help="as it is, in float32 (the default)")
    precision.add_argument("--int8", action="store_true", help="with weights of 8 bits: smaller, and faster")
    score = command("score", commands.score, "Exact match and F1 of answers, by the official rules.", preset="")
    score.add_argument("questions", help="a file of questions with their answers, in any format that data knows")
    score.add_argument("answers", help="JSON of the answers by question, as predict writes it")
    submission = command(
        "glue-submission", commands.glue_submission, "Predict GLUE's test texts, as its server takes them.", preset=""
    )
    submission.add_argument("models", type=Path, help="folder of classifiers, one a task, by the task's official name")
    tasks_dir = {"type": Path, "required": True, "metavar": "GLUE"}
    submission.add_argument("--tasks-dir", **tasks_dir, help="folder of the official files, one a task as well")
    submission.add_argument("--out", type=Path, required=True, help="zip file for the predictions")
    submission.add_argument("--partial", action="store_true", help="write it although files are missing")
    return parser


def as_value(text: str) -> object:
    """Numbers and True, False, None as such, anything else as text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def main(arguments: list[str] | None = None) -> int:
    given = build_parser().parse_args(arguments)
    if hasattr(given, "p"):
        given.parameters = {"preset": given.preset, **{name: as_value(text) for name, text in given.p}}
    try:
        return given.does(given)
    except KeyboardInterrupt:
        print(f"\nstopped; {GOES_ON}" if given.does in RESUMED else "\nstopped", file=sys.stderr)
        return 130
    except Exception as error:
        # Our own errors speak to the person at the keyboard; any other is a fault of ours and keeps its traceback.
        if not type(error).__module__.startswith("helpers") and not isinstance(error, OSError):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
