"""Decoding: small cases worked by hand, and agreement with the plain loop of benchmarks/decoding.py."""

import numpy as np
import pytest
import torch
from conftest import SHARED, benchmark
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from helpers.batches.sequences import Windows, make_windows
from helpers.data.examples import DataError, Example
from helpers.presets.load import load
from helpers.tasks import decoding, spans
from helpers.tasks.decoding import decode
from helpers.tasks.logits import Logits

by_loop = benchmark("decoding")
random_logits = by_loop.random_logits
WORDS = "who was when here ann bob met in rome on may day and then they left".split()


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
    for offset, row in zip(np.cumsum(windows.lengths_W) - windows.lengths_W, rows, strict=True):
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
    assert windows.first_W.tolist() == [0, 2] and windows.count_W.tolist() == [3, 3]
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
    assert decode(one, logits, max_answer_tokens=4)[0].text == "Ann met  Bob in"
    assert decode(one, logits, max_answer_tokens=3)[0].text == "Ann met  Bob"


def test_question_and_special_tokens_are_no_answers(one):
    answer = decode(one, logits_of(one, ({0: 50, 2: 50, 4: 50, 10: 50, 6: 1}, {0: 50, 2: 50, 4: 50, 10: 50, 6: 1})))[0]
    assert (answer.text, answer.score, answer.null_difference) == ("met", 2, 98)


def test_only_the_best_starts_and_ends_are_paired(one):
    # The one best start lies behind the one best end: with n_best=1 no pair is left.
    logits = logits_of(one, ({9: 5}, {5: 5, 8: 4}))
    assert decode(one, logits, n_best=1)[0].text == ""
    assert decode(one, logits, n_best=2)[0].score == 5  # starts Ann (0), Rome; ends Ann, in
    assert decode(one, logits, n_best=2)[0].text == "Ann"


def test_ties_go_to_the_earlier_start_then_the_earlier_end(one):
    assert decode(one, logits_of(one, ({}, {})))[0].text == "Ann"
    texts = [candidate.text for candidate in decode(one, logits_of(one, ({}, {})), n_best=3)[0].n_best]
    assert texts == ["Ann", "Ann met", "Ann met  Bob"]


def test_sums_that_tie_once_rounded_are_ties(one):
    # 2^24 + 1 is 2^24 in float32, so the greater end logit gives no greater score.
    answer = decode(one, logits_of(one, ({5: 2**24}, {5: 0.5, 6: 1})))[0]
    assert (answer.text, answer.score) == ("Ann", 2**24)


def test_windows_are_pooled_and_the_null_score_is_their_minimum(two):
    answer = decode(two, logits_of(two, ({0: 4, 3: 2}, {3: 1}), ({0: 1, 4: 3}, {5: 1})))[0]
    assert (answer.text, answer.span, answer.score) == ("in rome", (12, 19), 4)
    assert answer.null_difference == 1 - 4
    assert decode(two, logits_of(two, ({5: 2}, {5: 2}), ({3: 2}, {3: 2})))[0].score == 4  # the same word, twice
    kept = decode(two, logits_of(two, ({5: 2}, {5: 2}), ({3: 2}, {3: 2})))[0].n_best
    assert [candidate.text for candidate in kept[:2]] == ["bob", "bob"]
    tie = decode(two, logits_of(two, ({4: 2}, {4: 2}), ({4: 2}, {4: 2})))[0]
    assert tie.text == "met"  # the earlier window's


def test_order_of_windows_does_not_matter(two, tokenizer):
    examples = [question(str(i), " ".join(WORDS[i : i + 6]), "who") for i in range(8)]
    windows = make_windows(examples, tokenizer, max_length=7, stride=2)
    index = np.random.default_rng(0).permutation(len(windows))
    mixed, logits = windows.select(index), random_logits(windows)
    parts = np.split(np.stack([logits.start, logits.end]), np.cumsum(windows.lengths_W)[:-1], 1)
    flat = np.concatenate([parts[window] for window in index], 1)
    assert decode(mixed, Logits(*flat)) == decode(windows, logits)


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
    assert answer.probability == pytest.approx(0.25)
    assert answer.score == pytest.approx(np.log(2))


def test_each_question_may_have_a_rule_of_its_own(tokenizer):
    examples = [question(name, "Ann met Bob") for name in ("may", "must")]
    windows = make_windows(examples, tokenizer)
    logits = Logits(*(np.zeros(int(windows.lengths_W.sum()), np.float32) for _ in range(2)))
    for side in (logits.start, logits.end):
        side[np.cumsum(windows.lengths_W) - windows.lengths_W] = 5  # [CLS], where no answer is
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


def test_minus_infinity_rules_positions_out(one):
    logits = logits_of(one, ({5: -np.inf, 6: 1}, {5: 9, 6: -np.inf}))
    assert decode(one, logits)[0].text == "met  Bob"
    assert {candidate.text for candidate in decode(one, logits)[0].n_best}.isdisjoint({"Ann", "met"})


def test_a_passage_shorter_than_n_best_keeps_all_its_pairs(two):
    logits = random_logits(two)
    assert len(decode(two, logits)[0].n_best) == 12  # 3 + 2 + 1 a window
    assert len(decode(two, logits, n_best=7)[0].n_best) == 7


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_logits_that_are_no_numbers(tokenizer, bad, side):
    windows = make_windows([question("good", "ann met"), question("bad", "bob met")], tokenizer)
    flats = np.zeros((2, windows.lengths_W.sum()), np.float32)
    flats[side, -1] = bad
    with pytest.raises(DataError, match=r"question 'bad': a logit of window 1 is NaN or inf"):
        decode(windows, Logits(*flats))


