"""How much each token of the passage attends to each of the question, as the last layer of BERT has it."""

from __future__ import annotations

import torch
from torch import nn

from helpers.data.tensors import rows_of
from helpers.models import dropout
from helpers.models.reader import EncoderError


def keep_attention(model: nn.Module) -> nn.Module:
    """Let ``model``'s output have ``attention`` (B×P×Q): for each passage token a distribution over the question's.

    RMR has it already. Of an encoder it is the last layer's attention from passage to question, averaged over the heads
    and normalised. Raises EncoderError where the encoder has no self-attention of BERT's kind.
    """
    if model.config.model_type == "mnemonic" or getattr(model, "keeps_attention", False):
        return model
    layers = [module for module in model.modules() if type(module).__name__.endswith("SelfAttention")]
    if not layers:
        raise EncoderError(f"no self-attention found in a {model.config.model_type}: its attention cannot be matched")
    model.set_attn_implementation(dropout.NAME)
    layers[-1].kept = None  # tells helpers.models.dropout.attention to leave query and key here
    model.register_forward_hook(_add_attention, with_kwargs=True)
    model.keeps_attention = True
    return model


def _add_attention(model: nn.Module, _: tuple, inputs: dict, output) -> None:
    (layer,) = [module for module in model.modules() if hasattr(module, "kept")]
    (query, key, scaling), layer.kept = layer.kept, None
    mask = inputs["attention_mask"].bool()
    at_q, q, at_p, p = rows_of(inputs["attention_mask"], inputs["token_type_ids"])
    scores = (query.float() * scaling) @ key.float().transpose(2, 3)
    weights = scores.masked_fill(~mask[:, None, None], torch.finfo(torch.float32).min).softmax(-1).mean(1)
    rows = torch.arange(len(mask), device=mask.device)[:, None, None]
    block = weights[rows, at_p[:, :, None], at_q[:, None]] * (p[:, :, None] & q[:, None])
    output.attention = block / block.sum(-1, keepdim=True).clamp_min(1e-9)
