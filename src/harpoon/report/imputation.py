"""Scores of imputation: real cells are hidden, imputed, and compared with the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harpoon import metrics
from harpoon.data import Column, Kind, Mask, Schema, Table, as_category, coerce, dataframe
from harpoon.inference.imputation.prediction_intervals import attainable_coverage
from harpoon.metrics import masks
from harpoon.report.summary import (
    ColumnCoverage,
    Imputation,
    ImputationScore,
    Intervals,
    finite_or_none,
    mean_or_none,
    nan_if_none,
)

if TYPE_CHECKING:
    from harpoon.estimator import Harpoon


HIDDEN_FRACTIONS = (0.1, 0.3, 0.5, 0.7)
GAIN_AT = 0.3
INTERVAL_HIDDEN_FRACTION, INTERVAL_LEVEL = 0.25, 0.9
INTERVAL_DRAWS = 20  # a 90 % interval needs at least 19 draws, and one is left out to compute the attainable coverage


def imputation(model: Harpoon, table: Table, seed: int) -> Imputation:
    """Score the imputation of cells that were hidden completely at random, and of means and modes."""
    modelled = scored_columns(model.schema_)
    columns: dict[str, list[ImputationScore]] = {column.name: [] for column in modelled}
    for number, fraction in enumerate(HIDDEN_FRACTIONS):
        hidden = _choose_hidden(model, table, fraction, seed + number)
        masked = hide_cells(table, hidden)
        imputed = dataframe.read(model.impute(masked, random_state=seed + number))
        for column in modelled:
            score = _score_column(column, table, masked, imputed, hidden[column.name])
            columns[column.name].append({**score, "hidden": fraction})
    return Imputation(
        rows=table.n_rows,
        gain=mean_or_none(_gain(scores[HIDDEN_FRACTIONS.index(GAIN_AT)]) for scores in columns.values()),
        gain_at=GAIN_AT,
        scores=[
            _average(fraction, [scores[i] for scores in columns.values()])
            for i, fraction in enumerate(HIDDEN_FRACTIONS)
        ],
        columns=[
            {"name": column.name, "kind": column.kind.value, "scores": columns[column.name]} for column in modelled
        ],
    )


def intervals(model: Harpoon, table: Table, seed: int) -> Intervals:
    """Compute the coverage of prediction intervals for hidden numeric cells."""
    hidden = _choose_hidden(model, table, INTERVAL_HIDDEN_FRACTION, seed)
    imputation = model.impute(hide_cells(table, hidden), draws=INTERVAL_DRAWS, random_state=seed)
    low, high = (dataframe.read(end) for end in imputation.interval(INTERVAL_LEVEL))
    draws = [dataframe.read(draw) for draw in imputation]
    columns = [
        _coverage(column, table, (low, high), draws, hidden[column.name])
        for column in scored_columns(model.schema_)
        if column.kind.numeric and hidden[column.name].any()
    ]
    cells = [one["cells"] for one in columns]
    return Intervals(
        level=INTERVAL_LEVEL,
        draws=INTERVAL_DRAWS,
        rows=table.n_rows,
        hidden=INTERVAL_HIDDEN_FRACTION,
        coverage=mean_or_none((one["coverage"] for one in columns), cells),
        attainable=mean_or_none((one["attainable"] for one in columns), cells),
        columns=columns,
    )


def scored_columns(schema: Schema) -> list[Column]:
    """Return the modelled columns; a 0/1 flag is scored as a category, by its accuracy."""
    return [as_category(column) for column in schema.modelled]


def hide_cells(table: Table, hidden: dict[str, Mask]) -> Table:
    """Return the table with missing cells where a mask is true."""
    arrow = table.arrow
    for name, mask in hidden.items():
        # Taking at a null index gives a null in a column of any type.
        masked = arrow.column(name).take(pa.array(np.arange(len(mask)), mask=mask))
        arrow = arrow.set_column(arrow.schema.get_field_index(name), arrow.schema.field(name), masked)
    return Table(arrow, "pyarrow", arrow, table.mixed)


def _choose_hidden(model: Harpoon, table: Table, fraction: float, seed: int) -> dict[str, Mask]:
    """Choose cells to hide, among the observed cells of modelled columns."""
    names = [column.name for column in model.schema_.modelled]
    mask = masks.mcar(np.zeros((table.n_rows, len(names))), fraction, np.random.default_rng(seed))
    return {name: mask[:, i] & ~table.column(name).missing for i, name in enumerate(names)}


def _coverage(
    column: Column, truth: Table, ends: tuple[Table, Table], draws: list[Table], hidden: Mask
) -> ColumnCoverage:
    true, low, high = (_select(table, column, hidden) for table in (truth, *ends))
    values = np.stack([coerce(draw.column(column.name), column).values[hidden].astype(np.float64) for draw in draws])
    return ColumnCoverage(
        name=column.name,
        cells=int(hidden.sum()),
        coverage=finite_or_none(metrics.coverage(Schema((column,)), true, (low, high), _all_cells(hidden))),
        attainable=finite_or_none(attainable_coverage(values, INTERVAL_LEVEL, column)),
    )


def _score_column(column: Column, truth: Table, masked: Table, imputed: Table, hidden: Mask) -> ImputationScore:
    by_model, by_mean = (
        _score(column, truth, other, hidden) if hidden.any() and other is not None else None
        for other in (imputed, _impute_mean_or_mode(column, masked))
    )
    numeric = column.kind.numeric
    return ImputationScore(
        hidden=float(hidden.mean()),
        cells=int(hidden.sum()),
        mse=by_model if numeric else None,
        mse_of_mean=by_mean if numeric else None,
        accuracy=None if numeric else by_model,
        accuracy_of_mode=None if numeric else by_mean,
    )


def _score(column: Column, truth: Table, imputed: Table, hidden: Mask) -> float | None:
    schema = Schema((column,))
    true, guess = (_select(table, column, hidden) for table in (truth, imputed))
    if column.kind.discrete:
        return finite_or_none(metrics.accuracy(schema, true, guess, _all_cells(hidden)))
    reference = _select(truth, column, ~truth.column(column.name).missing)
    return finite_or_none(metrics.standardised_mse(schema, true, guess, _all_cells(hidden), reference))


def _impute_mean_or_mode(column: Column, masked: Table) -> Table | None:
    """Return a column of the mean or the mode of the observed cells; None if there are none."""
    from scipy.stats import mode

    own, cells = masked.arrow.column(column.name), masked.column(column.name)
    if cells.missing.all():
        return None
    if column.kind.discrete:
        first = np.flatnonzero(~cells.missing & (cells.values == mode(cells.observed).mode))[0]
        imputed = own.take(np.full(len(own), first))
    else:
        mean = cells.observed.astype(np.float64).mean()
        values = np.full(len(own), mean if column.kind is Kind.NUMBER else np.round(mean))
        keeps_float = cells.storage == "float" or column.kind is Kind.NUMBER
        imputed = pa.array(values) if keeps_float else _cast_integers(values, own.type)
    return dataframe.read(pa.table({column.name: imputed}))


def _cast_integers(values: NDArray[np.float64], dtype: pa.DataType) -> pa.Array:
    """Cast integers to the integers, dates or times that they stand for."""
    integers = pa.array(values.astype(np.int64))
    return integers.cast(pa.int32()).cast(pa.date32()) if pa.types.is_date(dtype) else integers.cast(dtype)


def _select(table: Table, column: Column, rows: Mask) -> Table:
    """Return one column at some rows."""
    return dataframe.read(table.arrow.select([column.name]).filter(pa.array(rows)))


def _all_cells(rows: Mask) -> Mask:
    return np.ones((int(rows.sum()), 1), dtype=np.bool_)


def _average(fraction: float, scores: Sequence[ImputationScore]) -> ImputationScore:
    """Average the scores of columns, weighted by their cells."""
    cells = [score["cells"] for score in scores]
    return ImputationScore(
        hidden=fraction,
        cells=sum(cells),
        mse=mean_or_none((score["mse"] for score in scores), cells),
        mse_of_mean=mean_or_none((score["mse_of_mean"] for score in scores), cells),
        accuracy=mean_or_none((score["accuracy"] for score in scores), cells),
        accuracy_of_mode=mean_or_none((score["accuracy_of_mode"] for score in scores), cells),
    )


def _gain(score: ImputationScore) -> float | None:
    """Return the fraction of the loss of mean or mode imputation that the model avoids."""
    if score["mse"] is not None:
        loss, baseline = score["mse"], nan_if_none(score["mse_of_mean"])
    else:
        loss, baseline = 1 - nan_if_none(score["accuracy"]), 1 - nan_if_none(score["accuracy_of_mode"])
    return finite_or_none(1 - loss / baseline) if baseline > 0 else None
