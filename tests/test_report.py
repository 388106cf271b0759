"""The report: what was found first, then every result, on one page that needs nothing else."""

import re

import nbformat
import pytest
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from test_figures import case, corpora, record, similarity, table

from helpers import paths
from helpers.papers.card import Artefact, Paper
from helpers.results import front, html, report, summary
from helpers.results.records import Claim, Printed, write

pytestmark = pytest.mark.usefixtures("results")

CARDS = [
    Paper("corpora", "The corpora", artefacts=(Artefact("overview", ""),)),
    Paper(
        "imm",
        "Liu & others",
        "https://example.org/?a&b",
        artefacts=(Artefact("similarity", ""), Artefact("table1", ""), Artefact("table3_new", "", ours=True)),
    ),
]
LIMIT = {"key": "training.epochs", "value": 1, "instead_of": 0, "why": "short"}


def claimed(artefact="imm/table1", seeds=5, **more):
    """B is above A by 4 to 6 with each seed, C by -2 to 2."""
    values = {"A": [50] * 5, "B": [54, 56, 55, 54, 56], "C": [52, 48, 50, 51, 49]}
    scores = [(row, "x", seed, value) for row, of_row in values.items() for seed, value in enumerate(of_row[:seeds])]
    said = [
        Claim(text="B beats A", above="B", below="A", primary=True),
        Claim(text="C beats A", above="C", below="A"),
        Claim(text="A beats B", above="A", below="B"),
    ]
    known = {"title": "IMM, Table 1: F1", "baselines": ["A"], "claims": [claim.model_dump() for claim in said]}
    return record(artefact, scores, **known | more)


def shown(*known, cards=CARDS):
    for each in known:
        write(each)
    return report.page("mini", cards).data


def test_the_page_begins_with_what_was_found():
    page = shown(claimed(), similarity(), corpora())
    found, _, rest = page.partition("<nav")
    assert "claims, mini: 1 hold, 1 fail, 1 open" in found
    assert re.search(r'<li class="holds">.*<a href="#imm-table1">Table 1</a>: B beats A: \+5.0 F1 \(\+3.8 to', found)
    assert "C beats A" not in found and found.count("<img") == 1
    places = [rest.index(f'id="{name}"') for name in ("corpora-overview", "imm-similarity", "imm-table1", "made")]
    assert places == sorted(places)


def test_a_preset_of_the_same_world_decides_where_it_has_more_seeds():
    write(claimed().model_copy(update={"preset": "study"}))
    found, _, _ = shown(claimed(seeds=2), claimed("imm/similarity", seeds=2)).partition("<nav")
    link = '<a href="#imm-table1">Table 1</a> \\(study, 5 seeds\\): B beats A: \\+5.0 F1'
    assert re.search(f'<li class="holds">.*{link}', found)
    assert '<a href="#imm-similarity">Table 1</a>: Open whether B beats A' in found
    assert "claims, mini: 6 open; study: 1 hold, 1 fail, 1 open" in found
    assert "1 of 2 results with claims have fewer" in found
    write(claimed().model_copy(update={"preset": "lab"}))
    assert "(study" not in summary.findings("lab", [claimed().model_copy(update={"preset": "lab"})], CARDS)


def test_the_first_screen_has_the_first_headline_and_one_that_is_decided_where_that_is_open():
    few, decided, printed = claimed(seeds=2), claimed("imm/table2"), claimed("imm/table3")
    printed = printed.model_copy(update={"paper": [Printed(method=row, column="x", value=5) for row in "AB"]})
    (said,) = summary.judged([few, decided, printed]).values()
    assert [each.record.artefact for each in front.headlines(said)] == ["imm/table1", "imm/table3"]
    (said,) = summary.judged([few, decided]).values()
    assert [each.record.artefact for each in front.headlines(said)] == ["imm/table1", "imm/table2"]
    (said,) = summary.judged([decided, printed]).values()
    assert [each.record.artefact for each in front.headlines(said)] == ["imm/table2"]


def test_the_first_screen_has_what_another_size_decides():
    here, both = [claimed(seeds=2), claimed("imm/table2")], [claimed(), claimed("imm/table2"), claimed("imm/table3")]
    larger = [record.model_copy(update={"preset": "study-large"}) for record in both]
    ours, sizes = (summary.primary(summary.judged(known)) for known in (here, larger))
    said = front.decided_by(sizes, ours)
    place = "IMM, Table 1 (preset [`study-large`](results/study-large/report.html)): "
    assert said == place + sizes[0].judgement.short and said.endswith("B beats A: +5.0 F1 (+3.8 to +6.2).")
    assert front.decided_by(ours, sizes) == ""


def test_every_link_inside_the_page_leads_somewhere():
    page = shown(claimed(), similarity(), corpora(), table().model_copy(update={"artefact": "imm/table3_new"}))
    there = re.findall(r' id="([^"]+)"', page)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(there) and len(set(there)) == len(there)
    assert '<h2 id="imm">Liu &amp; others <a href="https://example.org/?a&amp;b">paper</a></h2>' in page
    assert '<details id="imm-table3_new">' in page and '<section id="imm-table1">' in page
    assert '<h2 id="imm">imm</h2>' in shown(cards=[])


