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

# CI judges a change by the same examples as the run before it; at a desk every run has new ones. Neither has a
# deadline: the time of an example on a busy machine says nothing.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

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


@pytest.fixture(scope="session", params=frames.LIBRARIES)
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
