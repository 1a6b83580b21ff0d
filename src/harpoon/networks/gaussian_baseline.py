"""A linear Gaussian baseline: what a Gaussian copula predicts of each number from the observed cells.

Small tables hold too few rows for a network to learn even linear dependence without shrinking it: predicted slopes are
too flat, and correlations of imputed tables are too small. Here the network starts at the conditional Gaussian of the
normal scores and only learns how the table differs from it.

The inputs u of a row are its normal scores (of a number with spikes its standardised value) and its one-hot categories.
Their mean μ and covariance Σ are estimated by expectation-maximisation over the observed cells (Dempster, Laird and
Rubin, 1977; Little and Rubin, 2019, section 11.2). Given the observed inputs o, input j has the mean
μ_j + Σ_jo Σ_oo⁻¹ (u_o - μ_o) and the variance Σ_jj - Σ_jo Σ_oo⁻¹ Σ_oj.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from harpoon._utils.weighted_rows import effective_size
from harpoon.encoding import ColumnSlice, EncodedRows, PartType
from harpoon.networks.layers import ColumnIndex

MAX_INPUTS = 48  # a row costs a Cholesky factorisation of that size at most
MAX_ROWS = 2048  # training rows that the covariance is estimated from
EM_ITERATIONS, EM_TOLERANCE = 100, 1e-3  # steps at most, and the change of a covariance after which they end
MAX_INPUT = 5.0  # in standard deviations
MIN_VARIANCE = 1e-3
PRIOR_ROWS = 2.0  # weight of the diagonal: one-hot categories add up to 1, so that their covariance is singular
ROWS_AT_ONCE = 512
MIN_STD = 0.05  # of a normal score; relations predict exact values
MIN_LABEL_ROWS = 0.5  # that are taken to have a label; labels of other categories are in no row
MAX_R2 = 0.9  # that is taken for the part of a label's variance that the inputs explain


class LinearPrediction(NamedTuple):
    """What the baseline predicts from the observed cells."""

    rank_mean: Tensor  # of normal scores, (n, C)
    rank_width: Tensor  # inverse softplus of their standard deviation, (n, C)
    standardised: Tensor  # best linear prediction of standardised values, (n, S), or (n, 0) without inputs
    logits: Tensor | None = None  # what drawn parameters add to the logits of the labels, (n, K)

    def add_to_standardised(self, standardised: Tensor) -> Tensor:
        """Return standardised values, (n, S), of which the network predicts the difference to the baseline."""
        return standardised + self.standardised if self.standardised.shape[1] else standardised

    def first(self, n: int) -> LinearPrediction:
        """Return the predictions of the first rows."""
        logits = None if self.logits is None else self.logits[:n]
        return LinearPrediction(self.rank_mean[:n], self.rank_width[:n], self.standardised[:n], logits)


class LogitRegression(NamedTuple):
    """Deviations of the logits of K labels from the network's, linear in the inputs: a draw of their posterior."""

    intercept: Tensor  # (K,)
    slopes: Tensor  # (D, K)


