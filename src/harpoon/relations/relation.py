"""Relations between numeric columns: a value that is determined by other values of the row.

A relation is a copy (x = y), a sum of signed columns and a constant (x = y - z + 6), an affine map (x = 1.8 y + 32), or
a product of powers (x = c yᵃ zᵇ), in the table's units. Relations are searched in the training rows
(`harpoon.relations.search`).

Numeric columns are numbered as in `RowCodec.quantities`: those with a normal score, then those with few values. Values
are standardised unless stated otherwise. A value in standard deviations is the standardised value minus that of zero,
`AffineUnit.zero`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from harpoon.encoding import AffineUnit
from harpoon.relations.formula import HALF_STEP, LENGTHS, Formula

MIN_POSITIVE = 1e-9  # standard deviations: smaller values have no logarithm
TYPICAL_RANGE = 3.0  # standard deviations from the mean
SUM_ROUNDING, PRODUCT_ROUNDING = 4e-7, 3e-6  # relative difference of equal values in single precision
MAX_PREDICTION_ERROR = 0.01  # standard deviations: a prediction in single precision must be closer
MAX_ZERO = 1e30  # standardised value of zero, within single precision
MAX_LOG_FACTOR = 700.0
UNIT_FACTOR_TOLERANCE = 1e-5  # factors this close to 1 are 1
MAX_PREDICTION, MAX_LOG_PREDICTION = 1e4, 20.0  # predicted values are clipped to this


class Relation(NamedTuple):
    """A value as a function of others.

    A sum is linear in standardised values: offset + Σ weight * value. A product is linear in the logarithms of values
    in standard deviations; its weights are powers: log(value) = offset + Σ weight * log(value of the source).
    """

    target: int
    sources: tuple[int, ...]
    weights: tuple[float, ...]
    offset: float
    is_product: bool = False
    coefficients: tuple[float, ...] = ()  # of a sum in the table's units
    constant: float = 0.0  # of a sum in the table's units
    is_rounded: bool = False  # whether a sum may be rounded to the resolution of its column
    is_judged: bool = False  # whether it holds as often as it should, judged in double precision
    fraction: float | None = None  # of the rows in which it holds, judged in double precision; None: not judged

    @classmethod
    def linear(
        cls,
        units: Mapping[int, AffineUnit],
        target: int,
        sources: Sequence[int],
        coefficients: Sequence[float],
        constant: float = 0.0,
        *,
        is_rounded: bool = False,
        is_judged: bool = False,
        fraction: float | None = None,
    ) -> Relation:
        """Return a linear combination in the table's units as a linear function of standardised values."""
        source_units, scale = [units[source] for source in sources], units[target].scale
        weights = tuple(c * (unit.scale / scale) for unit, c in zip(source_units, coefficients, strict=True))
        zeros = sum(weight * unit.zero for unit, weight in zip(source_units, weights, strict=True))
        offset = units[target].zero - zeros + constant / scale
        return cls(
            target,
            tuple(sources),
            weights,
            offset,
            coefficients=tuple(map(float, coefficients)),
            constant=float(constant),
            is_rounded=is_rounded,
            is_judged=is_judged,
            fraction=fraction,
        )

    @property
    def is_finite(self) -> bool:
        """Whether single precision can hold its weights, coefficients and offset."""
        single, factors = torch.finfo(torch.float32), (*self.weights, *self.coefficients)
        return abs(self.offset) < single.max and all(single.tiny < abs(factor) < single.max for factor in factors)

    def tolerance(self, unit: AffineUnit) -> float:
        """Return the largest rounding error of a prediction near the mean: in single precision, or half a step."""
        half_step = HALF_STEP * unit.step / unit.scale
        if self.is_product:
            return half_step
        rounding = _sum_rounding(self.offset, self.weights)
        return rounding + half_step if self.is_rounded else rounding

    def is_representable(self, unit: AffineUnit) -> bool:
        """Return whether single precision can distinguish the prediction from its neighbours at the resolution."""
        if self.is_product:
            return PRODUCT_ROUNDING * (abs(unit.zero) + TYPICAL_RANGE) < MAX_PREDICTION_ERROR
        if self.is_rounded:
            return self._replace(is_rounded=False).is_representable(unit)
        if unit.step == 0:  # no neighbours, but the error must not hide the spread of the column
            return self.tolerance(unit) < MAX_PREDICTION_ERROR
        return unit.step / unit.scale > 2 * self.tolerance(unit) + TYPICAL_RANGE * SUM_ROUNDING


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
    """At most `per_column` relations for each of `n_columns` numeric columns, which `first` others precede.

    Relation i predicts column first + i // per_column. Its weights are those of the standardised values of all
    `n_sources` columns, then of the logarithms of all values: (n_columns * per_column, 2 * n_sources). Coefficients and
    constants in the table's units are sums of two numbers of single precision each.
    """

    weights: Tensor
    offsets: Tensor
    tolerances: Tensor
    fractions: Tensor
    zeros: Tensor
    coefficients: Tensor
    constants: Tensor

    def __init__(self, n_columns: int, per_column: int, *, n_sources: int | None = None, first: int = 0) -> None:
        super().__init__()
        self.n_columns, self.per_column, self.first = n_columns, per_column, first
        self.n_sources = n_columns if n_sources is None else n_sources
        self.register_buffer("weights", torch.zeros(len(self), 2 * self.n_sources))
        for name in ("offsets", "tolerances", "fractions"):
            self.register_buffer(name, torch.zeros(len(self)))
        self.register_buffer("zeros", torch.zeros(self.n_sources))
        self.register_buffer("coefficients", torch.zeros(2, len(self), self.n_sources))
        self.register_buffer("constants", torch.zeros(2, len(self)))

    def __len__(self) -> int:
        return self.n_columns * self.per_column

    @property
    def is_product(self) -> Tensor:
        """Whether each relation is a product, (n_columns * per_column,)."""
        return (self.weights[:, self.n_sources :] != 0).any(dim=1)

    @property
    def stored(self) -> Tensor:
        """The indices of the relations that there are, (k,)."""
        return (self.weights != 0).any(dim=1).nonzero()[:, 0]

    def target(self, index: Tensor) -> Tensor:
        """Return the columns that relations predict."""
        return index.div(self.per_column, rounding_mode="floor") + self.first

    def predict(self, values: Tensor, observed: Tensor) -> RelationValues:
        """Evaluate the stored relations on standardised values and the mask of observed ones, both (n, n_sources)."""
        stored, zeros = self.stored, self.zeros
        weights, target = self.weights[stored].view(len(stored), 2, self.n_sources), self.target(stored)
        is_product = self.is_product[stored]
        if not weights[:, :, self.n_columns :].any():  # columns with few values are no sources
            width = self.n_columns
            weights, values, observed, zeros = (
                weights[:, :, :width],
                values[:, :width],
                observed[:, :width],
                zeros[:width],
            )
        if not is_product.any():
            weights, inputs, available = weights[:, 0], values, observed
        else:
            from_zero = values - zeros
            inputs = torch.cat([values, from_zero.clamp(min=MIN_POSITIVE).log()], dim=1)
            available = torch.cat([observed, observed & (from_zero > MIN_POSITIVE)], dim=1)
            weights = weights.flatten(1)
        needed = (weights != 0).to(values.dtype)
        has_sources = available.to(values.dtype) @ needed.T == needed.sum(dim=1)
        predicted = torch.addmm(self.offsets[stored], inputs, weights.T)
        products = self.zeros[target] + predicted.clamp(max=MAX_LOG_PREDICTION).exp()
        predicted = torch.where(is_product, products, predicted)
        return RelationValues(stored, target, has_sources, predicted.clamp(-MAX_PREDICTION, MAX_PREDICTION))

    def matches(self, predicted: Tensor, values: Tensor, index: Tensor) -> Tensor:
        """Return whether values equal the predictions of relations `index`, up to rounding. All shapes broadcast."""
        return (predicted - values).abs() <= self.rounding_errors(values, index)

    def rounding_errors(self, values: Tensor, index: Tensor) -> Tensor:
        """Return by how much values may differ from the predictions of relations `index` and count as equal."""
        is_product = self.is_product[index]
        rounding = torch.where(is_product, PRODUCT_ROUNDING, SUM_ROUNDING)
        zeros = self.zeros[self.target(index)] * is_product
        return self.tolerances[index] + rounding * (values.abs() + zeros.abs())

    def formulas(self, units: Mapping[int, AffineUnit]) -> dict[int, Formula]:
        """Return the stored relations in the table's units, by their index."""
        return {index: self._formula(index, units) for index in self.stored.tolist()}

    def frequent_formulas(self, units: Mapping[int, AffineUnit], min_fraction: float) -> list[Formula]:
        """Return the stored relations that hold in at least a fraction of the rows."""
        fractions = self.fractions.tolist()
        return [formula for index, formula in self.formulas(units).items() if fractions[index] >= min_fraction]

    def _formula(self, index: int, units: Mapping[int, AffineUnit]) -> Formula:
        column = self.first + index // self.per_column
        target = units[column]
        signs, powers = self.weights[index].double().view(2, self.n_sources)
        if signs.any():
            sources, coefficients = signs.nonzero()[:, 0].tolist(), _join(self.coefficients[:, index])
            weights = [coefficients[source] for source in sources]
            counted = _counted(target, [(units[s], weight) for s, weight in zip(sources, weights, strict=True)])
            constant = _join(self.constants[:, index, None])[0]
            rounding = _sum_rounding(float(self.offsets[index]), signs.tolist())
            is_rounded = (
                float(self.tolerances[index]) > rounding + HALF_STEP / 2 * target.step / target.scale > rounding
            )
            return Formula(
                column, tuple(sources), tuple(weights), None, constant, counted, target.nanoseconds, is_rounded
            )
        sources = powers.nonzero()[:, 0].tolist()
        log_factor = float(self.offsets[index]) + math.log(target.scale)
        log_factor -= sum(float(powers[source]) * math.log(units[source].scale) for source in sources)
        factor = math.exp(max(-MAX_LOG_FACTOR, min(log_factor, MAX_LOG_FACTOR)))
        factor = 1.0 if abs(factor - 1) < UNIT_FACTOR_TOLERANCE else factor
        return Formula(column, tuple(sources), tuple(powers[sources].tolist()), factor)

    @torch.no_grad()
    def store(
        self, relations: Iterable[tuple[Relation, float]], units: Mapping[int, AffineUnit]
    ) -> dict[int, Relation]:
        """Store the first relations of each column, each with the fraction of rows in which it holds.

        Returns them by their index.
        """
        for buffer in self.buffers():
            buffer.zero_()
        for column, unit in units.items():
            self.zeros[column] = max(-MAX_ZERO, min(unit.zero, MAX_ZERO))
        n_stored, stored = [0] * self.n_columns, {}
        for relation, fraction in relations:
            target = relation.target - self.first
            if n_stored[target] < self.per_column:
                index = target * self.per_column + n_stored[target]
                n_stored[target] += 1
                sources = [source + self.n_sources * relation.is_product for source in relation.sources]
                self.weights[index, sources] = self.weights.new_tensor(relation.weights)
                self.offsets[index] = relation.offset
                self.tolerances[index] = relation.tolerance(units[relation.target])
                self.fractions[index] = fraction
                if not relation.is_product:
                    self.coefficients[:, index, relation.sources] = _split(relation.coefficients)
                    self.constants[:, index] = _split([relation.constant])[:, 0]
                stored[index] = relation
        return stored

    def validate_state(self) -> None:
        """Raise ValueError if a buffer is not finite, or a weight of a sum has no coefficient."""
        if not all(buffer.isfinite().all() for buffer in self.buffers()):
            raise ValueError("the relations between numeric columns are not finite")
        if ((self.weights[:, : self.n_sources] != 0) & (self.coefficients.double().sum(dim=0) == 0)).any():
            raise ValueError("a sum of numeric columns has a weight without a coefficient")


