"""Pretrained encoders with a head (BERTQA, IMM section 3, and others): loading, saving, fingerprints."""

import contextlib
import inspect
import os
import pickle
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from importlib import import_module
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
    PreTrainedConfig,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from helpers import paths
from helpers.errors import EncoderError, UserError
from helpers.files import file_fingerprint, fingerprint, follow_umask, unwritten
from helpers.models import attention
from helpers.models.attention import quicken
from helpers.sequences import Template

logging.disable_progress_bar()  # a reader loads in a moment; the trainings have bars of their own

HEADS = {
    "spans": AutoModelForQuestionAnswering,
    "labels": AutoModelForSequenceClassification,
    "choices": AutoModelForMultipleChoice,
}
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "segment_ids")
ENCODER_SUFFIXES = (".safetensors", ".bin", ".json", ".txt", ".model")  # of weights and vocabulary
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
MAX_WEIGHTS = 3  # weights that an error names
CODE_NAMES = ("_attn_implementation", "_experts_implementation")  # in a configuration: they may lie on the Hub
NEEDS_CODE = "it needs program code that comes with it, which is never run; use one that transformers knows"


def loading_arguments(encoder: str) -> dict[str, object]:
    """Return the arguments by which ``from_pretrained`` finds an encoder, and runs no code that comes with it.

    That is a folder, given absolute, from here or from the repository's root, or else a name on the Hub with a revision
    where it has one (name@revision). A name that begins with a folder that is here may be a mistyped path, so the Hub
    is asked for it only with a revision. Raises EncoderError.
    """
    folders = [folder for folder in paths.places(encoder) if os.path.isfile(folder / "config.json")]
    folder = folders[0] if folders else paths.find_folder(encoder)  # the latter has a tokenizer alone, perhaps
    if folder:
        return {"pretrained_model_name_or_path": str(folder), "trust_remote_code": False}
    name, _, revision = encoder.partition("@")
    is_name = HUB_NAME.fullmatch(name)
    if not is_name or (not revision and paths.find_folder(name.partition("/")[0])):
        choice = f", or give {name}@main to take it from the Hub" if is_name else ""
        raise EncoderError(f"encoder {encoder!r}: expected a folder with config.json, found none; correct it{choice}")
    return {"pretrained_model_name_or_path": name, "revision": revision or "main", "trust_remote_code": False}


def load_config(encoder: str, **changes: object) -> PreTrainedConfig:
    """Load an encoder's configuration with ``changes``. Raises EncoderError, also for no layers or code to run."""
    source = loading_arguments(encoder)
    if "revision" not in source and not Path(source["pretrained_model_name_or_path"], "config.json").is_file():
        raise EncoderError(f"encoder {encoder!r}: expected config.json in this folder, found none; give an encoder's")
    with loading(encoder):
        stored, _ = PreTrainedConfig.get_config_dict(**source)
        if (module := str(stored.get("module", ""))).startswith("helpers."):
            import_module(module)  # it registers a kind of model that transformers does not have
        config = AutoConfig.from_pretrained(**source, **changes)
        if (layers := getattr(config, "num_hidden_layers", 1)) < 1:
            problem = f"expected at least 1 of num_hidden_layers, found {layers}"
            raise EncoderError(f"encoder {encoder!r}: config.json: {problem}; give the number that it was trained with")
        if any("/" in str(getattr(config, name, "")) for name in CODE_NAMES):
            raise EncoderError(f"encoder {encoder!r} cannot be loaded: {NEEDS_CODE}")
    return config


@cache
def load_tokenizer(encoder: str) -> PreTrainedTokenizerFast:
    """Load the encoder's tokenizer. Raises EncoderError where there is none, or none that serves.

    Before the Hub is asked for a name that can still be a mistyped folder, a line says so.
    """
    source = loading_arguments(encoder)
    if "revision" in source and "@" not in encoder:
        print(f"encoder {encoder!r}: no such folder is here, so the Hub is asked; name@revision fixes which one it is")
    with loading(encoder):
        tokenizer = AutoTokenizer.from_pretrained(**source, use_fast=True)
        if not tokenizer.is_fast:
            raise EncoderError(f"encoder {encoder!r} has only a slow tokenizer; use one with a fast tokenizer")
        if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):  # transformers makes one up
            raise EncoderError(f"encoder {encoder!r} has no tokenizer; save its tokenizer beside its weights")
        Template.of(tokenizer)
    return tokenizer


