"""Arguments that several calls share: seeds, devices and counts, checked where they come in."""

from __future__ import annotations

import numpy as np
import torch

from harpoon.errors import InvalidOption

RandomState = int | np.random.Generator | None
MOST = 2**62  # rows are numbered in 64 bits, with room for what is counted from there


def count_of(n: object, words: str = "n, the number of rows to draw,", *, least: int = 1) -> int:
    """A whole number of at least 1, or as much as it takes."""
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < least:
        raise InvalidOption(f"{words} must be a whole number of at least {least}, got {n!r}.")
    if n > MOST:
        raise InvalidOption(f"{words} must be at most {MOST:,}, got {int(n):,}.")
    return int(n)


def checked_state(random_state: object) -> RandomState:
    """A seed, a generator or nothing."""
    if isinstance(random_state, np.random.Generator) or random_state is None:
        return random_state
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise InvalidOption(
        f"random_state must be a whole number of at least 0, a NumPy Generator or None, got {random_state!r}."
    )


def seed_of(random_state: RandomState) -> int:
    """A number of 64 bits; a generator is advanced by taking one."""
    if isinstance(random_state, int):
        return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])
    generator = np.random.default_rng() if random_state is None else random_state
    return int(generator.integers(2**63))


def seed_of_part(seed: int, first_row: int) -> int:
    """A seed of its own for each part of a long draw; the first part has that of the whole.

    >>> seed_of_part(7, 0), seed_of_part(7, 100) == seed_of_part(7, 200)
    (7, False)
    """
    return seed if not first_row else int(np.random.SeedSequence([seed, first_row]).generate_state(1, np.uint64)[0])


def device_of(name: str) -> torch.device:
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
