"""Forms: what some numbers of a row say of another, such as a balance: the one before, less what was paid.

A form is a number of the row, the sum or difference of two, or a product of powers of one or two, in the units of the
table. Which forms are worth looking at is found in the training rows (`harpoon.relations.search`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from harpoon.data.statistics import Floats
from harpoon.encoding.units import AffineUnit
from harpoon.relations.formula import Formula

SMALLEST = 1e-9
FAR_OUT = 3.0  # deviations from the mean
ROUNDED, ROUNDED_LOGS = 4e-7, 3e-6  # apart, as a share of their sizes, are equal sums and products in single precision
HALF_A_STEP = 0.501
FINE = 0.01  # deviations
LARGEST_ZERO = 1e30  # beyond, single precision might have no number for it
HIGHEST_LOG, ONE = 700.0, 1e-5  # of a factor, and how close to one it is one
FARTHEST, LARGEST = 1e4, 20.0  # what is said at the most, and the largest logarithm of it


class ColumnScales(Protocol):
    """The scales of the numbers of columns, which it knows by their places."""

    def unit(self, column: int) -> AffineUnit | None:
        """The unit of a column's numbers, if their means are of one."""

    def bin_edges(self, column: int, n_bins: int) -> Floats:
        """Where the slots of a column's ranks end on the scale of its means."""


class Relation(NamedTuple):
    """A number as others say it.

    Sums are on the scales of means: offset + Σ weight * mean. Products are of numbers in deviations, and their weights
    are powers: log(number) = offset + Σ weight * log(number of the source).
    """

    target: int
    sources: tuple[int, ...]
    weights: tuple[float, ...]
    offset: float
    is_product: bool = False

    @property
    def is_finite(self) -> bool:
        """Whether single precision has numbers for it."""
        single = torch.finfo(torch.float32)
        return abs(self.offset) < single.max and all(single.tiny < abs(weight) < single.max for weight in self.weights)

    def tolerance(self, unit: AffineUnit) -> float:
        """How far what it says may be from what it means, near the mean of its target: by rounding, or half a step."""
        if self.is_product:
            return HALF_A_STEP * unit.step / unit.scale
        return ROUNDED * (1 + abs(self.offset) + FAR_OUT * sum(map(abs, self.weights)))

    def is_representable(self, unit: AffineUnit) -> bool:
        """Whether single precision tells what it says from what is next to it, on the grid or else nearby."""
        if self.is_product:
            return ROUNDED_LOGS * (abs(unit.zero) + FAR_OUT) < FINE
        return unit.step == 0 or unit.step / unit.scale > 2 * self.tolerance(unit) + FAR_OUT * ROUNDED


class RelationValues(NamedTuple):
    """What forms say of rows.

    Attributes:
        use: Which forms, (forms,).
        target: The number that each is for, (forms,).
        there: Whether all that it needs is known, (n, forms).
        means: What it says, (n, forms).
    """

    use: Tensor
    target: Tensor
    observed: Tensor
    values: Tensor

    def first(self, rows: int) -> RelationValues:
        """The same of the first rows."""
        return RelationValues(self.use, self.target, self.observed[:rows], self.values[:rows])


class RelationBank(nn.Module):
    """Some forms for each number, as weights of all means and of the logarithms of all numbers."""

    weights: Tensor
    offsets: Tensor
    tolerances: Tensor
    fractions: Tensor
    zeros: Tensor

    def __init__(self, numbers: int, each: int) -> None:
        super().__init__()
        self.numbers, self.each = numbers, each
        self.register_buffer("weights", torch.zeros(numbers * each, 2 * numbers))
        self.register_buffer("offsets", torch.zeros(numbers * each))
        self.register_buffer("tolerances", torch.zeros(numbers * each))
        self.register_buffer("fractions", torch.zeros(numbers * each))
        self.register_buffer("zeros", torch.zeros(numbers))

    def __len__(self) -> int:
        return self.numbers * self.each

    def predict(self, means: Tensor, known: Tensor) -> RelationValues:
        """What is said of rows by the forms that there are; means and what is known of them are (n, numbers)."""
        use = (self.weights != 0).any(dim=1).nonzero()[:, 0]
        weights, target = self.weights[use], use.div(self.each, rounding_mode="floor")
        product = (weights[:, self.numbers :] != 0).any(dim=1)
        if not product.any():
            weights, inputs, sure = weights[:, : self.numbers], means, known
        else:
            numbers = means - self.zeros
            inputs = torch.cat([means, numbers.clamp(min=SMALLEST).log()], dim=1)
            sure = torch.cat([known, known & (numbers > SMALLEST)], dim=1)
        needed = (weights != 0).to(means.dtype)
        there = sure.to(means.dtype) @ needed.T == needed.sum(dim=1)
        said = torch.addmm(self.offsets[use], inputs, weights.T)
        said = torch.where(product, self.zeros[target] + said.clamp(max=LARGEST).exp(), said)
        return RelationValues(use, target, there, said.clamp(-FARTHEST, FARTHEST))

    def matches(self, said: Tensor, means: Tensor, which: Tensor) -> Tensor:
        """Whether means are just what forms say, up to how that is rounded."""
        product = (self.weights[:, self.numbers :] != 0).any(dim=1)
        share = torch.where(product, ROUNDED_LOGS, ROUNDED)[which]
        zeros = self.zeros[which.div(self.each, rounding_mode="floor")] * product[which]
        return (said - means).abs() <= self.tolerances[which] + share * (means.abs() + zeros.abs())

    def formulas(self, units: Mapping[int, AffineUnit]) -> dict[int, Formula]:
        """How each form that there is makes a number of others, in the units of the table."""
        kept = (self.weights != 0).any(dim=1).nonzero()[:, 0].tolist()
        return {form: self._formula(form, units) for form in kept}

    def _formula(self, form: int, units: Mapping[int, AffineUnit]) -> Formula:
        signs, powers = self.weights[form].double().view(2, self.numbers)
        if signs.any():
            sources = signs.nonzero()[:, 0].tolist()
            return Formula(tuple(sources), tuple(signs[sources].sign().tolist()), None)
        sources = powers.nonzero()[:, 0].tolist()
        factor = float(self.offsets[form]) + math.log(units[form // self.each].scale)
        factor -= sum(float(powers[source]) * math.log(units[source].scale) for source in sources)
        factor = math.exp(max(-HIGHEST_LOG, min(factor, HIGHEST_LOG)))
        return Formula(tuple(sources), tuple(powers[sources].tolist()), 1.0 if abs(factor - 1) < ONE else factor)

    @torch.no_grad()
    def store(self, found: Iterable[tuple[Relation, float]], units: Mapping[int, AffineUnit]) -> None:
        """Keep forms, the first of each number, each with the share of the rows that it explains."""
        for buffer in self.buffers():
            buffer.zero_()
        for place, unit in units.items():
            self.zeros[place] = max(-LARGEST_ZERO, min(unit.zero, LARGEST_ZERO))
        kept = [0] * self.numbers
        for form, share in found:
            if kept[form.target] < self.each:
                place = form.target * self.each + kept[form.target]
                kept[form.target] += 1
                sources = [source + self.numbers * form.is_product for source in form.sources]
                self.weights[place, sources] = self.weights.new_tensor(form.weights)
                self.offsets[place], self.tolerances[place] = form.offset, form.tolerance(units[form.target])
                self.fractions[place] = share

    def validate_state(self) -> None:
        """Refuse forms that are no numbers."""
        if not all(buffer.isfinite().all() for buffer in self.buffers()):
            raise ValueError("what numbers say of others is no number")
