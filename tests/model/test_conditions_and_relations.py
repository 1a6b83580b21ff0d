"""Conditions on columns that relations bind: rows satisfy the condition, and keep the relations that it leaves."""

import numpy as np
import pandas as pd
import pytest

from harpoon import Harpoon, InfeasibleCondition, Schema
from harpoon.inference.conditional import conditional_sampler

ROWS = 400


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    base, tax = np.round(rng.gamma(4, 15, ROWS) + 5, 2), np.round(rng.gamma(3, 3, ROWS) + 1, 2)
    price, quantity = rng.integers(5, 40, ROWS), rng.integers(1, 6, ROWS)
    return pd.DataFrame(
        {
            "base": base,
            "tax": tax,
            "total": np.round(base + tax, 2),
            "price": price,
            "quantity": quantity,
            "amount": price * quantity,
            "rating": rng.integers(1, 6, ROWS),
        }
    )


@pytest.fixture(scope="module")
def model(table):
    return Harpoon(hidden=32, depth=2, max_epochs=10, random_state=0, progress=False).fit(table)


@pytest.mark.parametrize("where", ["total = 2 * tax", "base < 20 and total > 40", "abs(total - 3 * tax) < 0.1"])
def test_rows_under_a_condition_on_several_terms_of_a_sum_keep_it(model, where):
    rows = model.sample(60, where=where, strategy="conditioning", random_state=1)
    assert len(rows) == 60
    assert (rows["total"] - rows["base"] - rows["tax"]).abs().max() < 0.006
    assert (rows["price"] * rows["quantity"] == rows["amount"]).all()


def test_a_condition_that_contradicts_one_relation_of_a_row_leaves_the_others(model, table):
    incomplete = table.head(40).assign(quantity=pd.array([pd.NA] * 40, dtype="Int64"), total=np.nan)
    filled = model.impute(incomplete, where="quantity = rating", random_state=0)
    assert (filled["quantity"] == table["rating"].head(40)).all()
    assert (filled["total"] - filled["base"] - filled["tax"]).abs().max() < 0.006


@pytest.mark.parametrize("free", [["base"], ["tax"], ["base", "tax"]])
def test_an_equation_is_solved_for_columns_without_a_range(table, free):
    numbers = table[["base", "tax"]]
    schema = Schema.infer(numbers)
    for name in free:
        schema = schema.replace(name, clip=False)
    options = {"hidden": 32, "depth": 2, "max_epochs": 3, "random_state": 0, "progress": False}
    model = Harpoon(schema=schema, **options).fit(numbers)
    rows = model.sample(20, where="base - 2 * tax = 3", random_state=0)
    np.testing.assert_allclose(rows["base"] - 2 * rows["tax"], 3, atol=1e-9)


@pytest.fixture(scope="module")
def stays():
    """Return a model of visits that last up to three weeks; their end is computed."""
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 730 * 24, 500), unit="h")
    frame = pd.DataFrame({"start": start, "stay": pd.to_timedelta(rng.integers(0, 21 * 24, 500), unit="h")})
    frame["finish"] = frame["start"] + frame["stay"]
    return Harpoon(hidden=16, depth=1, max_epochs=6, random_state=0, progress=False).fit(frame)


@pytest.mark.parametrize(
    "where",
    [
        "month(start) = 3 and month(finish) = 4",
        "month(start) = 1 and month(finish) = 6 or month(start) = 2 and month(finish) = 3",
    ],
)
def test_a_condition_on_both_ends_of_a_time_leaves_rows_that_keep_the_relation(stays, where):
    rows = stays.sample(20, where=where, strategy="conditioning", random_state=0)
    assert len(rows) == 20
    assert (rows["start"] + rows["stay"] == rows["finish"]).all()
    assert (rows["start"].dt.month != rows["finish"].dt.month).all()


def test_a_condition_that_every_row_meets_only_by_breaking_a_relation_is_refused(stays, monkeypatch):
    monkeypatch.setattr(conditional_sampler, "PILOT_ROWS", 512)
    with pytest.raises(InfeasibleCondition, match=r"break a relation of all training rows: .*finish = start \+ stay"):
        stays.sample(20, where="month(start) = 1 and month(finish) = 6", random_state=0)
