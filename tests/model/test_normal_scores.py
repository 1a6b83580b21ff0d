"""Normal scores: the scaler, rank intervals, dequantisation within them, and spikes."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kstest

from harpoon import Schema
from harpoon.data import dataframe, read_columns
from harpoon.data.value_counts import WeightedValues, count_columns
from harpoon.encoding.encoded_rows import EncodedRows, QuantizedRows
from harpoon.encoding.numeric import SpikedNumericCodec
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.scalers import MAX_QUANTILES, NormalScoreScaler

QUICK = settings(max_examples=60, deadline=None)
SENSIBLE = st.floats(-1e6, 1e6).map(lambda v: v if abs(v) > 1e-100 else 0.0)
SHORT = arrays(np.float64, st.integers(1, 60), elements=SENSIBLE | st.integers(-3, 3).map(float))
# More distinct values than the scaler stores, some of them many times.
LONG = st.integers(0, 2**32).map(lambda seed: long_column(np.random.default_rng(seed)))
COLUMNS = SHORT | LONG


def long_column(rng):
    values = rng.lognormal(0, 2, int(rng.integers(1100, 3000)))
    return np.where(rng.random(len(values)) < rng.uniform(0, 0.5), np.round(values), values)


def size(x):
    return max(1e-300, np.abs(x).max())


@given(COLUMNS)
@QUICK
def test_stored_values_round_trip(x):
    ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
    kept = np.array(ranks.values)
    np.testing.assert_allclose(ranks.inverse(ranks.transform(kept)), kept, rtol=0, atol=1e-9 * size(x))
    if len(np.unique(x)) <= MAX_QUANTILES:
        assert set(ranks.values) == set(x.tolist())


@given(COLUMNS, st.integers(0, 2**32))
@QUICK
def test_a_new_value_decodes_between_its_neighbours(x, seed):
    ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
    values = np.array(ranks.values)
    new = np.random.default_rng(seed).uniform(values[0], values[-1], 50)
    back, slack = ranks.inverse(ranks.transform(new)), 1e-9 * size(x)
    right = np.searchsorted(values, new).clip(max=len(values) - 1)
    assert (values[np.maximum(right - 1, 0)] - slack <= back).all()
    assert (back <= values[right] + slack).all()


@given(COLUMNS, st.floats(0.01, 50))
@QUICK
def test_scores_are_linear_beyond_the_ends(x, far):
    ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
    beyond = np.array([ranks.values[0] - far * ranks.std, ranks.values[-1] + far * ranks.std])
    z = ranks.transform(beyond)
    np.testing.assert_allclose(ranks.inverse(z), beyond, rtol=1e-9, atol=1e-9 * size(beyond))
    np.testing.assert_allclose(ranks.inverse(z + np.array([-1, 1])) - beyond, [-ranks.std, ranks.std], rtol=1e-6)


@given(COLUMNS, st.integers(0, 2**32))
@QUICK
def test_scores_are_monotone(x, seed):
    ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
    new = np.random.default_rng(seed).uniform(x.min() - 1, x.max() + 1, 100)
    everything = np.sort(np.concatenate([x, new]))
    assert (np.diff(ranks.transform(everything)) >= 0).all()
    z = np.linspace(-8, 8, 200)
    assert (np.diff(ranks.inverse(z)) >= -1e-9 * size(x)).all()


@given(COLUMNS)
@QUICK
def test_rank_intervals_ascend_and_every_rank_in_one_decodes_to_its_value(x):
    ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
    values = np.array(ranks.values)
    low, high = ranks.rank_interval(values)
    ends = np.stack([low, high], axis=1).ravel()
    assert (np.diff(ends) >= 0).all()
    assert 0 < low[0] <= 1 / len(x)
    assert 1 - 1 / len(x) <= high[-1] < 1
    for share in (0.01, 0.5, 0.99):
        z = torch.special.ndtri(torch.from_numpy(low + share * (high - low))).numpy()
        np.testing.assert_allclose(ranks.inverse(z), values, rtol=0, atol=1e-9 * size(x))


@given(SHORT)
@QUICK
def test_rank_intervals_of_few_values_are_as_wide_as_the_values_are_frequent(x):
    ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
    low, high = ranks.rank_interval(np.array(ranks.values))
    assert np.array_equal(low[1:], high[:-1])
    _, counts = np.unique(x, return_counts=True)
    inner = slice(1, -1)  # the outer two lose half a row, because scores are finite
    np.testing.assert_allclose((high - low)[inner], (counts / len(x))[inner], rtol=1e-9)


@given(LONG)
@settings(max_examples=15, deadline=None)
def test_the_scores_of_many_values_are_standard_normal(x):
    ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
    assert len(ranks.values) <= MAX_QUANTILES
    low, high = ranks.rank_interval(x)
    u = low + np.random.default_rng(0).random(len(x)) * (high - low)
    assert kstest(u, "uniform").statistic < 0.05


def test_scores_of_no_value_or_of_one_are_finite():
    for x in (np.array([]), np.array([3.5]), np.array([3.5] * 9)):
        ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
        assert np.isfinite(ranks.transform(np.array([3.5, 0.0, 1e9]))).all()
        assert np.isfinite(ranks.inverse(np.array([-3.0, 0.0, 3.0]))).all()


@given(COLUMNS)
@QUICK
def test_a_scaler_survives_json(x):
    ranks = NormalScoreScaler.fit(WeightedValues.from_values(x))
    assert NormalScoreScaler.from_json(json.loads(json.dumps(ranks.to_json()))) == ranks


DAMAGED = [
    {"values": []},
    {"values": [1.0]},
    {"values": [2.0, 1.0]},
    {"values": [1.0, 1.0]},
    {"values": [1.0, float("nan")]},
    {"values": ["1", "2"]},
    {"values": "12"},
    {"values": None},
    {"low": [0.25]},
    {"low": [0.25, 0.4]},
    {"low": [0.0, 0.5]},
    {"high": [0.5, 1.0]},
    {"high": [0.5, float("inf")]},
    {"std": 0.0},
    {"std": float("nan")},
    {"std": "1"},
]


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_an_invalid_scaler_is_refused(damage):
    right = {"values": [1.0, 2.0], "low": [0.25, 0.5], "high": [0.5, 0.75], "std": 1.0}
    assert NormalScoreScaler.from_json(right).values == (1.0, 2.0)
    with pytest.raises(ValueError, match=r"need|list of numbers"):
        NormalScoreScaler.from_json({**right, **damage})


def codec_of(columns, *, unclipped=()):
    table = dataframe.read(pa.table(columns))
    schema = Schema.infer(table)
    for name in unclipped:
        schema = schema.replace(name, clip=False)
    return RowCodec.fit(schema, count_columns(table), encoding="mixed", scaling="standard"), table


def training_batch(codec, table):
    return codec.to_training_batch(read_columns(table, codec.schema))


@pytest.fixture(scope="module")
def half_zeros():
    """A smooth column, one that is zero half of the time, one of few values, and a category; with missing cells."""
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(8000) < 0.5, 0.0, rng.gamma(2, 500, 8000))
    columns = {"x": rng.normal(size=8000), "gain": gain, "level": rng.integers(1, 6, 8000)}
    holes = {name: pa.array(values, mask=rng.random(8000) < 0.1) for name, values in columns.items()}
    return codec_of({**holes, "c": rng.choice(["a", "b"], 8000)})


def test_scores_are_sampled_within_their_intervals_and_anew_each_time(half_zeros):
    codec, table = half_zeros
    data, generator = training_batch(codec, table), torch.Generator().manual_seed(0)
    first, second = (data.dequantize(generator) for _ in range(2))
    others = [place for place in range(codec.width) if place not in data.rank_index.tolist()]
    for drawn in (first, second):
        known = drawn.observed[:, data.rank_index]
        rank = torch.special.ndtr(drawn.x[:, data.rank_index])
        assert ((rank - data.low)[known] >= -1e-5).all()
        assert ((rank - data.high)[known] <= 1e-5).all()
        assert torch.equal(drawn.x[:, others], data.x[:, others])
        assert (drawn.x[~drawn.observed] == 0).all()
    assert not torch.equal(first.x, second.x)


def test_sampled_scores_of_spikes_and_of_other_rows_are_standard_normal(half_zeros):
    codec, table = half_zeros
    data = training_batch(codec, table)
    drawn = data.dequantize(torch.Generator().manual_seed(0)).x.double().numpy()
    block = next(b for b in codec.slices if b.name == "gain" and b.type == "continuous")
    cells = read_columns(table, codec.schema)["gain"]
    for rows in (~cells.missing & (cells.values == 0), ~cells.missing & (cells.values != 0)):
        assert rows.sum() > 3000
        assert kstest(drawn[rows, block.start], "norm").pvalue > 1e-3


def test_a_column_of_spikes_has_no_continuous_part_and_no_interval(half_zeros):
    codec, table = half_zeros
    shapes = {name: [b.type.value for b in codec.slices if b.name == name] for name in ("x", "gain", "level", "c")}
    assert shapes == {
        "x": ["regression", "continuous"],
        "gain": ["regression", "continuous", "categorical"],
        "level": ["regression", "categorical"],
        "c": ["categorical"],
    }
    assert len(codec.to_training_batch(read_columns(table, codec.schema)).rank_index) == 2
    (level,) = (c for c in codec.codecs if c.column.name == "level")
    low, high = level.rank_interval(read_columns(table, codec.schema)["level"])
    assert (low == 0).all()
    assert (high == 1).all()


def test_quantized_rows_can_be_selected_and_moved(half_zeros):
    data = training_batch(*half_zeros)
    some = data[torch.tensor([5, 3])]
    assert isinstance(some, QuantizedRows)
    assert torch.equal(some.low, data.low[[5, 3]])
    assert len(data[:7].high) == 7
    whole = data.complete()
    assert isinstance(whole, QuantizedRows)
    assert len(whole.low) == len(whole.x) == int(data.observed.all(dim=1).sum())
    moved = data.to(torch.device("meta"))
    assert isinstance(moved, QuantizedRows)
    assert {getattr(moved, name).device.type for name in ("x", "observed", "rank_index", "low", "high")} == {"meta"}
    assert isinstance(EncodedRows(data.x, data.observed).to(torch.device("meta")), EncodedRows)


@given(z=arrays(np.float64, 20, elements=st.floats(-6, 6)))
@settings(max_examples=25, deadline=None)
def test_a_column_that_is_not_clipped_extrapolates_and_another_does_not(z):
    values = np.random.default_rng(0).normal(10, 2, 500)
    for unclipped in ((), ("x",)):
        codec, _ = codec_of({"x": values}, unclipped=unclipped)
        drawn = codec.decode(np.stack([np.zeros(20), z], axis=1))["x"].values
        outside = (drawn < values.min()) | (drawn > values.max())
        (column,) = codec.codecs
        beyond = np.abs(column.normal_scores.transform(np.array([values.min() - 1e-9, values.max() + 1e-9])))
        reached = (z < -beyond[0] - 1e-6) | (z > beyond[1] + 1e-6)
        assert outside[reached].all() == bool(unclipped) or not reached.any()
        assert unclipped or not outside.any()


def test_few_values_are_spikes_unless_the_column_is_not_clipped():
    columns = {"n": [1, 2, 5] * 10}
    (listed,), (free,) = (codec_of(columns, unclipped=unclipped)[0].codecs for unclipped in ((), ("n",)))
    assert (listed.normal_scores, listed.spikes) == (None, (0.0, 1.0, 4.0))
    assert free.spikes == ()
    drawn = free.decode(np.stack([np.zeros(3), [-6.0, 0.0, 6.0]], axis=1)).values.tolist()
    assert drawn[0] < 1 < drawn[1] < 5 < drawn[2]


def test_spikes_outside_a_narrowed_range_decode_to_its_end():
    table = dataframe.read(pa.table({"n": [0] * 50 + list(range(1, 51))}))
    schema = Schema.infer(table)
    narrowed = Schema((replace(schema["n"], minimum=5),))
    codec = RowCodec.fit(narrowed, count_columns(table), encoding="mixed", scaling="standard")
    assert codec.decode(codec.encode(read_columns(table, codec.schema)))["n"].values.min() == 5


def test_spikes_are_all_values_of_few_and_the_frequent_of_many():
    few, _ = codec_of({"n": [1, 2, 5] * 10})
    assert few.codecs[0].normal_scores is None
    many, table = codec_of({"n": [0] * 10 + [7] * 9 + list(range(100, 181))})
    (column,) = many.codecs
    assert isinstance(column, SpikedNumericCodec)
    assert len(column.spikes) == 2
    assert (
        column.decode(column.encode(read_columns(table, many.schema)["n"])).values.tolist()
        == table.column("n").values.tolist()
    )
    mean = column.decode(column.encode(read_columns(table, many.schema)["n"]), is_mean=True).values
    assert mean.tolist() == table.column("n").values.tolist()


def test_an_expectation_decodes_to_its_value_and_a_row_to_its_spike_or_score():
    codec, _ = codec_of({"n": [0] * 50 + list(range(1, 51))})
    (column,) = codec.codecs
    x = np.zeros((2, codec.width))
    x[:, 0] = column.scaler.transform(np.array([20.0]))
    x[0, 2] = x[1, 3] = 1.0  # no spike, and the spike at 0
    assert column.decode(x, is_mean=True).values.tolist() == [20, 0]  # a spike that is certain
    doubted = x.copy()
    doubted[1, 2:4] = 0.1, 0.9
    assert column.decode(doubted, is_mean=True).values.tolist() == [20, 20]
    assert column.expectation(x) == pytest.approx([20, 20])
    assert column.decode(x).values[1] == 0
    assert 20 < column.decode(x).values[0] < 30  # the median score
