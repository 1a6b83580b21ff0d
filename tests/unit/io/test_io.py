"""Tables in files, on streams and in databases: round trips, inferred types, and errors."""

import datetime as dt
import gzip
import json
import os
import re
import sqlite3
import sys
from decimal import Decimal
from io import BytesIO, TextIOWrapper
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon import InvalidOption, InvalidTable, MissingExtra, TableFileError, io
from harpoon.exceptions import MixedTypesWarning
from harpoon.io import Location, ReadOptions
from harpoon.io.text_types import cast_texts

TYPED = pa.table(
    {
        "count": pa.array([1, None, -3]),
        "price": pa.array([1.5, 2.0, None]),
        "name": pa.array(["a, b", None, 'say "hi"\nthere']),
        "member": pa.array([True, None, False]),
        "day": pa.array([dt.date(2024, 1, 31), None, dt.date(1960, 2, 29)]),
        "time": pa.array([dt.datetime(2024, 1, 31, 12, 30), None, dt.datetime(2024, 1, 31, 12, 30, 0, 250000)]),
    }
)
NAMES = ("rows.csv", "rows.tsv", "rows.parquet", "rows.feather", "rows.arrow", "rows.jsonl")
URLS = ("duckdb:///{folder}/duck.db#it is", "sqlite:///{folder}/lite.db#it is")


def locations(folder: Path) -> list[str]:
    return [str(folder / f"{name}{packed}") for name in NAMES for packed in ("", ".gz")] + [
        url.format(folder=folder) for url in URLS
    ]


