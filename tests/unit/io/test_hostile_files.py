"""Table files made to break things: what is passed on stays as it was, and what cannot be done is one sentence."""

import decimal
import json
import os
import sqlite3
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from harpoon import Harpoon, InvalidTable, TableFileError, io
from harpoon.apps.cli import app
from harpoon.exceptions import MixedTypesWarning
from harpoon.io.location import Location

ROWS = pa.table({"x": [1, 2, 3]})
HARD = {
    "blob": [b"\x00\xff", b"plain"],
    "moment": ["2024-01-05T10:00:00+02:00", "2024-01-05 10:00:00"],
    "number": [1, 2.5],
    "digits": ["0012", "12"],
    "large": [2**60 + 1, 5],
    "gone": [None, None],
}
BLOCK_SIZE, STACK = "--block-size", "--stack-draws"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Trained on numbers, days and labels."""
    days = [f"2024-01-{1 + i % 28:02}" for i in range(60)]
    table = pa.table(
        {
            "size": [float(i % 7) for i in range(60)],
            "kind": ["a", "b", "c"] * 20,
            "day": pa.array(days).cast(pa.date32()),
        }
    )
    path = tmp_path_factory.mktemp("model") / "m.harpoon"
    Harpoon(max_epochs=2, progress=False, random_state=0).fit(table).save(path)
    return path


def run(*arguments: object) -> str:
    """What the command says; it has to go well."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def database(path: Path, columns: dict[str, list], *, table: str = "t", types: str = "") -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table} ({types or ', '.join(columns)})")
        places = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} VALUES ({places})", zip(*columns.values(), strict=True))  # noqa: S608
        connection.commit()
    return path


