"""Counts of a table do not depend on how it is split into parts."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import InvalidTable, Schema
from harpoon.config import PRESETS
from harpoon.data import dataframe, value_counts
from harpoon.data.value_counts import ColumnCounts, WeightedValues, count_columns, merge_counts
from harpoon.encoding.row_codec import RowCodec

QUICK = settings(max_examples=40, deadline=None)
COLUMNS = {
    "number": st.floats(-1e6, 1e6) | st.sampled_from([0.0, 40.0]),
    "integer": st.integers(-50, 50),
    "big": st.integers(2**60, 2**61),
    "text": st.sampled_from(["b", "a", "é", ""]),
    "flag": st.booleans(),
    "day": st.dates(),
    "moment": st.datetimes(min_value=pd.Timestamp(1970, 1, 1), max_value=pd.Timestamp(2100, 1, 1)),
}
ROWS = st.lists(
    st.fixed_dictionaries({n: st.none() | values for n, values in COLUMNS.items()}), min_size=2, max_size=60
)


def table(rows):
    types = [pa.float64(), pa.int64(), pa.int64(), pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us")]
    return pa.Table.from_pylist(rows, schema=pa.schema(list(zip(COLUMNS, types, strict=True))))


def parts(whole, cuts):
    places = [0, *sorted(cut % (whole.num_rows + 1) for cut in cuts), whole.num_rows]
    return [whole.slice(a, b - a) for a, b in pairwise(places)]


@given(ROWS, st.lists(st.integers(0, 1000), max_size=4), st.sampled_from(["mixed", "onehot", "integer"]))
@QUICK
def test_merged_counts_give_the_schema_and_codecs_of_the_whole_table(rows, cuts, encoding):
    """In any order: schema, scalers and spikes are the same to the last bit."""
    whole = table(rows)
    counted = [count_columns(dataframe.read(part)) for part in parts(whole, cuts)]
    for parts_ in (counted, counted[::-1]):
        found, wanted = merge_counts(parts_), count_columns(dataframe.read(whole))
        schema = Schema.from_counts(found)
        assert schema == Schema.infer(whole)
        if schema.modelled:
            codecs = [RowCodec.fit(schema, t, encoding=encoding, scaling="standard").to_json() for t in (found, wanted)]
            assert codecs[0] == codecs[1]


@given(ROWS)
@QUICK
def test_counts_are_those_of_pandas(rows):
    whole = table(rows)
    for name, column_counts in count_columns(dataframe.read(whole)).items():
        column = pd.Series(whole[name].to_pylist(), dtype=object)
        assert column_counts.n_missing == column.isna().sum()
        assert sorted(column_counts.counts.tolist()) == sorted(column.value_counts().tolist())


def test_categories_are_merged_and_their_orders_must_agree():
    one, two = (
        pd.DataFrame({"c": pd.Categorical(["x"], categories=categories)}) for categories in (["x", "y"], ["z", "x"])
    )
    both = merge_counts([count_columns(dataframe.read(one)), count_columns(dataframe.read(two))])["c"]
    assert both.values.categories == ("x", "y", "z")
    assert both.counts.tolist() == [2]
    ordered = [frame.assign(c=frame["c"].cat.as_ordered()) for frame in (one, two)]
    with pytest.raises(InvalidTable, match="'c' must be of the same type in all parts"):
        merge_counts([count_columns(dataframe.read(frame)) for frame in ordered])


def test_a_part_without_values_and_a_part_with_missing_cells_fit_the_others():
    tables = [pa.table({"x": pa.array([None], pa.null())}), pa.table({"x": [1, 2]}), pa.table({"x": [2.0, None]})]
    for order in (tables, tables[::-1]):
        found = merge_counts([count_columns(dataframe.read(each)) for each in order])["x"]
        assert (found.values.values.tolist(), found.counts.tolist(), found.n_missing) == ([1.0, 2.0], [1, 2], 2)


def test_parts_of_another_type_are_refused():
    tables = [pa.table({"x": [1, 2]}), pa.table({"x": ["a", "b"]})]
    with pytest.raises(InvalidTable, match="is integer in one and text in another"):
        merge_counts([count_columns(dataframe.read(each)) for each in tables])


def test_very_many_values_are_thinned_and_keep_their_quantiles(monkeypatch):
    monkeypatch.setattr(value_counts, "MAX_DISTINCT_VALUES", 1000)
    x = np.random.default_rng(0).lognormal(size=6000)
    whole = merge_counts([count_columns(dataframe.read(pa.table({"x": part}))) for part in np.split(x, 6)])["x"]
    assert whole.n_distinct <= 1000
    assert whole.n_observed == len(x)
    assert whole.values.values[[0, -1]].tolist() == [x.min(), x.max()]
    ranks = np.linspace(0.01, 0.99, 99)
    found = WeightedValues(whole.values.values, whole.counts).quantile(ranks)
    away = np.abs(np.searchsorted(np.sort(x), found) / len(x) - ranks)
    assert away.max() < 0.01


def test_a_column_without_values_is_not_modelled():
    """A column of which every cell is missing has no scaler, and raises no error."""
    empty = ColumnCounts.from_column(dataframe.read(pa.table({"x": pa.array([None, None], pa.float64())})).column("x"))
    assert (empty.n_observed, empty.missing_fraction) == (0, 1.0)
    schema = Schema.from_counts({"x": empty})
    assert not schema.modelled
    for preset in PRESETS.values():
        assert RowCodec.fit(schema, {"x": empty}, encoding=preset.encoding, scaling=preset.scaling).codecs == ()
