"""What a column can be, and what is said of one: plain records, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np

from harpoon._text import format_list
from harpoon.data.column_array import NANOSECONDS
from harpoon.exceptions import InvalidOption

MAX_STEP = 10**18


class Kind(StrEnum):
    """What a column holds. The last five are not modelled."""

    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CATEGORY = "category"
    DATE = "date"
    DATETIME = "datetime"
    DURATION = "duration"
    CONSTANT = "constant"
    EMPTY = "empty"
    TEXT = "text"
    IDENTIFIER = "identifier"
    SKIPPED = "skipped"

    @property
    def modelled(self) -> bool:
        """Whether the model learns the column."""
        return self.numeric or self.discrete

    @property
    def discrete(self) -> bool:
        """Whether the column takes one of a list of labels."""
        return self in (Kind.BOOLEAN, Kind.CATEGORY)

    @property
    def temporal(self) -> bool:
        """Whether the column counts time."""
        return self in (Kind.DATE, Kind.DATETIME, Kind.DURATION)

    @property
    def numeric(self) -> bool:
        """Whether the column lives on a line."""
        return self in (Kind.NUMBER, Kind.INTEGER) or self.temporal


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Its name.
        kind: What it holds.
        labels: The values a boolean or a category takes; the one value of a constant.
        ordered: Whether the labels have an order.
        minimum: The smallest value seen.
        maximum: The largest value seen.
        clip: Whether produced values stay between the two.
        step: The grid of the values: the largest power of ten, or unit of time, that divides all of them.
            0: no grid.
        unit: Of time, for datetimes and durations: "s", "ms", "us" or "ns".
        zoned: Whether the datetimes know their time zone.
        missing: The share of cells that were missing.
        note: Why the column is not modelled.

    What is None is read off the training table.
    """

    name: str
    kind: Kind
    categories: tuple[Any, ...] | None = None
    ordered: bool = False
    minimum: float | int | None = None
    maximum: float | int | None = None
    clip: bool = True
    step: float | int | None = None
    unit: str = ""
    zoned: bool = False
    missing: float = 0.0
    note: str = ""

    def __post_init__(self) -> None:
        wrong = next((message for message, broken in _column_errors(self) if broken), None)
        if wrong:
            raise InvalidOption(f"Column {self.name!r} of the schema is wrong: {wrong}.")

    def to_json(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data = {f.name: data[f.name] for f in fields(self) if f.default is MISSING or data[f.name] != f.default}
        return data | ({"categories": list(self.categories)} if self.categories is not None else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Column:
        """Back from `to_json`, or from a file edited by hand."""
        known = {f.name for f in fields(cls)}
        if not isinstance(data, Mapping) or not {"name", "kind"} <= set(data):
            raise InvalidOption(f"A column of a schema must be an object with a name and a kind, got {data!r}.")
        unknown = sorted(set(data) - known)
        if unknown:
            raise InvalidOption(f"Column {data['name']!r} of the schema has the unknown fields {format_list(unknown)}.")
        if not isinstance(data["kind"], str) or data["kind"] not in set(Kind):
            raise InvalidOption.one_of(
                f"The kind of column {data['name']!r}", data["kind"], [kind.value for kind in Kind]
            )
        labels = data.get("categories")
        labels = tuple(labels) if isinstance(labels, list | tuple) else labels
        return cls(**{**data, "kind": Kind(data["kind"]), "categories": labels})


def _column_errors(column: Column) -> Iterator[tuple[str, bool]]:
    """What can be wrong with a column, and whether it is."""
    labels, low, high = column.categories, column.minimum, column.maximum
    yield "its name must be text", not isinstance(column.name, str)
    yield "its labels must be a list", labels is not None and not isinstance(labels, tuple)
    texts = all(isinstance(label, str) for label in labels or ())
    numbers = all(isinstance(label, int | float) and math.isfinite(label) for label in labels or ())
    plain = isinstance(labels, tuple | None) and (texts or numbers)
    yield "its labels must be texts, or all of them numbers or truth values", labels is not None and not plain
    yield "its labels must differ", plain and len(set(labels or ())) < len(labels or ())
    for name in ("minimum", "maximum", "step", "missing"):
        value = getattr(column, name)
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        yield f"its {name} must be a finite number", value is not None and not number
    yield "its minimum must not be above its maximum", low is not None and high is not None and low > high
    counted = column.kind in (Kind.INTEGER, Kind.DATE, Kind.DATETIME, Kind.DURATION)
    whole = all(v is None or float(v).is_integer() for v in (low, high, column.step))
    yield "its minimum, maximum and step must be whole", counted and not whole
    yield "its step must be from 0 to 1e18", column.step is not None and not 0 <= column.step <= MAX_STEP
    exponent = math.log10(column.step) if column.step and column.step > 0 else 0.0
    power = math.isclose(exponent, round(exponent), abs_tol=1e-9)
    yield "its step must be 0 or a power of ten", column.kind is Kind.NUMBER and not power
    yield "a constant has one label", column.kind is Kind.CONSTANT and labels is not None and len(labels) != 1
    truth = column.kind is not Kind.BOOLEAN or labels in (None, (False, True))
    yield "a boolean must have the labels false and true", not truth
    yield 'its unit must be "s", "ms", "us" or "ns"', column.unit not in ("", *NANOSECONDS)
    for name in ("clip", "ordered", "zoned"):
        yield f"its {name} must be true or false", not isinstance(getattr(column, name), bool)
    yield "its note must be text", not isinstance(column.note, str)


def describe(column: Column) -> str:
    """One line about a column, for people."""
    parts = []
    if column.note:
        parts.append(f"not modelled: {column.note}")
    elif column.categories is not None:
        parts.append(f"{len(column.categories)} values: {format_list(column.categories)}")
    elif column.minimum is not None and column.kind in (Kind.NUMBER, Kind.INTEGER):
        parts.append(f"{format_number(column.minimum)} to {format_number(column.maximum)}")
    elif column.minimum is not None and column.maximum is not None and column.kind.temporal:
        parts.append(f"{format_time(column, column.minimum)} to {format_time(column, column.maximum)}")
    if column.step and column.kind in (Kind.NUMBER, Kind.INTEGER):
        parts.append(f"step {format_number(column.step)}")
    if column.missing:
        parts.append(f"{column.missing:.0%} missing".replace("%", " %"))
    return ", ".join(parts)


def format_number(value: float | None) -> str:
    """A number as people write it: whole numbers with all their digits, others with ten."""
    return "?" if value is None else f"{value:d}" if isinstance(value, int) else f"{value:.10g}"


def format_time(column: Column, ticks: float) -> str:
    """A date, a time or a span as people write it."""
    kind: Any = np.timedelta64 if column.kind is Kind.DURATION else np.datetime64
    return str(kind(int(ticks), column.unit or "D"))
