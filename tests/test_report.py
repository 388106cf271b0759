"""The report: what was found first, then every result, on one page that needs nothing else; README's findings."""

import re
from html import unescape
from itertools import product
from types import SimpleNamespace

import nbformat
import pytest
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from record_files import claimed, curve, every_kind, record

from helpers import papers, paths, records
from helpers.errors import UserError
from helpers.papers.advice import ADVICE, Advice
from helpers.records import Claim, write
from helpers.results import figures, findings, report, stats

README = paths.ROOT / "README.md"


def card(key, *names, reference=""):
    exhibits = [SimpleNamespace(name=name) for name in names]
    more = {"title": f"{key} & others: a title", "name": f"{key} & others", "reference": reference}
    more |= {
        "method": key.upper(),
        "claim": f"what {key} claims",
        "remark": "",
        "headlines": ("table1",),
        "limits": (),
        "caveat": "",
        "notebooks": (),
    }
    return SimpleNamespace(key=key, exhibits=exhibits, **more)


IMM, A2D, MTDNN = (papers.find_paper(name)[0] for name in ("02_imm_main", "06_a2d_main", "15_mtdnn_main"))
CARDS = [card("corpora"), card("imm", "similarity", "table1", reference="https://example.org/?a&b"), card("a2d")]


def sentences(one):
    return [report.describe_verdict(one, verdict) for verdict in stats.judge(one)]


def test_claims_in_sentences():
    # 4, 6, 5, 4, 6: a mean of 5 with an error of 0.447, times 2.776.
    assert sentences(claimed()) == [
        "Supported, smaller than reported: “B beats A”, +5.0 F1 (95 % CI +3.8 to +6.2). The paper reports +9.5.",
        "Undecided, no number in the paper: “C beats A”, 0.0 F1 (95 % CI -2.0 to +2.0).",
        "Refuted: “A is better than B”, -5.0 F1 (95 % CI -6.2 to -3.8). The paper reports -9.5 after 3 rounds.",
    ]
    some = claimed(passages={"B beats A": [4.5, 5.52]})
    assert "+5.0 F1 (95 % CI +3.8 to +6.2; over passages +4.5 to +5.5). The" in sentences(some)[0]
    assert sentences(claimed(seeds=2))[0] == "Undecided: “B beats A”, +5.0 F1. The paper reports +9.5."
    scores = [(row, "x", seed, 50) for row in "AB" for seed in range(5)]
    claims = [{"text": "A gains more", "above": "A", "below": "B", "primary": True}]
    paper = [{"method": row, "column": "x", "value": value} for row, value in (("A", 1.25), ("B", 2.0))]
    same = record("imm/table1", scores, claims=claims, paper=paper, unit="accuracy")
    expected = "Refuted: “A gains more”, the same score with all 5 seeds. The paper reports -0.75."
    assert sentences(same) == [expected]
    # B gains 5 of C's 10, with every seed.
    scores = [(row, "x", seed, value + seed) for row, value in (("A", 50), ("B", 55), ("C", 60)) for seed in range(5)]
    claim = {"text": "B keeps part of C's gain", "above": "B", "below": "A", "than": ["C", "A"], "share": True}
    kept = record("imm/table1", scores, claims=[{**claim, "printed": 79.9, "printed_for": "on Dev"}])
    assert sentences(kept) == [
        "Supported: “B keeps part of C's gain”, 50 % (95 % CI 50 to 50). The paper reports 80 % on Dev."
    ]


def test_controls_stand_apart_but_those_beside_headlines():
    scores = [(row, "x", seed, 50) for row in "AB" for seed in range(5)]
    kinds = {"beside": {"control": True, "beside": True}, "no": {"control": True}, "chief": {"primary": True}}
    claims = [{"text": text, "above": "A", "below": "B", **kind} for text, kind in kinds.items()]
    parts = report.split_controls(stats.judge(record("imm/table1", scores, claims=claims)))
    assert [[verdict.claim.text for verdict in part] for part in parts] == [["beside", "chief"], ["no"]]
    alone = stats.judge(record("imm/table1", scores, claims=claims[:2]))
    assert report.split_controls(alone) == ([], [])  # where the paper claims nothing


def test_the_scale_is_one_on_which_the_first_claim_can_be_seen():
    scores = [
        (row, "x", s, v + 0.1 * s * (row == "B")) for row, v in (("A", 50), ("B", 51), ("C", 90)) for s in range(5)
    ]
    claims = [{"text": row, "above": row, "below": "A", "printed": gain} for row, gain in (("B", 1.0), ("C", 40.0))]
    one = record("imm/table1", scores, claims=claims)
    first, second = report.tabulate_claims([(one, stats.judge(one))])
    assert (first["printed_beyond"], second["printed"], second["printed_beyond"]) == (0, None, 1)
    assert first["places"] and first["beyond"] == [] and float(first["limit"]) < 6
    assert (second["places"], second["beyond"]) == ([], [1])


def test_claims_are_drawn_on_one_scale():
    first, second, third = report.tabulate_claims([(claimed(), stats.judge(claimed()))])
    assert first["places"] == [round(50 + 48 * 5 / 9.5, 1)] and first["printed"] == 98.0 and first["limit"] == "9.5"
    assert (second["paper"], second["kind"], second["printed"]) == ("no number", "undecided", None)
    assert (third["kind"], third["printed"]) == ("bad", 2.0) and first["kind"] == "good"
    same = record("imm/table1", [(row, "x", seed, 50 + seed) for row in "AB" for seed in range(5)])
    same = same.model_copy(update={"claims": [Claim(text="B beats A", above="B", below="A")]})
    (row,) = report.tabulate_claims([(same, stats.judge(same))])
    assert (row["verdict"], row["p"], row["ours"]) == ("No difference", "", "the same score with all 5 seeds")
    few = report.tabulate_claims([(claimed(seeds=2), stats.judge(claimed(seeds=2)))])
    assert len(few[0]["places"]) == 2  # every seed


