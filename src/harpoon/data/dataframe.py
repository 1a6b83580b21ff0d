"""Dataframes in, dataframes out: the only module that touches pandas, polars or pyarrow frames.

A frame is read once into a `Table`. A column of it is read as `Cells`: plain NumPy values with a mask of what
is missing, whatever the library calls a missing cell. What the model produces is written back either into the
holes of a given frame (`Table.fill`) or as a new frame that looks like the one trained on (`Template.build`).

Arrow is the common language underneath: each library converts to and from it without loss, and one Arrow
schema remembers the dtypes of all three.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from narwhals.exceptions import NarwhalsError
from numpy.typing import NDArray

from harpoon._text import format_list
from harpoon.data.arrow import from_arrow, has_new_categories, merge_filled, opaque, settled, storage_type, to_arrow
from harpoon.data.column_array import ColumnArray
from harpoon.exceptions import InvalidTable

LIBRARIES = ("pandas", "polars", "pyarrow")
IMPLEMENTATIONS: dict[str, Any] = {name: nw.Implementation.from_string(name) for name in LIBRARIES}
HOLDS = {
    "number": ("float", "integer"),
    "integer": ("integer", "float"),
    "boolean": ("boolean", "float", "integer"),
    "category": ("category", "text", "boolean", "integer", "float"),
    "date": ("date",),
    "datetime": ("datetime",),
    "duration": ("duration",),
}


@dataclass(frozen=True)
class FrameTemplate:
    """What a frame looked like: its library, its column names and their dtypes, as an Arrow schema."""

    library: str
    schema: pa.Schema
    range_index: tuple[str, ...] = ()  # columns whose names are numbers in pandas

    def build(self, columns: Mapping[str, ColumnArray]) -> Any:  # noqa: ANN401
        """A frame of the same library and dtypes from cells; columns not given are left out."""
        made = _ColumnBuilder(self.schema.metadata)
        for name in self.schema.names:
            if name in columns:
                wanted = settled(self.schema.field(name), columns[name])
                made.add(wanted, to_arrow(columns[name], wanted.type))
        frame = made.to_native(self.library)
        if self.range_index:
            frame.columns = [self.label(name) for name in frame.columns]
        return frame

    def label(self, name: str) -> int | str:
        """What the frame calls a column."""
        return int(name) if name in self.range_index else name

    def check(self, name: str, kind: str) -> None:
        """Refuse a frame that cannot hold a column of this kind."""
        if name not in self.schema.names:
            raise ValueError(f"the frame has no column {name!r}")
        storage = storage_type(self.schema.field(name).type)
        if kind in HOLDS and storage not in (*HOLDS[kind], "null"):
            raise ValueError(f"column {name!r} of kind {kind} cannot be held as {storage}")

    def constant(self, name: str, value: object, height: int) -> ColumnArray:
        """A column that holds one value."""
        dtype = self.schema.field(name).type
        storage, present = storage_type(dtype), np.zeros(height, dtype=np.bool_)
        if storage in ("boolean", "text", "category"):
            return ColumnArray(storage, np.zeros(height, dtype=np.int64), present, categories=(value,))
        if storage == "integer" and isinstance(value, float):
            storage = "float"  # as an unsigned number beyond 2**63 is read
        unit = dtype.unit if storage in ("datetime", "duration") else ""
        return ColumnArray(storage, np.full(height, value), present, unit=unit)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "library": self.library,
            "schema": base64.b64encode(self.schema.serialize().to_pybytes()).decode(),
            "numbered": list(self.range_index),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FrameTemplate:
        """Back from `to_json`."""
        if data["library"] not in LIBRARIES:
            raise ValueError(f"unknown dataframe library {data['library']!r}")
        buffer = pa.py_buffer(base64.b64decode(data["schema"], validate=True))
        schema = pa.ipc.read_schema(buffer)
        numbered = tuple(name for name in schema.names if name in data["numbered"] and str(int(name)) == name)
        return cls(data["library"], schema, numbered)


@dataclass(frozen=True)
class Table:
    """A dataframe read once."""

    native: Any
    library: str
    arrow: pa.Table = field(repr=False)
    mixed: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The column names, as text."""
        return list(self.arrow.schema.names)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.arrow.num_rows)

    @cached_property
    def template(self) -> FrameTemplate:
        """What the frame looks like, to build others like it."""
        numbered: tuple[str, ...] = ()
        if self.library == "pandas":
            numbered = tuple(str(name) for name in self.native.columns if type(name) is int)
        return FrameTemplate(self.library, self.arrow.schema, numbered)

    def column(self, name: str) -> ColumnArray:
        """One column as NumPy arrays."""
        return from_arrow(self.arrow.column(name)) if name not in self.mixed else opaque(self.n_rows)

    def fill(
        self,
        columns: Mapping[str, ColumnArray],
        missing: Mapping[str, NDArray[np.bool_]],
        template: FrameTemplate,
        only: Sequence[str] | None = None,
    ) -> Any:  # noqa: ANN401
        """The same frame with the cells of `columns` written where `holes` is true; the others stay, bit for bit.

        A column whose dtype had changed only because of its holes goes back to the dtype in `like`. Columns that
        the frame does not have are added whole, and all then stand in the order of `like`.
        """
        own, trained = _ColumnBuilder(self.arrow.schema.metadata), _ColumnBuilder(template.schema.metadata)
        for name, cells in columns.items():
            if name not in self.names:
                wanted = settled(template.schema.field(name), cells)
                trained.add(wanted, to_arrow(cells, wanted.type))
            elif missing[name].any():
                changed = self._changed_by_holes(name, cells, template, gone=bool(missing[name].all()))
                wanted = settled((template if changed else self.template).schema.field(name), cells)
                array = self._merged(name, cells, wanted.type, missing[name])
                if has_new_categories(array, self.arrow.column(name)):
                    wanted = wanted.remove_metadata()  # it lists the labels of an Enum, which are too few now
                (trained if changed else own).add(wanted, array)
        news = [part.to_native(self.library) for part in (own, trained) if part.arrays]
        filled = self._with(news, template)
        if only is None:
            return filled
        if self.library == "pandas":
            return filled.iloc[:, [self.names.index(name) for name in only]]
        return nw.from_native(filled, eager_only=True).select(list(only)).to_native()

    def _merged(self, name: str, cells: ColumnArray, dtype: pa.DataType, holes: NDArray[np.bool_]) -> pa.Array:
        """The filled column in the type it should have, or else in the one it has."""
        own = self.arrow.column(name)
        for wanted in (dtype, own.type):
            try:
                return merge_filled(own, to_arrow(cells, wanted), holes)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
        raise InvalidTable(
            f"Column {name!r} holds {storage_type(own.type)} values, and what belongs into its holes is none. "
            "Convert the column to what it was when the model was trained."
        )

    def _changed_by_holes(self, name: str, cells: ColumnArray, like: FrameTemplate, *, gone: bool) -> bool:
        """Whether the dtype is what it is only because cells, or all of them (`gone`), are missing."""
        dtype, wanted = (schema.field(name).type for schema in (self.arrow.schema, like.schema))
        own, trained = storage_type(dtype), storage_type(wanted)
        labels = bool(cells.categories) and all(isinstance(label, int) for label in cells.categories)
        whole = cells.storage in ("integer", "boolean") or labels
        other = own != trained or (own == "datetime" and dtype.tz != wanted.tz)
        return own == "null" or (own == "float" and whole) or (gone and other)

    def _with(self, news: list[Any], like: FrameTemplate) -> Any:  # noqa: ANN401
        """The frame with new or replaced columns."""
        if self.library == "pandas":
            return self._with_in_pandas(news, like)
        whole = nw.from_native(self.native, eager_only=True)
        for new in news:
            whole = whole.with_columns(*nw.from_native(new, eager_only=True).iter_columns())
        if len(whole.columns) > len(self.names):
            whole = whole.select([name for name in like.schema.names if name in set(whole.columns)])
        return whole.to_native()

    def _with_in_pandas(self, news: list[Any], like: FrameTemplate) -> Any:  # noqa: ANN401
        """Under plain names for a while, so that names that are no text come through as they are."""
        frame = self.native.copy()
        labels = dict(zip(self.names, frame.columns, strict=True))
        frame.columns = self.names
        for new in news:
            new.index = frame.index
            for name in new.columns:
                frame[name] = new[name]
                labels.setdefault(name, like.label(name))
        if len(labels) == len(self.names):
            return frame.set_axis(self.native.columns, axis=1)
        order = [name for name in like.schema.names if name in labels]
        below = ("",) * (self.native.columns.nlevels - 1)  # a new name among names of several levels
        wide = [(labels[name], *below) if below and name not in self.names else labels[name] for name in order]
        return frame[order].set_axis(wide, axis=1)


