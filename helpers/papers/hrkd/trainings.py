"""The cached work of HRKD: training a teacher or a student, by the losses of sections 2.1 and 2.3."""

from __future__ import annotations

from functools import partial
from typing import Literal

import exca
import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.batches.plans import Batches
from helpers.models.attention import keep_levels
from helpers.models.distilled import Distilled, load_student, matched
from helpers.models.expertise import DomainView, Viewed
from helpers.models.pretrained import load_encoder
from helpers.models.relations import Relations
from helpers.presets.schema import Preset
from helpers.tasks import labels, ratios
from helpers.tasks.classifiers import ClassifierTraining, Validation
from helpers.tasks.instances import weigh
from helpers.training import losses
from helpers.training.checkpoints import load_tensors, save_tensors, weights
from helpers.training.distillation import level_distances
from helpers.training.loop import Batch, Loss, training_device
from helpers.training.teachers import LiveTeacher

VIEW, RELATIONS = "view.safetensors", "relations.safetensors"  # what lies beside a model


class TeacherTraining(ClassifierTraining):
    """One training of a teacher (section 3.2), or of any classifier without one. With ``meta`` it is Meta-KD's: its
    texts are weighed by how near they are to their class, and its states are kept from telling the domain."""

    encoder: Literal["teacher", "student"] = "teacher"
    meta: float = 0.0  # weight of the domain corruption; 0: none, nor weights of texts
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select, save; returns the best validation accuracy, all of them, steps, seconds, the number of
        parameters and the weights' digest."""
        classifier, batches = self.initial(), self.batches()
        model: nn.Module = classifier
        if self.meta:
            weigh(batches, self)
            torch.manual_seed(self.seed)
            model = Viewed(classifier, DomainView(classifier.config.hidden_size, len(self.texts.domains)))
        loss = teacher_loss(self.classes, len(self.domains) if self.order == "together" else 1, self.meta)
        done = self.train(model, batches, loss, Validation(self, lambda model: classifier))
        result = self.keep(classifier.eval(), done, self.reading())
        if self.meta:
            save_tensors(self.folder().with_name(VIEW), weights(model.view), {}, "domain view")
        return {**result, "parameters": classifier.num_parameters()}

    def initial(self) -> nn.Module:
        """The model as its training begins."""
        if self.encoder == "student":
            return student_of(self.preset, self.seed, self.classes * len(self.heads), self.texts.max_length)
        return load_encoder(
            self.preset.encoder,
            "labels",
            seed=self.seed,
            classes=self.classes * len(self.heads),
            random_layers=self.preset.random_layers,
            max_length=self.texts.max_length,
        )


class StudentTraining(ClassifierTraining):
    """One training of a student by its teacher (Eqs. 1 to 5). ``relations`` weigh domains and levels (Eq. 17), or with
    ``meta`` each text has a weight of its own (Meta-distillation)."""

    teacher: str  # key
    matching: dict  # gamma, temperature, attention, padding: what the loss depends on
    relations: dict | None = None  # of HRKD: sizes and switches
    meta: bool = False
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select, save; returns what a teacher's training does. Relations, where it has some, are stored too."""
        learner, batches, loss = self.lesson(*self._teacher())
        done = self.train(learner, batches, loss, Validation(self, lambda learner: learner.student, self._ratios))
        student = learner.student.eval()
        result = self.keep(student, done, self.reading())
        if self.relations:
            save_tensors(self.folder().with_name(RELATIONS), weights(learner.relations), {}, "relations")
        return {**result, "parameters": student.num_parameters()}

    def initial(self) -> nn.Module:
        """The student as its training begins."""
        return student_of(self.preset, self.seed, self.classes * len(self.heads), self.texts.max_length)

    def lesson(self, teacher: nn.Module, view: DomainView | None = None) -> tuple[Distilled, Batches, Loss]:
        """What learns, from which batches, and by which loss, where this is the teacher (with the ``view`` of
        Meta-KD's). Raises EncoderError where attention cannot be read, or the student cannot be had."""
        student = self.initial()
        learner = self.learner(student, teacher.config.hidden_size)
        keep_levels(teacher, self.matching["attention"])
        batches = self.batches()
        fields = {"levels": "hidden_states", "attention": "attentions_kept", "logits": "logits"}
        if self.meta:
            weigh(batches, self)
            fields["view"] = "domain_view"
        asked = Viewed(teacher, view) if view else teacher
        batches.teachers.append(
            LiveTeacher(
                asked.to(training_device()).eval(),
                fields,
                {} if view else {"output_hidden_states": True},
                self.preset.training.precision,
            )
        )
        loss = distillation_loss(
            self.classes,
            len(self.domains),
            matched(student.config.num_hidden_layers, teacher.config.num_hidden_layers),
            view=view,
            **{key: self.matching[key] for key in ("gamma", "temperature", "padding")},
        )
        return learner, batches, loss

    def parents(self) -> list[str]:
        """The key of its teacher."""
        return [*super().parents(), self.teacher]

    def learner(self, student: nn.Module, width: int) -> Distilled:
        """The student with its projections to the teacher's ``width`` and its relations, as they begin; projections
        begin alike with relations and without."""
        known = self.relations or {}
        torch.manual_seed(self.seed)
        settings = {"what": self.matching["attention"], "padding": self.matching["padding"]}
        learner = Distilled(student, width, len(self.domains), steer=known.get("steer", True), **settings)
        if known:
            shape = student.config.num_hidden_layers + 1, len(self.domains), student.config.hidden_size
            learner.relations = Relations(*shape, **known["shape"]).requires_grad_(known["train"])
        return learner

    def related(self) -> Distilled:
        """The trained student with its relations, where it can be asked for the ratios of a batch."""
        student = self.load(self.key, "labels")
        learner = self.learner(student, student.config.hidden_size)  # nothing is projected any more
        tensors, _ = load_tensors(self.folder().with_name(RELATIONS))
        learner.relations.load_state_dict(tensors)
        return learner.to(training_device()).eval()

    def _ratios(self, learner: Distilled) -> dict:
        if learner.relations is None:
            return {}
        return {"ratios": ratios.of_batch(learner, self.sequences("valid")).round(4).tolist()}

    def _teacher(self) -> tuple[nn.Module, DomainView | None]:
        teacher = self.load(self.teacher, "labels")
        if not self.meta:
            return teacher, None
        view = DomainView(teacher.config.hidden_size, len(self.texts.domains)).to(training_device())
        view.load_state_dict(load_tensors(self.folder_of(self.teacher).with_name(VIEW))[0])
        return teacher, view.eval().requires_grad_(False)


