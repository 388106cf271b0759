"""Model cards of models trained on somebody's own domains: how one was made and what it scores."""

import pandas as pd

from helpers import paths
from helpers.data.examples import Domain
from helpers.papers.card import OwnDomains, OwnModel, Paper
from helpers.presets.schema import Preset
from helpers.results import comparisons, tables
from helpers.results.records import Record

AS_GOOD = 1.0  # points that a dearer method may be better by, and no more, for a cheaper one to be as good


def card(
    paper: Paper, preset: Preset, record: Record, domains: dict[str, Domain], names: list[str], model: OwnModel
) -> str:
    """The model card of a model of those ``domains`` that ``names`` has: how it was made and what it scores."""
    method = paper.own_domains
    template = (paths.PACKAGE / "papers" / paper.key / "card.md").read_text(encoding="utf-8")
    chosen = (
        f"It is the best on validation {method.examples} of {preset.seeds} trained with different seeds. Over all of "
        "them"
        if preset.seeds > 1
        else f"One {method.product} was trained"
    )
    return template.format(
        preset=preset,
        record=record,
        name=", ".join(names),
        model=model,
        scores=scores(method, record, {name: len(domains[name].test) for name in names}, model.seed),
        chosen=chosen,
        compared="\n\n".join(compared(record, name, method) for name in names),
        encoder=paths.public_name(preset.encoder),
        sizes=", ".join(f"{name} {len(parts.train):,}" for name, parts in domains.items()),
        versions=", ".join(f"{name} {number}" for name, number in record.run.versions.items()),
        **method.work().facts(preset, names),
    )


def rows_of(method: OwnDomains, record: Record) -> dict[str, str]:
    """The rows that a record has, with what a person calls them, the method's last."""
    there = comparisons.rows(record)
    return {row: word for row, word in method.work().ROWS.items() if row in there}


def scores(method: OwnDomains, record: Record, tests: dict[str, int], seed: int) -> str:
    """What one model scores, beside the other rows of its seed, on so many tests of each domain, as a table."""
    known = {(score.method, score.column): score.value for score in record.scores if score.seed == seed}
    head = [f"{record.unit} on test {method.examples}", *(f"{name} ({number:,})" for name, number in tests.items())]
    *others, (row, _) = rows_of(method, record).items()
    rows = {row: f"this {method.product}"} | {row: f"{word}, same seed" for row, word in others}
    lines = [[word, *(f"{known[row, name]:.1f}" for name in tests)] for row, word in rows.items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *lines])


def compared(record: Record, domain: str, method: OwnDomains) -> str:
    """All rows on one domain and the difference that the method makes, in a line; of several methods, which is chosen
    and whether a cheaper one is as good."""
    rows, table = rows_of(method, record), tables.frame(record)[domain].str.replace("*", "")
    baseline, row = record.baselines[-1], list(rows)[-1]
    found = comparisons.compare(record, row, baseline, [domain])
    each = ", ".join(f"{word} {table[name]}" for name, word in rows.items())
    text = f"{domain}: {each}; {rows[row]} over {rows[baseline]} {tables.signed(found.mean)}"
    if found.error is not None:
        text += f" ({tables.interval(found)}; P({rows[row]} > {rows[baseline]}) {tables.chance(found.above())})"
    return f"{text}; {worth(record, row, domain)}" if record.payload else text


def overview(record: Record, method: OwnDomains) -> str:
    """All methods on all domains, and the seconds of training that each takes by itself for one seed, as a table with
    what the choice gains on average below it; "" where there is no choice."""
    if not record.payload:
        return ""
    rows, baseline, domains = rows_of(method, record), record.baselines[-1], comparisons.columns(record)
    table = tables.frame(record).replace({r"\*": ""}, regex=True)
    spent = pd.Series({row: f"{seconds:,.1f}" for row, seconds in record.payload["seconds"].items()})
    lines = [table.assign(**{"seconds of training": spent}).fillna("").to_string()]
    gain = comparisons.compare(record, list(rows)[-1], baseline, domains)
    shown = "" if gain.low is not None and gain.low > 0 else "not shown to be "
    lines.append(f"on average the choice is {shown}better than {baseline}: {tables.difference(gain)} {record.unit}")
    return "\n".join(lines) + "\n"


def worth(record: Record, row: str, domain: str) -> str:
    """Which method is chosen for a domain, and what its test questions say of the cheapest one that they do not show to
    be worse: that it is as good, if the interval of the difference ends below ``AS_GOOD``, or may be."""
    seconds, chosen = record.payload["seconds"], record.payload["chosen"][domain]
    said = f"chosen on validation: {chosen} ({tables.duration(seconds[chosen])} of training)"
    cheaper = sorted((other for other in seconds if seconds[other] < seconds[chosen]), key=seconds.__getitem__)
    for other in cheaper:
        found = comparisons.compare(record, row, other, [domain])
        as_good = found.high is not None and found.high <= AS_GOOD
        if as_good or found.low is None or found.low <= 0:
            above = f"{chosen} is above it by {tables.difference(found)} {record.unit}"
            return (
                f"{said}; {other} ({tables.duration(seconds[other])}) {'is' if as_good else 'may be'} as good: {above}"
            )
    return f"{said}, {'better than all that are cheaper' if cheaper else 'the cheapest'}"
