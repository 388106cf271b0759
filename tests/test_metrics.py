"""Scores by hand; where a number is not obvious, the comment beside it works it out."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.answering import fit_temperature
from helpers.classification import label_scores
from helpers.data.examples import DataError, Example, Pair
from helpers.metrics import (
    adversarial_scores,
    best_threshold,
    exact_match,
    f1,
    is_unspaced,
    normalize_answer,
    normalize_characters,
    score,
)
from helpers.papers.a2d.free_answers import score_free_answers
from helpers.papers.mtdnn.tables import split_by_answerability


def question(name: str, *answers: str, group: str = "") -> Example:
    return Example(name, "?", "", answers, None, group or name)


@pytest.mark.parametrize(
    "text, normal",
    [
        ("The  Cat\tsat,\non A mat!", "cat sat on mat"),
        ("theatre of an Athena", "theatre of athena"),  # articles only as whole words
        ("U.S.A.", "usa"),  # punctuation goes before articles: no lone "a" is left
        ("a-b", "ab"),
        ("A+", ""),
        ("the–end", "–end"),  # a dash beyond ASCII stays, and ends a word
        ("Ünder", "ünder"),
        ("", ""),
    ],
)
def test_normalize_answer(text, normal):
    assert normalize_answer(text) == normal


def test_exact_match_takes_any_reference():
    assert exact_match("the Broncos!", ["Denver Broncos", "Broncos"]) == 1
    assert exact_match("Denver", ["Denver Broncos", "Broncos"]) == 0


def test_f1_by_hand():
    # 2 words in common; precision 2/3, recall 2/4: 2 * 2 / (3 + 4)
    assert f1("cat sat down", ["the cat sat on mat"]) == pytest.approx(4 / 7)
    assert f1("cat sat down", ["dog", "cat"]) == pytest.approx(2 / 4)  # the better of 0 and 2 * 1 / (3 + 1)
    assert f1("no no", ["no no no"]) == pytest.approx(4 / 5)  # words count as often as they stand in both
    assert f1("no no", ["no"]) == pytest.approx(2 / 3)
    assert f1("cat", ["dog"]) == 0
    assert f1("", ["dog"]) == 0


def test_scripts_without_spaces_are_scored_by_character():
    # 天氣很 of 天氣很好: precision 1, recall 3/4
    assert f1("天氣很", ["天氣很好"], normalize=normalize_characters) == pytest.approx(6 / 7)
    assert f1("天氣很", ["天氣很好"]) == 0
    assert normalize_characters("《iPhone 14》，在2022年！") == "iphone 14 在 2022 年"
    assert exact_match("（天氣）", ["天 氣。"], normalize=normalize_characters) == 1
    questions = [replace(question("q", "天氣很好"), context="今天天氣很好。"), question("r", "the 天氣")]
    scores = score(questions, ["天氣很", "天氣"])
    assert scores.f1.tolist() == pytest.approx([600 / 7, 100]) and scores.em.tolist() == [0, 100]
    assert is_unspaced("สี่ คน") and is_unspaced("東京で") and not is_unspaced("Confucius (孔子)")


def test_unanswerable_questions():
    for metric in (exact_match, f1):
        assert metric("", []) == 1
        assert metric("the", []) == 1  # empty once normalised
        assert metric("dog", []) == 0
        assert metric("", ["dog"]) == 0


def test_answers_that_normalise_to_nothing_follow_the_chosen_rules():
    assert (exact_match("A+", ["A+"]), f1("A+", ["A+"])) == (1, 0)  # SQuAD 1.1
    assert (exact_match("A+", ["A+"], no_answer=True), f1("A+", ["A+"], no_answer=True)) == (1, 1)  # SQuAD 2.0
    assert exact_match(".", ["dog", "."]) == 1
    assert exact_match(".", ["dog", "."], no_answer=True) == f1(".", ["dog", "."], no_answer=True) == 0


def test_scores_are_in_percent_and_in_order():
    scores = score([question("a", "red car"), question("b", "dog")], ["car", "Dog"])
    assert scores.em.tolist() == [0, 100]
    assert scores.f1.tolist() == pytest.approx([200 / 3, 100])
    assert scores.means() == pytest.approx({"em": 50, "f1": 250 / 3})


def test_squad_2_rules_where_any_question_is_unanswerable():
    examples = [question("a", "A+"), question("b")]
    assert score(examples[:1], ["A+"]).f1.tolist() == [0]
    assert score(examples, ["A+", ""]).f1.tolist() == [100, 100]
    assert score(examples[:1], ["A+"], no_answer=True).f1.tolist() == [100]


def test_predictions_must_fit_the_examples():
    examples = [question("a", "x"), question("b", "y")]
    with pytest.raises(DataError, match="1 predictions for 2 examples"):
        score(examples, ["x"])
    with pytest.raises(DataError, match="0 predictions for 0 examples"):
        score([], [])
    assert score(examples, [SimpleNamespace(text="x"), "y"]).means() == {"em": 100, "f1": 100}


def test_a_question_counts_by_its_worst_adversarial_variant():
    examples = [
        question("x", "red car"),
        question("y", "dog"),
        question("x-turk0", "red car", group="x"),
        question("x-turk1", "red car", group="x"),
    ]
    scores = score(examples, ["red car", "dog", "car", "blue"])
    least = adversarial_scores(examples, scores)
    assert least.em.tolist() == [0, 100] and least.f1.tolist() == [0, 100]
    assert scores.means()["f1"] == pytest.approx((100 + 100 + 200 / 3 + 0) / 4)


def test_adversarial_scores_are_those_of_the_official_steps():
    """The steps of the official evaluation, a question after another, on random answers."""
    random = np.random.default_rng(1)
    texts = ["red car", "car red", "car", "dog", ""]
    for _ in range(50):
        names = [f"q{i}" + (f"-turk{j}" if j else "") for i in range(6) for j in range(random.integers(1, 5))]
        names = [names[i] for i in random.permutation(len(names))]
        examples = [question(name, "red car", group=name.partition("-")[0]) for name in names]
        scores = score(examples, [texts[i] for i in random.integers(0, len(texts), len(names))])
        chosen, counted = {}, {}
        for name, em, overlap in zip(names, scores.em, scores.f1, strict=True):
            original = name.partition("-")[0]
            if name == original:
                if original not in chosen:
                    chosen[original], counted[original] = original, (em, overlap)
            elif original not in chosen or chosen[original] == original or counted[original][1] > overlap:
                chosen[original], counted[original] = name, (em, overlap)
        least, groups = adversarial_scores(examples, scores), dict.fromkeys(example.group for example in examples)
        assert list(zip(least.em, least.f1, strict=True)) == [counted[group] for group in groups]


def test_breakdown_by_answerability():
    examples = [question("a", "dog"), question("b"), question("c", "cat")]
    scores = score(examples, ["dog", "fox", ""])
    parts = split_by_answerability(examples, scores)
    assert list(parts) == ["HasAns", "NoAns"]
    assert parts["HasAns"].em.tolist() == parts["HasAns"].f1.tolist() == [100, 0]
    assert parts["NoAns"].em.tolist() == parts["NoAns"].f1.tolist() == [0]
    assert parts["HasAns"].means() == {"em": 50, "f1": 50}
    assert list(split_by_answerability(examples[:1], score(examples[:1], ["dog"]))) == ["HasAns"]


def prediction(name: str, text: str, difference: float) -> SimpleNamespace:
    return SimpleNamespace(id=name, best_text=text, null_difference=difference)


def test_best_threshold_by_hand():
    examples = [question("a", "dog"), question("b"), question("c", "red car"), question("d")]
    predictions = [
        prediction("d", "x", 5.0),
        prediction("c", "car", 1.0),
        prediction("b", "y", -1.0),
        prediction("a", "dog", -3.0),
    ][::-1]
    # No answers at all: b and d are right, 200 of 400. Up to -3, a turns right: 300. Up to -1, b turns wrong: 200.
    # Up to 1, c gains 66.7: 266.7. Up to 5: 166.7. So the best is -3.
    assert best_threshold(examples, predictions) == -3.0
    predictions[1].null_difference = 2.0  # now c turns before b: 366.7 of 400
    assert best_threshold(examples, predictions) == 1.0


def test_best_threshold_at_the_ends():
    examples = [question("a"), question("b", "dog")]
    never = [prediction("a", "x", 0.0), prediction("b", "cat", 1.0)]
    assert best_threshold(examples, never) == -np.inf
    always = [prediction("a", "", np.inf), prediction("b", "dog", 1.0)]  # no span for a: "" by any threshold
    assert best_threshold(examples, always) == 1.0


def test_equal_differences_turn_one_after_another():
    examples = [question("a", "dog"), question("b"), question("c")]
    predictions = [prediction("a", "dog", 0.0), prediction("b", "x", 0.0), prediction("c", "y", 1.0)]
    # The official script looks at the mean between a and b too, 300 of 300, though no threshold lies between them.
    assert best_threshold(examples, predictions) == 0.0
    assert best_threshold(examples[::-1], predictions[::-1]) == -np.inf


def test_best_threshold_is_that_of_the_official_steps():
    """The steps of SQuAD 2.0's evaluation, on random answers with many equal differences; "the" is a text too."""
    random = np.random.default_rng(3)
    for _ in range(50):
        examples = [question(str(i), *(["red car"] if random.random() < 0.5 else [])) for i in range(20)]
        texts = random.choice(["red car", "car", "dog", "the", ""], 20)
        differences = random.integers(-3, 4, 20)
        predictions = [prediction(e.id, t, float(d)) for e, t, d in zip(examples, texts, differences, strict=True)]
        raw = score(examples, list(texts), no_answer=True).f1
        current = best = 100.0 * sum(not e.answers for e in examples)
        threshold = -np.inf
        for row in sorted(range(20), key=lambda row: differences[row]):
            current += raw[row] if examples[row].answers else -100 * bool(texts[row])
            if current > best + 1e-9:
                best, threshold = current, float(differences[row])
        assert best_threshold(examples, predictions) == threshold


