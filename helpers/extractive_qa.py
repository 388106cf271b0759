"""Questions about passages: windows, the likelihood, answers, and what a reader trains on."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from helpers import metrics
from helpers.batches import Batches, plan_steps, upsampled
from helpers.data.examples import PARTS, DataError, Example
from helpers.data.load import domains_of_set, fingerprint_examples, load, load_set
from helpers.loop import Batch
from helpers.models.attention import keep_attention
from helpers.models.encoders import load_encoder, load_tokenizer, vocabulary_fingerprint
from helpers.presets.schema import DataSettings, Preset, TrainingSettings, WindowSettings
from helpers.sequences import Windows, make_windows, note_unknown
from helpers.task import Task
from helpers.training import Logits, Model, Outputs, Training, predict

SIDES = ("start", "end")
LOWEST = torch.finfo(torch.float32).min  # logit of a masked token
Span = tuple[Tensor, Tensor]  # values of start and of end

# --- windows and batches --------------------------------------------------------------------------------------------


def windows_of(preset: Preset, domains: Sequence[str], part: str) -> Windows:
    """Cut one part ("train", "valid" or "test") of the domains into windows, one domain after another.

    Each domain is tokenised once per process, and cut the same way alone and among others.
    """
    return _windows(preset.data, preset.windows, preset.encoder, tuple(domains), part)


@lru_cache(maxsize=64)
def _windows(data: DataSettings, cut: WindowSettings, encoder: str, domains: tuple[str, ...], part: str) -> Windows:
    if len(domains) > 1:
        return Windows.concatenate([_windows(data, cut, encoder, (name,), part) for name in domains])
    if part != "train":
        cut = cut.model_copy(update={"empty_windows": 1.0})
    examples = getattr(load(data, domains[0]), part)
    return make_windows(examples, load_tokenizer(encoder), **cut.model_dump(), seed=data.seed)


def windows_over(preset: Preset, examples: list[Example]) -> Windows:
    """Cut any examples into windows, none left out, as scoring needs them."""
    settings = preset.windows.model_dump(exclude={"empty_windows"})
    return make_windows(examples, load_tokenizer(preset.encoder), **settings)


def count_steps(preset: Preset, domains: Sequence[str], optim: TrainingSettings, exact: bool = True) -> int:
    """Count the optimiser steps of all epochs over domains together, each repeated to the size of the largest; without
    ``exact`` as if each question were one window, since nothing is tokenised."""
    sizes = {name: len(load(preset.data, name).train) for name in domains}
    rows = {name: len(windows_of(preset, [name], "train")) if exact else size for name, size in sizes.items()}
    windows = sum(rows[name] * max(sizes.values()) / size for name, size in sizes.items())
    return max(1, round(optim.epochs * windows / optim.batch_size))


# --- the likelihood -------------------------------------------------------------------------------------------------


def log_probabilities(logits_BxL: Tensor, mask_BxL: Tensor) -> Tensor:
    """Take the log softmax over the unmasked positions (IMM Eqs. 1, 2); masked ones get the lowest float32.

    Raises ValueError where logits have not the mask's shape, as those of start alone where a pair is expected. On a
    CPU, warns of probabilities in their place.
    """
    if logits_BxL.shape != mask_BxL.shape:
        shapes = f"the mask's shape {(*mask_BxL.shape,)}, found {(*logits_BxL.shape,)}"
        raise ValueError(f"expected logits of {shapes}; give a mask B×L, and start and end as a pair")
    warn_of_probabilities(logits_BxL)
    return nn.functional.log_softmax(logits_BxL.float().masked_fill(mask_BxL == 0, LOWEST), dim=-1)


def warn_of_probabilities(logits: Tensor) -> None:
    """Warn where all rows add up to 1 and none is below 0. On a GPU nothing is read, which would have to wait."""
    is_readable = logits.device.type == "cpu" and logits.numel()
    if is_readable and logits.amin() >= 0 and (logits.detach().float().sum(-1) - 1).abs().amax() < 1e-3:
        warnings.warn("expected logits, found probabilities; give what the softmax is taken of", stacklevel=3)


def span_negative_log_likelihood(student: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Compute -log P(start) - log P(end) of each example, shape B (IMM Eqs. 4 and 8, summed; BERT halves it).

    ``student`` are logits (B×L each), ``gold`` positions (B each).
    """
    return -sum(take(log_probabilities(logits, mask_BxL), gold_B) for logits, gold_B in zip(student, gold, strict=True))


