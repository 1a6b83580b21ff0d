"""Models and tables that commands read, and models that they write."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from harpoon._formatting import format_list
from harpoon.apps.cli.console import Console

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from harpoon.apps.cli.options import CsvOptions
    from harpoon.data.schema import Schema
    from harpoon.estimator import Harpoon
    from harpoon.io import Source

CHUNK_ROWS = 2**16
LIKELY_MISSING = ("?", "-", "--", ".", "*", "na", "n/a", "n.a.", "none", "nil", "missing", "unknown", "not available")
MODEL_HEADER = b"__metadata__"


def load_model(path: Path, console: Console, *, progress: bool = True) -> Harpoon:
    """Load a model from its file. Its tables are Arrow tables, in which integers may have missing cells."""
    from harpoon.estimator import load

    return load(path, library="pyarrow", progress=progress and not console.quiet)


def save_model(model: Harpoon, path: Path) -> None:
    """Write a model to its file, which has no dataframe library: commands read and write Arrow tables."""
    from harpoon.data.dataframe import ANY_LIBRARY

    model.template_ = model.template_.with_library(ANY_LIBRARY)
    model.save(path)


def is_model(location: str) -> bool:
    """Whether a file is a model and not a table."""
    path = Path(location)
    if path.suffix == ".harpoon":
        return True
    try:
        with path.open("rb") as file:
            return MODEL_HEADER in file.read(64)
    except (OSError, ValueError):
        return False


def read_table(
    location: str,
    csv: CsvOptions,
    console: Console,
    types: Mapping[str, pa.DataType] | None = None,
    *,
    check_texts: bool = False,
) -> pa.Table:
    """Read a whole table, with notes about what looks doubtful; `check_texts` looks for texts of missing cells."""
    import pyarrow as pa

    from harpoon import io

    with io.open_source(location, csv.read_options(types)) as source:
        _note_delimiter(source, console)
        chunks = list(source.chunks(CHUNK_ROWS))
        if source.missing_spellings - {""}:
            console.message(f"Missing cells are written {format_list(sorted(source.missing_spellings), shown=20)}.")
        table = pa.concat_tables(chunk.table for chunk in chunks) if chunks else source.schema.empty_table()
        if check_texts and all(chunk.texts is not None for chunk in chunks):
            _note_likely_missing(table, console)
        return table


def read_for(schema: Schema, location: str, csv: CsvOptions, console: Console) -> pa.Table:
    """Read a whole table whose columns have the types of a schema."""
    from harpoon.data.arrow_types import text_types

    return read_table(location, csv, console, text_types(schema))


def _note_delimiter(source: Source, console: Console) -> None:
    """Note that a table of one column may have another delimiter."""
    from harpoon.io.delimited import DELIMITERS

    only = source.schema.names[0] if len(source.schema.names) == 1 else ""
    for other in DELIMITERS:
        if other in only and other != source.delimiter:
            console.note(f"Only one column was found, and its name holds {other!r}; is that the delimiter?")


def _note_likely_missing(table: pa.Table, console: Console) -> None:
    """Note texts that stand for a missing cell in many tables, and in some for themselves."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[str, list[str]] = {}
    for field in table.schema:
        if pa.types.is_string(field.type):
            for text in pc.unique(pc.utf8_trim_whitespace(table[field.name])).to_pylist():
                if text is not None and text.casefold() in LIKELY_MISSING:
                    found.setdefault(text, []).append(field.name)
    for text, names in found.items():
        console.note(f"{text!r} in {format_list(names)} looks like a missing cell. If it is: --missing {quote(text)}")
