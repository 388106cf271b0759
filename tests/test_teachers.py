import numpy as np
import pytest
import torch

from helpers.batches import Batches
from helpers.data.mini import world
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.papers.hrkd.algorithm import LiveTeacher
from helpers.sequences import make_windows
from helpers.training import StoredTeacher, predict

PLAN = [np.asarray([1]), np.asarray([5, 2, 9, 0, 7])]


@pytest.fixture(scope="module")
def windows():
    examples = world.load_domain("news", train_size=30).train
    return make_windows(examples, load_tokenizer("data/mini"), max_length=64, stride=24)


@pytest.fixture
def model():
    return load_encoder("data/mini", seed=0, random_layers=1).eval()


@pytest.mark.parametrize(("part", "parts", "expected"), [(0, 1, [5, 2, 9, 0, 7]), (0, 2, [5, 9, 7]), (1, 2, [2, 0])])
def test_what_is_stored_of_tokens_comes_along(windows, part, parts, expected):
    """The value of a token is 1,000 times its window's number plus its position, from 1; padding has 0."""
    each = [1000 * w + torch.arange(1, length + 1) for w, length in enumerate(windows.lengths_W.tolist())]
    teacher = StoredTeacher(windows, of_tokens={"place": torch.cat(each)})
    _, batch = [*Batches(windows, PLAN, [teacher]).micro_batches(1, parts)][part]
    assert batch["window"].tolist() == expected
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
