"""Tables of every library, comparisons of tables, and tiny models."""

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa

from harpoon import ColumnLeftOutWarning, Harpoon

LIBRARIES = ("pandas", "polars", "pyarrow")
TINY = {"hidden": 16, "max_epochs": 2, "diffusion_steps": 5, "progress": False, "random_state": 0}


def make(library, columns):
    """Return a table of the library from lists or Arrow arrays; None is a missing cell."""
    arrays = {
        name: values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        for name, values in columns.items()
    }
    table = pa.table(arrays)
    if library == "pandas":
        return table.to_pandas(date_as_object=True)
    if library == "polars":
        frame = pl.from_arrow(table)
        frame.columns = table.schema.names  # polars would rename a column without a name
        return frame
    return table


def is_missing(value):
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def read_back(frame):
    """Return any table as a dict of lists, in which a missing cell is None and a time is exact."""
    if isinstance(frame, pd.DataFrame):
        lists = {name: frame.iloc[:, i].tolist() for i, name in enumerate(frame.columns)}
    elif isinstance(frame, pl.DataFrame):
        series = {s.name: s.to_physical() if s.dtype.is_temporal() else s for s in frame.iter_columns()}
        lists = {name: s.to_list() for name, s in series.items()}
    else:
        lists = {name: frame.column(name).to_pylist() for name in frame.schema.names}
    return {name: [None if is_missing(v) else v for v in values] for name, values in lists.items()}


def assert_same(left, right):
    """Assert that two tables are equal: library, columns, dtypes, index and every cell."""
    assert type(left) is type(right)
    if isinstance(left, pd.DataFrame):
        pd.testing.assert_frame_equal(left, right, check_exact=True)
    elif isinstance(left, pl.DataFrame):
        polars.testing.assert_frame_equal(left, right, check_exact=True)
    else:
        assert left.schema.equals(right.schema)
        assert left.to_pydict() == right.to_pydict()


def dtypes(frame):
    if isinstance(frame, pd.DataFrame):
        return dict(zip(frame.columns, frame.dtypes, strict=True))
    return dict(frame.schema) if isinstance(frame, pl.DataFrame) else {f.name: f.type for f in frame.schema}


def assert_filled(before, after, changed=()):
    """Assert that no cell is missing, observed cells are unchanged, and dtypes too except those in `changed`."""
    assert type(before) is type(after)
    old, new = read_back(before), read_back(after)
    assert list(old) == list(new)
    for name, values in old.items():
        assert None not in new[name], name
        kept = [(a, b) for a, b in zip(values, new[name], strict=True) if a is not None]
        if name not in changed:
            assert [(type(a), repr(a)) for a, _ in kept] == [(type(b), repr(b)) for _, b in kept], name
        assert [a for a, _ in kept] == [b for _, b in kept], name
    old_types, new_types = dtypes(before), dtypes(after)
    assert {n: t for n, t in old_types.items() if n not in changed} == {
        n: t for n, t in new_types.items() if n not in changed
    }
    if isinstance(before, pd.DataFrame):
        pd.testing.assert_index_equal(before.index, after.index, exact=True)
        pd.testing.assert_index_equal(before.columns, after.columns, exact=True)


def fit(table, **options):
    """Return a tiny model, fitted without warnings about columns that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnLeftOutWarning)
        return Harpoon(**{**TINY, "incomplete_rows": "mask", **options}).fit(table)


def mixed_columns(rows=60, missing=True):
    """Return columns of every plain kind; with `missing`, every seventh cell of a column is missing."""
    rng = np.random.default_rng(3)
    job = rng.choice(["chef", "nurse", "pilot"], rows)
    columns = {
        "height": rng.normal(170, 8, rows).tolist(),
        "price": np.round(rng.gamma(2, 10, rows), 2).tolist(),
        "age": rng.integers(18, 80, rows).tolist(),
        "job": job.tolist(),
        "member": (rng.random(rows) < 0.5).tolist(),
    }
    if missing:
        for i, values in enumerate(columns.values()):
            for row in range(i, rows, 7):
                values[row] = None
    return columns
