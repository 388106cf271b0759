"""IMM's tables and figures as records, from trained readers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from helpers.data.adversarial import SETS, load_adversarial
from helpers.data.domains import load_domains, load_one
from helpers.data.examples import Example, groups_of
from helpers.data.similarity import question_similarity
from helpers.files import fingerprint
from helpers.models.pretrained import load_saved
from helpers.papers.imm import algorithm
from helpers.papers.imm.algorithm import Readers
from helpers.papers.imm.runs import Histories, Rows, each, preset_of
from helpers.papers.imm.trainings import Adversarial
from helpers.presets.schema import Preset
from helpers.results import records
from helpers.results.records import Claim, Score
from helpers.tasks.spans import answers, windows_over
from helpers.training import engine

LEFT = {"text-align": "left", "white-space": "normal"}


def similarity(preset: Preset) -> tuple[list[Score], dict]:
    """Section 4, step 1: s_ij of every two domains as scores (row i, column j), and the cosines as payload."""
    cosines, weights = question_similarity(algorithm.questions(preset))
    names = list(preset.data.domains)
    scores = [
        Score(method=one, column=other, seed=0, value=float(weights[i, j]))
        for i, one in enumerate(names)
        for j, other in enumerate(names)
    ]
    return scores, {
        "cosines": {
            one: dict(zip(names, map(float, row), strict=True)) for one, row in zip(names, cosines, strict=True)
        }
    }


def table(rows: Rows) -> dict:
    """Tables 1 and 3 as parts of a record: F1 of every row, domain and seed, with every example's score."""
    f1 = {(row, domain, seed): reader.fit()["f1"][domain] for row, seed, domain, reader in each(rows)}
    preset = preset_of(rows)
    tested = {name: domain.test for name, domain in load_domains(preset.data).items()}
    ids = {name: fingerprint(*(e.id for e in test)) for name, test in tested.items()}
    beaten = [row for row in rows if row not in ("IMM", *algorithm.OURS)]
    claims = [Claim(text=f"IMM beats {row}", above="IMM", below=row) for row in beaten]
    return {**records.scored(f1), "examples_of": ids, "claims": claims}


def figure3(histories: Histories, rows: Rows, notes: list[str]) -> dict:
    """Figure 3: F1 on validation sets (as in the paper) and on test sets, averaged over domains, against K.

    Readers that are kept because they are best on validation cannot get worse there; only the test sets tell.
    """
    preset = preset_of(rows)
    scores = []

    def add(method: str, seed: int, readers: Readers, x: float | None = None) -> None:
        f1 = {
            "validation": [algorithm.valid(reader) for reader in readers.values()],
            "test": [np.mean(reader.fit()["f1"][domain]) for domain, reader in readers.items()],
        }
        for column, values in f1.items():
            scores.append(Score(method=method, column=column, seed=seed, value=float(np.mean(values)), x=x))

    for seed, history in histories.items():
        for k in range(preset.imm.curve + 1):
            add("IMM", seed, history[min(k, len(history) - 1)], float(k))
    for method, seeds in rows.items():
        for seed, readers in seeds.items():
            if method != "IMM":
                add(method, seed, readers)
    flat, last = (f"IMM, {k}" for k in (min(3, preset.imm.curve), preset.imm.curve))
    rises = Claim(text=f"{flat} rounds are better than none", above=flat, below="IMM, 0", columns=["test"])
    tail = {"above": flat, "below": "IMM, 0", "than": [last, flat], "columns": ["test"]}
    flattens = [Claim(text=f"later rounds bring less than the first {flat[5:]}", **tail)] if last != flat else []
    stopped = [len(history) - 1 for history in histories.values()]
    converged = sum(rounds < preset.imm.curve for rounds in stopped)
    note = f"{converged} of {len(stopped)} seeds stopped before K = {preset.imm.curve}, as no domain improved"
    return {
        "kind": "curve",
        "scores": scores,
        "average": False,
        "claims": [rises, *flattens],
        "payload": {"x": "largest number of rounds K"},
        "notes": [*notes, note],
    }


def table2(rows: Rows) -> dict:
    """Table 2: F1 of each method's reader of one domain on its clean questions, AddSent and AddOneSent."""
    preset = preset_of(rows)
    sets = load_adversarial(preset.data)
    known = fingerprint(*(repr((e.id, e.question, e.context, e.answers)) for s in sets.values() for e in s))
    domain = preset.data.adversarial.domain
    tasks = {
        (row, seed): one.ask(Adversarial, f"adversarial questions, {one.label}", questions=known)
        for row, seed, name, one in each(rows)
        if name == domain
    }
    engine.run(tasks.values(), preset.engine, "adversarial")
    f1 = {(row, name, seed): values for (row, seed), task in tasks.items() for name, values in task.fit()["f1"].items()}
    ids = {name: fingerprint(*groups_of(s)) for name, s in sets.items()}
    clean, *attacks = SETS
    claims = [Claim(text=f"IMM beats Single on {a}", above="IMM", below="Single", columns=[a]) for a in attacks] + [
        Claim(
            text=f"IMM gains more over Single on {attack} than on clean questions",
            above="IMM",
            below="Single",
            columns=[attack],
            than=["IMM", "Single"],
            than_columns=[clean],
        )
        for attack in attacks
    ]
    return {**records.scored(f1), "examples_of": ids, "average": False, "claims": claims}


def misled(sets: dict[str, list[Example]]) -> pd.DataFrame | None:
    """The first adversarial question: what was added to its passage, and its answer."""
    clean = {example.group: example for example in sets.get("clean", [])}
    for example in sets.get("AddSent", []):
        if example.id != example.group:
            added = example.context.removeprefix(clean[example.group].context).strip()
            row = {"question": example.question, "answer": " / ".join(example.answers), "added": added}
            return pd.DataFrame.from_dict(row, orient="index", columns=[""]).style.set_properties(**LEFT)
    return None


def sample_answers(readers: Readers, number: int = 3) -> pd.DataFrame:
    """The first test questions of each domain with its reader's answers."""
    found = []
    for name, reader in readers.items():
        model, preset = load_saved(reader.folder()), reader.preset
        windows = windows_over(preset, load_one(preset.data, name).test[:number])
        for example, answer in zip(windows.examples, answers(preset, model, windows), strict=True):
            gold = " / ".join(example.answers)
            found.append({"domain": name, "question": example.question, "answer": answer.text, "expected": gold})
    return pd.DataFrame(found)
