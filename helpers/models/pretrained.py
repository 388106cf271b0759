"""Pretrained encoders with a new head (BERTQA, IMM section 3, and others), loaded, named and saved."""

import contextlib
import hashlib
import inspect
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from helpers import paths
from helpers.batches.texts import EncoderError, Template
from helpers.files import fingerprint, unwritten
from helpers.models import dropout, mnemonic, san  # noqa: F401  registers RMR and SAN, so that they load like any other

logging.disable_progress_bar()  # a reader loads in a moment; the trainings have bars of their own

HEADS = {
    "spans": AutoModelForQuestionAnswering,
    "labels": AutoModelForSequenceClassification,
    "choices": AutoModelForMultipleChoice,
}
SEGMENTS = ("segment_ids", "text_lengths")
INPUTS = ("input_ids", "attention_mask", "token_type_ids", *SEGMENTS)
WEIGHTS_AND_VOCABULARY = (".safetensors", ".bin", ".json", ".txt", ".model", ".onnx", ".data")


def locate(encoder: str) -> dict[str, str]:
    """Where ``from_pretrained`` finds an encoder: a folder, given absolute, from here or from the repository's root; or
    else a name on the Hub, with a revision where it has one (name@revision)."""
    for folder in paths.places(encoder):
        if (folder / "config.json").is_file():
            return {"pretrained_model_name_or_path": str(folder)}
    name, _, revision = encoder.partition("@")
    return {"pretrained_model_name_or_path": name, **({"revision": revision} if revision else {})}


@cache
def load_tokenizer(encoder: str) -> PreTrainedTokenizerFast:
    """The encoder's tokenizer. Raises EncoderError where there is none, or one without what we need of it."""
    with _loading(encoder):
        tokenizer = AutoTokenizer.from_pretrained(**locate(encoder), use_fast=True)
    if not tokenizer.is_fast:
        raise EncoderError(f"encoder {encoder!r} has only a slow tokenizer; use one with a fast tokenizer")
    Template.of(tokenizer)
    return tokenizer


def load_config(encoder: str) -> PreTrainedConfig:
    """The encoder's configuration. Raises EncoderError."""
    with _loading(encoder):
        return AutoConfig.from_pretrained(**locate(encoder))


def load_encoder(
    encoder: str, head: str = "spans", *, seed: int, classes: int = 2, random_layers: int = 0, max_length: int = 0
) -> torch.nn.Module:
    """A model of pretrained encoder and new head, float32, dropout as the encoder's configuration has it.

    ``head`` is "spans" (logits of an answer's start and end), "labels" (of ``classes`` classes; 1: a score) or
    "choices" (of an example's endings). Its weights follow ``seed`` (IMM section 5.1 initialises them at random),
    unless the encoder comes with a head of the same kind and size. ``random_layers`` > 0 builds an encoder of that many
    layers with random weights instead, for tests. Raises
    EncoderError, also where the encoder cannot read ``max_length`` tokens or its tokenizer's token types.
    """
    auto, changes = HEADS[head], {"num_labels": classes}
    if random_layers:
        changes["num_hidden_layers"] = random_layers
    with _loading(encoder):
        config = AutoConfig.from_pretrained(**locate(encoder), **changes)
        settings = {"dtype": torch.float32}
        if getattr(auto._model_mapping.get(type(config), None), "_supports_attention_backend", False):
            settings["attn_implementation"] = dropout.NAME
        torch.manual_seed(seed)
        if random_layers:
            model = auto.from_config(config, **settings)
        else:
            # an encoder may come with another's head, such as one of other classes
            model = auto.from_pretrained(**locate(encoder), config=config, ignore_mismatched_sizes=True, **settings)
    if (longest := longest_input(model)) < max_length:
        raise EncoderError(f"encoder {encoder!r} reads {longest} tokens, not {max_length}: lower max_length")
    known, types = getattr(config, "type_vocab_size", 0), max(Template.of(load_tokenizer(encoder)).types) + 1
    if "token_type_ids" in inputs_of(model) and 0 < known < types:
        raise EncoderError(f"encoder {encoder!r} knows {known} token type, its tokenizer makes {types}; use another")
    return dropout.quicken(model)


def longest_input(model: torch.nn.Module) -> float:
    """Tokens that the model's table of positions has room for; infinite where it has none (positions relative or
    rotary, or a recurrent reader). RoBERTa's kind leaves the rows up to padding's unused."""
    rooms = [
        module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding)
    ]
    return min(rooms, default=math.inf)


def inputs_of(model: torch.nn.Module) -> tuple[str, ...]:
    """Which of a batch's ``INPUTS`` the model takes, or those that it names as ``inputs`` itself; ``SEGMENTS`` too
    where it keeps its attention (``helpers.models.attention``)."""
    names = getattr(model, "inputs", None) or _inputs_of(type(model))
    return (*names, *SEGMENTS) if getattr(model, "keeps_attention", False) else names


@cache
def _inputs_of(kind: type[torch.nn.Module]) -> tuple[str, ...]:
    taken = inspect.signature(kind.forward).parameters
    return tuple(name for name in INPUTS if name in taken)


def load_saved(folder: Path | str, head: str = "spans") -> torch.nn.Module:
    """A trained model in Hugging Face format, float32, in evaluation mode. Raises EncoderError."""
    with _loading(str(folder)):
        model, report = HEADS[head].from_pretrained(
            **locate(str(folder)), dtype=torch.float32, output_loading_info=True
        )
    if missing := ", ".join(sorted(report["missing_keys"])[:3]):
        raise EncoderError(f"{str(folder)!r} is no trained reader, it has no {missing}; train one first")
    return model.eval()


@cache
def encoder_fingerprint(encoder: str) -> str:
    """Names the encoder's weights and vocabulary. A name on the Hub stands for itself, with its revision if it has
    one."""
    folder = Path(locate(encoder)["pretrained_model_name_or_path"])
    if not folder.is_dir():
        return encoder
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in WEIGHTS_AND_VOCABULARY and file.name != "pretraining.json":
            digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def vocabulary_fingerprint(encoder: str) -> str:
    """What stands for the word pieces that an encoder reads, in their order."""
    pieces = load_tokenizer(encoder).get_vocab()
    return fingerprint(*sorted(pieces, key=pieces.get))


def save_encoder(model: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save in Hugging Face format; ``AutoModelForQuestionAnswering.from_pretrained(folder)``, or that of its head,
    loads it. Raises OSError, as on a full disk."""
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except (OSError, SafetensorError) as error:
        raise unwritten(f"save the reader {folder}", error) from error


def weights_digest(folder: Path) -> str:
    """Sixteen hex digits that stand for a saved reader's weights; empty where there are none."""
    files = sorted(folder.glob("*.safetensors"))  # large ones are saved in several
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16] if files else ""


@contextlib.contextmanager
def _loading(encoder: str) -> Iterator[None]:
    """Load without transformers' reports on new and unused weights, which are what we ask for; name what fails."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        first = f"{str(error).splitlines()[0] if str(error) else type(error).__name__:.200}"
        raise EncoderError(
            f"encoder {encoder!r} cannot be loaded: give a folder with config.json, or a name on the Hub ({first})"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