def teacher_loss(classes: int, domains: int, corruption: float) -> Loss:
    """Cross-entropy of the labels: a mean over the batch, or the sum of the means over each of several ``domains``.
    With ``corruption`` that of shuffled domains is added so many times, and all is weighed (Meta-KD)."""

    def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        logits_BxC = labels.own_logits(output.logits, batch["domain"], classes).float()
        values_B = functional.cross_entropy(logits_BxC, batch["label"], reduction="none")
        if domains > 1:
            return {"label": losses.of_domains(values_B, batch["domain"], domains).sum()}
        terms = {"label": losses.mean(values_B, batch.get("weight"))}
        if corruption:
            shuffled_B = batch["domain"][torch.randperm(len(values_B), device=values_B.device)]
            values_B = functional.cross_entropy(output.domain_logits.float(), shuffled_B, reduction="none")
            terms["corruption"] = corruption * losses.mean(values_B, batch["weight"])
        return terms

    return loss


def distillation_loss(
    classes: int, domains: int, layers: list[int], *, gamma: float, temperature: float, padding: bool, view=None
) -> Loss:
    """Eqs. 1 to 4, weighed by the ratios of domains and levels and summed (Eq. 17; with equal ratios, Eq. 5 over D).

    ``layers`` are the teacher's (from 1) that the student's match. With ``view``, Meta-KD's, each text counts by its
    weight and by how sure the teacher is of its class, and half the distance of the domains' views is added.
    """

    def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        domain_B = batch["domain"]
        teacher_BxC = labels.own_logits(batch["teacher_logits"], domain_B, classes)
        student_BxC = labels.own_logits(output.logits, domain_B, classes)
        hidden, attention = level_distances(output, batch, layers, padding)
        parts = {"embedding": (hidden[:1], 0), "attention": (attention, 1), "hidden": (hidden[1:], 1)}
        weight_B = torch.ones_like(hidden[0])
        if view is not None:
            weight_B = meta_weights(teacher_BxC, batch["label"], batch["weight"])
            seen_BxF, _ = view(output.levels[-1], batch["attention_mask"], domain_B)
            parts["view"] = ([(seen_BxF - batch["teacher_view"]).square().mean(1) / 2], 0)
        own_B = domain_B if domains > 1 else torch.zeros_like(domain_B)
        mean = partial(losses.of_domains, domain_B=own_B, domains=domains)
        terms = {
            name: sum(
                (output.ratios[level] * mean(weight_B * values_B)).sum() for level, values_B in enumerate(values, first)
            )
            for name, (values, first) in parts.items()
        }
        predicted_B = losses.class_cross_entropy(student_BxC, teacher_BxC, temperature)
        return {**terms, "prediction": gamma / domains * mean(predicted_B).sum()}

    return loss


def meta_weights(teacher_BxC: Tensor, label_B: Tensor, weight_B: Tensor) -> Tensor:
    """(1 + w) / (exp((p - 1)²) + 1), p the teacher's probability of the right class, shape B (Pan et al. 2020)."""
    right_B = teacher_BxC.float().softmax(-1).gather(1, label_B[:, None])[:, 0]
    return (1 + weight_B) / (torch.exp((right_B - 1).square()) + 1)


def student_of(preset: Preset, seed: int, classes: int, max_length: int) -> nn.Module:
    """A student that is not trained yet."""
    known = preset.hrkd
    sizes = {"random_layers": preset.random_layers, "max_length": max_length}
    return load_student(known.student, preset.encoder, known.student_layers, seed=seed, classes=classes, **sizes)
