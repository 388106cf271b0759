"""Questions without an answer, from a file to a reader's configuration."""

import json

import pytest
from conftest import answer_of, write_squad

from helpers.data.domains import load_domains
from helpers.data.examples import DataError
from helpers.data.mini import domains as mini
from helpers.papers.imm import algorithm
from helpers.presets.load import load
from helpers.tasks import answering, metrics
from helpers.training import engine


def write(path, examples):
    """SQuAD 2.0's JSON; every third question is asked of another passage, which does not answer it."""
    paragraphs = []
    for number, example in enumerate(examples):
        impossible = number % 3 == 0
        context = examples[number - 1].context if impossible else example.context
        answers = {"answers": [] if impossible else [answer_of(example)], "is_impossible": impossible}
        plausible = {"plausible_answers": [answer_of(examples[number - 1])]} if impossible else {}
        asked = {"id": example.id, "question": example.question, **answers, **plausible}
        paragraphs.append({"context": context, "qas": [asked]})
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "x", "paragraphs": paragraphs}]}))


@pytest.fixture
def preset(tmp_path):
    """Two domains of files, one of them with questions that have no answer."""

    def of(**overrides):
        files = {"law": str(tmp_path / "law.json"), "news": str(tmp_path / "news.json")}
        data = {"source": "files", "folder": str(tmp_path), "domains": files, "adversarial": None}
        return load("smoke", "imm", seeds=1, **{f"data.{key}": value for key, value in data.items()} | overrides)

    examples = mini.load_domain("news", train_size=120).train
    write(tmp_path / "law.json", examples)
    write_squad(tmp_path / "news.json", [example for number, example in enumerate(examples) if number % 3])
    return of


def test_they_are_kept_where_the_preset_says_so(preset):
    domains = load_domains(preset(**{"data.unanswerable": ["law"]}).data)
    assert {bool(e.answers) for e in domains["law"].train} == {True, False}
    assert all(e.answers for e in domains["news"].train)
    assert {bool(e.answers) for e in load_domains(preset(**{"data.unanswerable": True}).data)["law"].test} == {
        True,
        False,
    }


def test_without_the_setting_they_are_refused_and_the_setting_is_named(preset):
    with pytest.raises(DataError, match=r"law\.json: .*no answer.*data\.unanswerable"):
        load_domains(preset().data)


def test_a_reader_of_them_may_answer_nothing_where_its_domain_has_them(results, preset, monkeypatch):
    settings = preset(**{"data.unanswerable": ["law"]})
    readers = algorithm.singles(settings, 0)
    engine.run(readers.values(), settings.engine)
    task = answering.answering(settings, [readers["law"]], ["test", "test/law", "test/news"])
    engine.run([task], settings.engine)
    texts = task.result()
    assert all(texts["test/news"])  # where every question has an answer, there is one
    assert texts["test"] == texts["test/law"] + texts["test/news"]
    asked = load_domains(settings.data)["law"].test
    scores = metrics.by_answerability(asked, metrics.score(asked, texts["test/law"]))
    assert set(scores) == {"HasAns", "NoAns"}

    # The reader's configuration says how it reads, and single questions are asked so.
    given = {}
    make_windows = answering.make_windows
    monkeypatch.setattr(answering, "make_windows", lambda *a, **k: given.update(k) or make_windows(*a, **k))
    probability = {}
    for name in readers:
        best = answering.load_reader(readers[name].folder()).answer(asked[0].question, asked[0].context)
        probability[name] = [candidate.text for candidate in best.n_best]
    assert given == {"max_length": 96, "stride": 32, "stride_is": "step", "max_question": 64}
    assert "" in probability["law"] and "" not in probability["news"]


def test_the_setting_is_part_of_the_keys_of_what_depends_on_it(preset):
    some, everywhere = preset(**{"data.unanswerable": ["law"]}), preset(**{"data.unanswerable": True})
    before, after = algorithm.singles(some, 0), algorithm.singles(everywhere, 0)
    assert before["law"].key == after["law"].key and before["news"].key != after["news"].key
    asked = [answering.answering(p, [before["law"]], ["test/news"]).key for p in (some, everywhere)]
    assert asked[0] != asked[1]
