import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering

from helpers.batches.plans import Batches, TaskBatches, epochs_of, per_domain, plan_steps
from helpers.batches.sequences import make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data.mini import domains
from helpers.models.pretrained import inputs_of, load_encoder, load_saved, load_tokenizer, save_encoder
from helpers.presets.schema import TrainingSettings
from helpers.results import curves
from helpers.tasks import spans
from helpers.training import checkpoints, loop, losses
from helpers.training.checkpoints import weights

SETTINGS = TrainingSettings(learning_rate=1e-3, batch_size=8, epochs=2.0, precision="fp32", evaluations=3)


def windows_of_news():
    examples = domains.load_domain("news", train_size=40).train
    return make_windows(examples, load_tokenizer("data/mini"), max_length=128, stride=32)


@pytest.fixture(scope="module")
def windows():
    return windows_of_news()


def reader(seed=0, dropout=0.1):
    torch.set_num_threads(1)
    model = load_encoder("data/mini", seed=seed, random_layers=1)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    return model


def batches(windows, seed=0, epochs=2.0):
    steps = round(epochs * -(-len(windows) // 8))
    epochs = epochs_of(windows, np.zeros(len(windows.examples), int), batch_size=8, seed=seed)
    return Batches(SequenceTensors(windows), plan_steps(epochs, steps))


def test_biases_and_norms_do_not_decay():
    groups = loop.make_optimizer(reader(), SETTINGS).param_groups
    assert [g["weight_decay"] for g in groups] == [0.01, 0.0]
    assert all(p.dim() == 1 for p in groups[1]["params"]) and all(p.dim() > 1 for p in groups[0]["params"])


def test_one_step_is_adamw_by_hand(windows):
    """A golden step: clipped gradient, first AdamW step (sign-like), decoupled decay, warm-up rate."""
    model, twin = reader(dropout=0.0), reader(dropout=0.0)
    one = Batches(SequenceTensors(windows), [np.arange(8)])
    settings = SETTINGS.model_copy(update={"warmup": 0.0, "evaluations": 1})
    batch = one.at(0)
    output = twin(**{name: batch[name] for name in inputs_of(twin)})
    spans.loss(output, batch, 0.0)["likelihood"].backward()
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in twin.parameters() if p.grad is not None))
    assert norm > 1  # so that clipping binds
    loop.fit(model, one, spans.loss, settings, seed=0)
    for (name, after), before in zip(model.named_parameters(), twin.parameters(), strict=True):
        if before.grad is None:
            continue
        gradient = before.grad / (norm + 1e-6)
        decay = 0.01 if before.dim() > 1 else 0.0
        expected = before.detach() * (1 - 1e-3 * decay) - 1e-3 * gradient / (gradient.abs() + 1e-8)
        assert torch.allclose(after.detach(), expected, atol=2e-6), name


def test_accumulated_parts_give_the_step_of_the_whole_batch(windows, monkeypatch):
    # plain gradient descent, because Adam makes whole steps of rounding errors
    monkeypatch.setattr(loop, "make_optimizer", lambda model, settings: torch.optim.SGD(model.parameters()))
    whole, parts = reader(dropout=0.0), reader(dropout=0.0)
    at_once = loop.fit(whole, batches(windows), spans.loss, SETTINGS, seed=0)
    divided = loop.fit(parts, batches(windows), spans.loss, SETTINGS.model_copy(update={"accumulate": 3}), seed=0)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-7)
    for (*_, one), (*_, other) in zip(at_once.curve, divided.curve, strict=True):
        assert other == pytest.approx(one, rel=1e-4)


def test_a_batch_of_fewer_windows_than_parts(windows, monkeypatch):
    monkeypatch.setattr(loop, "make_optimizer", lambda model, settings: torch.optim.SGD(model.parameters()))
    plan = Batches(SequenceTensors(windows), [np.arange(2)])
    whole, parts = reader(dropout=0.0), reader(dropout=0.0)
    loop.fit(whole, plan, spans.loss, SETTINGS, seed=0)
    loop.fit(parts, plan, spans.loss, SETTINGS.model_copy(update={"accumulate": 5}), seed=0)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-7)


