"""Reading a column off its tally: its kind, its labels or its range and grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data.coercion import check_finite
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import NANOSECONDS, ColumnArray
from harpoon.data.statistics import ColumnCounts
from harpoon.exceptions import InvalidOption

MAX_DECIMALS = 9
FEW = 20  # below this many rows, all values being distinct says nothing
DENSE_ROWS = 50
TEXT_SHARE = 0.5
SHORT_TEXT = 40
DAY = 86_400 * 10**9
TIME_STEPS = (DAY, 3_600 * 10**9, 60 * 10**9, 10**9, 10**6, 10**3, 1)


def infer_column(name: str, tally: ColumnCounts, given: Column | None = None) -> Column:
    """One column read off its tally; what `given` already says stays."""
    cells = tally.values
    check_finite(name, cells, tally.counts)
    kind, note = _kind(name, tally) if given is None else (given.kind, given.note)
    if given is not None and given.kind not in (Kind.SKIPPED, Kind.EMPTY) and not tally.n_distinct:
        return Column(name, Kind.EMPTY, missing=1.0, note="every cell is missing")
    if given is not None and given.unit and cells.unit and given.unit != cells.unit:
        raise InvalidOption(f"Column {name!r} of the schema counts in {given.unit!r}, the table in {cells.unit!r}.")
    found = Column(name, kind, missing=tally.missing_fraction, note=note)
    if kind is Kind.CONSTANT:
        found = replace(found, categories=(_first(cells),))
    if kind.modelled:
        found = replace(found, **_details(tally.coerced(found).values, kind))
    if given is None:
        return found
    said = {name: value for name, value in vars(given).items() if name in given.to_json() and name != "missing"}
    return replace(found, **said)


def _kind(name: str, tally: ColumnCounts) -> tuple[Kind, str]:
    """The kind that the cells suggest, and for one that is not modelled, why."""
    cells = tally.values
    if cells.storage == "other":
        return Kind.SKIPPED, "its values are of mixed or nested types"
    if not tally.n_distinct:
        return Kind.EMPTY, "every cell is missing"
    if tally.n_distinct == 1:
        return Kind.CONSTANT, "every cell has the same value"
    if cells.storage == "text":
        return _text_kind(tally)
    if cells.storage == "integer" and _is_identifier(name, tally):
        return Kind.IDENTIFIER, "every row has its own value, and the values count rows"
    by_storage = {"float": Kind.NUMBER, "boolean": Kind.BOOLEAN, "category": Kind.CATEGORY}
    return by_storage.get(cells.storage) or Kind(cells.storage), ""


def _text_kind(tally: ColumnCounts) -> tuple[Kind, str]:
    count, distinct = tally.n_observed, tally.n_distinct
    if count < FEW or distinct <= TEXT_SHARE * count:
        return Kind.CATEGORY, ""
    words = any(" " in label.strip() for label in tally.values.categories)
    longest = max(len(label) for label in tally.values.categories)
    if distinct == count and not words and longest <= SHORT_TEXT:
        return Kind.IDENTIFIER, "every row has its own value"
    return Kind.TEXT, f"free text ({distinct} different values in {count} rows)"


def _is_identifier(name: str, tally: ColumnCounts) -> bool:
    count, values = tally.n_observed, tally.values.values
    if tally.n_distinct < count or count < FEW:
        return False
    named = name.casefold() in ("id", "index", "key") or name.endswith(("_id", " id", "Id", "ID"))
    dense = count >= DENSE_ROWS and int(values[-1]) - int(values[0]) + 1 == count
    return named or dense


def _details(cells: ColumnArray, kind: Kind) -> dict[str, Any]:
    """Labels, or range and grid."""
    if kind is Kind.BOOLEAN:
        return {"categories": (False, True)}
    if kind is Kind.CATEGORY:
        if cells.storage == "category":
            return {"categories": cells.categories, "ordered": cells.ordered}
        return {"categories": tuple(sorted(cells.categories, key=lambda label: (str(type(label)), label)))}
    clock = {"unit": cells.unit, "zoned": cells.zoned}
    if not len(cells):
        return clock
    low, high = cells.values[0].item(), cells.values[-1].item()
    return {"minimum": low, "maximum": high, "step": _step(cells.values, cells, kind), **clock}


def _first(cells: ColumnArray) -> Any:  # noqa: ANN401
    value = cells.values[0].item()
    return cells.categories[value] if cells.categories else value


def _step(observed: NDArray[Any], cells: ColumnArray, kind: Kind) -> float | int:
    """The largest natural step that every value is a multiple of."""
    if kind is Kind.DATE:
        return 1
    if kind.temporal:
        tick = NANOSECONDS[cells.unit]
        steps = [step // tick for step in TIME_STEPS if step >= tick]
        return int(next(step for step in steps if not (observed % step).any()))
    if kind is Kind.INTEGER:
        powers = [10**k for k in range(18, -1, -1)]
        return int(next(power for power in powers if power == 1 or not (observed % power).any()))
    with np.errstate(over="ignore", invalid="ignore"):  # rounding multiplies: what is too large is on no grid
        for decimals in range(MAX_DECIMALS + 1):
            if np.array_equal(np.round(observed, decimals), observed):
                return float(10.0**-decimals)
    return 0
