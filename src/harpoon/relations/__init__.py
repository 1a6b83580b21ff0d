"""Exact relations between columns, found in the training rows before any network exists."""

from harpoon.relations.domains import Domains
from harpoon.relations.exclusion import Exclusions
from harpoon.relations.formula import (
    Formula,
    apply_formulas,
    close_sums,
    describe,
    describe_dependency,
    solve,
    violates,
)
from harpoon.relations.projection import follow_relations, off_grid, project
from harpoon.relations.relation import Relation, RelationBank, RelationValues, formulas_of
from harpoon.relations.search import MAX_SEARCH_ROWS, RelationData, search_relations, select_relations

__all__ = [
    "MAX_SEARCH_ROWS",
    "Domains",
    "Exclusions",
    "Formula",
    "Relation",
    "RelationBank",
    "RelationData",
    "RelationValues",
    "apply_formulas",
    "close_sums",
    "describe",
    "describe_dependency",
    "follow_relations",
    "formulas_of",
    "off_grid",
    "project",
    "search_relations",
    "select_relations",
    "solve",
    "violates",
]