def test_what_comes_out_again_is_counted_and_what_does_not_is_named():
    scores = [("A", "x", 0, 1.0), ("A", "x", 1, 2.0), ("B", "x", 0, 3.0)]
    ours, theirs = record("imm/table1", scores[:2]), record("imm/table1", [("A", "x", 0, 1.0), ("A", "x", 1, 2.5)])
    timed = record("a2d/table4", [("A", "x", 0, 5.0)], unit="s")
    timed = timed.model_copy(update={"scores": [timed.scores[0].model_copy(update={"metric": "seconds"})]})
    assert report.reproduced([ours, timed], [theirs, timed]) == (
        "Reproduced: 1 of 2 values.",
        ["imm/table1, A, x, seed 1: 2 instead of 2.5"],
    )
    assert report.reproduced([record("imm/table1", scores)], [ours]) == ("Reproduced: 2 of 2 values.", [])
    assert report.reproduced([ours], [record("imm/table2", scores)]) == ("", [])
    drawn, others = (ours.model_copy(update={"draws": {"0": draw, "1": draw}}) for draw in "ab")
    assert report.reproduced([drawn], [others]) == ("", []) != report.reproduced([ours], [others])
    run = ours.run.model_copy(update={"device": "Another Processor 7, 2 threads"})
    elsewhere = ours.model_copy(update={"run": run})
    note = "2 values were made on another kind of processor, which rounds differently: they differ by 0.25 on average."
    assert report.reproduced([elsewhere, timed], [theirs, timed]) == (note, [])


def test_numbers_and_the_papers_beside_them():
    scores = [("Single", c, s, v + 10 * s) for c, v in (("a", 40), ("b", 60)) for s in range(3)]
    scores.append(("Mix", "a", 0, -0.04))
    paper = [{"method": m, "column": "a", "value": v} for m, v in (("IMM", 89.44), ("Single", 88.3))]
    paper += [{"method": "Single", "column": "b", "value": 0.5, "text": "twice"}]
    one = record("imm/table1", scores, paper=paper, baselines=["Mix"])
    table = report.numbers(one)
    # An error of 10 / √3, times 4.303, the t quantile of two degrees of freedom.
    assert table.attrs["caption"] == "F1 (± 95 % interval over 3 seeds)"
    ours, theirs = (table.xs(part, axis=1, level=1).fillna("") for part in ("ours", "paper"))
    assert ours.loc["a reader per domain (Single)"].tolist() == [f"{m:.1f} ± 24.8" for m in (60, 50, 70)]
    assert ours.loc["one of all domains (Mix) (1\N{NO-BREAK SPACE}seed)"].tolist() == ["", "0.0", ""]
    assert theirs.to_dict("index") == {
        "a reader per domain (Single)": {"a": "88.30", "b": "twice"},
        "one of all domains (Mix) (1\N{NO-BREAK SPACE}seed)": {"a": "", "b": ""},
        "IMM": {"a": "89.44", "b": ""},
    }
    less = report.numbers(one, "Mix")
    assert less.attrs["caption"] == "F1 above one of all domains (Mix) (one seed)" and less.to_dict("list") == {
        "a": ["+40.0"]
    }


def test_columns_stand_beside_those_of_the_paper_in_its_order():
    scores = [("Single", column, 0, 1.0) for column in ("encyclopedia", "stories", "news", "search")]
    paper = [{"method": "Single", "column": column, "value": 2.0} for column in ("NewsQA", "MARCO", "SQuAD", "AVE.")]
    table = report.numbers(record("imm/table1", scores, paper=paper))
    ours = "AVE. ours, AVE. paper, stories ours, search ours, news (NewsQA) ours, news (NewsQA) paper, "
    ours += "encyclopedia (SQuAD) ours, encyclopedia (SQuAD) paper, MARCO paper"
    assert ", ".join(map(" ".join, table)) == ours


def test_rows_have_readable_names_and_stand_beside_those_of_the_paper():
    scores = [(row, "dvd", 0, 1.0) for row in ("HRKD", "skip connections - Comp-Agg")]
    paper = [{"method": "- Comp-Agg", "column": "DVD", "value": 2.0}]
    table = report.numbers(record("hrkd/table4", scores, paper=paper))
    assert table.index.tolist() == [
        "HRKD",
        "skip connections, without Comp-Agg too",
        "the paper's, without Comp-Agg too",
    ]
    assert table["dvd (DVD)", "paper"].tolist()[2] == "2"  # not beside a row in another setting
    paper = [{"method": "DVD", "column": "#Train", "value": 1621.0}]
    table = report.numbers(record("hrkd/table1", [("films", "#Train", 0, 100.0)], paper=paper))
    assert table.loc["films (DVD)", ("#Train", "paper")] == "1,621" and len(table) == 1


def shown(*records):
    for each in records:
        write(each)
    return report.page("mini", CARDS).data


