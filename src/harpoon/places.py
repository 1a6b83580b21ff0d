"""Numbers of encoded rows that belong together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Places:
    """Some numbers of each row, to be taken out of it.

    An index that is made once: a list would be made into one at every call. It is no buffer, because a network without
    weights has none.
    """

    def __init__(self, places: Sequence[int]) -> None:
        self.listed = list(places)
        self.index = torch.tensor(self.listed, dtype=torch.long, device="cpu")

    def __len__(self) -> int:
        return len(self.listed)

    def of(self, x: Tensor) -> Tensor:
        """The numbers at these places, (n, places)."""
        return x.index_select(1, self.index.to(x.device))
