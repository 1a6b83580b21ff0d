"""Validation of arguments that several calls share: counts and devices."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import torch

from harpoon.exceptions import InvalidOption

MAX_COUNT = 2**62  # row numbers have 64 bits, with room for offsets


def check_count(n: object, name: str = "n, the number of rows to sample,", *, low: int = 1) -> int:
    """Return an integer of at least `low`, or raise InvalidOption."""
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < low:
        raise InvalidOption(f"{name} must be an integer of at least {low}, got {n!r}.")
    if n > MAX_COUNT:
        raise InvalidOption(f"{name} must be at most {MAX_COUNT:,}, got {int(n):,}.")
    return int(n)


def resolve_device(name: str) -> torch.device:
    """Return the torch device of this name, or raise InvalidOption if it is not available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = None
    with suppress(RuntimeError, TypeError):
        device = torch.device(name)
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise InvalidOption(f'device must be "auto", "cpu" or "cuda", got {name!r}.')
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InvalidOption('device="mps" needs a Mac with a GPU. Use device="cpu".')
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidOption(f'device={name!r} needs CUDA, which this machine or this torch lacks. Use device="cpu".')
    return device
