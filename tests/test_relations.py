"""Prototypes, compare-aggregate and the graph of domains, by hand."""

import math

import numpy as np
import pytest
import torch

from helpers.data.load import load_domains
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.pairs import make_pairs
from helpers.papers.hrkd.meta_kd import mean_tokens
from helpers.papers.hrkd.relations import RandomRatios, Relations, attend_to_nodes, prototypes
from helpers.presets.schema import TextsSettings


def relations(levels=3, domains=2, width=4, **settings):
    torch.manual_seed(0)
    return Relations(levels, domains, width, heads=2, graph_width=3, **settings)


def test_prototypes_are_means_over_real_tokens_of_a_domain():
    level = torch.tensor([[[1.0], [3.0]], [[5.0], [100.0]], [[7.0], [9.0]]])  # three texts of two tokens, one wide
    mask, domain = torch.tensor([[1, 1], [1, 0], [1, 1]]), torch.tensor([0, 0, 1])
    (of_level,) = prototypes((level,), mask, domain, 3)
    # (1 + 3 + 5) / 3, (7 + 9) / 2, and 0 where a domain has no text
    assert of_level.flatten().tolist() == [3.0, 8.0, 0.0]
    (padded,) = prototypes((level,), torch.ones_like(mask), domain, 2)
    assert padded.flatten().tolist() == [(1 + 3 + 5 + 100) / 4, 8.0]


def test_one_head_of_graph_attention_by_hand():
    nodes = torch.tensor([1.0, 2.0]).view(1, 1, 2, 1)
    weight, edges = torch.tensor([3.0]).view(1, 1, 1, 1), torch.tensor([0.5, -1.0]).view(1, 1, 2, 1)
    # features 3 and 6; s_ij = 0.5 f_i - f_j: -1.5, -4.5 and 0, -3; LeakyReLU takes a fifth of what is below 0
    first = [math.exp(-0.3), math.exp(-0.9)]
    second = [math.exp(0.0), math.exp(-0.6)]
    expected = [(3 * a + 6 * b) / (a + b) for a, b in (first, second)]
    assert attend_to_nodes(nodes, weight, edges).flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize("settings", [{}, {"self_attention": False}, {"compare": False}, {"hierarchy": False}])
def test_ratios_add_up_to_one_and_shares_reach_no_higher_level(settings):
    ratios, shares = relations(**settings)(torch.randn(3, 2, 4))
    assert ratios.shape == (3, 2) and shares.shape == (2, 3, 3)
    assert torch.allclose(ratios.sum(1), torch.ones(3)) and torch.allclose(shares.sum(2), torch.ones(2, 3))
    assert shares.triu(1).abs().max() == 0


def test_domains_that_are_alike_weigh_alike():
    same = torch.randn(3, 1, 4).expand(-1, 2, -1)
    for settings in ({"self_attention": False, "compare": False}, {"hierarchy": False}):
        ratios, _ = relations(**settings)(same)
        assert torch.allclose(ratios, torch.full((3, 2), 0.5))
    whole = relations()
    with torch.no_grad():  # a map of its own for each domain would tell them apart
        whole.levels_compared[:, 1] = whole.levels_compared[:, 0]
    assert torch.allclose(whole(same)[0], torch.full((3, 2), 0.5))


def test_references_mix_the_domains_by_their_likeness():
    graph = relations(levels=1, width=1)
    with torch.no_grad():
        graph.domains_compared.fill_(1.0)
    h = torch.tensor([[[1.0], [2.0]]])
    # row i: softmax(h_i h_j) over j, times h
    expected = [(math.exp(i) + 2 * math.exp(2 * i)) / (math.exp(i) + math.exp(2 * i)) for i in (1, 2)]
    assert graph.references(h).flatten().tolist() == pytest.approx(expected)


