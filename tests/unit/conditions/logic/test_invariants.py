"""Conditions that contradict what holds in every row: labels that occur together, and sums."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import Column, Kind, Schema
from harpoon.conditions import bind, evaluate
from harpoon.conditions.language.parser import parse
from harpoon.conditions.logic.explanation import explain_contradiction
from harpoon.conditions.logic.invariants import Invariants, LabelAxis, LabelInvariant, ProductInvariant, SumInvariant
from harpoon.data import ColumnArray

SCHEMA = Schema(
    (
        Column("city", Kind.CATEGORY, categories=("Lyon", "Milan", "Paris", "Rome")),
        Column("country", Kind.CATEGORY, categories=("France", "Italy")),
        Column("code", Kind.INTEGER, minimum=33, maximum=39, step=1, values=(33, 39)),
        Column("part", Kind.NUMBER, minimum=0.0, maximum=5.0, step=0.1),
        Column("rest", Kind.INTEGER, minimum=0, maximum=9, step=1),
        Column("total", Kind.NUMBER, minimum=0.0, maximum=14.0, step=0.1),
    )
)
COUNTRY_OF = np.array([[True, False], [False, True], [True, False], [False, True]])
CITY, COUNTRY = LabelAxis("city", np.arange(4.0)), LabelAxis("country", np.arange(2.0))
CODE = LabelAxis("code", np.array([33.0, 39.0]))
INVARIANTS = Invariants(
    (
        LabelInvariant(CITY, COUNTRY, COUNTRY_OF, "country is determined by city"),
        LabelInvariant(COUNTRY, CODE, np.eye(2, dtype=bool), "code is determined by country"),
    ),
    (SumInvariant("total", {"part": 1.0, "rest": 1.0}, 0.0, 0.0, "total = part + rest in every training row"),),
)
REASONS = {
    "city = 'Paris' and part > 1 and country = 'Italy'": "city = 'Paris' and country = 'Italy' exclude each other, "
    "because city = 'Paris' is only found with country = 'France'",
    "country = 'France' and code > 35": "country = 'France' and code > 35 exclude each other, because country = "
    "'France' is only found with code = 33",
    "city in ('Paris', 'Lyon') and code = 39": "city in ('Paris', 'Lyon') and code = 39 exclude each other, because "
    "country is determined by city, and code = 39 is only found with country = 'Italy'",
    "total < part and code = 33": "total < part is never true, because total = part + rest in every training row, and "
    "rest is from 0 to 9 in the training table",
    "total > 9 and part < 0.1 and rest != 3": "total > 9 and part < 0.1 exclude each other, because total = part + "
    "rest in every training row, and rest is from 0 to 9 in the training table",
    "part > rest + 5": "part > rest + 5 is never true, because part is from 0 to 5 and rest is from 0 to 9 in the "
    "training table",
    "code > 33 and code < 39": "code > 33 and code < 39 exclude each other, because code has only the values 33, 39 in "
    "the training table",
    "part = 0.75": "part = 0.75 is never true, because part is a multiple of 0.1",
    "part > 0.5 and part < 0.6": "part > 0.5 and part < 0.6 exclude each other, because part is a multiple of 0.1",
}


@pytest.mark.parametrize("where", REASONS)
def test_the_reason_names_the_rule_and_the_smallest_part(where):
    assert explain_contradiction(parse(where), SCHEMA, nullable=(), invariants=INVARIANTS) == REASONS[where]


@pytest.mark.parametrize(
    "where",
    [
        "city = 'Paris' and country = 'France' and code = 33",
        "city = 'Paris' or country = 'Italy'",
        "country != 'France' and code > 35",
        "total = part",
        "total >= 9 and part < 0.1",
        "total < part + rest + 1",
    ],
)
def test_what_the_rules_allow_is_no_contradiction(where):
    assert explain_contradiction(parse(where), SCHEMA, nullable=(), invariants=INVARIANTS) == ""


def test_a_missing_cell_contradicts_no_rule():
    where = parse("city = 'Paris' and (country = 'Italy' or country is null)")
    assert explain_contradiction(where, SCHEMA, nullable=(), invariants=INVARIANTS)
    assert not explain_contradiction(where, SCHEMA, nullable=("country",), invariants=INVARIANTS)


def every_row():
    """All rows that the invariants allow, by brute force."""
    cities, rests, parts = np.arange(4), np.arange(10), np.round(np.arange(51) / 10, 1)
    rows = [
        (city, city % 2, 33 + 6 * (city % 2), part, rest, round(part + rest, 1))
        for city, part, rest in itertools.product(cities, parts, rests)
    ]
    columns = zip(SCHEMA.names, np.array(rows).T, strict=True)
    none = np.zeros(len(rows), dtype=bool)
    return {name: ColumnArray("other", x.astype(int) if name in SCHEMA.names[:2] else x, none) for name, x in columns}


ROWS = every_row()
operators = st.sampled_from(["<", "<=", ">", ">=", "=", "!="])
numbers = st.sampled_from(["part", "rest", "total", "code", "0.5", "3", "4.75", "9", "33"])
terms = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(["part", "rest", "total", "code"]), operators, numbers),
    st.builds("{} + {} {} {}".format, numbers, numbers, st.sampled_from(["<", ">=", "="]), numbers),
    st.builds("city = '{}'".format, st.sampled_from(SCHEMA["city"].categories)),
    st.builds("country = '{}'".format, st.sampled_from(SCHEMA["country"].categories)),
)


@settings(max_examples=200)
@given(st.lists(terms, min_size=1, max_size=4), st.sampled_from([" and ", " or "]))
def test_no_row_satisfies_what_is_called_a_contradiction(parts, junction):
    """All rows that the invariants allow are the judge."""
    tree = parse(junction.join(parts))
    if explain_contradiction(tree, SCHEMA, nullable=(), invariants=INVARIANTS):
        assert not evaluate(bind(tree, SCHEMA), ROWS).any()


PRODUCTS = Schema(
    (
        Column("price", Kind.NUMBER, minimum=0.5, maximum=9.5, step=0.1),
        Column("n", Kind.INTEGER, minimum=1, maximum=4, step=1),
        Column("amount", Kind.NUMBER, minimum=0.5, maximum=38.0, step=0.1),
        Column("other", Kind.INTEGER, minimum=-2, maximum=3, step=1),
    )
)
AMOUNT = Invariants(
    products=(ProductInvariant("amount", ("price", "n"), 1.0, 0.0, "amount = price * n in every training row"),)
)


def every_product():
    """All rows in which the amount is the product, by brute force."""
    rows = itertools.product(np.arange(0.5, 10, 0.5), np.arange(1, 5), np.arange(-2, 4))
    price, n, other = np.array(list(rows)).T
    none = np.zeros(len(price), dtype=bool)
    columns = {"price": price, "n": n, "amount": price * n, "other": other}
    return {name: ColumnArray("other", values, none) for name, values in columns.items()}


PRODUCT_ROWS = every_product()
NAMES = ["price", "n", "amount", "other", "2 * price", "5 * price", "0.5", "3", "19", "40"]
COMPARISONS = st.builds("{} {} {} + {}".format, st.sampled_from(NAMES), operators, *2 * [st.sampled_from(NAMES)])


@settings(max_examples=200)
@given(st.lists(COMPARISONS, min_size=1, max_size=3))
def test_no_row_with_a_product_satisfies_what_is_called_a_contradiction(parts):
    tree = parse(" and ".join(parts))
    if explain_contradiction(tree, PRODUCTS, nullable=(), invariants=AMOUNT):
        assert not evaluate(bind(tree, PRODUCTS), PRODUCT_ROWS).any()


@pytest.mark.parametrize("where", ["amount < price", "amount > 4 * price", "price > 5 and n = 3 and amount < 15"])
def test_a_comparison_that_a_product_excludes_is_a_contradiction(where):
    assert not evaluate(bind(parse(where), PRODUCTS), PRODUCT_ROWS).any()
    assert "amount = price * n" in explain_contradiction(parse(where), PRODUCTS, nullable=(), invariants=AMOUNT)
    if "n =" not in where:
        assert not explain_contradiction(parse(where), PRODUCTS, nullable=("n",), invariants=AMOUNT)


def test_a_sum_counts_where_its_nulls_go_together():
    """If a part is missing exactly where the total is, a condition on the total says that the part has a value."""
    where, nullable = parse("total < part"), ("total", "rest")
    assert not explain_contradiction(where, SCHEMA, nullable=nullable, invariants=INVARIANTS)
    both = LabelInvariant(LabelAxis("total", None), LabelAxis("rest", None), np.eye(2, dtype=bool), "both or none")
    together = Invariants((*INVARIANTS.pairs, both), INVARIANTS.sums)
    assert explain_contradiction(where, SCHEMA, nullable=nullable, invariants=together)
