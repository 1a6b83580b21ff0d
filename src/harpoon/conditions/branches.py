"""A condition taken apart: into branches that exclude each other, and each branch into what concerns single columns.

Guidance by a product of penalties runs to the nearest branch of an "or" only; drawn apart, each branch gets the share
of rows that is due to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harpoon.conditions.bound import AllOf, AnyOf, BoundPredicate, Constant, all_of, columns_of, negate

MAX_BRANCHES = 64
UNSATISFIABLE = Constant(truth=False)


@dataclass(frozen=True)
class Branch:
    """One way of meeting a condition: all of its parts."""

    parts: tuple[BoundPredicate, ...]

    @property
    def predicate(self) -> BoundPredicate:
        """The branch as a condition."""
        return all_of(self.parts)

    def restrict_to(self, name: str) -> BoundPredicate:
        """What it asks of one column alone."""
        return all_of(part for part in self.parts if columns_of(part) == {name})

    @property
    def single_columns(self) -> set[str]:
        """The columns of which something is asked alone."""
        return set().union(*(columns_of(part) for part in self.parts if len(columns_of(part)) == 1))


def disjoint_branches(bound: BoundPredicate) -> list[Branch]:
    """Branches of which every row that meets the condition is in exactly one.

    "a or b" is a, and b without a. A condition with more branches than can be handled one by one stays whole.
    """
    found = []
    for parts in _split(bound):
        flat = all_of(parts)
        if flat == UNSATISFIABLE:
            continue
        found.append(Branch(flat.parts if isinstance(flat, AllOf) else (flat,)))
        if len(found) > MAX_BRANCHES:
            return [Branch((bound,))]
    return found


def _split(bound: BoundPredicate) -> Iterator[tuple[BoundPredicate, ...]]:
    """Conjunctions that exclude each other; leaves on one column are left together, "or" and all."""
    if len(columns_of(bound)) <= 1 or not isinstance(bound, AllOf | AnyOf):
        yield (bound,)
    elif isinstance(bound, AnyOf):
        for place, part in enumerate(bound.parts):
            rest = tuple(negate(earlier) for earlier in bound.parts[:place])
            yield from _split(all_of((part, *rest)))
    else:
        split = next((part for part in bound.parts if isinstance(part, AnyOf) and len(columns_of(part)) > 1), None)
        if split is None:
            yield bound.parts
            return
        rest = tuple(part for part in bound.parts if part is not split)
        for chosen in _split(split):
            yield from _split(all_of((*chosen, *rest)))
