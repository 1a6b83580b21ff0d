"""Results of an imputation besides one completed table: expectations, and multiple imputation."""

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
from harpoon.exceptions import TooFewDrawsWarning
from harpoon.inference.intervals import interval, min_draws
from harpoon.inference.pooling import Pooled, check_level, pool


@dataclass(frozen=True)
class Expectation:
    """The conditional expectation of every cell given the observed cells of its row.

    Attributes:
        numbers: For each numeric column its mean in units of the table (days or ticks for dates and times), (n,). An
            observed cell has its own value, rounded to single precision.
        probabilities: For each boolean or categorical column the probability of each category, (n, categories).
        categories: The categories of the probabilities.
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
    """Several completed tables, each with its own draw of the missing cells. Iterating yields the tables.

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
        cells = sum(int(missing.sum()) for missing in self._missing.values())
        return f"MultipleImputation: {len(self)} draws of {cells} missing cells"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def interval(self, level: float = 0.9, *, quiet: bool = False) -> tuple[Any, Any]:
        """Return two tables of the numeric columns: the lower and the upper end of each cell.

        One more draw lies between the ends with probability `level`, if there are enough draws (19 for 90 %, 39 for
        95 %) and repeated values allow it; see `harpoon.inference.intervals`. The interval of an observed cell is its
        value. So is that of a number that other cells determine.

        Args:
            level: The probability.
            quiet: Whether to omit the warning about too few draws (`TooFewDrawsWarning`).
        """
        needed = min_draws(check_level(level))
        if len(self) < needed and not quiet:
            held = max(len(self) - 1, 0) / (len(self) + 1)
            warnings.warn(
                f"An interval of level {level:.4g} needs at least {needed} draws, got {len(self)}. It reaches from the "
                f"smallest to the largest draw, a level of about {held:.2f}. Use impute(table, draws={needed}).",
                TooFewDrawsWarning,
                stacklevel=2,
            )
        ends: tuple[Columns, Columns] = ({}, {})
        for column in self._schema.modelled:
            if column.kind.numeric:
                cells, missing = self._draws[0][column.name], self._missing[column.name]
                draws = np.stack([draw[column.name].values[missing] for draw in self._draws])
                for end, bound in zip(ends, interval(draws, level, column), strict=True):
                    values = cells.values.astype(bound.dtype)
                    values[missing] = bound
                    end[column.name] = cells.with_values(values)
        low, high = (self._table.fill(end, self._missing, self._template, only=list(end)) for end in ends)
        return low, high

    def mean(self) -> Any:  # noqa: ANN401
        """Return one table: the mean of the draws at the resolution of the column, and the most frequent category."""
        columns = {}
        for column in self._schema.modelled:
            draws = np.stack([draw[column.name].values for draw in self._draws])
            values = round_to_step(draws.mean(axis=0), column) if column.kind.numeric else _mode(draws)
            columns[column.name] = self._draws[0][column.name].with_values(values)
        return self._table.fill(columns, self._missing, self._template)

    def pool(self, estimator: Callable[[Any], Any]) -> Pooled:
        """Estimate on each completed table and combine the estimates by Rubin's rules.

        Args:
            estimator: A function of a table that returns a fitted result: one with `params` and `bse` (statsmodels),
                one with `coef_` (scikit-learn, which has no standard errors: the error is then the one between the
                tables), or a pair of estimates and their variances.
        """
        return pool(self.tables, estimator)


def _mode(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most frequent code of each row, the smallest of several: (draws, n) to (n,)."""
    counts = np.stack([(codes == draw).sum(axis=0) for draw in codes])
    too_large = codes.max(initial=0) + 1
    mode: NDArray[np.int64] = np.where(counts == counts.max(axis=0), codes, too_large).min(axis=0)
    return mode
