"""What the papers' exhibits can recommend, by situation, and what limits their main claims."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from helpers.papers.hrkd.algorithm import ALONE, OURS, PLAIN
from helpers.papers.your_domains.tables import MILLISECONDS, STEPS
from helpers.records import Record

Stored = Mapping[str, Record]  # the records of a preset by artefact, such as imm/cost


@dataclass(frozen=True)
class Advice:
    """A method to train in a situation, and the ``exhibits``, such as ``imm/table1``, that can support it.

    ``row`` names their claim by what is above, what is below, and the columns. ``cost`` says from a preset's records
    how many trainings it takes, how many times the steps of what is below, and how much slower its answers are, if so.
    ``longer`` names an exhibit and a row of it, in which what is below is trained for more steps.
    """

    situation: str
    train: str
    exhibits: tuple[str, ...]
    row: tuple[str, ...]
    cost: Callable[[Stored], str] = lambda stored: ""
    longer: tuple[str, ...] = ()


def cost_distillation(stored: Stored) -> str:
    """Count the members of an ensemble and the reader that is distilled from it, which has as many steps as each."""
    trainings = count_members(stored["a2d/table1"]) + 1
    return state_cost(trainings, trainings)


def cost_mix(stored: Stored, row: str = "Mix", trainings: int = 1) -> str:
    """Compare the steps of a row with those of a reader of each domain."""
    return state_cost(trainings, compare_scores(stored["imm/cost"], STEPS, row, "Single"))


def cost_mix_ensemble(stored: Stored) -> str:
    """Compare several readers of all domains with a reader of each, and their time to answer with that of one."""
    slower = compare_scores(stored["imm/your_domains"], MILLISECONDS, "Mix ensemble", "Mix")
    return f"{cost_mix(stored, 'Mix ensemble', count_members(stored['imm/cost']))}, {slower:.1f} × slower"


def cost_distilled_mix(stored: Stored) -> str:
    """Compare the reader that is distilled from an ensemble, and its teachers, with a reader of each domain."""
    return cost_mix(stored, "A2D", count_members(stored["imm/cost"]) + 1)


def count_members(record: Record) -> int:
    """Count the members of an ensemble."""
    return record.setting("a2d", "members")


def cost_multi_task_ensemble(stored: Stored) -> str:
    """Compare the ensemble of each task, and the models that its members are chosen of, with one model of all tasks.

    All models are fine-tuned on each task. Steps are as epochs, which all texts have alike.
    """
    record = stored["mtdnn_kd/table3"]
    models, members, tuning = (record.setting("mtdnn_kd", name) for name in ("models", "members", "tuning_epochs"))
    epochs, tasks = record.setting("training", "epochs"), record.setting("tasks", "tasks")
    steps = (models * epochs + members * tuning) / (epochs + tuning)
    return f"{state_cost(models + members * len(tasks), steps)}, {members} models answer"


def compare_scores(record: Record, metric: str, above: str, below: str) -> float:
    """Return how many times as much as another a row has in a metric of a record, summed over scores."""
    above, below = (sum(s.value for s in record.scores if (s.metric, s.row) == (metric, row)) for row in (above, below))
    return above / below


def state_cost(trainings: int, steps: float) -> str:
    """State how many trainings something takes, and how many times the steps of what it is compared with."""
    return f"{trainings} ({steps:.1f} ×)"


ONE, SEVERAL = "one domain", "several domains"
EQUAL_STEPS = "imm/your_domains_equal"
SMALL, MANY, UNANSWERABLE = "a small model", "many tasks", "unanswerable questions"
ADVICE = (
    Advice(
        ONE,
        "a distilled ensemble",
        ("a2d/table1",),
        ("RMR + A2D", "RMR", "Test"),
        cost_distillation,
        ("a2d/steps", "RMR + A2D, 2", "RMR, 2", "Test"),
    ),
    Advice(ONE, "a distilled ensemble", ("a2d/table1",), ("BERT + A2D", "BERT", "Test"), cost_distillation),
    Advice(
        SEVERAL,
        "one reader of all domains",
        ("imm/your_domains",),
        ("Mix", "Single"),
        cost_mix,
        (EQUAL_STEPS, "Mix", "Single"),
    ),
    Advice(
        SEVERAL,
        "an ensemble of these",
        ("imm/your_domains",),
        ("Mix ensemble", "Single"),
        cost_mix_ensemble,
        (EQUAL_STEPS, "Mix ensemble", "Single"),
    ),
    Advice(
        SEVERAL,
        "one distilled from these",
        ("imm/your_domains",),
        ("A2D", "Single"),
        cost_distilled_mix,
        (EQUAL_STEPS, "A2D", "Single"),
    ),
    Advice(SEVERAL, "IMM", ("imm/table1",), ("IMM", "Mix")),
    Advice(SMALL, "a taught student", ("hrkd/table2", "hrkd/table3"), (PLAIN, ALONE)),
    Advice(SMALL, "weights from a graph", ("hrkd/table2", "hrkd/table3"), (OURS, PLAIN)),
    Advice(
        MANY,
        "an ensemble per task",
        ("mtdnn_kd/table3",),
        ("MT-DNN-ensemble", "MT-DNN"),
        cost_multi_task_ensemble,
    ),
    Advice(MANY, "distilled multi-task ensembles", ("mtdnn_kd/table2",), ("MT-DNN_KD", "MT-DNN")),
    Advice(MANY, "one model of all tasks", ("mtdnn_kd/table2",), ("MT-DNN", "BERT")),
    Advice(
        UNANSWERABLE,
        "other tasks",
        ("mtdnn/table2",),
        ("QA+MCC+SC", "QA", "all questions"),
    ),
)
