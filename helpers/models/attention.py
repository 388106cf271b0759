"""How much each token of the passage attends to each of the question, as the last layer of BERT has it."""

from __future__ import annotations

from torch import nn

from helpers.batches.tensors import rows_of
from helpers.models import dropout
from helpers.models.pretrained import EncoderError


def keep_attention(model: nn.Module) -> nn.Module:
    """Let ``model``'s output have ``attention`` (B×P×Q): for each passage token a distribution over the question's.

    RMR has it already. Of an encoder it is the last layer's attention from passage to question, averaged over the heads
    and normalised. Raises EncoderError where the encoder has no self-attention of BERT's kind.
    """
    layer = attention_of(model)
    if layer is None or getattr(model, "keeps_attention", False):
        return model
    model.set_attn_implementation(dropout.NAME)
    layer.kept = None  # where helpers.models.dropout.attention leaves its weights
    model.register_forward_hook(_add_attention, with_kwargs=True)
    model.keeps_attention = True
    return model


def attention_of(model: nn.Module) -> nn.Module | None:
    """The layer whose attention is kept; None for RMR, which gives it by itself. Raises EncoderError."""
    if model.config.model_type == "mnemonic":
        return None
    layers = [module for module in model.modules() if type(module).__name__.endswith("SelfAttention")]
    if not layers or not model._supports_attention_backend:
        raise EncoderError(
            f"the attention of a {model.config.model_type} cannot be read, and so not be matched; use an encoder of "
            "BERT's kind"
        )
    return layers[-1]


def _add_attention(model: nn.Module, _: tuple, inputs: dict, output) -> None:
    (layer,) = [module for module in model.modules() if hasattr(module, "kept")]
    weights, layer.kept = layer.kept, None
    _, q, at_p, p = rows_of(inputs["attention_mask"], inputs["token_type_ids"])
    weights = weights[..., 1 : 1 + q.shape[1]].float().mean(1)  # the question's columns
    block = weights.gather(1, at_p[:, :, None].expand(-1, -1, q.shape[1])) * (p[:, :, None] & q[:, None])
    output.attention = block / block.sum(-1, keepdim=True).clamp_min(1e-9)
