"""Branches of a condition are a partition: every row that satisfies it is in exactly one of them."""

import numpy as np
from hypothesis import given, settings

from harpoon.conditions.binder import bind
from harpoon.conditions.branches import disjoint_branches
from harpoon.conditions.evaluate import evaluate
from harpoon.data import dataframe
from harpoon.data.coercion import coerce
from tests.support.conditions import table_conditions


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
