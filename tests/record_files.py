"""Small records of every kind, what every run of a notebook repeats of a record, and its notes beside its settings."""

import json
import re
from operator import attrgetter
from types import SimpleNamespace

from helpers.records import Record

TIMES = ("seconds", "ms ", "times ")  # prefixes of metrics that differ from run to run
DOMAINS = ["news", "stories", "web"]
RUN = {
    "commit": "0123456789abcdef",
    "dirty": True,
    "device": "a CPU, 2 threads",
    "versions": {"python": "3.11.7"},
    "seconds": 300.0,
    "parameters": {"preset": "mini", "learning_rate": 2e-3},
}


def record(artefact: str, scores: list[tuple] = (), **more) -> Record:
    """Make a record from scores: method, column, seed, value, x and metric."""
    rows = [dict(zip(("method", "column", "seed", "value", "x", "metric"), score, strict=False)) for score in scores]
    base = {"artefact": artefact, "preset": "mini", "title": "Title", "unit": "F1", "scores": rows, "run": RUN}
    return Record.model_validate(base | more)


def repeated(record: Record) -> dict:
    """All but the run itself, what the paper prints, and measured times."""
    facts = json.loads(record.model_dump_json(exclude={"run", "paper"}))
    facts["scores"] = [score for score in facts["scores"] if not (score.get("metric") or "").startswith(TIMES)]
    return facts


def claimed(artefact: str = "imm/table1", seeds: int = 5, **more) -> Record:
    """B is above A by 4 to 6 with each seed, C by -2 to 2; the paper prints 3 and 1."""
    values = {"A": [50] * 5, "B": [54, 56, 55, 54, 56], "C": [52, 48, 50, 51, 49]}
    scores = [(row, "x", seed, value) for row, of_row in values.items() for seed, value in enumerate(of_row[:seeds])]
    claims = [
        {"text": "B beats A", "above": "B", "below": "A", "primary": True},
        {"text": "C beats A", "above": "C", "below": "A"},
        {"text": "A is better than B", "above": "A", "below": "B", "printed_for": "after 3 rounds"},
    ]
    paper = [{"method": "A", "column": "x", "value": 1.5}, {"method": "B", "column": "x", "value": 11.0}]
    parts = {"title": "IMM, Table 1: F1", "baselines": ["A"], "claims": claims, "paper": paper, "notes": ["5 seeds"]}
    return record(artefact, scores, **parts | more)


def curve() -> Record:
    """A method with two seeds at three places, one with three seeds and no place, and a number of the paper's."""
    scores = [("IMM", c, s, 50 + x + s, x) for c in "ab" for x in (2.0, 0.0, 1.0) for s in (0, 2)]
    scores += [("Mix", "a", s, 50 + s) for s in range(3)]
    return record("imm/figure3", scores, kind="curve", paper=[{"method": "IMM", "column": "a", "value": 55, "x": 1.0}])


def every_kind() -> list[Record]:
    """A record of every kind."""
    square = [(a, b, 0, 0.9 if (i + 1) % 3 == j else 0.1) for i, a in enumerate(DOMAINS) for j, b in enumerate(DOMAINS)]
    cosines = {a: {b: 1.0 if a == b else 0.5 for b in DOMAINS} for a in DOMAINS}
    bars = [(m, c, s, v + s) for m, v in {"A": 50, "B": 97}.items() for c in "xy" for s in (0, 1, 2)]
    gains = [(m, c, s, v + s, None, f"metric {v}") for v in (1, 2) for m in "AB" for c in "xy" for s in range(3)]
    panels = {f"layer {m}": {"news": {str(n): 1 / (m + 1) for n in range(m + 1)}} for m in range(1, 6)}
    histograms = {name: {"edges": [0, 10, 30], "counts": [3, 1]} for name in DOMAINS}
    profile = {"sizes": {}, "question_words": {name: {"what": 0.75} for name in DOMAINS}}
    profile |= {"passage_lengths": histograms, "question_lengths": histograms}
    view = {"answer": "$a", "attention": [[1.0], [0.5]]}
    view["probabilities"] = {"gold": 0.5}
    case = {"question": ["q"], "passage": ["a", "b"], "answers": {"gold": [0, 0]}}
    case["readers"] = {"before": view, "after": view}
    return [
        claimed(),
        curve(),
        record("imm/similarity", square, kind="matrix", payload={"cosines": cosines}),
        record("a2d/figure4", bars, kind="bars", paper=[{"method": "A", "column": "y", "value": 61.0}]),
        record("imm/cost", gains, kind="scatter"),
        record("hrkd/table5", kind="heatmaps", unit="ratio", payload={"panels": panels, "x": "layer", "y": "domain"}),
        record("corpora/overview", kind="profile", payload=profile),
        record("a2d/figure3", kind="case", payload=case),
    ]


