"""Imputation judged on real cells: they are hidden, filled in, and compared with what they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harpoon import metrics
from harpoon.data import dataframe
from harpoon.data.column import Column, Kind
from harpoon.data.dataframe import Table
from harpoon.inference.intervals import attainable_coverage
from harpoon.metrics import masks
from harpoon.metrics.arrays import numeric_values
from harpoon.report.rows import finite, known, mean, only, rows_of
from harpoon.report.summary import Covered, Filled, FilledColumn, Filling, Intervals

if TYPE_CHECKING:
    from harpoon.estimator import Harpoon


SHARES = (0.1, 0.3, 0.5, 0.7)
GAIN_AT = 0.3
HIDDEN, LEVEL = 0.25, 0.9
DRAWS = 20  # 19 draws are the fewest that have a 90 % interval, and one is left out to be judged
Mask = NDArray[np.bool_]


def imputation(model: Harpoon, table: Table, seed: int) -> Filling:
    """How well the model fills cells that were hidden completely at random, against means and modes."""
    columns: dict[str, list[Filled]] = {column.name: [] for column in model.schema_.modelled}
    for number, share in enumerate(SHARES):
        hidden = _hidden(model, table, share, seed + number)
        holes = mask_cells(table, hidden)
        filled = dataframe.read(model.impute(holes, random_state=seed + number))
        for column in model.schema_.modelled:
            scored = _scored(column, table, holes, filled, hidden[column.name])
            columns[column.name].append({**scored, "missing": share})
    return Filling(
        rows=table.n_rows,
        gain=mean([_gain(scores[SHARES.index(GAIN_AT)]) for scores in columns.values()]),
        gain_at=GAIN_AT,
        by_share=[_together(share, [scores[i] for scores in columns.values()]) for i, share in enumerate(SHARES)],
        columns=[
            FilledColumn(name=column.name, kind=column.kind.value, by_share=columns[column.name])
            for column in model.schema_.modelled
        ],
    )


def intervals(model: Harpoon, table: Table, seed: int) -> Intervals:
    """How often hidden numbers lie inside the interval that several draws give."""
    hidden = _hidden(model, table, HIDDEN, seed)
    draws = model.impute(mask_cells(table, hidden), draws=DRAWS, random_state=seed)
    ends = [dataframe.read(end) for end in draws.interval(LEVEL)]
    tables = [dataframe.read(one) for one in draws]
    columns = [
        _covered(column, table, (ends[0], ends[1]), tables, hidden[column.name])
        for column in model.schema_.modelled
        if column.kind.numeric and hidden[column.name].any()
    ]
    cells = [one["cells"] for one in columns]
    return Intervals(
        level=LEVEL,
        draws=DRAWS,
        rows=table.n_rows,
        missing=HIDDEN,
        inside=_weighted([one["inside"] for one in columns], cells),
        attainable=_weighted([one["attainable"] for one in columns], cells),
        columns=columns,
    )


def _covered(column: Column, truth: Table, ends: tuple[Table, Table], draws: list[Table], rows: Mask) -> Covered:
    true, low, high = (_one(one, column, rows) for one in (truth, *ends))
    drawn = np.stack([numeric_values(_one(one, column, rows).column(column.name), column) for one in draws])
    return Covered(
        name=column.name,
        cells=int(rows.sum()),
        inside=finite(metrics.coverage(only(column), true, (low, high), _all(rows))),
        attainable=finite(attainable_coverage(drawn, LEVEL, column)),
    )


def mask_cells(table: Table, hidden: dict[str, Mask]) -> Table:
    """The table without the cells where a mask is true."""
    arrow = table.arrow
    for name, mask in hidden.items():
        # To take from nowhere gives a hole in a column of any type.
        holes = arrow.column(name).take(pa.array(np.arange(len(mask)), mask=mask))
        arrow = arrow.set_column(arrow.schema.get_field_index(name), arrow.schema.field(name), holes)
    return Table(arrow, "pyarrow", arrow, table.mixed)


def _hidden(model: Harpoon, table: Table, share: float, seed: int) -> dict[str, Mask]:
    """Which cells to hide: only such that are there, and that the model could fill."""
    names = [column.name for column in model.schema_.modelled]
    mask = masks.mcar(np.zeros((table.n_rows, len(names))), share, np.random.default_rng(seed))
    return {name: mask[:, place] & ~table.column(name).missing for place, name in enumerate(names)}


def _scored(column: Column, truth: Table, holes: Table, filled: Table, hidden: Mask) -> Filled:
    plainly = _plainly(column, holes)
    scores = [
        _score(column, truth, other, hidden) if hidden.any() and other is not None else None
        for other in (filled, plainly)
    ]
    number = column.kind.numeric
    return Filled(
        missing=float(hidden.mean()),
        cells=int(hidden.sum()),
        error=scores[0] if number else None,
        error_of_mean=scores[1] if number else None,
        accuracy=None if number else scores[0],
        accuracy_of_mode=None if number else scores[1],
    )


def _score(column: Column, truth: Table, filled: Table, hidden: Mask) -> float | None:
    true, guess = (_one(table, column, hidden) for table in (truth, filled))
    if column.kind.discrete:
        return finite(metrics.accuracy(only(column), true, guess, _all(hidden)))
    reference = _one(truth, column, ~truth.column(column.name).missing)
    return finite(metrics.standardised_mse(only(column), true, guess, _all(hidden), reference))


def _plainly(column: Column, holes: Table) -> Table | None:
    """The column filled with the mean or the most frequent label of the cells that were left, if any were."""
    own, cells = holes.arrow.column(column.name), holes.column(column.name)
    if cells.missing.all():
        return None
    if column.kind.discrete:
        first = np.flatnonzero(~cells.missing & (cells.values == _mode(cells.observed)))[0]
        filled = own.take(np.full(len(own), first))
    else:
        centre = cells.observed.astype(np.float64).mean()
        filled = np.full(len(own), centre if column.kind is Kind.NUMBER else np.round(centre))
        filled = (
            pa.array(filled) if cells.storage == "float" or column.kind is Kind.NUMBER else _typed(filled, own.type)
        )
    table = pa.table({column.name: filled})
    return Table(table, "pyarrow", table)


def _typed(values: NDArray[np.float64], dtype: pa.DataType) -> pa.Array:
    """Whole numbers as the dates, times or integers that they stand for."""
    whole = pa.array(values.astype(np.int64))
    return whole.cast(pa.int32()).cast(pa.date32()) if pa.types.is_date(dtype) else whole.cast(dtype)


def _mode(values: NDArray[np.int64]) -> int:
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts.argmax()])


def _one(table: Table, column: Column, rows: Mask) -> Table:
    """One column at some rows."""
    arrow = table.arrow.select([column.name])
    return rows_of(Table(arrow, "pyarrow", arrow), rows)


def _all(rows: Mask) -> Mask:
    return np.ones((int(rows.sum()), 1), dtype=np.bool_)


def _together(share: float, columns: Sequence[Filled]) -> Filled:
    """The scores of all cells, from those of each column."""

    def over(name: str) -> float | None:
        return _weighted([one[name] for one in columns], [one["cells"] for one in columns])  # type: ignore[literal-required]

    return Filled(
        missing=share,
        cells=sum(one["cells"] for one in columns),
        error=over("error"),
        error_of_mean=over("error_of_mean"),
        accuracy=over("accuracy"),
        accuracy_of_mode=over("accuracy_of_mode"),
    )


def _weighted(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    pairs = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None and weight]
    return finite(sum(v * w for v, w in pairs) / sum(w for _, w in pairs)) if pairs else None


def _gain(scored: Filled) -> float | None:
    """The share of the plain filling's loss that the model avoids."""
    if scored["error"] is not None:
        loss, plain = scored["error"], known(scored["error_of_mean"])
    else:
        loss, plain = 1 - known(scored["accuracy"]), 1 - known(scored["accuracy_of_mode"])
    return finite(1 - loss / plain) if plain > 0 else None
