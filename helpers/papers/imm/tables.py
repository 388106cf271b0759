"""IMM's tables and figures: what they need trained, as records, with the paper's claims."""

import numpy as np
import pandas as pd
from pandas.io.formats.style import Styler

from helpers.data.adversarial import SETS
from helpers.data.similarity import question_similarity
from helpers.papers import examples
from helpers.papers import rows as shared
from helpers.papers.imm import algorithm
from helpers.papers.imm.trainings import ImmTraining, joint_loss
from helpers.papers.reading import tested
from helpers.papers.rows import Trained, costs, trainings_of
from helpers.presets.schema import Preset
from helpers.results.records import Claim, Score
from helpers.tasks.answering import answering, ask
from helpers.tasks.spans import windows_of
from helpers.training.engine import After, Outcome, run_plans
from helpers.training.loop import training_device

# The best earlier method of Table 1, and of Table 3 the row without any distillation.
HEADLINES = ("BAM", algorithm.NOT_TAUGHT)
FLAT = 1.0  # points of F1 within which a curve is flat, as "tends to converge" is read here (section 5.3)
BEST_OF = ", best of "
PRINTED = 3  # rounds of IMM in the paper's tables (section 5.3)
EQUAL = "Mix", "FT", "BAM"  # rows that IMM is compared with where all have as many steps
OVER = {"equal": "all domains", "epochs": "its own questions at each stage"}


def methods(preset: Preset, rounds: int, *, repeated: bool = False) -> Trained:
    """Train all that Tables 1 and 2 and Figure 3 need, if it is not there; with ``repeated`` also rows of Table 1 as
    the best of several runs."""
    done = run_plans(algorithm.plans(preset, rounds, repeated=repeated), preset.engine)
    best = {row: f"{row}{BEST_OF}{rounds + 1}" for row in algorithm.REPEATED if repeated}
    trained = Trained.of(preset, [*algorithm.METHODS, *best.values()], rounds=rounds)
    for seed in range(preset.seeds):
        trained.add_rows(seed, done["baselines", seed])
        add_imm(trained, "IMM", seed, done["IMM", seed])
        for row, name in best.items() if ("repeated", seed) in done else ():
            tasks, runs = done["repeated", seed].tasks, [made[row] for made in done["repeated", seed].value]
            needed = shared.ancestry([model for readers in runs for model in readers.values()], trainings_of(tasks))
            trained.add(name, seed, {i: max((of[i] for of in runs), key=algorithm.valid) for i in runs[0]}, needed)
    return trained


def add_imm(trained: Trained, row: str, seed: int, outcome: Outcome) -> None:
    """A seed of IMM's row, or of one of its variants, with the readers of every round."""
    trained.histories[row, seed] = outcome.value
    trained.add(row, seed, outcome.value.theta[-1], trainings_of(outcome.tasks))


def example(student: ImmTraining, domain: str, number: int = 0) -> Styler:
    """The ``number``-th training question of a domain in a student's loss: the errors of Eqs. 6 and 11, unweighted."""
    windows, loss = windows_of(student.preset, [domain], "train"), joint_loss(student.kd_space, "linear")
    alone = student.model_copy(update={"domains": [domain], "weights": {}}).batches(training_device())
    return examples.of_question(
        *(student, windows, int(np.flatnonzero(windows.labels["start"])[number]), alone),
        lambda output, batch: loss(output, batch, 1.0) | {"divergence": loss(output, batch, 0.0)["divergence"]},
        answers={"right": ""},
        logits=True,
    )