class GaussianBaseline(nn.Module):
    """The joint Gaussian of inputs and standardised values; without inputs it predicts zeros.

    The variables of the Gaussian are D inputs, then S standardised values, which are only predicted. All are in units
    of their standard deviation among the training cells, relative to their mean there.

    Args:
        slices: The parts of encoded rows, without missing indicators: no row has both a value and its absence.
        ranks: The dimensions of the normal scores, C of them.
        spiked: Which of these belong to numbers with spikes, whose normal score is not always there.
        standardised: The dimensions of the standardised values.
        enabled: Whether there are any inputs, unless they would be more than `MAX_INPUTS`.
    """

    center: Tensor  # the mean of the training cells, (D + S,)
    scale: Tensor  # their standard deviation, (D + S,)
    mean: Tensor  # of the Gaussian, (D + S,): not 0 where more cells of one kind are missing
    covariance: Tensor  # of all variables with the inputs, (D + S, D)
    n_rows: Tensor  # the training rows in which both of two inputs are observed, (D, D)
    drawn_logits: LogitRegression | None  # of a model with drawn parameters

    def __init__(
        self,
        slices: Sequence[ColumnSlice],
        ranks: Sequence[int],
        spiked: Sequence[int],
        standardised: Sequence[int],
        *,
        enabled: bool,
    ) -> None:
        super().__init__()
        inputs = _input_dimensions(slices, {ranks[index] for index in spiked})
        if not enabled or len(inputs) > MAX_INPUTS:
            inputs, standardised = [], []
        labels = [part for part in slices if part.type is PartType.CATEGORICAL and part.start in inputs]
        self.labels = ColumnIndex([dim for part in labels for dim in range(part.start, part.stop)])  # K of them
        self.parts = [[inputs.index(dim) for dim in range(part.start, part.stop)] for part in labels]
        self.drawn_logits = None
        self.n_ranks, self.n_inputs = len(ranks), len(inputs)
        self.variables = ColumnIndex([*inputs, *standardised])
        linear = [(place, dim) for place, dim in enumerate(ranks) if dim in inputs]
        self.linear_ranks = ColumnIndex([place for place, _ in linear])  # normal scores that are inputs, L of them
        self.linear_inputs = ColumnIndex([inputs.index(dim) for _, dim in linear])
        for name in ("center", "scale", "mean"):
            self.register_buffer(name, torch.zeros(len(self.variables)))
        self.register_buffer("covariance", torch.zeros(len(self.variables), len(inputs)))
        self.register_buffer("n_rows", torch.zeros(len(inputs), len(inputs)))

    def __bool__(self) -> bool:
        """Whether there are any inputs."""
        return bool(self.n_inputs)

    def forward(self, given: EncodedRows) -> LinearPrediction:
        """Predict the unobserved numbers from the observed cells."""
        n, x = len(given.x), given.x
        if not self:
            return LinearPrediction(*(x.new_zeros(n, size) for size in (self.n_ranks, self.n_ranks, 0)))
        observed = self.variables.select(given.observed)[:, : self.n_inputs].to(x.dtype)
        u = (self._standardise(x) - self.mean)[:, : self.n_inputs] * observed
        ranks = self.linear_inputs.index.to(x.device)
        by_observed = self.covariance[ranks].T * observed.unsqueeze(2)  # Σ_oj, (n, D, L)
        factor = torch.linalg.cholesky(_masked(self.covariance[: self.n_inputs], observed))
        solved = torch.cholesky_solve(torch.cat([u.unsqueeze(2), by_observed], dim=2), factor)
        deviation = solved[:, :, 0] @ self.covariance.T  # Σ_jo Σ_oo⁻¹ (u_o - μ_o)
        mean = (self.mean + deviation) * self.scale + self.center
        variance = self.covariance.diagonal()[ranks] - (by_observed * solved[:, :, 1:]).sum(dim=1)
        std = variance.clamp(min=MIN_STD**2).sqrt() * self.scale[ranks]
        empty = x.new_zeros(n, self.n_ranks)
        return LinearPrediction(
            self.linear_ranks.replace(empty, mean[:, ranks]),
            self.linear_ranks.replace(empty, std + (-(-std).expm1()).log()),  # the inverse of softplus
            mean[:, self.n_inputs :],
            None if self.drawn_logits is None else self._shift_logits(deviation[:, : self.n_inputs]),
        )

    @torch.no_grad()
    def initialize(self, rows: EncodedRows) -> None:
        """Estimate mean and covariance from evenly spaced training rows."""
        if not self:
            return
        known = self.variables.select(rows.observed)[:, : self.n_inputs].float()
        self.n_rows.copy_(known.T @ known * _effective_fraction(rows))
        rows = rows[:: -(-len(rows.x) // MAX_ROWS)]
        x, observed = self.variables.select(rows.x).double(), self.variables.select(rows.observed).double()
        weights = rows.row_weights.double()
        total = (observed * weights).sum(dim=0)
        total = torch.where(total > 0, total, 1.0)
        center = (x * (observed * weights)).sum(dim=0) / total
        scale = ((x - center) ** 2 * (observed * weights)).sum(dim=0).div(total).sqrt()
        self.center.copy_(center)
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))
        mean, covariance = _estimate(self._standardise(rows.x).double(), observed, self.n_inputs, weights)
        self.mean.copy_(mean)
        self.covariance.copy_(covariance)

    @torch.no_grad()
    def draw_parameters(self, generator: np.random.Generator) -> GaussianBaseline:
        """Return a baseline with parameters drawn from their approximate posterior.

        The covariance is Wishart (its inverse would be, exactly; Little and Rubin, 2019, section 6.1) and the mean
        Gaussian, both under a flat prior. Standardised values keep their regression on the inputs. A covariance is
        known from the rows in which two inputs are observed together, a mean from those in which one is.
        """
        if not self:
            return self
        width = self.n_inputs
        n = max(float(self.n_rows.mean()), width + 2.0)
        covariance = self.covariance[:width].double().cpu()
        regression = torch.linalg.solve(covariance, self.covariance[width:].double().cpu().T).T  # (S, D)
        bartlett = np.tril(generator.standard_normal((width, width)), k=-1)  # the factor of a Wishart matrix
        bartlett += np.diag(np.sqrt(generator.chisquare(n - np.arange(width))))
        factor = torch.linalg.cholesky(covariance)
        shift = factor @ torch.from_numpy(generator.standard_normal(width)) / self._counts().sqrt()
        root = factor @ torch.from_numpy(bartlett) / n**0.5
        inputs = root @ root.T + MIN_VARIANCE * covariance.diagonal().diag()  # positive definite with few rows, too
        drawn = deepcopy(self)
        drawn.covariance.copy_(torch.cat([inputs, regression @ inputs]))
        drawn.mean.add_(torch.cat([shift, regression @ shift]).to(self.mean))
        drawn.drawn_logits = self._draw_logits(generator)
        return drawn

    def _counts(self) -> Tensor:
        """Return the training rows in which each input is observed, at least 1, (D,)."""
        return self.n_rows.diagonal().double().cpu().clamp(min=1)

    def _draw_logits(self, generator: np.random.Generator) -> LogitRegression:
        """Draw how much the logits of each label differ from the network's, given the sample that it was trained on.

        The network's logits are taken for the estimates of a logistic regression on the inputs of the other columns.
        As counts of independent Poisson variables, n rows with label l in a fraction p hold the information
        n p (1 - R²) Σ about its slopes, where R² is the part of its variance that the inputs explain. The prior of the
        slopes is Gaussian; its variance of the logit is 1.
        """
        covariance = self.covariance[: self.n_inputs].double().cpu()
        intercept = torch.zeros(len(self.labels), dtype=torch.float64)
        slopes = torch.zeros(self.n_inputs, len(self.labels), dtype=torch.float64)
        label = 0
        for part in self.parts:
            others = [place for place in range(self.n_inputs) if place not in part]
            inner = covariance[others][:, others]
            for place in part:
                noise = torch.from_numpy(generator.standard_normal(self.n_inputs))
                information = self._information(place, covariance[others, place], inner)
                precision = information * inner + len(others) * torch.eye(len(others), dtype=torch.float64)
                factor = torch.linalg.cholesky(precision, upper=True)
                solved = torch.linalg.solve_triangular(factor, noise[others].unsqueeze(1), upper=True)
                slopes[others, label] = solved.squeeze(1)
                intercept[label] = noise[place] / information.sqrt()
                label += 1
        return LogitRegression(intercept.to(self.mean), slopes.to(self.mean))

    def _information(self, place: int, by_other: Tensor, inner: Tensor) -> Tensor:
        """Return n p (1 - R²) of the label at an input, from its covariances with the inputs of other columns, ()."""
        variance, n = self.covariance[place, place].double().cpu(), self._counts()[place]
        explained = by_other @ torch.linalg.solve(inner, by_other) / variance if len(by_other) else 0 * variance
        count = (n * self.center[place].double().cpu()).clamp(min=MIN_LABEL_ROWS)
        return count * (1 - explained.clamp(0, MAX_R2))

    def _shift_logits(self, deviation: Tensor) -> Tensor:
        """Return what drawn parameters add to the logits, (n, K), at expected deviations of the inputs, (n, D)."""
        assert self.drawn_logits is not None  # noqa: S101
        return self.drawn_logits.intercept + deviation @ self.drawn_logits.slopes

    def validate_state(self) -> None:
        """Raise ValueError unless the covariance is positive definite and everything is finite."""
        if not all(bool(buffer.isfinite().all()) for buffer in self.buffers()) or bool((self.scale <= 0).any()):
            raise ValueError("the Gaussian baseline is not finite, or a scale is not positive")
        if self and torch.linalg.cholesky_ex(self.covariance[: self.n_inputs].cpu()).info:
            raise ValueError("the covariance of the Gaussian baseline is not positive definite")

    def _standardise(self, x: Tensor) -> Tensor:
        return ((self.variables.select(x) - self.center) / self.scale).clamp(-MAX_INPUT, MAX_INPUT)


