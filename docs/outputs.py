"""Run the Python blocks of a page and write what they print below them: python docs/outputs.py tutorial."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)


def with_outputs(page: str) -> str:
    """Return a page with the output of each block in a text block after it."""
    names: dict[str, object] = {"__name__": "__main__"}

    def run(match: re.Match[str]) -> str:
        code = match["code"]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(code, "block", "exec"), names)  # noqa: S102
        block = f"```python\n{code}```\n"
        text = "".join(line.rstrip() + "\n" for line in printed.getvalue().splitlines())
        return f"{block}\n```text\n{text}```\n" if text else block

    return BLOCK.sub(run, page)


def main() -> None:
    """Run the pages that are named on the command line, each in an empty folder."""
    warnings.simplefilter("ignore")
    for name in sys.argv[1:]:
        path = DOCS / f"{name}.md"
        page, here = path.read_text(encoding="utf-8"), Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                page = with_outputs(page)
            finally:
                os.chdir(here)
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
