"""The answers: each takes a model that is served, a question and a watch, and runs in a thread of its own."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from harpoon._text import format_percent
from harpoon.apps.server.columns import ColumnDistribution
from harpoon.apps.server.errors import too_large
from harpoon.apps.server.filled_cells import cells_filled, with_spread
from harpoon.apps.server.formats import CSV, Payload, records
from harpoon.apps.server.schemas import LARGEST_SEED, FeasibilityBody, Filling, ProfileBody, SampleBody
from harpoon.apps.server.served_model import ServedModel
from harpoon.apps.server.uploads import Upload
from harpoon.apps.server.workers import JobControl
from harpoon.conditions.binder import bind
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import Predicate, column_names
from harpoon.conditions.parser import parse
from harpoon.data import dataframe
from harpoon.data.arrow_types import text_types
from harpoon.data.column import Column, Kind
from harpoon.data.dataframe import Table
from harpoon.data.reader import read_columns
from harpoon.data.schema import Schema
from harpoon.engines.block_imputer import BlockImputer, stack_draws
from harpoon.exceptions import InvalidOption, InvalidTable
from harpoon.inference.feasibility import wilson_interval
from harpoon.io.source import boolean_spellings
from harpoon.io.text_types import cast_texts
from harpoon.report.distributions import distance
from harpoon.report.what_if import shift


def sample(served: ServedModel, body: SampleBody, watch: JobControl) -> Payload:
    """Rows, each of which meets the condition."""
    table, report, seed = _drawn(served, body, watch, fewer=body.fewer)
    return Payload({"report": report, "seed": seed}, table)


def feasibility(served: ServedModel, body: FeasibilityBody, watch: JobControl) -> Payload:
    """How likely a condition is, and what to relax."""
    model, seed = served.watched(watch), _seed(body.seed)
    watch.drawings = 1
    found = model.feasibility(body.where, given=_values(body.given, model.schema_), random_state=seed)
    low, high = (format_percent(end) for end in found.interval)
    met = f"{format_percent(found.probability)} of drawn rows meet it; with 95 % confidence it is {low} to {high}."
    return Payload({**asdict(found), "message": " ".join([met, found.suggestion]).strip(), "seed": seed})


def profile(served: ServedModel, body: ProfileBody, watch: JobControl) -> Payload:
    """What a condition does to every column, the strongest change first."""
    table, report, seed = _drawn(served, body, watch, fewer=True)
    after, tree = dataframe.read(table), None if body.where is None else parse(body.where)
    asked = {*(body.given or ()), *(() if tree is None else column_names(tree))}
    changes = [_change(column, served.plain, after) for column in served.model.schema_.modelled]
    changes.sort(key=lambda change: -(change["change"] or 0.0))
    probability, interval = _likelihood(served, tree)
    return Payload(
        {
            "where": None if tree is None else str(tree),
            "probability": probability,
            "interval": interval,
            "rows": after.n_rows,
            "report": report,
            "columns": [{**change, "asked": change["name"] in asked} for change in changes],
            "drawn": records(table.slice(0, body.show)),
            "seed": seed,
        }
    )


def filled(served: ServedModel, upload: Upload, how: Filling, watch: JobControl, media: str) -> Payload:
    """A table without its holes, or several draws of it, stacked. From CSV to CSV, other cells stay as they were."""
    seed = _prepared(served, how, watch, drawings=how.draws or 1)
    csv = media == CSV
    filler = BlockImputer(
        served.watched(watch),
        upload.source.schema,
        draws=how.draws,
        where=how.where,
        seed=seed,
        keep_text=csv,
        boolean_spellings=boolean_spellings(upload.source) if csv else None,
    )
    tables = filler.impute_chunk(upload.part, 0)
    facts = {"seed": seed, "notes": upload.notes}
    return Payload(facts, tables[0] if how.draws is None else stack_draws(tables))


def filled_and_told(served: ServedModel, upload: Upload, how: Filling, watch: JobControl) -> Payload:
    """A table without its holes, and each cell that was filled; with draws, how sure that is."""
    seed = _prepared(served, how, watch, drawings=1 + (how.draws or 0))
    model = served.watched(watch)
    filler = BlockImputer(model, upload.source.schema, where=how.where, seed=seed)
    (table,) = filler.impute_chunk(upload.part, 0)
    cells = cells_filled(upload.part.table, table, list(filler.n_filled))
    if how.draws is not None:
        known = upload.part.table.select(filler.modelled)
        draws = model.impute(known, draws=how.draws, where=how.where, random_state=seed)
        cells = with_spread(cells, draws, how.level)
    return Payload({"filled": cells, "passed_on": filler.passed_through, "notes": upload.notes, "seed": seed}, table)


def _drawn(
    served: ServedModel, body: SampleBody | ProfileBody, watch: JobControl, *, fewer: bool
) -> tuple[pa.Table, dict[str, Any], int]:
    """Rows, what it took, and the seed."""
    if body.n > served.limits.rows:
        raise too_large(
            f"At most {served.limits.rows:,} rows can be drawn at once here, and {body.n:,} were asked for."
        )
    model, seed = served.watched(watch), _seed(body.seed)
    watch.drawings = 1 if body.where is None else None
    table = model.sample(
        body.n,
        where=body.where,
        given=_values(body.given, model.schema_),
        strategy=body.strategy,
        on_shortfall="return" if fewer else "raise",
        random_state=seed,
    )
    return table, asdict(model.sampling_info_), seed


def _likelihood(served: ServedModel, tree: Predicate | None) -> tuple[float, tuple[float, float]]:
    """The share of plain rows that meet a condition, and where it lies with 95 % confidence."""
    if tree is None:
        return 1.0, (1.0, 1.0)
    met = evaluate(bind(tree, served.model.schema_), read_columns(served.plain, served.model.schema_, partial=True))
    return float(met.mean()), wilson_interval(int(met.sum()), len(met))


def _change(column: Column, before: Table, after: Table) -> dict[str, Any]:
    distribution = ColumnDistribution.fit(column, before)
    return {
        "name": column.name,
        "kind": column.kind.value,
        "change": distance(column, before, after),
        "sentence": shift(column, before, after)[1],
        "before": distribution.count(before),
        "after": distribution.count(after),
    }


def _values(given: Mapping[str, Any] | None, schema: Schema) -> dict[str, Any]:
    """Values of columns as the model's columns hold them."""
    return {name: _value(schema[name], value) for name, value in (given or {}).items()}


