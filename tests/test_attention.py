"""The attention from passage to question: BERT's against transformers' own, and where stored pairs belong."""

import numpy as np
import pytest
import torch
from conftest import text_of
from transformers import AutoModelForQuestionAnswering, FNetConfig, FNetForQuestionAnswering

from helpers.batches import Batches
from helpers.data.mini import world
from helpers.errors import EncoderError
from helpers.models.attention import keep_attention
from helpers.models.encoders import inputs_of, load_encoder, load_saved, load_tokenizer, save_encoder
from helpers.papers.a2d.mnemonic import make_reader
from helpers.sequences import Template, TokenRow, Windows, collate, make_windows, text_positions
from helpers.training import StoredTeacher


@pytest.fixture(scope="module")
def windows():
    examples = world.load_domain("news", train_size=12).train[:12]
    return make_windows(examples, load_tokenizer("data/mini"), max_length=96, stride=32)


@pytest.fixture(scope="module")
def batch(windows):
    """Four windows, the shortest and the longest among them."""
    batch = collate(windows, np.argsort(windows.lengths_W)[[0, 3, -4, -1]])
    assert (batch["attention_mask"] == 0).any()
    return batch


@pytest.fixture
def bert():
    torch.set_num_threads(1)
    return load_encoder("data/mini", seed=0, random_layers=2).eval()


def read(model, batch):
    return model(**{name: batch[name] for name in inputs_of(model)})


def expected(model, batch):
    """Row by row: the last layer's attention, averaged over heads, from passage to question, normalised."""
    with torch.no_grad():
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
        last = model(**inputs, output_attentions=True).attentions[-1].mean(1)
    blocks = []
    for row, weights in enumerate(last):
        length = int(batch["attention_mask"][row].sum())
        first = length - int(batch["token_type_ids"][row].sum())
        block = weights[first : length - 1, 1 : first - 1]
        blocks.append(block / block.sum(1, keepdim=True))
    return blocks


def test_berts_attention_is_the_last_layers_averaged_over_heads(bert, batch, tmp_path):
    for parameter in bert.parameters():  # new weights attend to all alike
        parameter.data *= 8 if parameter.dim() > 1 else 1
    save_encoder(keep_attention(bert), load_tokenizer("data/mini"), tmp_path / "model")
    eager = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "model", attn_implementation="eager").eval()
    blocks = expected(eager, batch)
    assert max(float(block.max()) for block in blocks) > 0.2
    for model in (bert, keep_attention(load_saved(tmp_path / "model"))):
        with torch.no_grad():
            attention = read(model, batch).attention
        assert attention.shape == (4, max(len(b) for b in blocks), max(b.shape[1] for b in blocks))
        for weights, block in zip(attention, blocks, strict=True):
            p, q = block.shape
            assert torch.allclose(weights[:p, :q], block, atol=1e-5)
            assert weights[:p].sum(1).tolist() == pytest.approx([1.0] * p, abs=1e-5)
            assert weights[p:].abs().sum() == 0 and weights[:, q:].abs().sum() == 0


def test_it_is_kept_in_training_too_and_passes_a_gradient_on(bert, batch):
    quiet, model = bert, keep_attention(load_encoder("data/mini", seed=0, random_layers=2)).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    attention = read(model, batch).attention
    with torch.no_grad():
        assert torch.allclose(attention, read(keep_attention(quiet), batch).attention, atol=1e-6)
    attention.square().sum().backward()
    query, value = (getattr(model.bert.encoder.layer[-1].attention.self, name).weight for name in ("query", "value"))
    assert query.grad.abs().max() > 0 and value.grad is None  # of the last layer, only what the attention is made of


def test_kept_twice_is_kept_once_and_the_logits_stay(bert, batch):
    with torch.no_grad():
        before = read(bert, batch).start_logits
        once = read(keep_attention(bert), batch)
        twice = read(keep_attention(keep_attention(bert)), batch)
    assert len(bert._forward_hooks) == 1
    assert torch.equal(once.attention, twice.attention) and torch.allclose(before, twice.start_logits, atol=1e-6)
    rmr = make_reader(load_tokenizer("data/mini"), 0, word_width=4, letter_width=2, hidden=2)
    assert keep_attention(rmr) is rmr and not rmr._forward_hooks  # it has its attention already


