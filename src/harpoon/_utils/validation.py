"""Arguments that several calls share: seeds, devices and counts, checked where they come in."""

from __future__ import annotations

import numpy as np
import torch

from harpoon.exceptions import InvalidOption

MAX_COUNT = 2**62  # rows are numbered in 64 bits, with room for what is counted from there


def check_count(n: object, words: str = "n, the number of rows to draw,", *, low: int = 1) -> int:
    """A whole number of at least 1, or as much as it takes."""
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < low:
        raise InvalidOption(f"{words} must be a whole number of at least {low}, got {n!r}.")
    if n > MAX_COUNT:
        raise InvalidOption(f"{words} must be at most {MAX_COUNT:,}, got {int(n):,}.")
    return int(n)


def resolve_device(name: str) -> torch.device:
    """The device of that name, if it is there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InvalidOption(f'device must be "auto", "cpu" or "cuda", got {name!r}.') from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise InvalidOption(f'device must be "auto", "cpu" or "cuda", got {name!r}.')
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InvalidOption('device="mps" needs a Mac with a GPU. Use device="cpu".')
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidOption(f'device={name!r} needs CUDA, which this machine or this torch lacks. Use device="cpu".')
    return device
