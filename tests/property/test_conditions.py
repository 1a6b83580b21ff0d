"""Law 4: parse(str(tree)) is the tree, and so is what its repr builds. And the exact reading is DuckDB's."""

import datetime as dt
import operator
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harpoon import Column, Kind, Schema, col, greatest, least, lit
from harpoon.conditions.binder import bind
from harpoon.conditions.bound import Compare, columns_of, negate
from harpoon.conditions.evaluate import evaluate
from harpoon.conditions.expressions import (
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
from harpoon.conditions.parser import parse
from harpoon.conditions.sql import RESERVED
from harpoon.data import dataframe
from harpoon.data.coercion import coerce

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
SPELLED = {"col": col, "lit": lit, "least": least, "greatest": greatest, "datetime": dt}


# Any tree at all, sense or nonsense


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
        st.builds(Call, st.sampled_from(["abs", "log", "ln", "exp"]), st.tuples(inner)),
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
def test_text_reads_back_as_the_tree(tree):
    assert parse(str(tree)) == tree


@given(PREDICATES)
@settings(max_examples=150, deadline=None)
def test_what_python_spells_is_the_tree(tree):
    assert eval(repr(tree), SPELLED) == tree  # noqa: S307


@given(PREDICATES, PREDICATES)
@settings(max_examples=30, deadline=None)
def test_equal_trees_are_spelled_alike_and_hashed_alike(left, right):
    assert (left == right) == (repr(left) == repr(right)) == (str(left) == str(right))
    assert hash(parse(str(left))) == hash(left)


# Trees that make sense for a table, and the same question put to DuckDB


ROWS = 12
LABELS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
SOME_LABELS = st.sampled_from(["", " ", "a", "A", "ä", "Ä", "it's", '"', "100%", "a_b", "雪", "NULL", "true", "3"])
# DuckDB compares numbers as DECIMAL or DOUBLE, by turns; quarters are exact in both, and so are their small products.
QUARTERS = st.integers(-80, 80).map(lambda n: n / 4)
SMALL = st.integers(-9, 9)
DATES = st.dates(dt.date(1999, 12, 28), dt.date(2000, 1, 4))
DATETIMES = st.builds(dt.datetime.combine, DATES, st.sampled_from([dt.time(), dt.time(6), dt.time(6, 0, 0, 1)]))
SPANS = st.sampled_from(
    [dt.timedelta(days=d, hours=h, microseconds=u) for d in (-1, 0, 2) for h in (0, 7) for u in (0, 1)]
)
TEXTS = {"text": False, "ordered text": True}


def whole(unit):
    """Datetimes that a unit can hold."""
    return DATETIMES.map(lambda moment: moment.replace(microsecond=0) if unit in ("s", "ms") else moment)


STORED = {
    "number": (Kind.NUMBER, pa.float64(), QUARTERS, {"step": 0.01}),
    "integer": (Kind.INTEGER, pa.int64(), SMALL, {}),
    "date": (Kind.DATE, pa.date32(), DATES, {}),
    **{unit: (Kind.DATETIME, pa.timestamp(unit), whole(unit), {"unit": unit}) for unit in ("s", "ms", "us", "ns")},
    "zoned": (Kind.DATETIME, pa.timestamp("us", tz="UTC"), DATETIMES, {"unit": "us", "zoned": True}),
    "duration": (Kind.DURATION, pa.duration("us"), SPANS, {"unit": "us"}),
    "boolean": (Kind.BOOLEAN, pa.bool_(), st.booleans(), {"labels": (False, True)}),
    "code": (Kind.CATEGORY, pa.int64(), st.sampled_from([1, 2, 5]), {"labels": (5, 1, 2)}),
}
DATETIME_COLUMNS = ("s", "ms", "us", "ns")


@st.composite
def tables(draw):
    """A schema, an Arrow table that fits it, and the columns by what they hold."""
    kinds = draw(st.lists(st.sampled_from([*STORED, *TEXTS]), min_size=2, max_size=4))
    chance = draw(st.randoms())  # a few values are drawn and dealt out, which is quicker than to draw every cell
    name = LABELS.filter(bool) | st.sampled_from(["age", "capital-gain", "select", "it's", '"'])
    # To DuckDB, names that differ in case only are the same.
    names = draw(st.lists(name, min_size=len(kinds), max_size=len(kinds), unique_by=str.casefold))
    columns, arrays, held = [], {}, {}
    for name, kind in zip(names, kinds, strict=True):
        if kind in TEXTS:
            # DuckDB knows no order of labels but that of texts, so ordered ones are sorted.
            labels = tuple(sorted(draw(st.lists(LABELS | SOME_LABELS, min_size=2, max_size=4, unique=True))))
            columns.append(Column(name, Kind.CATEGORY, categories=labels, ordered=TEXTS[kind]))
            dtype, cells = pa.string(), st.sampled_from(labels)
        else:
            stored, dtype, cells, details = STORED[kind]
            columns.append(Column(name, stored, **details))
        pool = [None, *draw(st.lists(cells, min_size=3, max_size=4))]
        arrays[name] = pa.array(chance.choices(pool, k=ROWS), type=dtype)
        held.setdefault(kind, []).append(columns[-1])
    return Schema(tuple(columns)), pa.table(arrays), held


def one_of(columns):
    return st.sampled_from([col(column.name) for column in columns])


def numbers(held):
    """Numbers whose arithmetic is exact, so that `=` is not a matter of rounding."""
    columns = held.get("number", []) + held.get("integer", [])
    leaves = st.builds(Literal, SMALL | QUARTERS)
    differences = [
        dates - other for dates in map(col_of, held.get("date", [])) for other in (dt.date(2000, 1, 1), dates)
    ]
    leaves = leaves | one_of(columns) if columns else leaves
    leaves = leaves | st.sampled_from(differences) if differences else leaves
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(Arithmetic, st.sampled_from("+-*"), inner, inner),
            st.builds(Arithmetic, st.just("/"), inner, st.sampled_from([2, -4, 0.5]).map(Literal)),
            st.builds(Negative, inner),
            st.builds(abs, inner),
            st.builds(least, inner, inner),
            st.builds(greatest, inner, inner),
        ),
        max_leaves=4,
    )


