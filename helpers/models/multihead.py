"""One encoder under several heads: of many tasks, or of the domains of one task."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedConfig

from helpers.errors import EncoderError
from helpers.models.encoders import (
    INPUTS,
    check_weights,
    inputs_of,
    is_of_encoder,
    load_config,
    load_encoder,
    loading,
)

HEADS_FILE = "heads.safetensors"


class Head(NamedTuple):
    """What a task's head gives: logits of "spans", of the classes of "labels" (1: a score), or of "choices"."""

    kind: str
    classes: int = 2


class MultiHead(nn.Module):
    """Models of several tasks, by name, that share the encoder of one of them. A batch goes to its task's model (Liu et
    al. 2019, Figure 1; He 2019, Figure 1).

    The classifier of a single task may have a head per domain, for ``domains`` in their order: it computes D·C logits
    for C classes, the first C of the first domain. The output has those of each text's domain (B×C).
    """

    def __init__(self, models: Mapping[str, nn.Module], domains: Sequence[str] = ()):
        super().__init__()
        # Readers have no pooler; the encoder that all share is one that has it, if there is any.
        shared = [model.base_model for model in models.values()]
        self.shared = max(shared, key=lambda encoder: len(encoder.state_dict()))
        for model in models.values():
            setattr(model, model.base_model_prefix, self.shared)
        self.tasks, self.domains = nn.ModuleDict(models), domains

    @property
    def inputs(self) -> tuple[str, ...]:
        if len(self.tasks) > 1:
            return ("task", *INPUTS)
        return (*inputs_of(self.single), *["domain"] * (len(self.domains) > 1))

    @property
    def single(self) -> nn.Module:
        """The model of the only task. Raises ValueError where there are several."""
        (model,) = self.tasks.values()
        return model

    def forward(self, task: str = "", domain: Tensor | None = None, **inputs):
        model = self.tasks[task] if task else self.single
        refused = set(INPUTS) - {*inputs_of(model)}
        output = model(**{name: value for name, value in inputs.items() if name not in refused})
        if domain is not None:
            heads = output.logits.unflatten(1, (len(self.domains), -1))
            output.logits = heads[torch.arange(len(domain), device=domain.device), domain]
        return output

    @property
    def config(self) -> PreTrainedConfig:
        return self.shared.config

    def save_pretrained(self, folder: Path) -> None:
        """Save in Hugging Face format, heads of tasks in a file beside the encoder. Raises OSError on a full disk."""
        if self.domains:
            return self.single.save_pretrained(folder)
        self.shared.save_pretrained(folder)
        heads = {
            f"{task}|{name}": tensor.contiguous()
            for task, model in self.tasks.items()
            for name, tensor in model.state_dict().items()
            if not is_of_encoder(model, name)
        }
        save_file(heads, Path(folder) / HEADS_FILE)


HEAD_SEEDS = 10_000  # more than there are seeds


def new_multihead(encoder: str, heads: Mapping[str, Head], *, seed: int, **sizes: int) -> MultiHead:
    """Make a model of a pretrained encoder and new heads, which follow ``seed``; ``sizes`` go to `load_encoder`.

    The heads' weights are spread by the encoder's width, as PyTorch has it: 0.02 at BERT's 768, and wider in a narrower
    encoder, where a task of few steps would not get away from 0.
    """
    models = {}
    for number, (task, head) in enumerate(heads.items()):
        model = load_encoder(encoder, head.kind, seed=seed, classes=head.classes, **sizes)
        torch.manual_seed(seed + HEAD_SEEDS * number)  # each head's own
        models[task] = model
        for layer in linear_layers(model):
            if layer.bias is not None:
                layer.reset_parameters()
                nn.init.zeros_(layer.bias)
    return MultiHead(models)


def load_multihead(folder: Path, tasks: Iterable[str]) -> MultiHead:
    """Load some tasks of a saved model, whose configuration names its ``heads``, in evaluation mode. Raises
    EncoderError for a task or weights that it lacks."""
    saved = getattr(load_config(str(folder)), "heads", None)
    if not isinstance(saved, dict):
        raise EncoderError(f"the model in {folder} has no heads of several tasks; train one first")
    if missing := [task for task in tasks if task not in saved]:
        raise EncoderError(f"the model in {folder} has no task {missing[0]}; it has {', '.join(saved)}")
    with loading(str(folder)):
        heads = {task: Head(**saved[task]) for task in tasks}
        model = new_multihead(str(folder), heads, seed=0, new_pooler=False)
        stored: dict[str, dict[str, Tensor]] = {task: {} for task in saved}
        for name, tensor in load_file(folder / HEADS_FILE).items():
            task, _, name = name.partition("|")
            stored[task][name] = tensor
        for task, whole in model.tasks.items():
            lacking = whole.load_state_dict(stored[task], strict=False).missing_keys
            problems = [f"{task}|{name} is missing" for name in lacking if not is_of_encoder(whole, name)]
            check_weights(str(folder), problems)
    return model.eval()


def set_dropout(model: MultiHead, encoder: float, heads: Mapping[str, float]) -> None:
    """Set the dropout of the encoder and, by task, of the heads."""
    for task, whole in model.tasks.items():
        for name, module in whole.named_modules():
            if isinstance(module, nn.Dropout):
                module.p = encoder if is_of_encoder(whole, name) else heads[task]


def copy_task(model: MultiHead, task: str, labels: tuple[str, ...] = ()) -> nn.Module:
    """Copy one task's model, which is a model by itself, and name its ``labels``."""
    part = copy.deepcopy(model.tasks[task])
    if hasattr(part, "qa_outputs") and hasattr(part.base_model, "pooler"):
        part.base_model.pooler = None  # a reader by itself has none
    if labels:
        name_labels(part, list(labels))
    return part


def copy_domain(model: MultiHead, domain: str) -> nn.Module:
    """Copy a classifier with the head of one domain alone ("": the head that all share). Raises EncoderError."""
    heads, names = model.domains, list(model.config.id2label.values())
    if domain not in heads:
        raise EncoderError(f"the classifier has no head of {domain!r}; it has {', '.join(map(repr, heads))}")
    classes = len(names) // len(heads)
    rows = slice(heads.index(domain) * classes, (heads.index(domain) + 1) * classes)
    single = copy.deepcopy(model.single)
    layer = linear_layers(single)[-1]
    layer.weight = nn.Parameter(layer.weight[rows].detach().clone())
    if layer.bias is not None:
        layer.bias = nn.Parameter(layer.bias[rows].detach().clone())
    layer.out_features = single.num_labels = classes
    name_labels(single, [name.removeprefix(domain).strip() for name in names[rows]])
    single.config.update({"heads": [domain], "problem_type": "single_label_classification"})
    return single


def name_labels(model: nn.Module, labels: list[str]) -> None:
    """Call a classifier's outputs by their labels."""
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: number for number, label in enumerate(labels)}


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """Return the linear layers of a model's head, in order."""
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    return [layer for name, layer in layers.items() if not is_of_encoder(model, name)]