def test_an_encoder_without_attention_is_refused():
    config = FNetConfig(vocab_size=10, hidden_size=4, num_hidden_layers=1, intermediate_size=4)
    with pytest.raises(EncoderError, match=r"attention of a fnet cannot be read.*use an encoder of BERT's"):
        keep_attention(FNetForQuestionAnswering(config))


def test_positions_of_question_and_passage():
    # [CLS] q q [SEP] p p p [SEP], and [CLS] q [SEP] [SEP] p [SEP] with two of padding
    segments = torch.tensor([[0, 1, 1, 0, 2, 2, 2, 0], [0, 1, 0, 0, 2, 0, 0, 0]])
    at_q, q, at_p, p = text_positions(segments)
    assert at_q.tolist() == [[1, 2], [1, 0]] and q.tolist() == [[True, True], [True, False]]
    assert at_p.tolist() == [[4, 5, 6], [4, 0, 0]] and p.tolist() == [[True] * 3, [True, False, False]]
    # [CLS] q [SEP] [SEP], a window without a passage, has one row of padding
    at_q, q, at_p, p = text_positions(torch.tensor([[0, 1, 0, 0]]))
    assert at_q.tolist() == [[1]] and q.all() and at_p.tolist() == [[0]] and not p.any()


def small_windows():
    """Windows of 2 × 3, 1 × 1 and 1 × 2 question × passage tokens, the last the end of the first one's passage."""
    return Windows(
        examples=[],
        template=Template((1,), (2,), (2,), (0, 0, 0, 1, 1), padding=0),
        rows=[TokenRow([10, 11], [20, 21, 22]), TokenRow([12], [23]), TokenRow([12], [21, 22])],
        example_W=np.array([0, 1, 2]),
        labels={"start": np.zeros(3, int), "end": np.zeros(3, int)},
    )


# For each window, passage token after passage token, what is known of its pairs.
FLAT = [1, 2, 3, 4, 5, 6, 7, 8, 9]
FIRST, SECOND, THIRD = [[1, 2], [3, 4], [5, 6]], [[7]], [[8], [9]]


@pytest.mark.parametrize(
    ("index", "part", "parts", "expected"),
    [
        ([0], 0, 1, [FIRST]),
        ([2, 1], 0, 1, [THIRD, [*SECOND, [0]]]),
        ([2, 0, 2], 0, 1, [[[8, 0], [9, 0], [0, 0]], FIRST, [[8, 0], [9, 0], [0, 0]]]),
        ([2, 1, 0], 0, 2, [[[8, 0], [9, 0], [0, 0]], FIRST]),
        ([2, 1, 0], 1, 2, [SECOND]),
    ],
)
def test_pairs_go_where_they_belong(index, part, parts, expected):
    windows = small_windows()
    teacher = StoredTeacher(windows, of_pairs={"attention": torch.tensor(FLAT).half()})
    _, batch = [*Batches(windows, [np.array(index)], [teacher]).micro_batches(0, parts)][part]
    attention, (at_q, _, at_p, _) = batch["teacher_attention"], text_positions(batch["segment_ids"])
    assert attention.tolist() == expected and attention.dtype == torch.float16
    assert attention.shape == (len(at_q), at_p.shape[1], at_q.shape[1])  # as a reader's attention


def test_a_span_of_characters_is_found_in_every_window_that_holds_it():
    tokenizer = load_tokenizer("data/mini")
    example = world.load_domain("news", train_size=1).train[0]
    windows = make_windows([example], tokenizer, max_length=48, stride=8)
    held = np.flatnonzero(windows.labels["start"])
    assert len(held) > 1 and len(set(windows.labels["start"][held])) > 1  # at different places
    for window in held:
        labels = int(windows.labels["start"][window]), int(windows.labels["end"][window])
        assert windows.positions(window, example.span) == labels
        assert text_of(windows, window, *labels) == example.context[slice(*example.span)]
