"""Presets: TOML files read into strict models. An unknown key, a wrong type or a value out of range is an error."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

import pydantic
import torch

from helpers import paths

NAMES = ("smoke", "mini", "lab", "paper")


class PresetError(ValueError):
    """A preset that cannot be used; the message names file and key."""


# It names folders and is part of cache keys.
DomainName = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)


class Adversarial(_Strict):
    """Adversarial questions for the readers of one domain: two files below the data's folder, or two datasets on the
    Hub (dataset:configuration); the miniature world has its own."""

    domain: str
    AddSent: str = ""
    AddOneSent: str = ""


class Data(_Strict):
    """Where the domains come from. Sizes count questions; 0 takes all there are."""

    source: Literal["mini", "files", "hub"]
    folder: str = ""  # source "files": one subfolder a domain
    domains: dict[DomainName, str]  # name -> miniature domain, subfolder or Hub name
    narrative: str = ""  # A2D's Table 3, free answers: miniature "stories", NarrativeQA's subfolder or its Hub name
    train_size: int = pydantic.Field(0, ge=0)
    train_share: float = pydantic.Field(1.0, gt=0, le=1)  # of each domain's training questions, as some are larger
    valid_size: int = pydantic.Field(300, ge=1)
    test_size: int = pydantic.Field(0, ge=0)
    seed: int = 0
    adversarial: Adversarial | None = None

    @pydantic.model_validator(mode="after")
    def _adversarial_fits(self) -> Self:
        given = self.adversarial
        if given and given.domain not in self.domains:
            raise ValueError(f"adversarial.domain is {given.domain!r}, but there are {', '.join(self.domains)}")
        if given and self.source != "mini" and not (given.AddSent and given.AddOneSent):
            raise ValueError("adversarial needs both AddSent and AddOneSent")
        return self


class Windowing(_Strict):
    """How passages are cut; lengths in tokens."""

    max_length: int = pydantic.Field(384, ge=16)
    stride: int = pydantic.Field(128, ge=1)
    stride_is: Literal["step", "overlap"] = "step"
    max_question: int = pydantic.Field(64, ge=4)
    empty_windows: float = pydantic.Field(1.0, ge=0, le=1)  # share kept, in training, of windows without the answer


class Training(_Strict):
    """One training. A batch is ``batch_size`` windows, cut into ``accumulate`` forward passes."""

    learning_rate: float = pydantic.Field(gt=0)
    batch_size: int = pydantic.Field(ge=1)
    epochs: float = pydantic.Field(gt=0)
    warmup: float = pydantic.Field(0.1, ge=0, lt=1)  # share of the steps
    weight_decay: float = pydantic.Field(0.01, ge=0)
    clip: float = pydantic.Field(1.0, gt=0)  # largest norm of the gradient
    evaluations: int = pydantic.Field(4, ge=1)  # on the validation set, evenly spaced, the last at the end
    accumulate: int = pydantic.Field(1, ge=1)
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 where the hardware is fast at it
    checkpoint_minutes: float = pydantic.Field(5.0, ge=0)


class Answers(_Strict):
    """How logits become answers."""

    n_best: int = pydantic.Field(20, ge=1)
    max_tokens: int = pydantic.Field(30, ge=1)


class Engine(_Strict):
    """How trainings run here. 0 processes: as many as there are cores for, with ``threads`` each; one on a GPU."""

    processes: int = pydantic.Field(0, ge=0)
    threads: int = pydantic.Field(1, ge=0)  # of each process; 0 takes all cores


class Imm(_Strict):
    """IMM's switches (Liu et al. 2020); the defaults are the paper's, or the released code's where it is silent."""

    rounds: int = pydantic.Field(3, ge=1)  # K of Tables 1 and 2
    ablation_rounds: int = pydantic.Field(3, ge=1)  # K of Table 3
    curve: int = pydantic.Field(6, ge=1)  # the largest K of Figure 3
    kd_space: Literal["gold", "probabilities", "logits"] = "gold"  # what is compared with the teacher's (Eqs. 5, 9)
    similarity: Literal["tf-idf", "uniform", "measured", "released"] = "tf-idf"  # s_ij of Eq. 7
    annealing: Literal["linear", "constant"] = "linear"  # lambda of Eqs. 6 and 11: 0 to 1, or 1/2
    multi_domain_start: Literal["encoder", "theta"] = "encoder"  # what phi is initialised with (Algorithm 1, line 5)
    teach_multi_domain: bool = True  # False: -KD1, Eq. 6 without its divergence
    teach_target: bool = True  # False: -KD2, Eq. 11 without its divergence


OF_TRAINING = ("learning_rate", "clip", "batch_size", "epochs")  # what Mnemonic says of a training