def load_encoder(
    encoder: str,
    head: str = "spans",
    *,
    seed: int,
    classes: int = 2,
    random_layers: int = 0,
    max_length: int = 0,
    new_pooler: bool = True,
) -> nn.Module:
    """Load a pretrained encoder with a new head, float32, dropout as its configuration says.

    ``head`` is "spans" (logits of an answer's start and end), "labels" (of ``classes`` classes; 1: a score) or
    "choices" (of an example's endings). Its weights follow ``seed``, unless the encoder comes with a head of the same
    kind and size. All other weights have to be there, but with ``new_pooler`` those of BERT's pooler, which belongs to
    its heads: readers and encoders pretrained on words alone have none. ``random_layers`` > 0 builds that many layers
    of random weights, for tests. Raises EncoderError, also as `check_inputs` does.
    """
    auto, changes = HEADS[head], {"num_hidden_layers": random_layers} if random_layers else {}
    config = load_config(encoder, num_labels=classes, **changes)
    with loading(encoder):
        torch.manual_seed(seed)
        if random_layers:
            model = auto.from_config(config, dtype=torch.float32, trust_remote_code=False)
        else:
            model, problems = load_weights(encoder, head, config)
            wrong = [problem for name, problem in problems.items() if not may_be_new(model, name, new_pooler)]
            check_weights(encoder, wrong)
        if model._supports_attention_backend:
            model.set_attn_implementation(attention.NAME)
        check_inputs(model, encoder, max_length)
        return quicken(model)


def load_saved(folder: Path | str, head: str = "spans") -> nn.Module:
    """Load a trained model in Hugging Face format, float32, in evaluation mode. Raises EncoderError."""
    name = str(folder)
    with loading(name):
        model, problems = load_weights(name, head, load_config(name))
        heads = [problem for weight, problem in problems.items() if may_be_new(model, weight)]
        if heads and len(heads) == len(problems):
            raise EncoderError(f"{name!r} is no trained model: {', '.join(heads[:MAX_WEIGHTS])}; train one first")
        check_weights(name, [*problems.values()])
    return model.eval()


def load_weights(encoder: str, head: str, config: PreTrainedConfig) -> tuple[nn.Module, dict[str, str]]:
    """Load a model. Return it and, by name, the problem of each weight that is random: it is missing or of another
    size, as a head of other classes is."""
    settings = {"dtype": torch.float32, "ignore_mismatched_sizes": True, "output_loading_info": True}
    model, report = HEADS[head].from_pretrained(**loading_arguments(encoder), config=config, **settings)
    problems = {name: f"{name} is missing" for name in report["missing_keys"]}
    for name, *shapes in report["mismatched_keys"]:
        stored, needed = ("×".join(map(str, shape)) for shape in shapes)
        problems[name] = f"{name} is {stored}, not {needed}"
    return model, dict(sorted(problems.items()))


def check_weights(encoder: str, problems: list[str]) -> None:
    """Raise EncoderError where weights have problems, and name some."""
    if problems:
        more = f" and {len(problems) - MAX_WEIGHTS} more" if len(problems) > MAX_WEIGHTS else ""
        named = f"{', '.join(problems[:MAX_WEIGHTS])}{more}"
        fix = "give the weights and the config.json of one model"
        raise EncoderError(f"encoder {encoder!r}: its weights do not fit its config.json: {named}; {fix}")


def check_inputs(model: nn.Module, encoder: str, max_length: int = 0) -> None:
    """Raise EncoderError where a model on the CPU cannot read ``max_length`` tokens of the encoder's tokenizer."""
    tokenizer, config = load_tokenizer(encoder), model.config
    if (rows := getattr(config, "vocab_size", len(tokenizer))) < len(tokenizer):
        problem = f"has embeddings of {rows:,} tokens, its tokenizer has {len(tokenizer):,}"
        raise EncoderError(f"encoder {encoder!r} {problem}; use the tokenizer that it was trained with")
    if (longest := longest_input(model, max_length)) < max_length:
        todo = "lower windows.max_length, or for texts the max_length of their section"
        raise EncoderError(f"encoder {encoder!r} reads {longest} tokens, not {max_length}; {todo}")
    rows, types = getattr(config, "type_vocab_size", 0), max(Template.of(tokenizer).types) + 1
    if "token_type_ids" in inputs_of(model) and 0 < rows < types:
        raise EncoderError(f"encoder {encoder!r} knows {rows} token type, its tokenizer makes {types}; use another")


