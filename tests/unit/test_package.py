"""The package as a whole: its public names and its imports."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import harpoon
from tests.support.cli import call

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
    "anywidget",
    "fastapi",
)
PUBLIC_MODULES = ("engines", "io", "metrics", "plots", "report", "sklearn")
INTERNAL = ("estimator", "inference", "networks", "Any", "TYPE_CHECKING", "import_module", "nope")
# One process imports more and more: each fact is what holds at that point. A package that is None cannot be imported.
FACTS = f"""
import json, sys, types
before = set(sys.modules)
import harpoon
added = len(set(sys.modules) - before)
loaded = lambda *names: [name for name in names if name in sys.modules]
facts = {{
    "dir": dir(harpoon),
    "bound": [name for name, value in vars(harpoon).items() if isinstance(value, types.ModuleType)],
    "internal": [name for name in {INTERNAL!r} if hasattr(harpoon, name)],
    "package": loaded("numpy", "torch", "pyarrow", "scipy"),
    "added": added,
}}
harpoon.engines.ENGINES, harpoon.io.FORMATS
facts["registries"] = loaded("pyarrow", "torch", "numpy")
harpoon.metrics
facts["metrics"] = loaded("xgboost", "scipy", "sklearn", "pandas")
import harpoon.estimator
facts["estimator"] = loaded(*{OPTIONAL!r})

sys.modules["matplotlib"] = None
try:
    harpoon.plots
except harpoon.MissingExtra as error:
    facts["without matplotlib"] = str(error)
del sys.modules["matplotlib"]
import pyarrow as pa
harpoon.plots.missingness(pa.table({{"x": [1, None]}}))._repr_png_()
facts["plots"] = loaded("matplotlib.pyplot")

sys.modules["jinja2"] = sys.modules["markupsafe"] = None
table = pa.table({{"x": [1.0, 2.0, 3.0]}})
page = harpoon.report.Page(harpoon.report.compare(table, table))
try:
    page.html
except harpoon.MissingExtra as error:
    facts["without jinja2"] = str(error)
facts["public"] = [getattr(harpoon, name).__name__ for name in {PUBLIC_MODULES!r}]
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts() -> dict[str, list[str]]:
    """What a new process finds that imports the package step by step."""
    done = subprocess.run([sys.executable, "-c", FACTS], capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
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


@pytest.mark.parametrize("imported", ["package", "registries", "metrics", "estimator", "plots"])
def test_an_import_loads_nothing_that_it_does_not_need(facts, imported):
    """The command line reads the registries for its help texts; pyplot has global state."""
    assert facts[imported] == []


def test_importing_the_package_takes_next_to_nothing(facts):
    """It has to stay under 0.15 s of processor time. Modules are counted, because a time depends on the machine."""
    assert facts["added"] < 30


@pytest.mark.parametrize(("package", "extra"), [("matplotlib", "plots"), ("jinja2", "report")])
def test_a_missing_package_is_named_with_its_extra(facts, package, extra):
    """Summaries of a report work without Jinja."""
    assert f"needs the package {package!r}" in facts[f"without {package}"]
    assert f'pip install -c constraints.txt ".[{extra}]"' in facts[f"without {package}"]


def test_public_modules_are_attributes(facts):
    assert facts["public"] == [f"harpoon.{name}" for name in PUBLIC_MODULES]


PACKAGES = sorted(path.parent for path in Path(harpoon.__file__).parent.rglob("__init__.py"))
ENTRY = re.compile(r"^    ([a-z_.]+)(?:\(.*?\))?  +\S", re.MULTILINE)  # of a list: a name, and what it is


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_a_package_lists_only_what_it_has(folder):
    """Scores are listed below a name of their group, and so have a test of their own."""
    doc = (folder / "__init__.py").read_text(encoding="utf-8").split('"""')[1]
    listed = [] if folder.name == "metrics" else ENTRY.findall(doc)
    for name in listed:
        path = folder / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file() or f'"{name}"' in (folder / "__init__.py").read_text()


def test_lists_are_found():
    docs = {folder.name: (folder / "__init__.py").read_text(encoding="utf-8") for folder in PACKAGES}
    listed = {name: ENTRY.findall(doc.split('"""')[1]) for name, doc in docs.items()}
    assert "attacks.membership" in listed["privacy"]
    assert "logic" in listed["conditions"]
    assert "summarize_audit" in listed["report"]


def test_all_scores_are_listed():
    metrics = importlib.import_module("harpoon.metrics")
    scores = set(metrics.__all__) - {"METRICS", "Metric"}
    assert scores <= set(re.findall(r"\w+", metrics.__doc__))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'harpoon' has no attribute 'nope'"):
        harpoon.nope  # noqa: B018


def test_every_error_has_one_base_and_every_warning_another():
    public = [getattr(harpoon, name) for name in harpoon.__all__]
    raised = [e for e in public if isinstance(e, type) and issubclass(e, Exception)]
    assert len(raised) >= 15
    assert all(issubclass(e, harpoon.HarpoonError) != issubclass(e, harpoon.HarpoonWarning) for e in raised)
    assert all(issubclass(e, harpoon.HarpoonWarning) == e.__name__.endswith("Warning") for e in raised)


def test_a_missing_extra_is_named_on_the_command_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "palmerpenguins", None)
    done = call("demo")
    assert done.code == 1
    assert '".[demo]"' in done.said.replace("\n", "")
    assert "Traceback" not in done.said
