"""Cells written as text: which are missing, what a column of them holds, and how a value is written.

A column gets the first of `TYPES` that every one of its cells fits, else it is text. A number with leading zeros is a
code (00123), so it is text; so is a whole number beyond 18 digits, which no float could hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from harpoon._text import shorten
from harpoon.exceptions import InvalidTable

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "<NA>", "#N/A")
WHOLE = r"(0|[1-9][0-9]{0,17})"
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,%d})?)?"
ZONE = r"(Z|[+-][0-9]{2}:?[0-9]{2})"
PATTERNS = {
    pa.bool_(): "true|false|True|False|TRUE|FALSE",
    pa.int64(): rf"[+-]?{WHOLE}",
    pa.float64(): rf"[+-]?({WHOLE}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity)",
    pa.date32(): DAY,
    pa.timestamp("us"): DAY + CLOCK % 6,
    pa.timestamp("ns"): DAY + CLOCK % 9,
    pa.timestamp("us", "UTC"): DAY + CLOCK % 6 + ZONE,
    pa.timestamp("ns", "UTC"): DAY + CLOCK % 9 + ZONE,
}
TYPES = tuple(PATTERNS)
TIMES = TYPES[3:]
WORDS = {"bool": "true or false", "int64": "whole numbers", "double": "numbers", "date32[day]": "dates (2024-01-31)"}


@dataclass
class TypeInference:
    """What the columns of text hold, learnt part by part: a column is not known before its last cell.

    >>> survey = Survey(["a", "b", "c"])
    >>> survey.look(pa.table({"a": ["1", "NA"], "b": ["007", "12"], "c": ["", ""]}))
    >>> survey.look(pa.table({"a": ["2.5", "3"], "b": ["1", "2"], "c": ["", "null"]}))
    >>> [str(dtype) for dtype in survey.types.values()], sorted(survey.met)
    (['double', 'string', 'null'], ['', 'NA', 'null'])
    """

    names: Sequence[str]
    missing: Sequence[str] = MISSING
    among: Iterable[pa.DataType] = TYPES
    met: set[str] = field(default_factory=set, init=False)  # the spellings of missing cells

    def __post_init__(self) -> None:
        self._open = {name: list(self.among) for name in self.names}
        self._filled: set[str] = set()

    def look(self, texts: Mapping[str, pa.ChunkedArray] | pa.Table) -> None:
        """Take some more rows into account."""
        for name in self.names:
            different = pc.unique(pc.utf8_trim_whitespace(texts[name]))
            holes = _are_missing(different, self.missing)
            self.met.update(word or "" for word in different.filter(holes).to_pylist())
            present = different.filter(pc.invert(holes))
            if len(present):
                self._filled.add(name)
                self._open[name] = [dtype for dtype in self._open[name] if _fit(present, dtype)]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The type of each column; null where every cell is missing."""
        return {name: (*self._open[name], pa.string())[0] if name in self._filled else pa.null() for name in self.names}


def cast_texts(
    texts: pa.ChunkedArray, dtype: pa.DataType, *, name: str = "", missing: Sequence[str] = MISSING, first_row: int = 0
) -> pa.ChunkedArray:
    """A column of text as what it holds, or an `InvalidTable` that names the first cell that does not fit.

    >>> typed(pa.chunked_array([[" 3", "NA", "4.0"]]), pa.int64()).to_pylist()
    [3, None, 4]
    """
    trimmed = pc.utf8_trim_whitespace(texts)
    holes = _are_missing(trimmed, missing)
    if pa.types.is_null(dtype) and pc.all(holes).as_py() in (True, None):
        return pa.chunked_array([pa.nulls(len(texts))])
    if pa.types.is_string(dtype) or pa.types.is_null(dtype):
        return pc.if_else(holes, None, texts)
    present = pc.if_else(holes, None, trimmed)
    try:
        return _cast(present, dtype)
    except pa.ArrowInvalid:
        place, cell = _first_misfit(present, dtype)
    problem = (
        f"Column {name!r} should hold {WORDS.get(str(dtype), f'times ({dtype})')}, but row {first_row + place + 2} "
        f"(the header is row 1) has {shorten(cell)!r}."
    )
    advice = f"Fix the cell, empty it, or declare it missing (missing=[{shorten(cell)!r}])."
    raise InvalidTable(f"{problem} {advice}", code="invalid_cell", problem=problem, value=shorten(cell))


def format_texts(column: pa.ChunkedArray, *, like: str = "") -> pa.ChunkedArray:  # noqa: PLR0911
    """A column as text; truth values are spelled `like` one that was there.

    >>> as_text(pa.chunked_array([[1.0, 2.5, None]])).to_pylist(), as_text(pa.chunked_array([[True]]), like="FALSE")[0]
    (['1', '2.5', None], <pyarrow.StringScalar: 'TRUE'>)
    """
    dtype = column.type
    if pa.types.is_dictionary(dtype):
        return format_texts(column.cast(dtype.value_type), like=like)
    if pa.types.is_floating(dtype):
        return pc.if_else(pc.is_null(column, nan_is_null=True), None, column.cast(pa.string()))
    if pa.types.is_duration(dtype):
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_timestamp(dtype):
        return pc.replace_substring_regex(column.cast(pa.string()), r"\.0+(Z?)$", r"\1")
    if pa.types.is_boolean(dtype):
        spelled = [word.upper() if like.isupper() else word.title() if like.istitle() else word for word in TRUTHS]
        return pc.if_else(column, spelled[1], spelled[0])
    if pa.types.is_nested(dtype) or pa.types.is_binary(dtype):
        plain = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(plain, type=pa.string())])
    return column.cast(pa.string())


def _are_missing(trimmed: pa.Array, missing: Sequence[str]) -> pa.Array:
    return pc.is_in(trimmed, value_set=pa.array([*missing, None], type=pa.string()))


def _fit(present: pa.Array, dtype: pa.DataType) -> bool:
    """Whether all cells look like the type, and are of it: there is no 31st of April."""
    if not pc.all(_look_like(present, dtype)).as_py():
        return False
    try:
        _cast(present, dtype)
    except pa.ArrowInvalid:
        return False
    return True


def _look_like(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    return pc.match_substring_regex(texts, f"^({PATTERNS[dtype]})$")


def _cast(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    if pa.types.is_integer(dtype):
        texts = pc.replace_substring_regex(texts, r"^\+", "")
        try:
            return texts.cast(dtype)
        except pa.ArrowInvalid:  # 4.0, as pandas writes a whole number beside a hole
            return texts.cast(pa.float64()).cast(dtype)
    if pa.types.is_duration(dtype):
        return _cast(texts, pa.int64()).cast(dtype)
    return texts.cast(dtype)


def _first_misfit(present: pa.ChunkedArray, dtype: pa.DataType) -> tuple[int, str]:
    """Where the first cell stands that cannot be of the type, and the cell."""
    for place, cell in enumerate(present):
        try:
            _cast(pa.array([cell.as_py()], type=pa.string()), dtype)
        except pa.ArrowInvalid:
            return place, cell.as_py()
    raise AssertionError("every cell by itself is of the type")  # pragma: no cover


TRUTHS = ("false", "true")
