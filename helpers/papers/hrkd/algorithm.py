"""The trainings of teachers and students (Dong et al. 2021, sections 2 and 3)."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from helpers.batches import Batches
from helpers.engine import Plan
from helpers.extractive_qa import weighted_mean
from helpers.loop import Batch, Loss, outputs, training_device
from helpers.models.attention import keep_scores
from helpers.models.encoders import encoder_fingerprint, load_encoder
from helpers.papers.hrkd.losses import distillation_loss
from helpers.papers.hrkd.meta_kd import DomainView, Viewed, instance_weights
from helpers.papers.hrkd.relations import RandomRatios, Relations
from helpers.papers.hrkd.tinybert import Distilled, check_pair, load_student
from helpers.papers.shared import Models
from helpers.presets.schema import Preset, TrainingSettings
from helpers.teachers import LiveTeacher
from helpers.texts import Classifier, mean_tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class MetaTeacher(Classifier):
    """Meta-KD's teacher: typical texts weigh more, and a corruption loss hides the domain from its states.

    The loss is beta times the cross-entropy with shuffled domains.
    """

    def settings(self) -> dict:
        return super().settings() | self.preset.hrkd.model_dump(include={"corruption_weight"})

    def work(self) -> dict:
        classifier, batches, weights = self.initial(), self.batches(), self.text_weights()
        batches.sequences = batches.sequences.with_labels(weight=np.concatenate([*weights.values()]))
        torch.manual_seed(self.seed)
        model = Viewed(classifier, DomainView(classifier.config.hidden_size, len(self.domains)))
        fitted = self.fit(model, batches, self.loss, lambda model: self.validate(model.classifier))
        save_file(model.view.state_dict(), self.folder / "view.safetensors")
        save_file({name: torch.from_numpy(of) for name, of in weights.items()}, self.folder / "weights.safetensors")
        return self.save(classifier, fitted, self.config_facts())

    def text_weights(self) -> dict[str, np.ndarray]:
        """Compute w, how typical each training text is of its class by the pretrained encoder's states, by domain."""
        sizes = {"random_layers": self.preset.random_layers, "max_length": self.texts.max_length}
        model = load_encoder(self.preset.encoder, "labels", seed=0, **sizes).to(training_device()).eval()
        texts = {name: self.sequences("train", name) for name in self.domains}
        states = {name: mean_tokens(model, each, self.training.precision, -1)[:, 0] for name, each in texts.items()}
        return instance_weights(states, {name: each.labels["label"] for name, each in texts.items()})

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        shuffled_B = batch["domain"][torch.randperm(len(batch["domain"]), device=batch["domain"].device)]
        values_B = functional.cross_entropy(output.domain_logits.float(), shuffled_B, reduction="none")
        corruption = self.preset.hrkd.corruption_weight * weighted_mean(values_B, batch["weight"])
        return super().loss(output, batch, progress) | {"corruption": corruption}


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallClassifier(Classifier):
    """The training of the student's encoder on labels, without a teacher, with its own epochs and rate."""

    @property
    def training(self) -> TrainingSettings:
        changes = {name: student_setting(self.preset, self.corpus, name) for name in ("epochs", "learning_rate")}
        return self.preset.training.model_copy(update=changes)

    def settings(self) -> dict:
        encoder = student_setting(self.preset, self.corpus, "student")
        student = encoder_fingerprint(encoder) if encoder else self.preset.hrkd.student_layers
        return super().settings() | {"student": student}

    def initial(self) -> nn.Module:
        encoder, layers = student_setting(self.preset, self.corpus, "student"), self.preset.hrkd.student_layers
        return load_student(encoder, self.preset.encoder, layers, **self.sizes())


