"""The files of a long table: all looked at before any work is done, numbered through, and read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from pathlib import Path

import pyarrow as pa

from harpoon import io
from harpoon._text import format_list
from harpoon.engines.range_index import RangeIndex, counted_out
from harpoon.exceptions import HarpoonError, InvalidOption, InvalidTable, TableFileError
from harpoon.io import Location, ReadOptions, Source
from harpoon.io.columnar import ParquetSource
from harpoon.io.delimited import DelimitedSource
from harpoon.io.text_types import TypeInference
from harpoon.io.writers import cast_to_schema

FORMATS = {"parquet": "Parquet", "csv": "CSV", "tsv": "CSV"}
READ = 2**14  # rows at a time


@dataclass(frozen=True)
class Block:
    """Some rows that are worked on together.

    Attributes:
        first_row: The number of the first row in the whole table.
        rows: How many there are.
        path: The file that they are read from; empty for rows that are drawn.
        start: The number of the first row in that file.
    """

    row_offset: int
    n_rows: int
    path: str = ""
    file_offset: int = 0


@dataclass(frozen=True)
class TableFile:
    """A file, and how many rows it has."""

    path: str
    n_rows: int


@dataclass(frozen=True)
class FileSet:
    """Files that together are one table, in the order of their names.

    Attributes:
        root: The folder, or the one file.
        schema: The columns that every file has.
        files: The files.
        how: How to read them, with the types of all columns if they are text.
    """

    root: Path
    schema: pa.Schema
    files: tuple[TableFile, ...]
    read_options: ReadOptions

    @classmethod
    def from_path(cls, source: str | os.PathLike[str], how: ReadOptions | None = None) -> FileSet:
        """A file, or a folder of them, of which every one is looked at."""
        paths = _found(source)
        first = {FORMATS[Location.parse(path).format]: path for path in reversed(paths)}  # of each kind
        if len(first) > 1:
            names = " and ".join(f"{str(path.name)!r}, a {kind} file" for kind, path in sorted(first.items()))
            raise InvalidTable(f"{str(source)!r} holds {names} by their names. Put each kind into its own folder.")
        root = Path(source).resolve()
        return _columnar(root, paths) if "Parquet" in first else _delimited(root, paths, how or ReadOptions())

    @property
    def n_rows(self) -> int:
        """How many rows there are altogether."""
        return sum(shard.n_rows for shard in self.files)

    def blocks(self, size: int) -> list[Block]:
        """All rows in blocks of so many, none across two files; a table without rows has one block."""
        ends = list(accumulate((shard.n_rows for shard in self.files), initial=0))
        found = [
            Block(first_row + start, min(size, shard.n_rows - start), shard.path, start)
            for shard, first_row in zip(self.files, ends, strict=False)
            for start in range(0, shard.n_rows, size)
        ]
        return found or [Block(0, 0, self.files[0].path)]

    def read(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """The rows of some blocks, file after file; no more of them is held than a block needs."""
        for path, some in groupby(blocks, key=lambda block: block.path):
            with errors_name_file(path), io.open_source(path, self.read_options) as source:
                wanted = list(some)
                yield from _cut(source, wanted, self.schema)

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """The blocks that belong into one hand: text is read from its start, so a text file is one task."""
        if self.read_options.types:
            return [list(some) for _, some in groupby(blocks, key=lambda block: block.path)]
        return [[block] for block in blocks]


@contextmanager
def errors_name_file(path: str | Path, first_row: int = 0) -> Iterator[None]:
    """What is wrong with a file, said with its name, and with the number of its first row unless it is 0."""
    try:
        yield
    except HarpoonError as error:
        if str(path) in str(error):
            raise
        begins = f", which begins with row {first_row}" if first_row else ""
        raise type(error)(f"{str(path)!r}{begins}: {error}") from None


def check_local_path(place: str | os.PathLike[str]) -> None:
    """Refuse what is no path: engines open files, and Ray and Spark open the rest."""
    if "://" in str(place) or not str(place):
        raise InvalidOption(
            f"Engines read and write files, by paths that every machine knows, got {str(place)!r}. For what is "
            "elsewhere, give a Ray Dataset or a Spark DataFrame, and write what you get back."
        )


def _found(place: str | os.PathLike[str]) -> list[Path]:
    """The files of a folder, in the order of their names, or the file itself."""
    check_local_path(place)
    source = Path(place)
    if not source.exists():
        raise TableFileError(f"There is no file and no folder {str(source)!r}.")
    whole = source.absolute()  # workers may be elsewhere
    paths = sorted(_visible(whole)) if whole.is_dir() else [whole]
    if not paths:
        raise InvalidTable(f"The folder {str(source)!r} is empty. It should hold Parquet or CSV files.")
    for path in paths:
        if Location.parse(path).format not in FORMATS:
            raise InvalidTable(f"{str(path)!r} is neither a Parquet nor a CSV file by its name. Move it elsewhere.")
    return paths


def _visible(folder: Path) -> Iterator[Path]:
    """All files below a folder but those that Spark and others mean to hide."""
    for path in folder.iterdir():
        if path.name.startswith((".", "_")):
            continue
        if not path.is_dir():
            yield path
        elif "=" in path.name:
            raise InvalidTable(
                f"{str(path)!r} holds the column {path.name.partition('=')[0]!r} in the names of folders, where it "
                "would be lost. Read it with Ray or Spark, and give the Dataset or DataFrame."
            )
        else:
            yield from _visible(path)


def _columnar(root: Path, paths: Sequence[Path]) -> FileSet:
    """Parquet files know their columns and rows."""
    shards, schema = [], None
    for path in paths:
        with errors_name_file(path), io.open_source(path) as source:
            here = counted_out(source.schema)
            schema = here if schema is None else _agreed(schema, here, paths[0])
            shards.append(TableFile(str(path), _parquet(source).file.metadata.num_rows))
    return FileSet(root, schema, tuple(shards), ReadOptions())


def _delimited(root: Path, paths: Sequence[Path], how: ReadOptions) -> FileSet:
    """Text has to be read to know how many rows there are, and what they hold."""
    shards, names, survey = [], list[str](), TypeInference([])
    for path in paths:
        with errors_name_file(path):
            with io.open_source(path, how) as source:
                here = _text(source).names
            if not names:
                names = here
                survey = TypeInference([name for name in names if name not in how.types], how.missing_words)
            _agreed(_untyped(names), _untyped(here), paths[0])
            shards.append(TableFile(str(path), _surveyed(path, _as_texts(how, names), survey)))
    types = {name: how.types.get(name) or survey.types[name] for name in names}
    return FileSet(root, pa.schema(list(types.items())), tuple(shards), replace(how, types=types))


def _surveyed(path: Path, how: ReadOptions, survey: TypeInference) -> int:
    """How many rows a text file has; every cell of it is looked at."""
    rows = 0
    with io.open_source(path, how) as source:
        for part in source.chunks(READ):
            survey.update(part.texts)
            rows += part.table.num_rows
    return rows


def _as_texts(how: ReadOptions, names: Sequence[str]) -> ReadOptions:
    return replace(how, types={name: how.types.get(name, pa.string()) for name in names})


def _untyped(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _agreed(one: pa.Schema, other: pa.Schema, first: Path) -> pa.Schema:
    """What two files have in common: the same columns, of types that go together."""
    lacking = [name for name in one.names if name not in other.names]
    more = [name for name in other.names if name not in one.names]
    problems = [f"it lacks {format_list(lacking)}"] * bool(lacking) + [f"it adds {format_list(more)}"] * bool(more)
    for f in [] if problems else one:
        here = other.field(f.name).type
        common = _common(f.type, here)
        if common is None:
            problems.append(f"{f.name!r} is {here}, not {f.type}")
        elif common != f.type:
            one = one.set(one.get_field_index(f.name), f.with_type(common))
    if problems:
        raise InvalidTable(
            f"Its columns are not those of {str(first)!r}: {'; '.join(problems)}. All files of a folder must have the "
            "same columns; mend it or move it elsewhere."
        )
    return one


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """A type that holds the values of both, if there is one: integers are floats where a file has holes.

    >>> _common(pa.int64(), pa.float64()), _common(pa.string(), pa.null()), _common(pa.string(), pa.int64())
    (DataType(double), DataType(string), None)
    """
    if one == other:
        return one
    pair = [pa.schema([("", _plain(dtype))]) for dtype in (one, other)]
    try:
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        return None


def _plain(dtype: pa.DataType) -> pa.DataType:
    """The type of the values, however they are stored."""
    if pa.types.is_dictionary(dtype):
        return _plain(dtype.value_type)
    return pa.string() if pa.types.is_string_view(dtype) else dtype


def _cut(source: Source, blocks: Sequence[Block], schema: pa.Schema) -> Iterator[tuple[Block, pa.Table]]:
    """The rows of each block, out of rows that follow each other."""
    at = blocks[0].file_offset if isinstance(source, ParquetSource) else 0
    parts = _indexed(source, at) if isinstance(source, ParquetSource) else (part.table for part in source.chunks(READ))
    held = schema.empty_table()
    for block in blocks:
        while at + held.num_rows < block.file_offset + block.n_rows:
            part = next(parts, None)
            if part is None:
                raise TableFileError(f"{block.path!r} has fewer rows than before; was it changed meanwhile?")
            held = pa.concat_tables([held, _as_agreed(part, schema, block.path)])
            passed = min(max(block.file_offset - at, 0), held.num_rows)
            held, at = held.slice(passed), at + passed
        yield block, held.slice(block.file_offset - at, block.n_rows)


def _indexed(source: ParquetSource, first_row: int) -> Iterator[pa.Table]:
    """The rows of a Parquet file from one of them on, with the index of pandas as a column."""
    index = RangeIndex.of(source.schema)
    for part in source.chunks(READ, first_row):
        rows = part.table
        if index is not None:
            rows = rows.append_column(index.name, index.column(first_row, rows.num_rows))
        yield rows
        first_row += rows.num_rows


def _as_agreed(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """The columns with the types of all files."""
    try:
        return cast_to_schema(table.select(schema.names), schema)
    except pa.ArrowInvalid as error:
        raise InvalidTable(
            f"{path!r} holds values that the type of another file cannot tell apart: {error}. Give the column the same "
            "type in all files."
        ) from None


def _parquet(source: Source) -> ParquetSource:
    if not isinstance(source, ParquetSource):
        raise InvalidTable("It is no Parquet file, whatever its name says.")
    return source


def _text(source: Source) -> DelimitedSource:
    if not isinstance(source, DelimitedSource):
        raise InvalidTable("It is no CSV file, whatever its name says.")
    return source
