"""Probabilities of many categories at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby

import torch
from torch import Tensor
from torch.nn import functional


class Simplexes:
    """Categories whose labels stand one after the other, (n, labels).

    Those of about the same width are done together, filled up to the widest of them: a table has many categories, most
    of them small, and each would cost as much as all.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = list(widths)
        ends = list(accumulate(self.widths))
        nothing = sum(self.widths)  # the place of a label that nothing is
        members = sorted(zip(self.widths, ends, strict=True))
        self.groups: list[tuple[int, Tensor]] = []
        for _, alike in groupby(members, key=lambda member: member[0].bit_length()):
            group = list(alike)
            widest, _ = group[-1]
            places = [[*range(end - width, end), *[nothing] * (widest - width)] for width, end in group]
            self.groups.append((widest, torch.tensor(places, device="cpu").flatten()))
        filled = torch.cat([torch.zeros(0, dtype=torch.long, device="cpu"), *(places for _, places in self.groups)])
        self.back = filled.argsort(stable=True)[:nothing]  # what is nothing comes last

    def log_softmax(self, logits: Tensor) -> Tensor:
        """The logarithms of probabilities of labels, (n, labels), which add up to 1 for each category."""
        if not self.widths:
            return logits
        rows, device = len(logits), logits.device
        # Label by label a category is one piece, which is several times as fast.
        by_label = functional.pad(logits.T, (0, 0, 0, 1), value=-torch.inf)
        filled = [
            by_label.index_select(0, index.to(device)).view(len(index) // widest, widest, rows).log_softmax(dim=1)
            for widest, index in self.groups
        ]
        return torch.cat([group.flatten(0, 1) for group in filled]).index_select(0, self.back.to(device)).T
