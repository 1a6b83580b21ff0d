"""Who trains a model: one process alone, or several that have a part of the rows each and take every step together."""

from __future__ import annotations

import torch
from torch import Tensor
from torch import distributed as processes


class Alone:
    """One process that has all rows.

    Attributes:
        size: How many processes there are.
        place: Which of them this one is, from 0 on.
    """

    size = 1
    place = 0

    def mean(self, numbers: Tensor) -> Tensor:
        """The mean over all processes of what each of them has."""
        return numbers

    def most(self, number: int) -> int:
        """The largest number that any process has."""
        return number


class Together(Alone):
    """The processes of a group that `torch.distributed` has made."""

    def __init__(self) -> None:
        self.size, self.place = processes.get_world_size(), processes.get_rank()

    def mean(self, numbers: Tensor) -> Tensor:
        """The mean over all processes of what each of them has: the same to the last bit for all of them."""
        processes.all_reduce(numbers)
        return numbers / self.size

    def most(self, number: int) -> int:
        """The largest number that any process has."""
        found = torch.tensor(number)
        processes.all_reduce(found, op=processes.ReduceOp.MAX)
        return int(found)
