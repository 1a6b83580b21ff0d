"""Branches of a condition are a partition; no row satisfies a condition that contradicts itself."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import col
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.binding.bound import complement
from harpoon.conditions.binding.branches import disjoint_branches
from harpoon.conditions.evaluation.evaluate import evaluate
from harpoon.conditions.logic.explanation import explain_contradiction
from harpoon.data import dataframe
from harpoon.data.coercion import coerce
from tests.support.conditions import cells, table_conditions


@given(table_conditions())
@settings(max_examples=60, deadline=None)
def test_every_row_that_satisfies_a_condition_is_in_exactly_one_branch(example):
    schema, table, trees = example
    read = dataframe.read(table)
    rows = {column.name: coerce(read.column(column.name), column) for column in schema}
    complete = ~np.any([cells.missing for cells in rows.values()], axis=0)
    for tree in trees:
        predicate = bind(tree, schema)
        n_branches = sum(
            (evaluate(branch.predicate, rows).astype(int) for branch in disjoint_branches(predicate)),
            np.zeros(read.n_rows, int),
        )
        assert (n_branches[complete] == evaluate(predicate, rows)[complete]).all(), str(tree)


def rows_with_nulls_in(nullable, rows):
    """Which rows have missing cells in nullable columns only, (n,)."""
    others = [cells.missing for name, cells in rows.items() if name not in nullable]
    return ~np.any(others, axis=0) if others else np.ones(len(next(iter(rows.values()))), dtype=bool)


@given(table_conditions(), st.data())
@settings(max_examples=60, deadline=None)
def test_branches_are_a_partition_also_of_rows_with_missing_cells(example, data):
    schema, table, trees = example
    rows = cells(schema, table)
    nullable = data.draw(st.sets(st.sampled_from(schema.names)) | st.just(set(schema.names)))
    counted = rows_with_nulls_in(nullable, rows)
    for tree in trees:
        predicate = bind(tree, schema)
        branches = disjoint_branches(predicate, nullable)
        n_branches = sum((evaluate(branch.predicate, rows).astype(int) for branch in branches), np.zeros(len(counted)))
        assert (n_branches == evaluate(predicate, rows))[counted].all(), str(tree)


@given(table_conditions(), st.data())
@settings(max_examples=60, deadline=None)
def test_every_row_satisfies_either_a_condition_or_its_complement(example, data):
    schema, table, trees = example
    rows = cells(schema, table)
    nullable = data.draw(st.sets(st.sampled_from(schema.names)) | st.just(set(schema.names)))
    counted = rows_with_nulls_in(nullable, rows)
    for tree in trees:
        predicate = bind(tree, schema)
        assert (evaluate(predicate, rows) != evaluate(complement(predicate, nullable), rows))[counted].all(), str(tree)


@given(table_conditions())
@settings(max_examples=60, deadline=None)
def test_no_row_satisfies_a_condition_that_contradicts_itself(example):
    schema, table, trees = example
    rows = cells(schema, table)
    missing = col(schema.names[0]).is_null()
    for tree in trees:
        if explain_contradiction(tree, schema):
            assert not evaluate(bind(tree, schema), rows).any(), str(tree)
        assert explain_contradiction(tree & missing & ~missing, schema), str(tree)
