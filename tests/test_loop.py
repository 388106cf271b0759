"""The training loop, its checkpoints and its optimisers, against the same written out in plain numbers."""

import math
import multiprocessing
import signal
import time

import numpy as np
import pytest
import torch

from helpers import extractive_qa, loop
from helpers.batches import Batches, plan_steps, upsampled
from helpers.data.mini import world
from helpers.errors import UserError
from helpers.mixtures import per_domain
from helpers.models.encoders import inputs_of, load_encoder, load_tokenizer
from helpers.presets.schema import TrainingSettings
from helpers.sequences import make_windows
from helpers.training import predict

SETTINGS = TrainingSettings(learning_rate=1e-3, batch_size=8, epochs=2.0, precision="fp32", evaluations=3)


def windows_of_news():
    examples = world.load_domain("news", train_size=40).train
    return make_windows(examples, load_tokenizer("data/mini"), max_length=128, stride=32)


windows = pytest.fixture(scope="module", name="windows")(windows_of_news)


def reader(seed=0, dropout=0.1):
    torch.set_num_threads(1)
    model = load_encoder("data/mini", seed=seed, random_layers=1)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    return model


def are_equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def batches(windows, epochs=2.0):
    steps = round(epochs * -(-len(windows) // 8))
    epochs = upsampled(windows, np.zeros(len(windows.examples), int), batch_size=8, seed=0)
    return Batches(windows, plan_steps(epochs, steps))


@pytest.mark.parametrize("has", [True, False])
def test_auto_is_bfloat16_where_the_processor_computes_in_it(monkeypatch, has):
    cpu = torch.device("cpu")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has} if has else {})
    assert loop.is_bf16("auto", cpu) == has
    assert loop.is_bf16("bf16", cpu) and not loop.is_bf16("fp32", cpu)


def test_one_step_is_adamw_by_hand(windows):
    """A golden step: clipped gradient, first AdamW step (sign-like), decoupled decay, warm-up rate."""
    model, twin = reader(dropout=0.0), reader(dropout=0.0)
    one = Batches(windows, [np.arange(8)])
    settings = SETTINGS.model_copy(update={"warmup": 0.0, "evaluations": 1})
    batch = one.at(0)
    output = twin(**{name: batch[name] for name in inputs_of(twin)})
    extractive_qa.likelihood(output, batch, 0.0)["likelihood"].backward()
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in twin.parameters() if p.grad is not None))
    assert norm > 1  # so that clipping binds
    loop.fit(model, one, extractive_qa.likelihood, settings, seed=0)
    for (name, after), before in zip(model.named_parameters(), twin.parameters(), strict=True):
        if before.grad is None:
            continue
        gradient = before.grad / (norm + 1e-6)
        decay = 0.01 if before.dim() > 1 else 0.0
        expected = before.detach() * (1 - 1e-3 * decay) - 1e-3 * gradient / (gradient.abs() + 1e-8)
        assert torch.allclose(after.detach(), expected, atol=2e-6), name


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_gradients_of_the_parts_of_a_batch_of_every_domain_add_up_to_that_of_the_whole(windows, monkeypatch, parts):
    """Also for a loss that averages over each domain, and weighs the domains, since every part has rows of each."""
    monkeypatch.setattr(loop, "make_optimizer", lambda model, settings: torch.optim.SGD(model.parameters()))
    members = {"a": np.arange(20), "b": np.arange(20, 35), "c": np.arange(35, len(windows))}
    of_domain = {number: d for d, rows in enumerate(members.values()) for number in rows.tolist()}
    plan = Batches(windows, plan_steps(per_domain(members, batch_size=5, seed=0), 4))

    def loss(output, batch, progress):
        values = extractive_qa.span_negative_log_likelihood(
            (output.start_logits, output.end_logits), (batch["start"], batch["end"]), batch["attention_mask"]
        )
        domain = torch.tensor([of_domain[number] for number in batch["window"].tolist()])
        return {name: (d + 1) * values[domain == d].mean() for d, name in enumerate(members)}

    whole, cut = reader(dropout=0.0), reader(dropout=0.0)
    loop.fit(whole, plan, loss, SETTINGS, seed=0)
    loop.fit(cut, plan, loss, SETTINGS.model_copy(update={"accumulate": parts}), seed=0)
    assert not are_equal(whole, reader())
    for one, other in zip(whole.parameters(), cut.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-7)


