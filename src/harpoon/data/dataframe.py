"""Dataframes in and out: the only module that touches pandas, polars or pyarrow frames.

A frame is read once into a `Table`; a column of it is read as a `ColumnArray`. Cells are written back either into the
missing cells of a frame (`Table.fill`) or as a new frame like the one trained on (`FrameTemplate.build`).

All three libraries convert to and from Arrow without loss, and an Arrow schema stores their dtypes.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from narwhals.exceptions import NarwhalsError
from numpy.typing import NDArray

from harpoon._formatting import format_list
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
from harpoon.data.column_array import ColumnArray, Mask
from harpoon.data.frame_metadata import ARROW_DECIMAL, is_enum, model_field, pandas_dtypes, pandas_metadata_of
from harpoon.exceptions import InvalidOption, InvalidTable

LIBRARIES = ("pandas", "polars", "pyarrow")
ANY_LIBRARY = (
    "any"  # of a model that the command line made: the first of `LIBRARIES` that is installed where it is used
)
IMPLEMENTATIONS: dict[str, Any] = {name: nw.Implementation.from_string(name) for name in LIBRARIES}


@dataclass(frozen=True)
class FrameTemplate:
    """The look of a frame: its library, its column names and their dtypes, as an Arrow schema."""

    library: str
    schema: pa.Schema
    range_index: tuple[str, ...] = ()  # columns whose names are integers in pandas
    enums: tuple[str, ...] = ()  # columns that are an Enum in polars, of the categories that they are built with

    def build(self, columns: Mapping[str, ColumnArray]) -> Any:  # noqa: ANN401
        """Build a frame of the same library and dtypes; columns that are not given are left out."""
        fields = [resolve_null_type(f, columns[f.name]) for f in self.schema if f.name in columns]
        arrays = [(f, to_arrow(columns[f.name], f.type)) for f in fields]
        frame = _to_native(arrays, self.schema.metadata, self.library, self.enums)
        if self.range_index:
            frame.columns = [self.label(name) for name in frame.columns]
        return frame

    def with_library(self, library: str | None) -> FrameTemplate:
        """Return the template of another library, or of its own if that is None and it has one."""
        if library is None:
            library = self.library if self.library != ANY_LIBRARY else next(filter(is_installed, LIBRARIES))
        return replace(self, library=library, range_index=self.range_index if library == "pandas" else ())

    def for_model(self, labelled: Collection[str]) -> FrameTemplate:
        """Return the template as a model keeps it: with what is needed to build its dtypes, and no labels or `attrs`.

        The columns that are `labelled` are built with labels that the model knows; of others, no labels are needed.
        """
        enums = tuple(f.name for f in self.schema if f.name in labelled and (f.name in self.enums or is_enum(f)))
        fields = [model_field(f, is_labelled=f.name in labelled) for f in self.schema]
        return replace(self, schema=pa.schema(fields, metadata=pandas_dtypes(self.schema)), enums=enums)

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

    def with_types(self, table: pa.Table) -> pa.Table:
        """Return a table in which a column without values has the type of the training table."""
        for index, f in enumerate(table.schema):
            if pa.types.is_null(f.type) and f.name in self.schema.names:
                wanted = f.with_type(self.schema.field(f.name).type)
                table = table.set_column(index, wanted, pa.nulls(table.num_rows, wanted.type))
        return table

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
            "enums": list(self.enums),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FrameTemplate:
        """Restore from `to_json`."""
        if data["library"] not in (*LIBRARIES, ANY_LIBRARY):
            raise ValueError(f"unknown dataframe library {data['library']!r}")
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["schema"], validate=True)))
        range_index = tuple(name for name in schema.names if name in data["range_index"] and str(int(name)) == name)
        enums = tuple(name for name in schema.names if name in data.get("enums", ()))
        return cls(data["library"], schema, range_index, enums)


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
        labels, schema = self.native.columns if self.library == "pandas" else (), self.arrow.schema
        for index, f in enumerate(schema):
            if pa.types.is_dictionary(f.type) and isinstance(f.type.value_type, pa.BaseExtensionType):
                schema = schema.set(index, f.with_type(f.type.value_type))  # an Arrow file has no such dictionary
        return FrameTemplate(self.library, schema, tuple(str(name) for name in labels if type(name) is int))

    def column(self, name: str) -> ColumnArray:
        """Return one column as NumPy arrays."""
        return from_arrow(self.arrow.column(name)) if name not in self.mixed else opaque(self.n_rows)

    def take(self, rows: NDArray[np.int64]) -> Table:
        """Return some rows, by index, as a table of the same library."""
        native = nw.from_native(self.native, eager_only=True)[rows].to_native()
        return Table(native, self.library, self.arrow.take(rows), self.mixed)

    def fill(
        self,
        columns: Mapping[str, ColumnArray],
        missing: Mapping[str, Mask],
        template: FrameTemplate,
        only: Sequence[str] | None = None,
    ) -> Any:  # noqa: ANN401
        """Return the frame with the cells of `columns` where `missing` is true; other cells stay bit for bit.

        A column whose dtype had changed only because of missing cells gets the dtype of `template`. Columns that the
        frame does not have are added, and all columns are then in the order of `template`. `only`: columns to return.
        """
        own: list[tuple[pa.Field, pa.Array]] = []
        trained: list[tuple[pa.Field, pa.Array]] = []  # with the dtype of the training table
        for name, cells in columns.items():
            if name not in self.names:
                wanted = resolve_null_type(template.schema.field(name), cells)
                trained.append((wanted, to_arrow(cells, wanted.type)))
            elif missing[name].any():
                changed = self._changed_by_missing(name, cells, template, all_missing=bool(missing[name].all()))
                wanted = resolve_null_type((template if changed else self.template).schema.field(name), cells)
                array = self._merge(name, cells, wanted.type, missing[name])
                if has_new_categories(array, self.arrow.column(name)):
                    wanted = wanted.remove_metadata()  # it lists the categories of an Enum, which are too few now
                (trained if changed else own).append((wanted, array))
        sources = (own, self.arrow.schema, ()), (trained, template.schema, template.enums)
        frames = [_to_native(arrays, s.metadata, self.library, enums) for arrays, s, enums in sources if arrays]
        filled = self._with_columns(frames, template)
        if only is None:
            return filled
        if self.library == "pandas":
            return filled.iloc[:, [self.names.index(name) for name in only]]
        return nw.from_native(filled, eager_only=True).select(list(only)).to_native()

    def _merge(self, name: str, cells: ColumnArray, dtype: pa.DataType, missing: Mask) -> pa.Array:
        """Return the filled column in the given type, or else in its own."""
        own = self.arrow.column(name)
        # Only new cells are converted: an observed one may not fit the type, and stays as it is.
        cells = replace(cells, values=np.where(missing, cells.values, 0), missing=~missing | cells.missing)
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
        integers = bool(cells.categories) and all(isinstance(c, int) for c in (*cells.categories, *cells.unseen))
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


def is_installed(library: str) -> bool:
    """Return whether a dataframe library can be imported."""
    return find_spec(library) is not None


def check_library(library: str | None) -> str | None:
    """Return the name of a dataframe library that is installed, or None; or raise InvalidOption."""
    if library is not None and library not in LIBRARIES:
        raise InvalidOption.one_of("library", library, LIBRARIES)
    if library is not None and not is_installed(library):
        raise InvalidOption(f"library={library!r} needs the package {library}, which is not installed. Install it.")
    return library


def read(data: object) -> Table:
    """Read a pandas, polars or pyarrow frame.

    >>> import pyarrow as pa
    >>> table = read(pa.table({"x": [1.5, None], "y": ["a", "b"]}))
    >>> table.names, table.n_rows, table.column("x").missing.tolist()
    (['x', 'y'], 2, [False, True])
    """
    if isinstance(data, Table):
        return data
    required = "A table must be a pandas, polars or pyarrow frame"
    try:
        frame: Any = nw.from_native(data)
    except TypeError:
        raise InvalidTable(f"{required}, got {type(data).__name__}.{_conversion_hint(data)}") from None
    except NarwhalsError:
        check_names([str(name) for name in getattr(data, "column_names", getattr(data, "columns", ()))])
        raise InvalidTable(f"{required} with distinct column names.") from None
    if isinstance(frame, nw.LazyFrame):
        raise InvalidTable(f"{required} held in memory, got a lazy one. Call .collect() on it first.")
    library, names = str(frame.implementation), [str(name) for name in frame.columns]
    if library not in LIBRARIES:
        raise InvalidTable(f"{required}, got one of {library}.")
    check_names(names)
    native = frame.to_native()
    if library == "pyarrow":
        return Table(native, library, native.rename_columns(names))
    arrow, mixed = (_from_polars if library == "polars" else _from_pandas)(native, names)
    return Table(native, library, arrow, frozenset(mixed))


def _conversion_hint(data: object) -> str:
    """Return how to make a table of what is not one."""
    if isinstance(data, str | PathLike):
        return f" Read the file first: harpoon.io.read_table({str(data)!r}), or pandas.read_csv."
    if hasattr(data, "to_frame"):
        return " Make it a table of one column: to_frame()."
    if isinstance(data, np.ndarray):
        return " Name its columns: pandas.DataFrame(array, columns=[...]); HarpoonImputer takes arrays as they are."
    return " Make a table of it: pandas.DataFrame(...)." if isinstance(data, Mapping | list | tuple) else ""


def build_like(table: Table, columns: Mapping[str, ColumnArray]) -> Any:  # noqa: ANN401
    """Return a new frame of integers and texts, in the library of another one."""
    types = {"integer": pa.int64(), "text": pa.string()}
    fields = [pa.field(name, types[cells.storage]) for name, cells in columns.items()]
    return FrameTemplate(table.library, pa.schema(fields)).build(columns)


def build_frame(table: pa.Table, template: FrameTemplate) -> Any:  # noqa: ANN401
    """Return an Arrow table as a frame of the library of a template, with its dtypes where they fit."""
    columns = list(zip(table.schema, (column.combine_chunks() for column in table.columns), strict=True))
    return _to_native(columns, template.schema.metadata, template.library)


def stack(tables: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return the rows of several frames of one library in one frame."""
    return nw.concat([nw.from_native(table, eager_only=True) for table in tables]).to_native()


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
    table = _no_columns(height)
    for name, value in values.items():
        try:
            scalar = pa.scalar(value, from_pandas=True)  # NaN, NaT and NA are missing
            if pa.types.is_nested(scalar.type):
                raise TypeError(f"got {value!r}")  # noqa: TRY301
            table = table.append_column(str(name), pa.repeat(scalar, height))
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise InvalidTable(f"The value given for column {name!r} must be a plain value: {error}") from None
    return Table(table, "pyarrow", table)