def sure(text: str, *probabilities: float) -> SimpleNamespace:
    """A prediction of ``text``, which stands in all places but the last."""
    *places, other = [SimpleNamespace(text=text, probability=probability) for probability in probabilities]
    return SimpleNamespace(text=text, n_best=[*places, SimpleNamespace(text="other", probability=other.probability)])


def test_a_temperature_makes_confidence_the_share_of_right_answers():
    examples = [question(str(number), "dog") for number in range(10)]
    predictions = [sure("dog" if number < 6 else "cat", 0.9, 0.1) for number in range(10)]
    # 6 right answers of 10 count 7/8 each and 4 wrong ones 1/6. So the logit of the confidence, ln 9 / T, is that of
    target = (6 * 7 / 8 + 4 / 6) / 10
    expected = math.log(9) / math.log(target / (1 - target))
    assert fit_temperature(examples, predictions) == pytest.approx(expected, rel=1e-3)
    right, wrong = [sure("dog", 0.9, 0.1)] * 10, [sure("cat", 0.9, 0.1)] * 10
    assert fit_temperature(examples, right) < 1 < fit_temperature(examples, wrong) <= 10


def test_the_temperature_counts_all_places_of_a_text():
    examples = [question(str(number), "dog") for number in range(10)]
    predictions = [sure("dog" if number < 9 else "cat", 0.45, 0.45, 0.1) for number in range(10)]
    target = (9 * 10 / 11 + 1 / 3) / 10
    expected = math.log(4.5) / math.log(target / (1 - target) / 2)  # two places, each of odds 4.5^(1/T)
    assert fit_temperature(examples, predictions) == pytest.approx(expected, rel=1e-3)


