"""Pretrained encoders with a head (BERTQA, IMM section 3, and others): loading, saving, fingerprints, single heads."""

import contextlib
import copy
import inspect
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from helpers import paths
from helpers.batches.sequences import Template
from helpers.errors import EncoderError
from helpers.files import file_fingerprint, fingerprint, follow_umask, unwritten
from helpers.models import attention, mnemonic  # noqa: F401  registers RMR, so that it loads like any other
from helpers.models.dropout import quicken

logging.disable_progress_bar()  # a reader loads in a moment; the trainings have bars of their own

HEADS = {
    "spans": AutoModelForQuestionAnswering,
    "labels": AutoModelForSequenceClassification,
    "choices": AutoModelForMultipleChoice,
}
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "segment_ids")
SUFFIXES = (".safetensors", ".bin", ".json", ".txt", ".model")  # of weights and vocabulary


def locate(encoder: str) -> dict[str, str]:
    """Return where ``from_pretrained`` finds an encoder: a folder, given absolute, from here or from the repository's
    root, or else a name on the Hub with a revision where it has one (name@revision)."""
    for folder in paths.places(encoder):
        if (folder / "config.json").is_file():
            return {"pretrained_model_name_or_path": str(folder)}
    name, _, revision = encoder.partition("@")
    return {"pretrained_model_name_or_path": name, "revision": revision or "main"}


@cache
def load_tokenizer(encoder: str) -> PreTrainedTokenizerFast:
    """Load the encoder's tokenizer. Raises EncoderError where there is none, or none that serves."""
    with _loading(encoder):
        tokenizer = AutoTokenizer.from_pretrained(**locate(encoder), use_fast=True)
    if not tokenizer.is_fast:
        raise EncoderError(f"encoder {encoder!r} has only a slow tokenizer; use one with a fast tokenizer")
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):  # transformers makes one up
        raise EncoderError(f"encoder {encoder!r} has no tokenizer; save its tokenizer beside its weights")
    Template.of(tokenizer)
    return tokenizer


def load_encoder(
    encoder: str, head: str = "spans", *, seed: int, classes: int = 2, random_layers: int = 0, max_length: int = 0
) -> nn.Module:
    """Load a pretrained encoder with a new head, float32, dropout as its configuration says.

    ``head`` is "spans" (logits of an answer's start and end), "labels" (of ``classes`` classes; 1: a score) or
    "choices" (of an example's endings). Its weights follow ``seed``, unless the encoder comes with a head of the same
    kind and size. ``random_layers`` > 0 builds that many layers of random weights, for tests. Raises EncoderError, also
    where the encoder cannot read ``max_length`` tokens or its tokenizer's token types.
    """
    changes = {"num_hidden_layers": random_layers} if random_layers else {}
    with _loading(encoder):
        config = AutoConfig.from_pretrained(**locate(encoder), num_labels=classes, **changes)
        torch.manual_seed(seed)
        if random_layers:
            model = HEADS[head].from_config(config, dtype=torch.float32)
        else:  # an encoder may come with another's head, such as one of other classes
            settings = {"config": config, "dtype": torch.float32, "ignore_mismatched_sizes": True}
            model = HEADS[head].from_pretrained(**locate(encoder), **settings)
        if model._supports_attention_backend:
            model.set_attn_implementation(attention.NAME)
    tokenizer, rows = load_tokenizer(encoder), model.get_input_embeddings().num_embeddings
    if rows < len(tokenizer):
        problem = f"has embeddings of {rows:,} tokens, its tokenizer has {len(tokenizer):,}"
        raise EncoderError(f"encoder {encoder!r} {problem}; use the tokenizer that it was trained with")
    if (longest := longest_input(model, max_length)) < max_length:
        raise EncoderError(f"encoder {encoder!r} reads {longest} tokens, not {max_length}: lower max_length")
    rows, types = getattr(config, "type_vocab_size", 0), max(Template.of(tokenizer).types) + 1
    if "token_type_ids" in inputs_of(model) and 0 < rows < types:
        raise EncoderError(f"encoder {encoder!r} knows {rows} token type, its tokenizer makes {types}; use another")
    return quicken(model)


