"""A trained reader in three lines of Python."""

import json
import shutil

import pytest
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

import helpers
from helpers import answering
from helpers.data.examples import DataError
from helpers.data.mini import world as mini
from helpers.models.encoders import EncoderError, load_encoder, load_tokenizer, save_encoder


@pytest.fixture(scope="module")
def examples():
    return mini.load_domain("news", train_size=20).train[:6]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An untrained reader, which answers all the same."""
    place = tmp_path_factory.mktemp("reader")
    model = load_encoder("data/mini", seed=0)
    model.config.update({"windows": {"max_length": 64, "stride": 16}, "answers": {"n_best": 5, "max_tokens": 4}})
    save_encoder(model, load_tokenizer("data/mini"), place)
    return place


def test_what_the_package_has_not_is_named():
    with pytest.raises(AttributeError, match="no attribute 'load_writer'"):
        helpers.load_writer  # noqa: B018


def test_a_reader_answers_with_offsets_and_probabilities(folder, examples):
    reader = helpers.load_reader(folder)
    one = examples[0]
    best = reader.answer(one.question, one.context)
    assert best.text and best.text == one.context[slice(*best.span)]
    assert 1 <= len(best.n_best) <= 5 and best.n_best[0].text == best.text
    assert all(one.context[slice(*each.span)] == each.text for each in best.n_best)
    assert sum(each.probability for each in best.n_best) == pytest.approx(1)
    assert best.probability == best.n_best[0].probability == max(each.probability for each in best.n_best)
    assert all(len(load_tokenizer("data/mini").tokenize(each.text)) <= 4 for each in best.n_best)


def test_a_training_s_name_is_enough_to_load_its_reader(folder, examples, results):
    for name in ("Reader-news-seed0-12ab", "Reader-news-seed1-34cd"):
        shutil.copytree(folder, results / "mini/models" / name / "model")
    one = examples[0]
    expected = helpers.load_reader(folder).answer(one.question, one.context)
    assert helpers.load_reader("Reader-news-seed0").answer(one.question, one.context) == expected
    with pytest.raises(
        EncoderError,
        match=r"^2 trainings begin with 'Reader-news', such as mini/models/Reader-news-seed0-12ab, .*; give more",
    ):
        helpers.load_reader("Reader-news")
    shutil.copytree(results / "mini/models", results / "study/models")  # presets may share a training
    assert helpers.load_reader("Reader-news-seed0").answer(one.question, one.context) == expected


def test_a_folder_comes_before_trainings_whose_names_begin_like_it(folder, results, tmp_path, monkeypatch):
    for name in ("Reader-news-seed0-12ab", "Reader-news-seed1-34cd"):
        shutil.copytree(folder, results / "mini/models" / name / "model")
    shutil.copytree(folder, tmp_path / "Reader")
    monkeypatch.chdir(tmp_path)
    assert helpers.load_reader("Reader").windows == {"max_length": 64, "stride": 16}


def test_lists_are_answered_like_one_by_one(folder, examples):
    reader = helpers.load_reader(folder)
    questions, passages = [e.question for e in examples], [e.context for e in examples]
    alone = [reader.answer(q, p).text for q, p in zip(questions, passages, strict=True)]
    assert [each.text for each in reader.answer(questions, passages)] == alone
    assert reader.answer([], []) == []
    with pytest.raises(DataError, match=r"^the list of passages is shorter than that of questions \(2, 6\); give each"):
        reader.answer(questions, passages[:2])
    with pytest.raises(DataError, match=r"^the list of passages is longer than that of questions \(2, 1\); give each"):
        reader.answer(questions[:1], passages[:2])
    with pytest.raises(DataError, match="question 2: question and passage must not be empty"):
        reader.answer(["Who?", " "], passages[:2])


@pytest.mark.parametrize(
    ("question", "passage", "message"),
    [
        ("Who?", ["Ada leads."], "expected two texts, or two lists of texts, found str and list"),
        (["Who?"], "A", "expected two texts, or two lists of texts, found list and str"),
        ("Who?", None, "expected two texts, or two lists of texts, found str and NoneType"),
        (None, "Ada leads.", "expected two texts, or two lists of texts, found NoneType and str"),
        (b"Who?", b"Ada.", "expected two texts, or two lists of texts, found bytes and bytes"),
        (["Who?"], [None], "question 1: expected texts, found str and NoneType"),
        (["Who?", 3], ["Ada.", "Ada."], "question 2: expected texts, found int and str"),
        ("Who? \ud83d", "Ada leads.", r"question 1: holds a lone surrogate, '\\ud83d'.*; remove it"),
        (["Who?"], ["Ada \udc00 leads."], r"question 1: holds a lone surrogate, '\\udc00'.*; remove it"),
        (["Who?", "\u00a0"], ["Ada.", "Ada."], "question 2: question and passage must not be empty"),
    ],
)
def test_what_is_no_question_about_a_passage_is_one_sentence(folder, question, passage, message):
    with pytest.raises(DataError, match=rf"^{message}[^\n]*$"):
        helpers.load_reader(folder).answer(question, passage)


def test_a_reader_s_configuration_has_to_make_sense(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "reader")
    path = tmp_path / "reader/config.json"
    config = json.loads(path.read_text())
    for change in ({"answers": {"n_best": 0}}, {"answers": {"x": 1}}, {"null_threshold": "high"}, {"windows": 3}):
        path.write_text(json.dumps(config | change))
        with pytest.raises(EncoderError, match="its files are damaged or not of one model; save or fetch it again"):
            helpers.load_reader(tmp_path / "reader")
    path.write_text(json.dumps(config | {"windows": {"max_length": 4096, "stride": 64}}))
    with pytest.raises(EncoderError, match=r"reads \d+ tokens, not 4096: lower max_length"):
        helpers.load_reader(tmp_path / "reader")


def test_a_reader_has_embeddings_for_its_tokenizer(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "reader")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["Gamma"])
    tokenizer.save_pretrained(tmp_path / "reader")
    with pytest.raises(EncoderError, match=r"has embeddings of [\d,]+ tokens, its tokenizer has [\d,]+; use the tok"):
        helpers.load_reader(tmp_path / "reader")


def test_the_empty_answer_takes_part_where_it_is_allowed(folder, examples):
    reader, one = helpers.load_reader(folder), examples[0]
    assert None not in [each.span for each in reader.answer(one.question, one.context).n_best]
    assert None in [each.span for each in reader.answer(one.question, one.context, no_answer=True).n_best]


@pytest.mark.parametrize(("threshold", "answers"), [(1e9, True), (-3e38, False)])
def test_no_answer_wins_above_the_reader_s_own_threshold(folder, examples, tmp_path, threshold, answers):
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    model.config.update({"unanswerable": True, "null_threshold": threshold})
    save_encoder(model, load_tokenizer(str(folder)), tmp_path / "reader")
    reader, one = helpers.load_reader(tmp_path / "reader"), examples[0]
    assert bool(reader.answer(one.question, one.context).text) == answers
    assert reader.answer(one.question, one.context, no_answer=False).text


def test_a_reader_computes_in_the_precision_of_its_training(folder, examples, tmp_path, monkeypatch):
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    model.config.precision = "bf16"
    save_encoder(model, load_tokenizer(str(folder)), tmp_path / "reader")
    precisions, predict = [], answering.predict
    monkeypatch.setattr(answering, "predict", lambda *some, precision: precisions.append(precision) or predict(*some))
    for place in (folder, tmp_path / "reader"):
        helpers.load_reader(place).answer(examples[0].question, examples[0].context)
    assert precisions == ["fp32", "bf16"]
