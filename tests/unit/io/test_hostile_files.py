"""Difficult table files: values pass through, and errors are one sentence."""

import decimal
import os
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from harpoon import InvalidTable, TableFileError, io
from harpoon.exceptions import MixedTypesWarning
from harpoon.io.location import Location
from tests.support.sqlite_files import create_database, query

ROWS = pa.table({"x": [1, 2, 3]})


def copy_table(source: str, target: str, size: int = 2000) -> None:
    with io.open_source(source) as table, io.open_writer(target, force=True) as out:
        for part in table.chunks(size):
            out.write(part.table)


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
@pytest.mark.parametrize("target", ["copy", "big"])
def test_a_large_table_is_copied_within_its_database(tmp_path, scheme, target):
    """It is larger than the cache of SQLite, about 2 MB. The target may be the source."""
    url = f"{scheme}:///{tmp_path}/b.db"
    io.write_table(f"{url}#big", pa.table({"i": range(20_000), "pad": ["x" * 200] * 20_000}))
    copy_table(f"{url}#big", f"{url}#{target}")
    assert io.read_table(f"{url}#{target}", ["i"])["i"].to_pylist() == list(range(20_000))


def test_values_that_one_column_cannot_hold_are_reported(tmp_path):
    """Numbers and texts, bytes and texts, floats and integers that no float holds."""
    columns = {"mixed": [1, "1"], "bytes": [b"\x00\xff", "x"], "wide": [2**60 + 1, 0.5], "fine": [1, 2.5]}
    path = create_database(tmp_path / "a.db", columns)
    with pytest.warns(MixedTypesWarning, match="'mixed', 'bytes', 'wide', such as"):
        back = io.read_table(f"sqlite:///{path}#t")
    assert back["mixed"].to_pylist() == ["1", "1"]
    assert back["bytes"].to_pylist() == ["00ff", "x"]