class Mnemonic(_Strict):
    """The reader RMR, made new for every training; the defaults are those of its paper (Hu et al. 2018, IJCAI-18)."""

    word_width: int = pydantic.Field(300, ge=1)
    letter_width: int = pydantic.Field(50, ge=2)
    hidden: int = pydantic.Field(100, ge=1)  # of one direction
    blocks: int = pydantic.Field(3, ge=1)  # aligning layers
    reattention: bool = True  # False, with fusion = "tanh": the earlier version of the paper
    fusion: Literal["relu", "tanh"] = "relu"
    gamma: float = 3.0  # weight of the reattention, where it starts
    dropout: float = pydantic.Field(0.3, ge=0, lt=1)
    glove: str = ""  # a text file of GloVe vectors of word_width; empty: all are learned
    learning_rate: float = pydantic.Field(8e-4, gt=0)
    clip: float = pydantic.Field(5.0, gt=0)
    batch_size: int = pydantic.Field(0, ge=0)  # 0: as in [training]
    epochs: float = pydantic.Field(0.0, ge=0)  # 0: as in [training]

    def training(self, training: Training) -> Training:
        """How RMR is trained where an encoder is trained by ``training``: without weight decay."""
        own = {name: getattr(self, name) for name in OF_TRAINING}
        return training.model_copy(update={k: v for k, v in own.items() if v} | {"weight_decay": 0.0})

    def of_the_model(self) -> dict:
        """The settings of the reader itself."""
        return self.model_dump(exclude=set(OF_TRAINING))


class A2d(_Strict):
    """A2D's settings (Hu et al. 2018); the defaults are the paper's, section 4.2."""

    members: int = pydantic.Field(12, ge=2)  # readers of the ensemble
    temperature: float = pydantic.Field(2.0, gt=0)  # tau; its square weighs L_KD
    answer_weight: float = pydantic.Field(0.3, ge=0)  # gamma, of L_ANS
    attention_weight: float = pydantic.Field(0.1, ge=0)  # delta, of L_ATT
    top_k: int = pydantic.Field(4, ge=1)  # answers of each member among which the confusing one is looked for


class Preset(_Strict):
    """All settings of one run; ``encoder`` is a folder (absolute, or from the repository's root) or a Hub name."""

    name: str = pydantic.Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    seeds: int = pydantic.Field(ge=1, le=100)
    encoder: str
    random_layers: int = pydantic.Field(0, ge=0)  # more than 0: that many layers with random weights instead
    data: Data
    windows: Windowing
    training: Training
    answers: Answers = Answers()
    engine: Engine = Engine()
    imm: Imm = Imm()
    mnemonic: Mnemonic = Mnemonic()
    a2d: A2d = A2d()
    cpu: dict[str, pydantic.JsonValue] = {}  # "section.key" = value where there is no GPU; loaded, what applied

    def without_gpu(self) -> list[str]:
        """What applied because there was no GPU, a note each."""
        return [f"{key} = {value} because there was no GPU" for key, value in self.cpu.items()]


def load(preset: str, *topics: str, **overrides: object) -> Preset:
    """The preset called ``preset`` (a name, or the path of a TOML file) with ``section.key`` overrides.

    First apply the preset's ``[papers.<topic>]`` tables, in the order given, and, where there is no GPU, ``[cpu]`` and
    ``[papers.<topic>.cpu]``. Raises PresetError.
    """
    path = paths.PRESETS / f"{preset}.toml" if preset in NAMES else Path(preset)
    if not path.is_file():
        raise PresetError(f"no preset {preset!r}: give one of {', '.join(NAMES)} or the path of a TOML file")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PresetError(f"{path.name}: not valid TOML: {error}") from None
    if path.parent != paths.PRESETS and values.get("name") in NAMES:
        raise PresetError(f"{path.name}: the name {values['name']!r} is taken, and names the results; give it another")
    papers, on_cpu = values.pop("papers", {}), _flat(values.pop("cpu", {}))
    for topic in topics:
        table = {**papers.get(topic, {})}
        on_cpu |= _flat(table.pop("cpu", {}))  # what a paper says for itself wins
        values = _changed(values, _flat(table))
    if overrides.get("data.train_size"):  # who asks for so many questions means so many
        overrides = {"data.train_share": 1.0, **overrides}
    applied = {key: value for key, value in on_cpu.items() if key not in overrides}
    try:
        without_gpu = Preset(**_changed(values, {**applied, **overrides}), cpu=applied)
        return without_gpu if not torch.cuda.is_available() else Preset(**_changed(values, overrides))
    except pydantic.ValidationError as error:
        raise PresetError(f"{path.name}: {_explain(error)}") from None
    except TypeError:
        raise PresetError(f"{path.name}: a section is no table; write it as [section] with keys below it") from None


def _flat(table: dict, prefix: str = "") -> dict[str, object]:
    """{"training": {"epochs": 1}} and {"training.epochs": 1} alike as the latter. Domains stay a table."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        inner = isinstance(value, dict) and prefix + key != "data.domains"
        flat |= _flat(value, f"{prefix}{key}.") if inner else {prefix + key: value}
    return flat


def _changed(values: dict, changes: dict[str, object]) -> dict:
    """A copy of nested ``values`` with each "section.key" of ``changes`` replaced."""
    changed = copy.deepcopy(values)
    for key, value in changes.items():
        *sections, last = key.split(".")
        place = changed
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return changed


def _explain(error: pydantic.ValidationError) -> str:
    lines = []
    for one in error.errors():
        key = ".".join(str(part) for part in one["loc"])
        unknown = one["type"] == "extra_forbidden"
        lines.append(f"{key}: " + ("unknown key" if unknown else f"{one['msg']} (got {one['input']!r})"))
    return "; ".join(lines)
