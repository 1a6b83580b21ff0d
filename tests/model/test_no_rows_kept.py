"""A fitted model keeps no rows: neither in memory, nor in a copy, a pickle or a file."""

import copy
import gc
import pickle
import warnings
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from harpoon import ColumnLeftOutWarning, Harpoon
from harpoon.data.column_array import ColumnArray
from harpoon.sklearn import HarpoonImputer

OPTIONS = {"hidden": 16, "rank_bins": 8, "batch_size": 512, "max_epochs": 1, "random_state": 0, "progress": False}
ACCOUNT = 7_310_577_201_334_911  # an identifier of one row, between the others


def private_table(rows: int) -> pd.DataFrame:
    """Return a table with two columns that are not modelled, a text and an identifier, and two that are."""
    rng = np.random.default_rng(0)
    account = ACCOUNT + 1_000_003 * (np.arange(rows) - rows // 2)
    return pd.DataFrame(
        {
            "note": [f"person-{row} lives here" for row in range(rows)],
            "account": account,
            "x": rng.normal(size=rows),
            "kind": rng.choice(["a", "b"], rows),
        }
    )


def fit(rows: int) -> Harpoon:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnLeftOutWarning)
        model = Harpoon(**OPTIONS).fit(private_table(rows))
    model.impute(private_table(rows))
    model.sample(3, where="x > 0")
    return model


def fit_imputer(rows: int) -> HarpoonImputer:
    options = {name: OPTIONS[name] for name in ("hidden", "rank_bins", "batch_size")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnLeftOutWarning)
        return HarpoonImputer(max_epochs=1, random_state=0, options=options).fit(private_table(rows))


def saved(rows: int, path) -> bytes:
    fit(rows).save(path)
    return path.read_bytes()


STORED = {
    "model": lambda path: pickle.dumps(fit(3000)),
    "copy": lambda path: pickle.dumps(copy.deepcopy(fit(3000))),
    "imputer": lambda path: pickle.dumps(fit_imputer(3000)),
    "file": lambda path: saved(3000, path),
}


@pytest.mark.parametrize("store", STORED.values(), ids=STORED)
def test_no_private_value_is_stored(store, tmp_path):
    data = store(tmp_path / "m")
    assert b"account" in data
    assert b"person-" not in data
    for form in (ACCOUNT.to_bytes(8, "little"), np.float64(ACCOUNT).tobytes(), str(ACCOUNT).encode()):
        assert form not in data
        assert form[::-1] not in data


def reachable(root: object) -> list[object]:
    """Return the objects that an object refers to, without code."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        item = waiting.pop()
        code = isinstance(item, type | ModuleType | FunctionType | BuiltinFunctionType | MethodType)
        if code or id(item) in seen:
            continue
        seen[id(item)] = item
        waiting += gc.get_referents(item)
    return list(seen.values())


@pytest.mark.parametrize("make", [fit, fit_imputer])
def test_no_table_is_reachable_and_the_size_does_not_grow_with_the_rows(make):
    sizes = []
    for rows in (3000, 12_000):
        model = make(rows)
        objects = reachable(model)
        assert not [item for item in objects if isinstance(item, pd.DataFrame | pl.DataFrame | pa.Table | ColumnArray)]
        arrays = [item for item in objects if isinstance(item, np.ndarray | torch.Tensor)]
        assert all(item.shape[0] < rows for item in arrays if item.ndim)
        sizes.append(len(pickle.dumps(model)))
    assert sizes[1] < 1.1 * sizes[0]


def test_a_pickled_model_gives_the_same_results():
    model = fit(300)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    pd.testing.assert_frame_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
