"""The Spark engine: DataFrames through `mapInArrow`, and files by blocks.

    import harpoon.engines.spark as engine

    filled = engine.impute(spark.read.parquet("incomplete/"), "penguins.harpoon")  # the schema is kept
    sampled = engine.sample(spark, 1_000_000, model, where="body_mass_g >= 5000")

Spark stores instants, and a model may have been trained on times without a zone. For such a model the times are
converted to the local time of the session's zone, and back.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harpoon._formatting import format_list
from harpoon._utils.validation import check_count
from harpoon.data.schema import Schema
from harpoon.engines import Run
from harpoon.engines.block_imputer import DRAW, warn_structural
from harpoon.engines.block_store import BlockStore
from harpoon.engines.blocks import Block
from harpoon.engines.job import ROW_NUMBER, ImputeArguments, ImputeRequest, Job, Model, SampleArguments, SampleJob
from harpoon.exceptions import HarpoonError, InvalidOption, InvalidTable, MissingExtra
from harpoon.io import Chunk
from harpoon.io.columnar import cast_to_schema

try:
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.functions import monotonically_increasing_id
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import LongType, NullType, StructField, StructType
except ImportError:
    raise MissingExtra.for_package("pyspark", "spark", "The engine Spark") from None

__all__ = ["impute", "run", "sample", "session"]

Batches = Iterator[pa.RecordBatch]
IDS_PER_PARTITION = 2**33  # of the increasing ids of Spark
POLL_SECONDS = 0.3  # between two checks of which blocks are finished


def impute(data: DataFrame, model: Model, **arguments: Unpack[ImputeArguments]) -> DataFrame:
    """Impute the missing cells of a DataFrame, and keep its schema.

    Args:
        data: The rows, with all columns of the model.
        model: A fitted model, or the path of its file.
        **arguments: `where`, `draws`, `only` and `random_state`, as for `harpoon.engines.impute`.
    """
    if not hasattr(data, "mapInArrow"):
        raise InvalidOption(f"data must be a Spark DataFrame, such as spark.read.parquet(...), got {data!r}.")
    request = ImputeRequest.create(model, **arguments).with_seed()
    request.check_columns(data.columns)
    if untyped := [f.name for f in data.schema if isinstance(f.dataType, NullType)]:
        raise InvalidTable(f"Spark has no type for {format_list(untyped)}: all cells are missing. Cast them first.")
    draw_column = [StructField(DRAW, LongType(), nullable=False)] if request.draws else []
    schema = StructType([*draw_column, *data.schema])
    if not request.depends_on_row_number:
        return data.mapInArrow(_partition_imputer(request), schema)
    numbered = data.withColumn(ROW_NUMBER, monotonically_increasing_id())
    return numbered.mapInArrow(_partition_imputer(request, _partition_rows(numbered)), schema)


def sample(spark: SparkSession, n: int, model: Model, **arguments: Unpack[SampleArguments]) -> DataFrame:
    """Sample rows, one partition per block. The arguments are those of `harpoon.engines.sample`."""
    job = SampleJob.create(n, model, **arguments).with_seed()
    one_row = SampleJob.create(1, job.fitted, random_state=0)
    schema = _spark_schema(next(one_row.process(one_row.blocks)).table.schema)
    blocks = job.blocks

    def sample_block(number: int) -> Batches:
        for result in job.process([blocks[number]]):
            yield from cast_to_schema(result.table, schema).to_batches()

    return _map_numbers(spark, len(blocks), sample_block, from_arrow_schema(schema, prefer_timestamp_ntz=True))


def start(workers: int | None) -> Run:
    """Return `run` for a number of workers."""
    return partial(run, workers=workers)


def run(job: Job, store: BlockStore, blocks: list[Block], workers: int | None = None) -> Iterator[Block]:
    """Process blocks on a Spark cluster and yield each when its file is written."""
    tasks = job.tasks(blocks)

    def process(number: int) -> Batches:
        offsets = [block.row_offset for block in store.process(job, tasks[number])]
        yield pa.RecordBatch.from_pydict({"row_offset": pa.array(offsets, pa.int64())})

    if not tasks:
        return
    receipts = _map_numbers(session(workers), len(tasks), process, "row_offset long")
    with ThreadPoolExecutor(1) as pool:
        collected, unfinished = pool.submit(receipts.collect), blocks
        while unfinished and not collected.done():
            wait([collected], timeout=POLL_SECONDS)
            before, unfinished = unfinished, store.unfinished(unfinished)
            remaining = set(unfinished)
            yield from (block for block in before if block not in remaining)
    try:
        collected.result()
    except PySparkException as error:
        raise store.worker_error() or error from None
    yield from unfinished


def session(workers: int | None = None) -> SparkSession:
    """Return the Spark session that is configured, or start one on this machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if workers is not None:
        check_count(workers, "workers, the number of workers,")
    try:
        builder = SparkSession.builder.appName("harpoon").config("spark.ui.showConsoleProgress", "false")
        if not SparkConf().contains("spark.master"):
            # Errors come back as exceptions, so Java need not log them.
            quiet: dict[str, Any] = {"spark.ui.enabled": "false", "spark.log.level": "OFF"}
            builder = builder.master(f"local[{workers or '*'}]").config(map=quiet)
        return builder.getOrCreate()
    except PySparkException as error:
        raise HarpoonError(f"Spark does not start: {error}. It needs Java 17 or newer; is that installed?") from None


