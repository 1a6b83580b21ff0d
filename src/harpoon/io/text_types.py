"""Types of columns of text: which cells are missing, the type of a column, and the text of a value.

A column gets the first of `TYPES` that fits every cell, otherwise it is text. A number with leading zeros is a code
(00123), so it is text. So is an integer of more than 18 digits, which no float holds exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harpoon._formatting import shorten
from harpoon.exceptions import InvalidTable, MixedTypesWarning, warn

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "<NA>", "#N/A")
INTEGER = r"(0|[1-9][0-9]{0,17})"
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,%d})?)?"
ZONE = r"(Z|[+-][0-9]{2}:?[0-9]{2})"
PATTERNS = {
    pa.bool_(): "true|false|True|False|TRUE|FALSE",
    pa.int64(): rf"[+-]?{INTEGER}",
    pa.float64(): rf"[+-]?({INTEGER}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity)",
    pa.date32(): DAY,
    pa.timestamp("us"): DAY + CLOCK % 6,
    pa.timestamp("ns"): DAY + CLOCK % 9,
    pa.timestamp("us", "UTC"): DAY + CLOCK % 6 + ZONE,
    pa.timestamp("ns", "UTC"): DAY + CLOCK % 9 + ZONE,
}
TYPES = tuple(PATTERNS)
TIME_TYPES = TYPES[3:]
TYPE_NAMES = {"bool": "true or false", "int64": "integers", "double": "numbers", "date32[day]": "dates (2024-01-31)"}
BOOLEAN_WORDS = ("false", "true")


@dataclass
class TypeInference:
    """Infers the types of columns of text from chunk after chunk.

    >>> inference = TypeInference(["a", "b", "c"])
    >>> inference.update(pa.table({"a": ["1", "NA"], "b": ["007", "12"], "c": ["", ""]}))
    >>> inference.update(pa.table({"a": ["2.5", "3"], "b": ["1", "2"], "c": ["", "null"]}))
    >>> [str(dtype) for dtype in inference.types.values()], sorted(inference.missing_spellings)
    (['double', 'string', 'null'], ['', 'NA', 'null'])
    """

    names: Sequence[str]
    missing: Sequence[str] = MISSING
    candidates: Iterable[pa.DataType] = TYPES
    missing_spellings: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._fitting = {name: list(self.candidates) for name in self.names}
        self._observed: set[str] = set()  # columns with at least one observed cell
        self._offsets: dict[str, set[str]] = {}  # from UTC, of columns of times with one

    def update(self, texts: Mapping[str, pa.ChunkedArray] | pa.Table) -> None:
        """Add the cells of more rows."""
        for name in self.names:
            distinct = pc.unique(pc.utf8_trim_whitespace(texts[name]))
            missing = _are_missing(distinct, self.missing)
            self.missing_spellings.update(word or "" for word in distinct.filter(missing).to_pylist())
            observed = distinct.filter(pc.invert(missing))
            if len(observed):
                self._observed.add(name)
                self._fitting[name] = [dtype for dtype in self._fitting[name] if _all_fit(observed, dtype)]
                if any(map(_is_zoned, self._fitting[name])):
                    self._offsets.setdefault(name, set()).update(_offsets(observed))

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The type of each column; null where every cell is missing.

        Times with the same offset from UTC in every cell keep it as their time zone. Otherwise they are instants.
        """
        found = {name: (*self._fitting[name], pa.string())[0] for name in self.names}
        for name, dtype in found.items():
            offsets = self._offsets.get(name, set())
            if dtype in TIME_TYPES and _is_zoned(dtype) and len(offsets) == 1 and list(self.candidates) != [dtype]:
                found[name] = pa.timestamp(dtype.unit, next(iter(offsets)))
        return {name: dtype if name in self._observed else pa.null() for name, dtype in found.items()}

    @property
    def mixed_offsets(self) -> dict[str, list[str]]:
        """The offsets from UTC of columns of times that have several, such as those of summer and winter."""
        found = {name: self._offsets.get(name, set()) for name, dtype in self.types.items() if _is_zoned(dtype)}
        return {name: sorted(offsets) for name, offsets in found.items() if len(offsets) > 1}


def cast_texts(
    texts: pa.ChunkedArray, dtype: pa.DataType, *, name: str = "", missing: Sequence[str] = MISSING, row_offset: int = 0
) -> pa.ChunkedArray:
    """Cast a column of text to a type, or raise InvalidTable with the first cell that does not fit.

    >>> cast_texts(pa.chunked_array([[" 3", "NA", "4.0"]]), pa.int64()).to_pylist()
    [3, None, 4]
    """
    trimmed = pc.utf8_trim_whitespace(texts)
    is_missing = _are_missing(trimmed, missing)
    if pa.types.is_null(dtype) and pc.all(is_missing).as_py() in (True, None):
        return pa.chunked_array([pa.nulls(len(texts))])
    if pa.types.is_string(dtype) or pa.types.is_null(dtype):
        return pc.if_else(is_missing, None, texts)
    observed = pc.if_else(is_missing, None, trimmed)
    try:
        return _cast(observed, dtype)
    except pa.ArrowInvalid:
        index, cell = _first_misfit(observed, dtype)
    problem = (
        f"Column {name!r} should hold {TYPE_NAMES.get(str(dtype), f'times ({dtype})')}, but row "
        f"{row_offset + index + 2} (the header is row 1) has {shorten(cell)!r}."
    )
    advice = f"Fix the cell, empty it, or declare it missing (missing=[{shorten(cell)!r}])."
    raise InvalidTable(f"{problem} {advice}", code="invalid_cell", problem=problem, value=shorten(cell))


