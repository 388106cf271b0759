"""HRKD: hierarchical relational knowledge distillation over several domains (Dong et al. 2021, EMNLP)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from helpers.batches.plans import Batches
from helpers.data.load import label_names
from helpers.engine import Plan
from helpers.loop import Batch, Loss, outputs, training_device
from helpers.models.attention import keep_scores
from helpers.models.encoders import encoder_fingerprint, load_encoder
from helpers.models.meta_kd import DomainView, Viewed, instance_weights
from helpers.models.relations import RandomRatios, Relations
from helpers.models.tinybert import Distilled, check_pair, load_student, match_layers
from helpers.papers import shared
from helpers.papers.card import Artefact, Notebook, Paper
from helpers.papers.shared import Models
from helpers.paths import public_name
from helpers.presets.papers import HrkdSettings
from helpers.presets.schema import Preset, TrainingSettings
from helpers.reading import weighted_mean
from helpers.results import records
from helpers.results.records import Claim, Score
from helpers.teachers import LiveTeacher
from helpers.texts import Classifier, Labels, domain_means, head_logits, mean_tokens


def level_distance(student_BxLxF: Tensor, teacher_BxLxF: Tensor, mask_BxL: Tensor) -> Tensor:
    """Average the squared difference of two levels over the unmasked tokens of each text, shape B (Eqs. 1, 4)."""
    gaps_BxL = functional.mse_loss(student_BxLxF.float(), teacher_BxLxF.float(), reduction="none").mean(-1)
    return (gaps_BxL * mask_BxL).sum(-1) / mask_BxL.sum(-1)


def class_cross_entropy(student_BxC: Tensor, teacher_BxC: Tensor, temperature: float) -> Tensor:
    """Compute -sum softmax(teacher / t) log softmax(student / t) of each text, shape B (Eq. 2), without a factor t²."""
    teacher_BxC, student_BxC = (logits.float() / temperature for logits in (teacher_BxC, student_BxC))
    return -(teacher_BxC.softmax(-1) * student_BxC.log_softmax(-1)).sum(-1)


def score_distance(student: Sequence[Tensor], teacher: Sequence[Tensor], query_BxL: Tensor, key_BxL: Tensor) -> Tensor:
    """Average the squared difference of attentions over heads and pairs of real tokens, shape B (Eq. 3).

    Attention is taken before the softmax, as in TinyBERT, and given by scaled queries and keys (B×H×L×D each). Numbers
    of heads that differ are averaged over first. No score is computed: the sum over all pairs of q kᵀ · Q Kᵀ is the sum
    of the elements of qᵀQ · kᵀK, which have the width of a head instead of the length of a text, and (s - S)² is
    s² - 2 s S + S².
    """
    if student[0].shape[1] != teacher[0].shape[1]:
        student, teacher = map(_one_head, (student, teacher))
    masks = query_BxL[:, None, :, None], key_BxL[:, None, :, None]
    student, teacher = (  # heads come as views, which products would copy again and again
        [each.float().contiguous() * mask for each, mask in zip(factors, masks, strict=True)]
        for factors in (student, teacher)
    )

    def product_BxH(one: list[Tensor], other: list[Tensor]) -> Tensor:
        queries_BxHxDxE, keys_BxHxDxE = (a.transpose(2, 3) @ b for a, b in zip(one, other, strict=True))
        return (queries_BxHxDxE * keys_BxHxDxE).sum((2, 3))

    squares_BxH = product_BxH(student, student) - 2 * product_BxH(student, teacher) + product_BxH(teacher, teacher)
    return squares_BxH.mean(1).clamp_min(0) / (query_BxL.sum(-1) * key_BxL.sum(-1))


def _one_head(factors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    queries, keys = (each.transpose(1, 2).flatten(2)[:, None] for each in factors)
    return queries / factors[0].shape[1], keys  # the scores are the mean of the heads'


def distillation_loss(
    output, batch: Batch, progress: float = 0.0, *, classes: int, domains: int, hrkd: HrkdSettings, view=None
) -> dict[str, Tensor]:
    """Compute the terms of Eq. 17: losses of levels weighted by the ratios r_m,d, and of classes weighted by gamma / D.

    ``output`` is that of `Distilled`; the batch has the teacher's levels, attention and logits. With equal ratios it is
    Eq. 5 over D. With the ``view`` of Meta-KD's teacher, texts have weights, and the distance of the views is added.
    """
    real_BxL, domain_B = batch["attention_mask"], batch["domain"]
    mask_BxL = torch.ones_like(real_BxL) if hrkd.padding else real_BxL  # padding is never a key of the attention
    teacher_H, teacher_A = batch["teacher_levels"], batch["teacher_attention"]
    # Of the teacher, for each level of the student
    layers = [0, *match_layers(len(output.attentions_kept), len(teacher_A))]
    hidden = [level_distance(H, teacher_H[m], mask_BxL) for H, m in zip(output.levels, layers, strict=True)]
    pairs = zip(output.attentions_kept, layers[1:], strict=True)
    attention = [score_distance(A, teacher_A[m - 1], mask_BxL, real_BxL) for A, m in pairs]
    r_0, r_m = output.ratios[:1], output.ratios[1:]
    losses = {"embedding": (r_0, hidden[:1]), "attention": (r_m, attention), "hidden": (r_m, hidden[1:])}
    teacher_BxC, weight_B = head_logits(batch["teacher_logits"], domain_B, classes), torch.ones_like(hidden[0])
    if view is not None:
        weight_B = meta_weights(teacher_BxC, batch["label"], batch["weight"])
        view_BxF, _ = view(output.levels[-1], real_BxL, domain_B)
        losses["view"] = r_0, [(view_BxF - batch["teacher_view"]).square().mean(1) / 2]
    means = partial(domain_means, domain_B=domain_B if domains > 1 else torch.zeros_like(domain_B), domains=domains)
    terms = {
        name: sum((r_D * means(weight_B * values_B)).sum() for r_D, values_B in zip(*levels, strict=True))
        for name, levels in losses.items()
    }
    values_B = class_cross_entropy(head_logits(output.logits, domain_B, classes), teacher_BxC, hrkd.temperature)
    return {**terms, "prediction": hrkd.gamma / domains * means(values_B).sum()}


def meta_weights(teacher_BxC: Tensor, label_B: Tensor, weight_B: Tensor) -> Tensor:
    """Compute (1 + w) / (exp((p - 1)²) + 1), p the teacher's probability of the right class, shape B."""
    right_B = teacher_BxC.float().softmax(-1).gather(1, label_B[:, None])[:, 0]
    return (1 + weight_B) / (torch.exp((right_B - 1).square()) + 1)


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


