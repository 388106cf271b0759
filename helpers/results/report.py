"""Results in words and tables: in notebooks, as an HTML page per preset, and as the findings in README.md.

Nothing of it is written by hand; all is computed from records. A paper is anything that has a key, a title, a
reference, the meanings of its methods, and exhibits in reading order.
"""

import base64
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from html import escape
from itertools import chain, combinations
from pathlib import Path
from statistics import mean
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from IPython.display import HTML, display

from helpers import paths, records
from helpers.errors import UserError
from helpers.files import write_whole
from helpers.records import Record
from helpers.results import figures, stats
from helpers.results.stats import Verdict

Judged = tuple[Record, list[Verdict]]
README = paths.ROOT / "README.md"
BEGIN, END = "<!-- findings, written by `python -m helpers figures` -->", "<!-- end of findings -->"
UNITS = {"accuracy": "points", "score": "points"}  # of differences
FIRST_SEED_OF = {"mini": "study"}  # a preset, by the one that is its first seed
WORLDS = {"miniature world": ("study", "mini"), "public corpora": ("lab-large", "lab")}  # what presets run on
STANDS_FOR = {  # a miniature domain, by the corpus of the papers beside which it stands
    "encyclopedia": "SQuAD",
    "news": "NewsQA",
    "multihop": "HotpotQA",
    "search": "NQ",
    "trivia": "TriviaQA",
    "books": "Books",
    "films": "DVD",
    "gadgets": "Electronics",
    "kitchen": "Kitchen",
}
TIMES = ("seconds", "ms ", "times ")  # prefixes of metrics that vary by run
RANKED = 3  # methods that README ranks
SHORTER = {stats.SMALLER: "smaller", stats.LESS_THAN_HALF: "less than half", stats.NO_NUMBER: "no number"}
SHORTER[stats.FAILED] = "against a failed baseline"
UNTESTED = "too few for a verdict"
LINKED = 100_000  # characters: a longer page is a link in the executed notebook
KEY = (
    f"Each claim gets a paired t test over seeds, at 5 % after Holm's correction, and with fewer than "
    f"{stats.VERDICT_SEEDS} seeds no verdict. Supported: significantly above zero. Refuted: significantly below. "
    f"{stats.SMALLER.capitalize()}, {stats.LESS_THAN_HALF}: significantly below the paper's own difference, or half of "
    "it. Against a baseline that failed: above zero, but the baseline is significantly below a student without a "
    "teacher. A share of a gain is supported above half of the paper's. Where the paper prints no number, a "
    "difference too small to be printed is refuted. Three groups are corrected apart: a paper's headlines, a table's "
    "other claims, and our controls. A difference that two claims are about counts once. "
    "An interval is not corrected, so it may exclude 0 where a claim is undecided."
)


def state_verdict(record: Record, verdict: Verdict, short: bool = False) -> tuple[str, str, str]:
    """State a verdict, the difference that the paper reports (empty where it prints none), and ours.

    ``short``: with half of the interval behind "±".
    """
    claim, outcome, ours, _, printed, _ = verdict
    first, reported = record.by_metric()[0], ""
    amount = "the same score" + f" with all {len(ours.values)} seeds" * (len(ours.values) > 1)
    form, unit = (".0f", "%") if claim.share else (f"+z,.{stats.decimals(first)}f", UNITS.get(first.unit, first.unit))
    if any(ours.values):
        half = f" ± {ours.high - ours.mean:{form[1:]}}" if ours.over and short else ""
        intervals = [f"95 % CI {ours.low:{form}} to {ours.high:{form}}"] if ours.over and not short else []
        if claim.text in record.passages:
            intervals.append("over passages {:{form}} to {:{form}}".format(*record.passages[claim.text], form=form))
        amount = f"{ours.mean:{form}}{half} {unit}" + f" ({'; '.join(intervals)})" * bool(intervals)
    if printed is None:
        outcome += f", {stats.NO_NUMBER}" * (not claim.control)
    elif claim.share:
        reported = f"{printed:.0f} % {claim.printed_for}".rstrip()
    else:
        digits = paper_decimals(record) if claim.printed is None else decimals_of([claim.printed])
        reported = f"{printed:+z.{digits}f} {claim.printed_for}".rstrip()
    return outcome.capitalize(), reported, amount


