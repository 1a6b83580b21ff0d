"""Relations and formulas: limits of single precision, and exact copies in the table's units."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import NO_INDEX, Schema, count_columns, dataframe, read_columns
from harpoon.encoding import RowCodec
from harpoon.relations import Formula, Relation, apply_formulas


def test_a_relation_beyond_single_precision_is_not_finite():
    assert Relation(0, (1,), (1.0,), 0.0).is_finite
    assert not Relation(0, (1,), (1e-60,), 0.0).is_finite
    assert not Relation(0, (1,), (1e300,), 0.0).is_finite
    assert not Relation(0, (1,), (float("nan"),), 0.0).is_finite


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["none", "sum", "same", "chain"]), min_size=80, max_size=80))
def test_copies_and_copies_of_copies_are_exact(kinds):
    values = np.random.default_rng(1).integers(-(10**6), 10**6, (80, 3))
    columns = {"a": values[:, 0], "b": values[:, 1], "c": values[:, 2], "d": values.sum(axis=1)}
    table = dataframe.read(pa.table(columns))
    counts = count_columns(table)
    codec = RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard")
    rows = read_columns(table, codec.schema)
    formulas = {0: Formula((0, 1), (1, 1), None), 1: Formula((0,), (1,), None), 2: Formula((1, 2), (-1, 1), None)}
    relation_of = np.full((80, 4), NO_INDEX)
    for row, kind in enumerate(kinds):
        relation_of[row, 2] = {"sum": 0, "same": 1, "chain": 0}.get(kind, NO_INDEX)
        relation_of[row, 3] = 2 if kind == "chain" else NO_INDEX
    copied, clipped = apply_formulas(rows, codec, relation_of, formulas)
    a, b, c, d = columns.values()
    bound = {name: (columns[name].min(), columns[name].max()) for name in "cd"}
    for row, kind in enumerate(kinds):
        third = {"none": c[row], "same": a[row]}.get(kind, a[row] + b[row])
        fourth = np.clip(third, *bound["c"]) - b[row] if kind == "chain" else d[row]
        assert clipped[row] == (third != np.clip(third, *bound["c"]) or fourth != np.clip(fourth, *bound["d"]))
        third = np.clip(third, *bound["c"])
        assert copied["c"].values[row] == third
        assert copied["d"].values[row] == (np.clip(third - b[row], *bound["d"]) if kind == "chain" else d[row])
