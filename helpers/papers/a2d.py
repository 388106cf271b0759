"""A2D: attention-guided answer distillation for reading comprehension (Hu et al. 2018, EMNLP).

An ensemble of readers that differ in their first weights is asked once about all training questions. One reader learns
from its mean distributions, its mean attention and its most confusing answers (Eq. 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Literal, NamedTuple

from torch import Tensor, nn

from helpers import reading
from helpers.batches.plans import Batches
from helpers.data.load import narrative
from helpers.data.sets import question_set, question_set_names
from helpers.engine import Plan
from helpers.loop import Batch
from helpers.models.attention import attention_of, keep_attention
from helpers.models.encoders import load_saved, load_tokenizer, vocabulary_fingerprint
from helpers.models.mnemonic import glove_digest, make_reader
from helpers.papers import case, shared
from helpers.papers.card import Artefact, Notebook, Paper
from helpers.papers.ensemble import CONFUSING, EnsembleOutputs
from helpers.presets.schema import Preset
from helpers.reading import SIDES, Span, log_probabilities
from helpers.results.records import Claim, Score
from helpers.teachers import StoredTeacher


def soft_cross_entropy(student: Span, teacher: Span, mask_BxL: Tensor, temperature: float) -> Tensor:
    """Compute -sum q log softmax(student / temperature) of start and of end, summed, shape B (L_KD, section 3.1).

    ``student`` are logits, ``teacher`` probabilities at the same temperature (B×L each), 0 where masked.
    """
    pairs = zip(student, teacher, strict=True)
    return -sum((q.float() * log_probabilities(s.float() / temperature, mask_BxL)).sum(-1) for s, q in pairs)


def confusion_margin(student: Span, gold: Span, confusing: Span) -> Tensor:
    """Compute max(0, 1 - gold logit + confusing logit) of start and of end, summed, shape B (L_ANS, section 3.2).

    ``student`` are logits (B×L), ``gold`` and ``confusing`` positions (B). Confusing position 0 means none: no loss.
    """
    hinge_B = 0
    for logits_BxL, *positions in zip(student, gold, confusing, strict=True):
        right_B, wrong_B = (logits_BxL.float().gather(1, position_B[:, None])[:, 0] for position_B in positions)
        hinge_B = hinge_B + (1 - right_B + wrong_B).clamp_min(0)
    return hinge_B * (confusing[0] > 0)


def attention_distance(student_BxPxQ: Tensor, teacher_BxPxQ: Tensor) -> Tensor:
    """Halve the squared distance of two attentions, summed over passage tokens, shape B (L_ATT, section 3.3)."""
    return (student_BxPxQ.float() - teacher_BxPxQ.float()).square().sum((1, 2)) / 2


def joint_loss(output, batch: Batch, weights: dict[str, float], temperature: float) -> dict[str, Tensor]:
    """Compute Eq. 1: of the terms CE, KD, ANS and ATT those with a weight, each a mean over the windows."""
    student, gold = (output.start_logits, output.end_logits), (batch["start"], batch["end"])
    terms = {}
    if "CE" in weights:
        terms["CE"] = reading.likelihood(output, batch)["likelihood"]
    if "KD" in weights:
        teacher = batch["teacher_start"], batch["teacher_end"]
        terms["KD"] = soft_cross_entropy(student, teacher, batch["attention_mask"], temperature).mean()
    if "ANS" in weights:
        confusing = batch["teacher_confusing_start"], batch["teacher_confusing_end"]
        terms["ANS"] = confusion_margin(student, gold, confusing).mean()
    if "ATT" in weights:
        terms["ATT"] = attention_distance(output.attention, batch["teacher_attention"]).mean()
    return {name: weights[name] * term for name, term in terms.items()}


def term_weights(preset: Preset, without: str = "") -> dict[str, float]:
    """Return the weights of Eq. 1 that are not 0. Lambda is tau squared, which scales the gradients (section 2.2)."""
    tau, gamma, delta = preset.a2d.temperature, preset.a2d.answer_weight, preset.a2d.attention_weight
    weights = {"CE": 1.0, "KD": tau**2, "ANS": gamma, "ATT": delta}
    return {name: weight for name, weight in weights.items() if weight and name != without}


def smoothed_likelihood(output, batch: Batch, smoothing: float) -> Tensor:
    """Compute -sum q log P of start and of end, a mean over windows: a control (Szegedy et al. 2016, section 7).

    q divides ``smoothing`` evenly among the tokens that may be answers, [CLS] too; the gold one has the rest besides.
    """
    student, mask_BxL = (output.start_logits, output.end_logits), batch["attention_mask"]
    possible_BxL = batch["segment_ids"] == 2
    possible_BxL[:, 0] = True
    hard_B = reading.span_negative_log_likelihood(student, (batch["start"], batch["end"]), mask_BxL)
    logs_BxL = sum(log_probabilities(side, mask_BxL) for side in student)
    even_B = -logs_BxL.masked_fill(possible_BxL == 0, 0.0).sum(-1) / possible_BxL.sum(-1)
    return reading.weighted_mean((1 - smoothing) * hard_B + smoothing * even_B)


Kind = Literal["RMR", "BERT"]  # the paper's reader, and below it ours


@dataclass(frozen=True, kw_only=True, eq=False)
class Reader(reading.Reader):
    """The training of RMR or of a BERT reader: a member of an ensemble, or a student of one by some ``terms`` of Eq. 1.

    It has ``times`` the preset's steps. A second stage goes on in the order of its first one, ``start``, for the steps
    that this one left, or ``anew`` for all. ``smoothing`` is for labels (`smoothed_likelihood`).
    """

    kind: Kind
    ensemble: EnsembleOutputs | None = None
    terms: dict[str, float] = field(default_factory=lambda: {"CE": 1.0})
    times: float = 1.0
    anew: bool = False
    smoothing: float = 0.0

    def settings(self) -> dict:
        if self.kind == "BERT":
            return super().settings()
        rmr, encoder = self.preset.mnemonic, vocabulary_fingerprint(self.preset.encoder)
        return super().settings() | {"encoder": encoder, "mnemonic": rmr.model() | {"glove": glove_digest(rmr.glove)}}

    def steps(self) -> int:
        number = max(1, round(self.times * super().steps()))
        return number if self.anew or not self.start else number - self.start.steps()

    def initial(self) -> nn.Module:
        if self.kind == "RMR" and not self.start:
            return make_reader(load_tokenizer(self.preset.encoder), self.seed, **self.preset.mnemonic.model())
        model = super().initial() if self.kind == "BERT" else load_saved(self.start.saved())
        attention_of(model)  # an ensemble without is of no use, so say so before it is trained
        return keep_attention(model) if "ATT" in self.terms else model

    def batches(self) -> Batches:
        before = self.start.steps() if self.start else 0
        batches = reading.training_batches(self.preset, self.domains, before + self.steps(), self.seed)
        del batches.plan[:before]
        if self.ensemble:
            stored = self.ensemble.tensors()
            softened = {side: stored[side] for side in SIDES if "KD" in self.terms}
            confusing = {name: stored[name].long() for name in CONFUSING if "ANS" in self.terms}
            attention = {"attention": stored["attention"]} if "ATT" in self.terms else {}
            teacher = StoredTeacher(batches.sequences, of_sequences=confusing, of_tokens=softened, of_pairs=attention)
            batches.teachers.append(teacher)
        return batches

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        if self.smoothing:
            return {"CE": smoothed_likelihood(output, batch, self.smoothing)}
        return joint_loss(output, batch, self.terms, self.ensemble.temperature if self.ensemble else 1.0)


STAGED, STAGED_WHOLE = "- Joint Training", "- Joint Training, full second stage"  # match the attention first
# The rows of Table 5, each with the term of Eq. 1 that it leaves out; the last is ours.
ABLATIONS = {"A2D": "", "- Vanilla KD": "KD", "- ATT": "ATT", "- ANS": "ANS", STAGED: "ATT", STAGED_WHOLE: "ATT"}
SMOOTHING = 0.1


class Distillation(NamedTuple):
    """The trainings of one seed: an ensemble's members, what they know, and its students by row."""

    members: tuple[Reader, ...]
    ensemble: EnsembleOutputs
    students: dict[str, Reader]


