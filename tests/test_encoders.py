"""Every kind of encoder, made small and at random here: what it reads, learns, saves and answers."""

import functools
import itertools
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from conftest import text_of
from encoder_kinds import KINDS, ROOM, make_tokenizer
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, processors
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    PreTrainedTokenizerFast,
)

from helpers import extractive_qa
from helpers.answering import load_reader
from helpers.batches import Batches
from helpers.classification import label_loss, label_scores
from helpers.data.examples import Choice, Pair
from helpers.data.mini import world
from helpers.errors import EncoderError
from helpers.loop import fit
from helpers.models import attention
from helpers.models import encoders as pretrained
from helpers.models.attention import keep_attention
from helpers.models.encoders import (
    encoder_fingerprint,
    inputs_of,
    load_encoder,
    load_saved,
    load_tokenizer,
    loading_arguments,
    longest_input,
    save_encoder,
)
from helpers.models.multihead import HEADS_FILE, Head, load_multihead, new_multihead
from helpers.pairs import make_choices, make_pairs
from helpers.papers.hrkd.tinybert import check_pair, load_student
from helpers.presets.schema import TrainingSettings
from helpers.sequences import Template, collate, make_windows
from helpers.training import predict

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
        first = int(windows.passage_start_W[window])
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
    before, after = learn(model, windows, extractive_qa.likelihood)
    assert after < before
    save_encoder(model, tokenizer, tmp_path / "model")
    assert "quick" not in (tmp_path / "model/config.json").read_text()
    alone = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "model").eval()
    inputs = tokenizer(questions[0].question, questions[0].context, max_length=96, truncation="only_second")
    with torch.no_grad():
        output = alone(**{name: torch.as_tensor([values]) for name, values in inputs.items()})
    logits = predict(load_saved(tmp_path / "model"), windows, precision="fp32")
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
    p, q = windows.passage_len_W[:4], windows.question_len_W[:4]
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
        before, after = learn(model, sequences, label_loss)
        assert after < before, head
        save_encoder(model, tokenizer, tmp_path / f"{head}{outputs}")
        predictions = predict(load_saved(tmp_path / f"{head}{outputs}", head), sequences, "fp32")
        assert predictions.shape == shape and np.isfinite(predictions).all()
        assert len(shape) == 1 or np.allclose(predictions.sum(1), 1, atol=1e-5)
        assert all(np.isfinite(list(label_scores(examples, predictions).values())))


@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet", "distilbert"])
def test_the_longest_input_is_what_positions_have_room_for(encoders, name):
    load_encoder(encoders(name), seed=0, max_length=ROOM)
    with pytest.raises(EncoderError, match=f"reads {ROOM} tokens, not {ROOM + 1}; lower windows.max_length"):
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

    def get_config_dict(**arguments):
        calls.append(arguments)
        raise OSError("no network")

    name, revision = "google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594"
    monkeypatch.setattr(pretrained.PreTrainedConfig, "get_config_dict", get_config_dict)
    with pytest.raises(EncoderError, match="no network"):
        load_encoder(f"{name}@{revision}", seed=0)
    assert calls[0]["pretrained_model_name_or_path"] == name and calls[0]["revision"] == revision
    assert pretrained.encoder_fingerprint(f"{name}@{revision}") == f"{name}@{revision}"  # so that it is part of keys
    assert pretrained.loading_arguments(name)["revision"] == "main" and "revision" not in pretrained.loading_arguments(
        "data/mini"
    )


def test_a_head_of_another_size_gives_way_to_one_of_the_right_size(tmp_path):
    load_encoder("data/mini", "labels", seed=0, classes=3).save_pretrained(tmp_path)
    load_tokenizer("data/mini").save_pretrained(tmp_path)
    assert load_encoder(str(tmp_path), "labels", seed=0, classes=8).classifier.out_features == 8


MINI = Path(__file__).parents[1] / "data/mini"


