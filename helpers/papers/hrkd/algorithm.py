"""The trainings of teachers and students (Dong et al. 2021, sections 2 and 3)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from helpers.batches import Batches
from helpers.classification import Classifier, DomainTexts
from helpers.loop import Batch, batch_outputs, forward, training_device
from helpers.models.encoders import encoder_fingerprint, load_config, load_encoder
from helpers.papers.hrkd.losses import distillation_loss, meta_teacher_loss
from helpers.papers.hrkd.meta_kd import DomainView, WithDomainView, instance_weights, mean_tokens
from helpers.papers.hrkd.relations import RandomRatios, Relations
from helpers.papers.hrkd.tinybert import TinyBertStudent, check_pair, keep_scores, load_student
from helpers.papers.shared import Models
from helpers.presets.schema import Preset, TrainingSettings
from helpers.task import Plan
from helpers.training import Training


def student_setting(preset: Preset, corpus: str, name: str) -> Any:
    """Return a setting of a corpus's students: "student" (their encoder), "epochs" or "learning_rate"."""
    return getattr(preset.hrkd, f"{corpus}_{name}")


# --- Meta-KD's teacher ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ViewingClassifier(Classifier):
    """A classifier with a view of the domains, Meta-KD's teacher."""

    def build(self, training: Training) -> WithDomainView:
        classifier = super().build(training)
        torch.manual_seed(training.seed)
        return WithDomainView(classifier, DomainView(classifier.config.hidden_size, len(training.data.names)))

    def trained(self, model: WithDomainView) -> nn.Module:
        return model.classifier

    def save(self, model: WithDomainView, training: Training) -> None:
        super().save(model, training)
        save_file(model.view.state_dict(), training.folder / "view.safetensors")


def load_view(training: Training) -> DomainView:
    """Load the trained view of a `ViewingClassifier`, frozen, in evaluation mode, on the device."""
    view = DomainView(load_config(str(training.saved())).hidden_size, len(training.data.names))
    view.load_state_dict(load_file(training.file("view.safetensors")))
    return view.to(training_device()).eval().requires_grad_(False)


@cache
def weigh_texts(preset: Preset, data: DomainTexts) -> dict[str, np.ndarray]:
    """Compute w, how typical each training text is of its class by the pretrained encoder's states, by domain."""
    sizes = {"random_layers": preset.random_layers, "max_length": data.texts(preset).max_length}
    model = load_encoder(preset.encoder, "labels", seed=0, **sizes).to(training_device()).eval()
    texts = {name: data.sequences(preset, "train", name) for name in data.names}
    states = {name: mean_tokens(model, of, preset.training.precision, -1)[:, 0] for name, of in texts.items()}
    return instance_weights(states, {name: of.labels["label"] for name, of in texts.items()})


@dataclass(frozen=True)
class TextWeights:
    """The weights of training texts by how typical they are (`helpers.training.Teacher`)."""

    def add_to(self, batches: Batches, training: Training) -> None:
        add_weights(batches, training, training.data)


def add_weights(batches: Batches, training: Training, data: DomainTexts) -> None:
    """Weigh a training's texts by how typical they are among those of ``data``."""
    weights = weigh_texts(training.preset, data)
    weight_W = np.concatenate([weights[name] for name in training.data.names])
    batches.sequences = batches.sequences.with_labels(weight=weight_W)


# --- students ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmallClassifier(Classifier):
    """A classifier with the student's encoder of a corpus, or some layers of the teacher's."""

    corpus: str = ""

    def settings(self, preset: Preset) -> dict:
        encoder = student_setting(preset, self.corpus, "student")
        student = encoder_fingerprint(encoder) if encoder else preset.hrkd.student_layers
        return super().settings(preset) | {"student": student}

    def load_encoder(self, training: Training, **sizes) -> nn.Module:
        preset = training.preset
        encoder = student_setting(preset, self.corpus, "student")
        return load_student(encoder, preset.encoder, preset.hrkd.student_layers, **sizes)