def queried(path: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def copied(source: str, target: str, size: int = 2000) -> None:
    with io.open_source(source) as table, io.open_writer(target, force=True) as out:
        for part in table.chunks(size):
            out.write(part.table)


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
@pytest.mark.parametrize("target", ["copy", "big"])
def test_a_large_table_is_copied_within_its_database(tmp_path, scheme, target):
    """Beyond the cache of SQLite, about 2 MB, and onto itself."""
    url = f"{scheme}:///{tmp_path}/b.db"
    io.write_table(f"{url}#big", pa.table({"i": range(20_000), "pad": ["x" * 200] * 20_000}))
    copied(f"{url}#big", f"{url}#{target}")
    assert io.read_table(f"{url}#{target}", ["i"])["i"].to_pylist() == list(range(20_000))


def test_values_of_sqlite_pass_through(tmp_path, model):
    columns = {"size": [None, 2], "kind": ["b", None], "day": ["2024-01-05", None], **HARD}
    path = database(
        tmp_path / "a.db",
        columns,
        types="size REAL, kind TEXT, day DATE, blob BLOB, moment, number, digits VARCHAR(9), large, gone",
    )
    run("impute", model, f"sqlite:///{path}#t", "-o", f"sqlite:///{path}#filled", BLOCK_SIZE, 1)
    names = ", ".join(HARD)
    before, after = (queried(path, f"SELECT {names} FROM {table}") for table in ("t", "filled"))  # noqa: S608
    assert before == after
    (first, second) = queried(path, "SELECT size, kind, day FROM filled")
    assert first[1:] == ("b", "2024-01-05")
    assert isinstance(first[0], float)
    assert second[0] == 2
    assert second[1] in "abc"
    assert second[2].startswith("2024-01-")


def test_instants_pass_through_as_the_same_instants(tmp_path, model):
    zoned = ["2024-01-05T10:00:00+02:00", "2024-01-06T10:00:00+02:00"]
    path = database(tmp_path / "a.db", {"size": [1, 2], "kind": ["b"] * 2, "day": ["2024-01-05"] * 2, "zoned": zoned})
    run("impute", model, f"sqlite:///{path}#t", "-o", f"sqlite:///{path}#filled")
    after = [datetime.fromisoformat(zoned) for (zoned,) in queried(path, "SELECT zoned FROM filled")]
    assert after == [datetime.fromisoformat(instant) for instant in zoned]


def test_values_of_json_lines_pass_through(tmp_path, model):
    rows = [
        {"size": 1, "kind": None, "day": "2024-01-05", "in": {"a": [1, {"b": None}]}, "large": 2**70, "flag": True},
        {"size": None, "kind": "a", "day": None, "in": [True, 2**70, "ü"], "large": 7, "flag": 0, "late": "0012"},
        {"kind": "b", "size": 2.5, "day": "2024-01-07"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("impute", model, tmp_path / "a.jsonl", "-o", tmp_path / "b.jsonl")
    back = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    for before, after in zip(rows, back, strict=True):
        assert {name: after[name] for name, value in before.items() if value is not None} == {
            name: value for name, value in before.items() if value is not None
        }
        assert None not in (after["size"], after["kind"], after["day"])
    assert back[0]["flag"] is True
    assert back[1]["flag"] == 0
    assert back[2]["in"] is None  # an absent key is a missing cell


def test_values_that_one_column_cannot_hold_are_reported(tmp_path):
    """Numbers and texts, bytes and texts, floats and integers that no float holds."""
    columns = {"mixed": [1, "1"], "bytes": [b"\x00\xff", "x"], "wide": [2**60 + 1, 0.5], "fine": [1, 2.5]}
    path = database(tmp_path / "a.db", columns)
    with pytest.warns(MixedTypesWarning, match="'mixed', 'bytes', 'wide', such as"):
        back = io.read_table(f"sqlite:///{path}#t")
    assert back["mixed"].to_pylist() == ["1", "1"]
    assert back["bytes"].to_pylist() == ["00ff", "x"]


def test_from_sqlite_to_json_lines_and_back(tmp_path, model):
    """Bytes are hex digits in JSON; lists and objects are JSON texts in SQLite."""
    path = database(tmp_path / "a.db", {"size": [1, 2], "kind": ["b", None], "day": ["2024-01-05"] * 2, **HARD})
    run("impute", model, f"sqlite:///{path}#t", "-o", tmp_path / "a.jsonl")
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert {name: first[name] for name in HARD} == {name: values[0] for name, values in HARD.items()} | {"blob": "00ff"}
    (tmp_path / "b.jsonl").write_text('{"size": 1, "kind": "a", "day": null, "in": {"a": [1]}, "code": "012"}\n')
    run("impute", model, tmp_path / "b.jsonl", "-o", f"sqlite:///{path}#b")
    assert queried(path, 'SELECT size, kind, "in", code FROM b') == [(1, "a", '{"a": [1]}', "012")]


@pytest.mark.parametrize("url", ["sqlite:///{}/d.db", "duckdb:///{}/d.db"])
def test_several_draws_go_into_one_database(tmp_path, model, url):
    (tmp_path / "a.csv").write_text("size,kind,day\n1,,2024-01-05\n,b,2024-01-05\n")
    run("impute", model, tmp_path / "a.csv", "-o", url.format(tmp_path) + "#t", "--draws", 2)
    for number in (1, 2):
        back = io.read_table(f"{url.format(tmp_path)}#t_{number}")
        assert back.num_rows == 2
        assert back.select(["size", "kind"])["size"].null_count == 0


def test_stacked_draws_repeat_the_observed_values(tmp_path, model):
    path = database(tmp_path / "a.db", {"size": [None, 2], "kind": ["b", None], "day": ["2024-01-05"] * 2, **HARD})
    run("impute", model, f"sqlite:///{path}#t", "-o", f"sqlite:///{path}#s", "--draws", 2, STACK)
    assert queried(path, "SELECT draw, blob, number FROM s") == [
        (1, b"\x00\xff", 1), (2, b"\x00\xff", 1), (1, b"plain", 2.5), (2, b"plain", 2.5),
    ]  # fmt: skip


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
def test_structures_without_values_are_passed_on(tmp_path, name, size):
    table = pa.table({"i": range(100), "inner": [{"a": i, "b": None} for i in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=37)
    pa.feather.write_feather(table, tmp_path / "a.feather", chunksize=37)
    for target in ("b.parquet", "b.feather"):
        copied(str(tmp_path / name), str(tmp_path / target), size)
        assert io.read_table(tmp_path / target).to_pylist() == table.to_pylist()


def duck_with_everything(folder: Path) -> str:
    with duckdb.connect(folder / "a.duck") as connection:
        connection.execute("CREATE TABLE pen AS SELECT 1 AS a; CREATE VIEW v AS SELECT * FROM pen")
        connection.execute(
            'CREATE SCHEMA other; CREATE TABLE other.hid AS SELECT 7 AS a; CREATE TABLE "dot.ted" AS SELECT 2 AS a'
        )
    return f"duckdb:///{folder}/a.duck"


def lite_with_everything(folder: Path) -> str:
    path = database(folder / "a.db", {"a": [1]}, table="pen")
    queried(path, "CREATE VIEW v AS SELECT * FROM pen")
    return f"sqlite:///{path}"


@pytest.mark.parametrize("made", [duck_with_everything, lite_with_everything])
def test_names_of_databases(tmp_path, made):
    url = made(tmp_path)
    with pytest.raises(TableFileError, match="'v' is a view, and views are not replaced"):
        io.write_table(f"{url}#V", ROWS, force=True)
    with pytest.raises(TableFileError, match=r"already has a table 'pen'"):
        io.write_table(f"{url}#PEN", ROWS)
    assert io.read_table(f"{url}#PEN").to_pydict() == {"a": [1]}
    io.write_table(f"{url}#PEN", ROWS, force=True)
    assert io.read_table(f"{url}#pen").to_pydict() == ROWS.to_pydict()
    io.write_table(f"{url}#harpoon_rows", ROWS)
    io.write_table(f"{url}#made", ROWS)
    copied(f"{url}#harpoon_rows", f"{url}#made", 1)
    assert io.read_table(f"{url}#made").to_pydict() == ROWS.to_pydict()


def test_schemas_of_duckdb(tmp_path):
    url = duck_with_everything(tmp_path)
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


@pytest.mark.parametrize("made", [duck_with_everything, lite_with_everything])
def test_a_table_that_is_there_is_refused_before_the_work(tmp_path, made):
    place = Location.parse(f"{made(tmp_path)}#pen")
    with pytest.raises(TableFileError, match="already has a table 'pen'"):
        io.check_writable(place, force=False)
    io.check_writable(place, force=True)


def test_what_cannot_be_written_is_said_to_be_written(tmp_path):
    url = lite_with_everything(tmp_path)
    with pytest.raises(TableFileError, match="cannot be written: object name reserved"):
        io.write_table(f"{url}#sqlite_mine", ROWS)
    with pytest.raises(TableFileError, match="cannot be written: duplicate column"):
        io.write_table(f"{url}#t", pa.table({"a": [1], "A": [2]}))
    with pytest.raises(TableFileError, match=r"cannot be written: .* 'a' and 'A'"):
        io.write_table(f"{duck_with_everything(tmp_path)}#t", pa.table({"a": [1], "A": [2]}))


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_a_file_that_is_no_database_is_left_alone(tmp_path, scheme):
    path = tmp_path / "p.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TableFileError, match=r"cannot be read: the file is not a (DuckDB|SQLite) database"):
        io.read_table(f"{scheme}:///{path}#p")
    with pytest.raises(TableFileError, match=r"cannot be written: the file is not a (DuckDB|SQLite) database"):
        io.write_table(f"{scheme}:///{path}#x", ROWS)
    assert path.read_text() == "a,b\n1,2\n"
    assert list(tmp_path.iterdir()) == [path]


def test_integers_beyond_sqlite(tmp_path):
    with pytest.raises(TableFileError, match=r"no integers beyond .* 'u' has 18446744073709551615"):
        io.write_table(f"sqlite:///{tmp_path}/u.db#t", pa.table({"a": [1], "u": pa.array([2**64 - 1], pa.uint64())}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", [r'{"a": "x\ud800y"}', r'{"\uDC00": 1}', r'{"a": {"b": ["\ud83d"]}}'])
def test_half_a_character_is_named_with_its_line(tmp_path, line):
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


def test_who_fails_does_not_remove_what_another_wrote(tmp_path):
    """Two writers of one new database, as two processes would be for SQLite, and two draws for DuckDB."""
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