PROCESS = """
import sys
import torch
import test_training as here
from helpers.training import loop

loop.make_optimizer = lambda model, settings: torch.optim.SGD(model.parameters())
model = here.reader(dropout=0.0)
done = loop.fit(model, here.batches(here.windows_of_news()), here.spans.loss, here.SETTINGS, seed=0)
assert (torch.distributed.get_world_size(), model.training) == (2, False)
if torch.distributed.get_rank() == 0:
    torch.save([done.steps, model.state_dict()], sys.argv[1])
"""


@pytest.mark.slow
def test_two_processes_share_a_batch_and_give_the_step_of_one(windows, monkeypatch, tmp_path):
    """As torchrun starts them; tasks of a preset are begun by one process alone."""
    (tmp_path / "process.py").write_text(PROCESS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    beside = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.getcwd()]), "CUDA_VISIBLE_DEVICES": ""}
    given = [*command, str(tmp_path / "process.py"), str(tmp_path / "both.pt")]
    subprocess.run(given, env={**os.environ, **beside}, check=True, timeout=300)
    monkeypatch.setattr(loop, "make_optimizer", lambda model, settings: torch.optim.SGD(model.parameters()))
    alone = reader(dropout=0.0)
    done = loop.fit(alone, batches(windows), spans.loss, SETTINGS, seed=0)
    steps, both = torch.load(tmp_path / "both.pt", map_location=next(alone.parameters()).device)
    assert steps == done.steps
    for name, value in alone.state_dict().items():
        assert torch.allclose(value, both[name], atol=1e-6), name


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_gradients_of_the_parts_of_a_batch_of_every_domain_add_up_to_that_of_the_whole(windows, monkeypatch, parts):
    """Also for a loss that averages over each domain, and weighs the domains, since every part has rows of each."""
    monkeypatch.setattr(loop, "make_optimizer", lambda model, settings: torch.optim.SGD(model.parameters()))
    members = {"a": np.arange(20), "b": np.arange(20, 35), "c": np.arange(35, len(windows))}
    of_domain = {number: d for d, rows in enumerate(members.values()) for number in rows.tolist()}
    plan = Batches(SequenceTensors(windows), plan_steps(per_domain(members, batch_size=5, seed=0), 4))

    def loss(output, batch, progress):
        values = losses.span_negative_log_likelihood(
            output.start_logits, output.end_logits, batch["start"], batch["end"], batch["attention_mask"]
        )
        domain = torch.tensor([of_domain[number] for number in batch["window"].tolist()])
        return {name: (d + 1) * values[domain == d].mean() for d, name in enumerate(members)}

    whole, cut = reader(dropout=0.0), reader(dropout=0.0)
    loop.fit(whole, plan, loss, SETTINGS, seed=0)
    loop.fit(cut, plan, loss, SETTINGS.model_copy(update={"accumulate": parts}), seed=0)
    assert any(not torch.equal(a, b) for a, b in zip(whole.parameters(), reader().parameters(), strict=True))
    for one, other in zip(whole.parameters(), cut.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-7)


def test_the_seed_decides_dropout(windows):
    first, same, other = reader(), reader(), reader()
    loop.fit(first, batches(windows), spans.loss, SETTINGS, seed=1)
    loop.fit(same, batches(windows), spans.loss, SETTINGS, seed=1)
    loop.fit(other, batches(windows), spans.loss, SETTINGS, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), same.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_the_best_validation_score_is_kept(windows):
    model, seen = reader(), []

    def validate(now):
        seen.append({name: tensor.clone() for name, tensor in weights(now).items()})
        return [1.0, 3.0, 2.0][len(seen) - 1]

    done = loop.fit(model, batches(windows), spans.loss, SETTINGS, seed=0, validate=validate)
    steps = len(batches(windows))
    assert [step for step, _ in done.history] == [round(steps / 3), round(2 * steps / 3), steps]
    assert done.best_score == 3.0
    assert all(torch.equal(tensor, seen[1][name]) for name, tensor in weights(model).items())


