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
from torch.nn import functional

from harpoon.data import NO_INDEX
from harpoon.encoding.missing_indicators import NULL
from harpoon.relations.exclusion import Exclusions

MAX_MEMBERSHIPS = 2**18  # elements of a matrix of memberships
# Links of few labels are stored as one matrix for each variable: with hundreds of links this is ten times as fast as
# following each of them. Links of thousands of labels are followed one by one, because such a matrix is mostly zeros.
MAX_PAIRS = 2**14  # of labels of two variables, up to which their link is part of a matrix


class _Groups:
    """Groups of positions, whose elements are added.

    A product with the matrix of memberships is several times as fast as scattered additions, unless it is large.
    """

    def __init__(self, group: Tensor, n_groups: int) -> None:
        self.group, self.n_groups = group, n_groups
        is_small = len(group) * n_groups <= MAX_MEMBERSHIPS
        self.memberships = functional.one_hot(group, n_groups).float() if is_small and len(group) else None

    def sum(self, values: Tensor) -> Tensor:
        """Add the elements of each group: (n, k) to (n, groups)."""
        if self.memberships is not None:
            return values @ self.memberships
        return values.new_zeros(len(values), self.n_groups).index_add_(1, self.group, values)

    def expand(self, values: Tensor) -> Tensor:
        """Repeat the value of each group for its elements: (n, groups) to (n, k)."""
        return values.index_select(1, self.group)


class _Link(NamedTuple):
    """A variable that determines another one."""

    source: int  # among the used variables
    target: int
    images: _Groups  # the labels of the source by the label of the target that each determines; at its end: by none


class _Agreement(NamedTuple):
    """Which labels of linked variables agree with each label of a variable."""

    variable: int
    labels: Tensor  # of the linked variables, (k,)
    agrees: Tensor  # 0 or 1, (labels of the variable, k)


