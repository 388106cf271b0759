"""The sections of a preset as strict models, a class each.

Defaults of a paper's section are the paper's or released code's; sections and equations are the paper's."""

import unicodedata
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import pydantic
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from helpers import paths

# The sections that name examples, with the notebooks' parameter for the folder of each.
EXAMPLES = {"data": "data_dir", "mnli": "mnli_dir", "reviews": "reviews_dir", "tasks": "tasks_dir"}
GENERAL = "general"  # the domain of questions that readers learn before all others
ADVERSARIAL = ("AddSent", "AddOneSent")  # sets of adversarial questions
LONGEST_NAME = 80  # bytes of a domain's name: it is part of the names of folders


class Settings(pydantic.BaseModel):
    """One section of a preset: unknown keys, wrong types and later changes are errors."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def __hash__(self) -> int:
        return hash(repr(self))  # what is loaded is cached by it, and domains are a dict, which has no hash


Dropout = Annotated[float, Field(ge=0, lt=1)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]


def is_word(char: str) -> bool:
    """Return whether a character can be in a domain's name: a letter or digit of any script, - or _."""
    return char in "-_" or unicodedata.category(char)[0] in "LMN"  # some scripts write vowels as marks


def _domain_name(name: str) -> str:
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(f"the name {name!r:.100} is too long: give the domain a name of at most {LONGEST_NAME} bytes")
    if not (name[:1].isalnum() and all(map(is_word, name))):
        problem = "has a space" if " " in name else "cannot be used"
        raise ValueError(f"the name {name!r:.100} {problem}: give the domain a name of letters, digits, - and _")
    return name  # it names a folder


Source = Literal["mini", "files", "hub"]  # where examples come from, a module of helpers/data each
GENERATED = {"mini"}  # sources that generate all parts for each draw, and their own adversarial questions
DomainName = Annotated[str, pydantic.AfterValidator(_domain_name)]
FileName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]  # in the folder of downloads


class File(Settings):
    """A file by URL. Without a checksum, whatever arrives is accepted."""

    url: str = Field(pattern=r"^https?://")
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    members: dict[FileName, str] = Field({})  # what is taken out of a .zip or .tar.gz: name here = path inside


class Download(Settings):
    """A corpus to download: files by URL, whose names say their part, or a dataset on the Hub at one revision."""

    rows: dict[str, PositiveInt] = Field({})  # how many have to arrive, by split
    files: dict[FileName, File] = Field({})  # by the names that they get here
    revision: str = Field("", pattern=r"^([0-9a-f]{40})?$")  # commit of a dataset on the Hub
    columns: list[str] = Field([])  # of a dataset on the Hub
    words: PositiveInt = 20  # of a passage, on average, to plan with
    size: str = ""  # of the download
    licence: str = ""

    @pydantic.model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if bool(self.files) == bool(self.revision and self.columns):
            raise ValueError("give either files, or a revision and columns")
        return self


class DatasetSettings(Settings):
    """Examples, and the seed that draws them. Sizes count examples; 0 takes all there are.

    Each seed has its own data. What is generated is drawn as a whole. Of files and of the Hub's datasets nothing is
    drawn without a ``train_size``. With one the training part is drawn, and so is a validation part that is sampled or
    taken from the training part. Their test parts never change."""

    names: ClassVar[str] = "domains"  # the key that names them
    is_required: ClassVar[bool] = False
    seed: int = 0
    draw: NonNegativeInt = 0  # each seed of a run has its own
    folder: str = ""  # of files
    downloads: dict[str, Download] = Field({})  # the corpora that are downloaded, by name
    train_size: NonNegativeInt = 0
    valid_size: NonNegativeInt = 0
    test_size: NonNegativeInt = 0

    @property
    def is_generated(self) -> bool:
        return self.source in GENERATED

    @property
    def drawn_by(self) -> int:
        return self.seed + self.draw

    @property
    def named(self) -> dict[str, str]:
        """Where each domain, or task, is, by its name."""
        return getattr(self, self.names)

    @property
    def has_source(self) -> bool:
        """Whether the preset says where they are, or has to."""
        return self.is_required or bool(self.named and (self.source != "files" or self.folder or self.downloads))