def describe_verdict(record: Record, verdict: Verdict) -> str:
    """Say in a sentence what became of a claim, and what the paper reports."""
    outcome, printed, ours = state_verdict(record, verdict)
    outcome += f", as {record.untested}" * bool(record.untested)
    return f"{outcome}: {verdict.claim.text}, {ours}." + (f" The paper reports {printed}." if printed else "")


def paper_decimals(record: Record) -> int:
    """Return how many decimals the paper prints, two at most."""
    return decimals_of([number.value for number in record.paper])


def decimals_of(values: Sequence[float]) -> int:
    """Return how many decimals numbers have, two at most."""
    return next((digits for digits in (0, 1) if all(round(value, digits) == value for value in values)), 2)


def numbers(record: Record, baseline: str = "") -> pd.DataFrame:
    """Return one metric's scores with intervals as text and the paper's beside them, or ours above a baseline."""
    rows, estimates, ours, printed = [row for row in record.rows if row != baseline], [], {}, {}
    form, seeds = f"{'+' * bool(baseline)}z,.{stats.decimals(record)}f", Counter()
    groups = {column: [column] for column in record.columns}
    if record.average and len(groups) > 1:
        groups[stats.AVERAGE] = record.columns
    for name, columns in groups.items():
        for row in rows:
            subtracted = [(-1, baseline, columns)] if baseline else []
            if each := stats.estimate(record, [(1, row, columns), *subtracted]):
                ends = f" ({each.low:{form}} to {each.high:{form}})" if each.low < each.high else ""
                ours.setdefault(name, {})[row] = f"{each.mean:{form}}{ends}"
                estimates.append(each)
                seeds[row] = max(seeds[row], len(each.values))
    for number in record.paper if not baseline else ():
        text = number.text or f"{number.value:,.{paper_decimals(record)}f}"
        printed.setdefault(number.column, {})[number.row] = text
    frame = pd.DataFrame(pair(ours, printed))
    frame = frame.reindex(list(dict.fromkeys([*rows, *frame.index])))
    fewer = {row: number for row, number in seeds.items() if number < max(seeds.values())}
    frame = frame.rename(index={row: f"{row} ({number} seed{'s' * (number > 1)})" for row, number in fewer.items()})
    if not printed:
        frame = frame.droplevel(1, axis=1)
    over = figures.intervals(estimates).replace("every seed", "means")
    frame.attrs["caption"] = f"{record.unit}{baseline and f' above {baseline}'} ({over})"
    return frame


def pair(ours: dict[str, dict], printed: dict[str, dict]) -> dict[tuple[str, str], dict]:
    """Put the paper's columns beside those of the same name, or of the miniature domain that stands for them.

    Columns are in the paper's order; ours without one come first, the average and the paper's others last. Without
    printed numbers the order is that of STANDS_FOR.
    """
    beside = {column: name for column in ours if (name := STANDS_FOR.get(column, column)) in printed}
    order = list(printed or STANDS_FOR)
    places, last = {name: place for place, name in enumerate(order)}, (-1, len(order))
    parts = {}
    columns = {column: places.get(beside.get(column, column), last[column == stats.AVERAGE]) for column in ours}
    for column in sorted(columns, key=columns.get):
        theirs = beside.get(column, column)
        name = column if theirs == column else f"{column} ({theirs})"
        parts |= {(name, "ours"): ours[column]} | ({(name, "paper"): printed[theirs]} if column in beside else {})
    return parts | {(name, "paper"): printed[name] for name in printed if name not in beside.values()}


