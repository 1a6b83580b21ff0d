"""The schema: inferred, edited, written as JSON, and applied to tables."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import (
    Column,
    HarpoonError,
    InvalidOption,
    Kind,
    Schema,
    SchemaMismatch,
)
from harpoon.data.column import KINDS, decimal_step

ROWS = 60
LONG = [f"note {i} says something of its own" for i in range(ROWS)]
VALUES = {
    Kind.NUMBER: [i * 1.1 for i in range(ROWS)],
    Kind.INTEGER: [i % 7 for i in range(ROWS)],
    Kind.BOOLEAN: [i % 3 == 0 for i in range(ROWS)],
    Kind.CATEGORY: ["abc"[i % 3] for i in range(ROWS)],
    Kind.DATE: [dt.date(2020, 1, 1 + i % 28) for i in range(ROWS)],
    Kind.DATETIME: [dt.datetime(2020, 1, 1, i % 24) for i in range(ROWS)],
    Kind.DURATION: [dt.timedelta(hours=i % 24) for i in range(ROWS)],
    Kind.CONSTANT: ["same"] * ROWS,
    Kind.EMPTY: [None] * ROWS,
    Kind.TEXT: LONG,
    Kind.IDENTIFIER: [f"K{i:04}" for i in range(ROWS)],
    Kind.PERSONAL: [f"user{i % 9}@example.org" for i in range(ROWS)],
    Kind.SKIPPED: [[i] for i in range(ROWS)],
}
INFERRED = [kind for kind in map(Kind, KINDS) if kind is not Kind.WEIGHT]  # which only the user can know
LEFT_OUT = [kind for kind in INFERRED if not kind.modelled]


@pytest.mark.parametrize("kind", INFERRED)
def test_each_kind_is_inferred(frame_of, kind):
    assert Schema.infer(frame_of({"c": VALUES[kind]}))["c"].kind is kind


def test_a_single_value_with_missing_cells_is_not_constant(frame_of):
    """Whether there is a value varies: it is modelled, with a missing indicator."""
    column = Schema.infer(frame_of({"c": ["yes", None, "yes", None]}))["c"]
    assert column.kind is Kind.CATEGORY
    assert column.categories == ("yes",)


UNMODELLED = (Kind.EMPTY, Kind.SKIPPED, Kind.CONSTANT)


@pytest.mark.parametrize("kind", [k for k in INFERRED if k not in UNMODELLED])
def test_missing_cells_do_not_change_the_kind(frame_of, library, kind):
    column = Schema.infer(frame_of({"c": [None if i % 5 == 0 else v for i, v in enumerate(VALUES[kind])]}))["c"]
    changed = kind is Kind.INTEGER and library == "pandas"  # pandas has made floats of them
    assert column.kind is (Kind.NUMBER if changed else kind)
    assert column.missing == 0.2


def test_range_resolution_and_categories_are_inferred():
    schema = Schema.infer(
        pa.table(
            {"n": [10, 40, None, 20], "x": [0.25, 1.5, 2.0, None], "c": ["b", "a", None, "b"], "z": [0.1, 1 / 3, 2, 3]}
        )
    )
    n, x, c, z = schema
    assert (n.minimum, n.maximum, n.step, n.missing) == (10, 40, 10, 0.25)
    assert (x.minimum, x.maximum, x.step) == (0.25, 2.0, 0.01)
    assert (c.categories, c.ordered) == (("a", "b"), False)
    assert z.step == 0


@pytest.mark.parametrize(
    ("values", "unit", "step"),
    [
        ([0, 86_400, 172_800], "s", 86_400),
        ([0, 3_600, 7_200], "s", 3_600),
        ([0, 60, 180], "s", 60),
        ([0, 1, 3], "s", 1),
        ([0, 86_400_000], "ms", 86_400_000),
        ([0, 5, 1_000], "ms", 1),
        ([0, 10**9], "ns", 10**9),
        ([0, 1_000], "ns", 1_000),
    ],
)
def test_the_resolution_of_times_is_the_largest_unit_that_divides_them(values, unit, step):
    for dtype in (pa.timestamp(unit), pa.duration(unit)):
        column = Schema.infer(pa.table({"t": pa.array(values, dtype)}))["t"]
        assert (column.step, column.unit) == (step, unit)


def test_declared_categories_keep_their_order_and_the_unused_ones():
    frame = pd.DataFrame({"c": pd.Categorical(["hi", "lo", "hi"], categories=["lo", "mid", "hi"], ordered=True)})
    column = Schema.infer(frame)["c"]
    assert (column.kind, column.categories, column.ordered) == (Kind.CATEGORY, ("lo", "mid", "hi"), True)
    enum = pl.DataFrame({"c": pl.Series(["hi", "lo"], dtype=pl.Enum(["lo", "mid", "hi"]))})
    assert Schema.infer(enum)["c"].categories == ("lo", "mid", "hi")


@pytest.mark.parametrize("name", ["id", "ID", "customer_id", "customerId", "Key", "index"])
def test_a_distinct_integer_named_as_one_is_an_identifier(name):
    values = [3 * i * i + 5 for i in range(ROWS)]
    assert Schema.infer(pa.table({name: values}))[name].kind is Kind.IDENTIFIER
    assert Schema.infer(pa.table({"area": values}))["area"].kind is Kind.INTEGER


def test_a_running_number_is_an_identifier():
    assert Schema.infer(pa.table({"n": list(range(ROWS))}))["n"].kind is Kind.IDENTIFIER


def test_mixed_types_in_pandas_are_skipped():
    assert Schema.infer(pd.DataFrame({"c": [1, "a", 2.5] * 10}))["c"].kind is Kind.SKIPPED


def test_kinds_can_be_given_instead_of_inferred():
    table = pa.table({"code": [1, 2, 3] * 10, "x": [0.5, 1.5] * 15})
    column = Schema.infer(table, kinds={"code": "category"})["code"]
    assert (column.kind, column.categories) == (Kind.CATEGORY, (1, 2, 3))
    assert Schema.infer(table, kinds={"code": Kind.NUMBER})["code"].kind is Kind.NUMBER


def test_exclude_may_be_any_iterable():
    table = pa.table({"a": [0.5, 1.5], "b": [0.25, 2.5]})
    by_list, by_generator = (Schema.infer(table, exclude=e) for e in (["a"], (n for n in ["a"])))
    assert by_list == by_generator


@pytest.mark.parametrize("words", [{"kinds": {"aeg": "number"}}, {"exclude": ["aeg"]}])
def test_editing_a_column_that_is_not_there_names_it(words):
    with pytest.raises(InvalidOption, match=r"'aeg'.*'age'"):
        Schema.infer(pa.table({"age": [1, 2]}), **words)


def test_an_unknown_kind_is_refused_with_the_nearest():
    with pytest.raises(InvalidOption, match="'category'"):
        Schema.infer(pa.table({"age": [1, 2]}), kinds={"age": "categroy"})


@pytest.mark.parametrize("kind", ["number", "integer", "boolean", "date", "datetime", "duration"])
def test_a_kind_that_the_values_cannot_have_is_refused(kind):
    with pytest.raises(SchemaMismatch, match="'job'"):
        Schema.infer(pa.table({"job": ["a", "b"]}), kinds={"job": kind})


def test_asking_for_a_column_that_is_not_there_suggests_the_nearest():
    schema = Schema.infer(pa.table({"age": [1, 2]}))
    with pytest.raises(InvalidOption, match="'age'"):
        schema["agee"]


def test_replace_changes_one_column_and_leaves_the_schema():
    schema = Schema.infer(pa.table({"a": [1, 5, 5], "b": ["x", "y", "x"]}))
    wider = schema.replace("a", minimum=0, maximum=100)
    assert (wider["a"].minimum, wider["a"].maximum, wider["a"].step) == (0, 100, 1)
    assert wider["b"] == schema["b"]
    assert schema["a"].maximum == 5


def test_replacing_the_kind_resets_the_other_attributes():
    table = pa.table({"a": [1, 5, 5], "b": ["x", "y", "x"]})
    changed = Schema.infer(table).replace("a", kind="category")
    assert changed["a"].categories is None
    assert changed.complete(table)["a"].categories == (1, 5)


@pytest.mark.parametrize("changes", [{"kind": "nmber"}, {"colour": "red"}])
def test_replace_refuses_what_a_column_cannot_have(changes):
    schema = Schema.infer(pa.table({"a": [1, 5, 5]}))
    with pytest.raises(InvalidOption, match="'a'"):
        schema.replace("a", **changes)


def test_complete_keeps_given_attributes_and_infers_the_rest():
    table = pa.table({"a": [1, 5, 5], "b": ["x", "y", "x"]})
    schema = Schema((Column("a", Kind.INTEGER, minimum=-10), Column("b", Kind.CATEGORY, categories=("y", "x", "w"))))
    a, b = schema.complete(table)
    assert (a.minimum, a.maximum, a.step) == (-10, 5, 1)
    assert b.categories == ("y", "x", "w")


def test_completing_a_complete_schema_changes_nothing():
    table = pa.table({"a": [1, 5, None], "b": ["x", None, "y"], "c": [0.5, 1.25, 9.0]})
    schema = Schema.infer(table)
    assert schema.complete(table) == schema


def test_complete_refuses_other_columns():
    schema = Schema.infer(pa.table({"a": [1, 5], "b": [1, 2]}))
    with pytest.raises(SchemaMismatch, match="'b'"):
        schema.complete(pa.table({"a": [1, 5]}))


INTEGERS = st.integers(-(2**62), 2**62)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY_COLUMN = {
    "name": st.text(max_size=8),
    "missing": st.floats(0, 1),
    "note": st.text(max_size=8),
}


@st.composite
def numeric_columns(draw):
    kind = draw(st.sampled_from([k for k in map(Kind, KINDS) if k.numeric]))
    values = FINITE if kind is Kind.NUMBER else INTEGERS
    low, high = sorted([draw(values), draw(values)])
    return Column(
        kind=kind,
        minimum=draw(st.sampled_from([None, low])),
        maximum=draw(st.sampled_from([None, high])),
        clip=draw(st.booleans()),
        step=draw(st.sampled_from([None, 0, 1, 10, 0.01, 1e-9] if kind is Kind.NUMBER else [None, 1, 1000])),
        unit=draw(st.sampled_from(["s", "ms", "us", "ns"])) if kind in (Kind.DATETIME, Kind.DURATION) else "",
        **{name: draw(strategy) for name, strategy in ANY_COLUMN.items()},
    )


CATEGORIES = st.builds(
    Column,
    kind=st.just(Kind.CATEGORY),
    categories=st.none()
    | st.lists(st.text(max_size=5), max_size=4, unique=True).map(tuple)
    | st.lists(st.integers(-(2**53), 2**53), max_size=4, unique=True).map(tuple),
    ordered=st.booleans(),
    **ANY_COLUMN,
)
OTHERS = st.builds(Column, kind=st.sampled_from(LEFT_OUT), **ANY_COLUMN)
COLUMN = numeric_columns() | CATEGORIES | OTHERS


@given(st.lists(COLUMN, max_size=4, unique_by=lambda column: column.name))
@settings(max_examples=50, deadline=None)
def test_a_schema_survives_json(columns):
    schema = Schema(tuple(columns))
    assert Schema.from_json(schema.to_json()) == schema
    assert json.loads(schema.to_json())


def test_a_schema_survives_a_file(tmp_path, frame_of, tools):
    schema = Schema.infer(frame_of(tools.mixed_columns()))
    schema.save(tmp_path / "größe.json")
    assert Schema.load(tmp_path / "größe.json") == schema


@pytest.mark.parametrize("kind", INFERRED)
def test_an_inferred_column_survives_json(frame_of, kind):
    schema = Schema.infer(frame_of({"c": VALUES[kind]}))
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "5",
        "null",
        '{"columns": 3}',
        '{"columns": [3]}',
        '{"columns": [{"name": "a"}]}',
        '{"columns": [{"name": "a", "kind": "zzz"}]}',
        '{"columns": [{"name": "a", "kind": "number", "z": 1}]}',
        '{"columns": [{"name": "a", "kind": "number"}, {"name": "a", "kind": "number"}]}',
        '{"columns": [{"name": "a", "kind": ["number"]}]}',
        '{"columns": [{"name": ["a"], "kind": "number"}]}',
        '{"columns": [{"name": "a", "kind": "category", "categories": 5}]}',
        '{"columns": [{"name": "a", "kind": "category", "categories": [["x"]]}]}',
        '{"columns": [{"name": "a", "kind": "category", "categories": ["x", "x"]}]}',
        '{"columns": [{"name": "a", "kind": "number", "minimum": "x"}]}',
        '{"columns": [{"name": "a", "kind": "number", "minimum": 2, "maximum": 1}]}',
        '{"columns": [{"name": "a", "kind": "number", "step": -1}]}',
        '{"columns": [{"name": "a", "kind": "datetime", "unit": "week"}]}',
        '{"columns": [{"name": "a", "kind": "number", "values": [2, 1]}]}',
        '{"columns": [{"name": "a", "kind": "number", "values": 1}]}',
        '{"columns": [{"name": "a", "kind": "integer", "values": [0.5, 1]}]}',
        '{"columns": [{"name": "a", "kind": "number", "values": [0, "x"]}]}',
        '{"columns": [{"name": "a", "kind": "category", "values": [0, 1]}]}',
        '{"columns": [{"name": "a", "kind": "date", "values": [0, 1]}]}',
    ],
)
def test_text_that_is_not_a_schema_is_refused(text):
    with pytest.raises(InvalidOption):
        Schema.from_json(text)


def test_a_missing_schema_file_is_an_error_of_harpoon(tmp_path):
    with pytest.raises(HarpoonError, match="none"):
        Schema.load(tmp_path / "none.json")


def test_the_printed_schema_has_one_line_for_each_column(frame_of, tools):
    columns = tools.mixed_columns()
    lines = str(Schema.infer(frame_of(columns))).splitlines()
    assert [line.split()[0] for line in lines] == list(columns)


@given(st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=30, unique=True), st.integers(0, 9))
def test_the_resolution_is_that_of_the_shortest_decimal_texts(numerators, decimals):
    values = [numerator / 10**decimals for numerator in numerators]
    exponents = [Decimal(repr(value)).normalize().as_tuple().exponent for value in values]
    assert decimal_step(np.array(values)) == pytest.approx(10.0 ** min(0, *exponents), rel=1e-12)


def test_a_value_with_a_rounding_error_does_not_hide_the_resolution():
    """As `statusquo` of carData's Chile, which has five decimals in all rows but one."""
    rng = np.random.default_rng(0)
    values = np.append(np.round(rng.normal(size=2000), 5), -0.0454699999999999)
    assert decimal_step(values) == 1e-5
    assert decimal_step(np.append(values, 0.045470001)) == 1e-9
    assert decimal_step(rng.normal(size=3)) == 0


