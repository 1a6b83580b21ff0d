"""PostgreSQL: tables and queries of a real server, read and written through `harpoon.io` and the command line."""

# ruff: noqa: PT012, S608

import datetime as dt
import sys
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest

from harpoon import InvalidTable, MissingExtra, TableFileError, io
from tests.support.cli import call
from tests.support.postgresql import postgresql_server

psycopg = pytest.importorskip("psycopg", reason='needs psycopg: pip install -c constraints.txt ".[postgres]"')
NAMES = ['it"s; drop table kept; --', "ÄÖ 名", "a.b", "select", "'; --", "%s", "{}", "tab\tle"]
TYPES = """
b boolean, i2 smallint, i4 integer, i8 bigint, f4 real, f8 double precision, n numeric, n2 numeric(10, 2), s text,
d date, ts timestamp, tz timestamptz, iv interval, u uuid, j jsonb, a integer[], by bytea
"""
VALUES = """
(true, 1, 2, 3, 0.1, 0.1, 123.4567, 5.5, '', '2024-01-31', '2024-01-31 12:00:01.5', '2024-01-31 12:00:01.5+02',
 '1 day 2 hours', '00000000-0000-0000-0000-000000000001', '{"a": 1}', '{1,2}', 'ab'),
(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
(false, -1, -2, -3, 'NaN', '-Infinity', 'NaN', -1, E'a,"b\\nc', '0001-01-01', '1900-01-01', '1900-01-01Z', '-1 second',
 null, null, null, '\\\\x00')
"""


@pytest.fixture(scope="module")
def server():
    with postgresql_server() as url:
        yield url


