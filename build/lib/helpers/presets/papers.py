"""The settings of the papers' methods, a section of a preset each.

Defaults are the papers', or those of released code where a paper is silent. Sections and equations are the paper's."""

from typing import Annotated, Literal

import pydantic
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class Settings(pydantic.BaseModel):
    """One section of a preset: unknown keys, wrong types and later changes are errors."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def __hash__(self) -> int:
        return hash(repr(self))  # what is loaded is cached by it, and domains are a dict, which has no hash


Dropout = Annotated[float, Field(ge=0, lt=1)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]
TRAINING = {"learning_rate", "clip", "batch_size", "epochs"}  # RMR's settings of its training


class ImmSettings(Settings):
    """IMM (Liu et al. 2020)."""

    rounds: PositiveInt = 3  # K, the largest number of rounds, of Tables 1 and 2
    ablation_rounds: PositiveInt = 3  # K of Table 3
    curve: PositiveInt = 6  # the largest K of Figure 3
    kd_space: Literal["gold", "probabilities", "logits"] = "gold"  # what is matched of a teacher (Eqs. 5, 9)
    similarity: Literal["tf-idf", "uniform", "equal"] = "tf-idf"  # s_ij of Eq. 7: uniform is 1, equal is 1/(N - 1)
    sources: NonNegativeInt = 0  # number of most similar domains that phi learns from; 0: all
    annealing: Literal["linear", "half", "constant"] = "linear"  # lambda (Eqs. 6, 11): 0 to 1, 1/2 to 1, or 1/2
    new_order: bool = True  # whether the order of questions is new in every round
    steps: Literal["equal", "epochs"] = "epochs"  # epochs over a reader's own questions, or equal for all readers
    multi_domain_start: Literal["encoder", "theta"] = "encoder"  # what phi starts from (Algorithm 1, line 5)
    teach_multi_domain: bool = True  # False: -KD1, Eq. 6 without its divergence
    teach_target: bool = True  # False: -KD2, Eq. 11 without its divergence


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
    top_k: PositiveInt = 4  # best answers of a member among which the confusing one is looked for
    # Lengths of trainings, in times the steps of the tables' readers, for curves not in the paper; empty: none.
    lengths: list[PositiveFloat] = Field([])


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
    dropouts: list[Dropout] = Field([0.1, 0.2, 0.3], min_length=1)  # of the models' encoders, in turns
    head_dropout: Dropout = 0.1  # of the task layers
    head_dropouts: dict[str, Dropout] = Field({"MNLI": 0.3, "CoLA": 0.05, "SST-2": 0.05})  # of single tasks' layers
    taught: list[str] = Field(["MNLI", "QQP", "RTE", "QNLI"])  # tasks with an ensemble as teacher
    chosen_by: list[str] = Field(["MNLI", "RTE"])  # tasks on whose validation parts members are chosen
    soft: float = Field(0.5, ge=0, le=1)  # weight of the soft targets, the teachers' probabilities
    tuning_epochs: PositiveFloat = 5.0  # of the training on one task after all together
    tuning_learning_rate: NonNegativeFloat = 0.0  # of that training; 0: as in [training]


class MtDnnSettings(Settings):
    """MtDNN for SQuAD 2.0 (He 2019, sections 4.3 and 4.4). Its models train by the section [training]."""

    weights: list[Probability] = Field([0.5, 0.7, 0.8, 0.9])  # that the next batch is of questions, for Table 1
    weight: Probability = 0.8  # that a batch is of questions, for Tables 2, 3
    dropout: Dropout = 0.3  # of encoder and heads
    large: str = ""  # folder or Hub name of the larger encoder of Table 3; empty: no Table 3
