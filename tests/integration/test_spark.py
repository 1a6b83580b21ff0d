"""The Spark engine with two partitions gives the same rows as the local one, and keeps the schema."""

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
]
ROWS = 1200


@pytest.fixture(scope="module")
def spark():
    session = engine.session(workers=2)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def work(arrow_fitted, tools, tmp_path_factory) -> SimpleNamespace:
    """A model, a folder of incomplete files, and the result of the local engine."""
    folder = tmp_path_factory.mktemp("spark")
    table = tools.make("pyarrow", tools.mixed_columns(ROWS)).append_column("key", pa.array(np.arange(ROWS)))
    (folder / "incomplete").mkdir()
    pq.write_table(table.slice(0, 700), folder / "incomplete" / "0.parquet")
    pq.write_table(table.slice(700), folder / "incomplete" / "1.parquet")
    arrow_fitted.model.save(folder / "model.harpoon")
    asked = {"draws": 2, "random_state": 4}
    filled = pq.read_table(local.impute(folder / "incomplete", arrow_fitted.model, folder / "filled", **asked))
    return SimpleNamespace(folder=folder, table=table, model=arrow_fitted.model, asked=asked, filled=filled)


def two_partitions(spark, table):
    """Return a DataFrame of two partitions with the rows in order."""
    frame = spark.createDataFrame(table)
    assert frame.rdd.getNumPartitions() == 2
    return frame


@pytest.mark.parametrize("batch", [100, 10_000])
def test_a_dataframe_is_imputed_as_by_the_local_engine(spark, work, batch):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
    frame = two_partitions(spark, work.table)
    filled = engine.impute(frame, work.model, **work.asked)
    assert filled.schema[1:] == frame.schema[:]
    assert filled.toArrow().to_pydict() == work.filled.to_pydict()


def test_the_schema_and_other_columns_are_kept(spark, work):
    frame = two_partitions(spark, work.table)
    filled = engine.impute(frame, work.folder / "model.harpoon", only=["job"])
    assert filled.schema == frame.schema
    found = filled.toArrow()
    expected = work.model.impute(work.table.drop_columns(["key"]))
    assert found["job"].to_pylist() == expected["job"].to_pylist()
    assert found.select(["age", "key"]).to_pydict() == work.table.select(["age", "key"]).to_pydict()


def test_rows_keep_their_numbers_in_later_steps(spark, work):
    """Spark computes a result within later tasks, whose partitions are not those of the rows."""
    filled = engine.impute(two_partitions(spark, work.table), work.model, **work.asked)
    assert filled.coalesce(1).toArrow().to_pydict() == work.filled.to_pydict()
    assert filled.union(filled).toArrow().slice(2 * ROWS).to_pydict() == work.filled.to_pydict()


def test_times_without_a_zone_are_local_times(spark):
    """Spark stores instants and shows them in the zone of its session, where an hour may not exist."""
    hours = [datetime(2024, 3, 9) + timedelta(hours=hour) for hour in range(48)]
    table = pa.table({"hour": pa.array(hours, pa.timestamp("us")), "late": [hour.hour > 12 for hour in hours]})
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        texts = [(str(hour) if hour.hour % 3 else None, hour.hour > 12) for hour in hours]
        frame = spark.createDataFrame(texts, table.column_names).selectExpr("cast(hour as timestamp) as hour", "late")
        assert frame.schema["hour"].dataType.typeName() == "timestamp"
        filled = engine.impute(frame, model, draws=2, random_state=0)
        assert filled.schema[1:] == frame.schema[:]
        on_the_clock = "draw", "date_format(hour, 'yyyy-MM-dd HH:mm:ss.SSSSSS') as hour", "late"
        found = filled.selectExpr(*on_the_clock).toArrow().to_pylist()
        observed = [hour if hour.hour % 3 else None for hour in hours]
        drawn = model.impute(
            table.set_column(0, "hour", pa.array(observed, pa.timestamp("us"))), draws=2, random_state=0
        )
        for draw, rows in enumerate(drawn, start=1):
            expected = [f"{hour:%Y-%m-%d %H:%M:%S.%f}" for hour in rows["hour"].to_pylist()]
            got = [row["hour"] for row in found if row["draw"] == draw]
            existing = [
                index for index, hour in enumerate(rows["hour"].to_pylist()) if (hour.day, hour.hour) != (10, 2)
            ]
            assert [got[index] for index in existing] == [expected[index] for index in existing]
        plain = engine.sample(spark, 5, model, random_state=0)
        assert plain.schema["hour"].dataType.typeName() == "timestamp_ntz"
        assert plain.toArrow()["hour"].to_pylist() == model.sample(5, random_state=0)["hour"].to_pylist()
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_rows_are_sampled_as_by_the_local_engine(spark, work, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "CONDITION_BLOCK_ROWS", 40)
    asked = {"where": "age >= 40", "random_state": 4}
    here = pq.read_table(local.sample(100, work.model, tmp_path / "here", **asked))
    drawn = engine.sample(spark, 100, work.model, **asked)
    assert drawn.rdd.getNumPartitions() == 3
    assert drawn.toArrow().to_pydict() == here.to_pydict()


def test_the_command_imputes_a_folder_and_names_a_damaged_file(spark, work, tmp_path):
    def run(source):
        words = ["impute", work.folder / "model.harpoon", source, "-o", tmp_path / "filled", "--block-size", "300"]
        words += ["--engine", "spark", "--workers", "2", "--draws", "2", "--stack-draws", "--seed", "4"]
        return CliRunner().invoke(app, list(map(str, words)))

    bad = tmp_path / "bad.parquet"
    content = bytearray((work.folder / "incomplete" / "0.parquet").read_bytes())
    content[4:60] = b"\xff" * 56
    bad.write_bytes(content)
    done = run(bad)
    assert done.exit_code == 1
    assert "bad.parquet' cannot be read" in done.stderr.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]
    assert run(work.folder / "incomplete").exit_code == 0
    assert pq.read_table(tmp_path / "filled").to_pydict() == work.filled.to_pydict()


def test_wrong_arguments_are_refused_before_any_work(spark, work):
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
        engine.impute("incomplete", work.model)
    with pytest.raises(InvalidOption, match="strategy"):
        engine.sample(spark, 5, work.model, strategy="best")


def test_workers_run_this_python():
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
