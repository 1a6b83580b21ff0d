"""The columns as people see them: what they hold, and how rows are spread over them, without a condition and with."""

from __future__ import annotations

from typing import Any

import numpy as np

from harpoon.data.coercion import coerce
from harpoon.data.column import Column, Kind, format_time
from harpoon.data.dataframe import Table
from harpoon.report.distributions import edges_of, label_shares, span
from harpoon.report.rows import finite

BINS = 24


def described(column: Column, plain: Table | None) -> dict[str, Any]:
    """What a control for the column needs."""
    facts: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind.value,
        "modelled": column.kind.modelled,
        "missing_share": column.missing,
    }
    if column.note:
        facts["note"] = column.note
    if column.categories is not None:
        facts |= {"labels": list(column.categories), "ordered": column.ordered}
    if column.kind.numeric and column.minimum is not None and column.maximum is not None:
        ends = {"low": value_of(column, column.minimum), "high": value_of(column, column.maximum)}
        facts |= {**ends, "step": column.step or 0}
    if column.unit:
        facts |= {"unit": column.unit, "zoned": column.zoned}
    if column.kind.modelled and plain is not None:
        facts["before"] = Spread.of(column, plain).counted(plain)
    return facts


class Spread:
    """How rows spread over the bins or the labels of a column: always the same ones, so that two can be compared."""

    def __init__(self, column: Column, edges: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        self.column, self.edges = column, edges

    @classmethod
    def of(cls, column: Column, plain: Table) -> Spread:
        """The bins that suit plain rows."""
        if column.kind.discrete:
            return cls(column, np.zeros(0))
        low, high = span(_values(column, plain))
        return cls(column, edges_of(low, high, float(column.step or 0), BINS))

    def counted(self, table: Table) -> dict[str, Any]:
        """How many rows there are in each bin, of which the outer ones go on for ever; or the share of each label.

        Shares are in the order of the column's labels: as names of an object, 1 and 1.0 and true would be texts.
        """
        if self.column.kind.discrete:
            found = label_shares(table.column(self.column.name), self.column) if table.n_rows else {}
            return {"shares": [finite(found.get(label, 0.0)) or 0.0 for label in self.column.categories or ()]}
        inside = np.clip(_values(self.column, table), self.edges[0], self.edges[-1])
        counts, _ = np.histogram(inside, self.edges)
        return {"edges": [value_of(self.column, edge) for edge in self.edges.tolist()], "counts": counts.tolist()}


def value_of(column: Column, number: float) -> Any:  # noqa: ANN401
    """A number of a column as JSON has it: dates and times as text, durations in the column's unit."""
    if column.kind.temporal and column.kind is not Kind.DURATION:
        return format_time(column, number)
    return int(number) if float(number).is_integer() else number


def _values(column: Column, table: Table) -> np.ndarray[Any, np.dtype[np.float64]]:
    return coerce(table.column(column.name), column).observed.astype(np.float64)
