"""Law 3: a row's penalty is zero exactly when the row meets the condition."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import assume, given, settings

from harpoon import Kind, Schema, col
from harpoon.conditions.binder import bind
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.penalty import ConditionPenalty, Weights
from harpoon.data import dataframe
from harpoon.data.statistics import count_columns
from harpoon.encoding.row_codec import RowCodec
from tests.property.test_conditions import questions

LOSSES = {"l1": Weights(), "ce": Weights(category_loss="ce")}


def penalties(schema, table, tree, encoding, weights):
    """The penalty of each complete row, and whether it meets the condition."""
    read = dataframe.read(table.select(schema.names))
    codec = RowCodec.fit(schema, count_columns(read), encoding=encoding, scaling="standard")
    rows = codec.read(read)
    complete = codec.observed(rows).all(axis=1)
    rows = {name: cells[complete] for name, cells in rows.items()}
    x = torch.from_numpy(codec.encode(rows))
    bound = bind(tree, schema)
    typical = torch.from_numpy(codec.encode(codec.read(read)))
    penalty = ConditionPenalty(codec, weights, typical).penalty(bound)(x)
    return penalty.numpy(), evaluate(bound, rows)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("encoding", ["onehot", "integer", "mixed"])
@given(questions())
@settings(max_examples=15, deadline=None)
def test_a_penalty_is_zero_exactly_when_the_condition_is_met(encoding, loss, question):
    schema, table, trees = question
    fine = any(column.kind is Kind.DATETIME and column.unit in ("us", "ns") for column in schema)
    assume(not fine)  # a step of a microsecond in thirty years is nothing that a float could tell after scaling
    for tree in trees:
        penalty, met = penalties(schema, table, tree, encoding, LOSSES[loss])
        assert np.isfinite(penalty).all()
        assert ((penalty == 0) == met).all(), str(tree)


def test_rounding_alone_is_no_violation():
    """An index of a label that is standardised and put back is one only up to rounding."""
    for count in range(2, 30):
        labels = ["u"] + ["v"] * count
        table = pa.table({"a": labels, "b": labels[::-1]})
        for tree in (col("a") == col("b"), col("a") != col("b")):
            penalty, met = penalties(Schema.infer(table), table, tree, "integer", Weights())
            assert ((penalty == 0) == met).all()
