"""Questions without an answer, from a file to a reader's configuration."""

import numpy as np
import pytest
from conftest import plan_of
from qa_files import question_of, write_examples, write_squad

from helpers import engine, load_reader
from helpers.answering import calibrate, save_reader
from helpers.data.load import load_domains
from helpers.data.mini import world as mini
from helpers.extractive_qa import answer, answer_questions, windows_of
from helpers.metrics import best_threshold
from helpers.papers import shared
from helpers.papers.imm import algorithm
from helpers.presets.load import load_preset
from helpers.training import Outputs


def write(path, examples):
    """Write SQuAD 2.0's JSON; every third question is asked of another passage, which does not answer it."""
    paragraphs = []
    for number, example in enumerate(examples):
        impossible = number % 3 == 0
        source = examples[number - 1] if impossible else example
        answers = question_of(source)["answers"]
        more = {"answers": [], "plausible_answers": answers} if impossible else {}
        paragraphs.append((source.context, [question_of(example) | {"is_impossible": impossible} | more]))
    write_squad(path, *paragraphs)


@pytest.fixture
def preset(tmp_path):
    """A function of ``unanswerable`` that gives a preset of two files, of which law has unanswerable questions."""

    def of(unanswerable):
        files = {"law": str(tmp_path / "law.json"), "news": str(tmp_path / "news.json")}
        data = {"source": "files", "folder": str(tmp_path), "domains": files, "adversarial": None}
        data["unanswerable"] = unanswerable
        return load_preset("smoke", "imm", seeds=1, **{f"data.{key}": value for key, value in data.items()})

    examples = mini.load_domain("news", train_size=120).train
    write(tmp_path / "law.json", examples)
    write_examples(tmp_path / "news.json", [example for number, example in enumerate(examples) if number % 3])
    return of


def test_they_stay_where_the_preset_says_so(preset):
    domains = load_domains(preset(["law"]).data)
    assert {bool(e.answers) for e in domains["law"].train} == {True, False}
    assert all(e.answers for e in domains["news"].train)
    assert {bool(e.answers) for e in load_domains(preset(True).data)["law"].test} == {True, False}


def test_a_reader_of_them_may_answer_nothing_where_its_domain_has_them(results, preset):
    settings = preset(["law"])
    readers, sets = algorithm.single_readers(settings, 0), ("test", "test/law", "test/news")
    models = dict.fromkeys(sets, (readers["law"],))
    answers = Outputs(preset=settings, label="answers", models=models, compute=answer_questions)
    engine.run(plan_of(*readers.values(), answers), settings.engine)
    texts = answers.result()["answers"]
    assert all(texts["test/news"])  # where every question has an answer, there is one
    assert texts["test"] == texts["test/law"] + texts["test/news"]
    question = load_domains(settings.data)["law"].test[0]
    for name, may_have_none in {"law": True, "news": False}.items():
        reader = load_reader(readers[name].saved())  # reads as its configuration says
        assert reader.windows == {"max_length": 96, "stride": 32, "stride_is": "step", "max_question": 64}
        best = reader.answer(question.question, question.context).n_best
        assert ("" in [candidate.text for candidate in best]) == may_have_none


def test_a_threshold_is_chosen_on_validation_for_scoring_and_for_the_reader_that_is_kept(results, preset, tmp_path):
    settings = preset(["law"])
    reader = algorithm.single_readers(settings, 0)["law"]
    cells = {("Single", name, 0): ((reader,), f"test/{name}") for name in ("law", "news")}

    def plan():
        yield [reader]
        return (yield from shared.answer_sets(settings, cells))

    answers = {name: texts for name, (texts,) in engine.run(plan(), settings.engine).values()}
    values = calibrate(settings, reader.load(), ["law"])
    windows = windows_of(settings, ["law"], "valid")
    limit = best_threshold(windows.examples, answer(settings, [reader.load()], windows, True))
    assert values["null_threshold"] == np.clip(limit, -1e38, 1e38)
    assert calibrate(settings, reader.load(), ["news"])["null_threshold"] == 0.0
    save_reader(reader, "law", tmp_path / "law")
    copy = load_reader(tmp_path / "law")
    assert copy.calibration == values and copy.unanswerable
    texts = [one.text for one in copy.answer_all(load_domains(settings.data)["law"].test)]
    assert texts == answers["test/law"] and all(answers["test/news"])
    save_reader(reader, "news", tmp_path / "news")
    assert not load_reader(tmp_path / "news").unanswerable  # whose questions all have answers


def test_the_setting_is_part_of_the_keys_of_what_depends_on_it(preset):
    some, everywhere = preset(["law"]), preset(True)
    before, after = algorithm.single_readers(some, 0), algorithm.single_readers(everywhere, 0)
    assert before["law"].key == after["law"].key and before["news"].key != after["news"].key
    asked = {"label": "", "models": {"test/news": (before["law"],)}, "compute": answer_questions}
    assert Outputs(preset=some, **asked).key != Outputs(preset=everywhere, **asked).key
