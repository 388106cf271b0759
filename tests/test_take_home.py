"""A trained reader in three lines of Python."""

import json
import shutil

import pytest
import torch
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
    reader = helpers.load_reader("Reader")
    assert reader.windows == {"max_length": 64, "stride": 16}
    assert repr(reader) == "TrainedReader(BertForQuestionAnswering, max_length=64, unanswerable=False)"
    with pytest.raises(EncoderError, match=r"^model: expected a folder or a name, found None; give one$"):
        helpers.load_reader(None)


def test_lists_are_answered_like_one_by_one(folder, examples):
    reader = helpers.load_reader(folder)
    questions, passages = [e.question for e in examples], [e.context for e in examples]
    alone = [reader.answer(q, p).text for q, p in zip(questions, passages, strict=True)]
    assert [each.text for each in reader.answer(questions, passages)] == alone
    assert reader.answer([], []) == []
    about_one = [reader.answer(question, passages[0]).text for question in questions]
    assert [each.text for each in reader.answer(questions, passages[0])] == about_one
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
        (["Who?"], b"A", "expected two texts, or two lists of texts, found list and bytes"),
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
    with pytest.raises(EncoderError, match=r"reads \d+ tokens, not 4096; lower windows.max_length"):
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

    def note_precision(*some, precision, **options):
        precisions.append(precision)
        return predict(*some, **options)

    monkeypatch.setattr(answering, "predict", note_precision)
    for place in (folder, tmp_path / "reader"):
        helpers.load_reader(place).answer(examples[0].question, examples[0].context)
    assert precisions == ["fp32", "bf16"]


# --- the form of transformers' pipeline -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """An untrained reader whose configuration says nothing of this package."""
    place = tmp_path_factory.mktemp("foreign")
    model = load_encoder("data/mini", seed=3)
    torch.nn.init.normal_(model.qa_outputs.weight, std=0.3, generator=torch.Generator().manual_seed(3))
    save_encoder(model, load_tokenizer("data/mini"), place)
    return place


