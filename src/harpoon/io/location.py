"""Where a table is: a file, a standard stream, or a table of a database, and in which format."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from harpoon.exceptions import InvalidOption, TableFileError

FORMATS = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
DATABASES = ("duckdb", "sqlite")
URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<path>[^#]*)(#(?P<table>.+))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Location:
    """Where a table is.

    Attributes:
        text: As the user wrote it.
        path: The file; None for a standard stream.
        format: Of the file, or the database; empty where the name does not tell.
        table: The table of a database.
        gzipped: Whether the name says so.
    """

    text: str
    path: Path | None
    format: str
    table: str = ""
    gzipped: bool = False

    @classmethod
    def parse(cls, place: str | os.PathLike[str] | Location) -> Location:
        """What a user wrote.

        >>> Place.of("folder/rows.csv.gz").format, Place.of("-").path
        ('csv', None)
        >>> found = Place.of("duckdb:///shop.db#orders")
        >>> found.format, str(found.path), found.table
        ('duckdb', 'shop.db', 'orders')
        """
        if isinstance(place, Location):
            return place
        text = os.fspath(place)
        if not isinstance(text, str) or not text or "\0" in text:
            raise TableFileError(f"A table is named by a path or a URL, got {place!r}.")
        if text == "-":
            return cls(text, None, "")
        url = URL.fullmatch(text)
        if url:
            return _database(text, url)
        suffixes = [suffix.lower() for suffix in Path(text).suffixes]
        gzipped = suffixes[-1:] == [".gz"]
        last = (suffixes[:-1] if gzipped else suffixes)[-1:]
        return cls(text, Path(text), FORMATS.get(last[0], "") if last else "", gzipped=gzipped)

    @property
    def in_database(self) -> bool:
        """Whether it is a table of a database."""
        return self.format in DATABASES

    @property
    def is_stream(self) -> bool:
        """Whether it is the standard input or output."""
        return self.path is None

    def to_write(self, format: str = "") -> Location:  # noqa: A002
        """The place with a format to write, the given one before that of the name."""
        if format and format not in FORMATS.values():
            raise InvalidOption.one_of("The format of a table", format, set(FORMATS.values()))
        chosen = self.format if self.in_database else format or self.format or ("csv" if self.is_stream else "")
        if not chosen:
            raise InvalidOption(
                f"The name {self.text!r} does not tell the format of the table. "
                f"End it with one of {', '.join(FORMATS)} (and .gz), or give the format.",
                code="unknown_format",
                name=self.text,
                suffixes=", ".join(FORMATS),
            )
        return replace(self, format=chosen)

    def numbered(self, number: int) -> Location:
        """The place of one of several tables: filled.1.csv beside filled.csv.

        >>> Place.of("out/filled.csv.gz").numbered(2).text
        'out/filled.2.csv.gz'
        """
        if self.in_database:
            return replace(self, text=f"{self.text}_{number}", table=f"{self.table}_{number}")
        if self.path is None:
            return self
        ends = "".join(self.path.suffixes[-1 - self.gzipped :]) if self.format or self.gzipped else ""
        path = self.path.with_name(f"{self.path.name.removesuffix(ends)}.{number}{ends}")
        return replace(self, text=str(path), path=path)


def _database(text: str, url: re.Match[str]) -> Location:
    scheme, path, table = url["scheme"].lower(), url["path"].removeprefix("/"), url["table"]
    if scheme not in DATABASES:
        raise TableFileError(
            f"{text!r} cannot be used: tables are read from files, from '-', and from duckdb:///file.db#table and "
            "sqlite:///file.db#table. Download it first."
        )
    if not table or not path:
        raise TableFileError(f"A table of a database is written {scheme}:///file.db#table, got {text!r}.")
    return Location(text, Path(path), scheme, table)
