"""Decoding: small cases worked by hand, and agreement with a plain loop."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from encoder_kinds import make_tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from helpers import extractive_qa, training
from helpers.data.examples import DataError, Example
from helpers.data.questions import read_questions
from helpers.extractive_qa import decode
from helpers.models.encoders import load_tokenizer
from helpers.sequences import Windows, make_windows
from helpers.training import Logits

WORDS = "who was when here ann bob met in rome on may day and then they left".split()


def random_logits(windows: Windows, seed: int = 0, bump: float = 4.0) -> Logits:
    """Normal noise, plus ``bump`` at the labels (the answer, or [CLS] where a window holds none)."""
    random = np.random.default_rng(seed)
    start, end = random.standard_normal((2, windows.lengths_W.sum()), np.float32)
    start[windows.offsets_W + windows.labels["start"]] += bump
    end[windows.offsets_W + windows.labels["end"]] += bump
    return Logits(start, end)


def reference_decode(
    windows: Windows,
    logits: Logits,
    *,
    n_best=20,
    max_tokens=30,
    no_answer=False,
    null_threshold=0.0,
    temperature=1.0,
) -> list[tuple]:
    """The rules of `decode`, one window and one pair at a time.

    For each example: text, span, score, probability, null difference, and the spans as (text, span, score).
    """
    windows_of = [[] for _ in windows.examples]
    for window, example in enumerate(windows.example_W.tolist()):
        windows_of[example].append(window)
    cuts, prefixes = np.cumsum(windows.lengths_W)[:-1], windows.passage_start_W.tolist()
    rows = list(zip(np.split(logits.start, cuts), np.split(logits.end, cuts), strict=True))
    answers = []
    for example, members in zip(windows.examples, windows_of, strict=True):
        null, pairs = np.float32(np.inf), []
        for window in members:
            start, end = rows[window]
            passage = slice(prefixes[window], prefixes[window] + int(windows.passage_len_W[window]))
            null = min(null, start[0] + end[0])
            start, end = start[passage], end[passage]
            ends = np.argsort(-end, kind="stable")[:n_best].tolist()
            for i in np.argsort(-start, kind="stable")[:n_best].tolist():
                for j in ends:
                    if i <= j < i + max_tokens:
                        pairs.append((-float(start[i] + end[j]), window, i, j))
        pairs.sort()
        spans = []
        for score, window, i, j in pairs[:n_best]:
            chars = windows.rows[window].chars
            span = (int(chars[i][0]), int(chars[j][1]))
            spans.append((example.context[slice(*span)], span, -score))
        best = spans[0] if spans else ("", None, float(null))
        difference = float(null - np.float32(best[2])) if spans else math.inf
        scores = [score for _, _, score in spans] + ([float(null) - null_threshold] if no_answer or not spans else [])
        height = best[2]
        if no_answer and difference > null_threshold:
            best, height = ("", None, float(null)), float(null) - null_threshold
        weights = [math.exp((score - max(scores)) / temperature) for score in scores]
        probability = math.exp((height - max(scores)) / temperature) / sum(weights)
        answers.append((*best, probability, difference, spans))
    return answers


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def question(name: str, context: str, text: str = "who was here") -> Example:
    return Example(name, text, context, (), None, name)


def logits_of(windows: Windows, *rows: tuple[dict[int, float], dict[int, float]]) -> Logits:
    """Logits that are 0 except as given for each window, by position."""
    start, end = np.zeros((2, windows.lengths_W.sum()), np.float32)
    for offset, row in zip(windows.offsets_W, rows, strict=True):
        for flat, values in zip((start, end), row, strict=True):
            for position, value in values.items():
                flat[offset + position] = value
    return Logits(start, end)


@pytest.fixture
def one(tokenizer) -> Windows:
    # [CLS] who was here [SEP] Ann met Bob in Rome [SEP]: the passage stands at positions 5 to 9
    return make_windows([question("q", "Ann met  Bob in Rome")], tokenizer)


@pytest.fixture
def two(tokenizer) -> Windows:
    # [CLS] who [SEP] ann met bob [SEP] and [CLS] who [SEP] bob in rome [SEP]: passages at positions 3 to 5
    windows = make_windows([question("q", "ann met bob in rome", "who")], tokenizer, max_length=7, stride=2)
    assert windows.passage_len_W.tolist() == [3, 3] and windows.rows[1].chars[0].tolist() == [8, 11]
    return windows


def test_the_best_pair_and_its_text(one):
    answer = decode(one, logits_of(one, ({0: 1, 6: 3}, {0: 0.5, 7: 2})))[0]
    assert (answer.id, answer.text, answer.span) == ("q", "met  Bob", (4, 12))  # as it stands in the passage
    assert answer.score == 5
    assert answer.null_difference == 1.5 - 5


def test_backward_and_long_pairs_are_no_answers(one):
    logits = logits_of(one, ({8: 5}, {5: 9, 9: 1}))  # 8..5 runs backwards
    assert decode(one, logits)[0].text == "Ann"  # 0 + 9 beats 5 + 1
    logits = logits_of(one, ({5: 5}, {8: 5, 7: 1}))  # Ann .. in has four tokens
    assert decode(one, logits, max_tokens=4)[0].text == "Ann met  Bob in"
    assert decode(one, logits, max_tokens=3)[0].text == "Ann met  Bob"


def test_question_and_special_tokens_are_no_answers(one):
    answer = decode(one, logits_of(one, ({0: 50, 2: 50, 4: 50, 10: 50, 6: 1}, {0: 50, 2: 50, 4: 50, 10: 50, 6: 1})))[0]
    assert (answer.text, answer.score, answer.null_difference) == ("met", 2, 98)


def test_windows_are_pooled_and_the_null_score_is_their_minimum(two):
    answer = decode(two, logits_of(two, ({0: 4, 3: 2}, {3: 1}), ({0: 1, 4: 3}, {5: 1})))[0]
    assert (answer.text, answer.span, answer.score) == ("in rome", (12, 19), 4)
    assert answer.null_difference == 1 - 4
    twice = decode(two, logits_of(two, ({5: 2}, {5: 2}), ({3: 2}, {3: 2})))[0]  # the same word
    assert twice.score == 4 and [candidate.text for candidate in twice.n_best[:2]] == ["bob", "bob"]
    tie = decode(two, logits_of(two, ({4: 2}, {4: 2}), ({4: 2}, {4: 2})))[0]
    assert tie.text == "met"  # the earlier window's


def test_probabilities_by_hand(one):
    logits = logits_of(one, ({0: np.log(2), 5: np.log(3)}, {5: 0}))
    # Two best starts (Ann: ln 3, met: 0) and ends (Ann, met: 0); pairs: Ann 3, Ann met 3, met 1, of e^score.
    answer = decode(one, logits, n_best=2)[0]
    assert [round(candidate.probability, 6) for candidate in answer.n_best] == [0.5, 0.5]
    answer = decode(one, logits, n_best=2, no_answer=True)[0]  # null: 2; of 3 + 3 + 2
    assert [candidate.text for candidate in answer.n_best] == ["Ann", "Ann met", ""]
    assert [round(candidate.probability, 6) for candidate in answer.n_best] == [0.375, 0.375, 0.25]
    assert answer.probability == pytest.approx(0.375)
    answer = decode(one, logits, n_best=2, no_answer=True, null_threshold=-2)[0]
    assert (answer.text, answer.span, answer.best_text) == ("", None, "Ann")
    null = 2 * np.exp(2)  # the threshold counts, so that the likelier answer is given
    assert answer.n_best[0].text == "" and answer.probability == pytest.approx(null / (null + 3 + 3))
    assert answer.score == pytest.approx(np.log(2))
    answer = decode(one, logits, n_best=2, no_answer=True, temperature=2)[0]
    assert answer.probability == pytest.approx(3**0.5 / (2 * 3**0.5 + 2**0.5))


@pytest.mark.parametrize(("limit", "probability"), [(-np.inf, 1), (np.inf, 0)])
def test_a_threshold_without_end_leaves_all_or_no_question_unanswered(one, limit, probability):
    answer = decode(one, logits_of(one, ({5: 1}, {5: 1})), no_answer=True, null_threshold=limit)[0]
    assert {candidate.text: candidate.probability for candidate in answer.n_best}[""] == probability
    assert (answer.text == "") == probability


def test_each_question_may_have_a_rule_of_its_own(tokenizer):
    examples = [question(name, "Ann met Bob") for name in ("may", "must")]
    windows = make_windows(examples, tokenizer)
    logits = Logits(*(np.zeros(int(windows.lengths_W.sum()), np.float32) for _ in range(2)))
    for side in (logits.start, logits.end):
        side[windows.offsets_W] = 5  # [CLS], where no answer is
    may, must = decode(windows, logits, no_answer=np.array([True, False]))
    assert (may.text, may.span) == ("", None) and may.n_best[0].text == ""
    assert must.text == "Ann" and all(candidate.text for candidate in must.n_best)
    assert may.probability > 0.9 and must.probability < 0.5


def test_no_answer_needs_more_than_the_threshold(one):
    logits = logits_of(one, ({0: 3, 5: 1}, {0: 2, 5: 1}))  # null 5, best 2
    assert decode(one, logits)[0].text == "Ann"
    assert decode(one, logits, no_answer=True)[0].text == ""
    assert decode(one, logits, no_answer=True, null_threshold=2.9)[0].text == ""
    assert decode(one, logits, no_answer=True, null_threshold=3)[0].text == "Ann"
    assert decode(one, logits, no_answer=True)[0].n_best[0].text == ""
    assert "" not in [candidate.text for candidate in decode(one, logits)[0].n_best]


def test_a_passage_without_tokens_has_the_empty_answer(tokenizer):
    windows = make_windows([question("a", "ann met"), question("b", " ")], tokenizer)
    for no_answer in (False, True):
        first, empty = decode(windows, random_logits(windows), no_answer=no_answer, null_threshold=1e9)
        assert first.text and (empty.text, empty.span, empty.best_text) == ("", None, "")
        assert empty.null_difference == np.inf and empty.probability == 1
        assert [(candidate.text, candidate.span) for candidate in empty.n_best] == [("", None)]


def test_white_space_and_invisible_characters_alone_are_no_answer():
    tokenizer = make_tokenizer("roberta", ["Ann met Bob in Rome. \n\n\u200b Who?"] * 9, 280)
    windows = make_windows([question("q", "Ann\n\n\u200b met."), question("blank", " \n\n ")], tokenizer)
    chars = windows.rows[0].chars
    blank = np.flatnonzero(chars[:, 0] >= chars[:, 1])
    assert len(blank) > 1 and windows.passage_len_W[1] > 0
    high = {int(windows.passage_start_W[0] + token): 9.0 for token in blank}
    for n_best in (1, 20):
        answer, nothing = decode(windows, logits_of(windows, (high, high), ({}, {})), n_best=n_best)
        assert answer.text and all(candidate.text.strip() for candidate in answer.n_best)
        assert (nothing.text, nothing.span, nothing.probability) == ("", None, 1)


def test_minus_infinity_rules_positions_out(one):
    logits = logits_of(one, ({5: -np.inf, 6: 1}, {5: 9, 6: -np.inf}))
    assert decode(one, logits)[0].text == "met  Bob"
    assert {candidate.text for candidate in decode(one, logits)[0].n_best}.isdisjoint({"Ann", "met"})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_logits_that_are_no_numbers(tokenizer, bad, side):
    windows = make_windows([question("good", "ann met"), question("bad", "bob met")], tokenizer)
    flats = np.zeros((2, windows.lengths_W.sum()), np.float32)
    flats[side, -1] = bad
    with pytest.raises(DataError, match=r"question 'bad': a logit of window 1 is NaN or inf"):
        decode(windows, Logits(*flats))


def test_logits_are_collected_from_padded_batches_in_any_order(two, monkeypatch):
    padded = torch.arange(20.0).reshape(2, 10)
    sides = {1: (padded[1:].bfloat16(), padded[1:] + 100), 0: (padded[:1], padded[:1] + 100)}
    batches = [
        (np.array([row]), {}, SimpleNamespace(start_logits=start, end_logits=end))
        for row, (start, end) in sides.items()
    ]
    monkeypatch.setattr(training, "batch_outputs", lambda *arguments, **settings: batches)
    logits = training.predict(None, two)
    assert logits.start.tolist() == [*range(7), *range(10, 17)]
    assert logits.end.tolist() == [value + 100 for value in logits.start]
    assert logits.start.dtype == np.float32


def agrees(windows: Windows, logits: Logits, **settings) -> None:
    predictions = decode(windows, logits, **settings)
    expected = reference_decode(windows, logits, **settings)
    assert [prediction.id for prediction in predictions] == [example.id for example in windows.examples]
    for prediction, (text, span, score, probability, difference, spans) in zip(predictions, expected, strict=True):
        values = (prediction.text, prediction.span, prediction.score, prediction.null_difference)
        assert values == (text, span, score, difference)
        assert prediction.probability == pytest.approx(probability, rel=1e-9)
        candidates = [candidate for candidate in prediction.n_best if candidate.span is not None]
        assert [(candidate.text, candidate.span, candidate.score) for candidate in candidates] == spans
        assert prediction.best_text == (spans[0][0] if spans else "")
        assert sum(candidate.probability for candidate in prediction.n_best) == pytest.approx(1)


@pytest.mark.parametrize("levels", [None, 8, 1, 0], ids=["no ties", "ties", "mostly ties", "all equal"])
@pytest.mark.parametrize(
    "n_best, max_tokens, no_answer, threshold", [(20, 30, False, 0), (3, 4, True, 0.1), (3, 4, True, -1)]
)
def test_agrees_with_the_loop(tokenizer, monkeypatch, levels, n_best, max_tokens, no_answer, threshold):
    monkeypatch.setattr(extractive_qa, "DECODED", 16)  # several chunks
    random = np.random.default_rng(7)
    examples = [question(str(i), " ".join(random.choice(WORDS, random.integers(0, 60))), "who") for i in range(80)]
    windows = make_windows(examples, tokenizer, max_length=30, stride=9)
    logits = random_logits(windows)
    if levels is not None:
        logits = Logits(*(np.round(flat * levels) / max(levels, 1) for flat in (logits.start, logits.end)))
    settings = {"n_best": n_best, "max_tokens": max_tokens}
    agrees(windows, logits, **settings, no_answer=no_answer, null_threshold=threshold, temperature=2 - threshold)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_agrees_with_the_loop_on_real_windows(shared, precision):
    examples = [record.example for record in read_questions(shared / "data/qa/squad/xquad.en.json")[0]][::4]
    tokenizer = load_tokenizer(str(shared / "models/all-MiniLM-L6-v2"))
    windows = make_windows(examples, tokenizer, max_length=160, stride=64)
    assert len(windows) > 1.2 * len(examples)
    logits = random_logits(windows)
    rounded = Logits(*(torch.from_numpy(flat).to(precision).float().numpy() for flat in (logits.start, logits.end)))
    agrees(windows, rounded, no_answer=True)