def text_file(folder: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def write_and_fail(location: str, error: type[BaseException], **how) -> None:
    with io.open_writer(location, **how) as out:
        out.write(TYPED)
        raise error("in the middle")


def types_of(table: pa.Table) -> list[str]:
    return [str(f.type) for f in table.schema]


@pytest.mark.parametrize("number", range(14))
def test_a_table_comes_back_from_every_location(tmp_path, number):
    location = locations(tmp_path)[number]
    io.write_table(location, TYPED)
    back = io.read_table(location)
    expected = TYPED
    if location.startswith("sqlite"):  # it has no truth values
        expected = TYPED.set_column(3, "member", pa.array([1, None, 0]))
    assert back.to_pydict() == expected.to_pydict()
    assert back.schema.names == TYPED.schema.names


@pytest.mark.parametrize("number", range(14))
def test_batches_are_the_rows_in_order_and_of_one_type(tmp_path, number):
    location = locations(tmp_path)[number]
    whole = pa.table({"i": range(2500), "x": [None if i % 7 == 0 else i / 4 for i in range(2500)]})
    with io.open_writer(location) as out:
        for start in range(0, 2500, 700):
            out.write(whole.slice(start, 700))
    batches = list(io.read_batches(location, 1000))
    assert [batch.num_rows for batch in batches] == [1000, 1000, 500]
    assert len({tuple(types_of(batch)) for batch in batches}) == 1
    assert pa.concat_tables(batches).to_pydict() == whole.to_pydict()
    assert io.read_table(location, columns=["x"]).to_pydict() == whole.select(["x"]).to_pydict()


def test_other_libraries_read_what_is_written(tmp_path):
    """pandas and polars."""
    for location in locations(tmp_path):
        io.write_table(location, TYPED)
    names = TYPED["name"].to_pylist()
    assert [None if pd.isna(v) else v for v in pd.read_csv(tmp_path / "rows.csv.gz")["name"]] == names
    assert pl.read_csv(tmp_path / "rows.csv", try_parse_dates=True)["name"].to_list() == names
    assert pl.read_csv(tmp_path / "rows.tsv", separator="\t")["price"].to_list() == [1.5, 2.0, None]
    assert pl.read_parquet(tmp_path / "rows.parquet").to_dict(as_series=False) == TYPED.to_pydict()
    assert pl.read_ipc(tmp_path / "rows.feather").to_dict(as_series=False) == TYPED.to_pydict()
    assert pd.read_json(tmp_path / "rows.jsonl", lines=True)["name"].tolist()[2] == names[2]


def test_dictionaries_may_differ_between_chunks(tmp_path):
    parts = [pa.table({"c": pa.array(labels).dictionary_encode()}) for labels in (["a", "b"], ["c", "a"], ["b", None])]
    for name in ("rows.arrow", "rows.parquet"):
        with io.open_writer(tmp_path / name) as out:
            for part in parts:
                out.write(part)
        back = io.read_table(tmp_path / name)
        assert back["c"].to_pylist() == ["a", "b", "c", "a", "b", None]
        assert pa.types.is_dictionary(back.schema.field("c").type)
    assert pl.read_ipc(tmp_path / "rows.arrow")["c"].to_list() == ["a", "b", "c", "a", "b", None]


@pytest.mark.parametrize(
    ("cells", "dtype", "values"),
    [
        (["1", "2", "NA"], "int64", [1, 2, None]),
        (["1", " 2", "+3"], "int64", [1, 2, 3]),
        (["1", "2.5", ""], "double", [1.0, 2.5, None]),
        (["1e3", ".5", "-7"], "double", [1000.0, 0.5, -7.0]),
        (["00123", "00456", "12"], "string", ["00123", "00456", "12"]),
        (["0", "10", "0.5"], "double", [0.0, 10.0, 0.5]),
        (["12345678901234567890", "1", "2"], "string", ["12345678901234567890", "1", "2"]),
        (["true", "False", "N/A"], "bool", [True, False, None]),
        (["yes", "no", "null"], "string", ["yes", "no", None]),
        (["2024-02-29", "NaN", "1999-01-01"], "date32[day]", [dt.date(2024, 2, 29), None, dt.date(1999, 1, 1)]),
        (["2024-02-30", "2024-01-01", ""], "string", ["2024-02-30", "2024-01-01", None]),
        (["", "NA", "nan"], "null", [None, None, None]),
        (["None", " x ", "x"], "string", ["None", " x ", "x"]),
        (["1", "2", "text at last"], "string", ["1", "2", "text at last"]),
    ],
)
def test_the_type_of_a_column_of_text(tmp_path, cells, dtype, values):
    path = text_file(tmp_path, "\n".join(["column,other", *(f"{cell},x" for cell in cells)]))
    back = io.read_table(path)
    assert types_of(back)[0] == dtype
    assert back["column"].to_pylist() == values


def test_a_late_cell_decides_the_type_of_the_first_batch(tmp_path):
    numbers = [str(i) for i in range(200_000)]
    path = text_file(tmp_path, "\n".join(["a,b,c", *(f"{n},{n},{n}" for n in numbers), "0.5,x,"]))
    first = next(io.read_batches(path, 100))
    assert types_of(first) == ["double", "string", "int64"]
    assert first["a"][1].as_py() == 1.0
    assert first["b"][1].as_py() == "1"


def test_given_types_are_used_and_a_cell_that_does_not_fit_is_named(tmp_path):
    path = text_file(tmp_path, "age,code\n3,1\n4.0,2\nold,3\n")
    how = ReadOptions(types={"code": pa.string(), "age": pa.string()})
    assert types_of(io.read_table(path, options=how)) == ["string", "string"]
    with pytest.raises(InvalidTable, match=r"'age' should hold integers, but row 4 .* has 'old'"):
        io.read_table(path, options=ReadOptions(types={"age": pa.int64()}))
    assert io.read_table(path, options=ReadOptions(types={"age": pa.int64()}, missing=["old"]))["age"].to_pylist() == [
        3,
        4,
        None,
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected(tmp_path, delimiter):
    lines = [["name", "price"], ["a b", "1.5"], ["c", "2"]]
    path = text_file(tmp_path, "\n".join(delimiter.join(line) for line in lines))
    assert io.read_table(path).to_pydict() == {"name": ["a b", "c"], "price": [1.5, 2.0]}
    other = "," if delimiter != "," else ";"
    assert io.read_table(path, options=ReadOptions(delimiter=other)).num_columns == 1


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_byte_order_marks_line_ends_and_encodings(tmp_path, ends):
    text = ends.join(["größe,x", '"zwei\nZeilen",1', "drei,2", ""])
    expected = {"größe": ["zwei\nZeilen", "drei"], "x": [1, 2]}
    assert io.read_table(text_file(tmp_path, "\ufeff" + text)).to_pydict() == expected
    assert io.read_table(text_file(tmp_path, text.encode("utf-16"))).to_pydict() == expected
    latin = text_file(tmp_path, text.encode("latin-1"))
    assert io.read_table(latin, options=ReadOptions(encoding="latin-1")).to_pydict() == expected
    with pytest.raises(InvalidTable, match=r"UTF-8 .*latin-1"):
        io.read_table(latin)
    with pytest.raises(InvalidOption, match="no text encoding 'klingon'"):
        io.read_table(latin, options=ReadOptions(encoding="klingon"))


def test_a_late_byte_that_is_not_text(tmp_path):
    path = text_file(tmp_path, b"a,b\n" + b"1,2\n" * 200_000 + b"\xe9,2\n")
    with pytest.raises(InvalidTable, match="UTF-8"):
        io.read_table(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n  \n", "is empty"),
        (b"a,b\n1,2\n3\n4,5\n", "Row 3 .* has 1 cells instead of 2"),
        (b"a,b\n1,2\n3,4,5\n", "Row 3 .* has 3 cells instead of 2"),
        (b"a,b,a\n1,2,3\n", "several columns called 'a'"),
        (b"\x00\x01\x02\xff\xfe" * 100, "neither UTF-8 text nor"),
        (bytes(range(256)) * 10, "neither UTF-8 text nor"),
        (b"PK\x03\x04" + b"x" * 50, "Excel"),
        (b"SQLite format 3\0" + b"x" * 50, "sqlite:///"),
        (b"PAR1 and nothing else", "cannot be read"),
        (b"ARROW1 and nothing else", "cannot be read"),
        (gzip.compress(b"a,b\n1,2\n" * 9999, mtime=0)[:-60], "cannot be read"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b'a,b\n1,x\n2,"y\n3,z\n', "A quote .* is not closed"),
        (b'a,b\n1,x\n2,"' + b"y\n3,z\n" * 2_000_000, "quote"),
    ],
)
def test_hostile_files_are_one_sentence(tmp_path, content, words):
    with pytest.raises((InvalidTable, TableFileError), match=words) as caught:
        io.read_table(text_file(tmp_path, content))
    assert "rows.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [("[1, 2]", "Line 2 .* must be an object"), ("{x}", "Line 2 .* is not JSON"), ('{"a": 1', "Line 2 .* is not JSON")],
)
def test_hostile_json_lines(tmp_path, line, words):
    with pytest.raises(InvalidTable, match=words):
        io.read_table(text_file(tmp_path, f'{{"a": 1}}\n{line}\n', "rows.jsonl"))