@dataclass(frozen=True, kw_only=True, eq=False)
class Student(SmallClassifier):
    """The training of a student by its ``teacher``, with equal ratios (TinyBERT-KD) or with those of ``relations``.

    ``relations`` are the switches of `Relations`, or {"random": True}; None: the student has no relations.
    """

    teacher: Classifier
    relations: dict[str, float] | None = None

    def settings(self) -> dict:
        names = {"gamma", "temperature", "padding"}
        if self.relations is not None:
            names |= {"heads", "graph_width"}
        return super().settings() | {"hrkd": self.preset.hrkd.model_dump(include=names)}

    def work(self) -> dict:
        learner, batches, loss = self.lesson()
        fitted = self.fit(learner, batches, loss, self.validate)
        if learner.relations is not None:
            weights = {name: weight for name, weight in learner.state_dict().items() if not name.startswith("student.")}
            save_file(weights, self.folder / "learner.safetensors")
        return self.save(learner.student, fitted, self.config_facts())

    def lesson(self) -> tuple[Distilled, Batches, Loss]:
        """Return what is trained, its batches with the teacher's outputs, and the loss."""
        hrkd, batches, view = self.preset.hrkd, self.batches(), None
        teacher = keep_scores(self.teacher.load())
        width, arguments = teacher.config.hidden_size, {"output_hidden_states": True}
        fields = {"levels": "hidden_states", "attention": "attentions_kept", "logits": "logits"}
        if isinstance(self.teacher, MetaTeacher):
            weights = load_file(self.teacher.file("weights.safetensors"))
            weight_W = torch.cat([weights[name] for name in self.domains])
            batches.sequences = batches.sequences.with_labels(weight=weight_W.numpy())
            view = DomainView(width, len(self.teacher.domains))
            view.load_state_dict(load_file(self.teacher.file("view.safetensors")))
            view.to(training_device()).eval().requires_grad_(False)
            teacher, fields["view"], arguments = Viewed(teacher, view).eval(), "domain_view", {}
        batches.teachers.append(LiveTeacher(teacher, fields, arguments, self.preset.training.precision))
        loss = partial(distillation_loss, classes=self.classes, domains=len(self.domains), hrkd=hrkd, view=view)
        return self.wrap_student(self.initial(), width), batches, loss

    def wrap_student(self, student: nn.Module, width: int) -> Distilled:
        """Wrap a student with new projections to the teacher's ``width`` and new relations."""
        hrkd, domains, config = self.preset.hrkd, len(self.domains), student.config
        torch.manual_seed(self.seed)  # projections begin alike with relations and without
        learner, levels = Distilled(student, width, domains, padding=hrkd.padding), config.num_hidden_layers + 1
        if self.relations is not None and "random" in self.relations:
            learner.relations = RandomRatios(levels, domains)
        elif self.relations is not None:
            read = width if self.relations.get("projected") else config.hidden_size
            sizes = {"heads": hrkd.heads, "graph_width": hrkd.graph_width}
            learner.relations = Relations(levels, domains, read, **sizes, **self.relations)
        return learner

    def load_distilled(self) -> Distilled:
        """Load the trained student with its projections and relations, in evaluation mode, on the device."""
        learner = self.wrap_student(self.load(), self.teacher.load().config.hidden_size)
        trained = {f"student.{name}": weight for name, weight in learner.student.state_dict().items()}
        learner.load_state_dict(trained | load_file(self.file("learner.safetensors")))
        return learner.to(training_device()).eval()

    def validate(self, learner: Distilled) -> tuple[float, dict]:
        score, details = super().validate(learner.eval().student)
        if learner.relations is not None:  # the ratios of a batch of the first validation texts of each domain
            texts = self.sequences("valid")
            domain_W = texts.labels["domain"]
            rows = np.concatenate([np.flatnonzero(domain_W == domain)[:16] for domain in np.unique(domain_W)])
            ((_, _, output),) = outputs(learner, texts.select(rows), batch_size=len(rows), precision="fp32")
            details["ratios"] = output.ratios.cpu().numpy().round(4).tolist()
        return score, details


def student_setting(preset: Preset, corpus: str, name: str) -> Any:
    """Return a setting of a corpus's students: "student" (their encoder), "epochs" or "learning_rate"."""
    return getattr(preset.hrkd, f"{corpus}_{name}")