def tables(record: Record) -> list[str]:
    """Return the tables of a record as HTML: each metric, then differences from each baseline."""
    metrics = record.by_metric() if record.kind != "matrix" else []
    frames = [numbers(metric) for metric in metrics]
    frames += [numbers(metrics[0], name) for name in record.baselines if len(metrics[0].rows) > 1]
    return [add_caption(frame.to_html(border=0, na_rep=""), frame.attrs["caption"]) for frame in frames]


def add_caption(table: str, text: str) -> str:
    """Add a caption to a table of HTML."""
    begin, rest = table.split(">", 1)
    return f"{begin}>\n  <caption>{escape(text)}</caption>{rest}"


def show(record: Record) -> None:
    """Display a record in a notebook: its claims, its tables, and its figure, which is stored beside the record."""
    verdicts = stats.judge(record, records.read_all(record.preset, record.paper_key))
    figure = figures.save(record, verdicts)
    html = TEMPLATE.section(record, verdicts, "")
    page = HTML(f'<div class="results tex2jax_ignore mathjax_ignore">{html}</div>')
    display(*(part for part in (figure, page) if part))


def show_study(*artefacts: str) -> None:
    """Display what preset study has of some artefacts of a paper: the verdicts on their claims."""
    stored = records.read_all("study", artefacts[0].partition("/")[0])
    for record in [record for record in stored if record.artefact in artefacts]:
        display(HTML(TEMPLATE.titled(record, stats.judge(record, stored))))


def conclude(preset: str, artefact: str) -> HTML:
    """Say in one sentence what came out: a record's main claim in this run and in preset study, or its main numbers."""
    record, name = records.read(paths.record(preset, artefact)), preset.partition("+")[0]
    verdicts = stats.judge(record, records.read_all(preset, record.paper_key))
    if not verdicts:
        return HTML(f"<p><b>What came out.</b> {escape(SENTENCES[record.kind](record))}</p>")
    main = next((verdict for verdict in verdicts if verdict.claim.primary), verdicts[0])
    parts = [state_result(record, main)]
    study = records.read_all("study", record.paper_key) if name != "study" else []
    for other in [other for other in study if other.artefact == artefact]:
        same = [verdict for verdict in stats.judge(other, study) if verdict.claim.text == main.claim.text]
        parts += [state_result(other, verdict) for verdict in same]
    parts.sort(key=lambda part: part.endswith(UNTESTED))
    if reported := state_verdict(record, main)[1]:
        parts.append(f"the paper reports {reported}")
    claim = main.claim.text[:1].upper() + main.claim.text[1:]
    return HTML(f"<p><b>What came out.</b> {escape(claim)}: {escape('; '.join(parts))}.</p>")


def state_result(record: Record, verdict: Verdict) -> str:
    """Return a verdict with its difference, preset and number of seeds, as a part of a sentence."""
    number, difference = len(verdict.estimate.values), state_verdict(record, verdict, short=True)[2]
    over = f"{number} seed{'s' * (number > 1)} of preset {record.preset.partition('+')[0]}"
    if number < stats.VERDICT_SEEDS:
        return f"{difference} with {over}, {UNTESTED}"
    return f"{verdict.outcome} with {over}, {difference}"


def state_extremes(record: Record) -> str:
    """Name the largest and the smallest entry of a matrix, its diagonal aside."""
    scores = sorted((s for s in record.scores if s.method != s.column), key=lambda score: score.value)
    least, most = scores[0], scores[-1]
    return (
        f"{most.method} gives {most.column} the largest weight, {most.value:.2f}, and {least.method} gives "
        f"{least.column} the smallest, {least.value:.2f}, where equal weights are {1 / (len(record.columns) - 1):.2f}."
    )


def state_profiles(record: Record) -> str:
    """Name the two domains whose question words differ most, and the two that differ least."""
    words = pd.DataFrame(record.payload["question_words"])
    shared = {pair: np.minimum(words[pair[0]], words[pair[1]]).sum() for pair in combinations(words, 2)}
    least, most = min(shared, key=shared.get), max(shared, key=shared.get)
    return (
        f"People ask most differently in {' and '.join(least)}, whose question words agree for {shared[least]:.0%} of "
        f"the questions, and most alike in {' and '.join(most)}, for {shared[most]:.0%}."
    )


