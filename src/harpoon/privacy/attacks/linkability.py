"""Linkability: two parts of a row that belong to the same person.

The attacker has two tables about the training rows, each with one half of the columns, and no key. For a row of each,
the closest synthetic row is searched. If it is the same one, the two are linked (Giomi et al., 2023). The baseline
attacks hold-out rows, which are linked as far as columns depend on each other in any table of this kind.
"""

from __future__ import annotations

import numpy as np

from harpoon._formatting import format_percent
from harpoon.data import Mask
from harpoon.privacy.attack_results import Attack
from harpoon.privacy.rates import Rate
from harpoon.privacy.records import Records, nearest

NAME = "linkability"
MIN_COLUMNS = 2


def attack_links(train: Records, holdout: Records, synthetic: Records, rng: np.random.Generator) -> Attack:
    """Link the two halves of the columns, which are chosen at random."""
    n_columns = len(synthetic.names)
    if n_columns < MIN_COLUMNS:
        return Attack.not_run(NAME, f"it needs {MIN_COLUMNS} modelled columns, got {n_columns}")
    first, second = (sorted(half.tolist()) for half in np.array_split(rng.permutation(n_columns), 2))
    linked = [links(records, synthetic, first, second) for records in (train, holdout)]
    rates = [Rate(int(one.sum()), len(one)) for one in linked]
    sentence = (
        f"Both halves of the columns lead to the same synthetic row for {format_percent(rates[0].value)} of the "
        f"training rows, and for {format_percent(rates[1].value)} of the hold-out rows."
    )
    names = [[synthetic.names[column] for column in half] for half in (first, second)]
    return Attack.of_rates(NAME, rates, sentence, {"columns": names})


def links(records: Records, synthetic: Records, first: list[int], second: list[int]) -> Mask:
    """Return for which rows the closest synthetic row is the same by two sets of columns, (n,)."""
    closest = [nearest(records, synthetic, columns)[0] for columns in (first, second)]
    return np.asarray(closest[0] == closest[1], dtype=np.bool_)
