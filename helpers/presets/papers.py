"""What the papers' methods can be told: one section of a preset each. Defaults are the papers', or those of released
code where a paper is silent."""

from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field

OF_TRAINING = ("learning_rate", "clip", "batch_size", "epochs")  # what Mnemonic says of a training


class Settings(pydantic.BaseModel):
    """One section of a preset: unknown keys, wrong types and later changes are errors. Hashable, so that what is loaded
    by it can be kept."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def __hash__(self) -> int:
        return hash(repr(self))  # domains are a dict, which has no hash of its own


def _words(value: object) -> object:
    return value.split() if isinstance(value, str) else value  # as on the command line


Method = Literal["Single", "Mix", "FT", "MS-FT", "MFT", "MS-MFT", "BAM", "IMM"]


class ImmSettings(Settings):
    """IMM's switches (Liu et al. 2020)."""

    rounds: int = Field(3, ge=1, description="K, the largest number of rounds, of Tables 1 and 2")
    ablation_rounds: int = Field(3, ge=1, description="K of Table 3")
    curve: int = Field(6, ge=1, description="the largest K of Figure 3")
    kd_space: Literal["gold", "probabilities", "logits"] = Field(
        "gold", description="what is matched of a teacher (Eqs. 5, 9): gold, probabilities or logits"
    )
    similarity: Literal["tf-idf", "uniform", "equal", "measured", "released"] = Field(
        "tf-idf", description="s_ij of Eq. 7: tf-idf, uniform (1), equal (1/(N - 1)), measured or released"
    )
    sources: int = Field(0, ge=0, description="the most similar domains, which phi learns from; 0: all")
    annealing: Literal["linear", "half", "constant"] = Field(
        "linear", description="lambda of Eqs. 6 and 11: linear (0 to 1), half (1/2 to 1) or constant (1/2)"
    )
    taught_by: Literal["latest", "first", "cross-fitted"] = Field(
        "latest", description="readers of the latest round, of round 0, or readers that did not see the question"
    )
    new_order: bool = Field(True, description="whether the order of questions is new in every round")
    steps: Literal["equal", "epochs"] = Field(
        "epochs", description="of a training's stage: epochs over its own questions, or for all readers as many (equal)"
    )
    controls: bool = Field(False, description="whether rows of ours stand below Tables 1 and 3 and Figure 3")
    other_seeds: int = Field(0, ge=0, description="seeds of those below Table 1 and Figure 3; 0: all")
    multi_domain_start: Literal["encoder", "theta"] = Field(
        "encoder", description="what phi starts from (Algorithm 1, line 5): encoder or theta"
    )
    teach_multi_domain: bool = Field(True, description="False: -KD1, Eq. 6 without its divergence")
    teach_target: bool = Field(True, description="False: -KD2, Eq. 11 without its divergence")
    methods: Annotated[list[Method], pydantic.BeforeValidator(_words)] = Field(
        ["Single", "Mix", "FT", "BAM", "IMM"], description="of one's own domains: methods to choose from, beside Single"
    )
    start: str = Field("", description="of one's own domains: a trained reader to begin as, not an encoder")
    general: str = Field("", description="of one's own domains: file of questions that all learn first")
    teacher: str = Field("", description="of one's own domains: a trained reader, of any kind, to learn from as well")
    temperature: float = Field(2.0, gt=0, description="of what teachers of one's own domains say; its square weighs it")
    ensemble: int = Field(0, ge=0, description="of one's own domains: readers of all that teach another one; 0: none")
    unlabelled: str = Field("", description="of one's own domains: file of questions that the ensemble answers")
    answer_weight: float = Field(0.3, ge=0, description="of the ensemble's confusing answers")
    attention_weight: float = Field(0.1, ge=0, description="of the ensemble's attention")
    top_k: int = Field(4, ge=1, description="answers of its readers among which the confusing one is looked for")
    general_size: int = Field(0, ge=0, description="training questions of that file; 0: all")

    @pydantic.model_validator(mode="after")
    def _somebody_answers(self) -> Self:
        if self.unlabelled and not self.ensemble:
            raise ValueError("unlabelled needs readers that answer its questions: give ensemble too (--ensemble 4)")
        return self


class MnemonicSettings(Settings):
    """The reader RMR, made new for every training (Hu et al. 2018, IJCAI-18)."""

    word_width: int = Field(300, ge=1)
    letter_width: int = Field(50, ge=2)
    hidden: int = Field(100, ge=1, description="width of one direction")
    blocks: int = Field(3, ge=1, description="aligning layers")
    reattention: bool = Field(True, description='False, with fusion = "tanh": the earlier version of the paper')
    fusion: Literal["relu", "tanh"] = "relu"
    gamma: float = Field(3.0, description="weight of the reattention, where it starts")
    dropout: float = Field(0.3, ge=0, lt=1)
    glove: str = Field("", description="text file of GloVe vectors of word_width for RMR; empty: all are learned")
    learning_rate: float = Field(8e-4, gt=0)
    clip: float = Field(5.0, gt=0)
    batch_size: int = Field(0, ge=0, description="0: as in [training]")
    epochs: float = Field(0.0, ge=0, description="0: as in [training]")

    def training(self) -> dict:
        """What RMR changes of the section [training]: it has no weight decay."""
        own = {name: getattr(self, name) for name in OF_TRAINING}
        return {name: value for name, value in own.items() if value} | {"weight_decay": 0.0}

    def model(self) -> dict:
        """The settings of the reader itself."""
        return self.model_dump(exclude=set(OF_TRAINING))