def state_case(record: Record) -> str:
    """Say what both readers of a case answer, and how sure they are of the right answer."""
    before, after = record.payload["readers"].values()
    sure = [f"{reader['probabilities']['gold']:.2f}" for reader in (before, after) if "gold" in reader["probabilities"]]
    change = f"; the right answer's probability goes from {' to '.join(sure)}" if len(sure) > 1 else ""
    return f"The reader by itself answers “{before['answer']}”, the distilled one “{after['answer']}”{change}."


SENTENCES = {"matrix": state_extremes, "profile": state_profiles, "case": state_case}  # on records without claims


def page(preset: str, papers: Sequence[Any]) -> HTML:
    """Return the report of a preset for a notebook's cell: what was found, and all results, redrawn."""
    stored = records.read_all(preset)
    same = reproduced(stored, records.read_all(FIRST_SEED_OF[preset])) if preset in FIRST_SEED_OF else ("", [])
    sections = [(paper, judge_records(selected)) for paper in papers if (selected := select(stored, paper))]
    if not sections:
        return HTML(f"<p>There are no results of preset {preset} yet: run its notebooks first.</p>")
    return HTML(TEMPLATE.page(preset, sections, same))


def reproduced(stored: Iterable[Record], others: Iterable[Record]) -> tuple[str, list[str]]:
    """Say how many values of some records equal those of ``others`` with the same seed; list those that differ.

    Those of another kind of processor, which rounds differently, are summed up apart. Times, seeds of other draws and
    points that the others lack do not count. The text is empty where they have nothing in common.
    """
    ours, theirs = (
        {
            (record.artefact, score.metric, score.row, score.column, score.seed): (score.value, record)
            for record in some
            for score in record.scores
            if not str(score.metric).startswith(TIMES)
        }
        for some in (stored, others)
    )
    number, differing, elsewhere = 0, [], []
    for (*names, seed), (value, record) in ours.items():
        other, its_record = theirs.get((*names, seed), (None, record))
        if other is None or record.draws.get(str(seed)) not in (None, its_record.draws.get(str(seed))):
            continue
        if record.run.processor != its_record.run.processor:
            elsewhere.append(abs(value - other))
            continue
        number += 1
        if abs(value - other) > 1e-5:
            differing.append(f"{', '.join(filter(None, names))}, seed {seed}: {value:g} instead of {other:g}")
    sentences = [f"Reproduced: {number - len(differing):,} of {number:,} values."] if number else []
    if elsewhere:
        size = f"{len(elsewhere):,} values were made on another kind of processor, which rounds differently"
        sentences.append(f"{size}: they differ by {mean(elsewhere):.2g} on average.")
    return " ".join(sentences), differing