class Domains:
    """Restricts the labels of encoded rows. Only variables with an exclusion or a dependency have domains."""

    def __init__(self, exclusions: Exclusions, device: torch.device) -> None:
        excluded, links = exclusions.excluded.cpu(), exclusions.links()
        used = {*excluded[:, [0, 2]].flatten().tolist(), *(index for one, other, _ in links for index in (one, other))}
        used |= {exclusions.variables[index].indicator for index in used} - {NO_INDEX}
        self.used = sorted(used)
        self.variables = [exclusions.variables[index] for index in self.used]
        position_of = {index: position for position, index in enumerate(self.used)}
        sizes = [len(variable.features) for variable in self.variables]
        stops = torch.tensor(sizes, dtype=torch.long).cumsum(dim=0).tolist()
        self.slices = [slice(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]
        variable_of = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.long))
        self.variable_of = _Groups(variable_of.to(device), len(sizes))
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
        for a, b, pairs in links:
            source, target = position_of[a], position_of[b]
            image = torch.full((sizes[source],), sizes[target])
            image[pairs[:, 0]] = pairs[:, 1]
            self.links.append(_Link(source, target, _Groups(image.to(device), sizes[target] + 1)))
        self.large_links = [link for link in self.links if sizes[link.source] * sizes[link.target] > MAX_PAIRS]
        self.agreements = self._agreements(device)
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
        self.features, part_of, first_of, last_of = (
            torch.cat([empty, *lists]).to(device) for lists in (features, parts, first, last)
        )
        self.part_of = _Groups(part_of, len(features))
        self.first, self.last = (_Groups(each, len(self.features)) for each in (first_of, last_of))
        self.part_of_label = part_of[first_of]  # the first part of its variable

    def _agreements(self, device: torch.device) -> list[_Agreement]:
        """Return what the labels of each variable say of those of others, by all links that are not large."""
        blocks: dict[tuple[int, int], Tensor] = {}
        for source, target, images in (link for link in self.links if link not in self.large_links):
            size = images.n_groups - 1
            agrees = functional.one_hot(images.group.cpu(), size + 1).float()
            agrees = (agrees[:, :size] + agrees[:, size:]).clamp(max=1)  # a label that determines none agrees with all
            for pair, block in (((source, target), agrees), ((target, source), agrees.T)):
                blocks[pair] = blocks.get(pair, torch.ones(())) * block
        labels = [torch.arange(part.start, part.stop) for part in self.slices]
        return [
            _Agreement(
                variable,
                torch.cat([labels[other] for one, other in blocks if one == variable]).to(device),
                torch.cat([block for pair, block in blocks.items() if pair[0] == variable], dim=1).to(device),
            )
            for variable in sorted({one for one, _ in blocks})
        ]

    def restrict(self, categories: Tensor) -> Tensor:
        """Return which labels are possible beside the one-hot categories of rows, (n, labels)."""
        # Masks are numbers, 0 or 1, of which sums are matrix products.
        present = (categories.index_select(1, self.features) > 0).float()
        known = (self.part_of.sum(present) > 0).float()
        fits = torch.maximum(present, 1 - self.part_of.expand(known))
        possible = self.first.expand(fits) * self.last.expand(fits)
        has_value = known.index_select(1, self.part_of_label[[part.start for part in self.slices]])
        rows, restricted = torch.arange(len(possible), device=possible.device), possible
        while True:  # until nothing changes, in the rows in which something did
            before = restricted
            restricted = before * self._supported(before, has_value)
            is_empty = (self.variable_of.sum(restricted) == 0).float()
            restricted = torch.where(self.variable_of.expand(is_empty) > 0, before, restricted)
            changed = (restricted != before).any(dim=1).nonzero()[:, 0]
            if not len(changed):
                return possible > 0
            rows, restricted, has_value = rows[changed], restricted[changed], has_value[changed]
            possible[rows] = restricted

    def _supported(self, possible: Tensor, has_value: Tensor) -> Tensor:
        """Return which labels agree with some possible label of each linked variable, (n, labels).

        A variable that may be null determines nothing, unless it is known that it has a value, (n, variables).
        """
        supported = torch.ones_like(possible)
        if len(self.paired):
            is_certain = (self.variable_of.sum(possible) == 1).float()
            certain = (possible * self.variable_of.expand(is_certain)).index_select(1, self.paired)
            supported.index_copy_(1, self.paired, (certain @ self.excludes == 0).float())
        for variable, labels, agrees in self.agreements:
            may_be_null = self._may_be_null(variable, possible, has_value)
            allowed = possible[:, self.slices[variable]] @ agrees + may_be_null > 0
            supported.index_copy_(1, labels, supported.index_select(1, labels) * allowed)
        for a, b, images in self.large_links:
            source, target = self.slices[a], self.slices[b]
            null_source, null_target = (self._may_be_null(index, possible, has_value) for index in (a, b))
            of_target = images.sum(possible[:, source])
            supported[:, target] *= of_target[:, :-1] + (of_target[:, -1:] + null_source) > 0
            allowed = torch.cat([possible[:, target], torch.ones_like(null_target)], dim=1)
            supported[:, source] *= images.expand(allowed) + null_target > 0
        return supported

    def _may_be_null(self, variable: int, possible: Tensor, has_value: Tensor) -> Tensor:
        """Return in which rows a variable may have no value, (n, 1)."""
        if variable not in self.null_of:
            return torch.zeros_like(possible[:, :1])
        return (possible[:, self.null_of[variable]] * (1 - has_value[:, variable])).unsqueeze(1)

    def excluded(self, categories: Tensor) -> Tensor:
        """Return which categories cannot occur beside the one-hot categories of rows, (n, categories)."""
        possible = self.restrict(categories).float()
        alive = self.first.sum(possible) + self.last.sum(possible)
        excluded = torch.zeros_like(categories, dtype=torch.bool)
        return excluded.index_copy_(1, self.features, alive == 0)

    def is_possible(self, categories: Tensor) -> Tensor:
        """Return which rows of one-hot categories have no labels that contradict each other, (n,)."""
        present = categories[:, self.features] > 0
        label = self.first.expand(present) & self.last.expand(present)
        contradicts = torch.zeros(len(label), dtype=torch.bool, device=label.device)
        if len(self.paired):
            paired = label[:, self.paired].to(self.excludes.dtype)
            contradicts |= ((paired @ self.excludes) * paired).any(dim=1)
        for a, b, images in self.links:
            source, target = self.slices[a], self.slices[b]
            image = images.sum(label[:, source].float())[:, :-1] > 0
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
