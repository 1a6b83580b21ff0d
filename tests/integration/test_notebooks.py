"""The notebooks of the documentation run, with tiny models, and are stored as they ran."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PARAMETERS = "EPOCHS, DRAWS = 2, 3\nOPTIONS = {'hidden': 16, 'diffusion_steps': 5}"
NAMES = ("clusters", "comparison", "first-steps", "imputation", "rules", "what-if")
MAX_BYTES = 80_000

if any(importlib.util.find_spec(name) is None for name in ("nbclient", "ipykernel", "anywidget", "palmerpenguins")):
    pytest.skip('the notebooks need: pip install -c constraints.txt ".[dev]"', allow_module_level=True)


@pytest.fixture(scope="module")
def notebooks():
    """The module that runs notebooks."""
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kernel(notebooks, tmp_path_factory):
    """One kernel for all notebooks, each of which forgets what the one before knew."""
    folder = tmp_path_factory.mktemp("ipython")
    manager = notebooks.KernelManager()
    manager.start_kernel(env={**os.environ, "IPYTHONDIR": str(folder)}, cwd=str(folder))
    yield manager
    manager.shutdown_kernel(now=True)


def test_these_are_all_notebooks_and_each_is_linked(notebooks):
    assert tuple(notebooks.names()) == NAMES
    page = (DOCS / "notebooks.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(notebooks/([\w-]+)\.ipynb\)", page) == sorted(NAMES, key=page.index)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, notebooks, kernel, tmp_path):
    notebook = notebooks.with_parameters(notebooks.read(name), PARAMETERS)
    ran = notebooks.run(notebook, tmp_path, kernel)  # raises where a cell raises
    shown = [cell.outputs for cell in ran.cells if cell.cell_type == "code"]
    stored = [cell.outputs for cell in notebooks.read(name).cells if cell.cell_type == "code"]
    assert [bool(of_notebook(outputs)) for outputs in shown] == [bool(outputs) for outputs in stored]


def of_notebook(outputs):
    """The outputs that are stored: warnings of tiny models are not."""
    return [output for output in outputs if output.get("name") != "stderr"]


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_are_whole_small_and_of_no_machine(name, notebooks):
    path = notebooks.NOTEBOOKS / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in notebooks.read(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell.outputs for cell in cells)
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert len(text) < MAX_BYTES
    assert not re.search(r"/(tmp|home|root|work)/", text)
