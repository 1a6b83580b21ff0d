"""The anchored denoiser: a network that also sees what is known of a row.

The same weights are an unconditional model (nothing known), an imputer (some cells known: one evaluation at the
noisiest time gives E[x_0 | known]) and a conditional generator. Known cells enter clean. An unknown cell enters as
a_t x_t, the best linear guess of it, which is nothing where there is only noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.codec import Block
from harpoon.network import Denoiser, Given
from harpoon.schedule import CosineSchedule

FREQUENCIES, FASTEST = 16, 8.0
NARROWEST = 1e-4


@dataclass(frozen=True)
class Corruption:
    """How training rows lose cells.

    A share `at_noise` of the rows loses its cells wholly, as in imputation; the others lose them to noise at a random
    time, and of these a share `all_unknown` has nothing known, as in drawing new rows.
    """

    at_noise: float
    all_unknown: float


class AnchoredDenoiser(Denoiser):
    """The dirty estimate with exact preconditioning.

    Numbers: x̂_0 = a_t x_t + s_t F. Categories: softmax(F + a_t x_t / s_t²): the added term is the exact log-evidence
    of the Gaussian channel about a one-hot vector, so the network only learns the context and the estimate is always
    on the simplex. Both losses, squared error and cross-entropy, are minimised by the posterior mean, which is what
    Theorems 3.1 and 3.2 ask of a denoiser.
    """

    sees_known = True
    schedule: CosineSchedule
    edges: Tensor

    def __init__(self, blocks: Sequence[Block], *, hidden: int, depth: int, bins: int, corruption: Corruption) -> None:
        width = blocks[-1].stop
        super().__init__(width, CosineSchedule())
        self.corruption = corruption
        self.simplexes = [slice(block.start, block.stop) for block in blocks if block.simplex]
        self.numbers = [block.start for block in blocks if not block.simplex]
        self.column_of = [block.column for block in blocks for _ in range(block.start, block.stop)]
        self.first_of = [self.column_of.index(column) for column in range(blocks[-1].column + 1)]
        self.register_buffer("edges", torch.zeros(len(self.numbers), bins + 1))
        features = 2 * width + len(self.numbers) * bins + len(self.first_of)
        self.backbone = Backbone(features, width, hidden, depth)

    def forward(self, x_t: Tensor, t: float, given: Given | None = None) -> Tensor:
        """The dirty estimate; what is known is estimated to be what it is."""
        given = Given(x_t, torch.zeros_like(x_t, dtype=torch.bool)) if given is None else given
        times = torch.full((len(x_t),), t, device=x_t.device, dtype=x_t.dtype)
        a, s = self.schedule.levels(times)
        context = self._context(x_t, times, given)
        parts = a * x_t + s * context
        logits = context + a / s**2 * x_t
        estimate = parts.clone()
        for simplex in self.simplexes:
            estimate[:, simplex] = logits[:, simplex].softmax(dim=1)
        return given.write_into(estimate)

    def loss(self, data: Given, generator: torch.Generator) -> Tensor:
        """Squared error of F for numbers and cross-entropy for categories, over the cells that were lost.

        A cell that is missing in the training table is always unknown and never a target.
        """
        x_0, there = data.x, data.known
        t, lost = self._lose(there[:, self.first_of], generator)
        lost = lost[:, self.column_of]
        a, s = self.schedule.levels(t)
        epsilon = torch.randn(x_0.shape, generator=generator, device=x_0.device, dtype=x_0.dtype)
        x_t = a * x_0 + s * epsilon
        context = self._context(x_t, t, Given(x_0, there & ~lost))
        target = (lost & there).to(x_0.dtype)
        squares = ((context - (s * x_0 - a * epsilon)) ** 2 * target)[:, self.numbers].sum()
        logits = context + a / s**2 * x_t
        entropies = sum((self._cross_entropy(logits, x_0, target, part) for part in self.simplexes), x_0.new_zeros(()))
        return (squares + entropies) / (len(x_0) * len(self.first_of))

    def prepare(self, data: Given, generator: torch.Generator) -> None:
        """Also the bins of the numbers, and the log-shares of the labels as the last bias."""
        super().prepare(data, generator)
        shares = torch.linspace(0, 1, self.edges.shape[1], dtype=self.edges.dtype)
        for row, place in enumerate(self.numbers):
            values = data.x[data.known[:, place], place]
            self.edges[row] = torch.quantile(_at_most(values, 2**20), shares) if len(values) else shares
        with torch.no_grad():
            last = self.backbone.out
            last.weight.mul_(0.1)
            last.bias.zero_()
            for part in self.simplexes:
                last.bias[part] = (self.mean[part] + 0.5 / len(data.x)).log()

    def _lose(self, there: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """For each row a time, and which columns are lost: a share of them that is itself drawn per row."""
        rows, device = len(there), there.device

        def uniform(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, device=device, dtype=torch.float32)

        at_noise = uniform(rows) < self.corruption.at_noise
        spread = (torch.randperm(rows, generator=generator, device=device) + uniform(rows)) / rows
        t = spread.clamp(self.schedule.margin, self.schedule.noisiest)
        t = torch.where(at_noise, self.schedule.noisiest, t)
        share = (torch.randperm(rows, generator=generator, device=device) + uniform(rows)) / rows
        lost = uniform(*there.shape) < share.unsqueeze(1)
        everything = ~at_noise & (uniform(rows) < self.corruption.all_unknown)
        return t, lost | everything.unsqueeze(1)

    def _context(self, x_t: Tensor, t: Tensor, given: Given) -> Tensor:
        """F: what the network makes of the known cells, the noisy ones, the time and the pattern of what is known."""
        a, _ = self.schedule.levels(t)
        known = given.known.to(x_t.dtype)
        clean, noisy = given.x * known, a * x_t * (1 - known)  # apart: one can be relied on and the other cannot
        binned = self._binned(given.x[:, self.numbers]) * known[:, self.numbers].unsqueeze(2)
        unknown = 1 - known[:, self.first_of]
        found: Tensor = self.backbone(torch.cat([clean, noisy, binned.flatten(1), unknown], dim=1), t)
        return found

    def _binned(self, numbers: Tensor) -> Tensor:
        """How far a number reaches into each bin of its column, from 0 to 1: (n, numbers, bins)."""
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        return ((numbers.unsqueeze(2) - low) / (high - low).clamp(min=NARROWEST)).clamp(0, 1)

    @staticmethod
    def _cross_entropy(logits: Tensor, x_0: Tensor, target: Tensor, part: slice) -> Tensor:
        entropy = functional.cross_entropy(logits[:, part], x_0[:, part].argmax(dim=1), reduction="none")
        return (entropy * target[:, part.start]).sum()


class Backbone(nn.Module):
    """Pre-norm residual blocks on a projection of the features, with the time added."""

    def __init__(self, features: int, width: int, hidden: int, depth: int) -> None:
        super().__init__()
        self.project = nn.Linear(features, hidden)
        self.time = nn.Sequential(nn.Linear(2 * FREQUENCIES, hidden // 2), nn.SiLU(), nn.Linear(hidden // 2, hidden))
        self.blocks = nn.ModuleList(Residual(hidden) for _ in range(depth))
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, width)

    def forward(self, features: Tensor, t: Tensor) -> Tensor:
        """Features and times to one number per encoded number."""
        h = self.project(features) + self.time(_waves(t))
        for block in self.blocks:
            h = block(h)
        out: Tensor = self.out(self.norm(h))
        return out


class Residual(nn.Module):
    """x + W_2 silu(W_1 norm(x)), twice as wide inside."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.widen = nn.Linear(hidden, 2 * hidden)
        self.narrow = nn.Linear(2 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        added: Tensor = self.narrow(functional.silu(self.widen(self.norm(x))))
        return x + added


def _waves(t: Tensor) -> Tensor:
    """Sines and cosines of the time at geometric frequencies."""
    steps = torch.arange(FREQUENCIES, device=t.device, dtype=t.dtype) / (FREQUENCIES - 1)
    angles = (math.pi / 2) * t.unsqueeze(1) * FASTEST**steps
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _at_most(values: Tensor, count: int) -> Tensor:
    """Evenly spaced values of a long column: enough for its quantiles."""
    return values[:: max(1, len(values) // count)]