def test_the_seed_decides_dropout_and_progress_runs_from_0_to_1(windows):
    first, same, other = reader(), reader(), reader()
    seen = []

    def loss(output, batch, progress):
        seen.append(progress)
        return extractive_qa.likelihood(output, batch, progress)

    for model, seed in ((first, 1), (same, 1), (other, 2)):
        seen.clear()
        loop.fit(model, batches(windows), loss, SETTINGS, seed=seed)
        assert seen == [step / len(batches(windows)) for step in range(len(batches(windows)))]
    assert are_equal(first, same) and not are_equal(first, other)


def test_the_best_validation_score_is_kept(windows):
    model, seen = reader(), []

    def validate(now):
        seen.append({name: tensor.clone() for name, tensor in now.state_dict().items()})
        return [1.0, 3.0, 2.0][len(seen) - 1], {}

    done = loop.fit(model, batches(windows), extractive_qa.likelihood, SETTINGS, seed=0, validate=validate)
    steps = len(batches(windows))
    assert [step for step, *_ in done.history] == [round(steps / 3), round(2 * steps / 3), steps]
    assert done.best_score == 3.0
    assert all(torch.equal(tensor, seen[1][name]) for name, tensor in model.state_dict().items())


def test_a_loss_that_is_not_finite_stops_with_step_and_terms(windows):
    def loss(output, batch, progress):
        bad = math.nan if progress >= 0.3 else 1.0
        return {"first": output.start_logits.mean() * bad, "second": output.end_logits.mean()}

    plan = batches(windows)
    step = next(s for s in range(len(plan)) if s / len(plan) >= 0.3)
    with pytest.raises(loop.TrainingDiverged, match=rf"at step {step} \(first nan, second "):
        loop.fit(reader(), plan, loss, SETTINGS, seed=0)


def test_a_full_disk_is_named_and_leaves_nothing_behind(windows, tmp_path, disk_of):
    settings = SETTINGS.model_copy(update={"checkpoint_minutes": 0.0})
    with disk_of(1000), pytest.raises(OSError, match=r"cannot write .*c\.pt: "):
        loop.fit(reader(), batches(windows), extractive_qa.likelihood, settings, seed=0, checkpoint=tmp_path / "c.pt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("optimizer", "validate"),
    [
        ("adamw", None),
        ("adamax", None),
        ("adamw", lambda model: (1.0, {})),
    ],  # the last weights are kept, or the first best
)
def test_stopped_and_resumed_is_the_same_to_the_last_bit(windows, tmp_path, optimizer, validate):
    settings = SETTINGS.model_copy(update={"optimizer": optimizer})
    straight, resumed = reader(), reader()
    expected = loop.fit(straight, batches(windows), extractive_qa.likelihood, settings, seed=5, validate=validate)
    settings = settings.model_copy(update={"checkpoint_minutes": 0.0})
    path = tmp_path / "checkpoint.pt"
    calls = 0

    def interrupted(output, batch, progress):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return extractive_qa.likelihood(output, batch, progress)

    with pytest.raises(KeyboardInterrupt):
        loop.fit(resumed, batches(windows), interrupted, settings, seed=5, validate=validate, checkpoint=path)
    again = reader(seed=9)  # other weights: all come from the checkpoint
    done = loop.fit(
        again, batches(windows), extractive_qa.likelihood, settings, seed=5, validate=validate, checkpoint=path
    )
    assert (done.history, done.losses, done.steps) == (expected.history, expected.losses, expected.steps)
    assert are_equal(straight, again)


def test_a_damaged_checkpoint_is_named_and_the_training_starts_again(windows, tmp_path, capsys):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"not a checkpoint")
    model, fresh = reader(), reader()
    loop.fit(model, batches(windows), extractive_qa.likelihood, SETTINGS, seed=0, checkpoint=path)
    assert "checkpoint.pt cannot be read" in capsys.readouterr().out
    loop.fit(fresh, batches(windows), extractive_qa.likelihood, SETTINGS, seed=0)
    assert are_equal(model, fresh)


def stored_state(windows, path, settings):
    """The state of a training that was stopped, as it is stored."""

    def interrupted(output, batch, progress):
        if progress > 0.5:
            raise KeyboardInterrupt
        return extractive_qa.likelihood(output, batch, progress)

    settings = settings.model_copy(update={"checkpoint_minutes": 0.0})
    with pytest.raises(KeyboardInterrupt):
        loop.fit(reader(), batches(windows), interrupted, settings, seed=0, checkpoint=path)
    return torch.load(path, weights_only=True)


