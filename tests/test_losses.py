"""The likelihood of readers and IMM's divergences, by hand."""

import math
import warnings
from functools import partial

import pytest
import torch

from helpers.extractive_qa import log_probabilities, span_negative_log_likelihood, weighted_mean
from helpers.papers.a2d.losses import attention_distance, confusion_margin, soft_cross_entropy
from helpers.papers.hrkd.losses import class_cross_entropy, level_distance, score_distance
from helpers.papers.imm.losses import gold_divergence, logit_divergence, probability_at, probability_divergence
from helpers.papers.mtdnn_kd.losses import soft_target_cross_entropy

# One window of two tokens and one of padding: the student says 1/2 1/2 for the start and 9/10 1/10 for the end, the
# teacher 1/4 3/4 and 6/10 4/10. The answer starts at token 1 and ends at token 0.
MASK = torch.tensor([[1, 1, 0]])
GOLD = (torch.tensor([1]), torch.tensor([0]))


def span(start, end, padding=0.0):
    return tuple(torch.tensor([[*side, padding]]) for side in (start, end))


def logs(start, end, padding=0.0):
    return span([math.log(p) for p in start], [math.log(p) for p in end], padding)


STUDENT, TEACHER = logs((0.5, 0.5), (0.9, 0.1)), logs((0.25, 0.75), (0.6, 0.4))
DIVERGENCES = (gold_divergence, probability_divergence, logit_divergence)


def test_log_probabilities_ignore_padding():
    probabilities = log_probabilities(torch.tensor([[0.0, 0.0, 50.0]]), MASK).exp()
    assert probabilities[0].tolist() == pytest.approx([0.5, 0.5, 0])


def test_probabilities_in_the_place_of_logits_are_warned_of():
    halves = torch.tensor([[0.5, 0.5, 0.0]])
    with pytest.warns(UserWarning, match="expected logits, found probabilities"):
        gold_divergence(STUDENT, (halves, halves), GOLD, MASK)
    with pytest.warns(UserWarning, match="expected logits, found probabilities"):
        class_cross_entropy(torch.zeros(1, 2), torch.tensor([[0.25, 0.75]]), 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gold_divergence(STUDENT, TEACHER, GOLD, MASK)
        class_cross_entropy(torch.zeros(2, 2), torch.tensor([[0.25, 0.75], [1.0, 1.0]]), 2.0)  # one row is no proof


def test_span_likelihood_by_hand():
    # start: P(1) = 3/4 among e^0, e^ln3; end: P(0) = 1/2; summed, not halved
    logits = span((0.0, math.log(3)), (2.0, 2.0), padding=9.0)
    value = span_negative_log_likelihood(logits, GOLD, MASK)
    assert value.tolist() == pytest.approx([-math.log(0.75) - math.log(0.5)])
    zeros = torch.zeros(1, 3, dtype=torch.bfloat16)
    value = span_negative_log_likelihood((zeros, zeros), GOLD, torch.ones(1, 3))
    assert value.dtype == torch.float32 and value.item() == pytest.approx(2 * math.log(3))


def test_weighted_mean_counts_every_example():
    assert weighted_mean(torch.tensor([1.0, 3.0])) == 2
    assert weighted_mean(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0])) == 1.5  # divided by 2, not by 1


def test_probability_at_is_the_softmax_of_one_position():
    assert probability_at(TEACHER[0], torch.tensor([1]), MASK).tolist() == pytest.approx([0.75])


@pytest.mark.parametrize(
    ("divergence", "gold", "expected"),
    [
        (gold_divergence, GOLD, 0.0625 + 0.09),  # (1/2 - 3/4)^2 + (9/10 - 6/10)^2
        (gold_divergence, GOLD[::-1], 0.0625 + 0.09),  # the other tokens differ by as much, as there are but two
        (probability_divergence, GOLD, 0.125 + 0.18),  # every token counts: 2 (1/4)^2 for the start, 2 (3/10)^2
        # means of two tokens: of start ln 2 and ln 3/2, of end ln 3/2 and ln 1/4, all squared
        (logit_divergence, GOLD, math.log(2) ** 2 / 2 + math.log(1.5) ** 2 + math.log(4) ** 2 / 2),
    ],
)
def test_divergences_by_hand(divergence, gold, expected):
    assert divergence(STUDENT, TEACHER, gold, MASK).tolist() == pytest.approx([expected])
    assert divergence(TEACHER, TEACHER, gold, MASK).tolist() == [0]


def test_gold_divergence_looks_at_the_gold_positions_alone():
    mask = torch.ones(2, 3)
    student = [torch.tensor([[0.5, 0.3, 0.2]] * 2).log()] * 2
    teacher = [torch.tensor([[0.5, 0.1, 0.4]] * 2).log()] * 2
    gold = (torch.tensor([0, 1]), torch.tensor([0, 2]))
    assert gold_divergence(student, teacher, gold, mask).tolist() == pytest.approx([0, 0.04 + 0.04], abs=1e-7)


