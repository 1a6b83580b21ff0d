"""Files as one long table, cut into blocks of consecutive rows.

All files are checked before any work is done: each must be readable, and all must have the same columns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harpoon import io
from harpoon._formatting import format_list
from harpoon.exceptions import HarpoonError, HarpoonWarning, InvalidOption, InvalidTable, TableFileError, warn
from harpoon.io import FORMATS, Chunk, Location, ReadOptions, Source
from harpoon.io.columnar import cast_to_schema
from harpoon.io.source import has_spelling, spellings
from harpoon.io.text_types import TypeInference

READ_ROWS = 2**14  # rows at a time
PANDAS_METADATA = b"pandas"


@dataclass(frozen=True)
class Block:
    """Consecutive rows that are processed together: from `row_offset` on in the whole table.

    They begin at `file_offset` of the file `path`, which is empty for rows that are sampled.
    """

    row_offset: int
    n_rows: int
    path: str = ""
    file_offset: int = 0


@dataclass(frozen=True)
class TableFile:
    """A file and its number of rows, its size, and the time of its last change."""

    path: str
    n_rows: int
    n_bytes: int
    modified_ns: int


@dataclass(frozen=True)
class FileSet:
    """Files that form one table, in the order of their names."""

    root: Path  # the folder, or the one file
    schema: pa.Schema = field(repr=False)  # the columns that all files have
    files: tuple[TableFile, ...]
    read_options: ReadOptions  # for text files with the types of all columns
    delimiter: str | None = None  # of the first file, if it is delimited text
    has_row_offsets: bool = False  # whether rows in the middle of a file can be read without those before them

    @classmethod
    def from_path(cls, source: str | os.PathLike[str], read_options: ReadOptions | None = None) -> FileSet:
        """Open a file or a folder, and check every file."""
        paths = _find_files(source)
        formats = {FORMATS[Location.parse(path).format]: path for path in reversed(paths)}  # the first of each
        if len(formats) > 1 and not all(format_.keeps_text for format_ in formats):
            pairs = sorted((format_.title, path.name) for format_, path in formats.items())
            names = " and ".join(f"{name!r}, a {title} file" for title, name in pairs)
            raise InvalidTable(f"{str(source)!r} holds {names} by their names. Put each format into its own folder.")
        is_text, delimiter = next(iter(formats)).keeps_text, None
        open_files = _open_text if is_text else _open_typed
        schema, n_rows, options = open_files(paths, read_options or ReadOptions())
        files = tuple(map(_table_file, paths, n_rows))
        if is_text:
            with errors_name_file(paths[0]), io.open_source(paths[0], options) as first:
                delimiter = first.delimiter
        has_row_offsets = all(format_.has_row_offsets for format_ in formats)
        return cls(Path(source).resolve(), schema, files, options, delimiter, has_row_offsets)

    def blocks(self, size: int) -> list[Block]:
        """Cut all rows into blocks of at most `size` rows, none across two files. An empty table has one block."""
        offsets = list(accumulate((file.n_rows for file in self.files), initial=0))
        blocks = [
            Block(row_offset + start, min(size, file.n_rows - start), file.path, start)
            for file, row_offset in zip(self.files, offsets, strict=False)
            for start in range(0, file.n_rows, size)
        ]
        return blocks or [Block(0, 0, self.files[0].path)]

    def read(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, pa.Table]]:
        """Yield blocks with their rows, file after file. Memory holds one block at a time."""
        return ((block, chunk.table) for block, chunk in self.read_chunks(blocks))

    def read_chunks(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, Chunk]]:
        """Yield blocks with their rows, and with the spelling of their cells if the files are text."""
        for path, group in groupby(blocks, key=lambda block: block.path):
            with errors_name_file(path), io.open_source(path, self.read_options) as source:
                yield from _read_blocks(source, list(group), self.schema)

    @property
    def is_text(self) -> bool:
        """Whether the files are text, whose cells have a spelling."""
        return self.delimiter is not None

    def spellings(self) -> dict[str, str]:
        """Return the spelling of the first cell of each column of booleans or times of text files."""
        names = {f.name for f in self.schema if self.is_text and has_spelling(f.type)}
        found: dict[str, str] = {}
        for file in self.files if names else ():
            with errors_name_file(file.path), io.open_source(file.path, self.read_options) as source:
                found = spellings(source) | found
            if names <= set(found):
                break
        return found

    def tasks(self, blocks: Iterable[Block]) -> list[list[Block]]:
        """Group blocks by worker. A file that is read from its start is one task, otherwise a block is one."""
        if self.has_row_offsets:
            return [[block] for block in blocks]
        return [list(group) for _, group in groupby(blocks, key=lambda block: block.path)]


def consecutive_runs(numbers: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield the start, the length and the first number of each run of consecutive row numbers.

    >>> list(consecutive_runs(np.array([4, 5, 6, 0])))
    [(0, 3, 4), (3, 1, 0)]
    """
    ends = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
    for start, end in pairwise(ends):
        if start < end:
            yield start, end - start, int(numbers[start])