def col_of(column):
    return col(column.name)


def moments(held):
    """Dates and datetimes, alone and shifted."""
    dates = st.builds(Literal, DATES)
    if "date" in held:
        columns = one_of(held["date"])
        dates = st.one_of(
            dates, columns, st.builds(operator.add, columns, SMALL), st.builds(operator.sub, columns, SMALL)
        )
    datetimes = st.builds(Literal, DATETIMES)
    columns = [column for unit in DATETIME_COLUMNS for column in held.get(unit, [])]
    if columns:
        datetimes = datetimes | one_of(columns)
    return st.one_of(dates, datetimes, st.builds(least, dates, dates), st.builds(greatest, datetimes, datetimes))


def spans(held):
    columns = st.builds(Literal, SPANS)
    return columns | one_of(held["duration"]) if "duration" in held else columns


def compared(values):
    operators = st.sampled_from(OPERATORS)
    return st.builds(Comparison, operators, values, values) | st.builds(Between, values, values, values)


def curves(held):
    """Functions that round: compared with numbers they do not hit, of arguments they are defined for."""
    positive = st.builds(lambda x: abs(x) + 0.25, numbers(held))
    logs = st.builds(lambda x, f: Call(f, (x,)), positive, st.sampled_from(["log", "ln"]))
    exps = st.builds(lambda x: (-abs(x)).exp(), numbers(held))
    odd = st.builds(Literal, QUARTERS.map(lambda n: n + 0.1234567))
    return st.builds(Comparison, st.sampled_from(OPERATORS), logs | exps, odd)


@st.composite
def labelled(draw, held):
    """A predicate about one category, or two."""
    columns = [column for kind in TEXTS for column in held.get(kind, [])]
    column = draw(st.sampled_from(columns))
    name, labels = col(column.name), st.sampled_from(column.labels)
    choices = [
        st.builds(operator.eq, st.just(name), labels),
        st.builds(operator.ne, st.just(name), labels),
        st.builds(name.is_in, st.lists(labels, min_size=1, max_size=3)),
        st.builds(name.like, patterns(labels)),
        st.builds(name.ilike, patterns(labels)),
        st.builds(Comparison, st.sampled_from(["=", "!="]), st.just(name), one_of(columns)),
    ]
    if column.ordered:
        choices.append(st.builds(Comparison, st.sampled_from(OPERATORS), st.just(name), st.builds(Literal, labels)))
        choices.append(st.builds(name.between, labels, labels))
    return draw(st.one_of(choices))


def patterns(labels):
    """Labels with wild cards in them. A backslash is left out: whether it escapes one differs between engines."""
    ends = st.sampled_from(["", "%", "_"])
    return st.builds(lambda a, label, b: a + label[:2] + b, ends, labels, ends).filter(lambda text: "\\" not in text)


