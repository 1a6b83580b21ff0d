"""Instants and clocks: Spark stores instants, and a model may have learnt what a clock says.

>>> from datetime import datetime
>>> from harpoon.schema import Schema
>>> noon = datetime(2024, 7, 1, 12)
>>> schema = Schema.infer(pa.table({"at": [noon, datetime(2024, 7, 2)]}))
>>> own = pa.table({"at": pa.array([noon, None], pa.timestamp("us", "America/New_York"))})  # noon in Greenwich
>>> on_the_clock(own, schema)["at"].to_pylist()
[datetime.datetime(2024, 7, 1, 8, 0), None]
>>> made = pa.table({"at": [datetime(2024, 7, 1, 8), datetime(2024, 7, 1, 9)]})
>>> as_instants(made, own)["at"].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")).to_pylist()
[datetime.datetime(2024, 7, 1, 12, 0), datetime.datetime(2024, 7, 1, 13, 0)]
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon._text import format_list
from harpoon._utils.rng import RandomState, to_seed
from harpoon._utils.validation import check_count
from harpoon.data.schema import Schema
from harpoon.engines.block_imputer import DRAW
from harpoon.engines.block_store import BlockStore
from harpoon.engines.blocks import Block
from harpoon.engines.job import BLOCK, ROW, ImputeRequest, Job, Model, SampleJob, Where, deserialize_model
from harpoon.exceptions import HarpoonError, InvalidOption, InvalidTable, MissingExtra
from harpoon.io.writers import cast_to_schema


def on_the_clock(own: pa.Table, schema: Schema) -> pa.Table:
    """Instants as what the clock says in their zone, where a model was trained on times without one."""
    for place, f in enumerate(own.schema):
        if _is_instant(f.type) and f.name in schema.names and not schema[f.name].zoned:
            own = own.set_column(place, f.name, pc.local_timestamp(own[f.name]))
    return own


def as_instants(made: pa.Table, own: pa.Table, draws: int | None = None) -> pa.Table:
    """Times on the clock as instants again. Those that were known stay: an hour may be missing there, or twice."""
    for f in own.schema:
        place = made.schema.get_field_index(f.name)
        if _is_instant(f.type) and not made.schema.field(place).type.tz:
            known = own[f.name].take(np.repeat(np.arange(own.num_rows), draws or 1))
            instants = pc.assume_timezone(made[f.name], f.type.tz, ambiguous="earliest", nonexistent="earliest")
            made = made.set_column(place, f.name, pc.coalesce(known, instants.cast(f.type)))
    return made


def _is_instant(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) and dtype.tz)


try:
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.functions import monotonically_increasing_id
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import LongType, NullType, StructField, StructType
except ImportError:
    raise MissingExtra.for_package("pyspark", "spark", "The engine Spark") from None


Batches = Iterator[pa.RecordBatch]
IN_A_PARTITION = 2**33  # numbers, of those that Spark gives rows
LOOKED = 0.3  # seconds between two looks at what is done


def impute(
    data: DataFrame,
    model: Model,
    *,
    where: Where = None,
    draws: int | None = None,
    only: Sequence[str] = (),
    random_state: RandomState = None,
) -> DataFrame:
    """Fill the holes of a DataFrame, and keep its schema.

    Args:
        data: The rows, with all columns of the model.
        model: A fitted model, or its file.
        where: A condition that every completed row meets.
        draws: Draw so many rows for each, instead of the best values; a first column `draw` numbers them.
        only: The columns to fill; all that the model knows by default. All others are passed on.
        random_state: A seed or a NumPy generator.
    """
    if not hasattr(data, "mapInArrow"):
        raise InvalidOption(f"Spark fills a DataFrame, as spark.read.parquet(...) gives one, got {data!r}.")
    filling = ImputeRequest.of(model, where=where, draws=draws, only=only, random_state=random_state)
    filling.check_columns(data.columns)
    void = [f.name for f in data.schema if isinstance(f.dataType, NullType)]
    if void:
        raise InvalidTable(
            f"Spark has no type for {format_list(void)}, all of whose cells are missing. Cast them first."
        )
    seeded = replace(filling, seed=to_seed(None)) if filling.seed is None else filling
    schema = StructType([StructField(DRAW, LongType(), nullable=False), *data.schema]) if draws else data.schema
    if not filling.numbered:
        return data.mapInArrow(_filling(seeded), schema)
    numbered = data.withColumn(ROW, monotonically_increasing_id())
    return numbered.mapInArrow(_filling(seeded, _spans(numbered)), schema)


def sample(
    spark: SparkSession,
    n: int,
    model: Model,
    *,
    where: Where = None,
    given: Mapping[str, object] | None = None,
    strategy: str = "auto",
    random_state: RandomState = None,
    block: int = BLOCK,
) -> DataFrame:
    """Draw rows, a partition for each block; the arguments are those of `harpoon.engines.local.sample`."""
    asked = SampleJob.of(n, model, where=where, given=given, strategy=strategy, random_state=random_state, block=block)
    job = asked.seeded(to_seed(None)) if asked.seed is None else asked
    plain = SampleJob.of(1, deserialize_model(job.model), random_state=0)
    schema = _known_to_spark(next(table for _, table in plain.made(plain.blocks)).schema)
    blocks = job.blocks

    def drawn(batches: Batches) -> Batches:
        for number in _numbers(batches):
            for _, table in job.made([blocks[number]]):
                yield from cast_to_schema(table, schema).to_batches()

    return _numbered(spark, len(blocks)).mapInArrow(drawn, from_arrow_schema(schema, prefer_timestamp_ntz=True))


def run(job: Job, parts: BlockStore, blocks: list[Block], workers: int | None = None) -> Iterator[Block]:
    """Blocks of files on a Spark cluster, each told of when its part has been written."""
    tasks = job.tasks(blocks)

    def worked(batches: Batches) -> Batches:
        for number in _numbers(batches):
            done = [block.row_offset for block in parts.work(job, tasks[number])]
            yield pa.RecordBatch.from_pydict({"first_row": pa.array(done, pa.int64())})

    if not tasks:
        return
    receipts = _numbered(session(workers), len(tasks)).mapInArrow(worked, "first_row long")
    with ThreadPoolExecutor(1) as pool:
        collected, left = pool.submit(receipts.collect), blocks
        while left and not collected.done():
            wait([collected], timeout=LOOKED)
            before, left = left, parts.left(left)
            still = set(left)
            yield from (block for block in before if block not in still)
    try:
        collected.result()
    except PySparkException as error:
        raise parts.problem() or error from None
    yield from left


def session(workers: int | None = None) -> SparkSession:
    """The Spark that is configured, or one on this machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if workers is not None:
        check_count(workers, "workers, the number of workers,")
    try:
        builder = SparkSession.builder.appName("harpoon").config("spark.ui.showConsoleProgress", "false")
        if not SparkConf().contains("spark.master"):
            # What goes wrong comes back as an error; Java need not tell of it, too.
            here: dict[str, Any] = {"spark.ui.enabled": "false", "spark.log.level": "OFF"}
            builder = builder.master(f"local[{workers or '*'}]").config(map=here)
        return builder.getOrCreate()
    except PySparkException as error:
        raise HarpoonError(f"Spark does not start: {error}. It needs Java 17 or newer; is that installed?") from None


