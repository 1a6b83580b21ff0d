"""The anchored denoiser: a network that also sees what is known of a row.

The same weights are an unconditional model (nothing known), an imputer (some cells known: one evaluation at the
noisiest time gives E[x_0 | known]) and a conditional generator. A known cell enters clean. An unknown cell enters as
its belief, what its noisy value says of it alone, which is nothing where there is only noise. Pairs of ranks enter as
contrasts, the differences that tell two noisy numbers apart. Beliefs and contrasts go to the output twice: through the
layers, and straight.

Where there is only noise the network also tells the law of each cell given the known ones: of a category its
probabilities, of a number a histogram over its ranks. From these laws cells are drawn in turn (`harpoon.inference.autoregressive`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.networks.layers import N_FREQUENCIES, Linear, fourier_features

MAX_PAIRS = 64


class Contrast(nn.Module):
    """Differences of pairs of ranks that go together, learnt from there: of equals, their noise is what is left."""

    weight: nn.Parameter

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.pairs = min(ranks * (ranks - 1) // 2, MAX_PAIRS)
        self.weight = nn.Parameter(torch.zeros(self.pairs, ranks))

    def forward(self, ranks: Tensor) -> Tensor:
        """(n, ranks) to (n, pairs)."""
        return ranks @ self.weight.T

    @torch.no_grad()
    def initialize(self, x: Tensor, known: Tensor) -> None:
        """Start with the differences of the ranks that go together most, or sums where they go against each other."""
        self.weight.zero_()
        there = known.double()
        ranks = x.double() * there
        together = ranks.T @ ranks / (there.T @ there).clamp(min=1)
        first, second = torch.triu_indices(x.shape[1], x.shape[1], offset=1, device=x.device)
        closest = together[first, second].abs().argsort(descending=True, stable=True)[: self.pairs]
        rows = torch.arange(self.pairs, device=x.device)
        self.weight[rows, first[closest]] = 1.0
        self.weight[rows, second[closest]] = -together[first[closest], second[closest]].sign().to(self.weight.dtype)


class Backbone(nn.Module):
    """Pre-norm residual blocks on projections of what is known, of the noisy row and of the time."""

    def __init__(self, n_features: int, n_evidence: int, width: int, hidden: int, depth: int) -> None:
        super().__init__()
        self.project_observed = Linear(n_features, hidden)
        self.project_evidence = Linear(n_evidence, hidden)
        self.time = nn.Sequential(nn.Linear(2 * N_FREQUENCIES, hidden // 2), nn.SiLU(), nn.Linear(hidden // 2, hidden))
        self.blocks = nn.ModuleList(Residual(hidden) for _ in range(depth))
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, width)
        self.skip = nn.Linear(n_evidence, width, bias=False)

    def forward(self, known: Tensor, noisy: Tensor, t: Tensor) -> Tensor:
        """What is known, projected, the noisy rows and their times to the last layer."""
        return self.trunk(known + self.time_embedding(t) + self.project_evidence(noisy))

    def time_embedding(self, t: Tensor) -> Tensor:
        """What the time adds to the first layer."""
        begun: Tensor = self.time(fourier_features(t))
        return begun

    def trunk(self, h: Tensor) -> Tensor:
        """The first layer to the last."""
        for block in self.blocks:
            h = block(h)
        last: Tensor = self.norm(h)
        return last

    def output(self, last: Tensor, noisy: Tensor) -> Tensor:
        """The last layer and the noisy rows to one number per encoded number."""
        said: Tensor = self.out(last) + self.skip(noisy)
        return said


class Residual(nn.Module):
    """x + W_2 silu(W_1 norm(x)), twice as wide inside."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.widen = Linear(hidden, 2 * hidden)
        self.narrow = Linear(2 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        wide = functional.silu(self.widen(self.norm(x)), inplace=not torch.is_grad_enabled())
        added: Tensor = self.narrow(wide)
        return x + added