def _no_columns(height: int) -> pa.Table:
    return pa.table({"": pa.nulls(height)}).select([])


def _from_pandas(frame: Any, names: list[str]) -> tuple[pa.Table, set[str]]:  # noqa: ANN401
    """Return the frame as Arrow, and the names of the columns that Arrow cannot hold."""
    frame = frame.set_axis(names, axis=1)
    table, mixed = _no_columns(len(frame)), set()
    for name in names:
        try:
            array = pa.Array.from_pandas(frame[name])
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            array = pa.nulls(len(frame))
            if not frame[name].isna().all():
                mixed.add(name)
        is_decimal = pa.types.is_decimal(array.type) and str(frame[name].dtype) == f"{array.type}[pyarrow]"
        table = table.append_column(pa.field(name, array.type, metadata=ARROW_DECIMAL if is_decimal else None), array)
    flat = frame.drop(columns=list(mixed)).reset_index(drop=True)
    return table.replace_schema_metadata(pa.Schema.from_pandas(flat, preserve_index=False).metadata), mixed


def _from_polars(frame: Any, names: list[str]) -> tuple[pa.Table, set[str]]:  # noqa: ANN401
    """Return the frame as Arrow, and the names of the columns that Arrow cannot hold."""
    table, mixed = _no_columns(len(frame)), set()
    for name in names:
        try:
            part = frame.select(name).to_arrow()
            table = table.append_column(part.field(0).with_name(name), part.column(0))
        except pa.ArrowException:  # polars has types that Arrow does not have
            table = table.append_column(name, pa.nulls(len(frame)))
            mixed.add(name)
    return table, mixed


