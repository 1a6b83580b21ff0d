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

from harpoon.diffusion.denoiser import AtNoise
from harpoon.encoding.batch import Given
from harpoon.networks.layers import LEAST_SHARE
from harpoon.networks.rank_head import Looked, Reading

if TYPE_CHECKING:
    from harpoon.networks.anchored import AnchoredDenoiser


class AnchoredAtNoise(AtNoise):
    """The network where there is only noise, whose first and last products are smaller there.

    All that is believed is what is known of labels. So both paths of beliefs are products with these labels, of which
    there are half as many, and one of the two is done with that of what is known.
    """

    denoiser: AnchoredDenoiser

    @torch.no_grad()
    def __init__(self, denoiser: AnchoredDenoiser) -> None:
        super().__init__(denoiser)
        network, self.labels = denoiser.backbone, denoiser.told_labels
        of_labels, constant = self._through_labels(network.noisy.weight)
        self.first = network.known.weight.index_add(1, self.labels.index.to(constant.device), of_labels)
        time = constant.new_full((1,), denoiser.schedule.noisiest)
        self.beginning = constant + network.known.bias + network.noisy.bias + network.beginning(time)[0]
        self.straight, constant = self._through_labels(network.straight.weight)
        self.end = network.out.bias + constant

    def expected(self, given: Given) -> Tensor:
        """E[x_0 | known]."""
        of, looked = self.denoiser, self.denoiser.rank_laws.look(given)
        h, context = self._context(given, looked)
        lines, labels, means = of._parts(context)
        log_p = of.simplexes.log_softmax(labels)
        return given.write_into(of._whole(lines, log_p, of._means(of.rank_laws.copied(h, looked), means, log_p)))

    @property
    def bound(self) -> tuple[Tensor, Tensor]:
        """Which numbers that have ranks a sum binds to others, and which a product."""
        return self.denoiser.rank_laws.copies.bound

    def read(self, given: Given) -> Reading:
        """What the laws of the unknown cells given the known ones are told by."""
        rank_laws = self.denoiser.rank_laws
        looked = rank_laws.look(given)
        h, context = self._context(given, looked)
        return Reading(self.denoiser.labels.of(context), h, looked, rank_laws.copied(h, looked), rank_laws)

    def _context(self, given: Given, looked: Looked) -> tuple[Tensor, Tensor]:
        """The last layer, and what it says of each encoded number."""
        network, told = self.denoiser.backbone, self.denoiser._told(given, looked)
        h = network.deeper(functional.linear(told, self.first, self.beginning))
        said = functional.linear(h, network.out.weight, self.end)
        return h, said.addmm_(self.labels.of(told), self.straight.T)

    def _through_labels(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """What a layer makes of the belief in each label that is known, (m, labels), and in all that are not, (m,).

        A label that is known says of its whole category that it is known.
        """
        of, prior = self.denoiser, self.denoiser._prior()
        chances = torch.full_like(prior, 1 + LEAST_SHARE), torch.full_like(prior, LEAST_SHARE)
        said = (*(chance.log() for chance in chances), of.simplexes.log_softmax(prior))
        own, other, unknown = map(of._believed, said)
        of_each = weight[:, len(of.lines) : len(of.lines) + 2 * len(of.labels)]

        def times(belief: Tensor) -> Tensor:
            return (of_each * belief).view(len(weight), 2, len(of.labels)).sum(dim=1)

        block_of = of.block_of.index.to(weight.device)
        known = weight.new_zeros(len(weight), len(of.simplexes.widths)).index_add(1, block_of, times(other - unknown))
        return times(own - other) + known.index_select(1, block_of), times(unknown).sum(dim=1)
