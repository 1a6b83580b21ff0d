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

from harpoon.diffusion.denoiser import Denoiser, DenoiserFn
from harpoon.diffusion.schedules import CosineSchedule
from harpoon.encoding.base import ColumnSlice, PartType
from harpoon.encoding.batch import EncodedRows
from harpoon.networks.at_max_noise import FusedMaxNoiseModel
from harpoon.networks.backbone import Backbone, Contrast
from harpoon.networks.copy_head import CopyDistribution
from harpoon.networks.layers import MIN_CATEGORY_FRACTION, OUTPUT_INIT_SCALE, ColumnIndex, SegmentSoftmax
from harpoon.networks.rank_head import RankHead, RelationInputs
from harpoon.relations.relation import ColumnScales

MIN_BIN_WIDTH = 1e-4


MIN_LOG_PROBABILITY = -8.0  # the log of a probability below which there is no telling
CATEGORY_PRIOR_COUNT = 0.5  # is what a label counts that no row has
HISTOGRAM_LOSS_WEIGHT = 0.5  # how much a histogram of a rank counts in training: more of it costs accuracy of means
LOG_EVIDENCE_SCALE = (
    4.0  # logs of probabilities are divided by that, to be numbers like the others that the network reads
)


@dataclass(frozen=True)
class MaskingConfig:
    """How training rows lose cells.

    A share `at_noise` of the rows loses its cells wholly, as in imputation; the others lose them to noise at a random
    time, and of these a share `all_unknown` has nothing known, as in drawing new rows.
    """

    max_noise_fraction: float
    unconditional_fraction: float


class PartTensors(NamedTuple):
    """Encoded rows: points on lines, labels of all categories, and means."""

    continuous: Tensor
    categories: Tensor
    standardised: Tensor


@dataclass(frozen=True)
class ObservedFeatures:
    """What is known of some rows, as the network looks at it: the same at all times."""

    projection: Tensor
    ranks: Tensor
    ranks_observed: Tensor
    log_categories: Tensor
    categories_observed: Tensor


