"""Imputed tables as files from which R's `mice` makes a `mids` object (van Buuren & Groothuis-Oudshoorn, 2011)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from harpoon.data import Kind, Schema, Table, dataframe
from harpoon.data.arrow import storage_type
from harpoon.exceptions import InvalidTable
from harpoon.io import write_table
from harpoon.io.text_types import format_texts

TABLES_FILE, SCRIPT_FILE = "imputations.csv", "read_mids.R"
INDEX_COLUMNS = (".imp", ".id")
R_CLASSES = {"boolean": "logical", "date": "Date", **dict.fromkeys(("float", "integer", "duration"), "numeric")}


def write_mids(
    folder: str | PathLike[str],
    original: Table,
    tables: Sequence[Any],
    missing: Mapping[str, NDArray[np.bool_]],
    schema: Schema,
    *,
    force: bool,
) -> None:
    """Write the original and the imputed tables as one long CSV file, and a script that reads it in R."""
    if taken := set(INDEX_COLUMNS) & set(original.names):
        raise InvalidTable(f"mice needs the column name {min(taken)!r} for itself. Rename the column of the table.")
    imputed = [dataframe.read(table).arrow for table in tables]
    before = original.arrow
    for name in original.names:  # also what counts as missing besides empty cells, such as an unknown category
        if name in missing and missing[name].any():
            cells = pc.if_else(pa.array(missing[name]), None, before[name])
            before = before.set_column(original.names.index(name), name, cells)
    texts = {
        name: pa.chunked_array(
            [chunk for table in [before, *imputed] for chunk in format_texts(table[name]).chunks], type=pa.string()
        )
        for name in imputed[0].column_names
        if name in original.names
    }
    numbers = pa.array(np.repeat(np.arange(len(tables) + 1), original.n_rows)).cast(pa.string())
    rows = pa.array(np.tile(np.arange(1, original.n_rows + 1), len(tables) + 1)).cast(pa.string())
    token = _missing_token(texts)
    long = {".imp": numbers, ".id": rows} | {name: cells.fill_null(token) for name, cells in texts.items()}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / TABLES_FILE, pa.table(long), force)
    script = _script(texts, {name: imputed[0].schema.field(name).type for name in texts}, schema, token)
    (folder / SCRIPT_FILE).write_text(script, encoding="utf-8")


def _missing_token(texts: Mapping[str, pa.ChunkedArray]) -> str:
    """Return what stands for a missing cell: NA, or longer if a cell has that text."""
    token = "NA"  # noqa: S105
    while any(pc.any(pc.equal(cells, token)).as_py() for cells in texts.values()):
        token += "_"
    return token


def _script(texts: Mapping[str, pa.ChunkedArray], types: Mapping[str, pa.DataType], schema: Schema, token: str) -> str:
    """Return the R script. Its value is the `mids` object."""
    classes, conversions = ["integer", "integer"], []
    for name, cells in texts.items():
        column, storage = schema[name] if name in schema.names else None, storage_type(types[name])
        is_factor = storage in ("text", "category", "other") or (column is not None and column.kind is Kind.CATEGORY)
        classes.append("character" if is_factor else R_CLASSES.get(storage, "character"))
        target = f"long[[{_quote(name)}]]"
        if is_factor:
            known = pa.chunked_array([pa.array((column.categories if column else None) or (), from_pandas=True)])
            levels = format_texts(known).to_pylist() if len(known) else []
            levels += sorted(set(pc.unique(cells).to_pylist()) - {None, *levels})
            ordered = "TRUE" if column is not None and column.ordered else "FALSE"
            listed = ", ".join(map(_quote, levels))
            conversions.append(f"{target} <- factor({target}, levels = c({listed}), ordered = {ordered})")
        elif storage == "datetime":
            parsed = f'gsub("T", " ", sub("Z$", "", {target}))'
            conversions.append(f'{target} <- as.POSIXct({parsed}, tz = "UTC")')
    listed, names = (", ".join(map(_quote, items)) for items in (classes, [*INDEX_COLUMNS, *texts]))
    return "\n".join(
        [
            "# Make a mids object of the package mice:",
            f'#   mids <- source("{SCRIPT_FILE}", chdir = TRUE)$value',
            f'long <- read.csv("{TABLES_FILE}", check.names = FALSE, encoding = "UTF-8",',
            f"  na.strings = {_quote(token)}, colClasses = c({listed}))",
            f"names(long) <- c({names})",
            *conversions,
            "names(long) <- make.names(names(long), unique = TRUE)  # mice writes formulas with the names",
            "mice::as.mids(long)",
            "",
        ]
    )


def _quote(text: str) -> str:
    """Return a text as a string of R, which has the escapes of JSON. It is ASCII, to be read in any locale."""
    return "".join(c if c.isascii() else f"\\U{ord(c):08x}" for c in json.dumps(text, ensure_ascii=False))