def test_a_record_of_earlier_settings_says_so():
    paper, _ = papers.find_paper("06_a2d_main")
    for epochs, expected in {
        18.0: "",
        3.7: "",
        12.0: "Made with earlier settings: mnemonic.epochs 12, now 18.",
    }.items():
        run = record("a2d/table1").run.model_copy(update={"parameters": {"preset": {"mnemonic": {"epochs": epochs}}}})
        one = record("a2d/table1").model_copy(update={"preset": "mini", "run": run})
        assert report.state_earlier_settings(one, paper) == expected
        assert report.state_earlier_settings(one.model_copy(update={"preset": "mine"}), paper) == ""


def test_the_page_begins_with_a_summary(results):
    page = shown(claimed(), claimed("a2d/table1", seeds=2), *every_kind()[1:])
    summary, _, rest = page.partition('<h2 id="corpora"')
    summary = summary.partition("<main>")[2]
    assert 0 < summary.index("what imm claims") < summary.index("what a2d claims")  # the best first
    assert "<img" not in summary
    for cell in ("+5.0 F1 (+3.8 to +6.2)", "+9.5", "0.001", "Supported, smaller", "Too few seeds"):
        assert f">{cell}</td>" in summary
    counts = (
        summary.partition("by verdict; a difference of the same seeds counts once</caption>")[2]
        .partition("</table>")[0]
        .split("<tr")[1:]
    )
    assert [re.findall(r"<t[hd]>(.*?)</t[hd]>", line) for line in counts] == [
        ["", "all", "IMM", "A2D"],
        ["supported, smaller", "1", "1", ""],
        ["refuted", "1", "1", ""],
        ["too few seeds", "2", "", "2"],
        [report.WITHOUT_NUMBER, "2", "1", "1"],
    ]
    p_values = """<td data-label="p (gain = 0)">&lt; 0.001</td><td data-label="p (gain = paper's)">0.001</td>"""
    assert re.search(rf'<tr class="good"><td>B beats A</td>.*</td>{re.escape(p_values)}', rest)
    names = ("corpora-overview", "imm-similarity", "imm-table1", "imm-figure3")
    places = [rest.index(f'id="{name}"') for name in names]
    assert places == sorted(places)
    ids = re.findall(r' id="([^"]+)"', page)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids) and len(set(ids)) == len(ids)
    assert (
        '<a href="https://example.org/?a&amp;b">The paper</a>' in page and "<dd>one reader per domain, trained" in page
    )
    assert "seeds: 5; 5.0 minutes; a CPU, 2 threads;\ncommit 0123456789 with changes" in page


def test_the_summary_says_why_claims_are_not_tested(results):
    page = shown(claimed(untested="readers are at chance"))
    assert "<p>Not tested (IMM, Table 1): readers are at chance.</p>" in page.partition('<h2 id="imm"')[0]


def test_it_is_one_page_without_code_or_links_elsewhere(results, tmp_path):
    assert "no results of preset mini yet" in report.page("mini", CARDS).data
    cell = new_code_cell("secret_code()", outputs=[new_output("display_data", {"text/html": shown(*every_kind())})])
    executed = tmp_path / "99_report.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell("# The report"), cell]), executed)
    page = report.export("mini", executed)
    text = page.read_text()
    assert page == paths.report("mini") and "The report" in text and "B beats A" in text
    assert "secret_code" not in text and "<script src" not in text and "¶" not in text
    links = {link for link in re.findall(r'(?:src|href)="(?!#|data:)([^"]+)', text) if not link.endswith(".svg")}
    assert links == {"https://example.org/?a&amp;b"} and 'href="imm/table1.svg"' in text
    assert '<meta name="viewport" content="width=device-width' in text and "prefers-color-scheme: dark" in text
    notebook = executed.read_text()  # which keeps a link alone
    assert "report.html" in notebook and "B beats A" not in notebook
    with pytest.raises(UserError, match="run 99_report first"):
        report.export("mini", tmp_path / "none.ipynb")


def test_a_notebook_is_shown_what_there_is_of_a_record(results, monkeypatch):
    pieces = []
    monkeypatch.setattr(report, "display", lambda *shown: pieces.append(shown))
    for each in (claimed(), record("imm/table4", [("A", "x", 0, 1.0)])):
        report.show(each)
    (page, figure, tables), (title, table) = pieces
    assert isinstance(figure, Figure) and "Supported" in page.data and "<img" not in page.data
    assert "<caption>F1" in tables.data and "<caption>F1" in table.data and 'class="claims"' not in title.data


def test_a_notebook_ends_with_what_study_has(results, monkeypatch):
    pages = []
    monkeypatch.setattr(report, "display", pages.append)
    for each in (claimed(preset="study"), claimed("imm/table2", preset="study"), claimed()):
        write(each)
    report.show_study("imm/table2", "imm/table1", "imm/figure9")
    page, figure, other = pages
    assert "B beats A" in page.data and "Table 1" in page.data  # the title of all such records
    assert isinstance(figure, Figure) and "B beats A" in other.data
    write(curve().model_copy(update={"preset": "study"}))
    report.show_study("imm/figure3")
    assert isinstance(pages[-1], Figure)