def test_logit_divergence_is_a_mean_over_the_real_tokens_of_each_window():
    zeros, mask = torch.zeros(2, 4), torch.tensor([[1, 0, 0, 0], [1, 1, 1, 0]])
    start, gold = torch.tensor([[6.0, 0, 0, 0]] * 2), (torch.tensor([0, 0]),) * 2
    assert logit_divergence((start, zeros), (zeros, zeros), gold, mask).tolist() == [36, 36 / 3]


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("padding", [50.0, -50.0, 1e15])
def test_padding_of_student_and_teacher_changes_no_divergence(divergence, padding):
    expected = divergence(STUDENT, TEACHER, GOLD, MASK).tolist()
    student, teacher = logs((0.5, 0.5), (0.9, 0.1), padding), logs((0.25, 0.75), (0.6, 0.4), padding)
    for pair in ((student, TEACHER), (STUDENT, teacher), (student, teacher)):
        assert divergence(*pair, GOLD, MASK).tolist() == expected


def test_wrong_values_shapes_and_temperatures_are_errors():
    logits, mask = (torch.tensor([[-1.0, 2.0]]),) * 2, torch.ones(1, 2)
    with pytest.raises(ValueError, match="expected probabilities, found -1; take the softmax of logits first"):
        soft_cross_entropy(logits, logits, mask, 1.0)
    with pytest.raises(ValueError, match="expected probabilities"):
        soft_target_cross_entropy(logits[0], logits[0])
    with pytest.raises(ValueError, match="found rows that add up to 3; take the softmax"):  # none of them is negative
        soft_cross_entropy(logits, (torch.tensor([[0.0, 3.0]]),) * 2, mask, 1.0)
    with pytest.raises(ValueError, match=r"found rows that add up to 0\.9; take the softmax"):
        soft_target_cross_entropy(torch.zeros(2, 2), torch.tensor([[0.5, 0.5], [0.5, 0.4]]))
    padded = torch.tensor([[1, 0]])  # with a softmax over all tokens
    with pytest.raises(ValueError, match=r"expected probability 0 at masked tokens, found 0\.5; give the teacher's"):
        soft_cross_entropy(logits, (torch.ones(1, 2) / 2,) * 2, padded, 1.0)
    for temperature in (0, math.nan):
        with pytest.raises(ValueError, match=f"temperature: expected a number above 0, found {temperature}"):
            soft_cross_entropy(logits, (torch.ones(1, 2) / 2,) * 2, mask, temperature)
    with pytest.raises(ValueError, match=r"the student's shape \(2, 2\), found \(1, 2\)"):
        soft_cross_entropy((torch.zeros(2, 2),) * 2, (torch.ones(1, 2) / 2,) * 2, torch.ones(2, 2), 1.0)
    with pytest.raises(ValueError, match=r"expected attentions B×P×Q, found \(1, 2, 3, 3\); average heads first"):
        attention_distance(*(torch.zeros(1, 2, 3, 3),) * 2)
    with pytest.raises(ValueError, match="expected queries and keys"):
        score_distance((torch.zeros(1, 2, 3, 3),), (torch.zeros(1, 2, 3, 3),), torch.ones(1, 3), torch.ones(1, 3))
    three, two = (torch.zeros(1, 2, length, 4) for length in (3, 2))
    with pytest.raises(ValueError, match=r"expected a mask of shape \(1, 2\), found \(1, 3\); give one of the same"):
        score_distance((three, three), (three, two), torch.ones(1, 3), torch.ones(1, 3))
    assert soft_target_cross_entropy(torch.zeros(0, 2), torch.zeros(0, 2)).tolist() == []
    start = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"the mask's shape \(2, 3\), found \(3,\); give a mask B×L, and start"):
        gold_divergence(start, start, torch.zeros(2, 2, dtype=torch.int64), torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"of shape \(2,\), found torch.int64 of shape \(2, 1\); give a pair"):
        gold_divergence((start, start), (start, start), (torch.zeros(2, 1, dtype=torch.int64),) * 2, torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"the mask's shape \(1, 3\), found \(1, 2\); give a mask B×L, and start"):
        soft_cross_entropy(logits, (torch.ones(1, 2) / 2,) * 2, torch.ones(1, 3), 1.0)
    with pytest.raises(ValueError, match=r"the mask's shape \(2, 3\), found \(3,\); give a mask B×L, and start"):
        soft_cross_entropy(start, torch.ones(2, 3) / 3, torch.ones(2, 3), 1.0)
    with pytest.raises(ValueError, match=r"of shape \(2,\), found torch.int64 of shape \(\); give a pair"):
        confusion_margin((start, start), (torch.zeros(2, dtype=torch.int64),) * 2, torch.tensor([1, 1]))
    with pytest.raises(ValueError, match=r"the student's shape \(2, 3\), found \(1, 3\)"):
        class_cross_entropy(start, start[:1], 1.0)
    with pytest.raises(ValueError, match=r"of shape \(2,\), found torch.int64 of shape \(1,\); give a pair"):
        confusion_margin(
            (start, start), (torch.zeros(1, dtype=torch.int64),) * 2, (torch.ones(2, dtype=torch.int64),) * 2
        )
    halves = torch.tensor([[0.5, 0.5], [0.0, 1.0]], dtype=torch.float16)  # with rounding
    assert soft_target_cross_entropy(torch.zeros(2, 2), halves).tolist() == pytest.approx([math.log(2)] * 2)


