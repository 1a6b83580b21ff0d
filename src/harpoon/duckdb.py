"""Harpoon inside DuckDB: models as table functions of SQL.

    register(connection, model, "m")
    connection.sql("from harpoon_sample('m', 1000, condition := 'age > 50', seed := 1)")
    connection.sql("from harpoon_impute('m', 'people')")

DuckDB has no table functions in Python. `harpoon_sample` and `harpoon_impute` are macros over scalar functions
instead: one samples a block of rows, the other imputes a vector of rows, so that both stream. They belong to the
connection, and nothing is stored in its database. The condition is called `condition`, because `where` is a reserved
word there. Under a condition, `harpoon_impute` completes each vector of 2,048 rows by itself.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from harpoon._utils.sql_quoting import quote_identifier
from harpoon.data.column import Kind
from harpoon.engines.blocks import consecutive_runs
from harpoon.engines.job import CONDITION_BLOCK_ROWS, Model, deserialize_model, serialize_model
from harpoon.estimator import Harpoon
from harpoon.exceptions import InvalidOption, MissingExtra, SchemaMismatch

__all__ = ["register"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
PARAMETERS = ("VARCHAR", "BIGINT", "VARCHAR")  # a condition, a seed, and `missing` or the columns of the table
SAMPLE_PREFIX = "harpoon_sample_"  # of the macros of single models
FILLED = "harpoon: filled"  # a column of imputed rows within a query


def register(connection: Any, model: Model, name: str = "m") -> None:  # noqa: ANN401
    """Make a model available to the SQL of a connection, under a name; one of the same name is replaced.

    Args:
        connection: A connection of DuckDB.
        model: A fitted model, or the path of its file. Training it again later has no effect on the connection.
        name: What queries call it: letters, digits and underscores.

    >>> import duckdb
    >>> table = pa.table({"x": [0.1, 0.9, None, 0.2, 0.2] * 20, "kind": ["low", "high", "low", "low", None] * 20})
    >>> connection = duckdb.connect()
    >>> register(connection, Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table), "m")
    >>> connection.sql("select count(*) from harpoon_sample('m', 1000, condition := 'x > 0.5')").fetchall()
    [(1000,)]
    >>> connection.register("incomplete", table)  # doctest: +ELLIPSIS
    <...>
    >>> connection.sql("select count(x), count(kind) from harpoon_impute('m', 'incomplete')").fetchall()
    [(100, 100)]
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidOption(f"name must be letters, digits and underscores, such as 'm', got {name!r}.")
    duckdb = _duckdb()
    if not isinstance(connection, duckdb.DuckDBPyConnection):
        raise InvalidOption(f"connection must be a connection of DuckDB (duckdb.connect()), got {connection!r}.")
    served = ServedModel(deserialize_model(serialize_model(model)), connection)
    _register_sampling(connection, served, name)
    _register_imputation(connection, served, name)
    names = _registered_names(connection)
    for macro in (SAMPLE_MACRO, IMPUTE_MACRO):
        connection.execute(macro.format(registered=", ".join(f"'{each}'" for each in names), shown=", ".join(names)))


class ServedModel:
    """A model whose tables have the types of DuckDB. Calls wait for each other: DuckDB has several threads."""

    def __init__(self, model: Harpoon, connection: Any) -> None:  # noqa: ANN401
        self.model, self.lock = model, threading.Lock()
        self.sampled = _in_duckdb(connection, _plain(model.sample(1, random_state=0)))
        is_imputed = {c.name: c.kind.modelled or c.kind is Kind.CONSTANT for c in model.schema_}
        fields = [model.template_.schema.field(name) for name in model.schema_.names]
        imputed = pa.schema([f for f in fields if is_imputed[f.name]])
        self.imputed = _in_duckdb(connection, _plain(imputed.empty_table()))
        self.unused = [f for f in fields if not is_imputed[f.name]]  # `impute` expects them all the same

    def sample(self, start: int, n: int, condition: str | None, seed: int | None, missing: str) -> pa.StructArray:
        """Sample rows that begin with a row number, as a structure of columns."""
        with self.lock:
            table = self.model.sample(n, where=condition, missing=missing, row_offset=start, random_state=seed)
        return _to_structs(self.model.template_.with_types(table), self.sampled)

    def check_columns(self, present: list[str]) -> None:
        """Raise SchemaMismatch if a table lacks columns. DuckDB ignores the case of letters in their names."""
        lower = {name.lower() for name in present}
        if absent := [name for name in self.imputed.names if name.lower() not in lower]:
            raise SchemaMismatch.missing_columns(absent, present)

    def impute(self, cells: pa.Table, start: int, condition: str | None, seed: int | None) -> pa.StructArray:
        """Impute rows that begin with a row number, as a structure of columns."""
        for f in self.unused:
            cells = cells.append_column(f, pa.nulls(cells.num_rows, f.type))
        with self.lock:
            table = self.model.impute(cells, where=condition, row_offset=start, random_state=seed)
        return _to_structs(table, self.imputed)


