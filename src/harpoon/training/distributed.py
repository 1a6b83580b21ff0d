"""Who trains a model: one process alone, or several that have a part of the rows each and take every step together."""

from __future__ import annotations

import torch
from torch import Tensor
from torch import distributed as processes


class SingleProcess:
    """One process that has all rows.

    Attributes:
        world_size: How many processes there are.
        rank: Which of them this one is, from 0 on.
    """

    world_size = 1
    rank = 0

    def all_reduce_mean(self, numbers: Tensor) -> Tensor:
        """The mean over all processes of what each of them has."""
        return numbers

    def all_reduce_max(self, number: int) -> int:
        """The largest number that any process has."""
        return number


class ProcessGroup(SingleProcess):
    """The processes of a group that `torch.distributed` has made."""

    def __init__(self) -> None:
        self.world_size, self.rank = processes.get_world_size(), processes.get_rank()

    def all_reduce_mean(self, numbers: Tensor) -> Tensor:
        """The mean over all processes of what each of them has: the same to the last bit for all of them."""
        processes.all_reduce(numbers)
        return numbers / self.world_size

    def all_reduce_max(self, number: int) -> int:
        """The largest number that any process has."""
        found = torch.tensor(number)
        processes.all_reduce(found, op=processes.ReduceOp.MAX)
        return int(found)