CORPORA = {"mnli": "MNLI", "reviews": "Amazon Reviews"}  # sections of a preset, and the paper's names
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


def compute_accuracies(preset: Preset, corpus: str, rows: Iterable[str] = ROWS) -> Plan:
    """Have the models of rows label the test texts. Returns accuracies, notes and seconds as parts of a record."""
    models = yield from train(preset, corpus, rows)
    tasks = {
        (row, domain, seed): Labels(preset=model.preset, label=f"classes by {model.label}", classifier=model)
        for row, domain, seed, (model,) in models
    }
    yield tasks.values()
    scores = records.make_scores({cell: task.hits(cell[1]) for cell, task in tasks.items()})
    return {"scores": scores, "notes": make_notes(preset, corpus), "training_seconds": models.seconds}


def average_accuracies(parts: dict) -> dict[tuple[str, int], float]:
    """Average accuracies over the domains, by row and seed."""
    table = pd.DataFrame(score.model_dump() for score in parts["scores"])
    return table.groupby(["method", "seed"])["value"].mean().to_dict()


def list_corpora(preset: Preset) -> list[str]:
    """List the sections of the corpora that the preset has."""
    return [corpus for corpus in CORPORA if getattr(preset, corpus).is_given]


def make_notes(preset: Preset, corpus: str) -> list[str]:
    """State how the rows were made: budget, start, training texts, chance."""
    hrkd, training, texts = preset.hrkd, preset.training, getattr(preset, corpus)
    names = ("student", "epochs", "learning_rate")
    encoder, epochs, rate = (student_setting(preset, corpus, name) for name in names)
    labels = len(label_names(texts))
    student = public_name(encoder) or f"layers of the teacher's pretrained encoder ({hrkd.student_layers})"
    return [
        f"teachers: {training.epochs:g} epochs, learning rate {training.learning_rate:g}; students: {epochs:g} "
        f"epochs, {rate:g}; {training.batch_size} texts of each domain per step, or as many of one, or of all mixed",
        f"students are initialised from {student.partition('@')[0]}",
        shared.state_training_sizes(texts, "texts"),
        f"guessing one of the {labels} labels is right for {100 / labels:.1f} % of the texts",
    ]


def table1(preset: Preset) -> dict:
    """Count the texts of each part of every domain (Table 1)."""
    corpora = [getattr(preset, corpus) for corpus in list_corpora(preset)]
    return {"scores": [score for texts in corpora for score in shared.count_examples(texts)]}


def table2(preset: Preset, corpus: str = "mnli") -> Plan:
    """Make Table 2: accuracy of every row's model of each domain; nothing where the preset has no texts for it."""
    if corpus not in list_corpora(preset):
        return {}
    several, ours = ", which has a student per domain", {"control": True, "beside": True}
    claims = [
        shared.state_better(OURS, PLAIN, primary=True),
        *(shared.state_better(OURS, row, on=several) for row in (STUDENTS[-1], STUDENTS[0])),
        shared.state_better(OURS, RANDOM, **ours),
        Claim(text=f"HRKD {WRITTEN} is better than {PLAIN}", above=WRITTEN, below=PLAIN, **ours),
        shared.state_better(OURS, ALONE, control=True),
    ]
    rows = [row for row in ROWS if row not in CONTROLS or preset.other_seeds]
    return {
        **(yield from compute_accuracies(preset, corpus, rows)),
        "baselines": [row for row in (PLAIN, ALONE) if row in rows],
        "claims": [claim for claim in claims if {claim.above, claim.below} <= {*rows}],
    }