TEACHERS = SINGLE, MIX, MTL, META, HRKD = ("BERT_B-single", "BERT_B-mix", "BERT_B-mtl", "Meta-teacher", "HRKD-teacher")
STUDENTS = (*(f"{teacher} → TinyBERT-KD" for teacher in (SINGLE, MIX, MTL)), f"{META} → Meta-distillation")
PLAIN, OURS, ALONE = f"{HRKD} → TinyBERT-KD", f"{HRKD} → HRKD", "BERT_S, no teacher"  # the last is not in the paper
ON_LABELS = {  # rows trained on labels: class and `Classifier.order`; the rest are students
    SINGLE: (Classifier, "mixed"),
    MIX: (Classifier, "mixed"),
    MTL: (Classifier, "turns"),  # Liu et al. 2019
    META: (MetaTeacher, "mixed"),
    HRKD: (Classifier, "together"),  # section 2.1
    ALONE: (SmallClassifier, "together"),
}
RELEASED = {"dropout": 0.1, "released_init": True, "projected": True, "trained": False}  # what the released code runs
SKIP = {"residual": True, "trained": False}  # a reading in which ratios can differ: each node keeps its own features
WRITTEN, RANDOM, AGAIN, SKIPPING = "as written", "random ratios", "TinyBERT-KD, another seed", "skip connections"
PARTS = {  # of the relations, one more left out in each row (section 3.6)
    "- Self-attention": {"self_attention": False},
    "- Comp-Agg": {"self_attention": False, "compare": False},
    "- Hierarchical Rel.": {"self_attention": False, "compare": False, "hierarchy": False},
}
RELATIONS = {  # students of HRKD-teacher with relations; only the first is in the paper's tables
    OURS: RELEASED,
    WRITTEN: {},
    RANDOM: {"random": True},
    SKIPPING: SKIP,
    f"{SKIPPING}, no gradient through ratios": {**SKIP, "steer": False},
    f"{SKIPPING}, trained": {"residual": True},
    **{f"{SKIPPING} {part}": {**SKIP, **switches} for part, switches in PARTS.items()},
}
CONTROLS = (WRITTEN, RANDOM, AGAIN, ALONE)
ROWS = (*TEACHERS, *STUDENTS, PLAIN, OURS, *CONTROLS)
NOT_COMPARED = (SINGLE, MIX, MTL, META, *STUDENTS[1:3])  # by no claim
TABLE4 = {"HRKD": OURS, "- Domain Rel.": PLAIN}  # its names


def name_models(preset: Preset, corpus: str, seed: int, row: str) -> dict[str, Classifier]:
    """Name the training of a row's model of each domain: one model per domain, or one for all."""
    domains, teachers, row = list(getattr(preset, corpus).domains), {}, TABLE4.get(row, row)
    if row not in ON_LABELS:
        teachers = name_models(preset, corpus, seed, row.partition(" → ")[0] if "→" in row else HRKD)

    def model(*names: str) -> Classifier:
        fields = {"preset": preset, "seed": seed, "corpus": corpus, "domains": names}
        fields["label"] = f"{row}, {' + '.join(names)}, seed {seed}"
        if row in ON_LABELS:
            kind, order = ON_LABELS[row]
            return kind(**fields, order=order)
        fields["seed"] += 100 * (row == AGAIN)
        return Student(**fields, order="together", teacher=teachers[names[0]], relations=RELATIONS.get(row))

    one_per_domain = row in (SINGLE, *STUDENTS)
    return {name: model(name) for name in domains} if one_per_domain else dict.fromkeys(domains, model(*domains))


def train(preset: Preset, corpus: str, rows: Iterable[str] = ROWS) -> Plan:
    """Train rows of Tables 2 to 4 on a corpus ("mnli" or "reviews") with every seed. Returns their `Models`."""
    check_pair(student_setting(preset, corpus, "student"), preset.encoder)
    models, others = Models(preset), min(preset.seeds, preset.other_seeds)
    for row in rows:
        for seed in range(others if row in NOT_COMPARED else preset.seeds):
            models.add(row, seed, name_models(preset.drawn(seed), corpus, seed, row))
    yield [model for *_, (model,) in models]
    return models
