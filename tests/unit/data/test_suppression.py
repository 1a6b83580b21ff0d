"""Suppression of rare values: the ends of ranges."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon.data import Schema, dataframe
from harpoon.data.suppression import Suppression
from harpoon.data.value_counts import count_columns

K = 5


def ends(cells):
    table = dataframe.read(pa.table({"v": cells}))
    column = Suppression.fit(Schema.infer(table), count_columns(table), K).schema["v"]
    return column.minimum, column.maximum


def test_an_end_is_the_mean_of_neighbours_and_no_outlier_moves_it():
    cells = np.arange(100) ** 2 * 10 + 1000.25
    cells[-1] = 1e9
    assert ends(cells) == (pytest.approx(cells[4:9].mean(), abs=0.01), pytest.approx(cells[91:96].mean(), abs=0.01))
    assert not np.isin(ends(cells), cells).any()


def test_an_end_is_in_the_resolution_of_the_column():
    integers = np.arange(100) ** 2 * 100
    low, high = ends(integers)
    assert (low, high) == (round(integers[4:9].mean(), -2), round(integers[91:96].mean(), -2))
    assert isinstance(low, int)
    waits = pa.array(np.arange(100) ** 2 * 60_000_000, pa.duration("us"))
    assert ends(waits)[0] == round((np.arange(4, 9) ** 2).mean()) * 60_000_000


def test_a_number_of_k_rows_stays_the_end():
    assert ends(np.concatenate([np.zeros(K), np.arange(1, 60) ** 1.5]))[0] == 0


def test_times_stay_on_their_calendar():
    days = np.busday_offset("2024-01-01", np.arange(60) ** 2, roll="forward")
    low, high = ends(pa.array(days.astype("datetime64[D]")))
    assert [low, high] == [int(days[index].astype(np.int64)) for index in (K - 1, -K)]


@given(st.lists(st.integers(-50, 50) | st.integers(-(2**60), 2**60), min_size=2 * K, max_size=6 * K))
def test_at_least_k_cells_lie_on_either_end_or_beyond(cells):
    x = np.array(cells)
    table = dataframe.read(pa.table({"v": x}))
    schema = Schema.infer(table, kinds={"v": "integer"})
    if not schema["v"].kind.numeric:
        return
    found = Suppression.fit(schema, count_columns(table), K)
    column = found.schema["v"]
    if column.kind.numeric:
        ordered = np.sort(x)
        assert ordered[K - 1] <= column.minimum or len(x) < 3 * K
        assert column.maximum <= ordered[-K] or len(x) < 3 * K
        assert (x <= column.minimum).sum() >= K or len(x) < 3 * K
        assert (x >= column.maximum).sum() >= K or len(x) < 3 * K
        assert ordered[0] <= column.minimum <= column.maximum <= ordered[-1]
    moved = found.counts["v"]
    assert int(moved.counts.sum()) == len(x)