@dataclass(frozen=True)
class Student(SmallClassifier):
    """A small classifier that is distilled from a teacher's layers (`TinyBertStudent`).

    Ratios are equal (TinyBERT-KD) without ``relations``. These are the settings of `Relations`, or {"random": True}.
    """

    relations: dict[str, float] | None = None

    def settings(self, preset: Preset) -> dict:
        names = {"padding"} if self.relations is None else {"padding", "heads", "graph_width"}
        return super().settings(preset) | {"hrkd": preset.hrkd.model_dump(include=names)}

    def build(self, training: Training) -> TinyBertStudent:
        teacher = training.teacher.model
        width = load_config(str(teacher.saved())).hidden_size
        view = load_view(teacher) if isinstance(teacher.model, ViewingClassifier) else None
        return self.wrap(training, super().build(training), width, view)

    def wrap(self, training: Training, student: nn.Module, width: int, view: DomainView | None = None) -> nn.Module:
        """Wrap a student with new projections to the teacher's ``width`` and new relations."""
        hrkd, domains, config = training.preset.hrkd, len(training.data.names), student.config
        torch.manual_seed(training.seed)  # projections begin alike with relations and without
        learner = TinyBertStudent(student, width, domains, view=view, padding=hrkd.padding)
        levels = config.num_hidden_layers + 1
        if self.relations is not None and "random" in self.relations:
            learner.relations = RandomRatios(levels, domains)
        elif self.relations is not None:
            read = width if self.relations.get("projected") else config.hidden_size
            sizes = {"heads": hrkd.heads, "graph_width": hrkd.graph_width}
            learner.relations = Relations(levels, domains, read, **sizes, **self.relations)
        return learner

    def trained(self, model: TinyBertStudent) -> nn.Module:
        return model.student

    def details(self, training: Training, model: TinyBertStudent) -> dict:
        """Return the ratios of a batch of the first validation texts of each domain."""
        if model.relations is None:
            return {}
        texts = training.data.sequences(training.preset, "valid")
        domain_W = texts.labels["domain"]
        rows = np.concatenate([np.flatnonzero(domain_W == domain)[:16] for domain in np.unique(domain_W)])
        ((_, _, output),) = batch_outputs(model, texts.select(rows), batch_size=len(rows), precision="fp32")
        return {"ratios": output.ratios.cpu().numpy().round(4).tolist()}

    def save(self, model: TinyBertStudent, training: Training) -> None:
        super().save(model, training)
        if model.relations is not None:
            weights = {name: weight for name, weight in model.state_dict().items() if not name.startswith("student.")}
            save_file(weights, training.folder / "learner.safetensors")


def load_distilled(training: Training) -> TinyBertStudent:
    """Load a trained student with its projections and relations, in evaluation mode, on the device."""
    width = load_config(str(training.teacher.model.saved())).hidden_size
    learner = training.model.wrap(training, training.load(), width)
    trained = {f"student.{name}": weight for name, weight in learner.student.state_dict().items()}
    learner.load_state_dict(trained | load_file(training.file("learner.safetensors")))
    return learner.to(training_device()).eval()


@dataclass
class LiveTeacher:
    """A model that computes its outputs for every batch, because they are too large to store, such as hidden states.

    ``fields`` maps names in the batch, without "teacher_", to fields of the model's output. ``arguments`` go to the
    model. Raises ValueError where it is in training mode.
    """

    model: nn.Module
    fields: Mapping[str, str]
    arguments: Mapping[str, object] = field(default_factory=dict)
    precision: str = "auto"

    @torch.no_grad()  # not inference mode: a loss may have to keep the outputs for its gradient
    def __call__(self, batch: Batch) -> dict[str, Tensor | tuple[Tensor, ...]]:
        if any(module.training for module in self.model.modules()):
            raise ValueError("a teacher is in training mode, so its dropout is on: call eval() on it")
        output = forward(self.model, batch, self.precision, **self.arguments)
        return {f"teacher_{name}": getattr(output, source) for name, source in self.fields.items()}


@dataclass(frozen=True)
class LayerTeacher:
    """A classifier whose levels, attention and logits teach a student (`helpers.training.Teacher`).

    Meta-KD's gives its view of the domains too, and weighs the texts.
    """

    model: Training

    def add_to(self, batches: Batches, training: Training) -> None:
        teacher, arguments = self.model.load(), {"output_hidden_states": True}
        keep_scores(teacher.single)
        fields = {"levels": "hidden_states", "attention": "attentions_kept", "logits": "logits"}
        if isinstance(self.model.model, ViewingClassifier):
            add_weights(batches, training, self.model.data)
            teacher, arguments = WithDomainView(teacher, load_view(self.model)).eval(), {}
            fields["view"] = "domain_view"
        batches.teachers.append(LiveTeacher(teacher, fields, arguments, training.preset.training.precision))


# --- the rows of the tables -------------------------------------------------------------------------------------------

