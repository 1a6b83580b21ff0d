"""The anchored denoiser at the largest noise level, in one fused forward pass."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harpoon.diffusion import CellScores, MaxNoiseModel
from harpoon.encoding import EncodedRows
from harpoon.encoding.missingness import OBSERVED
from harpoon.networks.layers import MIN_CATEGORY_FRACTION, fourier_features
from harpoon.networks.layout import PartTensors
from harpoon.networks.point_estimates import PointEstimates, PointEstimator
from harpoon.networks.rank_head import ConditionalPredictor
from harpoon.relations import Domains

if TYPE_CHECKING:
    from harpoon.networks.anchored import AnchoredDenoiser

EXCLUDED_LOGIT = -1e4  # of an excluded category; where all of a part are excluded, the probabilities stay as they are


class FusedMaxNoiseModel(MaxNoiseModel):
    """An anchored denoiser at the largest noise level, with smaller matrix products.

    There the only evidence is that of observed categories. It is a linear function of their one-hot vectors, which are
    inputs anyway. So its projection is folded into that of the observed features, and the skip path becomes a product
    with the one-hot vectors, half as wide as the evidence.
    """

    is_autoregressive = True
    denoiser: AnchoredDenoiser

    @torch.no_grad()
    def __init__(self, denoiser: AnchoredDenoiser) -> None:
        super().__init__(denoiser)
        network, head = denoiser.backbone, denoiser.rank_head
        observed, evidence = network.project_observed, network.project_evidence
        # Attributes of `DistributionModel` (harpoon.inference.autoregressive).
        self.relations, self.few_valued_relations = head.copies.relations, head.few_valued_relations
        self.constrained = head.constrained
        self.n_rank_bins = head.total_bins
        self.exclusions, self.baseline = denoiser.exclusions, denoiser.baseline
        self.labels = denoiser.layout.categories.locate(denoiser.baseline.labels)
        self.domains = Domains(denoiser.exclusions, denoiser.mean.device)
        self.categories = denoiser.layout.input_categories
        weight, constant = self._fold_categories(evidence.weight)
        self.input_weight = observed.weight.index_add(1, self.categories.index.to(weight.device), weight)
        time = constant.new_full((1,), denoiser.schedule.max_time)
        self.input_bias = constant + observed.bias + evidence.bias + network.time(fourier_features(time))[0]
        self.skip_weight, constant = self._fold_categories(network.skip.weight)
        self.output_bias = network.out.bias + constant

    def posterior_mean(self, given: EncodedRows) -> Tensor:
        """Return E[x_0 | observed cells], (n, d)."""
        return self._mean(given, *self._forward(given))

    def point_estimates(self, given: EncodedRows, point: str) -> PointEstimates:
        """Return the "median" or the "mode" of each number, and the expectations of all else: one evaluation."""
        out, predictor = self._forward(given)
        return self.points.estimate(self._mean(given, out, predictor), ~given.observed, predictor, point)

    @cached_property
    def points(self) -> PointEstimator:
        """Medians and modes of the predicted distributions."""
        return PointEstimator(self.denoiser.codec, self.denoiser.rank_head)

    def _mean(self, given: EncodedRows, out: Tensor, predictor: ConditionalPredictor) -> Tensor:
        denoiser = self.denoiser
        continuous, categories, standardised = denoiser.layout.split(out)
        standardised = predictor.baseline.add_to_standardised(standardised)
        excluded = self.excluded_categories(given.x * given.observed)
        if excluded is not None:
            categories = categories + EXCLUDED_LOGIT * excluded
        log_p = denoiser.softmax.log_softmax(categories)
        standardised = denoiser._posterior_means(predictor.copies, standardised, log_p)
        return given.fill(denoiser.layout.join(PartTensors(continuous, log_p.exp(), standardised)))

    def excluded_categories(self, x: Tensor) -> Tensor | None:
        """Return which categories those of encoded rows exclude, (n, categories); None if no category excludes any."""
        return self.domains.excluded(self.denoiser.layout.categories.select(x)) if self.domains else None

    def structurally_missing(self, given: EncodedRows) -> Tensor:
        """Return which indicators the observed categories force to be null, (n, indicators)."""
        excluded = self.excluded_categories(given.x * given.observed)
        states = self.denoiser.indicator_categories
        if excluded is None:
            return given.observed.new_zeros(len(given.x), len(states) // 2)
        return states.select(excluded)[:, OBSERVED::2]

    def is_possible(self, given: EncodedRows) -> Tensor:
        """Return which rows have no observed categories that exclude each other, (n,)."""
        if not self.domains:
            return torch.ones(len(given.x), dtype=torch.bool, device=given.x.device)
        return self.domains.is_possible(self.denoiser.layout.categories.select(given.x * given.observed))

    def resolve(self, x: Tensor, given: EncodedRows, *, is_mean: bool) -> Tensor:
        """Return rows, (n, d), whose unobserved labels agree with each other and with the observed ones.

        Of an expectation (`is_mean`), numbers that are not only spikes, and missing indicators, stay as they are.
        """
        if not self.domains:
            return x
        categories = self.denoiser.layout.categories
        known = categories.select(given.x * given.observed)
        return categories.replace(x, self.domains.most_probable(categories.select(x), known, discrete=is_mean))

    def nearest_to_means(self, x: Tensor, given: EncodedRows) -> Tensor:
        """Return resolved expectations, (n, d), with numbers of few values at the possible one next to their mean.

        The most probable value would be the best label, but not the best number in squared error.
        """
        for part, standardised, spikes in self.points.few_valued_spikes:
            rows = (~given.observed[:, part.start]).nonzero()[:, 0]
            distance = (spikes.to(x) - x[rows, standardised, None]).abs()
            distance = distance.masked_fill(self._is_excluded(x[rows], part)[:, 1:], torch.inf)
            chosen = functional.one_hot(1 + distance.argmin(dim=1), part.stop - part.start)
            x[rows, part] = chosen.to(x.dtype)
        return x

    def _is_excluded(self, x: Tensor, part: slice) -> Tensor:
        """Return which categories of a part the other labels of resolved rows, (n, d), exclude; none if all are."""
        known = (x == 1).to(x.dtype)
        known[:, part] = 0.0
        excluded = self.excluded_categories(known)
        if excluded is None:
            return torch.zeros_like(x[:, part], dtype=torch.bool)
        dimensions = self.denoiser.layout.categories.replace(torch.zeros_like(x), excluded.to(x.dtype))
        of_part = dimensions[:, part] > 0
        return of_part & ~of_part[:, 1:].all(dim=1, keepdim=True)

    def draw_parameters(self, generator: np.random.Generator) -> FusedMaxNoiseModel:
        """Return a model with parameters of the Gaussian baseline drawn from their approximate posterior."""
        drawn = copy(self)
        drawn.baseline = self.baseline.draw_parameters(generator)
        return drawn

    def predict(self, given: EncodedRows) -> ConditionalPredictor:
        """Run the network once; the result gives the distribution of each cell given the observed cells."""
        predictor = self._forward(given)[1]
        return predictor._replace(copies=predictor.copies.condition())

    def score_cells(self, rows: EncodedRows, count: int, generator: torch.Generator) -> CellScores:
        """Hide random observed cells, one at a time and at most `count`, and predict each from its row.

        Of a hierarchical category the group is scored. A spike is scored as a category, other numbers as numbers. A
        timestamp is hidden with its calendar parts and the time between it and others, which are no cells.
        """
        denoiser, layout, head = self.denoiser, self.denoiser.layout, self.denoiser.rank_head
        cells = layout.last_of.select(rows.observed)
        cells[:, denoiser.calendar_parts.index] = False
        cells[:, list(denoiser.elapsed_between)] = False
        row, column = cells.nonzero(as_tuple=True)
        chosen = torch.randperm(len(row), generator=generator, device=row.device)[:count]
        rows = rows[row[chosen]].dequantize(generator)
        hidden = functional.one_hot(column[chosen], layout.n_columns).bool()
        target = layout.column_of.select(hidden)
        hidden[:, denoiser.calendar_parts.index] |= denoiser.timestamps.select(hidden)
        for elapsed, ends in denoiser.elapsed_between.items():
            hidden[:, elapsed] |= hidden[:, list(ends)].any(dim=1)
        # A value is visible only with its indicator.
        hidden[:, denoiser.indicated.index] |= denoiser.indicators.select(hidden)
        _, predictor = self._forward(EncodedRows(rows.x, rows.observed & ~layout.column_of.select(hidden)))

        log_p = denoiser.softmax.log_softmax(predictor.category_logits)
        scored = layout.categories.select(target) & layout.is_first_part.to(target.device)
        one_hot = layout.categories.select(rows.x) * scored
        gain = (one_hot * (log_p - denoiser._log_prior())).sum(dim=1)
        # A column of -1 comes first: there may be no categories.
        probability, best = functional.pad(log_p.exp().masked_fill(~scored, -1.0), (1, 0), value=-1.0).max(dim=1)
        correct = functional.pad(one_hot, (1, 0)).gather(1, best.unsqueeze(1)).squeeze(1) > 0

        requested = head.target_weights(rows.x, target.to(rows.x.dtype)) > 0
        z, value = (part.select(rows.x).T[requested.T] for part in (head.ranks, head.standardised))
        distributions = predictor.distributions(requested)
        density, below = head.score(
            distributions, z, value, torch.rand(z.shape, generator=generator, dtype=z.dtype, device=z.device)
        )
        index = requested.T.nonzero()[:, 1]
        cumulative = torch.full_like(gain, torch.nan).index_copy(0, index, below)
        gain = gain.index_add(0, index, density)
        return CellScores(gain, probability.masked_fill(probability < 0, torch.nan), correct, cumulative)

    def _forward(self, given: EncodedRows) -> tuple[Tensor, ConditionalPredictor]:
        """Return the output F, (n, d), and the predictor of conditional distributions."""
        denoiser, network, head = self.denoiser, self.denoiser.backbone, self.denoiser.rank_head
        relations = head.relation_inputs(given)
        features = denoiser._observed_features(given, relations.features)
        h = network.trunk(functional.linear(features, self.input_weight, self.input_bias))
        out = functional.linear(h, network.out.weight, self.output_bias)
        out.addmm_(self.categories.select(features), self.skip_weight.T)
        logits, copies = denoiser.layout.categories.select(out), head.copies(h, relations.copies)
        few_valued, baseline = head.determined_values(given), self.baseline(given)
        if baseline.logits is not None:
            logits = logits.index_add(1, self.labels.index.to(logits.device), baseline.logits)
        return out, ConditionalPredictor(logits, h, relations.pointers, copies, baseline, head, few_valued)

    def _fold_categories(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Fold the evidence of categories into a layer, (m, n_evidence): return W, (m, categories), and b, (m,).

        The evidence of a category takes three values: observed and this category, observed and another category of its
        part, or missing. So the layer is W onehot + b, because the one-hot vector of a missing cell is 0.
        """
        denoiser, log_prior = self.denoiser, self.denoiser._log_prior()
        n_continuous, n_categories = len(denoiser.layout.continuous), len(denoiser.layout.categories)
        of_categories = weight[:, n_continuous : n_continuous + 2 * n_categories]
        log_p = (
            torch.full_like(log_prior, 1 + MIN_CATEGORY_FRACTION).log(),
            torch.full_like(log_prior, MIN_CATEGORY_FRACTION).log(),
            denoiser.softmax.log_softmax(log_prior),
        )
        this, other, missing = map(denoiser._category_evidence, log_p)

        def contribution(evidence: Tensor) -> Tensor:
            return (of_categories * evidence).view(len(weight), 2, n_categories).sum(dim=1)

        part_of = denoiser.layout.part_of_category.index.to(weight.device)
        by_part = weight.new_zeros(len(weight), len(denoiser.softmax.widths))
        by_part = by_part.index_add(1, part_of, contribution(other - missing))
        return contribution(this - other) + by_part.index_select(1, part_of), contribution(missing).sum(dim=1)