def leaves(schema, held):
    """Predicates about the columns that there are."""
    choices = [st.builds(IsNull, one_of(schema))]
    if {"number", "integer", "date"} & set(held):
        choices += [compared(numbers(held)), compared(numbers(held)), curves(held)]
    if {"date", *DATETIME_COLUMNS} & set(held):
        choices += [compared(moments(held))] * 2
    if "duration" in held:
        choices.append(compared(spans(held)))
    if set(TEXTS) & set(held):
        choices += [labelled(held)] * 3
    if "boolean" in held:
        choices.append(st.builds(Comparison, st.sampled_from(["=", "!="]), one_of(held["boolean"]), st.just(lit(True))))
    if "code" in held:
        codes = one_of(held["code"])
        choices.append(st.builds(Comparison, st.sampled_from(OPERATORS), codes, st.sampled_from([1, 2, 5]).map(lit)))
        choices.append(st.builds(Comparison, st.sampled_from(OPERATORS[2:]), codes, st.builds(Literal, SMALL)))
    if "zoned" in held:
        aware = st.builds(Literal, DATETIMES.map(lambda m: m.replace(tzinfo=dt.timezone(dt.timedelta(hours=6)))))
        choices.append(st.builds(Comparison, st.sampled_from(OPERATORS), one_of(held["zoned"]), aware))
    return st.one_of(choices)


@st.composite
def questions(draw):
    """A schema, a table, and some conditions: a few leaves, what joins them, and the opposite of each."""
    schema, table, held = draw(tables())
    asked = draw(st.lists(leaves(schema, held), min_size=2, max_size=4))
    whole = asked[0]
    for leaf in asked[1:]:
        joined = draw(st.sampled_from([operator.and_, operator.or_]))(whole, leaf)
        whole = draw(st.sampled_from([joined, ~joined]))
    trees = [*asked, whole]
    return schema, table, trees + [~tree for tree in trees]


def cells(schema, table):
    read = dataframe.read(table)
    return {column.name: coerce(read.column(column.name), column) for column in schema}


@pytest.fixture(scope="module")
def duck():
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    return connection


@given(questions())
@settings(max_examples=80, deadline=None)
def test_the_exact_reading_is_that_of_duckdb(duck, question):
    schema, table, trees = question
    duck.register("questioned", table.append_column("row number", pa.array(range(ROWS))))
    rows = cells(schema, table)
    for tree in trees:
        picked = duck.execute(f'SELECT "row number" FROM questioned WHERE {tree}').fetchall()  # noqa: S608
        assert sorted(row for (row,) in picked) == np.flatnonzero(evaluate(bind(tree, schema), rows)).tolist(), tree


@given(questions())
@settings(max_examples=30, deadline=None)
def test_a_row_never_meets_a_condition_and_its_negation(question):
    schema, table, trees = question
    bound, rows = bind(trees[-1], schema), cells(schema, table)
    meets, fails = evaluate(bound, rows), evaluate(negate(bound), rows)
    assert not (meets & fails).any()
    assert negate(negate(bound)) == bound
    missing = [rows[name].missing for name in columns_of(bound)]
    whole_rows = ~np.any(missing, axis=0) if missing else np.ones(ROWS, dtype=bool)
    assert (meets | fails)[whole_rows].all()


@given(tables(), st.data())
@settings(max_examples=30, deadline=None)
def test_the_step_divides_every_difference(table, data):
    schema, arrow, held = table
    bound = bind(data.draw(st.builds(operator.gt, numbers(held), numbers(held))), schema)
    assume(isinstance(bound, Compare) and bound.step is not None)
    rows = cells(schema, arrow)
    rounded = Fraction(str(bound.step))
    for row in range(ROWS):
        sides = [evaluated(side, rows, row) for side in (bound.left, bound.right)]
        assert None in sides or (sides[0] - sides[1]) % rounded == 0


def evaluated(term, rows, row):
    """One row of a term, in exact fractions."""
    if hasattr(term, "value"):
        return Fraction(term.value)
    if hasattr(term, "column"):
        return None if rows[term.column].missing[row] else Fraction(rows[term.column].values[row].item())
    operands = [evaluated(operand, rows, row) for operand in term.operands]
    if term.operator in ("least", "greatest"):
        there = [operand for operand in operands if operand is not None]
        return {"least": min, "greatest": max}[term.operator](there, default=None)
    if None in operands:
        return None
    plain = {"+": operator.add, "-": operator.sub, "*": operator.mul, "negative": operator.neg, "abs": abs}
    return plain[term.operator](*operands)
