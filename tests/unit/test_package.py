"""The package as a whole: its public names and its imports."""

import json
import subprocess
import sys

import pytest

import harpoon

OPTIONAL = (
    "pandas",
    "polars",
    "matplotlib",
    "palmerpenguins",
    "duckdb",
    "hypothesis",
    "sqlglot",
    "rich.progress",
    "typer",
)
PUBLIC_MODULES = ("engines", "io", "metrics", "plots", "report", "sklearn")


INTERNAL = ("estimator", "inference", "networks", "Any", "TYPE_CHECKING", "import_module", "nope")
FACTS = f"""
import harpoon, json, sys, types
facts = {{
    "dir": dir(harpoon),
    "bound": [name for name, value in vars(harpoon).items() if isinstance(value, types.ModuleType)],
    "heavy": [name for name in ("numpy", "torch") if name in sys.modules],
    "internal": [name for name in {INTERNAL!r} if hasattr(harpoon, name)],
    "public": [getattr(harpoon, name).__name__ for name in {PUBLIC_MODULES!r}],
}}
print(json.dumps(facts))
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)  # noqa: S603


@pytest.fixture(scope="module")
def facts() -> dict[str, list[str]]:
    """What a new process finds after `import harpoon` alone."""
    done = run(FACTS)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_the_public_names_are_sorted_and_exist():
    assert harpoon.__all__ == sorted(harpoon.__all__)
    assert all(hasattr(harpoon, name) for name in harpoon.__all__)


def test_dir_lists_the_public_names_only(facts):
    assert dir(harpoon) == sorted(harpoon.__all__) == facts["dir"]


def test_importing_harpoon_binds_no_internal_module(facts):
    assert set(facts["bound"]) <= {"_version"}
    assert facts["internal"] == []


def test_importing_harpoon_loads_neither_numpy_nor_torch(facts):
    assert facts["heavy"] == []


def test_public_modules_are_attributes(facts):
    assert facts["public"] == [f"harpoon.{name}" for name in PUBLIC_MODULES]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'harpoon' has no attribute 'nope'"):
        harpoon.nope  # noqa: B018


def test_every_error_has_one_base_and_every_warning_another():
    public = [getattr(harpoon, name) for name in harpoon.__all__]
    raised = [e for e in public if isinstance(e, type) and issubclass(e, Exception)]
    assert len(raised) >= 15
    assert all(issubclass(e, harpoon.HarpoonError) != issubclass(e, harpoon.HarpoonWarning) for e in raised)
    assert all(issubclass(e, harpoon.HarpoonWarning) == e.__name__.endswith("Warning") for e in raised)


def test_importing_the_estimator_loads_no_optional_package():
    code = f"import harpoon.estimator, sys; print([name for name in {OPTIONAL!r} if name in sys.modules])"
    assert run(code).stdout.strip() == "[]"


def test_a_missing_extra_is_named():
    done = run(
        "import sys; sys.modules['palmerpenguins'] = None\n"
        "from harpoon.apps.cli import main; sys.argv = ['harpoon', 'demo']; main()"
    )
    assert done.returncode == 1
    assert "tabharpoon[demo]" in done.stderr.replace("\n", "")
    assert "Traceback" not in done.stderr