def _to_native(
    columns: list[tuple[pa.Field, pa.Array]],
    metadata: Any,  # noqa: ANN401
    library: str,
    enums: Collection[str] = (),
) -> Any:  # noqa: ANN401
    """Return a frame of a library. The metadata have the dtypes of pandas columns, `enums` are Enums of polars."""
    schema = pa.schema([f.with_type(array.type) for f, array in columns], metadata=metadata)
    table = pa.Table.from_arrays([array for _, array in columns], schema=schema)
    table = _without_offsets(table) if library == "polars" else table
    try:
        frame: Any = nw.from_arrow(table, backend=IMPLEMENTATIONS[library]).to_native()
    except ImportError:
        raise InvalidTable(
            f"The model was trained on a {library} frame, and {library} is not installed here. Install it."
        ) from None
    except (TypeError, ValueError, NotImplementedError):  # pandas metadata may name a dtype that pandas cannot read
        if len((schema.pandas_metadata or {}).get("columns", [])) > 1:  # only the column of that dtype loses it
            parts = [_to_native([column], pandas_metadata_of(column[0].name, schema), library) for column in columns]
            return nw.concat([nw.from_native(part, eager_only=True) for part in parts], how="horizontal").to_native()
        frame = nw.from_arrow(table.replace_schema_metadata(None), backend=IMPLEMENTATIONS[library]).to_native()
    if library == "polars" and frame.columns != table.column_names:  # polars names an unnamed column
        frame.columns = table.column_names
    if library == "polars" and enums:
        return _with_enums(frame, {f.name: array for f, array in columns if f.name in enums})
    return frame.astype(_lost_dtypes(table, frame)) if library == "pandas" else frame


