"""What all presets found together: README's findings, results/README.md, and what to use in which situation.

All is computed from stored records and their verdicts.
"""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from helpers import paths, records
from helpers.files import write_whole
from helpers.records import Claim, Record
from helpers.results import figures, report, stats
from helpers.results.report import FIRST_SEED_OF, Judged
from helpers.results.stats import Verdict

README = paths.ROOT / "README.md"
BEGIN, END = "<!-- generated-findings -->", "<!-- end-findings -->"  # in README, by ``python -m helpers figures``
WORLDS = {"miniature world": ("study", "mini"), "public corpora": ("lab-large", "lab")}  # what presets run on
MINIATURE, PUBLIC = WORLDS
CONTROL, COST = "control", "steps"
OF_VERDICTS = (
    "±: 95 % interval. [*Supported*](docs/statistics.md): significantly above zero. "
    "*Not supported*: significantly below the paper's gain, not above zero."
)
OF_UNTESTED = f"*{stats.UNTESTED.capitalize()}*: [unfit setting](docs/regimes.md)."
OF_LAB = "`lab`'s sizes and A2D's sixth seed came after test scores, which favours *supported*."
ADVICE_SUMMARY = (
    "Hints from the miniature world, whose domains disagree about answers. With several domains the best single reader "
    "by mean F1 is distilled from an ensemble. By exact match readers per domain (IMM, BAM) lead."
)
ADVICE_WORDS = (
    "Steps: times the baseline's. **Bold**: significant after correction. [More](results/README.md#what-to-use)."
)
OF_GAINS = "A gain without a verdict is supported. EM: exact match, without a verdict. Steps: times the replaced one's."
OF_NEEDS = (
    f"*Seeds needed*: so many would find the paper's number in {100 * stats.POWER:.0f} % of repetitions, by the spread "
    "of ours, where these are fewer."
)
NOT_JUDGED = (stats.UNTESTED, stats.OUTDATED)
SUCCESSES = (stats.SUPPORTED, stats.SUPPORTED_SMALLER)
NOT_SUPPORTED = "not supported"
NOT_RUN = "not run"
SHORT_OUTCOMES = (stats.SUPPORTED, NOT_SUPPORTED, stats.UNDECIDED, *NOT_JUDGED, stats.FAILED)
JUDGED = {"color": figures.COLORS[0]}  # how our differences are drawn
UNJUDGED = {"color": figures.SOFT, "fillstyle": "none"}
OF_GENERATED = "generated "  # before the name of a corpus
NO_BREAK = "\N{NO-BREAK SPACE}"
PICTURES = ("headlines.svg", "headlines-narrow.svg")  # on a page, and on a phone
PICTURE = (
    f'<picture><source media="(max-width:600px)" srcset="results/{PICTURES[1]}">'
    f'<img src="results/{PICTURES[0]}" alt="Our gains and the papers\'"></picture>'
)
WIDE = 10.0  # points on each side with which a difference is no hint
MOST_COLUMNS = 9  # of scores in results/README.md: of wider tables the average alone
COLUMNS = ["situation", "train", "instead of", MINIATURE, CONTROL, PUBLIC, COST]
Pairs = list[tuple[Record, Verdict]]
Findings = dict[str, dict[str, list[Judged]]]  # by world and paper
Headlines = list[tuple[Any, dict[str, Pairs]]]  # papers, with the verdicts on their main claims by world


def judge_worlds(papers: Sequence[Any]) -> Findings:
    """Judge the stored records of each world's presets, each preset apart; a first seed fills in what is lacking."""
    findings: Findings = {}
    for world, presets in WORLDS.items():
        groups: dict[str, dict[str, Record]] = {}
        for preset in presets:
            group = groups.setdefault(FIRST_SEED_OF.get(preset, preset), {})
            for record in records.read_all(preset):
                group.setdefault(record.artefact, record)
        findings[world] = {
            paper.key: [
                pair for group in groups.values() for pair in report.judge_records(report.select(group.values(), paper))
            ]
            for paper in papers
        }
    return findings


