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
from harpoon.encodings import Shape
from harpoon.network import Denoiser, Estimator, Given
from harpoon.schedule import CosineSchedule

FREQUENCIES, FASTEST = 16, 8.0
NARROWEST = 1e-4
MOST_PAIRS = 64
FAINTEST = -8.0  # the log of a probability below which there is no telling


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
        self.lines = [block.start for block in blocks if block.shape is Shape.LINE]
        self.means = [block.start for block in blocks if block.shape is Shape.MEAN]
        self.column_of = [block.column for block in blocks for _ in range(block.start, block.stop)]
        self.first_of = [self.column_of.index(column) for column in range(blocks[-1].column + 1)]
        has_mean = {block.column for block in blocks if block.shape is Shape.MEAN}
        ranks = {block.start for block in blocks if block.shape is Shape.LINE and block.column in has_mean}
        self.noised = [place for place in range(width) if place not in self.means]
        self.told = [place for place in range(width) if place not in ranks]  # a mean tells all that its rank does
        self.numbers = sorted({*self.lines, *self.means} - ranks)
        self.register_buffer("edges", torch.zeros(len(self.numbers), bins + 1))
        told = len(self.told) + len(self.numbers) * bins + len(self.first_of)
        labels = sum(part.stop - part.start for part in self.simplexes)
        self.pairs = min(len(self.lines) * (len(self.lines) - 1) // 2, MOST_PAIRS)
        self.contrast = nn.Linear(len(self.lines), self.pairs, bias=False)
        self.backbone = Backbone(told, len(self.noised) + labels + self.pairs, width, hidden, depth)

    def knowing(self, given: Given | None = None) -> Estimator:
        """The dirty estimate for rows of which something is known, which is looked at once for all steps."""
        known = self._known(given) if given is not None else self._known(Given(*self._nothing()))

        def estimate(x_t: Tensor, t: float) -> Tensor:
            times = x_t.new_full((1,), t)
            a, s = self.schedule.levels(times)
            context = self.backbone(known, self._belief(x_t, a, s, given), times)
            x0_hat = self._estimate(context, x_t, a, s)
            return x0_hat if given is None else given.write_into(x0_hat)

        return estimate

    def _nothing(self) -> tuple[Tensor, Tensor]:
        """One row of which nothing is known."""
        return torch.zeros_like(self.mean)[None], torch.zeros_like(self.mean, dtype=torch.bool)[None]

    def _estimate(self, context: Tensor, x_t: Tensor, a: Tensor, s: Tensor) -> Tensor:
        x0_hat = context.clone()
        x0_hat[:, self.lines] = a * x_t[:, self.lines] + s * context[:, self.lines]
        logits = context + a / s**2 * x_t
        for simplex in self.simplexes:
            x0_hat[:, simplex] = logits[:, simplex].softmax(dim=1)
        return x0_hat

    def loss(self, data: Given, generator: torch.Generator) -> Tensor:
        """Squared error of F for numbers and cross-entropy for categories, over the cells that were lost.

        A cell that is missing in the training table is always unknown and never a target.
        """
        x_0, there = data.x, data.known
        t, lost = self._lose(there[:, self.first_of], generator)
        lost = lost[:, self.column_of]
        a, s = self.schedule.levels(t)
        epsilon = torch.randn(x_0.shape, generator=generator, device=x_0.device, dtype=x_0.dtype)
        x_t = (a * x_0 + s * epsilon) * there  # of a missing cell nothing is believed
        kept = Given(x_0, there & ~lost)
        context = self.backbone(self._known(kept), self._belief(x_t, a, s, kept), t)
        target = (lost & there).to(x_0.dtype)
        velocity = s * x_0 - a * epsilon
        squares = ((context - velocity) ** 2 * target)[:, self.lines].sum()
        squares = squares + ((context - x_0) ** 2 * target)[:, self.means].sum()
        logits = context + a / s**2 * x_t
        total: Tensor = sum((self._cross_entropy(logits, x_0, target, part) for part in self.simplexes), start=squares)
        return total / (len(x_0) * len(self.first_of))

    def prepare(self, data: Given, generator: torch.Generator) -> None:
        """Also the bins of the numbers, and the log-shares of the labels as the last bias."""
        super().prepare(data, generator)
        shares = torch.linspace(0, 1, self.edges.shape[1], dtype=self.edges.dtype)
        for row, place in enumerate(self.numbers):
            values = data.x[data.known[:, place], place]
            self.edges[row] = torch.quantile(_at_most(values, 2**20), shares) if len(values) else shares
        self._learn_pairs(data.drawn(generator))
        with torch.no_grad():
            last = self.backbone.out
            last.weight.mul_(0.1)
            last.bias.zero_()
            self.backbone.straight.weight.zero_()
            for part in self.simplexes:
                last.bias[part] = (self.mean[part] + 0.5 / len(data.x)).log()

    @torch.no_grad()
    def _learn_pairs(self, data: Given) -> None:
        """Contrasts start as the differences of the ranks that go together most."""
        there = data.known[:, self.lines].double()
        ranks = data.x[:, self.lines].double() * there
        together = ranks.T @ ranks / (there.T @ there).clamp(min=1)
        rows, columns = torch.triu_indices(len(self.lines), len(self.lines), offset=1)
        closest = together[rows, columns].abs().argsort(descending=True, stable=True)[: self.pairs]
        self.contrast.weight.zero_()
        for place, pair in enumerate(closest.tolist()):
            one, other = int(rows[pair]), int(columns[pair])
            self.contrast.weight[place, one] = 1.0
            self.contrast.weight[place, other] = -float(together[one, other].sign())

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

    def _belief(self, x_t: Tensor, a: Tensor, s: Tensor, given: Given | None) -> Tensor:
        """What each cell says of itself alone, E[x_0 | its own x_t], less what is believed of it beforehand.

        For a rank, which is a standard normal number, that is a_t x_t; for a category Bayes' rule gives probabilities,
        and their logarithms stand beside them, because evidence adds up. Where there is only noise it is nothing, and
        a label that is known is one that is believed without doubt.
        """
        guess = a * x_t
        logits = guess / s**2
        logs = []
        for part in self.simplexes:
            share = self.mean[part]
            prior = (share + NARROWEST).log()
            log_p = (logits[:, part] + prior).log_softmax(dim=1)
            if given is not None:
                log_p = torch.where(given.known[:, part], (given.x[:, part] + NARROWEST).log(), log_p)
            guess[:, part] = log_p.exp() - share
            logs.append((log_p.clamp(min=FAINTEST) - prior.clamp(min=FAINTEST)) / 4)
        if given is not None:
            guess[:, self.lines] = guess[:, self.lines] * ~given.known[:, self.lines]
        contrasts = a * (self.contrast(x_t[:, self.lines]) / s).tanh()
        return torch.cat([guess[:, self.noised], *logs, contrasts], dim=1)

    def _known(self, given: Given) -> Tensor:
        """What the network makes of the known cells and of the pattern of what is known."""
        known = given.known.to(given.x.dtype)
        binned = self._binned(given.x[:, self.numbers]) * known[:, self.numbers].unsqueeze(2)
        unknown = 1 - known[:, self.first_of]
        told = (given.x * known)[:, self.told]
        features: Tensor = self.backbone.known(torch.cat([told, binned.flatten(1), unknown], dim=1))
        return features

    def _binned(self, numbers: Tensor) -> Tensor:
        """How far a number reaches into each bin of its column, from 0 to 1: (n, numbers, bins)."""
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        return ((numbers.unsqueeze(2) - low) / (high - low).clamp(min=NARROWEST)).clamp(0, 1)

    @staticmethod
    def _cross_entropy(logits: Tensor, x_0: Tensor, target: Tensor, part: slice) -> Tensor:
        entropy = functional.cross_entropy(logits[:, part], x_0[:, part].argmax(dim=1), reduction="none")
        return (entropy * target[:, part.start]).sum()


class Backbone(nn.Module):
    """Pre-norm residual blocks on projections of what is known, of the noisy row and of the time."""

    def __init__(self, told: int, noised: int, width: int, hidden: int, depth: int) -> None:
        super().__init__()
        self.known = nn.Linear(told, hidden)
        self.noisy = nn.Linear(noised, hidden)
        self.time = nn.Sequential(nn.Linear(2 * FREQUENCIES, hidden // 2), nn.SiLU(), nn.Linear(hidden // 2, hidden))
        self.blocks = nn.ModuleList(Residual(hidden) for _ in range(depth))
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, width)
        self.straight = nn.Linear(noised, width, bias=False)

    def forward(self, known: Tensor, noisy: Tensor, t: Tensor) -> Tensor:
        """What is known, projected, the noisy rows and their times to one number per encoded number."""
        h = self.noisy(noisy) + known + self.time(_waves(t))
        for block in self.blocks:
            h = block(h)
        out: Tensor = self.out(self.norm(h)) + self.straight(noisy)
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
