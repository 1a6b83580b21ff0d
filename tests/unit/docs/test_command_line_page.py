"""The reference of the command line is what its script writes."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_committed_page_is_up_to_date():
    spec = importlib.util.spec_from_file_location("command_line", DOCS / "command_line.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "command-line-reference.md").read_text(encoding="utf-8")
    assert page == module.page(), "run: python docs/command_line.py"
