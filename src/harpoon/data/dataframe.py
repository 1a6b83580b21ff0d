"""Dataframes in and out: the only module that touches pandas, polars or pyarrow frames.

A frame is read once into a `Table`; a column of it is read as a `ColumnArray`. Cells are written back either into the
missing cells of a frame (`Table.fill`) or as a new frame like the one trained on (`FrameTemplate.build`).

All three libraries convert to and from Arrow without loss, and an Arrow schema stores their dtypes.
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
from harpoon.data.arrow import (
    from_arrow,
    has_new_categories,
    merge_filled,
    opaque,
    resolve_null_type,
    storage_type,
    to_arrow,
)
from harpoon.data.column import Kind
from harpoon.data.column_array import ColumnArray
from harpoon.exceptions import InvalidTable

LIBRARIES = ("pandas", "polars", "pyarrow")
IMPLEMENTATIONS: dict[str, Any] = {name: nw.Implementation.from_string(name) for name in LIBRARIES}


@dataclass(frozen=True)
class FrameTemplate:
    """The look of a frame: its library, its column names and their dtypes, as an Arrow schema."""

    library: str
    schema: pa.Schema
    range_index: tuple[str, ...] = ()  # columns whose names are integers in pandas

    def build(self, columns: Mapping[str, ColumnArray]) -> Any:  # noqa: ANN401
        """Build a frame of the same library and dtypes; columns that are not given are left out."""
        builder = _ColumnBuilder(self.schema.metadata)
        for name in self.schema.names:
            if name in columns:
                wanted = resolve_null_type(self.schema.field(name), columns[name])
                builder.add(wanted, to_arrow(columns[name], wanted.type))
        frame = builder.to_native(self.library)
        if self.range_index:
            frame.columns = [self.label(name) for name in frame.columns]
        return frame

    def label(self, name: str) -> int | str:
        """Return the name of a column in the frame, which may be an integer in pandas."""
        return int(name) if name in self.range_index else name

    def check(self, name: str, kind: Kind) -> None:
        """Raise ValueError if the frame cannot hold a column of this kind."""
        if name not in self.schema.names:
            raise ValueError(f"the frame has no column {name!r}")
        storage = storage_type(self.schema.field(name).type)
        if kind.modelled and storage not in (*kind.storages, "null"):
            raise ValueError(f"column {name!r} of kind {kind} cannot be stored as {storage}")

    def constant(self, name: str, value: object, height: int) -> ColumnArray:
        """Return a column of one repeated value."""
        dtype = self.schema.field(name).type
        storage, missing = storage_type(dtype), np.zeros(height, dtype=np.bool_)
        if storage in ("boolean", "text", "category"):
            return ColumnArray(storage, np.zeros(height, dtype=np.int64), missing, categories=(value,))
        if storage == "integer" and isinstance(value, float):
            storage = "float"  # an unsigned integer beyond 2**63 is read as a float
        unit = dtype.unit if storage in ("datetime", "duration") else ""
        return ColumnArray(storage, np.full(height, value), missing, unit=unit)

    def to_json(self) -> dict[str, Any]:
        """Return the template as plain data."""
        return {
            "library": self.library,
            "schema": base64.b64encode(self.schema.serialize().to_pybytes()).decode(),
            "range_index": list(self.range_index),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FrameTemplate:
        """Restore from `to_json`."""
        if data["library"] not in LIBRARIES:
            raise ValueError(f"unknown dataframe library {data['library']!r}")
        buffer = pa.py_buffer(base64.b64decode(data["schema"], validate=True))
        schema = pa.ipc.read_schema(buffer)
        range_index = tuple(name for name in schema.names if name in data["range_index"] and str(int(name)) == name)
        return cls(data["library"], schema, range_index)


@dataclass(frozen=True)
class Table:
    """A dataframe that was read, with its columns as Arrow. `mixed`: columns that Arrow cannot hold."""

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
        """The look of the frame, to build others like it."""
        range_index: tuple[str, ...] = ()
        if self.library == "pandas":
            range_index = tuple(str(name) for name in self.native.columns if type(name) is int)
        return FrameTemplate(self.library, self.arrow.schema, range_index)

    def column(self, name: str) -> ColumnArray:
        """Return one column as NumPy arrays."""
        return from_arrow(self.arrow.column(name)) if name not in self.mixed else opaque(self.n_rows)

    def fill(
        self,
        columns: Mapping[str, ColumnArray],
        missing: Mapping[str, NDArray[np.bool_]],
        template: FrameTemplate,
        only: Sequence[str] | None = None,
    ) -> Any:  # noqa: ANN401
        """Return the frame with the cells of `columns` where `missing` is true; other cells stay bit for bit.

        A column whose dtype had changed only because of missing cells gets the dtype of `template`. Columns that the
        frame does not have are added, and all columns are then in the order of `template`. `only`: columns to return.
        """
        own, trained = _ColumnBuilder(self.arrow.schema.metadata), _ColumnBuilder(template.schema.metadata)
        for name, cells in columns.items():
            if name not in self.names:
                wanted = resolve_null_type(template.schema.field(name), cells)
                trained.add(wanted, to_arrow(cells, wanted.type))
            elif missing[name].any():
                changed = self._changed_by_missing(name, cells, template, all_missing=bool(missing[name].all()))
                wanted = resolve_null_type((template if changed else self.template).schema.field(name), cells)
                array = self._merge(name, cells, wanted.type, missing[name])
                if has_new_categories(array, self.arrow.column(name)):
                    wanted = wanted.remove_metadata()  # it lists the categories of an Enum, which are too few now
                (trained if changed else own).add(wanted, array)
        frames = [builder.to_native(self.library) for builder in (own, trained) if builder.arrays]
        filled = self._with_columns(frames, template)
        if only is None:
            return filled
        if self.library == "pandas":
            return filled.iloc[:, [self.names.index(name) for name in only]]
        return nw.from_native(filled, eager_only=True).select(list(only)).to_native()

    def _merge(self, name: str, cells: ColumnArray, dtype: pa.DataType, missing: NDArray[np.bool_]) -> pa.Array:
        """Return the filled column in the given type, or else in its own."""
        own = self.arrow.column(name)
        for wanted in (dtype, own.type):
            try:
                return merge_filled(own, to_arrow(cells, wanted), missing)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
        raise InvalidTable(
            f"Column {name!r} holds {storage_type(own.type)} values, and the imputed values are not. "
            "Convert the column to what it was when the model was trained."
        )

    def _changed_by_missing(self, name: str, cells: ColumnArray, template: FrameTemplate, *, all_missing: bool) -> bool:
        """Return whether the dtype differs from that of the training table only because cells are missing."""
        dtype, wanted = (schema.field(name).type for schema in (self.arrow.schema, template.schema))
        own, trained = storage_type(dtype), storage_type(wanted)
        integers = bool(cells.categories) and all(isinstance(category, int) for category in cells.categories)
        is_integer = cells.storage in ("integer", "boolean") or integers
        differs = own != trained or (own == "datetime" and dtype.tz != wanted.tz)
        return own == "null" or (own == "float" and is_integer) or (all_missing and differs)

    def _with_columns(self, frames: list[Any], template: FrameTemplate) -> Any:  # noqa: ANN401
        """Return the frame with the columns of other frames added or replaced."""
        if self.library == "pandas":
            return self._with_pandas_columns(frames, template)
        result = nw.from_native(self.native, eager_only=True)
        for frame in frames:
            result = result.with_columns(*nw.from_native(frame, eager_only=True).iter_columns())
        if len(result.columns) > len(self.names):
            result = result.select([name for name in template.schema.names if name in set(result.columns)])
        return result.to_native()

    def _with_pandas_columns(self, frames: list[Any], template: FrameTemplate) -> Any:  # noqa: ANN401
        """Rename columns to text while they are replaced, so that names that are not text are kept."""
        frame = self.native.copy()
        labels = dict(zip(self.names, frame.columns, strict=True))
        frame.columns = self.names
        for new in frames:
            new.index = frame.index
            for name in new.columns:
                frame[name] = new[name]
                labels.setdefault(name, template.label(name))
        if len(labels) == len(self.names):
            return frame.set_axis(self.native.columns, axis=1)
        order = [name for name in template.schema.names if name in labels]
        padding = ("",) * (self.native.columns.nlevels - 1)  # of a new name in a MultiIndex
        own = set(self.names)
        padded = [(labels[name], *padding) if padding and name not in own else labels[name] for name in order]
        return frame[order].set_axis(padded, axis=1)


class _ColumnBuilder:
    """Collects Arrow columns for a frame, with the metadata that has their pandas dtypes."""

    def __init__(self, metadata: Any) -> None:  # noqa: ANN401
        self.metadata, self.fields, self.arrays = metadata, [], []  # type: ignore[var-annotated]

    def add(self, field: pa.Field, array: pa.Array) -> None:
        self.fields.append(field.with_type(array.type))
        self.arrays.append(array)

    def to_native(self, library: str) -> Any:  # noqa: ANN401
        schema = pa.schema(self.fields, metadata=self.metadata)
        return _to_native(pa.Table.from_arrays(self.arrays, schema=schema), library)


def read(data: object) -> Table:
    """Read a pandas, polars or pyarrow frame.

    >>> import pyarrow as pa
    >>> table = read(pa.table({"x": [1.5, None], "y": ["a", "b"]}))
    >>> table.names, table.n_rows, table.column("x").missing.tolist()
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
    """Raise InvalidTable if two columns have the same name."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InvalidTable(f"Column names must differ, but {format_list(repeated)} occur twice. Rename them.")


def with_attrs(frame: Any, note: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Store a note in the `attrs` of a frame, if it has such (pandas), and return the frame."""
    if isinstance(getattr(frame, "attrs", None), dict):
        frame.attrs["harpoon"] = dict(note)
    return frame