class AdversarialSettings(Settings):
    """Adversarial questions for the readers of one domain, as files below the data's folder or downloads by name.

    Those that are generated need neither."""

    domain: str
    AddSent: str = ""
    AddOneSent: str = ""

    @property
    def places(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in ADVERSARIAL}


class DataSettings(DatasetSettings):
    """Questions about passages, by domain."""

    is_required: ClassVar[bool] = True
    is_labelled: ClassVar[bool] = True  # whether answers are read
    source: Source
    domains: dict[DomainName, str] = Field(min_length=1)  # name = miniature domain, subfolder or Hub name
    narrative: str = ""  # free answers: miniature stories, or the folder or Hub name of NarrativeQA
    train_share: Share = 1.0  # of each domain's training questions
    valid_size: PositiveInt = 300
    conventions: bool = False  # whether miniature domains disagree about what an answer includes
    unanswerable: bool | list[str] = False  # whether questions of all domains, or of which, may have no answer
    unlabelled: str = ""  # folder of further questions, whose answers are not read; teachers answer them
    adversarial: AdversarialSettings | None = None
    reject: Literal["stop", "count"] = "stop"  # rejected records of a downloaded corpus: up to 1 % may be counted

    def may_be_unanswerable(self, domain: str) -> bool:
        return self.unanswerable if isinstance(self.unanswerable, bool) else domain in self.unanswerable

    @pydantic.model_validator(mode="after")
    def _names_are_domains(self) -> Self:
        adversarial, none_of = self.adversarial, f"which is none of the domains {', '.join(self.domains)}"
        if adversarial and adversarial.domain not in self.domains:
            problem = f"adversarial.domain is {adversarial.domain!r}, {none_of}"
            raise ValueError(f"{problem}; correct it, or delete the section [data.adversarial]")
        if adversarial and not self.is_generated and not all(adversarial.places.values()):
            raise ValueError("adversarial needs both AddSent and AddOneSent; give both, or delete the section")
        if isinstance(self.unanswerable, list) and (unknown := set(self.unanswerable) - {*self.domains, GENERAL}):
            raise ValueError(f"unanswerable lists {min(unknown)!r}, {none_of}")
        return self


class UnlabelledSettings(DataSettings):
    """Questions whose answers are not read, even if files have them."""

    is_labelled: ClassVar[bool] = False


class TextsSettings(DatasetSettings):
    """Texts, or pairs of them, with a label, by domain."""

    source: Source = "files"
    domains: dict[DomainName, str] = Field({})  # name = miniature domain, subfolder, file or Hub name
    labels: list[str] = Field([])  # their names, in the order of their numbers
    # How files without parts are split: each by content, or all together as Meta-KD does.
    split: Literal["content", "joint"] = "content"
    train_share: Share = 1.0  # of each domain's training texts, from the front
    max_length: int = Field(128, ge=8)  # tokens of a text or pair


class TasksSettings(DatasetSettings):
    """The tasks of a multi-task model, but for questions about passages: those are in [data]."""

    names: ClassVar[str] = "tasks"
    source: Source = "files"
    tasks: dict[DomainName, str] = Field({})  # name = miniature task, FORMAT:place below the folder, or Hub name
    unlabelled_size: NonNegativeInt = 0  # texts without a label per task
    max_length: int = Field(128, ge=8)  # tokens of a text, a pair, or a context with an ending


class WindowSettings(Settings):
    """How passages are cut into windows; lengths in tokens."""

    max_length: int = Field(384, ge=16)
    stride: PositiveInt = 128
    stride_is: Literal["step", "overlap"] = "step"
    max_question: int = Field(64, ge=4)
    empty_windows: float = Field(1.0, ge=0, le=1)  # share of training windows without the answer that are kept


