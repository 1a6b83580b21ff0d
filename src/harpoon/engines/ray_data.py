"""Ray Datasets of tasks and of numbered rows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data
from ray.data import DataContext, Dataset

from harpoon.engines.blocks import Block
from harpoon.engines.job import ROW_NUMBER

TASK = "task"


def tasks_to_dataset(tasks: Sequence[Sequence[Block]], *, ordered: bool) -> Dataset:
    """Return a Dataset with one row per task. Workers read it with `blocks_of_tasks`."""
    with preserved_order(ordered=ordered):
        return ray.data.from_items([{TASK: pickle.dumps(task)} for task in tasks], override_num_blocks=len(tasks))


def blocks_of_tasks(batch: pa.Table) -> Iterator[list[Block]]:
    """Yield the blocks of each task of a batch."""
    return map(pickle.loads, batch[TASK].to_pylist())


def in_order(data: Dataset) -> Dataset:
    """Return a Dataset with the same rows, whose results keep their order."""
    copy = Dataset.copy(data, _deep_copy=True)
    copy.context.execution_options.preserve_order = True
    return copy


def number_rows(data: Dataset) -> Dataset:
    """Add a column of row numbers. Ray has none, so all blocks are computed first and kept in its object store."""
    refs = data.to_arrow_refs()
    counts = ray.get([ray.remote(lambda table: table.num_rows).remote(ref) for ref in refs])
    offsets = accumulate(counts, initial=0)
    blocks: Any = [ray.remote(_add_numbers).remote(ref, offset) for ref, offset in zip(refs, offsets, strict=False)]
    with preserved_order(ordered=True):
        return ray.data.from_arrow_refs(blocks)


def _add_numbers(table: pa.Table, row_offset: int) -> pa.Table:
    return table.append_column(ROW_NUMBER, pa.array(np.arange(row_offset, row_offset + table.num_rows)))


@contextmanager
def preserved_order(*, ordered: bool) -> Iterator[None]:
    """Create Datasets whose results keep their order, if `ordered`. A Dataset keeps the settings it is created with."""
    options = DataContext.get_current().execution_options
    before, options.preserve_order = options.preserve_order, ordered or options.preserve_order
    try:
        yield
    finally:
        options.preserve_order = before
