"""Singling out: descriptions that fit exactly one row.

The attacker reads synthetic rows, finds descriptions that fit exactly one of them, and hopes that each also fits
exactly one person of the training table (Giomi et al., 2023). A description of one column is a unique value, or the
smallest or largest one. A description of several columns takes some cells of a random synthetic row: a number bounds
the column towards the end of its range, a category must be equal. The baseline counts the descriptions that fit exactly
one of as many hold-out rows: those are unique in any table of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from harpoon._formatting import format_percent, shorten
from harpoon.data import Floats, Mask
from harpoon.privacy.attack_results import LEVEL, Attack
from harpoon.privacy.rates import Rate, random_halves, split_error
from harpoon.privacy.records import Codes, Records

N_ATTACKS = 2000  # descriptions
N_COLUMNS = 3  # of a description of several columns
MAX_ATTEMPTS = 40 * N_ATTACKS


class Term(NamedTuple):
    """A condition on one column: its value is missing, equal, at most or at least so much."""

    column: int
    comparison: Literal["missing", "=", "<=", ">="]
    value: float = 0.0

    def matches(self, records: Records) -> Mask:
        """Return which rows satisfy it, (n,)."""
        cells = records.column(self.column)
        if self.comparison == "missing":
            return np.isnan(cells)
        if self.comparison == "=":
            return np.equal(cells, self.value)
        return np.less_equal(cells, self.value) if self.comparison == "<=" else np.greater_equal(cells, self.value)


Description = tuple[Term, ...]


def attack_by_one_column(train: Records, holdout: Records, synthetic: Records, rng: np.random.Generator) -> Attack:
    """Single out by unique values and by the ends of the ranges of synthetic rows; the details are by column."""
    descriptions = one_column_descriptions(synthetic, rng)
    attack = _attack("singling_out", descriptions, train, holdout, rng)
    if not descriptions:
        return attack
    of_column = np.array([term.column for (term,) in descriptions])
    hits = [matches(descriptions, records).sum(axis=1) == 1 for records in (train, holdout)]
    columns = _by_column(synthetic.names, of_column, hits)
    return replace(attack, sentence=attack.sentence + _name_worst(columns), details={"columns": columns})


def attack_by_several_columns(train: Records, holdout: Records, synthetic: Records, rng: np.random.Generator) -> Attack:
    """Single out by some cells of synthetic rows."""
    return _attack("singling_out_combined", combined_descriptions(synthetic, rng), train, holdout, rng)


def one_column_descriptions(synthetic: Records, rng: np.random.Generator) -> list[Description]:
    """Return descriptions of one column that fit exactly one synthetic row, at most `N_ATTACKS` of them."""
    found: list[Description] = []
    for column in range(len(synthetic.names)):
        cells = synthetic.column(column)
        observed = cells[~np.isnan(cells)]
        values, counts = np.unique(observed, return_counts=True)
        if len(cells) - len(observed) == 1:
            found.append((Term(column, "missing"),))
        if column < synthetic.n_numbers and len(values):
            ends = ((counts[0], Term(column, "<=", values[0])), (counts[-1], Term(column, ">=", values[-1])))
            found += [(term,) for count, term in ends if count == 1]
        found += [(Term(column, "=", value),) for value in values[counts == 1].tolist()]
    return [found[index] for index in rng.permutation(len(found))[:N_ATTACKS]]


def combined_descriptions(synthetic: Records, rng: np.random.Generator) -> list[Description]:
    """Return descriptions of several columns that fit exactly one synthetic row, at most `N_ATTACKS` of them."""
    n_columns = min(N_COLUMNS, len(synthetic.names))
    medians = [_median(column) for column in synthetic.numbers.T]
    fits_one: dict[Description, bool] = {}  # of those that were tried: few columns have few descriptions
    found: list[Description] = []
    for _ in range(MAX_ATTEMPTS):
        row = int(rng.integers(len(synthetic)))
        columns = np.sort(rng.choice(len(synthetic.names), size=n_columns, replace=False)).tolist()
        description = tuple(_term(synthetic, row, column, medians) for column in columns)
        if description not in fits_one:
            fits_one[description] = bool(_matches(description, synthetic).sum() == 1)
            found += [description] * fits_one[description]
        if len(found) == N_ATTACKS:
            break
    return found


def matches(descriptions: Sequence[Description], records: Records) -> Mask:
    """Return which descriptions fit which rows, (descriptions, n)."""
    return np.stack([_matches(description, records) for description in descriptions])


def _attack(
    name: str, descriptions: list[Description], train: Records, holdout: Records, rng: np.random.Generator
) -> Attack:
    if not descriptions:
        return Attack(name, "green", "No description fits exactly one synthetic row, so none can single out a person.")
    fits = [matches(descriptions, records) for records in (train, holdout)]
    rates = [Rate(int((one.sum(axis=1) == 1).sum()), len(descriptions)) for one in fits]
    sentence = (
        f"Of {len(descriptions):,} descriptions that fit exactly one synthetic row, {format_percent(rates[0].value)} "
        f"fit exactly one training row, and {format_percent(rates[1].value)} exactly one of as many hold-out rows."
    )
    return Attack.of_rates(name, rates, sentence, least_error=_split_error(np.concatenate(fits, axis=1), rng))


def _by_column(names: Sequence[str], of_column: Codes, hits: Sequence[Mask]) -> list[dict[str, Any]]:
    """Return the numbers of descriptions and of successes of each column, the largest excess first."""
    counts = [np.bincount(of_column[one], minlength=len(names)).tolist() for one in (of_column >= 0, *hits)]
    found = [
        {"name": name, "descriptions": total, "training_rows": of_train, "holdout_rows": of_holdout}
        for name, total, of_train, of_holdout in zip(names, *counts, strict=True)
        if total
    ]
    return sorted(found, key=lambda one: one["holdout_rows"] - one["training_rows"])


def _name_worst(columns: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence about the column with the largest excess; nothing if no column has one."""
    worst = columns[0]
    if worst["training_rows"] <= worst["holdout_rows"]:
        return ""
    return (
        f" Most of the difference is due to {shorten(worst['name'])}: of its {worst['descriptions']:,} descriptions, "
        f"{worst['training_rows']:,} fit exactly one training row, and {worst['holdout_rows']:,} exactly one hold-out "
        "row."
    )


def _split_error(fits: Mask, rng: np.random.Generator) -> float:
    """Return the error of the difference of both rates: one row, such as an outlier, fits many descriptions."""
    halves = random_halves(fits.shape[1], rng)
    of_half = fits.astype(np.float32) @ halves.T.astype(np.float32)  # (descriptions, splits)
    of_other = fits.sum(axis=1, keepdims=True) - of_half
    return split_error((of_half == 1).mean(axis=0) - (of_other == 1).mean(axis=0), LEVEL)


def _matches(description: Description, records: Records) -> Mask:
    found = description[0].matches(records)
    for term in description[1:]:
        found = found & term.matches(records)
    return found


def _term(records: Records, row: int, column: int, medians: list[float]) -> Term:
    """Return the condition that a cell of a row makes on its column."""
    value = float(records.column(column)[row])
    if np.isnan(value):
        return Term(column, "missing")
    if column >= records.n_numbers:
        return Term(column, "=", value)
    return Term(column, ">=" if value > medians[column] else "<=", value)


def _median(cells: Floats) -> float:
    observed = cells[~np.isnan(cells)]
    return float(np.median(observed)) if len(observed) else 0.0
