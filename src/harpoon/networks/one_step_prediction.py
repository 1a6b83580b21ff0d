"""The anchored denoiser at the largest noise level, in one fused forward pass."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harpoon.diffusion import CellScores, MaxNoiseModel
from harpoon.encoding import EncodedRows
from harpoon.encoding.missing_indicators import OBSERVED
from harpoon.networks.cell_scores import score_cells
from harpoon.networks.heads.category_logits import DenseLogits, PartLayer
from harpoon.networks.heads.rank_head import ConditionalPredictor
from harpoon.networks.incremental_prediction import CellContributions, CellwisePredictor, part_layers
from harpoon.networks.label_decisions import LabelDecisions
from harpoon.networks.layers import MIN_CATEGORY_FRACTION
from harpoon.networks.layout import PartTensors
from harpoon.networks.point_estimates import PointEstimates, PointEstimator
from harpoon.networks.time_embeddings import fourier_features
from harpoon.relations import Domains

if TYPE_CHECKING:
    from harpoon.networks.anchored_denoiser import AnchoredDenoiser

EXCLUDED_LOGIT = -1e4  # of an excluded category; where all of a part are excluded, the probabilities stay as they are


class Evaluation(NamedTuple):
    """One evaluation of the network at the largest noise level."""

    out: Tensor  # the output F, (n, d)
    predictor: ConditionalPredictor  # of conditional distributions


class FusedMaxNoiseModel(MaxNoiseModel):
    """An anchored denoiser at the largest noise level, with smaller matrix products.

    There the only evidence is that of observed categories. It is a linear function of their one-hot vectors, which are
    inputs anyway. So its projection is folded into that of the observed features, and the skip path becomes a product
    with the one-hot vectors, half as wide as the evidence.
    """

    predicts_distributions = True
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
        return self.mean(given, self.evaluate(given))

    def point_estimates(self, given: EncodedRows, point: str) -> PointEstimates:
        """Return the "median" or the "mode" of each number, and the expectations of all else: one evaluation."""
        found = self.evaluate(given)
        return self.points.estimate(self.mean(given, found), ~given.observed, found.predictor, point)

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

    @cached_property
    def decisions(self) -> LabelDecisions:
        """Labels that agree with each other."""
        return LabelDecisions(self.domains, self.denoiser.layout.categories, self.points.few_valued_spikes)

    def mean(self, given: EncodedRows, found: Evaluation) -> Tensor:
        """Return E[x_0 | observed cells], (n, d), of an evaluation of the network at these rows."""
        denoiser, (out, predictor) = self.denoiser, found
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

    @cached_property
    def may_be_structural(self) -> list[bool]:
        """Whether there are categories that force each indicator to be null; empty if no category excludes any."""
        if self.excludable is None:
            return []
        of_values = self.denoiser.indicator_categories.select(self.excludable[None])[0, OBSERVED::2]
        return [bool(each) for each in of_values]

    def draw_parameters(self, generator: np.random.Generator) -> FusedMaxNoiseModel:
        """Return a model with parameters of the Gaussian baseline drawn from their approximate posterior."""
        drawn = copy(self)
        drawn.baseline = self.baseline.draw_parameters(generator)
        return drawn

    def predict(self, given: EncodedRows) -> ConditionalPredictor:
        """Run the network once; the result gives the distribution of each cell given the observed cells."""
        return self.evaluate(given).predictor.condition_copies()

    def predict_cellwise(self, rows: int) -> CellwisePredictor:
        """Return a predictor for rows whose cells become known one after another; none is known yet."""
        return CellwisePredictor(self, rows)

    def score_cells(self, rows: EncodedRows, count: int, generator: torch.Generator) -> CellScores:
        """Hide random observed cells, one at a time and at most `count`, and predict each from its row."""
        return score_cells(self, rows, count, generator)

    def evaluate(self, given: EncodedRows) -> Evaluation:
        """Run the network once."""
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
        predictor = ConditionalPredictor(DenseLogits(logits), h, relations.pointers, copies, baseline, head, few_valued)
        return Evaluation(out, predictor)

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
