"""Parser: what is supported, and errors that quote the rest."""

import datetime as dt

import pytest

from harpoon import InvalidCondition, col, least, lit
from harpoon.conditions.language.parser import MAX_LENGTH, parse, to_predicate

a, b, c = col("a"), col("b"), col("c")
SUPPORTED = {
    "a == 1": a == 1,
    "a <> 1": a != 1,
    "A > 1": col("A") > 1,
    "10 <= a < 12": (a >= 10) & (a < 12),
    "10 <= a <= 12 < b": (a >= 10) & (a <= 12) & (b > 12),
    "a < b = c": (a < b) & (b == c),
    "a = b < c": (a == b) & (b < c),
    "a = 1 or b = 2 and c = 3": (a == 1) | ((b == 2) & (c == 3)),
    "not a = 1 and b = 2": ~(a == 1) & (b == 2),
    "not (a = 1 and b = 2)": ~((a == 1) & (b == 2)),
    "NOT A IS NULL": ~col("A").is_null(),
    "a isnull or b notnull": a.is_null() | ~b.is_null(),
    "a and not b": (a == True) & ~(b == True),  # noqa: E712
    "a = false": a == False,  # noqa: E712
    "a between 1 and 2 and b": a.between(1, 2) & (b == True),  # noqa: E712
    "a in (1, -2, 3.5, 'x', true, DATE '2024-01-31')": a.is_in([1, -2, 3.5, "x", True, dt.date(2024, 1, 31)]),
    "a in ((1))": a.is_in([1]),
    "`odd name` = 1": col("odd name") == 1,
    '"odd name" = 1': col("odd name") == 1,
    "[odd name] = 1": col("odd name") == 1,
    '`a``b` > "c""d"': col("a`b") > col('c"d'),
    "a = 'it''s'": a == "it's",
    "a = -3": a == -3,
    "a = - 3": a == -3,
    "+a > 1": a > 1,
    "a - -3 > 1e3": a - -3 > 1000.0,
    "-(3) < a": -lit(3) < a,
    "a > .5": a > 0.5,
    "a > 5.": a > 5.0,
    "a > 0x1F": a > 31,
    "a > 12345678901234567890123": a > 12345678901234567890123,
    "log10(a) > 1": a.log10() > 1,
    "LOG(a) > Ln(a)": a.log10() > a.ln(),
    "least(a) > 1": least(a) > 1,
    "timestamp '2024-01-31T12:00' < a": a > dt.datetime(2024, 1, 31, 12),
    "timestamp '2024-01-31 12:00:00+01:00' < a": a
    > dt.datetime(2024, 1, 31, 12, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    "cast('2024-01-31' as date) < a": a > dt.date(2024, 1, 31),
    "a < interval '3' days": a < dt.timedelta(days=3),
    "a < interval '3 hours'": a < dt.timedelta(hours=3),
    "a < interval -3 minute": a < dt.timedelta(minutes=-3),
    "month(a) = 7": a.dt.month() == 7,
    "extract(MONTH from a) = 7": a.dt.month() == 7,
    "date_part('month', a) = datepart('hour', a)": a.dt.month() == a.dt.hour(),
    "weekday(a) = 0 and dayofweek(a) = 0 and date_part('dow', a) = 0": (a.dt.weekday() == 0)
    & (a.dt.weekday() == 0)
    & (a.dt.weekday() == 0),
    "isodow(a + interval '1' day) in (6, 7)": (a + dt.timedelta(days=1)).dt.isodow().is_in([6, 7]),
    "extract(doy from a) = 1": a.dt.dayofyear() == 1,
    "a = 1 -- a remark": a == 1,
    "a = 1;": a == 1,
    "\n a\n=\n1\n": a == 1,
}


@pytest.mark.parametrize("text", SUPPORTED)
def test_supported_text_is_parsed(text):
    assert parse(text) == SUPPORTED[text]


UNSUPPORTED = {
    "a > (select 1)": "SELECT 1",
    "a in (select b)": "SELECT b",
    "exists (select 1)": "EXISTS",
    "select 1": "select",
    "drop table a": "drop",
    "a = 1; drop table a": "drop",
    "a; b": "One condition",
    "cast(a as int) > 1": "CAST",
    "a::int > 1": "CAST",
    "cast('1' as int) < a": "CAST",
    "a > ?": r"\?",
    "a > :x": ":x",
    "a > @x": "@x",
    "sin(a) > 1": r"SIN\(a\)` \(line 1, column 1\)",
    "a > 1 and\n frobnicate(b) > 1": r"FROBNICATE\(b\)` \(line 2, column 2\)",
    "max(a, b) > 1": "MAX",
    "sum(a) > 1": "SUM",
    "count(*) > 1": "COUNT",
    "log(2, a) > 1": "LOG",
    "a % 2 = 0": "a % 2",
    "a || b = 'x'": r"a \|\| b",
    "a & b": "a & b",
    "a = null": "is null",
    "a in (1, null)": "is null",
    "a is true": "= true",
    "a is not distinct from b": "a IS b",
    "a in ()": "one or more",
    "a in (1, b)": "`b`",
    "a in b": "one or more",
    "a like b": "pattern",
    "a like 'x' escape '!'": "ESCAPE",
    "a glob 'x'": "GLOB",
    "a between symmetric 1 and 2": "BETWEEN",
    "x.a = 1": "double quotes",
    "a.* = 1": r"a\.\*",
    "(a, b) = (1, 2)": r"\(a, b\)",
    "(a = 1) = (b = 2)": "a = 1",
    "a + 1": r"a \+ 1",
    "'text'": "'text'",
    "3": "`3`",
    "a = current_date": "CURRENT_DATE",
    "extract(century from a) = 20": "EXTRACT",
    "date_part(a, b) = 20": "DATE_PART",
    "weekday(a, b) = 2": "WEEKDAY",
    "a collate nocase = 'x'": "COLLATE",
    "a = x'41'": "x'41'",
    "a > interval '2' month": "INTERVAL '2' MONTH",
    "a > interval '1.5' day": "INTERVAL '1.5' DAY",
    f"a > interval '{10**20}' day": "INTERVAL",
    "a > date '2024-13-45'": "2024-13-45",
    "a > date '2024-01-31 12:00'": "2024-01-31 12:00",
    "a > timestamptz '2024-01-31 12:00'": "timestamptz",
    "a > 1e400": "finite",
    "a > " + "9" * 5000: "number",
}


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_an_unsupported_part_is_quoted(text):
    with pytest.raises(InvalidCondition, match=UNSUPPORTED[text]) as caught:
        parse(text)
    assert len(str(caught.value)) < 600


FUNCTIONS = {
    "now() < t": "Write the time itself",
    "current_date < t": "Write the time itself",
    "t::date = '2024-01-31'": "write t >= DATE '2024-01-31' and t < DATE '2024-02-01'",
    "monht(t) = 7": "Did you mean `month`?",
    "max(a, b) > 1": "Did you mean `greatest`?",
    "avg(a) > 1": "about one row",
    "frobnicate(b) > 1": "There is no function `frobnicate`. The functions are abs, ",
    "log(2, a) > 1": "`log` takes one value",
    "extract(century from a) = 20": "The parts of a time are year, ",
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_an_unknown_function_has_a_short_error(text):
    with pytest.raises(InvalidCondition) as caught:
        parse(text)
    assert FUNCTIONS[text] in str(caught.value)
    assert "A condition consists of" not in str(caught.value)
    assert len(str(caught.value)) < 250


SYNTAX_ERRORS = {
    "a >": r"near '>' \(line 1, column 3\)",
    "a b": r"near 'b' \(line 1, column 3\)",
    "age >= 50 limit 3": r"near 'limit' \(line 1, column 11\)",
    "a = 1 as x": "near 'as'",
    "a > 1)": r"near '\)'",
    "(a > 1": r"near '1'",
    "a > 1 and": "near 'and'",
    "a = 'x": "quote",
    'a = "x': "quote",
    "a ! = 1": "near '!'",
    "a = 1, b = 2": "near ','",
    "abs(a, b) > 1": r"near '\)'",
    "lambda x: x": "near",
    "__import__('os').system('true')": "not supported|near",
    "": "empty",
    " \n ": "empty",
    "-- a remark": "One condition",
}


@pytest.mark.parametrize("text", SYNTAX_ERRORS)
def test_a_syntax_error_names_its_position(text):
    with pytest.raises(InvalidCondition, match=SYNTAX_ERRORS[text]):
        parse(text)


@pytest.mark.parametrize("given", [None, 3, b"a > 1", ["a > 1"]])
def test_only_text_is_parsed(given):
    with pytest.raises(InvalidCondition, match="must be text"):
        parse(given)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000 + "a > 1" + ")" * 3000,
        "not " * 3000 + "a",
        "-(" * 3000 + "a" + ")" * 3000 + " > 1",
        " + ".join(["a"] * 3000) + " > 1",
        "abs(" * 3000 + "a" + ")" * 3000 + " > 1",
        "a > 1" + " " * MAX_LENGTH,
    ],
    ids=["parentheses", "not", "negatives", "a sum", "calls", "spaces"],
)
def test_deep_or_long_text_is_an_invalid_condition(text):
    with pytest.raises(InvalidCondition, match=r"deep|characters") as caught:
        parse(text)
    assert len(str(caught.value)) < 600


