"""The attention of encoders, computed and kept for a loss, and their dropout."""

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from helpers.errors import EncoderError
from helpers.sequences import text_positions

NAME = "quick_dropout"  # of this attention, for transformers


def attend(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **others):
    """Compute transformers' SDPA attention. It is spelt out where ``module`` stores its probabilities, and for dropout
    on a CPU, where SDPA has no fused kernel for it.

    query, key, value are B×H×L×D; the mask is boolean, True where attended, or None. A module whose ``stores`` is
    "probabilities" gets them as ``stored``, B×H×L×L. If it is "scores", ``stored`` are their two factors, scaled
    queries and keys, B×H×L×D each.
    """
    stores, is_cpu = getattr(module, "stores", ""), query.device.type == "cpu"
    is_fused = stores != "probabilities" and (dropout == 0.0 or not is_cpu)
    if stores or not is_fused:
        scaled = query * scaling
    if stores == "scores":
        module.stored = scaled, key
    if is_fused:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **others)
    scores = scaled @ key.transpose(2, 3)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    if stores == "probabilities":
        module.stored = weights
    drop = quick_dropout if is_cpu else nn.functional.dropout
    return (drop(weights, dropout).to(value.dtype) @ value).transpose(1, 2).contiguous(), None


def make_mask(**arguments) -> Tensor | None:
    """Make transformers' mask for SDPA. On a GPU it is made even where nothing is padding, because the host would have
    to wait for the device to know."""
    padding = arguments.get("attention_mask")
    if padding is not None and padding.device.type == "cuda":
        arguments["allow_is_bidirectional_skip"] = False
    return sdpa_mask(**arguments)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, make_mask)


def keep_attention(model: nn.Module) -> nn.Module:
    """Let the output of ``model`` have ``attention`` (B×P×Q): per passage token a distribution over the question's.

    RMR has it already. For an encoder, which takes segment_ids from then on, it is the last layer's attention from
    passage to question, averaged over the heads and normalised. Raises EncoderError where attention cannot be read.
    """
    if getattr(model, "keeps_attention", False):
        return model
    last = attention_layers(model)[-1]

    def take_segments(model: nn.Module, arguments: tuple, inputs: dict) -> tuple[tuple, dict]:
        model.segments = inputs.pop("segment_ids")  # the encoder does not take them
        return arguments, inputs

    def add_attention(model: nn.Module, _: tuple, output) -> None:
        output.attention = passage_to_question(vars(last).pop("stored").float().mean(1), model.segments)

    model.set_attn_implementation(NAME)
    last.stores = "probabilities"
    model.keeps_attention = True
    model.register_forward_pre_hook(take_segments, with_kwargs=True)
    model.register_forward_hook(add_attention)
    return model


def passage_to_question(weights_BxLxL: Tensor, segment_ids: Tensor) -> Tensor:
    """Cut the attention of passage tokens over the question's out of a window's, B×P×Q, and normalise its rows."""
    at_q, q, at_p, p = text_positions(segment_ids)
    rows = weights_BxLxL.gather(1, at_p[:, :, None].expand(-1, -1, weights_BxLxL.shape[2]))
    block = rows.gather(2, at_q[:, None].expand(-1, at_p.shape[1], -1))
    block = block * (p[:, :, None] & q[:, None])
    return block / block.sum(-1, keepdim=True).clamp_min(1e-9)


def attention_layers(model: nn.Module, every: bool = False) -> list[nn.Module]:
    """Return the layers that see the whole sequence, first to last. Raises EncoderError where none of them (or not
    ``every`` layer) computes its attention by transformers' exchangeable function."""
    layers = [
        module
        for module in model.modules()
        if type(module).__name__.endswith("Attention")
        and not any(type(child).__name__.endswith("Attention") for child in module.children())
        and getattr(module, "sliding_window", None) is None
    ]
    is_enough = len(layers) == model.config.num_hidden_layers if every else bool(layers)
    if not is_enough or not model._supports_attention_backend:
        kind = model.config.model_type
        problem = f"the attention of a {kind} cannot be read, so not matched"
        raise EncoderError(f"{problem}; use an encoder of BERT's kind")
    return layers


# --- dropout ----------------------------------------------------------------------------------------------------------
# On a CPU, drawing a random number for every element takes a third of a training step. One 64-bit draw serves eight
# elements, a byte each, so the probability is a multiple of 1/256: 0.1 becomes 26/256. On other devices, and in
# evaluation mode, dropout is PyTorch's.


def quick_dropout(values: Tensor, probability: float) -> Tensor:
    """Zero each element with ``probability``, to the nearest 1/256, and scale the others up."""
    threshold = min(255, round(256 * probability))
    if threshold == 0:
        return values
    count = values.numel()
    words = torch.empty(-(-count // 8), dtype=torch.int64).random_(-(2**63), None)
    mask = words.view(torch.uint8)[:count].view(values.shape) >= threshold
    return values * mask.to(values.dtype).mul_(256 / (256 - threshold))


class QuickDropout(nn.Dropout):
    """``nn.Dropout``, quick on a CPU."""

    def forward(self, values: Tensor) -> Tensor:
        if self.training and values.device.type == "cpu":
            return quick_dropout(values, self.p)
        return super().forward(values)


def quicken(model: nn.Module) -> nn.Module:
    """Replace PyTorch's dropout in ``model``."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = QuickDropout  # the same state, another forward
    return model
