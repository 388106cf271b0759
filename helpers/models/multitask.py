"""One encoder under several heads: a model of many tasks, of which each alone is a model as transformers has it."""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from safetensors.torch import load_file, save_file
from torch import nn

from helpers.batches.packed import Packing
from helpers.batches.texts import EncoderError
from helpers.models.heads import is_of_encoder, linear_layers
from helpers.models.pretrained import INPUTS, inputs_of, load_config, load_encoder
from helpers.models.san import with_san

HEADS_FILE = "heads.safetensors"


class Head(NamedTuple):
    """What a task's head gives: logits of "spans", of the classes of "labels" (1: a score), or of "choices"; with
    ``san`` classes by a stochastic answer network."""

    kind: str
    classes: int = 2
    san: bool = False


class MultiTask(nn.Module):
    """Models of several tasks, by name, that share the encoder of one of them; what a batch is given to is its task's
    (Liu et al. 2019, Figure 1; He 2019, Figure 1)."""

    inputs = ("task", *INPUTS)

    def __init__(self, models: Mapping[str, nn.Module]):
        super().__init__()
        # Readers have no pooler; the encoder that all share is one that has it, if there is any.
        self.shared = max(
            (model.base_model for model in models.values()), key=lambda encoder: len(encoder.state_dict())
        )
        for model in models.values():
            setattr(model, model.base_model_prefix, self.shared)
        self.tasks = nn.ModuleDict(models)

    def forward(self, task: str, packing: Packing | None = None, **inputs):
        """The output of one task's model. ``packing`` is for the encoder (``helpers.models.unpadded``)."""
        model = self.tasks[task]
        packed = {} if packing is None else {"packing": packing}
        return model(**{name: inputs[name] for name in inputs_of(model) if name in inputs}, **packed)

    @property
    def base_model(self) -> nn.Module:
        """The encoder, as transformers' models call theirs."""
        return self.shared

    @property
    def config(self):
        """The encoder's configuration."""
        return self.shared.config

    def save_pretrained(self, folder: Path) -> None:
        """Save the encoder in Hugging Face format, the heads in a file beside it. Raises OSError on a full disk."""
        self.shared.save_pretrained(folder)
        heads = {
            f"{task}|{name}": tensor.contiguous()
            for task, model in self.tasks.items()
            for name, tensor in model.state_dict().items()
            if not is_of_encoder(model, name)
        }
        save_file(heads, Path(folder) / HEADS_FILE)


def new_multitask(
    encoder: str, heads: Mapping[str, Head], *, seed: int, random_layers: int = 0, max_length: int = 0
) -> MultiTask:
    """A pretrained encoder with new heads, which follow ``seed``. Raises EncoderError, as `load_encoder` does.

    Their weights are spread by the encoder's width, as PyTorch has it: at a width of 768 as BERT's are (0.02), and more
    in a narrower one, where a small task, which has few steps, would not get away from 0.
    """
    models = {}
    for task, head in heads.items():
        sizes = {"classes": head.classes, "random_layers": random_layers, "max_length": max_length}
        model = load_encoder(encoder, head.kind, seed=seed, **sizes)
        models[task] = with_san(model) if head.san else model
        for layer in linear_layers(models[task]):
            if layer.bias is not None:
                layer.reset_parameters()
                nn.init.zeros_(layer.bias)
    return MultiTask(models)


def load_multitask(
    folder: Path, tasks: Iterable[str] = (), fresh: Mapping[str, Head] | None = None, seed: int = 0
) -> MultiTask:
    """Some tasks of a saved model (all, if none is named) in evaluation mode, and ``fresh`` ones, whose heads are new
    and follow ``seed``. Its configuration says by ``heads`` what it has. Raises EncoderError for a task that it has
    not."""
    known = {task: Head(**facts) for task, facts in load_config(str(folder)).heads.items()}
    tasks = list(tasks) or ([] if fresh else list(known))
    if missing := [task for task in tasks if task not in known]:
        raise EncoderError(f"the model in {folder} has no task {missing[0]}; it has {', '.join(known)}")
    heads = {task: known[task] for task in tasks} | dict(fresh or {})
    model, saved = new_multitask(str(folder), heads, seed=seed), load_file(folder / HEADS_FILE)
    for task in tasks:
        own = {name.partition("|")[2]: tensor for name, tensor in saved.items() if name.partition("|")[0] == task}
        model.tasks[task].load_state_dict(own, strict=False)
    return model.eval()


def set_dropout(model: MultiTask, encoder: float | None, heads: Mapping[str, float]) -> None:
    """Set the dropout of the encoder (None: as it is) and of every task's head, by task."""
    for task, whole in model.tasks.items():
        for name, module in whole.named_modules():
            if isinstance(module, nn.Dropout):
                if not is_of_encoder(whole, name):
                    module.p = heads[task]
                elif encoder is not None:
                    module.p = encoder


def part_of(model: MultiTask, task: str, labels: tuple[str, ...] = ()) -> nn.Module:
    """A copy of one task's model, which is a model by itself; its ``labels`` are called what they are."""
    own = copy.deepcopy(model.tasks[task])
    if hasattr(own, "qa_outputs") and hasattr(own.base_model, "pooler"):
        own.base_model.pooler = None  # a reader by itself has none
    if labels:
        own.config.id2label = dict(enumerate(labels))
        own.config.label2id = {label: number for number, label in enumerate(labels)}
    return own
