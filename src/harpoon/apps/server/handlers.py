"""What each route does. A handler takes the model, the request and the control of its job, and runs in a thread."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon._text import format_percent
from harpoon.apps.server.errors import too_large
from harpoon.apps.server.responses import CSV, Payload, to_records
from harpoon.apps.server.schemas import MAX_SEED, FeasibilityBody, ImputeParameters, ProfileBody, SampleBody
from harpoon.apps.server.served_model import ServedModel, distributions
from harpoon.apps.server.uploads import Upload
from harpoon.apps.server.workers import JobControl
from harpoon.conditions import Predicate, bind, column_names, evaluate, parse
from harpoon.data import Column, Kind, Schema, Table, dataframe, read_columns
from harpoon.data.arrow_types import text_types
from harpoon.engines.block_imputer import BlockImputer, stack_draws
from harpoon.exceptions import InvalidOption, InvalidTable, collect_warnings
from harpoon.inference.feasibility import wilson_interval
from harpoon.inference.imputation import MultipleImputation
from harpoon.io.source import boolean_spellings
from harpoon.io.text_types import cast_texts, plain_values
from harpoon.report.histograms import distance
from harpoon.report.what_if import MIN_REAL_ROWS, shift

FilledCell = dict[str, Any]


def sample(served: ServedModel, body: SampleBody, control: JobControl) -> Payload:
    """Sample rows, each of which satisfies the condition."""
    table, info, seed = _sample(served, body, control, allow_fewer=body.allow_fewer)
    return Payload({"sampling_info": info, "seed": seed}, table)


def feasibility(served: ServedModel, body: FeasibilityBody, control: JobControl) -> Payload:
    """Estimate the probability of a condition, and say what to relax."""
    model, seed = served.for_job(control), _choose_seed(body.seed)
    control.passes = 1
    found = model.feasibility(body.where, given=_given_values(body.given, model.schema_), random_state=seed)
    low, high = (format_percent(end) for end in found.interval)
    message = f"{format_percent(found.probability)} of sampled rows satisfy it (95 % confidence: {low} to {high})."
    facts = {name: value for name, value in asdict(found).items() if name != "training_fraction"}  # there are no rows
    return Payload({**facts, "message": " ".join([message, found.suggestion]).strip(), "seed": seed})


def profile(served: ServedModel, body: ProfileBody, control: JobControl) -> Payload:
    """Compare every column under a condition with unconditional samples, the strongest change first."""
    table, info, seed = _sample(served, body, control, allow_fewer=True)
    after, tree = dataframe.read(table), None if body.where is None else parse(body.where)
    in_condition = {*(body.given or ()), *(() if tree is None else column_names(tree))}
    before = served.unconditional(body.missing)
    real = None if tree is None or body.given else served.supporting_rows(bind(tree, served.model.schema_))
    changes = [_compare(column, served.reference, before, after, real) for column in served.model.schema_.modelled]
    changes.sort(key=lambda change: -(change["change"] or 0.0))
    probability, interval = _estimate_probability(before, tree, served.model.schema_)
    return Payload(
        {
            "where": None if tree is None else str(tree),
            "probability": probability,
            "interval": interval,
            "support": None if real is None or served.real is None else _support(real.n_rows, served.real.n_rows),
            "rows": after.n_rows,
            "sampling_info": info,
            "columns": [{**change, "in_condition": change["name"] in in_condition} for change in changes],
            "sampled": to_records(table.slice(0, body.show)),
            "seed": seed,
        }
    )


def impute_table(
    served: ServedModel, upload: Upload, parameters: ImputeParameters, control: JobControl, media: str
) -> Payload:
    """Return the completed table, or several draws of it, stacked. From CSV to CSV, other cells are copied as text."""
    seed = _prepare_imputation(served, parameters, control, passes=parameters.draws or 1)
    is_csv = media == CSV
    imputer = BlockImputer(
        served.for_job(control),
        upload.source.schema,
        draws=parameters.draws,
        where=parameters.where,
        seed=seed,
        keep_text=is_csv,
        boolean_spellings=boolean_spellings(upload.source) if is_csv else None,
        options=parameters.options,
    )
    with collect_warnings() as notes:
        tables = imputer.impute_chunk(upload.chunk, 0)
    table = tables[0] if parameters.draws is None else stack_draws(tables)
    return Payload({"seed": seed, "notes": notes}, table)


def impute_cells(served: ServedModel, upload: Upload, parameters: ImputeParameters, control: JobControl) -> Payload:
    """Return the completed table and each filled cell; with draws, also the uncertainty of each."""
    seed = _prepare_imputation(served, parameters, control, passes=1 + (parameters.draws or 0))
    model, options = served.for_job(control), parameters.options
    is_sampled = parameters.where is not None or not model.denoiser_.is_conditional
    # The best values are not sampled: options of sampling would have no effect.
    first = options if is_sampled or parameters.draws is None else _structural(options)
    imputer = BlockImputer(model, upload.source.schema, where=parameters.where, seed=seed, options=first)
    with collect_warnings() as notes:
        (table,) = imputer.impute_chunk(upload.chunk, 0)
    cells = filled_cells(upload.chunk.table, table, list(imputer.n_filled))
    if parameters.draws is not None:
        known = upload.chunk.table.select(imputer.modelled)
        with collect_warnings():  # the same ones
            draws = model.impute(known, draws=parameters.draws, where=parameters.where, random_state=seed, **options)
        cells = add_uncertainty(cells, draws, parameters.level)
    facts = {"filled": cells, "copied_columns": imputer.passed_through, "notes": notes, "seed": seed}
    return Payload(facts, table)


def _structural(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name == "structural"}


def filled_cells(before: pa.Table, after: pa.Table, names: Sequence[str]) -> list[FilledCell]:
    """Return the cells of some columns that were missing and now have values, row by row.

    >>> filled_cells(pa.table({"x": [1, None], "y": [None, "b"]}), pa.table({"x": [1, 2], "y": ["a", "b"]}), ["x", "y"])
    [{'row': 0, 'column': 'y', 'value': 'a'}, {'row': 1, 'column': 'x', 'value': 2}]
    """
    found: list[FilledCell] = []
    for name in names:
        rows = np.flatnonzero(pc.and_(pc.is_null(before[name], nan_is_null=True), pc.is_valid(after[name])))
        values = zip(rows.tolist(), plain_values(after[name].take(rows)), strict=True)
        found += [{"row": row, "column": name, "value": value} for row, value in values]
    return sorted(found, key=lambda cell: cell["row"])


def add_uncertainty(cells: Sequence[FilledCell], draws: MultipleImputation, level: float) -> list[FilledCell]:
    """Return the cells with an interval, or with the fraction of the draws that have each category."""
    ends = draws.interval(level, quiet=True)
    low, high = ({name: plain_values(end[name]) for name in end.column_names} for end in ends)
    discrete = {cell["column"] for cell in cells} - set(low)
    by_draw = {name: [plain_values(table[name]) for table in draws] for name in discrete}

    def uncertainty(name: str, row: int, value: object) -> FilledCell:
        if name in low:
            return {"low": low[name][row], "high": high[name][row]}
        counts = Counter(values[row] for values in by_draw[name])
        fractions = {category: count / len(draws) for category, count in counts.most_common()}
        return {"probability": fractions.get(value, 0.0), "probabilities": fractions}

    return [{**cell, **uncertainty(cell["column"], cell["row"], cell["value"])} for cell in cells]


def _sample(
    served: ServedModel, body: SampleBody | ProfileBody, control: JobControl, *, allow_fewer: bool
) -> tuple[pa.Table, dict[str, Any], int]:
    """Return rows, diagnostics and the seed."""
    if body.n > served.limits.rows:
        raise too_large(f"At most {served.limits.rows:,} rows can be sampled at once here, got {body.n:,}.")
    model, seed = served.for_job(control), _choose_seed(body.seed)
    control.passes = 1 if body.where is None else None
    table = model.sample(
        body.n,
        where=body.where,
        given=_given_values(body.given, model.schema_),
        strategy="auto" if body.where is None else body.strategy,
        on_shortfall="return" if allow_fewer and body.where is not None else "raise",
        missing=body.missing,
        random_state=seed,
        **body.options,
    )
    return table, asdict(model.sampling_info_), seed


def _estimate_probability(
    reference: Table, tree: Predicate | None, schema: Schema
) -> tuple[float, tuple[float, float]]:
    """Return the fraction of unconditional samples that satisfy a condition, and its 95 % confidence interval."""
    if tree is None:
        return 1.0, (1.0, 1.0)
    satisfied = evaluate(bind(tree, schema), read_columns(reference, schema, partial=True))
    return float(satisfied.mean()), wilson_interval(int(satisfied.sum()), len(satisfied))


def _support(rows: int, of: int) -> dict[str, Any]:
    """Return how many real rows satisfy a condition, and their fraction with its 95 % confidence interval."""
    return {"rows": rows, "of": of, "fraction": rows / of, "interval": wilson_interval(rows, of)}


def _compare(column: Column, reference: Table, before: Table, after: Table, real: Table | None) -> dict[str, Any]:
    """Compare a column before and after, and with real rows if there are any, in the bins of the reference."""
    _, old, new, *truth = distributions(column, reference, before, after, *([real] if real and real.n_rows else []))
    near = real if real is not None and real.n_rows >= MIN_REAL_ROWS else None
    return {
        "name": column.name,
        "kind": column.kind.value,
        "change": distance(column, before, after),
        "sentence": shift(column, before, after)[1],
        "before": old,
        "after": new,
        "real": truth[0] if truth else None,
        "distance_to_real": None if near is None else distance(column, near, after),
    }


def _given_values(given: Mapping[str, Any] | None, schema: Schema) -> dict[str, Any]:
    """Return values in the types of the model's columns."""
    return {name: _from_json(schema[name], value) for name, value in (given or {}).items()}


