"""Run the notebooks of docs/notebooks and store their outputs: python docs/notebooks.py [NAME ...].

Each runs in an empty folder. A cell with the tag "parameters" holds what a reader may change.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).parent / "notebooks"
TIMEOUT_SECONDS = 3600  # of a cell
FORGET = "%reset -f"


def read(name: str) -> NotebookNode:
    """Return a notebook."""
    notebook: NotebookNode = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    return notebook


def names() -> list[str]:
    """Return the names of all notebooks."""
    return sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def with_parameters(notebook: NotebookNode, code: str) -> NotebookNode:
    """Return a notebook with other parameters."""
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ValueError(f"A notebook must have one cell with the tag 'parameters', got {len(cells)}.")
    cells[0].source = code
    return notebook


def run(notebook: NotebookNode, folder: str | Path, kernel: KernelManager) -> NotebookNode:
    """Run a notebook in a folder, by a kernel that is running and forgets what it knew, and return it with outputs."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"{FORGET}\n%cd -q {folder}"))
    client = NotebookClient(notebook, km=kernel, timeout=TIMEOUT_SECONDS, store_widget_state=False)
    try:
        client.execute()
    finally:
        if client.kc is not None:
            client.kc.stop_channels()  # the kernel stays, and its clients would pile up
    del notebook.cells[0]
    return notebook


def clean(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook without times, warnings and identifiers of a run."""
    for number, cell in enumerate(each for each in notebook.cells if each.cell_type == "code"):
        cell.metadata.pop("execution", None)
        cell.execution_count = number + 1
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            output.pop("execution_count", None)
            if output.output_type == "execute_result":
                output.execution_count = number + 1
            for kind in [kind for kind in output.get("data", {}) if kind.startswith("application/")]:
                del output.data[kind]  # a widget lives as long as its kernel
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
    return notebook


def main() -> None:
    """Run the notebooks that are named on the command line, or all, and store their outputs."""
    for name in sys.argv[1:] or names():
        kernel = KernelManager()
        kernel.start_kernel()
        try:
            with tempfile.TemporaryDirectory() as folder:
                notebook = clean(run(read(name), folder, kernel))
        finally:
            kernel.shutdown_kernel(now=True)
        nbformat.write(notebook, NOTEBOOKS / f"{name}.ipynb")
        print(name)  # noqa: T201


if __name__ == "__main__":
    main()