def constant_table(values: Mapping[str, object], height: int) -> Table:
    """Return a table of equal rows with the given values."""
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
    """Return an Arrow table that has the height even without columns."""
    return pa.table(arrays) if arrays else pa.table({"": pa.nulls(height)}).select([])


def _narwhals(data: Any) -> nw.DataFrame[Any]:  # noqa: ANN401
    required = "A table must be a pandas, polars or pyarrow frame"
    try:
        frame: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(data)
    except TypeError:
        raise InvalidTable(f"{required}, got {type(data).__name__}.") from None
    except NarwhalsError as error:
        raise InvalidTable(f"{required} with distinct column names: {error}") from None
    if isinstance(frame, nw.LazyFrame):
        raise InvalidTable(f"{required} held in memory, got a lazy one. Call .collect() on it first.")
    return frame


def _arrow_table(frame: nw.DataFrame[Any], library: str, names: list[str]) -> tuple[pa.Table, frozenset[str]]:
    """Return the frame as Arrow, and the names of the columns that Arrow cannot hold."""
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
    except pa.ArrowException:  # polars has types that Arrow does not have
        parts = {name: _from_polars_column(frame.select(name)) for name in frame.columns}
    mixed = frozenset(name for name, part in parts.items() if part is None)
    empty = pa.table({"": pa.nulls(len(frame))})
    fields = [pa.field(name, pa.null()) if p is None else p.schema.field(0) for name, p in parts.items()]
    arrays = [(empty if part is None else part).column(0) for part in parts.values()]
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
    except (TypeError, ValueError, NotImplementedError):  # pandas metadata may name a dtype that pandas cannot read
        plain = table.replace_schema_metadata(None)
        frame = nw.from_arrow(plain, backend=IMPLEMENTATIONS[library]).to_native()
    if library == "polars" and frame.columns != table.column_names:  # polars names an unnamed column
        frame.columns = table.column_names
    if library == "pandas":
        for name, dtype in _pandas_texts(table, frame):
            frame[name] = frame[name].astype(dtype)
    return frame


def _pandas_texts(table: pa.Table, frame: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """Return the columns of text that had the dtype object or an Arrow dtype, with that dtype.

    Arrow converts text to pandas' own text dtype.
    """
    columns = (table.schema.pandas_metadata or {}).get("columns", [])
    texts = {f.name: f.type for f in table.schema if storage_type(f.type) == "text"}
    arrow = nw.get_native_namespace(frame).ArrowDtype
    kept = {c["name"]: c["numpy_type"] for c in columns if c["name"] in texts}
    objects = [(name, "object") for name, dtype in kept.items() if dtype == "object"]
    return objects + [(name, arrow(texts[name])) for name, dtype in kept.items() if dtype.endswith("[pyarrow]")]
