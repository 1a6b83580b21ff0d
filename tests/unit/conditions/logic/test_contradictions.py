"""Contradictions are found in every branch, and the parts that exclude each other are named."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import Column, Kind, Schema
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.evaluation.evaluate import evaluate
from harpoon.conditions.language.parser import parse
from harpoon.conditions.logic.contradictions import MAX_NUMBERS
from harpoon.conditions.logic.explanation import explain_contradiction
from harpoon.conditions.logic.linear_program import Inequality, LinearTerm, is_infeasible
from harpoon.data import ColumnArray

SCHEMA = Schema(
    (
        Column("age", Kind.INTEGER, step=1),
        Column("height", Kind.NUMBER),
        Column("width", Kind.NUMBER),
        Column("born", Kind.DATE, step=1),
        Column("member", Kind.BOOLEAN, categories=(False, True)),
        Column("job", Kind.CATEGORY, categories=("chef", "nurse", "pilot")),
        Column("size", Kind.CATEGORY, categories=("small", "mid", "large"), ordered=True),
    )
)
CONTRADICTIONS = {
    "height > 5 and height < 4": "height > 5 and height < 4 exclude each other",
    "height > 5 and height <= 5": "height > 5 and height <= 5 exclude each other",
    "age > 5 and age < 6": "age > 5 and age < 6 exclude each other, because age is an integer",
    "age = 5.5": "age = 5.5 is never true, because age is an integer",
    f"age > {10**30} and age < {10**29}": f"age > {10**30} and age < {10**29} exclude each other",
    "born > DATE '2024-01-31' and born < '2024-02-01'": "born > date '2024-01-31' and born < '2024-02-01' "
    "exclude each other",
    "job = 'chef' and job = 'nurse'": "job = 'chef' and job = 'nurse' exclude each other",
    "job != 'chef' and job != 'nurse' and job != 'pilot'": "job != 'chef' and job != 'nurse' and job != 'pilot' "
    "exclude each other",
    "size > 'mid' and size < 'large'": "size > 'mid' and size < 'large' exclude each other",
    "member and not member": "member = true and not (member = true) exclude each other",
    "age between 9 and 3": "age between 9 and 3 is never true",
    "1 > 2": "1 > 2 is never true",
    "age is null and age > 3": "age is null and age > 3 exclude each other",
    "age is null and age is not null": "age is null and age is not null exclude each other",
    # only the parts that exclude each other are named, in the order of the condition
    "job = 'chef' and age > 5 and height > 1 and age < 4 and width > 2": "age > 5 and age < 4 exclude each other",
    "height > 5 and height * 2 < 9 and height < 4": "height > 5 and height * 2 < 9 exclude each other",
    # several numbers
    "height > width and age > 3 and width > height": "height > width and width > height exclude each other",
    "height > width and width >= 4 and height < 4": "height > width and width >= 4 and height < 4 exclude each other",
    "age > height and height >= 3.5 and age < 5 and age != 4": "age > height and height >= 3.5 and age < 5 and "
    "age != 4 exclude each other, because age is an integer",
    "abs(height) < 0": "abs(height) < 0 is never true",
    "height * 2 > 5 and height * 2 < 4": "height * 2 > 5 and height * 2 < 4 exclude each other",
    "height > width and age > 5 and (age < 4 or age = 2)": "age > 5 and (age < 4 or age = 2) exclude each other",
    # every alternative must be a contradiction
    "age > 5 and age < 4 or job = 'chef' and job = 'nurse'": "age > 5 and age < 4 exclude each other; "
    "job = 'chef' and job = 'nurse' exclude each other",
    "(age > 5 or job = 'chef') and age < 4 and job = 'nurse'": "(age > 5 or job = 'chef') and age < 4 and "
    "job = 'nurse' exclude each other",
    "width > 0 and (age between 9 and 3 or 1 > 2)": "age between 9 and 3 is never true; 1 > 2 is never true",
}
SATISFIABLE = [
    "height > 5 and height < 6",
    "age >= 5 and age < 6",
    "age > 1e30",
    f"age > {10**30}",
    f"age > {10**30} and age < {10**30 + 2}",
    "age > 5 and age < 4 or height > 2",
    "job != 'chef' and job != 'nurse'",
    "age is null",
    "age is not null",
    "not (age > 3) and age is not null",
    "height is null and width > 3",
    "(height > 5 or width > 3) and height is null and width = 4",
    "height >= width and width >= height",
    "age > height and height >= 3.5 and age < 5",
    "greatest(height, width) > 5 and height < 3",
    "height > width or width > height",
    # not decided
    "height * width > 4 and height * width < 3",
]


@pytest.mark.parametrize("where", CONTRADICTIONS)
def test_a_contradiction_is_found_and_its_parts_are_named(where):
    assert explain_contradiction(parse(where), SCHEMA) == CONTRADICTIONS[where]


@pytest.mark.parametrize("where", SATISFIABLE)
def test_a_condition_that_some_row_may_satisfy_is_no_contradiction(where):
    assert explain_contradiction(parse(where), SCHEMA) == ""


def test_the_parts_are_found_among_many():
    many = [f"age != {i}" for i in range(MAX_NUMBERS // 2)]
    where = " and ".join([*many, "age < 20", *many, "age > 30"])
    assert explain_contradiction(parse(where), SCHEMA) == "age < 20 and age > 30 exclude each other"


def test_a_column_that_is_compared_with_very_many_numbers_is_not_checked():
    where = " and ".join([f"age != {i}" for i in range(MAX_NUMBERS + 1)])
    assert explain_contradiction(parse(f"{where} and age > 5 and age < 4"), SCHEMA) == ""


RANGES = Schema(
    (
        Column("age", Kind.INTEGER, minimum=18, maximum=90, step=1),
        Column("price", Kind.NUMBER, minimum=0.5, maximum=9.5, missing=0.1),
        Column("bonus", Kind.NUMBER, minimum=0.0, maximum=1.0, clip=False),
        Column("born", Kind.DATE, minimum=0, maximum=365),
        Column("job", Kind.CATEGORY, categories=("chef", "nurse", "pilot")),
    )
)
BEYOND = {
    "age > 90": "age > 90 is never true, because age is from 18 to 90 in the training table",
    "age = 17": "age = 17 is never true, because age is from 18 to 90 in the training table",
    "price > 10 or age < 0": "price > 10 is never true, because price is from 0.5 to 9.5 in the training table; "
    "age < 0 is never true, because age is from 18 to 90 in the training table",
    "born > DATE '1971-01-01'": "born > date '1971-01-01' is never true, because born is from 1970-01-01 to 1971-01-01 "
    "in the training table",
    "age >= 90 and age != 90": "age >= 90 and age != 90 exclude each other, because age is from 18 to 90 in the "
    "training table",
    "age is null": "age is null is never true, because age is never missing in the training table",
    "job like 'd%'": "job like 'd%' is never true, because no value of job begins with 'd' (it has 'chef', 'nurse', "
    "'pilot')",
    "job like '%x'": "job like '%x' is never true, because no value of job ends with 'x' (it has 'chef', 'nurse', "
    "'pilot')",
    "job like '%x%'": "job like '%x%' is never true, because no value of job contains 'x' (it has 'chef', 'nurse', "
    "'pilot')",
    "job like 'c_f'": "job like 'c_f' is never true, because no value of job is like 'c_f' (it has 'chef', 'nurse', "
    "'pilot')",
}


@pytest.mark.parametrize("where", BEYOND)
def test_a_condition_beyond_the_training_values_says_why(where):
    assert explain_contradiction(parse(where), RANGES, nullable=["price"]) == BEYOND[where]


@pytest.mark.parametrize(
    "where", ["age = 90", "age = 18", "age <= 18", "price = 0.5", "price >= 9.5", "price is null", "bonus > 5"]
)
def test_the_ends_of_a_range_and_columns_without_one_can_be_met(where):
    assert explain_contradiction(parse(where), RANGES, nullable=["price"]) == ""


def test_a_column_with_other_observed_values_has_no_range_and_no_list_of_categories():
    free = ["age", "job"]
    assert explain_contradiction(parse("age > 90 and job like 'd%'"), RANGES, free=free) == ""
    assert "price is from" in explain_contradiction(parse("age > 90 and price > 10"), RANGES, free=free)


BUSINESS_HOURS = pd.date_range("2021-01-04", "2022-06-30", freq="h", tz="America/New_York")
BUSINESS_HOURS = BUSINESS_HOURS[(BUSINESS_HOURS.day_of_week < 5) & BUSINESS_HOURS.hour.isin([1, 9, 10, 16])]
TICKS = BUSINESS_HOURS.as_unit("us").asi8
VISITS = Schema(
    (
        Column(
            "t",
            Kind.DATETIME,
            unit="us",
            zoned=True,
            zone="America/New_York",
            step=3_600_000_000,
            minimum=int(TICKS.min()),
            maximum=int(TICKS.max()),
        ),
    )
)
PART_VALUES = {
    "t": {
        "month": tuple(range(1, 13)),
        "day": tuple(range(1, 32)),
        "weekday": (1, 2, 3, 4, 5),
        "hour": (1, 9, 10, 16),
        "minute": (0,),
        "second": (0,),
    }
}
NAMES = ["year", "quarter", "month", "week", "day", "dayofyear", "weekday", "isodow", "hour", "minute", "second"]
COMPARISON = st.builds(
    lambda part, op, value: f"{part}(t) {op} {2000 * (part == 'year') + value}",
    st.sampled_from(NAMES),
    st.sampled_from(["=", "<", ">", "<=", ">=", "!="]),
    st.integers(-2, 63),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(COMPARISON, min_size=1, max_size=4), st.sampled_from([" and ", " or "]))
def test_no_time_satisfies_a_calendar_condition_that_is_a_contradiction(parts, join):
    tree = parse(join.join(parts))
    cells = ColumnArray("datetime", TICKS, np.zeros(len(TICKS), dtype=bool), unit="us", zoned=True)
    satisfied = evaluate(bind(tree, VISITS), {"t": cells}).any()
    why = explain_contradiction(tree, VISITS, nullable=(), part_values=PART_VALUES)
    assert not (why and satisfied)
    if len(parts) == 1 and not satisfied and parts[0].split("(")[0] not in ("week", "dayofyear"):
        assert "because" in why


def test_observed_times_may_have_other_parts():
    where = parse("hour(t) = 3")
    assert explain_contradiction(where, VISITS, part_values=PART_VALUES)
    assert explain_contradiction(where, VISITS, part_values=PART_VALUES, free=("t",)) == ""
    assert explain_contradiction(parse("hour(t) = 24"), VISITS, part_values=PART_VALUES, free=("t",))


@given(
    length=st.floats(1.0, 1e6),
    span=st.floats(1e6, 1e15),
    gap=st.floats(-1e12, 1e12),
    is_bounded=st.booleans(),
)
def test_numbers_of_very_different_sizes_are_no_contradiction(length, span, gap, is_bounded):
    """Times over years have a solution beside a difference of seconds, and numbers without a range beside any gap."""
    bounds = {"start": (0.0, span), "end": (0.0, span), "length": (0.0, length)} if is_bounded else {}
    end_of = LinearTerm({"end": 1.0, "start": -1.0, "length": -1.0}, 0.0)
    exact = [Inequality(end_of), Inequality(end_of.scale(-1.0))]
    order = Inequality(LinearTerm({"start": 1.0, "end": -1.0}, 0.0 if is_bounded else gap), is_strict=is_bounded)
    assert not is_infeasible([*exact, order], bounds)