def distillation(preset: Preset, kind: Kind, seed: int, rows: Iterable[str] = ("A2D",)) -> Distillation:
    """Name the trainings of section 3.4 for one seed, with a student for each of some `ABLATIONS`."""
    preset, settings = preset.drawn(seed), preset.a2d
    numbers = range(1, settings.members + 1)
    members = tuple(reader(preset, kind, seed + 100 * n, f"{kind}, member {n}") for n in numbers)  # step 1
    facts = {"label": f"{kind}, outputs of the members, seed {seed}", "top_k": settings.top_k}  # steps 2 and 3
    ensemble = EnsembleOutputs(preset=preset, members=members, temperature=settings.temperature, **facts)
    train = partial(reader, preset, kind, seed, ensemble=ensemble)  # step 4
    first = train(f"{kind}, {STAGED}, first stage", terms={"ATT": settings.attention_weight or 1.0}, stages=2)
    staged = {STAGED: {"start": first}, STAGED_WHOLE: {"start": first, "anew": True}}
    students = {}
    for row in rows:
        label = f"{kind} + A2D" if row == "A2D" else f"{kind}, {row}"
        student = train(label, terms=term_weights(preset, ABLATIONS[row]), **staged.get(row, {}))
        students[label.removeprefix("RMR, ")] = student  # the paper's rows of Table 5 bear no reader's name
    return Distillation(members, ensemble, students)


