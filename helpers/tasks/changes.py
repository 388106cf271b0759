"""What changes in the answers from one reader to another, counted by kind."""

from collections.abc import Sequence

from helpers.data.examples import Example
from helpers.tasks.metrics import f1, normalize_answer

KINDS = ("now answered", "now none", "longer", "shorter", "another")
OUTCOMES = ("better", "worse", "alike")


def change(example: Example, before: str, after: str, no_answer: bool) -> tuple[str, str] | None:
    """Which of `KINDS` an answer is beside the one ``before``, and which of `OUTCOMES` it is by F1; None where both say
    the same. ``no_answer`` as in `helpers.tasks.metrics.f1`."""
    said = [f" {normalize_answer(text)} " for text in (before, after)]  # whole words, between single spaces
    if said[0] == said[1]:
        return None
    gain = f1(after, example.answers, no_answer=no_answer) - f1(before, example.answers, no_answer=no_answer)
    return _kind(*said), OUTCOMES[0] if gain > 0 else OUTCOMES[1] if gain < 0 else OUTCOMES[2]


def changes(
    examples: Sequence[Example], before: Sequence[str], after: Sequence[str], no_answer: bool
) -> dict[tuple[str, str], list[int]]:
    """The numbers of the questions whose answer changes, by kind and outcome, in the order of `KINDS`."""
    found = {(kind, outcome): [] for kind in KINDS for outcome in OUTCOMES}
    for number, (example, *answers) in enumerate(zip(examples, before, after, strict=True)):
        if changed := change(example, *answers, no_answer):
            found[changed].append(number)
    return found


def _kind(before: str, after: str) -> str:
    if not before.strip() or not after.strip():
        return KINDS[0] if after.strip() else KINDS[1]
    if before in after:
        return KINDS[2]
    return KINDS[3] if after in before else KINDS[4]