@contextmanager
def errors_name_file(path: str | Path, row_offset: int = 0) -> Iterator[None]:
    """Add the name of the file to errors, and the number of its first row unless it is 0."""
    try:
        yield
    except HarpoonError as error:
        if str(path) in str(error):
            raise
        where = f"{str(path)!r}{f', which begins with row {row_offset}' if row_offset else ''}"
        if "problem" not in error.facts:  # a sentence by code would not name the file
            raise type(error)(f"{where}: {error}") from None
        facts = {**error.facts, "problem": f"{where}: {error.facts['problem']}"}
        raise type(error)(f"{where}: {error}", code=error.code, **facts) from None


def check_local_path(path: str | os.PathLike[str]) -> None:
    """Raise InvalidOption for a URL: engines open files, and Ray and Spark open the rest."""
    if "://" in str(path) or not str(path):
        raise InvalidOption(
            f"Engines read and write files, by paths that every machine sees, got {str(path)!r}. For tables elsewhere, "
            "use a Ray Dataset or a Spark DataFrame, and write what you get back."
        )


def _find_files(source: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a folder in the order of their names, or the file itself."""
    check_local_path(source)
    root = Path(source)
    if not root.exists():
        raise TableFileError(f"There is no file and no folder {str(root)!r}.")
    absolute = root.absolute()  # workers may have another working directory
    paths = sorted(_visible_files(absolute)) if root.is_dir() else [absolute]
    if not paths:
        raise InvalidTable(f"The folder {str(root)!r} is empty. It should hold files such as Parquet or CSV.")
    for path in paths:
        if Location.parse(path).format not in FORMATS:
            titles = ", ".join(format_.title for format_ in FORMATS.values())
            raise InvalidTable(f"{str(path)!r} does not end like a table file ({titles}). Move it elsewhere.")
    return paths


def _table_file(path: Path, n_rows: int) -> TableFile:
    status = path.stat()
    return TableFile(str(path), n_rows, status.st_size, status.st_mtime_ns)


def _visible_files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder except those that Spark and others hide."""
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
            yield from _visible_files(path)


Opened = tuple[pa.Schema, list[int], ReadOptions]  # the columns, the number of rows of each file, how to read them


def _open_typed(paths: Sequence[Path], options: ReadOptions) -> Opened:
    """Open files that have types of their own, and agree on common types."""
    counts, schema = [], None
    for path in paths:
        with errors_name_file(path), io.open_source(path, options) as source:
            own = _without_range_index(source.schema, str(path))
            schema = own if schema is None else _common_schema(schema, own, paths[0])
            if source.n_rows is None:
                counts.append(sum(chunk.table.num_rows for chunk in source.chunks(READ_ROWS)))
            else:
                counts.append(source.n_rows)
    return schema, counts, options


def _open_text(paths: Sequence[Path], options: ReadOptions) -> Opened:
    """Read text files once, to count their rows and to infer common types."""
    with errors_name_file(paths[0]), io.open_source(paths[0], options) as source:
        names = source.column_names
    counts, inference = [], TypeInference([name for name in names if name not in options.types], options.missing_words)
    as_text = {name: options.types.get(name, pa.string()) for name in names}
    for path in paths:
        with errors_name_file(path), io.open_source(path, replace(options, types=as_text)) as source:
            own = pa.schema([(name, as_text.get(name, pa.string())) for name in source.column_names])
            _common_schema(pa.schema(list(as_text.items())), own, paths[0])
            counts.append(0)
            for chunk in source.chunks(READ_ROWS):
                if chunk.texts is None:
                    raise InvalidTable("It is not a text file, although its name says so.")
                inference.update(chunk.texts)
                counts[-1] += chunk.table.num_rows
    types = {name: options.types.get(name) or inference.types[name] for name in names}
    return pa.schema(list(types.items())), counts, replace(options, types=types)


def _without_range_index(schema: pa.Schema, path: str) -> pa.Schema:
    """Drop the RangeIndex of pandas from the metadata: it counts the rows of one file, not those of a block.

    Warn unless pandas would number the rows in the same way.

    >>> notes = {"index_columns": ["key", {"kind": "range", "name": None, "start": 5, "stop": 8, "step": 1}]}
    >>> kept = _without_range_index(pa.schema([("key", pa.int8())], {"pandas": json.dumps(notes)}), "a.parquet")
    >>> kept.metadata
    {b'pandas': b'{"index_columns": ["key"]}'}
    """
    try:
        notes = json.loads((schema.metadata or {})[PANDAS_METADATA])
        ranges = [index for index in notes["index_columns"] if isinstance(index, dict)]
    except (KeyError, TypeError, ValueError):  # pandas did not write the file
        return schema
    if any(index.get("name") or index.get("step") != 1 for index in ranges):
        advice = "call reset_index() before the file is written"
        warn(HarpoonWarning(f"The RangeIndex of pandas in {path!r} is not kept; to keep it, {advice}."))
    notes["index_columns"] = [index for index in notes["index_columns"] if index not in ranges]
    return schema.with_metadata({**schema.metadata, PANDAS_METADATA: json.dumps(notes).encode()})


def _common_schema(one: pa.Schema, other: pa.Schema, first: Path) -> pa.Schema:
    """Return the columns of two files with types that hold the values of both, or raise InvalidTable."""
    lacking = [name for name in one.names if name not in other.names]
    more = [name for name in other.names if name not in one.names]
    problems = [f"it lacks {format_list(lacking)}"] * bool(lacking) + [f"it adds {format_list(more)}"] * bool(more)
    for f in [] if problems else one:
        own = other.field(f.name).type
        common = _common_type(f.type, own)
        if common is None:
            problems.append(f"{f.name!r} is {own}, not {f.type}")
        elif common != f.type:
            one = one.set(one.get_field_index(f.name), f.with_type(common))
    if problems:
        raise InvalidTable(
            f"Its columns are not those of {str(first)!r}: {'; '.join(problems)}. All files of a folder must have the "
            "same columns; fix it or move it elsewhere."
        )
    return one


def _common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a type that holds the values of both. Integers are floats where a file has missing cells.

    >>> _common_type(pa.int64(), pa.float64()), _common_type(pa.string(), pa.null())
    (DataType(double), DataType(string))
    >>> _common_type(pa.string(), pa.int64())
    """
    if one == other:
        return one
    pair = [pa.schema([("", _value_type(dtype))]) for dtype in (one, other)]
    try:
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:
        return None


def _value_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type of the values, independent of how they are stored."""
    if pa.types.is_dictionary(dtype):
        return _value_type(dtype.value_type)
    return pa.string() if pa.types.is_string_view(dtype) else dtype


def _read_blocks(source: Source, blocks: Sequence[Block], schema: pa.Schema) -> Iterator[tuple[Block, Chunk]]:
    """Yield the rows of each block of one file. All its blocks have the same size, except the last one."""
    start, size = blocks[0].file_offset, max(1, *(block.n_rows for block in blocks))
    empty = Chunk(schema.empty_table())
    chunks, chunk = source.chunks(size, start), empty
    for block in blocks:
        while start <= block.file_offset:
            chunk, start = next(chunks, empty), start + size
        if chunk.table.num_rows < block.n_rows:
            raise TableFileError(f"{block.path!r} has fewer rows than before; was it changed meanwhile?")
        texts = None if chunk.texts is None else chunk.texts.select(schema.names).slice(0, block.n_rows)
        yield block, Chunk(_cast(chunk.table.slice(0, block.n_rows), schema, block.path), texts)


def _cast(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """Cast the columns of one file to the types of all files."""
    try:
        return cast_to_schema(table.select(schema.names), schema)
    except pa.ArrowInvalid as error:
        raise InvalidTable(
            f"{path!r} holds values that the type of another file cannot represent: {error}. Give the column the same "
            "type in all files."
        ) from None
