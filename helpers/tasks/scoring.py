"""Answers in a file, as SQuAD's evaluation takes them, and what they score: in all, by domain, by type of question."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from helpers.data.examples import DataError, Example
from helpers.data.formats.text import parse_json, text_of
from helpers.data.question_types import by_type
from helpers.tasks import metrics

MOST = 16  # domains that ids name; more are no domains
SHOWN = 3  # ids that a message names


def read_answers(path: Path | str, examples: Sequence[Example]) -> list[str]:
    """The answer to each question from JSON that has them by the questions' ids, "" for no answer. Raises DataError
    where it is not such JSON, an answer is no text, or the questions are others."""
    path = Path(path)
    answers = parse_json(text_of(path), path)
    if not isinstance(answers, dict):
        raise DataError(f'{path}: expected answers by question, {{"id": "text"}}, found a {type(answers).__name__}')
    for name, text in answers.items():
        if not isinstance(text, str):
            raise DataError(f'{path}: the answer to {name!r} has to be a text, "" for none, not {text!r:.80}')
    known = {example.id for example in examples}
    lacking = [example.id for example in examples if example.id not in answers]
    for what, names in (
        ("no answer to", lacking),
        ("answers to what is not asked:", [name for name in answers if name not in known]),
    ):
        if names:
            more = f" and {len(names) - SHOWN:,} more" * (len(names) > SHOWN)
            raise DataError(
                f"{path}: {what} {', '.join(map(repr, names[:SHOWN]))}{more}, of {len(known):,} questions: give the "
                'file that these answers are of, and an answer to each ("" for none)'
            )
    return [answers[example.id] for example in examples]


def table(examples: Sequence[Example], answers: Sequence[str]) -> pd.DataFrame:
    """Number of questions, EM and F1 in percent: of all, with and without an answer where there are both, by domain
    where the ids name several (domain/id), and by type of question.

    By the official rules (``helpers.tasks.metrics``): SQuAD 2.0's where a question has no answer; adversarial variants
    of a question count by the worst.
    """
    scores = metrics.adversarial_scores(examples, metrics.score(examples, answers))
    by_id = {example.group: example for example in reversed(examples)}
    asked = [by_id[group] for group in scores.ids]
    parts = {"all": scores}
    if len(split := metrics.by_answerability(asked, scores)) > 1:
        parts |= split
    domains = [example.id.partition("/")[0] if "/" in example.id else "" for example in asked]
    names = dict.fromkeys(domains)
    if all(names) and 2 <= len(names) <= MOST:
        parts |= {f"domain {name}": scores.select(np.asarray(domains) == name) for name in names}
    numbers = np.arange(len(asked))
    types = by_type(example.question for example in asked)
    parts |= {f"type {kind}": scores.select(np.isin(numbers, rows)) for kind, rows in types.items()}
    found = {name: {"questions": len(own.ids), "EM": own.em.mean(), "F1": own.f1.mean()} for name, own in parts.items()}
    return pd.DataFrame.from_dict(found, orient="index").astype({"questions": int})
