"""Random numbers: seeds, and one named stream for each purpose.

All random numbers of a call come from Philox, a counter-based generator. The seed of the call is its key. Its counter
has four words of 64 bits: the first counts blocks of random numbers, the last names the stream. So a row has the same
noise in any batch and on any machine, and no two streams overlap.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harpoon.exceptions import InvalidOption

RandomState = int | np.random.Generator | None
BRANCH_STRIDE = 2**36  # between the keys of two branches of a condition in one stream
MAX_BRANCH = 2**12  # so that keys stay below that of the next stream


class Stream(IntEnum):
    """What random numbers are used for; the value is the last word of the counter."""

    CELLS = 0  # noise of sampled rows; the number of a draw or of a branch is added
    RULES = 2**30  # rows that break a rule, sampled again; the number of the draw is added
    GUIDED = 2**32  # noise of guided rows; the branch is added by `stream_key`
    UNCONSTRAINED = 2**33  # columns that a condition does not name, resampled
    GIBBS = 2**34  # cells that Gibbs steps resample; the number of the step is added
    GIBBS_MASK = 2**48  # which cells a Gibbs step resamples; the key of the step is added
    ORDERS = 2**50  # places of restricted variables in the order of their row; the branch is added by `stream_key`
    SHIFTED = 2**52  # categories with shifted log-odds; the number of the draw is added
    FILL = 2**56  # null cells that are filled after all; the key of the row's own noise is added
    RETRIES = 2**57  # rows that contradict a relation, sampled again; times the attempt, up to 7, plus the first key
    COMPLETIONS = 2**60  # the same with null cells that are filled after all; times the attempt, up to 3
    BRANCHES = 2**62  # how many rows each branch gets, and their order
    PROPOSALS = 2**62 + 1  # columns that a branch restricts
    CANDIDATES = 2**62 + 3  # rows of a branch that are chosen by the order of their variables
    COMPLETION = 2**62 + 2  # restricted columns of rows that are completed
    BOOTSTRAP = 2**62 + 8  # rows of resampled tables
    PARAMETERS = 2**62 + 9  # parameters of the model, drawn for each completed table
    TARGETS = 2**62 + 10  # which rows of a pool meet targets together
    AUDIT = 2**62 + 11  # rows and descriptions of a privacy audit
    WEIGHTED_ROWS = 2**62 + 20  # test rows of a report, in proportion to their weights
    RESAMPLING = 2**63  # which particles survive


def stream_key(stream: Stream, branch: int = 0) -> int:
    """Return the last word of the counter for one branch of a condition; 0 is the whole condition.

    >>> stream_key(Stream.GUIDED, 1) == stream_key(Stream.GUIDED, 2)
    False
    """
    if not 0 <= branch < MAX_BRANCH:
        raise ValueError(f"branch must be from 0 to {MAX_BRANCH - 1}, got {branch}")
    return stream + branch * BRANCH_STRIDE


def check_random_state(random_state: object) -> RandomState:
    """Return a seed, a generator or None, or raise InvalidOption."""
    if isinstance(random_state, np.random.Generator) or random_state is None:
        return random_state
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise InvalidOption(
        f"random_state must be an integer of at least 0, a NumPy Generator or None, got {random_state!r}."
    )


def to_seed(random_state: RandomState) -> int:
    """Return a seed of 64 bits; a generator is advanced."""
    if isinstance(random_state, int):
        return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])
    source = np.random.default_rng() if random_state is None else random_state
    return int(source.integers(2**63))


def partition_seed(seed: int, row_offset: int) -> int:
    """Return a seed for one part of a long table; the first part has the seed of the whole.

    >>> partition_seed(7, 0), partition_seed(7, 100) == partition_seed(7, 200)
    (7, False)
    """
    return seed if not row_offset else int(np.random.SeedSequence([seed, row_offset]).generate_state(1, np.uint64)[0])


def row_noise(seed: int, rows: NDArray[np.int64], steps: int, width: int, *, draw: int = Stream.CELLS) -> Tensor:
    """Return standard normal noise, (steps, rows, width), that depends only on the seed, the row and the draw.

    `rows` are the numbers of the rows; `draw` is the number of a draw, or the key of another stream.
    """
    noise = np.empty((steps, len(rows), width), dtype=np.float32)
    philox = np.random.Philox(key=seed)
    normal, state = np.random.Generator(philox).standard_normal, philox.state
    for i, row in enumerate(rows.tolist()):
        state["state"]["counter"][:] = 0, 0, row, draw
        philox.state = state  # three times as fast as a new generator for each row
        noise[:, i] = normal((steps, width), dtype=np.float32)
    return torch.from_numpy(noise)


def generator(seed: int, stream: Stream, first: int = 0, second: int = 0, block: int = 0) -> np.random.Generator:
    """Return a generator for a stream that is not the noise of rows.

    The other arguments are words of the counter: `first`, such as the number of a branch; `second`, such as the number
    of the first row; `block`, the first word, for streams of at most four numbers each.
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[block, first, second, int(stream)]))
