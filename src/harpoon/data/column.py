"""Kinds of columns, and the description of one column.

`KINDS` is the table of kinds. To add a kind, add an entry here and an encoding (`harpoon.encoding.registry`):

    KINDS["angle"] = KindSpec(("float", "integer"), numeric=True, arrow_type=lambda unit, zoned: pa.float64(), ...)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harpoon._formatting import format_list, format_percent
from harpoon.data.column_array import NANOSECONDS, Storage
from harpoon.data.date_parts import DAY, TIME_UNITS, is_zone, to_local
from harpoon.exceptions import InvalidOption

MAX_STEP = 10**18
MAX_DECIMALS = 9  # the finest resolution that is detected
MAX_ROUNDING = 0.01  # steps: a larger rounding error could hide other digits
MAX_ROUNDED_FRACTION = 0.1  # values with a rounding error


@dataclass(frozen=True)
class KindSpec:
    """The declaration of a kind.

    `arrow_type` gives its Arrow type, from the unit of time and whether there is a time zone; None: that of the
    categories. `step` gives the resolution of distinct values in a unit of time; 0: none. `format` writes a value.
    """

    storages: tuple[Storage, ...] = ()  # that can be coerced to it; the first is its own; none: it is not modelled
    numeric: bool = False  # whether values lie on a line
    discrete: bool = False  # whether values are one of a list of categories
    temporal: bool = False  # whether values are times or durations, in units of time
    arrow_type: Callable[[str, bool], pa.DataType] | None = None
    step: Callable[[NDArray[Any], str], float | int] = lambda _values, _unit: 0
    format: Callable[[Any, str], str] = lambda value, _unit: format_number(value)


def decimal_step(values: NDArray[Any], unit: str = "") -> float:  # noqa: ARG001
    """Return the largest power of ten up to 1 that divides all values, or 0.

    A few values may differ by the rounding error of a sum: -0.0454699999999999 has five decimals among others.
    """
    rounding = float(np.finfo(np.float64).eps * np.abs(values).max(initial=0.0))
    with np.errstate(over="ignore", invalid="ignore"):  # rounding multiplies: values that overflow have no step
        for decimals in range(MAX_DECIMALS + 1):
            error = np.abs(np.round(values, decimals) - values)
            allowed = rounding if rounding < MAX_ROUNDING * 10.0**-decimals else 0.0
            if (error <= allowed).all() and (error > 0).mean() <= MAX_ROUNDED_FRACTION:
                return float(10.0**-decimals)
    return 0


def integer_step(values: NDArray[Any], unit: str = "") -> int:  # noqa: ARG001
    """Return the largest power of ten from 1 that divides all integers."""
    powers = [10**k for k in range(18, -1, -1)]
    return int(next(power for power in powers if power == 1 or not (values % power).any()))


def time_step(values: NDArray[Any], unit: str) -> int:
    """Return the largest of day, hour, minute, second and so on that divides all times, in units of time."""
    tick = NANOSECONDS[unit]
    steps = [step // tick for step in TIME_UNITS.values() if step >= tick]
    return int(next(step for step in steps if not (values % step).any()))


def format_number(value: float | None) -> str:
    """Return a number as text: an integer with all digits, another with ten."""
    return "?" if value is None else f"{value:d}" if isinstance(value, int) else f"{value:.10g}"


def _format_time(ticks: float, unit: str) -> str:
    """Return a date or a datetime as text, without seconds that are zero.

    >>> _format_time(0, ""), _format_time(3600, "s"), _format_time(90, "s"), _format_time(1_500_000, "us")
    ('1970-01-01', '1970-01-01 01:00', '1970-01-01 00:01:30', '1970-01-01 00:00:01.500000')
    """
    date, _, time = _iso_text(int(ticks), unit).partition("T")
    seconds, _, fraction = time.partition(".")
    time = time if fraction.strip("0") else seconds.removesuffix(":00")
    return f"{date} {time}".rstrip()


def _iso_text(ticks: int, unit: str) -> str:
    name: Any = unit or "D"
    return str(np.datetime64(ticks, name))


def _format_duration(ticks: float, unit: str) -> str:
    """Return a duration as text, in the largest unit that divides it.

    >>> _format_duration(5400, "s"), _format_duration(86_400, "s"), _format_duration(0, "us"), _format_duration(3, "us")
    ('90 minutes', '1 day', '0 days', '3 microseconds')
    """
    nanoseconds = int(ticks) * NANOSECONDS[unit or "us"]
    name, size = next(one for one in TIME_UNITS.items() if nanoseconds % one[1] == 0)
    count = nanoseconds // size
    return f"{count} {name}{'s' * (abs(count) != 1)}"


def _always(dtype: pa.DataType) -> Callable[[str, bool], pa.DataType]:
    return lambda _unit, _zoned: dtype


_temporal = partial(KindSpec, numeric=True, temporal=True, step=time_step, format=_format_time)
KINDS: dict[str, KindSpec] = {
    "number": KindSpec(("float", "integer"), numeric=True, arrow_type=_always(pa.float64()), step=decimal_step),
    "integer": KindSpec(("integer", "float"), numeric=True, arrow_type=_always(pa.int64()), step=integer_step),
    "boolean": KindSpec(("boolean", "float", "integer"), discrete=True, arrow_type=_always(pa.bool_()), format=str),
    "category": KindSpec(("category", "text", "boolean", "integer", "float"), discrete=True, format=str),
    "date": _temporal(("date",), arrow_type=_always(pa.date32()), step=lambda _values, _unit: 1),
    "datetime": _temporal(
        ("datetime",), arrow_type=lambda unit, zoned: pa.timestamp(unit or "us", "UTC" if zoned else None)
    ),
    "duration": _temporal(
        ("duration",),
        arrow_type=lambda unit, _zoned: pa.duration(unit or "us"),
        format=_format_duration,
    ),
    **dict.fromkeys(("constant", "empty", "text", "identifier", "personal", "skipped"), KindSpec()),  # not modelled
    "weight": KindSpec(arrow_type=_always(pa.float64())),  # how much each row counts; not modelled
}


class Kind(str):
    """The kind of a column: a name in `KINDS`. There is one object per name, so kinds can be compared by `is`.

    >>> Kind("date") is Kind.DATE, Kind.DATE.numeric, f"{Kind.DATE}"
    (True, True, 'date')
    """

    __slots__ = ()
    _instances: ClassVar[dict[str, Kind]] = {}
    NUMBER: ClassVar[Kind]
    INTEGER: ClassVar[Kind]
    BOOLEAN: ClassVar[Kind]
    CATEGORY: ClassVar[Kind]
    DATE: ClassVar[Kind]
    DATETIME: ClassVar[Kind]
    DURATION: ClassVar[Kind]
    CONSTANT: ClassVar[Kind]  # from here on: not modelled
    EMPTY: ClassVar[Kind]
    TEXT: ClassVar[Kind]
    IDENTIFIER: ClassVar[Kind]
    PERSONAL: ClassVar[Kind]
    SKIPPED: ClassVar[Kind]
    WEIGHT: ClassVar[Kind]

    def __new__(cls, name: str) -> Kind:
        """Return the one object of a name in `KINDS`."""
        if not isinstance(name, str) or name not in KINDS:
            raise ValueError(f"{name!r} is not a kind; there are {', '.join(KINDS)}")
        return cls._instances.setdefault(str(name), super().__new__(cls, name))

    def __repr__(self) -> str:
        return f"Kind({self.value!r})"

    @property
    def value(self) -> str:
        """The name."""
        return str(self)

    @property
    def spec(self) -> KindSpec:
        """The declaration."""
        return KINDS[self]

    @property
    def storages(self) -> tuple[Storage, ...]:
        """The storages that can be coerced to it; the first is its own."""
        return self.spec.storages

    @property
    def modelled(self) -> bool:
        """Whether the model learns the column."""
        return self.numeric or self.discrete

    @property
    def discrete(self) -> bool:
        """Whether values are one of a list of categories."""
        return self.spec.discrete

    @property
    def temporal(self) -> bool:
        """Whether values are times or durations."""
        return self.spec.temporal

    @property
    def is_timestamp(self) -> bool:
        """Whether values are points in time: dates or datetimes, not durations."""
        return self in (Kind.DATE, Kind.DATETIME)

    @property
    def numeric(self) -> bool:
        """Whether values lie on a line."""
        return self.spec.numeric

    @property
    def integral(self) -> bool:
        """Whether values are integers: counts, days or ticks of time."""
        return self.numeric and self.storages[0] != "float"


for _name in KINDS:
    setattr(Kind, _name.upper(), Kind(_name))


@dataclass(frozen=True)
class Column:
    """The description of one column. Attributes that are None are inferred from the training table.

    Attributes:
        name: Its name.
        kind: What it holds.
        categories: The values of a boolean or a category; the one value of a constant.
        ordered: Whether the categories have an order.
        minimum: The smallest value.
        maximum: The largest value.
        clip: Whether sampled and imputed values stay between the two.
        step: The resolution: the largest power of ten, or unit of time, that divides all values. 0: none.
        unit: The unit of time of datetimes and durations: "s", "ms", "us" or "ns".
        zoned: Whether datetimes have a time zone.
        zone: That time zone, such as "Europe/Berlin": hours and weekdays are those of its clocks. "": UTC.
        missing: The fraction of missing cells.
        note: Why the column is not modelled.
        values: All values of a number that has only a few, such as a 0/1 flag or a rating, in ascending order.
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
    zone: str = ""
    values: tuple[float | int, ...] | None = None

    def __post_init__(self) -> None:
        error = next((message for message, is_wrong in _column_errors(self) if is_wrong), None)
        if error:
            raise InvalidOption(f"Column {self.name!r} of the schema is wrong: {error}.")

    @property
    def is_flag(self) -> bool:
        """Whether it is a number with two values: a category that is written as a number."""
        return self.clip and self.values is not None and len(self.values) == 2  # noqa: PLR2004

    @property
    def tick(self) -> int:
        """One unit of its values in nanoseconds, if they are times or durations; else 0."""
        return DAY if self.kind is Kind.DATE else NANOSECONDS.get(self.unit, 1) if self.kind.temporal else 0

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as plain data."""
        data = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return data | {name: list(data[name]) for name in ("categories", "values") if name in data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Column:
        """Restore from `to_json`, or from a file that was edited by hand."""
        if not isinstance(data, Mapping) or not {"name", "kind"} <= set(data):
            raise InvalidOption(f"A column of a schema must be an object with a name and a kind, got {data!r}.")
        unknown = sorted(set(data) - {f.name for f in fields(cls)})
        if unknown:
            raise InvalidOption(f"Column {data['name']!r} of the schema has the unknown fields {format_list(unknown)}.")
        if not isinstance(data["kind"], str) or data["kind"] not in KINDS:
            raise InvalidOption.one_of(f"The kind of column {data['name']!r}", data["kind"], list(KINDS))
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists, "kind": Kind(data["kind"])})


def _column_errors(column: Column) -> Iterator[tuple[str, bool]]:
    """Yield what can be wrong with a column, and whether it is."""
    categories, low, high, kind = column.categories, column.minimum, column.maximum, column.kind
    yield "its name must be text", not isinstance(column.name, str)
    yield "its categories must be a list", categories is not None and not isinstance(categories, tuple)
    texts = all(isinstance(category, str) for category in categories or ())
    numbers = all(isinstance(category, int | float) and math.isfinite(category) for category in categories or ())
    plain = isinstance(categories, tuple | None) and (texts or numbers)
    yield "its categories must be all texts, or all numbers or booleans", categories is not None and not plain
    yield "its categories must differ", plain and len(set(categories or ())) < len(categories or ())
    for name in ("minimum", "maximum", "step", "missing"):
        value = getattr(column, name)
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        units = _expected_units(column) if kind.temporal and name != "missing" else ""
        yield f"its {name} must be a finite number{units}, got {value!r}", value is not None and not number
    yield "its minimum must not be above its maximum", low is not None and high is not None and low > high
    yield "its values must be finite numbers in ascending order", column.values is not None and not _are_numbers(column)
    integers = all(value is None or float(value).is_integer() for value in (low, high, column.step))
    yield "its minimum, maximum and step must be integers", kind.integral and not integers
    yield "its step must be from 0 to 1e18", column.step is not None and not 0 <= column.step <= MAX_STEP
    exponent = math.log10(column.step) if column.step and column.step > 0 else 0.0
    power = math.isclose(exponent, round(exponent), abs_tol=1e-9)
    yield "its step must be 0 or a power of ten", kind.numeric and not kind.integral and not power
    one = categories is None or len(categories) == 1
    yield "a constant must have one category", kind is Kind.CONSTANT and not one
    booleans = categories in (None, (False, True))
    yield "a boolean must have the categories false and true", kind is Kind.BOOLEAN and not booleans
    yield 'its unit must be "s", "ms", "us" or "ns"', column.unit not in ("", *NANOSECONDS)
    for name in ("clip", "ordered", "zoned"):
        yield f"its {name} must be true or false", not isinstance(getattr(column, name), bool)
    yield (
        "its zone must be a time zone, such as Europe/Berlin",
        not isinstance(column.zone, str) or not is_zone(column.zone),
    )
    yield "its note must be text", not isinstance(column.note, str)


def _expected_units(column: Column) -> str:
    """Return in which units the ends of a range of times are given."""
    if column.kind is Kind.DATE:
        return " of days since 1970-01-01, such as (date(2026, 1, 31) - date(1970, 1, 1)).days"
    name = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}.get(column.unit)
    unit = name or 'units (unit="s", "ms", "us" or "ns")'
    return f" of {unit}" if column.kind is Kind.DURATION else f" of {unit} since 1970-01-01 00:00 UTC"


def _are_numbers(column: Column) -> bool:
    """Return whether the values of a column are those of numbers, in ascending order."""
    if not isinstance(column.values, tuple) or column.kind.temporal or not column.kind.numeric:
        return False
    kinds = int if column.kind.integral else int | float
    numbers = all(isinstance(v, kinds) and not isinstance(v, bool) and math.isfinite(v) for v in column.values)
    return numbers and all(low < high for low, high in pairwise(column.values))


def as_category(column: Column) -> Column:
    """Return a flag as the category that it is: its two values are labels, and scored as such; others as they are."""
    if not column.is_flag:
        return column
    return Column(column.name, Kind.CATEGORY, column.values, ordered=True, missing=column.missing)


def describe(column: Column) -> str:
    """Return one line about a column, for people."""
    parts = []
    if column.note:
        parts.append(f"not modelled: {column.note}")
    elif column.categories is not None:
        parts.append(f"{len(column.categories)} values: {format_list(column.categories)}")
    elif column.values is not None and column.clip:
        parts.append(f"{len(column.values)} values: {', '.join(map(format_number, column.values))}")
    elif column.minimum is not None and column.maximum is not None and column.kind.numeric:
        low, high = (format_value(column, end) for end in (column.minimum, column.maximum))
        zone = f" ({column.zone or 'UTC'})" if column.zoned else ""
        parts.append(f"{low} to {high}{zone}")
    if column.step and column.kind.numeric and not column.kind.temporal and (column.values is None or not column.clip):
        parts.append(f"step {format_number(column.step)}")
    if column.missing:
        parts.append(f"{format_percent(column.missing, digits=2)} missing")
    return ", ".join(parts)


def format_time(column: Column, ticks: float) -> str:
    """Return a date, a datetime or a duration as text; a time with a time zone as its clocks show it."""
    return column.kind.spec.format(_local_ticks(column, ticks), column.unit)


def format_iso_time(column: Column, ticks: float) -> str:
    """Return a date or a datetime in the format of ISO 8601, with all digits of its unit, as its clocks show it."""
    return _iso_text(_local_ticks(column, ticks), column.unit)


def _local_ticks(column: Column, ticks: float) -> int:
    if not column.zone or not column.unit:
        return int(ticks)
    return int(to_local(np.array([int(ticks)]), NANOSECONDS[column.unit], column.zone)[0])


def format_value(column: Column, value: float) -> str:
    """Return a value of a numeric column as text."""
    return format_time(column, value) if column.kind.temporal else column.kind.spec.format(value, column.unit)
