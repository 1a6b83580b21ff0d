"""Spark, with two partitions: the same rows as on one machine, and the schema kept."""

import os
import shutil
import sys
from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="Spark is not installed")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("Java, which Spark needs, is not installed", allow_module_level=True)

from harpoon import Harpoon, InvalidOption, InvalidTable, SchemaMismatch
from harpoon.apps.cli import app
from harpoon.engines import job, local
from harpoon.engines import spark as engine

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),  # of Spark's own
    pytest.mark.xdist_group("spark"),  # it takes long to start, so it starts once
]
ROWS = 1200


@pytest.fixture(scope="module")
def spark():
    session = engine.session(workers=2)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def work(arrow_fitted, tools, tmp_path_factory) -> SimpleNamespace:
    """A model, a folder of files with holes, and what the local engine makes of it."""
    folder = tmp_path_factory.mktemp("spark")
    table = tools.make("pyarrow", tools.mixed_columns(ROWS)).append_column("key", pa.array(np.arange(ROWS)))
    (folder / "holes").mkdir()
    pq.write_table(table.slice(0, 700), folder / "holes" / "0.parquet")
    pq.write_table(table.slice(700), folder / "holes" / "1.parquet")
    arrow_fitted.model.save(folder / "model.harpoon")
    asked = {"draws": 2, "random_state": 4}
    filled = pq.read_table(local.impute(folder / "holes", arrow_fitted.model, folder / "filled", **asked))
    return SimpleNamespace(folder=folder, table=table, model=arrow_fitted.model, asked=asked, filled=filled)


def in_two(spark, table):
    """A DataFrame of two partitions, the rows in their order."""
    frame = spark.createDataFrame(table)
    assert frame.rdd.getNumPartitions() == 2
    return frame


@pytest.mark.parametrize("batch", [100, 10_000])
def test_a_dataframe_is_filled_as_on_one_machine(spark, work, batch):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
    frame = in_two(spark, work.table)
    filled = engine.impute(frame, work.model, **work.asked)
    assert filled.schema[1:] == frame.schema[:]
    assert filled.toArrow().to_pydict() == work.filled.to_pydict()


def test_the_schema_is_kept_and_so_are_columns_that_are_not_asked_for(spark, work):
    frame = in_two(spark, work.table)
    filled = engine.impute(frame, work.folder / "model.harpoon", only=["job"])
    assert filled.schema == frame.schema
    found = filled.toArrow()
    expected = work.model.impute(work.table.drop_columns(["key"]))
    assert found["job"].to_pylist() == expected["job"].to_pylist()
    assert found.select(["age", "key"]).to_pydict() == work.table.select(["age", "key"]).to_pydict()


def test_rows_keep_their_numbers_whatever_is_done_with_the_answer(spark, work):
    """Spark computes an answer within other tasks, whose partitions are not those of the rows."""
    filled = engine.impute(in_two(spark, work.table), work.model, **work.asked)
    assert filled.coalesce(1).toArrow().to_pydict() == work.filled.to_pydict()
    assert filled.union(filled).toArrow().slice(2 * ROWS).to_pydict() == work.filled.to_pydict()


def test_times_without_a_zone_are_what_the_clock_says(spark):
    """Spark stores instants and shows them on the clock of its session, on which an hour may be missing."""
    hours = [datetime(2024, 3, 9) + timedelta(hours=hour) for hour in range(48)]
    table = pa.table({"hour": pa.array(hours, pa.timestamp("us")), "late": [hour.hour > 12 for hour in hours]})
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        told = [(str(hour) if hour.hour % 3 else None, hour.hour > 12) for hour in hours]
        frame = spark.createDataFrame(told, table.column_names).selectExpr("cast(hour as timestamp) as hour", "late")
        assert frame.schema["hour"].dataType.typeName() == "timestamp"
        filled = engine.impute(frame, model, draws=2, random_state=0)
        assert filled.schema[1:] == frame.schema[:]
        on_the_clock = "draw", "date_format(hour, 'yyyy-MM-dd HH:mm:ss.SSSSSS') as hour", "late"
        found = filled.selectExpr(*on_the_clock).toArrow().to_pylist()
        known = [hour if hour.hour % 3 else None for hour in hours]
        drawn = model.impute(table.set_column(0, "hour", pa.array(known, pa.timestamp("us"))), draws=2, random_state=0)
        for draw, rows in enumerate(drawn, start=1):
            expected = [f"{hour:%Y-%m-%d %H:%M:%S.%f}" for hour in rows["hour"].to_pylist()]
            got = [row["hour"] for row in found if row["draw"] == draw]
            there = [place for place, hour in enumerate(rows["hour"].to_pylist()) if (hour.day, hour.hour) != (10, 2)]
            assert [got[place] for place in there] == [expected[place] for place in there]
        plain = engine.sample(spark, 5, model, random_state=0)
        assert plain.schema["hour"].dataType.typeName() == "timestamp_ntz"
        assert plain.toArrow()["hour"].to_pylist() == model.sample(5, random_state=0)["hour"].to_pylist()
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_rows_are_drawn_as_on_one_machine(spark, work, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "CONDITION_BLOCK_ROWS", 40)
    asked = {"where": "age >= 40", "random_state": 4}
    here = pq.read_table(local.sample(100, work.model, tmp_path / "here", **asked))
    drawn = engine.sample(spark, 100, work.model, **asked)
    assert drawn.rdd.getNumPartitions() == 3
    assert drawn.toArrow().to_pydict() == here.to_pydict()


def test_the_command_fills_a_folder_and_names_a_bad_file(spark, work, tmp_path):
    def run(source):
        words = ["impute", work.folder / "model.harpoon", source, "-o", tmp_path / "filled", "--block-size", "300"]
        words += ["--engine", "spark", "--workers", "2", "--draws", "2", "--stack-draws", "--seed", "4"]
        return CliRunner().invoke(app, list(map(str, words)))

    bad = tmp_path / "bad.parquet"
    content = bytearray((work.folder / "holes" / "0.parquet").read_bytes())
    content[4:60] = b"\xff" * 56
    bad.write_bytes(content)
    done = run(bad)
    assert done.exit_code == 1
    assert "bad.parquet' cannot be read" in done.stderr.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]
    assert run(work.folder / "holes").exit_code == 0
    assert pq.read_table(tmp_path / "filled").to_pydict() == work.filled.to_pydict()


def test_slips_are_named_before_any_work(spark, work):
    with pytest.raises(SchemaMismatch, match="'job'"):
        engine.impute(spark.createDataFrame(work.table.drop_columns(["job"])), work.model)
    void = spark.createDataFrame(work.table).selectExpr("*", "null as nothing")
    with pytest.raises(InvalidTable, match="'nothing'"):
        engine.impute(void, work.model)
    frame = spark.createDataFrame(work.table)
    with pytest.raises(InvalidTable, match="'key' occur twice"):
        engine.impute(frame.select("*", "key"), work.model)
    with pytest.raises(InvalidOption, match="'harpoon: row'"):
        engine.impute(frame.withColumnRenamed("key", "harpoon: row"), work.model, draws=2)
    with pytest.raises(InvalidOption, match="DataFrame"):
        engine.impute("holes", work.model)
    with pytest.raises(InvalidOption, match="strategy"):
        engine.sample(spark, 5, work.model, strategy="best")


def test_workers_run_this_python():
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