class A2dSettings(Settings):
    """A2D's settings (Hu et al. 2018, section 4.2)."""

    rmr: bool = Field(True, description="whether RMR is trained; without it BERT stands in its place")
    members: int = Field(12, ge=2, description="readers of an ensemble")
    temperature: float = Field(2.0, gt=0, description="tau; its square weighs L_KD")
    answer_weight: float = Field(0.3, ge=0, description="gamma, the weight of the answer loss L_ANS")
    attention_weight: float = Field(0.1, ge=0, description="delta, the weight of the attention loss L_ATT")
    top_k: int = Field(4, ge=1, description="answers of a member among which the confusing one is looked for")
    lengths: list[Annotated[float, Field(gt=0)]] = Field(
        [], description="of trainings, in times the steps of the tables' readers, for curves of ours; empty: none"
    )


class HrkdSettings(Settings):
    """HRKD's settings and switches (Dong et al. 2021). Its teachers train by the section [training]."""

    student: str = Field("", description="folder or Hub name of the student's encoder; empty: layers of the teacher")
    student_layers: int = Field(4, ge=1, description="of the teacher, at even distance, where student is empty")
    one_head: bool = Field(False, description="whether a student has one head for all its domains, not one each")
    epochs: float = Field(10.0, gt=0, description="of a student")
    mnli_learning_rate: float = Field(1e-3, gt=0, description="of a student on MNLI")
    reviews_learning_rate: float = Field(5e-4, gt=0, description="of a student on Amazon Reviews")
    gamma: float = Field(1.0, ge=0, description="weight of the prediction loss (Eqs. 5, 17)")
    temperature: float = Field(1.0, gt=0, description="t of Eq. 2")
    heads: int = Field(8, ge=1, description="K of Eq. 9, heads of a graph's first layer")
    graph_width: int = Field(768, ge=1, description="F' of Eq. 7, width of a head")
    graph_dropout: float = Field(0.0, ge=0, lt=1, description="in the graph, always on, as in the released code: 0.1")
    graph_residual: bool = Field(False, description="whether each node of the graph keeps its own features too")
    attention: Literal["scores", "probabilities"] = Field(
        "scores", description="what Eq. 3 matches: scores before the softmax, or probabilities after it"
    )
    padding: bool = Field(False, description="whether padding counts in means, as in the released code")
    train_graph: bool = Field(True, description="False: the graph stays as it was drawn, as in the released code")
    steer: bool = Field(True, description="whether the ratios' gradient reaches the student, through its prototypes")
    few_shot: Literal["mnli", "reviews"] = Field("mnli", description="the corpus of Figure 2")
    shares: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        [0.02, 0.05, 0.1, 0.2], min_length=1, description="of the training texts, for Figure 2"
    )
    sizes: list[Annotated[int, Field(ge=1)]] = Field(
        [], description="numbers of the teacher's layers, for students of other sizes"
    )
    other_seeds: int = Field(0, ge=0, description="seeds of the rows of Tables 2, 3 that no claim compares; 0: all")
    corruption_weight: float = Field(0.5, gt=0, description="beta of Meta-KD, weight of the domain corruption")


class MtDnnKdSettings(Settings):
    """Settings of MT-DNN with distillation (Liu et al. 2019, section 4.1). Its models train by the section
    [training]."""

    models: int = Field(6, ge=1, description="MT-DNNs that the members of the ensembles are chosen from")
    members: int = Field(3, ge=1, description="models of an ensemble")
    dropouts: list[Annotated[float, Field(ge=0, lt=1)]] = Field(
        [0.1, 0.2, 0.3], min_length=1, description="of the encoders of the models, in turns"
    )
    head_dropout: float = Field(0.1, ge=0, lt=1, description="of the task layers, but those of some tasks")
    head_dropouts: dict[str, Annotated[float, Field(ge=0, lt=1)]] = Field(
        {"MNLI": 0.3, "CoLA": 0.05, "SST-2": 0.05}, description="of these, by task"
    )
    taught: list[str] = Field(["MNLI", "QQP", "RTE", "QNLI"], description="tasks with an ensemble as teacher")
    chosen_by: list[str] = Field(["MNLI", "RTE"], description="tasks on whose validation parts members are chosen")
    soft: float = Field(0.5, ge=0, le=1, description="weight of the soft targets, the teachers' probabilities")
    other_seeds: int = Field(0, ge=0, description="seeds of the rows of ours, which no claim compares; 0: all")
    tuning_epochs: float = Field(5.0, gt=0, description="of the training on one task after all together")
    tuning_learning_rate: float = Field(0.0, ge=0, description="of that training; 0: as in [training]")
    san: bool = Field(False, description="whether pairs of texts have a stochastic answer network as their head")


class MtDnnSettings(Settings):
    """Settings of MtDNN for SQuAD 2.0 (He 2019, sections 4.3 and 4.4). Its models train by the section [training]."""

    weights: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        [0.5, 0.7, 0.8, 0.9], description="probabilities that the next batch is of questions, for Table 1"
    )
    weight: float = Field(0.8, gt=0, lt=1, description="probability that a batch is of questions, for Tables 2, 3")
    dropout: float = Field(0.3, ge=0, lt=1, description="of encoder and heads")
    large: str = Field("", description="folder or Hub name of the larger encoder of Table 3; empty: no Table 3")
    general: str = Field("", description="file of questions with answers that every encoder reads first; empty: none")
    general_size: int = Field(0, ge=0, description="training questions of that file; 0: all")
