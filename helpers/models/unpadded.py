"""Encoders without padding: between the embeddings and the end of the last layer there are real tokens alone, those of
all rows of a batch end to end. Everything before and behind is padded as ever, so heads and losses need not know."""

from torch import nn

from helpers.models import dropout

# by the type of model the name of its stack of layers; all add positions to the embeddings
STACKS = {
    "bert": "encoder",
    "roberta": "encoder",
    "xlm-roberta": "encoder",
    "electra": "encoder",
    "distilbert": "transformer",
}


def can_skip_padding(model: nn.Module) -> bool:
    """Whether ``skip_padding`` is for this model: of a known type, with heads as wide as kernels take them (a multiple
    of 8), and nothing of its attention kept (``helpers.models.attention``)."""
    encoder = getattr(model, "base_model", None)
    if encoder is None or not hasattr(encoder, STACKS.get(encoder.config.model_type, "")):
        return False
    width = encoder.config.hidden_size // encoder.config.num_attention_heads
    return width % 8 == 0 and width <= 256 and not any(getattr(module, "keeps", "") for module in encoder.modules())


def skip_padding(model: nn.Module, skip: bool = True) -> nn.Module:
    """Let ``model`` take a batch's ``packing`` (``helpers.batches.packed``) beside its padded inputs and leave out what
    is padding; or no more."""
    encoder = model.base_model
    if skip and not getattr(encoder, "packs", False):
        encoder.set_attn_implementation(dropout.NAME)
        stack = getattr(encoder, STACKS[encoder.config.model_type])
        encoder.register_forward_pre_hook(_drop_mask, with_kwargs=True)
        stack.register_forward_pre_hook(_pack, with_kwargs=True)
        stack.register_forward_hook(_unpack, with_kwargs=True)
        encoder.packs = True
    encoder.skips_padding = skip
    return model


def skips_padding(model: nn.Module) -> bool | None:
    """Whether the model is to be given a batch's ``packing``; None where nobody has said."""
    return getattr(getattr(model, "base_model", None), "skips_padding", None)


def _drop_mask(_: nn.Module, arguments: tuple, inputs: dict) -> tuple[tuple, dict]:
    return arguments, inputs if inputs.get("packing") is None else {**inputs, "attention_mask": None}


def _pack(_: nn.Module, arguments: tuple, inputs: dict) -> tuple[tuple, dict]:
    if (packing := inputs.get("packing")) is None:
        return arguments, inputs
    if arguments:
        return (packing.pack(arguments[0]), *arguments[1:]), inputs
    return arguments, {**inputs, "hidden_states": packing.pack(inputs["hidden_states"])}


def _unpack(_: nn.Module, arguments: tuple, inputs: dict, output) -> None:
    if (packing := inputs.get("packing")) is not None:
        output.last_hidden_state = packing.unpack(output.last_hidden_state)
