"""What the papers' exhibits can recommend, by situation, and what limits their main claims."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from helpers.papers.hrkd.algorithm import ALONE, OURS, PLAIN
from helpers.papers.your_domains.tables import MILLISECONDS
from helpers.records import Record


@dataclass(frozen=True)
class Advice:
    """A method to train in a situation, and the ``exhibits``, such as ``imm/table1``, that can support it.

    ``row`` names their claim by what is above, what is below, and the columns. From a record come the numbers of
    trainings of both, and what answers cost more than a plain model's, "" for nothing. ``longer`` names an exhibit and
    a row of it, in which what is below is trained for more steps.
    """

    situation: str
    train: str
    exhibits: tuple[str, ...]
    row: tuple[str, ...]
    trainings: Callable[[Record], int | str] = lambda record: 1
    instead: Callable[[Record], int] = lambda record: 1
    time: Callable[[Record], str] = lambda record: ""
    longer: tuple[str, ...] = ()

    def cost(self, record: Record) -> str:
        """Return the numbers of trainings of both, and how much slower answers are than a plain model's."""
        time = self.time(record)
        return f"{self.trainings(record)} vs. {self.instead(record)}" + f" ({time})" * bool(time)


def count_imm_trainings(record: Record) -> str:
    """Return how many trainings IMM took for one seed, by the record's notes; teachers and rejected readers count."""
    match = re.search(r"trainings of one seed .* IMM: (\d+) ", "\n".join(record.notes))
    return match[1] if match else "not recorded"


def count_multi_task_trainings(record: Record, models: int = 1, members: int = 1) -> int:
    """Count models of all tasks, and their members, each fine-tuned on every task."""
    return models + members * len(record.setting("tasks", "tasks"))


def count_multi_task_ensembles(record: Record) -> int:
    """Count the models that members are chosen of, and the ensemble of each task."""
    return count_multi_task_trainings(record, *(record.setting("mtdnn_kd", name) for name in ("models", "members")))


def count_members(record: Record) -> int:
    """Count the members of an ensemble."""
    return record.setting("a2d", "members")


def compare_times(record: Record) -> str:
    """Return how many times as long as one reader an ensemble took to answer."""
    times = {score.row: score.value for score in record.scores if score.metric == MILLISECONDS}
    return f"{times['Mix ensemble'] / times['Mix']:.1f} × slower"


def count_distilled_trainings(record: Record) -> int:
    """Count the members of an ensemble and the reader that is distilled from it."""
    return record.setting("a2d", "members") + 1


def count_domains(record: Record) -> int:
    """Count the domains, each with a reader."""
    return len(record.setting("data", "domains"))


ONE, SEVERAL = "one domain", "several domains"
EQUAL_STEPS = "imm/your_domains_equal"
SMALL, MANY, UNANSWERABLE = "a small model", "many tasks", "unanswerable questions"
ADVICE = (
    Advice(
        ONE,
        "a distilled ensemble",
        ("a2d/table1",),
        ("RMR + A2D", "RMR", "Test"),
        count_distilled_trainings,
        longer=("a2d/steps", "RMR + A2D, 2", "RMR, 2", "Test"),
    ),
    Advice(ONE, "a distilled ensemble", ("a2d/table1",), ("BERT + A2D", "BERT", "Test"), count_distilled_trainings),
    Advice(
        SEVERAL,
        "one reader of all domains",
        ("imm/your_domains",),
        ("Mix", "Single"),
        instead=count_domains,
        longer=(EQUAL_STEPS, "Mix", "Single"),
    ),
    Advice(
        SEVERAL,
        "an ensemble of these",
        ("imm/your_domains",),
        ("Mix ensemble", "Single"),
        count_members,
        count_domains,
        compare_times,
        longer=(EQUAL_STEPS, "Mix ensemble", "Single"),
    ),
    Advice(
        SEVERAL,
        "one distilled from these",
        ("imm/your_domains",),
        ("A2D", "Single"),
        count_distilled_trainings,
        count_domains,
        longer=(EQUAL_STEPS, "A2D", "Single"),
    ),
    Advice(SEVERAL, "IMM", ("imm/table1",), ("IMM", "Mix"), count_imm_trainings),
    Advice(SMALL, "a taught student", ("hrkd/table2", "hrkd/table3"), (PLAIN, ALONE), lambda record: 2),
    Advice(SMALL, "weights from a graph", ("hrkd/table2", "hrkd/table3"), (OURS, PLAIN), lambda record: 2),
    Advice(
        MANY,
        "an ensemble per task",
        ("mtdnn_kd/table3",),
        ("MT-DNN-ensemble", "MT-DNN"),
        count_multi_task_ensembles,
        count_multi_task_trainings,
        lambda record: f"{record.setting('mtdnn_kd', 'members')} models answer",
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