def _register_sampling(connection: Any, served: ServedModel, name: str) -> None:  # noqa: ANN401
    def blocks(start: Any, n: Any, condition: Any, seed: Any, missing: Any) -> pa.ListArray:  # noqa: ANN401
        arguments = zip(*(column.to_pylist() for column in (start, n, condition, seed, missing)), strict=True)
        rows = [served.sample(*one) for one in arguments]
        offsets = np.cumsum([0, *map(len, rows)])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.concat_arrays(rows))

    function = f"harpoon_sample_{name}_block"
    _create_function(
        connection, function, blocks, ["BIGINT", "BIGINT"], f"{_struct_type(connection, served.sampled)}[]"
    )
    connection.execute(SAMPLE_ONE_MACRO.format(name=name, function=function, size=CONDITION_BLOCK_ROWS))


def _register_imputation(connection: Any, served: ServedModel, name: str) -> None:  # noqa: ANN401
    def rows(numbers: Any, cells: Any, condition: Any, seed: Any, present: Any) -> pa.Array:  # noqa: ANN401
        served.check_columns(json.loads(present[0].as_py()))
        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(part) for part in _chunks(cells)])
        first = {"condition": condition[0].as_py(), "seed": seed[0].as_py()}
        runs = consecutive_runs(np.asarray(numbers))
        parts = [served.impute(table.slice(start, n), number, **first) for start, n, number in runs]
        return pa.concat_arrays(parts)

    function, struct = f"harpoon_impute_{name}_rows", _struct_type(connection, served.imputed)
    _create_function(connection, function, rows, ["BIGINT", struct], struct)
    own = {f.name: quote_identifier(f.name) for f in served.imputed}
    observed = {
        f.name: f"nullif({own[f.name]}, 'NaN')" if pa.types.is_floating(f.type) else own[f.name] for f in served.imputed
    }
    connection.execute(
        IMPUTE_ONE_MACRO.format(
            name=name,
            function=function,
            struct=struct,
            filled=quote_identifier(FILLED),
            cells=", ".join(f"{quoted} := {quoted}" for quoted in own.values()),
            absent=", ".join(f"NULL AS {quoted}" for quoted in own.values()),
            replaced=", ".join(
                f"coalesce({observed[name]}, {quote_identifier(FILLED, name)}) AS {own[name]}" for name in own
            ),
        )
    )


# One step of the recursion samples one block, so that a long table is never in memory as a whole.
SAMPLE_ONE_MACRO = """
CREATE OR REPLACE TEMP MACRO harpoon_sample_{name}(n, condition, seed, missing) AS TABLE
WITH RECURSIVE blocks(start, sampled) AS (
    SELECT 0::BIGINT, {function}(0, least(n, {size}), condition, seed, missing)
    UNION ALL
    SELECT start + {size}, {function}(start + {size}, least(n - start - {size}, {size}), condition, seed, missing)
    FROM blocks WHERE start + {size} < n
)
SELECT unnest(sampled_row) FROM (SELECT unnest(sampled) AS sampled_row FROM blocks)
"""
# The union adds no row. It adds columns that the table lacks, so that the function can say which they are.
IMPUTE_ONE_MACRO = """
CREATE OR REPLACE TEMP MACRO harpoon_impute_{name}(table_name, condition, seed) AS TABLE
SELECT * EXCLUDE ({filled}) REPLACE ({replaced}) FROM (
    SELECT *, {function}(
        row_number() OVER () - 1, struct_pack({cells})::{struct}, condition, seed,
        (SELECT to_json(list(column_name))::VARCHAR FROM (DESCRIBE FROM query_table(table_name)))
    ) AS {filled}
    FROM (FROM query_table(table_name) UNION ALL BY NAME SELECT {absent} WHERE false)
)
"""
QUOTED_CONDITION = """coalesce('''' || replace(condition, '''', '''''') || '''', 'NULL')"""
KNOWN_NAME = """CASE WHEN lower(model) IN ({registered}) THEN model::VARCHAR ELSE error('There is no model named '
    || coalesce('''' || model || '''', 'NULL') || '. Registered: {shown}. Call harpoon.duckdb.register first.') END"""