def test_a_training_leaves_its_curve(windows, monkeypatch, tmp_path):
    monkeypatch.setattr(loop, "CURVE", 3)
    source, seen = batches(windows), []

    def loss(output, batch, progress):
        parts = spans.loss(output, batch, progress) | {"constant": output.start_logits.sum() * 0 + len(seen)}
        seen.append(float(parts["likelihood"].detach()))
        return parts

    settings = SETTINGS.model_copy(update={"warmup": 0.0})
    done = loop.fit(reader(), source, loss, settings, seed=0, validate=lambda model: 50.0)
    ends = [math.ceil(len(source) * part / 3) for part in (1, 2, 3)]
    assert [step for step, _, _ in done.curve] == ends
    begins = [0, *ends[:-1]]
    for (_, rate, parts), begin, end in zip(done.curve, begins, ends, strict=True):
        assert parts["likelihood"] == pytest.approx(np.mean(seen[begin:end]), abs=1e-5)
        assert parts["constant"] == pytest.approx((begin + end - 1) / 2)
        assert rate == pytest.approx(1e-3 * (1 - (end - 1) / len(source)))  # linear decay
    result = {"curve": done.curve, "validation": done.history}
    losses_shown, scores, rates = curves.draw(result, "a reader").axes
    assert [line.get_label() for line in losses_shown.lines] == ["likelihood", "constant"]
    assert scores.lines[0].get_ydata().tolist() == [50.0] * 3 and len(rates.lines[0].get_xdata()) == 3
    with pytest.raises(ValueError, match="a reader: this training left no curve"):
        curves.draw({"validation": []}, "a reader")


def test_progress_runs_from_0_to_1(windows):
    seen = []

    def loss(output, batch, progress):
        seen.append(progress)
        return spans.loss(output, batch, progress)

    loop.fit(reader(), batches(windows), loss, SETTINGS, seed=0)
    assert seen == [step / len(seen) for step in range(len(seen))]


def test_a_loss_that_is_not_finite_stops_with_step_windows_and_parts(windows):
    def loss(output, batch, progress):
        bad = math.nan if progress >= 0.3 else 1.0
        return {"first": output.start_logits.mean() * bad, "second": output.end_logits.mean()}

    plan = batches(windows)
    step = next(s for s in range(len(plan)) if s / len(plan) >= 0.3)
    with pytest.raises(FloatingPointError, match=rf"at step {step} \(first nan, second .*windows \[") as error:
        loop.fit(reader(), plan, loss, SETTINGS, seed=0)
    assert str(plan.plan[step].tolist()) in str(error.value)


def test_a_loss_of_a_task_that_is_not_finite_names_the_task(windows):
    tensors = dict.fromkeys(("squad", "news"), SequenceTensors(windows))

    def loss(output, batch, progress):
        return {"span": output.start_logits.mean() * (math.nan if batch["task"] == "news" else 1.0)}

    plan = TaskBatches(tensors, [("squad", np.arange(4)), ("news", np.arange(2, 4)), ("squad", np.arange(4))])
    said = r"at step 1 \(span nan\); the batch of task 'news' holds windows \[2, 3\]"
    with pytest.raises(FloatingPointError, match=said):
        loop.fit(reader(), plan, loss, SETTINGS, seed=0)


def test_it_stops_so_even_where_it_would_have_been_evaluated(windows):
    def loss(output, batch, progress):
        return {"bad": output.start_logits.mean() * math.nan}

    settings = SETTINGS.model_copy(update={"evaluations": 100})
    with pytest.raises(FloatingPointError, match="at step 0"):
        loop.fit(reader(), batches(windows), loss, settings, seed=0, validate=lambda model: 1.0)


