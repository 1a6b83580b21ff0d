"""Structurally missing cells are found in bounded memory, and only where there may be any."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harpoon import Harpoon
from harpoon.data import dataframe, read_columns
from harpoon.encoding.row_codec import RowCodec

ROWS = 300


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    pay, seen = rng.choice(["card", "cash"], ROWS), rng.random(ROWS) < 0.7
    bonus = np.where(pay == "card", rng.normal(size=ROWS), np.nan)
    return pd.DataFrame({"pay": pay, "bonus": bonus, "score": np.where(seen, rng.normal(size=ROWS), np.nan)})


@pytest.fixture(scope="module")
def model(table):
    return Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(table)


def structural_nulls(model, table, **options):
    sampler = model._sampler()
    sampler.config = replace(sampler.config, **options)
    return sampler.structural_nulls(read_columns(dataframe.read(table), model.schema_))


def test_cells_that_another_label_forces_to_be_missing_are_found(model, table):
    found = structural_nulls(model, table)
    assert list(found) == ["bonus"]
    assert (found["bonus"] == (table["pay"] == "cash")).all()


@pytest.mark.parametrize("size", [1, 7, ROWS])
def test_they_do_not_depend_on_the_size_of_a_batch(model, table, size):
    whole, parts = structural_nulls(model, table), structural_nulls(model, table, sampling_batch_size=size)
    assert whole.keys() == parts.keys()
    assert (whole["bonus"] == parts["bonus"]).all()


def test_only_rows_with_an_unknown_cell_of_such_a_column_are_encoded(model, table, monkeypatch):
    encoded, encode = [], RowCodec.to_batch

    def record(codec, rows):
        encoded.append(len(rows["pay"].values))
        return encode(codec, rows)

    monkeypatch.setattr(RowCodec, "to_batch", record)
    assert structural_nulls(model, table[table["pay"] == "card"]) == {}
    assert encoded == []
    structural_nulls(model, table)
    assert sum(encoded) == (table["pay"] == "cash").sum()
