"""Hypothesis strategies for schemas, tables that fit them, and conditions that make sense for them."""

import datetime as dt
import operator

import pyarrow as pa
from hypothesis import strategies as st

from harpoon import Column, Kind, Schema, col, greatest, least, lit
from harpoon.conditions.language.expressions import Arithmetic, Between, Call, Comparison, IsNull, Literal, Negative
from harpoon.data import dataframe
from harpoon.data.coercion import coerce
from harpoon.data.date_parts import PARTS, TIMES_OF_DAY

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
ROWS = 12
CATEGORIES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
ODD_CATEGORIES = st.sampled_from(["", " ", "a", "A", "ä", "Ä", "it's", '"', "100%", "a_b", "雪", "NULL", "true", "3"])
# DuckDB compares numbers as DECIMAL or as DOUBLE; quarters and their small products are exact in both.
QUARTERS = st.integers(-80, 80).map(lambda n: n / 4)
SMALL = st.integers(-9, 9)
ZONE = "America/New_York"
DATES = st.dates(dt.date(1999, 12, 28), dt.date(2000, 1, 4))
ANY_DATES = DATES | st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
DATETIMES = st.builds(dt.datetime.combine, DATES, st.sampled_from([dt.time(), dt.time(6), dt.time(6, 0, 0, 1)]))
DURATIONS = st.sampled_from(
    [dt.timedelta(days=d, hours=h, microseconds=u) for d in (-1, 0, 2) for h in (0, 7) for u in (0, 1)]
)
TEXTS = {"text": False, "ordered text": True}


def datetimes_in(unit):
    """Datetimes that are exact in a unit."""
    return DATETIMES.map(lambda moment: moment.replace(microsecond=0) if unit in ("s", "ms") else moment)


KINDS = {
    "number": (Kind.NUMBER, pa.float64(), QUARTERS, {"step": 0.01}),
    "integer": (Kind.INTEGER, pa.int64(), SMALL, {}),
    "date": (Kind.DATE, pa.date32(), ANY_DATES, {}),
    **{
        unit: (Kind.DATETIME, pa.timestamp(unit), datetimes_in(unit), {"unit": unit})
        for unit in ("s", "ms", "us", "ns")
    },
    "zoned": (Kind.DATETIME, pa.timestamp("us", tz=ZONE), DATETIMES, {"unit": "us", "zoned": True, "zone": ZONE}),
    "duration": (Kind.DURATION, pa.duration("us"), DURATIONS, {"unit": "us"}),
    "boolean": (Kind.BOOLEAN, pa.bool_(), st.booleans(), {"categories": (False, True)}),
    "code": (Kind.CATEGORY, pa.int64(), st.sampled_from([1, 2, 5]), {"categories": (5, 1, 2)}),
}
DATETIME_COLUMNS = ("s", "ms", "us", "ns")


@st.composite
def tables(draw):
    """A schema, an Arrow table that fits it, and the columns by kind."""
    kinds = draw(st.lists(st.sampled_from([*KINDS, *TEXTS]), min_size=2, max_size=4))
    shuffler = draw(st.randoms())  # filling cells from a few drawn values is quicker than drawing each cell
    name = CATEGORIES.filter(bool) | st.sampled_from(["age", "capital-gain", "select", "it's", '"'])
    # To DuckDB, names that differ in case only are the same.
    names = draw(st.lists(name, min_size=len(kinds), max_size=len(kinds), unique_by=str.casefold))
    columns, arrays, by_kind = [], {}, {}
    for name, kind in zip(names, kinds, strict=True):
        if kind in TEXTS:
            # DuckDB orders categories as texts, so ordered ones are sorted.
            categories = tuple(sorted(draw(st.lists(CATEGORIES | ODD_CATEGORIES, min_size=2, max_size=4, unique=True))))
            columns.append(Column(name, Kind.CATEGORY, categories=categories, ordered=TEXTS[kind]))
            dtype, cells = pa.string(), st.sampled_from(categories)
        else:
            stored, dtype, cells, details = KINDS[kind]
            columns.append(Column(name, stored, **details))
        pool = [None, *draw(st.lists(cells, min_size=3, max_size=4))]
        arrays[name] = pa.array(shuffler.choices(pool, k=ROWS), type=dtype)
        by_kind.setdefault(kind, []).append(columns[-1])
    return Schema(tuple(columns)), pa.table(arrays), by_kind


def one_of(columns):
    return st.sampled_from([col(column.name) for column in columns])


def numbers(by_kind):
    """Numbers whose arithmetic is exact, so that `=` is not a matter of rounding."""
    columns = by_kind.get("number", []) + by_kind.get("integer", [])
    leaves = st.builds(Literal, SMALL | QUARTERS)
    differences = [
        dates - other for dates in map(col_of, by_kind.get("date", [])) for other in (dt.date(2000, 1, 1), dates)
    ]
    leaves = leaves | one_of(columns) if columns else leaves
    parts = list(calendar_parts(by_kind))
    leaves = leaves | st.sampled_from(parts) if parts else leaves
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


def calendar_parts(by_kind):
    """Every part of every date and datetime."""
    for kind in ("date", *DATETIME_COLUMNS, "zoned"):
        for column in by_kind.get(kind, []):
            yield from (Call(part, (col(column.name),)) for part in PARTS if kind != "date" or part not in TIMES_OF_DAY)


