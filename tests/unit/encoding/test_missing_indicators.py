"""Missing indicators: which columns have one, and what encoded rows say about missing cells."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import dataframe, missing_as_null, read_columns
from harpoon.data.schema import Schema
from harpoon.data.value_counts import count_columns
from harpoon.encoding.missing_indicators import NULL, OBSERVED, MissingIndicatorCodec
from harpoon.encoding.row_codec import RowCodec

CELLS = {
    "number": st.floats(-9, 9),
    "few": st.sampled_from([0, 1, 2]),
    "category": st.sampled_from(["a", "b", "c"]),
    "member": st.booleans(),
}
TYPES = {"number": pa.float64(), "few": pa.int64(), "category": pa.string(), "member": pa.bool_()}
EVERY_VALUE = {"number": [-9.0, 0.5, 9.0], "few": [0, 1, 2], "category": ["a", "b", "c"], "member": [True, False, True]}


def codec_of(table, *, missing_indicators=True):
    counts = count_columns(dataframe.read(table))
    schema = Schema.from_counts(counts)
    return RowCodec.fit(schema, counts, encoding="mixed", scaling="standard", missing_indicators=missing_indicators)


def table_of(columns):
    return pa.table({name: pa.array(values, TYPES[name]) for name, values in columns.items()})


@st.composite
def rows_of_tables(draw):
    rows = draw(st.integers(5, 9))
    columns = {}
    for name, cells in CELLS.items():
        maybe = cells | st.none() if draw(st.booleans()) else cells
        columns[name] = [*EVERY_VALUE[name], *draw(st.lists(maybe, min_size=rows, max_size=rows))]
    return table_of(columns)


@given(rows_of_tables())
@settings(max_examples=60)
def test_columns_with_missing_cells_have_an_indicator_and_others_have_none(table):
    codec = codec_of(table)
    assert codec.nullable == {name for name in table.column_names if table[name].null_count}
    assert len(codec.indicators) == len(codec.indicator_of) == len(codec.nullable)
    for value, indicator in codec.indicator_of.items():
        assert codec.codecs[value].columns == codec.codecs[indicator].indicated
        assert indicator < value  # a value is sampled after its indicator


@given(rows_of_tables())
@settings(max_examples=60)
def test_encoded_rows_decode_to_the_same_values_and_null_cells(table):
    codec = codec_of(table)
    rows = missing_as_null(read_columns(dataframe.read(table), codec.schema))
    decoded = codec.decode(codec.encode(rows), nulls=True)
    for name, cells in rows.items():
        assert decoded[name].is_null.tolist() == decoded[name].missing.tolist() == cells.missing.tolist()
        assert decoded[name].values.tolist() == pytest.approx(cells.values.tolist(), abs=1e-6)
    complete = codec.decode(codec.encode(rows))
    assert not any(cells.missing.any() for cells in complete.values())


@given(rows_of_tables())
@settings(max_examples=30)
def test_an_indicator_is_observed_unless_its_cell_is_unknown(table):
    codec = codec_of(table)
    unknown = read_columns(dataframe.read(table), codec.schema)
    null = missing_as_null(unknown)
    for index, indicator in enumerate(codec.codecs):
        if isinstance(indicator, MissingIndicatorCodec):
            missing = null[indicator.indicated[0].name].missing
            assert codec.observed(null)[:, index].all()
            assert (codec.observed(unknown)[:, index] == ~missing).all()
            assert (indicator.encode_columns(null)[:, NULL] == missing).all()
            assert (indicator.encode_columns(null)[:, OBSERVED] == ~missing).all()
            assert (indicator.encode_columns(unknown)[missing] == 0).all()


@given(rows_of_tables())
@settings(max_examples=30)
def test_a_codec_with_indicators_is_restored_from_json(table):
    codec = codec_of(table)
    restored = RowCodec.from_json(codec.schema, json.loads(json.dumps(codec.to_json())))
    rows = missing_as_null(read_columns(dataframe.read(table), codec.schema))
    assert restored.nullable == codec.nullable
    assert restored.indicator_of == codec.indicator_of
    assert np.array_equal(restored.encode(rows), codec.encode(rows))


def test_without_the_option_or_without_missing_cells_rows_are_encoded_as_ever():
    complete = table_of({name: values * 3 for name, values in EVERY_VALUE.items()})
    assert codec_of(complete).to_json() == codec_of(complete, missing_indicators=False).to_json()
    incomplete = table_of({name: [None, *values[1:]] * 3 for name, values in EVERY_VALUE.items()})
    assert not codec_of(incomplete, missing_indicators=False).indicators


def test_the_probability_of_null_is_that_of_its_category():
    codec = codec_of(table_of({"few": [0, 1, None, 2] * 5, "member": [True, False] * 10}))
    x = codec.encode(
        missing_as_null(read_columns(dataframe.read(table_of({"few": [0], "member": [True]})), codec.schema))
    )
    x[:, :2] = [0.75, 0.25]  # indicators come first
    assert codec.null_probabilities(x)["few"].tolist() == [0.25]
