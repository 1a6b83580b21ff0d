"""Rows as arrays: distances, keys of equal rows, and every kind of cell."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon.data import Schema, dataframe
from harpoon.privacy.records import column_distances, nearest, read_records, with_ranks

cells = {
    "x": st.one_of(st.none(), st.integers(-3, 3).map(float)),
    "c": st.one_of(st.none(), st.sampled_from(["a", "b", "c"])),
}
rows = st.lists(st.fixed_dictionaries(cells), min_size=1, max_size=12)
SCHEMA = Schema.infer(pa.table({"x": [0.5, 1.0, -3.0], "c": ["a", "b", "a"]}))  # "c" is unknown to it


def records_of(*tables):
    types = pa.schema({"x": pa.float64(), "c": pa.string()})
    return read_records(SCHEMA, [dataframe.read(pa.Table.from_pylist(table, schema=types)) for table in tables])


def gower(one, other, width):
    def distance(a, b, scale):
        if a is None or b is None:
            return float((a is None) != (b is None))
        return abs(a - b) / scale if isinstance(a, float) else float(a != b)

    return distance(one["x"], other["x"], width) + distance(one["c"], other["c"], 1)


@given(rows, rows)
def test_the_closest_row_is_that_of_a_plain_loop(queries, candidates):
    observed = [row["x"] for row in queries + candidates if row["x"] is not None]
    width = (max(observed) - min(observed) if observed else 0) or 1
    found, distance = nearest(*records_of(queries, candidates))
    for i, query in enumerate(queries):
        distances = [gower(query, candidate, width) for candidate in candidates]
        assert distance[i] == pytest.approx(min(distances), abs=1e-6)
        assert distances[found[i]] == pytest.approx(min(distances), abs=1e-6)


@given(rows, rows)
def test_keys_are_equal_for_equal_rows_only(left, right):
    one, other = (records.row_keys() for records in records_of(left, right))
    expected = [row in right for row in left]
    assert np.isin(one, other).tolist() == expected


@given(rows, rows)
def test_ranks_keep_the_order_of_numbers(left, right):
    before = np.concatenate([records.numbers[:, 0] for records in records_of(left, right)])
    after = np.concatenate([records.numbers[:, 0] for records in with_ranks(records_of(left, right))])
    assert np.array_equal(np.isnan(before), np.isnan(after))
    order = np.sign(np.subtract.outer(before, before))
    assert np.array_equal(order, np.sign(np.subtract.outer(after, after)), equal_nan=True)


def test_times_that_differ_by_a_nanosecond_are_not_equal():
    times = pa.array([1_700_000_000_000_000_000, 1_700_000_000_000_000_001], pa.timestamp("ns"))
    (records,) = read_records(Schema.infer(pa.table({"t": times})), [dataframe.read(pa.table({"t": times}))])
    assert len(np.unique(records.row_keys())) == 2


def test_every_kind_of_column_can_be_read():
    start = datetime(2024, 1, 1)
    table = pa.table(
        {
            "number": [0.5, None, 2.5],
            "integer": [1, 2, None],
            "flag": [True, False, None],
            "time": [start, None, start + timedelta(days=1)],
            "day": pa.array([0, 1, None], pa.date32()),
            "length": [timedelta(1), timedelta(2), None],
        }
    )
    (records,) = read_records(Schema.infer(table), [dataframe.read(table)])
    assert records.n_numbers == 5
    assert nearest(records, records)[0].tolist() == [0, 1, 2]
    (_, distances), *_ = column_distances(records, records)
    assert np.isfinite(distances).all()