def test_a_notebook_says_in_a_sentence_what_came_out(results):
    for each in (claimed(preset="study"), *every_kind()[1:], claimed(seeds=1)):
        write(each)
    study = "Preset study, 5 seeds: +5.0 ± 1.2 F1, supported, smaller than reported."
    mini = "Preset mini, 1 seed: +4.0 F1, too few for a verdict."
    expected = {
        "imm/table1": f"Claim: B beats A. The paper reports +9.5. {study} {mini}",
        "imm/similarity": "web gives news the largest weight, 0.90, and news gives web the smallest, 0.10, "
        "where equal weights are 0.50.",
        "corpora/overview": "People ask most differently in news and stories, whose question words agree for 75% of "
        "the questions, and most alike in news and stories, for 75%.",
        "a2d/figure3": "The reader by itself answers “$a”, the distilled one “$a”; the right answer's probability goes "
        "from 0.50 to 0.50.",
    }
    for artefact, sentence in expected.items():
        head = "<b>What came out</b> (IMM, Table 1: F1)." if artefact == "imm/table1" else "<b>What came out.</b>"
        assert unescape(report.conclude("mini", artefact).data) == f"<p>{head} {sentence}</p>"


def test_few_seeds_that_show_what_many_do_not_would_have_misled():
    def verdict(mean, outcome, printed=2.0):
        return SimpleNamespace(estimate=SimpleNamespace(mean=mean), outcome=outcome, printed=printed)

    for mean, outcome, misled in (
        (1.1, stats.LESS_THAN_HALF, True),
        (0.9, stats.LESS_THAN_HALF, False),
        (0.1, stats.SUPPORTED, False),
        (-0.1, stats.SUPPORTED_SMALLER, True),
        (9.0, stats.UNDECIDED, False),
    ):
        assert report.would_mislead(verdict(mean, ""), verdict(0.0, outcome)) == misled


def test_a_notebook_begins_with_what_study_found_where_there_is_a_record(results, monkeypatch):
    shown = []
    monkeypatch.setattr(report, "display", lambda *parts: shown.extend(parts))
    report.preview_study("imm/table1")
    assert shown == []
    write(claimed(preset="study"))
    report.preview_study("imm/table1", "imm/table2")
    (sentence,) = shown
    assert "<b>What preset study found</b> (IMM, Table 1: F1). Claim: B beats A. The paper reports +9.5." in unescape(
        sentence.data
    )
    monkeypatch.delenv("HELPERS_RESULTS")  # as of those who run a notebook: the committed records
    report.preview_study("imm/table1")
    assert len(shown) == 2 and "Preset study, 32 seeds: " in shown[1].data


def test_a_difference_of_two_tables_of_a_paper_counts_once():
    again = claimed("imm/table2")
    pairs = report.paper_verdicts(report.judge_records([again, claimed()]))
    assert [record.artefact for record, verdict in pairs if verdict.claim.primary] == ["imm/table1"]
    assert len(pairs) == len(report.paper_verdicts(report.judge_records([again])))
    few = report.judge_records([claimed(seeds=2), claimed("imm/table2", seeds=2)])  # which are the same by chance
    assert len(report.paper_verdicts(few)) == 2 * len(report.paper_verdicts(few[:1]))
    main = report.main_verdicts(CARDS[1], report.judge_records([again, claimed()]))
    assert [record.artefact for record, _ in main] == ["imm/table1"]


def update(monkeypatch, tmp_path, before):
    monkeypatch.setattr(findings, "README", tmp_path / "README.md")
    findings.README.write_text(before)
    return findings.update_documents(papers.list_papers(), ADVICE), findings.README.read_text()


def test_a_row_of_fewer_seeds_has_its_baseline_with_these_beside_it():
    scores = [("A", "x", seed, 50.0 + seed) for seed in range(5)] + [("B", "x", seed, 60.0) for seed in (0, 1)]
    table = report.numbers(record("imm/table1", scores, baselines=["A"]))
    assert [*table.index] == ["A", "B (2\N{NO-BREAK SPACE}seeds)"]
    assert table.attrs["caption"].endswith("; with 2 seeds A has 50.5)")  # and not 52, over five draws
    scores += [("C", "x", seed, 50.0) for seed in range(3)]
    table = report.numbers(record("imm/table1", scores, baselines=["A"]))
    assert [*table.index][1:] == ["B (2\N{NO-BREAK SPACE}seeds)", "C (3\N{NO-BREAK SPACE}seeds)"]
    assert table.attrs["caption"].endswith("; with 2 seeds A has 50.5; with 3 seeds A has 51.0)")


