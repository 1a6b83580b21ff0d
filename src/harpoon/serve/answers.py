"""The answers: each takes a model that is served, a question and a watch, and runs in a thread of its own."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon import frames
from harpoon.binding import bind
from harpoon.cli.expecting import text_types
from harpoon.cli.parts import Filler, stacked_draws
from harpoon.conditions import names_of
from harpoon.exact import holds
from harpoon.feasibility import wilson
from harpoon.kinds import Kind
from harpoon.model import Harpoon
from harpoon.parsing import condition
from harpoon.reporting.parts import finite
from harpoon.reporting.pictures import distance
from harpoon.reporting.what_if import shift
from harpoon.schema import Schema
from harpoon.serve.bodies import LARGEST_SEED, FeasibilityBody, Filling, ProfileBody, SampleBody
from harpoon.serve.columns import Spread
from harpoon.serve.faults import too_large
from harpoon.serve.formats import Answer, records
from harpoon.serve.served import Served
from harpoon.serve.uploads import Upload
from harpoon.serve.work import Watch
from harpoon.tables.cells import plain
from harpoon.tables.texts import typed


def sample(served: Served, body: SampleBody, watch: Watch) -> Answer:
    """Rows, each of which meets the condition."""
    _check_rows(body.n, served)
    model, seed = served.watched(watch), _seed(body.seed)
    watch.drawings = 1 if body.where is None else None
    table = model.sample(
        body.n,
        where=body.where,
        given=_values(body.given, model.schema_),
        strategy=body.strategy,
        on_shortfall="return" if body.fewer else "raise",
        random_state=seed,
    )
    return Answer({"report": asdict(model.report_), "seed": seed}, table)


def feasibility(served: Served, body: FeasibilityBody, watch: Watch) -> Answer:
    """How likely a condition is, and what to relax."""
    model, seed = served.watched(watch), _seed(body.seed)
    watch.drawings = 1
    found = model.feasibility(body.where, given=_values(body.given, model.schema_), random_state=seed)
    return Answer({**asdict(found), "message": found.suggestion or str(found), "seed": seed})


def profile(served: Served, body: ProfileBody, watch: Watch) -> Answer:
    """What a condition does to every column, the strongest change first."""
    _check_rows(body.n, served)
    model, seed = served.watched(watch), _seed(body.seed)
    tree = None if body.where is None else condition(body.where)
    given = _values(body.given, model.schema_)
    watch.drawings = 1 if tree is None else None
    table = model.sample(
        body.n, where=tree, given=given, strategy=body.strategy, on_shortfall="return", random_state=seed
    )
    after, asked = frames.read(table), set() if tree is None else names_of(tree)
    columns = [
        _change(column, served, after, asked=column.name in asked | set(given)) for column in model.schema_.modelled
    ]
    columns.sort(key=lambda one: -(one["change"] or 0.0))
    probability, interval = 1.0, (1.0, 1.0)
    if tree is not None:
        met = holds(bind(tree, model.schema_), model.codec_.read(served.plain, partial=True))
        probability, interval = float(met.mean()), wilson(int(met.sum()), len(met))
    facts = {
        "where": None if tree is None else str(tree),
        "probability": probability,
        "interval": interval,
        "rows": after.height,
        "report": asdict(model.report_),
        "seed": seed,
        "columns": columns,
        "drawn": records(table.slice(0, body.show)),
    }
    return Answer(facts)


def impute(served: Served, upload: Upload, body: Filling, watch: Watch, *, written: str) -> Answer:
    """A table without its holes: the best value of each, or several draws stacked."""
    _check_draws(body, served)
    model, seed = served.watched(watch), _seed(body.seed)
    watch.drawings = (body.draws or 1) if body.where is None else None
    filler = Filler(model, upload.source, format=written, only=(), draws=body.draws, where=body.where, seed=seed)
    made = filler.of(upload.part)
    return Answer({"seed": seed}, made[0] if body.draws is None else stacked_draws(made))


def impute_told(served: Served, upload: Upload, body: Filling, watch: Watch) -> Answer:
    """A table without its holes, and each cell that was filled; with draws, how sure that is."""
    _check_draws(body, served)
    model, seed = served.watched(watch), _seed(body.seed)
    watch.drawings = 1 + (body.draws or 0) if body.where is None else None
    filler = Filler(model, upload.source, format="", only=(), draws=None, where=body.where, seed=seed)
    (table,) = filler.of(upload.part)
    cells = _filled(upload.part.table, table, list(filler.filled))
    if body.draws is not None:
        known = upload.part.table.select(filler.known)
        draws = model.impute(known, draws=body.draws, where=body.where, random_state=seed)
        _add_spread(cells, draws, body.level, model.schema_)
    facts = {"filled": cells, "passed_on": filler.passed_on, "notes": upload.notes, "seed": seed}
    return Answer(facts, table)


def _filled(before: pa.Table, after: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    """The cells that were missing, row by row."""
    found = []
    for name in names:
        rows = np.flatnonzero(pc.is_null(before[name], nan_is_null=True))
        values = plain(after[name].take(rows))
        found += [{"row": row, "column": name, "value": cell} for row, cell in zip(rows.tolist(), values, strict=True)]
    return sorted(found, key=lambda cell: cell["row"])


def _add_spread(cells: list[dict[str, Any]], draws: Any, level: float, schema: Schema) -> None:  # noqa: ANN401
    """The ends of the interval of each number, and the share of draws with each label."""
    ends = [{name: plain(end[name]) for name in end.column_names} for end in draws.interval(level)]
    drawn = {c.name: [plain(table[c.name]) for table in draws] for c in schema.modelled if c.kind.discrete}
    for cell in cells:
        name, row = cell["column"], cell["row"]
        if name in ends[0]:
            cell |= {"low": ends[0][name][row], "high": ends[1][name][row]}
        elif name in drawn:
            counts = Counter(table[row] for table in drawn[name])
            cell["probabilities"] = {label: count / len(draws) for label, count in counts.most_common()}


def _change(column: Any, served: Served, after: frames.Table, *, asked: bool) -> dict[str, Any]:  # noqa: ANN401
    spread = Spread.of(column, served.plain)
    size, words = shift(column, served.plain, after)
    return {
        "name": column.name,
        "kind": column.kind.value,
        "asked": asked,
        "change": distance(column, served.plain, after) if after.height else None,
        "sentence": words,
        "before": spread.counted(served.plain),
        "after": spread.counted(after),
    }


def _values(given: Mapping[str, Any] | None, schema: Schema) -> dict[str, Any]:
    """Values of columns as the model's columns hold them: JSON writes times as text."""
    types, values = text_types(schema), dict(given or {})
    for name, value in values.items():
        kind = schema[name].kind
        if isinstance(value, str) and kind.temporal:
            values[name] = typed(pa.chunked_array([[value]]), types[name], name=name, missing=())[0].as_py()
        elif isinstance(value, int) and kind is Kind.DURATION:
            values[name] = pa.scalar(value, types[name])
    return values


def _seed(asked: int | None) -> int:
    return secrets.randbelow(LARGEST_SEED) if asked is None else asked


def _check_rows(n: int, served: Served) -> None:
    if n > served.limits.rows:
        raise too_large(f"At most {served.limits.rows:,} rows can be drawn at once here, and {n:,} were asked for.")


def _check_draws(body: Filling, served: Served) -> None:
    if (body.draws or 1) > served.limits.draws:
        raise too_large(
            f"At most {served.limits.draws:,} draws can be had at once here, and {body.draws:,} were asked for."
        )
