"""Model cards of models trained on somebody's own domains: how one was made and what it scores."""

from helpers import paths
from helpers.data.examples import Domain
from helpers.papers.card import OwnDomains, OwnModel, Paper
from helpers.presets.schema import Preset
from helpers.results import comparisons, tables
from helpers.results.records import Record


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
    """All rows on one domain and the difference that the method makes, in a line."""
    rows, table = rows_of(method, record), tables.frame(record)[domain].str.replace("*", "")
    baseline, row = list(rows)[-2:]
    found = comparisons.compare(record, row, baseline, [domain])
    each = ", ".join(f"{word} {table[name]}" for name, word in rows.items())
    text = f"{domain}: {each}; {rows[row]} over {rows[baseline]} {tables.signed(found.mean)}"
    if found.error is None:
        return text
    return f"{text} ({tables.interval(found)}; P({rows[row]} > {rows[baseline]}) {tables.chance(found.above())})"
