"""Law 1: decode(encode(table)) is the table. Law 2: observed cells come back from impute as they were."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import Schema
from harpoon.data import dataframe, read_columns
from harpoon.data.value_counts import count_columns
from harpoon.encoding.row_codec import RowCodec

ENCODINGS = ("onehot", "integer", "mixed")
SCALINGS = ("standard", "quantile")
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
QUICK = settings(max_examples=25, deadline=None)
HALF_AND_HALF = [0.5, 1.25]
SOMETIMES = st.booleans()


def decoded(frame, encoding="onehot", scaling="standard"):
    """The modelled columns of a frame, encoded and decoded, with missing cells where they were."""
    table = dataframe.read(frame)
    codec = RowCodec.fit(Schema.infer(table), count_columns(table), encoding=encoding, scaling=scaling)
    rows = read_columns(table, codec.schema)
    back = codec.decode(codec.encode(rows))
    return table.template.build({n: replace(c, missing=rows[n].missing) for n, c in back.items()})


def close(left, right):
    """Equal, or for floats equal up to rounding on the scale of the column."""
    known = [v for v in left if v is not None]
    if not known or not isinstance(known[0], float):
        return left == right
    scale = max(abs(v) for v in known)
    pairs = zip(left, right, strict=True)
    return all((a is None) == (b is None) and (a is None or abs(a - b) <= 1e-9 * scale) for a, b in pairs)


def integers(bits):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    span = min(2**40, high - low)
    return st.integers(low, high - span).flatmap(lambda base: st.lists(st.integers(base, base + span), min_size=30))


def ticks(unit):
    """Moments at the resolution of the unit, over a day or so, at any time from 1970 to 2200."""
    base = st.integers(0, 7 * 10**9).map(lambda seconds: seconds * UNITS[unit])
    return base.flatmap(lambda b: st.lists(st.integers(b, b + 10**5 * UNITS[unit]), min_size=30))


SKIPPED_CATEGORIES = {
    "floats": pd.Categorical([0.5, 1.5, 2.5] * 10),
    "booleans": pd.Categorical([True, False, True] * 10),
    "dates": pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"] * 10)),
    "intervals": pd.cut(np.arange(30), 3),
}


@pytest.mark.parametrize("values", SKIPPED_CATEGORIES.values(), ids=SKIPPED_CATEGORIES)
def test_categories_that_are_no_text_or_integers_come_back_as_they_are(values, tools):
    frame = pd.DataFrame({"c": values, "x": [0.5, None, 1.5] * 10})
    filled = tools.fit(frame).impute(frame)
    pd.testing.assert_series_equal(filled["c"], frame["c"])


def many(values):
    return st.lists(values, min_size=30)


DICTIONARY = pa.dictionary(pa.int8(), pa.string())
KINDS = {
    "number": (pa.float64(), many(st.floats(-1e6, 1e6).map(lambda v: v if abs(v) > 1e-100 else 0.0))),
    "money": (pa.float64(), many(st.integers(-(10**7), 10**7).map(lambda cents: cents / 100))),
    "float32": (pa.float32(), many(st.floats(-1e6, 1e6, width=32))),
    **{f"int{bits}": (getattr(pa, f"int{bits}")(), integers(bits)) for bits in (8, 16, 32, 64)},
    "uint8": (pa.uint8(), many(st.integers(0, 255))),
    "boolean": (pa.bool_(), many(st.booleans())),
    "text": (pa.string(), many(st.sampled_from(["a", "b", "", " ", "ä'\"\\", "雪", "None", "nan"]))),
    "dictionary": (DICTIONARY, many(st.sampled_from(["low", "mid", "high"]))),
    "date": (pa.date32(), many(st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)))),
    **{f"datetime {unit}": (pa.timestamp(unit), ticks(unit)) for unit in UNITS},
    "datetime with zone": (pa.timestamp("us", tz="Europe/Berlin"), ticks("us")),
    **{f"duration {unit}": (pa.duration(unit), ticks(unit)) for unit in UNITS},
}


@st.composite
def tables(draw, kinds=tuple(KINDS), holes=SOMETIMES):
    rows = draw(st.integers(2, 30))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4, unique=True))
    columns = {"anchor": pa.array([HALF_AND_HALF[i % 2] for i in range(rows)])}
    for kind in chosen:
        dtype, strategy = KINDS[kind]
        values = draw(strategy)[:rows]
        if draw(holes):
            gone = draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
            values = [None if hole else value for value, hole in zip(values, gone, strict=True)]
        columns[kind] = pa.array(values, type=dtype)
    return columns


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@given(columns=tables())
@QUICK
def test_decoding_undoes_encoding(frame_of, tools, encoding, scaling, columns):
    frame = frame_of(columns)
    back, wanted = tools.read_back(decoded(frame, encoding, scaling)), tools.read_back(frame)
    for name, values in back.items():
        assert close(wanted[name], values), name


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@given(columns=tables(kinds=tuple(k for k in KINDS if k not in ("number", "float32")), holes=st.just(False)))
@QUICK
def test_decoding_a_whole_table_gives_the_same_frame(frame_of, tools, encoding, scaling, columns):
    frame = frame_of(columns)
    back = decoded(frame, encoding, scaling)
    names = list(tools.read_back(back))
    tools.assert_same(back, frame.select(names) if hasattr(frame, "select") else frame[names])


CYCLE = ["low", "high", "mid", "low", "mid", "mid"]
NATIVE = {
    "pandas Categorical": pd.DataFrame({"c": pd.Categorical(CYCLE)}),
    "pandas ordered Categorical": pd.DataFrame(
        {"c": pd.Categorical(CYCLE, categories=["low", "mid", "high"], ordered=True)}
    ),
    "pandas Categorical with an unused label": pd.DataFrame(
        {"c": pd.Categorical(CYCLE, categories=["x", *set(CYCLE)])}
    ),
    "pandas Categorical of integers": pd.DataFrame({"c": pd.Categorical([3, 1, 2, 3, 1, 1])}),
    "pandas object": pd.DataFrame({"c": pd.Series(CYCLE, dtype=object)}),
    "pandas str": pd.DataFrame({"c": pd.Series(CYCLE, dtype="str")}),
    "pandas string": pd.DataFrame({"c": pd.Series(CYCLE, dtype="string")}),
    "pandas Int64": pd.DataFrame({"c": pd.Series([3, 1, 2, 3, 1, 1], dtype="Int64")}),
    "pandas Int8": pd.DataFrame({"c": pd.Series([3, 1, 2, 3, 1, 1], dtype="Int8")}),
    "pandas Float64": pd.DataFrame({"c": pd.Series([3.5, 1, 2, 3, 1, 1], dtype="Float64")}),
    "pandas boolean": pd.DataFrame({"c": pd.Series([True, False, True] * 2, dtype="boolean")}),
    "pandas int64[pyarrow]": pd.DataFrame({"c": pd.Series([3, 1, 2, 3, 1, 1], dtype="int64[pyarrow]")}),
    "pandas string[pyarrow]": pd.DataFrame({"c": pd.Series(CYCLE, dtype="string[pyarrow]")}),
    "pandas double[pyarrow]": pd.DataFrame({"c": pd.Series([0.5, 1, 2, 3, 1, 1], dtype="double[pyarrow]")}),
    "pandas bool[pyarrow]": pd.DataFrame({"c": pd.Series([True, False, True] * 2, dtype="bool[pyarrow]")}),
    "pandas ArrowDtype string": pd.DataFrame({"c": pd.Series(CYCLE, dtype=pd.ArrowDtype(pa.string()))}),
    "pandas timestamp[us][pyarrow]": pd.DataFrame(
        {"c": pd.Series(pd.to_datetime(["2020-01-01", "2021-02-03"] * 3), dtype="timestamp[us][pyarrow]")}
    ),
    "pandas float16": pd.DataFrame({"c": np.array([0.5, 1, 2, 3, 1, 1], dtype=np.float16)}),
    "pandas datetime with zone": pd.DataFrame(
        {"c": pd.to_datetime(["2020-01-01 00:00:00", "2021-07-03 12:34:56"] * 3).tz_localize("America/New_York")}
    ),
    "polars Enum": pl.DataFrame({"c": pl.Series(CYCLE, dtype=pl.Enum(["low", "mid", "high"]))}),
    "polars Categorical": pl.DataFrame({"c": pl.Series(CYCLE, dtype=pl.Categorical)}),
    "polars time zone": pl.DataFrame(
        {"c": pl.Series([dt.datetime(2020, 1, 1), dt.datetime(2021, 7, 3)] * 3).dt.replace_time_zone("Asia/Tokyo")}
    ),
    "polars UInt64": pl.DataFrame({"c": pl.Series([2**40, 3, 4, 4, 5, 6], dtype=pl.UInt64)}),
    "polars Decimal": pl.DataFrame({"c": pl.Series(["1.25", "2.50", "3.75"] * 2).cast(pl.Decimal(10, 2))}),
    "arrow dictionary of large strings": pa.table(
        {
            "c": pa.array(CYCLE)
            .cast(pa.large_string())
            .dictionary_encode()
            .cast(pa.dictionary(pa.int32(), pa.large_string()))
        }
    ),
    "arrow string view": pa.table({"c": pa.array(CYCLE).cast(pa.string_view())}),
    "arrow ordered dictionary": pa.table(
        {"c": pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0, 1, 0], pa.int8()), ["no", "yes"], ordered=True)}
    ),
    "arrow dictionary in chunks": pa.table(
        {
            "c": pa.chunked_array(
                [pa.array(["a", "b", "a"]).dictionary_encode(), pa.array(["c", "b", "b"]).dictionary_encode()]
            )
        }
    ),
    "arrow date64": pa.table({"c": pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 5)] * 3, pa.date64())}),
    "arrow decimal": pa.table({"c": pa.array([1.25, 2.5, 3.75] * 2).cast(pa.decimal128(10, 2))}),
    "arrow uint64": pa.table({"c": pa.array([2**40, 3, 4, 4, 5, 6], pa.uint64())}),
    "arrow uint64 beyond int64": pa.table({"c": pa.array([2**63 + 2048, 2**63, 2**63, 5, 2**63, 5], pa.uint64())}),
}


EXACT = {name: frame for name, frame in NATIVE.items() if name != "arrow uint64 beyond int64"}  # beyond doubles too


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("frame", EXACT.values(), ids=EXACT)
def test_decoding_undoes_encoding_for_the_dtypes_of_each_library(frame, encoding, tools):
    tools.assert_same(decoded(frame, encoding), frame)


def with_holes(frame):
    """The frame six times over, with every third cell of its column missing, next to a column without holes."""
    if isinstance(frame, pd.DataFrame):
        frame = pd.concat([frame] * 6, ignore_index=True)
        gone = frame["c"].mask(np.arange(len(frame)) % 3 == 1)
        return frame.assign(c=gone.astype(frame["c"].dtype), other=np.arange(len(frame)) % 5 / 4)
    if isinstance(frame, pl.DataFrame):
        frame = pl.concat([frame] * 6).with_row_index("other")
        return frame.with_columns(pl.when(pl.col("other") % 3 != 1).then(pl.col("c")), pl.col("other") % 5 / 4)
    column = pa.concat_tables([frame] * 6)["c"]
    rows = np.arange(len(column))
    plain = column.cast(pa.string()) if pa.types.is_string_view(column.type) else column
    kept = plain.combine_chunks().take(pa.array(np.where(rows % 3 == 1, 0, rows), mask=rows % 3 == 1))
    return pa.table({"c": kept.cast(column.type), "other": rows % 5 / 4})


NULLABLE = {name: frame for name, frame in NATIVE.items() if name != "pandas float16"}


@pytest.mark.parametrize("frame", NULLABLE.values(), ids=NULLABLE)
def test_impute_keeps_every_cell_and_dtype_of_each_library(frame, tools):
    holed = with_holes(frame)
    assert None in tools.read_back(holed)["c"]
    tools.assert_filled(holed, tools.fit(holed).impute(holed))


def test_integers_of_128_bits_are_kept(tools):
    wide = pl.Series([2**100, 3, 4, 4, 5, 6], dtype=pl.Int128)
    frame = pl.DataFrame({"c": wide, "x": [0.5, None, 1.5] * 2})
    assert tools.fit(frame).impute(frame)["c"].equals(wide)


@pytest.mark.parametrize("frame", NATIVE.values(), ids=NATIVE)
def test_drawn_rows_have_the_dtypes_of_the_training_table(frame, tools):
    holed = with_holes(frame)
    model = tools.fit(holed)
    assert tools.dtypes(model.sample(4)) == tools.dtypes(holed)
    drawn = model.sample(4, missing="complete")
    assert tools.dtypes(drawn) == tools.dtypes(holed)
    assert not any(None in values for values in tools.read_back(drawn).values())


@pytest.mark.filterwarnings("ignore::harpoon.StructuralMissingWarning")  # random holes may look structural
@given(columns=tables())
@settings(max_examples=15, deadline=None)
def test_impute_fills_the_holes_and_keeps_the_rest(frame_of, tools, columns):
    columns = {name: pa.chunked_array([values] * 3).combine_chunks() for name, values in columns.items()}
    frame = frame_of(columns)
    modelled = [c.name for c in Schema.infer(frame).modelled]
    filled = tools.fit(frame).impute(frame)
    before = frame.select(modelled) if hasattr(frame, "select") else frame[modelled]
    after = filled.select(modelled) if hasattr(filled, "select") else filled[modelled]
    tools.assert_filled(before, after, changed=("boolean",))
    assert list(tools.read_back(frame)) == list(tools.read_back(filled))


def test_a_table_without_holes_comes_back_equal(frame_of, tools, fitted):
    whole = frame_of(tools.mixed_columns(missing=False))
    tools.assert_same(fitted.model.impute(whole), whole)


def test_impute_does_not_change_its_input(fitted, tools):
    before = tools.read_back(fitted.table)
    fitted.model.impute(fitted.table)
    assert tools.read_back(fitted.table) == before


@pytest.mark.parametrize("other", ["pandas", "polars", "pyarrow"])
def test_a_frame_of_another_library_comes_back_as_it_is(fitted, tools, other):
    frame = tools.make(other, tools.mixed_columns())
    filled = fitted.model.impute(frame)
    tools.assert_filled(frame, filled, changed=("age", "member"))
    plain = tools.read_back(fitted.model.impute(fitted.table))
    assert tools.read_back(filled) == plain


@pytest.mark.parametrize("other", ["pandas", "polars", "pyarrow"])
def test_partial_rows_of_another_library_are_completed_in_it(fitted, tools, other):
    rows = tools.make(other, {"job": ["chef", None, "pilot"], "height": [170.5, 180.25, None]})
    drawn = fitted.model.sample(given=rows)
    assert type(drawn) is type(rows)
    back = tools.read_back(drawn)
    assert (back["job"][0], back["job"][2], back["height"][:2]) == ("chef", "pilot", [170.5, 180.25])
    assert list(back) == ["height", "price", "age", "job", "member"]


def test_columns_may_come_in_any_order_and_keep_it(frame_of, tools, fitted):
    columns = dict(reversed(tools.mixed_columns().items()))
    frame = frame_of(columns)
    filled = fitted.model.impute(frame)
    assert list(tools.read_back(filled)) == list(columns)
    tools.assert_filled(frame, filled, changed=("age", "member") if fitted.library == "pandas" else ())


def test_the_order_of_the_columns_does_not_change_the_answer(frame_of, tools, fitted):
    columns = tools.mixed_columns()
    straight = tools.read_back(fitted.model.impute(frame_of(columns)))
    turned = tools.read_back(fitted.model.impute(frame_of(dict(reversed(columns.items())))))
    assert straight == turned


def test_a_negative_zero_and_the_smallest_float_stay_as_they_are(frame_of, tools):
    frame = frame_of({"x": [-0.0, 5e-324, 0.1 + 0.2, None] * 10, "y": [1.5, 2.5] * 20})
    tools.assert_filled(frame, tools.fit(frame).impute(frame))


INDEXES = {
    "duplicates": pd.Index([7] * 60),
    "strings": pd.Index([f"row {i}" for i in range(60)], name="label"),
    "descending": pd.RangeIndex(60, 0, -1),
    "dates": pd.date_range("2020-01-01", periods=60, freq="D"),
    "several levels": pd.MultiIndex.from_product([["a", "b"], range(30)], names=["outer", None]),
    "floats with a hole": pd.Index([*np.arange(59) / 2, np.nan]),
    "categories": pd.CategoricalIndex(["x", "y"] * 30),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_the_pandas_index_is_kept(index, tools):
    frame = tools.make("pandas", tools.mixed_columns()).set_axis(index, axis=0)
    filled = tools.fit(frame).impute(frame)
    tools.assert_filled(frame, filled, changed=("age", "member"))


def test_an_index_whose_name_is_a_column_is_kept(tools):
    frame = tools.make("pandas", tools.mixed_columns()).rename_axis(index="age", columns="fields")
    filled = tools.fit(frame).impute(frame)
    tools.assert_filled(frame, filled, changed=("age", "member"))
    assert filled.columns.name == "fields"


ODD_NAMES = [
    "a b",
    "it's",
    'say "x"',
    "größe",
    "雪",
    "",
    "\n",
    "1",
    "_",
    "index",
    "__index_level_0__",
    "a.b",
    "{x}",
    "%s",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_column_names_are_kept(frame_of, tools, name):
    frame = frame_of({name: [0.25, None, 0.5] * 10, "other": ["x", "y", None] * 10})
    model = tools.fit(frame)
    tools.assert_filled(frame, model.impute(frame))
    assert list(tools.read_back(model.sample(2))) == [name, "other"]


def test_several_odd_names_may_stand_together(frame_of, tools):
    frame = frame_of({name: [0.25 * i, None, 0.5] * 10 for i, name in enumerate(ODD_NAMES)})
    tools.assert_filled(frame, tools.fit(frame).impute(frame))


@pytest.mark.parametrize("names", [[0, 1], [("a", 1), ("a", 2)], ["x", 3], [None, "y"], [1.5, True]], ids=str)
def test_pandas_column_names_need_not_be_text(names, tools):
    frame = pd.DataFrame({"x": [0.25, None, 0.5] * 10, "y": ["x", "y", None] * 10})
    frame.columns = pd.Index(names)
    tools.assert_filled(frame, tools.fit(frame).impute(frame))


def test_an_integer_column_that_holes_turned_to_floats_comes_back_as_integers(tools):
    whole = pd.DataFrame({"n": [1, 2, 3, 5] * 10, "x": [0.5, 1.5] * 20})
    holed = whole.assign(n=whole["n"].astype(float).where(np.arange(40) % 3 != 0))
    filled = tools.fit(whole).impute(holed)
    assert filled["n"].dtype == np.int64
    tools.assert_filled(holed, filled, changed=("n",))


def test_a_boolean_column_that_holes_turned_to_objects_comes_back_as_booleans(tools):
    whole = pd.DataFrame({"b": [True, False, False] * 10, "x": [0.5, 1.5] * 15})
    holed = whole.assign(b=whole["b"].astype(object).where(np.arange(30) % 4 != 0, None))
    filled = tools.fit(whole).impute(holed)
    assert filled["b"].dtype == np.bool_
    tools.assert_filled(holed, filled, changed=("b",))


def test_a_column_trained_with_holes_comes_back_with_the_dtype_of_its_values(tools):
    holed = pd.DataFrame({"b": [True, False, None] * 10, "x": [0.5, 1.5] * 15})
    filled = tools.fit(holed).impute(holed)
    assert filled["b"].dtype == np.bool_


def test_an_all_missing_column_is_filled_with_the_dtype_of_the_training_table(frame_of, tools):
    whole = frame_of(tools.mixed_columns(missing=False))
    empty = frame_of(
        {**tools.mixed_columns(missing=False), "job": pa.nulls(60), "age": pa.nulls(60), "height": pa.nulls(60)}
    )
    filled = tools.fit(whole).impute(empty)
    assert tools.dtypes(filled) == tools.dtypes(whole)
    assert not any(None in values for values in tools.read_back(filled).values())


SPELLINGS = {
    "None in object": pd.Series(["a", None, "b"] * 10, dtype=object),
    "nan in object": pd.Series(["a", np.nan, "b"] * 10, dtype=object),
    "NA in object": pd.Series(["a", pd.NA, "b"] * 10, dtype=object),
    "nan in float": pd.Series([0.5, np.nan, 1.5] * 10),
    "NA in Int64": pd.Series([1, pd.NA, 5] * 10, dtype="Int64"),
    "NA in Float64": pd.Series([1.5, pd.NA, 5] * 10, dtype="Float64"),
    "NA in boolean": pd.Series([True, pd.NA, False] * 10, dtype="boolean"),
    "NA in string": pd.Series(["a", pd.NA, "b"] * 10, dtype="string"),
    "NaT in datetime": pd.Series([pd.Timestamp("2020-01-01"), pd.NaT, pd.Timestamp("2021-01-01")] * 10),
    "NaT in timedelta": pd.Series([pd.Timedelta("1D"), pd.NaT, pd.Timedelta("2D")] * 10),
    "nan in category": pd.Series(["a", np.nan, "b"] * 10, dtype="category"),
    "None among dates": pd.Series([dt.date(2020, 1, 1), None, dt.date(2021, 1, 1)] * 10, dtype=object),
    "NaT among dates": pd.Series([dt.date(2020, 1, 1), pd.NaT, dt.date(2021, 1, 1)] * 10, dtype=object),
    "null in arrow double": pd.Series([0.5, None, 1.5] * 10, dtype="double[pyarrow]"),
    "polars null": pl.Series([0.5, None, 1.5] * 10),
    "polars NaN": pl.Series([0.5, float("nan"), 1.5] * 10),
    "arrow null": pa.array([0.5, None, 1.5] * 10),
    "arrow NaN": pa.array([0.5, float("nan"), 1.5] * 10),
}


@pytest.mark.parametrize("column", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_of_missing_is_missing_and_is_filled(column, tools):
    makers = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame}
    frame = makers.get(type(column), pa.table)({"c": column, "other": [0.5, 1.5] * 15})
    assert dataframe.read(frame).column("c").missing.tolist() == [False, True, False] * 10
    tools.assert_filled(frame, tools.fit(frame).impute(frame))


def test_a_wholly_missing_row_is_filled(frame_of, tools):
    columns = {n: [None, *v[1:]] for n, v in tools.mixed_columns(missing=False).items()}
    frame = frame_of(columns)
    changed = ("age", "member") if isinstance(frame, pd.DataFrame) else ()
    tools.assert_filled(frame, tools.fit(frame).impute(frame), changed=changed)


def test_filled_values_lie_on_the_grid_and_in_the_range_of_the_training_table(frame_of, tools, fitted):
    filled = tools.read_back(fitted.model.impute(fitted.table))
    seen = tools.mixed_columns(missing=True)
    for name in ("height", "price", "age"):
        known = [v for v in seen[name] if v is not None]
        assert min(known) <= min(filled[name])
        assert max(filled[name]) <= max(known)
    assert all(round(v, 2) == v for v in filled["price"])
    assert all(v == int(v) for v in filled["age"])


EXTREMES = {
    "the whole of int64": [-(2**63), 2**63 - 1, 0, 12345],
    "the upper end of int64": [2**63 - 1, 2**63 - 2, 2**63 - 7, 2**63 - 9],
    "the lower end of int64": [-(2**63), -(2**63) + 1, -(2**63) + 5, -(2**63) + 9],
    "floats near the largest": [1.5e308, -1.5e308, 3.25e307, 0.0],
    "floats near the smallest": [5e-324, 1e-320, 3e-322, 0.0],
    "floats of all sizes": [1e200, 1e-200, -1e100, 1.0],
}


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("values", EXTREMES.values(), ids=EXTREMES)
def test_extreme_numbers_survive_on_the_scale_of_their_column(frame_of, tools, values, encoding, scaling):
    frame = frame_of({"x": values * 5, "other": [0.5, 1.5] * 10})
    back = tools.read_back(decoded(frame, encoding, scaling))["x"]
    scale = max(abs(v) for v in values)
    assert all(abs(a - b) / scale <= 1e-9 for a, b in zip(values * 5, back, strict=True))


@pytest.mark.parametrize("name", EXTREMES)
def test_many_extreme_numbers_have_ranks_and_survive_on_the_scale_of_their_column(frame_of, tools, name):
    values = EXTREMES[name]
    smallest, size = min(values), max(values) - min(values) if isinstance(values[0], int) else 0
    others = (
        [smallest + size * i // 50 for i in range(50)] if size else [v * (i / 50) for v in values for i in range(50)]
    )
    values = [*values, *others]
    back = tools.read_back(decoded(frame_of({"x": values, "other": [0.5, 1.5] * (len(values) // 2)}), "mixed"))["x"]
    scale = max(abs(v) for v in values)
    assert all(abs(a - b) / scale <= 1e-9 for a, b in zip(values, back, strict=True))


@pytest.mark.parametrize("values", EXTREMES.values(), ids=EXTREMES)
def test_extreme_numbers_can_be_learnt_and_filled(frame_of, tools, values):
    whole = frame_of({"x": values * 10, "other": [0.5, 1.5] * 20})
    model = tools.fit(whole)
    known = [*values[:3], None] * 10
    holed = frame_of({"x": known, "other": [0.5, None] * 20})
    if isinstance(holed, pd.DataFrame) and isinstance(values[0], int):
        holed["x"] = pd.array(known, dtype="Int64")  # floats do not hold these integers
    filled = tools.read_back(model.impute(holed))["x"]
    assert all(min(values) <= v <= max(values) for v in filled)
    assert [v for v, k in zip(filled, known, strict=True) if k is not None] == values[:3] * 10