def reader(preset: Preset, kind: Kind, seed: int, label: str, **parts) -> Reader:
    """Name the training of a reader of all domains. One that learns no answers keeps its last weights."""
    if kind == "RMR":  # has settings of its own
        preset = preset.changed("training", **preset.mnemonic.training()).model_copy(update={"random_layers": 0})
    names = tuple(sorted(preset.data.domains))
    parts |= {"domains": names, "selected_by": names if "CE" in parts.get("terms", ("CE",)) else ()}
    label = f"{label}, {names[0]}" if len(names) == 1 else label
    return Reader(preset=preset, label=f"{label}, seed {seed}", kind=kind, seed=seed, **parts)


def longer(preset: Preset, kind: Kind, seed: int) -> dict[tuple[str, float], Reader]:
    """Name readers that tell distillation from a stronger signal and from longer training, by line and ``times``.

    They are the first member, A2D, the same with that member as its only teacher, and a reader with smoothed labels.
    All but the first start from the student's weights and read in its order.
    """
    members, ensemble, _ = distillation(preset, kind, seed)
    preset, terms = preset.drawn(seed), term_weights(preset)
    lines = {
        kind: {"seed": members[0].seed},
        f"{kind} + A2D": {"seed": seed, "terms": terms, "ensemble": ensemble},
        f"{kind} + one teacher": {"seed": seed, "terms": terms, "ensemble": replace(ensemble, members=members[:1])},
        f"{kind}, smoothed labels": {"seed": seed, "smoothing": SMOOTHING},
    }
    return {
        (line, times): reader(preset, kind, label=f"{line}, {times:g} times the steps", times=times, **parts)
        for line, parts in lines.items()
        for times in sorted({*preset.a2d.lengths})
    }


Runs = dict[Kind, list[Distillation]]  # by seed
FASTER = "times faster than its ensemble"
SETS = {"Dev": "valid", "Test": "test"} | {name: name for name in ("clean", "AddSent", "AddOneSent")}  # by column
MAIN, ABLATED = tuple(SETS), ("Dev", "Test", "AddSent")


def runs_of(preset: Preset, kinds: Sequence[Kind] = ("RMR", "BERT"), rows: Iterable[str] = ("A2D",)) -> Runs:
    """Name a distillation for every kind of reader and seed. A preset without RMR has BERT in its place."""
    kinds = dict.fromkeys(kind if preset.a2d.rmr else "BERT" for kind in kinds)
    return {kind: [distillation(preset, kind, seed, rows) for seed in range(preset.seeds)] for kind in kinds}