STATED = {  # what notes state, and the settings that say it too; "or": where the first is 0
    r"over (\d+) students?$": "a2d.students",
    r"^ensembles of (\d+);": "a2d.members",
    r"^temperature (\S+), gamma (\S+), delta (\S+)$": "a2d.temperature a2d.answer_weight a2d.attention_weight",
    r"^every BERT reader: (\S+) epochs, (\d+) windows": "training.epochs training.batch_size",
    r"^every RMR reader: (\S+) epochs, (\d+) windows": (
        "mnemonic.epochs|training.epochs mnemonic.batch_size|training.batch_size"
    ),
    r" Mix ensemble (\d+), A2D (\d+)": "a2d.members a2d.students",
    r"steps of (\d+) windows.* \(([\d.]+) ": "training.batch_size training.epochs",
    r"^teachers: (\S+) epochs, learning rate (\S+);.*; (\d+) texts": (
        "training.epochs training.learning_rate training.batch_size"
    ),
    r"^epochs of the questions: (\S+); (\w+), learning rate (\S+), batches of (\d+), dropout (\S+)$": (
        "training.epochs training.optimizer training.learning_rate training.batch_size mtdnn.dropout"
    ),
    r"^epochs on all tasks together: (\S+), (\w+), learning rate (\S+), batches of (\d+); then on one: (\S+)$": (
        "training.epochs training.optimizer training.learning_rate training.batch_size mtdnn_kd.tuning_epochs"
    ),
    r"^ensembles: the (\d+) of (\d+) models": "mtdnn_kd.members mtdnn_kd.models",
}
ROUNDS = {"imm/figure3": "imm.figure3_max_rounds"}  # others: imm.max_rounds


def contradictions(record: Record) -> list[str]:
    """What a record's settings say otherwise than its notes, its scores and its name."""
    stored = json.dumps(record.run.parameters["preset"])
    settings = json.loads(stored, object_hook=lambda table: SimpleNamespace(**table))
    stated = {pattern: names.split() for pattern, names in STATED.items()}
    stated[r"^IMM with at most (\d+) round"] = [ROUNDS.get(record.artefact, "imm.max_rounds")]
    later = sum(run.parameters["preset"]["seeds"] for run in record.later_runs)
    expected = {("seeds",): len(record.seeds) - later or 1}  # what has no scores shows the first seed
    for note in record.notes:
        for pattern, names in stated.items():
            if match := re.search(pattern, note):
                expected |= {tuple(name.split("|")): value for name, value in zip(names, match.groups(), strict=True)}
        if note.startswith("training questions: "):
            domains = [part.rpartition(" ")[0] for part in note.partition(": ")[2].split(", ")]
            expected["data.domains",] = SimpleNamespace(**dict.fromkeys(domains))
        if re.search("steps of .* windows", note):
            expected["imm.steps",] = "equal" if "all domains" in note else "epochs"
    if record.paper_key == "imm":
        expected["imm.steps",] = "equal" if record.artefact.endswith("_equal") else "epochs"
    if record.artefact == "mtdnn/table3":
        expected["encoder",] = settings.mtdnn.large
    problems = []
    for names, value in expected.items():
        actual = next(filter(None, (attrgetter(name)(settings) for name in names)), 0)
        if isinstance(actual, SimpleNamespace):
            value, actual = list(vars(value)), list(vars(actual))
        number = f"{actual:g}" if isinstance(actual, int | float) else actual
        if value not in (actual, number):
            problems.append(f"{names[0]} is {actual}, but the record is of {value}")
    return problems
