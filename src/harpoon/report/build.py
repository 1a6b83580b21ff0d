"""The three summaries: of a model and test rows, of two tables, and of a model alone."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING

import numpy as np

from harpoon._text import format_list, shorten
from harpoon._utils.rng import RandomState, check_random_state, to_seed
from harpoon._utils.validation import check_count
from harpoon._version import __version__
from harpoon.conditions.expressions import Predicate
from harpoon.data import dataframe
from harpoon.data.coercion import coerce, unknown_categories
from harpoon.data.column import Column, Kind
from harpoon.data.dataframe import Table
from harpoon.data.schema import Schema, check_columns
from harpoon.exceptions import InvalidTable, SchemaMismatch, UnknownCategoryWarning
from harpoon.report.distributions import marginals
from harpoon.report.fidelity import FEWEST, MOST_LABELS, comparable_columns, fidelity
from harpoon.report.headlines import headlines
from harpoon.report.imputation import imputation, intervals
from harpoon.report.overview import associations, facts, missingness
from harpoon.report.rows import complete, finite, some
from harpoon.report.summary import Likeness, Pass, Rows, Summary, Training
from harpoon.report.what_if import what_if

if TYPE_CHECKING:
    from harpoon.estimator import Harpoon


ROWS = 5000
ROWS_UNDER_A_CONDITION = 2000
ROWS_WITH_INTERVALS = 1000
ROWS_IF_SLOW = 200  # of a model that draws each cell by many guided steps
MOST_PASSES = 200


def evaluate(
    model: Harpoon,
    test: object,
    *,
    where: str | Predicate | None = None,
    rows: int = ROWS,
    random_state: RandomState = None,
) -> Summary:
    """How well a model does on rows that it was not trained on.

    Real cells are hidden and filled, drawn rows are compared with the real ones, and under a condition every column is
    shown before and after.

    Args:
        model: A fitted model.
        test: Real rows, a frame with the columns of the training table.
        where: A condition, as for `Harpoon.sample`.
        rows: How many real rows to look at, at the most, and how many to draw.
        random_state: A seed or a NumPy generator; the model's own by default.

    >>> import pyarrow as pa
    >>> from harpoon import Harpoon
    >>> table = pa.table({"x": [1.0, 2.0, 3.0, 4.0] * 20, "c": ["a", "a", "b", "b"] * 20})
    >>> model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    >>> summary = evaluated(model, table, rows=50)
    >>> summary["rows"]
    {'real': 80, 'used': 50, 'complete': 50, 'drawn': 50}
    """
    model, seed = _quiet(model), _seed(model, random_state)
    whole = dataframe.read(test)
    check_columns(whole.names, model.schema_.names)
    if not whole.n_rows:
        raise InvalidTable("A table to evaluate a model on must have rows, got one without any.")
    most = _affordable(model, check_count(rows, "rows, the number of rows to look at,"))
    real = some(whole, most, np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownCategoryWarning)  # the page says so
        drawn = dataframe.read(model.sample(most, random_state=seed))
        return _finished(_evaluated(model, whole, real, drawn, where=where, seed=seed))


def compare(real: object, synthetic: object, *, random_state: RandomState = None) -> Summary:
    """How alike two tables are, wherever the second one comes from.

    Args:
        real: Real rows.
        synthetic: Rows that should look like them. Columns that only one of the two has are left out.
        random_state: A seed or a NumPy generator, for the choice of rows.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "a", "b", "b"]})
    >>> [column["distance"] for column in compared(table, table)["marginals"]]
    [0.0, 0.0]
    """
    seed = to_seed(check_random_state(random_state)) % 2**32
    whole, other = dataframe.read(real), dataframe.read(synthetic)
    if not all(table.n_rows and table.names for table in (whole, other)):
        raise InvalidTable("Tables to compare must have rows and columns, got one without any.")
    schema, notes = _in_common(whole, other)
    rng = np.random.default_rng(seed)
    left, right = some(whole, ROWS, rng), some(other, ROWS, rng)
    summary = _of_tables("compared", schema, whole, left, right)
    summary["notes"] += notes
    _with_likeness(summary, schema, fidelity(schema, left, right, against="real rows", seed=seed))
    return _finished(summary)


def describe(
    model: Harpoon, *, where: str | Predicate | None = None, rows: int = ROWS, random_state: RandomState = None
) -> Summary:
    """What a model alone can tell: its columns, its training, rows drawn from it, and what a condition does to them.

    Args:
        model: A fitted model.
        where: A condition, as for `Harpoon.sample`.
        rows: How many rows to draw, at the most.
        random_state: A seed or a NumPy generator; the model's own by default.
    """
    model, seed = _quiet(model), _seed(model, random_state)
    most = _affordable(model, check_count(rows, "rows, the number of rows to draw,"))
    drawn = dataframe.read(model.sample(most, random_state=seed))
    summary = _of_tables("described", model.schema_, None, None, drawn)
    summary["training"] = _training(model)
    if where is not None:
        summary["condition"] = what_if(model, where, drawn, None, rows=min(most, ROWS_UNDER_A_CONDITION), seed=seed)
    return _finished(summary)


def _evaluated(
    model: Harpoon, whole: Table, real: Table, drawn: Table, *, where: str | Predicate | None, seed: int
) -> Summary:
    schema, trained_on = model.schema_, _training_rows(model)
    summary = _of_tables("evaluated", schema, whole, real, drawn)
    if where is not None:  # before what takes longer: a condition may be impossible
        rows = min(drawn.n_rows, ROWS_UNDER_A_CONDITION)
        summary["condition"] = what_if(model, where, drawn, real, rows=rows, seed=seed)
    summary["notes"] += _unseen(schema, real)
    summary["filling"] = imputation(model, real, seed)
    if not model.denoiser_.is_conditional:
        summary["notes"].append(f"The preset {model.preset!r} draws slowly: few rows were looked at, and no intervals.")
    elif any(column.kind.numeric for column in schema.modelled):
        summary["intervals"] = intervals(model, some(real, ROWS_WITH_INTERVALS, np.random.default_rng(seed)), seed)
    against = "test rows" if trained_on is None else "training rows"
    found = fidelity(schema, real, drawn, trained_on=trained_on, against=against, seed=seed)
    _with_likeness(summary, schema, found)
    summary["training"] = _training(model)
    return summary


def _of_tables(kind: str, schema: Schema, whole: Table | None, real: Table | None, drawn: Table) -> Summary:
    """What two tables, or one, tell by themselves."""
    summary = Summary(
        kind=kind,  # type: ignore[typeddict-item]
        version=__version__,
        rows=Rows(
            real=None if whole is None else whole.n_rows,
            used=None if real is None else real.n_rows,
            complete=None if real is None else complete(real, schema).n_rows,
            drawn=drawn.n_rows,
        ),
        notes=[],
        headlines=[],
        columns=facts(schema, whole),
    )
    if whole is not None and real is not None:
        summary["missingness"] = missingness(whole)
        if real.n_rows < whole.n_rows:
            summary["notes"].append(
                f"{real.n_rows:,} of the {whole.n_rows:,} real rows were looked at, chosen at random."
            )
    if schema.modelled:
        pair = {"drawn": drawn} if real is None else {"real": real, "drawn": drawn}
        summary["marginals"] = marginals(schema, pair)
        summary["associations"] = associations(schema, real, drawn)
    return summary


def _with_likeness(summary: Summary, schema: Schema, found: Likeness | None) -> None:
    """Add the scores of whole rows, and what they do not say."""
    if found is None:
        why = f"There are too few complete rows to judge rows as wholes: at least {FEWEST} of each are needed."
        summary["notes"].append(why)
        return
    summary["likeness"] = found
    fewer = len(schema.modelled) - len(comparable_columns(schema).modelled)
    if fewer:
        columns = f"{fewer} column{'s' if fewer > 1 else ''} with more than {MOST_LABELS} labels"
        summary["notes"].append(f"Scores of whole rows leave out {columns}.")


def _unseen(schema: Schema, table: Table) -> list[str]:
    """A sentence for each column with labels that the model does not know."""
    found = {column.name: unknown_categories(table.column(column.name), column) for column in schema.modelled}
    return [
        f"Column {shorten(name)!r} holds {format_list(labels)}, unknown to the model: taken as missing."
        for name, labels in found.items()
        if labels
    ]


def _finished(summary: Summary) -> Summary:
    summary["headlines"] = headlines(summary)
    return summary


def _in_common(real: Table, synthetic: Table) -> tuple[Schema, list[str]]:
    """The columns that can be compared, and a sentence for each reason to leave one out."""
    notes = []
    for table, other, where in ((real, synthetic, "real"), (synthetic, real, "synthetic")):
        alone = [name for name in table.names if name not in set(other.names)]
        if alone:
            notes.append(f"Only the {where} table has {format_list([shorten(name) for name in alone])}.")
    columns: list[Column] = []
    for column in Schema.infer(real):
        if column.name not in synthetic.names:
            continue
        try:
            columns.append(_fitting(column, real, synthetic))
        except SchemaMismatch as error:
            columns.append(Column(column.name, Kind.SKIPPED, note="the two tables hold different things in it"))
            notes.append(str(error))
    return Schema(tuple(columns)), notes


def _fitting(column: Column, real: Table, synthetic: Table) -> Column:
    """The column as both tables hold it: integers that the other table has as fractions are numbers."""
    if not column.kind.modelled:
        return column
    cells = synthetic.column(column.name)
    if column.kind is Kind.INTEGER and cells.storage == "float":
        column = Schema.infer(_one_column(real, column.name), kinds={column.name: Kind.NUMBER})[column.name]
    coerce(cells, column)
    return column


def _one_column(table: Table, name: str) -> Table:
    """One column of a table."""
    arrow = table.arrow.select([name])
    return Table(arrow, "pyarrow", arrow)


def _quiet(model: Harpoon) -> Harpoon:
    """The same model without progress bars, whose `report_` is its own: a report changes nothing."""
    model._fitted()
    quiet = copy.copy(model)
    quiet.progress = False
    return quiet


def _seed(model: Harpoon, random_state: RandomState) -> int:
    return to_seed(model.random_state if random_state is None else check_random_state(random_state)) % 2**32


def _affordable(model: Harpoon, rows: int) -> int:
    return rows if model.denoiser_.is_conditional else min(rows, ROWS_IF_SLOW)


def _training_rows(model: Harpoon) -> Table | None:
    """Complete rows that the model was trained on, where it was fitted here and not read from a file."""
    rows = getattr(model, "_trained_on", None)
    table = None if rows is None else complete(dataframe.read(model.template_.build(rows)), model.schema_)
    return table if table is not None and table.n_rows >= FEWEST else None


def _training(model: Harpoon) -> Training:
    history = model.history_
    every = max(len(history.epochs) // MOST_PASSES, 1)
    shown = [epoch for i, epoch in enumerate(history.epochs) if i % every == 0 or epoch is history.epochs[-1]]
    return Training(
        preset=model.preset,
        seconds=round(history.seconds, 1),
        stopped_by=history.stopped_by,
        curve=[
            Pass(
                number=epoch.number,
                loss=finite(epoch.loss) or 0.0,
                held_out_loss=None if epoch.validation_loss is None else finite(epoch.validation_loss),
                seconds=round(epoch.seconds, 1),
            )
            for epoch in shown
        ],
    )