def update_documents(papers: Sequence[Any], advice: Sequence[Any]) -> list[Path]:
    """Write README's findings and results/README.md. Returns their paths, none where there are no records."""
    findings = judge_worlds(papers)
    if not any(chain.from_iterable(by_paper.values() for by_paper in findings.values())):
        return []
    headlines = rank_headlines(findings, papers)
    words = [OF_VERDICTS, OF_UNTESTED]
    words += [OF_LAB] * (not list_outcomes(headlines, PUBLIC).isdisjoint(SUCCESSES))
    parts = [state_conclusion(headlines), PICTURE, state_main(headlines), *words]
    parts.append(state_advice(findings, papers, advice))
    text = "\n\n".join(filter(None, parts)).replace(" ± ", f"{NO_BREAK}±{NO_BREAK}")
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    write_whole(README, f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    overview, *pictures = (paths.results("") / name for name in ("README.md", *PICTURES))
    best_first = [paper for paper, _ in headlines]
    ranked = best_first + [one for one in papers if one not in best_first]
    write_whole(overview, describe_results(findings, ranked, recommend(findings, papers, advice)))
    for picture, is_narrow in zip(pictures, (False, True), strict=True):
        write_whole(picture, figures.content(draw_headlines(headlines, is_narrow), "svg"))
    return [README, overview, *pictures]


def rank_headlines(findings: Findings, papers: Sequence[Any]) -> Headlines:
    """Collect the verdicts on the papers' main claims, and on controls that limit these, the best paper first."""
    ranked = []
    for paper in papers:
        by_world = {world: report.main_verdicts(paper, by_paper[paper.key]) for world, by_paper in findings.items()}
        if pairs := list(chain.from_iterable(by_world.values())):
            for world, by_paper in findings.items():
                by_world[world] += report.limiting_controls(paper, by_paper[paper.key])
            ranked.append((report.rank_best(pairs), (paper, by_world)))
    return [headline for _, headline in sorted(ranked, key=itemgetter(0))]


def list_outcomes(headlines: Headlines, world: str = "") -> set[str]:
    """List which verdicts there are on main claims in a world, or in all."""
    parts = [by_world[world] if world else chain.from_iterable(by_world.values()) for _, by_world in headlines]
    return {verdict.outcome for _, verdict in chain.from_iterable(parts)}


def draw_headlines(headlines: Headlines, is_narrow: bool = False) -> figures.Picture:
    """Draw our differences for the papers' main claims, a line each, and hollow what the papers report.

    Outdated ones are left out. In a narrow figure, for a phone, words stand above what they are about, not beside it.
    """
    headlines = [(paper, {world: drop_outdated(by_world[world]) for world in WORLDS}) for paper, by_world in headlines]
    number = sum(not is_of_text(pair[1]) for _, by_world in headlines for pair in chain(*by_world.values()))
    with figures.plain_style():
        line, gap = (0.33, 0.27) if is_narrow else (0.19, 0.12)
        figure = figures.Picture(line * number + gap * len(headlines) + 1.1, width=3.7 if is_narrow else 7.4)
        ax = figure.subplots()
        place, middles, ends, lines = 0.0, {}, [], []
        for paper, by_world in headlines:
            begin, of_all = place, list(chain.from_iterable(by_world.values()))
            for pairs in by_world.values():
                for record, verdict in pairs:
                    if is_of_text(verdict):  # the difference above, for which the paper prints another number
                        draw_printed(ax, place - 1, verdict)
                        continue
                    names = ", ".join([record.preset, *tell_apart(record, verdict, pairs, of_all)])
                    names = names.replace(OF_GENERATED, "")  # as study's all are
                    others = [text for text in state_other_printed(record, verdict, pairs) if ":" in text]
                    words = f"{names}: {shorten_outcome(verdict.outcome)}" + f" ({', '.join(others)})" * bool(others)
                    difference = brief(record, verdict)[1]
                    ends += draw_line(ax, place, verdict)
                    if is_narrow:
                        write_words(ax, f"{difference}  {words}", (0, place), (0, 7))
                        ax.plot([0, 0], [place - 0.2, place + 0.2], color=figures.SOFT, linewidth=0.8)
                    else:
                        write_words(ax, difference, (1, place), (56, 0), ha="right", va="center")
                        write_words(ax, words, (1, place), (64, 0), va="center")
                    lines.append((place, verdict.estimate))
                    place += 1
            if is_narrow:
                write_words(ax, f"{paper.method}, {paper.name}", (0, begin - 0.5), (0, 7), weight="bold")
            else:
                middles[f"{paper.method}\n{paper.name}"] = (begin + place - 1) / 2
            place += gap / line
        ax.set_yticks([*middles.values()], [*middles])
        ax.set(ylim=(place - 1.1, -0.5), xlim=(least := min(ends) - 0.5, most := max(ends) + 0.5))
        ax.set_xticks(range(math.ceil(least), math.floor(most) + 1))
        for place, ours in lines:  # what goes on beyond the picture
            beyond = [least] * (ours.low < least) + [most] * (ours.high > most)
            for end in beyond:
                ax.plot(end, place, marker="<" if end == least else ">", color=figures.SOFT, clip_on=False)
        ax.tick_params(axis="y", length=0, pad=8)  # beside arrows
        if is_narrow:  # or lines go through words
            ax.spines["left"].set_visible(False)
        else:
            ax.grid(axis="x", color=figures.GRID)
            ax.axvline(0, color=figures.SOFT, linewidth=0.8)
        ax.set_xlabel("gain in points (95 % interval over seeds)")
        papers = {"the paper": figures.PAPER_COLOR, "the paper, in another setting": figures.SOFT}
        handles = [Line2D([], [], color=color, label=word, **figures.HOLLOW) for word, color in papers.items()]
        ours = {"ours": JUDGED, "ours, not judged": UNJUDGED}
        handles += [Line2D([], [], marker="o", label=word, **mark) for word, mark in ours.items()]
        legend = {"ncols": 2, "fontsize": 8} if is_narrow else {"ncols": 4}
        figure.legend(handles=handles, loc="outside upper left", columnspacing=1, **legend)
    return figure


def drop_outdated(pairs: Pairs) -> Pairs:
    """Leave out what is outdated."""
    return [pair for pair in pairs if pair[1].outcome != stats.OUTDATED]


def write_words(ax: Axes, words: str, place: tuple[float, float], points: tuple[float, float], **style: str) -> None:
    """Write words some points away from a line's left (0) or right end (1)."""
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    ax.annotate(re.sub("^-", "−", words), place, points, **where, fontsize=8, **style)


def draw_line(ax: Axes, place: float, verdict: Verdict) -> list[float]:
    """Draw our difference and the paper's on a line.

    Returns what has to be in the picture: means, the paper's difference, and the interval of what is judged.
    """
    is_judged, ours = shorten_outcome(verdict.outcome) not in (*NOT_JUDGED, stats.FAILED), verdict.estimate
    figures.dot(ax, place, ours, **(JUDGED if is_judged else UNJUDGED))
    draw_printed(ax, place, verdict)
    ends = [ours.low, ours.high] if is_judged and ours.over else []
    return [ours.mean, *ends, *([] if verdict.printed is None else [verdict.printed])]


def draw_printed(ax: Axes, place: float, verdict: Verdict) -> None:
    """Draw the paper's difference on a line, if it prints one."""
    if verdict.printed is not None:
        color = figures.SOFT if verdict.claim.printed_for else figures.PAPER_COLOR
        ax.plot(verdict.printed, place, color=color, **figures.HOLLOW | {"markersize": 8})  # around what it meets


def shorten_outcome(outcome: str) -> str:
    """Return a verdict as supported, not supported, undecided, not tested, outdated or without a baseline."""
    if outcome in (stats.UNDECIDED, stats.UNTESTED, stats.OUTDATED, stats.FAILED):
        return outcome
    return stats.SUPPORTED if outcome in SUCCESSES else NOT_SUPPORTED


def state_main(headlines: Headlines) -> str:
    """Return a Markdown list: our verdict on each paper's main claim, our differences, and the paper's."""
    return "\n".join(f"- {state_paper(*headline)}" for headline in headlines)


def state_paper(paper: Any, by_world: dict[str, Pairs]) -> str:
    """State the verdict on a paper's main claim in the miniature world, our differences there, and what limits them.

    Of public corpora, name what has a verdict.
    """
    outcome = shorten_outcome(by_world[MINIATURE][0][1].outcome) if by_world[MINIATURE] else NOT_RUN
    notebook = next(card.name for card in paper.notebooks if card.plans)
    claim = f"[{paper.claim}](results/mini/notebooks/{notebook}.ipynb)"
    name = paper.name.replace(" et al.", "")
    source = f"[{name}]({paper.reference})" if paper.reference else f"{name}, unpublished"
    pairs = by_world[MINIATURE] + [pair for pair in by_world[PUBLIC] if pair[1].outcome not in NOT_JUDGED]
    gains = "; ".join(state_difference(*pair, pairs, outcome) for pair in pairs if not is_of_text(pair[1]))
    method = f"**[{paper.method}](results/README.md#{paper.method.lower()}): {outcome}.**"
    return f"{method} {claim} ({source}){f': {gains}' * bool(gains)}.{f' *{paper.caveat}*' * bool(paper.caveat)}"


def is_of_text(verdict: Verdict) -> bool:
    """Return whether a verdict beside main ones is against a number that the paper prints elsewhere, as in its text."""
    return not verdict.claim.primary and not verdict.claim.control


def state_difference(record: Record, verdict: Verdict, pairs: Pairs, outcome: str) -> str:
    """State our difference for a main claim, what tells it from others, and the paper's.

    A verdict that is not the paper's ``outcome`` is named.
    """
    _, printed, difference = report.state_verdict(record, verdict, short=True)
    number, ours = len(verdict.estimate.values), shorten_outcome(verdict.outcome)
    others = state_other_printed(record, verdict, pairs)
    about = [place_apart(record, verdict, pairs, pairs), f"{number} seed{'s' * (number > 1)}"]
    paper = f"paper: {printed}" + f"; in its text {' and '.join(others)}" * bool(others)
    parts = [", ".join(filter(None, about)), paper * bool(printed)]
    return f"{difference} ({'; '.join(filter(None, [*parts, ours * (ours != outcome)]))})"


def state_conclusion(headlines: Headlines) -> str:
    """List the papers by the verdict on their main claims in the miniature world.

    Say whether public corpora have any verdict, and whose runs there are outdated.
    """
    lists: dict[str, list[str]] = {}
    for paper, by_world in headlines:
        if pairs := [pair for pair in by_world[MINIATURE] if not is_of_text(pair[1])]:
            outcomes = [shorten_outcome(verdict.outcome) for _, verdict in pairs]
            reader = pairs[0][1].claim.below
            is_of_reader = len({*outcomes}) > 1 and any(verdict.claim.below != reader for _, verdict in pairs)
            lists.setdefault(outcomes[0], []).append(f"{paper.method}{f' with {reader}' * is_of_reader}")
    counts = [f"**{word}**: {', '.join(lists[word])}" for word in SHORT_OUTCOMES if word in lists]
    text = f"In the {MINIATURE}, {'; '.join(counts)}."
    public = list_outcomes(headlines, PUBLIC)
    if not public or not public <= {*NOT_JUDGED}:
        return text
    by_method = {paper.method: by_world[PUBLIC] for paper, by_world in headlines}
    outdated = [f"{method}'s" for method, pairs in by_method.items() if pairs != drop_outdated(pairs)]
    of_outdated = f"; {' and '.join(outdated)} runs are outdated" * bool(outdated)
    return f"{text} On {PUBLIC} only controls are judged{of_outdated}."


def tabulate_counts(findings: Findings, papers: Sequence[Any]) -> str:
    """Count the verdicts on the claims with a number in the miniature world, as a Markdown table by paper."""
    counts = report.count_verdicts([(paper, findings[MINIATURE][paper.key]) for paper in papers])
    counts = counts.drop(columns=report.WITHOUT_NUMBER, errors="ignore")
    counts = counts[counts.any(axis="columns")]
    counts.loc["all"] = counts.sum()
    return to_markdown(counts.reset_index(names="paper"))


def state_other_printed(record: Record, verdict: Verdict, pairs: Pairs) -> list[str]:
    """State what the paper prints elsewhere, as in its text, for a verdict's difference.

    Numbers that have a verdict of their own among ``pairs`` come last, with it where it is another.
    """
    judged = {other.claim.text: shorten_outcome(other.outcome) for same, other in pairs if same is record}
    numbered = [claim for claim in record.claims if claim.printed and not claim.printed_for]
    alike = [c for c in numbered if report.are_alike(c, verdict.claim) and c.printed != verdict.printed]
    texts = []
    for claim in sorted(alike, key=lambda claim: claim.text in judged):
        outcome = judged.get(claim.text, shorten_outcome(verdict.outcome))
        other = f": {outcome}" * (outcome != shorten_outcome(verdict.outcome))
        texts.append(f"{claim.printed:+.{report.decimals_of([claim.printed])}f}{other}")
    return texts


def brief(record: Record, verdict: Verdict) -> tuple[str, str]:
    """Return the verdict, in bold letters, and our difference in few words."""
    difference = report.state_verdict(record, verdict, short=True)[2]
    return f"**{report.name_outcome(verdict)}**", drop_unit(difference)


def place_apart(record: Record, verdict: Verdict, of_world: Pairs, of_all: Pairs) -> str:
    """Name what tells a verdict from others: preset, corpus, or the reader to beat."""
    return ", ".join(filter(None, [name_preset(record), *tell_apart(record, verdict, of_world, of_all)]))


def tell_apart(record: Record, verdict: Verdict, of_world: Pairs, of_all: Pairs) -> list[str]:
    """List what tells a verdict from others of its preset: corpus, or reader to beat."""
    tables = {one.artefact for one, verdict in of_world if not verdict.claim.control}
    names = [corpus_of(record)] if len(tables) > 1 or record.artefact not in tables else []
    return names + ([verdict.claim.below] if len({verdict.claim.below for _, verdict in of_all}) > 1 else [])


def corpus_of(record: Record) -> str:
    """Return the corpus that a record's title says it is on, such as generated MNLI.

    Without one, return what its table is "with", such as equal steps, or else the table's number.
    """
    if corpus := record.subject.partition(" on ")[2]:
        return OF_GENERATED * (record.preset in WORLDS[MINIATURE]) + corpus
    return report.condition_of(record) or report.table_of(record)


def name_preset(record: Record) -> str:
    """Name a record's preset where it is none of the first world's, which need no name."""
    return "" if record.preset in next(iter(WORLDS.values())) else record.preset


def drop_unit(difference: str) -> str:
    """Return a difference without its unit, which the head of the table has."""
    return re.sub(r" (F1|points)$", "", difference)


class Gain(NamedTuple):
    """A verdict on a difference, and the same in F1 and in exact match of a record that has both."""

    record: Record
    verdict: Verdict
    exact: tuple[stats.Estimate, stats.Estimate] | None


class Advised(NamedTuple):
    """A line of advice with our differences in each world, those of its control, and its cost, if any is supported."""

    advice: Any
    below: str  # what it is compared with
    miniature: list[Gain]
    control: list[Gain]
    public: list[Gain]
    cost: str


def list_advised(findings: Findings, papers: Sequence[Any], advice: Sequence[Any]) -> list[Advised]:
    """List the lines of advice that records are about. Records with earlier settings recommend nothing."""
    current = {
        world: [
            (record, verdicts)
            for paper in papers
            for record, verdicts in by_paper[paper.key]
            if not report.state_earlier_settings(record, paper)
        ]
        for world, by_paper in findings.items()
    }
    stored: dict[str, dict[str, Record]] = {}  # by preset and artefact
    for record, _ in chain.from_iterable(current.values()):
        stored.setdefault(record.preset, {})[record.artefact] = record
    advised = []
    for each in advice:
        miniature, public = (find_gains(judged, each.exhibits, each.row) for judged in current.values())
        control = find_gains(current[MINIATURE], each.control[1:2], each.control[2:])
        if not (gains := miniature + public):
            continue
        name = each.row[1]
        if figures.readable(name) == name:
            name = name.partition(", ")[0]  # of a curve, without x
        below = figures.readable(name).partition(" (")[0]
        is_supported = any(gain.verdict.outcome in SUCCESSES for gain in gains + control)
        cost = each.cost(stored[gains[0].record.preset]) if is_supported else ""
        advised.append(Advised(each, below, miniature, control, public, cost))
    return advised


def recommend(findings: Findings, papers: Sequence[Any], advice: Sequence[Any]) -> pd.DataFrame:
    """Tabulate what to train by situation, and instead of what: the gain in each world, that of a control, the cost.

    Lines that some preset supports come first; the others have no cost.
    """
    lines = []
    for each in list_advised(findings, papers, advice):
        gains = ["; ".join(map(state_gain, gains)) or "–" for gains in (each.miniature, each.control, each.public)]
        if each.control:
            gains[1] = f"{each.advice.control[0]}: {gains[1]}"
        lines.append([each.advice.situation, each.advice.train, each.below, *gains, each.cost])
    return pd.DataFrame(sorted(lines, key=lambda line: not line[-1]), columns=COLUMNS)


def find_gains(judged: Iterable[Judged], exhibits: Sequence[str], row: Sequence[str]) -> list[Gain]:
    """Find the plain differences that the row of an `Advice` names in records of some exhibits, none outdated.

    Where records of a preset compare the same on the same columns, the one with the most seeds counts, or the first.
    """
    pairs: dict[tuple, Pairs] = {}
    for record, verdicts in judged:
        for verdict in verdicts if record.artefact in exhibits else ():
            claim, columns = verdict.claim, record.by_metric()[0].columns
            is_meant = not claim.than and (claim.above, claim.below, *claim.columns)[: len(row)] == tuple(row)
            if is_meant and verdict.outcome != stats.OUTDATED:
                pairs.setdefault((record.preset, *(claim.columns or columns)), []).append((record, verdict))
    gains = []
    for alike in pairs.values():
        alike.sort(key=lambda pair: exhibits.index(pair[0].artefact))
        record, verdict = max(alike, key=lambda pair: len(pair[1].estimate.values))
        both = ((other.estimate, estimate_exact_match(one, other.claim)) for one, other in alike)
        gains.append(Gain(record, verdict, next(filter(itemgetter(1), both), None)))
    return gains


def state_gain(gain: Gain) -> str:
    """State a difference with its interval, that in exact match too, with its verdict where it is none of success."""
    text = report.state_verdict(gain.record, gain.verdict, short=True)[2]
    outcome, place = gain.verdict.outcome, f"{gain.record.preset}/{gain.record.artefact}"
    exact = state_exact(gain) if gain.exact else ""
    _, on, part = gain.verdict.claim.text.partition(" on ")
    text += f"{on}{part}" * bool(gain.verdict.claim.columns)
    return f"{text} ({f'{outcome}, ' * (outcome not in SUCCESSES)}{place}){exact}"


def estimate_exact_match(record: Record, claim: Claim) -> stats.Estimate | None:
    """Estimate a claim's difference in exact match; None for a record without it or of one seed."""
    parts = [part for part in record.by_metric() if part.unit == "EM"]
    gains = [stats.estimate_claim(part, claim) for part in parts]
    return next((gain for gain in gains if gain and gain.over), None)


def state_half(gain: stats.Estimate) -> str:
    """Return a difference with half of its interval."""
    return f"{gain.mean:+z.1f} ± {gain.half:.1f}"


def state_advice(findings: Findings, papers: Sequence[Any], advice: Sequence[Any]) -> str:
    """Return what some preset supports as a Markdown table, with links to figures and the controls that limit it."""
    pages = {paper.key: f"results/README.md#{paper.method.lower()}" for paper in papers}
    rows: dict[tuple[str, str], tuple[list[str], list[str]]] = {}  # gains and costs by situation and method
    for each in list_advised(findings, papers, advice):
        page = pages[(each.miniature + each.public)[0].record.paper_key]
        gains, costs = rows.setdefault((each.advice.situation, f"[{each.advice.train}]({page})"), ([], []))
        several = len({gain.record.artefact for gain in each.miniature}) > 1
        hints = [gain for gain in each.miniature if gain.verdict.estimate.half < WIDE] or each.miniature
        for number, gain in enumerate(hints):
            begin, table = f"{each.below}: " * (not number), f" ({name_apart(gain)})" * several
            gains.append(begin + mark_gain(gain) + table)
        gains += [f"{name_apart(gain)}: {gain.verdict.outcome}" for gain in each.miniature if gain not in hints]
        limits = [gain for gain in each.control if gain.verdict.outcome not in SUCCESSES or is_misleading(gain)]
        gains += [f"{each.advice.control[0]}: {mark_gain(gain)}" for gain in limits]
        over = f", {each.below}" * (not each.miniature)
        gains += [f"`{gain.record.preset}`{over}: {mark_gain(gain)}" for gain in each.public[:1]]
        costs += [each.cost] if each.cost else []
    lines, last = [], ""
    for (situation, train), (gains, costs) in rows.items():
        if costs:
            head = f"**{situation}**: " * (situation != last)
            lines.append([head + train, "<br>".join(gains), " / ".join(dict.fromkeys(costs))])
            last = situation
    if not lines:
        return ""
    table = pd.DataFrame(lines, columns=["train", "gain over", COST])
    return f"## What to use\n\n{ADVICE_SUMMARY}\n\n{to_markdown(table)}\n\n{ADVICE_WORDS}"


def name_apart(gain: Gain) -> str:
    """Name the corpus or the table of a gain under a heading that says that all corpora are generated."""
    return corpus_of(gain.record).removeprefix(OF_GENERATED)


def mark_gain(gain: Gain) -> str:
    """Return a difference without its unit, in bold letters if it is supported, and exact match if F1 misleads."""
    _, text = brief(gain.record, gain.verdict)
    marked = f"**{text}**" if gain.verdict.outcome in SUCCESSES else text
    if not is_misleading(gain):
        return marked
    f1, exact = gain.exact
    seeds = f", {len(exact.values)} seeds" * (f1 != gain.verdict.estimate)
    return f"{marked} (exact match {state_half(exact)}{seeds})"


def is_misleading(gain: Gain) -> bool:
    """Return whether F1 alone would mislead about a gain."""
    return bool(gain.exact) and misleads(gain.verdict, gain.exact[1])


def misleads(verdict: Verdict, exact: stats.Estimate | None) -> bool:
    """Return whether F1 alone would mislead, as exact match does not rise with it."""
    return bool(exact) and (exact.low if verdict.outcome in SUCCESSES else exact.high) <= 0


def state_exact(gain: Gain) -> str:
    """Return a difference in exact match, with that in F1 and its seeds where these are of another record."""
    f1, exact = gain.exact
    text = f"EM {state_half(exact)}"
    return f", {text}" if f1 == gain.verdict.estimate else f" ({exact.over}: {state_half(f1)}, {text})"


def show_advice(papers: Sequence[Any], advice: Sequence[Any]) -> HTML:
    """Tabulate what to use, for a notebook, with whole texts, and what no record supports."""
    table = recommend(judge_worlds(papers), papers, advice).set_index("situation")
    supported, others = table[table[COST] != ""], table[table[COST] == ""].drop(columns=COST)
    with pd.option_context("display.max_colwidth", None):
        return HTML(f"{supported.to_html()}<p>Supported by no record:</p>{others.to_html()}")


def to_markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown."""
    lines = [list(map(str, table.columns)), ["---"] * len(table.columns), *table.astype(str).values.tolist()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def describe_results(findings: Findings, papers: Sequence[Any], advice: pd.DataFrame) -> str:
    """Return results/README.md: what to use, and per paper its figure, verdicts in each preset, and main table."""
    links = ", ".join(f"[{name}]({name}/report.html)" for world in WORLDS.values() for name in world)
    lines = ["# Results", "", "`python -m helpers figures` writes this page from the records beside it."]
    lines += [f"Full reports, to open in a browser from a clone: {links}."]
    lines += ["", "[Verdicts](../docs/statistics.md) on claims with a number in the paper, in `study`:", ""]
    lines += [tabulate_counts(findings, papers), "", f"{report.OF_INTERVALS} {OF_NEEDS}"]
    if len(advice):
        has_cost = advice[COST] != ""
        lines += ["", "## What to use", "", to_markdown(advice[has_cost]), "", OF_GAINS]
        lines += ["", "Supported by no record:", "", to_markdown(advice[~has_cost].drop(columns=COST))]
    for paper in papers:
        judged = [pair for by_paper in findings.values() for pair in by_paper[paper.key]]
        pairs = report.paper_verdicts(judged)
        if not pairs:
            continue
        differences = f"[How ours differs from the paper](../docs/deviations/{paper.key}.md)"
        about = ". ".join(filter(None, (paper.title, f"Claim: {paper.claim}", paper.remark, differences)))
        lines += ["", f"## {paper.method}", "", f"{about}.", ""]
        main = report.main_verdicts(paper, judged)
        lines += [f"- {r.preset}, {report.table_of(r)}: {report.describe_verdict(r, v)}" for r, v in main]
        for record in dict.fromkeys(record.artefact for record, _ in main):
            of_presets = {r.preset: r for r, _ in judged if r.artefact == record}
            first = next(iter(of_presets.values()))
            lines += ["", f"{first.title} (preset {first.preset}):", ""]
            lines += [f"![{first.title}]({first.preset}/{first.artefact}.svg)", "", scores_of(first)]
        numbered = [(record, verdict) for record, verdict in pairs if verdict.printed is not None]
        order = list(dict.fromkeys(record.artefact for record, _ in judged))
        numbered.sort(key=lambda pair: order.index(pair[0].artefact))
        lines += fold("Claims with a number in the paper; others are in the reports", numbered, paper)
        lines += [*state_reasons(numbered), *state_untested(paper, judged)]
        lines += fold(
            "Our controls (exact match, EM, where it falls or may not rise)",
            [(r, v) for r, verdicts in judged for v in verdicts if v.claim.control],
            paper,
        )
    return "\n".join(lines) + "\n"


def fold(title: str, pairs: Pairs, paper: Any) -> list[str]:
    """Return lines of Markdown with the verdicts on some claims, which GitHub shows when the title is clicked."""
    if not pairs:
        return []
    return ["", f"<details><summary>{title}</summary>", "", tabulate_verdicts(pairs, paper), "", "</details>"]


def state_reasons(pairs: Pairs) -> list[str]:
    """Return a line of Markdown for each reason why claims are not tested, with their presets and tables."""
    places: dict[str, dict[str, None]] = {}
    for record, verdict in [pair for pair in pairs if pair[1].outcome == stats.UNTESTED]:
        reason = report.reason_of(record, verdict)
        places.setdefault(reason, {})[f"{record.preset}, {report.table_of(record)}"] = None
    return [f"\n*{stats.UNTESTED.capitalize()}* ({'; '.join(names)}): {reason}." for reason, names in places.items()]


def judge_untested(paper: Any, judged: Sequence[Judged]) -> Pairs:
    """Judge a paper's main claims where they are not tested, as if they were; none that is outdated."""
    pairs: Pairs = []
    for preset in dict.fromkeys(record.preset for record, _ in judged):
        of_preset = [record.model_copy(update={"untested": ""}) for record, _ in judged if record.preset == preset]
        untested = {record.artefact for record, _ in judged if record.preset == preset and record.untested}
        verdicts = report.main_verdicts(paper, report.judge_records(of_preset))
        main = [(r, verdict) for r, verdict in verdicts if r.artefact in untested and verdict.claim.primary]
        pairs += [pair for pair in main if pair[1].outcome != stats.OUTDATED]
    return pairs


def state_untested(paper: Any, judged: Sequence[Judged]) -> list[str]:
    """Return a line of Markdown with what the verdicts on a paper's main claims would be where they are not tested."""
    texts = [
        f"{record.preset}, {report.table_of(record)}: {report.name_outcome(verdict)}"
        for record, verdict in judge_untested(paper, judged)
    ]
    return [f"\nIf tested, the main claims would be: {'; '.join(texts)}."] if texts else []


def scores_of(record: Record) -> str:
    """Return a record's first metric as a Markdown table, without rows of fewer seeds (other draws)."""
    first = record.by_metric()[0]
    seeds = {row: len({score.seed for score in first.scores if score.row == row}) for row in first.rows}
    few = figures.name_few_seeds(seeds)
    scores, paper = ([number for number in numbers if number.row not in few] for numbers in (first.scores, first.paper))
    frame = report.numbers(first.model_copy(update={"scores": scores, "paper": paper})).fillna("")
    if stats.AVERAGE in frame.columns.get_level_values(0) and len(frame.columns) > MOST_COLUMNS:
        frame = frame[[name for name in frame.columns if stats.AVERAGE in name]]
    frame.columns = [" ".join(name) if isinstance(name, tuple) else name for name in frame.columns]
    return to_markdown(frame.reset_index(names=frame.attrs["caption"]))


def with_printed_reader(claim: Claim) -> str:
    """Return a claim's text with the reader that the paper's number is of ("with RMR") in place of its own."""
    printed = re.match(r"with (\S+)", claim.printed_for)
    return claim.text.replace(claim.above.partition(" + ")[0], printed[1]) if printed else claim.text


def tabulate_verdicts(pairs: Pairs, paper: Any) -> str:
    """Return the verdicts on claims as a Markdown table with a column per preset; "†" marks earlier settings.

    A claim about another reader than the paper's is in the line of the paper's, with the reader's name. Presets whose
    verdicts are all outdated are left out.
    """
    rows: dict[tuple[str, str], dict[str, str]] = {}
    current = {record.preset for record, verdict in pairs if verdict.outcome != stats.OUTDATED}
    for record, verdict in [pair for pair in pairs if pair[0].preset in current]:
        reported = report.state_verdict(record, verdict)[1] or "no number"
        of_paper = {} if verdict.claim.control else {"the paper": reported}
        text, reader = verdict.claim.text, verdict.claim.above.partition(" + ")[0]
        is_beside = (record.artefact, with_printed_reader(verdict.claim)) in rows
        place = record.artefact, with_printed_reader(verdict.claim) if is_beside else text
        row = rows.setdefault(place, {"claim": f"{report.table_of(record)}: {text}"} | of_paper)
        row[record.preset] = ": ".join(brief(record, verdict))
        if verdict.outcome == stats.UNDECIDED and (number := stats.count_needed(verdict)):
            row[record.preset] += f" (about {number:,} seeds needed)"
        exact = estimate_exact_match(record, verdict.claim) if verdict.claim.control else None
        if misleads(verdict, exact):
            row[record.preset] += f" (EM {state_half(exact)})"
        if place[1] != text:
            row[record.preset] += f" ({reader})"
        elif (of := verdict.claim.printed_for) and of not in row.get("the paper", of):
            row[record.preset] += f" (the paper's is {of})"
        row[record.preset] += " †" * bool(report.state_earlier_settings(record, paper))
    table = to_markdown(pd.DataFrame(rows.values()).fillna(""))
    left_out = ", ".join(dict.fromkeys(record.preset for record, _ in pairs if record.preset not in current))
    notes = ["† made with earlier settings, which the report names."] * ("†" in table)
    notes += [f"Outdated, and in the reports alone: {left_out}."] * bool(left_out)
    return "\n\n".join([table, *notes])
