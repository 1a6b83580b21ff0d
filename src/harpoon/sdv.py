"""Harpoon for code that expects SDV: metadata as a schema and back, and a synthesizer with SDV's verbs.

    synthesizer = HarpoonSynthesizer(metadata, max_time=60, random_state=0)
    synthesizer.fit(people)
    synthesizer.sample(1000)
    synthesizer.save("people.zip")

Metadata are those of a table: an object of SDV, the dictionary of its `to_dict`, or the path of its JSON file. SDV need
not be installed. Keys and personal columns are never modelled: sampled rows have numbers there instead.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from harpoon._formatting import format_list
from harpoon._utils.files import replace_atomically
from harpoon._utils.validation import check_count
from harpoon.data import Column, FrameTemplate, Kind, Schema, dataframe
from harpoon.data.arrow import storage_type
from harpoon.estimator import Harpoon, from_bytes, to_bytes
from harpoon.exceptions import (
    ColumnLeftOutWarning,
    InvalidOption,
    MissingExtra,
    ModelFileError,
    NotFitted,
    SchemaMismatch,
    hold_warnings,
)

__all__ = ["HarpoonSynthesizer", "sdgym_synthesizer", "to_metadata", "to_schema"]

TABLE = "table"  # the name of the only table
SPEC_VERSION = "V1"
MODEL_FILE, STATE_FILE = "model.harpoon", "synthesizer.json"  # in the archive of a synthesizer
MAX_FILE_BYTES = 2**31
SDTYPES: dict[str, dict[str, Any]] = {  # by kind; other kinds are unknown to SDV
    "number": {"sdtype": "numerical", "computer_representation": "Float"},
    "integer": {"sdtype": "numerical", "computer_representation": "Int64"},
    "boolean": {"sdtype": "boolean"},
    "category": {"sdtype": "categorical"},
    "constant": {"sdtype": "categorical"},
    "date": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
    "datetime": {"sdtype": "datetime"},
    "identifier": {"sdtype": "id"},
    "weight": {"sdtype": "numerical", "computer_representation": "Float"},
}
NOT_PRIVATE = (
    "privacy needs a schema that was written without a look at the rows, and HarpoonSynthesizer reads categories and "
    "ranges off the rows, because metadata of SDV have none. Train with Harpoon(privacy=..., schema=...) instead."
)
UNKNOWN = {"sdtype": "unknown", "pii": True}
MODELLED_SDTYPES = ("numerical", "datetime", "boolean", "categorical")
KEYS = ("primary_key", "sequence_key", "sequence_index")
TIME_FORMATS = (  # of texts whose metadata have none: ISO 8601
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
)


def to_metadata(schema: Schema, *, like: object = None, table_name: str | None = None) -> dict[str, Any]:
    """Return a schema as metadata of SDV, for `Metadata.load_from_dict`.

    A schema has no keys, formats of times, regular expressions and types such as "email". Metadata that have them can
    be given: they stay for each column whose kind they still describe.

    Args:
        schema: The schema.
        like: Metadata to keep as far as possible, as for `to_schema`.
        table_name: The name of the table; of metadata with several tables, the one to keep. By default the name that
            the metadata have, or "table".

    >>> schema = Schema.infer(pa.table({"age": [31, 40, 55], "job": ["chef", "nurse", "chef"]}))
    >>> to_metadata(schema)["tables"]["table"]["columns"]["job"]
    {'sdtype': 'categorical'}
    >>> columns = {"age": {"sdtype": "numerical"}, "job": {"sdtype": "job", "pii": False}}
    >>> to_metadata(schema, like={"columns": columns})["tables"]["table"]["columns"]["job"]
    {'sdtype': 'job', 'pii': False}
    """
    name, table = (table_name or TABLE, {"columns": {}}) if like is None else read_table(like, table_name)
    known = {column.name: table["columns"].get(column.name) for column in schema}
    kept = {c.name: known[c.name] for c in schema if known[c.name] and _describes(known[c.name], c.kind)}
    columns = {c.name: kept.get(c.name) or dict(SDTYPES.get(c.kind, UNKNOWN)) for c in schema}
    return _metadata(name, {"columns": columns, **_keys(table, list(kept))})


def to_schema(metadata: object, data: object, *, table_name: str | None = None) -> Schema:
    """Return the schema of a table by metadata of SDV, which decide the kinds of its columns.

    Args:
        metadata: An object of SDV, the dictionary of its `to_dict`, or the path of its JSON file.
        data: The table, from which categories, ranges and resolutions are inferred, so that the schema must not be
            used for differential privacy.
        table_name: The table of the metadata, if they have several.
    """
    table = dataframe.read(data).arrow
    columns = read_table(metadata, table_name)[1]["columns"]
    return _schema(columns, _parse_times(table, columns))


def read_table(metadata: object, table_name: str | None = None) -> tuple[str, dict[str, Any]]:
    """Return the name and the metadata of one table. Each of its "columns" has an `sdtype`."""
    content, chosen = _content(metadata), table_name or TABLE
    tables = content.get("tables")
    if isinstance(tables, Mapping):
        if table_name is None and len(tables) != 1:
            raise InvalidOption(f"The metadata have {len(tables)} tables ({format_list(tables)}). Give table_name.")
        chosen = next(iter(tables)) if table_name is None else table_name
        if chosen not in tables:
            raise InvalidOption.one_of("table_name", chosen, tables)
        content = tables[chosen]
    columns = content.get("columns") if isinstance(content, Mapping) else None
    if not isinstance(columns, Mapping) or not columns:
        raise InvalidOption('Metadata of SDV must have "columns", or "tables" with them. Use Metadata.to_dict().')
    for name, column in columns.items():
        if not isinstance(column, Mapping) or not isinstance(column.get("sdtype"), str):
            raise InvalidOption(f'Column {name!r} of the metadata must have an "sdtype", got {column!r}.')
    facts = {name: value for name, value in content.items() if name != "METADATA_SPEC_VERSION"}
    return chosen, {**facts, "columns": {str(name): dict(column) for name, column in columns.items()}}


class HarpoonSynthesizer:
    """A synthesizer with the verbs of SDV's single-table synthesizers.

    Rows that are sampled later continue those before, until `reset_sampling`; the first ones are those of
    `Harpoon.sample` with the same seed.

    Args:
        metadata: An object of SDV, the dictionary of its `to_dict`, or the path of its JSON file.
        table_name: The table of the metadata, if they have several.
        **options: Arguments of `Harpoon`, such as max_time, max_epochs and random_state; not privacy, which needs a
            schema that is written by hand.

    >>> import pyarrow as pa
    >>> table = pa.table({"id": range(90), "x": [0.1, 0.9, None] * 30, "kind": ["a", "b", "a"] * 30})
    >>> columns = {"id": {"sdtype": "id"}, "x": {"sdtype": "numerical"}, "kind": {"sdtype": "categorical"}}
    >>> synthesizer = HarpoonSynthesizer({"columns": columns}, hidden=16, max_epochs=2, random_state=0, progress=False)
    >>> synthesizer.fit(table)
    >>> synthesizer.sample(3)["id"].to_pylist(), synthesizer.sample(2)["id"].to_pylist()
    ([0, 1, 2], [3, 4])
    """

    model_: Harpoon
    template_: FrameTemplate  # of the training table

    def __init__(self, metadata: object, *, table_name: str | None = None, **options: Any) -> None:  # noqa: ANN401
        self._table_name, self._table = read_table(metadata, table_name)
        self.columns = self._table["columns"]
        if options.get("privacy") is not None:
            raise InvalidOption(NOT_PRIVATE)
        self.options = {"progress": False, **options}
        self._n_sampled = 0
        Harpoon(**self.options)  # raises an error for a wrong option now, not after the table is read

    def fit(self, data: object) -> None:
        """Train on a table with the columns of the metadata."""
        table = dataframe.read(data)
        if set(table.names) != set(self.columns):
            absent = [name for name in self.columns if name not in table.names]
            more = [name for name in table.names if name not in self.columns]
            raise (
                SchemaMismatch.missing_columns(absent, table.names, of="schema")
                if absent
                else SchemaMismatch.extra_columns(more, list(self.columns), of="schema")
            )
        self.columns = _with_time_formats(self._table["columns"], table.arrow)
        arrow = _parse_times(table.arrow, self.columns)
        with hold_warnings(ColumnLeftOutWarning):  # the metadata say so, and sampled rows have these columns, too
            self.model_ = Harpoon(schema=_schema(self.columns, arrow), **self.options).fit(arrow)
        self.template_ = table.template.for_model(self.model_.schema_.labelled)
        self.reset_sampling()

    def sample(self, num_rows: int, *, where: object = None) -> Any:  # noqa: ANN401
        """Sample rows, like the training table; each satisfies a condition, as for `Harpoon.sample`."""
        return self._finish([self._sample(check_count(num_rows, "num_rows"), where=where)])

    def sample_from_conditions(self, conditions: Iterable[Any]) -> Any:  # noqa: ANN401
        """Sample rows with given values.

        Args:
            conditions: Objects with `column_values` and `num_rows` (`sdv.sampling.Condition`), or with a `dataframe` of
                given values, one row for each of its rows (`sdv.sampling.DataFrameCondition`).
        """
        parts = []
        for condition in conditions:
            if hasattr(condition, "column_values"):
                n = check_count(getattr(condition, "num_rows", 1), "num_rows of a condition")
                parts.append(self._sample(n, given=dict(condition.column_values)))
            elif hasattr(condition, "dataframe"):
                parts.append(self._complete(condition.dataframe))
            else:
                raise InvalidOption(f"A condition must have column_values or a dataframe, got {condition!r}.")
        if not parts:
            raise InvalidOption("conditions must hold at least one condition, got none.")
        return self._finish(parts)

    def sample_remaining_columns(self, known_columns: object) -> Any:  # noqa: ANN401
        """Sample the other columns of rows of which some columns are known."""
        return self._finish([self._complete(known_columns)])

    def reset_sampling(self) -> None:
        """Begin again with the first rows."""
        self._n_sampled = 0

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata of the table, as SDV's `to_dict`; after `fit` with the formats of all times."""
        return _metadata(self._table_name, {**self._table, "columns": self.columns})

    def get_parameters(self) -> dict[str, Any]:
        """Return the options that were given to the constructor."""
        return dict(self.options)

    def save(self, filepath: str | os.PathLike[str]) -> None:
        """Write the synthesizer to a file, without any row of the training table."""
        self._check_fitted()
        state = {"metadata": self.get_metadata(), "template": self.template_.to_json(), "n_sampled": self._n_sampled}
        with replace_atomically(Path(filepath)) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            archive.writestr(MODEL_FILE, to_bytes(self.model_))
            archive.writestr(STATE_FILE, json.dumps(state))

    @classmethod
    def load(cls, filepath: str | os.PathLike[str]) -> Self:
        """Read a synthesizer from a file that `save` wrote. Nothing in the file is ever executed."""
        try:
            with zipfile.ZipFile(filepath) as archive:
                if any(archive.getinfo(name).file_size > MAX_FILE_BYTES for name in (MODEL_FILE, STATE_FILE)):
                    raise ValueError("it is too large")  # noqa: TRY301
                model = from_bytes(archive.read(MODEL_FILE), library="pyarrow", progress=False)
                state = json.loads(archive.read(STATE_FILE))
            synthesizer = cls(state["metadata"])
            template = FrameTemplate.from_json(state["template"]).for_model(model.schema_.labelled)
            synthesizer.model_, synthesizer.template_ = model, template
            synthesizer._n_sampled = check_count(state["n_sampled"], "n_sampled", low=0)
        except FileNotFoundError:
            raise ModelFileError(f"There is no file {str(filepath)!r}.") from None
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError, OSError, EOFError, NotImplementedError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{str(filepath)!r} is not a saved synthesizer, or it is damaged: {error}.") from None
        if set(synthesizer.columns) != set(model.schema_.names):
            raise ModelFileError(f"{str(filepath)!r} is damaged: its metadata are not those of its model.")
        return synthesizer

    def _check_fitted(self) -> Harpoon:
        if not hasattr(self, "model_"):
            raise NotFitted("This synthesizer has not been trained. Call fit(table) first, or load a saved one.")
        return self.model_

    def _sample(self, n: int, **conditions: Any) -> pa.Table:  # noqa: ANN401
        rows = self._check_fitted().sample(n, row_offset=self._n_sampled, **conditions)
        return self._add_unmodelled(rows)

    def _complete(self, known: object) -> pa.Table:
        model = self._check_fitted()
        given = dataframe.read(known).arrow
        modelled = {column.name for column in model.schema_.modelled}
        usable = _parse_times(given, self.columns).select([name for name in given.column_names if name in modelled])
        if not usable.num_columns:
            raise InvalidOption(f"The known columns must be some of {format_list(sorted(modelled))}.")
        rows = self._add_unmodelled(model.sample(given=usable, row_offset=self._n_sampled))
        for name in set(given.column_names) & (set(rows.column_names) - modelled):  # such as known keys
            rows = rows.set_column(rows.column_names.index(name), name, _decode(given[name]))
        return rows

    def _add_unmodelled(self, rows: pa.Table) -> pa.Table:
        """Return sampled rows with the columns that are not modelled: constants, and numbers instead of keys."""
        model = self.model_
        start, self._n_sampled = self._n_sampled, self._n_sampled + rows.num_rows
        columns = {}
        for column in model.schema_:
            dtype = model.template_.schema.field(column.name).type
            if column.name in rows.column_names:
                columns[column.name] = _decode(rows[column.name])
            elif column.kind is Kind.CONSTANT:
                value = (column.categories or (None,))[0]
                columns[column.name] = pa.array([value] * rows.num_rows).cast(dtype)
            else:
                columns[column.name] = _placeholders(column, dtype, start, rows.num_rows)
        return pa.table(columns)

    def _finish(self, parts: list[pa.Table]) -> Any:  # noqa: ANN401
        """Return rows in the library and the columns of the training table, with times as it writes them."""
        rows = pa.concat_tables(parts, promote_options="permissive")
        for index, name in enumerate(rows.column_names):
            dtype, form = self.template_.schema.field(name).type, self.columns[name].get("datetime_format")
            is_text, categories = _is_text(dtype), self.model_.schema_[name].categories
            if pa.types.is_dictionary(dtype) and categories:
                rows = rows.set_column(index, name, _encode(rows[name], categories, ordered=dtype.ordered))
            elif form and is_text and pa.types.is_timestamp(rows[name].type):
                texts = pc.strftime(rows[name].cast(pa.timestamp("s"), safe=False), form)
                rows = rows.set_column(index, name, texts.cast(pa.string()))
        return dataframe.build_frame(rows.select(self.template_.schema.names), self.template_)


