"""Results in words and tables: in notebooks, and as an HTML page per preset.

Nothing of it is written by hand; all is computed from records. A paper is a card (`helpers.papers.Paper`).
"""

import base64
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from html import escape
from itertools import combinations
from operator import attrgetter
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
from helpers.presets.load import PRESET_NAMES, read_paper_settings
from helpers.records import Claim, Record
from helpers.results import figures, stats
from helpers.results.stats import Verdict

Judged = tuple[Record, list[Verdict]]
OUTCOME_WORDS = (  # verdicts, the best first
    stats.SUPPORTED,
    stats.SUPPORTED_SMALLER,
    stats.FAILED,
    stats.SMALLER,
    stats.LESS_THAN_HALF,
    stats.REFUTED,
    stats.UNDECIDED,
    stats.UNTESTED,
    stats.OUTDATED,
)
VERDICT_KINDS = dict.fromkeys((stats.SUPPORTED, stats.SUPPORTED_SMALLER), "good")  # of verdicts, for their colours
VERDICT_KINDS |= {stats.REFUTED: "bad", stats.LESS_THAN_HALF: "less", stats.SMALLER: "less"}
VERDICT_KINDS |= dict.fromkeys((stats.UNDECIDED, stats.UNTESTED, stats.OUTDATED), "undecided")
UNITS = {"accuracy": "points", "score": "points", "points of accuracy": "points", "% of the weight": "%"}  # differences
FIRST_SEED_OF = {"mini": "study"}  # a preset, by the one that is its first seed
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
FIRST_REACH = 3  # times the end of the headline's interval, or the paper's difference: larger ones leave the scale
TOO_FEW = "too few for a verdict"
TOO_FEW_SEEDS = "too few seeds"
SAME = "no difference"
WITHOUT_NUMBER = f"{stats.NO_NUMBER}, any verdict"
LINKED = 100_000  # characters: a longer page is a link in the executed notebook
OF_INTERVALS = (
    "p values are corrected for several tests, intervals are not: one may exclude 0 where a claim is undecided or not "
    "supported. Neither is corrected for looks at fewer seeds."
)
KEY = (
    f"Each claim gets a paired t test over seeds, at 5 % after Holm's correction, and with fewer than "
    f"{stats.VERDICT_SEEDS} seeds no verdict. Supported: significantly above zero. Refuted: significantly below. "
    "Smaller than reported, less than half: significantly below the paper's own difference, or half of "
    "it. Against a baseline that failed: above zero, but the baseline is significantly below a student without a "
    "teacher, or, an ensemble, below one reader. No difference: the same score with every seed. A share of a gain is "
    "supported above half of the paper's. Where the paper prints no number, a difference too small to be printed is "
    "refuted. The first p value is against zero; of a share, against half of the paper's; of “at most 1”, against "
    "a change of 1. Where the paper's difference, or half of it, decides, the second is against that. "
    "Three groups are corrected apart: a paper's headlines, a table's other claims, and our controls. A difference "
    "of the same seeds that two claims are about counts once."
)


def state_verdict(record: Record, verdict: Verdict, short: bool = False) -> tuple[str, str, str]:
    """State a verdict, the difference that the paper reports (empty where it prints none), and ours.

    ``short``: with half of the interval behind "±", where ours is in its middle.
    """
    claim, outcome, ours, _, _, printed, _ = verdict
    first, reported = record.by_metric()[0], ""
    amount = "the same score" + f" with all {len(ours.values)} seeds" * (len(ours.values) > 1)
    form, unit = (".0f", "%") if claim.share else (f"+z,.{stats.decimals(first)}f", UNITS.get(first.unit, first.unit))
    if any(ours.values):
        halves = [f"{half:{form.removeprefix('+')}}" for half in (ours.high - ours.mean, ours.mean - ours.low)]
        half, intervals = "", []
        if ours.over and short and halves[0] == halves[1]:
            half = f" ± {halves[0]}"
        elif ours.over:
            intervals = ["95 % CI " * (not short) + f"{state_end(ours.low, form)} to {state_end(ours.high, form)}"]
        if claim.text in record.passages:
            low, high = (state_end(value, form) for value in record.passages[claim.text])
            intervals.append(f"over passages {low} to {high}")
        is_zero = not round(ours.mean, stats.decimals(first))  # as shown, which has no sign
        amount = f"{ours.mean:{form.removeprefix('+') if is_zero else form}}{half} {unit}"
        amount += f" ({'; '.join(intervals)})" * bool(intervals)
    if printed is None:
        outcome += f", {stats.NO_NUMBER}" * (not claim.control)
    elif claim.share:
        reported = f"{printed:.0f} % {claim.printed_for}".rstrip()
    else:
        digits = paper_decimals(record) if claim.printed is None else decimals_of([claim.printed])
        reported = f"{printed:+z.{digits}f} {claim.printed_for}".rstrip()
    return outcome.capitalize(), reported, amount


