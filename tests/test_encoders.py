"""Every kind of encoder, made small and at random here: what it reads, learns, saves and answers."""

import functools
import itertools

import numpy as np
import pytest
import torch
import transformers
from conftest import text_of
from encoder_kinds import KINDS, ROOM, make_tokenizer
from tokenizers import Tokenizer, processors
from transformers import AutoConfig, AutoModel, AutoModelForQuestionAnswering, PreTrainedTokenizerFast

from helpers import metrics, reading, texts
from helpers.answering import load_reader
from helpers.batches.plans import Batches
from helpers.batches.sequences import Template, collate, make_choices, make_pairs, make_windows
from helpers.data.examples import Choice, Pair
from helpers.data.mini import world
from helpers.errors import EncoderError
from helpers.loop import fit
from helpers.models import attention
from helpers.models import encoders as pretrained
from helpers.models.attention import keep_attention
from helpers.models.encoders import inputs_of, load_encoder, load_saved, load_tokenizer, longest_input, save_encoder
from helpers.presets.schema import TrainingSettings

SETTINGS = TrainingSettings(learning_rate=1e-2, batch_size=8, epochs=1.0, precision="fp32", warmup=0.0)
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}


@pytest.fixture(scope="module")
def questions():
    return world.load_domain("news", train_size=24).train[:24]


@pytest.fixture(scope="module")
def encoders(questions, tmp_path_factory):
    """Each kind's folder, made when first asked for."""

    @functools.cache
    def folder(kind: str) -> str:
        torch.set_num_threads(1)
        place = tmp_path_factory.mktemp(kind)
        tokenizer = make_tokenizer(kind, [text for e in questions for text in (e.question, e.context)])
        name, _, changes = KINDS[kind]
        settings = {"vocab_size": len(tokenizer), "max_position_embeddings": ROOM, **SIZES, **changes}
        if kind == "distilbert":
            settings = {**settings, "hidden_dim": settings.pop("intermediate_size")}
        torch.manual_seed(0)
        save_encoder(AutoModel.from_config(getattr(transformers, f"{name}Config")(**settings)), tokenizer, place)
        return str(place)

    return folder


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def rows(sequences):
    """Unpadded ids and token types of each row, as a batch has them."""
    batch = collate(sequences, np.arange(len(sequences)))
    real = batch["attention_mask"].bool().reshape(-1, batch["input_ids"].shape[-1])
    return [
        tuple(batch[name].reshape(real.shape)[row][real[row]].tolist() for name in ("input_ids", "token_type_ids"))
        for row in range(len(real))
    ]


def theirs(encoded):
    return list(zip(encoded["input_ids"], encoded["token_type_ids"], strict=True))


def test_windows_equal_the_tokenizer_s(encoders, kind, questions):
    tokenizer = load_tokenizer(encoders(kind))
    windows = make_windows(questions, tokenizer, max_length=64, stride=16, stride_is="overlap")
    expected = tokenizer(
        [e.question for e in questions], [e.context for e in questions], max_length=64, stride=16,
        truncation="only_second", return_overflowing_tokens=True, return_offsets_mapping=True,
        return_token_type_ids=True,
    )  # fmt: skip
    assert rows(windows) == theirs(expected) and len(windows) > len(questions)
    assert windows.example_W.tolist() == expected["overflow_to_sample_mapping"]
    for window in range(len(windows)):
        context = questions[windows.example_W[window]].context
        offsets = [*zip(expected["offset_mapping"][window], expected.sequence_ids(window), strict=True)]
        ranges = [span for span, text in offsets if text == 1]
        start, end = questions[windows.example_W[window]].span
        inside = [t for t, ((a, b), text) in enumerate(offsets) if text == 1 and a < end and b > start]
        whole = inside and offsets[inside[0]][0][0] <= start and offsets[inside[-1]][0][1] >= end
        label = (inside[0], inside[-1]) if whole else (0, 0)
        assert (windows.labels["start"][window], windows.labels["end"][window]) == label
        texts = [context[slice(*span)].strip() for span in ranges]
        first = int(windows.prefix_W[window])
        assert [text_of(windows, window, t, t) for t in range(first, first + len(texts))] == texts
        assert first + len(texts) == windows.lengths_W[window] - len(windows.template.after)
        chars = windows.rows[window].chars
        ends = [start + len(context[start:end].rstrip()) for start, end in ranges]
        assert all(chars[:, 1][i] == end for i, end in enumerate(ends) if texts[i])