def test_findings_alone_are_written_anew_in_the_readme(results, tmp_path, monkeypatch):
    text = f"# Title\n\n{findings.BEGIN}\nwhat was found before\n{findings.END}\n\nby hand\n"
    assert update(monkeypatch, tmp_path, text) == ([], text)  # without records
    supported = claimed("imm/table2", title="IMM, Table 2: F1", claims=[{"text": "B wins", "above": "B", "below": "A"}])
    refuted = claimed("a2d/table1", claims=[{"text": "A beats B", "above": "A", "below": "B", "primary": True}])
    for each in (claimed(preset="study"), refuted, supported, claimed(preset="lab", seeds=2)):
        write(each)
    written, after = update(monkeypatch, tmp_path, text)
    assert written == [findings.README, *(paths.results("") / name for name in ("README.md", *findings.PICTURES))]
    picture, narrow = (path.read_text() for path in written[2:])
    ours = "+5.0 ± 1.2", "study: supported", "\N{MINUS SIGN}5.0 ± 1.2", "mini: not supported", "lab: undecided"
    assert [word for word in ("A2D", "IMM", *ours) if f">{word}<" not in picture] == []
    assert f">{'  '.join(ours[2:4])}<" in narrow and f">IMM, {IMM.name}<" in narrow
    summary = "In the miniature world, **supported**: IMM; **not supported**: A2D."
    summary += f"\n\n{findings.PICTURE}\n\n- **[IMM](results/README.md#imm): supported.** ["
    assert after.startswith(f"# Title\n\n{findings.BEGIN}\n{summary}")
    assert after.endswith(f"{findings.END}\n\nby hand\n")
    after = after.replace(findings.NO_BREAK, " ")
    imm, a2d = (line for line in after.splitlines() if line.startswith("- **["))  # successes first
    assert "](results/mini/notebooks/02_imm_main.ipynb) ([Liu 2020](" in imm
    ours = "+5.0 ± 1.2 F1 (5 seeds; paper: +9.5); +5.0 F1 (lab, 2 seeds; paper: +9.5; undecided)"
    assert imm.endswith(f"): {ours}. *{IMM.caveat}*")
    assert a2d.startswith("- **[A2D](results/README.md#a2d): not supported.** [")
    assert a2d.endswith(f"): -5.0 ± 1.2 F1 (5 seeds; paper: -9.5). *{A2D.caveat}*")
    assert f"\n{findings.OF_VERDICTS}\n\n{findings.OF_UNTESTED}\n" in after
    overview = written[1].read_text()
    assert "## IMM" in overview and "](study/imm/table1.svg)" in overview
    counts = ["| paper | supported, smaller | refuted |", "| IMM | 1 | 1 |", "| A2D | 0 | 1 |", "| all | 1 | 2 |"]
    assert [line for line in overview.splitlines() if line in counts] == counts
    row = "| Table 1: B beats A | +9.5 | **supported, smaller**: +5.0 ± 1.2 | **too few seeds**: +5.0 |"
    assert row in overview.replace(" |  |", " |")


def test_controls_that_limit_a_main_claim_stand_beside_it():
    claims = [{"text": row, "above": row, "below": "A", "control": True} for row in "BC"]
    (table,) = report.judge_records([claimed("a2d/table1", claims=claims)])
    (other,) = report.judge_records([claimed("a2d/table2", claims=claims, title="A2D, Table 2: t")])
    paper = SimpleNamespace(key="a2d", headlines=("table1", "table2"), limits=(("table2", "C", "A"),))
    pairs = report.limiting_controls(paper, [table, other])
    assert [(record.artefact, verdict.claim.text) for record, verdict in pairs] == [("a2d/table2", "C")]
    on_mnli = table[0].model_copy(update={"title": "A2D, Table 1: accuracy on MNLI"})
    of_lab = on_mnli.model_copy(update={"preset": "lab"})
    equal = table[0].model_copy(update={"artefact": "a2d/equal", "title": "A2D, Table 1 with equal steps: accuracy"})
    assert [findings.corpus_of(each) for each in (on_mnli, of_lab, equal)] == ["generated MNLI", "MNLI", "equal steps"]
    control = table[1][0]
    main = control._replace(claim=control.claim.model_copy(update={"control": False}))
    both = [(on_mnli, main), (equal, control)]
    assert [findings.place_apart(*pair, both, both) for pair in both] == ["", "equal steps"]


def test_each_number_that_the_paper_prints_of_a_main_difference_has_its_verdict():
    of_table = {"text": "B wins", "above": "B", "below": "A", "primary": True}  # by 5; the table has 9.5
    numbers = [{"text": f"B wins by {gain}", "above": "B", "below": "A", "printed": gain} for gain in (4.0, 9.0)]
    other = {"text": "C wins", "above": "C", "below": "A", "printed": 4.0}
    control = {"text": "B is near", "above": "B", "below": "A", "within": 9.0, "control": True}
    (judged,) = report.judge_records([claimed(claims=[of_table, *numbers, other, control])])
    paper = SimpleNamespace(key="imm", headlines=("table1",), limits=(), method="IMM", name="Liu", reference="")
    paper.claim, paper.caveat, paper.notebooks = "Readers win", "", [SimpleNamespace(name="02", plans=("table1",))]
    worlds = {findings.MINIATURE: {"imm": [judged]}, findings.PUBLIC: {"imm": []}}
    ((_, by_world),) = headlines = findings.rank_headlines(worlds, [paper])
    pairs = by_world[findings.MINIATURE]
    assert [verdict.claim.text for _, verdict in pairs] == ["B wins", "B wins by 4.0"]  # by 9 it is as by 9.5
    gains = "+5.0 ± 1.2 F1 (5 seeds; paper: +9.5; in its text +9 and +4)"
    assert findings.state_main(headlines).endswith(f" (Liu, unpublished): {gains}.")


def test_a_main_claim_against_a_baseline_that_failed_has_a_mark():
    (judged,) = report.judge_records([claimed(claims=[{"text": "B", "above": "B", "below": "A", "primary": True}])])
    record, (verdict,) = judged
    by_world = {world: [(record, verdict._replace(outcome=stats.FAILED))] for world in findings.WORLDS}
    picture = figures.content(findings.draw_headlines([(card("imm"), by_world)]), "svg").decode()
    assert f": {stats.FAILED}<" in picture and f"{stats.SUPPORTED}<" not in picture
    conclusion = findings.state_conclusion([(card("imm"), by_world)])
    assert conclusion == f"In the miniature world, **{stats.FAILED}**: IMM."