def sdgym_synthesizer(display_name: str = "Harpoon", **options: Any) -> type:  # noqa: ANN401
    """Return a custom synthesizer for SDGym: `benchmark_single_table(custom_synthesizers=[sdgym_synthesizer()])`.

    Args:
        display_name: Its name in the results.
        **options: Arguments of `Harpoon`, such as max_time and random_state.
    """
    try:
        import sdgym
    except ImportError:
        raise MissingExtra("SDGym is not installed. Install it with: pip install sdgym") from None

    def train(data: object, metadata: object) -> HarpoonSynthesizer:
        synthesizer = HarpoonSynthesizer(metadata, **options)
        synthesizer.fit(data)
        return synthesizer

    def sample(synthesizer: HarpoonSynthesizer, n: int) -> Any:  # noqa: ANN401
        return synthesizer.sample(n)

    create = getattr(sdgym, "create_single_table_synthesizer", None) or sdgym.create_synthesizer
    made: type = create(display_name, train, sample)
    return made


def _content(metadata: object) -> Mapping[str, Any]:
    to_dict: Callable[[], Any] | None = getattr(metadata, "to_dict", None)
    content: object = metadata if to_dict is None else to_dict()
    if isinstance(metadata, str | os.PathLike):
        try:
            content = json.loads(Path(metadata).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidOption(f"The metadata cannot be read from {os.fspath(metadata)!r}: {error}.") from None
    if not isinstance(content, Mapping):
        raise InvalidOption(
            f"metadata must be an object of SDV, a dictionary or a path, got {type(metadata).__name__}."
        )
    return content


def _metadata(table_name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {"tables": {table_name: dict(table)}, "relationships": [], "METADATA_SPEC_VERSION": SPEC_VERSION}


def _describes(metadata: Mapping[str, Any], kind: Kind) -> bool:
    """Return whether metadata of a column may be those of a column of this kind."""
    sdtype = metadata["sdtype"]
    if kind not in SDTYPES or kind is Kind.CONSTANT or sdtype in (SDTYPES[kind]["sdtype"], UNKNOWN["sdtype"]):
        return True
    if sdtype in MODELLED_SDTYPES:
        return False
    is_left_out = sdtype == "id" or metadata.get("pii", True)
    return kind is (Kind.IDENTIFIER if is_left_out else Kind.CATEGORY)


def _keys(table: Mapping[str, Any], kept: list[str]) -> dict[str, Any]:
    """Return the keys of a table and the relationships of its columns, as far as their columns are kept."""

    def is_kept(names: object) -> bool:
        return all(name in kept for name in (names if isinstance(names, list) else [names]))

    found = {name: table[name] for name in KEYS if name in table and is_kept(table[name])}
    alternate = [each for each in table.get("alternate_keys") or [] if is_kept(each)]
    related = [each for each in table.get("column_relationships") or [] if is_kept(each.get("column_names"))]
    lists = {"alternate_keys": alternate, "column_relationships": related}
    return found | {name: values for name, values in lists.items() if values}


def _schema(columns: Mapping[str, Mapping[str, Any]], table: pa.Table) -> Schema:
    kinds = {f.name: _kind(columns[f.name], f.type) for f in table.schema if f.name in columns}
    left_out = [name for name, kind in kinds.items() if kind == Kind.SKIPPED]
    given = {name: kind for name, kind in kinds.items() if kind and name not in left_out}
    return Schema.infer(table, kinds=given, exclude=left_out)


def _kind(column: Mapping[str, Any], dtype: pa.DataType) -> str:
    """Return the kind of a column; empty if it is to be inferred."""
    sdtype, storage = column["sdtype"], storage_type(dtype)
    if sdtype == "numerical":
        return "integer" if storage == "integer" else "number"
    if sdtype == "datetime":
        return "date" if storage == "date" else "datetime"
    if sdtype == "unknown":
        return "skipped" if _is_text(dtype) else ""
    is_personal = column.get("pii", True)  # of the types that SDV makes up: names, addresses and so on
    known = {"categorical": "category", "boolean": "boolean", "id": "skipped"}
    return known.get(sdtype, "skipped" if is_personal else "category")


def _is_text(dtype: pa.DataType) -> bool:
    return storage_type(dtype) in ("text", "category")


def _with_time_formats(columns: Mapping[str, dict[str, Any]], table: pa.Table) -> dict[str, dict[str, Any]]:
    """Return metadata of columns with a format for each time of a table that is written as text."""
    complete = dict(columns)
    for f in table.schema:
        column = columns.get(f.name, {})
        if column.get("sdtype") == "datetime" and _is_text(f.type) and not column.get("datetime_format"):
            complete[f.name] = {**column, "datetime_format": _iso_format(f.name, table[f.name])}
    return complete


def _iso_format(name: str, texts: pa.ChunkedArray) -> str:
    """Return the one of `TIME_FORMATS` that texts have."""
    for form in TIME_FORMATS:
        try:
            pc.strptime(texts.cast(pa.string()), form, "us")
        except pa.ArrowInvalid:
            continue
        return form
    raise InvalidOption(
        f"Column {name!r} holds texts that are not all dates or times of one form of ISO 8601. Give its metadata a "
        '"datetime_format", such as "%d.%m.%Y".'
    )


def _parse_times(table: pa.Table, columns: Mapping[str, dict[str, Any]]) -> pa.Table:
    """Return a table in which times that are texts are times, by the formats of the metadata, or of ISO 8601."""
    columns = _with_time_formats(columns, table)
    for index, f in enumerate(table.schema):
        column = columns.get(f.name, {})
        if column.get("sdtype") != "datetime" or not _is_text(f.type):
            continue
        form = column["datetime_format"]
        try:
            parsed = pc.strptime(table[f.name].cast(pa.string()), form, "us")
        except (pa.ArrowInvalid, TypeError) as error:
            raise InvalidOption(f"Column {f.name!r} has a cell that is not a time like {form!r}: {error}.") from None
        table = table.set_column(index, f.name, parsed)
    return table


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _encode(column: pa.ChunkedArray, categories: Sequence[Any], *, ordered: bool) -> pa.Array:
    """Return texts as categories, in their order."""
    values = pa.array(categories, column.type)
    codes = pc.index_in(column, value_set=values).combine_chunks()
    return pa.DictionaryArray.from_arrays(codes, values, ordered=ordered)


def _placeholders(column: Column, dtype: pa.DataType, start: int, n: int) -> pa.Array:
    """Return numbers for a column that is not modelled, as texts or integers; missing cells if it holds neither."""
    numbers = range(start, start + n)
    if column.kind is not Kind.EMPTY and storage_type(dtype) in ("integer", "float"):
        return pa.array(numbers, pa.int64()).cast(dtype)
    if column.kind is not Kind.EMPTY and _is_text(dtype):
        return pa.array([f"{column.name}-{number}" for number in numbers])
    return pa.nulls(n, dtype)
