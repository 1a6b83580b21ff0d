"""Copies: real rows that synthetic rows equal or nearly equal, and rare values that they have.

The unit is a real row, not a synthetic one: given the synthetic rows, training rows and hold-out rows of the same
distribution are equally often copied, and independently of each other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harpoon._formatting import format_percent
from harpoon.data import Floats
from harpoon.privacy.attack_results import LEVEL, Attack
from harpoon.privacy.attacks.membership import closeness
from harpoon.privacy.rates import Rate, exceeds, random_halves, split_error
from harpoon.privacy.records import Codes, Records, concat

NEAR_FRACTION = 0.05  # of the real rows, which count as near the synthetic ones
MAX_LISTED_ROWS = 20
MIN_RARE_VALUES = 20  # of each table: fewer are not judged if the interval leaves open whether there is a risk
MIN_OTHER_ROWS = 50  # of each table that equal no synthetic row


def attack_exact_copies(train: Records, holdout: Records, synthetic: Records, rows: Codes) -> Attack:
    """Search real rows that equal a synthetic row. `rows` are the numbers of the training rows in their table."""
    drawn = synthetic.row_keys()
    copied, of_holdout = (np.isin(records.row_keys(), drawn) for records in (train, holdout))
    rates = [Rate(int(one.sum()), len(one)) for one in (copied, of_holdout)]
    sentence = (
        f"{format_percent(rates[0].value)} of the training rows equal a synthetic row, and "
        f"{format_percent(rates[1].value)} of as many hold-out rows."
    )
    # Rows that no hold-out row equals are copies most probably. Their numbers tell the owner of the table which.
    suspicious = copied & ~np.isin(train.row_keys(), holdout.row_keys())
    listed = np.sort(rows[suspicious])[:MAX_LISTED_ROWS].tolist()
    details = {"copied_rows": int(suspicious.sum()), "row_numbers": listed}
    return Attack.of_rates("exact_copies", rates, sentence, details)


def attack_near_copies(train: Records, holdout: Records, synthetic: Records) -> Attack:
    """Compare how many training rows and hold-out rows are among those closest to a synthetic row.

    Rows that equal a synthetic row are left out: they are exact copies.
    """
    distances = [-of_rows for of_rows in closeness(train, holdout, synthetic)]
    drawn = synthetic.row_keys()
    rest = [d[~np.isin(rows.row_keys(), drawn)] for d, rows in zip(distances, (train, holdout), strict=True)]
    if min(map(len, rest)) < MIN_OTHER_ROWS:
        counts = " and ".join(f"{len(each):,}" for each in rest)
        reason = f"it needs {MIN_OTHER_ROWS} rows of each table that equal no synthetic row, got {counts}"
        return Attack.not_run("near_copies", reason)
    bound = nearness_bound(np.concatenate(rest))
    rates = [Rate(int((each <= bound).sum()), len(each)) for each in rest]
    near = sum(rate.successes for rate in rates) / sum(rate.total for rate in rates)
    sentence = (
        f"Of the real rows that equal no synthetic row, the {format_percent(near)} closest to one are counted: "
        f"{format_percent(rates[0].value)} of the training rows are among them, and {format_percent(rates[1].value)} "
        "of the hold-out rows."
    )
    return Attack.of_rates("near_copies", rates, sentence, {"largest_distance": bound, "counted": near})


def nearness_bound(distances: Floats) -> float:
    """Return the distance up to which rows are near: `NEAR_FRACTION` of them are, or fewer if many are equally far.

    If even the smallest distance is that of more rows, all of these are near.

    >>> nearness_bound(np.arange(100.0)), nearness_bound(np.repeat([1.0, 2.0, 3.0], [4, 50, 46]))
    (4.0, 1.0)
    """
    values, counts = np.unique(distances, return_counts=True)
    n_near = int(np.searchsorted(np.cumsum(counts), NEAR_FRACTION * len(distances), side="right"))
    return float(values[max(n_near - 1, 0)])


def attack_rare_values(
    train: Records, holdout: Records, synthetic: Records, k: int, rng: np.random.Generator
) -> Attack:
    """Search synthetic rows for values of fewer than k rows of one table that the other table does not have."""
    rates = [_rare_rate(own, other, synthetic, k) for own, other in ((train, holdout), (holdout, train))]
    name, shared = "rare_values", _n_rare(train, k) - rates[0].total
    if not rates[0].total:
        return _nothing_to_judge(shared, k)
    sentence = (
        f"Of {rates[0].total:,} labels and extremes that fewer than {k} of the attacked training rows have, and no "
        f"attacked hold-out row, {format_percent(rates[0].value)} occur in synthetic rows; of {rates[1].total:,} such "
        f"values of hold-out rows, {format_percent(rates[1].value)}."
    )
    if shared:
        sentence += f" Rare values that hold-out rows also have are not judged: {shared:,}."
    details = {"k": k, "values": rates[0].total, "drawn": rates[0].successes, "shared": shared}
    error = _split_error(concat(train, holdout), synthetic, k, rng)
    found = Attack.of_rates(name, rates, sentence, details, least_error=error)
    is_decided = found.light == "green" or exceeds(rates[0], rates[1], LEVEL)
    if (found.is_open or not is_decided) and min(rate.total for rate in rates) < MIN_RARE_VALUES:
        return replace(found, light="none", sentence=f"{sentence} These are too few to judge.")
    return found


def _nothing_to_judge(shared: int, k: int) -> Attack:
    """Return the result if the hold-out rows have all rare values of the training rows, of which there may be none."""
    if not shared:
        sentence = f"No label and no extreme value of the attacked training rows has fewer than {k} rows."
        return Attack("rare_values", "green", sentence)
    sentence = (
        f"Not judged: attacked hold-out rows also have all labels and extremes that fewer than {k} of the attacked "
        f"training rows have ({shared:,}), so that these may come from either."
    )
    return Attack("rare_values", "none", sentence, details={"k": k, "values": 0, "drawn": 0, "shared": shared})


def _split_error(real: Records, synthetic: Records, k: int, rng: np.random.Generator) -> float:
    """Return the error of the difference of both rates: the rare values of a column are not independent."""
    differences = []
    for half in random_halves(len(real), rng):
        one, other = real.take(np.flatnonzero(half)), real.take(np.flatnonzero(~half))
        rates = _rare_rate(one, other, synthetic, k), _rare_rate(other, one, synthetic, k)
        differences.append(rates[0].value - rates[1].value)
    return split_error(np.array(differences), LEVEL)


def rare_values(records: Records, column: int, k: int) -> Floats:
    """Return the labels of a column of fewer than k rows; of numbers, those among the k smallest or largest cells."""
    cells = records.column(column)
    values, counts = np.unique(cells[~np.isnan(cells)], return_counts=True)
    is_rare = counts < k
    if column < records.n_numbers:
        up_to, total = np.cumsum(counts), int(counts.sum())
        is_rare &= (up_to - counts < k) | (up_to > total - k)
    return values[is_rare]


def _n_rare(records: Records, k: int) -> int:
    return sum(len(rare_values(records, column, k)) for column in range(len(records.names)))


def _rare_rate(own: Records, other: Records, synthetic: Records, k: int) -> Rate:
    """Return how many rare values of one table that the other does not have occur in synthetic rows."""
    drawn, total = 0, 0
    for column in range(len(own.names)):
        values = np.setdiff1d(rare_values(own, column, k), other.column(column))
        drawn += int(np.isin(values, synthetic.column(column)).sum())
        total += len(values)
    return Rate(drawn, total)
