"""What each column is: its kind, its labels, its range and its grid.

`Schema.infer` reads a table; the result is plain data that can be printed, edited as JSON and given back to
`Harpoon(schema=...)`. Nothing here knows torch, and nothing is learnt that depends on a network.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon import frames
from harpoon.errors import InvalidOption, InvalidTable, SchemaMismatch, closest, listed
from harpoon.frames import NANOSECONDS, Cells

MAX_DECIMALS = 9
FEW = 20  # below this many rows, all values being distinct says nothing
DENSE_ROWS = 50
TEXT_SHARE = 0.5
SHORT_TEXT = 40
LARGEST_STEP = 10**18
LARGEST_INTEGER = 2**63
DAY = 86_400 * 10**9
TIME_STEPS = (DAY, 3_600 * 10**9, 60 * 10**9, 10**9, 10**6, 10**3, 1)


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
    labels: tuple[Any, ...] | None = None
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
        wrong = next((message for message, broken in _column_faults(self) if broken), None)
        if wrong:
            raise InvalidOption(f"Column {self.name!r} of the schema is wrong: {wrong}.")

    def to_json(self) -> dict[str, Any]:
        """The fields that differ from their defaults."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data = {f.name: data[f.name] for f in fields(self) if f.default is MISSING or data[f.name] != f.default}
        return data | ({"labels": list(self.labels)} if self.labels is not None else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Column:
        """Back from `to_json`, or from a file edited by hand."""
        known = {f.name for f in fields(cls)}
        if not isinstance(data, Mapping) or not {"name", "kind"} <= set(data):
            raise InvalidOption(f"A column of a schema must be an object with a name and a kind, got {data!r}.")
        unknown = sorted(set(data) - known)
        if unknown:
            raise InvalidOption(f"Column {data['name']!r} of the schema has the unknown fields {listed(unknown)}.")
        if not isinstance(data["kind"], str) or data["kind"] not in set(Kind):
            raise InvalidOption.one_of(
                f"The kind of column {data['name']!r}", data["kind"], [kind.value for kind in Kind]
            )
        labels = data.get("labels")
        labels = tuple(labels) if isinstance(labels, list | tuple) else labels
        return cls(**{**data, "kind": Kind(data["kind"]), "labels": labels})


def _column_faults(column: Column) -> Iterator[tuple[str, bool]]:
    """What can be wrong with a column, and whether it is."""
    labels, low, high = column.labels, column.minimum, column.maximum
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
    yield "its step must be from 0 to 1e18", column.step is not None and not 0 <= column.step <= LARGEST_STEP
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


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order.

    >>> import pyarrow as pa
    >>> schema = Schema.infer(pa.table({"age": [31, 40, None, 55], "job": ["chef", "nurse", "chef", None]}))
    >>> print(schema)
    age  integer   31 to 55, step 1, 25 % missing
    job  category  2 values: 'chef', 'nurse', 25 % missing
    >>> schema["job"].labels
    ('chef', 'nurse')
    """

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Column:
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            near = closest(name, self.names)
            hint = f" Did you mean {near[0]!r}?" if near else f" It has {listed(self.names)}."
            raise InvalidOption(f"The schema has no column {name!r}.{hint}")
        return found

    def __str__(self) -> str:
        name_width = max((len(column.name) for column in self), default=0)
        kind_width = max((len(column.kind) for column in self), default=0)
        return "\n".join(f"{c.name:<{name_width}}  {c.kind:<{kind_width}}  {_words(c)}".rstrip() for c in self)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self]

    @property
    def modelled(self) -> list[Column]:
        """The columns that the model learns."""
        return [column for column in self if column.kind.modelled]

    @classmethod
    def infer(cls, data: object, *, kinds: Mapping[str, str] | None = None, exclude: Iterable[str] = ()) -> Schema:
        """Read the schema off a table.

        Args:
            data: A pandas, polars or pyarrow frame.
            kinds: Kinds to use instead of the inferred ones, for example `{"EDUCATION": "category"}`.
            exclude: Columns to leave out of the model.
        """
        table = frames.read(data)
        exclude = [str(name) for name in exclude]
        wanted = {**{str(n): kind for n, kind in (kinds or {}).items()}, **dict.fromkeys(exclude, Kind.SKIPPED)}
        unknown = sorted(set(wanted) - set(table.names))
        if unknown:
            raise InvalidOption(f"The table has no column {listed(unknown)}; it has {listed(table.names)}.")
        bare = []
        for name in table.names:
            if name in wanted and str(wanted[name]) not in set(Kind):
                raise InvalidOption.one_of(f"The kind of column {name!r}", wanted[name], [kind.value for kind in Kind])
            note = "left out on request" if name in exclude else ""
            bare.append((name, Column(name, Kind(wanted[name]), note=note) if name in wanted else None))
        return cls(tuple(infer_column(name, table.cells(name), column) for name, column in bare))

    def completed(self, data: object) -> Schema:
        """The same schema, with what it leaves open read off a table."""
        table = frames.read(data)
        check_columns(table.names, self.names)
        return Schema(tuple(infer_column(column.name, table.cells(column.name), column) for column in self))

    def replace(self, name: str, **changes: Any) -> Schema:  # noqa: ANN401
        """A copy in which one column differs.

        Changing the kind forgets labels, range and grid, which are then read off the training table.
        """
        column = self[name]
        if "kind" in changes:
            column = Column(name, column.kind, missing=column.missing)
        changed = Column.from_json({**column.to_json(), **changes})
        return Schema(tuple(changed if other.name == name else other for other in self))

    def to_json(self) -> str:
        """As JSON text, made to be read and edited."""
        columns = ",\n    ".join(json.dumps(column.to_json(), ensure_ascii=False) for column in self)
        return f'{{\n  "columns": [\n    {columns}\n  ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Back from `to_json`."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError, TypeError) as error:
            raise InvalidOption(f"A schema must be JSON: {error}.") from None
        if not isinstance(data, dict) or not isinstance(data.get("columns"), list):
            raise InvalidOption('A schema must be a JSON object with a list "columns".')
        columns = tuple(Column.from_json(column) for column in data["columns"])
        if len({column.name for column in columns}) < len(columns):
            raise InvalidOption("A schema must name each column once.")
        return cls(columns)

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file."""
        try:
            Path(path).write_text(self.to_json(), encoding="utf-8")
        except (OSError, ValueError, TypeError) as error:
            raise InvalidOption(f"The schema cannot be written to {path!r}: {error}.") from None

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read it from a JSON file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError, TypeError) as error:
            raise InvalidOption(f"The schema cannot be read from {path!r}: {error}.") from None
        return cls.from_json(text)


