"""Medians and modes of predicted distributions, against the definition on a fine grid of the same distribution."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from harpoon.data import Schema, dataframe
from harpoon.data.value_counts import count_columns
from harpoon.encoding import RowCodec
from harpoon.networks.heads.copy_head import CopyDistribution
from harpoon.networks.heads.rank_head import ConditionalDistributions, DeterminedValues, GaussianComponent, RankHead
from harpoon.networks.point_estimates import PointEstimator, RankMixture

N_BINS, N_GRID, ROWS = 16, 20_001, 5
RANKS = (np.arange(N_GRID) + 0.5) / N_GRID


def make_codec(values) -> RowCodec:
    table = dataframe.read(pd.DataFrame({"x": values}))
    schema = Schema.infer(pd.DataFrame({"x": values}))
    return RowCodec.fit(schema, count_columns(table), encoding="mixed", scaling="standard")


def skewed(seed=0, n=4000):
    """A third of the values are 0, the others are log-normal."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 1 / 3, 0.0, np.exp(rng.normal(0, 1, n)))


CODECS = {
    "many values and a spike": make_codec(skewed()),
    "many values": make_codec(np.exp(np.random.default_rng(1).normal(0, 1, 4000))),
    "integers": make_codec(np.random.default_rng(2).poisson(60, 4000)),
}
CODEC = CODECS["many values and a spike"]


def predict(codec: RowCodec, seed: int, *, copies: int = 0, std: float | None = None):
    """Return random distributions of the only column, expectations, and a predictor of them."""
    rng = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(shape, generator=rng)  # noqa: E731
    logits, log_odds, mean = 2 * draw(ROWS, N_BINS), 3 * draw(ROWS), draw(ROWS)
    stds = draw(ROWS).exp() / 4 if std is None else torch.full((ROWS,), std)
    log_p = torch.cat([torch.ones(ROWS, 1), draw(ROWS, copies)], dim=1).log_softmax(dim=1)
    no = torch.zeros(ROWS, copies, dtype=torch.bool)
    relations = torch.arange(copies).expand(ROWS, -1)
    copied = CopyDistribution(log_p, 2 * draw(ROWS, copies), relations, no, no)
    few = DeterminedValues(torch.zeros(ROWS, 0, dtype=torch.bool), torch.zeros(ROWS, 0))
    found = ConditionalDistributions(torch.zeros(ROWS, 0), logits, GaussianComponent(log_odds, mean, stds), copied, few)
    x = torch.zeros(ROWS, codec.width)
    if codec.width > 2:
        x[:, 2:] = draw(ROWS, codec.width - 2).softmax(dim=1)
    return x, found, SimpleNamespace(distributions=lambda _: found)


def estimate(codec: RowCodec, x, predictor, point: str):
    head = RankHead(codec.slices, hidden=4, n_bins=N_BINS)
    return PointEstimator(codec, head).estimate(x, torch.ones_like(x, dtype=torch.bool), predictor, point)


def distribution(codec: RowCodec, x, found: ConditionalDistributions, row: int):
    """Return values in units of the table and their probabilities, on a grid of ranks and at the point masses."""
    p_bins = found.bin_logits[row].double().softmax(dim=0).numpy()
    weight = float(found.gaussian.log_odds[row].double().sigmoid())
    mean, std = (float(part[row]) for part in found.gaussian[1:])
    edges = ndtri(np.linspace(0, 1, N_GRID + 1))
    of_gaussian = np.diff(ndtr((edges - mean) / std))
    of_bins = p_bins[(RANKS * N_BINS).astype(int)] * N_BINS / N_GRID
    density = weight * of_gaussian + (1 - weight) * of_bins
    features = np.zeros((N_GRID, codec.width))
    features[:, 1] = ndtri(RANKS)
    features[:, 2:3] = 1.0
    values = codec.decode(features)["x"].values.astype(float)
    spikes = x[row, 2:].double().numpy()
    p_density = spikes[0] if len(spikes) else 1.0
    p_copies = found.copies.log_p[row].double().exp().numpy()
    column, origin = column_and_origin(codec)
    copies = column.scaler.inverse(found.copies.values[row].double().numpy())
    return (
        np.concatenate([values, np.array(column.spikes) + origin, copies + origin]),
        np.concatenate([density * p_density * p_copies[0], spikes[1:], p_density * p_copies[1:]]),
    )


def column_and_origin(codec: RowCodec):
    (column,) = codec.numeric
    return column, column.centred_values(codec.decode(np.zeros((1, codec.width)))["x"])[1]