INTEGER = "CASE WHEN {name}::DOUBLE = {name}::BIGINT THEN {name}::BIGINT::VARCHAR ELSE error({text}) END"
ROWS = INTEGER.format(
    name="n", text="'n, the number of rows, must be an integer, got ' || coalesce(n::VARCHAR, 'NULL')"
)
SEED = INTEGER.format(name="seed", text="'seed must be an integer, got ' || seed")
QUOTED_SEED = f"CASE WHEN seed IS NULL THEN 'NULL' ELSE {SEED} END"
# They are made anew with each model, because they know the names of all.
SAMPLE_MACRO = f"""
CREATE OR REPLACE TEMP MACRO harpoon_sample(model, n, condition := NULL, seed := NULL, missing := 'as_trained') AS TABLE
FROM query('FROM harpoon_sample_' || {KNOWN_NAME} || '(' || {ROWS} || ', ' || {QUOTED_CONDITION} || ', '
    || {QUOTED_SEED} || ', ''' || replace(missing, '''', '''''') || ''')')
"""
IMPUTE_MACRO = f"""
CREATE OR REPLACE TEMP MACRO harpoon_impute(model, table_name, condition := NULL, seed := NULL) AS TABLE
FROM query('FROM harpoon_impute_' || {KNOWN_NAME} || '(''' || replace(table_name, '''', '''''') || ''', '
    || {QUOTED_CONDITION} || ', ' || {QUOTED_SEED} || ')')
"""


def _registered_names(connection: Any) -> list[str]:  # noqa: ANN401
    """Return the names of the models of a connection, in small letters: DuckDB ignores their case."""
    macros = "SELECT function_name FROM duckdb_functions() WHERE function_type = 'table_macro'"
    names = [name.lower() for (name,) in connection.execute(macros).fetchall()]
    return sorted({name.removeprefix(SAMPLE_PREFIX) for name in names if name.startswith(SAMPLE_PREFIX)})


def _create_function(
    connection: Any,  # noqa: ANN401
    name: str,
    function: Callable[..., pa.Array],
    parameters: list[str],
    returns: str,
) -> None:
    """Create a scalar function of Arrow arrays. It gets NULL as it is, and is called anew by each query."""
    try:
        connection.remove_function(name)
    except _duckdb().Error:
        pass  # there was none
    types = [*parameters, *PARAMETERS]
    connection.create_function(name, function, types, returns, type="arrow", null_handling="special", side_effects=True)


def _plain(table: pa.Table) -> pa.Table:
    """Return a table whose categories are texts or numbers."""
    for index, f in enumerate(table.schema):
        if pa.types.is_dictionary(f.type):
            table = table.set_column(index, pa.field(f.name, f.type.value_type), table[index].cast(f.type.value_type))
    return table


def _in_duckdb(connection: Any, table: pa.Table) -> pa.Schema:  # noqa: ANN401
    """Return the columns of a table with the types that DuckDB gives them."""
    return connection.from_arrow(table.slice(0, 0).replace_schema_metadata()).to_arrow_table().schema


def _struct_type(connection: Any, schema: pa.Schema) -> str:  # noqa: ANN401
    types = connection.from_arrow(schema.empty_table()).types
    fields = (f"{quote_identifier(name)} {dtype}" for name, dtype in zip(schema.names, types, strict=True))
    return f"STRUCT({', '.join(fields)})"


def _to_structs(table: pa.Table, schema: pa.Schema) -> pa.StructArray:
    columns = [table[f.name].cast(f.type).combine_chunks() for f in schema]
    arrays = [pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return pa.StructArray.from_arrays(arrays, fields=list(schema))


def _chunks(cells: pa.Array | pa.ChunkedArray) -> list[pa.StructArray]:
    return list(cells.chunks) if isinstance(cells, pa.ChunkedArray) else [cells]


def _duckdb() -> Any:  # noqa: ANN401
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.for_package("duckdb", "sql", "SQL functions of a model") from None
    return duckdb
