"""The processes that train a model: a single one, or a group with a part of the rows each (data parallelism)."""

from __future__ import annotations

import torch
from torch import Tensor, distributed


class SingleProcess:
    """One process that has all rows."""

    world_size = 1  # the number of processes
    rank = 0  # the number of this process

    def all_reduce_mean(self, tensor: Tensor) -> Tensor:
        """Return the mean of a tensor over all processes."""
        return tensor

    def all_reduce_max(self, number: int) -> int:
        """Return the maximum of an integer over all processes."""
        return number


class ProcessGroup(SingleProcess):
    """The process group that `torch.distributed` has initialized."""

    def __init__(self) -> None:
        self.world_size, self.rank = distributed.get_world_size(), distributed.get_rank()

    def all_reduce_mean(self, tensor: Tensor) -> Tensor:
        """Return the mean of a tensor over all processes, the same to the last bit in each of them."""
        distributed.all_reduce(tensor)
        return tensor / self.world_size

    def all_reduce_max(self, number: int) -> int:
        """Return the maximum of an integer over all processes."""
        maximum = torch.tensor(number)
        distributed.all_reduce(maximum, op=distributed.ReduceOp.MAX)
        return int(maximum)
