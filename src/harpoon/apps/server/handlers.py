"""What each route does. A handler takes the model, the request and the control of its job, and runs in a thread."""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon._formatting import format_percent
from harpoon.apps.server.errors import sentence, too_large
from harpoon.apps.server.responses import CSV, Payload, to_records
from harpoon.apps.server.schemas import MAX_SEED, FeasibilityBody, ImputeParameters, ProfileBody, SampleBody
from harpoon.apps.server.served_model import ServedModel, distributions
from harpoon.apps.server.uploads import Upload
from harpoon.apps.server.workers import JobControl
from harpoon.conditions import BoundPredicate, Predicate, bind, column_names, parse
from harpoon.data import Column, Kind, Schema, Table, as_category, dataframe
from harpoon.data.arrow_types import text_types
from harpoon.engines.block_imputer import BlockImputer, warn_structural
from harpoon.estimator import Harpoon
from harpoon.exceptions import InvalidOption, InvalidTable, collect_warnings
from harpoon.inference.diagnostics.answer_grade import grade_answer
from harpoon.inference.diagnostics.conditional_counts import ConditionalCounts
from harpoon.inference.diagnostics.probability_intervals import probability_interval, share_interval
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.inference.imputation.results import MultipleImputation
from harpoon.io.source import spellings
from harpoon.io.text_types import cast_texts, plain_values
from harpoon.report.agreement import MIN_REAL_ROWS, agreement
from harpoon.report.distributions import by_excess, distance, distance_noise
from harpoon.report.what_if import shift, training_counts

FilledCell = dict[str, Any]


def sample(served: ServedModel, body: SampleBody, control: JobControl) -> Payload:
    """Sample rows, each of which satisfies the condition."""
    drawn = _sample(served, body, control, allow_fewer=body.allow_fewer)
    facts = {"sampling_info": asdict(drawn.info), "support": drawn.support}
    return Payload({**facts, "notes": drawn.notes, "seed": drawn.seed}, drawn.table)


def feasibility(served: ServedModel, body: FeasibilityBody, control: JobControl) -> Payload:
    """Estimate the probability of a condition, and say what to relax."""
    model, seed = served.for_job(control), _choose_seed(body.seed)
    control.passes = 1
    with collect_warnings() as notes:
        given = _given_values(body.given, model.schema_)
        found = model.feasibility(body.where, data=served.real, given=given, random_state=seed)
    low, high = (format_percent(end) for end in found.interval)
    message = f"{format_percent(found.probability)} of sampled rows satisfy it (95 % interval: {low} to {high})."
    message = "" if found.support.is_impossible else message  # the reason says all
    facts = {name: value for name, value in asdict(found).items() if name != "training_fraction"}  # there are no rows
    facts["support"] = found.support.to_json()
    message = " ".join([message, found.suggestion]).strip()
    return Payload({**facts, "message": message, "notes": notes, "seed": seed})


