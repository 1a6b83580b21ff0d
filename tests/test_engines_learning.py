"""What parts of a table have learnt, merged, is what the whole table would have taught."""

import functools
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import Schema, SchemaMismatch
from harpoon.codec import Codec
from harpoon.engines.learning import finish, learn, merge
from harpoon.frames import read

rng = np.random.default_rng(0)
ROWS = 400


def holes(values):
    return [None if rng.random() < 0.1 else value for value in values]


TABLE = pa.table(
    {
        "income": holes(rng.lognormal(3, 1, ROWS).tolist()),
        "gain": holes(np.where(rng.random(ROWS) < 0.7, 0, rng.integers(1, 10**6, ROWS)).tolist()),
        "price": holes(np.round(rng.gamma(2, 10, ROWS), 2).tolist()),
        "job": holes(rng.choice(["chef", "nurse", "pilot"], ROWS).tolist()),
        "grade": pa.DictionaryArray.from_arrays(
            pa.array(holes(rng.integers(0, 3, ROWS).tolist()), pa.int8()), ["low", "mid", "high"], ordered=True
        ),
        "city": holes([f"city {number}" for number in rng.zipf(1.3, ROWS) % 300]),
        "member": holes((rng.random(ROWS) < 0.5).tolist()),
        "born": pa.array(holes(rng.integers(0, 20_000, ROWS).tolist()), pa.int32()).cast(pa.date32()),
        "seen": pa.array(rng.integers(0, 10**9, ROWS), pa.timestamp("s", "UTC")),
        "always": ["yes"] * ROWS,
        "never": pa.nulls(ROWS),
        "id": np.arange(ROWS),
        "tags": [["a"]] * ROWS,
    }
)


def taught(table):
    """The schema and the codec of a table."""
    schema = Schema.infer(table)
    return schema, Codec.fit(schema, read(table), encoding="spiked", scaling="standard").to_json()


def close(one, other):
    """The same but for the order in which numbers were added up."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(close, one, other))
    return one == pytest.approx(other, rel=1e-12) if isinstance(one, float) else one == other


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, ROWS), max_size=6), shuffled=st.randoms(use_true_random=False))
def test_parts_teach_what_the_whole_does(cuts, shuffled):
    ends = sorted({0, ROWS, *cuts})
    parts = [learn(TABLE.slice(start, stop - start)) for start, stop in itertools.pairwise(ends)]
    shuffled.shuffle(parts)
    merged = finish(functools.reduce(merge, parts))
    (schema, codec), (expected, expected_codec) = taught(merged), taught(TABLE)
    assert schema == expected
    assert close(codec, expected_codec)


def test_every_cell_is_counted():
    found = finish(merge(learn(TABLE.slice(0, 150)), learn(TABLE.slice(150))))
    for name in TABLE.column_names[:-1]:
        assert sorted(map(str, found[name].to_pylist())) == sorted(map(str, TABLE[name].to_pylist()))


def test_a_part_may_have_no_cell_of_a_column():
    empty, there = pa.table({"x": pa.nulls(3)}), pa.table({"x": ["a", None]})
    for parts in ((empty, there), (there, empty)):
        assert finish(merge(*map(learn, parts)))["x"].to_pylist() == ["a", None, None, None, None]


def test_labels_that_only_one_part_has_are_kept():
    one, other = (pa.table({"x": pa.array(cells).dictionary_encode()}) for cells in (["b", "a"], ["c", "a"]))
    found = finish(merge(learn(one), learn(other)))["x"]
    assert found.chunk(0).dictionary.to_pylist() == ["b", "a", "c"]
    assert sorted(found.to_pylist()) == ["a", "a", "b", "c"]


def test_parts_that_do_not_belong_together_are_refused():
    one = learn(pa.table({"x": [1]}))
    with pytest.raises(SchemaMismatch, match="'y'"):
        merge(one, learn(pa.table({"x": [1], "y": [2]})))
    with pytest.raises(SchemaMismatch, match="int64 in one part and string"):
        merge(one, learn(pa.table({"x": ["a"]})))