def test_claims_about_another_reader_stand_in_the_line_of_the_papers():
    claims = [{"text": f"B + K beats {name}", "above": "B + K", "below": "A"} for name in ("A", "itself")]
    scores = [("A", "x", seed, 50.0) for seed in range(5)] + [("B + K", "x", seed, 54.0 + seed) for seed in range(5)]
    ours = record("a2d/table1", scores, preset="study", claims=claims)
    scores = [(row.replace("B", "C"), *rest) for row, *rest in scores]
    claims = [{"text": "C + K beats A", "above": "C + K", "below": "A", "printed": 9.5, "printed_for": "with B"}]
    other = record("a2d/table1", scores, preset="lab", claims=claims)
    pairs = [(one, verdict) for one, verdicts in report.judge_records([ours, other]) for verdict in verdicts]
    lines = findings.tabulate_verdicts(pairs, A2D).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| Title: B + K beats A", "| Title: B + K beats itself"]
    assert lines[0].endswith(" (C) |") and "with B" not in lines[0] and lines[1].endswith(" |  |")


def test_the_end_of_an_interval_shows_on_which_side_of_0_it_is():
    ends = [report.state_end(value, "+z,.1f") for value in (-0.018, 0.00004, -1e-14, 0.0, -1.0)]
    assert ends == ["-0.02", "+0.00004", "+0.0", "+0.0", "-1.0"] and report.state_end(0.3, ".0f") == "0.3"


def test_the_overview_says_what_is_not_tested_and_what_its_verdict_would_be():
    of_paper = {"text": "B wins", "above": "B", "below": "A", "primary": True}
    judged = report.judge_records(
        [claimed(claims=[of_paper], untested="readers are at chance", title="IMM, Table 1: F1")]
    )
    paper = SimpleNamespace(key="imm", headlines=("table1",))
    assert {verdict.outcome for _, verdict in report.main_verdicts(paper, judged)} == {stats.UNTESTED}
    (line,) = findings.state_untested(paper, judged)
    assert line == "\nIf tested, the main claims would be: mini, Table 1: supported, smaller."
    assert findings.state_untested(paper, report.judge_records([claimed(claims=[of_paper])])) == []


def test_means_of_fewer_seeds_stand_in_no_table_of_the_overview():
    whole = claimed()
    scores = [score for score in whole.scores if score.row != "C" or score.seed < 2]
    assert "| C |" in findings.scores_of(whole)
    assert "C" not in findings.scores_of(whole.model_copy(update={"scores": scores})).replace("CI", "")


def test_a_table_of_differences_has_the_sign_of_the_figure():
    scores = [(row, "x", seed, value) for row, value in (("A", 5.0), ("B", 3.0)) for seed in range(5)]
    for above, below, name, text in (("B", "A", "above A", "-2.0"), ("A", "B", "A above the row", "+2.0")):
        claims = [{"text": "c", "above": above, "below": below}]
        tables = report.tables(record("imm/table1", scores, claims=claims, baselines=["A"]))
        assert text in tables[name] and f"F1 {name if above == 'B' else f'of {name}'}" in tables[name]


def test_columns_that_the_paper_alone_has_are_a_table_of_their_own():
    paper = [{"method": row, "column": column, "value": 7.0} for row, column in (("A", "x"), ("A", "y"), ("B", "y"))]
    tables = report.tables(record("imm/table1", [("A", "x", 0, 5.0)], paper=paper))
    assert [*tables] == ["numbers: F1", "F1 on the paper's other columns"]
    assert (
        [">y<" in table for table in tables.values()] == [">B<" in table for table in tables.values()] == [False, True]
    )


def test_what_to_use_is_what_a_record_supports(results):
    write(
        claimed("imm/your_domains", claims=[{"text": "c", "above": "B", "below": "A", "control": True}], preset="lab")
    )
    write(claimed("imm/table1", claims=[{"text": "c", "above": "C", "below": "A"}], preset="study"))
    cases = [
        Advice(
            "few",
            name,
            (f"imm/{exhibit}",),
            (row, "A"),
            lambda stored: f"{len(stored)} ×",
            ("twice", "imm/table1", "C", "A"),
        )
        for name, exhibit, row in (("b", "your_domains", "B"), ("c", "table1", "C"), ("d", "table1", "D"))
    ]
    card = SimpleNamespace(key="imm", method="IMM", exhibits=())
    judged = findings.judge_worlds([card])
    supported, other = findings.recommend(judged, [card], cases).to_dict("records")
    assert supported["public corpora"] == "+5.0 ± 1.2 F1 (lab/imm/your_domains)"
    assert (supported["train"], supported["instead of"], supported[findings.COST]) == ("b", "A", "1 ×")
    assert supported["control"] == "twice: 0.0 ± 2.0 F1 (undecided, study/imm/table1)"
    assert supported["miniature world"] == "–"
    assert other["miniature world"].startswith("0.0 ± 2.0 F1 (undecided, study/imm/table1)")
    assert other["public corpora"] == "–"
    assert (other["train"], other[findings.COST]) == ("c", "")
    text = findings.state_advice(judged, [card], cases)
    gains = "twice: 0.0 ± 2.0<br>`lab`, A: **+5.0 ± 1.2**"
    assert f"| **few**: [b](results/README.md#imm) | {gains} | 1 × |" in text


