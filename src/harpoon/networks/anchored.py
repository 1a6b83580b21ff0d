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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from harpoon.diffusion.denoiser import Denoiser, Estimator
from harpoon.diffusion.schedules import CosineSchedule
from harpoon.encoding.base import Block, Shape
from harpoon.encoding.batch import Given
from harpoon.networks.at_max_noise import AnchoredAtNoise
from harpoon.networks.backbone import Backbone, Contrast
from harpoon.networks.copy_head import Copied
from harpoon.networks.layers import LEAST_SHARE, SMALL_START, Places, Simplexes
from harpoon.networks.rank_head import Looked, RankLaws
from harpoon.relations.relation import Scales

NARROWEST = 1e-4


FAINTEST = -8.0  # the log of a probability below which there is no telling
HALF_A_ROW = 0.5  # is what a label counts that no row has
LAWS = 0.5  # how much a histogram of a rank counts in training: more of it costs accuracy of means
EVIDENCE = 4.0  # logs of probabilities are divided by that, to be numbers like the others that the network reads


@dataclass(frozen=True)
class Corruption:
    """How training rows lose cells.

    A share `at_noise` of the rows loses its cells wholly, as in imputation; the others lose them to noise at a random
    time, and of these a share `all_unknown` has nothing known, as in drawing new rows.
    """

    at_noise: float
    all_unknown: float


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

    def __init__(
        self,
        blocks: Sequence[Block],
        *,
        hidden: int,
        depth: int,
        bins: int,
        slots: int,
        corruption: Corruption,
        scales: Scales,
    ) -> None:
        width = blocks[-1].stop
        super().__init__(width, CosineSchedule())
        self.corruption, self.scales = corruption, scales
        simplexes = [block for block in blocks if block.simplex]
        self.simplexes = Simplexes([block.stop - block.start for block in simplexes])
        lines = [block.start for block in blocks if block.shape is Shape.LINE]
        labels = [place for block in simplexes for place in range(block.start, block.stop)]
        means = [block.start for block in blocks if block.shape is Shape.MEAN]
        self.lines, self.labels = Places(lines), Places(labels)
        by_kind = [*lines, *labels, *means]
        self.sorted, self.unsorted = Places(by_kind), Places(sorted(range(width), key=by_kind.__getitem__))
        column_of = [block.column for block in blocks for _ in range(block.start, block.stop)]
        self.column_of = Places(column_of)
        self.first_of = Places([column_of.index(column) for column in range(blocks[-1].column + 1)])
        self.last_of = Places([*(place - 1 for place in self.first_of.listed[1:]), width - 1])
        twice = [one for one, other in pairwise(simplexes) if one.column == other.column]
        self.groups = Places([place for block in twice for place in range(block.start, block.stop)])
        has_mean = {column_of[place] for place in means}
        ranks = {place for place in lines if column_of[place] in has_mean}
        told = [place for place in range(width) if place not in ranks]  # a mean tells all its rank does
        self.told, self.told_labels = Places(told), Places(np.searchsorted(told, labels).tolist())
        self.block_of = Places([place for place, width in enumerate(self.simplexes.widths) for _ in range(width)])
        self.numbers = Places(sorted({*lines, *means} - ranks))
        self.register_buffer("edges", torch.zeros(len(self.numbers), bins + 1))
        self.rank_laws = RankLaws(blocks, hidden, slots)
        self.no_mass = Places([labels.index(place) for place in self.rank_laws.no_mass.listed])
        self.ranked = Places([means.index(place) for place in self.rank_laws.means.listed])
        features = len(told) + len(self.numbers) * bins + len(self.first_of) + self.rank_laws.comparisons
        self.contrast = Contrast(len(lines))
        believed = len(lines) + 2 * len(labels) + self.contrast.pairs
        self.backbone = Backbone(features, believed, width, hidden, depth)
        self.eval()  # products are coarse only while it learns

    def knowing(self, given: Given | None = None) -> Estimator:
        """The dirty estimate for rows of which something is known, which is looked at once for all steps."""
        given = self._nothing() if given is None else given
        looked = self.rank_laws.look(given)
        sight = self._seen(given, looked)

        def estimate(x_t: Tensor, t: float) -> Tensor:
            times = x_t.new_full((1,), t)
            a, s = self.schedule.levels(times)
            noisy = self._parts(x_t)
            belief = self._belief(noisy, a, s, sight)
            h = self.backbone(sight.features, belief, times)
            context = self._parts(self.backbone.context(h, belief))
            log_p = self._log_posterior(context.labels, noisy.labels, a, s)
            lines = a * noisy.lines + s * context.lines
            means = self._means(self.rank_laws.copied(h, looked), context.means, log_p)
            return given.write_into(self._whole(lines, log_p, means))

        return estimate

    def at_noise(self) -> AnchoredAtNoise:
        """The network where there is only noise; its weights have to stay as they are."""
        return AnchoredAtNoise(self)

    def _nothing(self) -> Given:
        """One row of which nothing is known."""
        x = torch.zeros_like(self.mean)[None]
        return Given(x, torch.zeros_like(x, dtype=torch.bool))

    def _parts(self, x: Tensor) -> Parts:
        lines, labels = len(self.lines), len(self.labels)
        return Parts(*self.sorted.of(x).split_with_sizes([lines, labels, x.shape[1] - lines - labels], dim=1))

    def _whole(self, lines: Tensor, log_p: Tensor, means: Tensor) -> Tensor:
        """Encoded rows of their parts, of labels the logarithms of their probabilities."""
        return self.unsorted.of(torch.cat([lines, log_p.exp(), means], dim=1))

    def _means(self, copied: Copied, means: Tensor, log_p: Tensor) -> Tensor:
        """What is expected of all numbers, by what the network expects of those that are no copies of others."""
        free = log_p.index_select(1, self.no_mass.index.to(log_p.device)).exp()
        expected = self.rank_laws.expected(copied, self.ranked.of(means), free)
        return means.index_copy(1, self.ranked.index.to(means.device), expected)

    def _log_posterior(self, prior: Tensor, noisy: Tensor, a: Tensor, s: Tensor) -> Tensor:
        """The log-probabilities of all labels, (n, labels): Bayes' rule on the cells' own noisy values."""
        return self.simplexes.log_softmax(prior + a / s**2 * noisy)

    def loss(self, data: Given, generator: torch.Generator) -> Tensor:
        """Squared error of F for numbers and cross-entropy for categories and ranks, over the cells that were lost.

        A cell that is missing in the training table is always unknown and never a target.
        """
        x_0, there = data.x, data.observed
        at_noise = round(len(x_0) * self.corruption.at_noise)
        t, lost = self._lose(self.first_of.of(there), at_noise, generator)
        lost = self.column_of.of(lost)
        if len(self.groups):
            lost[: at_noise // 2, self.groups.index] = False  # of a label lost, the group may be told already
        a, s = self.schedule.levels(t)
        epsilon = torch.randn(x_0.shape, generator=generator, device=x_0.device, dtype=x_0.dtype)
        noisy = self._parts((a * x_0 + s * epsilon) * there)  # of a missing cell nothing is believed
        given = Given(x_0, there & ~lost)
        looked = self.rank_laws.look(given)
        sight = self._seen(given, looked)
        belief = self._belief(noisy, a, s, sight)
        h = self.backbone(sight.features, belief, t)
        context = self._parts(self.backbone.context(h, belief))
        targets = (lost & there) * self._weights(lost & there, at_noise)
        clean, noise, target = self._parts(x_0), self._parts(epsilon), self._parts(targets)
        velocity = s * clean.lines - a * noise.lines
        squares = ((context.lines - velocity) ** 2 * target.lines).sum()
        log_p = self._log_posterior(context.labels, noisy.labels, a, s)
        copied = self.rank_laws.copied(h, looked)
        means = self._means(copied, context.means, log_p)
        squares = squares + ((means - clean.means) ** 2 * target.means).sum()
        entropy = -(log_p * clean.labels * target.labels).sum()
        wholly = looked.first(at_noise), copied.first(at_noise), x_0[:at_noise], targets[:at_noise]
        laws = self.rank_laws.loss(h[:at_noise], *wholly)
        total: Tensor = squares + entropy + LAWS * laws
        return total / (len(x_0) * len(self.first_of))

    def inner_matrices(self) -> list[nn.Parameter]:
        """Those from what is known and believed through the blocks; the last layers are none."""
        network = self.backbone
        layers = nn.ModuleList([network.known, network.noisy, *network.blocks])
        return [weight for weight in layers.parameters() if weight.ndim > 1]

    def check(self) -> None:
        """Also what would make laws of no numbers."""
        self.rank_laws.check()

    def _weights(self, targets: Tensor, at_noise: int) -> Tensor:
        """How much each row's targets count, (n, 1).

        Of a row that loses its cells wholly, few targets count as much as many: the last cells, given many others, say
        most about how cells go together, and they are a turn like the first.
        """
        weights = torch.ones(len(targets), 1, device=targets.device)
        lost = self.last_of.of(targets[:at_noise]).sum(dim=1, keepdim=True)
        weights[:at_noise] = len(self.last_of) / 2 / lost.clamp(min=1)
        return weights

    def prepare(self, data: Given, generator: torch.Generator) -> None:
        """Also the bins of the numbers, and the log-shares of the labels as the last bias."""
        super().prepare(data, generator)
        shares = torch.linspace(0, 1, self.edges.shape[1], dtype=self.edges.dtype)
        for row, place in enumerate(self.numbers.listed):
            values = data.x[data.observed[:, place], place]
            self.edges[row] = torch.quantile(_at_most(values, 2**20), shares) if len(values) else shares
        drawn = data.drawn(generator)
        self.contrast.prepare(self.lines.of(drawn.x), self.lines.of(drawn.observed))
        self.rank_laws.prepare(drawn, self.scales)
        with torch.no_grad():
            last = self.backbone.out
            last.weight.mul_(SMALL_START)
            last.bias.zero_()
            last.bias[self.labels.listed] = (self.mean[self.labels.listed] + HALF_A_ROW / len(data.x)).log()
            self.backbone.straight.weight.zero_()

    def _lose(self, there: Tensor, at_noise: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """For each row a time, and which columns are lost: a share of them that is itself drawn per row.

        The first rows, so many, lose them wholly.
        """
        rows, device = len(there), there.device

        def uniform(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, device=device, dtype=torch.float32)

        wholly = torch.arange(rows, device=device) < at_noise
        spread = (torch.randperm(rows, generator=generator, device=device) + uniform(rows)) / rows
        t = spread.clamp(self.schedule.margin, self.schedule.noisiest)
        t = torch.where(wholly, self.schedule.noisiest, t)
        share = (torch.randperm(rows, generator=generator, device=device) + uniform(rows)) / rows
        lost = uniform(*there.shape) < share.unsqueeze(1)
        everything = ~wholly & (uniform(rows) < self.corruption.all_unknown)
        return t, lost | everything.unsqueeze(1)

    def _belief(self, noisy: Parts, a: Tensor, s: Tensor, sight: Sight) -> Tensor:
        """What each cell says of itself alone, E[x_0 | its own x_t], less what is believed of it beforehand.

        For a rank, which is a standard normal number, that is a_t x_t; for a category Bayes' rule gives probabilities,
        and their logarithms stand behind them, because evidence adds up. Where there is only noise it is nothing, and
        a label that is known is one that is believed without doubt. The contrasts of the ranks, of which one that is
        known has no noise, come last.
        """
        log_posterior = self._log_posterior(self._prior(), noisy.labels, a, s)
        log_p = torch.where(sight.labels_known, sight.log_labels, log_posterior)
        guess = a * noisy.lines * ~sight.ranks_known
        contrasts = a * (self.contrast(torch.where(sight.ranks_known, a * sight.ranks, noisy.lines)) / s).tanh()
        return torch.cat([guess, self._believed(log_p), contrasts], dim=1)

    def _prior(self) -> Tensor:
        """The logarithms of the shares of labels, (1, labels)."""
        return (self.labels.of(self.mean[None]) + LEAST_SHARE).log()

    def _believed(self, log_p: Tensor) -> Tensor:
        """Probabilities of labels and their logarithms, less what is believed beforehand, (n, 2 labels)."""
        evidence = (log_p.clamp(min=FAINTEST) - self._prior().clamp(min=FAINTEST)) / EVIDENCE
        return torch.cat([log_p.exp() - self.labels.of(self.mean[None]), evidence], dim=1)

    def _seen(self, given: Given, looked: Looked) -> Sight:
        """What the network makes of the known cells and of the pattern of what is known."""
        return Sight(
            features=self.backbone.known(self._told(given, looked)),
            ranks=self.lines.of(given.x),
            ranks_known=self.lines.of(given.observed),
            log_labels=(self.labels.of(given.x) + LEAST_SHARE).log(),
            labels_known=self.labels.of(given.observed),
        )

    def _told(self, given: Given, looked: Looked) -> Tensor:
        """The known cells and the pattern of what is known, as numbers that are nothing where nothing is known."""
        known = given.observed.to(given.x.dtype)
        binned = self._binned(self.numbers.of(given.x)) * self.numbers.of(known).unsqueeze(2)
        unknown = 1 - self.last_of.of(known)
        compared = self.rank_laws.compared(looked)
        return torch.cat([self.told.of(given.x * known), binned.flatten(1), unknown, compared], dim=1)

    def _binned(self, numbers: Tensor) -> Tensor:
        """How far a number reaches into each bin of its column, from 0 to 1: (n, numbers, bins)."""
        steepness = 1 / self.edges.diff(dim=1).clamp(min=NARROWEST)
        return torch.addcmul(-self.edges[:, :-1] * steepness, numbers.unsqueeze(2), steepness).clamp_(0, 1)


def _at_most(values: Tensor, count: int) -> Tensor:
    """Evenly spaced values of a long column: enough for its quantiles."""
    return values[:: max(1, len(values) // count)]