class TrainingSettings(Settings):
    """How a training is optimised. A batch is ``batch_size`` windows or texts, for a classifier over domains as many
    per domain, in ``accumulate`` forward passes. ``warmup`` is a share of the steps, ``clip`` the largest norm of the
    gradient. ``evaluations`` on validation examples are evenly spaced, the last at the end. "auto" is bf16 if fast."""

    optimizer: Literal["adamw", "adamax"] = "adamw"
    learning_rate: PositiveFloat
    batch_size: PositiveInt
    epochs: PositiveFloat
    warmup: float = Field(0.1, ge=0, lt=1)
    weight_decay: NonNegativeFloat = 0.01
    clip: PositiveFloat = 1.0
    evaluations: PositiveInt = 4
    accumulate: PositiveInt = 1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    checkpoint_minutes: NonNegativeFloat = 5.0


class AnswerSettings(Settings):
    """How logits become answers."""

    n_best: PositiveInt = 20
    max_tokens: PositiveInt = 30


class EngineSettings(Settings):
    """How and where trainings run: in processes here, or on the nodes of a Ray cluster. No key depends on it. On a
    CPU no result does, except that another number of threads may round otherwise; on a GPU graphs pad to other lengths,
    so dropout draws other numbers."""

    kind: Literal["local", "ray"] = "local"
    processes: NonNegativeInt = 0  # 0: one per GPU, or as many as there are cores for, with ``threads`` each
    threads: NonNegativeInt = 1  # per training; 0: those that run at once share all cores, on Ray one
    address: str = ""  # of the Ray cluster; empty: Ray on this machine
    gpus: NonNegativeFloat = 0.0  # per training on Ray, such as 0.5
    graphs: bool = True  # on a GPU: a step is one CUDA graph where it can be
    mps: bool = True  # local processes that share a GPU compute at once by NVIDIA's MPS, where it is installed
    keep: Literal["all", "results"] = "all"  # results: weights and logits that only later trainings need are deleted
    deterministic: bool = False  # on a GPU: two runs give the same digits
    first_seed: NonNegativeInt = 0  # of those that this run trains; a record that is there keeps the scores of others
    max_seeds: NonNegativeInt = 0  # that this run trains; 0: all up to the preset's last


# --- the papers' methods --------------------------------------------------------------------------------------------


class ImmSettings(Settings):
    """IMM (Liu et al. 2020)."""

    max_rounds: PositiveInt = 3  # K, the largest number of rounds, of all tables
    ablations: list[Literal["-SIMI", "-KD1", "-KD2", "-KD1, KD2"]] = []  # rows of Table 3 beside IMM; none: all
    figure3_max_rounds: PositiveInt = 6  # the largest K of Figure 3
    divergence: Literal["gold", "probabilities", "logits"] = "gold"  # what is matched of a teacher (Eqs. 5, 9)
    similarity: Literal["tf-idf", "uniform", "equal"] = "tf-idf"  # s_ij of Eq. 7: uniform is 1, equal is 1/(N - 1)
    num_source_domains: NonNegativeInt = 0  # number of most similar domains that phi learns from; 0: all
    annealing: Literal["linear", "half", "constant"] = "linear"  # lambda (Eqs. 6, 11): 0 to 1, 1/2 to 1, or 1/2
    new_order: bool = True  # whether the order of questions is new in every round
    steps: Literal["equal", "epochs"] = "epochs"  # epochs over a reader's own questions, or equal for all readers
    multi_domain_start: Literal["encoder", "theta"] = "encoder"  # what phi starts from (Algorithm 1, line 5)
    teach_multi_domain: bool = True  # False: -KD1, Eq. 6 without its divergence
    teach_target: bool = True  # False: -KD2, Eq. 11 without its divergence


TRAINING = {"learning_rate", "clip", "batch_size", "epochs"}  # RMR's settings of its training


class MnemonicSettings(Settings):
    """The reader RMR, which starts from nothing in every training (Hu et al. 2018, IJCAI-18)."""

    word_width: PositiveInt = 300
    letter_width: int = Field(50, ge=2)
    hidden: PositiveInt = 100  # width of one direction
    blocks: PositiveInt = 3  # aligning layers
    gamma: float = 3.0  # initial weight of the reattention
    dropout: Dropout = 0.3
    glove: str = ""  # text file of GloVe vectors of word_width; empty: all are learned
    learning_rate: PositiveFloat = 8e-4
    clip: PositiveFloat = 5.0
    batch_size: NonNegativeInt = 0  # 0: as in [training]
    epochs: NonNegativeFloat = 0.0  # 0: as in [training]

    def training(self) -> dict:
        """Return what RMR changes of the section [training]; it has no weight decay."""
        changes = self.model_dump(include=TRAINING)
        return {name: value for name, value in changes.items() if value} | {"weight_decay": 0.0}

    def model(self) -> dict:
        return self.model_dump(exclude=TRAINING)


