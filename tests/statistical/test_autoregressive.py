"""Autoregressive sampling by trained models: batches, steps, Gibbs steps and relations."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from harpoon import Harpoon
from harpoon.data import dataframe
from harpoon.data.reader import read_columns


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    table = pa.table(
        {"x": x, "n": rng.poisson(3, 400), "c": np.where(x > 0, "up", "down"), "y": x + rng.normal(size=400)}
    )
    return Harpoon(hidden=16, max_epochs=3, random_state=0, progress=False).fit(table)


def test_samples_do_not_depend_on_the_batch(model):
    whole = model.sample(200, random_state=1)
    assert model.sample(200, random_state=1, sampling_batch_size=7).equals(whole)
    assert model.sample(50, random_state=1, row_offset=100).equals(whole.slice(100, 50))


def test_the_number_of_steps_is_an_option(model):
    autoregressive, diffusion = model.sample(50, random_state=1), model.sample(50, random_state=1, ar_steps=0)
    assert not autoregressive.equals(diffusion)
    assert diffusion.equals(model.sample(50, random_state=1, ar_steps=0))
    assert model.sample(50, random_state=1, ar_steps=4).equals(autoregressive)  # a row has four cells
    assert not model.sample(50, random_state=1, ar_steps=2).equals(autoregressive)


def test_a_gibbs_step_resamples_a_fraction_of_the_cells_and_keeps_given_ones(model):
    sampler = model._sampler(seed=3)
    table, index = model.sample(300, random_state=1), np.arange(300)
    rows = read_columns(dataframe.read(table), model.schema_)
    given = read_columns(dataframe.read(table.set_column(2, "c", pa.nulls(300, pa.string()))), model.schema_)
    nothing = {name: replace(cells, missing=np.ones(300, dtype=np.bool_)) for name, cells in rows.items()}
    kept = equal_cells(sampler.gibbs_step(rows, nothing, index, fraction=0.0, draw=1), rows)
    assert kept == {"x": 1, "n": 1, "c": 1, "y": 1}
    assert 0.3 < equal_cells(sampler.gibbs_step(rows, nothing, index, fraction=0.5, draw=1), rows)["x"] < 0.7
    resampled = equal_cells(sampler.gibbs_step(rows, given, index, fraction=1.0, draw=1), rows)
    assert {name: resampled[name] for name in ("x", "n", "y")} == {"x": 1, "n": 1, "y": 1}
    assert resampled["c"] < 1


def equal_cells(rows, others):
    """Return the fraction of equal cells of each column."""
    return {name: np.mean(cells.values == others[name].values) for name, cells in rows.items()}


def test_numbers_with_a_relation_have_the_right_distribution():
    """A tip is small beside its bill: if the total were sampled first, its error would be as large as the tip."""
    rng = np.random.default_rng(0)
    net, tip = rng.lognormal(4, 0.5, 1000), rng.gamma(4, 0.25, 1000)
    table = pa.table({"net": net, "tip": tip, "total": net + tip})
    model = Harpoon(hidden=32, max_epochs=30, random_state=0, progress=False).fit(table)
    missing = pa.nulls(1000, pa.float64())
    draw = model.impute(pa.table({"net": net, "tip": missing, "total": missing}), draws=1, random_state=0).tables[0]
    tips, totals = (np.asarray(draw[name]) for name in ("tip", "total"))
    assert tips.std() == pytest.approx(tip.std(), rel=0.1)
    assert np.isclose(net + tips, totals, rtol=1e-6).mean() > 0.99