def state_end(value: float, form: str) -> str:
    """Return an end of an interval as text, with more decimals where these tell on which side of 0 it is."""
    text = f"{value:{form}}"
    if abs(value) < stats.ROUNDING or re.search("[1-9]", text):
        return text
    return np.format_float_positional(value, precision=1, fractional=False, trim="-", sign="+" in form)


def describe_verdict(record: Record, verdict: Verdict) -> str:
    """Say in a sentence what became of a claim, and what the paper reports."""
    outcome, printed, ours = state_verdict(record, verdict)
    if reason := reason_of(record, verdict):
        outcome += f", as {reason}"
    return f"{outcome}: “{verdict.claim.text}”, {ours}." + (f" The paper reports {printed}." if printed else "")


def reason_of(record: Record, verdict: Verdict) -> str:
    """Return why a claim is not tested; "" for one that is. One that is outdated may be in an unfit setting as well."""
    untested = verdict.claim.untested or record.untested
    reasons = {stats.UNTESTED: [untested], stats.OUTDATED: [record.outdated, untested]}
    return ", and ".join(filter(None, reasons.get(verdict.outcome, [])))


def paper_decimals(record: Record) -> int:
    """Return how many decimals the paper prints, two at most."""
    return decimals_of([number.value for number in record.paper])


def decimals_of(values: Sequence[float]) -> int:
    """Return how many decimals numbers have, two at most."""
    return next((digits for digits in (0, 1) if all(round(value, digits) == value for value in values)), 2)