def test_answers_are_labelled_without_the_space_before_them(encoders, kind, questions):
    windows = make_windows(questions, load_tokenizer(encoders(kind)), max_length=96, stride=32)
    labelled, (start, end) = np.flatnonzero(windows.labels["start"]), windows.labels.values()
    assert len(labelled) >= 12
    pairs = [(text_of(windows, w, start[w], end[w]), questions[windows.example_W[w]].answers[0]) for w in labelled]
    assert all(text == text.strip() and answer in text for text, answer in pairs)
    assert np.mean([text == answer for text, answer in pairs]) > 0.9  # a few end inside a token


def test_pairs_single_texts_and_choices_equal_the_tokenizer_s(encoders, kind, questions):
    tokenizer = load_tokenizer(encoders(kind))
    texts = [e.context[:size] for e, size in zip(questions, itertools.cycle((5, 20, 40, 60, 80, 120, 300)))]
    sides = texts[:12], texts[::-1][:12]
    pairs = make_pairs([Pair("p", *both, 0) for both in zip(*sides, strict=True)], tokenizer, max_length=25)
    settings = {"max_length": 25, "truncation": True, "return_token_type_ids": True}
    expected = tokenizer(*sides, **settings)
    assert rows(pairs) == theirs(expected)
    cut = sum(a != b for a, b in zip(tokenizer(*sides)["input_ids"], expected["input_ids"], strict=True))
    assert 0 < cut < 12
    single = make_pairs([Pair("s", text, None, 0) for text in texts], tokenizer, max_length=25)
    assert rows(single) == theirs(tokenizer(texts, **settings))
    choices = [Choice("c", context, sides[1][:3], 0) for context in sides[0]]
    contexts, endings = np.repeat(sides[0], 3).tolist(), sides[1][:3] * len(choices)
    assert rows(make_choices(choices, tokenizer, max_length=25)) == theirs(tokenizer(contexts, endings, **settings))


def learn(model, sequences, loss):
    """The loss before and after three steps on the first sequences, all weights but the unused moved."""
    before = [p.detach().clone() for p in model.parameters()]
    index = np.arange(min(8, len(sequences)))
    batch = collate(sequences, index)

    def value():
        with torch.no_grad():
            return float(sum(loss(model.eval()(**{n: batch[n] for n in inputs_of(model)}), batch, 0.0).values()))

    start = value()
    fit(model, Batches(sequences, [index] * 3), loss, SETTINGS, seed=0)
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert np.mean(moved) > 0.8
    return start, value()


def test_it_learns_and_answers_and_transformers_alone_loads_it(encoders, kind, questions, tmp_path):
    tokenizer = load_tokenizer(encoders(kind))
    windows = make_windows(questions, tokenizer, max_length=96, stride=32)
    model = load_encoder(encoders(kind), seed=0, max_length=96)
    before, after = learn(model, windows, reading.likelihood)
    assert after < before
    save_encoder(model, tokenizer, tmp_path / "model")
    assert "quick" not in (tmp_path / "model/config.json").read_text()
    alone = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "model").eval()
    inputs = tokenizer(questions[0].question, questions[0].context, max_length=96, truncation="only_second")
    with torch.no_grad():
        output = alone(**{name: torch.as_tensor([values]) for name, values in inputs.items()})
    logits = reading.predict(load_saved(tmp_path / "model"), windows, precision="fp32")
    length = windows.lengths_W[0]
    assert np.allclose(logits.start[:length], output.start_logits[0].numpy(), atol=1e-5)
    assert np.allclose(logits.end[:length], output.end_logits[0].numpy(), atol=1e-5)
    text = load_reader(tmp_path / "model").answer(questions[0].question, questions[0].context).text
    assert text and text == text.strip() and text in questions[0].context