TEACHERS = SINGLE, MIX, MTL, META, HRKD = ("BERT_B-single", "BERT_B-mix", "BERT_B-mtl", "Meta-teacher", "HRKD-teacher")
TAUGHT_BY = {f"{teacher} → TinyBERT-KD": teacher for teacher in (SINGLE, MIX, MTL)}  # students per domain
TAUGHT_BY[f"{META} → Meta-distillation"] = META
STUDENTS = tuple(TAUGHT_BY)
PLAIN, OURS, ALONE = f"{HRKD} → TinyBERT-KD", f"{HRKD} → HRKD", "BERT_S, no teacher"  # the last is not in the paper
ON_LABELS = {  # rows trained on labels: class and `DomainTexts.order`; the rest are students
    SINGLE: (Classifier, "mixed"),
    MIX: (Classifier, "mixed"),
    MTL: (Classifier, "turns"),  # Liu et al. 2019
    META: (ViewingClassifier, "mixed"),
    HRKD: (Classifier, "together"),  # section 2.1
    ALONE: (SmallClassifier, "together"),
}
RELEASED = {"dropout": 0.1, "released_init": True, "projected": True, "trained": False}  # what the released code runs
SKIP = {"residual": True, "trained": False}  # a reading in which ratios can differ: each node keeps its own features
WRITTEN, RANDOM, AGAIN, SKIPPING = "as written", "random ratios", "TinyBERT-KD, another seed", "skip connections"
RELATION_ABLATIONS = {  # of the relations, one more left out in each row (section 3.6)
    "- Self-attention": {"self_attention": False},
    "- Comp-Agg": {"self_attention": False, "compare": False},
    "- Hierarchical Rel.": {"self_attention": False, "compare": False, "hierarchy": False},
}
RELATION_STUDENTS = {  # students of HRKD-teacher with relations; only the first is in the paper's tables
    OURS: RELEASED,
    WRITTEN: {},
    RANDOM: {"random": True},
    SKIPPING: SKIP,
    f"{SKIPPING}, no gradient through ratios": {**SKIP, "steer": False},
    f"{SKIPPING}, trained": {"residual": True},
    **{f"{SKIPPING} {part}": {**SKIP, **changes} for part, changes in RELATION_ABLATIONS.items()},
}
CONTROL_ROWS = (WRITTEN, RANDOM, AGAIN, ALONE)
ROWS = (*TEACHERS, *STUDENTS, PLAIN, OURS, *CONTROL_ROWS)
NOT_COMPARED = (SINGLE, MIX, MTL, META, *STUDENTS[1:3])  # by no claim
TABLE4 = {"HRKD": OURS, "- Domain Rel.": PLAIN}  # its names


def model_trainings(preset: Preset, corpus: str, seed: int, row: str) -> dict[str, Training]:
    """Return the training of a row's model of each domain: one model per domain, or one for all."""
    domains, teachers, row = list(getattr(preset, corpus).domains), {}, TABLE4.get(row, row)
    if row not in ON_LABELS:
        teachers = model_trainings(preset, corpus, seed, TAUGHT_BY.get(row, HRKD))

    def train_on(*names: str) -> Training:
        facts = {"preset": preset, "seed": seed, "label": f"{row}, {' + '.join(names)}, seed {seed}"}
        if row in ON_LABELS:
            return labelled_training(corpus, names, row, **facts)
        facts["seed"] += 100 * (row == AGAIN)
        return student_training(corpus, names, teachers[names[0]], RELATION_STUDENTS.get(row), **facts)

    one_per_domain = row in (SINGLE, *TAUGHT_BY)
    return {name: train_on(name) for name in domains} if one_per_domain else dict.fromkeys(domains, train_on(*domains))


def labelled_training(corpus: str, names: tuple[str, ...], row: str, preset: Preset, **facts) -> Training:
    """Return the training of a row of `ON_LABELS`: a teacher, or the student's encoder without a teacher."""
    kind, order = ON_LABELS[row]
    data = DomainTexts(names, corpus, order)
    is_small = kind is SmallClassifier
    loss, teacher = data.choose_loss(), None
    if kind is ViewingClassifier:
        loss = partial(meta_teacher_loss, corruption_weight=preset.hrkd.corruption_weight)
        teacher = TextWeights()
    return Training(
        preset=preset,
        model=kind(corpus=corpus) if is_small else kind(),
        data=data,
        optim=student_optim(preset, corpus) if is_small else preset.training,
        loss=loss,
        teacher=teacher,
        **facts,
    )


def student_training(
    corpus: str, names: tuple[str, ...], teacher: Training, relations: dict | None, preset: Preset, **facts
) -> Training:
    """Return the training of a student by its teacher, with equal ratios or with those of ``relations``."""
    settings = preset.hrkd.model_dump(include={"gamma", "temperature", "padding"})
    return Training(
        preset=preset,
        model=Student(corpus=corpus, relations=relations),
        data=DomainTexts(names, corpus, "together"),
        optim=student_optim(preset, corpus),
        loss=partial(distillation_loss, domains=len(names), **settings),
        teacher=LayerTeacher(teacher),
        **facts,
    )


def student_optim(preset: Preset, corpus: str) -> TrainingSettings:
    """Return the settings by which a corpus's students train."""
    changes = {name: student_setting(preset, corpus, name) for name in ("epochs", "learning_rate")}
    return preset.training.model_copy(update=changes)


def train(preset: Preset, corpus: str, rows: Iterable[str] = ROWS) -> Plan:
    """Train rows of Tables 2 to 4 on a corpus ("mnli" or "reviews") with every seed. Returns their `Models`."""
    check_pair(student_setting(preset, corpus, "student"), preset.encoder)
    models = Models(preset)
    for row, seed in product(rows, preset.seed_numbers):
        if row not in NOT_COMPARED or seed < preset.control_seeds:
            models.add(row, seed, model_trainings(preset.for_seed(seed), corpus, seed, row))
    yield [model for *_, (model,) in models]
    return models
