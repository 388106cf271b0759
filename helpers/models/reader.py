"""Readers: a pretrained encoder with a span head (BERTQA, IMM section 3), loaded, named and saved."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging

from helpers import paths
from helpers.models import dropout

logging.disable_progress_bar()  # a reader loads in a moment; the trainings have bars of their own


class EncoderError(ValueError):
    """An encoder that cannot be loaded; the message says which and what to do."""


def locate(encoder: str) -> str:
    """A folder, given absolute, from here or from the repository's root; or else ``encoder``, a name on the Hub."""
    for folder in (Path(encoder).expanduser(), paths.ROOT / encoder):
        if (folder / "config.json").is_file():
            return str(folder)
    return encoder


@cache
def load_tokenizer(encoder: str) -> PreTrainedTokenizerFast:
    """The encoder's tokenizer. Raises EncoderError where there is none, or only a slow one."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(locate(encoder), use_fast=True)
    except (OSError, ValueError) as error:
        raise EncoderError(_missing(encoder, error)) from error
    if not tokenizer.is_fast or tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
        raise EncoderError(f"encoder {encoder!r} needs a fast tokenizer with [CLS] and [SEP]; use one of BERT's kind")
    return tokenizer


def load_reader(encoder: str, *, seed: int, random_layers: int = 0) -> torch.nn.Module:
    """A reader of pretrained encoder and new span head, float32, dropout as the encoder's configuration has it.

    The head's weights follow ``seed`` (IMM section 5.1 initialises them at random). ``random_layers`` > 0 builds
    an encoder of that many layers with random weights instead, for tests.
    """
    torch.manual_seed(seed)
    settings = {"attn_implementation": dropout.NAME}
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # "some weights are newly initialised" is what we ask for
    try:
        if random_layers:
            config = AutoConfig.from_pretrained(locate(encoder), num_hidden_layers=random_layers)
            model = AutoModelForQuestionAnswering.from_config(config, dtype=torch.float32, **settings)
        else:
            model = AutoModelForQuestionAnswering.from_pretrained(locate(encoder), dtype=torch.float32, **settings)
        return dropout.quicken(model)
    except (OSError, ValueError) as error:
        raise EncoderError(_missing(encoder, error)) from error
    finally:
        logging.set_verbosity(verbosity)


def load_saved(folder: Path | str) -> torch.nn.Module:
    """A trained reader in Hugging Face format, float32, in evaluation mode. Raises EncoderError."""
    try:
        return AutoModelForQuestionAnswering.from_pretrained(locate(str(folder)), dtype=torch.float32).eval()
    except (OSError, ValueError) as error:
        raise EncoderError(_missing(str(folder), error)) from error


@cache
def encoder_fingerprint(encoder: str) -> str:
    """Names the encoder's weights and vocabulary; a Hub name stands for itself."""
    folder = Path(locate(encoder))
    if not folder.is_dir():
        return encoder
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix == ".safetensors" or file.name in ("config.json", "tokenizer.json", "vocab.txt"):
            digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def save_reader(model: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save in Hugging Face format; ``AutoModelForQuestionAnswering.from_pretrained(folder)`` loads it."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _missing(encoder: str, error: Exception) -> str:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"encoder {encoder!r} cannot be loaded: give a folder with config.json, or a name on the Hub ({first})"
