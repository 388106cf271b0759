"""The similarity of domains by their questions."""

import numpy as np
import pytest

from helpers.data.examples import DataError
from helpers.data.questions import read_questions
from helpers.papers.imm import displays
from helpers.papers.imm.algorithm import nearest, question_similarity


def test_worked_by_hand():
    # Three documents over four words: (who, king), (who, price), (who who, ring). "who" is in all of them, the others
    # in one each: idf = ln((1 + 3) / (1 + df)) + 1, so 1 and ln 2 + 1.
    questions, rare = {"a": ["Who", "king?"], "b": ["who price"], "c": ["who who", "ring"]}, np.log(2) + 1
    cosines, weights = question_similarity(questions)
    short, long = np.hypot(1, rare), np.hypot(2, rare)
    ab, ac = 1 / short**2, 2 / (short * long)
    np.testing.assert_allclose(cosines, [[1, ab, ac], [ab, 1, ac], [ac, ac, 1]])
    expected = [[0, ab / (ab + ac), ac / (ab + ac)], [ab / (ab + ac), 0, ac / (ab + ac)], [0.5, 0.5, 0]]
    np.testing.assert_allclose(weights, expected)
    swapped, _ = question_similarity({name: questions[name] for name in "cba"})  # the order of domains is kept
    np.testing.assert_allclose(swapped, cosines[::-1, ::-1])


def test_words_are_counted_by_what_they_add_to_a_cosine(monkeypatch):
    questions = {"a": ["Who does the king?"], "b": ["who the king"], "c": ["the ring"]}
    monkeypatch.setattr(displays, "training_questions", lambda data: questions)
    content, shares = displays.count_words(None)
    cosines, _ = question_similarity(questions)
    assert content.index[0] == "king" and "who" not in content.index and "does" not in content.index
    np.testing.assert_allclose(shares.loc["cosine"], cosines[np.triu_indices(3, 1)])
    from_stop_words = 1 - content["a, b"].sum() / cosines[0, 1]
    assert shares["a, b"]["% from stop words"] == pytest.approx(100 * from_stop_words)
    assert shares["a, c"]["% from stop words"] == pytest.approx(100)


def test_domain_without_shared_words_gets_equal_weights():
    cosines, weights = question_similarity({"a": ["who is"], "b": ["who was"], "c": ["wann und"]})
    np.testing.assert_allclose(weights, [[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]])
    np.testing.assert_allclose(cosines[2], [0, 0, 1])


@pytest.mark.parametrize(
    ("questions", "says"),
    [
        ({}, "similarity needs at least 2 domains, found none"),
        (
            {"news": ["Who?"]},
            "found news; give two files or more: notebooks 01 to 05 and 18 compare",
        ),
        ({"news": ["Who is it?"], "law": []}, "domain law: no word in its 0 questions"),
        ({"news": ["Who is it?"], "law": ["?", " "]}, "domain law: no word in its 2 questions"),
    ],
)
def test_domains_without_a_similarity(questions, says):
    with pytest.raises(DataError, match=says):
        question_similarity(questions)


def test_real_domains(shared):
    files = ["amazon/amazon_reviews_v1.0.json", "reddit/reddit_v1.0.json", "policy/dev.json"]
    read = {file: read_questions(shared / "data/qa" / file)[0] for file in files}
    cosines, weights = question_similarity({file: [r.example.question for r in read[file]] for file in files})
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert (np.diag(weights) == 0).all() and np.allclose(cosines, cosines.T)
    assert cosines[0, 1] > cosines[0, 2]  # reviews and forum posts are closer than reviews and privacy policies


def test_the_nearest_keep_their_order_and_the_sum():
    weights = {"a": 0.2, "b": 0.5, "c": 0.3}
    assert nearest(weights, 0) == nearest(weights, 3) == weights
    assert nearest(weights, 2) == pytest.approx({"b": 0.625, "c": 0.375}) and list(nearest(weights, 2)) == ["b", "c"]
    assert nearest({"a": 1.0, "b": 1.0, "c": 1.0}, 1) == {"a": 3.0}
    assert nearest({"a": 0.0, "b": 0.0}, 1) == {"a": 0.0}
