"""Attribute inference: an unknown cell of a person of whom all other cells are known.

The attacker searches the synthetic row that is closest by the known cells, and reads the unknown one from it (Giomi et
al., 2023). A guessed category must be right, a guessed number may be off by 5 %, and a guessed time by 5 % of a
standard deviation. The baseline attacks hold-out rows: what the synthetic rows reveal about them is true of all people,
and not learnt from a training row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harpoon._formatting import format_percent, shorten
from harpoon.data import Floats, Mask
from harpoon.privacy.attack_results import ATTACKS, LEVEL, Attack, Light, worst_light
from harpoon.privacy.rates import Rate, excess_risk, mean_excess_risk, mean_rate
from harpoon.privacy.records import Records, column_distances

NAME = "attribute_inference"
MIN_COLUMNS = 2
TOLERANCE = 0.05  # of a guessed number, relative


def attack_attributes(train: Records, holdout: Records, synthetic: Records) -> Attack:
    """Guess each cell of each row from the others."""
    n_columns = len(synthetic.names)
    if n_columns < MIN_COLUMNS:
        return Attack.not_run(NAME, f"it needs {MIN_COLUMNS} modelled columns, got {n_columns}")
    right = [guess_cells(records, synthetic) for records in (train, holdout)]
    # The cells of a row are not independent of each other; the rows are.
    by_row = [one.mean(axis=1) for one in right]
    risk = mean_excess_risk(by_row[0], by_row[1], LEVEL)
    columns = [_column_risk(right[0][:, index], right[1][:, index], n_columns) for index in range(n_columns)]
    red = ATTACKS[NAME].red
    lights: list[Light] = ["red" if low > red else "yellow" if low > 0 else "green" for _, (low, _) in columns]
    worst = max(range(n_columns), key=lambda index: columns[index][1][0])
    rates = [float(one.mean()) for one in by_row]
    rates_of_worst = [format_percent(float(one[:, worst].mean())) for one in right]
    sentence = (
        f"The closest synthetic row reveals {format_percent(rates[0])} of the unknown cells of training rows, and "
        f"{format_percent(rates[1])} of those of hold-out rows; the column with the largest risk is "
        f"{shorten(synthetic.names[worst])} ({rates_of_worst[0]} and {rates_of_worst[1]})."
    )
    of_columns = [
        {"name": name, "risk": value, "interval": list(interval)}
        for name, (value, interval) in zip(synthetic.names, columns, strict=True)
    ]
    baseline, details = mean_rate(by_row[1], LEVEL), {"columns": of_columns}
    found = Attack.judged(
        NAME, sentence, risk=risk, rate=rates[0], baseline=baseline, attacks=len(train), details=details
    )
    return replace(found, light=worst_light([found.light, *lights]))


def guess_cells(records: Records, synthetic: Records) -> Mask:
    """Return which cells are guessed right from the closest synthetic row by all other cells, (n, columns)."""
    right = np.zeros((len(records), len(records.names)), dtype=np.bool_)
    for part, by_column in column_distances(records, synthetic):
        total = by_column.sum(axis=0)
        rows = records.take(part)
        for column, of_column in enumerate(by_column):
            closest = synthetic.take((total - of_column).argmin(axis=1))
            right[part, column] = is_right(closest, rows, column)
    return right


def is_right(guesses: Records, truth: Records, column: int) -> Mask:
    """Return which guessed cells of a column are right, (n,). A missing cell must be guessed as missing."""
    guess, true = guesses.column(column), truth.column(column)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(guess - true)
        close = error <= (_tolerance(guess, guesses, column) if column < guesses.n_numbers else 0.0)
    return np.asarray(close | (np.isnan(guess) & np.isnan(true)), dtype=np.bool_)


def _tolerance(guess: Floats, guesses: Records, column: int) -> Floats:
    if guesses.is_ratio[column]:
        return TOLERANCE * np.abs(guess)
    observed = guess[~np.isnan(guess)]
    return np.full(len(guess), TOLERANCE * float(observed.std()) if len(observed) else 0.0)


def _column_risk(train: Mask, holdout: Mask, n_columns: int) -> tuple[float, tuple[float, float]]:
    """Return the excess risk of one of several columns, whose intervals hold together."""
    rates = [Rate(int(one.sum()), len(one)) for one in (train, holdout)]
    risk = excess_risk(rates[0], rates[1], 1 - (1 - LEVEL) / n_columns)
    return risk.value, (risk.low, risk.high)