def test_a_large_integer_in_json_lines_is_not_rounded_by_a_neighbour_with_a_decimal_point(tmp_path):
    lines = [{"a": 2**53 + 1, "b": 2**53 + 1}, {"a": 3.0, "b": 0.5}, {"a": None}]
    path = text_file(tmp_path, "\n".join(map(json.dumps, lines)), "rows.jsonl")
    with pytest.warns(MixedTypesWarning, match="several types in 'b'"):
        back = io.read_table(path)
    assert back.to_pydict() == {"a": [2**53 + 1, 3, None], "b": [2.0**53, 0.5, None]}


def test_json_lines_may_lack_keys_and_mix_integers_and_floats(tmp_path):
    lines = [{"a": 1}, {"b": "2024-01-31", "a": 1.5}, {"c": [1, 2], "d": "007"}, {"c": "x", "b": None}]
    path = text_file(tmp_path, "\n".join(map(json.dumps, lines)), "rows.jsonl")
    with pytest.warns(MixedTypesWarning, match="several types in 'c'") as caught:
        back = io.read_table(path)
    assert (caught[0].message.code, caught[0].message.facts["columns"]) == ("mixed_types", ["c"])
    assert back.to_pydict() == {
        "a": [1.0, 1.5, None, None],
        "b": [None, dt.date(2024, 1, 31), None, None],
        "c": [None, None, "[1, 2]", "x"],
        "d": [None, None, "007", None],
    }


