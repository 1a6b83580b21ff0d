"""Isolated environments, their workers, and checks of the results."""

import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harpoon import HarpoonError, NotFitted, Schema
from harpoon_bench import environments
from harpoon_bench.baselines import METHODS, CannotSample, external, make_method
from harpoon_bench.baselines.external import ExternalMethod, TransductiveMethod
from harpoon_bench.environments import (
    WORKERS_FOLDER,
    Environment,
    EnvironmentFailed,
    OutOfTime,
    WorkerFailed,
    decode_table,
    encode_table,
    read_table,
    run_worker,
    write_table,
)

BARE = Environment("bare")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder for environments, chosen by the environment variable."""
    folder = tmp_path_factory.mktemp("environments")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(environments.ENVIRONMENTS_VARIABLE, str(folder))
        yield folder


@pytest.fixture
def worker(tmp_path):
    """Make a worker from its source."""

    def write(text, name="worker"):
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


def test_environment_is_created_once_without_our_packages(cache, capfd):
    python = BARE.python()
    assert "bare" in capfd.readouterr().err
    result = subprocess.run([python, "-c", "import pandas"], capture_output=True, check=False)  # noqa: S603
    assert b"No module named 'pandas'" in result.stderr
    created = (BARE.folder / environments.READY_MARK).stat().st_mtime_ns
    assert BARE.python() == python
    assert (BARE.folder / environments.READY_MARK).stat().st_mtime_ns == created
    assert capfd.readouterr().err == ""


def test_changed_requirements_make_another_environment(cache):
    assert Environment("x", "a==1").folder != Environment("x", "a==2").folder
    assert Environment("x", "a==1").folder == Environment("x", "# why\na==1\n").folder
    assert BARE.folder.parent == cache


def test_environments_are_in_the_cache_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv(environments.ENVIRONMENTS_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert BARE.folder.is_relative_to(tmp_path)


def test_incomplete_environment_is_created_again(cache):
    half = Environment("half")
    half.folder.mkdir(parents=True)
    (half.folder / "left-behind").touch()
    assert not half.ready
    assert subprocess.run([half.python(), "-c", ""], check=True).returncode == 0  # noqa: S603
    assert not (half.folder / "left-behind").exists()


def test_concurrent_calls_create_one_environment(cache, capfd):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: Environment("shared").python(), range(2))
    assert first == second
    assert capfd.readouterr().err.count("shared") == 1, "one call creates it, the other waits"


def test_failure_of_pip_shows_its_last_lines(cache, tmp_path):
    broken = Environment("broken", f"{tmp_path}/no-such-package.whl\n")
    with pytest.raises(EnvironmentFailed, match=r"(?s)HARPOON_ENVIRONMENTS.*no-such-package"):
        broken.python()
    assert not broken.ready
    assert not broken.folder.exists()


def test_worker_reads_its_job_and_writes_a_result(cache, worker, job):
    echo = worker("""
        import json, pathlib, sys
        job = pathlib.Path(sys.argv[1])
        settings = json.loads((job / "settings.json").read_text())
        (job / "answer").write_text(str(settings["n"] + 1))
    """)
    run_worker(BARE, echo, job, {"n": 41})
    assert (job / "answer").read_text() == "42"


def test_worker_ignores_pythonpath(cache, worker, job, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with pytest.raises(WorkerFailed, match="No module named 'harpoon'"):
        run_worker(BARE, worker("import harpoon"), job, {})


def test_error_shows_the_last_line_of_the_traceback(cache, worker, job):
    crash = worker("print('chatter', flush=True)\nraise ValueError('no column named x')")
    with pytest.raises(HarpoonError, match=r"Clumsy failed in its environment 'bare': ValueError: no column named x$"):
        run_worker(BARE, crash, job, {}, title="Clumsy")


def test_error_names_the_signal(cache, worker, job):
    with pytest.raises(WorkerFailed, match="SIGKILL"):
        run_worker(BARE, worker("import os; os.kill(os.getpid(), 9)"), job, {})


def test_time_limit_kills_the_worker_and_its_children(cache, worker, job):
    slow = worker(f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {str(job)!r}])
        time.sleep(600)
    """)
    with pytest.raises(OutOfTime, match="did not finish within 2 seconds"):
        run_worker(BARE, slow, job, {}, seconds=2)
    eventually(lambda: not running(job))