def test_a_full_disk_is_named_and_leaves_nothing_behind(windows, tmp_path, monkeypatch):
    from safetensors import SafetensorError

    def full(tensors, path, metadata):
        path.write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoints, "save_file", full)
    settings = SETTINGS.model_copy(update={"checkpoint_minutes": 0.0})
    with pytest.raises(OSError, match=r"cannot save the checkpoint c\.safetensors: .*No space left .* free some space"):
        loop.fit(reader(), batches(windows), spans.loss, settings, seed=0, checkpoint=tmp_path / "c.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("optimizer", "validate"),
    [("adamw", None), ("adamax", None), ("adamw", lambda model: 1.0)],  # the last weights are kept, or the first best
)
def test_stopped_and_resumed_is_the_same_to_the_last_bit(windows, tmp_path, optimizer, validate):
    settings = SETTINGS.model_copy(update={"optimizer": optimizer})
    straight, resumed = reader(), reader()
    expected = loop.fit(straight, batches(windows), spans.loss, settings, seed=5, validate=validate)
    settings = settings.model_copy(update={"checkpoint_minutes": 0.0})
    path = tmp_path / "checkpoint.safetensors"
    calls = 0

    def interrupted(output, batch, progress):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return spans.loss(output, batch, progress)

    with pytest.raises(KeyboardInterrupt):
        loop.fit(resumed, batches(windows), interrupted, settings, seed=5, validate=validate, checkpoint=path)
    again = reader(seed=9)  # other weights: all come from the checkpoint
    done = loop.fit(again, batches(windows), spans.loss, settings, seed=5, validate=validate, checkpoint=path)
    assert done.history == expected.history and done.steps == expected.steps
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters(), again.parameters(), strict=True))


def test_a_damaged_checkpoint_is_named_and_the_training_starts_again(windows, tmp_path, capsys):
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(b"not a checkpoint")
    model, fresh = reader(), reader()
    loop.fit(model, batches(windows), spans.loss, SETTINGS, seed=0, checkpoint=path)
    assert "checkpoint.safetensors cannot be read" in capsys.readouterr().out
    loop.fit(fresh, batches(windows), spans.loss, SETTINGS, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), fresh.parameters(), strict=True))


def test_predicted_logits_equal_hugging_faces(windows, tmp_path):
    model = reader().eval()
    save_encoder(model, load_tokenizer("data/mini"), tmp_path / "model")
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "model").eval()
    logits = spans.predict(load_saved(tmp_path / "model"), windows, precision="fp32")
    cuts = np.cumsum(windows.lengths_W)[:-1]
    starts, ends = np.split(logits.start, cuts), np.split(logits.end, cuts)
    for w in range(len(windows)):
        ids = torch.as_tensor(windows.token_ids(w))[None]
        kinds = (torch.arange(ids.shape[1]) >= int(windows.prefix_W[w])).long()[None]
        with torch.no_grad():
            output = theirs(input_ids=ids, token_type_ids=kinds)
        assert np.allclose(starts[w], output.start_logits[0].numpy(), atol=1e-5)
        assert np.allclose(ends[w], output.end_logits[0].numpy(), atol=1e-5)


def test_prediction_refuses_a_model_in_training_mode(windows):
    with pytest.raises(ValueError, match="evaluation mode"):
        spans.predict(reader().train(), windows)


def train_long(checkpoint=None, minutes=5.0):
    """The validation scores of a training that stores its state after so many minutes."""
    torch.set_num_threads(1)
    examples = domains.load_domain("news", train_size=40).train
    windows = make_windows(examples, load_tokenizer("data/mini"), max_length=128, stride=32)
    settings = SETTINGS.model_copy(update={"checkpoint_minutes": minutes})

    def validate(model):
        return float(spans.predict(model.eval(), windows, precision="fp32").start.sum())

    plan = batches(windows, epochs=12.0)
    return loop.fit(reader(), plan, spans.loss, settings, seed=1, validate=validate, checkpoint=checkpoint).history


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_scores(tmp_path):
    stored, deadline = tmp_path / "killed.safetensors", time.time() + 60
    process = multiprocessing.get_context("spawn").Process(target=train_long, args=(stored, 0.0))
    process.start()
    while not stored.exists() and time.time() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL  # it had not finished
    assert 1 < json.loads(checkpoints.load_tensors(stored)[1]["progress"])["steps"] < 60
    assert train_long(stored) == train_long()
