"""Small tables and models for tests of training; scripts in other processes import them too."""

from itertools import pairwise

import numpy as np
import pyarrow as pa

from harpoon import Harpoon

DISTRIBUTED_OPTIONS = {"hidden": 32, "batch_size": 64, "random_state": 0, "progress": False}


def small_model(preset: str = "anchored", **options) -> Harpoon:
    return Harpoon(preset, **{"hidden": 16, "random_state": 0, "progress": False, **options})


def up_or_down_table(rows: int = 300) -> pa.Table:
    """Two correlated numbers, and a category that follows from the first."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    return pa.table({"x": x, "y": x + rng.normal(size=rows), "kind": np.where(x > 0, "up", "down")})


def sorted_table(rows: int = 900) -> pa.Table:
    """A table sorted by x, so that no part of it looks like the whole; y is almost 2x."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=rows))
    return pa.table({"x": x, "y": 2 * x + rng.normal(size=rows) / 10, "kind": np.where(x > 0, "up", "down")})


def sorted_parts(n: int) -> list[pa.Table]:
    """The sorted table in n parts of different lengths."""
    table = sorted_table()
    cuts = [0, *(len(table) * (k + 1) // (n + 1) for k in range(1, n)), len(table)]
    return [table.slice(start, stop - start) for start, stop in pairwise(cuts)]