def test_too_few_seeds_and_a_missing_gpu_are_said_once():
    page = shown(claimed(seeds=3, limits=[LIMIT]), claimed("imm/table2", limits=[LIMIT]))
    assert page.count("A verdict needs 5 seeds; 1 of 2 results with claims have fewer") == 1
    assert page.count("training.epochs") == 1 and "Without a GPU" in page
    assert summary.fewest([claimed()]) == "" and "Without a GPU" not in shown(claimed(), claimed("imm/table2"))
    other = claimed("a2d/table1", limits=[LIMIT | {"value": 2}])
    page = shown(claimed(limits=[LIMIT]), other)  # a row a paper where these differ
    rows = re.findall(r'<th scope="row">(training.epochs.*?)</th><td>(.*?)</td>', page)
    assert rows == [("training.epochs (imm)", "1"), ("training.epochs (a2d)", "2")]
    both = [claimed(f"imm/table{n}", limits=[LIMIT | {"value": n, "why": f"why {n}"}]) for n in (1, 2)]
    row = re.search(r'<th scope="row">training.epochs \(imm\)</th>(.*?)</tr>', shown(*both))[1]
    assert re.findall("<td>(.*?)</td>", row) == ["1; 2", "all", "why 1; why 2", "imm"]


def test_claims_are_marked_and_open_ones_stay_behind():
    said = html.sentences(claimed())
    assert re.findall(r'<li class="(\w+)"><span aria-hidden="true">(.)</span> (.*?):', said) == [
        ("holds", "✓", "B beats A"),
        ("fails", "✗", "It does not hold that A beats B"),
        ("open", "○", "Open whether C beats A"),
    ]
    assert said.index("<details><summary>1 more claim, open") < said.index("Open whether C")


def test_the_papers_numbers_stand_in_the_same_rows():
    text = html.table_html(table())
    heads = re.findall(r'<th colspan="(\d)">(.*?)</th>', text)
    assert heads[:2] == [("4", "Ours, F1; in brackets 95 % interval over seeds"), ("6", "The paper&#x27;s, F1")]
    (single,) = re.findall(r'<tr><th scope="row">Single</th>(.*?)</tr>', text)
    assert single.startswith("<td><b>61.0</b> <small>(48 to 74)</small></td>") and single.endswith("<td>75.03</td>")
    (imm,) = re.findall(r'<tr><th scope="row">IMM</th>(.*?)</tr>', text)  # which we have no score of
    assert imm.startswith("<td></td>" * 4 + "<td>89.44</td>")


def test_a_picture_says_what_it_shows_or_where_that_stands():
    assert 'alt="Title. Its numbers are in the table beside it."' in html.picture(table())
    assert 'alt="Title. Nearest to news: stories (0.90)' in html.picture(similarity())
    said = "The reader answers before distillation “a”, after distillation “a”."
    assert f'alt="Title. {said}"' in html.picture(case()) and said in html.sentences(case())
    assert 'alt="&lt;script&gt;"' in html.image(Figure(), "<script>")


def test_it_is_one_page_without_code_or_links_elsewhere(tmp_path, monkeypatch):
    assert "no results of preset &#x27;mini&#x27; yet" in report.page("mini", CARDS[:1]).data
    text = shown(table(), similarity(), corpora(), cards=[CARDS[0], Paper("imm", "Liu")])
    cell = new_code_cell("secret_code()", outputs=[new_output("display_data", {"text/html": text})])
    executed = tmp_path / "99_report.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell("# The report"), cell]), executed)
    page = report.export("mini", executed)
    assert page == paths.report("mini")
    text = page.read_text()
    assert "0123456789 with changes" in text and "two seeds, CPU" in text and "The report" in text
    assert "secret_code" not in text and "<script" not in text and "http" not in text and "¶" not in text
    assert '<meta name="viewport" content="width=device-width' in text and "prefers-color-scheme: dark" in text
    monkeypatch.setattr(report, "LINKED", 100)
    assert report.export("mini", executed).read_text() == text
    assert "report.html" in (kept := executed.read_text()) and "two seeds" not in kept
    with pytest.raises(ValueError, match="run 99_report first"):
        report.export("mini", tmp_path / "none.ipynb")


def test_a_notebook_is_shown_what_there_is_of_a_record(monkeypatch):
    pieces = []
    monkeypatch.setattr(report, "display", lambda *shown: pieces.append(shown))
    for each in (claimed(), similarity(), case()):
        report.show(each)
    (tables, dots, sentences), (matrix, nearest), (picture, answers) = pieces
    assert "Ours, F1" in tables.data and "B beats A" in sentences.data
    assert all(isinstance(drawn, Figure) for drawn in (dots, matrix, picture))
    assert "Nearest to news" in nearest.data and "The reader answers before" in answers.data