def pairs(*labels) -> list[Pair]:
    return [Pair(str(i), "", "", label) for i, label in enumerate(labels)]


def test_metrics_of_two_classes_by_hand():
    predictions = np.asarray([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])  # 1, 1, 0, 0
    scores = label_scores(pairs(1, 0, 0, 1), predictions)
    assert scores == pytest.approx({"accuracy": 50, "f1": 50, "matthews": 0})
    scores = label_scores(pairs(1, 0, 0, 0), predictions)  # one of the two predicted ones is right, none is missed
    assert scores == pytest.approx({"accuracy": 75, "f1": 200 / 3, "matthews": 100 / math.sqrt(3)})


def test_predictions_that_are_no_numbers_are_refused():
    with pytest.raises(DataError, match="a prediction is no number; did the model diverge"):
        label_scores(pairs(0, 1), np.array([[0.5, 0.5], [np.nan, np.nan]]))


def test_f1_of_three_classes_is_averaged():
    scores = label_scores(pairs(0, 1, 1, 2), np.eye(3)[[0, 0, 1, 1]])  # F1 of 2/3, 1/2 and 0
    assert scores["accuracy"] == 50 and scores["f1"] == pytest.approx(100 * (2 / 3 + 1 / 2) / 3)


@pytest.mark.parametrize(
    ("examples", "words"),
    [(pairs(1), "2 predictions for 1 examples"), (pairs(1, None), "example '1' has no label to score it by")],
)
def test_what_cannot_be_scored_is_one_clear_error(examples, words):
    with pytest.raises(DataError, match=words):
        label_scores(examples, np.eye(2))