def test_worker_ends_with_its_parent(cache, worker, job):
    """`job.run` watches the pipe from the parent; pandas, which it imports, is replaced."""
    patient = worker(f"""
        import sys, time, types
        sys.modules["pandas"] = types.ModuleType("pandas")
        sys.path.insert(0, {str(WORKERS_FOLDER)!r})
        from job import run
        def wait(job):
            (job.folder / "begun").touch()
            time.sleep(600)
        run(wait)
    """)
    Schema(()).save(job / "schema.json")
    (job / "settings.json").write_text("{}")
    process = subprocess.Popen([BARE.python(), patient, job], stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
    eventually((job / "begun").exists)
    process.stdin.close()
    assert process.wait() != 0


def running(job):
    """Return the processes that have the job as an argument."""

    def arguments(folder):
        try:
            return (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return b""

    return [folder for folder in Path("/proc").glob("[0-9]*") if str(job).encode() in arguments(folder)]


def eventually(condition):
    """Wait until a condition on another process holds."""
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("the condition never held")


TABLE = pd.DataFrame(
    {
        "size": [1.0, 2.5, 4.0, 2.0, 3.0],
        "count": [1, 2, 3, 4, 10],
        "code": [3, 3, 7, 7, 9],
        "shape": ["round", "flat", "flat", "round", "long"],
        "sold": [True, False, True, True, False],
    },
    index=[10, 11, 12, 13, 14],
)
SCHEMA = Schema.infer(TABLE, kinds={"code": "category", "shape": "category"})
INCOMPLETE = TABLE.astype(object).mask(np.eye(5, dtype=bool)).infer_objects()

FILL = """
    import csv, pathlib, sys
    job = pathlib.Path(sys.argv[1])
    rows = list(csv.DictReader(open(job / "incomplete.csv")))
    with open(job / "result.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({name: value or "%s" for name, value in row.items()} for row in rows)
    (job / "note.txt").write_text("quick")
"""


@pytest.fixture
def filler(cache, worker, monkeypatch):
    """Make a method whose worker writes one number into every missing cell."""

    def make(base, number):
        class Filler(base):
            name, title, environment, worker = "filler", "Filler", "bare", "fill.py"

        monkeypatch.setattr(external, "WORKERS_FOLDER", worker(FILL % number, "fill").parent)
        monkeypatch.setattr(Environment, "named", classmethod(lambda cls, name: cls(name)))
        return Filler(budget=60)

    return make


def test_tables_are_encoded_and_decoded():
    numbers = encode_table(INCOMPLETE, SCHEMA)
    assert numbers.dtypes.eq("float64").all()
    assert numbers["code"].tolist()[:2] == [0.0, 0.0]
    assert numbers.isna().sum().sum() == 5
    decoded = decode_table(encode_table(TABLE, SCHEMA) + 0.3, SCHEMA)
    assert decoded[["code", "shape", "sold"]].equals(TABLE[["code", "shape", "sold"]])


def test_csv_files_are_lossless(tmp_path):
    numbers = pd.DataFrame({"x, y": [0.1 + 0.2, 1e-300, np.nan]})
    write_table(numbers, tmp_path / "t.csv")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), numbers, check_exact=True)


def test_impute_fills_missing_cells_only(filler):
    imputed = filler(ExternalMethod, "1.4").fit(TABLE, SCHEMA).impute(INCOMPLETE)
    assert imputed.index.equals(TABLE.index)
    assert imputed.columns.equals(TABLE.columns)
    observed = INCOMPLETE.notna()
    assert (imputed[observed].eq(TABLE[observed]) | ~observed).all(axis=None)
    assert imputed["size"].iloc[0] == imputed["count"].iloc[1] == 1.4
    assert imputed["code"].iloc[2] == 7
    assert imputed["shape"].iloc[3] == "long"
    assert imputed["sold"].iloc[4] == True  # noqa: E712 - not 1
    assert imputed[["size", "count"]].dtypes.eq("float64").all()


def test_missing_cells_in_the_result_are_an_error(filler):
    with pytest.raises(WorkerFailed, match="Filler left 5 cells empty"):
        filler(ExternalMethod, "").fit(TABLE, SCHEMA).impute(INCOMPLETE)


def test_mean_imputation_is_an_error(filler):
    incomplete = TABLE.assign(size=[1.0, np.nan, np.nan, 2.0, 3.0])
    with pytest.raises(WorkerFailed, match="every missing cell of 'size' with the mean"):
        filler(TransductiveMethod, TABLE["size"].mean()).fit(TABLE, SCHEMA).impute(incomplete)
    stacked = pd.concat([TABLE["size"], incomplete["size"]]).mean()
    with pytest.raises(WorkerFailed, match="every missing cell of 'size' with the mean"):
        filler(TransductiveMethod, stacked).fit(TABLE, SCHEMA).impute(incomplete)


def test_other_imputations_are_accepted(filler):
    incomplete = TABLE.assign(size=[1.0, np.nan, np.nan, 2.0, 3.0])
    model = filler(TransductiveMethod, TABLE["size"].mean() + 0.01).fit(TABLE, SCHEMA)
    assert model.impute(incomplete)["size"].iloc[1] == pytest.approx(2.51)
    assert "quick" in model.note
    assert "together" in model.note


def test_job_folder_is_deleted_with_its_method(filler):
    model = filler(ExternalMethod, "1").fit(TABLE, SCHEMA)
    folder = model.job
    assert folder.exists()
    del model
    assert not folder.exists()


def test_impute_before_fit_is_an_error():
    with pytest.raises(NotFitted, match="HyperImpute has not been trained"):
        make_method("hyperimpute").impute(INCOMPLETE)


def test_great_has_no_conditions():
    with pytest.raises(CannotSample, match="size > 3"):
        make_method("great").sample(3, where="size > 3")


@pytest.mark.parametrize("name", [name for name, path in METHODS.items() if "external" in path])
def test_every_external_method_has_a_worker_and_pinned_packages(name):
    found = make_method(name)
    assert (WORKERS_FOLDER / found.worker).is_file()
    packages = Environment.named(found.environment).packages
    assert all("==" in line for line in packages)
    assert not any(line.startswith("torch") for line in packages[1:]), "torch comes first"
