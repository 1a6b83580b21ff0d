"""Times between timestamps: which pairs have one, exact differences, and plain data."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import count_columns, dataframe, read_columns
from harpoon.data.schema import Schema
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.temporal.elapsed_time import ElapsedTimeCodec

N = 400


def fit(frame):
    table = dataframe.read(frame)
    counts = count_columns(table)
    codec = RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard", calendar_parts=True)
    rows = read_columns(table, codec.schema)
    return codec.with_elapsed_times(rows, "standard"), rows


def orders(unit="D", gaps=40):
    random = np.random.default_rng(0)
    ordered = pd.Series(pd.Timestamp("2019-01-01") + pd.to_timedelta(random.integers(0, 1000, N), unit="D"))
    return ordered, ordered + pd.to_timedelta(random.integers(0, gaps, N), unit=unit)


def names(codec):
    return [each.column.name for each in codec.elapsed.values()]


def test_timestamps_near_each_other_have_a_time_between_them():
    ordered, shipped = orders()
    codec, rows = fit(pd.DataFrame({"shipped": shipped, "ordered": ordered}))
    assert names(codec) == ["shipped - ordered"]
    (elapsed,) = codec.elapsed.values()
    days = (shipped - ordered).dt.days.to_numpy()
    assert np.array_equal(
        elapsed.cells(rows).values, days * (86_400 * 10**9 // {"s": 10**9, "us": 10**3, "ns": 1}[elapsed.column.unit])
    )
    assert codec.elapsed_between == {len(codec.codecs) - 1: (len(codec.codecs) - 2, len(codec.codecs) - 3)}


def test_a_date_and_a_datetime_of_another_unit_have_one():
    ordered, shipped = orders("h", 900)
    codec, rows = fit(pd.DataFrame({"ordered": ordered.dt.date, "shipped": shipped.astype("datetime64[ms]")}))
    (elapsed,) = codec.elapsed.values()
    hours = (shipped - ordered) // pd.Timedelta(hours=1)
    assert np.array_equal(elapsed.cells(rows).values, hours * 3_600_000)


@pytest.mark.parametrize(
    "frame",
    [
        lambda a, b: {"a": a, "b": b, "nights": (b - a).dt.days},  # a column has it already
        lambda a, b: {"a": a, "b": b, "span": b - a},
        lambda a, _: {"a": a, "b": a + pd.Timedelta(days=30)},  # always the same
        lambda a, _: {"a": a, "b": a.sample(frac=1, random_state=0).to_numpy()},  # not near each other
        lambda a, b: {"a": a.where(a.index < 10), "b": b},  # hardly ever together
    ],
)
def test_other_timestamps_have_none(frame):
    codec, _ = fit(pd.DataFrame(frame(*orders())))
    assert names(codec) == []


def test_timestamps_are_linked_without_a_cycle_and_names_are_new():
    ordered, shipped = orders()
    arrived = shipped + pd.to_timedelta(np.random.default_rng(1).integers(1, 5, N), unit="D")
    columns = {"ordered": ordered, "shipped": shipped, "arrived": arrived, "arrived - shipped": list("ab") * (N // 2)}
    codec, _ = fit(pd.DataFrame(columns))
    assert names(codec) == ["arrived - shipped'", "shipped - ordered"]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["s", "ms", "us", "ns"]), st.integers(-3_000, 3_000), st.integers(0, 2**32 - 1))
def test_encoding_is_exact_and_null_where_a_timestamp_is(unit, day, seed):
    random = np.random.default_rng(seed)
    start = (
        pd.Timestamp("1970-01-01") + pd.Timedelta(days=day) + pd.to_timedelta(random.integers(0, 10**8, N), unit="s")
    )
    end = start + pd.to_timedelta(random.integers(-(10**5), 10**6, N), unit="s")
    columns = pd.DataFrame({"start": start, "end": end}).astype(f"datetime64[{unit}]")
    columns.loc[random.random(N) < 0.2, "end"] = pd.NaT
    codec, rows = fit(columns)
    (elapsed,) = codec.elapsed.values()
    cells = elapsed.cells(rows)
    assert np.array_equal(cells.missing, columns["end"].isna())
    assert np.array_equal(codec.observed(rows)[:, -1], ~cells.missing)
    decoded = codec.decode_elapsed_times(codec.encode(rows))[elapsed.column.name]
    assert np.array_equal(decoded.values[~cells.missing], cells.observed)
    assert set(codec.decode(codec.encode(rows))) == {"start", "end"}


def test_a_codec_comes_back_from_plain_data():
    ordered, shipped = orders()
    codec, _ = fit(pd.DataFrame({"ordered": ordered, "shipped": shipped}))
    assert RowCodec.from_json(codec.schema, codec.to_json()) == codec
    (elapsed,) = codec.elapsed.values()
    damaged = elapsed.to_json() | {"elapsed": {"name": "x", "kind": "number"}}
    with pytest.raises(ValueError, match="must be a duration"):
        ElapsedTimeCodec.from_json([elapsed.start, elapsed.end], damaged)
