"""Queries of DuckDB and SQLite as tables: `duckdb:///file.db?query=select ...`."""

import pyarrow as pa
import pytest

from harpoon import InvalidTable, TableFileError, io
from harpoon.io import Location

ROWS = pa.table({"x": [1, 2, 3, 4], "s": ["a", "b", None, "20% #4"]})


@pytest.fixture(params=["duckdb", "sqlite"])
def url(request, tmp_path):
    """The URL of a database with one table, which no query changes."""
    location = f"{request.param}:///{tmp_path}/rows.db"
    io.write_table(f"{location}#kept", ROWS)
    yield location
    assert io.read_table(f"{location}#kept").to_pydict() == ROWS.to_pydict()
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".wal")] == ["rows.db"]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select x from kept where x > 2 order by x desc", [4, 3]),
        ("select x from kept where s like '%#%'", [4]),
        ("select%20x%20from%20kept%20where%20s%20%3D%20%27b%27;", [2]),
        ("select sum(x) as x from kept -- all of them", [10]),
        ("with few as (select * from kept limit 1) select x from few ; ", [1]),
        ("select x from kept where false", []),
    ],
)
def test_the_result_of_a_query_is_a_table(url, query, rows):
    table = io.read_table(f"{url}?query={query}")
    assert table.column_names == ["x"]
    assert table["x"].to_pylist() == rows
    assert [part.num_rows for part in io.read_batches(f"{url}?query={query}", 1)] == [1] * len(rows)


@pytest.mark.parametrize(
    "query",
    [
        "select 1 as a; drop table kept",
        "select 1); drop table kept; --",
        "drop table kept",
        "delete from kept",
        "delete from kept returning x",
        "insert into kept values (5, 'c')",
        "create table more as select 1 as a",
        "attach 'other.db' as other",
        "pragma user_version = 3",
        "copy kept to 'kept.csv'",
        "vacuum",
        "begin",
        "select nothing from kept",
        "select * from ROWS_OF_PYTHON",
        "select",
        "no sql at all '",
        "",
    ],
)
def test_a_query_that_is_not_one_select_is_one_error(url, query, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(globals(), "ROWS_OF_PYTHON", ROWS)  # DuckDB would find a table of this name
    with pytest.raises((TableFileError, InvalidTable)):
        io.read_table(f"{url}?query={query}")


def test_a_query_cannot_be_written(url):
    with pytest.raises(TableFileError, match="is a query, which can only be read"):
        io.write_table(f"{url}?query=select 1 as x", ROWS)
    with pytest.raises(TableFileError, match="is a query, which can only be read"):
        io.write_table(f"{url}?query=select 1 as x", ROWS, force=True)


def test_a_query_is_the_rest_of_the_url():
    location = Location.parse("sqlite:///a?b.db?query=select '#t' as x, '&y' as y")
    assert str(location.path) == "a?b.db"
    assert location.query == "select '#t' as x, '&y' as y"
    assert Location.parse("sqlite:///a.db#t?query=x").table == "t?query=x"
    server = Location.parse("postgres://ann@host/shop?sslmode=require&query=select 1")
    assert (server.server, server.query, server.path) == (
        "postgresql://ann@host/shop?sslmode=require",
        "select 1",
        None,
    )


def test_a_table_of_the_main_schema_of_duckdb_may_be_named_with_it(tmp_path):
    location = f"duckdb:///{tmp_path}/rows.db#main.kept"
    io.write_table(location, ROWS)
    assert io.read_table(location).to_pydict() == ROWS.to_pydict()
    with pytest.raises(TableFileError, match="already has a table"):
        io.write_table(location, ROWS)
    io.write_table(location, ROWS[:1], force=True)
    assert io.read_table(f"duckdb:///{tmp_path}/rows.db#kept").num_rows == 1
