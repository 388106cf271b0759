"""The sections of a preset as strict models."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import pydantic
from pydantic import Field

from helpers import paths
from helpers.presets.downloads import Download
from helpers.presets.papers import (
    A2dSettings,
    HrkdSettings,
    ImmSettings,
    MnemonicSettings,
    MtDnnKdSettings,
    MtDnnSettings,
    Settings,
)

GENERAL = "general"  # the domain of questions that readers learn before all others


def domain_name(name: str) -> str:
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]*", name):
        says = "has a space" if " " in name else "cannot be used"
        raise ValueError(f"the name {name!r} {says}: give the domain a name of letters, digits, - and _")
    return name  # it names folders and is part of cache keys


DomainName = Annotated[str, pydantic.AfterValidator(domain_name)]


def _names(value: object) -> object:
    if isinstance(value, str):  # as on the command line
        return value.split()
    if not isinstance(value, bool | list):
        raise ValueError(f"give true, false, or a list of domains, not {value!r:.80}")
    return value


class AdversarialSettings(Settings):
    """Adversarial questions for the readers of one domain: two files below the data's folder, or two datasets on the
    Hub (dataset:configuration); the miniature world has its own."""

    domain: str
    AddSent: str = ""
    AddOneSent: str = ""


class Drawn(Settings):
    """Examples that are drawn by a seed: of the miniature world all parts; of files and of the Hub's datasets the
    training part where it is cut, and the validation part where it is taken from it. Test parts are those of draw 0."""

    names: ClassVar[str] = "domains"  # the key that names them
    is_required: ClassVar[bool] = False
    seed: int = 0
    draw: int = Field(0, ge=0, description="number of the draw; a run's seeds have one each")

    @property
    def drawn_by(self) -> int:
        """The seed of what is drawn."""
        return self.seed + self.draw

    @property
    def named(self) -> dict[str, str]:
        """Where each domain, or task, is, by its name."""
        return getattr(self, self.names)

    @property
    def is_given(self) -> bool:
        """Whether the preset says where they are, or has to."""
        return self.is_required or bool(self.named and (self.source != "files" or self.folder))


class DataSettings(Drawn):
    """Where the domains come from. Sizes count questions; 0 takes all there are."""

    is_required: ClassVar[bool] = True
    source: Literal["mini", "files", "hub"]
    folder: str = Field("", description="folder with one subfolder a domain, for preset lab")
    domains: dict[DomainName, str] = Field(min_length=1, description="name = miniature domain, subfolder or Hub name")
    narrative: str = Field("", description="free answers: miniature stories, or the folder or Hub name of NarrativeQA")
    train_size: int = Field(0, ge=0, description="training questions a domain; 0: all")
    train_share: float = Field(1.0, gt=0, le=1, description="of each domain's training questions")
    valid_size: int = Field(300, ge=1)
    test_size: int = Field(0, ge=0, description="test questions a domain; 0: all")
    conventions: bool = Field(False, description="whether miniature domains disagree about what an answer holds")
    unanswerable: Annotated[bool | list[str], pydantic.BeforeValidator(_names)] = Field(
        False, description="whether questions may have no answer, as in SQuAD 2.0: of all domains, or of those named"
    )
    adversarial: AdversarialSettings | None = None
    downloads: dict[str, Download] = Field({}, description="what is known of corpora that are downloaded, by name")

    def may_be_unanswerable(self, domain: str) -> bool:
        """Whether a question of ``domain`` may have no answer."""
        return self.unanswerable if isinstance(self.unanswerable, bool) else domain in self.unanswerable

    @pydantic.model_validator(mode="after")
    def _domains_are_there(self) -> Self:
        given, names = self.adversarial, ", ".join(self.domains)
        if given and given.domain not in self.domains:
            raise ValueError(
                f"adversarial.domain is {given.domain!r}, which is none of the domains {names}; correct it, or delete "
                "the section [data.adversarial]"
            )
        if given and self.source != "mini" and not (given.AddSent and given.AddOneSent):
            raise ValueError("adversarial needs both AddSent and AddOneSent; give both, or delete the section")
        if isinstance(self.unanswerable, list) and (unknown := set(self.unanswerable) - {*self.domains, GENERAL}):
            raise ValueError(f"unanswerable lists {min(unknown)!r}, which is none of the domains {names}")
        return self


class TextsSettings(Drawn):
    """Texts, or pairs of them, with a label, by domain. Sizes count examples; 0 takes all there are."""

    source: Literal["mini", "files", "hub"] = "files"
    folder: str = Field("", description="folder with one subfolder or file a domain, for preset lab")
    domains: dict[DomainName, str] = Field({}, description="name = miniature domain, subfolder, file or Hub name")
    labels: list[str] = Field([], description="the labels' names, in the order of their numbers")
    split: Literal["content", "joint"] = Field(
        "content", description="how files without parts are split: each by content, or all together as Meta-KD does"
    )
    train_size: int = Field(0, ge=0, description="training texts a domain; 0: all")
    train_share: float = Field(1.0, gt=0, le=1, description="of each domain's training texts, from the front")
    valid_size: int = Field(0, ge=0, description="validation texts a domain; 0: all")
    test_size: int = Field(0, ge=0, description="test texts a domain; 0: all")
    max_length: int = Field(128, ge=8, description="tokens of a text or pair")
    downloads: dict[str, Download] = Field({}, description="what is known of corpora that are downloaded, by name")


class TasksSettings(Drawn):
    """The tasks of a multi-task model, but for questions about passages: those are in [data]. Sizes count examples; 0
    takes all there are."""

    names: ClassVar[str] = "tasks"
    source: Literal["mini", "files", "hub"] = "files"
    folder: str = Field("", description="folder with one subfolder or file a task, for preset lab")
    tasks: dict[DomainName, str] = Field({}, description="name = miniature task, FORMAT:place below the folder, or Hub")
    train_size: int = Field(0, ge=0, description="training examples a task; 0: all")
    valid_size: int = Field(0, ge=0, description="validation examples a task; 0: all")
    test_size: int = Field(0, ge=0, description="test examples a task; 0: all")
    train_times: float = Field(1.0, gt=0, description="as many as a miniature task has by itself, so many times")
    unlabelled_size: int = Field(0, ge=0, description="texts without a label a task")
    max_length: int = Field(128, ge=8, description="tokens of a text, a pair, or a context with an ending")
    downloads: dict[str, Download] = Field({}, description="what is known of corpora that are downloaded, by name")


class WindowSettings(Settings):
    """How passages are cut; lengths in tokens."""

    max_length: int = Field(384, ge=16)
    stride: int = Field(128, ge=1)
    stride_is: Literal["step", "overlap"] = "step"
    max_question: int = Field(64, ge=4)
    empty_windows: float = Field(1.0, ge=0, le=1, description="share kept, in training, of windows without the answer")


class TrainingSettings(Settings):
    """One training. A batch is ``batch_size`` windows, cut into ``accumulate`` forward passes."""

    optimizer: Literal["adamw", "adamax"] = "adamw"
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    epochs: float = Field(gt=0)
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps")
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0, description="largest norm of the gradient")
    evaluations: int = Field(4, ge=1, description="on the validation set, evenly spaced, the last at the end")
    accumulate: int = Field(1, ge=1)
    precision: Literal["auto", "fp32", "bf16"] = Field("auto", description="auto: bf16 where it is fast")
    checkpoint_minutes: float = Field(5.0, ge=0)


class AnswerSettings(Settings):
    """How logits become answers."""

    n_best: int = Field(20, ge=1)
    max_tokens: int = Field(30, ge=1)


class EngineSettings(Settings):
    """How and where trainings run: in processes here, or on the nodes of a Ray cluster. 0 processes: as many as there
    are cores for, with ``threads`` each; on GPUs here as many as these are faster with. None of it is part of a cache
    key."""

    kind: Literal["local", "ray"] = "local"
    processes: int = Field(0, ge=0)
    threads: int = Field(1, ge=0, description="of each training; 0: those that run at once share all cores; on Ray one")
    address: str = Field("", description="of the Ray cluster; empty: Ray on this machine")
    shared: bool = Field(True, description="whether all of Ray's nodes see the folder of results, at the same path")
    gpus: float = Field(0.0, ge=0, description="of each training on Ray, such as 0.5")


class Limit(Settings):
    """A number or switch of a shipped preset that is another one where there is no GPU, and why."""

    key: str
    value: bool | int | float
    instead_of: bool | int | float
    why: str

    def in_words(self) -> dict[str, str]:
        """A row of a table."""
        if isinstance(self.value, bool):
            value, instead = str(self.value), str(self.instead_of)
        else:
            value, instead = f"{self.value:g}", f"{self.instead_of:g}" if self.instead_of else "all"
        return {"setting": self.key, "value": value, "instead of": instead, "why": self.why}


class Preset(Settings):
    """All settings of one run. ``limits`` are in force already, and no part of a file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    seeds: int = Field(ge=1, le=100, description="number of seeds")
    own_draws: bool = Field(True, description="whether each seed draws examples of its own, where they are drawn")
    sizes: list[str] = Field([], description="presets that differ in the training examples, to show scores against")
    trainings: str = Field("", pattern=r"^[a-z0-9_-]*$", description="preset with which it shares what is trained")
    encoder: str = Field(description="folder (absolute, or from the repository's root) or Hub name of the encoder")
    random_layers: int = Field(0, ge=0, description="more than 0: that many layers with random weights instead")
    data: DataSettings
    windows: WindowSettings
    training: TrainingSettings
    answers: AnswerSettings = AnswerSettings()
    engine: EngineSettings = EngineSettings()
    imm: ImmSettings = ImmSettings()
    mnemonic: MnemonicSettings = MnemonicSettings()
    a2d: A2dSettings = A2dSettings()
    mnli: TextsSettings = TextsSettings()
    reviews: TextsSettings = TextsSettings()
    hrkd: HrkdSettings = HrkdSettings()
    tasks: TasksSettings = TasksSettings()
    mtdnn_kd: MtDnnKdSettings = MtDnnKdSettings()
    mtdnn: MtDnnSettings = MtDnnSettings()
    limits: tuple[Limit, ...] = ()

    @property
    def models(self) -> Path:
        """The folder of its cached trainings."""
        return paths.models(self.trainings or self.name)

    def drawn(self, seed: int) -> Self:
        """The preset of one seed of a run, the draw of which is so much further on where examples are drawn: those of
        the miniature world, and others where a size cuts the training part."""
        sections = {name: getattr(self, name) for name in ("data", "mnli", "reviews", "tasks") if self.own_draws}
        own = {name: known for name, known in sections.items() if known.source == "mini" or known.train_size}
        return self.model_copy(
            update={name: known.model_copy(update={"draw": known.draw + seed}) for name, known in own.items()}
        )

    def of_general(self, place: str, size: int) -> Self:
        """The preset whose only domain are the questions of one file, ``size`` of them to train on (0: all)."""
        return self.changed("data", domains={GENERAL: place}, train_size=size)

    def changed(self, section: str, **values: object) -> Self:
        """The preset with other values of one section, such as ``changed("imm", rounds=1)``."""
        return self.model_copy(update={section: getattr(self, section).model_copy(update=values)})
