"""A2D: attention-guided answer distillation for reading comprehension (Hu et al. 2018, EMNLP).

An ensemble of readers with different seeds predicts all training questions once. One reader learns from its mean
distributions, its mean attention and its most confusing answers (Eq. 1).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Literal

from torch import Tensor, nn

from helpers import reading
from helpers.batches.plans import Batches
from helpers.data.examples import Example
from helpers.data.load import narrative
from helpers.data.sets import question_set, question_set_names
from helpers.engine import Plan
from helpers.loop import Batch
from helpers.models.attention import attention_layers, keep_attention
from helpers.models.encoders import load_saved, load_tokenizer, vocabulary_fingerprint
from helpers.models.mnemonic import glove_digest, make_reader
from helpers.papers import case, shared
from helpers.papers.card import Artefact, Notebook, Paper
from helpers.papers.ensemble import EnsembleOutputs, add_outputs
from helpers.papers.shared import Models
from helpers.presets.schema import Preset
from helpers.reading import Span, log_probabilities
from helpers.results.records import Claim, Score


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
    """Compute the terms of Eq. 1 that have a weight (CE, KD, ANS, ATT), weighted, averaged over windows."""
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


def weigh_terms(preset: Preset, without: str = "") -> dict[str, float]:
    """Return the weights of Eq. 1 that are not 0. Lambda is tau squared, which scales the gradients (section 2.2)."""
    tau, gamma, delta = preset.a2d.temperature, preset.a2d.answer_weight, preset.a2d.attention_weight
    weights = {"CE": 1.0, "KD": tau**2, "ANS": gamma, "ATT": delta}
    return {name: weight for name, weight in weights.items() if weight and name != without}


def smoothed_likelihood(output, batch: Batch, smoothing: float) -> Tensor:
    """Compute -sum q log P of start and of end, a mean over windows: a control (Szegedy et al. 2016, section 7).

    q spreads ``smoothing`` evenly over passage tokens and [CLS], and adds the rest to the gold token.
    """
    student, mask_BxL = (output.start_logits, output.end_logits), batch["attention_mask"]
    possible_BxL = batch["segment_ids"] == 2
    possible_BxL[:, 0] = True
    hard_B = reading.span_negative_log_likelihood(student, (batch["start"], batch["end"]), mask_BxL)
    logs_BxL = sum(log_probabilities(side, mask_BxL) for side in student)
    even_B = -logs_BxL.masked_fill(~possible_BxL, 0.0).sum(-1) / possible_BxL.sum(-1)
    return reading.weighted_mean((1 - smoothing) * hard_B + smoothing * even_B)


Kind = Literal["RMR", "BERT"]  # the paper's reader, and one that is not in the paper


@dataclass(frozen=True, kw_only=True, eq=False)
class Reader(reading.Reader):
    """The training of RMR or of a BERT reader: a member of an ensemble, or a student of one by some ``terms`` of Eq. 1.

    It has ``times`` the preset's steps. A second stage starts from its first stage, ``start``, and continues its order
    of questions: for the remaining steps, or with ``anew`` for all. ``smoothing`` is of labels (`smoothed_likelihood`).
    Instead of one ``ensemble``, each domain may have a teacher of its own, ``by_domain`` in the order of ``domains``.
    """

    kind: Kind
    ensemble: EnsembleOutputs | None = None
    by_domain: tuple[EnsembleOutputs, ...] = ()
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
        if self.kind == "BERT":
            attention_layers(model)  # an ensemble without is of no use, so say so before it is trained
        return keep_attention(model) if "ATT" in self.terms else model

    def batches(self) -> Batches:
        before = self.start.steps() if self.start else 0
        batches = reading.training_batches(self.preset, self.domains, before + self.steps(), self.seed)
        del batches.plan[:before]
        if outputs := self.by_domain or ((self.ensemble,) if self.ensemble else ()):
            add_outputs(batches, outputs)
        return batches

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        if self.smoothing:
            return {"CE": smoothed_likelihood(output, batch, self.smoothing)}
        return joint_loss(output, batch, self.terms, self.preset.a2d.temperature)


ALL = "all domains"
STAGED, STAGED_WHOLE = "- Joint Training", "- Joint Training, full second stage"  # match the attention first
# The rows of Table 5, each with the term of Eq. 1 that it leaves out; the last is not in the paper.
ABLATIONS = {"A2D": "", "- Vanilla KD": "KD", "- ATT": "ATT", "- ANS": "ANS", STAGED: "ATT", STAGED_WHOLE: "ATT"}
SMOOTHING = 0.1


def name_reader(preset: Preset, kind: Kind, seed: int, label: str, **parts) -> Reader:
    """Name the training of a reader on all domains, selected on them."""
    if kind == "RMR":  # has settings of its own
        preset = preset.changed("training", **preset.mnemonic.training()).model_copy(update={"random_layers": 0})
    names = tuple(sorted(preset.data.domains))
    parts = {"domains": names, "selected_by": names, **parts}
    return Reader(preset=preset, label=f"{label}, seed {seed}", kind=kind, seed=seed, **parts)


def name_students(preset: Preset, kind: Kind, seed: int, rows: Iterable[str] = ("A2D",)) -> dict[str, Reader]:
    """Name the trainings of section 3.4 for one seed. Returns a student by row, for each of some `ABLATIONS`."""
    preset, numbers = preset.drawn(seed), range(1, preset.a2d.members + 1)
    members = tuple(name_reader(preset, kind, seed + 100 * n, f"{kind}, member {n}") for n in numbers)  # step 1
    settings = {"temperature": preset.a2d.temperature, "top_k": preset.a2d.top_k}  # steps 2 and 3
    label = f"{kind}, outputs of the members, seed {seed}"
    ensemble = EnsembleOutputs(preset=preset, label=label, members=members, **settings)
    train = partial(name_reader, preset, kind, seed, ensemble=ensemble)  # step 4
    alone = {"terms": {"ATT": preset.a2d.attention_weight or 1.0}, "stages": 2, "selected_by": ()}
    first = train(f"{kind}, {STAGED}, first stage", **alone)
    staged = {STAGED: {"start": first}, STAGED_WHOLE: {"start": first, "anew": True}}
    students = {}
    for row in rows:
        label = f"{kind} + A2D" if row == "A2D" else f"{kind}, {row}"
        student = train(label, terms=weigh_terms(preset, ABLATIONS[row]), **staged.get(row, {}))
        students[label.removeprefix("RMR, ")] = student  # the paper's rows of Table 5 bear no reader's name
    return students


def name_controls(preset: Preset, kind: Kind) -> Models:
    """Name readers that tell distillation from a stronger signal and from longer training, by line and ``times``.

    They are the first member, A2D, the same with that member as its only teacher, and a reader with smoothed labels.
    All but the first share the student's initial weights and order.
    """
    models = Models(preset)
    for seed in range(preset.seeds):
        (student,) = name_students(preset, kind, seed).values()
        first = student.ensemble.members[0]
        lines = {
            kind: first,
            f"{kind} + A2D": student,
            f"{kind} + one teacher": replace(student, ensemble=replace(student.ensemble, members=(first,))),
            f"{kind}, smoothed labels": replace(first, seed=seed, smoothing=SMOOTHING),
        }
        for (line, one), times in product(lines.items(), sorted(preset.a2d.lengths)):
            label = f"{line}, {times:g} times the steps, seed {seed}"
            models.add((line, times), seed, {ALL: replace(one, label=label, times=times)})
    return models


FASTER = "times faster than its ensemble"
ADVERSARIAL = ("clean", "AddSent", "AddOneSent")  # columns, and the sets of questions that stand in them
SETS = {"Dev": "valid", "Test": "test"} | {name: name for name in ADVERSARIAL}
ABLATED = ("Dev", "Test", "AddSent")


def list_kinds(preset: Preset) -> list[Kind]:
    """List the kinds of readers: RMR, and BERT as a control unless ``other_seeds`` is 0; BERT without RMR."""
    if not preset.a2d.rmr:
        return ["BERT"]
    return ["RMR", "BERT"] if preset.other_seeds else ["RMR"]


def list_ablations(preset: Preset) -> list[str]:
    """List the rows of Table 5, without the control where ``other_seeds`` is 0."""
    return [row for row in ABLATIONS if row != STAGED_WHOLE or preset.other_seeds]


def name_rows(preset: Preset, kinds: Iterable[Kind], rows: Iterable[str] = ("A2D",), each: int = 1) -> Models:
    """Name the readers of a table's rows with every seed: each member by itself, the ensemble, and students.

    A row has ``each`` students of an ensemble, which differ in first weights and in the order of questions.
    """
    models = Models(preset)
    for kind, seed in product(kinds, range(preset.seeds)):
        students = name_students(preset, kind, seed, rows)
        members = students[f"{kind} + A2D"].ensemble.members
        models.add(kind, seed, {member.label: member for member in members})
        models.add(f"{kind} (E)", seed, {ALL: members})
        for row, first in students.items():
            others = {f"{row}, student {n}, seed {seed}": seed + 100 * (len(members) + n) for n in range(2, each + 1)}
            of_row = {label: replace(first, label=label, seed=number) for label, number in others.items()}
            models.add(row, seed, {ALL: first, **of_row})
    return models


def answer_columns(models: Models, columns: Iterable[str]) -> Plan:
    """Have readers answer the sets of some columns, if there are any. Returns texts by row, column and seed.

    The row of a reader by itself has the texts of every member of the ensemble.
    """
    names, texts = question_set_names(models.preset.data), {}
    sets = {column: SETS[column] for column in columns if SETS[column] in names}
    cells = {((row, n), column, s): (readers, sets[column]) for row, n, s, readers in models for column in sets}
    answered = yield from shared.answer_sets(models.preset, cells, together=True)
    for ((row, _), column, seed), (name, of_reader) in answered.items():
        texts.setdefault((row, column, seed), (name, []))[1].extend(of_reader)
    return texts


def score_columns(models: Models, columns: Iterable[str]) -> Plan:
    """Have readers answer the sets of some columns. Returns F1 and EM as parts of a record."""
    texts = yield from answer_columns(models, columns)
    return add_notes(models, shared.f1_and_em(shared.score_cells(models.preset, texts)))


def add_notes(models: Models, parts: dict) -> dict:
    """Return the parts of a record with notes on how its readers were trained, their settings, and the seconds."""
    a2d, trainings = models.preset.a2d, {readers[0].kind: readers[0].training for *_, readers in models}
    students = max(len(of_row) for seeds in models.by_row.values() for of_row in seeds.values() if ALL in of_row)
    notes = [
        f"every {kind} reader: {training.epochs:g} epochs, {training.batch_size} windows per step"
        for kind, training in trainings.items()
    ]
    notes += [
        f"ensembles of {a2d.members}; a reader's own row is the mean over its ensemble's members, that of A2D "
        f"over {students} student{'s' * (students > 1)}",
        f"temperature {a2d.temperature:g}, gamma {a2d.answer_weight:g}, delta {a2d.attention_weight:g}",
        shared.state_training_sizes(models.preset.data),
    ]
    settings = {"a2d": a2d.model_copy(update={"students": students}), "data": models.preset.data}
    facts = {"notes": notes + parts.get("notes", []), "settings": settings, "training_seconds": models.seconds}
    return parts | facts


def beats(above: str, below: str, column: str, on: str = "on", **flags: bool) -> Claim:
    """State that one row beats another on a column."""
    return shared.state_better(above, below, "beats", f" {on} {column}", columns=[column], **flags)


def table1(preset: Preset, columns: Sequence[str] = ("Dev", "Test")) -> Plan:
    """Make Table 1: a reader, an ensemble, and the reader distilled from it, with claims on all columns but the first.

    Section 4.3 says "nearly" instead of half; the abstract's claims are primary. Those about another reader than the
    paper's are controls.
    """
    kinds, claims = list_kinds(preset), []
    for kind, column in product(kinds, columns[1:]):
        ensemble, student, is_control = f"{kind} (E)", f"{kind} + A2D", kind != kinds[0]
        gain = {"above": student, "below": kind, "columns": [column], "control": is_control}
        claims.append(beats(student, kind, column, control=is_control))
        if column == "Test":
            text = f"{student} keeps half of what {ensemble} gains on {column}"
            claims.append(Claim(text=text, **gain, than=[ensemble, kind], times=0.5, primary=not is_control))
        else:
            primary = column == "AddSent" and not is_control
            claims.append(beats(student, ensemble, column, primary=primary, control=is_control))
            text = f"{student} gains more over {kind} on {column} than on clean questions"
            claims.append(Claim(text=text, **gain, than=[student, kind], than_columns=["clean"]))
    models = name_rows(preset, kinds, each=preset.a2d.students)
    return {**(yield from score_columns(models, columns)), "baselines": kinds[:1], "claims": claims}


def table2(preset: Preset) -> Plan:
    """Make Table 2: the same on adversarial questions; nothing where the preset has none."""
    return (yield from table1(preset, ADVERSARIAL)) if preset.data.adversarial else {}


def with_stories(preset: Preset) -> Preset:
    """Return the preset of Table 3, whose questions about summaries have free answers."""
    return preset.model_copy(update={"data": narrative(preset.data)})


def table3(preset: Preset) -> Plan:
    """Make Table 3: BLEU and ROUGE-L of free answers to questions about stories."""
    preset = with_stories(preset)
    kind, *_ = list_kinds(preset)
    models, student = name_rows(preset, [kind]), f"{kind} + A2D"
    parts = shared.score_free_answers(preset, (yield from answer_columns(models, ["Test"])))
    claims = [beats(student, kind, column, "in") for column in ("Bleu-1", "Bleu-4", "Rouge-L")]
    claims.append(beats(student, f"{kind} (E)", "Bleu-1", "in", primary=True))
    return {**add_notes(models, parts), "baselines": [kind], "claims": claims}


def table4(preset: Preset) -> Plan:
    """Make Table 4: how long ensemble and student take for at most 200 test questions, in turns, and their sizes."""
    models, scores = name_rows(preset, list_kinds(preset)), []
    yield [reader for *_, readers in models for reader in readers]
    for kind, seed in product(list_kinds(preset), range(preset.seeds)):
        readers = {row: models.by_row[row][seed][ALL] for row in (f"{kind} (E)", f"{kind} + A2D")}
        questions = question_set(preset.drawn(seed).data, "test")
        questions = questions[:: math.ceil(len(questions) / 200)]
        windows, work = reading.windows_over(preset, questions), {}
        for row, members in readers.items():
            loaded = [one.load() for one in members]
            work[row] = partial(reading.answer, preset, loaded, windows, together=True)
        slow, fast = (seconds := shared.time_in_turns(work, repeats=3)).values()
        sizes = {row: sum(one.result()["parameters"] for one in members) / 1000 for row, members in readers.items()}
        values = {FASTER: {f"{kind} + A2D": slow / fast}, "seconds": seconds, "thousand parameters": sizes}
        cell = {"column": f"ensemble of {preset.a2d.members}", "seed": seed}
        for metric, by_row in values.items():
            scores += [Score(method=row, value=value, metric=metric, **cell) for row, value in by_row.items()]
    return add_notes(models, {"scores": scores, "notes": [f"times are for {len(questions)} test questions"]})


def table5(preset: Preset) -> Plan:
    """Make Table 5: what each part is worth. The paper says that each helps."""
    kind, *_ = list_kinds(preset)
    models, student = name_rows(preset, [kind], list_ablations(preset)), f"{kind} + A2D"
    parts, claims = (yield from score_columns(models, ABLATED)), []
    _, *columns = dict.fromkeys(score.column for score in parts["scores"])
    for row, column in product([row for row in models.by_row if "- " in row], columns):
        primary = row.endswith("- ANS") and column == columns[-1]  # AddSent, where the paper loses most
        claims.append(beats(student, row, column, primary=primary, control=row.endswith(STAGED_WHOLE)))
    return {**parts, "baselines": [student], "claims": claims}


def figure4(preset: Preset) -> Plan:
    """Make Figure 4: F1 by the question's type, for the reader by itself and the distilled one."""
    kind, *_ = list_kinds(preset)
    models, student = name_rows(preset, [kind], list_ablations(preset)), f"{kind} + A2D"
    texts = yield from answer_columns(models, ABLATED)
    texts = {cell: texts[cell] for cell in texts if cell[0] in (kind, student) and cell[1] == "Test"}
    parts = add_notes(models, shared.score_by_type(preset, texts))
    types = dict.fromkeys(score.column for score in parts["scores"])
    return parts | {"claims": [beats(student, kind, name, "on questions of the type") for name in types]}


