"""A real JupyterLab, for tests in a browser."""

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

TIMEOUT = 240  # seconds; reached only where a test fails, however busy the machine is
GRACE = 20  # seconds for a server to shut its kernels down
needed = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("jupyterlab", "ipykernel", "anywidget")),
    reason='JupyterLab is not installed (pip install -c constraints.txt ".[dev]")',
)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def write_notebook(path, *cells):
    """Write a notebook of code cells."""
    content = {
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "source": source,
                "outputs": [],
                "execution_count": None,
            }
            for number, source in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(content), encoding="utf-8")


@contextlib.contextmanager
def running(folder, token):
    """Run JupyterLab on a free port of this machine, and yield its URL; it is stopped with its kernels."""
    port = free_port()
    options = {
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.root_dir": str(folder),
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "IdentityProvider.token": token,
        "LabApp.news_url": "None",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.extension_manager": "readonly",
        "LabApp.expose_app_in_browser": True,  # its commands can be called
    }
    places = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    command = [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())]
    environment = {**os.environ, **places, "IPYTHONDIR": str(folder / "ipython")}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)  # noqa: S603
        try:
            yield _wait(f"http://127.0.0.1:{port}", token, process, folder / "server.log")
        finally:
            _stop(process)


def _stop(process):
    """Stop the server; its kernels end with it."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(TIMEOUT)


def _wait(url, token, process, log):
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/api/status?token={token}", timeout=5).close()  # noqa: S310
            return url
        time.sleep(0.2)
    raise RuntimeError(re.sub(token, "TOKEN", log.read_text()))
