"""Schemas and models as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table
from rich.text import Text

from harpoon.data import dataframe
from harpoon.data.column import Kind, describe
from harpoon.data.schema import Schema
from harpoon.encoding.numeric import MIN_SPIKE_FRACTION

FEW_DIFFERENT = 10  # of so few values each is frequent, and that says nothing
MOST_MASSES = 3
MOST_LINES = 40


def schema_table(schema: Schema, table: pa.Table | None = None) -> Table:
    """One line per column: kind, range or labels, what is missing, which values stand out, and why it is left out."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("column", "kind", "values", "missing"):
        shown.add_column(title, justify="right" if title == "missing" else "left", overflow="fold")
    masses = {} if table is None else point_masses(schema, table)
    for column in schema:
        often = f", often {masses[column.name]}" if masses.get(column.name) else ""
        words = describe(replace(column, missing=0.0)) + often
        style = "" if column.kind.modelled else "dim"
        missing = f"{100 * column.missing:.3g} %" if column.missing else ""
        shown.add_row(*(Text(cell, style=style) for cell in (column.name, column.kind.value, words, missing)))
    return shown


def point_masses(schema: Schema, table: pa.Table) -> dict[str, str]:
    """For each number that is drawn with point masses, the heaviest of them."""
    found = {}
    read = dataframe.read(table)
    for column in schema.modelled:
        if column.kind not in (Kind.NUMBER, Kind.INTEGER):
            continue
        values, counts = np.unique(read.column(column.name).observed, return_counts=True)
        heaviest = np.argsort(-counts, kind="stable")[:MOST_MASSES]
        shares = counts[heaviest] / max(counts.sum(), 1)
        if len(values) > FEW_DIFFERENT:
            pairs = zip(values[heaviest], shares, strict=True)
            found[column.name] = ", ".join(f"{v:g} ({100 * s:.2g} %)" for v, s in pairs if s >= MIN_SPIKE_FRACTION)
    return found


def facts(pairs: Mapping[str, Any]) -> Table:
    """Names and what they are."""
    shown = Table(box=None, show_header=False, pad_edge=False)
    for name, value in pairs.items():
        shown.add_row(Text(name.replace("_", " "), style="bold"), Text(_figure(value)))
    return shown


def listing(title: str, lines: Sequence[str]) -> Text:
    """Some lines under a title; of very many, the first."""
    more = [f"… and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return Text("\n").join([Text(f"\n{title}", style="bold"), *map(Text, [*lines[:MOST_LINES], *more])])


def _figure(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
