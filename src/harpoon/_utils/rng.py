"""Arguments that several calls share: seeds, devices and counts, checked where they come in."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harpoon.exceptions import InvalidOption

RandomState = int | np.random.Generator | None


def check_random_state(random_state: object) -> RandomState:
    """A seed, a generator or nothing."""
    if isinstance(random_state, np.random.Generator) or random_state is None:
        return random_state
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise InvalidOption(
        f"random_state must be a whole number of at least 0, a NumPy Generator or None, got {random_state!r}."
    )


def to_seed(random_state: RandomState) -> int:
    """A number of 64 bits; a generator is advanced by taking one."""
    if isinstance(random_state, int):
        return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])
    generator = np.random.default_rng() if random_state is None else random_state
    return int(generator.integers(2**63))


def partition_seed(seed: int, row_offset: int) -> int:
    """A seed of its own for each part of a long draw; the first part has that of the whole.

    >>> seed_of_part(7, 0), seed_of_part(7, 100) == seed_of_part(7, 200)
    (7, False)
    """
    return seed if not row_offset else int(np.random.SeedSequence([seed, row_offset]).generate_state(1, np.uint64)[0])


def row_noise(seed: int, rows: NDArray[np.int64], steps: int, width: int, *, draw: int = 0) -> Tensor:
    """Standard normal noise, (steps, rows, width), that depends on the seed, the row's number and the draw's alone.

    Philox counts: the seed is its key, row and draw stand in its counter, so a row has the same noise in any
    batch, on any machine.
    """
    noise = np.empty((steps, len(rows), width), dtype=np.float32)
    philox = np.random.Philox(key=seed)
    normal, start = np.random.Generator(philox).standard_normal, philox.state
    for place, row in enumerate(rows.tolist()):
        start["state"]["counter"][:] = 0, 0, row, draw
        philox.state = start  # three times as fast as a new one for each row
        noise[:, place] = normal((steps, width), dtype=np.float32)
    return torch.from_numpy(noise)


def random_for(seed: int, *purpose: int) -> np.random.Generator:
    """Random numbers for one purpose, apart from the noise of rows."""
    counter = [*purpose, *[0] * (3 - len(purpose)), 2**62]
    return np.random.Generator(np.random.Philox(key=seed, counter=counter))
