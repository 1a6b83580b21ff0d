"""Copies: real rows that synthetic rows equal or nearly equal, and rare values that they have.

The unit is a real row, not a synthetic one: given the synthetic rows, training rows and hold-out rows of the same
distribution are equally often copied, and independently of each other.
"""

from __future__ import annotations

import numpy as np

from harpoon._formatting import format_percent
from harpoon.data import Floats
from harpoon.privacy.attacks.membership import closeness
from harpoon.privacy.attacks.records import Codes, Records, concat
from harpoon.privacy.attacks.success import attack_of_rates
from harpoon.privacy.rates import Rate, random_halves, split_error
from harpoon.privacy.results import LEVEL, Attack

NEAR_FRACTION = 0.05  # of the real rows, which count as near the synthetic ones
MAX_LISTED_ROWS = 20
MIN_RARE_VALUES = 20  # of each table: fewer say too little


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
    return attack_of_rates("exact_copies", rates, sentence, details)


def attack_near_copies(train: Records, holdout: Records, synthetic: Records) -> Attack:
    """Compare how many training rows and hold-out rows are among the real rows that are closest to a synthetic row."""
    close = closeness(train, holdout, synthetic)
    bound = np.quantile(np.concatenate(close), 1 - NEAR_FRACTION)
    rates = [Rate(int((one >= bound).sum()), len(one)) for one in close]
    sentence = (
        f"{format_percent(rates[0].value)} of the training rows, and {format_percent(rates[1].value)} of the hold-out "
        f"rows, are among the {format_percent(NEAR_FRACTION)} of the real rows that are closest to a synthetic row."
    )
    return attack_of_rates("near_copies", rates, sentence, {"largest_distance": float(-bound)})


def attack_rare_values(
    train: Records, holdout: Records, synthetic: Records, k: int, rng: np.random.Generator
) -> Attack:
    """Search synthetic rows for values of fewer than k rows of one table that the other table does not have."""
    rates = [_rare_rate(own, other, synthetic, k) for own, other in ((train, holdout), (holdout, train))]
    name, fewest = "rare_values", min(rate.total for rate in rates)
    if not rates[0].total:
        return Attack(name, "green", f"No label and no extreme value of the training rows has fewer than {k} rows.")
    sentence = (
        f"Of {rates[0].total:,} labels and extremes that fewer than {k} of the attacked training rows have, and no "
        f"attacked hold-out row, {format_percent(rates[0].value)} occur in synthetic rows; of {rates[1].total:,} such "
        f"values of hold-out rows, {format_percent(rates[1].value)}."
    )
    details = {"k": k, "values": rates[0].total, "drawn": rates[0].successes}
    if fewest < MIN_RARE_VALUES:
        return Attack(name, "none", f"{sentence} These are too few to judge.", attacks=rates[0].total, details=details)
    error = _split_error(concat(train, holdout), synthetic, k, rng)
    return attack_of_rates(name, rates, sentence, details, least_error=error)


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


def _rare_rate(own: Records, other: Records, synthetic: Records, k: int) -> Rate:
    """Return how many rare values of one table that the other does not have occur in synthetic rows."""
    drawn, total = 0, 0
    for column in range(len(own.names)):
        values = np.setdiff1d(rare_values(own, column, k), other.column(column))
        drawn += int(np.isin(values, synthetic.column(column)).sum())
        total += len(values)
    return Rate(drawn, total)