@pytest.fixture
def url(server):
    """The URL of an empty database with one table that no test may change."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS sales, public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 9) AS x")
    yield server
    assert tables(server).get("kept") == 9


def tables(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        counts = (psycopg.sql.SQL("SELECT count(*) FROM {}").format(psycopg.sql.Identifier(name)) for (name,) in names)
        return {name: connection.execute(count).fetchone()[0] for (name,), count in zip(names, counts, strict=True)}


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)


def test_types_are_read_as_they_are(url):
    execute(url, f"CREATE TABLE t ({TYPES})", f"INSERT INTO t VALUES {VALUES}".replace("\\\\", "\\"))
    table = io.read_table(f"{url}#t")
    first, second, third = table.to_pylist()
    expected = {
        "b": True, "i2": 1, "i4": 2, "i8": 3, "f8": 0.1, "n": Decimal("123.4567"), "n2": Decimal("5.50"), "s": "",
        "d": dt.date(2024, 1, 31), "ts": dt.datetime(2024, 1, 31, 12, 0, 1, 500_000),
        "tz": dt.datetime(2024, 1, 31, 10, 0, 1, 500_000, dt.UTC), "iv": dt.timedelta(days=1, hours=2),
        "u": "00000000-0000-0000-0000-000000000001", "j": '{"a": 1}', "a": "{1,2}", "by": b"ab",
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert set(second.values()) == {None}
    assert third["s"] == 'a,"b\nc'
    assert third["n"] is None
    assert third["f8"] == float("-inf")
    assert third["by"] == b"\0"
    assert table.schema.field("f4").type == pa.float32()
    assert table.schema.field("n").type == pa.decimal128(7, 4)


@pytest.mark.parametrize("dtype", ["date", "timestamp", "timestamptz"])
def test_times_that_arrow_does_not_have_are_missing(url, dtype):
    texts = ["infinity", "-infinity", "294276-12-31", "0044-03-15 BC", "1969-12-31", "2024-02-29"]
    values = ", ".join(f"({number}, '{text}'::{dtype})" for number, text in enumerate(texts))
    cells = io.read_table(f"{url}?query=select x from (values {values}) as v (n, x) order by n")["x"]
    assert cells.is_null().to_pylist() == [True, True, dtype != "date", False, False, False]
    assert [str(cell)[:10] for cell in cells[4:].to_pylist()] == ["1969-12-31", "2024-02-29"]


def test_an_infinite_number_is_missing(url):
    cells = io.read_table(f"{url}?query=select x from (values (1.5), ('Infinity'::numeric), ('NaN')) as v (x)")["x"]
    assert [None if cell is None else float(cell) for cell in cells.to_pylist()] == [1.5, None, None]


def test_a_table_comes_back_as_it_was_written(url):
    table = pa.table(
        {
            "small": pa.array([1, None, -(2**15)], pa.int16()),
            "long": pa.array([2**63 - 1, None, -(2**63)], pa.int64()),
            "unsigned": pa.array([2**64 - 1, None, 0], pa.uint64()).cast(pa.decimal128(20, 0)),
            "float": [0.1, None, -1e-300],
            "single": pa.array([0.1, None, 3e38], pa.float32()),
            "text": ["", None, 'a,"b\n\\.\r\n'],
            "truth": [True, None, False],
            "day": [dt.date(2024, 2, 29), None, dt.date(1, 1, 1)],
            "time": pa.array([1, None, -1], pa.timestamp("us")),
            "instant": pa.array([1, None, -1], pa.timestamp("us", "UTC")),
            "span": pa.array([1, None, -(10**12)], pa.duration("us")),
            "money": [Decimal("1.50"), None, Decimal("-0.01")],
            "bytes": [b"\0\xff", None, b""],
        }
    )
    for name in NAMES:
        io.write_table(f"{url}#{name}", table.rename_columns([*NAMES, *table.column_names[len(NAMES) :]]))
        assert io.read_table(f"{url}#{name}").rename_columns(table.column_names).equals(table), name
    assert set(tables(url)) == {*NAMES, "kept"}


def test_other_types_are_written_as_the_nearest(url):
    table = pa.table(
        {
            "category": pa.array(["x", None]).dictionary_encode(),
            "zoned": pa.array([0, None], pa.timestamp("ns", "Europe/Berlin")),
            "list": [[1, 2], None],
            "nothing": pa.nulls(2),
            "unsigned": pa.array([2**64 - 1, None], pa.uint64()),
        }
    )
    io.write_table(f"{url}#t", table)
    back = io.read_table(f"{url}#t").to_pydict()
    assert back["category"] == ["x", None]
    assert back["zoned"][0].timestamp() == 0
    assert back["list"] == ["[1, 2]", None]
    assert back["nothing"] == [None, None]
    assert back["unsigned"] == [2**64 - 1, None]


def test_chunks_have_their_size_and_the_order_of_the_table(url):
    execute(url, "CREATE TABLE t AS SELECT i, nullif(i % 3, 0) AS r FROM generate_series(0, 999) AS i")
    with io.open_source(f"{url}#t") as source:
        chunks = [chunk.table for chunk in source.chunks(300)]
        assert [chunk.num_rows for chunk in chunks] == [300, 300, 300, 100]
        assert pa.concat_tables(chunks)["i"].to_pylist() == list(range(1000))
        assert next(source.chunks(10, row_offset=990)).table["i"].to_pylist() == list(range(990, 1000))
        assert list(source.chunks(10, row_offset=1000)) == []
    assert io.read_table(f"{url}&query=select 1 as x where false").num_rows == 0


@pytest.mark.parametrize("row", ["null", "''"])
def test_a_column_of_empty_cells_keeps_its_rows(url, row):
    execute(url, f"CREATE TABLE t AS SELECT {row}::text AS x FROM generate_series(1, 5)")
    assert io.read_table(f"{url}#t")["x"].to_pylist() == [None if row == "null" else ""] * 5


def test_schemas(url):
    execute(url, "CREATE SCHEMA sales", "CREATE TABLE sales.orders AS SELECT 1 AS x")
    assert io.read_table(f"{url}#sales.orders")["x"].to_pylist() == [1]
    assert io.read_table(f"{url}#public.kept").num_rows == 9
    with pytest.raises(TableFileError, match=r"has no table 'orders'. Did you mean 'sales.orders'"):
        io.read_table(f"{url}#orders")
    io.write_table(f"{url}#sales.more", pa.table({"x": [2]}))
    io.write_table(f"{url}#nowhere.more", pa.table({"x": [3]}))
    assert io.read_table(f"{url}#sales.more")["x"].to_pylist() == [2]
    assert tables(url)["nowhere.more"] == 1


def test_names_differ_by_the_case_of_letters(url):
    io.write_table(f"{url}#Kept", pa.table({"x": [1], "X": [2]}))
    assert io.read_table(f"{url}#Kept").to_pydict() == {"x": [1], "X": [2]}
    with pytest.raises(TableFileError, match="Did you mean"):
        io.read_table(f"{url}#KEPT")


def test_an_existing_table_is_replaced_only_by_force_and_a_view_never(url):
    execute(url, "CREATE TABLE t AS SELECT 1 AS x", "CREATE VIEW v AS SELECT 1 AS x")
    for name, words in (("t", "already has a table 't'"), ("v", "views are not replaced")):
        with pytest.raises(TableFileError, match=words):
            io.write_table(f"{url}#{name}", pa.table({"y": [2]}))
    with pytest.raises(TableFileError, match="views are not replaced"):
        io.write_table(f"{url}#v", pa.table({"y": [2]}), force=True)
    io.write_table(f"{url}#t", pa.table({"y": [2]}), force=True)
    assert io.read_table(f"{url}#t").to_pydict() == {"y": [2]}
    execute(url, "CREATE VIEW w AS SELECT * FROM t")
    with pytest.raises(TableFileError, match="cannot drop table t because other objects depend on it"):
        io.write_table(f"{url}#t", pa.table({"z": [3]}), force=True)
    assert io.read_table(f"{url}#w").to_pydict() == {"y": [2]}
    assert set(tables(url)) == {"kept", "t"}


@pytest.mark.parametrize(
    "query",
    [
        "select 1 as a; drop table kept",
        "select 1) as x; drop table kept; --",
        "select 1) as x; commit; drop table kept; --",
        "select 1 as a /*",
        "select 1 as a; -- the first",
        "drop table kept",
        "commit",
        "delete from kept returning x",
        "with gone as (delete from kept returning x) select * from gone",
        "select setval(pg_get_serial_sequence('kept', 'x'), 1), nothing as a",
        "copy kept to program 'true'",
        "select",
        "select 1 as a, 2 as a",
        "select 1 / (x - 5) as a from kept",
        "select nothing from nowhere",
        "",
    ],
)
def test_a_query_that_is_not_one_select_is_one_error(url, query):
    with pytest.raises((TableFileError, InvalidTable)):
        io.read_table(f"{url}&query={query}")


def test_a_function_that_writes_does_not_write(url):
    function = "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'DELETE FROM kept; SELECT 1'"
    execute(url, function)
    with pytest.raises(TableFileError, match="read-only transaction"):
        io.read_table(f"{url}&query=select f() as x")


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("select x from kept where x > 7 order by x desc", [9, 8]),
        ("select x from kept where x::text like '9%'", [9]),
        ("select%20x%20from%20kept%20where%20x%20%3E%208", [9]),
        ("select x from kept where x = 1 -- the first", [1]),
        ("values (5), (4)", [5, 4]),
        ("with few as (select x from kept limit 1) select * from few;", [1]),
    ],
)
def test_a_query_is_a_table(url, query, values):
    assert io.read_table(f"{url}&query={query}")[0].to_pylist() == values


def test_a_query_cannot_be_written(url):
    with pytest.raises(TableFileError, match="is a query, which can only be read"):
        io.write_table(f"{url}&query=select 1 as x", pa.table({"x": [1]}))


def test_long_cells_and_many_columns(url):
    execute(url, "CREATE TABLE t AS SELECT repeat('ä', 2000000) AS long, 1 AS x FROM generate_series(1, 2)")
    assert [len(text) for text in io.read_table(f"{url}#t")["long"].to_pylist()] == [2_000_000] * 2
    wide = pa.table({f"c{number}": [number] for number in range(1700)})
    with pytest.raises(TableFileError, match="at most 1600 columns"):
        io.write_table(f"{url}#wide", wide)
    assert io.read_table(f"{url}&query=select 1e50::numeric as x")["x"].to_pylist() == [1e50]


def test_what_postgresql_would_change_is_an_error(url):
    for table, words in (
        (pa.table({"x" * 64: [1]}), "at most 63 bytes"),
        (pa.table({"x": ["a\0b"]}), "0x00"),
        (pa.table({"x": pa.array([1], pa.timestamp("ns"))}), "would lose data"),
    ):
        with pytest.raises(TableFileError, match=words):
            io.write_table(f"{url}#t", table)
    with pytest.raises(TableFileError, match="at most 63 bytes"):
        io.write_table(f"{url}#{'ä' * 40}", pa.table({"x": [1]}))
    assert set(tables(url)) == {"kept"}


def test_an_error_leaves_nothing_behind(url):
    for force in (False, True):
        with pytest.raises(RuntimeError), io.open_writer(f"{url}#t", force) as writer:
            writer.write(pa.table({"x": [1]}))
            raise RuntimeError
        assert set(tables(url)) == {"kept"}
    with pytest.raises(RuntimeError), io.open_writer(f"{url}#kept", force=True) as writer:
        writer.write(pa.table({"x": [1]}))
        raise RuntimeError


def disconnect_others(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'harpoon' AND pid <> "
            "pg_backend_pid()"
        )


def test_a_connection_that_breaks_while_a_table_is_written(url, caplog):
    for name, force in (("t", False), ("kept", True)):
        with pytest.raises(TableFileError, match="cannot be written"), io.open_writer(f"{url}#{name}", force) as writer:
            writer.write(pa.table({"x": [1]}))
            disconnect_others(url)
            writer.write(pa.table({"x": [2]}))
        assert set(tables(url)) == {"kept"}
    with pytest.raises(TableFileError, match="cannot be written"), io.open_writer(f"{url}#t") as writer:
        writer.write(pa.table({"x": [1]}))
        disconnect_others(url)
    assert set(tables(url)) == {"kept"}
    assert caplog.records == []  # the error is all that is said: Python prints what a library logs without a handler


def test_a_connection_that_breaks_while_rows_are_sent(url, caplog):
    """The rows are larger than what the system holds back, so that the break is noticed within COPY."""
    rows = pa.table({"s": ["x" * 1000] * 100_000})
    with pytest.raises(TableFileError, match="cannot be written"), io.open_writer(f"{url}#t") as writer:
        writer.write(rows.slice(0, 1))
        copy = writer.cursor.copy
        writer.cursor = SimpleNamespace(copy=partial(broken_copy, copy, url))
        writer.write(rows)
    assert set(tables(url)) == {"kept"}
    assert caplog.records == []


@contextmanager
def broken_copy(copy, url, statement):
    with copy(statement) as writing:
        disconnect_others(url)
        yield writing


def test_a_connection_that_breaks_while_a_table_is_read(url):
    many = f"{url}&query=select i, repeat('x', 1000) as s from generate_series(1, 200000) as i"
    with io.open_source(many) as source, pytest.raises(TableFileError, match="cannot be read"):
        for _ in source.chunks(1000):
            disconnect_others(url)
    with io.open_source(many) as source:  # a reader that stops early leaves no connection behind
        chunks = source.chunks(10)
        assert next(chunks).table.num_rows == 10
        chunks.close()
    with psycopg.connect(url) as connection:
        harpoon = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'harpoon' AND state = 'active'"
        assert connection.execute(harpoon).fetchone() == (0,)


def test_passwords_are_not_shown():
    for url in (
        "postgresql://ann:secret@localhost:1/shop#t",
        "postgresql://ann:se@cr@secret@local host:x/shop#t",
        "postgresql://ann:secret@[/shop#t",
        "postgres:///shop?host=/nowhere&password=secret#t",
        "postgresql://ann:secret@localhost",
        "mysql://ann:secret@localhost/shop#t",
    ):
        with pytest.raises(TableFileError) as caught:
            io.read_table(url)
        assert "secret" not in str(caught.value)
    assert "secret" not in repr(io.Location.parse("postgresql://ann:secret@host/shop#t"))


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r'pip install -c constraints\.txt "\.\[postgres\]"'):
        io.read_table("postgresql://host/shop#t")


def test_rules_are_not_read_from_postgresql(url):
    done = call("rules", f"{url}#kept")
    assert done.code == 1
    assert "rules are read from tables of DuckDB and SQLite" in done.said.replace("\n", " ")


@pytest.fixture(scope="module")
def model(arrow_fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.harpoon"
    arrow_fitted.model.save(path)
    return path


def test_the_command_line_gives_the_rows_of_python(url, arrow_fitted, model, tmp_path):
    table, fitted = arrow_fitted.table, arrow_fitted.model
    io.write_table(f"{url}#holes", table)
    assert call("impute", model, f"{url}#holes", "-o", f"{url}#filled").code == 0
    filled = io.read_table(f"{url}#filled")
    expected = fitted.impute(io.read_table(f"{url}#holes"))
    assert filled.to_pydict() == expected.to_pydict()
    assert sum(column.null_count for column in filled.columns) == 0
    # A table may take the place of the one that it is made from.
    assert call("impute", model, f"{url}#holes", "-o", f"{url}#holes", "--force").code == 0
    assert io.read_table(f"{url}#holes").to_pydict() == filled.to_pydict()
    name = table.column_names[0]
    done = call("sample", model, "-n", 50, "--seed", 7, "-o", f"{url}#sampled")
    assert done.code == 0, done.said
    assert io.read_table(f"{url}#sampled")[name].to_pylist() == fitted.sample(50, random_state=7)[name].to_pylist()


def test_fit_reads_a_query(url, tmp_path):
    execute(url, "CREATE TABLE t AS SELECT i % 7 AS a, (i % 2 = 0) AS even, i AS id FROM generate_series(1, 300) AS i")
    query = f"{url}&query=select a, even from t where id <= 200 order by id"
    models = [tmp_path / "one.harpoon", tmp_path / "two.harpoon"]
    io.write_table(tmp_path / "rows.parquet", io.read_table(query))
    for source, path in zip((query, tmp_path / "rows.parquet"), models, strict=True):
        done = call("fit", source, "-o", path, "--max-epochs", 1, "--seed", 1, "--option", "hidden=16", "-q")
        assert done.code == 0, done.said
    sampled = [call("sample", path, "-n", 20, "--seed", 3).out for path in models]
    assert sampled[0] == sampled[1]
