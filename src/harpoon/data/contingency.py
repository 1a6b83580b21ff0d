"""One- and two-way counts of a training table, from which a model knows how many rows support a condition.

Rows are counted in the bins of each column (`harpoon.data.bins`), and in pairs of bins of two columns. The calendar
parts of a date or datetime are counted like columns (`harpoon.data.counted_parts`), and so are differences of columns
that nearly equal each other (`harpoon.data.counted_differences`). Cells with few rows all have the same count
(`SUPPRESSED`), and no row can be read from the counts. Counts of the parts of a table are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from harpoon.data.bins import SUPPRESSED, ColumnBins, Counts, suppress
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import Columns, n_rows, take
from harpoon.data.counted_differences import Difference, counted_differences
from harpoon.data.counted_parts import PAIRED_PARTS, CountedPart, counted_parts
from harpoon.data.date_parts import PARTS
from harpoon.data.schema import Schema
from harpoon.data.value_counts import ColumnCounts, TableCounts

Pair = tuple[str, str]

MIN_PAIR_BINS, MAX_PAIR_BINS = 8, 32  # of a column in a pair, about
MAX_PAIR_CELLS = 2**18  # of all pairs of columns together: pairs that do not fit are left out
MAX_PART_CELLS = 2**17  # the same for pairs with a calendar part
RANKED_ROWS = 2000  # rows by which pairs are ranked, if not all fit


@dataclass(frozen=True)
class ContingencyTables:
    """Counts of a training table: its rows, the bins of each column, and pairs of columns, (bins, bins) each.

    `suppressed` is the count of every cell that has at least one row and at most so many; noisy counts are not
    suppressed. Rows count once, also if they have weights; `effective_rows` is how many rows of equal weight they are
    worth then.
    """

    n_rows: int
    columns: dict[str, ColumnBins]
    pairs: dict[Pair, Counts]
    suppressed: int = SUPPRESSED
    effective_rows: float | None = None
    noise_std: float = 0.0  # of the count of a bin of one column, in a model with differential privacy
    parts: dict[str, CountedPart] = field(default_factory=dict)  # the calendar parts among `columns`
    differences: dict[str, Difference] = field(default_factory=dict)  # the differences of columns among `columns`

    @classmethod
    def fit(cls, schema: Schema, counts: TableCounts, total: int, rows: Columns, sample: Columns) -> ContingencyTables:
        """Count rows, which are the table or the part of one; bins and one-way counts are those of all `total` rows.

        If not all pairs of columns fit, those are counted that depend on each other most in a sample of the table.
        """
        names = [column.name for column in schema.modelled]
        min_rows = max((counts[name].min_rows for name in names), default=1)
        tables = replace(cls.without_pairs(schema, counts, total), suppressed=max(SUPPRESSED, min_rows - 1))
        if n_rows(rows) == total:  # parts of a table have bins of their own, which cannot be added
            tables = tables._with_differences(
                counted_differences(schema, rows, {*schema.names, *tables.parts}), rows, min_rows
            )
        paired = [name for name, part in tables.parts.items() if part.part in PAIRED_PARTS and tables._varies(name)]
        of_columns = list(combinations(names, 2))
        of_parts = [pair for pair in combinations([*names, *paired], 2) if not {*pair}.isdisjoint(paired)]
        pairs = [
            *tables._fitting(of_columns, MAX_PAIR_CELLS, sample),
            *tables._fitting(of_parts, MAX_PART_CELLS, sample),
        ]
        return replace(tables, pairs=tables.count(rows, pairs))

    def _with_differences(self, differences: dict[str, Difference], rows: Columns, min_rows: int) -> ContingencyTables:
        columns = {}
        for name, difference in differences.items():
            counts = replace(ColumnCounts.from_column(difference.cells(rows)), min_rows=min_rows)
            bins = ColumnBins.fit(Column(name, Kind.NUMBER), counts, MAX_PAIR_BINS)
            columns[name] = replace(bins, tolerance=2 * difference.rounding(rows))
        return replace(self, columns=self.columns | columns, differences=differences)

    def _varies(self, name: str) -> bool:
        return len(self.columns[name].low) > 1

    def _fitting(self, pairs: list[Pair], max_cells: int, sample: Columns) -> list[Pair]:
        """Return the pairs that fit into so many cells: all, or those that depend on each other most in a sample."""
        sizes = {(a, b): self.columns[a].n_pair_bins * self.columns[b].n_pair_bins for a, b in pairs}
        if sum(sizes.values()) <= max_cells:
            return pairs
        index = np.linspace(0, n_rows(sample) - 1, min(n_rows(sample), RANKED_ROWS)).astype(np.int64)
        counted = self.count(take(sample, index), pairs)
        dependence = {pair: _mutual_information(table) for pair, table in counted.items()}
        ranked = sorted(dependence, key=lambda pair: -dependence[pair])
        fitting = np.cumsum([sizes[pair] for pair in ranked]) <= max_cells
        return [pair for pair, fits in zip(ranked, fitting, strict=True) if fits]

    @classmethod
    def without_pairs(cls, schema: Schema, counts: TableCounts, total: int) -> ContingencyTables:
        """Return the bins and the counts of each column and calendar part alone, of a table with `total` rows."""
        n_columns = len(schema.modelled)
        n_pairs = max(n_columns * (n_columns - 1) // 2, 1)
        n_bins = int(np.clip(np.sqrt(MAX_PAIR_CELLS / n_pairs) - 1, MIN_PAIR_BINS, MAX_PAIR_BINS))
        # Of a small table, bins of numbers are so few that most cells of a pair are not suppressed.
        n_intervals = int(np.clip(np.sqrt(total / (2 * SUPPRESSED)), MIN_PAIR_BINS, n_bins))
        columns = {
            column.name: ColumnBins.fit(
                column, counts[column.name].coerced(column), n_bins if column.kind.discrete else n_intervals
            )
            for column in schema.modelled
        }
        parts = counted_parts(schema, counts)
        for name, part in parts.items():
            of_part = part.counts(counts[part.column].coerced(schema[part.column]))
            columns[name] = ColumnBins.fit(Column(name, Kind.INTEGER), of_part, MAX_PAIR_BINS)
        return cls(total, columns, {}, parts=parts)

    def count(self, rows: Columns, pairs: Iterable[Pair]) -> dict[Pair, Counts]:
        """Count rows by pairs of columns."""
        cells = rows | {name: part.cells(rows) for name, part in self.parts.items()}
        pairs = list(pairs)
        used = {name for pair in pairs for name in pair}
        bins = {name: self.columns[name].locate(cells[name]) for name in used}
        counted = {}
        for a, b in pairs:
            shape = self.columns[a].n_pair_bins, self.columns[b].n_pair_bins
            counted[a, b] = np.bincount(bins[a] * shape[1] + bins[b], minlength=shape[0] * shape[1]).reshape(shape)
        return counted

    def pair(self, first: str, second: str) -> Counts | None:
        """Return the counts of two columns, (bins of the first, bins of the second); None if they are not counted."""
        if (first, second) in self.pairs:
            return self.pairs[first, second]
        return self.pairs[second, first].T if (second, first) in self.pairs else None

    @property
    def worth(self) -> float | None:
        """How many rows of equal weight a row is worth on average; None: rows have no weights."""
        return None if self.effective_rows is None else self.effective_rows / max(self.n_rows, 1)

    @property
    def pair_counts(self) -> Counts:
        """The counts of all pairs one after the other, which can be added to those of another part of the table."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(table.ravel() for table in self.pairs.values())])

    def with_pair_counts(self, counts: Counts) -> ContingencyTables:
        """Return the tables with other counts of pairs, in the form of `pair_counts`."""
        ends = np.cumsum([0, *(table.size for table in self.pairs.values())])
        if len(counts) != ends[-1] or counts.min(initial=0) < 0:
            raise ValueError(f"{ends[-1]} counts are needed, got {len(counts)}")
        parts = zip(self.pairs.items(), pairwise(ends), strict=True)
        return replace(self, pairs={pair: counts[a:b].reshape(table.shape) for (pair, table), (a, b) in parts})

    def suppress(self) -> ContingencyTables:
        """Return the tables with small counts suppressed."""
        columns = {name: of_column.suppress(self.suppressed) for name, of_column in self.columns.items()}
        pairs = {pair: suppress(table, self.suppressed) for pair, table in self.pairs.items()}
        return replace(self, columns=columns, pairs=pairs)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the counts of pairs as plain data."""
        columns = {name: of_column.to_json() for name, of_column in self.columns.items()}
        names = list(self.columns)
        pairs = [[names.index(a), names.index(b)] for a, b in self.pairs]
        content = {"n_rows": self.n_rows, "columns": columns, "pairs": pairs, "suppressed": self.suppressed}
        content |= {} if self.effective_rows is None else {"effective_rows": self.effective_rows}
        content |= (
            {"parts": {name: [part.column, part.part] for name, part in self.parts.items()}} if self.parts else {}
        )
        content |= (
            {"differences": {name: [*each] for name, each in self.differences.items()}} if self.differences else {}
        )
        return content | ({"noise_std": self.noise_std} if self.noise_std else {})

    @classmethod
    def from_json(cls, schema: Schema, data: Mapping[str, Any], pair_counts: Counts) -> ContingencyTables:
        """Restore the tables of `to_json`; raise ValueError if the data are invalid."""
        parts = {name: _part_from_json(schema, *part) for name, part in data.get("parts", {}).items()}
        differences = {name: Difference(*each) for name, each in data.get("differences", {}).items()}
        if not {*parts, *differences}.isdisjoint(schema.names):
            raise ValueError("a calendar part or a difference must have a name that no column has")
        if not {name for each in differences.values() for name in each} <= {each.name for each in schema.modelled}:
            raise ValueError("a difference must be of columns of the schema")
        every = [*(column.name for column in schema.modelled), *parts, *differences]
        columns = {name: ColumnBins.from_json(data["columns"][name]) for name in every}
        names, pairs = list(columns), {}
        for i, j in data["pairs"]:
            shape = columns[names[i]].n_pair_bins, columns[names[j]].n_pair_bins
            pairs[names[i], names[j]] = np.zeros(shape, dtype=np.int64)
        suppressed = int(data.get("suppressed", SUPPRESSED))  # files of older versions do not have it
        n_rows, effective = int(data["n_rows"]), data.get("effective_rows")
        if effective is not None and not 0 < float(effective) <= n_rows:
            raise ValueError("the effective number of rows must be positive and at most the number of rows")
        effective = None if effective is None else float(effective)
        noise_std = float(data.get("noise_std", 0.0))
        if not (np.isfinite(noise_std) and noise_std >= 0):
            raise ValueError("the noise of the counts must be a number from 0")
        tables = cls(n_rows, columns, pairs, suppressed, effective, noise_std, parts, differences)
        return tables.with_pair_counts(pair_counts)


def _part_from_json(schema: Schema, column: str, part: str) -> CountedPart:
    """Return a calendar part of a column; raise ValueError if it has none."""
    if column not in schema.names or not schema[column].kind.is_timestamp or part not in PARTS:
        raise ValueError(f"column {column!r} has no calendar part {part!r}")
    return CountedPart.of_column(schema[column], part)


def _mutual_information(table: Counts) -> float:
    """Return the mutual information of two columns, in nats, from their joint counts."""
    p = table / max(int(table.sum()), 1)
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    return float(np.sum(p * np.log(np.divide(p, expected, out=np.ones_like(p), where=p > 0))))
