"""Targets for a sampled table: n rows whose means, shares, standard deviations or correlations have given values.

A pool of rows is sampled from the model. Exponential tilting finds the weights nearest to equal ones, in the sense of
Kullback and Leibler, under which the pool has the values: the weight of a row is exp(θ · g) for its residuals g, and θ
minimises the convex log Σ exp(θ · g) (Csiszár, 1975, "I-divergence geometry"). Standard deviations and correlations are
not linear in the weights; their residuals are linearised again until the weights meet them. Rows are then chosen by
systematic resampling, and single rows exchanged for others of the pool until each value is within its tolerance.
Every returned row is a row of the pool, which means that it is a sample of the model and obeys conditions and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from time import perf_counter

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from harpoon._utils.rng import Stream, generator
from harpoon._utils.weighted_rows import effective_size, systematic_resample
from harpoon.data import Columns, Floats, Index, concat, n_rows, take
from harpoon.exceptions import InfeasibleCondition, InvalidOption
from harpoon.inference.conditional.aggregates import Target
from harpoon.inference.diagnostics.sampling_info import SamplingInfo

POOL_FACTOR = 20  # rows of the pool for each row that is asked for
MIN_POOL = 5_000
MAX_POOL = 200_000
MAX_SEARCH = 40_000  # rows of a pool that does not reach the targets, after which more are not tried
DEFAULT_TOLERANCE = 0.01  # standard deviations
ROUNDING = 1e-9  # relative error of sums that does not count
PRECISION = 1e-4  # of weights, in standard deviations; rows may be more precise
RIDGE = 1e-7  # keeps θ finite where a target is at the end of what the pool can reach
SOLVER = {"gtol": 1e-8, "maxiter": 100}
MAX_LINEARISATIONS = 40
UNDAMPED = 8  # linearisations before steps are halved
MIN_EXCHANGES, MAX_EXCHANGES = 256, 65_536  # pairs of rows of which the best is exchanged
MAX_FAILURES = 6  # without an improvement

# A number of rows, the number of the first, and how many at least, to rows.
SamplePool = Callable[[int, int, int], tuple[Columns, SamplingInfo]]


@dataclass(frozen=True)
class Pool:
    """Rows and the targets measured in them, in standard deviations of the pool.

    Attributes:
        rows: The rows.
        targets: The targets.
        n: The number of rows to choose.
    """

    rows: Columns
    targets: Sequence[Target]
    n: int

    @cached_property
    def raw(self) -> list[Floats]:
        """The arguments of each target, (arguments, rows)."""
        return [np.stack([part.evaluate(self.rows) for part in target.arguments]) for target in self.targets]

    @cached_property
    def scales(self) -> list[tuple[Floats, Floats]]:
        """Mean and standard deviation of the arguments of each target, (arguments, 1) each."""
        moments = []
        for cells in self.raw:
            count = np.maximum((~np.isnan(cells)).sum(axis=1, keepdims=True), 1)
            mean = np.nansum(cells, axis=1, keepdims=True) / count
            std = np.sqrt(np.nansum((cells - mean) ** 2, axis=1, keepdims=True) / count)
            moments.append((mean, np.where(std > 0, std, 1.0)))
        return moments

    @cached_property
    def arguments(self) -> list[Floats]:
        """The same arguments, standardised."""
        return [(cells - mean) / std for cells, (mean, std) in zip(self.raw, self.scales, strict=True)]

    @cached_property
    def moments(self) -> Floats:
        """What is summed over rows, (rows, k), for all targets side by side."""
        pairs = zip(self.targets, self.arguments, strict=True)
        return np.concatenate([target.aggregate.moments(cells) for target, cells in pairs], axis=1)

    @cached_property
    def units(self) -> Floats:
        """Origin and unit of each target in the pool's standardised values, (targets, 2)."""
        units = []
        for target, (mean, std) in zip(self.targets, self.scales, strict=True):
            kind = target.aggregate
            units.append((mean[0, 0] if kind.has_location else 0.0, std[0, 0] if kind.has_scale else 1.0))
        return np.array(units)

    @cached_property
    def goals(self) -> Floats:
        """The standardised values of the targets, (targets,)."""
        return (np.array([target.value for target in self.targets]) - self.units[:, 0]) / self.units[:, 1]

    @cached_property
    def tolerances(self) -> Floats:
        """The standardised tolerances, (targets,): by default not finer than n rows can express."""
        found = []
        for target, cells, (_, std), (_, unit) in zip(self.targets, self.raw, self.scales, self.units, strict=True):
            observed = max(float((~np.isnan(cells).any(axis=0)).mean()), 1 / self.n) * self.n
            step = max(part.resolution / scale[0] for part, scale in zip(target.arguments, std, strict=True))
            default = max(DEFAULT_TOLERANCE, 0.5 * float(step) / observed)
            found.append(default if target.tolerance is None else target.tolerance / unit)
        return np.array(found)

    @cached_property
    def _ends(self) -> list[int]:
        """Where the moments of each target but the last end."""
        pairs = zip(self.targets, self.arguments, strict=True)
        widths = [target.aggregate.moments(cells[:, :1]).shape[1] for target, cells in pairs]
        return list(accumulate(widths[:-1]))

    def values(self, sums: Floats) -> Floats:
        """Return the standardised values of the targets from sums, (..., k) to (..., targets)."""
        parts = zip(self.targets, np.split(sums, self._ends, axis=-1), strict=True)
        return np.stack([target.aggregate.value(part) for target, part in parts], axis=-1)

    def misses(self, sums: Floats) -> Floats:
        """Return how far the targets are missed, in tolerances, (..., targets); infinite where one is undefined."""
        far = np.abs(self.values(sums) - self.goals)
        slack = ROUNDING * (1 + np.abs(self.goals))  # also makes a tolerance of 0 possible
        return np.where(np.isnan(far), np.inf, np.maximum(far - slack, 0.0) / np.maximum(self.tolerances, slack))

    def residuals(self, sums: Floats) -> Floats:
        """Return the residuals of each row, (rows, targets), linearised at given sums (k,)."""
        parts = zip(self.targets, self.arguments, np.split(sums, self._ends), self.goals.tolist(), strict=True)
        return np.stack([t.aggregate.residual(cells, part, goal) for t, cells, part, goal in parts], axis=1)

    def in_units(self, values: Floats) -> dict[str, float]:
        """Return standardised values in the units of the table, by target."""
        numbers = (values * self.units[:, 1] + self.units[:, 0]).tolist()
        return {target.text: number for target, number in zip(self.targets, numbers, strict=True)}

    def measure(self, chosen: Index) -> dict[str, float]:
        """Return the value of each target in chosen rows."""
        values = self.in_units(self.values(self.moments[chosen].sum(axis=0)))
        for target, cells in zip(self.targets, self.raw, strict=True):
            if target.aggregate.has_location:  # without the rounding errors of standardised numbers
                sums = target.aggregate.moments(cells[:, chosen]).sum(axis=0)
                values[target.text] = float(target.aggregate.value(sums))
        return values

    def out_of_range(self) -> str:
        """Return which target no weights of the rows can meet, and why; "" if each is in its own range."""
        count = f"{n_rows(self.rows):,} sampled rows"
        values = self.values(self.n * self.moments.mean(axis=0)).tolist()
        for target, cells, value in zip(self.targets, self.raw, values, strict=True):
            observed = cells[:, ~np.isnan(cells).any(axis=0)]
            if not observed.size:
                return f"The target {target.text} is not defined: it is missing in all {count}."
            if np.isnan(value):
                rows = "1 row" if self.n == 1 else f"{self.n} rows"
                return f"The target {target.text} is not defined for {rows} of {count}: it needs values that differ."
            low, high = _range(target, observed)
            slack = (target.tolerance or 0.0) + ROUNDING * (1 + abs(target.value))
            if not low - slack <= target.value <= high + slack:
                return (
                    f"The target {target.text} = {target.value:g} cannot be met: in {count} it can be from {low:.6g} "
                    f"to {high:.6g}. Choose a value in this range, or relax the condition."
                )
        return ""