@pytest.fixture
def copy(tmp_path):
    """Copy the encoder of the miniature world, with changes of its configuration and of its weights."""

    def make(change_weights=None, **changes) -> str:
        shutil.copytree(MINI, place := tmp_path / "encoder", dirs_exist_ok=True)
        config = json.loads((place / "config.json").read_text()) | changes
        (place / "config.json").write_text(json.dumps(config))
        if change_weights:
            weights = change_weights(load_file(place / "model.safetensors"))
            save_file(weights, place / "model.safetensors", {"format": "pt"})
        load_tokenizer.cache_clear()
        return str(place)

    return make


def without(text):
    return lambda weights: {name: weight for name, weight in weights.items() if text not in name}


BROKEN = {  # changes of weights and configuration, and what the error names
    "no layers": (without(".layer."), {}, r"bert\.encoder\.layer\.0\.\S+ is missing, .* and 45 more"),
    "one bias": (
        without("query.bias"),
        {},
        r"bert\S+layer\.0\S+query\.bias is missing, .*layer\.2\S+ is missing; give the weights and",
    ),
    "another prefix": (
        lambda weights: {f"_orig_mod.{name}": weight for name, weight in weights.items()},
        {},
        r"embeddings\S+ is missing, .* more",
    ),
    "more layers": (None, {"num_hidden_layers": 9}, r"layer\.\d\.\S+ is missing, .* more"),
    "another width": (None, {"intermediate_size": 32}, r"layer\.0\.intermediate\.dense\.bias is \d+, not 32"),
    "more positions": (None, {"max_position_embeddings": 999}, r"position_embeddings\.weight is \d+×\d+, not 999×"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_only_a_head_may_be_new(copy, fault):
    change, settings, names = BROKEN[fault]
    place = copy(change, **settings)
    for head in ("spans", "labels", "choices"):
        with pytest.raises(EncoderError, match=rf"its weights do not fit its config\.json: .*{names}"):
            load_encoder(place, head, seed=0)
    with pytest.raises(EncoderError, match="its weights do not fit"):
        load_reader(place)
    with pytest.raises(EncoderError, match="its weights do not fit"):
        load_student("", place, 1, seed=0)
    with pytest.raises(EncoderError, match="its weights do not fit"):
        new_multihead(place, {"a": Head("labels")}, seed=0)
    assert load_encoder(place, seed=0, random_layers=1).config.num_hidden_layers == 1


def test_an_encoder_may_come_with_the_head_of_its_pretraining(encoders, kind, tmp_path):
    """As on the Hub, where an encoder with a head for words has no pooler."""
    torch.manual_seed(1)
    model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(encoders(kind)))
    save_encoder(model, load_tokenizer(encoders(kind)), tmp_path)
    pretrained = model.base_model.state_dict()
    for head, classes in (("spans", 2), ("labels", 3), ("choices", 2)):
        weights = load_encoder(str(tmp_path), head, seed=0, classes=classes).base_model.state_dict()
        assert all(torch.equal(weights[name], weight) for name, weight in pretrained.items())
        assert all("pooler" in name for name in weights.keys() - pretrained.keys())


def test_a_pooler_may_be_new_with_a_head_and_follows_its_seed(copy):
    place = copy(without("pooler"))
    first, same, other = (load_encoder(place, "labels", seed=seed).bert.pooler.dense.weight for seed in (1, 1, 2))
    assert torch.equal(first, same) and not torch.equal(first, other)


def test_a_trained_model_has_every_weight(copy, tmp_path):
    for head, lacking, message in (
        (
            "spans",
            "qa_outputs",
            r"is no trained model: qa_outputs\.bias is missing, qa_outputs\.weight is missing; train",
        ),
        ("labels", "pooler", r"is no trained model: bert\.pooler"),
        ("spans", "layer.0", r"its weights do not fit its config\.json: bert\.encoder\.layer\.0"),
        ("spans", "bert.", r"its weights do not fit its config\.json: bert\.embeddings"),
    ):
        folder = tmp_path / head
        save_encoder(load_encoder("data/mini", head, seed=0), load_tokenizer("data/mini"), folder)
        weights = without(lacking)(load_file(folder / "model.safetensors"))
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(EncoderError, match=message):
            load_saved(folder, head)


@pytest.mark.parametrize(
    ("file", "lacking", "message"),
    [
        (HEADS_FILE, "b|classifier.weight", r"b\|classifier\.weight is missing"),
        (HEADS_FILE, "a|", r"a\|qa_outputs\.weight is missing"),
        ("model.safetensors", "pooler", r"bert\.pooler\.\S+ is missing"),
        ("model.safetensors", "layer.0", r"layer\.0\.\S+ is missing"),
    ],
)
def test_a_model_of_several_tasks_has_every_weight(tmp_path, file, lacking, message):
    heads = {"a": Head("spans"), "b": Head("labels", 3)}
    model = new_multihead("data/mini", heads, seed=1)
    model.config.update({"heads": {task: head._asdict() for task, head in heads.items()}})
    save_encoder(model, load_tokenizer("data/mini"), tmp_path)
    again = load_multihead(tmp_path, heads)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    weights = without(lacking)(load_file(tmp_path / file))
    save_file(weights, tmp_path / file, {"format": "pt"})
    with pytest.raises(EncoderError, match=message):
        load_multihead(tmp_path, heads)


def test_what_is_no_model_of_several_tasks_is_refused():
    with pytest.raises(EncoderError, match="has no heads of several tasks; train one first"):
        load_multihead(MINI, ["a"])


class Foreign:
    """A pickle that runs a program where it is read."""

    def __reduce__(self):
        return os.mkdir, ("foreign",)


def damage_pickle(place):
    (place / "model.safetensors").unlink()
    (place / "pytorch_model.bin").write_bytes(pickle.dumps(Foreign(), protocol=2))


def damage_header(place):
    (place / "model.safetensors").write_bytes(b"\xff" * 99)


DAMAGES = {  # what is done to the folder, or changes of config.json, and the error's words
    "pickle": (damage_pickle, "its weights are damaged, or pickled with more than tensors; save them as safetensors$"),
    "header": (damage_header, "its files are damaged or not of one model; save or fetch it again"),
    "no weights": (lambda place: (place / "model.safetensors").unlink(), "save or fetch it again"),
    "config": (lambda place: (place / "config.json").write_text("{"), "save or fetch it again"),
    "no heads": ({"num_attention_heads": 0}, "save or fetch it again"),
    "text": ({"hidden_size": "128"}, "save or fetch it again .*'hidden_size' expected int"),
    "too wide": ({"hidden_size": 10**12}, "save or fetch it again"),
    "activation": ({"hidden_act": "x"}, r"save or fetch it again \(KeyError: 'x'\)"),
    "no layers": ({"num_hidden_layers": 0}, r"config\.json: expected at least 1 of num_hidden_layers, found 0; give"),
    "fewer layers": ({"num_hidden_layers": -3}, r"config\.json: expected at least 1 of num_hidden_layers, found -3"),
    "kind": ({"model_type": "x"}, "save or fetch it again"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_loaded_is_one_sentence(copy, tmp_path, monkeypatch, damage):
    monkeypatch.chdir(tmp_path)
    change, message = DAMAGES[damage]
    place = copy(**change) if isinstance(change, dict) else copy()
    if callable(change):
        change(Path(place))
    with pytest.raises(EncoderError, match=message) as error:
        load_encoder(place, seed=0)
    assert len(str(error.value).splitlines()) == 1 and "weights_only" not in str(error.value)
    with pytest.raises(EncoderError, match=message):
        load_reader(place)
    assert not (tmp_path / "foreign").exists()
    check_pair.cache_clear()
    if isinstance(change, dict) and damage not in ("too wide", "activation"):
        with pytest.raises(EncoderError):
            check_pair("", place)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "it does not fit into memory; use a smaller encoder"),
        (MemoryError(), "it does not fit into memory; use a smaller encoder"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "it does not fit into memory; use a smaller"),
        (ImportError("needs x"), "it needs a package that is not installed; install it .*needs x"),
    ],
    ids=["GPU", "Python", "CPU", "package"],
)
def test_what_the_machine_lacks_is_no_fault_of_the_files(monkeypatch, error, message):
    def fail(**arguments):
        raise error

    monkeypatch.setattr(pretrained.AutoConfig, "from_pretrained", fail)
    with pytest.raises(EncoderError, match=message) as raised:
        load_encoder("data/mini", seed=0)
    assert "damaged" not in str(raised.value)