def steps(preset: Preset) -> Plan:
    """Make curves of F1 by steps (not in the paper), on all columns but Dev, which selects.

    There are none without ``a2d.lengths`` or where ``other_seeds`` is 0.
    """
    if not (preset.a2d.lengths and preset.other_seeds):
        return {}
    preset = preset.model_copy(update={"seeds": min(preset.seeds, preset.other_seeds)})
    kind, *_ = list_kinds(preset)
    models = name_controls(preset, kind)
    f1 = shared.average_f1(preset, (yield from answer_columns(models, ABLATED[1:])))
    scores = [Score(method=m, column=c, seed=seed, value=value, x=x) for ((m, x), c, seed), value in f1.items()]
    student, last = f"{kind} + A2D", f", {max(preset.a2d.lengths):g}"
    rivals = kind, f"{kind}, smoothed labels", f"{kind} + one teacher"
    pairs = product(rivals, reversed(dict.fromkeys(score.column for score in scores)))
    claims = [beats(student + last, rival + last, column, control=True) for rival, column in pairs]
    return add_notes(models, {"scores": scores, "claims": claims, "payload": {"x": "times the steps"}})


def name_pair(preset: Preset) -> dict[str, Reader]:
    """Name the two readers of Figure 3: the first seed's first member, and the student."""
    kind, *_ = list_kinds(preset)
    (student,) = name_students(preset, kind, 0).values()
    return {"before": student.ensemble.members[0], "after": student}


