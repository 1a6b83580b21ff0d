"""Rows as arrays for attacks, and distances between them.

The distance of two rows is that of Gower (1971), as in Anonymeter: the sum over columns of the difference of two
numbers divided by the range of the column, or of 1 if two categories differ. Two missing cells do not differ, and a
missing cell differs from any value by 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from harpoon.data import Column, ColumnArray, Floats, Mask, Schema, Table
from harpoon.data.coercion import coerce_observed

Codes = NDArray[np.int64]
MISSING_CODE = -1
MAX_CHUNK_CELLS = 2**22  # of the distances of all columns that are in memory together


@dataclass(frozen=True)
class Records:
    """The modelled cells of n rows: p numbers, then q categories.

    Attributes:
        names: The columns, (p + q,).
        numbers: (n, p), NaN where a cell is missing. Times are counted from the first one.
        codes: The codes of categories, (n, q), `MISSING_CODE` where a cell is missing.
        ranges: The range of each number over all tables, or 1 if that is 0, (p,).
        is_ratio: Whether a number has a natural zero, so that relative differences mean something, (p,).
    """

    names: tuple[str, ...]
    numbers: Floats
    codes: Codes
    ranges: Floats
    is_ratio: Mask

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def n_numbers(self) -> int:
        """The number of numeric columns."""
        return int(self.numbers.shape[1])

    def take(self, rows: NDArray[np.int64] | slice) -> Records:
        """Return some of the rows."""
        return replace(self, numbers=self.numbers[rows], codes=self.codes[rows])

    @cached_property
    def _columns(self) -> Floats:
        """All cells as floats, (p + q, n), NaN where they are missing."""
        codes = np.where(self.codes == MISSING_CODE, np.nan, self.codes)
        return np.concatenate([self.numbers.T, codes.T])

    def column(self, index: int) -> Floats:
        """Return the cells of a column as floats, (n,), NaN where they are missing."""
        return np.asarray(self._columns[index])

    def row_keys(self) -> NDArray[np.void]:
        """Return one key per row, (n,), which is equal for equal rows."""
        cells = np.column_stack([self.numbers + 0.0, self.codes.astype(np.float64)])  # -0.0 + 0.0 is 0.0
        cells = np.ascontiguousarray(np.where(np.isnan(cells), np.inf, cells))  # numbers are finite
        return cells.view(np.dtype((np.void, cells.shape[1] * cells.itemsize)))[:, 0]


def read_records(schema: Schema, tables: Sequence[Table]) -> list[Records]:
    """Return the modelled columns of tables; categories that the schema does not have get codes of their own."""
    numeric = [column for column in schema.modelled if column.kind.numeric]
    discrete = [column for column in schema.modelled if not column.kind.numeric]
    numbers = [_numbers([table.column(column.name) for table in tables], column) for column in numeric]
    codes = [_codes([table.column(column.name) for table in tables], column) for column in discrete]
    names = tuple(column.name for column in (*numeric, *discrete))
    is_ratio = np.array([not column.kind.temporal for column in numeric], dtype=np.bool_)
    stacked = [np.stack([cells[i] for cells in numbers], axis=1) if numbers else None for i in range(len(tables))]
    values = [np.zeros((table.n_rows, 0)) if one is None else one for table, one in zip(tables, stacked, strict=True)]
    spread = _ranges(np.concatenate(values))
    records = []
    for i, (table, of_table) in enumerate(zip(tables, values, strict=True)):
        empty = np.zeros((table.n_rows, 0), dtype=np.int64)
        of_codes = np.stack([cells[i] for cells in codes], axis=1) if codes else empty
        records.append(Records(names, of_table, of_codes, spread, is_ratio))
    return records


def concat(first: Records, second: Records) -> Records:
    """Return the rows of two tables."""
    numbers, codes = np.concatenate([first.numbers, second.numbers]), np.concatenate([first.codes, second.codes])
    return replace(first, numbers=numbers, codes=codes)


def with_ranks(tables: Sequence[Records]) -> list[Records]:
    """Return the tables with numbers replaced by their ranks among all of them, from 0 to 1.

    Distances between ranks do not depend on outliers, which stretch the range of a column.
    """
    numbers = np.concatenate([table.numbers for table in tables])
    ranks = np.full_like(numbers, np.nan)
    for index, cells in enumerate(numbers.T):
        observed = ~np.isnan(cells)
        ranks[observed, index] = (rankdata(cells[observed]) - 1) / max(int(observed.sum()) - 1, 1)
    parts = np.split(ranks, np.cumsum([len(table) for table in tables])[:-1])
    ones = np.ones(numbers.shape[1])
    return [replace(table, numbers=part, ranges=ones) for table, part in zip(tables, parts, strict=True)]


def nearest(queries: Records, candidates: Records, columns: Sequence[int] | None = None) -> tuple[Codes, Floats]:
    """Return the closest candidate of each query by some of the columns and its distance, (n,) each.

    Of several that are equally close it is the first.
    """
    index, distance = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for _, by_column in column_distances(queries, candidates, columns):
        total = by_column.sum(axis=0)
        index.append(total.argmin(axis=1))
        distance.append(total.min(axis=1).astype(np.float64))
    return np.concatenate(index), np.concatenate(distance)


def column_distances(
    queries: Records, candidates: Records, columns: Sequence[int] | None = None
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield the rows of a part of the queries and their distances by column, (columns, part, candidates)."""
    chosen = range(len(queries.names)) if columns is None else columns
    size = max(MAX_CHUNK_CELLS // max(len(candidates) * len(chosen), 1), 1)
    for start in range(0, len(queries), size):
        part = slice(start, min(start + size, len(queries)))
        rows = queries.take(part)
        yield part, np.stack([_distance(rows, candidates, column) for column in chosen])


def _distance(queries: Records, candidates: Records, column: int) -> NDArray[np.float32]:
    """Return the distances of the cells of one column, (queries, candidates)."""
    if column >= queries.n_numbers:
        index = column - queries.n_numbers
        return np.not_equal(queries.codes[:, index, None], candidates.codes[:, index]).astype(np.float32)
    x, y = queries.numbers[:, column, None], candidates.numbers[:, column]
    with np.errstate(over="ignore"):
        distance: NDArray[np.float32] = np.minimum(np.abs(x - y) / queries.ranges[column], 1.0).astype(np.float32)
    if np.isnan(x).any() or np.isnan(y).any():
        distance = np.where(np.isnan(distance), (np.isnan(x) != np.isnan(y)).astype(np.float32), distance)
    return distance


def _ranges(numbers: Floats) -> Floats:
    """Return the range of each column, (p,); 1 where it is 0 or no cell is observed."""
    low = np.where(np.isnan(numbers), np.inf, numbers).min(axis=0, initial=np.inf)
    high = np.where(np.isnan(numbers), -np.inf, numbers).max(axis=0, initial=-np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = high - low
    return np.where(spread > 0, np.minimum(spread, np.finfo(np.float64).max), 1.0)


def _numbers(cells: Sequence[ColumnArray], column: Column) -> list[Floats]:
    """Return a numeric column of several tables as floats, NaN where a cell is missing."""
    coerced = [coerce_observed(one, column) for one in cells]
    first = min((int(one.observed.min()) for one in coerced if len(one.observed)), default=0)
    origin = first if column.kind.temporal else 0  # nanoseconds since 1970 are not exact as floats
    return [np.where(one.missing, np.nan, (one.values - origin).astype(np.float64)) for one in coerced]


def _codes(cells: Sequence[ColumnArray], column: Column) -> list[Codes]:
    """Return a discrete column of several tables as codes of the categories of all of them."""
    coerced = [coerce_observed(one, column) for one in cells]
    labels = [(*one.categories, *one.unseen) for one in coerced]
    code_of = {label: code for code, label in enumerate(dict.fromkeys(label for one in labels for label in one))}
    found = []
    for one, own in zip(coerced, labels, strict=True):
        codes = np.array([code_of[label] for label in own] or [MISSING_CODE], dtype=np.int64)
        found.append(np.where(one.missing, MISSING_CODE, codes[one.values]))
    return found