def test_code_that_comes_with_an_encoder_is_never_run(copy, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    parts = ("AutoConfig", "AutoModelForQuestionAnswering", "AutoModelForSequenceClassification")
    place = Path(copy(model_type="foreign", auto_map={part: "foreign.Part" for part in parts}))
    (place / "foreign.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    settings = json.loads((place / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Foreign", "auto_map": {"AutoTokenizer": [None, "foreign.Part"]}}
    for load in (
        lambda: load_encoder(str(place), seed=0),
        lambda: load_encoder(str(place), seed=0, random_layers=1),
        lambda: load_saved(place),
        lambda: load_reader(place),
        lambda: check_pair("", str(place)),
        lambda: load_multihead(place, ["a"]),
    ):
        with pytest.raises(EncoderError, match="it needs program code that comes with it, which is never run; use one"):
            load()
    place = Path(copy())
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    load_tokenizer(str(place))  # transformers has a class for its tokenizer.json
    for name in ("attn_implementation", "_attn_implementation", "experts_implementation"):  # transformers takes these
        with pytest.raises(EncoderError, match="it needs program code that comes with it"):
            load_encoder(copy(**{name: "somebody/kernel"}), seed=0)
    assert not (tmp_path / "ran").exists()


def test_what_can_be_a_mistyped_folder_is_not_asked_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my").mkdir()
    paths = ["../enc/x", "a/b/c", "/nonexistent/x", "~/enc", "./enc", ".enc", "enc/", "a\\b", "", "法律"]
    paths += ["~nobody-here/enc", "x/" * 2500]
    for name in (*paths, "my/encodr", "data/minni"):
        with pytest.raises(EncoderError, match=r"expected a folder with config\.json, found none; correct it") as error:
            loading_arguments(name)
        assert (f"or give {name}@main to take it from the Hub" in str(error.value)) == (name not in paths)
        with pytest.raises(EncoderError, match="expected a folder"):
            encoder_fingerprint(name)
    for name in ("my", "data"):  # folders, though of no encoder
        assert "revision" not in loading_arguments(name)
        with pytest.raises(EncoderError, match=r"expected config\.json in this folder, found none; give an"):
            load_encoder(name, seed=0)
    assert loading_arguments("my/encodr@main")["revision"] == "main"
    assert loading_arguments("other/encoder")["pretrained_model_name_or_path"] == "other/encoder"


def test_the_hub_is_asked_after_a_line_that_says_so(monkeypatch, capsys):
    name, problem = "somebody/encodr", "no such folder is here, and the Hub gave none; correct the name or the conn"
    with pytest.raises(EncoderError, match=problem):  # there is no network in tests
        load_tokenizer(name)
    assert f"encoder '{name}': no such folder is here, so the Hub is asked; name@revision" in capsys.readouterr().out
    with pytest.raises(EncoderError, match=problem):
        load_tokenizer(f"{name}@main")
    assert not capsys.readouterr().out


def test_an_encoder_that_cannot_be_run_is_named_with_the_cause(monkeypatch):
    def fail(self, **inputs):
        raise RuntimeError("expected boxes")

    monkeypatch.setattr(transformers.BertModel, "forward", fail)
    cause = r"a bert cannot be run on tokens alone \(RuntimeError: expected boxes\); use an encoder of BERT's kind"
    with pytest.raises(EncoderError, match=cause):
        load_encoder("data/mini", seed=0, max_length=64)


def test_an_encoder_whose_embeddings_are_of_another_class_is_loaded(encoders, tmp_path):
    tokenizer = load_tokenizer(encoders("roberta"))
    settings = {"vocab_size": len(tokenizer), "pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": ROOM}
    model = AutoModel.from_config(transformers.IBertConfig(**settings, **SIZES))
    save_encoder(model, tokenizer, tmp_path)
    assert load_encoder(str(tmp_path), seed=0, max_length=64).config.model_type == "ibert"