def test_quick_dropout_is_everywhere_and_its_attention_where_it_can_be(encoders, kind):
    model = load_encoder(encoders(kind), seed=0)
    assert (model.config._attn_implementation == attention.NAME) == (kind not in ("mpnet", "deberta-v3"))
    assert not any(type(module) is torch.nn.Dropout for module in model.modules())
    again = load_encoder(encoders(kind), seed=0)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_attention_is_read_where_it_can_be(encoders, kind, questions):
    windows = make_windows(questions[:4], load_tokenizer(encoders(kind)), max_length=64, stride=16)
    model = load_encoder(encoders(kind), seed=0).eval()
    if kind in ("mpnet", "deberta-v3"):
        with pytest.raises(EncoderError, match="cannot be read"):
            keep_attention(model)
        return
    batch = collate(windows, np.arange(4))
    with torch.no_grad():
        attention = keep_attention(model)(**{name: batch[name] for name in inputs_of(model)}).attention
    p, q = windows.count_W[:4], windows.first_count_W[:4]
    assert attention.shape == (4, p.max(), q.max())
    for row in range(4):
        assert torch.allclose(attention[row].sum(1), (torch.arange(p.max()) < p[row]).float(), atol=1e-5)
        assert not attention[row, :, q[row] :].any()


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_classes_scores_and_choices_are_learned(encoders, kind, questions, tmp_path):
    tokenizer, place = load_tokenizer(encoders(kind)), encoders(kind)
    sentences = [e.question for e in questions]
    classes = [Pair(str(i), text, sentences[-i], i % 3) for i, text in enumerate(sentences)]
    scores = [Pair(str(i), text, None, i / 4) for i, text in enumerate(sentences)]
    options = [Choice(str(i), text, tuple(sentences[i : i + 4]), i % 4) for i, text in enumerate(sentences[:20])]
    for examples, make, head, outputs, shape in (
        (classes, make_pairs, "labels", 3, (24, 3)),
        (scores, make_pairs, "labels", 1, (24,)),
        (options, make_choices, "choices", 2, (20, 4)),
    ):
        sequences = make(examples, tokenizer, 32)
        model = load_encoder(place, head, seed=0, classes=outputs, max_length=32)
        before, after = learn(model, sequences, texts.loss)
        assert after < before, head
        save_encoder(model, tokenizer, tmp_path / f"{head}{outputs}")
        predictions = texts.predict(load_saved(tmp_path / f"{head}{outputs}", head), sequences, "fp32")
        assert predictions.shape == shape and np.isfinite(predictions).all()
        assert len(shape) == 1 or np.allclose(predictions.sum(1), 1, atol=1e-5)
        assert all(np.isfinite(list(metrics.label_scores(examples, predictions).values())))


@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet", "distilbert"])
def test_the_longest_input_is_what_positions_have_room_for(encoders, name):
    load_encoder(encoders(name), seed=0, max_length=ROOM)
    with pytest.raises(EncoderError, match=f"reads {ROOM} tokens, not {ROOM + 1}: lower max_length"):
        load_encoder(encoders(name), seed=0, max_length=ROOM + 1)


