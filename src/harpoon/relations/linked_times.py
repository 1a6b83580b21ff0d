"""Timestamps in point estimates: an end that is not known is its start plus the expected time between them.

The expectation of a date alone is a position among all dates, which is no nearer to a given date of the same row than
the network can tell them apart. The time between the two is a number of its own, and its expectation is exact to the
day (`harpoon.encoding.temporal.elapsed_time`). So is a column that counts the days between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon.data import Mask
from harpoon.encoding import RowCodec
from harpoon.relations.formula import Formula

Values = Mapping[str, NDArray[Any]]


def link_times(
    values: Values,
    unknown: Mapping[str, Mask],
    null: Mapping[str, Mask],
    codec: RowCodec,
    formulas: Iterable[Formula],
    *,
    to_column: Callable[[int, NDArray[Any]], NDArray[Any]] = lambda _, computed: computed,
) -> dict[str, NDArray[Any]]:
    """Return values in which unknown timestamps follow from others and the lengths between them.

    Of timestamps that are all unknown, the first keeps its value, and the others follow from it.

    Args:
        values: The values of each quantity of a codec, with its expectation where it is unknown, (n,) each.
        unknown: Where a column may change, (n,) each; times between timestamps are left out.
        null: Where a column has no value, (n,) each.
        codec: The codec of the rows.
        formulas: Relations that hold in practically all rows.
        to_column: Rounds computed values of a quantity, given by its index.
    """
    names, links = codec.quantity_names, _links(codec, formulas)
    linked = {index for formula in links for index in formula.columns}
    arrays = [values[name] if index in linked else np.zeros(0) for index, name in enumerate(names)]
    times = [index for index in codec.times if index in linked]
    # A length is usable where it is not null, a timestamp where it is settled.
    usable = {index: ~null[names[index]] for index in linked if names[index] in null}
    usable |= {index: usable[index] & ~unknown[names[index]] for index in times}
    # First from what is known alone; then each time that is still unknown is taken as it is, and others follow from it.
    for anchor in (None, *times):
        if anchor is not None:
            usable[anchor] = usable[anchor] | unknown[names[anchor]]
        for formula in links * len(times):  # a time that is found may give others
            target = formula.target
            known = np.all([usable[source] for source in formula.sources if source in usable], axis=0)
            wanted = unknown[names[target]] & ~usable[target] & known
            if wanted.any():
                computed = to_column(target, formula.evaluate(arrays))
                arrays[target] = np.where(wanted, computed, arrays[target])
                usable[target] = usable[target] | wanted
    return {names[index]: arrays[index] for index in times}


def _links(codec: RowCodec, formulas: Iterable[Formula]) -> list[Formula]:
    """Return the sums of one timestamp and lengths that equal another timestamp."""
    times = set(codec.times)
    return [
        formula
        for formula in formulas
        if formula.factor is None and formula.target in times and len(times & set(formula.sources)) == 1
    ]