def pipeline_answers(folder, question, context, *, top_k=1, impossible=False, longest=15, overlap=128):
    """The rule of transformers' pipeline, one window and one pair of tokens at a time."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForQuestionAnswering.from_pretrained(folder)
    most = min(tokenizer.model_max_length, 384, model.config.max_position_embeddings)
    encoded = tokenizer(
        question,
        context,
        truncation="only_second",
        max_length=most,
        stride=min(most // 2, overlap),
        return_overflowing_tokens=True,
    )
    answers, null = {}, 1.0
    for number, ids in enumerate(encoded.input_ids):
        inputs = {name: torch.tensor([encoded[name][number]]) for name in ("input_ids", "token_type_ids")}
        with torch.inference_mode():
            output = model.eval()(**inputs)
        texts = encoded.sequence_ids(number)
        others = [place for place in range(1, len(ids)) if texts[place] != 1]
        sides = []
        for logits in (output.start_logits[0].clone(), output.end_logits[0].clone()):
            logits[others] = -10000.0
            sides.append(logits.softmax(0).tolist())
        start, end = sides
        null = min(null, start[0] * end[0])
        passage = [place for place in range(len(ids)) if texts[place] == 1]
        pairs = [(start[i] * end[j], i, j) for i in passage for j in passage if i <= j < i + longest]
        for score, i, j in sorted(pairs, reverse=True)[: 2 * top_k + 10]:
            first, last = (encoded.token_to_word(number, place) for place in (i, j))
            begin, stop = (encoded.word_to_chars(number, word, 1) for word in (first, last))
            text = context[begin.start : stop.end]
            facts = {"score": 0.0, "start": begin.start, "end": stop.end, "answer": text}
            answers.setdefault(text.lower(), facts)["score"] += score
    if impossible:
        answers[""] = {"score": null, "start": 0, "end": 0, "answer": ""}
    return sorted(answers.values(), key=lambda answer: -answer["score"])[:top_k]


@pytest.mark.parametrize("top_k", [2, 9])
@pytest.mark.parametrize("repeated", [1, 12], ids=["one window", "windows"])
def test_another_model_answers_as_in_transformers_pipeline(foreign, examples, repeated, top_k):
    reader = helpers.load_reader(foreign)
    for example in examples:
        context = " ".join([example.context] * repeated)
        answers = reader(question=example.question, context=context, top_k=top_k, handle_impossible_answer=True)
        expected = pipeline_answers(foreign, example.question, context, top_k=top_k, impossible=True)
        if repeated > 1:  # scores of equal texts add up nearly as theirs, so later ones change places
            answers, expected = answers[:2], expected[:2]
        for answer, other in zip(answers, expected, strict=True):
            place = {} if repeated == 1 else {side: answer[side] for side in ("start", "end")}  # theirs is the first
            assert answer == other | place | {
                "score": pytest.approx(other["score"], abs=1e-5 if repeated == 1 else 0.05)
            }
            assert context[answer["start"] : answer["end"]] == answer["answer"]


def test_the_call_returns_one_for_one_and_lists_for_lists(folder, examples):
    reader, one = helpers.load_reader(folder), examples[0]
    questions, contexts = [example.question for example in examples], [example.context for example in examples]
    best = reader(question=one.question, context=one.context)
    assert best["answer"] == one.context[best["start"] : best["end"]] and 0 < best["score"] <= 1
    several = reader(question=questions, context=contexts)
    assert len(several) == len(examples) and several[0] == best | {"score": pytest.approx(best["score"], abs=1e-6)}
    assert reader(question=[one.question], context=one.context) == [best]
    assert reader(question=[], context=[]) == []
    for listed in reader(question=questions, context=contexts, top_k=3):
        assert len({answer["answer"].lower() for answer in listed}) == len(listed) <= 3
    (twice, _) = reader(question=[one.question, questions[1]], context=one.context, top_k=3)
    assert twice == [
        answer | {"score": pytest.approx(answer["score"], abs=1e-6)}
        for answer in reader(question=one.question, context=one.context, top_k=3)
    ]


def test_a_reader_of_this_package_puts_first_what_it_answers(folder, examples, tmp_path):
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    model.config.update({"unanswerable": True, "null_threshold": -3e38, "answer_temperature": 2.0})
    save_encoder(model, load_tokenizer(str(folder)), tmp_path / "reader")
    reader, one = helpers.load_reader(tmp_path / "reader"), examples[0]
    nothing = {"answer": "", "start": 0, "end": 0, "score": 1.0}
    assert reader(question=one.question, context=one.context, top_k=2)[0] == nothing
    for example in examples:
        texts = {"question": example.question, "context": example.context}
        found = reader.answer(example.question, example.context, no_answer=False)
        first = reader(**texts, handle_impossible_answer=False, align_to_words=False)
        assert (first["start"], first["end"]) == found.span
        assert first["score"] >= found.probability
        assert len(reader.tokenizer.tokenize(reader(**texts, max_answer_len=1, align_to_words=False)["answer"])) <= 1


def test_ends_inside_a_word_move_to_its_ends(folder):
    reader = helpers.load_reader(folder)
    words = reader.tokenizer.backend_tokenizer.encode("Unfathomable Gamma", add_special_tokens=False)
    assert len(words.tokens) > 2
    assert answering._align(4, 8, words) == (0, 12)
    assert answering._align(13, 18, words) == (13, 18)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top_k": 0}, "top_k = 0, max_answer_len = None; expected at least 1"),
        ({"max_answer_len": 0}, "top_k = 1, max_answer_len = 0; expected at least 1"),
        ({"question": None}, "expected two texts, or two lists of texts, found NoneType and str"),
        ({"context": ["A", "B"]}, "the list of passages is longer than that of questions"),
    ],
)
def test_a_call_that_makes_no_sense_is_one_sentence(folder, arguments, message):
    with pytest.raises(DataError, match=rf"^{message}[^\n]*$"):
        helpers.load_reader(folder)(**{"question": "Who?", "context": "Ada leads."} | arguments)