@dataclass(frozen=True)
class Tilt:
    """Weights of the rows of a pool, (rows,), and whether the pool meets the targets under them."""

    weights: Floats
    values: Floats
    is_met: bool

    @property
    def effective_size(self) -> float:
        """How many rows of equal weight these are worth (Kish, 1965)."""
        return effective_size(self.weights)


def tilt(pool: Pool) -> Tilt:
    """Find the weights nearest to equal ones under which the pool has the values of the targets."""
    count = len(pool.moments)
    weights = np.full(count, 1 / count)
    if pool.out_of_range():
        return Tilt(weights, pool.values(pool.n * weights @ pool.moments), is_met=False)
    sums = pool.n * weights @ pool.moments
    theta = np.zeros(len(pool.targets))
    for step in range(MAX_LINEARISATIONS):
        theta, weights = _solve_dual(pool.residuals(sums), theta)
        new = pool.n * weights @ pool.moments
        is_linear = all(target.aggregate.has_location for target in pool.targets)
        is_single = weights.max() > 1 - DEFAULT_TOLERANCE  # the pool does not reach the targets
        if is_linear or is_single or (pool.misses(new) <= DEFAULT_TOLERANCE).all():
            break
        sums = new if step < UNDAMPED else (sums + new) / 2
    values = pool.values(new)
    return Tilt(weights, values, bool((np.abs(values - pool.goals) <= np.maximum(pool.tolerances, PRECISION)).all()))


