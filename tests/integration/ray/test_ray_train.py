"""Training on Ray Train, also when a worker is killed."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harpoon import Harpoon, HarpoonError, InvalidOption, InvalidTable, Schema, TableFileError
from tests.support import ray_cluster

ray = pytest.importorskip("ray", reason="Ray is not installed")

from harpoon.engines import ray as engine  # noqa: E402
from harpoon.engines import ray_train  # noqa: E402

pytestmark = [*ray_cluster.MARKS, pytest.mark.usefixtures("cluster")]
SETTINGS = {"hidden": 32, "batch_size": 64, "max_epochs": 40, "random_state": 0, "progress": False}


@pytest.fixture
def folder(tmp_path):
    """Sorted rows in three files of different lengths: no part has the distribution of the whole."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=900))
    whole = pa.table({"x": x, "y": 2 * x + rng.normal(size=900) / 10, "kind": np.where(x > 0, "up", "down")})
    rows = tmp_path / "rows"
    rows.mkdir()
    for number, (first, count) in enumerate([(0, 500), (500, 300), (800, 100)]):
        pq.write_table(whole.slice(first, count), rows / f"{number}.parquet")
    return rows


def descendants(pid):
    """Return the child processes of a process, and their children."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(after_name[1])
    found, left = set(), {pid}
    while left:
        left = {child for child, parent in parents.items() if parent in left} - found
        found |= left
    return found


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def kill_a_worker(kept, killed):
    """As soon as there is a checkpoint."""
    for _ in range(3000):
        workers = [pid for pid in descendants(os.getpid()) if "RayTrainWorker" in name_of(pid)]
        if workers and list(kept.glob("*/checkpoint_*")):
            os.kill(workers[-1], signal.SIGKILL)
            killed.append(workers[-1])
            return
        time.sleep(0.05)


def test_a_training_resumes_after_a_worker_was_killed_and_in_another_call(folder, tmp_path):
    kept, killed = tmp_path / "kept", []
    killer = threading.Thread(target=kill_a_worker, args=(kept, killed))
    killer.start()
    handler = signal.getsignal(signal.SIGINT)
    model = engine.fit(Harpoon(**SETTINGS), folder, workers=2, checkpoint_seconds=0.0, checkpoint=kept)
    killer.join()
    assert signal.getsignal(signal.SIGINT) is handler  # Ctrl-C is restored
    assert killed
    assert model.history_.stopped_by == "epochs"
    numbers = [epoch.number for epoch in model.history_.epochs]
    assert numbers == sorted(set(numbers))  # no epoch is counted twice
    assert numbers[-1] == SETTINGS["max_epochs"]
    assert model.schema_ == Schema.infer(pq.read_table(folder))
    asked = pa.table({"x": [-1.5, 0.0, 1.5], "y": pa.array([None] * 3, pa.float64()), "kind": ["down", "up", "up"]})
    assert np.abs(model.impute(asked)["y"].to_numpy() - 2 * asked["x"].to_numpy()).max() < 1.5  # of 3 for the mean

    longer = Harpoon(**{**SETTINGS, "max_epochs": SETTINGS["max_epochs"] + 2})
    epochs = engine.fit(longer, folder, workers=2, checkpoint=kept).history_.epochs
    assert epochs[: len(numbers)] == model.history_.epochs
    assert epochs[-1].number == SETTINGS["max_epochs"] + 2


def test_a_damaged_file_is_named(folder):
    content = bytearray((folder / "1.parquet").read_bytes())
    content[4:60] = b"\xff" * 56  # the first page, which only a worker reads
    (folder / "1.parquet").write_bytes(content)
    with pytest.raises(HarpoonError, match=r"1\.parquet"):
        engine.fit(Harpoon(**SETTINGS), folder)
    (folder / "1.parquet").write_bytes(content[:-20])
    with pytest.raises(HarpoonError, match=r"1\.parquet"):
        engine.fit(Harpoon(**SETTINGS), folder)


def test_the_counts_of_a_dataset_are_those_of_the_table(folder):
    counts, sample = ray_train.count_dataset(ray.data.read_parquet(str(folder)))
    assert Schema.from_counts(counts) == Schema.infer(pq.read_table(folder))
    assert sample.num_rows == 900  # fewer than would be needed
    part = pq.read_table(folder).slice(0, 5)
    empty = part.set_column(2, "kind", pa.nulls(5))  # a block without a cell of a column has no type for it
    counts, sample = ray_train.count_dataset(ray.data.from_arrow([part, empty]))
    assert sample["kind"].null_count == counts["kind"].n_missing == 5


def test_rows_of_a_dataframe_count_by_their_weights(folder, tmp_path):
    """Weights are relative to the mean of all rows, although no part of the table has it."""
    whole = pq.read_table(folder)
    weights = np.where(np.array(whole["kind"]) == "up", 3.0, 1.0)
    weighted = whole.append_column("w", pa.array(weights))
    counts, _ = ray_train.count_dataset(ray.data.from_arrow([weighted[:300], weighted[300:]]), "w")
    share = weights[weights == 3].sum() / weights.sum()
    assert counts["kind"].mass / counts["kind"].total_weight == pytest.approx([1 - share, share])
    frame = weighted.to_pandas()
    model = engine.fit(Harpoon(**{**SETTINGS, "max_epochs": 1}), frame, weights="w", workers=2)
    assert model.schema_.weights == "w"
    rows = model.sample(5)
    assert list(rows.columns) == list(frame.columns[:3])
    assert rows.dtypes.equals(frame.dtypes[:3])
    local = Harpoon(**{**SETTINGS, "max_epochs": 1}).fit(weighted, weights="w")
    assert model.codec_.to_json() == local.codec_.to_json()
    assert model.denoiser_.mean.numpy() == pytest.approx(local.denoiser_.mean.numpy(), abs=1e-5)
    with pytest.raises(InvalidTable, match="must be positive numbers"):
        engine.fit(Harpoon(**SETTINGS), weighted.set_column(3, "w", pa.array(weights - 1)), weights="w")


def test_parts_of_different_types_are_an_error_that_names_the_column(folder):
    pq.write_table(pa.table({"x": ["a"], "y": [1.0], "kind": ["up"]}), folder / "3.parquet")
    parts = [ray.data.read_parquet(str(folder / f"{number}.parquet")) for number in (0, 3)]
    with pytest.raises(HarpoonError, match="'x' must be of the same type"):
        engine.fit(Harpoon(**SETTINGS), parts[0].union(parts[1]))


def test_a_table_without_rows_is_refused(tmp_path):
    with pytest.raises(TableFileError, match="There is no file and no folder"):
        engine.fit(Harpoon(**SETTINGS), tmp_path / "nothing")
    with pytest.raises(InvalidOption, match="workers"):
        engine.fit(Harpoon(**SETTINGS), tmp_path, workers=0)
    with pytest.raises(InvalidTable, match="must have rows"):
        engine.fit(Harpoon(**SETTINGS), ray.data.from_arrow(pa.table({"x": pa.array([], pa.float64())})))