def _from_json(column: Column, value: Any) -> Any:  # noqa: ANN401
    """Return a JSON value in the type of a column. Dates and times are text, durations integers in its unit."""
    if not column.kind.temporal or value is None:
        return value
    dtype = text_types(Schema((column,)))[column.name]
    try:
        if column.kind is Kind.DURATION:
            return pa.array([value], pa.int64()).cast(dtype)[0].as_py()
        text = pa.chunked_array([pa.array([value], pa.string())])
        return cast_texts(text, dtype, name=column.name, missing=())[0].as_py()
    except InvalidTable:
        raise
    except (pa.ArrowException, OverflowError, ValueError):
        raise InvalidOption(f"Column {column.name!r} ({column.kind}) cannot have the value {value!r}.") from None


def _prepare_imputation(served: ServedModel, parameters: ImputeParameters, control: JobControl, *, passes: int) -> int:
    """Check the number of draws, set the passes of the job, and return a seed."""
    if (parameters.draws or 0) > served.limits.draws:
        raise too_large(f"At most {served.limits.draws:,} draws are possible here, got {parameters.draws:,}.")
    control.passes = passes if parameters.where is None else None
    return _choose_seed(parameters.seed)


def _choose_seed(given: int | None) -> int:
    return secrets.randbelow(MAX_SEED) if given is None else given
