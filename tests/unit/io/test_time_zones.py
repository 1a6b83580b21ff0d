"""Times with an offset in text files: one offset is a time zone, several are instants, and both come back."""

import datetime as dt
import json
import re
import warnings

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import Column, Kind, Schema, describe
from harpoon.data.arrow_types import text_types
from harpoon.exceptions import MixedTypesWarning
from harpoon.io import read_table, write_table
from harpoon.io.text_types import TypeInference, cast_texts, format_texts

OFFSETS = ["-05:00", "+05:30", "+00:00", "-09:30", "+14:00"]


def instants(texts):
    return [dt.datetime.fromisoformat(text).astimezone(dt.UTC) for text in texts]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)), min_size=1, max_size=6),
    st.sampled_from(OFFSETS),
    st.sampled_from([" ", "T"]),
    st.booleans(),
)
def test_times_of_one_offset_come_back_as_they_were_spelled(times, offset, separator, has_colon):
    spelled = offset if has_colon else offset.replace(":", "")
    texts = [time.isoformat(separator, timespec="seconds") + spelled for time in times]
    inference = TypeInference(["t"])
    inference.update({"t": pa.chunked_array([texts])})
    dtype = inference.types["t"]
    assert dtype == pa.timestamp("us", "UTC" if offset == "+00:00" else offset)
    assert not inference.mixed_offsets
    column = cast_texts(pa.chunked_array([texts]), dtype)
    assert column.cast(pa.timestamp("us", "UTC")).to_pylist() == instants(texts)
    assert format_texts(column, like=texts[0]).to_pylist() == texts


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)), st.sampled_from(OFFSETS)), min_size=2
    )
)
def test_times_of_several_offsets_are_the_same_instants(times):
    texts = [time.isoformat() + offset for time, offset in times]
    inference = TypeInference(["t"])
    inference.update({"t": pa.chunked_array([texts])})
    dtype, n_offsets = inference.types["t"], len({offset for _, offset in times})
    assert (inference.mixed_offsets != {}) == (n_offsets > 1)
    if n_offsets > 1:
        assert dtype.tz == "UTC"
    column = cast_texts(pa.chunked_array([texts]), dtype)
    assert column.cast(pa.timestamp("us", "UTC")).to_pylist() == instants(texts)
    again = format_texts(column).to_pylist()
    assert instants([text.replace("Z", "+00:00") for text in again]) == instants(texts)


def test_times_of_a_zone_are_written_as_its_clocks_show_them():
    column = pa.chunked_array([pa.array([1_362_898_799, 1_362_898_800, None], pa.timestamp("s", "America/New_York"))])
    assert format_texts(column).to_pylist() == ["2013-03-10 01:59:59-05:00", "2013-03-10 03:00:00-04:00", None]
    assert format_texts(column, like="2024-01-31T12:00:00-0500").to_pylist()[0] == "2013-03-10T01:59:59-0500"


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_a_file_with_several_offsets_is_read_with_a_warning_that_names_them(tmp_path, name):
    texts = ["2013-03-10T01:30:00-05:00", "2013-03-10T03:30:00-04:00"]
    lines = ["t,x", *(f"{text},1" for text in texts)] if name.endswith("csv") else [json.dumps({"t": t}) for t in texts]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    with pytest.warns(MixedTypesWarning, match=re.escape("(-04:00, -05:00)")) as caught:
        table = read_table(tmp_path / name)
    assert caught[0].message.code == "mixed_offsets"
    assert table["t"].type == pa.timestamp("us", "UTC")
    assert table["t"].to_pylist() == instants(texts)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_a_file_with_one_offset_is_written_back_with_it(tmp_path, name):
    column = pa.array([0, 3600, None, 10**9], pa.timestamp("s", "+05:30"))
    table = pa.table({"t": column.cast(pa.timestamp("us", "+05:30")), "x": [1, 2, 3, 4]})
    write_table(tmp_path / name, table)
    assert "1970-01-01 05:30:00+05:30" in (tmp_path / name).read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_table(tmp_path / name).equals(table)


def test_the_zone_of_the_schema_is_that_of_columns_that_are_read_and_described():
    column = Column("t", Kind.DATETIME, unit="us", zoned=True, zone="America/New_York", minimum=0, maximum=10**15)
    dtype = text_types(Schema((column,)))["t"]
    assert dtype == pa.timestamp("us", "America/New_York")
    texts = pa.chunked_array([["2013-01-01T12:00:00-05:00", "2013-07-01T12:00:00-04:00"]])
    assert pc.hour(cast_texts(texts, dtype)).to_pylist() == [12, 12]
    assert describe(column).startswith("1969-12-31 19:00 to 2001-09-08 21:46:40 (America/New_York)")