def test_levels_are_compared_with_the_reference_of_their_own_domain():
    graph = relations(levels=2, width=1, self_attention=False)
    with torch.no_grad():
        graph.levels_compared.fill_(1.0)
    h = torch.tensor([[[1.0], [0.0]], [[2.0], [3.0]]])  # levels × domains
    shares = graph.similarities(h)
    # domain 0, level 1: softmax(1·2, 2·2); domain 1: softmax(0·3, 3·3)
    assert shares[0, 1].tolist() == pytest.approx([1 / (1 + math.exp(2)), 1 / (1 + math.exp(-2))])
    assert shares[1, 1].tolist() == pytest.approx([1 / (1 + math.exp(9)), 1 / (1 + math.exp(-9))])
    assert shares[:, 0].tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_without_comparison_the_levels_count_alike_and_without_hierarchy_their_own_alone():
    h = torch.randn(3, 2, 4)
    assert relations(compare=False).similarities(h)[0, 2].tolist() == pytest.approx([1 / 3] * 3)
    assert relations(hierarchy=False).similarities(h)[1].tolist() == torch.eye(3).tolist()


def test_what_is_switched_off_has_no_weights():
    names = {name for name, _ in relations().named_parameters()}
    assert {name for name, _ in relations(self_attention=False).named_parameters()} == names - {"domains_compared"}
    left = names - {"domains_compared", "levels_compared"}
    assert {name for name, _ in relations(compare=False).named_parameters()} == left


def test_ratios_begin_near_alike_for_prototypes_as_long_as_an_encoder_s():
    _, shares = relations(width=384)(15 * torch.nn.functional.normalize(torch.randn(3, 2, 384), dim=-1))
    assert shares[:, 2].max() < 0.5


def test_by_the_paper_s_equations_ratios_are_alike_and_cannot_be_learned():
    """Unlike prototypes, and still: a node's own part of its scores cancels out in the softmax."""
    graph = relations(domains=4, width=64)
    prototypes = torch.ones(3, 1, 64) + 0.5 * torch.randn(3, 4, 64)
    ratios, _ = graph(prototypes)
    assert torch.allclose(ratios, torch.full((3, 4), 0.25), atol=1e-5)
    (ratios * torch.arange(4.0)).sum().backward()
    assert all(weight.grad.abs().max() < 1e-4 for weight in graph.parameters())


def test_with_dropout_ratios_are_noise_and_where_nodes_keep_their_features_they_can_be_learned():
    prototypes = torch.ones(3, 1, 64) + 0.5 * torch.randn(3, 4, 64)
    noisy = relations(domains=4, width=64, dropout=0.1).eval()
    first, second = noisy(prototypes)[0], noisy(prototypes)[0]
    assert (first - 0.25).abs().max() > 1e-3 and (first - second).abs().max() > 1e-3
    learnable = relations(domains=4, width=64, residual=True)
    ratios, _ = learnable(prototypes)
    assert torch.allclose(ratios.sum(1), torch.ones(3)) and (ratios - 0.25).abs().max() > 1e-3
    (ratios * torch.arange(4.0)).sum().backward()
    assert learnable.first.grad.abs().max() > 1e-3


# Of the released code's tensors as torch computes their fans, at D = 4, F = F' = 384, 8 heads: sqrt(2) sqrt(2 / fans).
RELEASED_STD = {
    "levels_compared": (384 * 384 + 4 * 384, 0.005181),  # W^H of a level, 4 x 384 x 384: 384 * 384 in, 4 * 384 out
    "domains_compared": (384 + 384, 0.072169),  # W^D of a level, 384 x 384
    "first": (384 + 384, 0.072169),  # W of a head, 384 x 384
    "first_edges": (1 + 2 * 384, 0.072122),  # a of a head, 768 x 1
    "second": (1 + 8 * 384, 0.036078),  # W', 3072 x 1
    "second_edges": (1 + 2, 1.154701),  # a', 2 x 1
}


def test_released_weights_are_as_wide_as_the_released_code_draws_them():
    torch.manual_seed(0)
    sizes = {"heads": 8, "graph_width": 384}
    weights = dict(Relations(4, 4, 384, **sizes, released_init=True).named_parameters())
    assert weights.keys() == RELEASED_STD.keys()
    for name, (fans, std) in RELEASED_STD.items():
        assert std == pytest.approx(2 / fans**0.5, rel=1e-4)
        # Uniform within sqrt(3) standard deviations; a' has eight numbers, too few for a deviation
        assert 0.7 * 3**0.5 * std < weights[name].abs().max() <= 1.001 * 3**0.5 * std
        if name != "second_edges":
            assert weights[name].std().item() == pytest.approx(std, rel=0.03)


