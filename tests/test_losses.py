import math

import pytest
import torch

from helpers.losses import log_probabilities, mean, span_negative_log_likelihood


def test_log_probabilities_ignore_padding():
    logits = torch.tensor([[0.0, 0.0, 50.0]])
    mask = torch.tensor([[1, 1, 0]])
    assert log_probabilities(logits, mask)[0, :2].exp().tolist() == pytest.approx([0.5, 0.5])
    assert log_probabilities(logits, mask)[0, 2].exp() == 0


def test_span_likelihood_by_hand():
    # start: P(1) = 3/4 among e^0, e^ln3; end: P(0) = 1/2; summed, not halved
    start = torch.tensor([[0.0, math.log(3), 9.0]])
    end = torch.tensor([[2.0, 2.0, -5.0]])
    mask = torch.tensor([[1, 1, 0]])
    value = span_negative_log_likelihood(start, end, torch.tensor([1]), torch.tensor([0]), mask)
    assert value.tolist() == pytest.approx([-math.log(0.75) - math.log(0.5)])


def test_span_likelihood_is_computed_in_float32():
    start = torch.zeros(1, 3, dtype=torch.bfloat16)
    mask = torch.ones(1, 3)
    value = span_negative_log_likelihood(start, start, torch.tensor([0]), torch.tensor([2]), mask)
    assert value.dtype == torch.float32 and value.item() == pytest.approx(2 * math.log(3))


def test_weighted_mean_counts_every_example():
    assert mean(torch.tensor([1.0, 3.0])) == 2
    assert mean(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0])) == 1.5  # divided by 2, not by 1
