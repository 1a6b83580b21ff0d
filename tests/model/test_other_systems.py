"""What Windows and macOS do differently, simulated: files in use, synchronisation, encodings, processors, paths."""

import errno
import fcntl
import json
import os
import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from harpoon import Harpoon, ModelFileError, engines, io
from harpoon._utils import files, hardware
from harpoon.io import Location
from harpoon.report import Page, compare
from harpoon.sklearn import HarpoonImputer
from tests.support import cli
from tests.support.frames import TINY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="simulates other systems by /proc of Linux")
REMOVING = ("unlink", "remove", "replace", "rename", "rmdir")


def open_files() -> set[str]:
    """Return the files that this process has open, or mapped into memory."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.add(os.readlink(link))  # noqa: PTH115 - a target may have the form "pipe:[7]"
        except OSError:
            continue
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return found | {line.split(maxsplit=5)[5] for line in maps if len(line.split(maxsplit=5)) > 5}


@pytest.fixture
def windows_files(monkeypatch):
    """Files that this process has open can be neither removed nor replaced, as on Windows."""

    def guard(name):
        original = getattr(os, name)

        def guarded(*paths, **options):
            directory = options.get("dir_fd") or options.get("src_dir_fd")
            base = Path(f"/proc/self/fd/{directory}").resolve() if directory is not None else Path()
            used = {str((base / os.fsdecode(path)).resolve()) for path in paths} & open_files()
            if used and not all(Path(path).is_dir() for path in used):
                raise PermissionError(errno.EACCES, "The process cannot access the file", min(used))
            return original(*paths, **options)

        monkeypatch.setattr(os, name, guarded)

    for name in REMOVING:
        guard(name)


@pytest.fixture
def windows_sync(monkeypatch):
    """Only what is open for writing can be synchronised, as on Windows."""
    original = os.fsync

    def fsync(descriptor):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def rows():
    random = np.random.default_rng(0)  # no cell is always missing with others
    kinds = ["low", "high", "łow", None]
    cells = {"größe": random.normal(size=100).round(1), "kind 😀": [kinds[i] for i in random.integers(4, size=100)]}
    cells["größe"][random.random(100) < 0.2] = np.nan
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in cells.items()})


@pytest.fixture(scope="module")
def model():
    return Harpoon(**TINY).fit(rows())


def test_the_simulation_guards_open_files(tmp_path, windows_files):
    path = tmp_path / "open"
    path.write_bytes(b"x")
    with path.open("rb"), pytest.raises(PermissionError):
        path.unlink()
    (tmp_path / "new").write_bytes(b"y")
    with pa.memory_map(str(path)), pytest.raises(PermissionError):
        (tmp_path / "new").replace(path)
    path.unlink()


def test_files_are_closed_before_they_are_replaced(model, tmp_path, windows_files, windows_sync):
    """Models, tables of every format, databases, reports and pickles, each written twice and read in between."""
    for _ in range(2):
        model.save(tmp_path / "m.harpoon")
        loaded = Harpoon.load(tmp_path / "m.harpoon")
    assert loaded.sample(5).equals(model.sample(5))
    table = rows()
    targets = [str(tmp_path / f"t{suffix}") for suffix in (".csv", ".parquet", ".arrow", ".jsonl")]
    targets += [f"sqlite:///{tmp_path}/t.db#t", f"duckdb:///{tmp_path}/t.duckdb#t"]
    for target in targets:
        for _ in range(2):
            io.write_table(target, table, force=True)
            assert io.read_table(target).num_rows == table.num_rows, target
    for _ in range(2):
        Page(compare(table, table)).save(tmp_path / "page.html")


def test_engines_and_commands_close_what_they_remove(model, tmp_path, windows_files, windows_sync):
    model.save(tmp_path / "m.harpoon")
    pq.write_table(rows(), tmp_path / "t.parquet")
    with pa.CompressedOutputStream(str(tmp_path / "t.csv.gz"), "gzip") as file:
        pacsv.write_csv(rows(), file)
    for _ in range(2):
        engines.impute(tmp_path / "t.parquet", tmp_path / "m.harpoon", tmp_path / "out", block_size=40, force=True)
        engines.sample(50, model, tmp_path / "new.csv", block_size=40, force=True)
        for source in (tmp_path / "t.parquet", tmp_path / "t.csv.gz"):
            done = cli.call(
                "impute", tmp_path / "m.harpoon", source, "-o", tmp_path / f"filled-{source.name}", "--force"
            )
            assert done.code == 0, done.said
            before = source.read_bytes()  # in place, the table may still be open: it is replaced, or left as it was
            done = cli.call("impute", tmp_path / "m.harpoon", source, "-o", source, "--force")
            assert done.code == 0 or ("cannot be written" in done.said and source.read_bytes() == before)
    assert pq.read_table(tmp_path / "out").num_rows == 100
    done = cli.call("fit", tmp_path / "t.csv.gz", "-o", tmp_path / "m.harpoon", "--max-epochs", 1, "--force")
    assert done.code == 0, done.said
    with duckdb.connect(str(tmp_path / "a.duckdb")) as one, sqlite3.connect(tmp_path / "a.db") as other:
        one.sql("create table t (x double)")
        other.execute("create table t (x double)")
    other.close()
    for url in (f"duckdb:///{tmp_path}/a.duckdb#t", f"sqlite:///{tmp_path}/a.db#t"):
        done = cli.call("sample", tmp_path / "m.harpoon", "-n", 5, "-o", url, "--force")
        assert done.code == 0, done.said


def test_a_file_in_use_is_waited_for_and_then_left_as_it_was(model, tmp_path, monkeypatch):
    target, replace, refused = tmp_path / "m.harpoon", Path.replace, []
    model.save(target)
    before = target.read_bytes()

    def busy(self, other):
        if len(refused) < times:
            refused.append(other)
            raise PermissionError(errno.EACCES, "in use")
        return replace(self, other)

    monkeypatch.setattr(Path, "replace", busy)
    monkeypatch.setattr(files, "REPLACE_ATTEMPTS", 5)
    monkeypatch.setattr(files, "RETRY_SECONDS", 0.0)
    times = 4
    model.save(target)
    refused.clear()
    times = 5
    with pytest.raises(ModelFileError, match="in use"):
        model.save(target)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.harpoon"]


def test_pickled_imputers_reach_processes_that_share_no_memory(model):
    """Windows and macOS start processes afresh: what they get is pickled."""
    frame = rows().to_pandas()
    imputer = HarpoonImputer(max_epochs=1, options={"hidden": 8}, random_state=0).fit(frame)
    assert pickle.loads(pickle.dumps(imputer)).transform(frame).equals(imputer.transform(frame))  # noqa: S301


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_console_of_another_encoding_gets_every_answer(model, tmp_path, encoding):
    """Names and labels that it cannot show are escaped, and tables stay UTF-8."""
    model.save(tmp_path / "m.harpoon")
    variables = {**cli.ENVIRONMENT, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    asked = (["info", "m.harpoon"], ["info", "m.harpoon", "--json"], ["sample", "m.harpoon", "-n", "3"])
    script = (  # one process answers all: importing takes longer than answering
        "import sys\nfrom harpoon.apps.cli import main\n"
        f"for arguments in {asked!r}:\n    sys.argv[1:] = arguments\n"
        "    try:\n        main()\n    except SystemExit as end:\n        assert not end.code, end.code\n"
        "    sys.stdout.flush()\n    sys.stdout.buffer.write(b'\\0')\n    sys.stdout.buffer.flush()\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=variables)  # noqa: S603
    assert done.returncode == 0, done.stderr
    shown, data, rows, _ = done.stdout.split(b"\0")
    assert "😀".encode("ascii", "backslashreplace") in shown
    assert "😀" in json.dumps(json.loads(data), ensure_ascii=False)
    assert rows.decode("utf-8").splitlines()[0] == "größe,kind 😀"


def test_text_files_are_utf_8_whatever_the_system_prefers(model, tmp_path):
    """Python warns where the encoding of the system would decide; warnings are errors here."""
    model.save(tmp_path / "m.harpoon")
    script = (
        "import sys, pyarrow as pa\nfrom harpoon import Harpoon, engines, report\nfrom harpoon.data import Schema\n"
        "model = Harpoon.load('m.harpoon', progress=False)\nmodel.schema_.save('s.json'); Schema.load('s.json')\n"
        "engines.sample(5, model, 'out.csv')\nmodel.report(rows=20).save('page.html')\n"
    )
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=cli.ENVIRONMENT)  # noqa: S603
    assert done.returncode == 0, done.stderr.decode()


def test_a_machine_without_affinity_and_sysconf_is_described(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(hardware, "CGROUP_LIMITS", ())
    assert hardware.usable_processors() == os.cpu_count()
    assert hardware.memory_bytes() is None


@pytest.mark.parametrize("path", [r"C:\data\rows.csv", "D:/data/rows.parquet", r"\\server\share\rows.csv"])
def test_a_path_of_windows_is_no_url(path):
    location = Location.parse(path)
    assert str(location.path) == path
    assert location.format == PureWindowsPath(path).suffix[1:]


def test_a_database_on_a_drive_is_found():
    location = Location.parse("sqlite:///C:/data/shop.db#orders")
    assert (str(location.path), location.table) == ("C:/data/shop.db", "orders")