def test_every_damage_of_a_checkpoint_is_noticed(windows, tmp_path, capsys):
    """Also in weights, where torch itself reads on."""
    path = tmp_path / "checkpoint.pt"
    state, content, draw = stored_state(windows, path, SETTINGS), path.read_bytes(), np.random.default_rng(0)
    ignored = 0
    for begin, end in ((0, len(content)), (len(content) - 3000, len(content)), (0, 1500)) * 30:
        damaged = bytearray(content)
        damaged[draw.integers(begin, end)] ^= 1 << draw.integers(8)
        path.write_bytes(damaged)
        again = loop.load_checkpoint(path)
        ignored += again is None
        assert again is None or all(torch.equal(again["model"][name], each) for name, each in state["model"].items())
    assert ignored > 70  # the others are names and dates that nothing reads
    path.write_bytes(b"")
    assert loop.load_checkpoint(path) is None
    assert capsys.readouterr().out.count("checkpoint.pt cannot be read") == ignored + 1


def other_moments(state):
    state["optimizer"]["state"][0]["exp_avg"] = torch.zeros(3)


CHANGES = {
    "weights of another size": lambda state: state["model"].update({"qa_outputs.bias": torch.zeros(3)}),
    "other weights": lambda state: state["model"].update({"more": torch.zeros(2)}),
    "fewer weights": lambda state: state["model"].popitem(),
    "another best": lambda state: state.update(best={"qa_outputs.bias": torch.zeros(3)}),
    "other moments": other_moments,
    "another optimiser": lambda state: [group.pop("amsgrad") for group in state["optimizer"]["param_groups"]],
    "other groups": lambda state: state["optimizer"]["param_groups"].pop(),
    "no optimiser": lambda state: state.pop("optimizer"),
    "no random state": lambda state: state.update(random=[]),
    "a longer training": lambda state: state["done"].update(steps=10_000),
    "other outcome": lambda state: state["done"].update(more=1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_of_another_training_is_named_and_the_training_starts_again(windows, tmp_path, capsys, change):
    path = tmp_path / "checkpoint.pt"
    CHANGES[change](state := stored_state(windows, path, SETTINGS))
    torch.save(state, path)
    model, fresh = reader(), reader()
    loop.fit(model, batches(windows), extractive_qa.likelihood, SETTINGS, seed=0, checkpoint=path)
    assert "checkpoint.pt cannot be read" in (printed := capsys.readouterr().out)
    assert printed.count("this training starts again") == 1
    loop.fit(fresh, batches(windows), extractive_qa.likelihood, SETTINGS, seed=0)
    assert are_equal(model, fresh)


@pytest.mark.parametrize("content", [[1, 2], None, "text", 3])
def test_a_checkpoint_that_is_no_state_is_ignored(windows, tmp_path, capsys, content):
    torch.save(content, tmp_path / "checkpoint.pt")
    loop.fit(
        reader(), batches(windows), extractive_qa.likelihood, SETTINGS, seed=0, checkpoint=tmp_path / "checkpoint.pt"
    )
    assert "checkpoint.pt cannot be read" in capsys.readouterr().out


def test_weights_that_are_not_finite_are_named_before_the_first_step(windows):
    model = reader()
    model.qa_outputs.weight.data[1, 3] = math.nan
    with pytest.raises(UserError, match=r"^qa_outputs\.weight is not finite before the first step: .*; use another$"):
        loop.fit(model, batches(windows), extractive_qa.likelihood, SETTINGS, seed=0)


def test_batches_without_micro_batches_are_an_error():
    with pytest.raises(UserError, match=r"^batches: expected micro_batches\(\), found a list; see help\(helpers\)$"):
        loop.fit(reader(), [1], extractive_qa.likelihood, SETTINGS, seed=0)


def test_a_training_without_a_batch_is_an_error():
    with pytest.raises(UserError, match="half: no batch; expected one or more"):
        loop.fit(reader(), [], extractive_qa.likelihood, SETTINGS, seed=0, label="half")


def test_a_loss_that_is_not_finite_at_once_has_no_learning_rate_to_blame(windows):
    def loss(output, batch, progress):
        return {"first": output.start_logits.mean() * math.inf}

    with pytest.raises(
        loop.TrainingDiverged, match=r"at step 0 \(first .*\); check the loss, use another encoder, or set precision to"
    ):
        loop.fit(reader(), batches(windows), loss, SETTINGS, seed=0)


def test_an_input_that_no_batch_has_is_named(windows):
    model = reader()
    model.inputs = ("input_ids", "inptu")
    with pytest.raises(
        UserError, match=r"^the model takes 'inptu', and a batch has .*input_ids.*; correct model.inputs"
    ):
        loop.fit(model, batches(windows), lambda *_: {}, SETTINGS, seed=0)


@pytest.mark.parametrize("terms", [lambda output: output.start_logits.mean(), lambda output: {"per token": output[0]}])
def test_a_loss_returns_scalar_terms_by_name(windows, terms):
    with pytest.raises(
        UserError, match=r"^loss: expected scalar terms by name; return such as \{'loss': values.mean\(\)\}"
    ):
        loop.fit(reader(), batches(windows), lambda output, batch, progress: terms(output), SETTINGS, seed=0)


def test_a_training_without_a_bar_is_silent(windows, monkeypatch, capsys):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    for hidden in (False, True):
        if hidden:
            monkeypatch.setenv("TQDM_DISABLE", "1")
        loop.fit(reader(), batches(windows, 1.0), extractive_qa.likelihood, SETTINGS, seed=0, label="a training")
        assert ("a training" in capsys.readouterr().err) != hidden


def test_prediction_refuses_a_model_in_training_mode(windows):
    with pytest.raises(ValueError, match="evaluation mode"):
        predict(reader().train(), windows)


def train_long(checkpoint=None, minutes=5.0):
    """The validation scores of a training that stores its state after so many minutes."""
    torch.set_num_threads(1)
    windows = windows_of_news()
    settings = SETTINGS.model_copy(update={"checkpoint_minutes": minutes})

    def validate(model):
        return float(predict(model.eval(), windows, precision="fp32").start.sum()), {}

    plan, loss = batches(windows, epochs=12.0), extractive_qa.likelihood
    return loop.fit(reader(), plan, loss, settings, seed=1, validate=validate, checkpoint=checkpoint).history


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_scores(tmp_path):
    stored, deadline = tmp_path / "killed.pt", time.time() + 60
    process = multiprocessing.get_context("spawn").Process(target=train_long, args=(stored, 0.0))
    process.start()
    while not stored.exists() and time.time() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL  # it had not finished
    assert 0 < loop.load_checkpoint(stored)["done"]["steps"] < 60
    assert train_long(stored) == train_long()


GRADIENTS = [[0.5, -0.25], [-0.1, 0.3]]  # of a weight of each kind, in both steps
RATES = [0.1, 0.05]
START = 2.0


class Two(torch.nn.Module):
    """A matrix and a bias of one number each, and a weight that is not trained."""

    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.full((1, 1), START))
        self.bias = torch.nn.Parameter(torch.full((1,), START))
        self.frozen = torch.nn.Parameter(torch.full((1, 1), START), requires_grad=False)


def adamax(gradients, decay):
    weight, mean, largest = START, 0.0, 0.0
    for step, (gradient, rate) in enumerate(zip(gradients, RATES, strict=True), 1):
        weight -= rate * decay * weight
        mean, largest = 0.9 * mean + 0.1 * gradient, max(0.999 * largest, abs(gradient) + 1e-8)
        weight -= rate / (1 - 0.9**step) * mean / largest
    return weight


@pytest.mark.parametrize("decay", [0.0, 0.4])
def test_two_steps_of_adamax_by_hand(decay):
    model, settings = Two(), SETTINGS.model_copy(update={"optimizer": "adamax", "weight_decay": decay})
    optimizer = loop.make_optimizer(model, settings)
    for rate, (of_matrix, of_bias) in zip(RATES, zip(*GRADIENTS, strict=True), strict=True):
        model.matrix.grad, model.bias.grad = torch.full((1, 1), of_matrix), torch.full((1,), of_bias)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    assert model.matrix.item() == pytest.approx(adamax(GRADIENTS[0], decay), rel=1e-6)
    assert model.bias.item() == pytest.approx(adamax(GRADIENTS[1], 0.0), rel=1e-6)  # biases do not decay
    assert model.frozen.item() == START


@pytest.mark.parametrize("name", ["adamw", "adamax"])
def test_a_weight_without_a_gradient_stays(name):
    model = Two()
    optimizer = loop.make_optimizer(model, SETTINGS.model_copy(update={"optimizer": name, "weight_decay": 0.4}))
    model.bias.grad = torch.ones(1)
    optimizer.step()
    assert model.matrix.item() == START != model.bias.item()


def test_learning_rate_rises_then_falls_to_nothing():
    rates = [loop.learning_rate(step, 10, 1.0, 0.2) for step in range(10)]
    assert rates[:2] == [0.5, 1.0]
    assert rates[2:] == pytest.approx([8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9])


def test_a_result_has_the_losses_of_all_steps_in_few_stretches():
    steps = [{"a": float(step)} if step % 2 else {"b": 1.0} for step in range(3 * loop.CURVE_POINTS - 1)]
    curve = loop.average_losses(steps)
    assert len(curve) == loop.CURVE_POINTS and curve[-1][0] == len(steps)
    assert curve[0] == [3, {"b": 1.0, "a": 1.0}] and curve[1] == [6, {"a": 4.0, "b": 1.0}]
    assert loop.average_losses([]) == []