def test_huge_and_tiny_numbers_have_no_resolution():
    frame = pd.DataFrame({"x": [1e300, -1e300, 1e-300] * 4})
    assert Schema.infer(frame)["x"].step == 0


def test_numbers_with_few_values_are_those_with_many_cells_for_each():
    frame = pd.DataFrame({"flag": [0, 1] * 30, "rating": [1.0, 2.0, None, 5.0] * 15, "month": list(range(12)) * 5})
    schema = Schema.infer(frame)
    assert (schema["flag"].values, schema["rating"].values, schema["month"].values) == ((0, 1), (1.0, 2.0, 5.0), None)
    assert Schema.infer(frame.head(9))["flag"].values is None
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("text_of", "hint"),
    [
        (lambda i: f"{1967 + i // 12}-{i % 12 + 1:02}-01", "pandas.to_datetime"),
        (lambda i: f"2023-01-{i % 28 + 1:02} {i % 24:02}:{i % 60:02}", "pandas.to_datetime"),
        (lambda i: f"{i % 28 + 1:02}/{i % 12 + 1:02}/2022", "pandas.to_datetime"),
        (lambda i: f"{i % 28 + 1}.{i % 12 + 1}.{1990 + i % 30}", "pandas.to_datetime"),
        (lambda i: f"1/{i % 12 + 1}/22 3:{i % 60:02} PM", "pandas.to_datetime"),
        (lambda i: f"${1000 + 7 * i:,}.56", "to numbers"),
        (lambda i: f"{i},5", "to numbers"),
        (lambda i: f"{i / 10} %", "to numbers"),
        (lambda i: f"{i} €", "to numbers"),
    ],
)
def test_dates_and_amounts_that_are_texts_are_noticed(text_of, hint):
    column = Schema.infer(pa.table({"x": [text_of(i) for i in range(400)], "y": list(range(400))}))["x"]
    assert column.kind is Kind.TEXT
    assert hint in column.note


@pytest.mark.parametrize(
    "text_of",
    [
        lambda i: f"AB-{i}",
        lambda i: f"{i:05}",
        lambda i: f"2-{i}",
        lambda i: f"10.0.{i}.1",
        lambda i: f"{i % 9}.0.{i % 40}",
        lambda i: f"{i % 60}-{i % 70}-{i % 90}",
        lambda i: f"0/{i % 9}/{i}",
    ],
)
def test_codes_are_no_dates_and_no_amounts(text_of):
    column = Schema.infer(pa.table({"x": [text_of(i) for i in range(400)], "y": list(range(400))}))["x"]
    assert "convert" not in column.note