def tabulate_claims(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return a row per claim: words, and the places of our difference and the paper's from 0 to 100 on one scale.

    A share, in percent, has words alone, and so has a number of the paper that is one. The scale ends at ``limit``;
    longer intervals are cut. It is one on which the headline, or the first claim, can be seen: of what is ``beyond``
    there is the side.
    """
    pairs = [(record, verdict) for record, verdicts in judged for verdict in verdicts]
    verdicts = [verdict for _, verdict in pairs]
    drawn = [verdict for verdict in verdicts if not verdict.claim.share]
    printed = [verdict.printed if not verdict.claim.printed_for.startswith("%") else None for verdict in verdicts]
    shown = [abs(verdict.estimate.mean) for verdict in drawn]
    shown += [abs(value) for value, verdict in zip(printed, verdicts, strict=True) if value and verdict in drawn]
    ends = [abs(end) for v in drawn for end in (v.estimate.low, v.estimate.high) if v.estimate.over]
    limit = min(max([*shown, *ends], default=0.0), figures.INTERVAL_REACH * max(shown, default=0.0)) or 1.0
    chief = next((verdict for verdict in drawn if verdict.claim.primary), drawn[0] if drawn else None)
    if chief and chief.estimate.over:
        ends = chief.estimate.low, chief.estimate.high, chief.printed or 0.0
        limit = min(limit, FIRST_REACH * max(map(abs, ends))) or 1.0
        if limit < max(shown) < 1.5 * limit:  # which is too little for an arrow
            limit = max(shown)

    def place(value: float) -> float:
        return round(50 + 48 * max(-1.0, min(1.0, value / limit)), 1)

    rows = []
    for (record, verdict), of_paper in zip(pairs, printed, strict=True):
        (_, reported, ours), each = state_verdict(record, verdict), verdict.estimate
        ends = (each.low, each.high) if each.over else (min(each.values), max(each.values))
        row = {"claim": "Control: " * verdict.claim.control + verdict.claim.text, "ours": ours.replace("95 % CI ", "")}
        row |= {"paper": reported or "no number" * (not verdict.claim.control)}
        word = name_outcome(verdict)
        row |= {"verdict": word.capitalize(), "kind": VERDICT_KINDS.get(verdict.outcome, ""), "limit": ""}
        is_shown = verdict.p is not None and word not in (SAME, TOO_FEW_SEEDS)
        row |= {"p": state_p(verdict.p) if is_shown else ""}
        half = " (half)" * (verdict.outcome == stats.LESS_THAN_HALF)
        row |= {"p_size": "" if verdict.p_size is None else f"{state_p(verdict.p_size)}{half}"}
        if word == SAME:
            row["kind"] = VERDICT_KINDS[stats.UNDECIDED]
        if verdict in drawn:
            low, high = map(place, ends)
            row |= {"limit": f"{limit:.1f}", "low": low, "width": round(high - low, 1)}
            values = [each.mean] if each.over else each.values
            row["places"] = [place(value) for value in values if abs(value) <= limit]
            row["beyond"] = sorted({np.sign(value) for value in values if abs(value) > limit})
            is_beyond = abs(of_paper or 0.0) > limit
            row["printed"] = None if of_paper is None or is_beyond else place(of_paper)
            row["printed_beyond"] = np.sign(of_paper) if is_beyond else 0
            row["of_other"] = bool(verdict.claim.printed_for)
        rows.append(row)
    return rows


def has_few(verdict: Verdict) -> bool:
    """Return whether a claim is undecided as it has too few seeds for a verdict."""
    return verdict.outcome == stats.UNDECIDED and len(verdict.estimate.values) < stats.VERDICT_SEEDS


def name_outcome(verdict: Verdict) -> str:
    """Name a verdict for tables, without what it compares with. Readers that are the same leave nothing to test."""
    if has_few(verdict):
        return TOO_FEW_SEEDS
    return shorten(verdict.outcome) if any(verdict.estimate.values) else SAME


def shorten(outcome: str) -> str:
    """Return a verdict without what it compares with."""
    return re.sub(" (than|of what is) reported", "", outcome)


def state_p(p: float) -> str:
    """Return a p value with three decimals, or four where they tell on which side of 5 % it is."""
    digits = 4 if round(p, 3) == stats.ALPHA else 3
    return f"{p:.{digits}f}" if p >= 0.0005 else "< 0.001"


def numbers(record: Record, baseline: str = "", sign: int = 1) -> pd.DataFrame:
    """Return one metric's scores with intervals as text and the paper's beside them.

    With a ``baseline`` these are our differences from it; -1 is their sign where it is what is above rows.
    """
    rows, estimates, ours, printed = [row for row in record.rows if row != baseline], [], {}, {}
    form, seeds = f"{'+' * bool(baseline)}z,.{stats.decimals(record)}f", Counter()
    groups = {stats.AVERAGE: record.columns} if record.average and len(record.columns) > 1 else {}
    groups |= {column: [column] for column in record.columns}
    for name, columns in groups.items():
        for row in rows:
            subtracted = [(-sign, baseline, columns)] if baseline else []
            if each := stats.estimate(record, [(sign, row, columns), *subtracted]):
                ends = f" ± {each.half:{form}}"
                if baseline:  # as the ends of a difference tell on which side of 0 they are
                    ends = f" ({state_end(each.low, form)} to {state_end(each.high, form)})"
                ours.setdefault(name, {})[row] = f"{each.mean:{form}}{ends if each.low < each.high else ''}"
                estimates.append(each)
                seeds[row] = max(seeds[row], len(each.values))
    for number in record.paper if not baseline else ():
        text = number.text or f"{number.value:,.{paper_decimals(record)}f}"
        printed.setdefault(number.column, {})[find_row(number.row, rows)] = text
    frame = pd.DataFrame(pair(ours, printed, list(dict.fromkeys(number.column for number in record.paper))))
    frame = frame.reindex(list(dict.fromkeys([*rows, *frame.index])))
    few, theirs = figures.name_few_seeds(seeds), {number.row for number in record.paper}
    fewer: dict[int, dict[str, None]] = {}  # what baselines have with these seeds, by their number
    if not baseline and record.baselines and (record.average or len(record.columns) == 1):
        for row in few:
            if row != record.baselines[0] and (text := compare_on_seeds(record, row)):
                fewer.setdefault(seeds[row], {})[text] = None
    stands = {row: f" ({name})" for row, name in STANDS_FOR.items() if name in theirs}
    names = {row: figures.readable(row) + stands.get(row, "") + few.get(row, "") for row in frame.index}
    frame = frame.rename(index=names)
    if not printed:
        frame = frame.droplevel(1, axis=1)
    over = figures.intervals(estimates).replace("every seed", "means")
    over += "".join(f"; with {number} seeds {', '.join(of_number)}" for number, of_number in sorted(fewer.items()))
    unit = figures.name_difference(figures.readable(baseline), sign, record.unit) if baseline else record.unit
    frame.attrs["caption"] = f"{unit} ({'± ' * (not baseline and any(each.over for each in estimates))}{over})"
    return frame


def compare_on_seeds(record: Record, row: str) -> str:
    """State the average of a row's baseline with the row's seeds, as that with all seeds is of other draws."""
    seeds = {score.seed for score in record.scores if score.row == row}
    same = record.model_copy(update={"scores": [score for score in record.scores if score.seed in seeds]})
    below = record.compared_with.get(row, record.baselines[0])
    average, name = stats.estimate(same, [(1, below, record.columns)]), figures.readable(below).partition(" (")[0]
    return f"{name} has {average.mean:.{stats.decimals(record)}f}" if average else ""


def find_row(printed: str, rows: Sequence[str]) -> str:
    """Return our row for a row of the paper: that of its name, or of its stand-in."""
    return next((row for row in rows if STANDS_FOR.get(row) == printed), printed)


def pair(ours: dict[str, dict], printed: dict[str, dict], order: Sequence[str] = ()) -> dict[tuple[str, str], dict]:
    """Put the paper's columns beside those of the same name, or of the miniature domain that stands for them.

    The average comes first. Columns are in the ``order`` of the paper's, after ours without one and before the paper's
    others. Without it the order is that of STANDS_FOR.
    """
    stand = {column: STANDS_FOR.get(column, column).lower() for column in ours}
    names = {name.lower(): name for name in printed}
    beside = {column: names[name] for column, name in stand.items() if name in names}
    ranks = [name.lower() for name in order or STANDS_FOR.values()]
    places = {column: ranks.index(name) if name in ranks else -1 for column, name in stand.items()}
    places |= {stats.AVERAGE: -2}
    parts = {}
    for column in sorted(ours, key=places.get):
        theirs = beside.get(column, column)
        name = column if theirs == column else f"{column} ({theirs})"
        parts |= {(name, "ours"): ours[column]} | ({(name, "paper"): printed[theirs]} if column in beside else {})
    return parts | {(name, "paper"): printed[name] for name in printed if name not in beside.values()}


def tables(record: Record) -> dict[str, str]:
    """Return the tables of a record as HTML by name: each metric, then differences from each baseline.

    A figure that is no curve of scores has the numbers that it shows.
    """
    if record.kind in ("matrix", "heatmaps", "profile", "case"):
        frames = figures.tabulate(record)
    else:
        metrics = record.by_metric()
        frames = {}
        for metric in metrics:
            frames[f"numbers: {metric.unit}"], others = part_columns(numbers(metric))
            if len(others.columns):
                frames[f"{metric.unit} on the paper's other columns"] = others
        if len(metrics[0].rows) > 1:
            for place, name in enumerate(record.baselines):
                sign = 1 if place else figures.find_sign(record)  # the figure has the first
                frames[figures.name_difference(figures.readable(name), sign)] = numbers(metrics[0], name, sign)
    return {
        name: add_caption(frame.to_html(border=0, na_rep=""), frame.attrs.get("caption", name))
        for name, frame in frames.items()
    }


def part_columns(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Part a table into the columns that have scores of ours, and the paper's others."""
    ours = {name for name, *of in frame.columns.to_flat_index() if of == ["ours"]}
    if frame.columns.nlevels == 1 or not ours:
        return frame, frame.iloc[:, :0]
    others = frame[[name for name in frame.columns if name[0] not in ours]]
    frame, others = frame.drop(columns=others.columns).dropna(how="all"), others.dropna(how="all").droplevel(1, axis=1)
    others.attrs.clear()  # the caption is that of ours
    return frame, others


def add_caption(table: str, text: str) -> str:
    """Add a caption to a table of HTML."""
    begin, rest = table.split(">", 1)
    return f"{begin}>\n  <caption>{escape(text)}</caption>{rest}"


def show(record: Record) -> None:
    """Display a record in a notebook: its claims, its figure, which the report stores, and its tables."""
    verdicts = stats.judge(record, records.read_all(record.preset, record.paper_key))
    pages = HTML(TEMPLATE.titled(record, verdicts)), HTML(TEMPLATE.below(record))
    display(*filter(None, (pages[0], figures.draw_record(record), pages[1])))


def show_study(*artefacts: str) -> None:
    """Display what preset study has of some artefacts of a paper: verdicts on claims, curves, tables without claims.

    Of the first its figure is shown too, as that of one seed may mislead.
    """
    for record, verdicts in judge_study(artefacts):
        display(HTML(TEMPLATE.titled(record, verdicts)))
        if record.kind == "curve" or (verdicts and record.artefact == artefacts[0]):
            display(*filter(None, [figures.draw_record(record)]))
        elif not verdicts:
            display(HTML(TEMPLATE.below(record)))


def preview_study(*artefacts: str) -> None:
    """Display in a sentence each what preset study found of some artefacts of a paper that have claims."""
    texts = [state_outcome(record, verdicts) for record, verdicts in judge_study(artefacts)]
    display(*(HTML(f"<p><b>What preset study found</b> {text}</p>") for text in texts))


def judge_study(artefacts: Sequence[str]) -> list[Judged]:
    """Judge those records of some artefacts of a paper that preset study has, in their order."""
    stored = {record.artefact: record for record in records.read_all("study", artefacts[0].partition("/")[0])}
    return [(stored[name], stats.judge(stored[name], stored.values())) for name in artefacts if name in stored]


def conclude(preset: str, artefact: str) -> HTML:
    """Say in one sentence what came out: a record's main claim in this run and in preset study, or its main numbers."""
    record = records.read(paths.record(preset, artefact))
    verdicts = stats.judge(record, records.read_all(preset, record.paper_key))
    if not verdicts:
        return HTML(f"<p><b>What came out.</b> {escape(state_content(record))}</p>")
    of_study = judge_study([artefact]) if preset.partition("+")[0] != "study" else []
    return HTML(f"<p><b>What came out</b> {state_outcome(record, verdicts, of_study)}</p>")


def state_outcome(record: Record, verdicts: Sequence[Verdict], others: Iterable[Judged] = ()) -> str:
    """State in HTML a record's main claim and the verdict on it, and those on the same claim of ``others``."""
    main = next((verdict for verdict in verdicts if verdict.claim.primary), verdicts[0])
    alike = [(other, v) for other, of_other in others for v in of_other if v.claim.text == main.claim.text]
    parts = [state_result(*pair) for pair in [(record, main), *alike]]
    parts.sort(key=lambda part: TOO_FEW in part)
    reported = state_verdict(record, main)[1]
    paper = [f"The paper reports {reported}."] if reported else []
    if len(main.estimate.values) < stats.VERDICT_SEEDS and any(would_mislead(main, verdict) for _, verdict in alike):
        parts.append("By itself it would have misled.")
    sentences = [f"({record.title}). Claim: {main.claim.text}.", *paper, *parts]
    return escape(" ".join(sentences))


def would_mislead(few: Verdict, many: Verdict) -> bool:
    """Return whether few seeds show half of the paper's difference where many support none, or none where they do."""
    kind = VERDICT_KINDS.get(many.outcome)
    if kind == "good":
        return few.estimate.mean <= 0
    return kind in ("less", "bad") and few.estimate.mean > (few.printed or 0.0) / 2


def state_result(record: Record, verdict: Verdict) -> str:
    """Return a verdict with its difference, preset and number of seeds, and why it is not tested, as a sentence."""
    number, difference = len(verdict.estimate.values), state_verdict(record, verdict, short=True)[2]
    outcome = TOO_FEW if number < stats.VERDICT_SEEDS else verdict.outcome
    reason = reason_of(record, verdict)
    seeds = f"{number} seed{'s' * (number > 1)}"
    because = f" ({reason})" * bool(reason)
    return f"Preset {record.preset.partition('+')[0]}, {seeds}: {difference}, {outcome}{because}."


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
    facts = [note for note in record.notes if note.startswith("of ") or ", seed " in note]
    counts = "".join(f" {note[0].upper()}{note[1:]}." for note in facts)
    return f"The reader by itself answers “{before['answer']}”, the distilled one “{after['answer']}”{change}.{counts}"


SENTENCES = {"matrix": state_extremes, "profile": state_profiles, "case": state_case}  # on records without claims


def state_content(record: Record) -> str:
    """Say in a sentence what a record without claims shows; "" for a kind that has none."""
    return SENTENCES[record.kind](record) if record.kind in SENTENCES else ""


def page(preset: str, papers: Sequence[Any]) -> HTML:
    """Return the report of a preset for a notebook's cell: what was found, and all results, redrawn."""
    stored = records.read_all(preset)
    same = reproduced(stored, records.read_all(FIRST_SEED_OF[preset])) if preset in FIRST_SEED_OF else ("", [])
    sections = [(paper, judge_records(selected)) for paper in papers if (selected := select(stored, paper))]
    if not sections:
        return HTML(f"<p>There are no results of preset {preset} yet: run its notebooks first.</p>")
    for record in stored:
        figures.save(record)
    # What has no claims, as the corpora, comes first, then the best
    sections.sort(key=lambda section: (any(of for _, of in section[1]), rank_best(main_verdicts(*section))))
    return HTML(TEMPLATE.page(preset, sections, same))


def rank_best(pairs: Iterable[tuple[Record, Verdict]]) -> int:
    """Return the place of the best verdict among `OUTCOME_WORDS`, or the one behind them where there is none."""
    return min((OUTCOME_WORDS.index(verdict.outcome) for _, verdict in pairs), default=len(OUTCOME_WORDS))


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


def headline_verdicts(paper: Any, judged: Iterable[Judged]) -> list[tuple[Record, Verdict]]:
    """Select all verdicts of the records that test a paper's main claims, each with its record."""
    places = {f"{paper.key}/{name}" for name in paper.headlines}
    return [(record, verdict) for record, verdicts in judged if record.artefact in places for verdict in verdicts]


def main_verdicts(paper: Any, judged: Iterable[Judged]) -> list[tuple[Record, Verdict]]:
    """Select the verdicts on a paper's main claims, each with its record.

    Where the paper prints another number of such a difference, as in its text, the verdict on that follows if it is
    another.
    """
    pairs = headline_verdicts(paper, judged)
    main, others = [(record, verdict) for record, verdict in pairs if verdict.claim.primary], []
    for record, verdict in pairs:
        alike = [one.outcome for same, one in main if same is record and are_alike(one.claim, verdict.claim)]
        if alike and verdict.outcome not in alike:
            others.append((record, verdict))
    return main + others


def are_alike(one: Claim, other: Claim) -> bool:
    """Return whether two claims are about the same difference, of which the paper may print several numbers."""
    about = attrgetter("above", "below", "columns", "than", "within", "control", "printed_for")
    return about(one) == about(other)


def limiting_controls(paper: Any, judged: Iterable[Judged]) -> list[tuple[Record, Verdict]]:
    """Select the verdicts on the controls that limit a paper's main claims, each with its record."""
    limits = {(f"{paper.key}/{name}", above, below) for name, above, below in paper.limits}
    controls = [(r, v) for r, verdicts in judged for v in verdicts if v.claim.control and not v.claim.than]
    return [(r, v) for r, v in controls if (r.artefact, v.claim.above, v.claim.below) in limits]


def split_controls(verdicts: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Split verdicts into those on the paper's claims, with the controls beside headlines, and those on our others.

    Both are empty where the paper claims nothing.
    """
    parts = [], []
    for verdict in verdicts:
        parts[verdict.claim.control and not verdict.claim.beside].append(verdict)
    has_claims = any(not verdict.claim.control for verdict in parts[0])
    return parts if has_claims else ([], [])


def tabulate_main_claims(sections: Iterable[tuple[Any, list[Judged]]]) -> list[dict[str, Any]]:
    """Return the rows of all papers' main claims, and of controls that limit these, on one scale.

    Each has its paper, the number of its table where it is a main claim, and why it is not tested, if so. The paper's
    caveat is of the miniature world.
    """
    claims = []
    for paper, judged in sections:
        claims += [(paper, *pair) for pair in (*main_verdicts(paper, judged), *limiting_controls(paper, judged))]
    rows = tabulate_claims([(record, [verdict]) for _, record, verdict in claims])
    for row, (paper, record, verdict) in zip(rows, claims, strict=True):
        is_control = verdict.claim.control
        row |= {"card": paper, "table": "" if is_control else table_of(record)}
        if is_control and (condition := condition_of(record)):
            row["claim"] += f" with {condition}"
        row["reason"] = "" if is_control else reason_of(record, verdict)
        row["caveat"] = paper.caveat if record.preset in {*FIRST_SEED_OF, *FIRST_SEED_OF.values()} else ""
    return rows


def state_main_verdicts(rows: Iterable[dict[str, Any]]) -> str:
    """State the verdict on each paper's first main claim, of `tabulate_main_claims`; "" where all have the same."""
    verdicts: dict[str, str] = {}
    for row in rows:
        if row["table"]:
            verdicts.setdefault(row["card"].method, row["verdict"].lower())
    methods = {word: [name for name in verdicts if verdicts[name] == word] for word in dict.fromkeys(verdicts.values())}
    parts = [f"{', '.join(names)} {word}" for word, names in methods.items()]
    return f"Main claims: {'; '.join(parts)}." if len(parts) > 1 else ""


def table_of(record: Record) -> str:
    """Return the number of a record's table or figure."""
    return record.label.split(", ")[-1]


def condition_of(record: Record) -> str:
    """Return what a record's table is "with", such as equal steps; "" for nothing."""
    return table_of(record).partition(" with ")[2]


def anchor(artefact: str) -> str:
    """Return the id of an artefact's section in the report."""
    return artefact.replace("/", "-")


def select(stored: Iterable[Record], paper: Any) -> list[Record]:
    """Select the records of a paper, in the order of its exhibits, others by name after them."""
    order = {f"{paper.key}/{exhibit.name}": place for place, exhibit in enumerate(paper.exhibits)}
    selected = (record for record in stored if record.artefact.startswith(f"{paper.key}/"))
    return sorted(selected, key=lambda record: (order.get(record.artefact, len(order)), record.artefact))


def state_earlier_settings(record: Record, paper: Any) -> str:
    """State with which earlier settings of a paper's own a record was made; "" where they are still the preset's."""
    stored, changes = record.run.parameters.get("preset"), []
    if record.preset not in PRESET_NAMES or not isinstance(stored, dict):
        return ""
    topics = [notebook.name.partition("_")[2] for notebook in paper.notebooks]
    today = read_paper_settings(record.preset, paper.key, topics)
    for (section, key), values in today.items():
        before = stored.get(section, {}).get(key)
        if before is not None and before not in values:
            changes.append(f"{section}.{key} {before:g}, now {values[0]:g}")
    return f"Made with earlier settings: {'; '.join(changes)}." if changes else ""


def judge_records(selected: Sequence[Record]) -> list[Judged]:
    """Judge the records of a paper together."""
    return list(zip(selected, stats.judge_all(selected), strict=True))


def copies(paper: Any, preset: str) -> dict[str, str]:
    """Return the executed notebooks of a paper by name and preset, mini's before study's, seen from a report."""
    patterns = [f"notebooks/{card.name}.ipynb" for card in paper.notebooks]
    files = [file for pattern in patterns for name in ("study", "mini") for file in paths.find_results(name, pattern)]
    places = {file.stem: file for file in files}
    return {
        f"{name} ({file.parent.parent.name})": os.path.relpath(file, paths.report(preset).parent)
        for name, file in places.items()
    }


def contents(judged: Iterable[Judged], method: str) -> dict[str, str]:
    """Return what the contents call each artefact of a paper: a table's or figure's number, its subject, or both.

    Titles of the paper's artefacts begin with its ``method``.
    """
    labels: dict[str, str] = {}
    for record, _ in judged:
        name = table_of(record)
        if record.label.startswith(method) and not name.startswith(("Table", "Figure")):  # one of ours
            name = record.subject
        labels[record.artefact] = f"{name}: {record.subject}" if name in labels.values() else name
    return labels


def count_verdicts(sections: Iterable[tuple[Any, list[Judged]]]) -> pd.DataFrame:
    """Count the verdicts on each paper's claims, our controls aside: a row per paper with any, a column per verdict.

    Claims without a number in the paper are counted apart.
    """
    counts = {}
    for paper, judged in sections:
        if pairs := paper_verdicts(judged):
            words = (WITHOUT_NUMBER if verdict.printed is None else name_outcome(verdict) for _, verdict in pairs)
            counts[paper.method] = Counter(words)
    frame = pd.DataFrame.from_dict(counts, orient="index").fillna(0).astype(int)
    return frame[sort_outcomes(frame)]


def count_outcomes(verdicts: Sequence[Verdict]) -> str:
    """Count verdicts in words, such as "2 supported, 4 undecided"."""
    counts = Counter(map(name_outcome, verdicts))
    return ", ".join(f"{counts[word]} {word}" for word in sort_outcomes(counts))


def sort_outcomes(words: Iterable[str]) -> list[str]:
    """Sort the names of verdicts, the best first."""
    return sorted(words, key=[*map(shorten, OUTCOME_WORDS), TOO_FEW_SEEDS, SAME, WITHOUT_NUMBER].index)


def sum_up(counts: pd.DataFrame) -> str:
    """Return how many claims with a number in the paper have which verdict, as a sentence; "" where there is none."""
    numbered = counts.drop(columns=WITHOUT_NUMBER, errors="ignore").sum()
    parts: dict[str, dict[str, int]] = {}  # such as smaller, of not supported
    for word, number in numbered.items():
        word, _, part = word.partition(", ")
        parts.setdefault(word, {})[part] = number
    words = []
    for word, of_word in parts.items():
        more = ", ".join(f"{number} {part}" for part, number in of_word.items() if part and number)
        words += [f"{sum(of_word.values())} {word}{f' ({more})' * bool(more)}"] * any(of_word.values())
    sentence = f"Of {numbered.sum()} claims with a number in the paper: {', '.join(words)}."
    sentence += " A difference of the same seeds counts once."
    return sentence if words else ""


def tally(counts: pd.DataFrame) -> str:
    """Return what `count_verdicts` counts as HTML, with the sum over papers; "" where there is none."""
    if counts.empty:
        return ""
    frame = pd.concat([counts.sum().rename("all").to_frame().T, counts])
    caption = "claims of the papers, by verdict; a difference of the same seeds counts once"
    return add_caption(frame.replace(0, "").T.to_html(border=0), caption)


def embed_figure(record: Record) -> str:
    """Return a record's stored figure in base 64, to stand inside a page; empty for none."""
    path = paths.record(record.preset, record.artefact, "svg")
    return base64.b64encode(path.read_bytes()).decode() if path.is_file() else ""


TEMPLATE = jinja2.Template(
    Path(__file__).with_name("report.html").read_text(encoding="utf-8"), autoescape=True, trim_blocks=True
).make_module(
    {"KEY": KEY, "OF_INTERVALS": OF_INTERVALS, "FIRST_SEED_OF": FIRST_SEED_OF, "TOO_FEW_SEEDS": TOO_FEW_SEEDS}
    | {"METHODS": figures.read_methods(), "readable": figures.readable}
    | {
        function.__name__: function
        for function in (
            *(anchor, contents, copies, embed_figure, main_verdicts, split_controls, state_content),
            *(state_earlier_settings, tabulate_main_claims, table_of, tables, tabulate_claims),
            *(count_outcomes, count_verdicts, state_main_verdicts, sum_up, tally),
        )
    }
)