def notes(trained: Trained) -> list[str]:
    """What one has to know about how the rows were made: budget and questions."""
    settings, table = trained.preset.training, costs(trained)
    least, most = table["steps of a reader"].min(), table["steps of a reader"].max()
    steps = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    needs = table[["trainings", "steps in all"]].itertuples()
    trainings = "; ".join(f"{row}: {number} ({in_all:,})" for row, number, in_all in needs)
    return [
        f"every reader has {steps} steps of {settings.batch_size} windows behind it "
        f"({settings.epochs:g} epochs over {OVER[trained.preset.imm.steps]})",
        f"trainings for one seed of a row by itself, and their steps in all: {trainings}",
        *shared.notes(trained.preset),
        f"IMM with at most {trained.rounds} round{'s' if trained.rounds > 1 else ''}",
    ]


def similarity(preset: Preset) -> dict:
    """Section 4, step 1: s_ij of every two domains as scores (row i, column j), and the cosines as payload."""
    cosines, weights = question_similarity(algorithm.questions(preset))
    names = list(preset.data.domains)
    scores = [
        Score(method=target, column=source, seed=0, value=float(weights[i, j]))
        for i, target in enumerate(names)
        for j, source in enumerate(names)
    ]
    rows = [dict(zip(names, map(float, row), strict=True)) for row in cosines]
    return {"scores": scores, "payload": {"cosines": dict(zip(names, rows, strict=True))}}


def table(trained: Trained) -> dict:
    """Tables 1 and 3: F1 of every row's reader of each domain; the first row is what the others are compared with. A
    control of what the paper claims of a row is its best of as many runs."""
    of_paper = {*algorithm.METHODS, *algorithm.VARIANTS} - {"IMM", *algorithm.OURS}
    beaten = [row for row in trained.rows if row.partition(BEST_OF)[0] in of_paper and not is_imm(trained, row)]
    rounds = f" after {trained.rounds} round{'s' * (trained.rounds > 1)}"
    on = rounds if trained.rounds < trained.preset.imm.rounds else ""  # of Table 3 there may be fewer
    return {
        **scores_by_domain(trained),
        "baselines": list(trained.rows)[:1],
        "claims": [beats(trained, row, on, primary=row in HEADLINES, control=BEST_OF in row) for row in beaten],
        "notes": notes(trained),
        "training_seconds": trained.seconds,
    }


def is_imm(trained: Trained, row: str) -> bool:
    """Whether a row has IMM's very readers, as that without similarities has where there are two domains."""
    own, imm = ({reader.key for *named, reader in trained.models() if named[0] == name} for name in (row, "IMM"))
    return bool(own) and own == imm


def beats(trained: Trained, row: str, on: str = "", **parts) -> Claim:
    """That IMM beats a row, of which the paper prints what is after other rounds."""
    printed_for = f"after {PRINTED} rounds" if trained.rounds != PRINTED else ""
    return shared.better("IMM", row, "beats", on, printed_for=printed_for, **parts)


def table1(trained: Trained, sureness: pd.DataFrame) -> dict:
    """Table 1, and of its first row's readers, which are teachers, how sure they are (`rows.sureness`)."""
    parts, spread = table(trained), sureness[[*shared.GOLD.values()]].agg(["min", "max"])
    said = [f"{of.partition(', ')[2]} {least:.2f} to {most:.2f}" for of, (least, most) in spread.items()]
    sure = f"probability that readers of {next(iter(trained.rows))} give right answers, by domain: {', '.join(said)}"
    return {**parts, "notes": [*parts["notes"], sure]}


def equal(trained: Trained) -> dict:
    """Table 1 where every method has as many steps, a control."""
    return {**table(trained), "claims": [beats(trained, row, control=True) for row in EQUAL]}


def scores_by_domain(trained: Trained, after: After | None = None) -> dict:
    """F1 of every row, domain and seed on test questions, with every question's."""
    return shared.score_table(trained.preset, test_answers(trained, after))


def test_answers(trained: Trained, after: After | None = None) -> shared.Answers:
    """What the reader of every row, domain and seed answers to the domain's test questions."""
    return answers_to(trained, {domain: {domain: f"test/{domain}"} for domain in trained.preset.data.domains}, after)


