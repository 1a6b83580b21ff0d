"""Commands, trainings and jobs as processes of their own: real pipes, signals, and runs that are killed and resumed."""

import gzip
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from harpoon.engines import local
from tests.support.cli import COMMAND, ENVIRONMENT, call, run
from tests.support.tables import small_model, up_or_down_table

ROWS = 230


@pytest.fixture(scope="module")
def work(arrow_fitted, tools, tmp_path_factory) -> SimpleNamespace:
    """A saved model, and incomplete rows with a key as CSV and as a folder of Parquet files."""
    folder = tmp_path_factory.mktemp("work")
    table = tools.make("pyarrow", tools.mixed_columns(ROWS))
    pyarrow.csv.write_csv(table, folder / "incomplete.csv")
    (folder / "parquet").mkdir()
    keyed = table.append_column("key", pa.array(range(ROWS)))
    for number, start in enumerate((0, 100)):
        pq.write_table(keyed.slice(start, 100 if not start else ROWS), folder / "parquet" / f"{number}.parquet")
    arrow_fitted.model.save(folder / "model.harpoon")
    return SimpleNamespace(folder=folder, csv=folder / "incomplete.csv", model=folder / "model.harpoon")


def test_a_table_passes_through_pipes(work, tmp_path):
    piped = run("impute", work.model, "-", "--quiet", data=gzip.compress(work.csv.read_bytes()))
    assert (piped.code, piped.said) == (0, "")
    assert call("impute", work.model, work.csv, "-o", tmp_path / "filled.csv").code == 0
    assert piped.out == (tmp_path / "filled.csv").read_bytes()


def test_exit_codes_and_messages_leave_the_process(work):
    impossible = run("sample", work.model, "-n", 5, "--where", "age > 50 and age < 40")
    assert (impossible.code, impossible.out) == (3, b"")
    assert impossible.said.startswith("Error: ")
    assert "Traceback" not in impossible.said


def test_a_closed_pipe_is_not_an_error(work):
    """The rows are larger than the buffer of a pipe, so that the command writes to one that nobody reads."""
    line = f"{' '.join(COMMAND)} sample '{work.model}' -n 6000 -q | head -n 2"
    done = subprocess.run(line, shell=True, capture_output=True, check=False, env=ENVIRONMENT, timeout=120)  # noqa: S602
    assert done.stdout.count(b"\n") == 2
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_a_process_that_ends_early_leaves_no_half_written_table(work, tmp_path, number, code):
    header, *rows = work.csv.read_text().splitlines(keepends=True)
    (tmp_path / "long.csv").write_text(header + "".join(rows) * 300)
    command = [*COMMAND, "impute", str(work.model), "long.csv", "-o", "out.csv", "--block-size", "500"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, env=ENVIRONMENT)  # noqa: S603
    while process.poll() is None and not any(path.stat().st_size for path in tmp_path.glob(".harpoon-*")):
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert not (tmp_path / "out.csv").exists()
    left = sorted(path.name for path in tmp_path.iterdir())
    if number == signal.SIGKILL:  # nobody could clean up
        assert left.pop(0).startswith(".harpoon-")
    assert left == ["long.csv"]


def test_a_killed_training_is_resumed(tmp_path):
    """By another process, from the state that was stored last: here after every epoch."""
    script = """
import os, signal, sys
from harpoon.training import checkpoints, trainer
from tests.support.tables import small_model, up_or_down_table
checkpoints.SAVE_INTERVAL_SECONDS = 0.0
run_epoch = trainer._Training._epoch
def die(training):
    if training.n_epochs == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_epoch(training)
trainer._Training._epoch = die
small_model("paper", max_epochs=5, diffusion_steps=5).fit(up_or_down_table(), checkpoint=sys.argv[1])
"""
    path = tmp_path / "run.checkpoint"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, timeout=120, check=False)  # noqa: S603
    assert done.returncode == -signal.SIGKILL, done.stderr
    resumed = small_model("paper", max_epochs=5, diffusion_steps=5).fit(up_or_down_table(), checkpoint=path)
    uninterrupted = small_model("paper", max_epochs=5, diffusion_steps=5).fit(up_or_down_table())
    for one, other in zip(resumed.denoiser_.parameters(), uninterrupted.denoiser_.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_killed_run_resumes_with_the_unfinished_blocks(work, tmp_path, monkeypatch):
    """Finished blocks are not processed again."""
    options = {"draws": 3, "block_size": 10, "random_state": None}
    script = (
        "import sys; from harpoon.engines import local\n"
        f"local.impute({str(work.folder / 'parquet')!r}, {str(work.model)!r}, 'filled', **{options})"
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env=ENVIRONMENT)  # noqa: S603
    while process.poll() is None and len(list(tmp_path.glob(".filled-*/rows-*"))) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    (hidden,) = tmp_path.iterdir()
    before = {path.name: path.stat().st_mtime_ns for path in hidden.glob("rows-*")}
    assert 3 <= len(before) < 23
    monkeypatch.chdir(tmp_path)
    out = local.impute(work.folder / "parquet", work.model, "filled", **options)
    after = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert before.items() <= after.items()
    assert len(after) == 23
    rows = duckdb.sql(f"SELECT count(*), count(DISTINCT (key, draw)), count(age) FROM '{out}/*.parquet'").fetchall()  # noqa: S608
    assert rows == [(3 * ROWS, 3 * ROWS, 3 * ROWS)]
    assert [path.name for path in tmp_path.iterdir()] == ["filled"]
