"""Relations between numeric columns: a value that is determined by one or two other values of the row.

A relation is a copy (x = y), a sum or difference (x = y ± z), or a product of powers (x = c yᵃ zᵇ), in the table's
units. Relations are searched in the training rows (`harpoon.relations.search`).

Numeric columns are those with a normal score; they are numbered as in `RowCodec.numeric`. Values are standardised
unless stated otherwise. A value in standard deviations is the standardised value minus that of zero, `AffineUnit.zero`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from harpoon.encoding import AffineUnit
from harpoon.relations.formula import Formula

MIN_POSITIVE = 1e-9  # standard deviations: smaller values have no logarithm
TYPICAL_RANGE = 3.0  # standard deviations from the mean
SUM_ROUNDING, PRODUCT_ROUNDING = 4e-7, 3e-6  # relative difference of equal values in single precision
STEP_TOLERANCE = 0.501  # steps: a product may be rounded to the resolution of its column
MAX_PRODUCT_ERROR = 0.01  # standard deviations
MAX_ZERO = 1e30  # standardised value of zero, within single precision
MAX_LOG_FACTOR = 700.0
UNIT_FACTOR_TOLERANCE = 1e-5  # factors this close to 1 are 1
MAX_PREDICTION, MAX_LOG_PREDICTION = 1e4, 20.0  # predicted values are clipped to this


class Relation(NamedTuple):
    """A value as a function of one or two others.

    A sum is linear in standardised values: offset + Σ weight * value. A product is linear in the logarithms of values
    in standard deviations; its weights are powers: log(value) = offset + Σ weight * log(value of the source).
    """

    target: int
    sources: tuple[int, ...]
    weights: tuple[float, ...]
    offset: float
    is_product: bool = False

    @property
    def is_finite(self) -> bool:
        """Whether single precision can hold its weights and offset."""
        single = torch.finfo(torch.float32)
        return abs(self.offset) < single.max and all(single.tiny < abs(weight) < single.max for weight in self.weights)

    def tolerance(self, unit: AffineUnit) -> float:
        """Return the largest rounding error of a prediction near the mean: in single precision, or half a step."""
        if self.is_product:
            return STEP_TOLERANCE * unit.step / unit.scale
        return SUM_ROUNDING * (1 + abs(self.offset) + TYPICAL_RANGE * sum(map(abs, self.weights)))

    def is_representable(self, unit: AffineUnit) -> bool:
        """Return whether single precision can distinguish the prediction from its neighbours at the resolution."""
        if self.is_product:
            return PRODUCT_ROUNDING * (abs(unit.zero) + TYPICAL_RANGE) < MAX_PRODUCT_ERROR
        return unit.step == 0 or unit.step / unit.scale > 2 * self.tolerance(unit) + TYPICAL_RANGE * SUM_ROUNDING


class RelationValues(NamedTuple):
    """The predictions of k relations in n rows."""

    relation_index: Tensor  # the index of each relation in its bank, (k,)
    target: Tensor  # the numeric column that each predicts, (k,)
    observed: Tensor  # whether all sources are observed, and positive for a product, (n, k)
    values: Tensor  # the predicted values, (n, k)

    def first(self, rows: int) -> RelationValues:
        """Return the predictions of the first rows."""
        return RelationValues(self.relation_index, self.target, self.observed[:rows], self.values[:rows])


class RelationBank(nn.Module):
    """At most `per_column` relations for each of `n_columns` numeric columns.

    Relation i predicts column i // per_column. Its weights are those of all standardised values, then of the logarithms
    of all values: (n_columns * per_column, 2 * n_columns).
    """

    weights: Tensor
    offsets: Tensor
    tolerances: Tensor
    fractions: Tensor
    zeros: Tensor

    def __init__(self, n_columns: int, per_column: int) -> None:
        super().__init__()
        self.n_columns, self.per_column = n_columns, per_column
        self.register_buffer("weights", torch.zeros(len(self), 2 * n_columns))
        for name in ("offsets", "tolerances", "fractions"):
            self.register_buffer(name, torch.zeros(len(self)))
        self.register_buffer("zeros", torch.zeros(n_columns))

    def __len__(self) -> int:
        return self.n_columns * self.per_column

    @property
    def is_product(self) -> Tensor:
        """Whether each relation is a product, (n_columns * per_column,)."""
        return (self.weights[:, self.n_columns :] != 0).any(dim=1)

    def predict(self, values: Tensor, observed: Tensor) -> RelationValues:
        """Evaluate the stored relations on standardised values and the mask of observed ones, both (n, n_columns)."""
        stored = (self.weights != 0).any(dim=1).nonzero()[:, 0]
        weights, target = self.weights[stored], stored.div(self.per_column, rounding_mode="floor")
        is_product = self.is_product[stored]
        if not is_product.any():
            weights, inputs, available = weights[:, : self.n_columns], values, observed
        else:
            from_zero = values - self.zeros
            inputs = torch.cat([values, from_zero.clamp(min=MIN_POSITIVE).log()], dim=1)
            available = torch.cat([observed, observed & (from_zero > MIN_POSITIVE)], dim=1)
        needed = (weights != 0).to(values.dtype)
        has_sources = available.to(values.dtype) @ needed.T == needed.sum(dim=1)
        predicted = torch.addmm(self.offsets[stored], inputs, weights.T)
        products = self.zeros[target] + predicted.clamp(max=MAX_LOG_PREDICTION).exp()
        predicted = torch.where(is_product, products, predicted)
        return RelationValues(stored, target, has_sources, predicted.clamp(-MAX_PREDICTION, MAX_PREDICTION))

    def matches(self, predicted: Tensor, values: Tensor, index: Tensor) -> Tensor:
        """Return whether values equal the predictions of relations `index`, up to rounding. All shapes broadcast."""
        is_product = self.is_product[index]
        rounding = torch.where(is_product, PRODUCT_ROUNDING, SUM_ROUNDING)
        zeros = self.zeros[index.div(self.per_column, rounding_mode="floor")] * is_product
        return (predicted - values).abs() <= self.tolerances[index] + rounding * (values.abs() + zeros.abs())

    def formulas(self, units: Mapping[int, AffineUnit]) -> dict[int, Formula]:
        """Return the stored relations in the table's units, by their index."""
        stored = (self.weights != 0).any(dim=1).nonzero()[:, 0].tolist()
        return {index: self._formula(index, units) for index in stored}

    def _formula(self, index: int, units: Mapping[int, AffineUnit]) -> Formula:
        signs, powers = self.weights[index].double().view(2, self.n_columns)
        if signs.any():
            sources = signs.nonzero()[:, 0].tolist()
            return Formula(tuple(sources), tuple(signs[sources].sign().tolist()), None)
        sources = powers.nonzero()[:, 0].tolist()
        log_factor = float(self.offsets[index]) + math.log(units[index // self.per_column].scale)
        log_factor -= sum(float(powers[source]) * math.log(units[source].scale) for source in sources)
        factor = math.exp(max(-MAX_LOG_FACTOR, min(log_factor, MAX_LOG_FACTOR)))
        factor = 1.0 if abs(factor - 1) < UNIT_FACTOR_TOLERANCE else factor
        return Formula(tuple(sources), tuple(powers[sources].tolist()), factor)

    @torch.no_grad()
    def store(self, relations: Iterable[tuple[Relation, float]], units: Mapping[int, AffineUnit]) -> None:
        """Store the first relations of each column, each with the fraction of rows in which it holds."""
        for buffer in self.buffers():
            buffer.zero_()
        for column, unit in units.items():
            self.zeros[column] = max(-MAX_ZERO, min(unit.zero, MAX_ZERO))
        n_stored = [0] * self.n_columns
        for relation, fraction in relations:
            target = relation.target
            if n_stored[target] < self.per_column:
                index = target * self.per_column + n_stored[target]
                n_stored[target] += 1
                sources = [source + self.n_columns * relation.is_product for source in relation.sources]
                self.weights[index, sources] = self.weights.new_tensor(relation.weights)
                self.offsets[index], self.tolerances[index] = relation.offset, relation.tolerance(units[target])
                self.fractions[index] = fraction

    def validate_state(self) -> None:
        """Raise ValueError if a buffer is not finite."""
        if not all(buffer.isfinite().all() for buffer in self.buffers()):
            raise ValueError("the relations between numeric columns are not finite")
