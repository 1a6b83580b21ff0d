"""The anchored denoiser: a denoiser that is conditioned on the observed cells.

The same weights are an unconditional model (no cell observed), an imputer (one evaluation at the largest noise level
gives E[x_0 | observed]) and a conditional generator.

Observed cells are clean inputs. A missing cell enters through its evidence, E[x_0 | x_t] of that cell alone, which is 0
at the largest noise level. Pairs of normal scores also enter as contrasts (`backbone.Contrast`). At the largest noise
level the network also predicts the distribution of each cell given the observed ones (`rank_head`), for any-order
autoregressive sampling (Uria et al., 2014; Hoogeboom et al., 2022; `harpoon.inference.sampling.autoregressive`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from harpoon.data import Columns
from harpoon.diffusion import CosineSchedule, Denoiser, DenoiserFn
from harpoon.encoding import EncodedRows, RowCodec
from harpoon.networks.backbone import Backbone, Contrast
from harpoon.networks.gaussian_baseline import GaussianBaseline, LinearPrediction
from harpoon.networks.heads.copy_head import CopyDistribution
from harpoon.networks.heads.rank_head import RankHead, RelationInputs
from harpoon.networks.layers import MIN_CATEGORY_FRACTION, OUTPUT_INIT_SCALE, ColumnIndex, SegmentSoftmax
from harpoon.networks.layout import EncodedLayout, PartTensors
from harpoon.networks.one_step_prediction import FusedMaxNoiseModel
from harpoon.relations import Exclusions

MIN_BIN_WIDTH = 1e-4
MIN_LOG_PROBABILITY = -8.0  # smaller log probabilities are not distinguished
LOG_EVIDENCE_SCALE = 4.0  # log probabilities are divided by it, to be of the size of the other inputs
CATEGORY_PRIOR_COUNT = 0.5  # pseudo-count of each category in the initial bias
HISTOGRAM_LOSS_WEIGHT = 0.5  # a larger weight costs accuracy of the means
GROUP_FRACTION = 0.5  # of the rows at the largest noise level
MAX_QUANTILE_ROWS = 2**20  # rows that determine the bins of the inputs


class ObservedFeatures(NamedTuple):
    """Observed cells as inputs of the network, the same at all times.

    Ranks and their mask are (n, continuous), categories and their mask are (n, categories).
    """

    projection: Tensor  # observed features after `Backbone.project_observed`, (n, hidden)
    ranks: Tensor
    ranks_observed: Tensor
    log_categories: Tensor  # log of the one-hot vectors
    categories_observed: Tensor
    relations: RelationInputs
    baseline: LinearPrediction


class Prediction(NamedTuple):
    """What the network predicts of n noisy rows."""

    h: Tensor  # the last hidden layer, (n, hidden)
    copies: CopyDistribution  # (n, C, ...)
    parts: PartTensors  # F of continuous parts, log probabilities of categories, means of standardised values


class RowDraws(NamedTuple):
    """What is drawn for the n rows of a batch before their masks."""

    time: Tensor  # in [0, 1], (n,), for rows that are not at the largest noise level
    masked_fraction: Tensor  # the fraction of masked columns, (n,)
    n_max_noise: int  # the first rows are at the largest noise level
    n_group: int  # the first of these keep the group of a masked hierarchical category, as sampling may, if they can


class AnchoredDenoiser(Denoiser):
    """A conditional denoiser with exact preconditioning of each type of part.

    With the output F of the network:

    - continuous: x̂_0 = a_t x_t + s_t F;
    - categories: x̂_0 = softmax(F + a_t x_t / s_t²). The second term is the exact log likelihood of x_t given a one-hot
      x_0, so the network only learns the prior given the other cells;
    - standardised values, which are not noised: x̂_0 = F.

    F = W e + N(observed, e, t), where e are evidence and contrasts, N is the residual MLP and W is a linear skip path.
    Squared error and cross-entropy are both minimised by the posterior mean, as Theorems 3.1 and 3.2 require.

    Args:
        codec: The codec of the encoded rows.
        hidden: Width of the residual MLP.
        depth: Number of residual blocks.
        input_bins: Bins of the piecewise linear encoding of observed numeric values.
        rank_bins: Bins of the histogram over normal scores.
        max_noise_fraction: Fraction of the training rows whose masked cells are removed completely, as in imputation.
            Masked cells of the other rows are noised to a random time.
        unconditional_fraction: Fraction of these other rows in which every cell is masked, as in unconditional samples.
        gaussian_baseline: Whether numbers are predicted relative to a linear Gaussian model, for small tables.
        min_rows: The number of training rows on which stored quantiles and dependencies rest.
    """

    is_conditional = True
    schedule: CosineSchedule
    bin_edges: Tensor

    def __init__(
        self,
        codec: RowCodec,
        *,
        hidden: int,
        depth: int,
        input_bins: int,
        rank_bins: int,
        max_noise_fraction: float,
        unconditional_fraction: float,
        gaussian_baseline: bool,
        min_rows: int = 1,
    ) -> None:
        layout = EncodedLayout(codec.slices)
        super().__init__(layout.width, CosineSchedule())
        self.codec, self.layout = codec, layout
        self.indicated, self.indicators = map(ColumnIndex, (codec.indicator_of, codec.indicator_of.values()))
        of_indicators = [part for part in codec.slices if part.column in self.indicators.positions]
        self.indicator_categories = layout.categories.locate(
            ColumnIndex(dim for part in of_indicators for dim in range(part.start, part.stop))
        )
        pairs = [(each.position, part) for each in codec.timestamps for part in each.parts]
        self.timestamps, self.calendar_parts = (ColumnIndex(pair[side] for pair in pairs) for side in (0, 1))
        self.parts_of = {each.position: ColumnIndex(each.parts) for each in codec.timestamps}
        self.elapsed_between = codec.elapsed_between
        self.exclusions = Exclusions(codec, min_rows)
        self.min_rows = min_rows
        self.max_noise_fraction, self.unconditional_fraction = max_noise_fraction, unconditional_fraction
        self.softmax = SegmentSoftmax(layout.category_widths)
        self.register_buffer("bin_edges", torch.zeros(len(layout.numeric_inputs), input_bins + 1))
        self.rank_head = RankHead(codec.slices, hidden, rank_bins)
        self.baseline = GaussianBaseline(
            [part for part in codec.slices if part.column not in self.indicators.positions],
            self.rank_head.ranks.positions,
            self.rank_head.spiked.positions,
            layout.standardised.positions,
            enabled=gaussian_baseline,
        )
        self.not_spike = layout.categories.locate(self.rank_head.not_spike)
        self.ranked_standardised = layout.standardised.locate(self.rank_head.standardised)
        self.contrast = Contrast(len(layout.continuous))
        n_binned = len(layout.numeric_inputs) * input_bins
        n_features = len(layout.inputs) + n_binned + layout.n_columns + self.rank_head.n_relation_features
        n_evidence = len(layout.continuous) + 2 * len(layout.categories) + self.contrast.n_pairs
        self.backbone = Backbone(n_features, n_evidence, layout.width, hidden, depth)
        self.eval()  # bfloat16 products are for training only

    def condition_on(self, observed: EncodedRows | None = None) -> DenoiserFn:
        """Return the estimate of x_0 given the observed cells, which are embedded once for all times."""
        empty = torch.zeros_like(self.mean)[None]  # one row without observed cells, which broadcasts
        given = EncodedRows(empty, empty.bool()) if observed is None else observed
        features = self._embed_observed(given)

        def estimate(x_t: Tensor, t: float) -> Tensor:
            times = x_t.new_full((1,), t)
            a, s = self.schedule.levels(times)
            noisy = self.layout.split(x_t)
            velocity, log_p, standardised = self._predict(noisy, times, a, s, features).parts
            continuous = a * noisy.continuous + s * velocity
            return given.fill(self.layout.join(PartTensors(continuous, log_p.exp(), standardised)))

        return estimate

    def _predict(self, noisy: PartTensors, t: Tensor, a: Tensor, s: Tensor, features: ObservedFeatures) -> Prediction:
        """Predict the clean rows from noisy ones at times (n, 1) or (1,), with their levels of signal and noise."""
        evidence = self._evidence(noisy, a, s, features)
        h, out = self.backbone(features.projection, evidence, t)
        continuous, categories, standardised = self.layout.split(out)
        standardised = features.baseline.add_to_standardised(standardised)
        log_p = self._log_posterior(categories, noisy.categories, a, s)
        copies = self.rank_head.copies(h, features.relations.copies)
        parts = PartTensors(continuous, log_p, self._posterior_means(copies, standardised, log_p))
        return Prediction(h, copies, parts)

    def at_max_noise(self) -> FusedMaxNoiseModel:
        """Return the model at the largest noise level. The weights must not change afterwards."""
        return FusedMaxNoiseModel(self)

    def loss(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """Return the loss of the masked cells, per row and column.

        It is the sum of the squared error of F (the velocity of continuous parts; standardised values), the
        cross-entropy of categories and the negative log likelihood of the normal scores at the largest noise level. A
        cell that is missing in the training table is always masked and never a target. Rows count by their weights:
        with a mean weight of 1, the expected loss is that of rows that are repeated as often as their weights say.
        """
        n = len(data.x)
        n_max_noise = round(n * self.max_noise_fraction)

        def stratified() -> Tensor:
            order = torch.randperm(n, generator=generator, device=data.x.device)
            return (order + torch.rand(n, generator=generator, device=data.x.device, dtype=torch.float32)) / n

        draws = RowDraws(stratified(), stratified(), n_max_noise, int(n_max_noise * GROUP_FRACTION))
        return self._sum_losses(data, draws, generator) / n

    def sum_independent_losses(self, data: EncodedRows, generator: torch.Generator) -> Tensor:
        """Return the sum of the losses of the rows, none of which depends on another row or on their number.

        `loss` spreads times evenly over a batch. Here each row has a time and a mask of its own, so that a row more or
        less leaves the other terms of the sum as they are. The rows are put in another order.
        """
        uniform = torch.rand(4, len(data.x), generator=generator, device=data.x.device, dtype=torch.float32)
        at_max_noise, shows_group = uniform[0] < self.max_noise_fraction, uniform[1] < GROUP_FRACTION
        order = (~at_max_noise * 2 + ~shows_group).argsort(stable=True)
        counts = int(at_max_noise.sum()), int((at_max_noise & shows_group).sum())
        return self._sum_losses(data[order], RowDraws(uniform[2], uniform[3], *counts), generator)

    def _sum_losses(self, data: EncodedRows, draws: RowDraws, generator: torch.Generator) -> Tensor:
        """Return the sum of the losses of the rows, per column."""
        x_0, observed, n = data.x, data.observed, draws.n_max_noise
        t, masked = self._sample_masks(draws, generator)
        a, s = self.schedule.levels(t)
        epsilon = torch.randn(x_0.shape, generator=generator, device=x_0.device, dtype=x_0.dtype)
        noisy = self.layout.split(a * x_0 + s * epsilon)  # a missing cell is noise around 0
        features = self._embed_observed(EncodedRows(x_0, observed & ~masked))
        h, copies, out = self._predict(noisy, t, a, s, features)
        targets = (masked & observed) * (self._row_weights(masked, n) * data.row_weights)
        clean, noise, weight = self.layout.split(x_0), self.layout.split(epsilon), self.layout.split(targets)

        velocity = s * clean.continuous - a * noise.continuous
        squares = ((out.continuous - velocity) ** 2 * weight.continuous).sum()
        squares = squares + ((out.standardised - clean.standardised) ** 2 * weight.standardised).sum()
        cross_entropy = -(out.categories * clean.categories * weight.categories).sum()
        pointers, copies = features.relations.pointers.first(n), copies.take(slice(n))
        baseline = features.baseline.first(n)
        histograms = self.rank_head.loss(h[:n], pointers, copies, baseline, x_0=x_0[:n], targets=targets[:n])
        total: Tensor = squares + cross_entropy + HISTOGRAM_LOSS_WEIGHT * histograms
        return total / self.layout.n_columns

    def muon_parameters(self) -> list[nn.Parameter]:
        """Return the matrices of the input projections and of the residual blocks; output layers are not included."""
        network = self.backbone
        layers = nn.ModuleList([network.project_observed, network.project_evidence, *network.blocks])
        return [weight for weight in layers.parameters() if weight.ndim > 1]

    def validate_state(self) -> None:
        """Raise ValueError if a buffer is not finite, or an exclusion has an unknown label."""
        self.rank_head.pointers.relations.validate_state()
        self.rank_head.copies.relations.validate_state()
        self.rank_head.few_valued_relations.validate_state()
        self.exclusions.validate_state()
        self.baseline.validate_state()

    def initialize(
        self,
        data: EncodedRows,
        generator: torch.Generator,
        cells: Columns | None = None,
        *,
        independent: bool = False,
    ) -> None:
        """Set the initial weights, bins of inputs, contrasts, relations, exclusions and marginals of categories."""
        super().initialize(data, generator)
        levels = torch.linspace(0, 1, self.bin_edges.shape[1], dtype=self.bin_edges.dtype)
        for i, dim in enumerate(self.layout.numeric_inputs.positions):
            values = data.x[data.observed[:, dim], dim]
            self.bin_edges[i] = _quantiles(values, levels, self.min_rows) if len(values) else levels
        rows = data.dequantize(generator)
        continuous = self.layout.continuous
        self.contrast.initialize(continuous.select(rows.x), continuous.select(rows.observed))
        self.baseline.initialize(rows)
        self.rank_head.initialize(rows, self.codec, cells, has_baseline=bool(self.baseline), search=not independent)
        if not independent:
            self.exclusions.initialize(self.layout.categories.select(rows.x))
        with torch.no_grad():
            out, categories = self.backbone.out, self.layout.categories.positions
            out.weight.mul_(OUTPUT_INIT_SCALE)
            out.bias.zero_()
            out.bias[categories] = (self.mean[categories] + CATEGORY_PRIOR_COUNT / len(data.x)).log()
            self.backbone.skip.weight.zero_()
            if self.baseline:  # numbers start at the baseline
                out.weight[self.layout.standardised.positions] = 0.0

    def _posterior_means(self, copies: CopyDistribution, standardised: Tensor, log_p: Tensor) -> Tensor:
        """Return the means of all standardised values, given those of values that are no copies; (n, standardised)."""
        if not copies.values.shape[2]:
            return standardised
        no_copy_means = self.ranked_standardised.select(standardised)
        not_spike = self.rank_head.spiked.replace(torch.ones_like(no_copy_means), self.not_spike.select(log_p).exp())
        means = self.rank_head.copies.posterior_mean(copies, no_copy_means, not_spike)
        return self.ranked_standardised.replace(standardised, means)

    def _log_posterior(self, log_prior: Tensor, noisy: Tensor, a: Tensor, s: Tensor) -> Tensor:
        """Return log p(category | x_t), (n, categories), by Bayes' rule on the noisy one-hot vector of the cell."""
        return self.softmax.log_softmax(log_prior + a / s**2 * noisy)

    def _row_weights(self, masked: Tensor, n_max_noise: int) -> Tensor:
        """Return the weight of each row's targets, (n, 1).

        In rows at the largest noise level the weights of a row's masked cells have the same sum, however many there
        are: rows with few masked cells show the dependence between columns best, and autoregressive sampling visits all
        numbers of masked cells equally often. Missing cells count too: a weight that depended on the data would bias
        what is learnt towards rows with missing cells.
        """
        weights = torch.ones(len(masked), 1, device=masked.device, dtype=torch.float32)
        n_masked = self.layout.last_of.select(masked[:n_max_noise]).sum(dim=1, keepdim=True)
        weights[:n_max_noise] = self.layout.n_columns / 2 / n_masked.clamp(min=1)
        return weights

    def _sample_masks(self, draws: RowDraws, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return a time per row, (n,), and sample the masked dimensions, (n, d)."""
        device, n, n_max_noise = self.mean.device, len(draws.time), draws.n_max_noise

        def uniform(*shape: int) -> Tensor:
            return torch.rand(shape, generator=generator, device=device, dtype=torch.float32)

        at_max_noise = torch.arange(n, device=device) < n_max_noise
        t = draws.time.clamp(self.schedule.margin, self.schedule.max_time)
        t = torch.where(at_max_noise, self.schedule.max_time, t)
        masked = uniform(n, self.layout.n_columns) < draws.masked_fraction.unsqueeze(1)
        unconditional = ~at_max_noise & (uniform(n) < self.unconditional_fraction)
        masked |= unconditional.unsqueeze(1)
        # A value is visible only with its indicator. Otherwise a hidden value would say that it is probably missing.
        unknown = torch.zeros_like(masked)  # whether there is a value
        unknown[:, self.indicated.index] = self.indicators.select(masked)
        masked |= unknown
        # So is the time between two timestamps, of which either may be missing.
        for elapsed, ends in self.elapsed_between.items():
            masked[:, elapsed] |= unknown[:, list(ends)].any(dim=1)
        # A timestamp is visible only with its calendar parts, after which it is sampled.
        for timestamp, parts in self.parts_of.items():
            masked[:, timestamp] |= parts.select(masked).any(dim=1)
        masked = self.layout.column_of.select(masked)
        if len(self.layout.group_categories):
            groups = self.layout.group_categories
            unknown = groups.select(self.layout.column_of.select(unknown[: draws.n_group]))
            masked[: draws.n_group] = groups.replace(masked[: draws.n_group], unknown)
        return t, masked

    def _evidence(self, noisy: PartTensors, a: Tensor, s: Tensor, features: ObservedFeatures) -> Tensor:
        """Return E[x_0 | x_t] of each cell alone minus its prior mean, and the contrasts, (n, n_evidence).

        For a normal score it is a_t x_t. For a category it is given by Bayes' rule, and the log probabilities are
        added, because log evidence is additive. At the largest noise level all of it is 0. An observed category has
        the evidence of certainty, and an observed normal score enters the contrasts without noise.
        """
        log_posterior = self._log_posterior(self._log_prior(), noisy.categories, a, s)
        log_p = torch.where(features.categories_observed, features.log_categories, log_posterior)
        means = a * noisy.continuous * ~features.ranks_observed
        ranks = torch.where(features.ranks_observed, a * features.ranks, noisy.continuous)
        contrasts = a * (self.contrast(ranks) / s).tanh()
        return torch.cat([means, self._category_evidence(log_p), contrasts], dim=1)

    def _log_prior(self) -> Tensor:
        """Return the log fractions of the categories in the training rows, (1, categories)."""
        return (self.layout.categories.select(self.mean[None]) + MIN_CATEGORY_FRACTION).log()

    def _category_evidence(self, log_p: Tensor) -> Tensor:
        """Return probabilities and scaled log probabilities of categories minus their priors, (n, 2 * categories)."""
        log_ratio = log_p.clamp(min=MIN_LOG_PROBABILITY) - self._log_prior().clamp(min=MIN_LOG_PROBABILITY)
        p_difference = log_p.exp() - self.layout.categories.select(self.mean[None])
        return torch.cat([p_difference, log_ratio / LOG_EVIDENCE_SCALE], dim=1)

    def _embed_observed(self, given: EncodedRows) -> ObservedFeatures:
        """Project the observed cells and the mask of observed cells."""
        continuous, categories = self.layout.continuous, self.layout.categories
        relations = self.rank_head.relation_inputs(given)
        return ObservedFeatures(
            projection=self.backbone.project_observed(self._observed_features(given, relations.features)),
            ranks=continuous.select(given.x),
            ranks_observed=continuous.select(given.observed),
            log_categories=(categories.select(given.x) + MIN_CATEGORY_FRACTION).log(),
            categories_observed=categories.select(given.observed),
            relations=relations,
            baseline=self.baseline(given),
        )

    def _observed_features(self, given: EncodedRows, relation_features: Tensor) -> Tensor:
        """Return the inputs of observed cells, (n, n_features); all are 0 for a missing cell but its missing flag."""
        layout, observed = self.layout, given.observed.to(given.x.dtype)
        encoded = self.encode_numbers(layout.numeric_inputs.select(given.x))
        encoded = encoded * layout.numeric_inputs.select(observed).unsqueeze(2)
        inputs, missing = layout.inputs.select(given.x * observed), 1 - layout.last_of.select(observed)
        return torch.cat([inputs, encoded.flatten(1), missing, relation_features], dim=1)

    @property
    def encoded_widths(self) -> Tensor:
        """The width over which the encoding of each bin grows from 0 to 1, (values, input_bins)."""
        return self.bin_edges.diff(dim=1).clamp(min=MIN_BIN_WIDTH)

    def encode_numbers(self, values: Tensor) -> Tensor:
        """Encode (n, values) as (n, values, input_bins): 0 below a bin, 1 above it, linear inside.

        This is the piecewise linear encoding of Gorishniy et al. (2022) with quantile bins.
        """
        slope = 1 / self.encoded_widths
        return torch.addcmul(-self.bin_edges[:, :-1] * slope, values.unsqueeze(2), slope).clamp_(0, 1)


def _quantiles(values: Tensor, levels: Tensor, min_rows: int) -> Tensor:
    """Return quantiles of values, (n,), at ascending levels; each is the mean of at least `min_rows` neighbours."""
    if min_rows == 1:
        return torch.quantile(values[:: max(1, len(values) // MAX_QUANTILE_ROWS)], levels)
    centre = levels.double() * (len(values) - 1)
    first = (centre - (min_rows - 1) / 2).round().long().clamp(0, max(len(values) - min_rows, 0))
    index = (first.unsqueeze(1) + torch.arange(min_rows)).clamp(max=len(values) - 1)
    return values.sort().values[index].mean(dim=1)