def _solve_dual(residuals: Floats, start: Floats) -> tuple[Floats, Floats]:
    """Minimise log Σ exp(θ · g) with a small ridge; return θ and the weights, which are proportional to exp(θ · g)."""

    def weights_of(theta: Floats) -> Floats:
        exponents = residuals @ theta
        return np.asarray(np.exp(exponents - logsumexp(exponents)))

    def value(theta: Floats) -> float:
        return float(logsumexp(residuals @ theta) + RIDGE / 2 * theta @ theta)

    def gradient(theta: Floats) -> Floats:
        return weights_of(theta) @ residuals + RIDGE * theta

    def hessian(theta: Floats) -> Floats:
        weights = weights_of(theta)
        mean = weights @ residuals
        return (residuals * weights[:, None]).T @ residuals - np.outer(mean, mean) + RIDGE * np.eye(len(theta))

    found = minimize(value, start, jac=gradient, hess=hessian, method="trust-exact", options=SOLVER)
    theta = np.asarray(found.x, dtype=np.float64)
    return theta, weights_of(theta)


def choose_rows(pool: Pool, weights: Floats, rng: np.random.Generator) -> tuple[Index, bool]:
    """Choose n rows of the pool, and return whether they meet every target within its tolerance.

    Rows are sorted by weight, so that systematic resampling represents each part of the pool. A row is repeated only if
    its weight exceeds that of one row of n.
    """
    order = np.argsort(weights, kind="stable")
    chosen = order[systematic_resample(weights[order], pool.n, rng)]
    chosen, is_met = _exchange(pool, chosen, weights, rng)
    return rng.permutation(chosen), is_met


def _exchange(pool: Pool, chosen: Index, weights: Floats, rng: np.random.Generator) -> tuple[Index, bool]:
    """Exchange chosen rows for others, sampled by weight, until every target is within its tolerance.

    Of many random pairs the one that brings the targets nearest is exchanged.
    """
    chosen, ends = chosen.copy(), np.cumsum(weights)
    counts, most = np.bincount(chosen, minlength=len(weights)), np.maximum(np.ceil(pool.n * weights - ROUNDING), 1)
    sums, pairs, failures = pool.moments[chosen].sum(axis=0), MIN_EXCHANGES, 0
    best = _loss(pool, sums)
    while best > 0 and failures < MAX_FAILURES:
        out = rng.integers(pool.n, size=pairs)
        into = np.minimum(np.searchsorted(ends, rng.random(pairs) * ends[-1]), len(weights) - 1)
        losses = _loss(pool, sums + pool.moments[into] - pool.moments[chosen[out]])
        losses[counts[into] >= most[into]] = np.inf
        pair = int(np.argmin(losses))
        if losses[pair] < best:
            counts[chosen[out[pair]]] -= 1
            counts[into[pair]] += 1
            chosen[out[pair]] = into[pair]
            sums, best, failures = pool.moments[chosen].sum(axis=0), losses[pair], 0
        else:
            failures += pairs == MAX_EXCHANGES
            pairs = min(4 * pairs, MAX_EXCHANGES)
    return chosen, bool((pool.misses(pool.moments[chosen].sum(axis=0)) <= 1).all())


def _loss(pool: Pool, sums: Floats) -> Floats:
    """Return by how much tolerances are exceeded, squared and summed over targets, (...)."""
    return np.asarray((np.maximum(pool.misses(sums) - 1, 0) ** 2).sum(axis=-1))


def check_targets(*, loss_batch: object, strategy: str, given: object) -> None:
    """Raise InvalidOption if a call with targets has arguments that exclude them."""
    reasons = {
        "loss_batch": (loss_batch is not None, "it guides all sampled rows, of which targets choose some"),
        "strategy='paper'": (strategy == "paper", "its rows may violate the condition"),
        "a table of given rows": (
            given is not None and not isinstance(given, Mapping),
            "each of its rows is completed, and none can be chosen",
        ),
    }
    for name, (applies, reason) in reasons.items():
        if applies:
            raise InvalidOption(f"targets cannot be combined with {name}: {reason}. Leave one of them out.")