def col_of(column):
    return col(column.name)


def times(by_kind):
    """Dates and datetimes, alone and shifted."""
    dates = st.builds(Literal, DATES)
    if "date" in by_kind:
        columns = one_of(by_kind["date"])
        dates = st.one_of(
            dates, columns, st.builds(operator.add, columns, SMALL), st.builds(operator.sub, columns, SMALL)
        )
    datetimes = st.builds(Literal, DATETIMES)
    columns = [column for unit in DATETIME_COLUMNS for column in by_kind.get(unit, [])]
    if columns:
        datetimes = datetimes | one_of(columns)
    return st.one_of(dates, datetimes, st.builds(least, dates, dates), st.builds(greatest, datetimes, datetimes))


def durations(by_kind):
    columns = st.builds(Literal, DURATIONS)
    return columns | one_of(by_kind["duration"]) if "duration" in by_kind else columns


def comparisons(values):
    operators = st.sampled_from(OPERATORS)
    return st.builds(Comparison, operators, values, values) | st.builds(Between, values, values, values)


def curves(by_kind):
    """Comparisons of functions that round: with numbers they do not reach, at arguments in their domain."""
    positive = st.builds(lambda x: abs(x) + 0.25, numbers(by_kind))
    logs = st.builds(lambda x, f: Call(f, (x,)), positive, st.sampled_from(["log", "ln"]))
    exps = st.builds(lambda x: (-abs(x)).exp(), numbers(by_kind))
    odd = st.builds(Literal, QUARTERS.map(lambda n: n + 0.1234567))
    return st.builds(Comparison, st.sampled_from(OPERATORS), logs | exps, odd)


@st.composite
def category_predicates(draw, by_kind):
    """A predicate about one category, or two."""
    columns = [column for kind in TEXTS for column in by_kind.get(kind, [])]
    column = draw(st.sampled_from(columns))
    name, categories = col(column.name), st.sampled_from(column.categories)
    choices = [
        st.builds(operator.eq, st.just(name), categories),
        st.builds(operator.ne, st.just(name), categories),
        st.builds(name.is_in, st.lists(categories, min_size=1, max_size=3)),
        st.builds(name.like, patterns(categories)),
        st.builds(name.ilike, patterns(categories)),
        st.builds(Comparison, st.sampled_from(["=", "!="]), st.just(name), one_of(columns)),
    ]
    if column.ordered:
        choices.append(st.builds(Comparison, st.sampled_from(OPERATORS), st.just(name), st.builds(Literal, categories)))
        choices.append(st.builds(name.between, categories, categories))
    return draw(st.one_of(choices))


def patterns(categories):
    """Categories with wild cards in them, without backslashes: engines disagree on whether one escapes a wild card."""
    ends = st.sampled_from(["", "%", "_"])
    return st.builds(lambda a, category, b: a + category[:2] + b, ends, categories, ends).filter(
        lambda text: "\\" not in text
    )


def leaves(schema, by_kind):
    """Predicates about the columns of a table."""
    choices = [st.builds(IsNull, one_of(schema))]
    if {"number", "integer", "date", *DATETIME_COLUMNS, "zoned"} & set(by_kind):
        choices += [comparisons(numbers(by_kind)), comparisons(numbers(by_kind)), curves(by_kind)]
    if {"date", *DATETIME_COLUMNS} & set(by_kind):
        choices += [comparisons(times(by_kind))] * 2
    if "duration" in by_kind:
        choices.append(comparisons(durations(by_kind)))
    if set(TEXTS) & set(by_kind):
        choices += [category_predicates(by_kind)] * 3
    if "boolean" in by_kind:
        choices.append(
            st.builds(Comparison, st.sampled_from(["=", "!="]), one_of(by_kind["boolean"]), st.just(lit(True)))
        )
    if "code" in by_kind:
        codes = one_of(by_kind["code"])
        choices.append(st.builds(Comparison, st.sampled_from(OPERATORS), codes, st.sampled_from([1, 2, 5]).map(lit)))
        choices.append(st.builds(Comparison, st.sampled_from(OPERATORS[2:]), codes, st.builds(Literal, SMALL)))
    if "zoned" in by_kind:
        aware = st.builds(Literal, DATETIMES.map(lambda m: m.replace(tzinfo=dt.timezone(dt.timedelta(hours=6)))))
        choices.append(st.builds(Comparison, st.sampled_from(OPERATORS), one_of(by_kind["zoned"]), aware))
    return st.one_of(choices)


@st.composite
def table_conditions(draw):
    """A schema, a table, and some conditions: a few leaves, a tree of all leaves, and the negation of each."""
    schema, table, by_kind = draw(tables())
    leaf_predicates = draw(st.lists(leaves(schema, by_kind), min_size=2, max_size=4))
    whole = leaf_predicates[0]
    for leaf in leaf_predicates[1:]:
        junction = draw(st.sampled_from([operator.and_, operator.or_]))(whole, leaf)
        whole = draw(st.sampled_from([junction, ~junction]))
    trees = [*leaf_predicates, whole]
    return schema, table, trees + [~tree for tree in trees]


def cells(schema, table):
    read = dataframe.read(table)
    return {column.name: coerce(read.column(column.name), column) for column in schema}
