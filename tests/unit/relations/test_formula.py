"""Relations and formulas: limits of single precision, and exact copies in the table's units."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import NO_INDEX, Schema, count_columns, dataframe, read_columns
from harpoon.encoding import AffineUnit, RowCodec
from harpoon.relations import Formula, Relation, RelationBank, apply_formulas, solve, violates


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
    formulas = {
        0: Formula(2, (0, 1), (1, 1), None),
        1: Formula(2, (0,), (1,), None),
        2: Formula(3, (1, 2), (-1, 1), None),
    }
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


INTEGERS = st.integers(-(10**9), 10**9)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(INTEGERS, INTEGERS, INTEGERS), min_size=1, max_size=5),
    st.tuples(*[st.sampled_from([1.0, -1.0, 86_400_000_000.0, -60.0])] * 3),
    INTEGERS,
)
def test_sums_of_integers_are_exact_integers(rows, weights, constant):
    values = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    computed = Formula(3, (0, 1, 2), weights, None, float(constant)).evaluate(values)
    exact = [sum(int(w) * x for w, x in zip(weights, row, strict=True)) + constant for row in rows]
    assert computed.tolist() == [(number + 2**63) % 2**64 - 2**63 for number in exact]  # as 64 bits hold it


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, -1.0, 1.8, 5 / 9, 8.64e10, 1 / 8.64e10]), min_size=1, max_size=6),
    st.sampled_from([0.0, 6.0, -32.0, 2.592e12, 0.125]),
)
def test_a_bank_stores_coefficients_and_constants_to_twelve_digits(coefficients, constant):
    units = {i: AffineUnit("number", 1.0 + i, 0.5, 0.01, True) for i in range(7)}
    bank = RelationBank(7, 2)
    relation = Relation.linear(units, 6, range(len(coefficients)), coefficients, constant)
    (index,) = bank.store([(relation, 0.9)], units)
    formula = bank.formulas(units)[index]
    assert np.allclose(formula.weights, coefficients, rtol=1e-12, atol=0)
    assert np.isclose(formula.constant, constant, rtol=1e-12, atol=0)
    bank.validate_state()
    bank.coefficients.zero_()
    with pytest.raises(ValueError, match="without a coefficient"):
        bank.validate_state()


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (Formula(2, (0, 1), (1.0, 1.0), None, 6.0), "a + b + 6"),
        (Formula(2, (0, 1), (-1.0, -1.0), None, 100.0), "-a - b + 100"),
        (Formula(2, (0,), (-0.5,), None, -2.0), "-0.5 * a - 2"),
        (Formula(2, (0, 1), (1 / 8.64e10, -1 / 8.64e10), None, 0.0, "days"), "a - b in days"),
        (Formula(2, (0,), (1.0,), None, 30.0, "", 86_400 * 10**9), "a + 30 days"),
        (Formula(2, (0,), (1.0,), None, -5400.0, "", 10**9), "a - 90 minutes"),
    ],
)
def test_formulas_are_written_as_one_would(formula, text):
    assert formula.describe(["a", "b"]) == text


def test_unknown_cells_are_solved_from_the_others_in_turn_and_only_to_what_a_column_can_hold():
    rng = np.random.default_rng(0)
    price, quantity, fee = rng.integers(1, 1000, 200), rng.integers(1, 6, 200), rng.integers(0, 500, 200)
    columns = {"price": price, "fee": fee, "amount": price * quantity, "total": price * quantity + fee, "n": quantity}
    table = dataframe.read(pa.table(columns))
    counts = count_columns(table)
    codec = RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard")
    assert [codec.column.name for codec in codec.quantities] == list(columns)
    formulas = [
        Formula(3, (1, 2), (1.0, 1.0), None),
        Formula(2, (0, 4), (1.0, 1.0), 1.0),
        Formula(4, (0, 2), (-1.0, 1.0), 1.0),
    ]
    rows = read_columns(table, codec.schema)
    assert not violates(rows, codec, formulas).any()
    unknown = np.arange(200) % 2 == 0
    holes = {
        name: replace(cells, missing=unknown, values=np.where(unknown, 0, cells.values))
        if name in ("amount", "total")
        else cells
        for name, cells in rows.items()
    }
    solved = solve(holes, codec, formulas)
    assert all((solved[name].values == columns[name]).all() and not solved[name].missing.any() for name in columns)
    no_quantity = {
        **rows,
        "n": replace(rows["n"], missing=unknown),
        "amount": replace(rows["amount"], values=price * 7),
    }
    assert solve(no_quantity, codec, formulas)["n"].missing.tolist() == unknown.tolist()  # none has 7
    wrong = (columns["total"] != price * 7 + fee) | (~unknown & (quantity != 7))
    assert violates(no_quantity, codec, formulas).tolist() == wrong.tolist()