def test_locations_that_cannot_be_read(tmp_path):
    for location, words in [
        (tmp_path, "Is a directory"),
        (tmp_path / "nothing.csv", "No such file"),
        ("https://example.org/rows.csv", "Download it first"),
        ("duckdb:///x.db", "duckdb:///file.db#table"),
        (f"duckdb:///{tmp_path}/none.db#t", "There is no database"),
        (f"sqlite:///{tmp_path}/none.db#t", "There is no database"),
        ("", "path or a URL"),
    ]:
        with pytest.raises(TableFileError, match=words):
            io.read_table(location)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = text_file(tmp_path, "a,b\n1,2\n")
    path.chmod(0)
    with pytest.raises(TableFileError, match="Permission denied"):
        io.read_table(path)


@pytest.mark.parametrize("number", range(4, 14))
@pytest.mark.parametrize("option", [{"delimiter": ";"}, {"encoding": "latin-1"}, {"missing": ["?"]}])
def test_options_that_a_format_does_not_use_are_refused(tmp_path, number, option):
    location = locations(tmp_path)[number]
    io.write_table(location, TYPED)
    with pytest.raises(InvalidOption, match=f"{next(iter(option))} is an option of CSV and TSV, and .* is ") as caught:
        io.read_table(location, options=ReadOptions(**option))
    assert caught.value.code == "option_of_text_files"
    assert io.read_table(location, options=ReadOptions(types={"count": pa.int64()})).num_rows == 3
    with pytest.raises(InvalidOption, match="delimiter is an option of CSV and TSV"):
        io.write_table(location, TYPED, force=True, delimiter=";")
    assert io.read_table(location).num_rows == 3


def test_the_delimiter_of_a_text_file_can_be_chosen(tmp_path):
    for name, usual in (("rows.csv", ","), ("rows.tsv", "\t")):
        io.write_table(tmp_path / name, TYPED.select(["count", "member"]))
        assert (tmp_path / name).read_text().startswith(f"count{usual}member\n1{usual}true\n")
        io.write_table(tmp_path / name, TYPED.select(["count", "member"]), force=True, delimiter=";")
        assert (tmp_path / name).read_text().startswith("count;member\n1;true\n")
        assert io.read_table(tmp_path / name, options=ReadOptions(delimiter=";")).num_columns == 2


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_a_damaged_database_and_a_missing_table(tmp_path, scheme):
    junk = text_file(tmp_path, b"no database at all" * 1000, "junk.db")
    with pytest.raises(TableFileError, match="cannot be read"):
        io.read_table(f"{scheme}:///{junk}#t")
    io.write_table(f"{scheme}:///{tmp_path}/good.db#orders", TYPED)
    with pytest.raises(TableFileError, match="Did you mean 'orders'"):
        io.read_table(f"{scheme}:///{tmp_path}/good.db#order")


def test_types_of_sqlite_are_inferred_and_those_of_duckdb_are_kept(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (a, b, c)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(1, "x", None), (2.5, 3, None)])
    connection.close()
    with pytest.warns(MixedTypesWarning, match="several types in 'b'"):
        back = io.read_table(f"sqlite:///{tmp_path}/a.db#t")
    assert back.to_pydict() == {"a": [1, 2.5], "b": ["x", "3"], "c": [None] * 2}
    with duckdb.connect(tmp_path / "b.db") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1::TINYINT AS a, DATE '2024-01-31' AS b, 1.50::DECIMAL(4, 2) AS c")
    assert types_of(io.read_table(f"duckdb:///{tmp_path}/b.db#t")) == ["int8", "date32[day]", "decimal128(4, 2)"]


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_a_table_is_written_while_another_one_is_read(tmp_path, scheme):
    url = f"{scheme}:///{tmp_path}/x.db"
    io.write_table(f"{url}#a", pa.table({"x": range(5000)}))
    with io.open_writer(f"{url}#b") as out:
        for part in io.read_batches(f"{url}#a", 1000):
            out.write(part)
    assert io.read_table(f"{url}#b")["x"].to_pylist() == list(range(5000))


