"""Disjunctive normal form: a condition as branches, which may exclude each other.

Guidance with the product penalty of "or" (eq. 10 of the paper) moves each row to the nearest branch only. Sampling the
branches one by one gives each branch its probability under the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from harpoon.conditions.binding.bound import (
    AllOf,
    AnyOf,
    BoundPredicate,
    Constant,
    all_of,
    columns_of,
    complement,
    leaves,
)

Exclude = Callable[[BoundPredicate], BoundPredicate]
MAX_BRANCHES = 64
UNSATISFIABLE = Constant(truth=False)


@dataclass(frozen=True)
class Branch:
    """One branch of a condition: the conjunction of its parts."""

    parts: tuple[BoundPredicate, ...]

    @property
    def predicate(self) -> BoundPredicate:
        """The branch as a condition."""
        return all_of(self.parts)

    @property
    def single_columns(self) -> set[str]:
        """The columns that some part uses alone."""
        return set().union(*(columns_of(part) for part in self.parts if len(columns_of(part)) == 1))


def disjoint_branches(bound: BoundPredicate, nullable: Collection[str] = ()) -> list[Branch]:
    """Split a condition into branches, so that every row that satisfies it is in exactly one.

    Only the nullable columns may have missing cells.

    "a or b" becomes the branches "a" and "b and not a". Alternatives for one column stay together in one part. A
    condition with more than `MAX_BRANCHES` branches is returned as a single branch.

    >>> from harpoon.conditions.binding.bound import IsIn
    >>> chef, adult = IsIn("job", (0,), n_categories=3), IsIn("adult", (1,), n_categories=2)
    >>> for branch in disjoint_branches(AnyOf((chef, adult))):
    ...     print(branch.parts)
    (IsIn(column='job', allowed=(0,), n_categories=3),)
    (IsIn(column='adult', allowed=(1,), n_categories=2), IsIn(column='job', allowed=(1, 2), n_categories=3))
    """
    return _branches(bound, lambda earlier: complement(earlier, nullable))


def overlapping_branches(bound: BoundPredicate) -> list[Branch]:
    """Split a condition into branches, so that every row that satisfies it, also an incomplete one, is in at least one.

    "a or b" becomes the branches "a" and "b": a row in which `a` is unknown is not in "b and not a".
    """
    return _branches(bound, lambda _: Constant(truth=True))


def _branches(bound: BoundPredicate, exclude: Exclude) -> list[Branch]:
    branches = []
    for parts in _split(bound, exclude):
        flat = all_of(parts)
        if flat == UNSATISFIABLE:
            continue
        branches.append(Branch(tuple(leaves(flat, AllOf))))
        if len(branches) > MAX_BRANCHES:
            return [Branch((bound,))]
    return branches


def _split(bound: BoundPredicate, exclude: Exclude) -> Iterator[tuple[BoundPredicate, ...]]:
    """Yield the conjunctions of the branches; a part that uses one column only is never split.

    `exclude` maps an alternative to the condition under which the later alternatives of its disjunction count.
    """
    if len(columns_of(bound)) <= 1 or not isinstance(bound, AllOf | AnyOf):
        yield (bound,)
    elif isinstance(bound, AnyOf):
        for index, part in enumerate(bound.parts):
            yield from _split(all_of((part, *map(exclude, bound.parts[:index]))), exclude)
    else:
        disjunction = next((p for p in bound.parts if isinstance(p, AnyOf) and len(columns_of(p)) > 1), None)
        if disjunction is None:
            yield bound.parts
            return
        rest = tuple(part for part in bound.parts if part is not disjunction)
        for branch in _split(disjunction, exclude):
            yield from _split(all_of((*branch, *rest)), exclude)
