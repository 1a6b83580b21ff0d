"""Exact relations between columns, found in the training rows before any network exists."""

from harpoon.relations.calendar_agreement import (
    breaks_calendar,
    calendar_relations,
    fill_calendar_columns,
    follow_calendar,
    has_given_parts,
)
from harpoon.relations.exclusion import Exclusions
from harpoon.relations.formula import (
    Formula,
    apply_formulas,
    close_sums,
    solve,
    violates,
)
from harpoon.relations.label_domains import Domains
from harpoon.relations.linked_times import link_times
from harpoon.relations.projection import follow_relations, off_grid, project
from harpoon.relations.relation import Relation, RelationBank, RelationValues, formulas_of
from harpoon.relations.relation_text import describe, describe_calendar_column, describe_dependency
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
    "breaks_calendar",
    "calendar_relations",
    "close_sums",
    "describe",
    "describe_calendar_column",
    "describe_dependency",
    "fill_calendar_columns",
    "follow_calendar",
    "follow_relations",
    "formulas_of",
    "has_given_parts",
    "link_times",
    "off_grid",
    "project",
    "search_relations",
    "select_relations",
    "solve",
    "violates",
]
