"""Schemas, models and options as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from harpoon._formatting import format_percent

if TYPE_CHECKING:
    import pyarrow as pa

    from harpoon.data.schema import Schema

MIN_DISTINCT = 10  # of fewer distinct values each is frequent
MAX_SPIKES = 3
MAX_LINES = 40


def schema_table(schema: Schema, table: pa.Table | None = None) -> Table:
    """Return one line per column: kind, range or categories, frequent values, missing fraction, note."""
    from harpoon.data.column import describe

    shown = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("column", "kind", "values", "missing"):
        shown.add_column(title, justify="right" if title == "missing" else "left", overflow="fold")
    spikes = {} if table is None else describe_spikes(schema, table)
    for column in schema:
        often = f", often {spikes[column.name]}" if spikes.get(column.name) else ""
        values = describe(replace(column, missing=0.0)) + often
        style = "" if column.kind.modelled else "dim"
        missing = format_percent(column.missing) if column.missing else ""
        shown.add_row(*(Text(cell, style=style) for cell in (column.name, column.kind.value, values, missing)))
    return shown


def describe_spikes(schema: Schema, table: pa.Table) -> dict[str, str]:
    """Return the most frequent values of each numeric column that is modelled with spikes."""
    import numpy as np

    from harpoon.data import dataframe
    from harpoon.data.column import Kind
    from harpoon.encoding.numeric import MIN_SPIKE_FRACTION

    found = {}
    read = dataframe.read(table)
    for column in schema.modelled:
        if column.kind not in (Kind.NUMBER, Kind.INTEGER):
            continue
        values, counts = np.unique(read.column(column.name).observed, return_counts=True)
        top = np.argsort(-counts, kind="stable")[:MAX_SPIKES]
        fractions = counts[top] / max(counts.sum(), 1)
        if len(values) > MIN_DISTINCT:
            pairs = zip(values[top], fractions, strict=True)
            spikes = [(value, fraction) for value, fraction in pairs if fraction >= MIN_SPIKE_FRACTION]
            found[column.name] = ", ".join(f"{value:g} ({format_percent(f, digits=2)})" for value, f in spikes)
    return found


def option_table(group: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return one line per option of a group: values, default in each preset, help."""
    presets = list(rows[0]["defaults"])
    shown = Table(title=f"{group} options", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for title in ("option", "values", *presets, "help"):
        shown.add_column(title, overflow="fold", header_style="dim", no_wrap=title == "option")
    for row in rows:
        defaults = [_format(row["defaults"][preset]) for preset in presets]
        shown.add_row(*(Text(cell) for cell in (row["name"], row["values"], *defaults, row["help"])))
    return shown


def fact_table(pairs: Mapping[str, Any]) -> Table:
    """Return names and values, one pair per line."""
    shown = Table(box=None, show_header=False, pad_edge=False)
    for name, value in pairs.items():
        shown.add_row(Text(name.replace("_", " "), style="bold"), Text(_format(value)))
    return shown


def listing(title: str, lines: Sequence[str]) -> Text:
    """Return lines under a title, at most `MAX_LINES` of them."""
    more = [f"… and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
    return Text("\n").join([Text(f"\n{title}", style="bold"), *map(Text, [*lines[:MAX_LINES], *more])])


def _format(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
