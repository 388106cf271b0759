"""The weight of every domain at every level of a student: prototypes, compare-aggregate, and a graph of domains (Dong
et al. 2021, sections 2.2 and 2.3).

D domains, F the width of the prototypes, M layers, V = M + 1 levels, because level 0 are the embeddings.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

SLOPE = 0.2  # of LeakyReLU, as in graph attention networks (Veličković et al. 2018)


def prototypes(levels: tuple[Tensor, ...], mask_BxL: Tensor, domain_B: Tensor, domains: int) -> Tensor:
    """Average the tokens of each level and domain of a batch, V×D×F (Eq. 6); 0 for a domain without an example.

    ``levels`` are V outputs (B×L×F). Tokens count where ``mask_BxL`` is 1, and every token alike.
    """
    is_domain_DxB = functional.one_hot(domain_B, domains).T
    weight_DxBL = (is_domain_DxB[:, :, None] * mask_BxL.float()).flatten(1)
    weight_DxBL = weight_DxBL / weight_DxBL.sum(1, keepdim=True).clamp_min(1)
    return torch.stack([weight_DxBL @ level.float().flatten(0, 1) for level in levels])


class Relations(nn.Module):
    """Ratios of the domains at every level, from the domains' prototypes.

    Table 4 leaves out ``self_attention`` (without: a domain's reference is its own prototype), ``compare`` (without: a
    mean over the levels up to this one), and ``hierarchy`` (without: each graph sees its own level alone).

    By Eqs. 7 to 12 the ratios are nearly always 1/D, without a gradient: what node i adds to every score cancels out in
    the softmax over j while all scores share one sign, so all nodes collect nearly the same sum. Two settings, not in
    the paper, change that. ``dropout`` in the graph, always on as in the released code, makes the ratios noise.
    ``residual`` adds each node's own features to its sum (as Veličković et al. 2018 do elsewhere).

    ``released_init`` draws the weights as the released code does (`draw_as_released`). They are trained only with
    ``trained``. `TinyBertStudent` reads two more: whether prototypes are ``projected`` to the teacher's width, and
    whether the ratios' gradient may ``steer`` the student through them.
    """

    def __init__(
        self,
        levels: int,
        domains: int,
        width: int,
        *,
        heads: int,
        graph_width: int,
        self_attention: bool = True,
        compare: bool = True,
        hierarchy: bool = True,
        dropout: float = 0.0,
        residual: bool = False,
        released_init: bool = False,
        projected: bool = False,
        steer: bool = True,
        trained: bool = True,
    ):
        super().__init__()
        self.self_attention, self.compare, self.hierarchy = self_attention, compare, hierarchy
        self.dropout, self.residual, self.projected, self.steer = dropout, residual, projected, steer
        self.first = nn.Parameter(torch.empty(levels, heads, width, graph_width))  # W_m of Eq. 7
        self.first_edges = nn.Parameter(torch.empty(levels, heads, 2, graph_width))  # a_m, for node i and node j
        self.second = nn.Parameter(torch.empty(levels, 1, heads * graph_width, 1))  # W'_m of Eq. 11
        self.second_edges = nn.Parameter(torch.empty(levels, 1, 2, 1))  # a'_m
        # Near 0, so that all are alike at first: prototypes are long vectors, and the softmaxes would be saturated.
        if hierarchy and compare:
            self.levels_compared = nn.Parameter(torch.randn(levels, domains, width, width) / width**2)  # W^H of Eq. 16
            if self_attention:
                self.domains_compared = nn.Parameter(torch.randn(levels, width, width) / width**2)  # W^D of Eq. 14
        for weight in (self.first, self.first_edges, self.second, self.second_edges):
            for matrix in weight.flatten(0, -3):
                nn.init.xavier_uniform_(matrix)
        if released_init:
            self.draw_as_released()
        self.requires_grad_(trained)

    @torch.no_grad()
    def draw_as_released(self) -> None:
        """Draw the weights by Glorot's rule times the square root of 2, with the fans of the released code's tensors.

        There W^H of a level is one tensor D×F×F, with fans F·F and D·F as torch counts them: it is narrower than D
        matrices F×F by a factor of sqrt((F + D) / 2). A head's a_m is one vector, 2F'×1.
        """
        for name, weight in self.named_parameters():
            tensors = weight if name in ("levels_compared", "domains_compared") else weight.flatten(0, 1)
            is_vector = name in ("first_edges", "second_edges")
            for tensor in tensors:
                nn.init.xavier_uniform_(tensor.view(-1, 1) if is_vector else tensor, 2**0.5)

    def forward(self, prototypes_VxDxF: Tensor) -> tuple[Tensor, Tensor]:
        """Return ratios V×D, each level's adding up to 1 (Eq. 10), and D×V×V the share of every level (last axis) in
        the graph of each (Eq. 16), 0 above it."""
        shares_DxVxV = self.similarities(prototypes_VxDxF)
        aggregated_VxDxF = torch.einsum("dvu,udf->vdf", shares_DxVxV, prototypes_VxDxF)  # Eq. 15
        return self.graph(aggregated_VxDxF), shares_DxVxV

    def references(self, prototypes_VxDxF: Tensor) -> Tensor:
        """Return RP, V×D×F, each domain's mixture of all domains' prototypes of the level (Eqs. 13, 14)."""
        if not self.self_attention:
            return prototypes_VxDxF
        scores_VxDxD = prototypes_VxDxF @ self.domains_compared @ prototypes_VxDxF.transpose(1, 2)
        return scores_VxDxD.softmax(-1) @ prototypes_VxDxF

    def similarities(self, prototypes_VxDxF: Tensor) -> Tensor:
        """Return alpha^H, D×V×V, the shares of the levels up to each one, compared with its reference (Eq. 16)."""
        levels, domains, _ = prototypes_VxDxF.shape
        lower_VxV = torch.ones(levels, levels, device=prototypes_VxDxF.device).tril()
        if not self.hierarchy:
            return torch.eye(levels, device=prototypes_VxDxF.device).expand(domains, -1, -1)
        if not self.compare:
            return (lower_VxV / lower_VxV.sum(1, keepdim=True)).expand(domains, -1, -1)
        compared_VxDxF = torch.einsum("vdfg,vdg->vdf", self.levels_compared, self.references(prototypes_VxDxF))
        scores_DxVxV = torch.einsum("udf,vdf->dvu", prototypes_VxDxF, compared_VxDxF)
        return scores_DxVxV.masked_fill(lower_VxV == 0, -torch.inf).softmax(-1)

    def graph(self, nodes_VxDxF: Tensor) -> Tensor:
        """Return ratios V×D by two layers of graph attention over all domains, one graph per level (Eqs. 7 to 12)."""
        settings = {"dropout": self.dropout, "residual": self.residual}
        heads_VxKxDxG = functional.elu(attend_to_nodes(nodes_VxDxF[:, None], self.first, self.first_edges, **settings))
        joined_VxDxI = heads_VxKxDxG.transpose(1, 2).flatten(2)  # Eq. 9
        values_VxD = attend_to_nodes(joined_VxDxI[:, None], self.second, self.second_edges, **settings)[:, 0, :, 0]
        return functional.elu(values_VxD).softmax(-1)


class RandomRatios(nn.Module):
    """Random ratios that stay as they are drawn, softmax(``spread`` z) of each level: a placebo for `Relations`."""

    projected, steer = False, False

    def __init__(self, levels: int, domains: int, spread: float = 0.1):
        super().__init__()
        self.register_buffer("ratios", (spread * torch.randn(levels, domains)).softmax(-1))

    def forward(self, prototypes_VxDxF: Tensor) -> tuple[Tensor, None]:
        """Return the ratios V×D, whatever the prototypes."""
        return self.ratios, None


def attend_to_nodes(
    nodes_VxKxDxF: Tensor, weight_VxKxFxG: Tensor, edges_VxKx2xG: Tensor, dropout=0.0, residual=False
) -> Tensor:
    """Compute one layer of graph attention, V×K×D×G: each node's sum of all nodes' features, weighted by its attention
    to them (Eqs. 7, 8, and 11, 12), before any nonlinearity. K heads; their axis may be 1 in ``nodes``. ``residual``
    adds the node's own features."""
    features_VxKxDxG = functional.dropout(nodes_VxKxDxF, dropout) @ weight_VxKxFxG
    from_i, from_j = torch.einsum("vkdg,vkeg->evkd", features_VxKxDxG, edges_VxKx2xG)
    scores_VxKxDxD = functional.leaky_relu(from_i[..., :, None] + from_j[..., None, :], SLOPE)
    collected_VxKxDxG = functional.dropout(scores_VxKxDxD.softmax(-1), dropout) @ features_VxKxDxG
    return collected_VxKxDxG + features_VxKxDxG if residual else collected_VxKxDxG