def test_of_records_that_compare_the_same_the_one_with_the_most_seeds_counts():
    claims = [{"text": "c", "above": "B", "below": "A", "control": True}]
    few = [
        (row, "x", seed, value + seed * (row == "B"), None, metric)
        for metric, of_metric in {"F1": {"A": 50, "B": 54}, "EM": {"A": 40, "B": 36}}.items()
        for row, value in of_metric.items()
        for seed in range(5)
    ]
    many = [(row, "x", seed, value) for row, value in {"A": 50, "B": 53}.items() for seed in range(7)]
    other = [(row, "y", seed, value) for row, value in {"A": 50, "B": 51}.items() for seed in range(9)]
    scores = {"imm/your_domains": few, "imm/table1": many, "imm/table2": other}
    judged = report.judge_records([record(name, rows, preset="study", claims=claims) for name, rows in scores.items()])
    same, apart = findings.find_gains(judged, ("imm/your_domains", "imm/table1", "imm/table2"), ("B", "A"))
    assert (same.record.artefact, apart.record.artefact) == ("imm/table1", "imm/table2")
    assert findings.mark_gain(same) == "**+3.0 ± 0.0** (exact match -2.0 ± 2.0, 5 seeds)"
    assert findings.state_gain(same).endswith("study/imm/table1) (5 seeds: +6.0 ± 2.0, EM -2.0 ± 2.0)")
    (alone,) = findings.find_gains(judged[:1], ("imm/your_domains",), ("B", "A"))
    assert findings.mark_gain(alone) == "**+6.0 ± 2.0** (exact match -2.0 ± 2.0)"
    assert findings.state_exact(alone) == ", EM -2.0 ± 2.0"


def test_an_outdated_row_is_in_no_verdict_and_recommends_nothing():
    claims = [{"text": "B", "above": "B", "below": "A", "primary": True}, {"text": "C", "above": "C", "below": "A"}]
    outdated = claimed(claims=claims, title="IMM, Table 1: F1", outdated="its loss was wrong", outdated_rows=["B"])
    (judged,) = report.judge_records([outdated])
    record, verdicts = judged
    assert [verdict.outcome for verdict in verdicts] == [stats.OUTDATED, stats.UNDECIDED]
    assert report.describe_verdict(record, verdicts[0]).startswith("Outdated, as its loss was wrong: ")
    ((_, by_world),) = findings.rank_headlines({findings.PUBLIC: {"imm": [judged]}}, [card("imm")])
    assert findings.drop_outdated(by_world[findings.PUBLIC]) == []
    by_world[findings.MINIATURE] = [(record, verdicts[0]._replace(outcome=stats.SUPPORTED))]
    sentence = "**supported**: IMM. On public corpora only controls are judged; IMM's runs are outdated."
    assert findings.state_conclusion([(card("imm"), by_world)]).endswith(sentence)
    counts = findings.tabulate_counts({findings.MINIATURE: {"imm": [judged]}}, [card("imm")])
    assert counts.splitlines() == ["| paper | outdated |", "| --- | --- |", "| IMM | 1 |", "| all | 1 |"]


def test_the_documents_have_the_findings_of_the_stored_records(results, tmp_path, monkeypatch):
    results.mkdir()
    for name in ("study", "mini", "lab-large", "lab"):
        (results / name).symlink_to(paths.ROOT / "results" / name)
    (_, *written), after = update(monkeypatch, tmp_path, README.read_text(encoding="utf-8"))
    assert after == README.read_text(encoding="utf-8"), "write it anew: python -m helpers figures"
    for path in written:
        assert path.read_text() == (paths.ROOT / "results" / path.name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(path.parent.name for path in (paths.ROOT / "results").glob("*/report.html")))
def test_a_stored_report_is_of_the_records_that_there_are(name):
    ids = re.findall(r'<section id="([^"]+)"', paths.report(name).read_text(encoding="utf-8"))
    files = (paths.ROOT / "results" / name).glob("*/*.json")
    assert sorted(ids) == sorted(f"{file.parent.name}-{file.stem}" for file in files if file.parent.name != "notebooks")


def test_the_papers_say_what_their_rows_are():
    methods = figures.read_methods()
    assert methods["imm"]["Single"].startswith("one reader") and set(methods) >= {"a2d", "hrkd", "mtdnn_kd", "mtdnn"}
    assert all(methods[paper.key] for paper in papers.list_papers()[1:])


def test_exact_match_of_a_difference_is_estimated_where_a_record_has_it():
    ups = {"F1": (5, 4, 6, 5, 5), "EM": (-1, 0, 1, -2, 0)}
    scores = [
        (row, "x", seed, 50 + up * (row == "B"), None, metric)
        for metric, of_metric in ups.items()
        for seed, up in enumerate(of_metric)
        for row in "AB"
    ]
    claims = [{"text": "B beats A", "above": "B", "below": "A"}]
    both, f1 = (record("imm/table1", some, claims=claims) for some in (scores, scores[:10]))
    # A difference of -0.4 with a deviation of 1.14 over 5 seeds: 1.14 / 5 ** 0.5 * 2.776.
    assert findings.state_half(findings.estimate_exact_match(both, both.claims[0])) == "-0.4 ± 1.4"
    assert findings.estimate_exact_match(f1, f1.claims[0]) is None


def test_imm_is_undecided_against_bam_where_other_domains_help_more(monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(paths.ROOT / "results"))
    stored = {record.artefact: record for record in records.read_all("study", "imm")}
    for verdicts in stats.judge_all([stored["imm/table1_equal"], stored["imm/table1_general"]]):
        assert [v.outcome for v in verdicts if v.claim.text == "IMM beats BAM"] == [stats.UNDECIDED]

    def gain(name, above, below):
        record = stored[name]
        return stats.estimate(record, [(1, above, record.columns), (-1, below, record.columns)])

    for row, printed in {"FT": 76.98 - 75.03, "BAM": 77.11 - 75.03}.items():
        assert gain("imm/table1", row, "Single").high < printed / 2 < gain("imm/table1_general", row, "Single").mean
    control = gain("imm/table1_general", "IMM", "BAM")
    assert control.mean < 0 and control.high < 77.94 - 77.11 and len(control.values) == 10
    assert IMM.caveat == "Undecided where other domains help more."