def test_free_answers_by_hand():
    scores = score_free_answers(["the cat sat", "dog"], [["the cat", "a cat sat down"], ["A dog"]])
    # Words: "the", "cat", "sat" and "dog" are all in a reference: 4 of 4. Length 4 against the nearest references'
    # 2 (or 4; the shorter of two as near) + 2 = 4, so no penalty.
    assert scores["bleu_1"] == pytest.approx(100)
    assert scores["bleu_4"] == 0  # no four words in a row
    assert scores["length"] == pytest.approx(100)
    # One more of two words (2 of 2), of three (0 of 1) and of four (0 of 0).
    assert scores["bleu_4_smoothed"] == pytest.approx(100 * (4 / 4 * 3 / 3 * 1 / 2 * 1 / 1) ** 0.25)
    # Longest common subsequences: 2 of 3 and 2: 4/5, beats 2 of 3 and 4: 4/7; and 1 of 1 and 2: 2/3.
    assert scores["rouge_l"] == pytest.approx((80 + 200 / 3) / 2)


def test_bleu_by_hand():
    scores = score_free_answers(
        ["he ran to the big house"], [["he ran to the house", "off he ran to the small red house"]]
    )
    # 5 of 6 words, 3 of 5 pairs (he ran, ran to, to the), 2 of 4 triples, 1 of 3 fours; longer than the nearest (5).
    assert scores["bleu_1"] == pytest.approx(100 * 5 / 6)
    assert scores["bleu_4"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    assert scores["bleu_4_smoothed"] == pytest.approx(100 * (5 / 6 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25)
    assert scores["length"] == pytest.approx(100 * 6 / 5)
    brief = score_free_answers(["he ran"], [["he ran away"]])
    assert brief["length"] == pytest.approx(100 * 2 / 3)
    assert score_free_answers(["she"], [["he ran away"]])["bleu_4_smoothed"] == 0  # no word is right
    assert brief["bleu_1"] == pytest.approx(100 * np.exp(1 - 3 / 2))  # brevity penalty


def test_free_answers_need_references():
    with pytest.raises(DataError, match="question 1 has no reference"):
        score_free_answers(["a", "b"], [["a"], []])
    with pytest.raises(DataError, match="1 answers for 2 questions"):
        score_free_answers(["a"], [["a"], ["b"]])


def test_a_text_in_place_of_a_list_of_answers_is_refused():
    with pytest.raises(TypeError, match=r"expected a list of texts, found 'Ada Bell'; write \['Ada Bell'\]"):
        f1("Ada", "Ada Bell")