class A2dSettings(Settings):
    """A2D (Hu et al. 2018, section 4.2)."""

    rmr: bool = True  # whether RMR is trained; without it BERT stands in its place
    members: int = Field(12, ge=2)  # readers of an ensemble
    students: PositiveInt = 1  # of an ensemble, in Tables 1 and 2, which average over them
    temperature: PositiveFloat = 2.0  # tau; its square weighs L_KD
    answer_weight: NonNegativeFloat = 0.3  # gamma, the weight of the answer loss L_ANS
    attention_weight: NonNegativeFloat = 0.1  # delta, the weight of the attention loss L_ATT
    top_k: PositiveInt = 4  # best answers of a member, in whole words, among which is the confusing one
    lengths: list[PositiveFloat] = Field([])  # of a curve, ours: trainings, as multiples of the steps of the tables'
    member_counts: list[PositiveInt] = Field([])  # of a curve, ours
    temperatures: list[PositiveFloat] = Field([])  # of a curve, ours


class HrkdSettings(Settings):
    """HRKD (Dong et al. 2021). Its teachers train by the section [training]."""

    mnli_student: str = ""  # folder or Hub name of the student's encoder on MNLI; empty: layers of the teacher
    reviews_student: str = ""  # the same on Amazon Reviews
    student_layers: PositiveInt = 4  # number of the teacher's layers, at even distance, where a student is empty
    mnli_epochs: PositiveFloat = 10.0  # of a student on MNLI
    reviews_epochs: PositiveFloat = 10.0
    mnli_learning_rate: PositiveFloat = 1e-3
    reviews_learning_rate: PositiveFloat = 5e-4
    gamma: NonNegativeFloat = 1.0  # weight of the prediction loss (Eqs. 5, 17)
    temperature: PositiveFloat = 1.0  # t of Eq. 2
    heads: PositiveInt = 8  # K of Eq. 9, heads of a graph's first layer
    graph_width: PositiveInt = 768  # F' of Eq. 7, width of a head
    padding: bool = True  # whether padding counts in means, as in the released code
    few_shot: Literal["mnli", "reviews"] = "mnli"  # the corpus of Figure 2
    shares: list[Share] = Field([0.02, 0.05, 0.1, 0.2], min_length=1)  # of the training texts, for Figure 2
    corruption_weight: PositiveFloat = 0.5  # beta of Meta-KD, weight of the domain corruption


class MtDnnKdSettings(Settings):
    """MT-DNN with distillation (Liu et al. 2019, section 4.1). Its models train by the section [training]."""

    models: PositiveInt = 6  # MT-DNNs that the members of the ensembles are chosen from
    members: PositiveInt = 3  # models of an ensemble
    dropouts: list[Dropout] = Field([0.1, 0.2, 0.3], min_length=1)  # of the models' encoders, in turn
    head_dropout: Dropout = 0.1  # of the task layers
    head_dropouts: dict[str, Dropout] = Field({"MNLI": 0.3, "CoLA": 0.05, "SST-2": 0.05})  # of single tasks' layers
    taught: list[str] = Field(["MNLI", "QQP", "RTE", "QNLI"])  # tasks with an ensemble as teacher
    chosen_by: list[str] = Field(["MNLI", "RTE"])  # tasks on whose validation parts members are chosen
    kd_weight: float = Field(0.5, ge=0, le=1)  # weight of the soft targets, the teachers' probabilities
    tuning_epochs: PositiveFloat = 5.0  # of the training on one task after all together
    tuning_learning_rate: NonNegativeFloat = 0.0  # of that training; 0: as in [training]


