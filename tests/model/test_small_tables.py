"""Tables of one or two columns, with any kind of column."""

import numpy as np
import pyarrow as pa
import pytest

from harpoon import ColumnLeftOutWarning, Harpoon

RNG = np.random.default_rng(0)
MISSING = np.arange(60) % 4 == 0
TINY = {
    "one number": {"x": RNG.normal(size=60)},
    "one number of few values": {"n": RNG.integers(0, 4, 60)},
    "one number with missing cells": {"x": pa.array(RNG.normal(size=60), mask=MISSING)},
    "one category": {"c": np.array(list("abc"))[RNG.integers(0, 3, 60)]},
    "one boolean with missing cells": {"b": pa.array(RNG.random(60) < 0.5, mask=MISSING)},
    "only categories": {"c": np.array(list("abc"))[RNG.integers(0, 3, 60)], "b": RNG.random(60) < 0.3},
    "one number and one category": {"x": RNG.normal(size=60), "c": np.array(list("ab"))[RNG.integers(0, 2, 60)]},
    "two numbers": {"x": RNG.normal(size=60), "y": RNG.normal(size=60)},
    "a number that is nearly always missing": {"x": RNG.normal(size=60), "y": pa.array([0.5, 1.5] + [None] * 58)},
}


@pytest.mark.parametrize("columns", TINY.values(), ids=TINY)
def test_tables_with_few_numeric_columns_or_none_are_fitted_imputed_sampled_and_saved(columns, tmp_path):
    table = pa.table(columns)
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    empty = pa.table({field.name: pa.nulls(5, field.type) for field in table.schema})
    model.save(tmp_path / "m")
    loaded = Harpoon.load(tmp_path / "m", progress=False)
    for made in (model, loaded):
        for filled in (
            made.impute(table),
            made.impute(empty),
            made.sample(5, missing="complete"),
            *made.impute(empty, draws=2),
        ):
            assert filled.schema == table.schema
            assert all(column.null_count == 0 for column in filled.columns)
    assert loaded.sample(5).equals(model.sample(5))


def test_an_empty_column_stays_empty():
    table = pa.table({"x": RNG.normal(size=60), "empty": pa.nulls(60, pa.float64())})
    with pytest.warns(ColumnLeftOutWarning, match="empty"):
        model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    assert model.impute(table)["empty"].null_count == 60