def _filling(filling: ImputeRequest, spans: Mapping[int, range] | None = None) -> Callable[[Batches], Batches]:
    """What a partition does. With `spans`, its rows have the numbers that were found for it before."""

    def filled(batches: Batches) -> Batches:
        for batch in map(_as_table, batches):
            own, first_row = batch, 0
            if spans is not None:
                place, within = _numbers_of(batch)
                span = spans.get(place, range(0))
                own, first_row = batch.drop_columns([ROW]), span.start + within
                if within + batch.num_rows > len(span):
                    raise InvalidTable(
                        "The DataFrame did not give the same rows twice. Cache it, or write it to files first."
                    )
            holes = on_the_clock(own, deserialize_model(filling.model).schema_)
            made = as_instants(filling.filler(holes.schema).stacked(holes, first_row), own, filling.draws)
            kept = [*([pa.field(DRAW, pa.int64())] if filling.draws else []), *own.schema]
            yield from cast_to_schema(made, pa.schema(kept)).to_batches()

    return filled


def _spans(numbered: DataFrame) -> dict[int, range]:
    """The numbers of the rows of each partition."""

    def counted(batches: Batches) -> Batches:
        for batch in map(_as_table, batches):
            yield pa.RecordBatch.from_pydict({"place": [_numbers_of(batch)[0]], "rows": [batch.num_rows]})

    rows = Counter[int]()
    for place, count in numbered.mapInArrow(counted, "place long, rows long").collect():
        rows[place] += count
    places = sorted(rows)
    ends = accumulate((rows[place] for place in places), initial=0)
    return {place: range(start, end) for place, (start, end) in zip(places, pairwise(ends), strict=True)}


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _numbers_of(batch: pa.Table) -> tuple[int, int]:
    """The partition of a batch, and the place of its first row there, out of Spark's increasing numbers."""
    return divmod(batch[ROW][0].as_py() if batch.num_rows else 0, IN_A_PARTITION)


def _numbered(spark: SparkSession, count: int) -> DataFrame:
    """Numbers from 0 on, each in a partition of its own."""
    return spark.range(0, count, 1, count)


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _known_to_spark(schema: pa.Schema) -> pa.Schema:
    """The types that Spark has: no categories, no unsigned numbers, no nanoseconds."""

    def known(dtype: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(dtype):
            return known(dtype.value_type)
        if pa.types.is_unsigned_integer(dtype):
            return pa.int64()
        if pa.types.is_timestamp(dtype):
            return pa.timestamp("us", dtype.tz)
        if pa.types.is_duration(dtype):
            return pa.duration("us")
        return pa.string() if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype) else dtype

    return pa.schema([(f.name, known(f.type)) for f in schema])