def test_a_long_chain_is_parsed():
    assert len(parse(" < ".join(["a"] * 1500)).members) == 1499
    assert len(parse(f"a in ({', '.join(map(str, range(1500)))})").options) == 1500


NAMES = ["age", "case", "order", "first value", "hours-per-week", "Größe"]
TO_QUOTE = {
    "case > 1": '"case"',
    "age > 3 and CASE = 2": '"case"',
    "first value > 0": '"first value"',
    "hours-per-week > 40": '"hours-per-week"',
    "First Value between 1 and 2": '"first value"',
}


@pytest.mark.parametrize("text", TO_QUOTE)
def test_a_column_name_without_quotes_is_named_with_them(text):
    with pytest.raises(InvalidCondition) as error:
        to_predicate(text, NAMES)
    assert str(error.value).endswith(f"Put the column name in double quotes: {TO_QUOTE[text]}.")


@pytest.mark.parametrize(
    "text", ["order > 1", '"case" > 1', "age = 1 and order = 2", "Größe > 2", "age = 'first value'"]
)
def test_a_name_that_can_be_read_needs_no_quotes(text):
    assert to_predicate(text, NAMES) == parse(text)


@pytest.mark.parametrize("text", ["", "age > '", "age >> > 3", "age + order"])
def test_other_errors_have_no_hint_to_quote(text):
    with pytest.raises(InvalidCondition) as error:
        to_predicate(text, ["age", "first value"])
    assert "double quotes:" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a > 1 && b > 2", "Write `and` for &&."),
        ("a => 1", "Write >= for =>."),
        ("a =< 1", "Write <= for =<."),
        ("a > 1 & b > 2", "Write `and` for &."),
        ("a > 1 | b > 2", "Write `or` for |."),
    ],
)
def test_an_operator_of_another_language_is_named_with_that_of_sql(text, hint):
    with pytest.raises(InvalidCondition) as error:
        parse(text)
    assert hint in str(error.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("age = 5 adn sex = 'F'", "near 'adn' (line 1, column 9): age = 5 adn sex = 'F'. Did you mean `and`"),
        ("age beetween 1 and 2", "near 'beetween' (line 1, column 5): age beetween 1 and 2. Did you mean `between`"),
    ],
)
def test_a_misspelled_word_gets_the_nearest_one_and_no_list(text, hint):
    with pytest.raises(InvalidCondition) as caught:
        parse(text)
    assert hint in str(caught.value)
    assert "A condition consists of" not in str(caught.value)