def load_saved(folder: Path | str, head: str = "spans") -> nn.Module:
    """Load a trained model in Hugging Face format, float32, in evaluation mode. Raises EncoderError."""
    with _loading(str(folder)):
        place = locate(str(folder))
        model, report = HEADS[head].from_pretrained(**place, dtype=torch.float32, output_loading_info=True)
    if missing := ", ".join(sorted(report["missing_keys"])[:3]):
        raise EncoderError(f"{str(folder)!r} is no trained model, it lacks {missing}; train one first")
    return model.eval()


def save_encoder(model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save in Hugging Face format. Raises OSError that names the folder, as on a full disk."""
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        follow_umask(Path(folder))
    except (OSError, SafetensorError) as error:
        raise unwritten(f"save the model {folder}", error) from error


def longest_input(model: nn.Module, most: int) -> int:
    """Return how many tokens a model on the CPU reads, up to ``most``.

    Each kind of model says it by another name, or not at all, so the model is tried.
    """
    is_too_long = partial(_is_too_long, model)
    return bisect_left(range(1, most + 1), True, key=is_too_long) if most and is_too_long(most) else most


@torch.inference_mode()
def _is_too_long(model: nn.Module, length: int) -> bool:
    was_training = model.training
    ids = torch.full((1, length), (model.config.pad_token_id or 0) + 1)  # padding has no position in some models
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    try:
        model.eval().base_model(**{name: inputs[name] for name in inputs if name in inputs_of(model)})
    except (IndexError, RuntimeError, ValueError):  # of a table of positions that ends
        return True
    finally:
        model.train(was_training)
    return False


def inputs_of(model: nn.Module) -> tuple[str, ...]:
    """Return the ``INPUTS`` that the model takes, or names as ``inputs``; segment_ids where it keeps its attention."""
    if not (names := getattr(model, "inputs", None)):
        taken = inspect.signature(type(model).forward).parameters
        names = tuple(name for name in INPUTS if name in taken)
    return (*names, "segment_ids") if getattr(model, "keeps_attention", False) else names


@cache
def encoder_fingerprint(encoder: str) -> str:
    """Fingerprint an encoder's weights and vocabulary. A name on the Hub stands for itself."""
    folder = Path(locate(encoder)["pretrained_model_name_or_path"])
    if not folder.is_dir():
        return encoder
    files = [file for file in sorted(folder.iterdir()) if file.suffix in SUFFIXES and file.name != "pretraining.json"]
    return fingerprint(*(f"{file.name} {file_fingerprint(file)}" for file in files))


def vocabulary_fingerprint(encoder: str) -> str:
    """Fingerprint the word pieces of an encoder's vocabulary, in their order."""
    pieces = load_tokenizer(encoder).get_vocab()
    return fingerprint(*sorted(pieces, key=pieces.get))


def copy_head(model: nn.Module, domain: str) -> nn.Module:
    """Copy ``model`` with the outputs of one of its configuration's ``heads`` alone ("": the head that all share).
    Raises EncoderError."""
    heads, names = model.config.heads, list(model.config.id2label.values())
    if domain not in heads:
        raise EncoderError(f"the classifier has no head of {domain!r}; it has {', '.join(map(repr, heads))}")
    classes = len(names) // len(heads)
    rows = slice(heads.index(domain) * classes, (heads.index(domain) + 1) * classes)
    single = copy.deepcopy(model)
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


def is_of_encoder(model: nn.Module, name: str) -> bool:
    """Return whether the module or tensor of this name lies in the model's encoder, not in its head."""
    return name.startswith(f"{model.base_model_prefix}.")


@contextlib.contextmanager
def _loading(encoder: str) -> Iterator[None]:
    """Load without transformers' reports on new and unused weights; name what fails."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        reason = f"{str(error).splitlines()[0] if str(error) else type(error).__name__:.200}"
        raise EncoderError(
            f"encoder {encoder!r} cannot be loaded: give a folder with config.json, or a name on the Hub ({reason})"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