def sets_of(preset: Preset, columns: Sequence[str]) -> dict[str, str]:
    """Return the sets of questions by column, without those that the preset lacks."""
    return {column: SETS[column] for column in columns if SETS[column] in question_set_names(preset.data)}


def answers(preset: Preset, runs: Runs, columns: Sequence[str], shown: Sequence[str] = ()) -> Plan:
    """Have all readers answer the sets of some columns. Returns texts by row, column (all or those ``shown``) and seed.

    A single reader's row has the texts of every member of the ensemble.
    """
    cells, texts = {}, {}
    for kind, seed in product(runs, range(preset.seeds)):
        members, _, students = runs[kind][seed]
        groups = {(kind, n): (member,) for n, member in enumerate(members)} | {(f"{kind} (E)", 0): members}
        groups |= {(row, 0): (student,) for row, student in students.items()}
        for (group, readers), (column, name) in product(groups.items(), sets_of(preset, columns).items()):
            cells[group, column, seed] = readers, name
    answered = yield from shared.answer_sets(preset, cells, together=True)
    for ((row, _), column, seed), (name, of_group) in answered.items():
        if column in (shown or columns):
            texts.setdefault((row, column, seed), (name, []))[1].extend(of_group)
    return texts


def parts_of(preset: Preset, runs: Runs, claims: Sequence[Claim] = ()) -> dict:
    """Make what all tables have. Claims about another reader than the first, which is the paper's, are controls."""
    first, a2d, notes = next(iter(runs)), preset.a2d, []
    for kind, (run, *_) in runs.items():
        training, number = run.members[0].training, run.members[0].result()["steps"]
        amount = f"{training.batch_size} windows ({training.epochs:g} epochs)"
        notes.append(f"every {kind} reader, member or student, has {number:,} steps of {amount}")
    if first == "RMR" and not preset.mnemonic.glove:
        notes.append("no GloVe: RMR learns all its word vectors")
    notes += [
        f"ensembles of {a2d.members}; a reader's own row is the mean over its ensemble's members",
        f"temperature {a2d.temperature:g}, gamma {a2d.answer_weight:g}, delta {a2d.attention_weight:g}",
        shared.training_sizes(preset.data),
    ]
    ours = {"primary": False, "control": True}
    students = [student for seeds in runs.values() for run in seeds for student in run.students.values()]
    return {
        "baselines": [first],
        "claims": [c if c.above.startswith(first) else c.model_copy(update=ours) for c in claims],
        "notes": notes,
        "training_seconds": shared.training_seconds(students),
    }


def beats(above: str, below: str, column: str, on: str = "on", **flags: bool) -> Claim:
    """State that one row beats another on a column."""
    return shared.better(above, below, "beats", f" {on} {column}", columns=[column], **flags)


def gains(runs: Runs, columns: Sequence[str]) -> list[Claim]:
    """State the claims of Tables 1 and 2. Section 4.3 says "nearly" instead of 80 %; the abstract's are primary."""
    claims = []
    for kind, column in product(runs, columns):
        ensemble, student = f"{kind} (E)", f"{kind} + A2D"
        gain = {"above": student, "below": kind, "columns": [column]}
        claims.append(beats(student, kind, column))
        if column == "Test":
            text = f"{student} keeps 80 % of what {ensemble} gains on {column}"
            claims.append(Claim(text=text, **gain, than=[ensemble, kind], times=0.8, primary=True))
        else:
            claims.append(beats(student, ensemble, column, primary=column == "AddSent"))
            text = f"{student} gains more over {kind} on {column} than on clean questions"
            claims.append(Claim(text=text, **gain, than=[student, kind], than_columns=["clean"]))
    return claims


def table1(preset: Preset) -> Plan:
    """Make Table 1: a reader, an ensemble, and the reader distilled from it."""
    texts = yield from answers(preset, runs := runs_of(preset), MAIN, MAIN[:2])
    return parts_of(preset, runs, gains(runs, ["Test"])) | shared.f1_and_em(shared.scored_cells(preset, texts))


