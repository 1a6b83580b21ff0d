"""The Ray engine on a cluster of two nodes gives the same rows as the local one, also when a worker dies."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.support import ray_cluster

ray = pytest.importorskip("ray", reason="Ray is not installed")

from harpoon import InvalidOption, SchemaMismatch  # noqa: E402
from harpoon.apps.cli import app  # noqa: E402
from harpoon.engines import job, local  # noqa: E402
from harpoon.engines import ray as engine  # noqa: E402

pytestmark = ray_cluster.MARKS
ROWS = 1200


@pytest.fixture(scope="module")
def work(arrow_fitted, tools, tmp_path_factory) -> SimpleNamespace:
    """A model, a folder of incomplete files, and the result of the local engine."""
    folder = tmp_path_factory.mktemp("ray")
    table = tools.make("pyarrow", tools.mixed_columns(ROWS)).append_column("key", pa.array(np.arange(ROWS)))
    (folder / "incomplete").mkdir()
    for number in range(3):
        pq.write_table(table.slice(400 * number, 400), folder / "incomplete" / f"{number}.parquet", row_group_size=150)
    asked = {"draws": 2, "random_state": 4}
    filled = pq.read_table(local.impute(folder / "incomplete", arrow_fitted.model, folder / "filled", **asked))
    return SimpleNamespace(folder=folder, table=table, model=arrow_fitted.model, asked=asked, filled=filled)


def to_table(data) -> pa.Table:
    return pa.concat_tables(data.iter_batches(batch_format="pyarrow", batch_size=None))


def test_a_folder_is_imputed_as_by_the_local_engine(cluster, work, tmp_path):
    source, out = work.folder / "incomplete", tmp_path / "filled"
    data = engine.impute(source, work.model, output=out, workers=1, block_size=10_000, **work.asked)
    assert to_table(data).equals(work.filled)
    assert [path.name for path in tmp_path.iterdir()] == ["filled"]


def test_a_dataset_is_imputed_in_order(cluster, work):
    data = ray.data.from_arrow([work.table.slice(start, 170) for start in range(0, ROWS, 170)])
    assert to_table(engine.impute(data, work.model, block_size=100, **work.asked)).equals(work.filled)


def test_rows_are_read_beside_as_many_workers_as_cpus(cluster, work):
    """Ray's own tasks read the rows of a Dataset. They would never start if workers reserved all CPUs."""
    filled = to_table(engine.impute(ray.data.read_parquet(str(work.folder / "incomplete")), work.model))
    expected = work.model.impute(work.table.drop_columns(["key"]))
    assert filled.drop_columns(["key"]).to_pydict() == expected.to_pydict()


def test_the_index_of_pandas_is_a_column_of_a_dataset(cluster, work, tmp_path):
    indexed = work.table.slice(0, 100).to_pandas().sample(frac=1, random_state=0).set_index("key")
    indexed.to_parquet(tmp_path / "indexed.parquet")
    found = engine.impute(tmp_path / "indexed.parquet", work.model, workers=1).to_pandas()
    assert found["key"].tolist() == indexed.index.tolist()


def test_rows_are_sampled_as_by_the_local_engine(cluster, work, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "CONDITION_BLOCK_ROWS", 40)
    asked = {"where": "age >= 40", "random_state": 4}
    here = pq.read_table(local.sample(100, work.model, tmp_path / "here", **asked))
    assert to_table(engine.sample(100, work.model, workers=2, **asked)).equals(here)


def find_worker(cluster) -> int | None:
    """Return a process of this cluster that processes blocks; None if there is none at the moment."""
    session = cluster.head_node.get_session_dir_path()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            if (
                words.startswith(b"ray::MapWorker")
                and session.encode() in Path("/proc", parent, "cmdline").read_bytes()
            ):
                return int(path.name)
        except OSError:  # it has ended meanwhile
            continue
    return None


def test_no_row_is_lost_if_a_worker_is_killed(cluster, work, tmp_path):
    """It is killed after two blocks, when most blocks are unfinished."""
    killed, finished = [], threading.Event()

    def kill():
        while not killed and not finished.wait(0.01):
            worker = find_worker(cluster) if len(list(tmp_path.glob(".filled-*/rows-*"))) >= 2 else None
            if worker is not None:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(worker, signal.SIGKILL)
                    killed.append(worker)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    source, out = work.folder / "incomplete", tmp_path / "filled"
    engine.impute(source, work.model, output=out, workers=2, block_size=100, **work.asked)
    finished.set()
    killer.join()
    assert killed
    rows = duckdb.sql(f"select count(*), count(distinct (key, draw)), min(key), max(key) from '{out}/*.parquet'")  # noqa: S608
    assert rows.fetchall() == [(2 * ROWS, 2 * ROWS, 0, ROWS - 1)]
    assert pq.read_table(out).equals(work.filled)


def test_wrong_arguments_are_refused_before_any_work(cluster, work, tmp_path):
    data = ray.data.from_arrow(work.table.drop_columns(["job"]))
    with pytest.raises(SchemaMismatch, match="'job'"):
        engine.impute(data, work.model)
    with pytest.raises(InvalidOption, match="write_parquet"):
        engine.impute(data, work.model, output=tmp_path / "filled")
    with pytest.raises(InvalidOption, match="'harpoon: row'"):
        engine.impute(
            ray.data.from_arrow(work.table.append_column("harpoon: row", work.table["key"])), work.model, draws=2
        )
    with pytest.raises(InvalidOption, match="parquet"):
        engine.sample(3, work.model, output=tmp_path / "filled.csv")
    with pytest.raises(InvalidOption, match="workers"):
        engine.sample(3, work.model, workers=0)
    assert not list(tmp_path.iterdir())


def test_the_command_names_a_damaged_file_and_leaves_nothing(cluster, work, tmp_path):
    """The damage is in a data page, so it is found only by a worker."""
    bad = tmp_path / "holes" / "b.parquet"
    bad.parent.mkdir()
    pq.write_table(work.table, tmp_path / "holes" / "a.parquet")
    pq.write_table(work.table, bad)
    content = bytearray(bad.read_bytes())
    content[4:60] = b"\xff" * 56
    bad.write_bytes(content)
    work.model.save(tmp_path / "model.harpoon")
    words = ["impute", tmp_path / "model.harpoon", bad.parent, "-o", tmp_path / "filled", "--block-size", 300]
    done = CliRunner().invoke(app, [*map(str, words), "--engine", "ray", "--workers", "2"])
    assert done.exit_code == 1
    assert "b.parquet' cannot be read" in done.stderr.replace("\n", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["holes", "model.harpoon"]