class AnchoredDenoiser(Denoiser):
    """The dirty estimate with exact preconditioning.

    Ranks, and other numbers that are noised: x̂_0 = a_t x_t + s_t F. Categories: softmax(F + a_t x_t / s_t²): the added
    term is the exact log-evidence of the Gaussian channel about a one-hot vector, so the network only learns the
    context and the estimate is always on the simplex. Means, which are never noised: F itself. Both losses, squared
    error and cross-entropy, are minimised by the posterior mean, which is what Theorems 3.1 and 3.2 ask of a denoiser.

    F is W b + N(known, b, t): a network N of what is known, of the beliefs and contrasts b and of the time, and a
    straight path W, because evidence about one category is often simply evidence about another.
    """

    is_conditional = True
    schedule: CosineSchedule
    bin_edges: Tensor

    def __init__(
        self,
        slices: Sequence[ColumnSlice],
        *,
        hidden: int,
        depth: int,
        input_bins: int,
        rank_bins: int,
        masking: MaskingConfig,
        scales: ColumnScales,
    ) -> None:
        width = slices[-1].stop
        super().__init__(width, CosineSchedule())
        self.masking, self.scales = masking, scales
        simplexes = [block for block in slices if block.is_categorical]
        self.softmax = SegmentSoftmax([block.stop - block.start for block in simplexes])
        lines = [block.start for block in slices if block.type is PartType.CONTINUOUS]
        labels = [place for block in simplexes for place in range(block.start, block.stop)]
        means = [block.start for block in slices if block.type is PartType.REGRESSION]
        self.continuous, self.categories = ColumnIndex(lines), ColumnIndex(labels)
        by_kind = [*lines, *labels, *means]
        self.by_type, self.by_position = (
            ColumnIndex(by_kind),
            ColumnIndex(sorted(range(width), key=by_kind.__getitem__)),
        )
        column_of = [block.column for block in slices for _ in range(block.start, block.stop)]
        self.column_of = ColumnIndex(column_of)
        self.first_of = ColumnIndex([column_of.index(column) for column in range(slices[-1].column + 1)])
        self.last_of = ColumnIndex([*(place - 1 for place in self.first_of.positions[1:]), width - 1])
        twice = [one for one, other in pairwise(simplexes) if one.column == other.column]
        self.groups = ColumnIndex([place for block in twice for place in range(block.start, block.stop)])
        has_mean = {column_of[place] for place in means}
        ranks = {place for place in lines if column_of[place] in has_mean}
        told = [place for place in range(width) if place not in ranks]  # a mean tells all its rank does
        self.input_index, self.input_categories = ColumnIndex(told), ColumnIndex(np.searchsorted(told, labels).tolist())
        self.block_of = ColumnIndex([place for place, width in enumerate(self.softmax.widths) for _ in range(width)])
        self.numbers = ColumnIndex(sorted({*lines, *means} - ranks))
        self.register_buffer("bin_edges", torch.zeros(len(self.numbers), input_bins + 1))
        self.rank_head = RankHead(slices, hidden, rank_bins)
        self.not_spike = ColumnIndex([labels.index(place) for place in self.rank_head.no_mass.positions])
        self.ranked_standardised = ColumnIndex([means.index(place) for place in self.rank_head.means.positions])
        features = len(told) + len(self.numbers) * input_bins + len(self.first_of) + self.rank_head.n_relation_features
        self.contrast = Contrast(len(lines))
        believed = len(lines) + 2 * len(labels) + self.contrast.pairs
        self.backbone = Backbone(features, believed, width, hidden, depth)
        self.eval()  # products are coarse only while it learns

    def condition_on(self, observed: EncodedRows | None = None) -> DenoiserFn:
        """The dirty estimate for rows of which something is known, which is looked at once for all steps."""
        given = self._empty_rows() if observed is None else observed
        looked = self.rank_head.relation_inputs(given)
        sight = self._embed_observed(given, looked)

        def estimate(x_t: Tensor, t: float) -> Tensor:
            times = x_t.new_full((1,), t)
            a, s = self.schedule.levels(times)
            noisy = self._split(x_t)
            belief = self._evidence(noisy, a, s, sight)
            h = self.backbone(sight.projection, belief, times)
            context = self._split(self.backbone.output(h, belief))
            log_p = self._log_posterior(context.categories, noisy.categories, a, s)
            lines = a * noisy.continuous + s * context.continuous
            means = self._posterior_means(self.rank_head.copy_distribution(h, looked), context.standardised, log_p)
            return given.fill(self._join(lines, log_p, means))

        return estimate

    def at_max_noise(self) -> FusedMaxNoiseModel:
        """The network where there is only noise; its weights have to stay as they are."""
        return FusedMaxNoiseModel(self)

    def _empty_rows(self) -> EncodedRows:
        """One row of which nothing is known."""
        x = torch.zeros_like(self.mean)[None]
        return EncodedRows(x, torch.zeros_like(x, dtype=torch.bool))

    def _split(self, x: Tensor) -> PartTensors:
        lines, labels = len(self.continuous), len(self.categories)
        return PartTensors(
            *self.by_type.select(x).split_with_sizes([lines, labels, x.shape[1] - lines - labels], dim=1)
        )

    def _join(self, lines: Tensor, log_p: Tensor, means: Tensor) -> Tensor:
        """Encoded rows of their parts, of labels the logarithms of their probabilities."""
        return self.by_position.select(torch.cat([lines, log_p.exp(), means], dim=1))

    def _posterior_means(self, copied: CopyDistribution, means: Tensor, log_p: Tensor) -> Tensor:
        """What is expected of all numbers, by what the network expects of those that are no copies of others."""
        free = log_p.index_select(1, self.not_spike.index.to(log_p.device)).exp()
        expected = self.rank_head.posterior_mean(copied, self.ranked_standardised.select(means), free)
        return means.index_copy(1, self.ranked_standardised.index.to(means.device), expected)

    def _log_posterior(self, prior: Tensor, noisy: Tensor, a: Tensor, s: Tensor) -> Tensor:
        """The log-probabilities of all labels, (n, labels): Bayes' rule on the cells' own noisy values."""
        return self.softmax.log_softmax(prior + a / s**2 * noisy)

    def loss(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """Squared error of F for numbers and cross-entropy for categories and ranks, over the cells that were lost.

        A cell that is missing in the training table is always unknown and never a target.
        """
        x_0, there = data.x, data.observed
        at_noise = round(len(x_0) * self.masking.max_noise_fraction)
        t, lost = self._sample_mask(self.first_of.select(there), at_noise, generator)
        lost = self.column_of.select(lost)
        if len(self.groups):
            lost[: at_noise // 2, self.groups.index] = False  # of a label lost, the group may be told already
        a, s = self.schedule.levels(t)
        epsilon = torch.randn(x_0.shape, generator=generator, device=x_0.device, dtype=x_0.dtype)
        noisy = self._split((a * x_0 + s * epsilon) * there)  # of a missing cell nothing is believed
        given = EncodedRows(x_0, there & ~lost)
        looked = self.rank_head.relation_inputs(given)
        sight = self._embed_observed(given, looked)
        belief = self._evidence(noisy, a, s, sight)
        h = self.backbone(sight.projection, belief, t)
        context = self._split(self.backbone.output(h, belief))
        targets = (lost & there) * self._row_weights(lost & there, at_noise)
        clean, noise, target = self._split(x_0), self._split(epsilon), self._split(targets)
        velocity = s * clean.continuous - a * noise.continuous
        squares = ((context.continuous - velocity) ** 2 * target.continuous).sum()
        log_p = self._log_posterior(context.categories, noisy.categories, a, s)
        copied = self.rank_head.copy_distribution(h, looked)
        means = self._posterior_means(copied, context.standardised, log_p)
        squares = squares + ((means - clean.standardised) ** 2 * target.standardised).sum()
        entropy = -(log_p * clean.categories * target.categories).sum()
        wholly = looked.first(at_noise), copied.first(at_noise), x_0[:at_noise], targets[:at_noise]
        laws = self.rank_head.loss(h[:at_noise], *wholly)
        total: Tensor = squares + entropy + HISTOGRAM_LOSS_WEIGHT * laws
        return total / (len(x_0) * len(self.first_of))

    def muon_parameters(self) -> list[nn.Parameter]:
        """Those from what is known and believed through the blocks; the last layers are none."""
        network = self.backbone
        layers = nn.ModuleList([network.project_observed, network.project_evidence, *network.blocks])
        return [weight for weight in layers.parameters() if weight.ndim > 1]

    def validate_state(self) -> None:
        """Also what would make laws of no numbers."""
        self.rank_head.validate_state()

    def _row_weights(self, targets: Tensor, at_noise: int) -> Tensor:
        """How much each row's targets count, (n, 1).

        Of a row that loses its cells wholly, few targets count as much as many: the last cells, given many others, say
        most about how cells go together, and they are a turn like the first.
        """
        weights = torch.ones(len(targets), 1, device=targets.device)
        lost = self.last_of.select(targets[:at_noise]).sum(dim=1, keepdim=True)
        weights[:at_noise] = len(self.last_of) / 2 / lost.clamp(min=1)
        return weights

    def initialize(self, data: EncodedRows, generator: torch.Generator) -> None:
        """Also the bins of the numbers, and the log-shares of the labels as the last bias."""
        super().initialize(data, generator)
        shares = torch.linspace(0, 1, self.bin_edges.shape[1], dtype=self.bin_edges.dtype)
        for row, place in enumerate(self.numbers.positions):
            values = data.x[data.observed[:, place], place]
            self.bin_edges[row] = torch.quantile(_thin(values, 2**20), shares) if len(values) else shares
        drawn = data.dequantize(generator)
        self.contrast.initialize(self.continuous.select(drawn.x), self.continuous.select(drawn.observed))
        self.rank_head.initialize(drawn, self.scales)
        with torch.no_grad():
            last = self.backbone.out
            last.weight.mul_(OUTPUT_INIT_SCALE)
            last.bias.zero_()
            last.bias[self.categories.positions] = (
                self.mean[self.categories.positions] + CATEGORY_PRIOR_COUNT / len(data.x)
            ).log()
            self.backbone.skip.weight.zero_()

    def _sample_mask(self, there: Tensor, at_noise: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """For each row a time, and which columns are lost: a share of them that is itself drawn per row.

        The first rows, so many, lose them wholly.
        """
        rows, device = len(there), there.device

        def uniform(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, device=device, dtype=torch.float32)

        wholly = torch.arange(rows, device=device) < at_noise
        spread = (torch.randperm(rows, generator=generator, device=device) + uniform(rows)) / rows
        t = spread.clamp(self.schedule.margin, self.schedule.max_time)
        t = torch.where(wholly, self.schedule.max_time, t)
        share = (torch.randperm(rows, generator=generator, device=device) + uniform(rows)) / rows
        lost = uniform(*there.shape) < share.unsqueeze(1)
        everything = ~wholly & (uniform(rows) < self.masking.unconditional_fraction)
        return t, lost | everything.unsqueeze(1)

    def _evidence(self, noisy: PartTensors, a: Tensor, s: Tensor, sight: ObservedFeatures) -> Tensor:
        """What each cell says of itself alone, E[x_0 | its own x_t], less what is believed of it beforehand.

        For a rank, which is a standard normal number, that is a_t x_t; for a category Bayes' rule gives probabilities,
        and their logarithms stand behind them, because evidence adds up. Where there is only noise it is nothing, and
        a label that is known is one that is believed without doubt. The contrasts of the ranks, of which one that is
        known has no noise, come last.
        """
        log_posterior = self._log_posterior(self._prior(), noisy.categories, a, s)
        log_p = torch.where(sight.categories_observed, sight.log_categories, log_posterior)
        guess = a * noisy.continuous * ~sight.ranks_observed
        contrasts = a * (self.contrast(torch.where(sight.ranks_observed, a * sight.ranks, noisy.continuous)) / s).tanh()
        return torch.cat([guess, self._category_evidence(log_p), contrasts], dim=1)

    def _prior(self) -> Tensor:
        """The logarithms of the shares of labels, (1, labels)."""
        return (self.categories.select(self.mean[None]) + MIN_CATEGORY_FRACTION).log()

    def _category_evidence(self, log_p: Tensor) -> Tensor:
        """Probabilities of labels and their logarithms, less what is believed beforehand, (n, 2 labels)."""
        evidence = (
            log_p.clamp(min=MIN_LOG_PROBABILITY) - self._prior().clamp(min=MIN_LOG_PROBABILITY)
        ) / LOG_EVIDENCE_SCALE
        return torch.cat([log_p.exp() - self.categories.select(self.mean[None]), evidence], dim=1)

    def _embed_observed(self, given: EncodedRows, looked: RelationInputs) -> ObservedFeatures:
        """What the network makes of the known cells and of the pattern of what is known."""
        return ObservedFeatures(
            projection=self.backbone.project_observed(self._observed_features(given, looked)),
            ranks=self.continuous.select(given.x),
            ranks_observed=self.continuous.select(given.observed),
            log_categories=(self.categories.select(given.x) + MIN_CATEGORY_FRACTION).log(),
            categories_observed=self.categories.select(given.observed),
        )

    def _observed_features(self, given: EncodedRows, looked: RelationInputs) -> Tensor:
        """The known cells and the pattern of what is known, as numbers that are nothing where nothing is known."""
        known = given.observed.to(given.x.dtype)
        binned = self._piecewise_linear(self.numbers.select(given.x)) * self.numbers.select(known).unsqueeze(2)
        unknown = 1 - self.last_of.select(known)
        compared = self.rank_head.relation_features(looked)
        return torch.cat([self.input_index.select(given.x * known), binned.flatten(1), unknown, compared], dim=1)

    def _piecewise_linear(self, numbers: Tensor) -> Tensor:
        """How far a number reaches into each bin of its column, from 0 to 1: (n, numbers, bins)."""
        steepness = 1 / self.bin_edges.diff(dim=1).clamp(min=MIN_BIN_WIDTH)
        return torch.addcmul(-self.bin_edges[:, :-1] * steepness, numbers.unsqueeze(2), steepness).clamp_(0, 1)


def _thin(values: Tensor, count: int) -> Tensor:
    """Evenly spaced values of a long column: enough for its quantiles."""
    return values[:: max(1, len(values) // count)]
