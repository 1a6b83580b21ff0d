"""The command line, in this process or in its own."""

import os
import subprocess
import sys
from types import SimpleNamespace

from typer.testing import CliRunner

from harpoon.apps.cli import app

# Not TERMINAL_WIDTH: typer reads it once, at its import, and would keep this width for every later test.
TERMINAL = {"COLUMNS": "200", "NO_COLOR": "1"}
ENVIRONMENT = {**os.environ, **TERMINAL, "OMP_NUM_THREADS": "1"}
COMMAND = (sys.executable, "-m", "harpoon")


def call(*arguments, data=None) -> SimpleNamespace:
    """Run a command in this process."""
    done = CliRunner(env=TERMINAL).invoke(app, [str(a) for a in arguments], input=data)
    return SimpleNamespace(code=done.exit_code, out=done.stdout_bytes, said=done.stderr)


def run(*arguments, data=None) -> SimpleNamespace:
    """Run a command in its own process. Starting one takes a second of importing: use it for what a process adds."""
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=300, env=ENVIRONMENT)  # noqa: S603
    return SimpleNamespace(code=done.returncode, out=done.stdout, said=done.stderr.decode())
