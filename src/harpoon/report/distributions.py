"""The distribution of a column in several tables at once, as numbers that a chart can be drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon import metrics
from harpoon._text import shorten
from harpoon.data.coercion import coerce, factorize
from harpoon.data.column import Column
from harpoon.data.column_array import ColumnArray
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema
from harpoon.report.rows import finite, only, written
from harpoon.report.summary import Marginal, Picture, Spike

BINS = (8, 40)  # at the least, and at the most
TAIL = 0.005  # of the rows at either end, which go into the last bin
FINEST = 1e9  # steps of a grid that is as good as none
MOST_LABELS = 10
LONGEST_LABEL = 80
COMMON = 0.25  # a value that more rows have is told apart
Floats = NDArray[np.float64]


def marginals(schema: Schema, tables: Mapping[str, Table]) -> list[Marginal]:
    """Every modelled column of one or two tables, the least alike first."""
    found = [
        Marginal(
            name=column.name,
            kind=column.kind.value,
            measure="KS" if column.kind.numeric else "TV",
            distance=distance(column, *tables.values()) if len(tables) > 1 else None,
            picture=picture(column, tables),
        )
        for column in schema.modelled
    ]
    return sorted(found, key=lambda one: -(one["distance"] or 0.0))


def distance(column: Column, left: Table, right: Table) -> float | None:
    """KS or total variation; None where a column has no cell at all."""
    if any(table.column(column.name).missing.all() for table in (left, right)):
        return None
    return finite(1.0 - metrics.similarity(only(column), left, right)[column.name])


def picture(column: Column, tables: Mapping[str, Table]) -> Picture:
    """The shares of bins or labels in each table, missing cells left out."""
    cells = {name: table.column(column.name) for name, table in tables.items()}
    return _bars(column, cells) if column.kind.discrete else _steps(column, cells)


def _steps(column: Column, cells: Mapping[str, ColumnArray]) -> Picture:
    values = {name: coerce(one, column).observed.astype(np.float64) for name, one in cells.items()}
    spike = _spike(column, values)
    rest = {name: one[one != spike[0]] if spike else one for name, one in values.items()}
    together = np.concatenate(list(rest.values()))
    bins = int(np.clip(2 * min(map(len, values.values())) ** (1 / 3), *BINS))  # fewer rows, fewer bins
    low, high = span(together)
    edges = edges_of(low, high, float(column.step or 0), bins)
    return Picture(
        shape="steps",
        shares={name: _binned(one, edges, len(values[name])) for name, one in rest.items()},
        edges=edges.tolist(),
        ticks=_ticks(column, together, low, high) if len(together) else [],
        labels=[],
        spike=spike[1] if spike else None,
    )


def _spike(column: Column, values: Mapping[str, Floats]) -> tuple[float, Spike] | None:
    """The value that many rows of the first table have, if the others are too many for bars of their own."""
    first = next(iter(values.values()))
    distinct, counts = np.unique(first, return_counts=True)
    if len(distinct) <= BINS[1] or counts.max() < COMMON * len(first):
        return None
    value = float(distinct[counts.argmax()])
    shares = {name: finite(float((one == value).mean())) or 0.0 if len(one) else 0.0 for name, one in values.items()}
    return value, Spike(value=written(column, value), shares=shares)


def span(values: Floats) -> tuple[float, float]:
    """From tail to tail, by values that occur; all of them where the rest are equal."""
    if not len(values):
        return 0.0, 1.0
    low, high = np.quantile(values, [TAIL, 1 - TAIL], method="closest_observation")
    return (float(low), float(high)) if low < high else (float(values.min()), float(values.max()))


def edges_of(low: float, high: float, step: float, bins: int) -> Floats:
    """Bins of equal width, on a grid each as many steps wide as the others: a comb would be no news."""
    if step > 0 and (high - low) / step < FINEST:
        width = max(np.ceil(((high - low) / step + 1) / bins), 1.0) * step
        count = int(np.ceil((high - low + step) / width - 1e-9))
        edges = low - step / 2 + width * np.arange(count + 1)
    else:
        edges = np.linspace(low, high, bins + 1)
    distinct: Floats = np.unique(edges)  # far from zero, neighbours may be the same number
    around = 0.5 * max(abs(low), 1.0)
    return distinct if len(distinct) > 1 else np.array([low - around, low + around])


def _binned(values: Floats, edges: Floats, height: int) -> list[float]:
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return [finite(float(count)) or 0.0 for count in counts / max(height, 1)]


def _ticks(column: Column, values: Floats, low: float, high: float) -> list[str]:
    middle = low + (high - low) / 2
    middle = float(np.round(middle)) if column.step and column.step >= 1 else middle
    return [
        f"{'≤ ' if values.min() < low else ''}{written(column, low)}",
        written(column, middle),
        f"{'≥ ' if values.max() > high else ''}{written(column, high)}",
    ]


def _bars(column: Column, cells: Mapping[str, ColumnArray]) -> Picture:
    shares = {name: label_shares(one, column) for name, one in cells.items()}
    totals: dict[Any, float] = {}
    for one in shares.values():
        for label, share in one.items():
            totals[label] = totals.get(label, 0.0) + share
    first = next(iter(shares.values()))
    order = sorted(totals, key=lambda label: (-first.get(label, 0.0), -totals[label], str(label)))
    shown, others = order[:MOST_LABELS], order[MOST_LABELS:]
    labels = [shorten(str(label), shown=LONGEST_LABEL) for label in shown]
    columns = {name: [one.get(label, 0.0) for label in shown] for name, one in shares.items()}
    if others:
        labels.append(f"{len(others)} other{'s' if len(others) > 1 else ''}")
        for name, one in shares.items():
            columns[name].append(sum(one.get(label, 0.0) for label in others))
    rounded = {name: [finite(share) or 0.0 for share in one] for name, one in columns.items()}
    return Picture(shape="bars", shares=rounded, edges=[], ticks=[], labels=labels, spike=None)


def label_shares(cells: ColumnArray, column: Column) -> dict[Any, float]:
    """The share of each label in use among the cells that are not missing."""
    coerce(cells, column)
    coded = factorize(cells)
    places, counts = np.unique(coded.observed, return_counts=True)
    return {
        coded.categories[place]: float(count) / len(coded.observed) for place, count in zip(places, counts, strict=True)
    }
