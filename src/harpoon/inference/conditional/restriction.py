"""One column restricted to the values with which a branch of a condition can still be satisfied.

Interval arithmetic says which cells of a column may hold such values, given the columns that are known and the ranges
of the others. An interval is divided until what is left of it is narrow. A value that an equation determines is
computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from harpoon.conditions import BoundPredicate, Branch, columns_of, evaluate
from harpoon.conditions.binding.bound import ColumnRef, Compare, all_of
from harpoon.conditions.evaluation.evaluate import evaluate_term
from harpoon.conditions.evaluation.interval_arithmetic import Interval, may_satisfy
from harpoon.data import Column, ColumnArray, Columns, Floats, Index, Mask, n_rows, take
from harpoon.inference.conditional.cell_distributions import CellDistribution, CellPredictor

PIECES, MAX_DIVISIONS = 32, 4  # of an interval, and how often it is divided
EQUALITY_WIDTH = 1e-6  # of the range of a column: how near a value must be to one that an equation determines
ATTEMPTS = 3  # to find a value inside an interval that satisfies what is decided


@dataclass(frozen=True)
class Restriction:
    """The parts of a branch that use a column, in one step of sampling."""

    predictor: CellPredictor
    branch: Branch

    @property
    def parts(self) -> list[BoundPredicate]:
        """The parts that use the column."""
        return [part for part in self.branch.parts if self.predictor.name in columns_of(part)]

    def sample(self, rows: Columns, cells: CellDistribution, uniforms: Floats) -> tuple[Columns, Floats]:
        """Sample the column in rows where it is unknown, from uniform random numbers, (3, n).

        Returns the rows and the probability of the values that are allowed, (n,).
        """
        solved = self._solve(rows)
        low, high = (np.broadcast_to(end, (n_rows(rows), end.shape[1])) for end in (cells.low, cells.high))
        allowed = self._may_satisfy(rows, cells.low, cells.high)
        p = cells.probabilities * allowed
        if solved is not None:
            inside = (low <= solved[:, None]) & (solved[:, None] <= high)
            p = p * np.where(low < high, inside * self._fraction(high - low), inside)
        weights: Floats = p.sum(axis=1)
        chosen = sample_index(p, uniforms[0])[:, None]
        low, high = (np.take_along_axis(end, chosen, axis=1)[:, 0] for end in (low, high))
        if solved is not None:
            values = np.where(low < high, solved, low)
        else:
            low, high, fraction = self._divide(rows, low, high, uniforms[1])
            values, weights = low + (high - low) * uniforms[2], weights * fraction
        filled = self._fill(rows, values, low, high)
        return self._exact(filled, cells, chosen[:, 0], is_point=low == high), weights

    def _may_satisfy(self, rows: Columns, low: Floats, high: Floats) -> Mask:
        """Return which cells, (n, m) or (1, m), may hold a value that satisfies the branch, (n, m)."""
        count, allowed = (n_rows(rows), low.shape[1]), np.ones((1, 1), dtype=np.bool_)
        for part in self.parts:
            others = {name: self._interval(rows, name) for name in columns_of(part) - {self.predictor.name}}
            is_alone = not others and len(low) == 1
            boxes = {**others, self.predictor.name: (low, high)}
            allowed = allowed & may_satisfy(part, boxes, (1, count[1]) if is_alone else count)
        return np.broadcast_to(allowed, count)

    def _interval(self, rows: Columns, name: str) -> Interval:
        """Return the least and the largest value that a column may have, (n, 1): its range where it is unknown."""
        cells, column = rows[name], self.predictor.sampler.codec.schema[name]
        values = np.where(cells.is_null, np.nan, cells.values.astype(np.float64))[:, None]
        least, largest = _range(column)
        unknown = cells.unknown[:, None]
        return np.where(unknown, least, values), np.where(unknown, largest, values)

    def _divide(self, rows: Columns, low: Floats, high: Floats, uniform: Floats) -> tuple[Floats, Floats, Floats]:
        """Narrow intervals, (n,), to pieces that may satisfy the branch; return them and the fraction that may."""
        fraction, wide = np.ones(len(low)), np.flatnonzero(high > low)
        low, high, uniform = low.copy(), high.copy(), uniform.copy()
        for _ in range(MAX_DIVISIONS):
            if not len(wide):
                break
            edges = np.linspace(low[wide], high[wide], PIECES + 1, axis=1)
            allowed = self._may_satisfy(take(rows, wide), edges[:, :-1], edges[:, 1:])
            n_allowed = allowed.sum(axis=1)
            position = uniform[wide] * n_allowed
            piece = (np.cumsum(allowed, axis=1) <= np.floor(position)[:, None]).sum(axis=1).clip(max=PIECES - 1)
            everything = n_allowed == PIECES  # nothing is decided by dividing it further
            fraction[wide] *= n_allowed / PIECES
            low[wide] = np.where(everything, low[wide], np.take_along_axis(edges, piece[:, None], axis=1)[:, 0])
            high[wide] = np.where(everything, high[wide], np.take_along_axis(edges, piece[:, None] + 1, axis=1)[:, 0])
            uniform[wide] = np.where(everything, uniform[wide], position % 1)
            wide = wide[~everything & (high[wide] - low[wide] > self._resolution())]
        return low, high, fraction

    def _resolution(self) -> float:
        return float(self.predictor.codec.column.step or 0.0)

    def _fraction(self, width: Floats) -> Floats:
        """Return which part of intervals is as near to a value as the column can tell apart."""
        column = self.predictor.codec.column
        least, largest = _range(column)
        near = self._resolution() or (largest - least) * EQUALITY_WIDTH
        return np.minimum(near / np.where(width > 0, width, 1.0), 1.0)

    def _fill(self, rows: Columns, values: Floats, low: Floats, high: Floats) -> Columns:
        """Return rows with values in the column; in an interval, with one that satisfies the branch if possible."""
        name, is_null = self.predictor.name, np.isnan(values)
        filled = self._with(rows, values, is_null)
        decided = [part for part in self.parts if not has_unknown(rows, part, besides=name)]
        if not decided or not (high > low).any():
            return filled
        predicate = all_of(decided)
        for attempt in range(ATTEMPTS):
            failed = ~evaluate(predicate, filled) & (high > low)
            if not failed.any():
                break
            others = (low, high, (low + high) / 2)[attempt]
            values = np.where(failed, others, values)
            filled = self._with(rows, values, is_null)
        return filled

    def _exact(self, rows: Columns, cells: CellDistribution, chosen: Index, *, is_point: Mask) -> Columns:
        """Return rows with single values as they are stored: large integers are no exact floats."""
        if cells.values is None:
            return rows
        filled, name = rows[self.predictor.name], self.predictor.name
        is_stored = is_point & (chosen < len(cells.values)) & ~filled.missing
        stored = cells.values[chosen.clip(max=len(cells.values) - 1)].astype(filled.values.dtype)
        return {**rows, name: replace(filled, values=np.where(is_stored, stored, filled.values))}

    def _with(self, rows: Columns, values: Floats, is_null: Mask) -> Columns:
        name = self.predictor.name
        exact = self.predictor.to_values(np.where(is_null, 0.0, values))
        cells: ColumnArray = rows[name].with_values(exact.astype(rows[name].values.dtype))
        return {**rows, name: cells.with_null(is_null) if is_null.any() else cells}

    def _solve(self, rows: Columns) -> Floats | None:
        """Return the values that an equation between columns determines, (n,); None if there is no such equation.

        Only intervals need it: other cells are single values, of which those that fit are found by trying them.
        """
        cells, name = self.predictor.cells, self.predictor.name
        if cells is None or not (cells.low < cells.high).any():
            return None
        for part in self.parts:
            if not isinstance(part, Compare) or part.operator != "=" or columns_of(part) == {name}:
                continue
            if not has_unknown(rows, part, besides=name):
                return self._root(part, rows)
        return None

    def _root(self, part: Compare, rows: Columns) -> Floats:
        """Return the value of the column for which both sides are equal, if they are linear in it, (n,)."""
        name = self.predictor.name
        for side, other in ((part.left, part.right), (part.right, part.left)):
            if side == ColumnRef(name) and name not in columns_of(replace(part, left=other, right=other)):
                return evaluate_term(other, rows, partial=True)
        least, largest = (0.0, 1.0) if np.isinf(_range(column := self.predictor.codec.column)).any() else _range(column)
        difference = []
        for value in (least, largest):
            at = {**rows, name: rows[name].with_values(np.full(n_rows(rows), value, dtype=np.float64))}
            left, right = (evaluate_term(side, at, partial=True) for side in (part.left, part.right))
            difference.append(left - right)
        slope = difference[1] - difference[0]
        with np.errstate(all="ignore"):
            return np.where(slope != 0, least - difference[0] / slope * (largest - least), np.nan)


def has_unknown(rows: Columns, predicate: BoundPredicate, *, besides: str = "") -> bool:
    """Return whether some row has an unknown cell that a predicate uses, besides those of one column."""
    return any(rows[name].unknown.any() for name in columns_of(predicate) if name != besides)


def _range(column: Column) -> tuple[float, float]:
    """Return the range of a column; the codes of labels, or of a number the training range if it is kept."""
    if column.kind.discrete:
        return 0.0, float(max(len(column.categories or ()) - 1, 0))
    if not column.clip or column.minimum is None or column.maximum is None:
        return -np.inf, np.inf
    return float(column.minimum), float(column.maximum)


def sample_index(p: Floats, uniform: Floats) -> Index:
    """Return an index for each row of unnormalised probabilities, (n, k) to (n,)."""
    cumulative = np.cumsum(p, axis=1)
    index: Index = (cumulative <= (uniform * cumulative[:, -1])[:, None]).sum(axis=1)
    return index.clip(max=p.shape[1] - 1)
