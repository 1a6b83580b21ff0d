"""Law 3: the penalty of a row is zero exactly when the row satisfies the condition."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import assume, given, settings

from harpoon import Kind, Schema, col
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.evaluation.evaluate import evaluate
from harpoon.conditions.evaluation.penalty import ConditionPenalty
from harpoon.config import GuidanceConfig
from harpoon.data import dataframe
from harpoon.data.reader import read_columns
from harpoon.data.value_counts import count_columns
from harpoon.encoding.row_codec import RowCodec
from tests.support.conditions import table_conditions


def penalties(schema, table, tree, encoding, **options):
    """Return the penalty of each complete row, and whether the row satisfies the condition."""
    source = dataframe.read(table.select(schema.names))
    codec = RowCodec.fit(schema, count_columns(source), encoding=encoding, scaling="standard")
    rows = read_columns(source, schema)
    reference = torch.from_numpy(codec.encode(rows))
    complete = codec.observed(rows).all(axis=1)
    rows = {name: cells[complete] for name, cells in rows.items()}
    bound = bind(tree, schema)
    penalty = ConditionPenalty(codec, GuidanceConfig(**options), reference).penalty(bound)
    return penalty(torch.from_numpy(codec.encode(rows))).numpy(), evaluate(bound, rows)


@pytest.mark.parametrize("loss", ["l1", "ce"])
@pytest.mark.parametrize("encoding", ["onehot", "integer", "mixed"])
@given(table_conditions())
@settings(max_examples=15, deadline=None)
def test_a_penalty_is_zero_exactly_when_the_condition_holds(encoding, loss, example):
    schema, table, trees = example
    fine = any(column.kind is Kind.DATETIME and column.unit in ("us", "ns") for column in schema)
    assume(not fine)  # after scaling, a float cannot resolve a step of a microsecond in thirty years
    for tree in trees:
        penalty, satisfied = penalties(schema, table, tree, encoding, category_loss=loss)
        assert np.isfinite(penalty).all()
        assert ((penalty == 0) == satisfied).all(), str(tree)


def test_a_rounding_error_is_not_a_violation():
    """The index of a category is recovered from its standardised value only up to rounding."""
    for count in range(2, 30):
        categories = ["u"] + ["v"] * count
        table = pa.table({"a": categories, "b": categories[::-1]})
        for tree in (col("a") == col("b"), col("a") != col("b")):
            penalty, satisfied = penalties(Schema.infer(table), table, tree, "integer")
            assert ((penalty == 0) == satisfied).all()
