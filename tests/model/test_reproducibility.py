"""The same seed gives the same model and the same rows, whatever the batch."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import Harpoon

OPTIONS = {"hidden": 32, "max_epochs": 30, "diffusion_steps": 20, "learning_rate": 1e-3, "incomplete_rows": "mask"}


@pytest.fixture(scope="module")
def model_and_table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    kind = np.where(x + rng.normal(size=300) > 0, "up", "down")
    missing = rng.random((300, 2)) < 0.3
    table = pa.table(
        {
            "x": pa.array(x.round(3), mask=missing[:, 0]),
            "n": pa.array(rng.integers(0, 50, 300)),
            "kind": pa.array(kind, mask=missing[:, 1]),
        }
    )
    model = Harpoon("paper", random_state=0, progress=False, **OPTIONS)
    return model.fit(table), table


def _assert_same(a: pa.Table, b: pa.Table) -> None:
    for name in a.column_names:
        left, right = a[name].to_pylist(), b[name].to_pylist()
        if isinstance(left[0], float):  # matrix products round differently in batches of another size
            assert left == pytest.approx(right, abs=2e-3)
        else:
            assert left == right


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_the_same_seed_gives_the_same_rows_whatever_the_batch_size(model_and_table, batch):
    model, table = model_and_table
    _assert_same(model.impute(table, random_state=5), model.impute(table, random_state=5, sampling_batch_size=batch))
    _assert_same(model.sample(70, random_state=5), model.sample(70, random_state=5, sampling_batch_size=batch))


def test_the_same_seed_gives_the_same_model(model_and_table):
    model, table = model_and_table
    again = Harpoon("paper", random_state=0, progress=False, **OPTIONS).fit(table)
    assert again.sample(20, random_state=1) == model.sample(20, random_state=1)


def test_seeds_and_generators_decide_the_rows(model_and_table):
    model, _ = model_and_table
    assert model.sample(20) == model.sample(20)  # the seed of the model
    assert model.sample(20, random_state=1) != model.sample(20, random_state=2)
    generator = np.random.default_rng(3)
    first, second = model.sample(20, random_state=generator), model.sample(20, random_state=generator)
    assert first != second
    assert first == model.sample(20, random_state=np.random.default_rng(3))


def test_the_global_random_state_is_not_touched(model_and_table):
    model, table = model_and_table
    torch.manual_seed(0)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    Harpoon(hidden=8, max_epochs=1, random_state=0, progress=False).fit(table).sample(3)
    model.impute(table)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002