def _value(column: Column, value: Any) -> Any:  # noqa: ANN401
    """In JSON, dates and times are text, and durations whole numbers of the column's unit."""
    if not column.kind.temporal or value is None:
        return value
    dtype = text_types(Schema((column,)))[column.name]
    try:
        if column.kind is Kind.DURATION:
            return pa.array([value], pa.int64()).cast(dtype)[0].as_py()
        return cast_texts(pa.chunked_array([pa.array([value], pa.string())]), dtype, name=column.name, missing=())[
            0
        ].as_py()
    except (pa.ArrowException, OverflowError, ValueError) as error:
        if isinstance(error, InvalidTable):
            raise
        raise InvalidOption(f"Column {column.name!r} ({column.kind}) cannot have the value {value!r}.") from None


def _prepared(served: ServedModel, how: Filling, watch: JobControl, *, drawings: int) -> int:
    """Refuse too many draws, let the watch know how many there are, and choose a seed."""
    if (how.draws or 0) > served.limits.draws:
        raise too_large(f"At most {served.limits.draws:,} draws can be had here, and {how.draws:,} were asked for.")
    watch.drawings = drawings if how.where is None else None
    return _seed(how.seed)


def _seed(asked: int | None) -> int:
    return secrets.randbelow(LARGEST_SEED) if asked is None else asked
