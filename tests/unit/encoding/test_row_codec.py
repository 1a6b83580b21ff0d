"""Encoded rows: scalers, codecs, and the position of columns in the row."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import preprocessing

from harpoon import Schema, SchemaMismatch
from harpoon.data import dataframe, read_columns
from harpoon.data.value_counts import WeightedValues, count_columns
from harpoon.encoding.categorical import OneHotCodec
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.scalers import QuantileScaler, StandardScaler

ENCODINGS = ("onehot", "integer", "mixed")
QUICK = settings(max_examples=40, deadline=None)
SENSIBLE = st.floats(-1e6, 1e6).map(lambda v: v if abs(v) > 1e-100 else 0.0)  # slopes between them are finite
VALUES = arrays(np.float64, st.integers(2, 60), elements=SENSIBLE)
TIED = arrays(np.float64, st.integers(2, 60), elements=st.integers(-3, 3).map(float))


def codec_of(table, encoding="onehot", scaling="standard", **words):
    table = dataframe.read(table)
    return RowCodec.fit(Schema.infer(table, **words), count_columns(table), encoding=encoding, scaling=scaling), table


def sklearn_quantile(x):
    return preprocessing.QuantileTransformer(n_quantiles=min(1000, len(x)), subsample=None).fit(x[:, None])


def assert_same_scaling(theirs, queries):
    """Given the same quantiles; where ties begin, a rounding error in them moves a rank by a whole step."""
    ours = QuantileScaler(tuple(theirs.quantiles_[:, 0].tolist()))
    np.testing.assert_allclose(ours.transform(queries), theirs.transform(queries[:, None])[:, 0], rtol=0, atol=1e-9)
    ranks = np.linspace(0, 1, 21)
    wanted = theirs.inverse_transform(ranks[:, None])[:, 0]
    np.testing.assert_allclose(ours.inverse(ranks), wanted, rtol=0, atol=1e-9 * np.abs(queries).max())


@given(VALUES | TIED)
@QUICK
def test_the_quantiles_are_those_of_scikit_learn(x):
    wanted = sklearn_quantile(x).quantiles_[:, 0]
    np.testing.assert_allclose(
        QuantileScaler.fit(WeightedValues.from_values(x)).quantiles, wanted, rtol=0, atol=1e-9 * np.abs(x).max()
    )


@given(VALUES | TIED)
@QUICK
def test_the_quantile_scaler_is_that_of_scikit_learn(x):
    assert_same_scaling(sklearn_quantile(x), x)


@pytest.mark.parametrize("ties", [False, True])
def test_the_quantile_scaler_is_that_of_scikit_learn_on_many_rows(ties):
    rng = np.random.default_rng(0)
    x = rng.gamma(2, 10, 5000)
    x = np.round(x / 5) * 5 if ties else x
    queries = np.concatenate([x, rng.uniform(x.min() - 10, x.max() + 10, 500)])
    theirs = sklearn_quantile(x)
    assert_same_scaling(theirs, queries)
    np.testing.assert_allclose(
        QuantileScaler.fit(WeightedValues.from_values(x)).transform(queries),
        theirs.transform(queries[:, None])[:, 0],
        atol=1e-9,
    )


@given(VALUES)
@QUICK
def test_the_standard_scaler_is_that_of_scikit_learn(x):
    ours = StandardScaler.fit(WeightedValues.from_values(x))
    theirs = preprocessing.StandardScaler().fit(x[:, None])
    if theirs.var_[0] > 1e-12 * max(1, np.abs(x).max()) ** 2:
        np.testing.assert_allclose(ours.transform(x), theirs.transform(x[:, None])[:, 0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scaler", [StandardScaler, QuantileScaler])
@given(x=VALUES | TIED)
@QUICK
def test_a_scaler_has_an_inverse_and_is_monotone(scaler, x):
    fitted = scaler.fit(WeightedValues.from_values(x))
    z = fitted.transform(x)
    np.testing.assert_allclose(fitted.inverse(z), x, rtol=0, atol=1e-9 * max(1e-300, np.abs(x).max()))
    assert (np.diff(z[np.argsort(x, kind="stable")]) >= 0).all()


@pytest.mark.parametrize("scaler", [StandardScaler, QuantileScaler])
def test_a_scaler_of_no_value_or_of_one_is_finite(scaler):
    for x in (np.array([]), np.array([3.5]), np.array([3.5] * 9)):
        fitted = scaler.fit(WeightedValues.from_values(x))
        assert np.isfinite(fitted.transform(np.array([3.5, 0.0, 1e9]))).all()
        assert np.isfinite(fitted.inverse(np.array([0.0, 0.5, 1.0]))).all()


def test_a_one_hot_vector_is_one_for_the_category_and_zero_elsewhere():
    codec, table = codec_of(pa.table({"c": ["b", "a", None, "c"]}))
    assert codec.encode(read_columns(table, codec.schema)).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_a_missing_cell_is_all_zeros_in_every_encoding(frame_of, tools):
    for encoding in ENCODINGS:
        for scaling in ("standard", "quantile"):
            codec, table = codec_of(frame_of(tools.mixed_columns()), encoding, scaling)
            rows = read_columns(table, codec.schema)
            x, observed = codec.encode(rows), codec.repeat_per_part(codec.observed(rows))
            assert not observed.all()
            assert (x[~observed] == 0).all()


def test_a_number_is_standardised_over_the_observed_cells():
    codec, table = codec_of(pa.table({"x": [1.0, None, 3.0, 8.0]}))
    x = codec.encode(read_columns(table, codec.schema))[[0, 2, 3], 0]
    assert x.mean() == pytest.approx(0)
    assert x.std() == pytest.approx(1)


def test_slices_are_adjacent_and_cover_the_row(frame_of, tools):
    for encoding in ENCODINGS:
        codec, table = codec_of(frame_of(tools.mixed_columns()), encoding)
        starts, stops = ([getattr(b, end) for b in codec.slices] for end in ("start", "stop"))
        assert starts == [0, *stops[:-1]]
        assert stops[-1] == codec.width == codec.encode(read_columns(table, codec.schema)).shape[1]
        assert list(dict.fromkeys(b.name for b in codec.slices)) == [c.name for c in codec.schema.modelled]
        one_hot = {"job", "member"} if encoding != "integer" else set()
        assert {b.name for b in codec.slices if b.is_categorical and not codec.schema[b.name].kind.numeric} == one_hot
        assert encoding == "mixed" or len(codec.slices) == len(codec.codecs)


def test_repeat_per_part_repeats_a_column_over_its_features():
    codec, _ = codec_of(pa.table({"c": ["b", "a", "c"], "x": [0.5, 1.5, 2.5]}))
    assert codec.repeat_per_part(np.array([[1, 0]])).tolist() == [[1, 1, 1, 0]]


@given(arrays(np.float64, (7, 200), elements=st.floats(-50, 50)))
@QUICK
def test_any_features_decode_to_values_of_the_schema(tools, x):
    for encoding in ENCODINGS:
        for scaling in ("standard", "quantile"):
            codec, table = codec_of(tools.make("pyarrow", tools.mixed_columns()), encoding, scaling)
            assert codec.width <= x.shape[1]
            frame = tools.read_back(table.template.build(codec.decode(x[:, : codec.width])))
            for column in codec.schema:
                values = frame[column.name]
                if column.categories is not None:
                    assert set(values) <= set(column.categories)
                else:
                    assert column.minimum <= min(values)
                    assert max(values) <= column.maximum


def test_one_hot_decodes_to_the_largest_feature():
    codec, _ = codec_of(pa.table({"c": ["b", "a", "c"]}))
    cells = codec.decode(np.array([[0.1, 0.3, 0.2], [-5.0, -6.0, -4.0]]))["c"]
    assert [cells.categories[v] for v in cells.values] == ["b", "c"]


def test_the_integer_encoding_decodes_to_the_nearest_category():
    codec, table = codec_of(pa.table({"c": ["a", "b", "c", "a"]}), "integer")
    x = codec.encode(read_columns(table, codec.schema))
    step = x[1, 0] - x[0, 0]
    for shift in (-0.4 * step, 0.4 * step):
        cells = codec.decode(x + shift)["c"]
        assert [cells.categories[v] for v in cells.values] == ["a", "b", "c", "a"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("scaling", ["standard", "quantile"])
def test_a_codec_survives_json(frame_of, tools, encoding, scaling):
    codec, table = codec_of(frame_of(tools.mixed_columns()), encoding, scaling)
    back = RowCodec.from_json(codec.schema, json.loads(json.dumps(codec.to_json())))
    assert back == codec
    rows = read_columns(table, codec.schema)
    assert np.array_equal(back.encode(rows), codec.encode(rows))


def test_columns_that_a_partial_table_lacks_are_missing():
    codec, _ = codec_of(pa.table({"c": ["b", "a", "c"], "x": [0.5, 1.5, 2.5]}))
    rows = read_columns(dataframe.read(pa.table({"x": [0.5, None]})), codec.schema, partial=True)
    assert rows["c"].missing.all()
    assert rows["x"].missing.tolist() == [False, True]


def test_a_partial_table_must_not_have_other_columns():
    codec, _ = codec_of(pa.table({"c": ["b", "a", "c"], "x": [0.5, 1.5, 2.5]}))
    with pytest.raises(SchemaMismatch, match="'z'"):
        read_columns(dataframe.read(pa.table({"z": [0.5]})), codec.schema, partial=True)


def test_times_of_another_unit_are_read_in_the_unit_of_the_schema():
    seconds = pa.array([86_400, 90_061, 5], pa.timestamp("s"))
    codec, table = codec_of(pa.table({"t": seconds}))
    wanted = codec.encode(read_columns(table, codec.schema))
    for unit in ("ms", "us", "ns"):
        finer = dataframe.read(pa.table({"t": seconds.cast(pa.timestamp(unit))}))
        assert np.array_equal(codec.encode(read_columns(finer, codec.schema)), wanted)


def test_a_declared_category_without_rows_has_a_feature():
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), ["a", "b", "never"])
    codec, _ = codec_of(pa.table({"c": values}))
    assert codec.width == 3
    assert isinstance(codec.codecs[0], OneHotCodec)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("span", [2**30, 2**50])
def test_large_integers_and_late_times_stay_exact(span, encoding):
    values = [2**61, 2**61 + 1, 2**61 + span, 2**61 + span - 7]
    for dtype in (pa.int64(), pa.timestamp("ns"), pa.duration("us")):
        codec, table = codec_of(pa.table({"n": pa.array(values, dtype)}), encoding)
        assert codec.decode(codec.encode(read_columns(table, codec.schema)))["n"].values.tolist() == values