def test_a2d_gains_at_the_papers_temperature_and_stays_below_its_ensemble(monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(paths.ROOT / "results"))
    stored = records.read_all("study", "a2d")
    outcomes = {v.claim.text: v.outcome for verdicts in stats.judge_all(stored) for v in verdicts}
    assert outcomes["RMR + A2D beats RMR on Test at the paper's temperature, 2"] == stats.SUPPORTED
    assert outcomes["RMR + A2D beats its ensemble on AddSent"] == stats.REFUTED
    assert outcomes["with 2 times the tables' steps RMR + A2D beats RMR + one teacher on Test"] == stats.UNDECIDED
    steps = next(record for record in stored if record.artefact == "a2d/steps")
    alone, all_members = (
        stats.estimate(steps, [(1, f"RMR + {teachers}, 1", ["Test"]), (-1, "RMR, 1", ["Test"])]).mean
        for teachers in ("one teacher", "A2D")
    )
    assert all_members / 2 < alone < all_members
    caveat = "One teacher gives most of it. On misleading passages its ensemble stays better."
    assert caveat == A2D.caveat


def test_what_to_use_says_what_records_support(monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(paths.ROOT / "results"))
    outcomes = {
        (record.artefact, v.claim.text): v.outcome
        for key in ("a2d", "imm")
        for record, verdicts in report.judge_records(records.read_all("study", key))
        for v in verdicts
    }
    expected = {
        ("a2d/table1", "RMR + A2D beats RMR on Test"): stats.SUPPORTED,
        ("a2d/table1", "BERT + A2D beats BERT on Test"): stats.UNDECIDED,
        ("a2d/steps", "with the tables' steps RMR + one teacher beats RMR on Test"): stats.SUPPORTED,
        ("a2d/steps", "with 2 times the tables' steps RMR + A2D beats RMR + one teacher on Test"): stats.UNDECIDED,
        ("imm/table1", "Mix beats Single"): stats.SUPPORTED,
        ("imm/your_domains_equal", "Mix beats Single"): stats.UNDECIDED,  # given as many steps
        ("imm/your_domains", "Mix ensemble beats Single"): stats.SUPPORTED,
        ("imm/your_domains", "Mix ensemble beats Mix"): stats.SUPPORTED,
        ("imm/your_domains", "A2D beats Mix"): stats.SUPPORTED,
        ("imm/your_domains_equal", "A2D beats Mix"): stats.SUPPORTED,
        ("imm/your_domains_equal", "A2D beats Single"): stats.SUPPORTED,
    }
    assert {name: outcomes[name] for name in expected} == expected
    (equal,) = [record for record in records.read_all("study", "imm") if record.artefact == "imm/your_domains_equal"]
    for claim in equal.claims:
        if claim.below == "Single" and claim.above != "best on validation":
            assert findings.estimate_exact_match(equal, claim).high < 0
    for of_all, of_one in product(("Mix", "A2D"), ("Single", "FT", "IMM")):
        assert findings.estimate_exact_match(equal, Claim(text="", above=of_all, below=of_one)).high < 0
    (shorter,) = [record for record in records.read_all("study", "imm") if record.artefact == "imm/your_domains"]
    for of_all in ("Mix", "A2D"):
        assert findings.estimate_exact_match(shorter, Claim(text="", above=of_all, below="BAM")).high < 0
        assert findings.estimate_exact_match(shorter, Claim(text="", above=of_all, below="IMM")).mean < 0
    assert findings.ADVICE_SUMMARY == (
        "Hints from the miniature world, whose domains disagree about answers. With several domains the best single "
        "reader by mean F1 is distilled from an ensemble. By exact match readers per domain (IMM, BAM) lead."
    )


def test_mtdnns_readers_of_questions_alone_have_something_to_learn(monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(paths.ROOT / "results"))
    stored = next(record for record in records.read_all("study", "mtdnn") if record.artefact == "mtdnn/table2")
    never = float(re.search(r"never answers has ([\d.]+) F1", "\n".join(stored.notes))[1])
    whole, unanswerable = (stats.estimate(stored, [(1, "QA", [name])]) for name in ("all questions", "NoAns"))
    assert whole.low > never + 10 and unanswerable.high < 95  # the facts of docs/regimes.md
    (main, *_) = [v for v in stats.judge(stored, records.read_all("study", "mtdnn")) if v.claim.primary]
    assert main.outcome == stats.SMALLER and 3 * main.p_size > stats.ALPHA  # looked at three times
    alone = [v.outcome for v in stats.judge(stored) if v.claim.text == "QA with multiple choice (MCC) beats QA alone"]
    assert alone == [stats.SUPPORTED]
    assert MTDNN.caveat.startswith("Undecided if corrected for looks. Multiple choice alone helps (post hoc).")


def test_the_smallest_differences_are_of_the_records_seeds(monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(paths.ROOT / "results"))
    text = (paths.ROOT / "docs/statistics.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| ([\w-]+), (Table \d): [^|]*\|[^|]*\| (\d+) \|", text, re.M)
    keys = {paper.method: paper.key for paper in papers.list_papers()}
    for method, table, seeds in lines:
        stored = {report.table_of(record): record for record in records.read_all("study", keys[method])}
        assert len(stored[table].seeds) == int(seeds), (method, table)
    assert len(lines) == 7