def table2(preset: Preset) -> Plan:
    """Make Table 2: the same on adversarial questions; nothing where the preset has none."""
    if not preset.data.adversarial:
        return {}
    texts = yield from answers(preset, runs := runs_of(preset), MAIN, MAIN[2:])
    return parts_of(preset, runs, gains(runs, MAIN[3:])) | shared.f1_and_em(shared.scored_cells(preset, texts))


def stories(preset: Preset) -> Preset:
    """Return the preset of Table 3, whose questions about summaries have free answers."""
    return preset.model_copy(update={"data": narrative(preset.data)})


def table3(preset: Preset) -> Plan:
    """Make Table 3: BLEU and ROUGE-L of free answers to `stories`."""
    preset = stories(preset)
    (kind,) = runs = runs_of(preset, ["RMR"])
    texts = yield from answers(preset, runs, ["Test"])
    claims = [beats(f"{kind} + A2D", kind, column, "in") for column in ("Bleu-1", "Bleu-4", "Rouge-L")]
    claims += [beats(f"{kind} + A2D", f"{kind} (E)", "Bleu-1", "in", primary=True)]
    parts, measured = parts_of(preset, runs, claims), shared.free_answers(preset, texts)
    return parts | measured | {"notes": parts["notes"] + measured["notes"]}


def table4(preset: Preset, repeats: int = 3) -> Plan:
    """Make Table 4: how long ensemble and student take for at most 200 test questions, in turns, and their sizes."""
    runs, scores = runs_of(preset), []
    yield [student for seeds in runs.values() for run in seeds for student in run.students.values()]
    for kind, seed in product(runs, range(preset.seeds)):
        members, _, students = runs[kind][seed]
        rows = {f"{kind} (E)": members, f"{kind} + A2D": tuple(students.values())}
        questions = question_set(preset.drawn(seed).data, "test")
        questions = questions[:: math.ceil(len(questions) / 200)]
        windows = reading.windows_over(preset, questions)
        models = {row: [one.load() for one in readers] for row, readers in rows.items()}
        work = {row: partial(reading.answer, preset, loaded, windows, together=True) for row, loaded in models.items()}
        slow, fast = (seconds := shared.seconds_in_turns(work, repeats)).values()
        sizes = {row: sum(one.result()["parameters"] for one in readers) / 1000 for row, readers in rows.items()}
        values = {FASTER: {f"{kind} + A2D": slow / fast}, "seconds": seconds, "thousand parameters": sizes}
        for metric, of_rows in values.items():
            cell = {"column": f"ensemble of {len(members)}", "seed": seed, "metric": metric}
            scores += [Score(method=row, value=value, **cell) for row, value in of_rows.items()]
    notes = [*parts_of(preset, runs)["notes"], f"times are for {len(questions)} test questions"]
    return {"scores": scores, "notes": notes}


def table5(preset: Preset) -> Plan:
    """Make Table 5: what each part is worth. The paper says that each helps."""
    (kind,) = runs = runs_of(preset, ["RMR"], ABLATIONS)
    texts = yield from answers(preset, runs, ABLATED)
    columns, claims = list(sets_of(preset, ABLATED)), []
    for row, column in product(list(runs[kind][0].students)[1:], columns[1:]):
        primary = row.endswith("- ANS") and column == columns[-1]  # AddSent, where the paper loses most
        claims.append(beats(f"{kind} + A2D", row, column, primary=primary, control=row.endswith(STAGED_WHOLE)))
    parts = parts_of(preset, runs, claims) | {"baselines": [f"{kind} + A2D"]}
    parts["notes"] += [
        f"{STAGED}: the first half of its steps matches the attention alone, so only half have right answers",
        f"{STAGED_WHOLE}: a row of ours, whose second stage has the whole budget, so 1.5 budgets in all",
    ]
    return parts | shared.f1_and_em(shared.scored_cells(preset, texts))


def figure4(preset: Preset) -> Plan:
    """Make Figure 4: F1 by the question's type, for the reader by itself and the distilled one."""
    (kind,) = runs = runs_of(preset, ["RMR"], ABLATIONS)
    texts = yield from answers(preset, runs, ABLATED, ["Test"])
    student = f"{kind} + A2D"
    table = shared.by_question_type(preset, {cell: text for cell, text in texts.items() if cell[0] in (kind, student)})
    types = dict.fromkeys(score.column for score in table["scores"])
    parts = parts_of(preset, runs, [beats(student, kind, name, "on questions of the type") for name in types])
    return parts | table | {"baselines": [], "notes": parts["notes"] + table["notes"]}


