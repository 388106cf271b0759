"""State the claims of stored records anew, without a training: python benchmarks/claims.py PRESET ...

Scores and all else stay as they are. Claims are those of the exhibits that `STATED` makes from a record, and what the
regime cannot test is the preset's. Run it when these change, then
`python -m helpers figures --publish`.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, get_args

from helpers import paths, records
from helpers.papers.a2d import tables as a2d
from helpers.papers.a2d.algorithm import ABLATIONS, Kind, name_student
from helpers.papers.hrkd import MOVED, ratios
from helpers.papers.hrkd import tables as hrkd
from helpers.papers.imm import tables as imm
from helpers.papers.mtdnn import tables as mtdnn
from helpers.papers.mtdnn_kd import tables as mtdnn_kd
from helpers.papers.your_domains import tables as your_domains
from helpers.presets.load import load_preset
from helpers.records import Claim, Record


def kinds(record: Record) -> list[Kind]:
    return [kind for kind in get_args(Kind) if f"{kind} + A2D" in record.rows]


def readers(record: Record) -> list[Claim]:
    return a2d.state_claims(kinds(record), record.columns[1:])


def ablations(record: Record) -> list[Claim]:
    (kind,) = kinds(record)
    parts = [part for part in ABLATIONS if name_student(kind, part) in record.rows]
    return a2d.state_ablations(kind, parts, record.columns)


def places(record: Record) -> list[float]:
    return [score.x for score in record.scores if score.x is not None]


preset_of = cache(load_preset)
STATED: dict[str, Callable[[Record], list[Claim]]] = {
    "a2d/table1": readers,
    "a2d/table2": readers,
    "a2d/table3": lambda record: a2d.state_free_answers(kinds(record)[0], record.scores),
    "a2d/table5": ablations,
    "a2d/members": lambda record: a2d.state_places(record.scores, "members"),
    "a2d/temperatures": lambda record: a2d.state_places(record.scores, "temperature"),
    "a2d/steps": lambda record: a2d.state_lengths(record.scores),
    "hrkd/figure2": lambda record: hrkd.state_gains([x / 100 for x in places(record)]),
    "hrkd/table2": lambda record: hrkd.state_claims(record.rows),
    "hrkd/table3": lambda record: hrkd.state_claims(record.rows),
    "hrkd/table4": lambda record: hrkd.state_parts(),
    "hrkd/table5": lambda record: ratios.state_claims() if record.scores else [],
    "imm/figure3": lambda record: imm.state_rounds(int(max(places(record))), {score.method for score in record.scores}),
    "imm/learning_curve": lambda record: your_domains.state_curve(
        f"{min(places(record)):g}", dict.fromkeys(score.method for score in record.scores)
    ),
    "imm/your_domains": lambda record: your_domains.state_claims(record.rows),
    "imm/your_domains_equal": lambda record: your_domains.state_claims(record.rows),
    "mtdnn/table2": lambda record: mtdnn.state_claims(record.rows, "bert-base"),
    "mtdnn/table3": lambda record: mtdnn.state_claims(record.rows, "bert-large"),
    "mtdnn_kd/table2": lambda record: mtdnn_kd.state_claims(load_preset(record.preset, "mtdnn_kd")),
    "mtdnn_kd/tuning": lambda record: mtdnn_kd.state_tunings(record.rows),
    "mtdnn_kd/table3": lambda record: mtdnn_kd.state_gains(record.columns, mtdnn_kd.STUDENT in record.rows),
}


def differences(record: Record, x: str) -> dict[str, Any]:
    methods = {score.method for score in record.scores}
    return {"payload": record.payload | {"x": x, "above": next(kind for kind in get_args(Kind) if kind in methods)}}


def imm_and_first(record: Record) -> dict[str, Any]:
    return {"baselines": ["IMM", record.rows[0]]}


def draw_gains(record: Record) -> dict[str, Any]:
    sizes = (record.setting("data", name) for name in ("train_size", "train_share"))
    return {"payload": record.payload | your_domains.draw_gains(*sizes)}


FACTS: dict[str, Callable[[Record], dict[str, Any]]] = {  # what figures show
    "a2d/table1": lambda record: a2d.name_baselines(kinds(record)),
    "a2d/table2": lambda record: a2d.name_baselines(kinds(record)),
    "a2d/table3": lambda record: {"untaught": kinds(record)[0]},
    "a2d/figure4": lambda record: {"baselines": kinds(record)},
    "a2d/members": lambda record: differences(record, a2d.VARIED["members"][1]),
    "a2d/temperatures": lambda record: differences(record, a2d.VARIED["temperature"][1]),
    "a2d/steps": lambda record: differences(record, a2d.TIMES_THE_STEPS),
    "hrkd/figure2": lambda record: {"title": hrkd.name_figure2(record.setting("hrkd", "few_shot"))},
    "imm/figure3": lambda record: {"payload": record.payload | {"above": "Single"}},
    "imm/learning_curve": draw_gains,
    "imm/cost": lambda record: {"baselines": ["Single"]},
    "imm/table1": imm_and_first,
    "imm/table1_equal": imm_and_first,
    "imm/table1_general": imm_and_first,
    "hrkd/table2": lambda record: hrkd.compare_rows(record.rows),
    "hrkd/table3": lambda record: hrkd.compare_rows(record.rows),
    "hrkd/ratios": lambda record: {"unit": MOVED},
    "mtdnn/figure3": lambda record: {"payload": mtdnn.FIGURE3},
    "mtdnn/figure4": lambda record: {"baselines": [mtdnn.QA]},
}


def restate(stored: dict[str, Any]) -> Record:
    """Return a record, read as JSON, with the claims that the code states today."""
    record = Record.model_validate({**stored, "claims": []})
    stated = STATED[record.artefact](record) if record.artefact in STATED else Record.model_validate(stored).claims
    changes: dict[str, Any] = {"claims": stated}
    changes |= FACTS[record.artefact](record) if record.artefact in FACTS else {}
    if stated:
        changes["untested"] = preset_of(record.preset, record.paper_key).reason_untested(record.artefact)
    return record.model_copy(update=changes)


def main(*presets: str) -> None:
    """Write the committed records of presets whose claims have changed."""
    os.environ.setdefault("HELPERS_RESULTS", str(paths.published("")))
    for path in (path for preset in presets for path in sorted(paths.results(preset).glob("*/*.json"))):
        before = json.loads(path.read_text(encoding="utf-8"))
        record = restate(before)
        if before != record.model_dump():
            records.write(record)
            print(f"{path}: {len(before.get('claims', []))} claims before, {len(record.claims)} now; {record.untested}")


if __name__ == "__main__":
    main(*sys.argv[1:])
