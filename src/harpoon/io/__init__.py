"""Tables in files, on standard streams and in databases, read and written in chunks of rows.

| table | location |
|---|---|
| CSV, TSV | `rows.csv`, `rows.txt`, `rows.tsv`, `rows.tab` |
| Parquet | `rows.parquet`, `rows.pq` |
| Arrow, Feather | `rows.arrow`, `rows.feather`, `rows.ipc` |
| JSON lines | `rows.jsonl`, `rows.ndjson` |
| any of these, gzipped | `rows.csv.gz` |
| standard input or output | `-` |
| DuckDB, SQLite | `duckdb:///file.db#table`, `sqlite:///file.db#table`; `duckdb:////absolute/file.db#table` |
| PostgreSQL | `postgresql://user@host:5432/database#table`, or `#schema.table` |
| a query of any of these | `duckdb:///file.db?query=select ...`; it comes last, and can only be read |

    >>> import pyarrow as pa, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(f"{folder}/rows.csv.gz", pa.table({"code": ["007", "012"], "price": [1.5, None]}))
    ...     read_table(f"{folder}/rows.csv.gz").to_pydict()
    {'code': ['007', '012'], 'price': [1.5, None]}

A file is written beside its location and moved there when it is complete. A table of a database is written in one
transaction. An existing table is replaced only with `force=True`. `harpoon.io.registry` lists the formats.
"""

from typing import TYPE_CHECKING

from harpoon._utils.lazy_names import lazy_names
from harpoon.io.registry import DATABASES, FORMATS, Format

if TYPE_CHECKING:
    from harpoon.io.location import Location
    from harpoon.io.source import Chunk, ReadOptions, Source
    from harpoon.io.tables import (
        Writer,
        check_writable,
        open_source,
        open_writer,
        read_batches,
        read_table,
        write_table,
    )

__all__ = [
    "DATABASES",
    "FORMATS",
    "Chunk",
    "Format",
    "Location",
    "ReadOptions",
    "Source",
    "Writer",
    "check_writable",
    "open_source",
    "open_writer",
    "read_batches",
    "read_table",
    "write_table",
]

# These names need pyarrow. They are imported on first use, so that the registry can be read without it.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "location": ("Location",),
        "source": ("Chunk", "ReadOptions", "Source"),
        "tables": (
            *("Writer", "check_writable", "open_source", "open_writer"),
            *("read_batches", "read_table", "write_table"),
        ),
    },
)
