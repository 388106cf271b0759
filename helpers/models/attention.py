"""What an encoder's attention is: that of the last layer from passage to question, or that of every layer."""

from torch import nn

from helpers.batches.tensors import rows_of
from helpers.models import dropout, unpadded
from helpers.models.pretrained import EncoderError


def keep_attention(model: nn.Module) -> nn.Module:
    """Let ``model``'s output have ``attention`` (B×P×Q): for each passage token a distribution over the question's.

    RMR has it already. Of an encoder, which takes segment_ids from then on, it is the last layer's attention from
    passage to question, averaged over the heads and normalised. Raises EncoderError where that cannot be read.
    """
    layer = attention_of(model)
    if layer is None or getattr(model, "keeps_attention", False):
        return model
    model.set_attn_implementation(dropout.NAME)
    unpadded.skip_padding(model, False)  # what is kept has the shape of a padded batch
    layer.keeps = "probabilities"  # for helpers.models.dropout.attention, which leaves them there as ``kept``
    model.register_forward_pre_hook(_take_segments, with_kwargs=True)
    model.register_forward_hook(_add_attention)
    model.keeps_attention = True
    return model


def keep_levels(model: nn.Module, what: str) -> nn.Module:
    """Let ``model``'s output have ``attentions_kept``: of every layer the "probabilities" that its attention gives,
    B×H×L×L, or the "scores" before the softmax, as the queries (scaled) and keys that they are products of, B×H×L×D
    each. Raises EncoderError where they cannot be read."""
    layers = attention_layers(model, of_all=True)
    is_kept = any(hasattr(layer, "keeps") for layer in layers)
    model.set_attn_implementation(dropout.NAME)
    unpadded.skip_padding(model, False)
    for layer in layers:
        layer.keeps = what
    if is_kept:
        return model

    def hand_over(model: nn.Module, _: tuple, output) -> None:
        output.attentions_kept = tuple(layer.kept for layer in layers)
        for layer in layers:
            layer.kept = None

    model.register_forward_hook(hand_over)
    return model


def attention_of(model: nn.Module) -> nn.Module | None:
    """The layer whose attention is kept, the last that sees the whole sequence; None for RMR, which gives it by itself.
    Raises EncoderError where no layer computes its attention by transformers' exchangeable function."""
    return None if model.config.model_type == "mnemonic" else attention_layers(model)[-1]


def attention_layers(model: nn.Module, of_all: bool = False) -> list[nn.Module]:
    """Every layer that sees the whole sequence, first to last. Raises EncoderError where none computes its attention by
    transformers' exchangeable function, or not every layer, if that is asked for."""
    layers = [
        module
        for module in model.modules()
        if type(module).__name__.endswith("Attention")
        and not any(type(child).__name__.endswith("Attention") for child in module.children())
        and getattr(module, "sliding_window", None) is None
    ]
    some = len(layers) == model.config.num_hidden_layers if of_all else bool(layers)
    if not some or not model._supports_attention_backend:
        raise EncoderError(
            f"the attention of a {model.config.model_type} cannot be read, and so not be matched; use an encoder of "
            "BERT's kind"
        )
    return layers


def _take_segments(model: nn.Module, arguments: tuple, inputs: dict) -> tuple[tuple, dict]:
    model.segments = inputs.pop("segment_ids"), inputs.pop("text_lengths", None)  # which the encoder does not know
    return arguments, inputs


def _add_attention(model: nn.Module, _: tuple, output) -> None:
    layer = attention_of(model)
    weights, layer.kept = layer.kept, None
    at_q, q, at_p, p = rows_of(*model.segments)
    weights = weights.float().mean(1).gather(1, at_p[:, :, None].expand(-1, -1, weights.shape[-1]))
    block = weights.gather(2, at_q[:, None].expand(-1, at_p.shape[1], -1)) * (p[:, :, None] & q[:, None])
    output.attention = block / block.sum(-1, keepdim=True).clamp_min(1e-9)
