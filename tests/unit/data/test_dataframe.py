"""Frames of every library are read into the same column arrays."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import InvalidTable
from harpoon.data import dataframe
from harpoon.data.arrow import to_arrow
from harpoon.data.column_array import ColumnArray
from harpoon.data.dataframe import FrameTemplate

DAY = dt.date(2020, 1, 1)
COLUMNS = {
    "float": pa.array([0.5, None, 1.5]),
    "integer": pa.array([1, None, 3], pa.int32()),
    "boolean": pa.array([True, None, False]),
    "text": pa.array(["a", None, "b"]),
    "category": pa.array(["a", None, "b"]).dictionary_encode(),
    "date": pa.array([DAY, None, DAY]),
    "datetime": pa.array([0, None, 10**6], pa.timestamp("us")),
    "duration": pa.array([0, None, 10**6], pa.duration("us")),
}
HELD_AS_FLOATS = {"integer": "float"}  # missing cells make floats of a pandas column


@pytest.mark.parametrize("storage", COLUMNS)
def test_each_storage_is_recognised_with_its_missing_cells(frame_of, library, storage):
    cells = dataframe.read(frame_of({storage: COLUMNS[storage]})).column(storage)
    assert cells.storage == (HELD_AS_FLOATS.get(storage, storage) if library == "pandas" else storage)
    assert cells.missing.tolist() == [False, True, False]
    assert len(cells.observed) == 2


def test_every_library_reads_the_same_cells(tools):
    columns = {name: array.drop_null() for name, array in COLUMNS.items()}
    tables = [dataframe.read(tools.make(library, columns)) for library in tools.libraries]
    for name in columns:
        values = [
            [c.categories[v] if c.categories else v for v in c.values.tolist()]
            for c in (t.column(name) for t in tables)
        ]
        assert values[0] == values[1] == values[2]


def test_names_height_and_library_are_those_of_the_frame(frame_of, library):
    table = dataframe.read(frame_of({"x": [1.0, 2.0, 3.0], "a b": ["u", "v", "w"]}))
    assert (table.names, table.n_rows, table.library) == (["x", "a b"], 3, library)


def test_a_table_that_was_read_is_not_read_again(frame_of):
    table = dataframe.read(frame_of({"x": [1.0]}))
    assert dataframe.read(table) is table


def test_missing_cells_of_any_spelling_are_one_thing():
    frame = pd.DataFrame({"x": pd.Series(["a", None, np.nan, pd.NA, pd.NaT], dtype=object)})
    assert dataframe.read(frame).column("x").missing.tolist() == [False, True, True, True, True]


def test_nan_is_missing_in_polars_and_arrow():
    for frame in (pl.DataFrame({"x": [0.5, float("nan"), None]}), pa.table({"x": [0.5, float("nan"), None]})):
        assert dataframe.read(frame).column("x").missing.tolist() == [False, True, True]


@pytest.mark.parametrize(
    "values",
    [[1, "a"], [[1, 2], [3]], [{"a": 1}, {"b": 2}], [object(), object()], [1 + 2j, 3j], [b"x", b"y"]],
    ids=["mixed", "lists", "records", "objects", "complex", "bytes"],
)
def test_columns_of_mixed_or_nested_types_are_opaque_and_not_missing(values):
    cells = dataframe.read(pd.DataFrame({"x": pd.Series(values, dtype=object)})).column("x")
    assert cells.storage == "other"
    assert not cells.missing.any()


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"x": [[1], [2, 3]]}),
        pl.DataFrame({"x": [{"a": 1}, {"a": 2}]}),
        pl.DataFrame({"x": [b"a", b"b"]}),
        pl.DataFrame({"x": [dt.time(1), dt.time(2)]}),
        pl.DataFrame({"x": pl.Series([object(), object()], dtype=pl.Object)}),
        pl.DataFrame({"x": pl.Series([2**100, 1], dtype=pl.Int128)}),
        pl.DataFrame({"x": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2))}),
        pa.table({"x": [[1], [2, 3]]}),
        pa.table({"x": [b"a", b"b"]}),
        pa.table({"x": [dt.time(1), dt.time(2)]}),
        pd.DataFrame({"x": pd.period_range("2020", periods=2, freq="M")}),
        pd.DataFrame({"x": pd.arrays.IntervalArray.from_breaks([0, 1, 2])}),
        pd.DataFrame({"x": np.array([1j, 2j])}),
    ],
    ids=lambda frame: f"{type(frame).__module__.split('.')[0]} {getattr(frame['x'], 'dtype', '')}",
)
def test_columns_of_other_types_are_opaque(frame):
    assert dataframe.read(frame).column("x").storage == "other"


@pytest.mark.parametrize(
    "thing",
    [None, {"x": [1]}, [1, 2], np.zeros((3, 2)), "table", 5, pd.Series([1.0]), pl.Series([1.0]), pa.array([1.0])],
)
def test_what_is_not_a_frame_is_refused_by_name(thing):
    with pytest.raises(InvalidTable, match=type(thing).__name__):
        dataframe.read(thing)


def test_a_lazy_frame_is_refused_with_advice():
    with pytest.raises(InvalidTable, match=r"collect\(\)"):
        dataframe.read(pl.DataFrame({"x": [1.0]}).lazy())


def test_repeated_pandas_names_are_refused_by_name():
    with pytest.raises(InvalidTable, match="'x'"):
        dataframe.read(pd.DataFrame([[1, 2]], columns=["x", "x"]))


def test_repeated_arrow_names_are_refused_by_name():
    with pytest.raises(InvalidTable, match="'x'"):
        dataframe.read(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]))


def test_pandas_names_that_look_alike_as_text_are_refused():
    with pytest.raises(InvalidTable, match="'1'"):
        dataframe.read(pd.DataFrame([[1, 2]], columns=[1, "1"]))


def test_an_empty_frame_is_read(frame_of):
    assert dataframe.read(frame_of({"x": pa.array([], pa.float64())})).n_rows == 0


def test_a_slice_of_an_arrow_table_is_read_as_the_slice():
    table = pa.table({"x": [1.5, None, 2.5, 3.5], "y": pa.array(["a", "b", "c", "d"]).dictionary_encode()}).slice(1, 2)
    read = dataframe.read(table)
    assert read.column("x").missing.tolist() == [True, False]
    categories = read.column("y").categories
    assert [categories[v] for v in read.column("y").values] == ["b", "c"]


def test_arrow_chunks_make_no_difference():
    whole = pa.table({"x": [0.5, None, 1.5], "y": ["a", "b", None]})
    parts = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 0), whole.slice(1, 2)])
    for name in whole.schema.names:
        left, right = dataframe.read(whole).column(name), dataframe.read(parts).column(name)
        assert (left.values.tolist(), left.missing.tolist()) == (right.values.tolist(), right.missing.tolist())


def test_a_template_survives_json(frame_of, tools):
    frame = frame_of({name: array.drop_null() for name, array in COLUMNS.items()})
    table = dataframe.read(frame)
    back = FrameTemplate.from_json(table.template.to_json())
    assert back == table.template
    tools.assert_same(back.build({name: table.column(name) for name in table.names}), frame)


def rebuilt(frame, labelled=()):
    """Return a frame from the template that a model keeps of it."""
    table = dataframe.read(frame)
    kept = FrameTemplate.from_json(table.template.for_model(labelled).to_json())
    assert kept.for_model(labelled).to_json() == kept.to_json()
    return kept.build({name: table.column(name) for name in table.names})


def test_the_template_of_a_model_builds_the_same_frames(frame_of, tools):
    frame = frame_of({name: array.drop_null() for name, array in COLUMNS.items()})
    tools.assert_same(rebuilt(frame, ["category", "boolean"]), frame)


def test_a_model_keeps_what_a_dtype_needs_and_no_more():
    labels = pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Enum(["b", "a", "unused"]))})
    assert rebuilt(labels, ["c"]).equals(labels)
    assert rebuilt(labels)["c"].dtype == pl.Categorical
    named = pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Categorical(pl.Categories("a name")))})
    assert rebuilt(named, ["c"]).schema == named.schema
    json, note = {b"harpoon": b"json"}, {b"note": b"of the table"}
    field = pa.field("c", pa.string(), metadata=json | note)
    texts = rebuilt(pa.table({"c": ["[1]", "[2]"]}, pa.schema([field], metadata=note)))
    assert (texts.schema.field("c").metadata, texts.schema.metadata) == (json, None)
    times = pd.to_datetime(["2020-01-01", "2021-07-03"]).tz_localize("Asia/Tokyo")
    decimals = pd.Series([1.25, 2.5]).astype(pd.ArrowDtype(pa.decimal128(5, 2)))
    frame = pd.DataFrame({"c": decimals, "t": times})
    frame.attrs["note"] = "of the table"
    assert rebuilt(frame).dtypes.equals(frame.dtypes)
    assert rebuilt(frame).attrs == {}


@pytest.mark.parametrize("pandas", [b"no JSON", b"[]", b"{}", b'{"index_columns": 5}', b'{"index_columns": [5]}'])
def test_metadata_that_pandas_did_not_write_are_left_out(pandas):
    table = pa.table({"c": [1.0, 2.0]}).replace_schema_metadata({b"pandas": pandas})
    assert rebuilt(table).schema.metadata is None


def test_an_enum_of_polars_in_an_arrow_table_is_one_again_in_polars():
    frame = pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"]))})
    table = dataframe.read(frame.to_arrow())
    kept = table.template.for_model(["c"]).with_library("polars")
    assert kept.build({"c": table.column("c")}).equals(frame)


@pytest.mark.parametrize("library", ["numpy", "", "os"])
def test_a_template_of_an_unknown_library_is_refused(library):
    data = dataframe.read(pa.table({"x": [1.0]})).template.to_json()
    with pytest.raises(ValueError, match="library"):
        FrameTemplate.from_json({**data, "library": library})


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_numbers_are_read_exactly(frame_of, values):
    array = pa.array(values, pa.float64())
    cells = dataframe.read(frame_of({"x": array})).column("x")
    assert [None if gone else v for v, gone in zip(cells.values.tolist(), cells.missing, strict=True)] == values


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_integers_are_read_exactly(frame_of, values):
    assert dataframe.read(frame_of({"x": pa.array(values, pa.int64())})).column("x").values.tolist() == values


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.none(), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_texts_are_read_exactly(frame_of, values):
    cells = dataframe.read(frame_of({"x": pa.array(values, pa.string())})).column("x")
    if cells.storage == "null":
        assert all(v is None for v in values)
    else:
        pairs = zip(cells.values, cells.missing, strict=True)
        assert [None if gone else cells.categories[v] for v, gone in pairs] == values


def test_the_end_of_an_integer_type_is_never_rounded_beyond_it():
    cells = ColumnArray("float", np.array([2.0**64, 5.4, 0.0]), np.array([False, False, True]))
    assert to_arrow(cells, pa.uint64()).to_pylist() == [2**64 - 2048, 5, None]
    further = ColumnArray("float", np.array([2.0**65]), np.array([False]))
    assert to_arrow(further, pa.uint64()).to_pylist() == [2.0**65]
    assert (
        to_arrow(ColumnArray("float", np.array([-129.0, 1.0]), np.array([False, False])), pa.int8()).type
        == pa.float64()
    )
