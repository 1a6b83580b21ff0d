"""What an imputation can be besides one filled table: expectations, and several draws with what they say together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harpoon.data.statistics import Floats
from harpoon.exceptions import InvalidOption


@dataclass(frozen=True)
class Pooled:
    """An estimate from several completed tables, by Rubin's rules.

    Attributes:
        names: What is estimated, where the estimator says so.
        estimate: The mean over the tables.
        error: The standard error, from the variance within the tables and between them.
        freedom: The degrees of freedom of the t law that goes with it (infinite where the tables agree).
        missing_information: The share of the variance that is due to the missing cells.
    """

    names: tuple[str, ...]
    estimate: Floats
    error: Floats
    df: Floats
    missing_information: Floats

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """The confidence interval of each estimate."""
        from scipy.stats import t

        reach = t.ppf(0.5 + check_level(level) / 2, np.minimum(self.df, 1e9)) * self.error
        return self.estimate - reach, self.estimate + reach

    def __str__(self) -> str:
        low, high = self.interval()
        names = self.names or tuple(str(place) for place in range(len(self.estimate)))
        rows: list[tuple[str, ...]] = [("", "estimate", "error", "95 % from", "to", "missing information")]
        numbers = zip(self.estimate, self.error, low, high, self.missing_information, strict=True)
        rows += [(name, *(f"{value:.4g}" for value in row)) for name, row in zip(names, numbers, strict=True)]
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def estimates_of(result: Any) -> tuple[Floats, Floats, tuple[str, ...]]:  # noqa: ANN401
    """Estimates, their variances and their names, from whatever an estimator returned."""
    if hasattr(result, "params") and hasattr(result, "bse"):
        names = tuple(str(name) for name in getattr(result.params, "index", ()))
        return _flat(result.params), _flat(result.bse) ** 2, names
    if hasattr(result, "coef_"):
        coefficients = np.concatenate([_flat(getattr(result, "intercept_", [])), _flat(result.coef_)])
        return coefficients, np.zeros_like(coefficients), ()
    try:
        estimates, variances = (_flat(part) for part in result)
    except (TypeError, ValueError):
        raise InvalidOption(
            "An estimator to pool must return a result with params and bse, one with coef_, or a pair of estimates and "
            f"variances, got {type(result).__name__}."
        ) from None
    return estimates, variances, ()


def _flat(values: object) -> Floats:
    return np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()


def check_level(level: float) -> float:
    if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise InvalidOption(f"level must be between 0 and 1, such as 0.9, got {level!r}.")
    return level