class _ColumnBuilder:
    """Arrow columns on their way to a frame, with the metadata that tells pandas their dtypes."""

    def __init__(self, metadata: Any) -> None:  # noqa: ANN401
        self.metadata, self.fields, self.arrays = metadata, [], []  # type: ignore[var-annotated]

    def add(self, f: pa.Field, array: pa.Array) -> None:
        self.fields.append(f.with_type(array.type))
        self.arrays.append(array)

    def to_native(self, library: str) -> Any:  # noqa: ANN401
        schema = pa.schema(self.fields, metadata=self.metadata)
        return _to_native(pa.Table.from_arrays(self.arrays, schema=schema), library)


def read(data: object) -> Table:
    """Read a pandas, polars or pyarrow frame.

    >>> import pyarrow as pa
    >>> table = read(pa.table({"x": [1.5, None], "y": ["a", "b"]}))
    >>> table.names, table.height, table.cells("x").missing.tolist()
    (['x', 'y'], 2, [False, True])
    """
    if isinstance(data, Table):
        return data
    frame = _narwhals(data)
    library = str(frame.implementation)
    if library not in LIBRARIES:
        raise InvalidTable(f"A table must be a pandas, polars or pyarrow frame, got one of {library}.")
    native = frame.to_native()
    names = [str(name) for name in frame.columns]
    check_names(names)
    arrow, mixed = _arrow_table(frame, library, names)
    return Table(native, library, arrow, mixed)


