"""What an imputation can be besides one filled table: expectations, and several draws with what they say together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.column_array import Columns
from harpoon.data.dataframe import FrameTemplate, Table
from harpoon.data.schema import Schema
from harpoon.data.statistics import Floats
from harpoon.encoding.numeric import round_to_step
from harpoon.exceptions import InvalidOption, TooFewDrawsWarning
from harpoon.inference.intervals import interval, min_draws
from harpoon.inference.pooling import Pooled, check_level, estimates_of


@dataclass(frozen=True)
class Expectation:
    """What a model expects of every cell, given the known cells of its row.

    Attributes:
        numbers: For each numeric column, its mean in the table's units (days or ticks for dates and times). A known
            cell has its own value, up to the rounding of single precision.
        probabilities: For each boolean or categorical column, (rows, labels).
        labels: The labels that the probabilities belong to.
    """

    numbers: dict[str, Floats]
    probabilities: dict[str, Floats]
    categories: dict[str, tuple[Any, ...]]

    def __repr__(self) -> str:
        rows = len(next(iter([*self.numbers.values(), *self.probabilities.values()]), ()))
        return (
            f"Expectation of {rows} rows: numbers of {list(self.numbers)}, probabilities of {list(self.probabilities)}"
        )


@dataclass(frozen=True)
class MultipleImputation:
    """Several completed tables, each with its own draw of the missing cells. Iterates as tables.

    >>> import pyarrow as pa
    >>> from harpoon import Harpoon
    >>> table = pa.table({"x": [1.0, 2.0, None, 4.0] * 10, "c": ["a", "b", "a", None] * 10})
    >>> draws = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table).impute(table, draws=3)
    >>> len(draws), [t["x"].null_count for t in draws]
    (3, [0, 0, 0])
    >>> low, high = draws.interval(0.5)
    >>> low["x"][0] == high["x"][0] == table["x"][0]
    True
    """

    tables: list[Any] = field(repr=False)
    _table: Table = field(repr=False)
    _template: FrameTemplate = field(repr=False)
    _schema: Schema = field(repr=False)
    _draws: list[Columns] = field(repr=False)
    _missing: Mapping[str, NDArray[np.bool_]] = field(repr=False)

    def __repr__(self) -> str:
        holes = sum(int(missing.sum()) for missing in self._missing.values())
        return f"MultipleImputation: {len(self)} draws of {holes} missing cells"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def interval(self, level: float = 0.9, *, quiet: bool = False) -> tuple[Any, Any]:
        """Two tables of the numeric columns: the lower and the upper end of each cell.

        A known cell is its own interval.
        One more draw falls between the ends with probability `level`, as far as there are enough draws (19 for 90 %, 39
        for 95 %) and repeated values allow: see `harpoon.inference.intervals`. A number that other cells determine is the same in
        all draws, and its interval is that number. It warns of too few draws (`TooFewDraws`), unless it is `quiet`.
        """
        fewest = min_draws(check_level(level))
        if len(self) < fewest and not quiet:
            held = max(len(self) - 1, 0) / (len(self) + 1)
            warnings.warn(
                f"A {level:.4g} interval needs at least {fewest} draws, got {len(self)}: it goes from the smallest "
                f"to the largest draw, which hold about {held:.2f} of a law. Use impute(table, draws={fewest}).",
                TooFewDrawsWarning,
                stacklevel=2,
            )
        ends: tuple[Columns, Columns] = ({}, {})
        for column in self._schema.modelled:
            if column.kind.numeric:
                cells, holes = self._draws[0][column.name], self._missing[column.name]
                drawn = np.stack([draw[column.name].values[holes] for draw in self._draws])
                for end, placed in zip(ends, interval(drawn, level, column), strict=True):
                    values = cells.values.astype(placed.dtype)
                    values[holes] = placed
                    end[column.name] = cells.with_values(values)
        low, high = (self._table.fill(end, self._missing, self._template, only=list(end)) for end in ends)
        return low, high

    def mean(self) -> Any:  # noqa: ANN401
        """One table: the mean of the drawn numbers, on the column's grid, and the label that was drawn most often."""
        columns = {}
        for column in self._schema.modelled:
            drawn = np.stack([draw[column.name].values for draw in self._draws])
            values = round_to_step(drawn.mean(axis=0), column) if column.kind.numeric else _mode(drawn)
            columns[column.name] = self._draws[0][column.name].with_values(values)
        return self._table.fill(columns, self._missing, self._template)

    def pool(self, estimator: Callable[[Any], Any]) -> Pooled:
        """Estimate on each completed table and combine by Rubin's rules.

        Args:
            estimator: A function of a table that returns a fitted result: one with `params` and `bse` (statsmodels),
                one with `coef_` (scikit-learn, which gives no errors: the error is then that between the tables), or a
                pair of estimates and their variances.
        """
        if not callable(estimator):
            raise InvalidOption(
                f"An estimator to pool must be a function of a table that returns a fitted result, got "
                f"{type(estimator).__name__}: for example lambda table: model.fit(table[features], table[target])."
            )
        if len(self) < 2:  # noqa: PLR2004
            raise InvalidOption("Pooling needs at least 2 draws, got 1. Use impute(table, draws=20).")
        results = [estimates_of(estimator(table)) for table in self.tables]
        estimates, variances = (np.stack([result[i] for result in results]) for i in (0, 1))
        m, within, between = len(results), variances.mean(axis=0), estimates.var(axis=0, ddof=1)
        total = within + (1 + 1 / m) * between
        share = np.divide((1 + 1 / m) * between, total, out=np.zeros_like(total), where=total > 0)
        freedom = np.divide(m - 1, share**2, out=np.full_like(total, np.inf), where=share > 0)
        return Pooled(results[0][2], estimates.mean(axis=0), np.sqrt(total), freedom, share)


def _mode(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row, the code that was drawn most often, the first of equals: (draws, n) to (n,)."""
    counts = np.stack([(codes == draw).sum(axis=0) for draw in codes])
    beyond = codes.max(initial=0) + 1
    most: NDArray[np.int64] = np.where(counts == counts.max(axis=0), codes, beyond).min(axis=0)
    return most
