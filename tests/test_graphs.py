"""What of CUDA graphs shows without a GPU: which steps are captured, and that a CPU knows nothing of them."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from helpers import graphs, loop
from helpers.batches import Batches
from helpers.data.mini import world
from helpers.extractive_qa import likelihood
from helpers.models.attention import keep_attention
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.papers.a2d.mnemonic import make_reader
from helpers.papers.hrkd.tinybert import keep_scores
from helpers.presets.load import load_preset
from helpers.presets.schema import TrainingSettings
from helpers.sequences import collate, make_windows


class OnGpu(torch.Tensor):
    is_cuda = True


def tensor(*shape):
    return torch.ones(shape).as_subclass(OnGpu)


class Noted(graphs.GraphedStep):
    """Notes for each step whether it is run, watched, or replayed."""

    def __init__(self):
        self.seen, self.graphs, self.is_on = Counter(), {}, True
        self.rate, self.progress = torch.zeros(2)
        self.optimizer = SimpleNamespace(param_groups=[{"lr": 0.5}, {"lr": 0.5}])
        self.done = []

    def take(self, progress=0.5, **batch):
        return self([(1.0, batch)], progress)

    def step(self, parts, progress):
        self.done.append(f"{len([*parts])} parts")

    def run(self, batch, progress, is_watched=False):
        self.done.append("watched" if is_watched else "run")

    def capture(self, shape, inputs):
        graph = SimpleNamespace(replay=lambda: self.done.append("replay"))
        held = {name: value.clone() if torch.is_tensor(value) else value for name, value in inputs.items()}
        self.graphs[shape] = graph, held, {"loss": held["ids"]}


def test_a_shape_is_captured_when_it_has_been_seen_twice():
    step = Noted()
    for length in (8, 8, 16, 8, 8, 16):
        step.take(ids=tensor(2, length), window=torch.ones(2))
    assert step.done == ["run", "watched", "run", "replay", "replay", "watched"]
    for _ in range(3):
        step.take(ids=tensor(2, 8), task="a")  # another task has its own graphs
    assert step.done[-3:] == ["run", "watched", "replay"]


def test_a_graph_reads_batch_progress_and_rate_and_its_terms_are_copies():
    step = Noted()
    for _ in range(3):
        step.take(ids=tensor(2))
    first = step.take(0.25, ids=2 * tensor(2))
    second = step.take(0.75, ids=3 * tensor(2))
    assert first["loss"].tolist() == [2, 2] and second["loss"].tolist() == [3, 3] and float(step.progress) == 0.75
    assert [group["lr"] is step.rate for group in step.optimizer.param_groups] == [True, True] and step.rate == 0.5


@pytest.mark.parametrize("value", [(tensor(2),), torch.ones(2), 3])
def test_batches_with_what_no_graph_can_take_run_eagerly(value):
    step = Noted()
    for _ in range(4):
        step.take(ids=tensor(2), teacher=value)
    assert step.done == ["run"] * 4


def test_steps_in_parts_and_those_after_a_problem_are_not_looked_at(capsys):
    step = Noted()
    for _ in range(4):
        step.take(ids=tensor(2))
    step.give_up("a reason")
    assert capsys.readouterr().out == "steps run without CUDA graphs: a reason\n" and not step.graphs
    step(iter([(0.5, {"ids": tensor(2)})] * 2), 0.5)
    assert step.done[-2:] == ["replay", "2 parts"]


def model_with(**config):
    model = nn.Linear(1, 1)
    model.config = SimpleNamespace(**config)
    return nn.Sequential(model)


def test_lengths_are_padded_within_the_model():
    for positions, multiple in ((512, 64), (514, 64), (160, 32), (72, 8), (None, 64)):
        assert graphs.pad_multiple(model_with(max_position_embeddings=positions)) == multiple
    rmr = load_preset("smoke").mnemonic.model()
    assert graphs.pad_multiple(make_reader(load_tokenizer("data/mini"), 0, **rmr)) == 0
    for keep in (keep_attention, keep_scores):
        model = load_encoder("data/mini", seed=0, random_layers=1)
        assert graphs.pad_multiple(model) == 32
        assert graphs.pad_multiple(keep(model)) == 0


def test_a_cpu_pads_to_8_and_makes_no_graph(monkeypatch):
    windows = make_windows(world.load_domain("news", train_size=8).train, load_tokenizer("data/mini"), max_length=128)
    index = np.arange(4)
    longest = windows.lengths_W[index].max()
    assert collate(windows, index)["input_ids"].shape[1] == -(-longest // 8) * 8
    assert collate(windows, index, multiple=64)["input_ids"].shape[1] == -(-longest // 64) * 64
    monkeypatch.setattr(graphs, "GraphedStep", lambda *_: pytest.fail("a graph on a CPU"))
    monkeypatch.setattr(loop, "training_device", lambda: torch.device("cpu"))
    settings = TrainingSettings(learning_rate=1e-3, batch_size=4, epochs=1.0)
    loop.fit(
        load_encoder("data/mini", seed=0, random_layers=1), Batches(windows, [index]), likelihood, settings, seed=0
    )