@pytest.mark.parametrize("number", range(14))
def test_nothing_is_replaced_without_force_and_nothing_partial_is_left(tmp_path, number):
    location = locations(tmp_path)[number]
    for attempt in (KeyboardInterrupt, ValueError, OSError):
        with pytest.raises((attempt, TableFileError)):
            write_and_fail(location, attempt)
    assert list(tmp_path.iterdir()) == []
    io.write_table(location, TYPED)
    with pytest.raises(TableFileError, match="replaced"):
        io.write_table(location, TYPED.slice(1))
    with pytest.raises(KeyboardInterrupt):
        write_and_fail(location, KeyboardInterrupt, force=True)
    assert io.read_table(location).num_rows == 3
    io.write_table(location, TYPED.slice(1), force=True)
    assert io.read_table(location).num_rows == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_locations_that_cannot_be_written(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for location, words in [
        (tmp_path / "folder.csv", "is a folder"),
        (tmp_path / "no" / "rows.csv", "does not exist"),
        (f"sqlite:///{tmp_path}/no/x.db#t", "does not exist"),
        ("/dev/null", "format|ordinary"),
    ]:
        with pytest.raises((TableFileError, InvalidOption), match=words):
            io.write_table(location, TYPED)
    with pytest.raises(InvalidOption, match="does not tell the format"):
        io.write_table(tmp_path / "rows.xyz", TYPED)
    io.write_table(tmp_path / "rows.xyz", TYPED, format="parquet")
    assert pq.read_table(tmp_path / "rows.xyz").equals(TYPED)


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    io.write_table(real, TYPED)
    link.symlink_to(real)
    io.write_table(link, TYPED.slice(2), force=True)
    assert link.is_symlink()
    assert io.read_table(real).num_rows == 1


def test_without_duckdb_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r'pip install -c constraints\.txt "\.\[sql\]"'):
        io.write_table(f"duckdb:///{tmp_path}/x.db#t", TYPED)


def test_standard_streams(monkeypatch, capfdbinary):
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(gzip.compress(b"a;b\n1;x\n2;\n", mtime=0))))
    assert io.read_table("-").to_pydict() == {"a": [1, 2], "b": ["x", None]}
    io.write_table("-", TYPED, format="parquet")
    assert pq.read_table(BytesIO(capfdbinary.readouterr().out)).equals(TYPED)
    io.write_table("-", TYPED.select(["count"]))
    assert capfdbinary.readouterr().out == b'count\n1\n""\n-3\n'


@given(st.lists(st.tuples(st.text(max_size=5), st.floats(allow_infinity=False) | st.none()), min_size=1, max_size=8))
def test_csv_round_trip_of_any_text_and_any_number(tmp_path_factory, rows):
    """Except texts that mean a missing cell, or that are spaces."""
    texts = ["x" + text.replace("\r", "").replace("\0", "") for text, _ in rows]
    texts = [t.encode("utf-8", "ignore").decode() for t in texts]
    table = pa.table({"text": texts, "number": pa.array([number for _, number in rows], type=pa.float64())})
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    io.write_table(path, table)
    back = io.read_table(path)
    assert back["text"].to_pylist() == texts
    expected = [None if number is None or np.isnan(number) else number for _, number in rows]
    assert back["number"].to_pylist() == expected


def test_locations_are_parsed():
    assert Location.parse("duckdb:////abs/x.db#t").path == Path("/abs/x.db")
    assert Location.parse("sqlite:///x.db#t#2").table == "t#2"
    assert Location.parse("a.b/rows").format == ""
    assert Location.parse("rows.CSV.GZ").format == "csv"
    assert Location.parse("out/filled.csv").with_number(3).text == "out/filled.3.csv"
    assert Location.parse("sqlite:///x.db#t").with_number(3).table == "t_3"


@given(st.lists(st.sampled_from(["3", "+7", "-0", "007", "4.0", "1e3", "9007199254740993", "-9007199254740993", "NA"])))
def test_an_integer_does_not_depend_on_the_spelling_of_its_neighbours(texts):
    """One cell with a decimal point does not round the others to floats."""
    expected = [None if text == "NA" else int(Decimal(text)) for text in texts]
    assert cast_texts(pa.chunked_array([texts], pa.string()), pa.int64()).to_pylist() == expected


@pytest.mark.parametrize("text", ["0x10", "+-5", "2.5", "1e30", "99999999999999999999"])
def test_what_is_no_integer_is_named_whatever_its_neighbours_are(text):
    with pytest.raises(InvalidTable, match=re.escape(repr(text))):
        cast_texts(pa.chunked_array([["1e2", text, "4.0"]]), pa.int64())