def test_wrong_input_is_named(one, two, tokenizer):
    with pytest.raises(ValueError, match=r"14 start and 14 end logits for windows of 11 tokens"):
        decode(one, random_logits(two))
    with pytest.raises(ValueError, match=r"n_best \(0\)"):
        decode(one, random_logits(one), n_best=0)
    windows = make_windows([question(name, "ann met bob") for name in "abc"], tokenizer)
    part = windows.select(np.array([0, 2]))
    with pytest.raises(DataError, match=r"1 questions have no window, first 'b'"):
        decode(part, random_logits(part))


def test_nothing_to_decode(tokenizer):
    windows = make_windows([], tokenizer)
    assert decode(windows, Logits(*np.zeros((2, 0), np.float32))) == []


def test_collect_takes_padded_batches_in_any_order(two):
    padded = torch.arange(20.0).reshape(2, 10)
    batches = [([1], padded[1:].bfloat16(), padded[1:] + 100), ([0], padded[:1].numpy(), padded[:1] + 100)]
    logits = Logits.collect(two, batches)
    assert logits.start.tolist() == [*range(7), *range(10, 17)]
    assert logits.end.tolist() == [value + 100 for value in logits.start]
    assert logits.start.dtype == np.float32
    with pytest.raises(ValueError, match=r"no logits for 1 of 2 windows, first 1"):
        Logits.collect(two, batches[1:])


def agrees(windows: Windows, logits: Logits, **settings) -> None:
    predictions = decode(windows, logits, **settings)
    expected = by_loop.reference_decode(windows, logits, **settings)
    assert [prediction.id for prediction in predictions] == [example.id for example in windows.examples]
    for prediction, (text, span, score, probability, difference, kept) in zip(predictions, expected, strict=True):
        found = (prediction.text, prediction.span, prediction.score, prediction.null_difference)
        assert found == (text, span, score, difference)
        assert prediction.probability == pytest.approx(probability, rel=1e-9)
        candidates = [candidate for candidate in prediction.n_best if candidate.span is not None]
        assert [(candidate.text, candidate.span, candidate.score) for candidate in candidates] == kept
        assert prediction.best_text == (kept[0][0] if kept else "")
        assert sum(candidate.probability for candidate in prediction.n_best) == pytest.approx(1)


@pytest.mark.parametrize("levels", [None, 8, 1, 0], ids=["no ties", "ties", "mostly ties", "all equal"])
@pytest.mark.parametrize("n_best, max_answer_tokens, no_answer, threshold", [(20, 30, False, 0), (3, 4, True, 0.1)])
def test_agrees_with_the_loop(tokenizer, monkeypatch, levels, n_best, max_answer_tokens, no_answer, threshold):
    monkeypatch.setattr(decoding, "CELLS", 2000)  # several chunks
    random = np.random.default_rng(7)
    examples = [question(str(i), " ".join(random.choice(WORDS, random.integers(0, 60))), "who") for i in range(80)]
    windows = make_windows(examples, tokenizer, max_length=30, stride=9)
    logits = random_logits(windows)
    if levels is not None:
        logits = Logits(*(np.round(flat * levels) / max(levels, 1) for flat in (logits.start, logits.end)))
    settings = {"n_best": n_best, "max_answer_tokens": max_answer_tokens}
    agrees(windows, logits, **settings, no_answer=no_answer, null_threshold=threshold)


@pytest.mark.parametrize("max_answer_tokens", [1, 2, 3, 5, 8, 9, 100])
def test_agrees_with_the_loop_at_any_length(tokenizer, max_answer_tokens):
    random = np.random.default_rng(1)
    examples = [question(str(i), " ".join(random.choice(WORDS, 25)), "who") for i in range(60)]
    windows = make_windows(examples, tokenizer, max_length=20, stride=9)
    agrees(windows, random_logits(windows, bump=0), max_answer_tokens=max_answer_tokens)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_agrees_with_the_loop_on_real_windows(precision):
    file, model = SHARED / "data/qa/squad/xquad.en.json", SHARED / "models/all-MiniLM-L6-v2"
    if not (file.exists() and model.exists()):
        pytest.skip(f"needs {file.name} and {model.name} under ../shared")
    from helpers.data.questions import read

    examples = read(file).examples[::4]
    windows = make_windows(examples, AutoTokenizer.from_pretrained(model), max_length=160, stride=64)
    assert len(windows) > 1.2 * len(examples)
    logits = random_logits(windows)
    rounded = Logits(*(torch.from_numpy(flat).to(precision).float().numpy() for flat in (logits.start, logits.end)))
    agrees(windows, rounded, no_answer=True)


def test_gold_probability_by_hand(monkeypatch):
    """Logits of 0 give every token of a window 1 / length; where the gold start has ln 3 more, 3 / (length + 2)."""
    windows = spans.windows_of(load("smoke", "imm"), ["news"], "train")
    held, lengths = np.flatnonzero(windows.labels["start"]), windows.lengths_W
    start, end = (np.zeros(int(lengths.sum()), np.float32) for _ in range(2))
    monkeypatch.setattr(spans, "predict", lambda model, given, precision: Logits(start, end))
    assert spans.gold_probability(None, windows, "fp32") == pytest.approx(np.mean(1 / lengths[held]), rel=1e-5)
    start[(np.cumsum(lengths) - lengths + windows.labels["start"])[held]] = np.log(3)
    expected = (np.mean(3 / (lengths[held] + 2)) + np.mean(1 / lengths[held])) / 2
    assert spans.gold_probability(None, windows, "fp32") == pytest.approx(expected, rel=1e-5)