class MtDnnSettings(Settings):
    """MtDNN for SQuAD 2.0 (He 2019, sections 4.3 and 4.4). Its models train by the section [training]."""

    question_probs: list[Probability] = Field([0.5, 0.7, 0.8, 0.9])  # that the next batch is of questions, for Table 1
    question_prob: Probability = 0.8  # that a batch is of questions, for Tables 2, 3
    dropout: Dropout = 0.3  # of encoder and heads
    large: str = ""  # folder or Hub name of the larger encoder of Table 3; empty: no Table 3


# --- all of them ------------------------------------------------------------------------------------------------------


class Preset(Settings):
    """All settings of a run."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    seeds: int = Field(ge=1, le=100)
    # Seeds of rows that no claim compares, and of some controls; 0: without these rows, and without any controls.
    control_seeds: NonNegativeInt = 100
    methods: str = "all"  # that notebook 18 compares, such as "Mix IMM"; Single is always among them
    train_shares: list[PositiveFloat] = []  # of the training questions, for notebook 18's learning curve
    trainings: str = Field("", pattern=r"^[a-z0-9_-]*$")  # preset with which it shares what is trained
    encoder: str  # folder (absolute, or from the repository's root) or Hub name
    random_layers: NonNegativeInt = 0  # more than 0: that many layers with random weights instead
    teacher: str = ""  # trained readers that teach: folders or Hub names, separated by spaces
    teacher_temperature: PositiveFloat = 1.0  # of what they teach; its square weighs it beside the answers
    # Questions that every reader learns first (not in the papers): a miniature domain, or a file, folder or download.
    warmup_data: str = ""
    warmup_size: NonNegativeInt = 0  # of its training questions; 0: all
    warmup_control_size: NonNegativeInt = 0  # of a control (IMM's Table 1); 0: without it
    warmup_epochs: NonNegativeFloat = 0.0  # 0: as in [training]
    warmup_per_seed: bool = False  # whether each seed draws them anew and trains its own reader of them (in IMM alone)
    # Content of local copies that count as the preset's own, by its name for an encoder, file or folder.
    copies: dict[str, Annotated[str, Field(pattern="^[0-9a-f]{16}$")]] = Field({})
    untested: dict[str, str] = Field({})  # by paper or record: why its claims cannot be tested (docs/regimes.md)
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

    @property
    def models(self) -> Path:
        return paths.models(self.trainings or self.name)

    @property
    def seed_numbers(self) -> range:
        """The seeds that a run trains; from an ``engine.first_seed`` behind the preset's last on, further ones."""
        first, most = self.engine.first_seed, self.engine.max_seeds
        last = self.seeds if first < self.seeds else first + most
        return range(first, min(last, first + most) if most else last)

    @pydantic.model_validator(mode="after")
    def _has_seeds(self) -> Self:
        if not self.seed_numbers:
            raise ValueError(f"engine.first_seed: expected at most {self.seeds - 1}; lower it, or set engine.max_seeds")
        return self

    @property
    def has_controls(self) -> bool:
        """Whether controls have any of the seeds that a run trains."""
        return self.control_seeds > self.engine.first_seed

    def for_controls(self) -> Self | None:
        """Return the preset with at most ``control_seeds`` seeds; None where these leave none to train."""
        if not self.has_controls:
            return None
        return self.model_copy(update={"seeds": min(self.seeds, self.control_seeds)})

    def for_seed(self, seed: int) -> Self:
        """Return the preset of one seed, which is added to the draw of what is drawn (see `DatasetSettings`)."""
        preset = self
        for name in EXAMPLES:
            section = getattr(self, name)
            if section.is_generated or section.train_size:
                preset = preset.changed(name, draw=section.draw + seed)
        return preset

    def reason_untested(self, artefact: str) -> str:
        """Return why the claims of a record cannot be tested with these settings; "" where they can."""
        return self.untested.get(artefact) or self.untested.get(artefact.partition("/")[0], "")

    def changed(self, section: str, **values: object) -> Self:
        """Return the preset with other values of one section, such as ``changed("imm", max_rounds=1)``."""
        return self.model_copy(update={section: getattr(self, section).model_copy(update=values)})