def _input_dimensions(slices: Sequence[ColumnSlice], spiked: set[int]) -> list[int]:
    """Return the dimensions of the inputs: one for each number, and those of each category."""
    by_column: dict[int, list[ColumnSlice]] = {}
    for part in slices:
        by_column.setdefault(part.column, []).append(part)
    found: list[int] = []
    for parts in by_column.values():
        kinds = {part.type for part in parts}
        chosen = PartType.CATEGORICAL
        if PartType.CONTINUOUS in kinds and not any(part.start in spiked for part in parts):
            chosen = PartType.CONTINUOUS
        elif PartType.REGRESSION in kinds:
            chosen = PartType.REGRESSION
        found += [dim for part in parts if part.type is chosen for dim in range(part.start, part.stop)]
    return found


def _masked(covariance: Tensor, observed: Tensor) -> Tensor:
    """Return the covariance of each row, (n, inputs, inputs), with the identity for unobserved inputs."""
    return covariance * observed.unsqueeze(2) * observed.unsqueeze(1) + torch.diag_embed(1 - observed)


def _effective_fraction(rows: EncodedRows) -> float:
    """Return the effective number of weighted rows as a fraction of the rows (Kish, 1965); 1 without weights."""
    return 1.0 if rows.weights is None else effective_size(rows.weights.double().cpu().numpy()) / len(rows.x)


