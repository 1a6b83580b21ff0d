"""The registry of formats: a new format is one entry, a source and a writer."""

import pyarrow as pa
import pytest

from harpoon import InvalidOption, InvalidTable, io
from harpoon.engines.blocks import FileSet
from harpoon.io import DATABASES, FORMATS, Format, Location
from harpoon.io.source import Chunk, Source, rebatch
from harpoon.io.text_types import format_texts

WIDTH = 8
TABLE = pa.table({"name": ["ann", "bob", None], "age": ["31", None, "7"]})


class FixedWidthSource(Source):
    """Columns of eight characters; the first line has the names."""

    def __init__(self, content):
        super().__init__()
        with content.open() as file:
            self.lines = file.read().decode().splitlines()

    @property
    def schema(self):
        return pa.schema([(name, pa.string()) for name in self._cells(self.lines[0])])

    def chunks(self, size, row_offset=0):
        rows = [[cell or None for cell in self._cells(line)] for line in self.lines[1:]]
        table = pa.Table.from_pylist([dict(zip(self.schema.names, row, strict=True)) for row in rows], self.schema)
        yield from map(Chunk, rebatch([table], size, row_offset))

    def _cells(self, line):
        return [line[start : start + WIDTH].strip() for start in range(0, len(line), WIDTH)]


class FixedWidthWriter:
    def __init__(self, sink, delimiter):
        self.sink, self.started = sink, False

    def write(self, table):
        rows = zip(*(format_texts(column).to_pylist() for column in table.columns), strict=True)
        for row in rows if self.started else [table.column_names, *rows]:
            self.sink.write("".join(f"{cell or '':{WIDTH}}" for cell in row).encode() + b"\n")
        self.started = True


@pytest.fixture
def fixed_width(monkeypatch):
    entry = Format("fixed", "fixed-width", (".fwf",), lambda content, *_: FixedWidthSource(content), FixedWidthWriter)
    monkeypatch.setitem(FORMATS, "fixed", entry)


@pytest.mark.parametrize("name", ["rows.fwf", "rows.fwf.gz"])
def test_a_new_format_is_read_and_written(fixed_width, tmp_path, name):
    io.write_table(tmp_path / name, TABLE)
    assert io.read_table(tmp_path / name).to_pydict() == TABLE.to_pydict()
    assert [part.num_rows for part in io.read_batches(tmp_path / name, 2)] == [2, 1]
    assert Location.parse(tmp_path / name).with_number(2).path.name == name.replace("rows", "rows.2")


def test_engines_read_a_new_format_by_blocks(fixed_width, tmp_path):
    for number in range(2):
        io.write_table(tmp_path / f"{number}.fwf", TABLE)
    files = FileSet.from_path(tmp_path)
    blocks = files.blocks(2)
    assert [block.n_rows for block in blocks] == [2, 1, 2, 1]
    assert [len(task) for task in files.tasks(blocks)] == [2, 2]  # a file is read from its start
    read = {block.row_offset: table["name"].to_pylist() for block, table in files.read(blocks[1:])}
    assert read == {2: [None], 3: ["ann", "bob"], 5: [None]}


def test_a_new_format_may_be_named_instead_of_its_suffix(fixed_width, tmp_path):
    io.write_table(tmp_path / "rows", TABLE, format="fixed")
    assert (tmp_path / "rows").read_text().startswith("name    age     \n")
    with pytest.raises(InvalidOption, match="'fixed'"):
        io.write_table(tmp_path / "other", TABLE, format="fixd")


@pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)
def test_every_format_is_found_by_its_suffixes_and_its_content(tmp_path, format_):
    first, *others = format_.suffixes
    io.write_table(tmp_path / f"rows{first}", TABLE)
    content = (tmp_path / f"rows{first}").read_bytes()
    assert content.startswith(format_.magic)
    for name in (*(f"rows{suffix}" for suffix in others), *(["rows.csv", "rows"] if format_.is_binary else [])):
        (tmp_path / name).write_bytes(content)
        assert io.read_table(tmp_path / name).to_pydict() == io.read_table(tmp_path / f"rows{first}").to_pydict()


@pytest.mark.parametrize("format_", [f for f in FORMATS.values() if f.is_binary], ids=lambda f: f.name)
def test_a_binary_file_must_be_what_its_name_says(tmp_path, format_):
    path = tmp_path / f"rows{format_.suffixes[0]}"
    path.write_text("x,y\n1,2\n")
    with pytest.raises(InvalidTable, match=f"is not a {format_.title} file, although its name says so"):
        io.read_table(path)


def test_names_are_keys():
    assert all(name == format_.name for name, format_ in FORMATS.items())
    assert all(name == database.name for name, database in DATABASES.items())
    suffixes = [suffix for format_ in FORMATS.values() for suffix in format_.suffixes]
    assert len(suffixes) == len(set(suffixes))