def test_decimals_are_numbers_in_json_lines(tmp_path):
    cents = [decimal.Decimal("12345678901234567.89"), None, decimal.Decimal("-0.10")]
    table = pa.table(
        {
            "price": pa.array(cents, pa.decimal128(20, 2)),
            "pair": [[1.0, float("nan")], None, []],
            "took": pa.array([5, 6, None], pa.duration("s")),
        }
    )
    io.write_table(tmp_path / "a.jsonl", table)
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert lines[0] == '{"price": 12345678901234567.89, "pair": [1.0, null], "took": 5}'
    assert io.read_table(tmp_path / "a.jsonl")["price"].to_pylist() == [float(cents[0]), None, -0.1]


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_structures_with_null_fields_pass_through(tmp_path, name, size):
    table = pa.table({"i": range(100), "inner": [{"a": i, "b": None} for i in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=37)
    pa.feather.write_feather(table, tmp_path / "a.feather", chunksize=37)
    for target in ("b.parquet", "b.feather"):
        copy_table(str(tmp_path / name), str(tmp_path / target), size)
        assert io.read_table(tmp_path / target).to_pylist() == table.to_pylist()


def duckdb_with_schemas_and_views(folder: Path) -> str:
    with duckdb.connect(folder / "a.duck") as connection:
        connection.execute("CREATE TABLE pen AS SELECT 1 AS a; CREATE VIEW v AS SELECT * FROM pen")
        connection.execute(
            'CREATE SCHEMA other; CREATE TABLE other.hid AS SELECT 7 AS a; CREATE TABLE "dot.ted" AS SELECT 2 AS a'
        )
    return f"duckdb:///{folder}/a.duck"


def sqlite_with_a_view(folder: Path) -> str:
    path = create_database(folder / "a.db", {"a": [1]}, table="pen")
    query(path, "CREATE VIEW v AS SELECT * FROM pen")
    return f"sqlite:///{path}"


@pytest.mark.parametrize("create", [duckdb_with_schemas_and_views, sqlite_with_a_view])
def test_table_names_ignore_case_and_views_are_not_replaced(tmp_path, create):
    url = create(tmp_path)
    with pytest.raises(TableFileError, match="'v' is a view, and views are not replaced"):
        io.write_table(f"{url}#V", ROWS, force=True)
    with pytest.raises(TableFileError, match=r"already has a table 'pen'"):
        io.write_table(f"{url}#PEN", ROWS)
    assert io.read_table(f"{url}#PEN").to_pydict() == {"a": [1]}
    io.write_table(f"{url}#PEN", ROWS, force=True)
    assert io.read_table(f"{url}#pen").to_pydict() == ROWS.to_pydict()
    io.write_table(f"{url}#harpoon_rows", ROWS)
    io.write_table(f"{url}#made", ROWS)
    copy_table(f"{url}#harpoon_rows", f"{url}#made", 1)
    assert io.read_table(f"{url}#made").to_pydict() == ROWS.to_pydict()


def test_schemas_of_duckdb(tmp_path):
    url = duckdb_with_schemas_and_views(tmp_path)
    assert io.read_table(f"{url}#other.hid").to_pydict() == {"a": [7]}
    assert io.read_table(f"{url}#dot.ted").to_pydict() == {"a": [2]}
    with pytest.raises(TableFileError, match=r"'other\.hid'"):
        io.read_table(f"{url}#hid")
    with pytest.raises(TableFileError, match=r"already has a table 'other\.hid'"):
        io.write_table(f"{url}#other.hid", ROWS)
    io.write_table(f"{url}#other.hid", ROWS, force=True)
    io.write_table(f"{url}#other.new", ROWS)
    io.write_table(f"{url}#no.schema", ROWS)
    with duckdb.connect(tmp_path / "a.duck") as connection:
        rows = connection.execute("SELECT table_schema, table_name FROM information_schema.tables").fetchall()
    assert set(rows) >= {("other", "hid"), ("other", "new"), ("main", "no.schema")}
    assert io.read_table(f"{url}#other.hid").to_pydict() == ROWS.to_pydict()


@pytest.mark.parametrize("create", [duckdb_with_schemas_and_views, sqlite_with_a_view])
def test_an_existing_table_is_refused_before_any_work(tmp_path, create):
    place = Location.parse(f"{create(tmp_path)}#pen")
    with pytest.raises(TableFileError, match="already has a table 'pen'"):
        io.check_writable(place, force=False)
    io.check_writable(place, force=True)


def test_errors_of_the_database_are_write_errors(tmp_path):
    url = sqlite_with_a_view(tmp_path)
    with pytest.raises(TableFileError, match="cannot be written: object name reserved"):
        io.write_table(f"{url}#sqlite_mine", ROWS)
    with pytest.raises(TableFileError, match="cannot be written: duplicate column"):
        io.write_table(f"{url}#t", pa.table({"a": [1], "A": [2]}))
    with pytest.raises(TableFileError, match=r"cannot be written: .* 'a' and 'A'"):
        io.write_table(f"{duckdb_with_schemas_and_views(tmp_path)}#t", pa.table({"a": [1], "A": [2]}))


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_a_file_that_is_not_a_database_is_left_alone(tmp_path, scheme):
    path = tmp_path / "p.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TableFileError, match=r"cannot be read: the file is not a (DuckDB|SQLite) database"):
        io.read_table(f"{scheme}:///{path}#p")
    with pytest.raises(TableFileError, match=r"cannot be written: the file is not a (DuckDB|SQLite) database"):
        io.write_table(f"{scheme}:///{path}#x", ROWS)
    assert path.read_text() == "a,b\n1,2\n"
    assert list(tmp_path.iterdir()) == [path]


def test_integers_beyond_64_bits_are_refused_by_sqlite(tmp_path):
    with pytest.raises(TableFileError, match=r"no integers beyond .* 'u' has 18446744073709551615"):
        io.write_table(f"sqlite:///{tmp_path}/u.db#t", pa.table({"a": [1], "u": pa.array([2**64 - 1], pa.uint64())}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", [r'{"a": "x\ud800y"}', r'{"\uDC00": 1}', r'{"a": {"b": ["\ud83d"]}}'])
def test_unpaired_surrogates_are_named_with_their_line(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "\\ud83d\\ude00"}\n' + line)
    with pytest.raises(InvalidTable, match=r"Line 2 of .*a\.jsonl' has \\ud\w{3}, which is half of a character"):
        io.read_table(path)
    path.write_text('{"a": "\\ud83d\\ude00"}\n')
    assert io.read_table(path)["a"].to_pylist() == ["\U0001f600"]


def test_json_lines_cannot_hold_a_table_without_rows(tmp_path):
    io.write_table(tmp_path / "a.jsonl", ROWS.slice(3))
    with pytest.raises(InvalidTable, match=r"is empty. JSON lines without a line have no columns; CSV or Parquet"):
        io.read_table(tmp_path / "a.jsonl")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no devices with names")
def test_devices_are_refused_and_pipes_are_not(tmp_path):
    for device in ("/dev/zero", "/dev/null"):
        with pytest.raises(TableFileError, match=f"'{device}' is a device"):
            io.read_table(device)
    ends = os.pipe()
    os.write(ends[1], b"a,b\n1,2\n")
    os.close(ends[1])
    assert io.read_table(f"/dev/fd/{ends[0]}").to_pydict() == {"a": [1], "b": [2]}
    os.close(ends[0])


def test_a_failed_writer_does_not_remove_the_table_of_another(tmp_path):
    """Two writers to one new database: two processes with SQLite, two draws with DuckDB."""
    for scheme in ("sqlite", "duckdb"):
        url = f"{scheme}:///{tmp_path}/{scheme}.db"
        with pytest.raises(KeyboardInterrupt):
            fail_beside(url)
        assert io.read_table(f"{url}#good").to_pydict() == ROWS.to_pydict()


def fail_beside(url: str) -> None:
    with io.open_writer(f"{url}#bad") as bad:
        bad.write(ROWS)
        io.write_table(f"{url}#good", ROWS)
        raise KeyboardInterrupt
