"""Expression trees: operators, text in SQL and Python, and errors."""

import datetime as dt
import operator
import pickle
from functools import reduce

import numpy as np
import pandas as pd
import pytest

from harpoon import InvalidCondition, col, greatest, least, lit
from harpoon.conditions.language.expressions import And, Call, ColumnName, Comparison, In, Literal, Or
from harpoon.conditions.language.parser import parse, to_predicate
from harpoon.conditions.language.sql_names import RESERVED, quote_name

age, job = col("age"), col("job")
TREES = {
    "age >= 50": (age >= 50, 'col("age") >= 50'),
    "age = 50": (age == 50, 'col("age") == 50'),
    "age != 50": (age != 50, 'col("age") != 50'),
    "age < hours": (age < col("hours"), 'col("age") < col("hours")'),
    "age between 10 and 12": (age.between(10, 12), 'col("age").between(10, 12)'),
    "age not between 10 and 12": (~age.between(10, 12), '~col("age").between(10, 12)'),
    "job in ('a', 'b')": (job.is_in(["a", "b"]), 'col("job").is_in(["a", "b"])'),
    "job not in ('a')": (~job.is_in(("a",)), '~col("job").is_in(["a"])'),
    "job like 'a%'": (job.like("a%"), 'col("job").like("a%")'),
    "job not ilike 'a%'": (~job.ilike("a%"), '~col("job").ilike("a%")'),
    "job is null": (job.is_null(), 'col("job").is_null()'),
    "job is not null": (job.is_not_null(), '~col("job").is_null()'),
    "not (age > 3)": (~(age > 3), '~(col("age") > 3)'),
    "age > 3 and age < 5": ((age > 3) & (age < 5), '(col("age") > 3) & (col("age") < 5)'),
    "(age > 3 and job is null) or age < 1": (
        (age > 3) & job.is_null() | (age < 1),
        '((col("age") > 3) & col("job").is_null()) | (col("age") < 1)',
    ),
    "age - (hours - 1) > -2": (age - (col("hours") - 1) > -2, 'col("age") - (col("hours") - 1) > -2'),
    "(age + 1) * 2 / hours < 1.5": ((age + 1) * 2 / col("hours") < 1.5, '(col("age") + 1) * 2 / col("hours") < 1.5'),
    "1 - age < 2 / age": (1 - age < 2 / age, '1 - col("age") < 2 / col("age")'),
    "-age < 3 + 2 * age": (-age < 3 + 2 * age, '-col("age") < 3 + 2 * col("age")'),
    "abs(age - 40) < 5": (abs(age - 40) < 5, 'abs(col("age") - 40) < 5'),
    "log(age) > ln(age)": (age.log10() > age.ln(), 'col("age").log10() > col("age").ln()'),
    "exp(age + 1) > 1e-300": ((age + 1).exp() > 1e-300, '(col("age") + 1).exp() > 1e-300'),
    "least(age, 3) < greatest(age, hours, 1)": (
        least(age, 3) < greatest(age, col("hours"), 1),
        'least(col("age"), 3) < greatest(col("age"), col("hours"), 1)',
    ),
    "1 < 2": (lit(1) < 2, "lit(1) < 2"),
    "2 * 3 < age + 1": (lit(2) * 3 < age + 1, 'lit(2) * 3 < col("age") + 1'),
    '"capital-gain" > 0': (col("capital-gain") > 0, 'col("capital-gain") > 0'),
    "\"a\"\"b\" = 'it''s'": (col('a"b') == "it's", 'col("a\\"b") == "it\'s"'),
    "married = true": (col("married") == True, 'col("married") == True'),  # noqa: E712
    "born < date '2024-01-31'": (
        col("born") < dt.date(2024, 1, 31),
        'col("born") < datetime.date(2024, 1, 31)',
    ),
    "seen < timestamp '2024-01-31 12:30:00'": (
        col("seen") < dt.datetime(2024, 1, 31, 12, 30),
        'col("seen") < datetime.datetime(2024, 1, 31, 12, 30)',
    ),
    "wait > interval '-90' minute": (
        col("wait") > dt.timedelta(minutes=-90),
        'col("wait") > datetime.timedelta(days=-1, seconds=81000)',
    ),
}


@pytest.mark.parametrize("text", TREES)
def test_str_is_sql_and_repr_is_python(text):
    tree, in_python = TREES[text]
    assert str(tree) == text
    assert repr(tree) == in_python
    assert parse(text) == tree


def test_a_literal_on_the_left_moves_to_the_right():
    assert (50 <= age) == (age >= 50) == parse("50 <= age")  # noqa: SIM300
    assert (np.int64(3) > age) == (age < 3)


def test_junctions_are_flat():
    a, b, c = age > 1, age > 2, age > 3
    assert (a & b) & c == a & (b & c) == And((a, b, c)) == parse("age > 1 and (age > 2 and age > 3)")
    assert (a | b) | c == a | (b | c) == Or((a, b, c))
    assert len(((a & b) & (c & a)).members) == 4
    assert (a & b) | c != a & (b | c)


def test_trees_are_immutable_and_hashable():
    tree = (age >= 50) & job.is_in(["a"])
    assert tree == (age >= 50) & job.is_in(["a"])
    assert len({tree, (age >= 50) & job.is_in(["a"]), tree & (age < 90)}) == 2
    assert tree != "age >= 50"
    assert pickle.loads(pickle.dumps(tree)) == tree  # noqa: S301
    with pytest.raises(AttributeError):
        tree.members = ()


