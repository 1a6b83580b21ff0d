"""What a table is, learnt part by part: each part by itself, then merged, then finished.

A schema and a codec (kinds, labels, ranges, grids, means, point masses, ranks, missing shares) depend on which values a
column has and how often, and not on where they stand. So a part is boiled down to that; merging adds the counts up, in
any order; and what is finished is read by the same `Schema.infer` and `Codec.fit` as any table.

>>> one, other = pa.table({"x": [1.5, None, 2.5]}), pa.table({"x": [1.5, 7.0]})
>>> finish(merge(learn(one), learn(other)))["x"].to_pylist()
[1.5, 1.5, 2.5, 7.0, None]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon import frames
from harpoon.errors import SchemaMismatch


@dataclass(frozen=True)
class Counted:
    """A column without its order.

    Attributes:
        dtype: Its type.
        values: Each value once, in ascending order, a missing one last.
        counts: How often each of them occurs.
        labels: All labels of a category in their order, also those that no cell has.
    """

    dtype: pa.DataType
    values: pa.Array
    counts: pa.Array
    labels: pa.Array | None = None

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Counted:
        """The values of a column; of one whose values cannot be compared, such as lists, the first alone."""
        dtype, labels = column.type, None
        if pa.types.is_dictionary(dtype):
            chunks = column.unify_dictionaries().chunks
            labels = chunks[0].dictionary if chunks else pa.array([], dtype.value_type)
            column = column.cast(dtype.value_type)
        if pa.types.is_nested(dtype) or pa.types.is_null(dtype) or isinstance(dtype, pa.BaseExtensionType):
            first = column.slice(0, 1).combine_chunks()
            return cls(dtype, _one(first), pa.array([len(column)] * len(first), pa.int64()))
        found = pc.value_counts(column)
        return cls(dtype, *_sorted(found.field("values"), found.field("counts")), labels)

    def merged(self, other: Counted) -> Counted:
        """The values of both, with their counts added up."""
        if pa.types.is_null(self.dtype) != pa.types.is_null(other.dtype):
            typed, untyped = (other, self) if pa.types.is_null(self.dtype) else (self, other)
            return typed.merged(_typed(untyped, typed))
        if len(self.values) and len(other.values) and self._is_opaque:
            total = pa.array([self.counts[0].as_py() + other.counts[0].as_py()], pa.int64())
            return Counted(self.dtype, self.values, total)
        values, counts = (pa.concat_arrays(pair) for pair in ((self.values, other.values), (self.counts, other.counts)))
        added = pa.table({"values": values, "counts": counts}).group_by("values").aggregate([("counts", "sum")])
        both = _sorted(_one(added["values"]), _one(added["counts_sum"]))
        return Counted(self.dtype, *both, _all_labels(self.labels, other.labels))

    def finished(self) -> pa.Array:
        """The column again, in ascending order."""
        cells = self.values.take(pa.array(np.repeat(np.arange(len(self.values)), self.counts.to_numpy())))
        if self.labels is None:
            return cells
        codes = pc.index_in(cells, value_set=self.labels)
        return pa.DictionaryArray.from_arrays(codes, self.labels, ordered=self.dtype.ordered)

    @property
    def _is_opaque(self) -> bool:
        """Whether its values cannot be compared."""
        return pa.types.is_nested(self.dtype) or isinstance(self.dtype, pa.BaseExtensionType)


Learnt = Mapping[str, Counted]


def learn(data: object) -> Learnt:
    """The values of each column of a part of a table, and how often each occurs."""
    table = frames.read(data).arrow
    return {name: Counted.of(table[name]) for name in table.column_names}


def merge(one: Learnt, other: Learnt) -> Learnt:
    """What the two parts together would have given."""
    for name in sorted({*one, *other}):
        if name not in one or name not in other:
            raise SchemaMismatch(f"Column {name!r} is in one part and not in the other. All parts need the same ones.")
        here, there = one[name].dtype, other[name].dtype
        if here != there and not pa.types.is_null(here) and not pa.types.is_null(there):
            raise SchemaMismatch(f"Column {name!r} is {here} in one part and {there} in the other. Cast one of them.")
    return {name: counted.merged(other[name]) for name, counted in one.items()}


def finish(learnt: Learnt) -> pa.Table:
    """A table whose columns are those of all parts, each in ascending order: what stands in a row means nothing."""
    return pa.table({name: counted.finished() for name, counted in learnt.items()})


def _typed(untyped: Counted, like: Counted) -> Counted:
    """Nothing but missing cells, of the type that the column has elsewhere."""
    return Counted(like.dtype, pa.nulls(len(untyped.values), like.values.type), untyped.counts, like.labels)


def _sorted(values: pa.Array, counts: pa.Array) -> tuple[pa.Array, pa.Array]:
    order = pc.sort_indices(values)
    return values.take(order), counts.cast(pa.int64()).take(order)


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """All chunks as one array."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) and whole.num_chunks else whole


def _all_labels(one: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
    if one is None or other is None:
        return one
    return pa.concat_arrays([one, other.filter(pc.invert(pc.is_in(other, value_set=one)))])