def decoded(codec: RowCodec, x, found, result, row: int) -> float:
    """Return the estimate in units of the table; a copy has the value of its relation."""
    relation = int(result.relation_of[row, 0])
    if relation >= 0:
        column, origin = column_and_origin(codec)
        return float(column.scaler.inverse(found.copies.values[row].double().numpy())[relation]) + origin
    return float(codec.decode_points(result.x.numpy())["x"].values[row])


@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(CODECS)), copies=st.sampled_from([0, 2]))
def test_half_of_the_probability_lies_on_each_side_of_the_median(seed, name, copies):
    codec = CODECS[name]
    x, found, predictor = predict(codec, seed, copies=copies)
    result = estimate(codec, x, predictor, "median")
    for row in range(ROWS):
        values, p = distribution(codec, x, found, row)
        median = decoded(codec, x, found, result, row)
        tolerance, of_grid = 1e-5 * (1 + abs(median)), 1e-3 + p[:N_GRID].max()  # a step of the grid
        assert p[values < median - tolerance].sum() <= p.sum() / 2 + of_grid
        assert p[values <= median + tolerance].sum() >= p.sum() / 2 - of_grid
        assert values.min() - tolerance <= median <= values.max() + tolerance


@given(seed=st.integers(0, 10_000))
def test_no_other_value_has_a_smaller_absolute_error_than_the_median(seed):
    x, found, predictor = predict(CODEC, seed, copies=1)
    result = estimate(CODEC, x, predictor, "median")
    values, p = distribution(CODEC, x, found, 0)
    median = decoded(CODEC, x, found, result, 0)
    errors = [(p * np.abs(values - other)).sum() for other in np.quantile(values, np.linspace(0, 1, 101))]
    assert (p * np.abs(values - median)).sum() <= min(errors) * (1 + 1e-3)


@given(seed=st.integers(0, 10_000), probability=st.floats(0.001, 0.999))
def test_a_quantile_inverts_the_cumulative_distribution(seed, probability):
    _, found, _ = predict(CODEC, seed)
    mixture = RankMixture.from_distributions(found)
    rank = mixture.quantile(torch.full((ROWS,), probability, dtype=torch.float64))
    inside = (rank > 2e-6) & (rank < 1 - 2e-6)
    error = mixture.cdf(rank.unsqueeze(1)).squeeze(1) - probability
    assert error[inside].abs().max() < 1e-9 if inside.any() else True


def test_the_median_of_a_gaussian_is_its_mean_and_that_of_a_spike_the_spike():
    x, found, predictor = predict(CODEC, 0, std=0.2)
    found.gaussian.log_odds.fill_(50.0)
    x[:, 2:] = torch.tensor([1.0, 0.0])
    z = estimate(CODEC, x, predictor, "median").x[:, 1]
    assert torch.allclose(z, found.gaussian.mean.double(), atol=1e-9)
    x[:, 2:] = torch.tensor([0.49, 0.51])
    for point in ("median", "mode"):
        assert (estimate(CODEC, x, predictor, point).x[:, 2:] == torch.tensor([0.0, 1.0])).all()
    # 0 is the smallest value: with less than a half, the median is the quantile of the rest.
    x[:, 2:] = torch.tensor([0.75, 0.25])
    z = estimate(CODEC, x, predictor, "median").x[:, 1]
    expected = found.gaussian.mean.double() + 0.2 * norm.ppf(1 / 3)
    assert torch.allclose(z, expected, atol=1e-6)


def test_the_mode_of_a_skewed_distribution_is_below_its_median_and_near_its_peak():
    codec = CODECS["many values"]
    x, found, predictor = predict(codec, 0)
    found.gaussian.log_odds.fill_(-50.0)
    found.bin_logits.zero_()  # the distribution of the column itself: log-normal, with its peak at exp(-1)
    values = {
        point: codec.decode_points(estimate(codec, x, predictor, point).x.numpy())["x"].values
        for point in ("median", "mode")
    }
    assert values["median"] == pytest.approx(1.0, abs=0.1)
    assert values["mode"] == pytest.approx(np.exp(-1), abs=0.2)


def test_the_mode_of_integers_is_the_most_probable_one():
    codec = CODECS["integers"]
    x, found, predictor = predict(codec, 3, std=0.05)
    found.gaussian.log_odds.fill_(50.0)
    result = codec.decode_points(estimate(codec, x, predictor, "mode").x.numpy())["x"].values
    for row in range(ROWS):
        values, p = distribution(codec, x, found, row)
        mass = pd.Series(p).groupby(values).sum()
        assert mass[result[row]] >= 0.8 * mass.max()  # bins are wider than one integer where values are rare