def test_numbers_of_different_types_are_different_literals():
    assert (age == 1) != (age == 1.0)
    assert (age == 1) != (age == True)  # noqa: E712
    assert age.key == col("age").key != col("Age").key


def test_a_bare_column_means_that_it_is_true():
    married = col("married")
    assert ~married == parse("not married")
    assert married & (age > 3) == parse("married and age > 3")
    assert (age > 3) | married == parse("age > 3 or married")


@pytest.mark.parametrize(
    ("scalar", "plain"),
    [
        (np.int8(3), 3),
        (np.float32(0.5), 0.5),
        (np.True_, True),
        (np.str_("a"), "a"),
        (np.datetime64("2024-01-31"), dt.datetime(2024, 1, 31)),
        (np.datetime64("2024-01-31T12:00", "ns"), dt.datetime(2024, 1, 31, 12)),
        (np.timedelta64(3, "h"), dt.timedelta(hours=3)),
        (np.array(3), 3),
        (pd.Timestamp("2024-01-31 12:00"), dt.datetime(2024, 1, 31, 12)),
        (pd.Timedelta("3h"), dt.timedelta(hours=3)),
        (
            pd.Timestamp("2024-01-31", tz="Europe/Berlin"),
            dt.datetime(2024, 1, 31, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        ),
    ],
)
def test_scalars_of_numpy_and_pandas_become_python_values(scalar, plain):
    literal = (age == scalar).right
    assert (type(literal.value), literal.value) == (type(plain), plain)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NaT, np.datetime64("NaT")])
def test_a_missing_value_cannot_be_compared(missing):
    with pytest.raises(InvalidCondition, match="is_null"):
        age == missing  # noqa: B015


MISTAKES = {
    "and": (lambda: (age > 1) and (age < 3), r"\(a\) & \(b\) for and"),
    "or": (lambda: (age > 1) or (age < 3), r"\(a\) \| \(b\) for or"),
    "not": (lambda: not (age > 1), r"~\(a\) for not"),
    "a chain": (lambda: 1 < age < 3, "between"),
    "a column in a list": (lambda: age in [1, 2], "is_in"),
    "in a column": (lambda: 1 in age, "is_in"),
    "in a condition": (lambda: 1 in (age > 1), "is_in"),
    "no parentheses": (lambda: (age > 1) & job.is_null() & 1, "parentheses"),
    "no parentheses before": (lambda: 1 & (age > 2), "parentheses"),
    "a value joined": (lambda: (age + 1) | (age > 2), "parentheses"),
    "comparing a condition": (lambda: age > (age > 1), "Combine conditions"),
    "a list for a value": (lambda: age == [1, 2], "must be a number"),
    "a text for a list": (lambda: age.is_in("abc"), r"\.is_in\(\[\.\.\.\]\)"),
    "a number for a list": (lambda: age.is_in(3), "list"),
    "an empty list": (lambda: age.is_in([]), "at least one"),
    "an infinite number": (lambda: float("inf") > age, "finite"),
    "a number too large": (lambda: age < 10**400, "finite"),
    "a name that is not text": (lambda: col(3), "as text"),
    "a pattern that is not text": (lambda: job.like(3), "pattern as text"),
    "least of nothing": (least, "least"),
    "one part": (lambda: And((age > 1,)), "two"),
    "an unknown function": (lambda: Call("sin", (age,)), "abs, least"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_an_error_with_the_correct_form(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(InvalidCondition, match=message):
        make()


def test_the_depth_of_a_tree_is_limited():
    deep = reduce(operator.add, [1] * 98, age)
    assert str(deep > 1).count("+") == 98
    with pytest.raises(InvalidCondition, match="100 levels"):
        reduce(operator.add, [1] * 1000, age)


def test_a_long_list_of_conditions_is_not_deep():
    tree = parse(" or ".join(f"age = {i}" for i in range(2000)))
    assert tree.depth == 3
    assert len(tree.members) == 2000


@pytest.mark.parametrize(
    "word", [*sorted(RESERVED), "date", "year", "index", "Select", "NULL", "größe", "a.b", "", "1a"]
)
def test_any_name_can_be_quoted(word):
    assert parse(f"{quote_name(word)} >= 1 and abs({quote_name(word)}) < 3 or {quote_name(word)} is null") == (
        (col(word) >= 1) & (abs(col(word)) < 3) | col(word).is_null()
    )


def test_plain_names_are_not_quoted():
    assert [quote_name(name) for name in ("age", "Age_2", "_x", "date")] == ["age", "Age_2", "_x", "date"]


def test_to_predicate_takes_text_and_expressions():
    assert to_predicate("age >= 50") == to_predicate(age >= 50) == (age >= 50)
    assert to_predicate(col("married")) == parse("married")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (age + 1, "compare it"),
        (lit(3), "compare it"),
        (True, "`and`"),
        (lambda row: row, "loss="),
        (3, "int"),
        (None, "NoneType"),
        ({"age > 3"}, "set"),
        ([], "empty"),
        (["age > 3", 3], "int"),
    ],
)
def test_to_predicate_rejects_other_types(given, message):
    with pytest.raises(InvalidCondition, match=message):
        to_predicate(given)


def test_nodes_are_dataclasses():
    assert isinstance(age, ColumnName)
    assert (age >= 50).key == Comparison(">=", ColumnName("age"), Literal(50)).key
    assert job.is_in(["a"]) == In(ColumnName("job"), (Literal("a"),))