def save_encoder(model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save in Hugging Face format. Raises OSError that names the folder, as on a full disk."""
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        follow_umask(Path(folder))
    except (OSError, SafetensorError) as error:
        raise unwritten(f"save the model {folder}", error) from error


def longest_input(model: nn.Module, most: int) -> int:
    """Return how many tokens a model on the CPU reads, up to ``most``. Raises EncoderError where it reads none.

    Each kind of model says it by another name, or not at all, so the model is tried.
    """
    if not most or not _failure(model, most):
        return most
    if error := _failure(model, 1):
        kind, fix = model.config.model_type, "use an encoder of BERT's kind"
        raise EncoderError(f"a {kind} cannot be run on tokens alone ({_reason(error)}); {fix}") from error
    return bisect_left(range(1, most + 1), True, key=lambda length: _failure(model, length) is not None)


@torch.inference_mode()
def _failure(model: nn.Module, length: int) -> Exception | None:
    """Return what an input of some length makes a model raise, such as the IndexError of a table of positions."""
    was_training = model.training
    ids = torch.full((1, length), (model.config.pad_token_id or 0) + 1)  # padding has no position in some models
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    try:
        model.eval().base_model(**{name: inputs[name] for name in inputs if name in inputs_of(model)})
    except Exception as error:
        return error
    finally:
        model.train(was_training)
    return None


def inputs_of(model: nn.Module) -> tuple[str, ...]:
    """Return the ``INPUTS`` that the model takes, or names as ``inputs``; segment_ids where it keeps its attention."""
    if not (names := getattr(model, "inputs", None)):
        taken = inspect.signature(type(model).forward).parameters
        names = tuple(name for name in INPUTS if name in taken)
    return (*names, "segment_ids") if getattr(model, "keeps_attention", False) else names


@cache
def encoder_fingerprint(encoder: str) -> str:
    """Fingerprint an encoder's weights and vocabulary. A name on the Hub stands for itself."""
    folder = Path(loading_arguments(encoder)["pretrained_model_name_or_path"])
    if not folder.is_dir():
        return encoder
    files = [
        file for file in sorted(folder.iterdir()) if file.suffix in ENCODER_SUFFIXES and file.name != "pretraining.json"
    ]
    return fingerprint(*(f"{file.name} {file_fingerprint(file)}" for file in files))


def vocabulary_fingerprint(encoder: str) -> str:
    """Fingerprint the word pieces of an encoder's vocabulary, in their order."""
    pieces = load_tokenizer(encoder).get_vocab()
    return fingerprint(*sorted(pieces, key=pieces.get))


def is_of_encoder(model: nn.Module, name: str) -> bool:
    """Return whether the module or tensor of this name lies in the model's encoder, not in its head."""
    return name.startswith(f"{model.base_model_prefix}.")


def may_be_new(model: nn.Module, name: str, pooler: bool = True) -> bool:
    """Return whether the tensor of this name may be new: one of the head, or of the encoder's ``pooler``. A model that
    has no encoder apart from its head, such as RMR, has none."""
    if is_of_encoder(model, name):
        return pooler and name.startswith(f"{model.base_model_prefix}.pooler.")
    return model.base_model is not model


@contextlib.contextmanager
def loading(encoder: str, kind: str = "encoder") -> Iterator[None]:
    """Load without transformers' reports on new and unused weights. Raises EncoderError for whatever fails: what
    damaged files make transformers and torch raise has no end."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            problem = NEEDS_CODE
        elif isinstance(error, pickle.UnpicklingError):
            problem = "its weights are damaged, or pickled with more than tensors; save them as safetensors"
        elif isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
            problem = f"it does not fit into memory; use a smaller encoder ({_reason(error)})"
        elif isinstance(error, ImportError):
            problem = f"it needs a package that is not installed; install it ({_reason(error)})"
        elif "revision" in loading_arguments(encoder):
            problem = "no such folder is here, and the Hub gave none; correct the name or the connection"
            problem = f"{problem} ({_reason(error).partition('. ')[0]})"
        else:
            problem = f"its files are damaged or not of one model; save or fetch it again ({_reason(error)})"
        raise EncoderError(f"{kind} {encoder!r} cannot be loaded: {problem}") from error
    finally:
        logging.set_verbosity(verbosity)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()):.200}"