def _estimate(w: Tensor, observed: Tensor, n_inputs: int, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of variables, (D + S,), and their covariance with the inputs, (D + S, D).

    Each step of expectation-maximisation completes the unobserved cells of w, (n, D + S), by their conditional mean
    given the observed inputs, and adds their conditional covariance. Complete rows are added up once. Rows count by
    their weights, (n, 1).
    """
    n, width, total_weight = len(w), w.shape[1], weights.sum()
    is_complete = observed.all(dim=1)
    complete, w, observed = w[is_complete], w[~is_complete], observed[~is_complete]
    weighted, weights = complete * weights[is_complete], weights[~is_complete]
    parts = [torch.split(part, ROWS_AT_ONCE) for part in (w, observed, weights)]
    mean, covariance = w.new_zeros(width), torch.eye(width, dtype=w.dtype)[:, :n_inputs]
    for _ in range(EM_ITERATIONS):
        total, products = weighted.sum(dim=0), weighted.T @ complete[:, :n_inputs]
        for rows, mask, weight in zip(*parts, strict=True):
            completed, conditional = _complete(rows, mask, mean, covariance, weight)
            total = total + (completed * weight).sum(dim=0)
            products = products + (completed * weight).T @ completed[:, :n_inputs] + conditional
        before, mean = covariance, total / total_weight
        covariance = products / total_weight - mean.outer(mean[:n_inputs])
        variance = covariance.diagonal().clamp(min=MIN_VARIANCE)
        covariance[:n_inputs] += variance.diag() * PRIOR_ROWS / n
        if (covariance - before).abs().max() < EM_TOLERANCE:
            break
    return mean, covariance


def _complete(
    rows: Tensor, observed: Tensor, mean: Tensor, covariance: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Return rows, (n, D + S), completed by conditional means, and the weighted sum of conditional covariances."""
    n_inputs = covariance.shape[1]
    inputs, missing = observed[:, :n_inputs], 1 - observed
    factor = torch.linalg.cholesky(_masked(covariance[:n_inputs], inputs))
    by_observed = inputs.unsqueeze(2) * covariance.T * missing.unsqueeze(1)  # Σ_om, (n, D, D + S)
    solved = torch.cholesky_solve(by_observed, factor)
    shift = ((rows - mean)[:, :n_inputs] * inputs).unsqueeze(1) @ solved
    explained = (by_observed * weights.unsqueeze(2)).flatten(0, 1).T @ solved[:, :, :n_inputs].flatten(0, 1)
    conditional = covariance * ((missing * weights).T @ missing[:, :n_inputs]) - explained
    return torch.where(observed > 0, rows, mean + shift.squeeze(1)), conditional
