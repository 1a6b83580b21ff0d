"""SQLite databases for tests."""

import sqlite3
from contextlib import closing
from pathlib import Path


def create_database(path: Path, columns: dict[str, list], *, table: str = "t", types: str = "") -> Path:
    """Create a table with these columns and return the file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table} ({types or ', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", zip(*columns.values(), strict=True))  # noqa: S608
        connection.commit()
    return path


def query(path: Path, statement: str) -> list[tuple]:
    """Return the rows of a statement."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()