def warn_of_offsets(inference: TypeInference, name: str) -> None:
    """Warn of columns of a table whose times have several offsets from UTC."""
    for column, offsets in inference.mixed_offsets.items():
        message = (
            f"The times of column {column!r} of {name} have several offsets from UTC ({', '.join(offsets)}). They are "
            "read as instants and written in UTC. To keep the clocks of their time zone, name it in the schema: "
            f"schema.replace({column!r}, zone='America/New_York')."
        )
        warn(MixedTypesWarning(message, code="mixed_offsets", name=name, columns=[column]))


def format_texts(column: pa.ChunkedArray, *, like: str = "") -> pa.ChunkedArray:  # noqa: PLR0911
    """Format a column as text. Booleans take the case of `like`, and times its letter T and the form of its offset.

    >>> format_texts(pa.chunked_array([[1.0, 2.5, None]])).to_pylist()
    ['1', '2.5', None]
    >>> format_texts(pa.chunked_array([[True]]), like="FALSE").to_pylist()
    ['TRUE']
    """
    dtype = column.type
    if pa.types.is_dictionary(dtype):
        return format_texts(column.cast(dtype.value_type), like=like)
    if pa.types.is_floating(dtype):
        return pc.if_else(pc.is_null(column, nan_is_null=True), None, column.cast(pa.string()))
    if pa.types.is_duration(dtype):
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_timestamp(dtype):
        return _format_times(column, like)
    if pa.types.is_boolean(dtype):
        change_case = str.upper if like.isupper() else str.title if like.istitle() else str
        false, true = map(change_case, BOOLEAN_WORDS)
        return pc.if_else(column, true, false)
    if pa.types.is_nested(dtype) or is_binary(dtype):
        encode = bytes.hex if is_binary(dtype) else partial(json.dumps, default=str)
        texts = [None if value is None else encode(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, type=pa.string())])
    return column.cast(pa.string())


def _format_times(column: pa.ChunkedArray, like: str) -> pa.ChunkedArray:
    """Format times: without a fraction of 0, and with an offset as in 12:00:00+01:00 where they have a time zone."""
    texts = pc.replace_substring_regex(column.cast(pa.string()), r"\.0+(Z|[+-][0-9]{4})?$", r"\1")
    offset = re.search(r"[+-][0-9]{2}(:?)[0-9]{2}$", like)
    if offset:
        texts = pc.replace_substring(texts, "Z", f"+00{offset[1]}00")
    if offset is None or offset[1]:
        texts = pc.replace_substring_regex(texts, r"([+-][0-9]{2})([0-9]{2})$", r"\1:\2")
    return pc.replace_substring_regex(texts, r"^([0-9-]+) ", r"\1T") if "T" in like else texts


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; dates and times as text, durations as integers.

    >>> plain_values(pa.chunked_array([pa.array([0, None], pa.date32())]))
    ['1970-01-01', None]
    """
    if pa.types.is_duration(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    return list((format_texts(column) if pa.types.is_temporal(column.type) else column).to_pylist())


def is_binary(dtype: pa.DataType) -> bool:
    """Whether values of the type are bytes."""
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype))


def _are_missing(trimmed: pa.Array, missing: Sequence[str]) -> pa.Array:
    return pc.is_in(trimmed, value_set=pa.array([*missing, None], type=pa.string()))


def _all_fit(texts: pa.Array, dtype: pa.DataType) -> bool:
    """Whether all cells match the pattern of a type and can be cast to it: there is no 31st of April."""
    if not pc.all(pc.match_substring_regex(texts, f"^({_pattern(dtype)})$")).as_py():
        return False
    try:
        _cast(texts, dtype)
    except pa.ArrowInvalid:
        return False
    return True


def _is_zoned(dtype: pa.DataType) -> bool:
    return pa.types.is_timestamp(dtype) and dtype.tz is not None


def _pattern(dtype: pa.DataType) -> str:
    """Return the pattern of a type; times of any zone and of seconds or longer have that of UTC and microseconds."""
    if not pa.types.is_timestamp(dtype):
        return PATTERNS[dtype]
    return PATTERNS[pa.timestamp("ns" if dtype.unit == "ns" else "us", "UTC" if dtype.tz else None)]


def _offsets(texts: pa.Array) -> set[str]:
    """Return the offsets from UTC of times, as "-05:00" or "UTC"."""
    found = pc.unique(pc.replace_substring_regex(texts, f"^.*?{ZONE}$", r"\1")).to_pylist()
    offsets = {f"{text[:3]}:{text[-2:]}" if text != "Z" else "UTC" for text in found}
    return {"UTC" if offset in ("+00:00", "-00:00") else offset for offset in offsets}


def _cast(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    if pa.types.is_integer(dtype):
        # Digits are not cast as a float, which rounds from 2⁵³ on. pandas writes 4.0 in a column with missing cells.
        texts = pc.replace_substring_regex(texts, r"^(\+|(-))?([0-9]+)(\.0*)?$", r"\2\3")
        is_plain = pc.match_substring_regex(texts, "^-?[0-9]+$")
        plain, others = pc.if_else(is_plain, texts, None), pc.if_else(is_plain, None, texts)
        return pc.coalesce(plain.cast(dtype), others.cast(pa.float64()).cast(dtype))
    if pa.types.is_duration(dtype):
        return _cast(texts, pa.int64()).cast(dtype)
    return texts.cast(dtype)


def _first_misfit(texts: pa.ChunkedArray, dtype: pa.DataType) -> tuple[int, str]:
    """Return the index and the text of the first cell that cannot be cast."""
    for index, cell in enumerate(texts):
        try:
            _cast(pa.array([cell.as_py()], type=pa.string()), dtype)
        except pa.ArrowInvalid:
            return index, cell.as_py()
    raise AssertionError("every cell can be cast by itself")  # pragma: no cover
