"""A student with what only its training needs: a projection of each level to its teacher's width, and the domains'
relations (Dong et al. 2021)."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.utils import ModelOutput

from helpers.batches.texts import EncoderError
from helpers.models.attention import attention_layers, keep_levels
from helpers.models.pretrained import inputs_of, load_encoder, load_tokenizer, locate
from helpers.models.relations import Relations, prototypes


@dataclass
class DistilledOutput(ModelOutput):
    """``logits`` of the student, ``levels`` (M+1 of B×L×width, projected), ``attentions_kept`` (of M layers),
    ``ratios`` (V×D; all 1/D without relations) and ``shares`` (D×V×V, None without)."""

    logits: Tensor | None = None
    levels: tuple[Tensor, ...] | None = None
    attentions_kept: tuple | None = None
    ratios: Tensor | None = None
    shares: Tensor | None = None


class Distilled(nn.Module):
    """``student`` with a linear map a level to ``width``, where it is not as wide itself (W of Eqs. 1, 4).

    ``what`` of its attention is kept, "scores" or "probabilities". With ``padding`` the padded tokens count in the
    prototypes. Without ``steer`` no gradient goes through these.
    """

    def __init__(
        self,
        student: nn.Module,
        width: int,
        domains: int,
        *,
        what: str = "scores",
        relations: Relations | None = None,
        padding: bool = False,
        steer: bool = True,
    ):
        super().__init__()
        self.student, self.domains, self.relations = keep_levels(student, what), domains, relations
        self.padding, self.steer = padding, steer
        own, levels = student.config.hidden_size, student.config.num_hidden_layers + 1
        same = own == width
        self.projections = nn.ModuleList([] if same else [nn.Linear(own, width, bias=False) for _ in range(levels)])

    @property
    def inputs(self) -> tuple[str, ...]:
        """What of a batch it takes."""
        return (*inputs_of(self.student), "domain")

    def forward(self, domain: Tensor, **inputs: Tensor):
        output = self.student(**inputs, output_hidden_states=True)
        levels, mask_BxL = output.hidden_states, inputs["attention_mask"]
        ratios_VxD = torch.full((len(levels), self.domains), 1 / self.domains, device=domain.device)
        shares_DxVxV = None
        if self.relations is not None:
            counted_BxL = torch.ones_like(mask_BxL) if self.padding else mask_BxL
            with torch.autocast(domain.device.type, enabled=False):  # a few small products, better not rounded
                of_domains = prototypes(levels, counted_BxL, domain, self.domains)
                ratios_VxD, shares_DxVxV = self.relations(of_domains if self.steer else of_domains.detach())
        return DistilledOutput(
            logits=getattr(output, "logits", None),
            levels=tuple(map(self._project, range(len(levels)), levels)),
            attentions_kept=output.attentions_kept,
            ratios=ratios_VxD,
            shares=shares_DxVxV,
        )

    def _project(self, level: int, values: Tensor) -> Tensor:
        return self.projections[level](values) if self.projections else values


def matched(student_layers: int, teacher_layers: int) -> list[int]:
    """The teacher's layer for each of the student's, both from 1: at even distance, the last with the last ("uniform
    strategy", section 2.1)."""
    return [max(1, round(layer * teacher_layers / student_layers)) for layer in range(1, student_layers + 1)]


def load_student(
    encoder: str, teacher: str, layers: int, *, seed: int, classes: int, random_layers: int = 0, max_length: int = 0
) -> nn.Module:
    """A student with a new head of ``classes`` outputs: the pretrained ``encoder``, or ``layers`` of the ``teacher``'s
    at even distance where it is empty. Raises EncoderError where the teacher has not so many layers."""
    settings = {"seed": seed, "classes": classes, "random_layers": random_layers, "max_length": max_length}
    if encoder:
        return load_encoder(encoder, "labels", **settings)
    student = load_encoder(teacher, "labels", **settings)
    return student if random_layers else keep_layers(student, layers)


@cache
def check_pair(student: str, teacher: str) -> None:
    """Raises EncoderError where a student cannot learn from a teacher: they read other word pieces, or the attention of
    one cannot be read. Reads no weights."""
    if student and load_tokenizer(student).get_vocab() != load_tokenizer(teacher).get_vocab():
        raise EncoderError(
            f"student {student!r} and teacher {teacher!r} read different word pieces; use two of one kind"
        )
    for encoder in {teacher, student or teacher}:
        config = AutoConfig.from_pretrained(**locate(encoder))
        with torch.device("meta"):
            attention_layers(AutoModelForSequenceClassification.from_config(config), of_all=True)


def keep_layers(model: nn.Module, number: int) -> nn.Module:
    """``model`` with ``number`` of its layers, at even distance. Raises EncoderError."""
    there = model.config.num_hidden_layers
    stacks = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ModuleList) and len(child) == there
    ]
    if not 1 <= number <= there or len(stacks) != 1:
        raise EncoderError(
            f"cannot take {number} layers of a {model.config.model_type} with {there}; ask for 1 to {there}, or name a "
            "student"
        )
    ((parent, name),) = stacks
    chosen = [getattr(parent, name)[layer - 1] for layer in matched(number, there)]
    setattr(parent, name, nn.ModuleList(chosen))
    model.config.num_hidden_layers = number
    return model
