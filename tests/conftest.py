"""Frames of every library, and small fitted models."""

import math
import os
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from threading import Thread
from time import sleep
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
from hypothesis import settings

from harpoon import ColumnLeftOutWarning, Harpoon
from tests.support import browser as chromium

# CI judges a change by the same examples as the run before it; at a desk every run looks at new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

LIBRARIES = ("pandas", "polars", "pyarrow")
SMALL = {"hidden": 16, "max_epochs": 2, "diffusion_steps": 5, "progress": False, "random_state": 0}


def make(library, columns):
    """A frame of the library from lists or Arrow arrays; None is a missing cell."""
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
    """Any frame as a dict of lists in which a missing cell is None and a time is exact."""
    if isinstance(frame, pd.DataFrame):
        lists = {name: frame.iloc[:, i].tolist() for i, name in enumerate(frame.columns)}
    elif isinstance(frame, pl.DataFrame):
        series = {s.name: s.to_physical() if s.dtype.is_temporal() else s for s in frame.iter_columns()}
        lists = {name: s.to_list() for name, s in series.items()}
    else:
        lists = {name: frame.column(name).to_pylist() for name in frame.schema.names}
    return {name: [None if is_missing(v) else v for v in values] for name, values in lists.items()}


def assert_same(left, right):
    """Two frames are the same: library, columns, dtypes, index and every cell."""
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
    """Nothing missing, what was there unchanged bit for bit, and dtypes kept except those in `changed`."""
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
    """A small model, fitted without a word about the columns it leaves out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnLeftOutWarning)
        return Harpoon(**{**SMALL, "incomplete_rows": "mask", **options}).fit(table)


def mixed_columns(rows=60, holes=True):
    """Columns of every plain kind, with a hole here and there."""
    rng = np.random.default_rng(3)
    job = rng.choice(["chef", "nurse", "pilot"], rows)
    columns = {
        "height": rng.normal(170, 8, rows).tolist(),
        "price": np.round(rng.gamma(2, 10, rows), 2).tolist(),
        "age": rng.integers(18, 80, rows).tolist(),
        "job": job.tolist(),
        "member": (rng.random(rows) < 0.5).tolist(),
    }
    if holes:
        for i, values in enumerate(columns.values()):
            for row in range(i, rows, 7):
                values[row] = None
    return columns


@contextmanager
def serving(app, limits=None):
    """The address of an application that is served on a real socket, by a thread, until the block ends."""
    from harpoon.apps.server.limits import Limits
    from harpoon.apps.server.run import listen, make_server

    with listen("127.0.0.1", 0) as sock:
        server = make_server(app, limits or Limits())
        thread = Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            while thread.is_alive() and not server.started:
                sleep(0.01)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session", params=LIBRARIES)
def library(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def frame_of(library) -> Callable:
    return lambda columns: make(library, columns)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all pages."""
    driver = chromium.start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def tools() -> SimpleNamespace:
    """The functions of this file, for tests that cannot import it."""
    return SimpleNamespace(
        make=make,
        read_back=read_back,
        assert_same=assert_same,
        assert_filled=assert_filled,
        fit=fit,
        serving=serving,
        dtypes=dtypes,
        mixed_columns=mixed_columns,
        small=SMALL,
        libraries=LIBRARIES,
    )


@pytest.fixture(scope="session")
def fitted(library) -> SimpleNamespace:
    """A small model of a mixed table, and that table, in each library."""
    table = make(library, mixed_columns())
    return SimpleNamespace(library=library, table=table, model=fit(table))


@pytest.fixture(scope="session")
def arrow_fitted() -> SimpleNamespace:
    """The same model in one library, for what does not depend on it."""
    table = make("pyarrow", mixed_columns())
    return SimpleNamespace(library="pyarrow", table=table, model=fit(table))
