"""Weights of rows: integer weights are repeated rows, equal weights change nothing, and wrong weights are refused."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import InvalidOption, InvalidTable, Schema
from harpoon.data import ColumnCounts, Kind, WeightedValues, count_columns, dataframe, merge_counts
from harpoon.data.suppression import Suppression
from harpoon.data.survey_weights import read_weights
from harpoon.encoding.categorical import HierarchicalCodec
from harpoon.encoding.numeric import SpikedNumericCodec
from harpoon.encoding.scalers import NormalScoreScaler, QuantileScaler

QUICK = settings(max_examples=40, deadline=None)
CELLS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 40).map(float) | st.just(7.0),
        st.sampled_from(["a", "b", None]),
        st.integers(1, 5),
    ),
    min_size=8,
    max_size=60,
)


def tables(rows):
    """Return a table with weights, and the same rows repeated as often as these say."""
    x, c, w = zip(*rows, strict=True)
    whole = pa.table({"x": pa.array(x, pa.float64()), "c": pa.array(c, pa.string())})
    return whole, np.array(w, dtype=np.float64), whole.take(np.repeat(np.arange(len(w)), w))


def counts_of(table, weights=None):
    return count_columns(dataframe.read(table), weights)


def values_of(counts: ColumnCounts) -> WeightedValues:
    return WeightedValues.from_values(counts.values.values.astype(float), counts.counts, 1, counts.weights)


@given(CELLS)
@QUICK
def test_integer_weights_are_repeated_rows(rows):
    table, weights, repeated = tables(rows)
    ours, theirs = counts_of(table, weights), counts_of(repeated)
    for name in table.column_names:
        assert ours[name].missing_fraction == pytest.approx(theirs[name].missing_fraction)
        fractions = [counts.mass / counts.mass.sum() for counts in (ours[name], theirs[name]) if counts.n_observed]
        if fractions:
            np.testing.assert_allclose(*fractions)
    x, y = values_of(ours["x"]), values_of(theirs["x"])
    if len(x):
        assert (x.mean, x.std) == pytest.approx((y.mean, y.std))
        scores, expected = (NormalScoreScaler.fit(each) for each in (x, y))
        assert scores.std == pytest.approx(expected.std)
        margin = 0.5 / x.n_values  # of the ends, which depends on the number of rows
        for ranks, wanted in ((scores.low, expected.low), (scores.high, expected.high)):
            np.testing.assert_allclose(ranks, np.clip(wanted, margin, 1 - margin))


@given(CELLS, st.sampled_from([0.25, 8.0, 1024.0]))
@QUICK
def test_only_the_ratios_of_weights_matter(rows, factor):
    table, weights, _ = tables(rows)
    x, y = (values_of(counts_of(table, scaled)["x"]) for scaled in (weights, factor * weights))
    if len(x):
        for scaler in (NormalScoreScaler, QuantileScaler):
            assert scaler.fit(x) == scaler.fit(y)


@given(CELLS)
@QUICK
def test_weights_of_one_change_nothing_to_the_last_bit(rows):
    table, weights, _ = tables(rows)
    ones = np.ones(len(weights))
    x, y = (values_of(counts_of(table, each)["x"]) for each in (None, ones))
    if len(x):
        for scaler in (NormalScoreScaler, QuantileScaler):
            assert scaler.fit(x) == scaler.fit(y)
        assert all(np.array_equal(a, b) for a, b in zip(x.group(), y.group(), strict=True))
    assert Schema.from_counts(counts_of(table)) == Schema.from_counts(counts_of(table, ones))


@given(CELLS, st.integers(1, 7))
@QUICK
def test_merged_weights_are_those_of_the_table(rows, cut):
    table, weights, _ = tables(rows)
    parts = counts_of(table[:cut], weights[:cut]), counts_of(table[cut:], weights[cut:])
    merged, whole = merge_counts(parts), counts_of(table, weights)
    for name, counts in whole.items():
        np.testing.assert_allclose(merged[name].mass, counts.mass)
        assert merged[name].counts.tolist() == counts.counts.tolist()
        assert merged[name].total_weight == pytest.approx(weights.sum())


def test_a_value_is_a_spike_by_the_weight_of_its_rows():
    values = np.append(np.arange(100.0), [50.0] * 4)
    table = pa.table({"x": values})
    schema = Schema.infer(table)

    def spikes(weights):
        return SpikedNumericCodec.fit(schema["x"], counts_of(table, weights)["x"], "standard").spikes

    assert spikes(np.ones(104)) == (50.0,)
    assert spikes(np.where(values == 50, 1.0, 50.0)) == ()
    assert spikes(np.where(values == 3, 50.0, 1.0)) == (3.0, 50.0) or spikes(np.where(values == 3, 50.0, 1.0)) == (3.0,)


def test_frequent_categories_are_those_of_much_weight():
    labels = [f"{i:03}" for i in range(300)]
    table = pa.table({"c": labels + labels[:64]})
    weights = np.where(np.arange(364) < 64, 0.1, 1.0)
    weights[299] = 100.0
    column = Schema.infer(table, kinds={"c": "category"})["c"]
    assert 299 not in HierarchicalCodec.fit(column, counts_of(table)["c"]).frequent
    assert 299 in HierarchicalCodec.fit(column, counts_of(table, weights)["c"]).frequent


def test_suppression_counts_rows_and_not_weights():
    """One row of a large weight is still one person."""
    table = pa.table({"c": ["a"] * 20 + ["b"] * 20 + ["rare"]})
    weights = np.append(np.ones(40), 1e6)
    counts = counts_of(table, weights)
    found = Suppression.fit(Schema.from_counts(counts), counts, 5)
    assert found.schema["c"].categories == ("a", "b")
    assert found.counts["c"].mass.tolist() == [20.0, 20.0]


def test_a_group_of_rare_numbers_is_a_mean_of_rows():
    """One row of a large weight does not show its own number."""
    x = WeightedValues(np.arange(8.0), np.ones(8, dtype=np.int64), 4, np.array([1, 1, 1, 1e9, 1, 1, 1, 1]))
    assert x.group()[0].tolist() == [3.5]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array([1.0, 0.0, 2.0]), "row 1 has 0"),
        (pa.array([1.0, -2.0, 2.0]), "row 1 has -2"),
        (pa.array([1.0, 1.0, None]), "row 2 has no value"),
        (pa.array([float("nan"), 1.0, 1.0]), "row 0 has no value"),
        (pa.array([1.0, float("inf"), 1.0]), "row 1 has inf"),
        (pa.array([1.0, 1e300, 1.0]), "row 1 has 1e.300"),
        (pa.array(["1", "2", "3"]), "must be numbers, got text"),
        (pa.array([True, False, True]), "must be numbers, got boolean"),
        (pa.array([None, None, None]), "must be numbers"),
        (pa.array([[1], [2], [3]]), "must be numbers"),
    ],
)
def test_wrong_weights_are_refused(values, words):
    with pytest.raises(InvalidTable, match=words):
        read_weights(dataframe.read(pa.table({"x": [1.0, 2.0, 3.0], "w": values})), "w")


@pytest.mark.parametrize("name", ["weigth", "", 3, ["weight"]])
def test_weights_must_be_a_column(name):
    table = dataframe.read(pa.table({"x": [1.0, 2.0], "weight": [1.0, 2.0]}))
    with pytest.raises(InvalidOption, match="must be the name of a column"):
        read_weights(table, name)


def test_a_schema_has_one_column_of_weights():
    table = pa.table({"x": [1.0, 2.0, 3.0], "v": [1.0, 2.0, 3.0], "w": [1.0, 2.0, 3.0]})
    schema = Schema.infer(table, kinds={"w": "weight"})
    assert schema.weights == "w"
    assert schema.required == ["x", "v"]
    assert Schema.from_json(schema.to_json()) == schema
    other = schema.with_weights("v")
    assert (other.weights, other["w"].kind) == ("v", Kind.SKIPPED)
    with pytest.raises(InvalidOption, match="one column of weights"):
        _ = Schema.infer(table, kinds={"v": "weight", "w": "weight"}).weights
    with pytest.raises(InvalidOption, match="has no column"):
        schema.with_weights("u")
