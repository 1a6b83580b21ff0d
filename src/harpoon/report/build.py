"""Build a summary: of a model and test rows, of two tables, or of a model alone."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

import numpy as np

from harpoon._formatting import format_list, shorten
from harpoon._utils.progress import with_progress
from harpoon._utils.rng import RandomState, Stream, check_random_state, generator, to_seed
from harpoon._utils.validation import check_count
from harpoon._utils.weighted_rows import effective_size
from harpoon._version import __version__
from harpoon.conditions import Predicate
from harpoon.config import DEFAULT_REPORT_ROWS
from harpoon.data import Column, Kind, Schema, Table, coerce, dataframe, unknown_categories
from harpoon.data.schema import check_columns
from harpoon.data.survey_weights import read_weights
from harpoon.exceptions import (
    BrokenRuleWarning,
    InvalidTable,
    SchemaMismatch,
    StructuralMissingWarning,
    UnknownCategoryWarning,
)
from harpoon.inference.model_audit import MAX_ROWS_IF_SLOW
from harpoon.report.distributions import marginals
from harpoon.report.fidelity import MAX_CATEGORIES, MIN_ROWS, Reference, comparable_columns, fidelity
from harpoon.report.headlines import headlines
from harpoon.report.imputation import imputation, intervals, scored_columns
from harpoon.report.overview import associations, column_facts, missingness
from harpoon.report.rows import complete_rows, sample_rows, weighted_rows
from harpoon.report.summary import PrivateTraining, Summary, Training, finite_or_none, finite_or_zero
from harpoon.report.what_if import what_if

if TYPE_CHECKING:
    from harpoon.estimator import Harpoon


MAX_INTERVAL_ROWS = 1000
MAX_EPOCHS_SHOWN = 200


def evaluate(
    model: Harpoon,
    test: object,
    *,
    train: object = None,
    where: str | Predicate | None = None,
    rows: int = DEFAULT_REPORT_ROWS,
    random_state: RandomState = None,
) -> Summary:
    """Evaluate a model on rows that it was not trained on.

    Real cells are hidden and imputed, synthetic rows are compared with real ones, and a condition shows its effect on
    every column.

    Args:
        model: A fitted model.
        test: Real rows, a dataframe with the columns of the training table. If the model was trained with weights, rows
            are chosen in proportion to that column, so that the page describes the population.
        train: The training table, to search it for copies. Without it, authenticity and the distance to the closest
            record are not computed: a model keeps no training rows.
        where: A condition, as for `Harpoon.sample`.
        rows: Number of rows to sample, and of real rows to use at most.
        random_state: A seed or a NumPy generator; the model's own by default.

    >>> import pyarrow as pa
    >>> from harpoon import Harpoon
    >>> table = pa.table({"x": [1.0, 2.0, 3.0, 4.0] * 20, "c": ["a", "a", "b", "b"] * 20})
    >>> model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    >>> summary = evaluate(model, table, rows=50)
    >>> summary["rows"]
    {'real': 80, 'used': 50, 'complete': 50, 'synthetic': 50}
    """
    model, seed, max_rows = _prepare(model, rows, random_state)
    read, schema = _read(model, test, "test"), model.schema_
    whole = weighted_rows(read, schema, generator(seed, Stream.WEIGHTED_ROWS))
    training = None if train is None else _read(model, train, "train")
    reference = _training_reference(model, training)
    real = sample_rows(whole, max_rows, np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownCategoryWarning)  # the notes of the summary name them
        warnings.simplefilter("ignore", StructuralMissingWarning)  # imputed cells are not returned
        warnings.simplefilter("ignore", BrokenRuleWarning)  # the rules of the summary have the counts
        synthetic = dataframe.read(model.sample(max_rows, random_state=seed))
        summary = _summarize_tables("evaluation", schema, whole, real, synthetic)
        if where is not None:  # first, because a condition may be infeasible and the rest takes longer
            summary["condition"] = what_if(model, where, synthetic, whole, seed=seed, training=training)
        summary["notes"] += _weight_notes(schema, read) + _unknown_category_notes(schema, real)
        summary["imputation"] = imputation(model, real, seed)
        if not model.denoiser_.is_conditional:
            summary["notes"].append(
                f"The preset {model.preset!r} samples slowly: few rows are used, without intervals."
            )
        elif any(column.kind.numeric for column in scored_columns(schema)):
            rows_used = sample_rows(real, MAX_INTERVAL_ROWS, np.random.default_rng(seed))
            summary["intervals"] = intervals(model, rows_used, seed)
        _add_fidelity(summary, schema, real, synthetic, reference=reference, seed=seed)
        summary["training"] = _training(model, real)
    summary["headlines"] = headlines(summary)
    return summary


def compare(real: object, synthetic: object, *, random_state: RandomState = None) -> Summary:
    """Compare a synthetic table, from any source, with a real one.

    Args:
        real: Real rows.
        synthetic: Rows that should look like them. Columns that only one of the two has are left out.
        random_state: A seed or a NumPy generator, for the choice of rows.

    >>> import pyarrow as pa
    >>> table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "a", "b", "b"]})
    >>> [column["distance"] for column in compare(table, table)["marginals"]]
    [0.0, 0.0]
    """
    seed = to_seed(check_random_state(random_state)) % 2**32
    whole, other = dataframe.read(real), dataframe.read(synthetic)
    if not all(table.n_rows and table.names for table in (whole, other)):
        raise InvalidTable("Both `real` and `synthetic` must have rows and columns.")
    schema, notes = _common_columns(whole, other)
    rng = np.random.default_rng(seed)
    left, right = sample_rows(whole, DEFAULT_REPORT_ROWS, rng), sample_rows(other, DEFAULT_REPORT_ROWS, rng)
    summary = _summarize_tables("comparison", schema, whole, left, right)
    summary["notes"] += notes
    _add_fidelity(summary, schema, left, right, reference=Reference(left, "real rows"), seed=seed)
    summary["headlines"] = headlines(summary)
    return summary


def describe(
    model: Harpoon,
    *,
    where: str | Predicate | None = None,
    rows: int = DEFAULT_REPORT_ROWS,
    random_state: RandomState = None,
) -> Summary:
    """Describe a model alone: its columns, its training, rows sampled from it, and the effect of a condition on them.

    Args:
        model: A fitted model.
        where: A condition, as for `Harpoon.sample`.
        rows: Number of rows to sample.
        random_state: A seed or a NumPy generator; the model's own by default.
    """
    model, seed, max_rows = _prepare(model, rows, random_state)
    synthetic = dataframe.read(model.sample(max_rows, random_state=seed))
    summary = _summarize_tables("description", model.schema_, None, None, synthetic)
    summary["training"] = _training(model)
    if where is not None:
        summary["condition"] = what_if(model, where, synthetic, None, seed=seed)
    summary["headlines"] = headlines(summary)
    return summary


def _summarize_tables(
    kind: Literal["evaluation", "comparison", "description"],
    schema: Schema,
    whole: Table | None,
    real: Table | None,
    synthetic: Table,
) -> Summary:
    """Build the parts that need no model, from one or two tables."""
    summary = Summary(
        kind=kind,
        version=__version__,
        rows={
            "real": None if whole is None else whole.n_rows,
            "used": None if real is None else real.n_rows,
            "complete": None if real is None else complete_rows(real, schema).n_rows,
            "synthetic": synthetic.n_rows,
        },
        notes=[],
        headlines=[],
        columns=column_facts(schema, whole),
    )
    if whole is not None and real is not None:
        summary["missingness"] = missingness(whole)
        if real.n_rows < whole.n_rows:
            summary["notes"].append(f"{real.n_rows:,} of the {whole.n_rows:,} real rows are used, chosen at random.")
    if schema.modelled:
        tables = {"synthetic": synthetic} if real is None else {"real": real, "synthetic": synthetic}
        summary["marginals"] = marginals(schema, tables)
        summary["associations"] = associations(schema, real, synthetic)
    return summary


def _add_fidelity(
    summary: Summary, schema: Schema, real: Table, synthetic: Table, *, reference: Reference, seed: int
) -> None:
    """Add the scores of whole rows, and notes about what they leave out."""
    result = fidelity(schema, real, synthetic, reference=reference, seed=seed)
    if result is None:
        summary["notes"].append(
            f"Whole rows are not scored: this needs at least {MIN_ROWS} rows of each table, and a usable column."
        )
        return
    if result["complete"] < MIN_ROWS:
        summary["notes"].append(
            f"Only {result['complete']:,} rows are complete: scores that cannot read missing cells, such as "
            f"α-precision and β-recall, need at least {MIN_ROWS}."
        )
    summary["fidelity"] = result
    n_left_out = len(schema.modelled) - len(comparable_columns(schema).modelled)
    if n_left_out:
        columns = f"{n_left_out} column{'s' if n_left_out > 1 else ''} with more than {MAX_CATEGORIES} categories"
        summary["notes"].append(f"Scores of whole rows leave out {columns}.")


def _weight_notes(schema: Schema, test: Table) -> list[str]:
    if schema.weights is None:
        return []
    if schema.weights not in test.names:
        return [f"Rows have no weights here, because the test rows have no column {shorten(schema.weights)!r}."]
    size = effective_size(read_weights(test, schema.weights))
    choice = f"Real rows are chosen in proportion to {shorten(schema.weights)!r}, so some are used more than once."
    return [f"{choice} They are worth {size:,.0f} of {test.n_rows:,} rows without weights."]


def _unknown_category_notes(schema: Schema, table: Table) -> list[str]:
    found = {column.name: unknown_categories(table.column(column.name), column) for column in schema.modelled}
    return [
        f"Column {shorten(name)!r} has categories that the model does not know: {format_list(categories)}. "
        "They are ignored as inputs."
        for name, categories in found.items()
        if categories
    ]


def _common_columns(real: Table, synthetic: Table) -> tuple[Schema, list[str]]:
    """Return the columns that can be compared, and a note for each reason to leave one out."""
    notes = []
    for table, other, which in ((real, synthetic, "real"), (synthetic, real, "synthetic")):
        alone = [name for name in table.names if name not in set(other.names)]
        if alone:
            notes.append(f"Only the {which} table has {format_list([shorten(name) for name in alone])}.")
    columns: list[Column] = []
    for column in Schema.infer(real):
        if column.name not in synthetic.names:
            continue
        try:
            columns.append(_common_column(column, real, synthetic))
        except SchemaMismatch as error:
            columns.append(Column(column.name, Kind.SKIPPED, note="its cells differ in kind between the two tables"))
            notes.append(str(error))
    return Schema(tuple(columns)), notes


def _common_column(column: Column, real: Table, synthetic: Table) -> Column:
    """Return a column that fits both tables: integers that the other table has as fractions are numbers."""
    if not column.kind.modelled:
        return column
    cells = synthetic.column(column.name)
    if column.kind is Kind.INTEGER and cells.storage == "float":
        column = Schema.infer(real.arrow.select([column.name]), kinds={column.name: Kind.NUMBER})[column.name]
    coerce(cells, column)
    return column


def _read(model: Harpoon, data: object, name: str) -> Table:
    """Read a table that must have rows and the columns of the model."""
    table = dataframe.read(data)
    check_columns(table.names, model.schema_.names, weights=model.schema_.weights)
    if not table.n_rows:
        raise InvalidTable(f"`{name}` must have rows, got none.")
    return table


def _training_reference(model: Harpoon, train: Table | None) -> Reference:
    """Return the complete training rows, or a note that explains why there are none."""
    if train is None:
        note = "a model does not keep its training rows. Pass the training table as `train`."
        return Reference(None, "training rows", f"Not computed: {note}")
    rows = complete_rows(train, comparable_columns(model.schema_))
    if rows.n_rows < MIN_ROWS:
        note = f"Not computed: this needs at least {MIN_ROWS} complete training rows, got {rows.n_rows}."
        return Reference(None, "training rows", note)
    return Reference(rows, "training rows")


def _prepare(model: Harpoon, rows: int, random_state: RandomState) -> tuple[Harpoon, int, int]:
    """Return a copy of a model without progress bars, a seed, and the number of rows to sample."""
    model._check_fitted()
    seed = to_seed(model.random_state if random_state is None else check_random_state(random_state)) % 2**32
    max_rows = min(check_count(rows, "rows"), rows if model.denoiser_.is_conditional else MAX_ROWS_IF_SLOW)
    return with_progress(model, progress=False), seed, max_rows


def _training(model: Harpoon, real: Table | None = None) -> Training:
    history = model.history_
    broken = {} if real is None else model.check(real).counts
    every = max(len(history.epochs) // MAX_EPOCHS_SHOWN, 1)
    shown = [epoch for i, epoch in enumerate(history.epochs) if i % every == 0 or epoch is history.epochs[-1]]
    return Training(
        preset=model.preset,
        seconds=round(history.seconds, 1),
        stopped_by=history.stopped_by,
        grade=history.calibration.grade,
        calibration=str(history.calibration),
        epochs=[
            {
                "number": epoch.number,
                "loss": finite_or_zero(epoch.loss),
                "validation_loss": finite_or_none(epoch.validation_loss),
                "seconds": round(epoch.seconds, 1),
            }
            for epoch in shown
        ],
        rules=[{"name": each.name, "text": each.text, "broken": broken.get(each.name)} for each in model.rules_],
        **_private_training(model),
    )


def _private_training(model: Harpoon) -> PrivateTraining:
    """Return the budget of differential privacy; nothing of a model without one."""
    record = model.privacy_
    return {} if record is None else {"steps": record.privacy.steps, "budget": f"Differential privacy: {record}."}