def export(preset: str, executed_notebook: Path) -> Path:
    """Write results/<preset>/report.html from the executed report notebook: one page, no code, images inside.

    The notebook keeps a link to it instead of the page, which would be there twice.
    """
    import nbformat  # both take seconds to import, and kernels import this module
    from nbconvert import HTMLExporter

    try:
        notebook = nbformat.read(executed_notebook, as_version=4)
    except FileNotFoundError:
        raise UserError(f"{executed_notebook}: there is no executed report notebook; run 99_report first") from None
    # The basic template has no scripts or fonts from elsewhere, so that the page reads the same without a network.
    exporter = HTMLExporter(template_name="basic", exclude_input=True, embed_images=True)
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = exporter.exclude_anchor_links = True
    shown, path = deepcopy(notebook), paths.report(preset)
    for cell in [cell for cell in shown.cells if "outputs" in cell]:
        # What is printed is about this machine, not that of the records
        cell.outputs = [output for output in cell.outputs if output.output_type != "stream"]
    body, _ = exporter.from_notebook_node(shown)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>Reading distillation, preset {preset}</title>"
    write_whole(path, f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n')
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if len(output.get("data", {}).get("text/html", "")) > LINKED:
            output.data = {"text/html": link_sections(output.data["text/html"], path.name), "text/plain": path.name}
    nbformat.write(notebook, executed_notebook)
    return path


def link_sections(page: str, name: str) -> str:
    """Return a list of links to the papers' sections of a page that is the file ``name`` above the notebook."""
    sections = re.findall(r'<h2 id="([^"]+)">(.+?)</h2>', page)
    items = "".join(f'<li><a href="../{name}#{key}">{title}</a></li>' for key, title in sections)
    return f'<p><a href="../{name}">{name}</a></p><ul>{items}</ul>'


def paper_verdicts(judged: Iterable[Judged]) -> list[tuple[Record, Verdict]]:
    """Select the verdicts on what a paper claims, our controls aside, each with its record, headlines first.

    A difference that several claims are about counts once (`stats.judge_all`).
    """
    pairs = [(record, verdict) for record, verdicts in judged for verdict in verdicts if not verdict.claim.control]
    counted = [(record, verdict) for record, verdict in pairs if not verdict.is_repeated]
    return sorted(counted, key=lambda pair: not pair[1].claim.primary)


def main_verdicts(paper: Any, judged: Iterable[Judged]) -> list[tuple[Record, Verdict]]:
    """Select the verdicts on a paper's main claims, each with its record."""
    places = {f"{paper.key}/{name}" for name in paper.headlines}
    headlines = [(record, verdict) for record, verdicts in judged for verdict in verdicts if verdict.claim.primary]
    return [(record, verdict) for record, verdict in headlines if record.artefact in places]


def summarise(paper: Any, judged: Iterable[Judged]) -> list[dict[str, str]]:
    """Return a line per table of a paper's main claims: the claim, the paper's difference, ours, the verdict."""
    lines, pairs = [], main_verdicts(paper, judged)
    for record, verdict in pairs:
        outcome, printed, ours = state_verdict(record, verdict)
        claim = paper.claim + f" ({table_of(record)})" * (len(pairs) > 1)
        lines.append({"claim": claim, "paper": printed or "none printed", "ours": ours, "verdict": outcome})
    return lines


def table_of(record: Record) -> str:
    """Return the number of a record's table or figure."""
    return record.label.split(", ")[-1]


def rank_methods(record: Record) -> str:
    """Return a line with a table's best methods by their means over its columns, and its baseline."""
    means = {row: each.mean for row in record.rows if (each := stats.estimate(record, [(1, row, record.columns)]))}
    best = sorted(means, key=means.get, reverse=True)[:RANKED]
    rows, baselines = (
        [f"{row} {means[row]:.{stats.decimals(record)}f}" for row in of] for of in (best, record.baselines)
    )
    text = f"[{record.subject}]({link(paths.report(record.preset))}#{anchor(record.artefact)})"
    return "; ".join([f"{text}, best: {', '.join(rows)}", *baselines]) + "."


def anchor(artefact: str) -> str:
    """Return the id of an artefact's section in the report."""
    return artefact.replace("/", "-")


def link(path: Path) -> str:
    """Return the address of a file of results for a link in README."""
    return path.relative_to(paths.results("").parent).as_posix()


def update_readme(papers: Sequence[Any]) -> list[Path]:
    """Write README's findings in each of WORLDS: the papers' main and other claims, and rankings of methods.

    Returns the paths written, none where there are no records.
    """
    stored = {
        world: {name: read for name in presets if (read := records.read_all(name))} for world, presets in WORLDS.items()
    }
    worlds = {world: judge_world(by_preset, papers) for world, by_preset in stored.items()}
    pairs = {
        world: [pair for each in judged.values() for pair in paper_verdicts(each)] for world, judged in worlds.items()
    }
    if not any(pairs.values()):
        return []
    main = {world: [main_verdicts(paper, judged[paper.key]) for paper in papers] for world, judged in worlds.items()}
    tallies = ". ".join(f"{world.capitalize()}: {shorten(tally(each))}" for world, each in pairs.items() if each)
    lines = [f"**Claims.** {tallies}. Main claims:", ""]
    lines += tabulate_main_claims(main, stored, papers)
    lines += ["", "±: 95 % interval. Smaller, less than half: significantly below the paper's difference, or its half."]
    for world, each in pairs.items():
        shown = [*chain.from_iterable(main[world])]
        refuted = [pair for pair in each if pair[1].outcome == stats.REFUTED and pair not in shown]
        if texts := [f"{verdict.claim.text}, {state_differences(record, verdict)}" for record, verdict in refuted]:
            lines += ["", f"Also refuted, {world}: {'; '.join(texts)}."]
    for world, judged in worlds.items():
        tables = {record.artefact: record for each in judged.values() for record, _ in each}
        names = [f"{paper.key}/{name}" for paper in papers for name in paper.rankings]
        if ranking := next((tables[name] for name in names if name in tables), None):
            lines += ["", f"{world.capitalize()}, {rank_methods(ranking)}"]
            break
    write_into_readme(BEGIN, "\n".join(["", *lines, ""]), END)
    return [README]


def judge_world(stored: dict[str, list[Record]], papers: Sequence[Any]) -> dict[str, list[Judged]]:
    """Judge each paper's records, those of each preset apart; a preset's first seed only fills in what it lacks."""
    groups: dict[str, dict[str, Record]] = {}
    for preset, of_preset in stored.items():
        group = groups.setdefault(FIRST_SEED_OF.get(preset, preset), {})
        for record in of_preset:
            group.setdefault(record.artefact, record)
    return {
        paper.key: [pair for group in groups.values() for pair in judge_records(select(group.values(), paper))]
        for paper in papers
    }


def tabulate_main_claims(
    main: dict[str, list[list[tuple[Record, Verdict]]]], presets: dict[str, Iterable[str]], papers: Sequence[Any]
) -> list[str]:
    """Return a Markdown table: each paper's main claim, its difference, and ours by ``main`` in each of the worlds."""
    heads = ["paper", "claim", "the paper"]
    for world, names in presets.items():
        heads.append(f"{world} ({', '.join(f'[`{name}`]({link(paths.report(name))})' for name in names)})")
    heads.append("notebook")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for paper, *by_world in zip(papers, *main.values(), strict=True):
        if not (pairs := list(chain.from_iterable(by_world))):
            continue
        title = re.sub(r": .* \((\w+)\)$", r": \1", paper.title)  # the method's short name alone
        name = f"[{title}]({paper.reference})" if paper.reference else title
        notebook = next(card.name for card in paper.notebooks if card.plans)
        copy = f"[{notebook}]({link(paths.notebooks('mini') / f'{notebook}.ipynb')})"
        printed: dict[str, str] = {}
        for record, verdict in pairs:
            printed.setdefault(table_of(record), state_verdict(record, verdict)[1] or "none printed")
        several = len(printed) > 1
        reported = "; ".join(f"{table}: " * several + text for table, text in printed.items())
        cells = []
        for each in by_world:
            is_mixed = len({record.preset for record, _ in each}) > 1
            texts = [f"{record.preset}: " * is_mixed + brief(record, verdict, several) for record, verdict in each]
            cells.append("; ".join(texts) or "not run")
        lines.append(f"| {' | '.join([name, paper.claim, reported, *cells, copy])} |")
    return lines


def brief(record: Record, verdict: Verdict, name_table: bool) -> str:
    """Return our difference and the verdict in few words, behind the table where there are several."""
    outcome, _, ours = state_verdict(record, verdict, short=True)
    return f"{table_of(record)}: " * name_table + f"{ours}: {shorten(outcome.lower())}"


def shorten(text: str) -> str:
    """Shorten the words of verdicts."""
    for words, fewer in SHORTER.items():
        text = text.replace(words, fewer)
    return text


def state_differences(record: Record, verdict: Verdict) -> str:
    """Return our difference, and the paper's if it prints one."""
    _, printed, ours = state_verdict(record, verdict, short=True)
    return ours + f" (paper {printed})" * bool(printed)


def write_into_readme(begin: str, text: str, end: str) -> None:
    """Replace the text between two marks in README."""
    before, _, rest = README.read_text(encoding="utf-8").partition(begin)
    write_whole(README, before + begin + text + end + rest.partition(end)[2])


def select(stored: Iterable[Record], paper: Any) -> list[Record]:
    """Select the records of a paper, in the order of its exhibits, others by name after them."""
    order = {f"{paper.key}/{exhibit.name}": place for place, exhibit in enumerate(paper.exhibits)}
    selected = (record for record in stored if record.artefact.startswith(f"{paper.key}/"))
    return sorted(selected, key=lambda record: (order.get(record.artefact, len(order)), record.artefact))


def judge_records(selected: Sequence[Record]) -> list[Judged]:
    """Judge the records of a paper together."""
    return list(zip(selected, stats.judge_all(selected), strict=True))


def headlines(judged: Iterable[Judged]) -> list[Judged]:
    """Select the verdicts on a paper's headlines, and behind them those on the controls beside them."""
    chief = [(record, [v for v in verdicts if v.claim.primary or v.claim.beside]) for record, verdicts in judged]
    return [(record, sorted(verdicts, key=lambda v: not v.claim.primary)) for record, verdicts in chief if verdicts]


def copies(paper: Any, preset: str) -> dict[str, str]:
    """Return the executed notebooks of a paper by name, with their places seen from the report of a preset."""
    files = [file for card in paper.notebooks for file in paths.find_results("mini", f"notebooks/{card.name}.ipynb")]
    return {file.stem: os.path.relpath(file, paths.report(preset).parent) for file in files}


def contents(judged: Iterable[Judged]) -> dict[str, str]:
    """Return what the contents call each artefact of a paper: a table's or figure's number, its subject, or both."""
    labels: dict[str, str] = {}
    for record, _ in judged:
        number = table_of(record)
        if not number.startswith(("Table", "Figure")):
            number = record.subject
        labels[record.artefact] = f"{number}: {record.subject}" if number in labels.values() else number
    return labels


def tally(pairs: Sequence[tuple[Record, Verdict]]) -> str:
    """Count verdicts, such as "3 supported; 1 refuted; 5 undecided", those without a number in the paper apart."""
    outcomes = Counter((verdict.printed is None, verdict.outcome) for _, verdict in pairs)
    counted, apart = (
        "; ".join(f"{outcomes[is_apart, word]} {word}" for word in figures.MARKS if outcomes[is_apart, word])
        for is_apart in (False, True)
    )
    return f"{counted} ({stats.NO_NUMBER}: {apart})".lstrip() if apart else counted


def count(judged: Iterable[Judged]) -> str:
    """Count the verdicts on the paper's claims, our controls aside; empty without any."""
    pairs = paper_verdicts(judged)
    return tally(pairs) if pairs else ""


def embed_figure(record: Record, verdicts: Sequence[Verdict]) -> str:
    """Draw a record anew and return its figure as a PNG in base 64, to stand inside a page; empty for none."""
    figure = figures.save(record, verdicts)
    return base64.b64encode(figure.png).decode() if figure else ""


TEMPLATE = jinja2.Template(
    Path(__file__).with_name("report.html").read_text(encoding="utf-8"), autoescape=True, trim_blocks=True
).make_module(
    {"KEY": KEY, "FIRST_SEED_OF": FIRST_SEED_OF, "MARKS": figures.MARKS}
    | {
        function.__name__: function
        for function in (anchor, copies, describe_verdict, tables, contents, count, embed_figure, headlines, summarise)
    }
)
