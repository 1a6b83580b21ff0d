"""The anchored denoiser: a network that also sees what is known of a row.

The same weights are an unconditional model (nothing known), an imputer (some cells known: one evaluation at the
noisiest time gives E[x_0 | known]) and a conditional generator. A known cell enters clean. An unknown cell enters as
its belief, what its noisy value says of it alone, which is nothing where there is only noise. Pairs of ranks enter as
contrasts, the differences that tell two noisy numbers apart. Beliefs and contrasts go to the output twice: through the
layers, and straight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.codec import Block
from harpoon.encodings import Shape
from harpoon.network import Denoiser, Estimator, Given
from harpoon.schedule import CosineSchedule

FREQUENCIES, FASTEST = 16, 8.0
NARROWEST = 1e-4
LEAST_SHARE = 1e-4  # of a label, so that the log of a label never seen is a number
MOST_PAIRS = 64
FAINTEST = -8.0  # the log of a probability below which there is no telling
SMALL_START = 0.1  # of the last layer: what is read off the table comes first
HALF_A_ROW = 0.5  # is what a label counts that no row has
EVIDENCE = 4.0  # logs of probabilities are divided by that, to be numbers like the others that the network reads


@dataclass(frozen=True)
class Corruption:
    """How training rows lose cells.

    A share `at_noise` of the rows loses its cells wholly, as in imputation; the others lose them to noise at a random
    time, and of these a share `all_unknown` has nothing known, as in drawing new rows.
    """

    at_noise: float
    all_unknown: float


class Places:
    """Some numbers of each row, to be taken out of it.

    An index that is made once: a list would be made into one at every call. It is no buffer, because a network without
    weights has none.
    """

    def __init__(self, places: Sequence[int]) -> None:
        self.listed = list(places)
        self.index = torch.tensor(self.listed, dtype=torch.long, device="cpu")

    def __len__(self) -> int:
        return len(self.listed)

    def of(self, x: Tensor) -> Tensor:
        """The numbers at these places, (n, places)."""
        return x.index_select(1, self.index.to(x.device))


class Parts(NamedTuple):
    """Encoded rows: points on lines, labels of all categories, and means."""

    lines: Tensor
    labels: Tensor
    means: Tensor


@dataclass(frozen=True)
class Sight:
    """What is known of some rows, as the network looks at it: the same at all times."""

    features: Tensor
    ranks: Tensor
    ranks_known: Tensor
    log_labels: Tensor
    labels_known: Tensor


class AnchoredDenoiser(Denoiser):
    """The dirty estimate with exact preconditioning.

    Ranks, and other numbers that are noised: x̂_0 = a_t x_t + s_t F. Categories: softmax(F + a_t x_t / s_t²): the added
    term is the exact log-evidence of the Gaussian channel about a one-hot vector, so the network only learns the
    context and the estimate is always on the simplex. Means, which are never noised: F itself. Both losses, squared
    error and cross-entropy, are minimised by the posterior mean, which is what Theorems 3.1 and 3.2 ask of a denoiser.

    F is W b + N(known, b, t): a network N of what is known, of the beliefs and contrasts b and of the time, and a
    straight path W, because evidence about one category is often simply evidence about another.
    """

    sees_known = True
    schedule: CosineSchedule
    edges: Tensor

    def __init__(self, blocks: Sequence[Block], *, hidden: int, depth: int, bins: int, corruption: Corruption) -> None:
        width = blocks[-1].stop
        super().__init__(width, CosineSchedule())
        self.corruption = corruption
        simplexes = [block for block in blocks if block.simplex]
        self.widths = [block.stop - block.start for block in simplexes]
        lines = [block.start for block in blocks if block.shape is Shape.LINE]
        labels = [place for block in simplexes for place in range(block.start, block.stop)]
        means = [block.start for block in blocks if block.shape is Shape.MEAN]
        self.lines, self.labels = Places(lines), Places(labels)
        by_kind = [*lines, *labels, *means]
        self.sorted, self.unsorted = Places(by_kind), Places(sorted(range(width), key=by_kind.__getitem__))
        column_of = [block.column for block in blocks for _ in range(block.start, block.stop)]
        self.column_of = Places(column_of)
        self.first_of = Places([column_of.index(column) for column in range(blocks[-1].column + 1)])
        has_mean = {column_of[place] for place in means}
        ranks = {place for place in lines if column_of[place] in has_mean}
        self.told = Places([place for place in range(width) if place not in ranks])  # a mean tells all its rank does
        self.numbers = Places(sorted({*lines, *means} - ranks))
        self.register_buffer("edges", torch.zeros(len(self.numbers), bins + 1))
        told = len(self.told) + len(self.numbers) * bins + len(self.first_of)
        self.contrast = Contrast(len(lines))
        believed = len(lines) + 2 * len(labels) + self.contrast.pairs
        self.backbone = Backbone(told, believed, width, hidden, depth)

    def knowing(self, given: Given | None = None) -> Estimator:
        """The dirty estimate for rows of which something is known, which is looked at once for all steps."""
        given = self._nothing() if given is None else given
        sight = self._seen(given)

        def estimate(x_t: Tensor, t: float) -> Tensor:
            times = x_t.new_full((1,), t)
            a, s = self.schedule.levels(times)
            noisy = self._parts(x_t)
            context = self.backbone(sight.features, self._belief(noisy, a, s, sight), times)
            return given.write_into(self._estimate(self._parts(context), noisy, a, s))

        return estimate

    def _nothing(self) -> Given:
        """One row of which nothing is known."""
        x = torch.zeros_like(self.mean)[None]
        return Given(x, torch.zeros_like(x, dtype=torch.bool))

    def _parts(self, x: Tensor) -> Parts:
        lines, labels = len(self.lines), len(self.labels)
        return Parts(*self.sorted.of(x).split_with_sizes([lines, labels, x.shape[1] - lines - labels], dim=1))

    def _estimate(self, context: Parts, noisy: Parts, a: Tensor, s: Tensor) -> Tensor:
        lines = a * noisy.lines + s * context.lines
        labels = self._log_posterior(context.labels, noisy.labels, a, s).exp()
        return self.unsorted.of(torch.cat([lines, labels, context.means], dim=1))

    def _log_posterior(self, prior: Tensor, noisy: Tensor, a: Tensor, s: Tensor) -> Tensor:
        """The log-probabilities of all labels, (n, labels): Bayes' rule on the cells' own noisy values."""
        logits = prior + a / s**2 * noisy
        if not self.widths:
            return logits
        by_label = logits.T.contiguous()  # in which a category is one piece: several times as fast
        return torch.cat([part.log_softmax(dim=0) for part in by_label.split_with_sizes(self.widths)]).T

    def loss(self, data: Given, generator: torch.Generator) -> Tensor:
        """Squared error of F for numbers and cross-entropy for categories, over the cells that were lost.

        A cell that is missing in the training table is always unknown and never a target.
        """
        x_0, there = data.x, data.known
        t, lost = self._lose(self.first_of.of(there), generator)
        lost = self.column_of.of(lost)
        a, s = self.schedule.levels(t)
        epsilon = torch.randn(x_0.shape, generator=generator, device=x_0.device, dtype=x_0.dtype)
        noisy = self._parts((a * x_0 + s * epsilon) * there)  # of a missing cell nothing is believed
        sight = self._seen(Given(x_0, there & ~lost))
        context = self._parts(self.backbone(sight.features, self._belief(noisy, a, s, sight), t))
        clean, noise, target = self._parts(x_0), self._parts(epsilon), self._parts((lost & there).to(x_0.dtype))
        velocity = s * clean.lines - a * noise.lines
        squares = ((context.lines - velocity) ** 2 * target.lines).sum()
        squares = squares + ((context.means - clean.means) ** 2 * target.means).sum()
        log_p = self._log_posterior(context.labels, noisy.labels, a, s)
        entropy = -(log_p * clean.labels * target.labels).sum()
        total: Tensor = squares + entropy
        return total / (len(x_0) * len(self.first_of))

    def prepare(self, data: Given, generator: torch.Generator) -> None:
        """Also the bins of the numbers, and the log-shares of the labels as the last bias."""
        super().prepare(data, generator)
        shares = torch.linspace(0, 1, self.edges.shape[1], dtype=self.edges.dtype)
        for row, place in enumerate(self.numbers.listed):
            values = data.x[data.known[:, place], place]
            self.edges[row] = torch.quantile(_at_most(values, 2**20), shares) if len(values) else shares
        drawn = data.drawn(generator)
        self.contrast.prepare(self.lines.of(drawn.x), self.lines.of(drawn.known))
        with torch.no_grad():
            last = self.backbone.out
            last.weight.mul_(SMALL_START)
            last.bias.zero_()
            last.bias[self.labels.listed] = (self.mean[self.labels.listed] + HALF_A_ROW / len(data.x)).log()
            self.backbone.straight.weight.zero_()

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

    def _belief(self, noisy: Parts, a: Tensor, s: Tensor, sight: Sight) -> Tensor:
        """What each cell says of itself alone, E[x_0 | its own x_t], less what is believed of it beforehand.

        For a rank, which is a standard normal number, that is a_t x_t; for a category Bayes' rule gives probabilities,
        and their logarithms stand behind them, because evidence adds up. Where there is only noise it is nothing, and
        a label that is known is one that is believed without doubt. The contrasts of the ranks, of which one that is
        known has no noise, come last.
        """
        share = self.labels.of(self.mean[None])
        prior = (share + LEAST_SHARE).log()
        log_p = torch.where(sight.labels_known, sight.log_labels, self._log_posterior(prior, noisy.labels, a, s))
        evidence = (log_p.clamp(min=FAINTEST) - prior.clamp(min=FAINTEST)) / EVIDENCE
        guess = a * noisy.lines * ~sight.ranks_known
        contrasts = a * (self.contrast(torch.where(sight.ranks_known, a * sight.ranks, noisy.lines)) / s).tanh()
        return torch.cat([guess, log_p.exp() - share, evidence, contrasts], dim=1)

    def _seen(self, given: Given) -> Sight:
        """What the network makes of the known cells and of the pattern of what is known."""
        known = given.known.to(given.x.dtype)
        binned = self._binned(self.numbers.of(given.x)) * self.numbers.of(known).unsqueeze(2)
        unknown = 1 - self.first_of.of(known)
        told = self.told.of(given.x * known)
        return Sight(
            features=self.backbone.known(torch.cat([told, binned.flatten(1), unknown], dim=1)),
            ranks=self.lines.of(given.x),
            ranks_known=self.lines.of(given.known),
            log_labels=(self.labels.of(given.x) + LEAST_SHARE).log(),
            labels_known=self.labels.of(given.known),
        )

    def _binned(self, numbers: Tensor) -> Tensor:
        """How far a number reaches into each bin of its column, from 0 to 1: (n, numbers, bins)."""
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        return ((numbers.unsqueeze(2) - low) / (high - low).clamp(min=NARROWEST)).clamp(0, 1)


class Contrast(nn.Module):
    """Differences of pairs of ranks that go together, learnt from there: of equals, their noise is what is left."""

    weight: nn.Parameter

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.pairs = min(ranks * (ranks - 1) // 2, MOST_PAIRS)
        self.weight = nn.Parameter(torch.zeros(self.pairs, ranks))

    def forward(self, ranks: Tensor) -> Tensor:
        """(n, ranks) to (n, pairs)."""
        return ranks @ self.weight.T

    @torch.no_grad()
    def prepare(self, x: Tensor, known: Tensor) -> None:
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
        h = torch.addmm(known + self.noisy.bias + self.time(_waves(t)), noisy, self.noisy.weight.T)
        for block in self.blocks:
            h = block(h)
        return torch.addmm(self.out(self.norm(h)), noisy, self.straight.weight.T)


class Residual(nn.Module):
    """x + W_2 silu(W_1 norm(x)), twice as wide inside."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.widen = nn.Linear(hidden, 2 * hidden)
        self.narrow = nn.Linear(2 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        wide = functional.silu(self.widen(self.norm(x)), inplace=not torch.is_grad_enabled())
        added: Tensor = self.narrow(wide)
        return x + added


def _waves(t: Tensor) -> Tensor:
    """Sines and cosines of the time at geometric frequencies."""
    steps = torch.arange(FREQUENCIES, device=t.device, dtype=t.dtype) / (FREQUENCIES - 1)
    angles = (math.pi / 2) * t.unsqueeze(1) * FASTEST**steps
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _at_most(values: Tensor, count: int) -> Tensor:
    """Evenly spaced values of a long column: enough for its quantiles."""
    return values[:: max(1, len(values) // count)]
