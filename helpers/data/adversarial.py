"""Adversarial questions beside a domain's own: the same question on a passage with a misleading sentence (Jia and
Liang 2017). AddSent has several such passages a question, AddOneSent one."""

from functools import cache
from itertools import chain, groupby

from helpers.data import questions
from helpers.data.domains import from_hub
from helpers.data.examples import DataError, Example
from helpers.data.formats.folders import locate_folder
from helpers.data.mini import domains as mini
from helpers.presets.schema import DataSettings

SETS = ("clean", "AddSent", "AddOneSent")


@cache
def load_adversarial(data: DataSettings) -> dict[str, list[Example]]:
    """The clean questions, and both adversarial sets with the clean ones among them, by name (``SETS``).

    A question's variants share its ``group``; their score is that of the worst. All sets are about the same
    questions, at most ``test_size``. Empty where the preset names no adversarial files. Raises DataError where a
    file cannot be used.
    """
    given = data.adversarial
    if given is None:
        return {}
    if data.source == "mini":
        drawn = {"seed": data.drawn_by, "conventions": data.conventions}
        many = mini.adversarial(data.domains[given.domain], size=data.test_size or mini.TEST, **drawn)
        groups = [list(group) for _, group in groupby(many, key=lambda example: example.group)]
        # One variant each; the first of one question, the second of the next, so that all wordings occur.
        pairs = [(clean, variants[number % len(variants)]) for number, (clean, *variants) in enumerate(groups)]
        return dict(zip(SETS, ([clean for clean, _ in pairs], many, [*chain(*pairs)]), strict=True))
    sets = {name: _examples(data, getattr(given, name)) for name in SETS[1:]}
    # The same questions in the same order everywhere, so that the sets can be compared question by question.
    both = {example.group for example in sets["AddOneSent"]}
    clean = [example for example in sets["AddSent"] if example.id == example.group and example.group in both]
    if not clean:
        raise DataError(f"{given.AddSent} and {given.AddOneSent} have no question in common")
    if data.test_size:
        clean = questions.sample(clean, min(data.test_size, len(clean)), data.seed)
    order = {example.group: number for number, example in enumerate(clean)}
    kept = {name: [example for example in sets[name] if example.group in order] for name in sets}
    return {"clean": clean} | {name: sorted(kept[name], key=lambda example: order[example.group]) for name in kept}


def _examples(data: DataSettings, place: str) -> list[Example]:
    """A file below the preset's folder, or dataset:configuration on the Hub, with clean questions and variants."""
    if data.source == "hub":
        examples = from_hub(data, place, "validation").examples
    else:
        path = locate_folder(data) / place
        if not path.exists():
            raise DataError(f"{path}: no such file; correct [data.adversarial] in the preset, or delete that section")
        examples = questions.read(path).examples
    clean = sum(example.id == example.group for example in examples)
    if clean in (0, len(examples)):
        raise DataError(
            f"{place}: {clean} of {len(examples)} questions are clean; expected the original questions and, with ids "
            "such as <original>-high-conf-turk0, their adversarial variants"
        )
    return examples