def check_columns(got: list[str], wanted: list[str]) -> None:
    """The table must have exactly the columns of the schema, in any order."""
    missing = [name for name in wanted if name not in set(got)]
    if missing:
        raise SchemaMismatch.missing_columns(missing, got)
    check_known(got, wanted)


def check_known(got: list[str], wanted: list[str]) -> None:
    """The table must have no column that the schema does not know."""
    extra = [name for name in got if name not in set(wanted)]
    if extra:
        raise SchemaMismatch.extra_columns(extra, wanted)


def infer_column(name: str, cells: Cells, given: Column | None = None) -> Column:
    """One column read off its cells; what `given` already says stays."""
    _check_finite(name, cells)
    kind, note = _kind(name, cells) if given is None else (given.kind, given.note)
    if given is not None and given.kind not in (Kind.SKIPPED, Kind.EMPTY) and not len(cells.observed):
        return Column(name, Kind.EMPTY, missing=1.0, note="every cell is missing")
    if given is not None and given.unit and cells.unit and given.unit != cells.unit:
        raise InvalidOption(f"Column {name!r} of the schema counts in {given.unit!r}, the table in {cells.unit!r}.")
    found = Column(name, kind, missing=float(cells.missing.mean()) if len(cells) else 0.0, note=note)
    if kind is Kind.CONSTANT:
        found = replace(found, labels=(_first(cells),))
    if kind.modelled:
        found = replace(found, **_details(conform(cells, found), kind))
    if given is None:
        return found
    said = {name: value for name, value in vars(given).items() if name in given.to_json() and name != "missing"}
    return replace(found, **said)


def conform(cells: Cells, column: Column) -> Cells:
    """Cells as the column's kind holds them, or an error that says why they cannot be.

    A dtype that changed only because of holes is fine. A label that the column does not know becomes missing.
    """
    _check_finite(column.name, cells)
    if cells.missing.all():
        return _all_missing(cells, column)
    if column.kind.discrete:
        return _conform_labels(cells, column)
    if column.kind.temporal:
        return _conform_time(cells, column)
    return _conform_number(cells, column)


