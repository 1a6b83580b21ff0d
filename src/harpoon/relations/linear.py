"""Search for linear equations between columns: sums of many columns, added constants, affine maps, spans of time.

Values are in double precision, as `RowCodec.quantity_values` gives them. A search is a screening by regression on some
rows; what it proposes is then judged on all rows, exactly up to the resolution of the columns. Values are centred, so
that large integers such as order numbers stay exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from typing import NamedTuple

import torch
from torch import Tensor

from harpoon.data import MAX_EXACT_INTEGER
from harpoon.encoding.units import DIMENSIONLESS, AffineUnit
from harpoon.relations.formula import HALF_STEP, LENGTHS
from harpoon.relations.relation import MAX_PREDICTION_ERROR, SUM_ROUNDING, Relation, stored_constant

MAX_COLUMNS = 128  # wider tables are not searched
MAX_TIMES = 16  # columns of dates and datetimes whose differences are searched
MAX_TERMS, MAX_PICKS = 12, 16  # sources of a sum, and columns that a search of them tries
MAX_FIT_ROWS = 1024
MIN_ROWS = 20  # with all values of an equation
MIN_VARIED_ROWS = 8  # in which a column of an equation differs from its most frequent value
MIN_FRACTION, ALWAYS_FRACTION = 0.8, 0.99  # of the rows in which an equation holds
MIN_COPY_FRACTION = 0.01  # of the rows in which a column of a sum of two is a copy of another
SUM_OF_TWO = 3  # columns of its equation
MIN_VARIED_FRACTION = 0.8  # of the rows in which a column differs from its most frequent value
MIN_EXPLAINED_VARIANCE = 0.8  # of a column by all others, before its sums are searched
MIN_GAIN = 1e-3  # by which an equation of more terms must hold in more rows
MAX_COEFFICIENT_ERROR = 0.3  # a fitted coefficient is 1, -1 or 0 if it is this close
MIN_AFFINE_CORRELATION, MIN_SPAN_CORRELATION, MIN_COUNT_CORRELATION = 0.9995, 0.5, 0.9
TRIMMING_STEPS = 3  # of least trimmed squares (Rousseeuw, 1984)
MAX_COLLINEARITY = 1e-7
MAX_DENOMINATORS = (1, 10, 100, 1000)  # of coefficients that are fractions
SIGNIFICANT_DIGITS = 9  # of constants
ROUNDING_NOISE = 1e-3  # steps: a larger difference means that a value is rounded
MAX_ROUNDING_ERROR = 0.25  # steps: with a larger one, a false equation would hold, too


class Equation(NamedTuple):
    """Σ coefficient * value = constant."""

    columns: tuple[int, ...]
    coefficients: tuple[float, ...]
    constant: float

    @property
    def signature(self) -> tuple[object, ...]:
        """A key that equations of the same columns and signs share."""
        ordered = sorted(zip(self.columns, self.coefficients, strict=True))
        first = ordered[0][1]
        return tuple((column, round(coefficient / first, 6)) for column, coefficient in ordered)


class LinearSearch:
    """Search for linear equations that hold in most rows.

    Args:
        values: In double precision, (n, columns).
        observed: Which of them are observed, (n, columns).
        units: The units of the columns that have one.
        n_ranked: The number of columns with a normal score. The other ones have few values.
    """

    def __init__(self, values: Tensor, observed: Tensor, units: Mapping[int, AffineUnit], n_ranked: int) -> None:
        self.observed, self.units, self.n_ranked, self.sizes = observed, units, n_ranked, values.abs()
        self.origins = ((values * observed).sum(dim=0) / observed.sum(dim=0).clamp(min=1)).round()
        self.input_errors = _rounding_errors(values * observed)
        self.values = values = (values - self.origins) * observed  # exact for integers
        self.varied = observed & (values != _modes(values, observed))
        rows = slice(None, None, max(1, len(values) // MAX_FIT_ROWS))
        self.mask = observed[rows].double()
        self.mean = (values[rows] * self.mask).sum(dim=0) / self.mask.sum(dim=0).clamp(min=1)
        self.x = (values[rows] - self.mean) * self.mask  # 0 where a value is missing
        self.scale = ((self.x**2).sum(dim=0) / self.mask.sum(dim=0).clamp(min=1)).sqrt()

    def relations(self) -> list[Relation]:
        """Return the equations solved for each of their columns, where they hold often enough."""
        if len(self.units) > MAX_COLUMNS:
            return []
        found: dict[tuple[object, ...], Equation] = {}
        for equation in (*self._sums(), *self._affine_maps(), *self._shifts(), *self._spans(), *self._counts()):
            found.setdefault(equation.signature, equation)
        solved = [self.solve(equation, target) for equation in found.values() for target in equation.columns]
        pairs = ((equation, *pair) for equation in found.values() for pair in permutations(equation.columns, 2))
        copies = [self._copy(*pair) for pair in pairs]
        return [relation for relation in [*solved, *copies] if relation is not None]

    def solve(self, equation: Equation, target: int) -> Relation | None:
        """Return an equation solved for one column, or None if it does not hold often enough.

        A column with few values must be determined: its other values are categories, which the network predicts.
        """
        residual, rows = self._residual(equation, target)
        holds, unit = residual.abs() <= self._tolerance(equation, target), self.units[target]
        applicable, varied = rows.sum(), rows & self.varied[:, target]
        wrong, n_varied = (rows & ~holds).sum(), varied.sum()
        always = bool(wrong <= (1 - ALWAYS_FRACTION) * n_varied)
        often = bool(wrong <= (1 - MIN_FRACTION) * n_varied) and target < self.n_ranked
        if applicable < MIN_ROWS or n_varied < MIN_VARIED_ROWS or not (always or often):
            return None
        others = [(c, a) for c, a in zip(equation.columns, equation.coefficients, strict=True) if c != target]
        own = dict(zip(equation.columns, equation.coefficients, strict=True))[target] * self._tick(target)
        differs = bool((residual[rows & holds].abs() > ROUNDING_NOISE * unit.step * self._tick(target)).any())
        constant = equation.constant / own
        if abs(stored_constant(constant) - constant) > MAX_ROUNDING_ERROR * unit.step and unit.step:
            return None
        relation = Relation.linear(
            self.units,
            target,
            [column for column, _ in others],
            [-coefficient * self._tick(column) / own for column, coefficient in others],
            constant,
            is_rounded=differs and unit.step > 0,
            is_judged=always,
            fraction=1 - float(wrong / applicable),
        )
        return relation if relation.is_finite else None

    def _copy(self, equation: Equation, target: int, source: int) -> Relation | None:
        """Return where a column of a sum of two equals another column: where the third is 0. None if it rarely is.

        A payment is the whole loan where the balance is 0. A balance that is computed would otherwise hardly ever be 0.
        """
        if len(equation.columns) != SUM_OF_TWO or target >= self.n_ranked or self._is_time(target):
            return None
        terms = dict(zip(equation.columns, equation.coefficients, strict=True))
        copy = Equation((target, source), (terms[target], terms[source]), equation.constant)
        residual, rows = self._residual(copy, target)
        holds = rows & (residual.abs() <= self._tolerance(copy, target))
        if int(holds.sum()) < max(MIN_ROWS, MIN_COPY_FRACTION * int(rows.sum())):
            return None
        own, other = terms[target] * self._tick(target), terms[source] * self._tick(source)
        fraction = float(holds.sum() / rows.sum())
        relation = Relation.linear(
            self.units, target, [source], [-other / own], copy.constant / own, is_judged=True, fraction=fraction
        )
        return relation if relation.is_finite else None

    def _tick(self, column: int) -> int:
        return self.units[column].nanoseconds or 1

    def _residual(self, equation: Equation, target: int) -> tuple[Tensor, Tensor]:
        """Return what is missing in a column, (n,), and the rows that have all values, (n,)."""
        columns = list(equation.columns)
        coefficients = self.values.new_tensor(equation.coefficients)
        own = equation.coefficients[columns.index(target)]
        total = self.values[:, columns] @ coefficients + self._shift(equation)
        return total / own, self.observed[:, columns].all(dim=1)

    def _shift(self, equation: Equation) -> float:
        """Return Σ coefficient * origin - constant, computed exactly and then rounded once."""
        origins = self.origins[list(equation.columns)].tolist()
        terms = zip(equation.coefficients, origins, strict=True)
        return float(sum(Fraction(factor) * Fraction(origin) for factor, origin in terms) - Fraction(equation.constant))

    def _tolerance(self, equation: Equation, target: int) -> Tensor:
        """Return by how much a column may differ in each row, (n,): half a step, or rounding errors.

        It is negative, so that the equation does not hold, where rounding errors hide the resolution of the column. In
        a column without a resolution, it is small beside the spread.
        """
        unit, columns, tick = self.units[target], list(equation.columns), self._tick(target)
        own = abs(equation.coefficients[columns.index(target)])
        factors = self.values.new_tensor(equation.coefficients).abs() / own
        if not unit.step:
            rounding = SUM_ROUNDING * (self.sizes[:, columns] @ factors + unit.scale)
            return rounding.clamp(max=MAX_PREDICTION_ERROR * unit.scale * tick)
        sizes = self.values[:, columns].abs() @ factors + abs(self._shift(equation)) / own
        step = self._step(equation, target)
        rounding = torch.finfo(sizes.dtype).eps * sizes + self.input_errors[columns] @ factors
        return (HALF_STEP * step + rounding).masked_fill(rounding > MAX_ROUNDING_ERROR * step, -1)

    def _step(self, equation: Equation, target: int) -> float:
        """Return the resolution at which an equation must hold for a column: of timestamps, that of the finest one.

        A time on the full hour is another time less 34 minutes up to half an hour also where the time between the two
        is anything.
        """
        times = [column for column in equation.columns if self._is_time(column)] if self._is_time(target) else []
        return min(self.units[column].step * self._tick(column) for column in {target, *times})

    def _is_time(self, column: int) -> bool:
        return bool(self.units[column].nanoseconds) and not self.units[column].additive

    def _fraction(self, equation: Equation) -> float:
        """Return the fraction of rows in which an equation holds for its first column; 0 if a column hardly varies."""
        residual, rows = self._residual(equation, equation.columns[0])
        holds = rows & (residual.abs() <= self._tolerance(equation, equation.columns[0]))
        for column in equation.columns:
            varied = rows & self.varied[:, column]
            n_varied = int(varied.sum())
            if n_varied < MIN_VARIED_ROWS or (holds & varied).sum() < MIN_VARIED_FRACTION * n_varied:
                return 0.0
        return float(holds.sum() / rows.sum()) if rows.sum() >= MIN_ROWS else 0.0

    def _with_constant(self, columns: Sequence[int], coefficients: Sequence[float]) -> tuple[Equation, float]:
        """Return the equation whose constant makes it hold in most rows, and their fraction; 0 is preferred."""
        equation = Equation(tuple(columns), tuple(coefficients), 0.0)
        residual, rows = self._residual(equation, columns[0])
        if rows.sum() < MIN_ROWS:
            return equation, 0.0
        median = float(residual[rows].median()) * coefficients[0]
        step = self.units[columns[0]].step * self._tick(columns[0]) * abs(coefficients[0])
        rounded = round(median / step) * step if step else float(f"{median:.{SIGNIFICANT_DIGITS}g}")
        best = equation, self._fraction(equation)
        for constant in (float(f"{rounded:.12g}"), median):
            other = equation._replace(constant=constant)
            fraction = self._fraction(other)
            best = (other, fraction) if fraction > best[1] + MIN_GAIN else best
        return best

    def _group(self, *, plain: bool) -> list[int]:
        return [
            column
            for column, unit in self.units.items()
            if unit.additive and (unit.kind == DIMENSIONLESS) == plain and self.scale[column] > 0
        ]

    def _sums(self) -> Iterator[Equation]:
        """Yield sums of signed columns of the same kind, and a constant."""
        for plain in (True, False):
            columns = self._group(plain=plain)
            for target in self._explained(columns):
                equation = self._sum(target, columns)
                if equation is not None and not self._is_dependency(equation.columns):
                    yield equation

    def _is_dependency(self, columns: Sequence[int]) -> bool:
        """Return whether two columns with few values are related: their labels determine each other already."""
        return len(columns) == 2 and min(columns) >= self.n_ranked  # noqa: PLR2004

    def _explained(self, columns: list[int]) -> list[int]:
        """Return the columns that a regression on all others explains; all of them if too few rows are complete."""
        complete = self.mask[:, columns].all(dim=1)
        if len(columns) < 2 or complete.sum() < 3 * len(columns) + MIN_ROWS:  # noqa: PLR2004
            return columns if len(columns) > 1 else []
        x = self.x[complete][:, columns]
        x = (x - x.mean(dim=0)) / self.scale[columns]
        gram = x.T @ x / len(x)
        inverse = torch.linalg.pinv(gram + MAX_COLLINEARITY * torch.eye(len(columns), dtype=x.dtype), hermitian=True)
        unexplained = 1 / (inverse.diagonal() * gram.diagonal()).clamp(min=1)
        return [
            column
            for column, part in zip(columns, unexplained.tolist(), strict=True)
            if part < 1 - MIN_EXPLAINED_VARIANCE
        ]

    def _sum(self, target: int, columns: Sequence[int]) -> Equation | None:
        """Return the sum that equals a column in most rows (orthogonal matching pursuit; Pati et al., 1993)."""
        best, best_fraction = None, MIN_FRACTION - MIN_GAIN
        for chosen, coefficients in self._pursuit(target, columns):
            signs = coefficients.round().clamp(-1, 1)
            used = [(column, -sign) for column, sign in zip(chosen, signs.tolist(), strict=True) if sign]
            if not used or len(used) > MAX_TERMS or (coefficients - signs).abs().max() > MAX_COEFFICIENT_ERROR:
                continue
            equation, fraction = self._with_constant([target, *(c for c, _ in used)], [1.0, *(s for _, s in used)])
            if fraction > best_fraction + MIN_GAIN:
                best, best_fraction = equation, fraction
            if fraction == 1:
                break
        return best

    def _pursuit(self, target: int, columns: Sequence[int]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield columns with fitted coefficients, one column more each time: the one that the residual is most like."""
        open_columns = [column for column in columns if column != target]
        rows, chosen, residual = self.mask[:, target] > 0, [], self.x[:, target]  # type: Tensor, list[int], Tensor
        while open_columns and len(chosen) < MAX_PICKS:
            x = self.x[:, open_columns]
            norms = ((residual**2) @ self.mask[:, open_columns] * (rows.double() @ x**2)).sqrt()
            column = open_columns.pop(int(((residual @ x).abs() / norms.clamp(min=1e-300)).argmax()))
            together = rows & (self.mask[:, column] > 0)
            if together.sum() < MIN_ROWS + 2 * len(chosen):
                continue
            fitted = self._fit(target, [*chosen, column], together)
            if fitted is None:
                continue
            rows, chosen = together, [*chosen, column]
            yield chosen, fitted
            residual = (self.x[:, target] - self.x[:, chosen] @ fitted) * rows
            residual = (residual - residual.sum() / rows.sum()) * rows

    def _fit(self, target: int, chosen: list[int], rows: Tensor) -> Tensor | None:
        """Return coefficients by least trimmed squares, (len(chosen),): some rows may be different. None: collinear."""
        x, y = self.x[rows][:, chosen] / self.scale[chosen], self.x[rows, target] / self.scale[target]
        x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
        kept, solution = torch.ones(len(x), dtype=torch.bool), x.new_zeros(x.shape[1])
        for step in range(1 + TRIMMING_STEPS):
            q, r = torch.linalg.qr(x[kept])
            if r.diagonal().abs().min() < MAX_COLLINEARITY * len(x) ** 0.5:
                if not step:
                    return None
                break  # the rows that are left are too few
            solution = torch.linalg.solve_triangular(r, (q.T @ y[kept])[:, None], upper=True)[:, 0]
            errors = (y - x @ solution).abs()
            if errors.max() < MAX_COLLINEARITY:
                break
            kept = errors <= errors.quantile(1 - (1 - MIN_FRACTION) * (step + 1) / TRIMMING_STEPS)
        return solution[:-1] * self.scale[target] / self.scale[chosen]

    def _correlations(self, columns: Sequence[int]) -> Tensor:
        """Return the correlations of columns on the rows where both are observed."""
        x, mask = self.x[:, columns] / self.scale[columns].clamp(min=1e-300), self.mask[:, columns]
        count = (mask.T @ mask).clamp(min=1)
        mean = x.T @ mask / count  # of each column where the other is observed
        covariance = x.T @ x / count - mean * mean.T
        variance = (x**2).T @ mask / count - mean**2
        return covariance / (variance * variance.T).sqrt().clamp(min=1e-300)

    def _affine_maps(self) -> Iterator[Equation]:
        """Yield y - c x = d for pairs of numbers with a correlation of almost 1."""
        columns = self._group(plain=True)
        if len(columns) < 2:  # noqa: PLR2004
            return
        close = self._correlations(columns).abs() > MIN_AFFINE_CORRELATION
        for i, j in close.triu(diagonal=1).nonzero().tolist():
            pair = columns[i], columns[j]
            rows = self.mask[:, list(pair)].all(dim=1)
            fitted = self._fit(pair[1], [pair[0]], rows) if rows.sum() >= MIN_ROWS else None
            if fitted is None or self._is_dependency(pair):
                continue
            slope = float(fitted[0])
            fractions = [float(Fraction(slope).limit_denominator(most)) for most in MAX_DENOMINATORS]
            for coefficient in (*fractions, slope):
                equation, fraction = self._with_constant(pair[::-1], (1.0, -coefficient))
                if coefficient and fraction >= ALWAYS_FRACTION:
                    yield equation
                    break

    @property
    def _times(self) -> list[int]:
        times = [column for column in self.units if self._is_time(column)]
        return [column for column in times if self.scale[column] > 0][:MAX_TIMES]

    def _shifts(self) -> Iterator[Equation]:
        """Yield times that are a constant apart."""
        for one, other in combinations(self._times, 2):
            equation, fraction = self._with_constant((one, other), (1.0, -1.0))
            if fraction >= MIN_FRACTION and not self._is_dependency((one, other)):
                yield equation

    def _spans(self) -> Iterator[Equation]:
        """Yield durations, and numbers of days, hours and so on, that are the difference of two times."""
        lengths = [*self._group(plain=True), *self._group(plain=False)]
        for one, other in combinations(self._times, 2):
            span = (self.x[:, one] - self.x[:, other]) * self.mask[:, one] * self.mask[:, other]
            both = self.mask[:, [one, other]].prod(dim=1)
            span = (span - span.sum() / both.sum().clamp(min=1)) * both
            norms = (span.norm() * (both @ self.x[:, lengths] ** 2).sqrt()).clamp(min=1e-300)
            correlations = (span @ self.x[:, lengths] / norms).tolist()
            for length, correlation in zip(lengths, correlations, strict=True):
                if abs(correlation) > MIN_SPAN_CORRELATION:
                    ends = (one, other) if correlation > 0 else (other, one)
                    yield from self._span(length, *ends)

    def _counts(self) -> Iterator[Equation]:
        """Yield numbers of days, hours and so on that a duration is counted in."""
        numbers, durations = (self._group(plain=plain) for plain in (True, False))
        if not numbers or not durations:
            return
        close = self._correlations([*numbers, *durations])[: len(numbers), len(numbers) :] > MIN_COUNT_CORRELATION
        for i, j in close.nonzero().tolist():
            pair = numbers[i], durations[j]
            found = [self._with_constant(pair, (float(unit), -1.0)) for unit in LENGTHS]
            equation, fraction = max(found, key=lambda each: each[1])
            if fraction >= MIN_FRACTION and not self._is_dependency(pair):
                yield equation

    def _span(self, length: int, end: int, start: int) -> Iterator[Equation]:
        """Yield the equation of a length between two times, in the unit in which it holds in most rows."""
        units = (1,) if self.units[length].nanoseconds else LENGTHS
        found = [self._with_constant((length, end, start), (float(unit), -1.0, 1.0)) for unit in units]
        equation, fraction = max(found, key=lambda each: each[1])
        if fraction >= MIN_FRACTION:
            yield equation


def _rounding_errors(values: Tensor) -> Tensor:
    """Return by how much values may differ from those of the table, (columns,): integers are exact."""
    sizes = values.abs().amax(dim=0) if len(values) else values.new_zeros(values.shape[1])
    exact = (values == values.round()).all(dim=0) & (sizes <= MAX_EXACT_INTEGER)
    return torch.where(exact, 0.0, torch.finfo(values.dtype).eps * sizes)


def _modes(values: Tensor, observed: Tensor) -> Tensor:
    """Return the most frequent observed value of each column, (columns,)."""
    modes = [
        values[observed[:, column], column].mode().values if observed[:, column].any() else values.new_zeros(())
        for column in range(values.shape[1])
    ]
    return torch.stack(modes) if modes else values.new_zeros(0)
