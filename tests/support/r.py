"""R as a judge: scripts run by Rscript, or a skipped test with the reason."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

TO_JSON = """
json <- function(x) {
  cells <- function(v) {
    numeric <- is.numeric(v) || is.logical(v)
    texts <- if (numeric) sprintf("%.17g", as.numeric(v)) else encodeString(as.character(v), quote = '"')
    ifelse(is.na(v), "null", texts)
  }
  fields <- sapply(names(x), function(n) paste0('"', n, '": [', paste(cells(x[[n]]), collapse = ", "), "]"))
  cat("{", paste(fields, collapse = ", "), "}", sep = "")
}
"""


@cache
def has_package(name: str) -> bool:
    check = ["Rscript", "-e", f'quit(status = !requireNamespace("{name}", quietly = TRUE))']
    return subprocess.run(check, check=False, capture_output=True).returncode == 0  # noqa: S603


def require(*packages: str) -> None:
    """Skip the test unless R and its packages are installed."""
    if shutil.which("Rscript") is None:
        pytest.skip("needs R (Rscript on the PATH)")
    for package in packages:
        if not has_package(package):
            pytest.skip(f"needs the package {package} of R")


def run(script: str, folder: Path, **environment: str) -> dict:
    """Run a script in a folder and return the named vectors that it gives to the function json."""
    done = try_to_run(script, folder, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def try_to_run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run a script in a folder, which may fail."""
    (folder / "script.R").write_text(TO_JSON + script, encoding="utf-8")
    command, variables = ["Rscript", "--vanilla", "script.R"], {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=variables)  # noqa: S603
