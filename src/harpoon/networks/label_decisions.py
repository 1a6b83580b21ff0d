"""Labels that agree with each other and with the observed ones, chosen from predicted probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from harpoon.encoding import EncodedRows
from harpoon.networks.layers import ColumnIndex
from harpoon.networks.point_estimates import FewValuedSpikes
from harpoon.relations import Domains


@dataclass(frozen=True)
class LabelDecisions:
    """Decides the labels of rows.

    Args:
        domains: The labels that exclude each other; it is empty if none do.
        categories: The dimensions of all categories.
        few_valued_spikes: The numbers whose values are all spikes.
    """

    domains: Domains
    categories: ColumnIndex
    few_valued_spikes: Sequence[FewValuedSpikes]

    def is_possible(self, given: EncodedRows) -> Tensor:
        """Return which rows have no observed categories that exclude each other, (n,)."""
        if not self.domains:
            return torch.ones(len(given.x), dtype=torch.bool, device=given.x.device)
        return self.domains.is_possible(self.categories.select(given.x * given.observed))

    def resolve(self, x: Tensor, given: EncodedRows, *, is_mean: bool) -> Tensor:
        """Return rows, (n, d), whose unobserved labels agree with each other and with the observed ones.

        Of an expectation (`is_mean`), numbers that are not only spikes, and missing indicators, stay as they are.
        """
        if not self.domains:
            return x
        categories = self.categories
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
        for part, standardised, spikes in self.few_valued_spikes:
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
        for part, *_ in self.few_valued_spikes:  # these have squared errors
            chosen[:, part] = 0.0
        categories = self.categories
        return (categories.select(mean).clamp(0, 1) * categories.select(chosen)).sum(dim=1)

    def _is_excluded(self, x: Tensor, part: slice) -> Tensor:
        """Return which categories of a part the other labels of rows, (n, d), exclude; none if all are."""
        known = (x == 1).to(x.dtype)
        known[:, part] = 0.0
        if not self.domains:
            return torch.zeros_like(known[:, part], dtype=torch.bool)
        excluded = self.domains.excluded(self.categories.select(known))
        dimensions = self.categories.replace(torch.zeros_like(known), excluded.to(known.dtype))
        of_part = dimensions[:, part] > 0
        return of_part & ~of_part[:, 1:].all(dim=1, keepdim=True)
