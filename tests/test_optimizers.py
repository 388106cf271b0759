"""Two steps of each optimiser, against the same written out in plain numbers."""

import pytest
import torch
from torch import nn

from helpers.presets.schema import TrainingSettings
from helpers.training.optimizers import learning_rate, make_optimizer

GRADIENTS = [[0.5, -0.25], [-0.1, 0.3]]  # of a weight of each kind, in both steps
RATES = [0.1, 0.05]
START = 2.0


class Two(nn.Module):
    """A matrix and a bias of one number each, and a weight that is not trained."""

    def __init__(self):
        super().__init__()
        self.matrix, self.bias = nn.Parameter(torch.full((1, 1), START)), nn.Parameter(torch.full((1,), START))
        self.frozen = nn.Parameter(torch.full((1, 1), START), requires_grad=False)


def settings(**values):
    return TrainingSettings(learning_rate=0.1, batch_size=8, epochs=1.0, **values)


def adamw(gradients, decay):
    weight, mean, square = START, 0.0, 0.0
    for step, (gradient, rate) in enumerate(zip(gradients, RATES, strict=True), 1):
        weight -= rate * decay * weight
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weight -= rate * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)) ** 0.5 + 1e-8)
    return weight


def adamax(gradients, decay):
    weight, mean, largest = START, 0.0, 0.0
    for step, (gradient, rate) in enumerate(zip(gradients, RATES, strict=True), 1):
        weight -= rate * decay * weight
        mean, largest = 0.9 * mean + 0.1 * gradient, max(0.999 * largest, abs(gradient) + 1e-8)
        weight -= rate / (1 - 0.9**step) * mean / largest
    return weight


@pytest.mark.parametrize("by_hand", [adamw, adamax])
@pytest.mark.parametrize("decay", [0.0, 0.4])
def test_two_steps_by_hand(by_hand, decay):
    model = Two()
    optimizer = make_optimizer(model, settings(optimizer=by_hand.__name__, weight_decay=decay))
    for rate, (of_matrix, of_bias) in zip(RATES, zip(*GRADIENTS, strict=True), strict=True):
        model.matrix.grad, model.bias.grad = torch.full((1, 1), of_matrix), torch.full((1,), of_bias)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    assert model.matrix.item() == pytest.approx(by_hand(GRADIENTS[0], decay), rel=1e-6)
    assert model.bias.item() == pytest.approx(by_hand(GRADIENTS[1], 0.0), rel=1e-6)  # biases do not decay
    assert model.frozen.item() == START


def test_numbers_of_two_steps_of_adamax():
    # step 1: 2 - 0.1 * 0.4 * 2 = 1.92; mean 0.05, largest 0.5; 1.92 - 0.1 / 0.1 * 0.05 / 0.5 = 1.82
    # step 2: 1.82 * (1 - 0.02) = 1.7836; mean 0.02, largest 0.4995; minus 0.05 / 0.19 * 0.02 / 0.4995
    assert adamax([0.5, -0.25], 0.4) == pytest.approx(1.7836 - 0.05 / 0.19 * 0.02 / 0.4995, rel=1e-6)


@pytest.mark.parametrize("name", ["adamw", "adamax"])
def test_a_weight_without_a_gradient_stays(name):
    model = Two()
    optimizer = make_optimizer(model, settings(optimizer=name, weight_decay=0.4))
    model.bias.grad = torch.ones(1)
    optimizer.step()
    assert model.matrix.item() == START != model.bias.item()


def test_learning_rate_rises_then_falls_to_nothing():
    rates = [learning_rate(step, 10, 1.0, 0.2) for step in range(10)]
    assert rates[:2] == [0.5, 1.0]
    assert rates[2:] == pytest.approx([8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9])
