"""Data sets from folders, from the cache and from a local publisher."""

import gzip
import io
import struct
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from harpoon.exceptions import InvalidOption
from harpoon_bench import datasets, download
from harpoon_bench.download import DataUnavailable

CALIFORNIA = "longitude,total_bedrooms,ocean_proximity\n" + "".join(
    f"-{i}.5,{'' if i == 3 else i},INLAND\n" for i in range(20)
)


@pytest.fixture(autouse=True)
def isolate(tmp_path, monkeypatch):
    """Hide the folders and the cache of the machine that runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HARPOON_DATA", raising=False)
    monkeypatch.setenv("HARPOON_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def publisher(monkeypatch):
    """A local server: `publisher(name, content)` sets its response for a data set."""
    contents, requested = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            content = contents.get(self.path.strip("/"))
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def publish(name, content, text=None):
            contents[name] = content
            source = replace(download.SOURCES[name], url=f"http://127.0.0.1:{server.server_port}/{name}")
            if text is not None:
                source = replace(source, sha256=download.checksum(text))
            monkeypatch.setitem(download.SOURCES, name, source)

        publish.requested = requested
        yield publish
        server.shutdown()


def make_zip(**files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return packed.getvalue()


def make_excel(rows):
    """Return a sheet in the oldest Excel format: records of a type, a length and bytes."""
    records = [struct.pack("<HHHH", 0x0009, 4, 2, 0x10)]
    for y, row in enumerate(rows):
        for x, value in enumerate(row):
            position = struct.pack("<HH3s", y, x, b"\0\0\0")
            if isinstance(value, str):
                cell = position + struct.pack("<B", len(value)) + value.encode()
                records.append(struct.pack("<HH", 0x0004, len(cell)) + cell)
            else:
                cell = position + struct.pack("<d", value)
                records.append(struct.pack("<HH", 0x0003, len(cell)) + cell)
    return b"".join([*records, struct.pack("<HH", 0x000A, 0)])


def test_load_splits_rows_as_in_the_paper(tmp_path):
    (tmp_path / "california.csv.gz").write_bytes(gzip.compress(CALIFORNIA.encode()))
    found = datasets.load("california", tmp_path)
    assert len(found.table) == 20
    assert list(found.train.columns) == ["longitude", "total_bedrooms"]
    order = np.arange(19)  # 20 rows, one of them incomplete
    np.random.RandomState(1234).shuffle(order)
    complete = [i for i in range(20) if i != 3]
    assert found.train["total_bedrooms"].tolist() == [complete[i] for i in order[:13]]
    assert found.test["total_bedrooms"].tolist() == [complete[i] for i in order[13:]]
    assert found.sha256 == download.checksum(CALIFORNIA)
    assert (found.target, found.conditions) == (None, {})


def test_load_reads_the_environment_variable_and_the_shared_folder(tmp_path, monkeypatch):
    shared, named, here = tmp_path / "shared" / "data", tmp_path / "named", tmp_path / "work"
    for folder, rows in ((shared, 11), (named, 12)):
        folder.mkdir(parents=True)
        (folder / "california.csv").write_text("".join(CALIFORNIA.splitlines(keepends=True)[: rows + 1]))
    here.mkdir()
    monkeypatch.chdir(here)
    assert len(datasets.load("california").table) == 11
    monkeypatch.setenv("HARPOON_DATA", str(named))
    assert len(datasets.load("california").table) == 12


def test_gesture_has_one_recording_twice(tmp_path):
    header = ",".join([*map(str, range(1, 33)), "Phase", "source"])
    rows = [f"{','.join([str(i)] * 32)},D,{source}" for i, source in enumerate(download.RECORDINGS)]
    (tmp_path / "gesture.csv").write_text("\n".join([header, *rows]) + "\n")
    found = datasets.load("gesture", tmp_path)
    assert found.table["source"].tolist() == ["a1", "a2", "a3", "b1", "b1", "c1", "c3"]
    assert list(found.train.columns) == [str(i) for i in range(1, 33)]


def test_spec_combines_two_conditions_to_four():
    assert datasets.SPECS["adult"].conditions() == {
        "range": "age >= 50",
        "category": "workclass = 'State-gov'",
        "and": "age >= 50 and workclass = 'State-gov'",
        "or": "age >= 50 or workclass = 'State-gov'",
    }


def test_download_is_cached(publisher, tmp_path):
    publisher("california", CALIFORNIA.replace("\n", "\r\n").encode(), CALIFORNIA)
    first, second = datasets.load("california"), datasets.load("california")
    assert publisher.requested == ["/california"]
    assert first.train.equals(second.train)
    assert [path.name for path in (tmp_path / "cache" / "data").iterdir()] == ["california.csv"]


def test_damaged_cache_is_replaced(publisher, tmp_path):
    publisher("california", CALIFORNIA.encode(), CALIFORNIA)
    (tmp_path / "cache" / "data").mkdir(parents=True)
    (tmp_path / "cache" / "data" / "california.csv").write_text(CALIFORNIA[:100])
    assert len(datasets.load("california").table) == 20


def test_wrong_checksum_is_an_error_and_not_cached(publisher, tmp_path):
    publisher("california", CALIFORNIA.encode(), CALIFORNIA + "more")
    with pytest.raises(DataUnavailable, match="must have the checksum"):
        datasets.load("california")
    assert not list((tmp_path / "cache" / "data").iterdir())


@pytest.mark.parametrize("content", [b"<html>busy</html>", make_zip(readme="nothing else")])
def test_wrong_archive_is_an_error(publisher, content):
    publisher("adult", content)
    with pytest.raises(DataUnavailable, match=r"but sent something else.*adult\.csv\.gz into a folder"):
        datasets.load("adult")


def test_unreachable_publisher_is_an_error(publisher, monkeypatch):
    publisher("adult", None)
    with pytest.raises(DataUnavailable, match=r"cannot be downloaded.*404|cannot be downloaded.*Not Found"):
        datasets.load("adult")
    unreachable = replace(download.SOURCES["adult"], url="http://127.0.0.1:9/adult.zip")
    monkeypatch.setitem(download.SOURCES, "adult", unreachable)
    with pytest.raises(DataUnavailable, match="Connect to the network"):
        datasets.load("adult")


ARCHIVES = {
    "adult": (
        make_zip(adult__data="39, State-gov, 7, B, 13, N, A, N, W, Male, 2, 0, 40, US, <=50K\n\n", adult__test="|x"),
        ",".join(download.ADULT.split()) + "\n39,State-gov,7,B,13,N,A,N,W,Male,2,0,40,US,<=50K\n",
    ),
    "shoppers": (
        make_zip(online_shoppers_intention__csv="Month,Revenue\r\nFeb,FALSE\r\n"),
        "Month,Revenue\nFeb,FALSE\n",
    ),
    "bean": (
        make_zip(
            Dry_Bean_Dataset__arff="% notes\n@RELATION b\n@ATTRIBUTE Area REAL\n@ATTRIBUTE Class {A}\n@DATA\n2.50,A\n"
        ),
        "Area,Class\n2.50,A\n",
    ),
    "gesture": (
        make_zip(**{f"{r}_va3__csv": f"1,Phase\n0.{i},D\n" for i, r in enumerate(download.RECORDINGS)}),
        "1,Phase,source\n" + "".join(f"0.{i},D,{r}\n" for i, r in enumerate(download.RECORDINGS)),
    ),
    "default": (
        make_zip(clients__xls=make_excel([["", "X1", "X2"], ["ID", "AGE", "due"], [1.0, 24.0, -2.0]])),
        "AGE,due\n24,-2\n",
    ),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_archive_format_becomes_csv(publisher, name):
    content, text = ARCHIVES[name]
    publisher(name, content, text)
    assert download.download(name) == text


def test_wrong_excel_sheet_is_an_error(publisher):
    publisher("default", make_zip(clients__xls=b"no sheet"))
    with pytest.raises(DataUnavailable, match="but sent something else"):
        download.download("default")


def test_wrong_names_and_folders_are_errors(tmp_path):
    with pytest.raises(InvalidOption, match="Did you mean 'adult'"):
        datasets.load("adlut")
    with pytest.raises(DataUnavailable, match=r"must hold adult\.csv\.gz"):
        datasets.load("adult", tmp_path)
    (tmp_path / "adult.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataUnavailable, match="cannot be read"):
        datasets.load("adult", tmp_path)
