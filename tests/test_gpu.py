"""What only a GPU can show: that no step waits, and where things lie. Skipped where there is none."""

import pytest
import torch

from helpers import loop
from helpers.batches import Batches, bucketed, plan_steps
from helpers.data.mini import world
from helpers.loop import fit
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.papers.imm.algorithm import Reader
from helpers.presets.schema import TrainingSettings
from helpers.sequences import make_windows
from helpers.training import StoredTeacher

pytestmark = pytest.mark.gpu
SETTINGS = TrainingSettings(learning_rate=1e-3, batch_size=8, epochs=1.0, precision="bf16", evaluations=1)
STEPS = 24


@pytest.fixture(scope="module")
def windows():
    examples = world.load_domain("news", train_size=60).train
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


def batches_of(windows):
    epochs = bucketed(windows.lengths_W, batch_size=8, seed=1)
    return Batches(windows, plan_steps(epochs, STEPS))


def test_batches_on_the_gpu_are_those_of_the_cpu(windows, device):
    for step in range(3):
        one, other = (batches_of(windows).at(step, where) for where in ("cpu", device))
        assert one.keys() == other.keys()
        assert all(torch.equal(values, other[name].cpu()) for name, values in one.items())
        assert other["input_ids"].device == device


def test_no_step_waits_for_the_gpu(windows, device):
    assert STEPS < loop.READ_EVERY
    source, calls = batches_of(windows), 0
    stored = {side: torch.randn(int(windows.lengths_W.sum())).half() for side in ("start", "end")}
    source.teachers.append(StoredTeacher(source.sequences, of_tokens=stored))
    student = Reader(preset=None, label="", seed=0, domains=(), teachers={"news": None})

    def loss(output, batch, progress):
        nonlocal calls
        calls += 1
        torch.cuda.set_sync_debug_mode("error" if 3 <= calls < STEPS else "default")
        return student.loss(output, batch, progress)

    try:
        fit(reader(0.1), source, loss, SETTINGS, seed=0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert calls == STEPS
