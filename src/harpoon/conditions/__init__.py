"""Conditions on rows: the SQL language, its meaning for a schema, and its evaluation.

A condition passes through the folders in this order:

    language    the expression tree, its operators, and what begins one (`col`); text from and to SQL and Python
    binding     an expression tree and a schema to a bound predicate, in stored units and category codes; its normal
                form and its disjoint branches
    evaluation  which rows satisfy it (NumPy, exact), which boxes may hold such rows (interval arithmetic), and how far
                rows are from satisfying it (torch, differentiable)
    logic       which parts of a condition exclude each other, or what holds in every row, and why

`rules` are named conditions with the meaning of CHECK constraints.
`ConditionPenalty`, `row_penalty` and `batch_penalty` are imported on first use, because they need torch.

    >>> from harpoon.data.column import Column, Kind
    >>> from harpoon.data.schema import Schema
    >>> bind(to_predicate("age >= 50"), Schema((Column("age", Kind.INTEGER),)))
    Compare(operator='>=', left=ColumnRef(column='age'), right=NumberLiteral(value=50), step=1.0)
"""

from typing import TYPE_CHECKING

from harpoon._utils.lazy_names import lazy_names
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.binding.bound import BoundPredicate, assume_complete, columns_of, negate
from harpoon.conditions.binding.branches import Branch, disjoint_branches
from harpoon.conditions.evaluation.evaluate import evaluate
from harpoon.conditions.language.expressions import Predicate, column_names
from harpoon.conditions.language.functions import case, col, cols, greatest, least, lit
from harpoon.conditions.language.parser import parse, to_predicate
from harpoon.conditions.logic.explanation import explain_contradiction

if TYPE_CHECKING:
    from harpoon.conditions.evaluation.penalty import (
        CATEGORY_PENALTIES,
        ConditionPenalty,
        LossFunction,
        batch_penalty,
        row_penalty,
    )

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

# These names need torch.
_IN_PENALTY = ("CATEGORY_PENALTIES", "ConditionPenalty", "LossFunction", "batch_penalty", "row_penalty")
__getattr__, __dir__ = lazy_names(__name__, {"evaluation.penalty": _IN_PENALTY})
