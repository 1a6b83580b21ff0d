"""Law 4: parse(str(tree)) and eval(repr(tree)) equal the tree. Evaluation agrees with DuckDB."""

import datetime as dt
import operator
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harpoon import col, greatest, least, lit
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.binding.bound import Compare, columns_of, negate
from harpoon.conditions.evaluation.evaluate import evaluate
from harpoon.conditions.language.expressions import (
    And,
    Arithmetic,
    Between,
    Call,
    ColumnName,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
)
from harpoon.conditions.language.parser import parse
from harpoon.conditions.language.sql_names import RESERVED
from harpoon.data.date_parts import PARTS, date_part, to_local
from tests.support.conditions import OPERATORS, ROWS, cells, numbers, table_conditions, tables

NAMESPACE = {"col": col, "lit": lit, "least": least, "greatest": greatest, "datetime": dt}


# Any tree, also one that makes no sense


ZONES = st.none() | st.integers(-86399, 86399).map(lambda seconds: dt.timezone(dt.timedelta(seconds=seconds)))
PLAIN = st.one_of(
    st.integers(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(max_size=6),
    st.dates(),
    st.datetimes(timezones=ZONES),
    st.timedeltas(),
)
LITERALS = st.builds(Literal.of, PLAIN)
NAMES = st.text(max_size=6) | st.sampled_from(["age", "capital-gain", "a`b", 'a"b', "a b", "größe", *sorted(RESERVED)])
VALUES = st.recursive(
    st.builds(ColumnName, NAMES) | LITERALS,
    lambda inner: st.one_of(
        st.builds(Negative, inner),
        st.builds(Arithmetic, st.sampled_from("+-*/"), inner, inner),
        st.builds(Call, st.sampled_from(["abs", "log", "ln", "exp", *PARTS]), st.tuples(inner)),
        st.builds(Call, st.sampled_from(["least", "greatest"]), st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)
PREDICATES = st.recursive(
    st.one_of(
        st.builds(Comparison, st.sampled_from(OPERATORS), VALUES, VALUES),
        st.builds(Between, VALUES, VALUES, VALUES),
        st.builds(In, VALUES, st.lists(LITERALS, min_size=1, max_size=3).map(tuple)),
        st.builds(Like, VALUES, st.text(max_size=6), st.booleans()),
        st.builds(IsNull, VALUES),
    ),
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=5,
)


@given(PREDICATES)
@settings(max_examples=150, deadline=None)
def test_str_parses_back_to_the_tree(tree):
    assert parse(str(tree)) == tree


@given(PREDICATES)
@settings(max_examples=150, deadline=None)
def test_repr_evaluates_to_the_tree(tree):
    assert eval(repr(tree), NAMESPACE) == tree  # noqa: S307


@given(PREDICATES, PREDICATES)
@settings(max_examples=30, deadline=None)
def test_equal_trees_have_equal_text_and_hash(left, right):
    assert (left == right) == (repr(left) == repr(right)) == (str(left) == str(right))
    assert hash(parse(str(left))) == hash(left)


# Trees that make sense for a table, exact_value by Harpoon and by DuckDB


@given(table_conditions())
@settings(max_examples=80, deadline=None)
def test_evaluation_agrees_with_duckdb(duck, example):
    schema, table, trees = example
    duck.register("conditions_table", table.append_column("row number", pa.array(range(ROWS))))
    rows = cells(schema, table)
    for tree in trees:
        selected = duck.execute(f'SELECT "row number" FROM conditions_table WHERE {tree}').fetchall()  # noqa: S608
        assert sorted(row for (row,) in selected) == np.flatnonzero(evaluate(bind(tree, schema), rows)).tolist(), tree


@given(table_conditions())
@settings(max_examples=30, deadline=None)
def test_a_row_never_satisfies_a_condition_and_its_negation(example):
    schema, table, trees = example
    bound, rows = bind(trees[-1], schema), cells(schema, table)
    holds, fails = evaluate(bound, rows), evaluate(negate(bound), rows)
    assert not (holds & fails).any()
    assert negate(negate(bound)) == bound
    missing = [rows[name].missing for name in columns_of(bound)]
    complete = ~np.any(missing, axis=0) if missing else np.ones(ROWS, dtype=bool)
    assert (holds | fails)[complete].all()


@given(tables(), st.data())
@settings(max_examples=30, deadline=None)
def test_the_step_divides_every_difference(table, data):
    schema, arrow, by_kind = table
    bound = bind(data.draw(st.builds(operator.gt, numbers(by_kind), numbers(by_kind))), schema)
    assume(isinstance(bound, Compare) and bound.step is not None)
    rows = cells(schema, arrow)
    step = Fraction(str(bound.step))
    for row in range(ROWS):
        sides = [exact_value(side, rows, row) for side in (bound.left, bound.right)]
        assert None in sides or (sides[0] - sides[1]) % step == 0


def exact_value(term, rows, row):  # noqa: PLR0911
    """One row of a term, in exact fractions."""
    if hasattr(term, "value"):
        return Fraction(term.value)
    if hasattr(term, "column"):
        return None if rows[term.column].missing[row] else Fraction(rows[term.column].values[row].item())
    if hasattr(term, "part"):
        time = exact_value(term.operand, rows, row)
        if time is None:
            return None
        local = to_local(np.array([int(time)]), term.tick, term.zone)
        return Fraction(int(date_part(term.part, local, term.tick)[0]))
    operands = [exact_value(operand, rows, row) for operand in term.operands]
    if term.operator in ("least", "greatest"):
        present = [operand for operand in operands if operand is not None]
        return {"least": min, "greatest": max}[term.operator](present, default=None)
    if None in operands:
        return None
    functions = {"+": operator.add, "-": operator.sub, "*": operator.mul, "negative": operator.neg, "abs": abs}
    return functions[term.operator](*operands)