def answers_to(trained: Trained, sets: dict[str, dict[str, str]], after: After | None = None) -> shared.Answers:
    """What the readers of some domains answer to sets of questions, given by domain and column."""
    asked = {
        (row, domain, seed): answering(reader.preset, [reader], [*sets[domain].values()])
        for row, seed, domain, reader in trained.models()
        if domain in sets
    }
    return {
        (row, column, seed): (name, [texts[name]])
        for (row, domain, seed), texts in ask(trained.preset, asked, after).items()
        for column, name in sets[domain].items()
    }


def figure3(trained: Trained) -> dict:
    """Figure 3: F1 on validation sets (as in the paper) and on test sets, averaged over domains, against K.

    Readers that are kept because they are best on validation cannot get worse there; only the test sets tell.
    """
    preset, curve = trained.preset, trained.rounds
    points = {
        ("IMM", seed, float(k)): rounds.theta[min(k, len(rounds.theta) - 1)]
        for (_, seed), rounds in trained.histories.items()
        for k in range(curve + 1)
    } | {
        (row, seed, None): readers
        for row, seeds in trained.rows.items()
        if row in algorithm.METHODS[:-1]
        for seed, readers in seeds.items()
    }
    f1_of = tested(preset, {(point, i): reader for point, readers in points.items() for i, reader in readers.items()})
    scores = []
    for (method, seed, x), readers in points.items():
        of_test = [f1_of[(method, seed, x), domain] for domain in readers]
        of_valid = [algorithm.valid(reader) for reader in readers.values()]
        for column, f1 in (("validation", of_valid), ("test", of_test)):
            scores.append(Score(method=method, column=column, seed=seed, value=float(np.mean(f1)), x=x))
    flat, last = (f"IMM, {k}" for k in (min(3, curve), curve))
    zero = {"below": "IMM, 0", "columns": ["test"]}
    rises = Claim(text=f"{min(3, curve)} rounds of IMM are better than none", above=flat, **zero, primary=True)
    tail = {"above": last, "below": flat, "columns": ["test"], "within": FLAT}
    flattens = [Claim(text=f"later rounds change F1 by at most {FLAT:g}", **tail)] if last != flat else []
    stopped = [len(rounds.new) for rounds in trained.histories.values()]
    converged = sum(rounds < curve for rounds in stopped)
    return {
        "scores": scores,
        "claims": [rises, *flattens],
        "payload": {"x": "largest number of rounds K"},
        "notes": [
            *notes(trained),
            f"{converged} of {len(stopped)} seeds stopped before K = {curve}, as no domain improved",
        ],
        "training_seconds": trained.seconds,
    }


def table2(trained: Trained) -> dict:
    """Table 2: F1 of each method's reader of one domain on its clean questions, AddSent and AddOneSent."""
    preset, (clean, *attacks) = trained.preset, SETS
    domain = preset.data.adversarial.domain
    answers = answers_to(trained, {domain: {name: name for name in SETS}})
    rows = "IMM", "Single"
    claims = [
        beats(trained, "Single", f" on {attack}", columns=[attack], primary=attack == "AddSent") for attack in attacks
    ]
    more = {"above": "IMM", "below": "Single", "than": [*rows], "than_columns": [clean]}
    for attack in attacks:
        text = f"IMM gains more over Single on {attack} than on clean questions"
        claims.append(Claim(text=text, columns=[attack], **more))
    return {
        "title": f"IMM, Table 2: F1 of the readers of {domain} on adversarial questions",
        "baselines": ["Single"],
        "claims": claims,
        "notes": notes(trained),
        "training_seconds": trained.seconds,
        **shared.score_table(preset, answers),
    }


def sample_answers(trained: Trained, number: int = 3) -> pd.DataFrame:
    """The first test questions of each domain with the answers of its IMM reader of seed 0."""
    said = {domain: of for (row, domain, seed), of in test_answers(trained).items() if (row, seed) == ("IMM", 0)}
    return shared.sample_answers(trained.preset.data, said, number)