@pytest.mark.parametrize(("domains", "weights"), [(5, 41_379_850), (4, 38_430_730)], ids=["MNLI", "Amazon"])
def test_a_graph_has_as_many_weights_as_the_released_one(domains, weights):
    with torch.device("meta"):
        graph = Relations(5, domains, 768, heads=8, graph_width=768)
    assert sum(weight.numel() for weight in graph.parameters()) == weights


def test_released_draws_follow_both_widths():
    torch.manual_seed(0)
    graph = Relations(6, 3, 40, heads=5, graph_width=24, released_init=True)  # D = 3, F = 40, F' = 24, K = 5
    fans = {"levels_compared": 40 * 40 + 3 * 40, "domains_compared": 40 + 40, "first": 40 + 24}
    fans |= {"first_edges": 1 + 2 * 24, "second": 1 + 5 * 24, "second_edges": 1 + 2}
    for name, weight in graph.named_parameters():
        assert weight.abs().max().item() == pytest.approx((12 / fans[name]) ** 0.5, rel=0.03)  # sqrt(2) sqrt(6 / fans)


def test_released_weights_leave_shares_of_levels_even_at_bert_s_width():
    torch.manual_seed(0)
    graph = Relations(5, 4, 768, heads=1, graph_width=1, released_init=True)
    _, shares = graph(15 * torch.nn.functional.normalize(torch.randn(5, 4, 768), dim=-1))
    assert shares[:, -1].max() < 0.6


def test_random_ratios_stay_as_they_are_drawn():
    torch.manual_seed(0)
    placebo = RandomRatios(200, 4)
    assert placebo(torch.randn(200, 4, 8))[0] is placebo(torch.zeros(200, 4, 8))[0] and not [*placebo.parameters()]
    # (1/D) exp(0.1 z), nearly: a mean distance of 0.25 · 0.1 · √(2/π) · √(3/4)
    assert (placebo.ratios - 0.25).abs().mean().item() == pytest.approx(0.0173, rel=0.1)
    assert torch.allclose(placebo.ratios.sum(1), torch.ones(200))


def test_free_ratios_give_all_weight_to_the_least_loss():
    """Eq. 17 is linear in the ratios, so what minimises it is one-hot."""
    scores, losses = torch.zeros(3, requires_grad=True), torch.tensor([1.0, 0.9, 1.1])
    optimiser = torch.optim.Adam([scores], lr=0.1)
    for _ in range(500):
        optimiser.zero_grad()
        (scores.softmax(0) * losses).sum().backward()
        optimiser.step()
    assert scores.softmax(0).argmax() == 1 and scores.softmax(0)[1] > 0.99


def test_ratios_of_real_prototypes_are_alike(shared):
    """The paper's equations on MiniLM's states of reviews."""
    encoder, names = str(shared / "models/all-MiniLM-L6-v2"), ("books", "dvd", "electronics", "kitchen")
    model, tokenizer = load_encoder(encoder, "labels", seed=0).eval(), load_tokenizer(encoder)
    texts = TextsSettings(folder=str(shared / "data/nlu/amazon-reviews"), domains=dict(zip(names, names, strict=True)))
    pairs = [make_pairs(domain.train[:16], tokenizer, 64) for domain in load_domains(texts).values()]
    states = [mean_tokens(model, each, "fp32").mean(0) for each in pairs]
    torch.manual_seed(0)
    graph = Relations(len(states[0]), len(names), 384, heads=8, graph_width=768)
    ratios, _ = graph(torch.tensor(np.stack(states, 1)))
    assert (ratios - 1 / len(names)).abs().max() < 3e-4


def test_a_node_that_keeps_its_features_by_hand():
    nodes = torch.tensor([1.0, 2.0]).view(1, 1, 2, 1)
    weight, edges = torch.tensor([3.0]).view(1, 1, 1, 1), torch.tensor([0.5, -1.0]).view(1, 1, 2, 1)
    collected = attend_to_nodes(nodes, weight, edges).flatten()
    assert torch.allclose(
        attend_to_nodes(nodes, weight, edges, residual=True).flatten(), collected + torch.tensor([3.0, 6.0])
    )
