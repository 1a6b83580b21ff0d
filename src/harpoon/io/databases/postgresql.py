"""Tables and queries of PostgreSQL, which stores the types of columns. Rows are streamed in both directions by COPY.

Each read is one transaction that may only read. A new table is written in one transaction, so that it appears at the
end or not at all. A table that is replaced is dropped at the end, so that its rows can be read meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from secrets import token_hex
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from harpoon._utils.sql_quoting import quote_identifier
from harpoon.exceptions import InvalidTable, MissingExtra, TableFileError
from harpoon.io.columnar import cast_to_schema
from harpoon.io.databases.base import TableName, table_to_read, table_to_replace
from harpoon.io.location import Location
from harpoon.io.source import Chunk, ReadOptions, Source, check_column_names
from harpoon.io.text_types import format_texts, is_binary

MAX_NAME_BYTES = 63  # PostgreSQL would cut off the rest
MAX_DIGITS = 38  # of a decimal of 128 bits
MIN_BLOCK_BYTES = 2**20  # of the parser of COPY's output; a row must fit
CONNECTION_DEFAULTS = {
    "application_name": "harpoon",
    "connect_timeout": "30",  # seconds, as all of these
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "6",
}
LOCK_TIMEOUT = "60s"  # for which a finished table waits for other users of the one that it replaces
# The order of rows is that of the table: scans neither join one that is under way, nor share the work.
READ_SETTINGS = {
    "datestyle": "ISO, YMD",
    "extra_float_digits": "1",
    "synchronize_seqscans": "off",
    "max_parallel_workers_per_gather": "0",
}
TABLES = """
SELECT n.nspname, c.relname, c.relkind IN ('v', 'm'), pg_table_is_visible(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY NOT pg_table_is_visible(c.oid), n.nspname, c.relname
"""


def _to_bytes(digits: pa.ChunkedArray) -> pa.ChunkedArray:
    values = [None if text is None else bytes.fromhex(text) for text in digits.to_pylist()]
    return pa.chunked_array([pa.array(values, pa.binary())])


class ColumnReader(NamedTuple):
    """How a column is read.

    Attributes:
        expression: An SQL expression of the column.
        text_type: The type as which the text of the expression is parsed.
        dtype: The type of the result.
        convert: A function of the parsed column; by default it is cast to the type of the result.
    """

    expression: str
    text_type: pa.DataType
    dtype: pa.DataType
    convert: Callable[[pa.ChunkedArray], pa.ChunkedArray] | None = None


NUMERIC = 1700
TEXT_READER = ColumnReader("{}::text", pa.string(), pa.string())  # also for other types: arrays, JSON
# Arrow has no infinite times, and none after the year 294246: such a cell is missing.
DAYS = "CASE WHEN isfinite({0}) THEN {0} - DATE '1970-01-01' END"
MICROSECONDS = "CASE WHEN isfinite({0}) AND {0} < '294247-01-01' THEN (extract(epoch FROM {0}) * 1000000)::bigint END"
COLUMN_READERS = {  # by the number of the type in the catalogue pg_type, which never changes
    16: ColumnReader("{}", pa.bool_(), pa.bool_()),
    17: ColumnReader("encode({}, 'hex')", pa.string(), pa.binary(), _to_bytes),
    20: ColumnReader("{}", pa.int64(), pa.int64()),
    21: ColumnReader("{}", pa.int16(), pa.int16()),
    23: ColumnReader("{}", pa.int32(), pa.int32()),
    700: ColumnReader("{}", pa.float32(), pa.float32()),
    701: ColumnReader("{}", pa.float64(), pa.float64()),
    1082: ColumnReader(DAYS, pa.int32(), pa.date32()),
    1114: ColumnReader(MICROSECONDS, pa.int64(), pa.timestamp("us")),
    1184: ColumnReader(MICROSECONDS, pa.int64(), pa.timestamp("us", "UTC")),
    1186: ColumnReader("(extract(epoch FROM {}) * 1000000)::bigint", pa.int64(), pa.duration("us")),
}


class PostgreSQLSource(Source):
    """A table, a view, or the result of a query."""

    def __init__(self, location: Location) -> None:
        self.location = location
        with _reading(location) as cursor:
            selected = f"({location.query}\n) AS harpoon_query" if location.query else _table(cursor, location)
            # With `binary` the server takes one statement only, so a query cannot bring others along.
            cursor.execute(f"SELECT * FROM {selected} LIMIT 0", binary=True)  # noqa: S608
            columns = cursor.description or ()
            if not columns:
                raise InvalidTable(f"{location.name} has no columns.")
            check_column_names([column.name for column in columns], location.name)
            self.readers = {column.name: _column_reader(cursor, column, selected) for column in columns}
        self.schema = pa.schema([(name, reader.dtype) for name, reader in self.readers.items()])
        parts = [reader.expression.format(quote_identifier(name)) for name, reader in self.readers.items()]
        self.copy = f"COPY (SELECT {', '.join(parts)} FROM {selected}) TO STDOUT (FORMAT csv)"  # noqa: S608

    def chunks(self, size: int, row_offset: int = 0) -> Iterator[Chunk]:
        """Yield the rows from `row_offset` on, in order, `size` rows at a time."""
        with _reading(self.location) as cursor, cursor.copy(self.copy) as copy:
            lines = islice(copy, row_offset, None)  # a message of COPY is a row
            while rows := [bytes(line) for line in islice(lines, size)]:
                yield Chunk(self._parse(rows))

    def _parse(self, rows: list[bytes]) -> pa.Table:
        """Parse rows of CSV, in which a missing cell is empty and an empty text is quoted."""
        table = csv.read_csv(
            pa.BufferReader(b"".join(rows)),
            csv.ReadOptions(column_names=self.schema.names, block_size=max(MIN_BLOCK_BYTES, 2 * max(map(len, rows)))),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types={name: reader.text_type for name, reader in self.readers.items()},
                null_values=[""],
                true_values=["t"],
                false_values=["f"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for index, (name, reader) in enumerate(self.readers.items()):
            if reader.convert is not None:
                table = table.set_column(index, name, reader.convert(table[name]))
        return cast_to_schema(table, self.schema)


class PostgreSQLWriter:
    """Writes a new table within a transaction."""

    def __init__(self, cursor: Any, location: Location, *, force: bool) -> None:  # noqa: ANN401
        self.cursor, self.location, self.started = cursor, location, False
        self.old = table_to_replace(location, _tables(cursor, location), force=force)
        self.namespace, self.name = _split_name(cursor, location)
        self._check_name(self.name)
        self.temporary_name = self.name if self.old is None else f"harpoon_{token_hex(8)}"
        self.target = quote_identifier(self.namespace, self.temporary_name)

    def write(self, table: pa.Table) -> None:
        """Append rows; the first call sets the columns."""
        with self.location.writing(_psycopg().Error, pa.ArrowException):
            if not self.started:
                self._create(table.schema)
            texts = pa.table([_texts(column) for column in table.columns], names=table.column_names)
            sink = pa.BufferOutputStream()
            csv.write_csv(texts, sink, csv.WriteOptions(include_header=False))
            self._copy(sink.getvalue().to_pybytes())

    def finish(self) -> None:
        """Put the table in the place of the one that it replaces."""
        if self.started and self.old is not None:
            self.cursor.execute(f"DROP TABLE {self.old.quoted}")
            self.cursor.execute(f"ALTER TABLE {self.target} RENAME TO {quote_identifier(self.name)}")

    def _copy(self, rows: bytes) -> None:
        """Append rows of CSV; raise the first error.

        If an error left the block of `copy`, psycopg would print what goes wrong at its end on the standard error.
        """
        errors, problems = _psycopg().Error, []
        try:
            with self.cursor.copy(f"COPY {self.target} FROM STDIN (FORMAT csv)") as copy:
                try:
                    copy.write(rows)
                except errors as error:
                    problems.append(error)
        except errors as error:
            problems.append(error)
        if problems:
            raise problems[0]

    def _create(self, schema: pa.Schema) -> None:
        for name in schema.names:
            self._check_name(name)
        columns = ", ".join(f"{quote_identifier(f.name)} {_declared_type(f.type)}" for f in schema)
        self.cursor.execute(f"CREATE TABLE {self.target} ({columns})")
        self.started = True

    def _check_name(self, name: str) -> None:
        if len(name.encode(errors="surrogatepass")) > MAX_NAME_BYTES:
            problem = f"a name in PostgreSQL has at most {MAX_NAME_BYTES} bytes; shorten {name!r}"
            raise TableFileError.unwritable(self.location.name, problem)


def open_source(location: Location, _: ReadOptions, _stack: ExitStack) -> Source:
    """Open a table, a view or a query for reading."""
    return PostgreSQLSource(location)


@contextmanager
def open_writer(location: Location, *, force: bool) -> Iterator[PostgreSQLWriter]:
    """Open a new table for writing, in one transaction."""
    errors = _psycopg().Error
    with location.writing(errors):
        connection = _connect(location)
    try:
        with location.writing(errors):
            cursor = connection.cursor()
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
            writer = PostgreSQLWriter(cursor, location, force=force)
        yield writer
        with location.writing(errors):
            writer.finish()
            connection.commit()
    finally:  # without a commit the server forgets the table
        with suppress(errors):
            connection.close()


def list_tables(location: Location) -> list[TableName]:
    """List the tables and views of a database that is to be written."""
    errors = _psycopg().Error
    with location.writing(errors), _connect(location) as connection:
        return _tables(connection.cursor(), location)


@contextmanager
def _reading(location: Location) -> Iterator[Any]:
    """Open a cursor of a transaction that may only read."""
    with location.reading(_psycopg().Error, pa.ArrowException), _connect(location) as connection:
        connection.read_only = True
        cursor = connection.cursor()
        for name, value in READ_SETTINGS.items():
            cursor.execute("SELECT set_config(%s, %s, true)", [name, value])
        yield cursor


def _connect(location: Location) -> Any:  # noqa: ANN401
    """Connect to the server. The message of an invalid URL would show the password, so it is not passed on."""
    psycopg = _psycopg()
    try:
        given = psycopg.conninfo.conninfo_to_dict(location.server)
    except psycopg.ProgrammingError:
        raise TableFileError(
            f"{location.text!r} is not a valid URL of PostgreSQL. Write postgresql://user@host:5432/database#table, "
            "and percent-encode other characters than letters and digits in the password."
        ) from None
    return psycopg.connect(**{**CONNECTION_DEFAULTS, **given, "client_encoding": "utf8"})


def _psycopg() -> Any:  # noqa: ANN401
    try:
        import psycopg
    except ImportError:
        raise MissingExtra.for_package("psycopg", "postgres", "Reading or writing PostgreSQL") from None
    return psycopg


def _table(cursor: Any, location: Location) -> str:  # noqa: ANN401
    return table_to_read(location, _tables(cursor, location)).quoted


def _tables(cursor: Any, location: Location) -> list[TableName]:  # noqa: ANN401
    """List the tables of all schemas. Those of the search path come first, and need no name of a schema."""
    tables = []
    for schema, table, is_view, is_visible in cursor.execute(TABLES).fetchall():
        qualified = f"{schema}.{table}"
        name = table if is_visible and location.table != qualified else qualified
        tables.append(TableName(name, quote_identifier(schema, table), is_view))
    return tables


def _split_name(cursor: Any, location: Location) -> tuple[str, str]:  # noqa: ANN401
    """Return the schema and the name of a new table. A part before a dot is a schema if there is one of that name."""
    schemas = [schema for (schema,) in cursor.execute("SELECT nspname FROM pg_namespace").fetchall()]
    for schema in schemas:
        table = location.table.removeprefix(f"{schema}.")
        if table and table != location.table:
            return schema, table
    (current,) = cursor.execute("SELECT current_schema()").fetchone()
    if current is None:
        problem = "no schema of the search path exists; name one: #schema.table"
        raise TableFileError.unwritable(location.name, problem)
    return current, location.table


def _column_reader(cursor: Any, column: Any, selected: str) -> ColumnReader:  # noqa: ANN401
    """Return how to read a column. Numbers of any precision are decimals as long as the longest of them."""
    if column.type_code != NUMERIC:
        return COLUMN_READERS.get(column.type_code, TEXT_READER)
    precision, scale, name = column.precision, column.scale, quote_identifier(column.name)
    if precision is None:
        measure = f"max(scale({name})), max(length(trunc(abs({name}))::text))"
        scale, whole = cursor.execute(f"SELECT {measure} FROM {selected}", binary=True).fetchone()  # noqa: S608
        precision, scale = max((scale or 0) + (whole or 0), 1), scale or 0
    if precision > MAX_DIGITS or not 0 <= scale <= precision:
        return ColumnReader("{}::double precision", pa.float64(), pa.float64())
    dtype = pa.decimal128(precision, scale)
    finite = "CASE WHEN {0}::text NOT IN ('NaN', 'Infinity', '-Infinity') THEN {0} END"
    return ColumnReader(finite, dtype, dtype)


def _declared_type(dtype: pa.DataType) -> str:  # noqa: PLR0911
    types = pa.types
    if types.is_dictionary(dtype):
        return _declared_type(dtype.value_type)
    if types.is_integer(dtype):
        bits = dtype.bit_width + types.is_unsigned_integer(dtype)
        sizes = ((16, "smallint"), (32, "integer"), (64, "bigint"))
        return next((name for size, name in sizes if bits <= size), "numeric(20, 0)")
    if types.is_floating(dtype):
        return "double precision" if types.is_float64(dtype) else "real"
    if types.is_decimal(dtype):
        return f"numeric({dtype.precision}, {dtype.scale})"
    if types.is_timestamp(dtype):
        return "timestamp" if dtype.tz is None else "timestamp with time zone"
    if is_binary(dtype):
        return "bytea"
    names = ((types.is_boolean, "boolean"), (types.is_date, "date"), (types.is_duration, "interval"))
    return next((name for is_type, name in names if is_type(dtype)), "text")


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as texts that PostgreSQL reads; times have microseconds there, and finer ones are an error."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    if pa.types.is_duration(column.type):
        ticks = column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
        return pc.binary_join_element_wise(ticks, "microseconds", " ")
    texts = format_texts(column)
    return pc.binary_join_element_wise("\\x", texts, "") if is_binary(column.type) else texts
