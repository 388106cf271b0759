"""What only a GPU can show: that no step waits, and where things lie. Skipped where there is none."""

from functools import partial

import numpy as np
import pytest
import torch

from helpers import graphs, loop
from helpers.batches import Batches, bucketed, plan_steps
from helpers.data.mini import world
from helpers.extractive_qa import likelihood
from helpers.loop import fit
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.papers.imm.losses import taught_loss
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


@pytest.mark.parametrize("is_graphed", [False, True])
def test_no_step_waits_for_the_gpu(windows, device, is_graphed):
    assert STEPS < loop.READ_EVERY
    source = Watched(windows, batches_of(windows).schedule)
    stored = {side: torch.randn(int(windows.lengths_W.sum())).half() for side in ("start", "end")}
    source.teachers.append(StoredTeacher(source.sequences, of_tokens=stored))
    loss = partial(taught_loss, divergence="gold", annealing="linear")
    try:
        fit(reader(0.1), source, loss, SETTINGS, seed=0, graphs=is_graphed)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert source.number == STEPS


class Watched(Batches):
    """Batches that let all but the first steps raise where one waits, and count them."""

    number = 0

    def micro_batches(self, step, *others, **more):
        self.number += 1
        # steps of two shapes are captured in the first half, for which torch waits
        torch.cuda.set_sync_debug_mode("error" if STEPS // 2 <= step < STEPS - 1 else "default")
        return super().micro_batches(step, *others, **more)


def train_noting(windows, settings=SETTINGS, steps=50, dropout=0.0, **how):
    """Train, and return the model, the loss of every step, and how many graphs were captured."""
    losses, captured, check, capture = [], [], loop.check_finite, graphs.GraphedStep.capture

    def note(unread, number):
        losses.extend(float(sum(terms.values())) for terms in unread)
        check(unread, number)

    def count(self, *arguments):
        captured.append(capture(self, *arguments))
        assert self.is_on

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "check_finite", note)
        patch.setattr(graphs.GraphedStep, "capture", count)
        model, epochs = reader(dropout), bucketed(windows.lengths_W, batch_size=8, seed=1)
        loss = how.pop("loss", likelihood)
        fit(model, Batches(windows, plan_steps(epochs, steps)), loss, settings, seed=0, **how)
    return model, losses, len(captured)


def largest_gap(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


@pytest.fixture
def repeatable(monkeypatch):
    """Algorithms that give the same digits every time."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


EXACT = SETTINGS.model_copy(update={"precision": "fp32", "learning_rate": 1e-4})


def test_losses_of_graphs_are_those_of_steps_run_eagerly(windows, monkeypatch, repeatable):
    """Over 50 steps with equal lengths, in which rate and progress change."""
    monkeypatch.setattr(graphs, "MULTIPLE", 8)

    def annealed(output, batch, progress):
        return {name: (1 + progress) / 2 * term for name, term in likelihood(output, batch).items()}

    _, eager, none = train_noting(windows, EXACT, loss=annealed, graphs=False)
    _, graphed, number = train_noting(windows, EXACT, loss=annealed)
    assert none == 0 and number > 0 and len(eager) == len(graphed) == 50
    assert graphed == pytest.approx(eager, rel=1e-6, abs=1e-6)


def test_dropout_in_graphs_is_drawn_anew_in_every_step(windows):
    _, eager, _ = train_noting(windows, EXACT, dropout=0.1, graphs=False)
    _, graphed, number = train_noting(windows, EXACT, dropout=0.1)
    assert number > 0 and sum(graphed) / 50 == pytest.approx(sum(eager) / 50, rel=0.03)
    still = Batches(windows, [np.arange(8)] * 20)
    losses, check = [], loop.check_finite
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "check_finite", lambda unread, number: (losses.extend(unread), check(unread, number)))
        fit(reader(0.1), still, likelihood, EXACT.model_copy(update={"learning_rate": 1e-12}), seed=0)
    assert len({float(terms["likelihood"]) for terms in losses}) == 20


class Killed(Exception):
    pass


def test_a_killed_training_goes_on_to_the_same_weights(windows, tmp_path, repeatable):
    """Graphs are captured at other steps then, and draw the same random numbers."""
    settings = EXACT.model_copy(update={"checkpoint_minutes": 0.0})
    whole, _, number = train_noting(windows, EXACT, dropout=0.1)
    assert number > 0
    calls = 0

    def killed(unread, steps):
        nonlocal calls
        calls += 1
        if calls == 30:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "check_finite", killed)
        with pytest.raises(Killed):
            model, epochs = reader(0.1), bucketed(windows.lengths_W, batch_size=8, seed=1)
            file, plan = tmp_path / "checkpoint.pt", Batches(windows, plan_steps(epochs, 50))
            fit(model, plan, likelihood, settings, seed=0, checkpoint=file)
    resumed = reader(0.1)
    fit(resumed, plan, likelihood, EXACT, seed=0, checkpoint=file)
    assert largest_gap(whole, resumed) == 0


@pytest.mark.parametrize("why", ["a step waits for the device", "AttributeError"])
def test_a_step_that_cannot_be_captured_runs_eagerly_and_says_why(windows, capsys, monkeypatch, repeatable, why):
    monkeypatch.setattr(graphs, "MULTIPLE", 8)  # so that dropout has the same shape

    def loss(output, batch, progress):
        terms = likelihood(output, batch)
        if why.startswith("a step"):
            terms["likelihood"] = terms["likelihood"] + 0 * float(terms["likelihood"])
        elif isinstance(progress, torch.Tensor):
            progress.no_such_thing()
        return terms

    plan = Batches(windows, [np.arange(8)] * 20)
    model, eager = reader(0.1), reader(0.1)
    fit(model, plan, loss, EXACT, seed=0)
    assert capsys.readouterr().out.count("steps run without CUDA graphs: " + why) == 1
    fit(eager, plan, loss, EXACT, seed=0, graphs=False)
    assert largest_gap(model, eager) == 0
