"""Students in TinyBERT's way (Jiao et al. 2020): fewer layers than the teacher's, each matched with one of them, and
what only the training needs, projections to the teacher's width and the domains' relations (Dong et al. 2021)."""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from helpers.errors import EncoderError
from helpers.models.attention import NAME, attention_layers
from helpers.models.encoders import inputs_of, load_config, load_encoder, load_tokenizer, loading
from helpers.models.multihead import MultiHead
from helpers.papers.hrkd.relations import prototypes


class TinyBertStudent(nn.Module):
    """A student with a linear map per level to its teacher's ``width``, where its own differs (W of Eqs. 1, 4).

    ``student`` is a classifier of one task, or an encoder alone. ``relations`` are `Relations`, `RandomRatios` or None,
    ``view`` is a teacher's frozen `DomainView` or None. With ``padding`` padded tokens count in the prototypes.
    """

    def __init__(self, student: nn.Module, width: int, domains: int, *, relations=None, view=None, padding=False):
        super().__init__()
        self.student, self.domains, self.relations, self.view = student, domains, relations, view
        self.padding = padding
        keep_scores(student.single if isinstance(student, MultiHead) else student)
        narrow, levels = student.config.hidden_size, student.config.num_hidden_layers + 1
        maps = 0 if narrow == width else levels
        self.projections = nn.ModuleList(nn.Linear(narrow, width, bias=False) for _ in range(maps))

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*inputs_of(self.student), "domain")

    def forward(self, domain: Tensor, **inputs: Tensor):
        """Return the student's output with ``levels`` (M+1 of B×L×width, projected), ``ratios`` (V×D; all 1/D without
        relations), and ``domain_view`` (B×width) where it has a view."""
        domains = {"domain": domain} if "domain" in inputs_of(self.student) else {}
        output = self.student(**domains, **inputs, output_hidden_states=True)
        output.levels, mask_BxL = self.project(output.hidden_states), inputs["attention_mask"]
        output.ratios = torch.full((len(output.levels), self.domains), 1 / self.domains, device=domain.device)
        if self.relations is not None:
            levels = output.levels if self.relations.projected else output.hidden_states
            counted_BxL = torch.ones_like(mask_BxL) if self.padding else mask_BxL
            with torch.autocast(domain.device.type, enabled=False):  # a few small products, better not rounded
                means = prototypes(levels, counted_BxL, domain, self.domains)
                output.ratios, _ = self.relations(means if self.relations.steer else means.detach())
        if self.view is not None:
            with torch.autocast(domain.device.type, enabled=False):
                output.domain_view = self.view.look(output.levels[-1], mask_BxL, domain)
        return output

    def project(self, levels: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Map levels, whose last axis is the student's width, to the teacher's."""
        if not self.projections:
            return tuple(levels)
        return tuple(project(level) for project, level in zip(self.projections, levels, strict=True))


def match_layers(student_layers: int, teacher_layers: int) -> list[int]:
    """Return the teacher's layer for each of the student's, both from 1: at even distance, the last with the last
    ("uniform strategy", section 2.1)."""
    return [max(1, round(layer * teacher_layers / student_layers)) for layer in range(1, student_layers + 1)]


def load_student(encoder: str, teacher: str, layers: int, *, random_layers: int = 0, **settings) -> nn.Module:
    """Load a student with a new head: the pretrained ``encoder``, or ``layers`` of the ``teacher``'s at even distance
    where it is empty. ``settings`` go to `load_encoder`. Raises EncoderError where the teacher has too few layers."""
    student = load_encoder(encoder or teacher, "labels", random_layers=random_layers, **settings)
    return student if encoder or random_layers else keep_layers(student, layers)


@cache
def check_pair(student: str, teacher: str) -> None:
    """Raise EncoderError where the two read other word pieces, or the attention of one cannot be read. Loads no
    weights."""
    if student and load_tokenizer(student).get_vocab() != load_tokenizer(teacher).get_vocab():
        raise EncoderError(f"{student!r} and {teacher!r} read different word pieces; use two of one kind")
    for encoder in {teacher, student or teacher}:
        config = load_config(encoder)
        with loading(encoder), torch.device("meta"):
            model = AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)
            attention_layers(model, every=True)


def keep_layers(model: nn.Module, number: int) -> nn.Module:
    """Cut ``model`` to ``number`` of its layers, at even distance. Raises EncoderError."""
    layers = model.config.num_hidden_layers
    stacks = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ModuleList) and len(child) == layers
    ]
    if not 1 <= number <= layers or len(stacks) != 1:
        kind, choice = model.config.model_type, f"ask for 1 to {layers}, or name a student"
        raise EncoderError(f"cannot take {number} layers of a {kind} with {layers}; {choice}")
    ((parent, name, stack),) = stacks
    setattr(parent, name, nn.ModuleList([stack[layer - 1] for layer in match_layers(number, layers)]))
    model.config.num_hidden_layers = number
    return model


def keep_scores(model: nn.Module) -> nn.Module:
    """Let the output of ``model`` have ``attentions_kept``, per layer the scores of its attention before the softmax.

    They are as `attend` stores them. Raises EncoderError where they cannot be read.
    """
    layers = attention_layers(model, every=True)

    def hand_over(model: nn.Module, _: tuple, output) -> None:
        output.attentions_kept = tuple(vars(layer).pop("stored") for layer in layers)

    model.set_attn_implementation(NAME)
    for layer in layers:
        layer.stores = "scores"
    model.register_forward_hook(hand_over)
    return model