def load_questions(preset: Preset) -> list[Example]:
    """Return the questions of Figure 3: adversarial ones whose passage was changed, or else those of the test part."""
    questions = question_set(preset.drawn(0).data, "AddSent" if preset.data.adversarial else "test")
    return [example for example in questions if example.id != example.group] or questions


def figure3(preset: Preset) -> Plan:
    """Make Figure 3: a question as a reader sees it before and after distillation."""
    pair = name_pair(preset)
    yield pair.values()
    readers = {when: reader.load() for when, reader in pair.items()}
    example, notes = case.choose(preset, readers, load_questions(preset))
    notes.append(f"{list_kinds(preset)[0]}, seed 0: the ensemble's first member, and the reader distilled from it")
    payload, seconds = case.compare(preset, readers, example), shared.add_up_seconds(pair.values())
    settings = {"a2d": preset.a2d.model_copy(update={"students": 1})}
    return {"payload": payload, "notes": notes, "settings": settings, "training_seconds": seconds}


ABSENT = "data.narrative names no free answers"
CARD = Paper(
    key="a2d",
    title="Hu et al. 2018: attention-guided answer distillation (A2D)",
    reference="https://doi.org/10.18653/v1/D18-1232",
    claim="A reader distilled from an ensemble keeps half of its gain",
    artefacts=(
        Artefact("table1", "A2D, Table 1: a reader, an ensemble, and the reader distilled from it", average=False),
        Artefact("table2", "A2D, Table 2: adversarial questions", average=False),
        Artefact("table4", "A2D, Table 4: how much faster the student is", unit=FASTER, average=False),
        Artefact("table5", "A2D, Table 5: what each part is worth", average=False),
        Artefact("figure4", "A2D, Figure 4: F1 by type of question", "bars", average=False),
        Artefact("steps", "A2D, ours: longer training, one teacher, smoothed labels", "curve", average=False),
        Artefact("figure3", "A2D, Figure 3: a question before and after distillation", "case", "probability"),
        Artefact("table3", "A2D, Table 3: free answers about stories", unit="score", average=False),
    ),
    notebooks=(
        Notebook("06_a2d_main", (table1, table2)),
        Notebook("07_a2d_ablation", (table5, figure4, steps)),
        Notebook("08_a2d_attention", (figure3,)),
        Notebook("09_a2d_narrativeqa", (table3,), lambda p: "" if p.data.narrative else ABSENT),
    ),
    settings=("a2d", "mnemonic"),
)
