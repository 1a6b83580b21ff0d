"""Locations of tables: a file, a standard stream, or a table of a database."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Union

from harpoon.exceptions import HarpoonError, InvalidOption, TableFileError
from harpoon.io.registry import DATABASES, FORMATS, format_of_suffix

URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<path>[^#]*)(#(?P<table>.+))?", re.IGNORECASE | re.DOTALL)

AnyLocation = Union[str, "os.PathLike[str]", "Location"]


@dataclass(frozen=True)
class Location:
    """The location of a table.

    Attributes:
        text: The location as the user wrote it.
        path: The file; None for a standard stream.
        format: The name of the file format or of the database system; empty if the file name does not tell it.
        table: The table of a database.
        gzipped: Whether the file name ends with .gz.
    """

    text: str
    path: Path | None
    format: str
    table: str = ""
    gzipped: bool = False

    @classmethod
    def parse(cls, text: AnyLocation) -> Location:
        """Parse a path, a database URL, or `-` for a standard stream.

        >>> Location.parse("folder/rows.csv.gz").format, Location.parse("-").path
        ('csv', None)
        >>> location = Location.parse("duckdb:///shop.db#orders")
        >>> location.format, str(location.path), location.table
        ('duckdb', 'shop.db', 'orders')
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
        return "The standard input" if self.path is None else repr(self.text)

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
        chosen = self.format if self.in_database else format or self.format or ("csv" if self.path is None else "")
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
    scheme, path, table = url["scheme"].lower(), url["path"].removeprefix("/"), url["table"]
    if scheme not in DATABASES:
        urls = " and ".join(f"{name}:///file.db#table" for name in DATABASES)
        raise TableFileError(
            f"{text!r} cannot be used: tables are read from files, from '-', and from {urls}. Download it first."
        )
    if not table or not path:
        raise TableFileError(f"The URL of a database table must be {scheme}:///file.db#table, got {text!r}.")
    return Location(text, Path(path), scheme, table)
