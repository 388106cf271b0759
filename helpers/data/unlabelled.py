"""Questions whose answers are not read: further ones to train on, which a teacher answers."""

from functools import cache
from itertools import chain
from typing import NamedTuple

from helpers.data import files, splits
from helpers.data.examples import Example, digest
from helpers.data.folders import find_unlabelled
from helpers.data.load import load_adversarial, load_domains
from helpers.files import fingerprint
from helpers.presets.schema import DataSettings


class Unlabelled(NamedTuple):
    """Questions by file or subfolder, and notes on what was left out."""

    examples: dict[str, list[Example]]
    notes: list[str]


@cache
def load_unlabelled(data: DataSettings) -> Unlabelled:
    """Return the questions of ``data.unlabelled``, at most ``data.train_size`` of each file. Raises DataError.

    Validation and test questions of the domains are left out. There are none where the folder is "".
    """
    examples, notes = {}, []
    if not data.unlabelled:
        return Unlabelled(examples, notes)
    tests, settings = splits.TestedTexts(), find_unlabelled(data)
    for name, domain in load_domains(data).items():
        tests.add(name, {"test": [*domain.valid, *domain.test]})
    for name, adversarial in load_adversarial(data).items():
        tests.add(name, {"test": adversarial})
    for name in settings.domains:
        records = chain(*files.read(settings, name).parts.values())
        parts, more = splits.leave_out(f"unlabelled {name}", {"train": [r.example for r in records]}, tests)
        notes += more
        questions = sorted(parts["train"], key=lambda example: digest(data.seed, example.context, example.question))
        if 0 < data.train_size < len(questions):
            notes.append(
                f"unlabelled {name}: {data.train_size:,} of {len(questions):,} questions are used (train_size)"
            )
            questions = splits.sample(questions, data.train_size, data.drawn_by)
        examples[name] = questions
    return Unlabelled(examples, notes)


def fingerprint_unlabelled(data: DataSettings, name: str) -> str:
    """Identify the questions of a file or subfolder of ``data.unlabelled``, for keys."""
    examples = load_unlabelled(data).examples[name]
    return fingerprint(*((example.question, example.context) for example in examples))
