"""Conditions as controls and back select the same rows, by DuckDB."""

import datetime as dt

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import InvalidCondition, Schema
from harpoon.apps.server.form_controls import from_controls, remainder, to_controls
from harpoon.conditions.language.parser import parse

DAY, MOMENT = dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 12, 30)
TABLE = pa.table(
    {
        "age": list(range(40)),
        "price": [i / 4 for i in range(40)],
        "job": ["chef", "nurse", "pilot", "it's"] * 10,
        "grade": pa.array([1, 2, 3, 4] * 10).dictionary_encode(),
        "member": [True, False] * 20,
        "odd name": [DAY + dt.timedelta(days=i) for i in range(40)],
        "seen": [MOMENT + dt.timedelta(hours=i) for i in range(40)],
        "zoned": pa.array([MOMENT + dt.timedelta(hours=i) for i in range(40)], pa.timestamp("us", "UTC")),
        "wait": pa.array([i * 90 for i in range(40)], pa.duration("s")),
        "flag": [0, 1] * 20,
        "sign": [-1.0, 1.0] * 20,
    }
)
SCHEMA = Schema.infer(TABLE, kinds={"grade": "category"})
ENDS = {
    "age": st.integers(-3, 45),
    "price": st.floats(-1, 12, allow_nan=False),
    "odd name": st.integers(-2, 45).map(lambda days: (DAY + dt.timedelta(days=days)).isoformat()),
    "seen": st.integers(-2, 45).map(lambda hours: (MOMENT + dt.timedelta(hours=hours)).isoformat()),
    "zoned": st.integers(-2, 45).map(lambda hours: (MOMENT + dt.timedelta(hours=hours)).isoformat()),
    "wait": st.integers(0, 4000),
}
CATEGORIES = {
    "job": ["chef", "nurse", "pilot", "it's"],
    "grade": [1, 2, 3, 4],
    "member": [False, True],
    "flag": [0, 1],
    "sign": [-1.0, 1.0],
}


@st.composite
def controls(draw):
    chosen = draw(st.lists(st.sampled_from([*ENDS, *CATEGORIES]), min_size=1, max_size=4, unique=True))
    made = {}
    for name in chosen:
        if name in CATEGORIES:
            made[name] = {"categories": draw(st.lists(st.sampled_from(CATEGORIES[name]), min_size=1, unique=True))}
        else:
            low, high = (draw(st.none() | ENDS[name]) for _ in range(2))
            made[name] = {"low": low, "high": high, "low_open": draw(st.booleans()), "high_open": draw(st.booleans())}
    return made


@pytest.fixture(scope="module")
def met():
    """The rows that DuckDB picks, by their ages."""
    with duckdb.connect() as judge:
        judge.register("given", TABLE.set_column(3, "grade", TABLE["grade"].cast(pa.int64())))
        judge.execute("set timezone = 'UTC'; create table rows as from given")
        yield lambda tree: judge.execute(f"select age from rows where {'true' if tree is None else tree}").fetchall()  # noqa: S608


@settings(deadline=None, max_examples=60)
@given(asked=controls())
def test_controls_come_back_from_the_text_they_make(asked, met):
    tree = from_controls(asked, SCHEMA)
    if tree is None:
        return
    shown, complete = to_controls(parse(str(tree)), SCHEMA)
    assert complete
    assert met(from_controls(shown, SCHEMA)) == met(tree)
    assert to_controls(from_controls(shown, SCHEMA), SCHEMA) == (shown, True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("5 < age <= 9", {"age": {"low": 5, "low_open": True, "high": 9}}),
        ("age > 5 and age >= 7 and age < 20 and age <= 30", {"age": {"low": 7, "high": 20, "high_open": True}}),
        ("age >= 5 and age > 5", {"age": {"low": 5, "low_open": True}}),
        ("age = 5", {"age": {"low": 5, "high": 5}}),
        ("not (age < 5 or member)", {"age": {"low": 5}, "member": {"categories": [False]}}),
        ("job = 'chef' or job like 'p%'", {"job": {"categories": ["chef", "pilot"]}}),
        ("job in ('chef', 'nurse') and job != 'nurse'", {"job": {"categories": ["chef"]}}),
        ("\"odd name\" >= '2024-02-01'", {"odd name": {"low": "2024-02-01"}}),
        ("flag = 1", {"flag": {"categories": [1]}}),
        ("flag > 0.5 and sign < 0", {"flag": {"categories": [1]}, "sign": {"categories": [-1.0]}}),
        ("flag >= 0 and age > 5", {"age": {"low": 5, "low_open": True}, "flag": {"categories": [0, 1]}}),
        ("wait between interval '2' minute and interval '1' hour", {"wait": {"low": 120, "high": 3600}}),
        (
            "zoned < timestamptz '2024-02-01 01:00:00+01:00'",
            {"zoned": {"high": "2024-02-01T00:00:00.000000", "high_open": True}},
        ),
    ],
)
def test_what_controls_can_show_they_show(text, shown, met):
    assert to_controls(parse(text), SCHEMA) == (shown, True)
    assert met(from_controls(shown, SCHEMA)) == met(parse(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("age > price", {}),
        ("age > 3 and (age < 9 or member)", {"age": {"low": 3, "low_open": True}}),
        ("age != 3", {}),
        ("age + 1 > 3", {}),
        ("job = 'chef' and job = 'nurse'", {"job": {"categories": []}}),
        ("flag = 3", {"flag": {"categories": []}}),
        ("flag = age", {}),
        ("flag = 1 or flag is null", {}),
    ],
)
def test_what_they_cannot_show_is_said(text, shown):
    assert to_controls(parse(text), SCHEMA) == (shown, False)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("age > 3 and age > price", "age > price"),
        ("age > price and member and (age < 9 or job = 'chef')", "age > price and (age < 9 or job = 'chef')"),
        ("age < 9 or age > price", "age < 9 or age > price"),
    ],
)
def test_the_rest_besides_the_controls_makes_the_condition_whole(text, rest, met):
    tree = parse(text)
    besides = remainder(tree, SCHEMA)
    assert str(besides) == rest
    assert met(from_controls(to_controls(tree, SCHEMA)[0], SCHEMA, besides)) == met(tree)


@pytest.mark.parametrize(
    "control",
    [
        {"odd name": {"low": "soon"}},
        {"odd name": {"low": 3}},
        {"wait": {"high": "long"}},
        {"wait": {"high": 10**30}},
        {"age": {"low": "9"}},
        {"price": {"low": True}},
        {"job": {"low": 3}},
        {"job": {"categories": []}},
    ],
)
def test_controls_that_make_no_sense_are_refused(control):
    with pytest.raises(InvalidCondition):
        from_controls(control, SCHEMA)


def test_no_controls_no_condition():
    assert from_controls({}, SCHEMA) is None
    assert from_controls({"age": {}, "job": {"categories": CATEGORIES["job"]}}, SCHEMA) is None
