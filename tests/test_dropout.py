import pytest
import torch
from torch import nn

from helpers.models.attention import QuickDropout, attend, quick_dropout, quicken
from helpers.models.encoders import load_encoder


def test_elements_are_dropped_at_the_rate_and_the_rest_scaled_up():
    torch.manual_seed(0)
    values = quick_dropout(torch.ones(1001, 999), 0.1)
    assert (values == 0).float().mean().item() == pytest.approx(26 / 256, abs=1e-3)
    assert values.unique().tolist() == pytest.approx([0.0, 256 / 230])
    assert values.mean().item() == pytest.approx(1.0, abs=2e-3)
    for axis in (0, 1):  # no row and no column is treated otherwise
        assert (values.mean(axis) - 1).abs().max() < 0.06


def test_each_of_the_eight_bytes_of_a_draw_is_fair():
    torch.manual_seed(0)
    rates = (quick_dropout(torch.ones(200_000, 8), 0.5) == 0).float().mean(0)
    assert torch.allclose(rates, torch.full((8,), 0.5), atol=0.005)


def test_gradient_flows_through_what_is_kept_and_the_seed_decides():
    values = torch.ones(64, 64, requires_grad=True)
    torch.manual_seed(3)
    dropped = quick_dropout(values, 0.25)
    dropped.sum().backward()
    assert torch.equal(values.grad, dropped.detach())
    torch.manual_seed(3)
    assert torch.equal(quick_dropout(values, 0.25), dropped)


def test_evaluation_drops_nothing():
    module = QuickDropout(0.5).eval()
    assert torch.equal(module(torch.ones(100)), torch.ones(100))
    assert quick_dropout(torch.ones(100), 0.0).sum() == 100


def test_attention_spelt_out_equals_scaled_dot_product_attention():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 7, 8).unbind(0)
    mask = torch.ones(2, 1, 7, 7, dtype=torch.bool)
    mask[1, :, :, 5:] = False
    expected = nn.functional.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2)
    # a probability under 1/512 drops nothing, but takes the way of training
    values, _ = attend(nn.Module(), query, key, value, mask, dropout=0.001, scaling=8**-0.5)
    assert torch.allclose(values, expected, atol=1e-6)


def test_a_reader_is_quickened_and_saved_without_a_trace(tmp_path):
    reader = load_encoder("data/mini", seed=0, random_layers=1)
    assert sum(isinstance(module, QuickDropout) for module in reader.modules()) >= 3
    assert quicken(nn.Sequential(nn.Dropout(0.3)))[0].p == 0.3
    reader.save_pretrained(tmp_path)
    assert "quick" not in (tmp_path / "config.json").read_text()