table3 = partial(table2, corpus="reviews")


def figure2(preset: Preset) -> Plan:
    """Make Figure 2: the gain of other students over single → TinyBERT-KD, by share of the texts, from the front."""
    corpus, shares, (single, *_, meta) = preset.hrkd.few_shot, preset.hrkd.shares, STUDENTS
    presets = {share: preset.changed(corpus, train_share=share) for share in shares}
    parts = yield {share: compute_accuracies(presets[share], corpus, (single, meta, PLAIN, OURS)) for share in shares}
    scores = []
    for share in shares:
        accuracy = average_accuracies(parts[share])
        for (row, seed), value in accuracy.items():
            point = {"method": row, "column": "average", "seed": seed, "x": 100 * share}
            scores.append(Score(**point, metric=GAIN, value=value - accuracy[single, seed]))
            scores.append(Score(**point, metric="accuracy", value=value))
    few, many = (f"{100 * share:g}" for share in (min(shares), max(shares)))
    text, ours = f"with {few} % of the texts {OURS} is better than", {"above": f"{OURS}, {few}"}
    claims = [Claim(text=f"{text} {row}", **ours, below=f"{row}, {few}") for row in (single, meta)]
    if many != few:
        text, than = "HRKD gains more with few texts than with many", [f"{OURS}, {many}", f"{single}, {many}"]
        claims.insert(0, Claim(text=text, **ours, below=f"{single}, {few}", than=than, primary=True))
    return {
        "scores": scores,
        "claims": claims,
        "payload": {"x": "% of the training texts", "scale": "log"},
        "notes": [f"on {CORPORA[corpus]}", *make_notes(preset, corpus)],
        "training_seconds": sum(of_share["training_seconds"] for of_share in parts.values()),
    }


def table4(preset: Preset) -> Plan:
    """Make Table 4: accuracy of HRKD without its relations, and of other readings of these.

    The paper leaves out one part after the other. That is done where ratios differ at all, with skip connections.
    """
    full, without = TABLE4
    others = [row for row in RELATIONS if row != OURS]
    parts = yield from compute_accuracies(preset, "reviews", (full, without, *others, AGAIN))
    claims = [shared.state_better(full, without, primary=True), shared.state_better(SKIPPING, without, control=True)]
    claims += [shared.state_better(SKIPPING, f"{SKIPPING} {part}", control=True) for part in PARTS]
    return {**parts, "baselines": [without], "claims": claims}


GAIN, SHARE = "points of accuracy", "% of the weight"
ABSENT = "the preset has no texts for it"
CARD = Paper(
    key="hrkd",
    title="Dong et al. 2021: hierarchical relational knowledge distillation (HRKD)",
    reference="https://doi.org/10.18653/v1/2021.emnlp-main.250",
    claim="A graph that weights domains teaches a small student more than plain distillation (TinyBERT)",
    headlines=("table2", "table3"),
    artefacts=(
        Artefact("table1", "HRKD, Table 1: texts of each domain", "table", "examples", False),
        Artefact("table2", "HRKD, Table 2: accuracy on MNLI", "table", "accuracy"),
        Artefact("table3", "HRKD, Table 3: accuracy on Amazon Reviews", "table", "accuracy"),
        Artefact("compression", "HRKD: what a student costs and keeps", "table", "accuracy", False),
        Artefact("figure2", f"HRKD, Figure 2: above {STUDENTS[0]}, with few texts", "curve", GAIN, False),
        Artefact("table4", "HRKD, Table 4: what each part is worth", "table", "accuracy"),
        Artefact("table5", "HRKD, Table 5: three texts of one label and one of the other", "heatmaps", SHARE, False),
        Artefact("table6", "HRKD, Table 6: two texts of each label", "heatmaps", SHARE, False),
        Artefact("ratios", "HRKD: how far the ratios move", "curve", SHARE, False),
    ),
    notebooks=(
        Notebook(
            "10_hrkd_main",
            (table2, table3),
            left_out=lambda p: "" if list_corpora(p) else ABSENT,
            keeps=lambda p: p.reviews.domains if "reviews" in list_corpora(p) else (),
        ),
        Notebook("11_hrkd_fewshot", (figure2,), lambda p: "" if p.hrkd.few_shot in list_corpora(p) else ABSENT),
        Notebook("12_hrkd_ablation", (table4,), lambda p: "" if "reviews" in list_corpora(p) else ABSENT),
    ),
    settings=("hrkd", "mnli", "reviews"),
    examples=("mnli", "reviews"),
)
