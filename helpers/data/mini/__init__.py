"""Source "mini": the miniature world of invented people, towns and companies, generated from a seed per draw.

It has questions, stories, labelled texts and tasks, adversarial questions, and the answers that a guess could give.
"""

from collections.abc import Iterator
from itertools import groupby

from helpers.data.examples import ALL_PARTS, PARTS, DataError, Example, Records
from helpers.data.mini import tasks, world
from helpers.presets.schema import DatasetSettings, DataSettings, TextsSettings


def read(settings: DatasetSettings, name: str) -> Records:
    """Generate all parts of a domain or task of a section. Raises DataError."""
    source = settings.named[name]
    sizes = {f"{part}_size": getattr(settings, f"{part}_size") for part in PARTS}
    sizes = {key: size for key, size in sizes.items() if size}
    if isinstance(settings, DataSettings):
        domain = world.load_domain(source, seed=settings.drawn_by, conventions=settings.conventions, **sizes)
    elif isinstance(settings, TextsSettings):
        domain = tasks.load_texts(source, seed=settings.drawn_by, **sizes)
    else:
        sizes["unlabelled_size"] = settings.unlabelled_size
        task = tasks.load_task(source, name, seed=settings.drawn_by, **sizes)
        facts = {"kind": task.kind, "labels": task.labels, "metrics": task.metrics}
        return Records({part: getattr(task, part) for part in ALL_PARTS}, [], facts)
    return Records({part: getattr(domain, part) for part in PARTS}, [], {})


def label_names(settings: TextsSettings) -> tuple[str, ...]:
    """Return the labels that all domains have, by number. Raises DataError."""
    labels, *others = {tasks.label_names(source) for source in settings.domains.values()}
    if others or tuple(settings.labels or labels) != labels:
        names = ", ".join(settings.domains)
        raise DataError(f"{names}: expected the labels {', '.join(labels)} everywhere; correct them")
    return labels


def read_adversarial(data: DataSettings) -> dict[str, list[Example]]:
    """Generate the adversarial sets by name, each with the clean questions. Raises DataError."""
    examples = world.make_adversarial(data.domains[data.adversarial.domain], **_describe_test(data))
    one_each = []
    for number, (_, group) in enumerate(groupby(examples, key=lambda example: example.group)):
        clean, *variants = group
        # The first variant of the first question, the second of the second, so that all wordings occur.
        one_each += [clean, variants[number % len(variants)]]
    return {"AddSent": examples, "AddOneSent": one_each}


def list_candidates(data: DataSettings, name: str) -> Iterator[tuple[str, list[str]]]:
    """List the answers of a domain's test questions, each with all values of its type in the passage.

    None of stories, whose answers are free.
    """
    source = data.domains[name]
    return iter(()) if source == world.STORIES else world.list_candidates(source, **_describe_test(data))


def _describe_test(data: DataSettings) -> dict[str, object]:
    return {"size": data.test_size or world.TEST, "seed": data.drawn_by, "conventions": data.conventions}
