"""Readers that learn what an ensemble knows: attention-guided answer distillation (Hu et al. 2018, section 3)."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

import exca
import pydantic
import torch
from torch import Tensor, nn

from helpers.batches.plans import Batches
from helpers.data.unlabelled import load_unlabelled, unlabelled_fingerprint
from helpers.models.attention import attention_of, keep_attention
from helpers.models.mnemonic import make_reader
from helpers.models.pretrained import EncoderError, load_encoder, load_saved, load_tokenizer
from helpers.presets.schema import Preset
from helpers.tasks import spans
from helpers.tasks.ensembles import EnsembleOutputs
from helpers.training import losses
from helpers.training.cached import CachedTraining
from helpers.training.loop import Batch, Loss, training_device
from helpers.training.teachers import StoredTeacher

Kind = Literal["RMR", "BERT"]  # of reader: the mnemonic reader, or a pretrained encoder


class DistilledReader(CachedTraining):
    """A reader of some domains that learns their answers and, by Eq. 1, what an ensemble knows of their questions, and
    of others without answers; or, without an ensemble, a member of one."""

    domains: list[str]  # trained on, and selected by
    kind: Kind = "BERT"
    first_step: int = 0  # of the order of questions, which the reader it starts from began
    attention: bool = False  # whether attention is matched, by it or by a student of it
    terms: dict[str, float] = pydantic.Field(default_factory=lambda: {"CE": 1.0})  # of Eq. 1, with their weights
    smoothing: float = 0.0  # of the labels
    members: list[str] = pydantic.Field(default_factory=list)  # keys of the readers that it learns from
    unlabelled: str = ""  # fingerprint of the questions without answers
    place: str = ""  # of these
    temperature: float = 1.0  # of what the members say
    top_k: int = 1  # answers of theirs of which one may confuse
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="2")

    @infra.apply(exclude_from_cache_uid=("preset", "label", "place"))
    def fit(self) -> dict:
        """Train, select (without CE, as in a first stage, keep the last weights), save; returns the best validation
        F1, all of them, steps, seconds, the number of trained parameters and the weights' digest."""
        preset, domains = self.preset, self.domains
        model, loss = self.initial(), joint_loss(self.terms, self.temperature, self.smoothing)
        done = self.train(
            model, self.batches(), loss, spans.validation(preset, domains) if "CE" in self.terms else None
        )
        kept = self.keep(model.eval(), done, spans.reading(preset, domains))
        return {**kept, "parameters": model.num_parameters(only_trainable=True)}

    @property
    def target(self) -> list[str]:
        """The domains that it is selected by."""
        return self.domains

    def windows_read(self) -> int:
        """Those of its validation questions, at every evaluation."""
        return spans.windows_validated(self.preset, self.domains)

    def parents(self) -> list[str]:
        """The keys of the readers that it starts from or learns from."""
        return [*super().parents(), *self.members]

    def builds_on(self) -> list[str]:
        """The keys of its parents, and of what the ensemble says."""
        return [*super().builds_on(), *(known.key for known in self.outputs())]

    def outputs(self) -> list[EnsembleOutputs]:
        """What the ensemble has to be asked before: the domains' questions, then those without answers."""
        if not self.members:
            return []
        said = {field: getattr(self, field) for field in ("preset", "members", "temperature", "top_k", "attention")}
        label = f"what {len(self.members)} of {self.kind} know, seed {self.seed}"
        outputs = [EnsembleOutputs(domains=self.domains, label=label, **said)]
        if self.unlabelled:
            others = {"unlabelled": self.unlabelled, "place": self.place, "label": f"{label}, of more"}
            outputs.append(EnsembleOutputs(domains=[], **others, **said))
        return outputs

    def initial(self) -> nn.Module:
        """The reader as its training begins."""
        if not self.start:
            model = new_reader(self.preset, self.kind, self.seed)
        elif self.kind == "RMR":
            model = load_saved(self.folder_of(self.start))
        else:
            model = load_encoder(str(self.folder_of(self.start)), seed=self.seed)
        if self.attention:
            attention_of(model)  # an ensemble of readers without is of no use, so say so before it is trained
        return keep_attention(model) if "ATT" in self.terms else model

    def batches(self) -> Batches:
        """Its training batches, with what the ensemble says of them. Questions without answers have no weight in the
        loss that compares with these."""
        outputs, last, device = self.outputs(), self.first_step + self.steps, training_device()
        asked = [known.windows() for known in outputs]
        batches = spans.training_batches(self.preset, self.domains, last, self.seed, device, beside=asked[1:])
        del batches.plan[: self.first_step]
        if self.unlabelled:
            answered, others = map(len, asked)
            batches.tensors.labels["weight"] = torch.tensor([1.0] * answered + [0.0] * others, device=device)
        if outputs:
            said = [known.stored() for known in outputs]
            known = {name: torch.cat([values[name] for values in said]) for name in said[0]}
            batches.teachers.append(teacher_of(batches, known, self.terms))
        return batches


