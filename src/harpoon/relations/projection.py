"""Projection of sampled rows onto what always holds: timestamps onto their grid, numbers onto exact relations.

A timestamp that is computed, as end = start + duration, may be a time that its column never has. It is moved to the
nearest one that it can have, and the duration follows. Observed cells never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harpoon.data import Columns, Mask, n_rows
from harpoon.encoding import RowCodec
from harpoon.relations.formula import Formula, is_close, violates

MAX_PASSES = 3
ROUNDING_STEPS = 2.0  # steps of a column: a smaller change is one of rounding


def off_grid(rows: Columns, given: Columns, codec: RowCodec) -> Mask:
    """Return in which rows a timestamp that was not given is none that its column can have, (n,)."""
    found = np.zeros(n_rows(rows), dtype=np.bool_)
    for each in codec.timestamps:
        name = each.codec.column.name
        free = given[name].unknown & ~rows[name].missing
        found |= free & ~each.codec.is_on_grid(rows[name].values)
    return found


def follow_relations(
    rows: Columns, given: Columns, codec: RowCodec, formulas: Sequence[Formula], *, max_steps: float
) -> Columns:
    """Return rows in which numbers that were not given follow from the others where they differ from a formula.

    Timestamps stay. Each number changes at most once, and those between timestamps change first. It changes by at most
    some steps of its column; a product also by as much as the rounding of its factors allows. Products come
    after the sums, which may change their factors, and before quotients, which are rounded.
    """
    names, times, hidden = codec.quantity_names, set(codec.times), codec.hidden_quantities
    if not formulas or not violates(rows, codec, formulas).any():
        return rows
    rows = codec.add_elapsed_times(rows)
    usable = [each for each in formulas if each.target not in times and hidden.isdisjoint(each.columns)]
    usable.sort(key=lambda each: (not times.issuperset(each.sources), each.priority))
    values = [rows[name].values for name in names]
    targets = {formula.target for formula in usable}
    free = {target: given[names[target]].unknown & ~rows[names[target]].missing for target in targets}
    for _ in range(MAX_PASSES):
        for formula in usable:
            target = formula.target
            known = ~np.any([rows[names[source]].missing for source in formula.sources], axis=0)
            computed, unit, number = formula.evaluate(values), codec.units[target], codec.quantities[target]
            wanted = free[target] & known & np.isfinite(computed) & formula.applies(values)
            wanted &= ~is_close(computed, values[target], values, formula, unit.step)
            rounded = number.to_column_units(np.where(wanted, computed, 0))
            wanted &= is_close(computed, rounded, values, formula, unit.step) & number.can_hold(rounded)
            if np.isfinite(max_steps):
                steps = [codec.units[source].step for source in formula.sources]
                most = max_steps * (unit.step + formula.rounding_effect(values, steps, unit.step))
                wanted &= np.abs(rounded - values[target]) <= most
            values[target] = np.where(wanted, rounded, values[target])
            free[target] = free[target] & ~wanted
    followed = {names[target]: replace(rows[names[target]], values=values[target]) for target in targets}
    return {name: cells for name, cells in (rows | followed).items() if name in given}


def project(rows: Columns, given: Columns, codec: RowCodec, formulas: Sequence[Formula]) -> Columns:
    """Return rows whose timestamps lie on their grid and whose numbers follow; rows for which there are none stay."""
    moved = dict(rows)
    for each in codec.timestamps:
        name, cells = each.codec.column.name, rows[each.codec.column.name]
        free = given[name].unknown & ~cells.missing & ~each.codec.is_on_grid(cells.values)
        if free.any():
            moved[name] = replace(cells, values=np.where(free, each.codec.to_grid(cells.values), cells.values))
    moved = follow_relations(moved, given, codec, formulas, max_steps=np.inf)
    accepted = ~violates(moved, codec, formulas) & ~off_grid(moved, given, codec)
    return {
        name: replace(cells, values=np.where(accepted, moved[name].values, cells.values))
        for name, cells in rows.items()
    }
