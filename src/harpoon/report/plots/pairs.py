"""Two tables column by column: what both hold, how far apart it is, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._text import closest_matches, format_list, shorten
from harpoon.data.coercion import coerce, factorize
from harpoon.data.column import Column, Kind, format_time
from harpoon.data.column_array import NANOSECONDS, ColumnArray
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.exceptions import InvalidOption, InvalidTable
from harpoon.metrics import similarity

Floats = NDArray[np.float64]
LABEL = 20
SPANS = (("days", 86_400 * 10**9), ("hours", 3_600 * 10**9), ("minutes", 60 * 10**9), ("seconds", 10**9))


@dataclass(frozen=True)
class ColumnPair:
    """The cells of one column in two tables, and how far apart the two distributions are (0 to 1)."""

    column: Column
    cells: tuple[ColumnArray, ColumnArray]
    distance: float

    @property
    def score(self) -> str:
        """The distance by its name: Kolmogorov and Smirnov's for numbers, total variation for labels."""
        return f"{'KS' if self.column.kind.numeric else 'TV'} {self.distance:.2f}"

    @property
    def change(self) -> str:
        """What became of the column: of its mean, or of the label whose share changed most."""
        if self.column.kind.discrete:
            labels, before, after = self.shares()
            most = int(np.argmax(np.abs(after - before)))
            return f"{shorten(str(labels[most]), shown=LABEL)} {percent(before[most])} → {percent(after[most])}"
        means = [float(cells.observed.astype(np.float64).mean()) for cells in self.cells]
        if self.column.kind is Kind.DURATION:
            word, ticks = self.span()
            return f"mean {' → '.join(f'{mean / ticks:.3g}' for mean in means)} {word}"
        if self.column.kind.temporal:
            return "mean " + " → ".join(format_time(self.column, mean)[:10] for mean in means)
        return "mean " + " → ".join(f"{mean:.0f}" if abs(mean) >= 100 else f"{mean:.3g}" for mean in means)  # noqa: PLR2004

    def shares(self) -> tuple[list[Any], Floats, Floats]:
        """All labels, and the share of each among the cells of either table that are not missing."""
        coded = [factorize(cells) for cells in self.cells]
        labels = list(dict.fromkeys(label for cells in coded for label in cells.categories))
        place = {label: i for i, label in enumerate(labels)}
        found = []
        for cells in coded:
            where = np.array([place[label] for label in cells.categories], dtype=np.int64)
            found.append(np.bincount(where[cells.observed], minlength=len(labels)) / len(cells.observed))
        return labels, found[0], found[1]

    def span(self) -> tuple[str, float]:
        """For a duration: the largest unit of time in which its numbers are not small, and how many ticks it has."""
        tick = NANOSECONDS[self.column.unit]
        longest = max(float(np.abs(cells.observed.astype(np.float64)).max()) for cells in self.cells) * tick
        word, length = next((span for span in SPANS if longest >= 2 * span[1]), SPANS[-1])
        return word, length / tick


def pair_columns(
    first: Table, second: Table, columns: Sequence[str] | None = None
) -> tuple[list[ColumnPair], list[str]]:
    """The columns that two tables share and that can be compared, and why others cannot.

    Args:
        first: A table; its columns give the order.
        second: Another table.
        columns: Which columns, where not all are wanted.
    """
    wanted = first.names if columns is None else [str(name) for name in columns]
    unknown = [name for name in wanted if name not in first.names]
    if unknown:
        near = closest_matches(unknown[0], first.names)
        hint = f"Did you mean {near[0]!r}?" if near else f"It has {format_list(first.names)}."
        raise InvalidOption(f"The table has no column {unknown[0]!r}. {hint}")
    found = [_pair(first, second, name) for name in wanted]
    pairs = [pair for pair in found if isinstance(pair, ColumnPair)]
    left_out = [reason for reason in found if isinstance(reason, str)]
    if not pairs:
        raise InvalidTable(f"There is no column to compare. Not drawn: {format_list(left_out)}.")
    return pairs, left_out


def _pair(first: Table, second: Table, name: str) -> ColumnPair | str:
    """One column of two tables, or why there is nothing to compare."""
    if name not in second.names:
        return f"{name} (in one table only)"
    cells = first.column(name), second.column(name)
    kinds = [Schema.infer(table.arrow.select([name])).columns[0] for table in (first, second)]
    column = kinds[0] if kinds[0].kind.modelled else kinds[1]
    if {each.kind for each in kinds} == {Kind.INTEGER, Kind.NUMBER}:
        column = next(each for each in kinds if each.kind is Kind.NUMBER)
    if not column.kind.modelled:
        return f"{name} ({column.kind.value})"
    if any(each.missing.all() for each in cells):
        return f"{name} (empty in one table)"
    open_column = replace(column, categories=None) if column.kind is Kind.CATEGORY else column
    held = coerce(cells[0], open_column), coerce(cells[1], open_column)
    tables = [table.arrow.select([name]) for table in (first, second)]
    return ColumnPair(column, held, 1 - similarity(Schema((column,)), *tables)[name])


def percent(share: float) -> str:
    """A share as people write it."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"  # noqa: PLR2004
