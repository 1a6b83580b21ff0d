"""Conditions on rows: the SQL language, its meaning for a schema, and its evaluation.

A condition passes through the modules in this order:

    expressions, sql   the expression tree, its operators (`col`), and its text in SQL
    parser, implication  SQL text, with implications, to an expression tree
    binder, cases, term_types
                       an expression tree and a schema to a bound predicate, in stored units and category codes
    bound, branches    bound predicates in negation normal form, and their disjoint branches
    contradictions     which parts of a condition exclude each other
    evaluate           which rows satisfy it (NumPy, exact)
    penalty            how far rows are from satisfying it (torch, differentiable), and losses of the user

`ConditionPenalty`, `row_penalty` and `batch_penalty` are imported on first use, because they need torch.

    >>> from harpoon.data.column import Column, Kind
    >>> from harpoon.data.schema import Schema
    >>> bind(to_predicate("age >= 50"), Schema((Column("age", Kind.INTEGER),)))
    Compare(operator='>=', left=ColumnRef(column='age'), right=NumberLiteral(value=50), step=1.0)
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from harpoon.conditions.binder import bind
from harpoon.conditions.bound import BoundPredicate, assume_complete, columns_of, negate
from harpoon.conditions.branches import Branch, disjoint_branches
from harpoon.conditions.contradictions import explain_contradiction
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import Predicate, case, col, cols, column_names, greatest, least, lit
from harpoon.conditions.parser import parse, to_predicate

if _TYPE_CHECKING:
    from harpoon.conditions.penalty import (
        CATEGORY_PENALTIES,
        ConditionPenalty,
        LossFunction,
        batch_penalty,
        row_penalty,
    )

_IN_PENALTY = ("CATEGORY_PENALTIES", "ConditionPenalty", "LossFunction", "batch_penalty", "row_penalty")


def __getattr__(name: str) -> object:
    """Import a name that needs torch on first use."""
    if name not in _IN_PENALTY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harpoon.conditions import penalty

    return getattr(penalty, name)


__all__ = [
    "CATEGORY_PENALTIES",
    "BoundPredicate",
    "Branch",
    "ConditionPenalty",
    "LossFunction",
    "Predicate",
    "assume_complete",
    "batch_penalty",
    "bind",
    "case",
    "col",
    "cols",
    "column_names",
    "columns_of",
    "disjoint_branches",
    "evaluate",
    "explain_contradiction",
    "greatest",
    "least",
    "lit",
    "negate",
    "parse",
    "row_penalty",
    "to_predicate",
]
