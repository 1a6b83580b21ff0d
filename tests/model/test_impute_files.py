"""Imputation of table files on the command line: observed values pass through unchanged."""

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from harpoon import Harpoon, io
from harpoon.apps.cli import app
from tests.support.sqlite_files import create_database, query

HARD = {
    "blob": [b"\x00\xff", b"plain"],
    "moment": ["2024-01-05T10:00:00+02:00", "2024-01-05 10:00:00"],
    "number": [1, 2.5],
    "digits": ["0012", "12"],
    "large": [2**60 + 1, 5],
    "gone": [None, None],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model of numbers, categories and dates."""
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
    """Run a command that must succeed, and return its output."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_values_of_sqlite_pass_through(tmp_path, model):
    columns = {"size": [None, 2], "kind": ["b", None], "day": ["2024-01-05", None], **HARD}
    path = create_database(
        tmp_path / "a.db",
        columns,
        types="size REAL, kind TEXT, day DATE, blob BLOB, moment, number, digits VARCHAR(9), large, gone",
    )
    run("impute", model, f"sqlite:///{path}#t", "-o", f"sqlite:///{path}#filled", "--block-size", 1)
    names = ", ".join(HARD)
    before, after = (query(path, f"SELECT {names} FROM {table}") for table in ("t", "filled"))  # noqa: S608
    assert before == after
    (first, second) = query(path, "SELECT size, kind, day FROM filled")
    assert first[1:] == ("b", "2024-01-05")
    assert isinstance(first[0], float)
    assert second[0] == 2
    assert second[1] in "abc"
    assert second[2].startswith("2024-01-")


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "sqlite"])
def test_cells_that_the_model_has_never_seen_stay(tmp_path, model, kind):
    days = [datetime(1850, 2, 3).date(), None, datetime(2999, 1, 1).date()]
    table = pa.table({"size": [1e300, None, -0.125], "kind": [" a ", "zebra", None], "day": days})
    source, output = (
        (f"sqlite:///{tmp_path}/a.db#{n}" if kind == "sqlite" else tmp_path / f"{n}.{kind}") for n in "tu"
    )
    io.write_table(source, table)
    said = run("impute", model, source, "-o", output)
    assert "' a ', 'zebra' in 2 cells, unknown to the model: ignored as an input and kept." in " ".join(said.split())
    back = io.read_table(output)
    for name, cells in table.to_pydict().items():
        pairs = zip(cells, back[name].to_pylist(), strict=True)
        assert all(after is not None and (before is None or str(before) == str(after)) for before, after in pairs)


def test_instants_pass_through_as_the_same_instants(tmp_path, model):
    zoned = ["2024-01-05T10:00:00+02:00", "2024-01-06T10:00:00+02:00"]
    path = create_database(
        tmp_path / "a.db", {"size": [1, 2], "kind": ["b"] * 2, "day": ["2024-01-05"] * 2, "zoned": zoned}
    )
    run("impute", model, f"sqlite:///{path}#t", "-o", f"sqlite:///{path}#filled")
    after = [datetime.fromisoformat(zoned) for (zoned,) in query(path, "SELECT zoned FROM filled")]
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


def test_from_sqlite_to_json_lines_and_back(tmp_path, model):
    """Bytes are hex digits in JSON; lists and objects are JSON texts in SQLite."""
    path = create_database(tmp_path / "a.db", {"size": [1, 2], "kind": ["b", None], "day": ["2024-01-05"] * 2, **HARD})
    run("impute", model, f"sqlite:///{path}#t", "-o", tmp_path / "a.jsonl")
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert {name: first[name] for name in HARD} == {name: values[0] for name, values in HARD.items()} | {"blob": "00ff"}
    (tmp_path / "b.jsonl").write_text('{"size": 1, "kind": "a", "day": null, "in": {"a": [1]}, "code": "012"}\n')
    run("impute", model, tmp_path / "b.jsonl", "-o", f"sqlite:///{path}#b")
    assert query(path, 'SELECT size, kind, "in", code FROM b') == [(1, "a", '{"a": [1]}', "012")]


@pytest.mark.parametrize("url", ["sqlite:///{}/d.db", "duckdb:///{}/d.db"])
def test_several_draws_go_into_one_database(tmp_path, model, url):
    (tmp_path / "a.csv").write_text("size,kind,day\n1,,2024-01-05\n,b,2024-01-05\n")
    run("impute", model, tmp_path / "a.csv", "-o", url.format(tmp_path) + "#t", "--draws", 2)
    for number in (1, 2):
        back = io.read_table(f"{url.format(tmp_path)}#t_{number}")
        assert back.num_rows == 2
        assert back.select(["size", "kind"])["size"].null_count == 0


def test_stacked_draws_repeat_the_observed_values(tmp_path, model):
    path = create_database(
        tmp_path / "a.db", {"size": [None, 2], "kind": ["b", None], "day": ["2024-01-05"] * 2, **HARD}
    )
    run("impute", model, f"sqlite:///{path}#t", "-o", f"sqlite:///{path}#s", "--draws", 2, "--stack-draws")
    assert query(path, "SELECT draw, blob, number FROM s") == [
        (1, b"\x00\xff", 1), (2, b"\x00\xff", 1), (1, b"plain", 2.5), (2, b"plain", 2.5),
    ]  # fmt: skip
