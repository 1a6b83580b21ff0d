"""Fixtures of all tests, and which tests run together.

`--dist loadgroup` runs the tests of a group on one worker, so that their fixtures are set up once. A group is a file,
or all tests of a model in `SHARED_MODELS`, whose training takes many seconds.
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from harpoon import Harpoon
from tests.support import browser as chromium
from tests.support import frames
from tests.support.oracles import mixture_table
from tests.support.server import serving

# CI judges a change by the same examples as the run before it; at a desk every run has new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).parent
MARK_OF_FOLDER = {"statistical": "slow", "integration": "integration"}
SHARED_MODELS = ("mixture_model",)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(ROOT).parts[0] if item.path.is_relative_to(ROOT) else ""
        if folder in MARK_OF_FOLDER:
            item.add_marker(MARK_OF_FOLDER[folder])
        if item.get_closest_marker("xdist_group") is None:
            shared = [name for name in SHARED_MODELS if name in getattr(item, "fixturenames", ())]
            item.add_marker(pytest.mark.xdist_group(shared[0] if shared else item.nodeid.partition("::")[0]))


<<<<<<< HEAD
@pytest.fixture(scope="session", params=frames.LIBRARIES)
=======
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
>>>>>>> house
def library(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def frame_of(library) -> Callable:
    return lambda columns: frames.make(library, columns)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all pages."""
    driver = chromium.start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def tools() -> SimpleNamespace:
    """Short names of `tests.support`."""
    return SimpleNamespace(
        make=frames.make,
        read_back=frames.read_back,
        assert_same=frames.assert_same,
        assert_filled=frames.assert_filled,
        fit=frames.fit,
        serving=serving,
        dtypes=frames.dtypes,
        mixed_columns=frames.mixed_columns,
        small=frames.TINY,
        libraries=frames.LIBRARIES,
    )


@pytest.fixture(scope="session")
def fitted(library) -> SimpleNamespace:
    """A tiny model of a mixed table, and that table, in each library."""
    table = frames.make(library, frames.mixed_columns())
    return SimpleNamespace(library=library, table=table, model=frames.fit(table))


@pytest.fixture(scope="session")
def arrow_fitted() -> SimpleNamespace:
    """The same model in one library, for tests that do not depend on it."""
    table = frames.make("pyarrow", frames.mixed_columns())
    return SimpleNamespace(library="pyarrow", table=table, model=frames.fit(table))


@pytest.fixture(scope="session")
def continuous_model() -> Harpoon:
    """A tiny model of two continuous columns, x and y, and a category, c. Few sampled numbers repeat."""
    return frames.fit(mixture_table(2000, seed=0))


@pytest.fixture(scope="session")
def mixture_model() -> Harpoon:
    """A model of a mixture of two Gaussians that is trained long enough to be compared with closed forms."""
    options = {"hidden": 64, "depth": 2, "batch_size": 256, "max_epochs": 150, "learning_rate": 3e-3}
    return Harpoon(random_state=0, progress=False, **options).fit(mixture_table(4000, seed=0))
