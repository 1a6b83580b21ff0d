"""Exclusions: labels that never occur together, and columns that determine others by their labels.

A *variable* is what has one label in each row: a category, a number with few values, the spikes of a number, or a
missing indicator. Three rules are found in the training rows and kept in every sampled and imputed row.

    exclusion    Two labels that no training row has together, although many would if they were independent: no sampled
                 penguin lives on an island where its species does not. With missing indicators this makes structural
                 missingness exact: if the outcome of an earlier call is missing exactly where there was no earlier
                 call, it is so in every sampled row.
    implication  A label, also a rare one, occurs with a single label of another variable, which chance would hardly
                 bring about: all six rows of one manufacturer are of the same class.
    dependency   Each label of one variable occurs with a single label of another one: a city lies in one state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harpoon.data import NO_INDEX
from harpoon.data.chance import MIN_EXPECTED_ROWS, is_proven_function
from harpoon.encoding import PartType, RowCodec

MIN_EXPECTED_CLEAR_ROWS = 10.0  # enough where no pair of labels of the two variables occurs in a few rows only
RARE_PAIR_ROWS = 5  # pairs in fewer rows are rare: others like them may be missing in the table by chance
MIN_IMPLICATION_ROWS = 5  # rows of a label that may imply another one; fewer say little of the next row
MAX_CHANCE = 0.05  # that any implication of a table is found although its variables are independent
MAX_PAIR_LABELS = 2048  # the most frequent ones are searched for exclusions
ROWS_AT_ONCE = 2**13
PAIRS = ("excluded", "determined", "implied")  # the buffers of `Exclusions`


class Variable(NamedTuple):
    """A variable and its labels."""

    name: str  # of its column
    features: Tensor  # positions among all categories of an encoded row, (labels, 1), or (labels, 2): group and member
    is_discrete: bool  # whether its label is its value: not for the spikes of a number, nor for a missing indicator
    indicator: int = NO_INDEX  # the variable that is its missing indicator
    values: Mapping[str, NDArray[Any] | None] = {}  # `Codec.label_values`

    def labels(self, categories: Tensor) -> Tensor:
        """Return the label of each row, or `NO_INDEX`, (n,), from one-hot categories, (n, categories)."""
        codes, code_of_label = (categories.new_zeros(len(x), dtype=torch.long) for x in (categories, self.features))
        known = torch.ones_like(codes, dtype=torch.bool)
        for features in self.features.T.to(categories.device):
            low, width = int(features.min()), int(features.max() - features.min()) + 1
            part = categories[:, low : low + width]
            codes, code_of_label = codes * width + part.argmax(dim=1), code_of_label * width + features - low
            known &= part.amax(dim=1) > 0
        label_of_code = torch.full((int(code_of_label.max()) + 1,), NO_INDEX, device=codes.device)
        label_of_code[code_of_label] = torch.arange(len(code_of_label), device=codes.device)
        return torch.where(known, label_of_code[codes.clamp(max=len(label_of_code) - 1)], NO_INDEX)


def variables_of(codec: RowCodec) -> list[Variable]:
    """Return the variables of encoded rows."""
    variables: list[Variable] = []
    first_variable: dict[int, int] = {}  # of each codec
    start = 0
    for index, each in enumerate(codec.codecs):
        first_variable[index] = len(variables)
        indicator = first_variable.get(codec.indicator_of.get(index, NO_INDEX), NO_INDEX)
        labelled = [features for features in each.label_features if len(features)]
        for features in labelled:
            positions = torch.from_numpy(features) + start
            values = each.label_values if len(labelled) == 1 else {}
            variables.append(Variable(each.label, positions, each.is_discrete, indicator, values))
        start += sum(part.width for part in each.parts if part.type is PartType.CATEGORICAL)
    return variables


class PairCounts(NamedTuple):
    """How often the c most frequent labels occur together. Rows in which one of two variables is missing do not count.

    Args:
        variable: The variable of each label, (c,).
        label: Its number among the labels of the variable, (c,).
        together: The number of rows that have both of two labels, (c, c).
        expected: The same if the two variables were independent, (c, c).
        with_label: The rows of each label in which another variable is not missing, (c, variables).
        n_variables: The number of all variables.
    """

    variable: Tensor
    label: Tensor
    together: Tensor
    expected: Tensor
    with_label: Tensor
    n_variables: int

    @classmethod
    def from_labels(cls, labels: Tensor, min_rows: float = MIN_EXPECTED_CLEAR_ROWS) -> PairCounts:
        """Count rows by the label of each variable, or `NO_INDEX`, (n, variables), for labels of enough rows."""
        variable, label = _frequent_labels(labels, min_rows)
        c, n_variables = len(label), labels.shape[1]
        together, with_label, both = (
            torch.zeros(size, dtype=torch.float64) for size in ((c, c), (c, n_variables), (n_variables, n_variables))
        )
        for rows in torch.split(labels, ROWS_AT_ONCE):
            one_hot, seen = (rows[:, variable] == label).float(), (rows != NO_INDEX).float()
            together += one_hot.T @ one_hot
            with_label += one_hot.T @ seen
            both += seen.T @ seen
        with_other = with_label[:, variable]
        expected = with_other * with_other.T / both[variable][:, variable].clamp(min=1)
        return cls(variable, label, together, expected, with_label, n_variables)

    def exclusions(self) -> Tensor:
        """Return pairs of labels that exclude each other, (pairs, 4): variable and label of one, then of the other.

        They do if no row has both, although at least `MIN_EXPECTED_ROWS` rows would if they were independent.

        >>> called = torch.arange(1000) % 2  # 0: never called before; 1: called before
        >>> labels = torch.stack([called, 1 - called], dim=1)  # and whether the outcome is null
        >>> PairCounts.from_labels(labels).exclusions().tolist()
        [[0, 0, 1, 0], [0, 1, 1, 1]]
        """
        rare = _by_variable((self.together > 0) & (self.together < RARE_PAIR_ROWS), self.variable, self.n_variables)
        rare = _by_variable(rare.T, self.variable, self.n_variables)[self.variable][:, self.variable] > 0
        needed = torch.where(rare, MIN_EXPECTED_ROWS, MIN_EXPECTED_CLEAR_ROWS)
        is_other = self.variable[:, None] != self.variable
        excluded = (self.together == 0) & (self.expected >= needed) & is_other
        one, other = excluded.triu().nonzero().T
        return torch.stack([self.variable[one], self.label[one], self.variable[other], self.label[other]], dim=1)

    def implications(self) -> Tensor:
        """Return labels and a label of another variable that each implies, (pairs, 4), as `exclusions`.

        A label does if at least `MIN_IMPLICATION_ROWS` rows have it, all of them with the other label. If the variables
        were independent, k rows would all have a label of probability p with probability pᵏ. That is at most
        `MAX_CHANCE` divided by the number of labels that are examined (Bonferroni).

        >>> maker = torch.cat([torch.zeros(6, dtype=torch.long), 1 + torch.arange(1000) % 3])
        >>> size = torch.cat([torch.ones(6, dtype=torch.long), torch.arange(1000) % 5])
        >>> PairCounts.from_labels(torch.stack([maker, size], dim=1), MIN_IMPLICATION_ROWS).implications().tolist()
        [[0, 0, 1, 1]]
        """
        is_other = self.variable[:, None] != self.variable
        rows = self.with_label[:, self.variable]  # of each label, in which the variable of the other is observed
        examined = (self.with_label >= MIN_IMPLICATION_ROWS).sum() - len(self.variable)
        p = self.expected / rows.clamp(min=1)
        chance = rows * p.clamp(min=torch.finfo(p.dtype).tiny).log() + examined.clamp(min=1).log()
        implied = (self.together == rows) & (rows >= MIN_IMPLICATION_ROWS) & (chance <= math.log(MAX_CHANCE)) & is_other
        one, other = implied.nonzero().T
        return torch.stack([self.variable[one], self.label[one], self.variable[other], self.label[other]], dim=1)

    def refuted(self) -> Tensor:
        """Return for which variables some label occurs with several labels of another, (variables, variables)."""
        several = _by_variable((self.together > 0).T, self.variable, self.n_variables).T > 1
        return _by_variable(several, self.variable, self.n_variables) > 0


def find_dependency(source: Tensor, target: Tensor) -> Tensor | None:
    """Return the label of the target that each label of the source determines, or `NO_INDEX`, (labels,).

    None if a label of the source occurs with several labels of the target, or if that none does proves nothing
    (`harpoon.data.chance`).

    Args:
        source: The label of each row, or `NO_INDEX`, (n,).
        target: The same of the other variable, (n,).

    >>> import torch
    >>> city = torch.arange(300) % 6
    >>> find_dependency(city, city % 2).tolist(), find_dependency(city % 2, city)
    ([0, 1, 0, 1, 0, 1], None)
    >>> find_dependency(torch.arange(300), city)  # each label of the source occurs once
    """
    both = (source != NO_INDEX) & (target != NO_INDEX)
    a, b = source[both], target[both]
    if not len(a):
        return None
    determined = torch.full((int(a.max()) + 1,), NO_INDEX, device=a.device)
    determined[a] = b
    if not torch.equal(determined[a], b):
        return None
    n_repeated = len(a) - int((determined != NO_INDEX).sum())
    return determined if is_proven_function(b.bincount().cpu().numpy(), n_repeated) else None


class Exclusions(nn.Module):
    """The exclusions, dependencies and implications of a table.

    All are pairs of labels, (pairs, 4): the variable and the label of one, then of the other.
    """

    excluded: Tensor  # labels that exclude each other
    determined: Tensor  # a label, and a label of another variable that it determines, as all labels of its variable do
    implied: Tensor  # the same for single labels of a variable

    def __init__(self, codec: RowCodec, min_rows: int = 1) -> None:
        super().__init__()
        self.min_rows = min_rows  # on which each pair of a dependency rests
        with torch.device("cpu"):  # networks are built on the meta device
            self.variables = variables_of(codec)
        for name in PAIRS:
            self.register_buffer(name, torch.zeros(0, 4, dtype=torch.long))

    @torch.no_grad()
    def initialize(self, categories: Tensor) -> None:
        """Search the one-hot categories of training rows, (n, categories)."""
        if not self.variables:
            return
        labels = torch.stack([variable.labels(categories) for variable in self.variables], dim=1)
        counts, names = PairCounts.from_labels(labels), [variable.name for variable in self.variables]
        is_discrete = torch.tensor([variable.is_discrete for variable in self.variables])
        found = []
        for a, b in (~counts.refuted() & is_discrete[:, None] & is_discrete).nonzero().tolist():
            determined = find_dependency(labels[:, a], labels[:, b]) if names[a] != names[b] else None
            if determined is not None:
                both = (labels[:, a] != NO_INDEX) & (labels[:, b] != NO_INDEX)
                rows = labels[both, a].bincount(minlength=len(determined))
                known = ((determined != NO_INDEX) & (rows >= self.min_rows)).nonzero()[:, 0]
                pair = torch.full_like(known, a), known, torch.full_like(known, b), determined[known]
                found.append(torch.stack(pair, dim=1))
        self.determined = torch.cat([torch.zeros(0, 4, dtype=torch.long), *found])
        excluded, linked = counts.exclusions(), {frozenset(pair) for pair in self.linked()}
        implied = PairCounts.from_labels(labels, MIN_IMPLICATION_ROWS).implications()
        same = {frozenset(pair) for pair in combinations(range(len(names)), 2) if len({names[i] for i in pair}) == 1}
        # Cells that are missing together in a few rows prove nothing about the next row.
        is_indicator = torch.isin(implied, torch.tensor([each.indicator for each in self.variables]))
        implied = implied[~is_indicator[:, [0, 2]].any(dim=1)]
        # Others follow from a dependency, or are those of one column.
        self.excluded, self.implied = _without(excluded, linked), _without(implied, linked | same)

    def dependencies(self) -> list[tuple[str, str]]:
        """Return the columns that determine another one, and those. Calendar parts are no columns."""
        pairs = [(self.variables[a], self.variables[b]) for a, b in self.linked()]
        return [(one.name, other.name) for one, other in pairs if one.values and other.values]

    def linked(self) -> list[tuple[int, int]]:
        """Return the variables that determine another one, and those."""
        return _variables_of(self.determined)

    def links(self) -> list[tuple[int, int, Tensor]]:
        """Return two variables each, and labels of the first with the one of the second that they imply, (pairs, 2)."""
        pairs = torch.cat([self.determined, self.implied]).cpu()
        of = {(a, b): (pairs[:, 0] == a) & (pairs[:, 2] == b) for a, b in _variables_of(pairs)}
        return [(a, b, pairs[mask][:, [1, 3]]) for (a, b), mask in of.items()]

    def validate_state(self) -> None:
        """Raise ValueError if a label does not exist."""
        sizes = torch.tensor([len(variable.features) for variable in self.variables])
        for pairs in (self.excluded, self.determined, self.implied):
            variable, label = pairs[:, [0, 2]], pairs[:, [1, 3]]
            if len(pairs) and not (
                bool((variable >= 0).all() and (variable < len(sizes)).all())
                and bool((label >= 0).all() and (label < sizes[variable.cpu()].to(label.device)).all())
                and bool((variable[:, 0] != variable[:, 1]).all())
            ):
                raise ValueError("an exclusion has a label that does not exist")

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:  # noqa: ANN401
        for name in PAIRS:  # there may be any number of pairs
            pairs = state_dict.get(prefix + name)
            if isinstance(pairs, Tensor) and pairs.shape[1:] == getattr(self, name).shape[1:]:
                setattr(self, name, torch.empty_like(pairs))
        super()._load_from_state_dict(state_dict, prefix, *args)


def _without(pairs: Tensor, linked: Set[frozenset[int]]) -> Tensor:
    """Return pairs of labels, (pairs, 4), without those of linked variables."""
    kept = [frozenset(pair) not in linked for pair in pairs[:, [0, 2]].tolist()]
    return pairs[torch.tensor(kept, dtype=torch.bool)]


def _variables_of(pairs: Tensor) -> list[tuple[int, int]]:
    """Return the distinct variables of pairs of labels, (pairs, 4)."""
    return [(a, b) for a, b in np.unique(pairs[:, [0, 2]].cpu().numpy(), axis=0).tolist()]


def _frequent_labels(labels: Tensor, min_rows: float) -> tuple[Tensor, Tensor]:
    """Return the variables and the labels that could exclude another, (c,) each: the most frequent ones."""
    found = []
    for variable, of_variable in enumerate(labels.T):
        counts = of_variable[of_variable != NO_INDEX].bincount()
        frequent = (counts >= min_rows).nonzero()[:, 0]
        found.append(torch.stack([torch.full_like(frequent, variable), frequent, counts[frequent]]))
    variable, label, counts = torch.cat([torch.zeros(3, 0, dtype=torch.long), *found], dim=1)
    kept = counts.argsort(descending=True, stable=True)[:MAX_PAIR_LABELS].sort().values
    return variable[kept], label[kept]


def _by_variable(mask: Tensor, variable: Tensor, n_variables: int) -> Tensor:
    """Return how many labels of each variable a mask of labels has: (c, k) to (variables, k)."""
    counts = torch.zeros(n_variables, mask.shape[1], dtype=torch.long)
    return counts.index_add_(0, variable, mask.long())