def profile(served: ServedModel, body: ProfileBody, control: JobControl) -> Payload:
    """Compare every column under a condition with unconditional samples, the strongest change first."""
    drawn, schema = _sample(served, body, control, allow_fewer=True), served.model.schema_
    after, tree = dataframe.read(drawn.table), None if body.where is None else parse(body.where)
    in_condition = {*(body.given or ()), *(() if tree is None else column_names(tree))}
    before = served.unconditional(body.missing)
    predicate = None if tree is None or body.given else bind(tree, schema)
    real = None if predicate is None else served.supporting_rows(predicate)
    shown = served.real_rows_shown() if tree is None and not body.given else real
    compare = Comparison(served, predicate, before, after, shown)
    changes = sorted((compare.column(column) for column in schema.modelled), key=lambda change: change.pop("rank"))
    probability, interval = _probability(tree, drawn.info)
    agreed = agreement(schema.modelled, after, real, drawn.info.own_grade)
    return Payload(
        {
            "where": None if tree is None else str(tree),
            "probability": probability,
            "interval": interval,
            "support": drawn.support,
            "real": None if real is None or served.real is None else _real_rows(real.n_rows, served.real.n_rows),
            "agreement": agreed,
            "rows": after.n_rows,
            "sampling_info": asdict(drawn.info),
            "columns": [{**change, "in_condition": change["name"] in in_condition} for change in changes],
            "sampled": to_records(drawn.table.slice(0, body.show)),
            "notes": drawn.notes,
            "seed": drawn.seed,
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
        spellings=spellings(upload.source) if is_csv else None,
        options=parameters.options,
    )
    with collect_warnings(sentence) as notes:
        table = imputer.impute_stacked(upload.chunk, 0)
        warn_structural(imputer.structural, imputer.causes)
    return Payload({"seed": seed, "notes": [*upload.notes, *notes]}, table)


def impute_cells(served: ServedModel, upload: Upload, parameters: ImputeParameters, control: JobControl) -> Payload:
    """Return the completed table and each filled cell; with draws, also the uncertainty of each."""
    seed = _prepare_imputation(served, parameters, control, passes=1 + (parameters.draws or 0))
    model, options = served.for_job(control), parameters.options
    is_sampled = parameters.where is not None or bool(model.rules_) or not model.denoiser_.is_conditional
    # The best values are not sampled: options of sampling would have no effect, nor would theirs on draws.
    first = options if is_sampled or parameters.draws is None else _of_best_values(options)
    imputer = BlockImputer(model, upload.source.schema, where=parameters.where, seed=seed, options=first)
    with collect_warnings(sentence) as notes:
        (table,) = imputer.impute_chunk(upload.chunk, 0)
        warn_structural(imputer.structural, imputer.causes)
    cells = filled_cells(upload.chunk.table, table, list(imputer.n_filled))
    if parameters.draws is not None:
        known = upload.chunk.table.select(imputer.modelled)
        of_draws = {name: value for name, value in options.items() if name != "point"}
        with collect_warnings():  # the same ones
            draws = model.impute(known, draws=parameters.draws, where=parameters.where, random_state=seed, **of_draws)
        cells = add_uncertainty(cells, draws, parameters.level)
    notes = [*upload.notes, *notes]
    facts = {"filled": cells, "copied_columns": imputer.passed_through, "notes": notes, "seed": seed}
    return Payload(facts, table)


def _of_best_values(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in ("structural", "point")}


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


@dataclass(frozen=True)
class Drawn:
    """Sampled rows, how they were sampled, what was warned of, and the seed."""

    table: pa.Table
    info: SamplingInfo
    notes: list[str]
    seed: int

    @property
    def support(self) -> dict[str, Any] | None:
        """The training rows behind the sampled ones; None without a condition."""
        return None if self.info.support is None else self.info.support.to_json()


def _sample(served: ServedModel, body: SampleBody | ProfileBody, control: JobControl, *, allow_fewer: bool) -> Drawn:
    """Sample rows."""
    if body.n > served.limits.rows:
        raise too_large(f"At most {served.limits.rows:,} rows can be sampled at once here, got {body.n:,}.")
    model, seed = served.for_job(control), _choose_seed(body.seed)
    targets = body.targets if isinstance(body, SampleBody) else None
    is_plain = body.where is None and targets is None
    control.passes = 1 if is_plain and not model.rules_ else None
    with collect_warnings() as notes:
        table = model.sample(
            body.n,
            where=body.where,
            targets=targets,
            given=_given_values(body.given, model.schema_),
            strategy="auto" if body.where is None else body.strategy,
            on_shortfall="return" if allow_fewer and not is_plain else "raise",
            missing=body.missing,
            random_state=seed,
            **body.options,
        )
        info = _count_real(served, model, body)
    return Drawn(table, info, notes, seed)


def _count_real(served: ServedModel, model: Harpoon, body: SampleBody | ProfileBody) -> SamplingInfo:
    """Return the diagnostics of the last call, with the rows that support it counted where there is a table."""
    info = model.sampling_info_
    if served.data is None or served.real is None or info.support is None:
        return info
    tree, given = None if body.where is None else parse(body.where), _given_values(body.given, model.schema_)
    support = model._call().count_support(tree, given, table=served.data.columns, weights=served.data.weights)
    return replace(info, support=support, own_grade=grade_answer(model.calibration_, support))


def _probability(tree: Predicate | None, info: SamplingInfo) -> tuple[float, tuple[float, float]]:
    """Return the probability of a condition and its 95 % interval: those of `feasibility` with the same seed."""
    if tree is None or info.support is None:
        return 1.0, (1.0, 1.0)
    probability, rows = info.probability or 0.0, info.probability_rows or math.inf
    return probability, probability_interval(probability, rows, info.support)


def _real_rows(rows: int, of: int) -> dict[str, Any]:
    """Return how many real rows satisfy a condition, and their fraction with its 95 % interval."""
    return {"rows": rows, "of": of, "fraction": rows / of, "interval": share_interval(rows / of, math.inf, of)}


@dataclass(frozen=True)
class Comparison:
    """Rows before and after a condition, and the real rows that satisfy it, if there are any."""

    served: ServedModel
    predicate: BoundPredicate | None
    before: Table
    after: Table
    real: Table | None

    def column(self, column: Column) -> dict[str, Any]:
        """Compare one column in the bins of the reference. `rank` sorts columns by what exceeds chance."""
        tables = [self.before, self.after, *([self.real] if self.real and self.real.n_rows else [])]
        _, old, new, *truth = distributions(column, self.served.reference, *tables)
        near = self.real if self.real is not None and self.real.n_rows >= MIN_REAL_ROWS else None
        shown = as_category(column)
        change, noise = distance(shown, self.before, self.after), distance_noise(shown, self.before, self.after)
        moved = shift(column, self.before, self.after, self._training_counts(column))
        return {
            "name": column.name,
            "kind": column.kind.value,
            "change": change,
            "noise": noise,
            "rank": by_excess(change, noise),
            "sentence": moved.text,
            "interval": moved.interval,
            "interval_text": moved.interval_text,
            "before": old,
            "after": new,
            "real": truth[0] if truth else None,
            "distance_to_real": None if near is None else distance(shown, near, self.after),
        }

    def _training_counts(self, column: Column) -> ConditionalCounts | None:
        if self.predicate is None:
            return None
        return training_counts(self.served.model, self.predicate, column, self.real)


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
    control.passes = passes if parameters.where is None and not served.model.rules_ else None
    return _choose_seed(parameters.seed)


def _choose_seed(given: int | None) -> int:
    return secrets.randbelow(MAX_SEED) if given is None else given
