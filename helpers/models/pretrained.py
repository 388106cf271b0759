"""Readers: a pretrained encoder with a span head (BERTQA, IMM section 3), loaded, named and saved."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging

from helpers import paths
from helpers.models import dropout, mnemonic  # noqa: F401  registers RMR, so that it loads like any other

logging.disable_progress_bar()  # a reader loads in a moment; the trainings have bars of their own

WEIGHTS_AND_VOCABULARY = (".safetensors", ".bin", ".json", ".txt", ".model")


class EncoderError(ValueError):
    """An encoder that cannot be loaded; the message says which and what to do."""


def locate(encoder: str) -> str:
    """A folder, given absolute, from here or from the repository's root; or else ``encoder``, a name on the Hub."""
    for folder in paths.places(encoder):
        if (folder / "config.json").is_file():
            return str(folder)
    return encoder


@cache
def load_tokenizer(encoder: str) -> PreTrainedTokenizerFast:
    """The encoder's tokenizer. Raises EncoderError where there is none, or only a slow one."""
    with _loading(encoder):
        tokenizer = AutoTokenizer.from_pretrained(locate(encoder), use_fast=True)
    if not tokenizer.is_fast or tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
        raise EncoderError(f"encoder {encoder!r} needs a fast tokenizer with [CLS] and [SEP]; use one of BERT's kind")
    return tokenizer


def load_reader(encoder: str, *, seed: int, random_layers: int = 0, max_length: int = 0) -> torch.nn.Module:
    """A reader of pretrained encoder and new span head, float32, dropout as the encoder's configuration has it.

    The head's weights follow ``seed`` (IMM section 5.1 initialises them at random). ``random_layers`` > 0 builds
    an encoder of that many layers with random weights instead, for tests. Raises EncoderError, also where the
    encoder cannot take windows of ``max_length`` tokens or passages as a second segment.
    """
    torch.manual_seed(seed)
    settings = {"dtype": torch.float32, "attn_implementation": dropout.NAME}
    with _loading(encoder):
        if random_layers:
            config = AutoConfig.from_pretrained(locate(encoder), num_hidden_layers=random_layers)
            model = AutoModelForQuestionAnswering.from_config(config, **settings)
        else:
            model = AutoModelForQuestionAnswering.from_pretrained(locate(encoder), **settings)
    longest = getattr(model.config, "max_position_embeddings", max_length)
    if longest < max_length:
        raise EncoderError(f"encoder {encoder!r} reads {longest} tokens, windows have {max_length}: lower max_length")
    if getattr(model.config, "type_vocab_size", 2) < 2:
        raise EncoderError(f"encoder {encoder!r} knows no second segment (type_vocab_size); use one of BERT's kind")
    return dropout.quicken(model)


def load_saved(folder: Path | str) -> torch.nn.Module:
    """A trained reader in Hugging Face format, float32, in evaluation mode. Raises EncoderError."""
    with _loading(str(folder)):
        model, report = AutoModelForQuestionAnswering.from_pretrained(
            locate(str(folder)), dtype=torch.float32, output_loading_info=True
        )
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise EncoderError(f"{str(folder)!r} is no trained reader, it has no {missing}; train one first")
    return model.eval()


@cache
def encoder_fingerprint(encoder: str) -> str:
    """Names the encoder's weights and vocabulary. A Hub name stands for itself, without its revision."""
    folder = Path(locate(encoder))
    if not folder.is_dir():
        return encoder
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in WEIGHTS_AND_VOCABULARY and file.name != "pretraining.json":
            digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def save_reader(model: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save in Hugging Face format; ``AutoModelForQuestionAnswering.from_pretrained(folder)`` loads it. Raises OSError
    on a full disk."""
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except (OSError, SafetensorError) as error:
        raise OSError(f"cannot save the reader {folder}: {error}; free some space and run again") from error


def weights_digest(folder: Path) -> str:
    """Sixteen hex digits that stand for a saved reader's weights; empty where there are none."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):  # large ones are saved in several
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16] if any(folder.glob("*.safetensors")) else ""


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
