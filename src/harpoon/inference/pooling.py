"""Estimates from several completed tables, combined by Rubin's rules (Rubin, 1987)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harpoon.data.statistics import Floats
from harpoon.exceptions import InvalidOption

MIN_TABLES = 2
LARGE_DF = 1e9  # degrees of freedom at which the t distribution is normal


@dataclass(frozen=True)
class Pooled:
    """An estimate from several completed tables, by Rubin's rules.

    Attributes:
        names: The names of the parameters, if the estimator has them.
        estimate: The mean over the tables.
        error: The standard error, from the variance within and between the tables.
        df: Degrees of freedom of the t distribution; infinite if the tables agree.
        missing_information: The fraction of the variance that is due to missing cells.
    """

    names: tuple[str, ...]
    estimate: Floats
    error: Floats
    df: Floats
    missing_information: Floats

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the confidence interval of each parameter."""
        from scipy.stats import t

        half = t.ppf(0.5 + check_level(level) / 2, np.minimum(self.df, LARGE_DF)) * self.error
        return self.estimate - half, self.estimate + half

    def __str__(self) -> str:
        low, high = self.interval()
        names = self.names or tuple(str(number) for number in range(len(self.estimate)))
        rows: list[tuple[str, ...]] = [("", "estimate", "error", "95 % from", "to", "missing information")]
        numbers = zip(self.estimate, self.error, low, high, self.missing_information, strict=True)
        rows += [(name, *(f"{value:.4g}" for value in row)) for name, row in zip(names, numbers, strict=True)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def pool(tables: Sequence[Any], estimator: Callable[[Any], Any]) -> Pooled:
    """Estimate on each table and combine: total variance = within + (1 + 1/m) between."""
    if not callable(estimator):
        raise InvalidOption(
            "An estimator to pool must be a function of a table that returns a fitted result, got "
            f"{type(estimator).__name__}: for example lambda table: model.fit(table[features], table[target])."
        )
    if len(tables) < MIN_TABLES:
        raise InvalidOption("Pooling needs at least 2 draws, got 1. Use impute(table, draws=20).")
    results = [_estimates(estimator(table)) for table in tables]
    estimates, variances = (np.stack([result[i] for result in results]) for i in (0, 1))
    m, within, between = len(results), variances.mean(axis=0), estimates.var(axis=0, ddof=1)
    total = within + (1 + 1 / m) * between
    fraction = np.divide((1 + 1 / m) * between, total, out=np.zeros_like(total), where=total > 0)
    df = np.divide(m - 1, fraction**2, out=np.full_like(total, np.inf), where=fraction > 0)
    return Pooled(results[0][2], estimates.mean(axis=0), np.sqrt(total), df, fraction)


def check_level(level: float) -> float:
    """Return the level, or raise InvalidOption unless it is between 0 and 1."""
    if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise InvalidOption(f"level must be between 0 and 1, such as 0.9, got {level!r}.")
    return level


def _estimates(result: Any) -> tuple[Floats, Floats, tuple[str, ...]]:  # noqa: ANN401
    """Return the estimates, their variances and their names, from what an estimator returned."""
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
