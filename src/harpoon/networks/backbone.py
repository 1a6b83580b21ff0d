"""The trunk of the anchored network: a pre-norm residual MLP."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.networks.layers import Linear
from harpoon.networks.time_embeddings import N_FREQUENCIES, fourier_features

MAX_PAIRS = 64


class Contrast(nn.Module):
    """Learnt linear combinations of normal scores, initialized as differences of correlated pairs.

    The difference of two noisy, strongly correlated values is almost their noise alone, which a network finds hard to
    isolate by itself.
    """

    def __init__(self, n_ranks: int) -> None:
        super().__init__()
        self.n_pairs = min(n_ranks * (n_ranks - 1) // 2, MAX_PAIRS)
        self.weight = nn.Parameter(torch.zeros(self.n_pairs, n_ranks))

    def forward(self, ranks: Tensor) -> Tensor:
        """Map normal scores, (n, n_ranks), to contrasts, (n, n_pairs)."""
        return ranks @ self.weight.T

    @torch.no_grad()
    def initialize(self, x: Tensor, observed: Tensor) -> None:
        """Choose the most correlated pairs; a pair of negative correlation starts as a sum. Both are (n, n_ranks)."""
        self.weight.zero_()
        mask = observed.double()
        ranks = x.double() * mask
        correlation = ranks.T @ ranks / (mask.T @ mask).clamp(min=1)
        first, second = torch.triu_indices(x.shape[1], x.shape[1], offset=1, device=x.device)
        strongest = correlation[first, second].abs().argsort(descending=True, stable=True)[: self.n_pairs]
        first, second = first[strongest], second[strongest]
        pair = torch.arange(self.n_pairs, device=x.device)
        self.weight[pair, first] = 1.0
        self.weight[pair, second] = -correlation[first, second].sign().to(self.weight.dtype)


class Backbone(nn.Module):
    """Pre-norm residual blocks on the sum of three projections: observed features, evidence and time.

    The output adds a linear skip path from the evidence.
    """

    def __init__(self, n_features: int, n_evidence: int, width: int, hidden: int, depth: int) -> None:
        super().__init__()
        self.project_observed = Linear(n_features, hidden)
        self.project_evidence = Linear(n_evidence, hidden)
        self.time = nn.Sequential(nn.Linear(2 * N_FREQUENCIES, hidden // 2), nn.SiLU(), nn.Linear(hidden // 2, hidden))
        self.blocks = nn.Sequential(*(Residual(hidden) for _ in range(depth)))
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, width)
        self.skip = nn.Linear(n_evidence, width, bias=False)

    def forward(self, projection: Tensor, evidence: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last hidden layer, (n, hidden), and the output F, (n, width).

        `projection` is `project_observed` of the observed features, (n, hidden), computed once for all times. The
        evidence of the noisy cells is (n, n_evidence), the times are (n,) or (1,).
        """
        h = self.trunk(projection + self.time(fourier_features(t)) + self.project_evidence(evidence))
        return h, self.out(h) + self.skip(evidence)

    def trunk(self, h: Tensor) -> Tensor:
        """Apply the residual blocks and the last norm, (n, hidden) to (n, hidden)."""
        last: Tensor = self.norm(self.blocks(h))
        return last


class Residual(nn.Module):
    """A pre-norm residual block, x + W_2 silu(W_1 norm(x)), with an inner width of 2 * hidden."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.widen = Linear(hidden, 2 * hidden)
        self.narrow = Linear(2 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, hidden) to (n, hidden)."""
        inner = functional.silu(self.widen(self.norm(x)), inplace=not torch.is_grad_enabled())
        update: Tensor = self.narrow(inner)
        return x + update
