"""Circumstances of a measurement: versions, commit, processor and memory of this process."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import harpoon

PACKAGES = ("torch", "numpy", "pandas", "scikit-learn", "xgboost-cpu")
REPOSITORY = Path(__file__).parents[2]
CODE_FOLDERS = ("src", "benchmarks/harpoon_bench")
PROCESS_STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
KIB_PER_MIB = 1024


def circumstances() -> dict[str, object]:
    """Return what every record says about where it was made."""
    return {"versions": versions(), "commit": commit(), "clean": is_clean(), "machine": processor()}


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python, of Harpoon and of the numerical packages."""
    found = {"python": platform.python_version(), "harpoon": harpoon.__version__}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@cache
def commit() -> str | None:
    """Return the commit of the code; None outside a repository."""
    return _git("rev-parse", "HEAD")


@cache
def is_clean() -> bool | None:
    """Return whether the code is that of the commit, without changes; None outside a repository."""
    changes = _git("status", "--porcelain", "--", *CODE_FOLDERS)
    return None if changes is None else not changes


def processor() -> dict[str, object]:
    """Return the architecture, the number of processors and the number of threads."""
    return {
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def reset_peak() -> None:
    """Start a new measurement of peak memory, where the system supports it."""
    with suppress(OSError):
        CLEAR_REFS.write_text("5")


def peak_mib() -> int:
    """Return the peak memory since `reset_peak`, or the peak of the largest child process if that is larger."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(OSError):
        lines = dict(line.split(":", 1) for line in PROCESS_STATUS.read_text().splitlines())
        own = int(lines["VmHWM"].split()[0])
    return round(max(own, children) / KIB_PER_MIB)


def _git(*arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(REPOSITORY), *arguments]
        completed = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return completed.stdout.strip()