def student(
    preset: Preset,
    seed: int,
    label: str,
    members: list[CachedTraining],
    *,
    steps: int,
    temperature: float,
    top_k: int,
    answer_weight: float,
    attention_weight: float,
    place: str = "",
) -> DistilledReader:
    """The config of a reader of all of a preset's domains that learns from an ensemble by Eq. 1, with gamma and delta;
    its term of attention is left out where that cannot be read.

    With the ``place`` of a file it learns what the ensemble says of the questions there too, in as many steps more as
    ``training.epochs`` over these take. Raises DataError.
    """
    domains, others = list(preset.data.domains), {}
    if place:
        others = {"unlabelled": unlabelled_fingerprint(preset.data, place), "place": place}
        windows = len(spans.windows_over(preset, load_unlabelled(preset.data, place).examples))
        steps += round(preset.training.epochs * windows / preset.training.batch_size)
    delta = attention_weight if attention_weight and has_attention(preset) else 0.0
    return DistilledReader(
        preset=preset,
        label=f"{label}, seed {seed}",
        domains=domains,
        members=[member.key for member in members],
        seed=seed,
        steps=steps,
        settings=spans.fit_settings(preset, domains),
        temperature=temperature,
        top_k=top_k,
        attention=delta > 0,
        terms=term_weights(temperature, answer_weight, delta),
        **others,
    )


def new_reader(preset: Preset, kind: Kind, seed: int) -> nn.Module:
    """A reader that is not trained yet."""
    if kind == "RMR":
        return make_reader(load_tokenizer(preset.encoder), seed, **preset.mnemonic.model())
    return spans.new_reader(preset, seed)


@cache
def has_attention(preset: Preset) -> bool:
    """Whether the attention of the preset's readers can be matched. Raises EncoderError where these cannot be made."""
    model = spans.new_reader(preset, 0)
    try:
        attention_of(model)
    except EncoderError:
        return False
    return True


def term_weights(temperature: float, answer: float, attention: float) -> dict[str, float]:
    """The terms of Eq. 1 with their weights, those above 0: CE; KD, whose lambda is tau squared, to scale the gradients
    (section 2.2); ANS, gamma; ATT, delta."""
    weights = {"CE": 1.0, "KD": temperature**2, "ANS": answer, "ATT": attention}
    return {name: weight for name, weight in weights.items() if weight}


def joint_loss(weights: Mapping[str, float], temperature: float, smoothing: float = 0.0) -> Loss:
    """Eq. 1, with those of its terms CE, KD, ANS and ATT that have a weight; each a mean over the windows. CE may be of
    smoothed labels."""

    def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        student = output.start_logits, output.end_logits
        terms = {}
        if "CE" in weights:
            terms["CE"] = spans.loss(output, batch, progress, smoothing)["likelihood"]
        if "KD" in weights:
            teacher = batch["teacher_start"], batch["teacher_end"]
            terms["KD"] = losses.soft_cross_entropy(student, teacher, batch["attention_mask"], temperature).mean()
        if "ANS" in weights:
            gold, confusing = ((batch[f"{which}start"], batch[f"{which}end"]) for which in ("", "teacher_confusing_"))
            terms["ANS"] = losses.confusion_margin(student, gold, confusing).mean()
        if "ATT" in weights:
            terms["ATT"] = losses.attention_distance(output.attention, batch["teacher_attention"]).mean()
        return {name: weights[name] * term for name, term in terms.items()}

    return loss


def teacher_of(batches: Batches, stored: Mapping[str, Tensor], terms: Iterable[str]) -> StoredTeacher:
    """A teacher that says what the terms of Eq. 1 read of an ensemble's knowledge."""
    sides = ("start", "end")
    softened = {side: stored[side] for side in sides if "KD" in terms}
    confusing = {f"confusing_{side}": stored[f"confusing_{side}"].long() for side in sides if "ANS" in terms}
    attention = {"attention": stored["attention"]} if "ATT" in terms else {}
    return StoredTeacher(batches.tensors, of_sequences=confusing, of_tokens=softened, of_pairs=attention)