def take(values_BxL: Tensor, position_B: Tensor) -> Tensor:
    """Take each example's value at its position, shape B. Raises ValueError for positions that are of no real token."""
    if position_B.dtype != torch.int64 or position_B.shape != values_BxL.shape[:1]:
        shapes = f"({len(values_BxL)},), found {position_B.dtype} of shape {(*position_B.shape,)}"
        raise ValueError(f"expected int64 positions of shape {shapes}; give a pair, one of each example")
    is_on_cpu, last = position_B.device.type == "cpu", values_BxL.shape[1] - 1  # a GPU would have to wait
    values_B = values_BxL.gather(1, (position_B.clamp(0, last) if is_on_cpu else position_B)[:, None])[:, 0]
    if is_on_cpu and ((values_B <= LOWEST / 2) | (position_B < 0) | (position_B > last)).any():
        raise ValueError(f"expected positions of real tokens, found {position_B.tolist()}; leave out answers cut off")
    return values_B


def weighted_mean(values_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
    """Average over examples, each weighted: sum(w v) / B. B counts zero weights too (IMM Eq. 7 divides by |M|)."""
    return (values_B if weight_B is None else values_B * weight_B).sum() / len(values_B)


def likelihood(output, batch: Batch, progress: float = 0.0) -> dict[str, Tensor]:
    """Compute the negative log-likelihood of the answers, weighted where the batch has weights."""
    student, gold = (output.start_logits, output.end_logits), (batch["start"], batch["end"])
    values_B = span_negative_log_likelihood(student, gold, batch["attention_mask"])
    return {"likelihood": weighted_mean(values_B, batch.get("weight"))}


# --- answers --------------------------------------------------------------------------------------------------------


def distributions(windows: Windows, logits: Logits, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return softmax(logits / temperature) within every window, of start and of end.

    Both are flat as the logits are: ``windows.lengths_W`` values of each window, in window order.
    """
    lengths, sides = windows.lengths_W, []
    for flat in (logits.start, logits.end):
        scaled = flat / np.float32(temperature)
        powers = np.exp(scaled - np.repeat(np.maximum.reduceat(scaled, windows.offsets_W), lengths))
        sides.append(powers / np.repeat(np.add.reduceat(powers, windows.offsets_W), lengths))
    return tuple(sides)


def ensemble_log_probs(windows: Windows, members: Sequence[Logits]) -> Logits:
    """Return the log of several readers' mean distributions, flat as logits are (Hu et al. 2018, section 3.4)."""
    return finite_log(*np.mean([distributions(windows, logits) for logits in members], axis=0))


def finite_log(start: np.ndarray, end: np.ndarray) -> Logits:
    """Return the log of probabilities, finite also for 0."""
    return Logits(*(np.log(np.maximum(side, np.finfo(np.float32).tiny)) for side in (start, end)))


def answer(
    preset: Preset,
    models: Iterable[nn.Module],
    windows: Windows,
    no_answer: bool | np.ndarray = False,
    *,
    together: bool = False,
    **calibration: float | np.ndarray,
) -> list[Prediction]:
    """Answer every example of ``windows``; ``no_answer`` and the ``calibration`` of `calibrate` as in `decode`.

    A reader's answers are decoded from its logits. With ``together`` they come from the mean of readers' distributions
    over each window, which makes the windows of a passage comparable (Hu et al. 2018, section 3.4).
    """
    members = [predict(model, windows, preset.training.precision) for model in models]
    (logits,) = [ensemble_log_probs(windows, members)] if together else members
    return decode(windows, logits, no_answer=no_answer, **calibration, **preset.answers.model_dump())


# --- logits to answers ----------------------------------------------------------------------------------------------
# By the rules of BERT's and Hugging Face's scripts. The n_best highest start and end logits among a window's passage
# tokens are paired, but for tokens of white space and invisible characters alone. Pairs that run backwards or are too
# long are dropped. The others of all the question's windows compete. Equal logits and equal scores go to the earlier
# window, then to the earlier start, then to the earlier end.

DECODED = 256  # windows that are decoded together
HIGHEST_LIMIT = 1e38  # threshold for an infinite one, which neither JSON nor a softmax has


class Candidate(NamedTuple):
    """A span of characters (half-open), its score (start plus end logit) and its share of the softmax over a question's
    candidates. The empty answer has no span, and the null score, which counts less the threshold in the softmax."""

    text: str
    span: tuple[int, int] | None
    score: float
    probability: float


class Prediction(NamedTuple):
    """The answer to question ``id``: the fields of its candidate, and all candidates, best first.

    ``best_text`` is the best span's even where the empty answer won. ``null_difference`` is the null score minus the
    best span's score: the higher, the less likely an answer. It is infinite where the passage has no span.
    """

    id: str
    text: str
    span: tuple[int, int] | None
    score: float
    probability: float
    null_difference: float
    best_text: str
    n_best: list[Candidate]

    def __repr__(self) -> str:
        return f"Prediction(text={self.text!r}, span={self.span}, probability={self.probability:.3f}, …)"

    @property
    def confidence(self) -> float:
        """The probability of the text, which may stand in several places."""
        return sum(candidate.probability for candidate in self.n_best if candidate.text == self.text)


def decode(
    windows: Windows, logits: Logits, *, n_best=20, max_tokens=30, no_answer=False, null_threshold=0.0, temperature=1.0
) -> list[Prediction]:
    """Return one answer for each of ``windows.examples``, in their order.

    The null score is the least start plus end logit of the windows' [CLS] tokens. With ``no_answer`` the empty answer
    is a candidate. It wins where the null difference exceeds ``null_threshold``, and wherever there is no span. Both
    are for all questions, or one value per question. ``temperature`` is that of the softmax over the candidates. A
    logit of -inf rules its position out. Raises DataError naming the question where a logit is NaN or inf.
    """
    if not (is_number := (logits.start < np.inf) & (logits.end < np.inf)).all():
        window = np.searchsorted(windows.offsets_W, is_number.argmin(), "right") - 1
        name = windows.examples[windows.example_W[window]].id
        raise DataError(f"question {name!r}: a logit of window {window} is NaN or inf; did the model diverge?")
    first_W, number = windows.offsets_W, len(windows.examples)
    null, spans = np.full(number, np.inf, np.float32), [[] for _ in range(number)]
    np.minimum.at(null, windows.example_W, logits.start[first_W] + logits.end[first_W])
    by_length = np.argsort(windows.passage_len_W, kind="stable")
    for begin in range(0, len(by_length), DECODED):
        rows = by_length[begin : begin + DECODED]
        column = np.arange(max(1, windows.passage_len_W[rows[-1]]))
        is_real = column < windows.passage_len_W[rows][:, None]
        place = np.where(is_real, (first_W + windows.passage_start_W)[rows][:, None] + column, 0)
        is_solid = is_real.copy()
        is_solid[is_real] = np.concatenate([np.less(*windows.rows[window].chars.T) for window in rows])
        sides = (np.where(is_solid, side[place], np.float32(-np.inf)) for side in (logits.start, logits.end))
        scores, firsts, lasts = (values.tolist() for values in best_pairs(*sides, n_best, max_tokens))
        for window, *pairs in zip(rows.tolist(), scores, firsts, lasts, strict=True):
            chars, of_question = windows.rows[window].chars.tolist(), spans[windows.example_W[window]]
            for score, first, last in zip(*pairs, strict=True):
                if score > -np.inf:
                    of_question.append((-score, window, chars[first][0], chars[last][1]))

    answers, limits = [], np.clip(np.broadcast_to(null_threshold, number), -HIGHEST_LIMIT, HIGHEST_LIMIT).tolist()
    for example, pairs, nothing, may, limit in zip(
        windows.examples, spans, null.tolist(), np.broadcast_to(no_answer, number), limits, strict=True
    ):
        pairs = sorted(pairs, key=lambda pair: pair[:2])[:n_best]  # stable: pairs of a window stand by start and end
        listed = [(example.context[begin:end], (begin, end), -score) for score, _, begin, end in pairs]
        difference = float(np.float32(nothing) - np.float32(listed[0][2])) if listed else np.inf
        best_text, is_empty = listed[0][0] if listed else "", not listed or (may and difference > limit)
        if may or not listed:
            listed.append(("", None, nothing))
        heights = np.array([score - limit * (span is None) for _, span, score in listed])
        powers = np.exp((heights - heights.max()) / temperature)
        shares = (powers / powers.sum()).tolist()
        candidates = [Candidate(*facts, share) for facts, share in zip(listed, shares, strict=True)]
        candidates.sort(key=lambda candidate: -candidate.probability)
        best = next(candidate for candidate in candidates if (candidate.span is None) == is_empty)
        answers.append(Prediction(example.id, *best, difference, best_text, candidates))
    return answers


def best_pairs(start: np.ndarray, end: np.ndarray, n: int, longest: int) -> tuple[np.ndarray, ...]:
    """Return score, start and end of the n best pairs of each row of logits (R×P), R×n, by start and then end."""
    row, first, last = np.arange(len(start))[:, None], greatest(start, n), greatest(end, n)
    distance = last[:, None] - first[:, :, None]
    score = start[row, first][:, :, None] + end[row, last][:, None]
    score = np.where((distance >= 0) & (distance < longest), score, -np.inf).reshape(len(start), -1)
    pair = greatest(score, n)
    return score[row, pair], first[row, pair // last.shape[1]], last[row, pair % last.shape[1]]


def greatest(values: np.ndarray, n: int) -> np.ndarray:
    """Return the columns of each row's n greatest values, ascending; of equal values the earlier count."""
    return np.sort(np.argsort(-values, axis=1, kind="stable")[:, :n])


# --- labels ---------------------------------------------------------------------------------------------------------


def label_spans(windows: Windows) -> dict[int, tuple[int, tuple[int, int]]]:
    """Return the number of tokens and the characters of each answer that a window holds, by its example's number."""
    spans = {}
    for window in np.flatnonzero(windows.labels["start"]):
        first, last = (windows.labels[side][window] - windows.passage_start_W[window] for side in SIDES)
        chars = windows.rows[window].chars
        spans[int(windows.example_W[window])] = int(last - first) + 1, (int(chars[first][0]), int(chars[last][1]))
    return spans


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelCheck(Task):
    """Count the answers that tokenisation changes or loses.

    Its result has ``em``, the exact match of the labelled spans by part: no reader can score higher. Its
    ``notes`` count the answers that are too long, in no window, or widened.
    """

    domain: str

    def settings(self) -> dict:
        return {
            "data": fingerprint_examples(self.preset.data, self.domain),
            **self.preset.model_dump(include={"windows", "answers"}),
            "vocabulary": vocabulary_fingerprint(self.preset.encoder),
        }

    def work(self) -> dict:
        notes, em, longest = [], {}, self.preset.answers.max_tokens
        for part in PARTS:
            windows = windows_of(self.preset, [self.domain], part)
            spans, examples, texts = label_spans(windows), windows.examples, [""] * len(windows.examples)
            counts = Counter()
            for number, example in enumerate(examples):
                tokens, chars = spans.get(number, (0, (0, 0)))
                text = example.context[slice(*chars)]
                texts[number] = text if tokens <= longest else ""
                if example.span:
                    counts[f"are longer than answers.max_tokens = {longest} (raise it)"] += tokens > longest
                    counts["lie in no window (raise windows.max_length)"] += tokens == 0
                    is_wider = tokens > 0 and text != example.context[slice(*example.span)]
                    counts["are widened to whole tokens"] += is_wider
            if lost := [f"{count:,} {problem}" for problem, count in counts.items() if count]:
                total = sum(example.span is not None for example in examples)
                notes.append(f"{self.domain}: of {total:,} {part} answers, {', '.join(lost)}")
            em[part] = float(metrics.score(examples, texts).em.mean())
        tokenizer = load_tokenizer(self.preset.encoder)
        notes += note_unknown(windows_of(self.preset, [self.domain], "train"), tokenizer, self.domain)
        if any(metrics.is_unspaced(example.context) for example in examples):
            notes.append(f"{self.domain}: scored by character where the script sets no spaces between words")
        return {"notes": notes, "em": em}


def labels_of(preset: Preset, domains: Iterable[str]) -> list[LabelCheck]:
    """Return the `LabelCheck` of each domain."""
    return [LabelCheck(preset=preset, label=f"labels of {name}", domain=name) for name in domains]


# --- trainings and outputs --------------------------------------------------------------------------------------------

ORDERS = 1000  # apart: the orders of two rounds; the seed makes that of the first


def reading_settings(preset: Preset, domains: Iterable[str]) -> dict:
    """Return what a training on questions of some domains depends on besides the questions."""
    return {
        **preset.model_dump(include={"windows", "answers"}),
        "unanswerable": [name for name in domains if preset.data.may_be_unanswerable(name)],
    }


def reader_facts(preset: Preset, domains: Iterable[str]) -> dict:
    """Return what the configuration of a reader of some domains records, for `helpers.answering.TrainedReader`."""
    return {
        "windows": preset.windows.model_dump(exclude={"empty_windows"}),
        "answers": preset.answers.model_dump(),
        "unanswerable": any(map(preset.data.may_be_unanswerable, domains)),
        "null_threshold": 0.0,
        "precision": preset.training.precision,
    }


@dataclass(frozen=True)
class Questions:
    """The training questions of the domains ``names``, up-sampled to equal numbers (`helpers.training.Data`).

    F1 on the validation questions of ``selected_by`` selects the weights. Windows have their domain's weight where
    there are ``weights``. Steps are ``times`` the epochs over its domains, or over those of ``budget``, divided among
    ``stages`` trainings. The order follows the seed and the number ``order``. A second stage skips the batches of the
    first, ``after``, in the same order, and has the remaining steps, or with ``again`` as many as both.
    """

    names: tuple[str, ...]
    selected_by: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)
    budget: tuple[str, ...] = ()
    stages: int = 1
    order: int = 0
    times: float = 1.0
    after: Questions | None = None
    again: bool = False

    def settings(self, preset: Preset) -> dict:
        names = sorted({*self.names, *self.selected_by, *self.budget})
        data = {name: fingerprint_examples(preset.data, name, "train", "valid") for name in names}
        return {"data": data} | reading_settings(preset, names)

    def checks(self, preset: Preset) -> list[Task]:
        return [*labels_of(preset, {*self.names, *self.selected_by})]

    def steps(self, preset: Preset, optim: TrainingSettings, exact: bool = True) -> int:
        """Count the steps, as `count_steps`. Raises DataError where stages outnumber them."""
        whole = count_steps(preset, self.budget or self.names, optim, exact)
        if whole < self.stages:
            raise DataError(
                f"{' + '.join(self.names)}: training.epochs = {optim.epochs:g} make {whole} step for {self.stages} "
                "stages; raise training.epochs, or give more questions"
            )
        number = max(1, round(self.times * (whole // self.stages)))
        return number if self.again or not self.after else number - self.after.steps(preset, optim, exact)

    def batches(self, preset: Preset, optim: TrainingSettings, seed: int) -> Batches:
        windows = windows_of(preset, self.names, "train")
        if self.weights:
            sizes = [len(windows_of(preset, [name], "train")) for name in self.names]
            weights_W = np.repeat(np.float32([self.weights[name] for name in self.names]), sizes)
            windows = windows.with_labels(weight=weights_W)
        sizes = [len(load(preset.data, name).train) for name in self.names]
        domain_of_example = np.repeat(np.arange(len(sizes)), sizes)
        epochs = upsampled(windows, domain_of_example, batch_size=optim.batch_size, seed=seed + ORDERS * self.order)
        skipped = self.after.steps(preset, optim) if self.after else 0
        return Batches(windows, plan_steps(epochs, skipped + self.steps(preset, optim))[skipped:])

    def scores(self, preset: Preset, model: nn.Module) -> dict[str, float]:
        scores = {}
        for name in self.selected_by:
            windows = windows_of(preset, [name], "valid")
            answers = answer(preset, [model], windows, preset.data.may_be_unanswerable(name))
            scores[name] = float(metrics.score(windows.examples, answers).f1.mean())
        return scores

    def facts(self, preset: Preset) -> dict:
        return reader_facts(preset, {*self.names, *self.selected_by})


@dataclass(frozen=True)
class Reader(Model):
    """A pretrained encoder that reads questions about passages. A loss on its attention needs ``keeps_attention``."""

    keeps_attention: bool = False

    def build(self, training: Training) -> nn.Module:
        preset, start = training.preset, training.start
        model = load_encoder(
            str(start.saved()) if start else preset.encoder,
            seed=training.seed,
            max_length=preset.windows.max_length,
            random_layers=0 if start else preset.random_layers,
        )
        return keep_attention(model) if self.keeps_attention else model


def store_logits(outputs: Outputs) -> tuple[dict, dict[str, Tensor]]:
    """Compute one reader's logits of the training windows of a domain, as float16: ``start`` and ``end``, flat."""
    ((name, (reader,)),) = outputs.models.items()
    windows = windows_of(outputs.preset, [name.removeprefix("train/")], "train")
    logits = predict(reader.load(), windows, outputs.preset.training.precision)
    return {"windows": len(windows)}, {side: torch.from_numpy(getattr(logits, side)).half() for side in SIDES}


def answer_questions(
    outputs: Outputs, together: bool = False, thresholds: bool = False
) -> tuple[dict, dict[str, Tensor]]:
    """Have one reader, or several together, answer sets of questions. Return the texts of the ``answers`` by set.

    With ``together`` answers come from the mean of the readers' distributions. Questions that sets share count once.
    With ``thresholds`` a domain's null threshold is chosen on its validation questions, which are among the sets.
    """
    preset, keys, domains, examples = outputs.preset, {}, {}, {}
    for name in outputs.sets:
        questions, domains[name] = load_set(preset, name), domains_of_set(preset.data, name)
        allowed = map(preset.data.may_be_unanswerable, domains[name])
        keys[name] = [(e.question, e.context, may) for e, may in zip(questions, allowed, strict=True)]
        examples |= zip(keys[name], questions, strict=True)
    windows = windows_over(preset, list(examples.values()))
    no_answer = np.array([may for *_, may in examples])
    readers = next(iter(outputs.models.values()))
    models = (reader.load() for reader in readers)
    answered = dict(zip(examples, answer(preset, models, windows, no_answer, together=together), strict=True))
    predictions = {name: [answered[key] for key in keys[name]] for name in outputs.sets}
    limits = {}
    for domain in dict.fromkeys(chain(*domains.values())):
        limits[domain] = 0.0 if preset.data.may_be_unanswerable(domain) else np.inf
        if thresholds and limits[domain] == 0.0:
            name = f"valid/{domain}"
            limits[domain] = metrics.best_threshold(load_set(preset, name), predictions[name])
    by_set = {name: [limits[domain] for domain in domains[name]] for name in outputs.sets}
    return {"answers": {name: metrics.answers_above(predictions[name], by_set[name]) for name in by_set}}, {}


def average_gold_probability(outputs: Outputs) -> tuple[dict, dict[str, Tensor]]:
    """Average the probability that a reader gives to the first and last token of right answers, by set.

    Only windows that hold the answer count. Near 1 the reader has memorised, and teaches no more than labels do.
    """
    preset, probabilities = outputs.preset, {}
    for name, (reader,) in outputs.models.items():
        split, _, domain = name.partition("/")
        windows = windows_of(preset, [domain], split)
        sides = distributions(windows, predict(reader.load(), windows, preset.training.precision))
        answered = np.flatnonzero(windows.labels["start"])
        places = [(windows.offsets_W + windows.labels[side])[answered] for side in SIDES]
        means = [values[place].mean() for values, place in zip(sides, places, strict=True)]
        probabilities[split] = float(np.mean(means))
    return probabilities, {}
