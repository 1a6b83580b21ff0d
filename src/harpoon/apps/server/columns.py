"""The columns as people see them: what they hold, and how rows are spread over them, without a condition and with."""

from __future__ import annotations

from typing import Any

from harpoon.data.column import Column, Kind, format_time
from harpoon.data.dataframe import Table
from harpoon.report.distributions import Bins, category_fractions
from harpoon.report.summary import finite_or_none

MAX_BINS = 24


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
        facts["before"] = ColumnDistribution.fit(column, plain).count(plain)
    return facts


class ColumnDistribution:
    """The distribution of a column over bins or categories that are the same for all tables."""

    def __init__(self, column: Column, bins: Bins | None) -> None:
        self.column, self.bins = column, bins

    @classmethod
    def fit(cls, column: Column, unconditional: Table) -> ColumnDistribution:
        """Choose bins for unconditional samples."""
        if column.kind.discrete:
            return cls(column, None)
        cells = unconditional.column(column.name)
        return cls(column, Bins.fit(column, cells, max_bins=MAX_BINS, find_spikes=False))

    def count(self, table: Table) -> dict[str, Any]:
        """Return the number of rows in each bin, tails in the outer bins, or the fraction of each category.

        Fractions are a list in the order of the categories: as keys of a JSON object, 1, 1.0 and true would be texts.
        """
        cells = table.column(self.column.name)
        if self.bins is None:
            found = category_fractions(self.column, cells)
            fractions = (found.get(category, 0.0) for category in self.column.categories or ())
            return {"shares": [finite_or_none(fraction) or 0.0 for fraction in fractions]}
        edges = [value_of(self.column, edge) for edge in self.bins.edges.tolist()]
        return {"edges": edges, "counts": self.bins.count(self.column, cells).counts_with_tails.tolist()}


def value_of(column: Column, number: float) -> Any:  # noqa: ANN401
    """A number of a column as JSON has it: dates and times as text, durations in the column's unit."""
    if column.kind.temporal and column.kind is not Kind.DURATION:
        return format_time(column, number)
    return int(number) if float(number).is_integer() else number
