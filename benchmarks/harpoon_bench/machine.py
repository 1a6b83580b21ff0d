"""What numbers depend on besides the method: versions, commit, processor; and the memory of this process."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import harpoon

PACKAGES = ("torch", "numpy", "pandas", "scikit-learn", "xgboost-cpu")
HERE = Path(__file__).parent
PEAK, MARK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
KIBIBYTES = 1024


@cache
def versions() -> dict[str, str]:
    """Of Python, of Harpoon and of what it computes with."""
    found = {"python": platform.python_version(), "harpoon": harpoon.__version__}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@cache
def commit() -> str | None:
    """The commit of the code that runs, with a + where files differ from it; None outside a repository."""
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", str(HERE.parent))
    return None if head is None else head + ("+" if changed else "")


def processor() -> dict[str, object]:
    """What the times were taken on."""
    import torch

    return {"machine": platform.machine(), "processors": os.cpu_count(), "threads": torch.get_num_threads()}


def forget_peak() -> None:
    """Measure the peak of memory from here on, where the system can."""
    with suppress(OSError):
        MARK.write_text("5")


def peak_mib() -> int:
    """The most memory this process has had since `forget_peak` (or ever), or the largest of its children ever had."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(OSError):
        lines = dict(line.split(":", 1) for line in PEAK.read_text().splitlines())
        own = int(lines["VmHWM"].split()[0])
    return round(max(own, children) / KIBIBYTES)


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=True)  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
