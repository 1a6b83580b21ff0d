"""Environments that are made on first use, workers in them, and answers that cannot be trusted."""

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
from harpoon_bench.jobs import OutOfTime, WorkerFailed

from harpoon import HarpoonError, NotFitted, Schema
from harpoon_bench import environments, jobs
from harpoon_bench.baselines import METHODS, CannotDraw, method
from harpoon_bench.baselines.external import Isolated, Stacked
from harpoon_bench.environments import Environment, EnvironmentFailed

BARE = Environment("bare")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder for environments, as a user would choose it."""
    folder = tmp_path_factory.mktemp("environments")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(environments.FOLDER_VARIABLE, str(folder))
        yield folder


@pytest.fixture
def worker(tmp_path):
    """A worker from the text of its file."""

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


def test_an_environment_is_made_once_and_has_nothing_of_ours(cache, capfd):
    python = BARE.python()
    assert "bare" in capfd.readouterr().err
    found = subprocess.run([python, "-c", "import pandas"], capture_output=True, check=False)  # noqa: S603
    assert b"No module named 'pandas'" in found.stderr
    made = (BARE.folder / environments.READY).stat().st_mtime_ns
    assert BARE.python() == python
    assert (BARE.folder / environments.READY).stat().st_mtime_ns == made
    assert capfd.readouterr().err == ""


def test_other_requirements_are_another_environment(cache):
    assert Environment("x", "a==1").folder != Environment("x", "a==2").folder
    assert Environment("x", "a==1").folder == Environment("x", "# why\na==1\n").folder
    assert BARE.folder.parent == cache


def test_without_a_chosen_folder_environments_live_in_the_cache_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv(environments.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert BARE.folder.is_relative_to(tmp_path)


def test_a_half_made_environment_is_never_used(cache):
    half = Environment("half")
    half.folder.mkdir(parents=True)
    (half.folder / "left-behind").touch()
    assert not half.ready
    assert subprocess.run([half.python(), "-c", ""], check=True).returncode == 0  # noqa: S603
    assert not (half.folder / "left-behind").exists()


def test_two_that_ask_at_once_share_one_environment(cache, capfd):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: Environment("shared").python(), range(2))
    assert first == second
    assert capfd.readouterr().err.count("shared") == 1, "one makes it, the other waits"


def test_where_pip_fails_its_last_words_and_a_way_out_are_given(cache, tmp_path):
    broken = Environment("broken", f"{tmp_path}/no-such-package.whl\n")
    with pytest.raises(EnvironmentFailed, match=r"(?s)HARPOON_ENVIRONMENTS.*no-such-package"):
        broken.python()
    assert not broken.ready
    assert not broken.folder.exists()


def test_a_worker_reads_its_job_and_answers(cache, worker, job):
    echo = worker("""
        import json, pathlib, sys
        job = pathlib.Path(sys.argv[1])
        settings = json.loads((job / "settings.json").read_text())
        (job / "answer").write_text(str(settings["n"] + 1))
    """)
    jobs.run(BARE, echo, job, {"n": 41})
    assert (job / "answer").read_text() == "42"


def test_packages_on_our_path_stay_out_of_a_worker(cache, worker, job, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with pytest.raises(WorkerFailed, match="No module named 'harpoon'"):
        jobs.run(BARE, worker("import harpoon"), job, {})


def test_the_last_line_of_a_traceback_is_the_reason(cache, worker, job):
    crash = worker("print('chatter', flush=True)\nraise ValueError('no column named x')")
    with pytest.raises(HarpoonError, match=r"Clumsy failed in its environment 'bare': ValueError: no column named x$"):
        jobs.run(BARE, crash, job, {}, title="Clumsy")


def test_a_worker_that_is_killed_says_so(cache, worker, job):
    with pytest.raises(WorkerFailed, match="SIGKILL"):
        jobs.run(BARE, worker("import os; os.kill(os.getpid(), 9)"), job, {})


def test_a_worker_out_of_time_ends_with_all_it_started(cache, worker, job):
    slow = worker(f"""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {str(job)!r}])
        time.sleep(600)
    """)
    with pytest.raises(OutOfTime, match="was given 2 seconds"):
        jobs.run(BARE, slow, job, {}, seconds=2)
    eventually(lambda: not running(job))


def test_a_worker_ends_when_nobody_waits_for_it(cache, worker, job):
    """The part that workers share watches the pipe from its parent; the pandas it also imports is not needed here."""
    patient = worker(f"""
        import sys, time, types
        sys.modules["pandas"] = types.ModuleType("pandas")
        sys.path.insert(0, {str(jobs.WORKERS)!r})
        from job import work
        def do(job):
            (job.folder / "begun").touch()
            time.sleep(600)
        work(do)
    """)
    Schema(()).save(job / "schema.json")
    (job / "settings.json").write_text("{}")
    process = subprocess.Popen([BARE.python(), patient, job], stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
    eventually((job / "begun").exists)
    process.stdin.close()
    assert process.wait() != 0


def running(job):
    """The processes that were started with the job as an argument."""

    def arguments(folder):
        try:
            return (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return b""

    return [folder for folder in Path("/proc").glob("[0-9]*") if str(job).encode() in arguments(folder)]


def eventually(condition):
    """Wait for what another process does."""
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never came true")


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
HOLES = TABLE.astype(object).mask(np.eye(5, dtype=bool)).infer_objects()

FILL = """
    import csv, pathlib, sys
    job = pathlib.Path(sys.argv[1])
    rows = list(csv.DictReader(open(job / "holes.csv")))
    with open(job / "result.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({name: value or "%s" for name, value in row.items()} for row in rows)
    (job / "note.txt").write_text("quick")
"""


@pytest.fixture
def filler(cache, worker, monkeypatch):
    """A method whose worker writes one number into every hole."""

    def make(kind, number):
        class Filler(kind):
            name, title, environment, worker = "filler", "Filler", "bare", "fill.py"

        monkeypatch.setattr(jobs, "WORKERS", worker(FILL % number, "fill").parent)
        monkeypatch.setattr(Environment, "named", classmethod(lambda cls, name: cls(name)))
        return Filler(budget=60)

    return make


def test_labels_travel_as_positions_and_come_back():
    numbers = jobs.encoded(HOLES, SCHEMA)
    assert numbers.dtypes.eq("float64").all()
    assert numbers["code"].tolist()[:2] == [0.0, 0.0]
    assert numbers.isna().sum().sum() == 5
    back = jobs.decoded(jobs.encoded(TABLE, SCHEMA) + 0.3, SCHEMA)
    assert back[["code", "shape", "sold"]].equals(TABLE[["code", "shape", "sold"]])


def test_tables_in_files_keep_every_digit(tmp_path):
    numbers = pd.DataFrame({"x, y": [0.1 + 0.2, 1e-300, np.nan]})
    jobs.write_table(numbers, tmp_path / "t.csv")
    pd.testing.assert_frame_equal(jobs.read_table(tmp_path / "t.csv"), numbers, check_exact=True)


def test_holes_are_filled_and_nothing_else(filler):
    filled = filler(Isolated, "1.4").fit(TABLE, SCHEMA).impute(HOLES)
    assert filled.index.equals(TABLE.index)
    assert filled.columns.equals(TABLE.columns)
    known = HOLES.notna()
    assert (filled[known].eq(TABLE[known]) | ~known).all(axis=None)
    assert filled["size"].iloc[0] == filled["count"].iloc[1] == 1.4
    assert filled["code"].iloc[2] == 7
    assert filled["shape"].iloc[3] == "long"
    assert filled["sold"].iloc[4] == True  # noqa: E712 - not 1
    assert filled[["size", "count"]].dtypes.eq("float64").all()


def test_a_worker_that_leaves_holes_is_an_error(filler):
    with pytest.raises(WorkerFailed, match="Filler left 5 cells empty"):
        filler(Isolated, "").fit(TABLE, SCHEMA).impute(HOLES)


def test_a_table_filled_with_means_is_refused(filler):
    holes = TABLE.assign(size=[1.0, np.nan, np.nan, 2.0, 3.0])
    with pytest.raises(WorkerFailed, match="every hole of 'size' with the mean"):
        filler(Stacked, TABLE["size"].mean()).fit(TABLE, SCHEMA).impute(holes)
    stacked = pd.concat([TABLE["size"], holes["size"]]).mean()
    with pytest.raises(WorkerFailed, match="every hole of 'size' with the mean"):
        filler(Stacked, stacked).fit(TABLE, SCHEMA).impute(holes)


def test_a_table_filled_with_anything_else_is_taken(filler):
    holes = TABLE.assign(size=[1.0, np.nan, np.nan, 2.0, 3.0])
    model = filler(Stacked, TABLE["size"].mean() + 0.01).fit(TABLE, SCHEMA)
    assert model.impute(holes)["size"].iloc[1] == pytest.approx(2.51)
    assert "quick" in model.note
    assert "together" in model.note


def test_a_job_goes_with_its_method(filler):
    model = filler(Isolated, "1").fit(TABLE, SCHEMA)
    folder = model.job
    assert folder.exists()
    del model
    assert not folder.exists()


def test_what_is_not_trained_says_so():
    with pytest.raises(NotFitted, match="HyperImpute has not been trained"):
        method("hyperimpute").impute(HOLES)


def test_conditions_are_beyond_great():
    with pytest.raises(CannotDraw, match="size > 3"):
        method("great").sample(3, where="size > 3")


@pytest.mark.parametrize("name", [name for name, where in METHODS.items() if "isolated" in where])
def test_every_method_has_its_worker_and_pins(name):
    found = method(name)
    assert (jobs.WORKERS / found.worker).is_file()
    wanted = Environment.named(found.environment).wanted
    assert all("==" in line for line in wanted)
    assert not any(line.startswith("torch") for line in wanted[1:]), "torch comes first"