@pytest.mark.parametrize("place", [2, 3, -1], ids=["masked", "cut off", "no answer"])
def test_positions_without_a_token_are_refused(place):
    sides, mask, gold = (torch.tensor([[0.0, 2.0, 0.0]]),) * 2, torch.tensor([[1, 1, 0]]), (torch.tensor([place]),) * 2
    for loss in (partial(gold_divergence, sides), span_negative_log_likelihood):
        with pytest.raises(ValueError, match=rf"expected positions of real tokens, found \[{place}\]; leave out"):
            loss(sides, gold, mask)


def test_positions_that_are_no_integers_are_refused():
    sides, gold = (torch.zeros(1, 3),) * 2, (torch.tensor([1.0]),) * 2
    with pytest.raises(
        ValueError, match=r"int64 positions of shape \(1,\), found torch.float32 of shape \(1,\); give a pair"
    ):
        span_negative_log_likelihood(sides, gold, torch.ones(1, 3))


def test_levels_of_a_narrower_student_are_refused():
    with pytest.raises(ValueError, match="project the student's to the teacher's width"):
        level_distance(torch.zeros(1, 3, 4), torch.zeros(1, 3, 8), torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"expected a mask of shape \(1, 3\), found \(1, 1\); give one of the same"):
        level_distance(torch.zeros(1, 3, 4), torch.zeros(1, 3, 4), torch.ones(1, 1))
    with pytest.raises(ValueError, match=r"expected a mask of shape \(1, 3\), found None; give one"):
        level_distance(torch.zeros(1, 3, 4), torch.zeros(1, 3, 4), None)
    with pytest.raises(ValueError, match="found a mask of zeros alone; leave such texts out"):
        level_distance(torch.zeros(1, 3, 4), torch.zeros(1, 3, 4), torch.zeros(1, 3))


def test_a_shift_of_the_teachers_logits_changes_logit_divergence_alone():
    shifted = tuple(side + 2 for side in TEACHER)
    for divergence in (gold_divergence, probability_divergence):
        expected = divergence(STUDENT, TEACHER, GOLD, MASK).tolist()
        assert divergence(STUDENT, shifted, GOLD, MASK).tolist() == pytest.approx(expected)
    # a student that differs by the shift alone: 2^2 for the start and for the end
    assert logit_divergence(TEACHER, shifted, GOLD, MASK).tolist() == pytest.approx([4 + 4])


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_teacher_stored_in_float16_is_compared_in_float32(divergence):
    half = tuple(side.half() for side in TEACHER)
    value = divergence(STUDENT, half, GOLD, MASK)
    assert value.dtype == torch.float32  # stored with 11 bits, compared with 24
    assert value.tolist() == divergence(STUDENT, tuple(side.float() for side in half), GOLD, MASK).tolist()
    assert value.tolist() == pytest.approx(divergence(STUDENT, TEACHER, GOLD, MASK).tolist(), rel=2e-3)


def test_logits_far_apart_in_float16_do_not_overflow():
    student, teacher = span((300.0, 0.0), (0.0, 0.0)), span((0.0, 0.0), (0.0, 0.0))
    halves = [tuple(side.half() for side in pair) for pair in (student, teacher)]
    assert logit_divergence(*halves, GOLD, MASK).tolist() == [45000]  # 300^2 / 2; float16 ends at 65,504


@pytest.mark.parametrize(
    ("divergence", "expected"),
    [
        # of the start logits, p = (1/2, 1/2) and teacher t = (1/4, 3/4), by softmax's dp_k/ds_j = p_k ((k = j) - p_j)
        (gold_divergence, [0.125, -0.125, 0]),  # 2 (p_1 - t_1) dp_1/ds_j
        (probability_divergence, [0.25, -0.25, 0]),  # and the same again for k = 0
        (logit_divergence, [math.log(2), math.log(2 / 3), 0]),  # 2 (s_j - t_j) / 2
    ],
)
def test_the_gradient_goes_to_the_students_real_tokens(divergence, expected):
    student = tuple(side.clone().requires_grad_() for side in STUDENT)
    divergence(student, TEACHER, GOLD, MASK).sum().backward()
    assert student[0].grad[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert student[1].grad[0, 2] == 0 and student[1].grad[0, :2].abs().min() > 0
    agreeing = tuple(side.clone().requires_grad_() for side in (TEACHER[0], STUDENT[1]))
    divergence(agreeing, TEACHER, GOLD, MASK).sum().backward()
    assert agreeing[0].grad.abs().max() == 0 and agreeing[1].grad.abs().max() > 0.01
