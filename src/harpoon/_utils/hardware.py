"""The machine: its memory and its processors."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def memory_bytes() -> int | None:
    """Return the memory that this process may use: that of the machine, or of its container; None if it is unknown."""
    limits = [limit for limit in (_physical_memory(), *map(_read_limit, CGROUP_LIMITS)) if limit is not None]
    return min(limits, default=None)


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on Windows and macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _read_limit(path: str) -> int | None:
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max" is no limit
