"""Rows whose numbers have a sum and a product in common, and large integers: relations that hold exactly."""

import numpy as np
import pandas as pd
import pytest

from harpoon import Harpoon

N = 500


def fit(table):
    return Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(table)


@pytest.fixture(scope="module")
def table():
    a, b = np.random.default_rng(0).integers(1, 50, (2, N))
    return pd.DataFrame({"a": a, "b": b, "sum": a + b, "prod": a * b})


@pytest.fixture(scope="module", params=[["a", "b", "sum", "prod"], ["prod", "sum", "b", "a"]])
def model(request, table):
    return fit(table[request.param])


@pytest.mark.parametrize("where", [None, "a > 10 and b < 40"])
def test_a_sum_and_a_product_of_the_same_columns_hold_in_all_rows(model, where):
    assert "prod = a * b (100 %)" in [relation.replace("b * a", "a * b") for relation in model.relations()]
    rows = model.sample(150, where=where, random_state=1)
    assert (rows["sum"] == rows["a"] + rows["b"]).all()
    assert (rows["prod"] == rows["a"] * rows["b"]).all()


def test_a_missing_product_is_that_of_the_observed_factors(model, table):
    holes = table[list(model.sample(1).columns)].astype("Int64")
    holes.loc[: N // 2, ["sum", "prod"]] = pd.NA
    filled = model.impute(holes, random_state=2)
    assert (filled["prod"] == table["prod"]).all()
    assert (filled["sum"] == table["sum"]).all()


def test_relations_of_large_integers_hold():
    rng = np.random.default_rng(0)
    k, a = 4 * 10**15 + rng.integers(0, 10**6, N) * 2, rng.integers(0, 4, N)
    model = fit(pd.DataFrame({"k": k, "a": a, "k2": k + a}))
    always = {relation for relation in model.relations() if relation.endswith("(100 %)")}
    assert always == {"k = k2 - a (100 %)", "k2 = k + a (100 %)", "a = k2 - k (100 %)"}
    rows = model.sample(150)
    assert (rows["k2"] == rows["k"] + rows["a"]).all()
