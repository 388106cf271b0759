"""One domain's head of a classifier that has a head a domain, as a classifier by itself."""

import copy
from pathlib import Path

from torch import nn
from transformers import AutoTokenizer

from helpers.batches.texts import EncoderError
from helpers.models.pretrained import load_saved, save_encoder


def head_of(model: nn.Module, domain: str) -> nn.Module:
    """A copy of ``model``, which has C of its D·C outputs for each of its configuration's ``heads``, with only those of
    ``domain`` ("" for the head that all share). Its labels are called what they are. Raises EncoderError.
    """
    heads, names = model.config.heads, model.config.id2label
    if domain not in heads:
        raise EncoderError(f"the classifier has no head of {domain!r}; it has {', '.join(map(repr, heads))}")
    classes = len(names) // len(heads)
    rows = slice(heads.index(domain) * classes, (heads.index(domain) + 1) * classes)
    own = copy.deepcopy(model)
    layer = last_layer(own)
    layer.weight = nn.Parameter(layer.weight[rows].detach().clone())
    if layer.bias is not None:
        layer.bias = nn.Parameter(layer.bias[rows].detach().clone())
    layer.out_features = own.num_labels = classes
    labels = [names[number].removeprefix(domain).strip() for number in range(rows.start, rows.stop)]
    own.config.id2label = dict(enumerate(labels))
    own.config.label2id = {label: number for number, label in enumerate(labels)}
    own.config.update({"heads": [domain], "problem_type": "single_label_classification"})
    return own


def last_layer(model: nn.Module) -> nn.Linear:
    """The linear layer whose outputs are the logits: BERT's and DistilBERT's ``classifier``, RoBERTa's
    ``classifier.out_proj``, and others'. Raises EncoderError where there is none."""
    if not (found := [layer for layer in linear_layers(model) if layer.out_features == model.config.num_labels]):
        raise EncoderError(
            f"a {model.config.model_type} has no linear layer of {model.config.num_labels} outputs behind its encoder, "
            "so its heads cannot be told apart; use one of BERT's kind"
        )
    return found[-1]


def is_of_encoder(model: nn.Module, name: str) -> bool:
    """Whether the module or tensor of this name lies in the model's encoder, not in its head."""
    return name.startswith(f"{model.base_model_prefix}.")


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """The linear layers of a model's head, in order."""
    behind = (module for name, module in model.named_modules() if not is_of_encoder(model, name))
    return [module for module in behind if isinstance(module, nn.Linear)]


def save_head(folder: Path, domain: str, into: Path) -> None:
    """Save one domain's head of the trained classifier in ``folder``, with its encoder and tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    save_encoder(head_of(load_saved(folder, "labels"), domain), tokenizer, into)
