"""Domains: the labels that each variable of a row may still have, by exclusions and dependencies.

What is known of a row restricts the other variables, which restrict others in turn (arc consistency; Mackworth, 1977):
in a row from one country, cities of other countries are no candidates, although the state is not known yet. A variable
that nothing would be left of stays as it is: observed cells that contradict each other are never changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harpoon.data import NO_INDEX
from harpoon.encoding.missingness import NULL
from harpoon.relations.exclusion import Exclusions


class _Link(NamedTuple):
    """A variable that determines another one."""

    source: int  # among the used variables
    target: int
    determined: Tensor  # position in the target of the label that each label of the source determines; its end: none


class Domains:
    """Restricts the labels of encoded rows. Only variables with an exclusion or a dependency have domains."""

    def __init__(self, exclusions: Exclusions, device: torch.device) -> None:
        excluded, determined = exclusions.excluded.cpu(), exclusions.determined.cpu()
        used = {*excluded[:, [0, 2]].flatten().tolist(), *determined[:, [0, 2]].flatten().tolist()}
        used |= {exclusions.variables[index].indicator for index in used} - {NO_INDEX}
        self.used = sorted(used)
        self.variables = [exclusions.variables[index] for index in self.used]
        position_of = {index: position for position, index in enumerate(self.used)}
        sizes = [len(variable.features) for variable in self.variables]
        stops = torch.tensor(sizes, dtype=torch.long).cumsum(dim=0).tolist()
        self.slices = [slice(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]
        self.variable_of = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long)).to(device)
        self._set_features(device)
        one, other = (
            torch.tensor([self.slices[position_of[v]].start + label for v, label in pairs.tolist()], dtype=torch.long)
            for pairs in (excluded[:, :2], excluded[:, 2:])
        )
        self.paired = torch.tensor(
            sorted({*one.tolist(), *other.tolist()}), dtype=torch.long
        )  # labels with an exclusion
        matrix = torch.zeros(len(self.paired), len(self.paired))
        matrix[torch.searchsorted(self.paired, one), torch.searchsorted(self.paired, other)] = 1.0
        self.excludes, self.paired = (matrix + matrix.T).to(device), self.paired.to(device)
        self.links = []
        for a, b in exclusions.linked():
            pairs = determined[(determined[:, 0] == a) & (determined[:, 2] == b)]
            source, target = position_of[a], position_of[b]
            image = torch.full((sizes[source],), sizes[target])
            image[pairs[:, 1]] = pairs[:, 3]
            self.links.append(_Link(source, target, image.to(device)))
        # The label that says that a variable has no value, by the position of the variable.
        self.null_of = {
            position_of[index]: self.slices[position_of[indicator]].start + NULL
            for index in self.used
            if (indicator := exclusions.variables[index].indicator) != NO_INDEX
        }

    def __bool__(self) -> bool:
        """Whether there is an exclusion or a dependency."""
        return bool(self.used)

    def _set_features(self, device: torch.device) -> None:
        """Number the features of the labels, and their parts."""
        features: list[Tensor] = []
        parts, first, last = ([], [], [])  # type: tuple[list[Tensor], list[Tensor], list[Tensor]]
        for variable in self.variables:
            for column, labels in zip(variable.features.T, (first, last), strict=False):
                values, index = (torch.from_numpy(x) for x in np.unique(column.numpy(), return_inverse=True))
                labels.append(index + sum(len(part) for part in features))
                features.append(values)
                parts.append(torch.full_like(values, len(features) - 1))
            if variable.features.shape[1] == 1:
                last.append(first[-1])
        empty = torch.zeros(0, dtype=torch.long)
        self.features, self.part_of, self.first, self.last = (
            torch.cat([empty, *lists]).to(device) for lists in (features, parts, first, last)
        )
        self.n_parts = len(features)

    def restrict(self, categories: Tensor) -> Tensor:
        """Return which labels are possible beside the one-hot categories of rows, (n, labels)."""
        present = categories[:, self.features] > 0
        known = _sums(present, self.part_of, self.n_parts) > 0
        fits = present | ~known[:, self.part_of]
        possible = fits[:, self.first] & fits[:, self.last]
        has_value = torch.stack([known[:, self.part_of[self.first[part.start]]] for part in self.slices], dim=1)
        while True:
            restricted = possible & self._supported(possible, has_value)
            restricted = torch.where((self._counts(restricted) == 0)[:, self.variable_of], possible, restricted)
            if torch.equal(restricted, possible):
                return possible
            possible = restricted

    def _supported(self, possible: Tensor, has_value: Tensor) -> Tensor:
        """Return which labels agree with some possible label of each linked variable, (n, labels).

        A variable that may be null determines nothing, unless it is known that it has a value, (n, variables).
        """
        supported = torch.ones_like(possible)
        if len(self.paired):
            certain = possible & (self._counts(possible) == 1)[:, self.variable_of]
            supported[:, self.paired] = certain[:, self.paired].to(self.excludes.dtype) @ self.excludes == 0
        for a, b, determined in self.links:
            source, target = self.slices[a], self.slices[b]
            null_source, null_target = (self._may_be_null(index, possible, has_value) for index in (a, b))
            images = _sums(possible[:, source], determined, target.stop - target.start + 1) > 0
            supported[:, target] &= images[:, :-1] | images[:, -1:] | null_source
            allowed = torch.cat([possible[:, target], torch.ones_like(null_target)], dim=1)
            supported[:, source] &= allowed[:, determined] | null_target
        return supported

    def _may_be_null(self, variable: int, possible: Tensor, has_value: Tensor) -> Tensor:
        """Return in which rows a variable may have no value, (n, 1)."""
        if variable not in self.null_of:
            return torch.zeros_like(possible[:, :1])
        return (possible[:, self.null_of[variable]] & ~has_value[:, variable]).unsqueeze(1)

    def excluded(self, categories: Tensor) -> Tensor:
        """Return which categories cannot occur beside the one-hot categories of rows, (n, categories)."""
        possible = self.restrict(categories)
        alive = _sums(possible, self.first, len(self.features)) + _sums(possible, self.last, len(self.features))
        excluded = torch.zeros_like(categories, dtype=torch.bool)
        return excluded.index_copy_(1, self.features, alive == 0)

    def is_possible(self, categories: Tensor) -> Tensor:
        """Return which rows of one-hot categories have no labels that contradict each other, (n,)."""
        present = categories[:, self.features] > 0
        label = present[:, self.first] & present[:, self.last]
        contradicts = torch.zeros(len(label), dtype=torch.bool, device=label.device)
        if len(self.paired):
            paired = label[:, self.paired].to(self.excludes.dtype)
            contradicts |= ((paired @ self.excludes) * paired).any(dim=1)
        for a, b, determined in self.links:
            source, target = self.slices[a], self.slices[b]
            width = target.stop - target.start
            image = _sums(label[:, source], determined, width + 1)[:, :width] > 0
            both = image.any(dim=1) & label[:, target].any(dim=1)
            contradicts |= both & ~(image & label[:, target]).any(dim=1)
        return ~contradicts

    def most_probable(self, probabilities: Tensor, known: Tensor, *, discrete: bool) -> Tensor:
        """Return probabilities with a 1 at labels that agree, where they were not known, (n, categories).

        A variable takes its most probable label among those that agree with the known ones and with those chosen
        before it; variables with many labels come first, because they determine others.

        Args:
            probabilities: Of the categories, (n, categories).
            known: One-hot categories that are known, else 0, (n, categories).
            discrete: Whether to leave numbers alone that are not only spikes, and missing indicators.
        """
        chosen, known = probabilities.clone(), known.clone()
        sizes = [part.stop - part.start for part in self.slices]
        for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
            variable, part = self.variables[index], self.slices[index]
            features = variable.features.to(known.device)
            rows = (known[:, features[:, 0]].amax(dim=1) == 0).nonzero()[:, 0]
            if not len(rows) or (discrete and not variable.is_discrete):
                continue
            p = probabilities[rows][:, features].clamp(0, 1)
            score = p[:, :, 0]
            if features.shape[1] > 1:  # of a member, given that there is one
                no_member = int(features[:, 1].min())
                rest = (1 - probabilities[rows, no_member]).clamp(min=torch.finfo(p.dtype).tiny)
                score = score * torch.where(features[:, 1] == no_member, 1.0, p[:, :, 1] / rest[:, None])
            label = score.masked_fill(~self.restrict(known[rows])[:, part], NO_INDEX).argmax(dim=1)
            for column in features.T:
                low, high = int(column.min()), int(column.max()) + 1
                chosen[rows, low:high] = 0.0
                chosen[rows, column[label]] = known[rows, column[label]] = 1.0
        return chosen

    def _counts(self, possible: Tensor) -> Tensor:
        """Return the number of possible labels of each variable, (n, variables)."""
        return _sums(possible, self.variable_of, len(self.variables))


def _sums(mask: Tensor, group: Tensor, n_groups: int) -> Tensor:
    """Return how many elements of each group are true: (n, k) to (n, groups)."""
    return torch.zeros(len(mask), n_groups, device=mask.device).index_add_(1, group, mask.float())
