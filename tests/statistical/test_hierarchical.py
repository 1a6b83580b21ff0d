"""Columns of thousands of categories: frequent ones one by one, the others in groups."""

import json
import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harpoon
from harpoon import CategoriesGroupedWarning, Harpoon, Schema
from harpoon.data import dataframe, read_columns
from harpoon.data.column import Column, Kind
from harpoon.data.value_counts import count_columns
from harpoon.encoding.categorical import MAX_ONE_HOT_CATEGORIES, N_FREQUENT_CATEGORIES, HierarchicalCodec, OneHotCodec
from harpoon.encoding.row_codec import RowCodec

N_CATEGORIES, N_ROWS, N_REGIONS = 5_000, 20_000, 10
MAX_WIDTH = 250


def zips(codes):
    return np.array([f"{code:05}" for code in range(N_CATEGORIES)])[codes]


def region_of(zip_code):
    return "region " + str(int(zip_code) * N_REGIONS // N_CATEGORIES)


def agreement(zip_codes, regions):
    """In how many rows the zip code lies in the region."""
    return np.mean([region_of(code) == region for code, region in zip(zip_codes, regions.to_pylist(), strict=True)])


@pytest.fixture(scope="module")
def table():
    """Each of the zip codes a few times, some often; the zip code decides the region and where the price lies."""
    rng = np.random.default_rng(0)
    often = rng.integers(0, N_CATEGORIES, 40)
    codes = np.concatenate(
        [np.arange(N_CATEGORIES), rng.integers(0, N_CATEGORIES, N_ROWS - N_CATEGORIES - 4000), rng.choice(often, 4000)]
    )
    rng.shuffle(codes)
    price = codes / N_CATEGORIES * 100 + rng.normal(0, 1, N_ROWS)
    return pa.table({"zip": zips(codes), "region": [region_of(code) for code in codes], "price": price})


@pytest.fixture(scope="module")
def model(table):
    options = {"hidden": 64, "depth": 2, "max_epochs": 12, "learning_rate": 3e-3}
    with pytest.warns(CategoriesGroupedWarning) as caught:
        model = Harpoon(random_state=0, progress=False, **options).fit(table)
    assert [str(one.message) for one in caught] == [
        "Column 'zip' has 5,000 categories: the 64 most frequent are learnt one by one, the others in 70 groups."
    ]
    return model


@pytest.fixture(scope="module")
def grouped(model) -> HierarchicalCodec:
    return model.codec_.codecs[0]


def test_the_network_stays_narrow(model, grouped):
    assert model.codec_.width < MAX_WIDTH
    assert (len(grouped.frequent), grouped.n_groups, grouped.group_size) == (64, 70, 71)
    assert (grouped.n_groups - 1) * grouped.group_size < len(grouped.rare) <= grouped.n_groups * grouped.group_size


def test_the_frequent_categories_are_the_most_frequent(table, grouped):
    counts = Counter(table["zip"].to_pylist())
    frequent_names = {grouped.column.categories[code] for code in grouped.frequent}
    others = set(counts) - frequent_names
    assert min(counts[name] for name in frequent_names) >= max(counts[name] for name in others)


def test_every_category_round_trips(model, grouped):
    codec = model.codec_
    everything = pa.table({"zip": list(grouped.column.categories)})
    rows = read_columns(dataframe.read(everything), codec.schema, partial=True)
    x = codec.encode(rows)
    for is_mean in (False, True):
        assert np.array_equal(codec.decode(x, is_mean=is_mean)["zip"].values, rows["zip"].values)
    p = codec.expectation(x)[1]["zip"]
    assert np.array_equal(p.argmax(axis=1), rows["zip"].values)
    assert p.max(axis=1) == pytest.approx(np.ones(N_CATEGORIES))


def test_a_missing_cell_is_imputed_with_a_plausible_category(model, table):
    holes = table.slice(0, 500).set_column(0, "zip", pa.nulls(500, pa.string()))
    filled = model.impute(holes)["zip"].to_pylist()
    assert agreement(filled, holes["region"]) > 0.9


def test_an_observed_rare_category_predicts_other_columns(model, table, grouped):
    rare = [grouped.column.categories[code] for code in grouped.rare[::50]]
    filled = model.impute(
        pa.table({"zip": rare, "region": pa.nulls(len(rare), pa.string()), "price": [None] * len(rare)})
    )
    assert agreement(rare, filled["region"]) > 0.9
    sampled = model.sample(20, given={"zip": rare[3]}, random_state=0)
    assert set(sampled["zip"].to_pylist()) == {rare[3]}
    assert np.mean(np.asarray(sampled["region"]) == region_of(rare[3])) > 0.8


def test_sampled_categories_are_categories_of_the_table(model, table):
    sampled = model.sample(500, random_state=0)
    assert set(sampled["zip"].to_pylist()) <= set(table["zip"].to_pylist())
    assert agreement(sampled["zip"].to_pylist(), sampled["region"]) > 0.6


def test_probabilities_sum_to_one_and_agree_with_imputed_cells(model, table):
    holes = table.slice(0, 300).set_column(0, "zip", pa.nulls(300, pa.string()))
    expected = model.expect(holes)
    p = expected.probabilities["zip"]
    assert p.shape == (300, N_CATEGORIES)
    assert p.min() >= 0
    assert p.sum(axis=1) == pytest.approx(np.ones(300))
    best = [expected.categories["zip"][code] for code in p.argmax(axis=1)]
    assert best == model.impute(holes)["zip"].to_pylist()


def test_a_saved_model_answers_as_the_unsaved_one(model, table, tmp_path):
    model.save(tmp_path / "m")
    loaded = harpoon.load(tmp_path / "m", progress=False)
    holes = table.slice(0, 50).set_column(0, "zip", pa.nulls(50, pa.string()))
    assert loaded.impute(holes).equals(model.impute(holes))
    assert loaded.sample(5, random_state=1).equals(model.sample(5, random_state=1))


@given(
    n_categories=st.integers(2, 400),
    n_frequent=st.integers(1, 100),
    noise=st.integers(0, 2**32),
    simplex=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_features_decode_to_the_most_probable_category(n_categories, n_frequent, noise, simplex):
    rng = np.random.default_rng(noise)
    column = Column("c", Kind.CATEGORY, categories=tuple(f"{i:03}" for i in range(n_categories)))
    codes = sorted(rng.choice(n_categories, min(n_frequent, n_categories - 1), replace=False).tolist())
    codec = HierarchicalCodec(column, tuple(codes))
    x = rng.random((20, sum(part.width for part in codec.parts)))
    x = x if simplex else 6 * x - 3  # outside the simplex too
    p = codec.expectation(x)
    assert p.sum(axis=1) == pytest.approx(np.ones(20))
    chosen = codec.decode(x).values
    assert p[np.arange(20), chosen] == pytest.approx(p.max(axis=1))


def test_few_categories_are_not_grouped_and_there_is_no_warning():
    table = dataframe.read(pa.table({"c": [f"{i:03}" for i in range(MAX_ONE_HOT_CATEGORIES)] * 2}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codec = RowCodec.fit(Schema.infer(table), count_columns(table), encoding="mixed", scaling="standard")
    assert isinstance(codec.codecs[0], OneHotCodec)


def test_one_category_more_is_grouped_and_survives_json():
    table = dataframe.read(pa.table({"c": [f"{i:03}" for i in range(MAX_ONE_HOT_CATEGORIES + 1)] * 2}))
    with pytest.warns(CategoriesGroupedWarning, match=r"'c' has 257 categories: the 64 most .* in 14 groups\."):
        codec = RowCodec.fit(Schema.infer(table), count_columns(table), encoding="mixed", scaling="standard")
    assert len(codec.codecs[0].frequent) == N_FREQUENT_CATEGORIES
    assert RowCodec.from_json(codec.schema, json.loads(json.dumps(codec.to_json()))) == codec
