"""The page of options is what its script writes."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_committed_page_is_up_to_date():
    spec = importlib.util.spec_from_file_location("options", DOCS / "options.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "options.md").read_text(encoding="utf-8") == module.page(), "run: python docs/options.py"
