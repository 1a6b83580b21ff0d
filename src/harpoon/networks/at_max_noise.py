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

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from harpoon.diffusion.denoiser import MaxNoiseModel
from harpoon.encoding.batch import EncodedRows
from harpoon.networks.layers import MIN_CATEGORY_FRACTION
from harpoon.networks.rank_head import ConditionalPredictor, RelationInputs
from harpoon.relations.relation import RelationBank

if TYPE_CHECKING:
    from harpoon.networks.anchored import AnchoredDenoiser


class FusedMaxNoiseModel(MaxNoiseModel):
    """The network where there is only noise, whose first and last products are smaller there.

    All that is believed is what is known of labels. So both paths of beliefs are products with these labels, of which
    there are half as many, and one of the two is done with that of what is known.
    """

    is_autoregressive = True
    denoiser: AnchoredDenoiser

    @torch.no_grad()
    def __init__(self, denoiser: AnchoredDenoiser) -> None:
        super().__init__(denoiser)
        network, self.labels = denoiser.backbone, denoiser.input_categories
        of_labels, constant = self._fold_categories(network.project_evidence.weight)
        self.first = network.project_observed.weight.index_add(1, self.labels.index.to(constant.device), of_labels)
        time = constant.new_full((1,), denoiser.schedule.max_time)
        self.beginning = (
            constant + network.project_observed.bias + network.project_evidence.bias + network.time_embedding(time)[0]
        )
        self.straight, constant = self._fold_categories(network.skip.weight)
        self.end = network.out.bias + constant

    def posterior_mean(self, given: EncodedRows) -> Tensor:
        """E[x_0 | known]."""
        of, looked = self.denoiser, self.denoiser.rank_head.relation_inputs(given)
        h, context = self._context(given, looked)
        lines, labels, means = of._split(context)
        log_p = of.softmax.log_softmax(labels)
        return given.fill(
            of._join(lines, log_p, of._posterior_means(of.rank_head.copy_distribution(h, looked), means, log_p))
        )

    @property
    def relations(self) -> RelationBank:
        """Relations between numeric columns, as the copy head uses them."""
        return self.denoiser.rank_head.copies.relations

    @property
    def n_rank_bins(self) -> int:
        """Total number of histogram bins of all numeric columns."""
        return self.denoiser.rank_head.width

    @property
    def constrained(self) -> tuple[Tensor, Tensor]:
        """Which numbers that have ranks a sum binds to others, and which a product."""
        return self.denoiser.rank_head.copies.constrained

    def predict(self, given: EncodedRows) -> ConditionalPredictor:
        """What the laws of the unknown cells given the known ones are told by."""
        rank_laws = self.denoiser.rank_head
        looked = rank_laws.relation_inputs(given)
        h, context = self._context(given, looked)
        return ConditionalPredictor(
            self.denoiser.categories.select(context), h, looked, rank_laws.copy_distribution(h, looked), rank_laws
        )

    def _context(self, given: EncodedRows, looked: RelationInputs) -> tuple[Tensor, Tensor]:
        """The last layer, and what it says of each encoded number."""
        network, told = self.denoiser.backbone, self.denoiser._observed_features(given, looked)
        h = network.trunk(functional.linear(told, self.first, self.beginning))
        said = functional.linear(h, network.out.weight, self.end)
        return h, said.addmm_(self.labels.select(told), self.straight.T)

    def _fold_categories(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """What a layer makes of the belief in each label that is known, (m, labels), and in all that are not, (m,).

        A label that is known says of its whole category that it is known.
        """
        of, prior = self.denoiser, self.denoiser._prior()
        chances = torch.full_like(prior, 1 + MIN_CATEGORY_FRACTION), torch.full_like(prior, MIN_CATEGORY_FRACTION)
        said = (*(chance.log() for chance in chances), of.softmax.log_softmax(prior))
        own, other, unknown = map(of._category_evidence, said)
        of_each = weight[:, len(of.continuous) : len(of.continuous) + 2 * len(of.categories)]

        def times(belief: Tensor) -> Tensor:
            return (of_each * belief).view(len(weight), 2, len(of.categories)).sum(dim=1)

        block_of = of.block_of.index.to(weight.device)
        known = weight.new_zeros(len(weight), len(of.softmax.widths)).index_add(1, block_of, times(other - unknown))
        return times(own - other) + known.index_select(1, block_of), times(unknown).sum(dim=1)
