"""Registry of file formats (`FORMATS`) and of databases (`DATABASES`).

Locations, readers, writers, engines, the command line and the HTTP service read this registry. To add a file format,
write a `Source` and a `Writer` and add one entry:

    FORMATS["fixed"] = Format("fixed", "fixed-width text", (".fwf",), open_fixed_width, FixedWidthWriter)

Reading the registry is cheap: the functions of an entry import their module when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import ExitStack
    from types import ModuleType

    from harpoon.io.byte_source import ByteSource
    from harpoon.io.source import ReadOptions, Source
    from harpoon.io.tables import Writer


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        name: Its name, as in `open_writer(format="csv")`.
        title: Its name in messages.
        suffixes: Endings of file names. The first one is the usual one.
        open_source: Opens the bytes of a file as a `Source`. What has to be closed at the end goes onto the stack.
        make_writer: Makes a `Writer` from a binary file and a delimiter.
        magic: First bytes of every file. A text format may have one too, for files whose name does not tell the format.
        is_binary: Whether a file is not text. A binary format is recognised by its magic bytes alone.
        keeps_text: Whether cells are text, so that cells that are not imputed can be written as they were spelled, and
            that the delimiter, the encoding and the words for missing cells can be chosen.
        delimiter: Character between the cells of a file that is written, if no other one is chosen.
        has_row_offsets: Whether rows in the middle of a file can be read without the rows before them.
        media_type: Its media type in the HTTP service; empty if the service does not offer it.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    open_source: Callable[[ByteSource, ReadOptions, ExitStack], Source]
    make_writer: Callable[[Any, str], Writer]
    magic: bytes = b""
    is_binary: bool = False
    keeps_text: bool = False
    delimiter: str = ","
    has_row_offsets: bool = False
    media_type: str = ""


@dataclass(frozen=True)
class Database:
    """A database system.

    Attributes:
        name: The scheme of its URLs, and the module of this room with its functions.
        title: Its name in messages.
        magic: Bytes that its files have at `magic_offset`; empty if tables are on a server, not in a file.
        magic_offset: Where the magic bytes are.
        accepts_empty_file: Whether an empty file is a database without tables.
        folds_case: Whether names of tables that differ only in the case of letters are the same.
        aliases: Other schemes of its URLs.
    """

    name: str
    title: str
    magic: bytes = b""
    magic_offset: int = 0
    accepts_empty_file: bool = False
    folds_case: bool = True
    aliases: tuple[str, ...] = ()

    @property
    def is_server(self) -> bool:
        """Whether its tables are on a server."""
        return not self.magic

    @property
    def url(self) -> str:
        """An example of the URL of a database, to which `#table` or `?query=` is added."""
        return f"{self.name}://host/database" if self.is_server else f"{self.name}:///file.db"

    def load(self) -> ModuleType:
        """Import the module with the functions `open_source`, `open_writer` and `list_tables`."""
        return import_module(f"harpoon.io.databases.{self.name}")


def _lazy(module: str, name: str, **fixed: object) -> Callable[..., Any]:
    """Return a function that calls `name` of a module of this room, which it imports first."""
    return lambda *args: getattr(import_module(f"harpoon.io.{module}"), name)(*args, **fixed)


FORMATS: dict[str, Format] = {
    "csv": Format(
        "csv",
        "CSV",
        (".csv", ".txt"),
        _lazy("delimited", "DelimitedSource"),
        _lazy("delimited", "TextWriter"),
        keeps_text=True,
        media_type="text/csv",
    ),
    "tsv": Format(
        "tsv",
        "TSV",
        (".tsv", ".tab"),
        _lazy("delimited", "DelimitedSource", delimiter="\t"),
        _lazy("delimited", "TextWriter"),
        keeps_text=True,
        delimiter="\t",
    ),
    "parquet": Format(
        "parquet",
        "Parquet",
        (".parquet", ".pq"),
        _lazy("columnar", "ParquetSource"),
        _lazy("columnar", "ColumnarWriter"),
        magic=b"PAR1",
        is_binary=True,
        has_row_offsets=True,
        media_type="application/vnd.apache.parquet",
    ),
    "arrow": Format(
        "arrow",
        "Arrow",
        (".arrow", ".feather", ".ipc"),
        _lazy("columnar", "ArrowSource"),
        _lazy("columnar", "ArrowWriter"),
        magic=b"ARROW1",
        is_binary=True,
    ),
    "jsonl": Format(
        "jsonl",
        "JSON lines",
        (".jsonl", ".ndjson", ".json"),
        _lazy("json_lines", "open_json_lines"),
        _lazy("json_lines", "JsonLinesWriter"),
        magic=b"{",
    ),
}
DATABASES: dict[str, Database] = {
    "duckdb": Database("duckdb", "DuckDB", b"DUCK", 8),
    "sqlite": Database("sqlite", "SQLite", b"SQLite format 3\0", 0, accepts_empty_file=True),
    "postgresql": Database("postgresql", "PostgreSQL", folds_case=False, aliases=("postgres",)),
}


def format_of_suffix(suffix: str) -> str:
    """Return the name of the format with this ending of file names, or an empty text.

    >>> format_of_suffix(".feather"), format_of_suffix(".exe")
    ('arrow', '')
    """
    return next((format_.name for format_ in FORMATS.values() if suffix.lower() in format_.suffixes), "")


def database_of_scheme(scheme: str) -> Database | None:
    """Return the database system whose URLs have a scheme, if there is one.

    >>> getattr(database_of_scheme("Postgres"), "name", ""), database_of_scheme("https")
    ('postgresql', None)
    """
    found = scheme.lower()
    return next((each for each in DATABASES.values() if found in (each.name, *each.aliases)), None)


def format_of_head(head: bytes, name: str = "") -> Format:
    """Return the format of a file, from its first bytes and from the format that its name tells.

    The magic bytes of a binary format count more than the name. Text without a known name is CSV, unless it begins like
    another text format.

    >>> format_of_head(b"PAR1...", "csv").name, format_of_head(b'{"x": 1}').name, format_of_head(b"x,y").name
    ('parquet', 'jsonl', 'csv')
    """
    formats = FORMATS.values()
    binary = next((f for f in formats if f.is_binary and f.magic and head.startswith(f.magic)), None)
    if binary is not None:
        return binary
    if name:
        return FORMATS[name]
    text = head.lstrip()
    return next((f for f in formats if f.magic and not f.is_binary and text.startswith(f.magic)), FORMATS["csv"])
