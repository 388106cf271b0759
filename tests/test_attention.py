"""Attention, BERT's against transformers' own; what teachers store or compute; dropout."""

import numpy as np
import pytest
import torch
from conftest import text_of
from torch import nn
from transformers import AutoModelForQuestionAnswering, FNetConfig, FNetForQuestionAnswering

from helpers.batches.plans import Batches
from helpers.batches.sequences import Row, Template, Windows, collate, make_windows, text_positions
from helpers.data.mini import world
from helpers.errors import EncoderError
from helpers.models.attention import attend, keep_attention
from helpers.models.dropout import QuickDropout, quick_dropout
from helpers.models.encoders import inputs_of, load_encoder, load_saved, load_tokenizer, save_encoder
from helpers.models.mnemonic import make_reader
from helpers.reading import predict
from helpers.teachers import LiveTeacher, StoredTeacher


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
        rows=[Row([10, 11], [20, 21, 22]), Row([12], [23]), Row([12], [21, 22])],
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
    _, batch = [*Batches(windows, [np.array(index)], [teacher]).parts(0, parts)][part]
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


PLAN = [np.asarray([1]), np.asarray([5, 2, 9, 0, 7])]


@pytest.fixture
def model():
    return load_encoder("data/mini", seed=0, random_layers=1).eval()


@pytest.mark.parametrize(("part", "parts", "expected"), [(0, 1, [5, 2, 9, 0, 7]), (0, 2, [5, 9, 7]), (1, 2, [2, 0])])
def test_what_is_stored_of_windows_and_tokens_comes_along(windows, part, parts, expected):
    """The value of a token is 1,000 times its window's number plus its position, from 1; padding has 0."""
    each = [1000 * w + torch.arange(1, length + 1) for w, length in enumerate(windows.lengths_W.tolist())]
    weights = {"weight": 10.0 * torch.arange(len(windows))}
    teachers = [StoredTeacher(windows, weights), StoredTeacher(windows, of_tokens={"place": torch.cat(each)})]
    _, batch = [*Batches(windows, PLAN, teachers).parts(1, parts)][part]
    assert batch["window"].tolist() == expected
    assert batch["teacher_weight"].tolist() == [10.0 * window for window in expected]
    place = batch["teacher_place"]
    assert place.shape == batch["input_ids"].shape
    for row, window in zip(place.tolist(), expected, strict=True):
        length = int(windows.lengths_W[window])
        assert row[:length] == each[window].tolist() and not any(row[length:])
    assert (place != 0).sum() == batch["attention_mask"].sum()


def test_a_live_teacher_computes_what_would_have_been_stored(windows, model):
    logits = predict(model, windows, precision="fp32")
    flat = {side: torch.from_numpy(getattr(logits, side)) for side in ("start", "end")}
    live = LiveTeacher(model, {"start": "start_logits", "end": "end_logits"}, precision="fp32")
    stored = StoredTeacher(windows, of_tokens={f"stored_{side}": values for side, values in flat.items()})
    batch = Batches(windows, PLAN, [stored, live]).at(1)
    for side in ("start", "end"):
        real = batch[f"teacher_{side}"].masked_fill(batch["attention_mask"] == 0, 0.0)
        assert torch.allclose(real, batch[f"teacher_stored_{side}"], atol=1e-5) and real.abs().max() > 0.1


def test_a_teacher_gives_its_hidden_states_and_no_gradient(windows, model):
    teacher = LiveTeacher(model, {"hidden": "hidden_states"}, {"output_hidden_states": True}, precision="fp32")
    batch = Batches(windows, PLAN, [teacher]).at(1)
    hidden = batch["teacher_hidden"]
    assert len(hidden) == 2 and hidden[0].shape == (*batch["input_ids"].shape, model.config.hidden_size)
    assert not any(states.requires_grad for states in hidden)
    weight = torch.ones((), requires_grad=True)
    (weight * hidden[1]).sum().backward()  # a product keeps the teacher's output
    assert weight.grad == pytest.approx(hidden[1].sum().item(), rel=1e-4)


def test_a_teacher_in_training_mode_is_refused_at_every_call(windows, model):
    teacher = LiveTeacher(model, {"start": "start_logits"})
    batches = Batches(windows, PLAN, [teacher])
    assert "teacher_start" in batches.at(0)
    model.train()
    with pytest.raises(ValueError, match="a teacher is in training mode"):
        batches.at(0)
    model.eval()
    next(module for module in model.modules() if isinstance(module, torch.nn.Dropout)).train()  # only a part of it
    with pytest.raises(ValueError, match="a teacher is in training mode"):
        teacher(Batches(windows, PLAN).at(0))


def test_every_task_has_teachers_of_its_own(windows):
    teacher = StoredTeacher(windows, of_sequences={"weight": 1.0 * torch.arange(len(windows))})
    batches = Batches(
        {"taught": windows, "untaught": windows}, [("untaught", PLAN[0]), ("taught", PLAN[1])], {"taught": [teacher]}
    )
    assert "teacher_weight" not in batches.at(0)
    assert batches.at(1)["teacher_weight"].tolist() == PLAN[1].tolist()


def test_elements_are_dropped_at_the_rate_and_the_rest_scaled_up():
    torch.manual_seed(0)
    values = quick_dropout(torch.ones(1001, 999), 0.1)
    assert (values == 0).float().mean().item() == pytest.approx(26 / 256, abs=1e-3)
    assert values.unique().tolist() == pytest.approx([0.0, 256 / 230])
    assert values.mean().item() == pytest.approx(1.0, abs=2e-3)
    for axis in (0, 1):  # no row and no column is treated otherwise
        assert (values.mean(axis) - 1).abs().max() < 0.06


def test_each_of_the_eight_bytes_of_a_draw_is_fair():
    torch.manual_seed(0)
    rates = (quick_dropout(torch.ones(200_000, 8), 0.5) == 0).float().mean(0)
    assert torch.allclose(rates, torch.full((8,), 0.5), atol=0.005)


def test_gradient_flows_through_what_is_kept_and_the_seed_decides():
    values = torch.ones(64, 64, requires_grad=True)
    torch.manual_seed(3)
    dropped = quick_dropout(values, 0.25)
    dropped.sum().backward()
    assert torch.equal(values.grad, dropped.detach())
    torch.manual_seed(3)
    assert torch.equal(quick_dropout(values, 0.25), dropped)


def test_evaluation_drops_nothing():
    module = QuickDropout(0.5).eval()
    assert torch.equal(module(torch.ones(100)), torch.ones(100))
    assert quick_dropout(torch.ones(100), 0.0).sum() == 100


def test_attention_spelt_out_equals_scaled_dot_product_attention():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 7, 8).unbind(0)
    mask = torch.ones(2, 1, 7, 7, dtype=torch.bool)
    mask[1, :, :, 5:] = False
    expected = nn.functional.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2)
    # a probability under 1/512 drops nothing, but takes the way of training
    values, _ = attend(nn.Module(), query, key, value, mask, dropout=0.001, scaling=8**-0.5)
    assert torch.allclose(values, expected, atol=1e-6)
