"""Inference of a column's kind, categories, range and resolution from the counts of its values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harpoon.data.coercion import check_finite
from harpoon.data.column import Column, Kind
from harpoon.data.column_array import ColumnArray
from harpoon.data.statistics import ColumnCounts
from harpoon.exceptions import InvalidOption

MIN_IDENTIFIER_ROWS = 20  # in shorter tables, distinct values do not make an identifier or a text
MIN_DENSE_ROWS = 50  # rows from which consecutive integers are row numbers
MAX_DISTINCT_TEXT_FRACTION = 0.5  # of the cells: texts with more distinct values are not categories
MAX_IDENTIFIER_LENGTH = 40  # characters


def infer_column(name: str, counts: ColumnCounts, given: Column | None = None) -> Column:
    """Infer one column from its counts. Attributes that are `given` stay."""
    cells = counts.values
    check_finite(name, cells, counts.counts)
    kind, note = _infer_kind(name, counts) if given is None else (given.kind, given.note)
    if given is not None and given.kind not in (Kind.SKIPPED, Kind.EMPTY) and not counts.n_distinct:
        return Column(name, Kind.EMPTY, missing=1.0, note="every cell is missing")
    if given is not None and given.unit and cells.unit and given.unit != cells.unit:
        raise InvalidOption(f"Column {name!r} of the schema counts in {given.unit!r}, the table in {cells.unit!r}.")
    inferred = Column(name, kind, missing=counts.missing_fraction, note=note)
    if kind is Kind.CONSTANT:
        inferred = replace(inferred, categories=(_first(cells),))
    if kind.modelled:
        inferred = replace(inferred, **_infer_attributes(counts.coerced(inferred).values, kind))
    if given is None:
        return inferred
    stated = {name: value for name, value in vars(given).items() if name in given.to_json() and name != "missing"}
    return replace(inferred, **stated)


def _infer_kind(name: str, counts: ColumnCounts) -> tuple[Kind, str]:
    """Return a kind, and for one that is not modelled the reason."""
    cells = counts.values
    if cells.storage == "other":
        return Kind.SKIPPED, "its values are of mixed or nested types"
    if not counts.n_distinct:
        return Kind.EMPTY, "every cell is missing"
    if counts.n_distinct == 1:
        return Kind.CONSTANT, "every cell has the same value"
    if cells.storage == "text":
        return _infer_text_kind(counts)
    if cells.storage == "integer" and _is_identifier(name, counts):
        return Kind.IDENTIFIER, "every row has its own value, and the values count rows"
    by_storage = {"float": Kind.NUMBER, "boolean": Kind.BOOLEAN, "category": Kind.CATEGORY}
    return by_storage.get(cells.storage) or Kind(cells.storage), ""


def _infer_text_kind(counts: ColumnCounts) -> tuple[Kind, str]:
    n_cells, n_distinct, texts = counts.n_observed, counts.n_distinct, counts.values.categories
    if n_cells < MIN_IDENTIFIER_ROWS or n_distinct <= MAX_DISTINCT_TEXT_FRACTION * n_cells:
        return Kind.CATEGORY, ""
    has_words = any(" " in text.strip() for text in texts)
    if n_distinct == n_cells and not has_words and max(map(len, texts)) <= MAX_IDENTIFIER_LENGTH:
        return Kind.IDENTIFIER, "every row has its own value"
    return Kind.TEXT, f"free text ({n_distinct} different values in {n_cells} rows)"


def _is_identifier(name: str, counts: ColumnCounts) -> bool:
    n_cells, values = counts.n_observed, counts.values.values
    if counts.n_distinct < n_cells or n_cells < MIN_IDENTIFIER_ROWS:
        return False
    has_name = name.casefold() in ("id", "index", "key") or name.endswith(("_id", " id", "Id", "ID"))
    is_dense = n_cells >= MIN_DENSE_ROWS and int(values[-1]) - int(values[0]) + 1 == n_cells
    return has_name or is_dense


def _infer_attributes(cells: ColumnArray, kind: Kind) -> dict[str, Any]:
    """Return the categories of distinct cells in ascending order, or their range and resolution."""
    if kind is Kind.BOOLEAN:
        return {"categories": (False, True)}
    if kind.discrete:
        if cells.storage == "category":
            return {"categories": cells.categories, "ordered": cells.ordered}
        return {"categories": tuple(sorted(cells.categories, key=lambda category: (str(type(category)), category)))}
    time = {"unit": cells.unit, "zoned": cells.zoned}
    if not len(cells):
        return time
    low, high = cells.values[0].item(), cells.values[-1].item()
    return {"minimum": low, "maximum": high, "step": kind.spec.step(cells.values, cells.unit), **time}


def _first(cells: ColumnArray) -> Any:  # noqa: ANN401
    value = cells.values[0].item()
    return cells.categories[value] if cells.categories else value