def sample_targets(
    sample: SamplePool, targets: Sequence[Target], n: int, *, seed: int, return_closest: bool
) -> tuple[Columns, SamplingInfo]:
    """Sample n rows that meet the targets together.

    Args:
        sample: Samples rows of the pool.
        targets: The targets.
        n: The number of rows; fewer are returned if the pool has fewer.
        seed: Of the choice among the rows of the pool.
        return_closest: Whether to return the nearest rows that were found if a target is missed, instead of an error.
    """
    started = perf_counter()
    pool, weighted, info = _grow_pool(sample, targets, n)
    if not pool.n:
        return pool.rows, replace(info, targets={target.text: np.nan for target in targets})
    if pool.out_of_range() or (not weighted.is_met and not return_closest):
        raise _out_of_reach(pool, weighted)
    chosen, is_met = choose_rows(pool, weighted.weights, generator(seed, Stream.TARGETS))
    achieved = pool.measure(chosen)
    if not is_met and not return_closest:
        raise _missed(pool, achieved)
    worth = min(effective_size(np.bincount(chosen)), weighted.effective_size * _independence(info))
    info = replace(info, rows=pool.n, targets=achieved, effective_size=worth, seconds=perf_counter() - started)
    return take(pool.rows, chosen), info


def _grow_pool(sample: SamplePool, targets: Sequence[Target], n: int) -> tuple[Pool, Tilt, SamplingInfo]:
    """Sample a pool, and double it while its rows are worth fewer than n, or do not reach the targets."""
    limit = max(MAX_POOL, 2 * n)
    wanted = min(max(POOL_FACTOR * n, MIN_POOL), limit)
    rows, info = sample(wanted, 0, n)
    while True:
        pool = Pool(rows, targets, min(n, n_rows(rows)))
        if not pool.n:
            return pool, Tilt(np.zeros(0), np.zeros(0), is_met=False), info
        weighted, count = tilt(pool), n_rows(rows)
        is_large = 2 * count > (limit if weighted.is_met else min(limit, MAX_SEARCH))
        is_enough = weighted.is_met and weighted.effective_size * _independence(info) >= n
        if is_enough or is_large or count < wanted:  # fewer than wanted: the condition is too rare for more
            return pool, weighted, info
        more, added = sample(count, count, 0)
        rows, info, wanted = concat([rows, more]), _add(info, added), 2 * count


def _independence(info: SamplingInfo) -> float:
    """Return how many independent rows a row of the pool is worth, at most 1."""
    return 1.0 if info.effective_size is None else info.effective_size / max(info.rows, 1)


def _add(first: SamplingInfo, second: SamplingInfo) -> SamplingInfo:
    """Return the diagnostics of two parts of a pool."""
    sizes = [info.rows if info.effective_size is None else info.effective_size for info in (first, second)]
    is_weighted = first.effective_size is not None or second.effective_size is not None
    return replace(
        first,
        rows=first.rows + second.rows,
        sampled=first.sampled + second.sampled,
        rounds=first.rounds + second.rounds,
        evaluations=first.evaluations + second.evaluations,
        effective_size=sum(sizes) if is_weighted else None,
    )


def _out_of_reach(pool: Pool, weighted: Tilt) -> InfeasibleCondition:
    """Return the error for targets that no weights of the pool meet: the range of each, or what comes nearest."""
    if problem := pool.out_of_range():
        return InfeasibleCondition(problem)
    count = f"{n_rows(pool.rows):,} sampled rows"
    nearest = ", ".join(f"{text} = {value:.6g}" for text, value in pool.in_units(weighted.values).items())
    wanted = " and ".join(f"{target.text} = {target.value:g}" for target in pool.targets)
    together = " together" if len(pool.targets) > 1 else ""
    return InfeasibleCondition(
        f"The targets {wanted} cannot be met{together}: weights of {count} come no nearer than {nearest}. Choose "
        "values nearer to these, or allow larger tolerances: (value, tolerance)."
    )


def _range(target: Target, observed: Floats) -> tuple[float, float]:
    """Return what weights of the observed rows can give a target on its own."""
    low, high = float(observed[0].min()), float(observed[0].max())
    if target.aggregate.has_location:
        return low, high
    return (0.0, (high - low) / 2) if target.aggregate.has_scale else (-1.0, 1.0)


def _missed(pool: Pool, achieved: dict[str, float]) -> InfeasibleCondition:
    """Return the error for rows that do not meet the targets, with how near they came."""
    tolerances = pool.tolerances * pool.units[:, 1]
    got = ", ".join(
        f"{target.text} = {achieved[target.text]:.6g} (target {target.value:g}, tolerance {tolerance:.3g})"
        for target, tolerance in zip(pool.targets, tolerances.tolist(), strict=True)
    )
    problem = (
        f"No {pool.n} of {n_rows(pool.rows):,} sampled rows were found that meet the targets together; the nearest "
        f"have {got}. Allow larger tolerances, or sample more rows"
    )
    advice = 'or take the nearest with on_shortfall="return"'
    return InfeasibleCondition(f"{problem}, {advice}.", code="targets_missed", problem=problem)