def _with_enums(frame: Any, arrays: Mapping[str, pa.Array]) -> Any:  # noqa: ANN401
    """Return a polars frame in which columns of texts are Enums of the categories that their arrays list."""
    labels = {
        name: array.dictionary.to_pylist()
        for name, array in arrays.items()
        if isinstance(array, pa.DictionaryArray) and storage_type(array.type.value_type) == "text"
    }
    columns = [nw.col(name).cast(nw.Enum(categories)) for name, categories in labels.items()]
    return nw.from_native(frame, eager_only=True).with_columns(*columns).to_native()


def _without_offsets(table: pa.Table) -> pa.Table:
    """Return a table in which times of a fixed offset, such as +05:30, which polars does not have, are in UTC."""
    for index, f in enumerate(table.schema):
        if pa.types.is_timestamp(f.type) and (f.type.tz or "").startswith(("+", "-")):
            instants = pa.timestamp(f.type.unit, "UTC")
            table = table.set_column(index, f.with_type(instants), table.column(index).cast(instants))
    return table


def _lost_dtypes(table: pa.Table, frame: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the pandas dtypes that Arrow does not restore: text as objects; text and decimals in Arrow dtypes."""
    arrow_dtype = nw.get_native_namespace(frame).ArrowDtype
    columns = (table.schema.pandas_metadata or {}).get("columns", [])
    stored = {c["name"]: c["numpy_type"] for c in columns}
    texts = {f.name: stored.get(f.name, "") for f in table.schema if storage_type(f.type) == "text"}
    arrow = {name for name, dtype in texts.items() if dtype.endswith("[pyarrow]")}
    arrow |= {f.name for f in table.schema if f.metadata == ARROW_DECIMAL}
    objects = {name: "object" for name, dtype in texts.items() if dtype == "object"}
    return objects | {name: arrow_dtype(table.schema.field(name).type) for name in arrow}