def test_positions_end_whatever_their_table_is_called(tmp_path):
    settings = {"vocab_size": 9, "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 11}
    assert longest_input(AutoModel.from_config(transformers.GPT2Config(**settings)), 384) == 11


@pytest.mark.parametrize("names", [("WORLD_SIZE", "RANK"), ("PMI_SIZE",), ("OMPI_COMM_WORLD_SIZE",)])
def test_a_process_never_waits_for_others_that_the_environment_names(names, monkeypatch):
    for name in names:
        monkeypatch.setenv(name, "0" if name == "RANK" else "2")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert load_encoder("data/mini", seed=0).config.vocab_size > 0


def test_a_tokenizer_has_to_be_there_and_to_fit(encoders, tmp_path):
    tokenizer = PreTrainedTokenizerFast.from_pretrained(encoders("bert"))
    model = AutoModel.from_pretrained(encoders("bert"))
    model.save_pretrained(tmp_path / "weights")
    with pytest.raises(EncoderError, match="has no tokenizer; save its tokenizer beside its weights"):
        load_encoder(str(tmp_path / "weights"), seed=0)
    tokenizer.add_tokens(["Gamma"])
    save_encoder(model, tokenizer, tmp_path / "added")
    with pytest.raises(EncoderError, match=r"has embeddings of [\d,]+ tokens, its tokenizer has [\d,]+; use the"):
        load_encoder(str(tmp_path / "added"), seed=0)


@pytest.mark.parametrize("name", ["deberta-v3", "modernbert"])
def test_relative_and_rotary_positions_have_no_end(encoders, name, questions):
    model = load_encoder(encoders(name), seed=0, max_length=4 * ROOM).eval()
    long = [Pair("l", " ".join(e.context for e in questions), None, 0)]
    batch = collate(make_pairs(long, load_tokenizer(encoders(name)), 2 * ROOM), np.arange(1))
    with torch.no_grad():
        logits = model(**{n: batch[n] for n in inputs_of(model)}).start_logits
    assert logits.shape == (1, 2 * ROOM) and logits.isfinite().all()


def test_an_encoder_that_knows_fewer_token_types_than_its_tokenizer_makes(encoders, tmp_path):
    tokenizer = load_tokenizer(encoders("bert"))
    model = AutoModel.from_config(AutoConfig.from_pretrained(encoders("bert"), type_vocab_size=1))
    save_encoder(model, tokenizer, tmp_path / "model")
    with pytest.raises(EncoderError, match="knows 1 token type, its tokenizer makes 2"):
        load_encoder(str(tmp_path / "model"), seed=0)


def test_a_tokenizer_that_does_not_mark_the_beginning_is_refused(encoders, tmp_path):
    backend = Tokenizer.from_file(f"{encoders('bert')}/tokenizer.json")
    backend.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", pair="$A [SEP] $B [SEP]", special_tokens=[("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", sep_token="[SEP]")
    with pytest.raises(EncoderError, match="sets no token before the first text"):
        Template.of(tokenizer)
    save_encoder(load_encoder(encoders("bert"), seed=0), tokenizer, tmp_path / "model")
    with pytest.raises(EncoderError, match="sets no token before the first text"):
        load_tokenizer(str(tmp_path / "model"))


def test_an_encoder_on_the_hub_has_the_revision_after_its_name(monkeypatch):
    calls = []

    def from_pretrained(**arguments):
        calls.append(arguments)
        raise OSError("no network")

    name, revision = "google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594"
    monkeypatch.setattr(pretrained.AutoConfig, "from_pretrained", from_pretrained)
    with pytest.raises(EncoderError, match="no network"):
        load_encoder(f"{name}@{revision}", seed=0)
    assert calls[0]["pretrained_model_name_or_path"] == name and calls[0]["revision"] == revision
    assert pretrained.encoder_fingerprint(f"{name}@{revision}") == f"{name}@{revision}"  # so that it is part of keys
    assert pretrained.locate(name)["revision"] == "main" and "revision" not in pretrained.locate("data/mini")


def test_a_head_of_another_size_gives_way_to_one_of_the_right_size(tmp_path):
    load_encoder("data/mini", "labels", seed=0, classes=3).save_pretrained(tmp_path)
    load_tokenizer("data/mini").save_pretrained(tmp_path)
    assert load_encoder(str(tmp_path), "labels", seed=0, classes=8).classifier.out_features == 8
