"""What the papers' exhibits can recommend, by situation, and what limits their main claims."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from helpers.papers.hrkd.algorithm import ALONE, OURS, PLAIN
from helpers.papers.your_domains.tables import MILLISECONDS, STEPS
from helpers.records import Record

Stored = Mapping[str, Record]  # the records of a preset by artefact, such as imm/cost


@dataclass(frozen=True)
class Advice:
    """A method to train in a situation, and the ``exhibits``, such as ``imm/table1``, that can support it.

    ``row`` names their claim by what is above, what is below, and the columns. ``cost`` says from a preset's records
    how many times the steps of what is below it is trained for, and how much slower its answers are, if so. ``control``
    has the name of a control, its exhibit, and a row of it.
    """

    situation: str
    train: str
    exhibits: tuple[str, ...]
    row: tuple[str, ...]
    cost: Callable[[Stored], str] = lambda stored: ""
    control: tuple[str, ...] = ()


def cost_distillation(stored: Stored) -> str:
    """Count the members of an ensemble and the reader that is distilled from it, which has as many steps as each."""
    return state_cost(stored["a2d/table1"].setting("a2d", "members") + 1)


def cost_domains(stored: Stored, above: str, below: str) -> str:
    """Compare the steps of two methods, those of teachers included, and the time that an ensemble takes to answer."""
    cost = state_cost(compare_scores(stored["imm/cost"], STEPS, above, below))
    record = stored["imm/your_domains"]
    if above == ENSEMBLE and any(score.metric == MILLISECONDS for score in record.scores):
        cost += f", answers {compare_scores(record, MILLISECONDS, above, below):.1f} × slower"
    return cost


def cost_multi_task_ensemble(stored: Stored) -> str:
    """Compare the ensemble of each task, and the models that its members are chosen of, with one model of all tasks.

    Members are fine-tuned on each task, as the one model is. Steps are as epochs, which all texts have alike.
    """
    record = stored["mtdnn_kd/table3"]
    models, members, tuning = (record.setting("mtdnn_kd", name) for name in ("models", "members", "tuning_epochs"))
    epochs = record.setting("training", "epochs")
    steps = (models * epochs + members * tuning) / (epochs + tuning)
    return f"{state_cost(steps)}, {members} models answer"


def compare_scores(record: Record, metric: str, above: str, below: str) -> float:
    """Return how many times as much as another a row has in a metric of a record, summed over scores."""
    above, below = (sum(s.value for s in record.scores if (s.metric, s.row) == (metric, row)) for row in (above, below))
    return above / below


def state_cost(steps: float) -> str:
    """State how many times the steps of what it is compared with something takes."""
    return f"{steps:.1f} ×"


def advise_rival(train: str, above: str, trainings: int) -> Advice:
    """Advise a rival of A2D in place of RMR, each of whose trainings has as many steps as RMR."""
    once, twice = (compare_lengths(above, times) for times in (1, 2))
    return Advice(ONE, train, ("a2d/steps",), once, lambda stored: state_cost(trainings), (TWICE, "a2d/steps", *twice))


def compare_lengths(above: str, times: int) -> tuple[str, str, str]:
    """Name the row of ``a2d/steps`` that compares a reader with RMR on Test, both with some times the steps."""
    return f"{above}, {times}", f"RMR, {times}", "Test"


def advise_domains(train: str, above: str, below: str, control: tuple[str, ...] = ()) -> Advice:
    """Advise a method of several domains in place of another."""
    cost = partial(cost_domains, above=above, below=below)
    return Advice(SEVERAL, train, ("imm/your_domains", "imm/table1"), (above, below), cost, control)


ONE, SEVERAL = "one domain", "several domains"
ENSEMBLE = "Mix ensemble"
TWICE = "twice the steps"
SMALL, MANY, UNANSWERABLE = "a small model", "many tasks", "unanswerable questions"
ADVICE = (
    Advice(
        ONE,
        "distilled from an ensemble",
        ("a2d/table1",),
        ("RMR + A2D", "RMR", "Test"),
        cost_distillation,
        (TWICE, "a2d/steps", *compare_lengths("RMR + A2D", 2)),
    ),
    Advice(ONE, "distilled from an ensemble", ("a2d/table1",), ("BERT + A2D", "BERT", "Test"), cost_distillation),
    advise_rival("distilled from one reader", "RMR + one teacher", 2),
    advise_rival("smoothed labels", "RMR, smoothed labels", 1),
    advise_domains(
        "one reader of all domains",
        "Mix",
        "Single",
        ("equal steps", "imm/your_domains_equal", "Mix", "Single"),
    ),
    advise_domains("an ensemble of these", ENSEMBLE, "Mix"),
    advise_domains(
        "one distilled from it (A2D)",
        "A2D",
        "Mix",
        ("a reader per domain, equal steps", "imm/your_domains_equal", "A2D", "Single"),
    ),
    Advice(SEVERAL, "IMM", ("imm/table1",), ("IMM", "Mix")),
    Advice(SMALL, "a taught student", ("hrkd/table2", "hrkd/table3"), (PLAIN, ALONE), lambda stored: "+ a teacher"),
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
