"""Locations of tables: a file, a standard stream, or a table of a database."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Union
from urllib.parse import unquote

from harpoon.exceptions import HarpoonError, InvalidOption, TableFileError
from harpoon.io.registry import DATABASES, FORMATS, Database, database_of_scheme, format_of_suffix

URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<path>[^#]*?)([?&]query=(?P<query>.*)|#(?P<table>.+))?",
    re.IGNORECASE | re.DOTALL,
)
PASSWORDS = re.compile(r"(?<=://)([^:@/]*):.*@|([?&]password=)[^&#]*", re.DOTALL)

AnyLocation = Union[str, "os.PathLike[str]", "Location"]


@dataclass(frozen=True)
class Location:
    """The location of a table.

    Attributes:
        text: The location as the user wrote it, without a password.
        path: The file; None for a standard stream and for a server.
        format: The name of the file format or of the database system; empty if the file name does not tell it.
        table: The table of a database.
        gzipped: Whether the file name ends with .gz.
        query: The query whose result is the table, instead of a table of the database.
        server: The URL of a database on a server, as its library takes it, with the password.
    """

    text: str
    path: Path | None
    format: str
    table: str = ""
    gzipped: bool = False
    query: str = ""
    server: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: AnyLocation) -> Location:
        """Parse a path, a database URL, or `-` for a standard stream.

        >>> Location.parse("folder/rows.csv.gz").format, Location.parse("-").path
        ('csv', None)
        >>> location = Location.parse("duckdb:///shop.db#orders")
        >>> location.format, str(location.path), location.table
        ('duckdb', 'shop.db', 'orders')
        >>> Location.parse("sqlite:///shop.db?query=select * from orders where price > 9").query
        'select * from orders where price > 9'
        >>> Location.parse("postgresql://ann:secret@host/shop#sales.orders").text
        'postgresql://ann:***@host/shop#sales.orders'
        """
        if isinstance(text, Location):
            return text
        given = os.fspath(text)
        if not isinstance(given, str) or not given or "\0" in given:
            raise TableFileError(f"The location of a table must be a path or a URL, got {given!r}.")
        if given == "-":
            return cls(given, None, "")
        url = URL.fullmatch(given)
        if url:
            return _parse_database_url(given, url)
        path = Path(given)
        gzipped = path.suffix.lower() == ".gz"
        suffix = Path(path.stem).suffix if gzipped else path.suffix
        return cls(given, path, format_of_suffix(suffix), gzipped=gzipped)

    @property
    def name(self) -> str:
        """How messages name it."""
        return "The standard input" if self.is_stream else repr(self.text)

    @property
    def is_stream(self) -> bool:
        """Whether it is a standard stream."""
        return self.path is None and not self.in_database

    @property
    def database_name(self) -> str:
        """How messages name its database."""
        if self.path is not None:
            return repr(str(self.path))
        return repr(self.text.removesuffix(f"#{self.table}"))

    @property
    def in_database(self) -> bool:
        """Whether it is a table of a database."""
        return self.format in DATABASES

    @property
    def keeps_text(self) -> bool:
        """Whether cells are written there as text, in their own spelling."""
        return self.format in FORMATS and FORMATS[self.format].keeps_text

    def reading(self, *errors: type[BaseException]) -> AbstractContextManager[None]:
        """Raise errors of these types as a TableFileError that says that the table cannot be read."""
        return translate_errors(TableFileError.unreadable, self.name, *errors)

    def writing(self, *errors: type[BaseException]) -> AbstractContextManager[None]:
        """Raise errors of these types as a TableFileError that says that the table cannot be written."""
        return translate_errors(TableFileError.unwritable, self.name, *errors)

    def with_format(self, format: str = "") -> Location:  # noqa: A002
        """Return the location with a format to write: `format` if given, else that of the file name."""
        if format and format not in FORMATS:
            raise InvalidOption.one_of("format", format, FORMATS)
        chosen = self.format if self.in_database else format or self.format or ("csv" if self.is_stream else "")
        if not chosen:
            suffixes = ", ".join(suffix for format_ in FORMATS.values() for suffix in format_.suffixes)
            raise InvalidOption(
                f"The name {self.text!r} does not tell the format of the table. End it with one of {suffixes} (and "
                f".gz), or give the format: {', '.join(FORMATS)}.",
                code="unknown_format",
                name=self.text,
                suffixes=suffixes,
            )
        return replace(self, format=chosen)

    def with_number(self, number: int) -> Location:
        """Return the location of one of several tables: filled.1.csv beside filled.csv.

        >>> Location.parse("out/filled.csv.gz").with_number(2).text
        'out/filled.2.csv.gz'
        """
        if self.in_database:
            return replace(self, text=f"{self.text}_{number}", table=f"{self.table}_{number}")
        if self.path is None:
            return self
        ending = "".join(self.path.suffixes[-1 - self.gzipped :]) if self.format or self.gzipped else ""
        path = self.path.with_name(f"{self.path.name.removesuffix(ending)}.{number}{ending}")
        return replace(self, text=str(path), path=path)


@contextmanager
def translate_errors(
    make: Callable[[str, object], TableFileError], name: str, *types: type[BaseException]
) -> Iterator[None]:
    """Raise errors of some types as `make(name, error)`, such as `TableFileError.unreadable`; those of Harpoon pass."""
    try:
        yield
    except types as error:
        if isinstance(error, HarpoonError):
            raise
        raise make(name, error) from None


def _parse_database_url(text: str, url: re.Match[str]) -> Location:
    database = database_of_scheme(url["scheme"])
    shown = PASSWORDS.sub(lambda found: f"{found[2]}***" if found[2] else f"{found[1]}:***@", text)
    if database is None:
        urls = ", ".join(f"{each.url}#table" for each in DATABASES.values())
        raise TableFileError(
            f"{shown!r} cannot be used: tables are read from files, from '-', and from {urls}. Download it first."
        )
    table, query = url["table"] or "", _decode_query(url["query"] or "")
    path = url["path"] if database.is_server else url["path"].removeprefix("/")
    if not (table or query) or not (path or database.is_server):
        raise TableFileError(
            f"The URL of a database table must be {database.url}#table or {database.url}?query=select ..., "
            f"got {shown!r}."
        )
    return _database_location(database, shown, path, table, query)


def _database_location(database: Database, text: str, path: str, table: str, query: str) -> Location:
    if database.is_server:
        return Location(text, None, database.name, table, query=query, server=f"{database.name}://{path}")
    return Location(text, Path(path), database.name, table, query=query)


def _decode_query(text: str) -> str:
    """Return a query as SQL. Without white space it is percent-encoded; otherwise % is that of LIKE.

    >>> _decode_query("select%20*%20from%20t;"), _decode_query("select * from t where c like '%20'")
    ('select * from t', "select * from t where c like '%20'")
    """
    decoded = text if re.search(r"\s", text) else unquote(text)
    return decoded.strip().rstrip("; \t\r\n")
