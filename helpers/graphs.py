"""A training step as one CUDA graph per shape of batch: the host launches it at once, not kernel by kernel."""

import math
import warnings
from collections import Counter

import torch
from torch import Tensor, nn

from helpers.models.encoders import inputs_of

MULTIPLE = 64  # lengths are padded to it, so that a training has few shapes
EAGER = 2  # steps of a shape before its capture: they prepare libraries, and rare shapes have no more


def pad_multiple(model: nn.Module) -> int:
    """Return what to pad lengths to, within the positions there are; 0 where steps depend on values, or keep some."""
    if "segment_ids" in inputs_of(model) or any(hasattr(module, "stores") for module in model.modules()):
        return 0
    positions = [getattr(getattr(part, "config", None), "max_position_embeddings", None) for part in model.modules()]
    return max(8, math.gcd(*(number // 8 * 8 for number in positions if number), MULTIPLE))


class GraphedStep:
    """Takes training steps by ``step``, which gets micro-batches and the progress, and returns loss terms. Random
    numbers are as without graphs. Where a step cannot be captured, one line says why, and all run eagerly."""

    def __init__(self, step, optimizer: torch.optim.Optimizer, is_on: bool):
        self.step, self.optimizer, self.is_on, self.seen, self.graphs = step, optimizer, is_on, Counter(), {}
        self.rate, self.progress = torch.zeros(2, device="cuda")  # which a graph reads anew in every step
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        optimizer._warned_capturable_if_run_uncaptured = True  # some steps are captured, others are not

    def __call__(self, micro_batches, progress: float) -> dict[str, Tensor]:
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate.fill_(group["lr"])
        if not self.is_on:
            return self.step(micro_batches, progress)
        ((_, batch),) = micro_batches
        inputs = {name: value for name, value in batch.items() if name != "window"}  # which is on the host
        if not all(getattr(value, "is_cuda", isinstance(value, str)) for value in inputs.values()):
            return self.run(inputs, progress)  # outputs of a live teacher are tuples
        shape = tuple((name, getattr(value, "shape", value)) for name, value in inputs.items())
        self.seen[shape] += 1
        if self.seen[shape] == EAGER + 1:
            self.capture(shape, inputs)
        if shape not in self.graphs:
            return self.run(inputs, progress, is_watched=self.seen[shape] == EAGER)
        graph, held, terms = self.graphs[shape]
        torch._foreach_copy_(*([*filter(torch.is_tensor, each.values())] for each in (held, inputs)))
        self.progress.fill_(progress)
        graph.replay()
        return {name: term.clone() for name, term in terms.items()}  # the next replay overwrites them

    def run(self, batch: dict, progress: float, is_watched: bool = False) -> dict[str, Tensor]:
        mode, watch = torch.cuda.get_sync_debug_mode(), {"record": True, "action": "always"} if is_watched else {}
        self.stream.wait_stream(torch.cuda.current_stream())  # torch wants eager steps on the stream of captures
        with warnings.catch_warnings(**watch) as caught, torch.cuda.stream(self.stream):
            torch.cuda.set_sync_debug_mode("warn" if is_watched else mode)
            terms = self.step([(1.0, batch)], progress)
            torch.cuda.set_sync_debug_mode(mode)
        torch.cuda.current_stream().wait_stream(self.stream)
        if any("synchronizing CUDA operation" in str(each.message) for each in caught or ()):
            self.give_up("a step waits for the device")
        return terms

    def capture(self, shape: tuple, inputs: dict) -> None:
        graph, held = torch.cuda.CUDAGraph(), {k: v.clone() if torch.is_tensor(v) else v for k, v in inputs.items()}
        state = (generator := torch.cuda.default_generators[torch.cuda.current_device()]).clone_state()
        try:
            with torch.cuda.graph(graph, self.pool, self.stream):
                self.graphs[shape] = graph, held, self.step([(1.0, held)], self.progress)
        except Exception as error:  # there is no end to what cannot be captured
            generator.graphsafe_set_state(state)  # a capture that failed leaves the old one unusable
            self.optimizer.zero_grad()
            self.give_up(f"{type(error).__name__}: {error}".splitlines()[0])

    def give_up(self, problem: str) -> None:
        self.is_on, self.graphs = False, {}
        print(f"steps run without CUDA graphs: {problem}")