def check_names(names: Sequence[str]) -> None:
    """Refuse a table that has a column twice."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidTable(f"Column names must differ, but {format_list(twice)} occur twice. Rename them.")


def with_attrs(frame: Any, note: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The frame with a note in its `attrs`, where the library has such a thing (pandas)."""
    if isinstance(getattr(frame, "attrs", None), dict):
        frame.attrs["harpoon"] = dict(note)
    return frame


def constant_table(values: Mapping[str, object], height: int) -> Table:
    """A table of equal rows, which have the given values."""
    arrays = {}
    for name, value in values.items():
        try:
            scalar = pa.scalar(value)
            if pa.types.is_nested(scalar.type):
                raise TypeError(f"got {value!r}")  # noqa: TRY301
            arrays[str(name)] = pa.repeat(scalar, height)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise InvalidTable(f"The value given for column {name!r} must be a plain value: {error}") from None
    table = _arrow_columns(arrays, height)
    return Table(table, "pyarrow", table)


def _arrow_columns(arrays: Mapping[str, pa.Array], height: int) -> pa.Table:
    """An Arrow table that knows its height even without columns."""
    return pa.table(arrays) if arrays else pa.table({"": pa.nulls(height)}).select([])


def _narwhals(data: Any) -> nw.DataFrame[Any]:  # noqa: ANN401
    wanted = "A table must be a pandas, polars or pyarrow frame"
    try:
        frame: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(data)
    except TypeError:
        raise InvalidTable(f"{wanted}, got {type(data).__name__}.") from None
    except NarwhalsError as error:
        raise InvalidTable(f"{wanted} with distinct column names: {error}") from None
    if isinstance(frame, nw.LazyFrame):
        raise InvalidTable(f"{wanted} held in memory, got a lazy one. Call .collect() on it first.")
    return frame