def to_local_times(table: pa.Table, schema: Schema) -> pa.Table:
    """Convert instants to local times in their zone, for columns that the model knows without a zone.

    >>> from datetime import datetime
    >>> noon = datetime(2024, 7, 1, 12)
    >>> schema = Schema.infer(pa.table({"at": [noon, datetime(2024, 7, 2)]}))
    >>> own = pa.table({"at": pa.array([noon, None], pa.timestamp("us", "America/New_York"))})  # noon in UTC
    >>> to_local_times(own, schema)["at"].to_pylist()
    [datetime.datetime(2024, 7, 1, 8, 0), None]
    >>> imputed = pa.table({"at": [datetime(2024, 7, 1, 8), datetime(2024, 7, 1, 9)]})
    >>> to_instants(imputed, own)["at"].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")).to_pylist()
    [datetime.datetime(2024, 7, 1, 12, 0), datetime.datetime(2024, 7, 1, 13, 0)]
    """
    for index, f in enumerate(table.schema):
        if _is_instant(f.type) and f.name in schema.names and not schema[f.name].zoned:
            table = table.set_column(index, f.name, pc.local_timestamp(table[f.name]))
    return table


def to_instants(imputed: pa.Table, own: pa.Table, draws: int | None = None) -> pa.Table:
    """Convert local times back to instants. Observed ones are copied: a local hour may not exist, or exist twice."""
    for f in own.schema:
        index = imputed.schema.get_field_index(f.name)
        if _is_instant(f.type) and not imputed.schema.field(index).type.tz:
            observed = own[f.name].take(np.repeat(np.arange(own.num_rows), draws or 1))
            instants = pc.assume_timezone(imputed[f.name], f.type.tz, ambiguous="earliest", nonexistent="earliest")
            imputed = imputed.set_column(index, f.name, pc.coalesce(observed, instants.cast(f.type)))
    return imputed


def _is_instant(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) and dtype.tz)


def _partition_imputer(
    request: ImputeRequest, partition_rows: Mapping[int, range] | None = None
) -> Callable[[Batches], Batches]:
    """Return the function that imputes a partition. `partition_rows` are the row numbers of each partition."""

    def impute_partition(batches: Batches) -> Batches:
        for batch in batches:
            own, row_offset = pa.Table.from_batches([batch]), 0
            if partition_rows is not None:
                partition, start = _position(batch)
                rows = partition_rows.get(partition, range(0))
                own, row_offset = own.drop_columns([ROW_NUMBER]), rows.start + start
                if start + batch.num_rows > len(rows):
                    raise InvalidTable(
                        "The DataFrame did not give the same rows twice. Cache it, or write it to files first."
                    )
            local = to_local_times(own, request.fitted.schema_)
            imputer = request.block_imputer(local.schema)
            imputed = imputer.impute_stacked(Chunk(local), row_offset)
            warn_structural(imputer.structural, imputer.causes)
            fields = [*([pa.field(DRAW, pa.int64())] if request.draws else []), *own.schema]
            yield from cast_to_schema(to_instants(imputed, own, request.draws), pa.schema(fields)).to_batches()

    return impute_partition


def _partition_rows(numbered: DataFrame) -> dict[int, range]:
    """Return the row numbers of each partition."""

    def count_rows(batches: Batches) -> Batches:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"partition": [_position(batch)[0]], "n_rows": [batch.num_rows]})

    counts = Counter[int]()
    for partition, count in numbered.mapInArrow(count_rows, "partition long, n_rows long").collect():
        counts[partition] += count
    partitions = sorted(counts)
    ends = accumulate((counts[partition] for partition in partitions), initial=0)
    return {partition: range(*bounds) for partition, bounds in zip(partitions, pairwise(ends), strict=True)}


def _position(batch: pa.RecordBatch) -> tuple[int, int]:
    """Return the partition of a batch and the index of its first row there, from Spark's increasing ids."""
    return divmod(batch[ROW_NUMBER][0].as_py() if batch.num_rows else 0, IDS_PER_PARTITION)


def _map_numbers(
    spark: SparkSession, count: int, work: Callable[[int], Batches], schema: StructType | str
) -> DataFrame:
    """Return what `work` yields for the numbers from 0 on, each in a partition of its own."""

    def work_on_partition(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(number)

    return spark.range(0, count, 1, count).mapInArrow(work_on_partition, schema)


def _spark_schema(schema: pa.Schema) -> pa.Schema:
    """Replace types that Spark does not have: dictionaries, unsigned integers, nanoseconds."""

    def spark_type(dtype: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(dtype):
            return spark_type(dtype.value_type)
        if pa.types.is_unsigned_integer(dtype):
            return pa.int64()
        if pa.types.is_timestamp(dtype):
            return pa.timestamp("us", dtype.tz)
        if pa.types.is_duration(dtype):
            return pa.duration("us")
        return pa.string() if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype) else dtype

    return pa.schema([(f.name, spark_type(f.type)) for f in schema])