def _conform_number(cells: Cells, column: Column) -> Cells:
    if cells.storage not in ("float", "integer"):
        raise _changed(cells, column)
    if column.kind is Kind.NUMBER:
        return replace(cells, storage="float", values=cells.values.astype(np.float64))
    if cells.storage == "float":
        whole = (cells.observed == np.round(cells.observed)) & (np.abs(cells.observed) < LARGEST_INTEGER)
        if not whole.all():
            raise SchemaMismatch(
                f"Column {column.name!r} holds integers, but the table has {float(cells.observed[~whole][0])!r} in it. "
                'Round it, or train with the kind "number".'
            )
    return replace(cells, storage="integer", values=cells.values.astype(np.int64))


def _conform_time(cells: Cells, column: Column) -> Cells:
    if cells.storage != column.kind.value:
        raise _changed(cells, column)
    if column.unit and cells.zoned != column.zoned:
        with_, without = ("with", "without") if column.zoned else ("without", "with")
        raise SchemaMismatch(
            f"Column {column.name!r} holds times {with_} a time zone, got some {without}. Convert them."
        )
    if not column.unit or cells.unit == column.unit:
        return cells
    here, there = NANOSECONDS[cells.unit], NANOSECONDS[column.unit]
    if here > there and int(np.abs(cells.values).max()) > LARGEST_INTEGER // (here // there):
        raise SchemaMismatch(f"Column {column.name!r} counts time in {column.unit!r}, in which the table's do not fit.")
    values = cells.values * (here // there) if here >= there else cells.values // (there // here)
    return replace(cells, values=values, unit=column.unit)


def _conform_labels(cells: Cells, column: Column) -> Cells:
    if column.kind is Kind.BOOLEAN and cells.storage not in ("boolean", "float", "integer"):
        raise _changed(cells, column)
    if cells.storage in ("date", "datetime", "duration", "other"):
        raise _changed(cells, column)
    cells = as_labels(cells)
    if column.labels is None:
        return cells
    if cells.labels and _is_text(cells.labels) != _is_text(column.labels):
        kinds = {True: "texts", False: "numbers"}
        raise SchemaMismatch(
            f"The labels of column {column.name!r} are {kinds[_is_text(column.labels)]}, but the table holds "
            f"{kinds[_is_text(cells.labels)]} in it. Convert the column, or train again on what it holds now."
        )
    strange = [label for label in cells.labels if label not in (0, 1)] if column.kind is Kind.BOOLEAN else []
    if strange:
        raise SchemaMismatch(f"Column {column.name!r} holds true and false, but the table has {strange[0]!r} in it.")
    place = {label: i for i, label in enumerate(column.labels)}
    moved = np.array([place.get(label, -1) for label in cells.labels], dtype=np.int64)
    values = moved[cells.values] if len(moved) else cells.values
    missing = cells.missing | (values < 0)
    return Cells("category", np.where(missing, 0, values), missing, column.labels, column.ordered)


def unseen_labels(cells: Cells, column: Column) -> list[Any]:
    """The labels in use that the column does not know."""
    if not column.kind.discrete or cells.missing.all():
        return []
    cells = as_labels(cells)
    used = {cells.labels[code] for code in np.unique(cells.observed)}
    return sorted(used - set(column.labels or ()), key=str)


def as_labels(cells: Cells) -> Cells:
    """Any column as positions in a list of labels; a whole number counts as an integer."""
    if cells.storage in ("boolean", "text", "category"):
        return cells
    labels = np.unique(cells.observed)
    codes = np.where(cells.missing, 0, np.searchsorted(labels, cells.values))
    plain = tuple(int(v) if float(v).is_integer() else float(v) for v in labels.tolist())
    return Cells("category", codes, cells.missing, plain)


def _is_text(labels: tuple[Any, ...]) -> bool:
    return any(isinstance(label, str) for label in labels)


def _all_missing(cells: Cells, column: Column) -> Cells:
    storage: dict[Kind, frames.Storage] = {Kind.NUMBER: "float", Kind.INTEGER: "integer", Kind.DATE: "date"}
    storage |= {Kind.DATETIME: "datetime", Kind.DURATION: "duration"}
    dtype = np.float64 if column.kind is Kind.NUMBER else np.int64
    return Cells(
        storage.get(column.kind, "category"),
        np.zeros(len(cells), dtype=dtype),
        cells.missing,
        column.labels or (),
        column.ordered,
        column.unit,
        column.zoned,
    )


def _changed(cells: Cells, column: Column) -> SchemaMismatch:
    return SchemaMismatch(
        f"Column {column.name!r} is of kind {column.kind.value!r}, but the table holds {cells.storage} values "
        "in it. Convert the column, or train again with the kind it has now."
    )


def _check_finite(name: str, cells: Cells) -> None:
    if cells.storage == "float" and not np.isfinite(cells.observed).all():
        raise InvalidTable(
            f"Column {name!r} holds {int((~np.isfinite(cells.observed)).sum())} infinite values; numbers must be "
            "finite. Replace them with a number, or with a missing cell to have them filled."
        )


def _kind(name: str, cells: Cells) -> tuple[Kind, str]:
    """The kind that the cells suggest, and for one that is not modelled, why."""
    if cells.storage == "other":
        return Kind.SKIPPED, "its values are of mixed or nested types"
    if not len(cells.observed):
        return Kind.EMPTY, "every cell is missing"
    distinct = len(np.unique(cells.observed))
    if distinct == 1:
        return Kind.CONSTANT, "every cell has the same value"
    if cells.storage == "text":
        return _text_kind(cells, distinct)
    if cells.storage == "integer" and _is_identifier(name, cells.observed, distinct):
        return Kind.IDENTIFIER, "every row has its own value, and the values count rows"
    by_storage = {"float": Kind.NUMBER, "boolean": Kind.BOOLEAN, "category": Kind.CATEGORY}
    return by_storage.get(cells.storage) or Kind(cells.storage), ""


def _text_kind(cells: Cells, distinct: int) -> tuple[Kind, str]:
    count = len(cells.observed)
    if count < FEW or distinct <= TEXT_SHARE * count:
        return Kind.CATEGORY, ""
    words = any(" " in label.strip() for label in cells.labels)
    longest = max(len(label) for label in cells.labels)
    if distinct == count and not words and longest <= SHORT_TEXT:
        return Kind.IDENTIFIER, "every row has its own value"
    return Kind.TEXT, f"free text ({distinct} different values in {count} rows)"


def _is_identifier(name: str, values: NDArray[Any], distinct: int) -> bool:
    if distinct < len(values) or distinct < FEW:
        return False
    named = name.casefold() in ("id", "index", "key") or name.endswith(("_id", " id", "Id", "ID"))
    dense = len(values) >= DENSE_ROWS and int(values.max()) - int(values.min()) + 1 == len(values)
    return named or dense


def _details(cells: Cells, kind: Kind) -> dict[str, Any]:
    """Labels, or range and grid."""
    if kind is Kind.BOOLEAN:
        return {"labels": (False, True)}
    if kind is Kind.CATEGORY:
        if cells.storage == "category":
            return {"labels": cells.labels, "ordered": cells.ordered}
        return {"labels": tuple(sorted(cells.labels, key=lambda label: (str(type(label)), label)))}
    observed = cells.observed
    if not len(observed):
        return {"unit": cells.unit, "zoned": cells.zoned}
    low, high = observed.min().item(), observed.max().item()
    return {"minimum": low, "maximum": high, "step": _step(observed, cells, kind), **_clock(cells)}


def _clock(cells: Cells) -> dict[str, Any]:
    return {"unit": cells.unit, "zoned": cells.zoned}


def _first(cells: Cells) -> Any:  # noqa: ANN401
    value = cells.observed[0].item()
    return cells.labels[value] if cells.labels else value


def _step(observed: NDArray[Any], cells: Cells, kind: Kind) -> float | int:
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
    for decimals in range(MAX_DECIMALS + 1):
        if np.array_equal(np.round(observed, decimals), observed):
            return float(10.0**-decimals)
    return 0


def _moment(column: Column, ticks: float) -> str:
    """A date, a time or a span as people write it."""
    kind: Any = np.timedelta64 if column.kind is Kind.DURATION else np.datetime64
    return str(kind(int(ticks), column.unit or "D"))


def _words(column: Column) -> str:
    """One line about a column, for people."""
    parts = []
    if column.note:
        parts.append(f"not modelled: {column.note}")
    elif column.labels is not None:
        parts.append(f"{len(column.labels)} values: {listed(column.labels)}")
    elif column.minimum is not None and column.kind in (Kind.NUMBER, Kind.INTEGER):
        parts.append(f"{column.minimum:g} to {column.maximum:g}")
    elif column.minimum is not None and column.maximum is not None and column.kind.temporal:
        parts.append(f"{_moment(column, column.minimum)} to {_moment(column, column.maximum)}")
    if column.step and column.kind in (Kind.NUMBER, Kind.INTEGER):
        parts.append(f"step {column.step:g}")
    if column.missing:
        parts.append(f"{column.missing:.0%} missing".replace("%", " %"))
    return ", ".join(parts)
