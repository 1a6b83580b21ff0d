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
from harpoon.encoding.missing_indicators import OBSERVED
from harpoon.networks.heads.category_logits import DenseLogits, PartLayer
from harpoon.networks.heads.rank_head import ConditionalPredictor
from harpoon.networks.incremental_prediction import CellContributions, CellwisePredictor, part_layers
from harpoon.networks.layers import MIN_CATEGORY_FRACTION
from harpoon.networks.layout import PartTensors
from harpoon.networks.point_estimates import PointEstimates, PointEstimator
from harpoon.networks.time_embeddings import fourier_features
from harpoon.relations import Domains

if TYPE_CHECKING:
    from harpoon.networks.anchored_denoiser import AnchoredDenoiser

EXCLUDED_LOGIT = -1e4  # of an excluded category; where all of a part are excluded, the probabilities stay as they are


class FusedMaxNoiseModel(MaxNoiseModel):
    """An anchored denoiser at the largest noise level, with smaller matrix products.

    There the only evidence is that of observed categories. It is a linear function of their one-hot vectors, which are
    inputs anyway. So its projection is folded into that of the observed features, and the skip path becomes a product
    with the one-hot vectors, half as wide as the evidence.
    """

    denoiser: AnchoredDenoiser

    @torch.no_grad()
    def __init__(self, denoiser: AnchoredDenoiser) -> None:
        super().__init__(denoiser)
        network, head = denoiser.backbone, denoiser.rank_head
        observed, evidence = network.project_observed, network.project_evidence
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
        weight, constant = self._fold_categories(network.skip.weight)
        self.skip = functional.pad(weight.T, (0, 0, 0, 1))  # what each category adds, and a row of zeros, (K + 1, d)
        self.output_bias = network.out.bias + constant
        self.part_of_category = denoiser.layout.part_of_category.index.to(constant.device)

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

    @cached_property
    @torch.no_grad()
    def contributions(self) -> CellContributions:
        """The contributions of cells to the first layer."""
        return CellContributions(self)

    @cached_property
    @torch.no_grad()
    def part_layers(self) -> tuple[PartLayer, ...]:
        """The output layers of the categorical parts."""
        return part_layers(self)

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

    @property
    def excludable(self) -> Tensor | None:
        """Which categories others may exclude, (categories,); None: no category excludes any."""
        if not self.domains:
            return None
        mask = torch.zeros(len(self.part_of_category), dtype=torch.bool, device=self.part_of_category.device)
        return mask.index_fill_(0, self.domains.features, True)  # noqa: FBT003

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

    def agreeing_means(self, mean: Tensor, given: EncodedRows) -> Tensor:
        """Return expectations, (n, d), with labels and numbers of few values that agree with each other.

        A label is the most probable one, and a number of few values the possible one next to its mean: the most
        probable value would be the best label, but not the best number in squared error. Where these do not agree, the
        number takes the value with the smallest loss of the row: its squared error, in variances of the column, plus
        the probability that the labels which agree with it have less than the best ones.
        """
        x = self.resolve(mean, given, is_mean=True)
        fixed = EncodedRows(given.x * given.observed, given.observed.clone())
        for part, standardised, spikes in self.points.few_valued_spikes:
            rows = (~given.observed[:, part.start]).nonzero()[:, 0]
            squares = (spikes.to(mean) - mean[rows, standardised, None]) ** 2
            value = squares.argmin(dim=1)
            excluded = self._is_excluded(x[rows], part)[:, 1:].gather(1, value[:, None])[:, 0]
            conflict = rows[excluded]
            if len(conflict):
                value[excluded] = self._best_values(squares[excluded], mean[conflict], fixed[conflict], part)
            fixed.x[rows, part] = functional.one_hot(1 + value, part.stop - part.start).to(x.dtype)
            fixed.observed[rows, part] = True
            if len(conflict):
                x[conflict] = self.resolve(mean[conflict], fixed[conflict], is_mean=True)
            x = torch.where(fixed.observed & ~given.observed, fixed.x, x)
        return x

    def _best_values(self, squares: Tensor, mean: Tensor, known: EncodedRows, part: slice) -> Tensor:
        """Return the value of a number with the smallest loss of each row, (n,), from its squared errors, (n, values).

        Values are tried from the nearest to the mean on. The squared error of a value is the least that its loss can
        be, so that the search ends for a row at the first value whose squared error is not below the best loss so far.
        """
        squares = squares.masked_fill(self._is_excluded(known.x, part)[:, 1:], torch.inf)
        order = squares.argsort(dim=1, stable=True)
        best, loss = order[:, 0].clone(), torch.full_like(squares[:, 0], torch.inf)
        most = self._label_probability(mean, known)
        for value in order.T:
            rows = (squares.gather(1, value[:, None])[:, 0] < loss).nonzero()[:, 0]
            if not len(rows):
                break
            tried, observed = known.x[rows], known.observed[rows].clone()
            tried[:, part] = functional.one_hot(1 + value[rows], part.stop - part.start).to(tried.dtype)
            observed[:, part] = True
            less = most[rows] - self._label_probability(mean[rows], EncodedRows(tried, observed))
            total = squares[rows, value[rows]] + less.clamp(min=0)
            better = total < loss[rows]
            best[rows[better]], loss[rows[better]] = value[rows[better]], total[better]
        return best

    def _label_probability(self, mean: Tensor, known: EncodedRows) -> Tensor:
        """Return the sum of the probabilities of the labels that agree best with what is known, (n,)."""
        chosen = self.resolve(mean, known, is_mean=True)
        for part, *_ in self.points.few_valued_spikes:  # these have squared errors
            chosen[:, part] = 0.0
        categories = self.denoiser.layout.categories
        return (categories.select(mean).clamp(0, 1) * categories.select(chosen)).sum(dim=1)

    def _is_excluded(self, x: Tensor, part: slice) -> Tensor:
        """Return which categories of a part the other labels of rows, (n, d), exclude; none if all are."""
        known = (x == 1).to(x.dtype)
        known[:, part] = 0.0
        excluded = self.excluded_categories(known)
        if excluded is None:
            return torch.zeros_like(known[:, part], dtype=torch.bool)
        dimensions = self.denoiser.layout.categories.replace(torch.zeros_like(known), excluded.to(known.dtype))
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

    def predict_cellwise(self, rows: int) -> CellwisePredictor:
        """Return a predictor for rows whose cells become known one after another; none is known yet."""
        return CellwisePredictor(self, rows)

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
        row_of_cell = row[chosen]
        rows = rows[row_of_cell].dequantize(generator)
        hidden = functional.one_hot(column[chosen], layout.n_columns).bool()
        target = layout.column_of.select(hidden)
        hidden[:, denoiser.calendar_parts.index] |= denoiser.timestamps.select(hidden)
        for elapsed, ends in denoiser.elapsed_between.items():
            hidden[:, elapsed] |= hidden[:, list(ends)].any(dim=1)
        # A value is visible only with its indicator.
        hidden[:, denoiser.indicated.index] |= denoiser.indicators.select(hidden)
        _, predictor = self._forward(EncodedRows(rows.x, rows.observed & ~layout.column_of.select(hidden)))

        log_p = denoiser.softmax.log_softmax(predictor.category_logits.dense())
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
        probability = probability.masked_fill(probability < 0, torch.nan)
        return CellScores(gain, probability, correct, cumulative, row_of_cell)

    def _forward(self, given: EncodedRows) -> tuple[Tensor, ConditionalPredictor]:
        """Return the output F, (n, d), and the predictor of conditional distributions."""
        denoiser, network, head = self.denoiser, self.denoiser.backbone, self.denoiser.rank_head
        relations = head.relation_inputs(given)
        features = denoiser._observed_features(given, relations.features)
        h = network.trunk(functional.linear(features, self.input_weight, self.input_bias))
        out = functional.linear(h, network.out.weight, self.output_bias)
        out.addmm_(self.categories.select(features), self.skip[:-1])
        logits, copies = denoiser.layout.categories.select(out), head.copies(h, relations.copies)
        few_valued, baseline = head.determined_values(given), self.baseline(given)
        if baseline.logits is not None:
            logits = logits.index_add(1, self.labels.index.to(logits.device), baseline.logits)
        return out, ConditionalPredictor(DenseLogits(logits), h, relations.pointers, copies, baseline, head, few_valued)

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
        this, other, missing = (denoiser._category_evidence(each)[0] for each in log_p)

        def contribution(evidence: Tensor) -> Tensor:
            halves = slice(n_categories), slice(n_categories, None)
            first, second = (of_categories[:, half] * evidence[half] for half in halves)
            return first + second

        part_of = denoiser.layout.part_of_category.index.to(weight.device)
        by_part = weight.new_zeros(len(weight), len(denoiser.softmax.widths))
        by_part = by_part.index_add(1, part_of, contribution(other - missing))
        return contribution(this - other) + by_part.index_select(1, part_of), of_categories @ missing
