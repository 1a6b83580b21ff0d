"""Estimates with intervals: rates of successful attacks, excess risks, and areas under ROC curves."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact, norm, rankdata

from harpoon.data import Floats

N_SPLITS = 100  # random halves of the rows, by which the error of a difference is estimated


@dataclass(frozen=True)
class Estimate:
    """A value with an interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, error: float, lowest: float = -inf, highest: float = 1.0) -> Estimate:
        """Return a value plus and minus an error, as far as such values are possible."""
        return cls(float(value), float(max(value - error, lowest)), float(min(value + error, highest)))


@dataclass(frozen=True)
class Rate:
    """How many of some attacks were successful."""

    successes: int
    total: int

    @property
    def value(self) -> float:
        """The fraction of successful attacks; 0 without any."""
        return self.successes / self.total if self.total else 0.0

    def wilson(self, level: float) -> tuple[float, float]:
        """Return the centre of the interval of Wilson (1927) and half of its width."""
        z = quantile(level)
        size = self.total + z * z
        variance = self.successes * (self.total - self.successes) / self.total if self.total else 0.0
        return (self.successes + z * z / 2) / size, z / size * sqrt(variance + z * z / 4)


def quantile(level: float) -> float:
    """Return the standard normal quantile of a two-sided interval."""
    return float(norm.ppf((1 + level) / 2))


def random_halves(n_rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return `N_SPLITS` random halves of an even number of rows, (splits, rows)."""
    order = rng.permuted(np.tile(np.arange(n_rows), (N_SPLITS, 1)), axis=1)
    return np.asarray(order < n_rows // 2, dtype=np.bool_)


def split_error(differences: Floats, level: float) -> float:
    """Return half of the width of an interval of a difference of rates, from that of random halves of the rows.

    Attacks on a table are no independent trials if one row can make many of them succeed. If the two tables are of one
    distribution, the differences between random halves of their rows are distributed like that between the tables.
    """
    return quantile(level) * float(np.sqrt(np.mean(differences**2)))


def excess_risk(attack: Rate, baseline: Rate, level: float, *, least_error: float = 0.0) -> Estimate:
    """Return by how much an attack succeeds beyond its baseline, of what the baseline leaves: (a - b) / (1 - b).

    The interval is that of Anonymeter (Giomi et al., 2023): Wilson's of both rates, and errors propagated. Anonymeter
    clips the result to the range from 0 to 1; here it stays negative if the baseline is better, and ends at 1.
    `least_error` is that of the difference of both rates, from `split_error`.
    """
    (a, error_a), (b, error_b) = attack.wilson(level), baseline.wilson(level)
    error = max(_propagate(a, error_a, b, error_b), least_error / (1 - b))
    return Estimate.of((a - b) / (1 - b), error)


def mean_excess_risk(attack: Floats, baseline: Floats, level: float) -> Estimate:
    """Return the excess risk of the mean success of independent rows, (n,) and (m,), each from 0 to 1."""
    (a, error_a), (b, error_b) = _mean(attack, level), _mean(baseline, level)
    if b >= 1:
        return Estimate(0.0, 0.0, 0.0)
    return Estimate.of((a - b) / (1 - b), _propagate(a, error_a, b, error_b))


def mean_rate(successes: Floats, level: float) -> Estimate:
    """Return the mean success of independent rows, (n,), each from 0 to 1."""
    return Estimate.of(*_mean(successes, level), lowest=0.0)


def exceeds(attack: Rate, baseline: Rate, level: float) -> bool:
    """Return whether an attack succeeds more often than its baseline, by Fisher's exact test (1935).

    The probability of such a result by chance is at most that of one end of a two-sided interval.
    """
    table = [[rate.successes, rate.total - rate.successes] for rate in (attack, baseline)]
    return bool(fisher_exact(table, alternative="greater").pvalue <= (1 - level) / 2)


def difference(first: Rate, second: Rate, level: float) -> Estimate:
    """Return the difference of two rates with the interval of Newcombe (1998)."""
    value = first.value - second.value
    (a, error_a), (b, error_b) = first.wilson(level), second.wilson(level)
    low = sqrt((first.value - (a - error_a)) ** 2 + (b + error_b - second.value) ** 2)
    high = sqrt((a + error_a - first.value) ** 2 + (second.value - (b - error_b)) ** 2)
    return Estimate(value, value - low, value + high)


def area_under_curve(positive: Floats, negative: Floats, level: float) -> Estimate:
    """Return the area under the ROC curve with the interval of DeLong et al. (1988).

    It is the probability that one of the positive scores is larger than one of the negative ones; ties count half.

    >>> area_under_curve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0]), 0.95).value
    0.75
    """
    n_positive, n_negative = len(positive), len(negative)
    among_all = rankdata(np.concatenate([positive, negative]))
    above = (among_all[:n_positive] - rankdata(positive)) / n_negative
    below = 1 - (among_all[n_positive:] - rankdata(negative)) / n_positive
    variance = above.var(ddof=1) / n_positive + below.var(ddof=1) / n_negative
    return Estimate.of(float(above.mean()), quantile(level) * sqrt(variance), lowest=0.0)


def advantage(positive: Floats, negative: Floats, level: float, rng: np.random.Generator) -> Estimate:
    """Return the advantage of an attack: its true positive rate minus its false positive rate (Yeom et al., 2018).

    The threshold is chosen on one half of the rows and applied to the other half, in both directions, because the best
    threshold on the same rows is better than chance even if the scores say nothing.
    """
    halves = [np.array_split(rng.permutation(scores), 2) for scores in (positive, negative)]
    true, false = 0, 0
    for chosen, tested in ((0, 1), (1, 0)):
        threshold = _best_threshold(halves[0][chosen], halves[1][chosen])
        true += int((halves[0][tested] >= threshold).sum())
        false += int((halves[1][tested] >= threshold).sum())
    return difference(Rate(true, len(positive)), Rate(false, len(negative)), level)


def _best_threshold(positive: Floats, negative: Floats) -> float:
    """Return the score from which on to guess "positive", by the largest difference of both rates."""
    scores = np.unique(np.concatenate([positive, negative]))
    at_least = [1 - np.searchsorted(np.sort(part), scores) / len(part) for part in (positive, negative)]
    return float(scores[(at_least[0] - at_least[1]).argmax()])


def _mean(values: Floats, level: float) -> tuple[float, float]:
    """Return a mean and half of the width of its interval; one more row of 0.5 keeps the width above 0."""
    spread = np.append(values, 0.5).std(ddof=1)
    return float(values.mean()), quantile(level) * float(spread) / sqrt(len(values))


def _propagate(a: float, error_a: float, b: float, error_b: float) -> float:
    return sqrt((error_a / (1 - b)) ** 2 + (error_b * (a - 1) / (1 - b) ** 2) ** 2)
