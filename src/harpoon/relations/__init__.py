"""Exact relations between numeric columns, found in the training rows before any network exists."""

from harpoon.relations.formula import Formula, apply_formulas, describe
from harpoon.relations.relation import ColumnScales, Relation, RelationBank, RelationValues
from harpoon.relations.search import MAX_SEARCH_ROWS, RelationData, search_relations, select_relations

__all__ = [
    "MAX_SEARCH_ROWS",
    "ColumnScales",
    "Formula",
    "Relation",
    "RelationBank",
    "RelationData",
    "RelationValues",
    "apply_formulas",
    "describe",
    "search_relations",
    "select_relations",
]
