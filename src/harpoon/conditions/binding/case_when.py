"""`case when` in a condition: a term whose value is chosen by conditions.

A comparison with such a term is a disjunction over its branches: of each branch, that it is chosen, and the comparison
with its result. `case when c then x else y end > 3` becomes "c is true and x > 3, or c is not true and y > 3". So bound
predicates need no node for it. As in SQL, a branch whose condition is unknown is not chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TypeVar

from harpoon.conditions.binding.bound import (
    BoundPredicate,
    Compare,
    NumberLiteral,
    Operation,
    columns_of,
    complement,
    negate,
)
from harpoon.conditions.language.expressions import Case, Node, Predicate, Term

NodeT = TypeVar("NodeT", bound=Node)
MAX_BRANCHES = 512  # of all terms of a comparison together
# A comparison with an undefined number: neither it nor its negation is true.
UNKNOWN = Compare("=", Operation("ln", (NumberLiteral(-1),)), NumberLiteral(0))


def find_case(node: Node) -> Case | None:
    """Return the first `case when` among the terms of a comparison, or None."""
    return next((each for each in node.walk() if isinstance(each, Case)), None)


def count_branches(node: Node) -> int:
    """Return the number of comparisons that one with all its `case when` stands for."""
    own = [count_branches(child) for child in node.children() if not isinstance(child, Predicate)]
    if isinstance(node, Case):
        return sum(own) + 1
    product = 1
    for count in own:
        product *= count
    return product


def substitute(node: NodeT, case: Case, result: Term) -> NodeT:
    """Return an expression with one of its terms replaced."""

    def of(value: object) -> object:
        if value is case:
            return result
        if isinstance(value, tuple):
            return tuple(map(of, value))
        return substitute(value, case, result) if isinstance(value, Node) else value

    changed = {f.name: of(getattr(node, f.name)) for f in fields(node)}  # type: ignore[arg-type]
    return replace(node, **changed)  # type: ignore[type-var]


def branches(case: Case, conditions: list[BoundPredicate]) -> Iterator[tuple[list[BoundPredicate], Term | None]]:
    """Yield of each branch of a case what holds where it is chosen, and its result; `conditions` are bound.

    What holds is true or false, but never unknown, so that it may be negated like anything else.
    """
    not_before: list[BoundPredicate] = []
    for condition, result in zip(conditions, case.results, strict=True):
        otherwise = complement(condition, columns_of(condition))
        yield [negate(otherwise), *not_before], result
        not_before.append(otherwise)
    yield not_before, case.otherwise
