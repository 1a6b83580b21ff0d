"""The anchored denoiser at the largest noise level, in one fused forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from harpoon.diffusion.denoiser import MaxNoiseModel
from harpoon.encoding.batch import EncodedRows
from harpoon.networks.layers import MIN_CATEGORY_FRACTION
from harpoon.networks.layout import PartTensors
from harpoon.networks.rank_head import ConditionalPredictor, RelationInputs
from harpoon.relations.relation import RelationBank

if TYPE_CHECKING:
    from harpoon.networks.anchored import AnchoredDenoiser


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
        network, self.categories = denoiser.backbone, denoiser.layout.input_categories
        weight, constant = self._fold_categories(network.project_evidence.weight)
        self.input_weight = network.project_observed.weight.index_add(
            1, self.categories.index.to(weight.device), weight
        )
        time = constant.new_full((1,), denoiser.schedule.max_time)
        self.input_bias = (
            constant + network.project_observed.bias + network.project_evidence.bias + network.time_embedding(time)[0]
        )
        self.skip_weight, constant = self._fold_categories(network.skip.weight)
        self.output_bias = network.out.bias + constant

    def posterior_mean(self, given: EncodedRows) -> Tensor:
        """Return E[x_0 | observed cells], (n, d)."""
        denoiser = self.denoiser
        relation_inputs = denoiser.rank_head.relation_inputs(given)
        h, out = self._forward(given, relation_inputs)
        continuous, categories, standardised = denoiser.layout.split(out)
        log_p = denoiser.softmax.log_softmax(categories)
        copies = denoiser.rank_head.copy_distribution(h, relation_inputs)
        standardised = denoiser._posterior_means(copies, standardised, log_p)
        return given.fill(denoiser.layout.join(PartTensors(continuous, log_p.exp(), standardised)))

    @property
    def relations(self) -> RelationBank:
        """The relations between numeric columns that the copy head uses."""
        return self.denoiser.rank_head.copies.relations

    @property
    def n_rank_bins(self) -> int:
        """The total number of histogram bins of all numeric columns."""
        return self.denoiser.rank_head.total_bins

    @property
    def constrained(self) -> tuple[Tensor, Tensor]:
        """Whether each numeric column is the target of a deterministic sum, and of a product, (columns,) each."""
        return self.denoiser.rank_head.copies.constrained

    def predict(self, given: EncodedRows) -> ConditionalPredictor:
        """Run the network once; the result gives the distribution of each cell given the observed cells."""
        head = self.denoiser.rank_head
        relation_inputs = head.relation_inputs(given)
        h, out = self._forward(given, relation_inputs)
        category_logits = self.denoiser.layout.categories.select(out)
        return ConditionalPredictor(
            category_logits, h, relation_inputs, head.copy_distribution(h, relation_inputs), head
        )

    def _forward(self, given: EncodedRows, relation_inputs: RelationInputs) -> tuple[Tensor, Tensor]:
        """Return the last hidden layer, (n, hidden), and the output F, (n, d)."""
        network, features = self.denoiser.backbone, self.denoiser._observed_features(given, relation_inputs)
        h = network.trunk(functional.linear(features, self.input_weight, self.input_bias))
        out = functional.linear(h, network.out.weight, self.output_bias)
        return h, out.addmm_(self.categories.select(features), self.skip_weight.T)

    def _fold_categories(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Fold the evidence of categories into a layer that reads it.

        The evidence of a category takes three values: observed and this category, observed and another category of its
        part, or missing. So the layer is W onehot + b, because the one-hot vector of a missing cell is 0.

        Args:
            weight: The layer on the evidence, (m, n_evidence).

        Returns:
            W, (m, categories), and b, (m,).
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