def steps(preset: Preset) -> Plan:
    """Make our curves of F1 by the steps of `longer`; nothing without ``a2d.lengths``. Dev chose the weights."""
    if not preset.a2d.lengths:
        return {}
    (kind,) = runs = runs_of(preset, ["RMR"])
    yield [student for run in runs[kind] for student in run.students.values()]
    columns = sets_of(preset, ABLATED[1:])
    cells = {
        (point, column, seed): ((one,), name)
        for seed in range(preset.seeds)
        for point, one in longer(preset, kind, seed).items()
        for column, name in columns.items()
    }
    f1 = shared.mean_f1(preset, (yield from shared.answer_sets(preset, cells, together=True)))
    parts, rivals = parts_of(preset, runs), (kind, f"{kind}, smoothed labels", f"{kind} + one teacher")
    student, last = f"{kind} + A2D", f", {max(preset.a2d.lengths):g}"
    pairs = product(rivals, reversed(columns))
    return parts | {
        "scores": [Score(method=m, column=c, seed=seed, value=value, x=x) for ((m, x), c, seed), value in f1.items()],
        "baselines": [],
        "claims": [beats(student + last, rival + last, column, control=True) for rival, column in pairs],
        "payload": {"x": "times the steps"},
        "notes": [*parts["notes"], f"the one teacher is {kind}, the first member; smoothed labels: {SMOOTHING:g}"],
        "training_seconds": shared.training_seconds(one for (one,), _ in cells.values()),
    }


def figure3(preset: Preset) -> Plan:
    """Make Figure 3: a question as the first seed's first member sees it, and as the student does."""
    (kind,) = runs = runs_of(preset, ["RMR"])
    pair = runs[kind][0].members[0], runs[kind][0].students[f"{kind} + A2D"]
    yield pair
    name = "AddSent" if preset.data.adversarial else "test"
    questions = question_set(preset.drawn(0).data, name)
    questions = [example for example in questions if example.id != example.group] or questions  # changed passages
    readers = {when: keep_attention(one.load()) for when, one in zip(("before", "after"), pair, strict=True)}
    example, notes = case.choose(preset, readers, name, questions)
    note = f"{kind}, seed 0: the ensemble's first member, and the reader distilled from the ensemble"
    payload, seconds = case.compare(preset, readers, example), shared.training_seconds(pair)
    return {"payload": payload, "notes": [note, *notes], "training_seconds": seconds}


CARD = Paper(
    key="a2d",
    title="Hu et al. 2018: attention-guided answer distillation",
    reference="https://doi.org/10.18653/v1/D18-1232",
    artefacts=(
        Artefact("table1", "A2D, Table 1: a reader, an ensemble, and the reader distilled from it", average=False),
        Artefact("table2", "A2D, Table 2: adversarial questions", average=False),
        Artefact("table4", "A2D, Table 4: how much faster the student is", unit=FASTER, average=False),
        Artefact("table5", "A2D, Table 5: what each part is worth", average=False),
        Artefact("figure4", "A2D, Figure 4: F1 by type of question", "bars", average=False),
        Artefact("steps", "A2D, ours: longer training, one teacher, smoothed labels", "curve", "F1", False, True),
        Artefact("figure3", "A2D, Figure 3: a question before and after distillation", "case", "probability"),
        Artefact("table3", "A2D, Table 3: free answers about stories", unit="score", average=False),
    ),
    notebooks=(
        Notebook("06_a2d_main", (table1, table2)),
        Notebook("07_a2d_ablation", (table5, figure4, steps)),
        Notebook("08_a2d_attention", (figure3,)),
        Notebook(
            "09_a2d_narrativeqa",
            (table3,),
            lambda p: "" if p.data.narrative else "data.narrative names no free answers",
        ),
    ),
    growth={"table1": (table1, "data")},
    settings=("a2d", "mnemonic"),
)
