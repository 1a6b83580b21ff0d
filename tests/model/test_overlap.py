"""Missing cells where no training row has an observed one: noticed, and imputed inside the range of the column."""

import warnings

import numpy as np
import pandas as pd
import pytest

from harpoon import ExtrapolationWarning, Harpoon

RNG = np.random.default_rng(0)
ROWS = 800
AGE = RNG.uniform(0, 20, ROWS)
SIZE = np.where(AGE > 8, 1 + 2 * (AGE - 8) + RNG.gamma(2, 1, ROWS), np.nan)
TABLE = pd.DataFrame({"age": AGE, "height": 50 + 6 * AGE + RNG.normal(0, 5, ROWS), "size": SIZE})
TABLE.loc[RNG.random(ROWS) < 0.1, "height"] = np.nan  # at random


@pytest.fixture(scope="module")
def model():
    return Harpoon(hidden=16, max_epochs=5, random_state=0, progress=False).fit(TABLE)


@pytest.mark.filterwarnings("default::harpoon.exceptions.ExtrapolationWarning")
def test_cells_without_overlap_are_noticed_once(model):
    with pytest.warns(
        ExtrapolationWarning, match=r"no training row has an observed 'size' beside 'age' from 0\."
    ) as caught:
        model.impute(TABLE)
    (warning,) = caught
    facts = warning.message.facts
    assert (facts["column"], facts["other"]) == ("size", "age")
    assert 0.5 * (AGE < 8).sum() < facts["cells"] <= (AGE < 8).sum()  # ranges are those of coarse bins


@pytest.mark.filterwarnings("error::harpoon.exceptions.ExtrapolationWarning")
def test_cells_that_are_missing_at_random_are_not_noticed(model):
    model.impute(TABLE[AGE > 8.5])
    hidden = TABLE.copy()
    hidden.loc[AGE > 8.5, "size"] = np.nan  # observed beside such ages in training
    model.impute(hidden[AGE > 8.5])


def test_expectations_lie_in_the_range_of_their_column(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        means = model.expect(TABLE).numbers["size"]
    assert np.nanmin(SIZE) <= means.min() <= means.max() <= np.nanmax(SIZE)
