"""What only a GPU can show: the kernel, that no step waits, and where things lie. Skipped where there is none."""

import warnings

import numpy as np
import pytest
import torch

from helpers.batches.packed import packing
from helpers.batches.plans import Batches, bucketed, plan_steps
from helpers.batches.sequences import make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data.mini import domains
from helpers.models import varlen
from helpers.models.pretrained import load_encoder, load_tokenizer
from helpers.models.unpadded import skip_padding, skips_padding
from helpers.papers.imm.trainings import joint_loss
from helpers.presets.schema import TrainingSettings
from helpers.tasks import spans
from helpers.training import teachers, trace
from helpers.training.loop import fit, forward
from helpers.training.teachers import StoredTeacher

pytestmark = pytest.mark.gpu
SETTINGS = TrainingSettings(learning_rate=1e-3, batch_size=8, epochs=1.0, precision="bf16", evaluations=1)
STEPS = 24


@pytest.fixture(scope="module")
def windows():
    examples = domains.load_domain("news", train_size=60).train
    return make_windows(examples, load_tokenizer("data/mini"), max_length=128, stride=32)


@pytest.fixture(scope="module")
def device():
    return torch.device("cuda", torch.cuda.current_device())


def reader(dropout=0.0):
    model = load_encoder("data/mini", seed=0, random_layers=2)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    return model


def batches_of(windows, device):
    epochs = bucketed(windows.lengths_W, batch_size=8, seed=1)
    return Batches(SequenceTensors(windows, device), plan_steps(epochs, STEPS))


def test_the_kernel_gives_what_the_reference_does(device):
    varlen.has_kernel.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert varlen.has_kernel(device)


def test_the_kernel_drops_at_the_rate_asked_for(device):
    lengths = torch.tensor([400, 3, 380])
    how = packing(lengths, 400, device)
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 8, len(how.place_T), 32, device=device, dtype=torch.bfloat16)
    value = torch.ones_like(query).requires_grad_()
    found = varlen.attention(query, key, value, how, 0.1, 32**-0.5)[0, : how.total].float()
    assert found.mean().item() == pytest.approx(1.0, abs=0.02) and found.std() > 0.001
    again = varlen.attention(query, key, value, how, 0.1, 32**-0.5)[0, : how.total].float()
    assert not torch.equal(found, again)
    found.sum().backward()
    assert value.grad.isfinite().all() and value.grad.sum().item() == pytest.approx(found.sum().item(), rel=0.02)


def test_batches_on_the_gpu_are_those_of_the_cpu(windows, device):
    for step in range(3):
        one, other = (batches_of(windows, where).at(step) for where in ("cpu", device))
        assert one.keys() == other.keys()
        assert all(torch.equal(values, other[name].cpu()) for name, values in one.items())
        assert other["input_ids"].device == device and other["lengths"].device.type == "cpu"


def test_logits_without_padding_are_as_near_to_float32_as_those_with_it(windows, device):
    batch, model = batches_of(windows, device).at(0), reader().to(device).eval()
    real = batch["attention_mask"] == 1

    def logits(skip, precision):
        return forward(skip_padding(model, skip), batch, precision).start_logits[real].float()

    exact, padded, free = logits(False, "fp32"), logits(False, "bf16"), logits(True, "bf16")
    gaps = [float((each - exact).norm() / exact.norm()) for each in (padded, free)]
    assert gaps[1] < max(1.5 * gaps[0], 0.01), gaps


def test_a_gpu_trains_without_padding_by_itself_and_loses_as_much(windows, device):
    models = [reader(), reader()]
    padded = fit(models[0], batches_of(windows, device), spans.loss, SETTINGS, seed=0, padding_free=False)
    free = fit(models[1], batches_of(windows, device), spans.loss, SETTINGS, seed=0)
    assert [skips_padding(model) for model in models] == [False, True]
    curves = [np.array([point[2]["likelihood"] for point in done.curve]) for done in (padded, free)]
    assert abs(curves[0][0] - curves[1][0]) < 0.01 and np.abs(curves[0] - curves[1]).mean() < 0.05


@pytest.mark.parametrize("padding_free", [False, True])
def test_no_step_waits_for_the_gpu(windows, device, padding_free):
    assert STEPS < trace.READ_EVERY
    source, calls = batches_of(windows, device), 0
    stored = {side: torch.randn(int(windows.lengths_W.sum())).half() for side in ("start", "end")}
    source.teachers.append(StoredTeacher(source.tensors, of_tokens=stored))
    inner = joint_loss("gold", "linear")

    def loss(output, batch, progress):
        nonlocal calls
        calls += 1
        torch.cuda.set_sync_debug_mode("error" if 3 <= calls < STEPS else "default")
        return inner(output, batch, progress)

    try:
        fit(reader(0.1), source, loss, SETTINGS, seed=0, padding_free=padding_free)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert calls == STEPS


def test_what_a_teacher_stored_lies_on_the_gpu_where_it_fits(windows, device, monkeypatch):
    tensors, index = SequenceTensors(windows, device), np.arange(5)
    flat = torch.randn(int(windows.lengths_W.sum())).half()
    pairs = torch.randn(int((windows.first_count_W * windows.count_W).sum()))
    batch = Batches(tensors, [index]).at(0)
    stored = {"of_sequences": {"a": torch.randn(len(windows))}, "of_tokens": {"b": flat}, "of_pairs": {"c": pairs}}
    near = StoredTeacher(tensors, **stored)
    monkeypatch.setattr(teachers, "SHARE", 0.0)
    far = StoredTeacher(tensors, **stored)
    assert near.of_tokens["b"].device == device and far.of_tokens["b"].device.type == "cpu"
    said, same = near(batch), far(batch)
    assert said.keys() == same.keys() == {"teacher_a", "teacher_b", "teacher_c"}
    assert all(values.device == device and torch.equal(values, same[name]) for name, values in said.items())