def _arrow_table(frame: nw.DataFrame[Any], library: str, names: list[str]) -> tuple[pa.Table, frozenset[str]]:
    """The frame as Arrow, and the names of the columns that no Arrow type can hold."""
    if library == "pyarrow":
        return frame.to_native().rename_columns(names), frozenset()
    if library == "polars":
        return _from_polars(frame)
    native = frame.to_native().set_axis(names, axis=1)
    arrays, mixed = {}, set()
    for name in names:
        try:
            arrays[name] = pa.Array.from_pandas(native[name])
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            arrays[name] = pa.nulls(len(native))
            if not native[name].isna().all():
                mixed.add(name)
    flat = native.drop(columns=list(mixed)).reset_index(drop=True)
    metadata = pa.Schema.from_pandas(flat, preserve_index=False).metadata
    return _arrow_columns(arrays, len(native)).replace_schema_metadata(metadata), frozenset(mixed)


def _from_polars(frame: nw.DataFrame[Any]) -> tuple[pa.Table, frozenset[str]]:
    try:
        return frame.to_arrow().rename_columns(frame.columns), frozenset()
    except pa.ArrowException:  # polars has types that Arrow has not
        parts = {name: _from_polars_column(frame.select(name)) for name in frame.columns}
    mixed = frozenset(name for name, part in parts.items() if part is None)
    nothing = pa.table({"": pa.nulls(len(frame))})
    fields = [pa.field(name, pa.null()) if p is None else p.schema.field(0) for name, p in parts.items()]
    arrays = [(nothing if part is None else part).column(0) for part in parts.values()]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields)).rename_columns(frame.columns), mixed


def _from_polars_column(frame: nw.DataFrame[Any]) -> pa.Table | None:
    try:
        return frame.to_arrow()
    except pa.ArrowException:
        return None


def _to_native(table: pa.Table, library: str) -> Any:  # noqa: ANN401
    try:
        frame: Any = nw.from_arrow(table, backend=IMPLEMENTATIONS[library]).to_native()
    except ImportError:
        raise InvalidTable(
            f"The model was trained on a {library} frame, and {library} is not installed here. Install it."
        ) from None
    except (TypeError, ValueError, NotImplementedError):  # a dtype that pandas writes down but cannot read
        plain = table.replace_schema_metadata(None)
        frame = nw.from_arrow(plain, backend=IMPLEMENTATIONS[library]).to_native()
    if library == "polars" and frame.columns != table.column_names:  # it names an unnamed column
        frame.columns = table.column_names
    if library == "pandas":
        for name, dtype in _pandas_texts(table, frame):
            frame[name] = frame[name].astype(dtype)
    return frame


def _pandas_texts(table: pa.Table, frame: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """Arrow reads text into pandas' own text dtype; object it was, or Arrow's, so it stays."""
    columns = (table.schema.pandas_metadata or {}).get("columns", [])
    texts = {f.name: f.type for f in table.schema if storage_type(f.type) == "text"}
    arrow = nw.get_native_namespace(frame).ArrowDtype
    kept = {c["name"]: c["numpy_type"] for c in columns if c["name"] in texts}
    objects = [(name, "object") for name, dtype in kept.items() if dtype == "object"]
    return objects + [(name, arrow(texts[name])) for name, dtype in kept.items() if dtype.endswith("[pyarrow]")]
