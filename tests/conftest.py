"""Fixtures of all tests, and which tests run together.

With several workers (`pytest -n 2 --dist loadgroup`), the tests of a file run on one worker, so that its fixtures are
set up once. Files that share an expensive fixture are one group.
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
GROUP_OF_FILE = {
    "tests/integration/ray/test_ray.py": "ray",  # a cluster takes long to start, and all CPUs
    "tests/integration/ray/test_ray_train.py": "ray",
    "tests/statistical/test_imputation.py": "mixture_model",
    "tests/statistical/test_sensitivity.py": "mixture_model",
    "tests/statistical/test_anchored.py": "mixture_model",
}


def pytest_configure(config: pytest.Config) -> None:
    # Tests ask tiny tables for rare rows on purpose. Tests of the warning itself expect it by `pytest.warns`.
    config.addinivalue_line("filterwarnings", "ignore::harpoon.exceptions.ExtrapolationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(ROOT).parts[0] if item.path.is_relative_to(ROOT) else ""
        if folder in MARK_OF_FOLDER:
            item.add_marker(MARK_OF_FOLDER[folder])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Return a scheduler by group. The mark `xdist_group` has no effect with pytest 9.2 and xdist 3.8."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return GROUP_OF_FILE.get(file, file)

    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


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