def _sum_rounding(offset: float, weights: Sequence[float]) -> float:
    """Return the rounding error of a sum of values near the mean, in single precision."""
    return SUM_ROUNDING * (1 + abs(offset) + TYPICAL_RANGE * sum(map(abs, weights)))


def formulas_of(module: nn.Module, units: Mapping[int, AffineUnit], min_fraction: float) -> list[Formula]:
    """Return the relations of all banks of a network that hold in at least a fraction of the rows.

    Several banks may have the same relation.
    """
    banks = [bank for bank in module.modules() if isinstance(bank, RelationBank)]
    return [formula for bank in banks for formula in bank.frequent_formulas(units, min_fraction)]


def stored_constant(constant: float) -> float:
    """Return a constant to as many digits as a bank stores."""
    return _join(_split([constant]))[0]


def _split(numbers: Sequence[float]) -> Tensor:
    """Return numbers as sums of two numbers of single precision, (2, len(numbers)): 48 bits instead of 24."""
    double = torch.tensor(numbers, dtype=torch.float64)
    high = double.float()
    return torch.stack([high, (double - high.double()).float()])


def _join(parts: Tensor) -> list[float]:
    """Return the sums of `_split`, to as many digits as they have."""
    return [float(f"{number:.13g}") for number in parts.double().sum(dim=0).tolist()]


def _counted(target: AffineUnit, sources: Sequence[tuple[AffineUnit, float]]) -> str:
    """Return the unit of time that a number counts in a sum with times, or an empty string."""
    if target.nanoseconds:
        lengths = [abs(weight) * target.nanoseconds for unit, weight in sources if not unit.nanoseconds]
    else:
        lengths = [unit.nanoseconds / abs(weight) for unit, weight in sources if unit.nanoseconds]
    return LENGTHS.get(round(lengths[0]), "") if lengths else ""
