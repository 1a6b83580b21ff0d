"""Weights of rows in what a network learns: a weighted row counts as often as its weight says."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon.config import preset
from harpoon.data import Schema, count_columns, dataframe, missing_as_null, read_columns
from harpoon.diffusion import CellScores
from harpoon.encoding import RowCodec
from harpoon.networks import build_denoiser
from harpoon.training.calibration import measure_calibration
from harpoon.training.distributed import SingleProcess

WEIGHTS = np.array([1, 3, 2, 1, 5, 2] * 10)
SEEDS = 120


def rows_of(weights=None):
    """Return encoded rows and a codec; with weights, relative to their mean."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=len(WEIGHTS))
    x[::7] = np.nan
    label = np.where(WEIGHTS >= 3, "a", "b")
    table = pa.table({"x": pa.array(x, from_pandas=True), "y": rng.normal(size=len(WEIGHTS)), "c": label})
    read = dataframe.read(table)
    counts = count_columns(read, None if weights is None else weights.astype(float))
    schema = Schema.from_counts(counts)
    codec = RowCodec.fit(schema, counts, encoding="mixed", scaling="standard")
    rows = codec.to_training_batch(missing_as_null(read_columns(read, schema)))
    return codec, rows if weights is None else weigh(rows, weights)


def weigh(rows, weights):
    return replace(rows, weights=torch.tensor(weights / weights.mean()).float())


def denoiser_of(name, codec, rows):
    config = preset(name).with_options({"hidden": 8, "depth": 1, "diffusion_steps": 5}).adapt(len(rows.x))
    denoiser = build_denoiser(config, codec).to_empty(device="cpu")
    denoiser.initialize(rows, torch.Generator().manual_seed(0))
    return denoiser


def loss(denoiser, rows, seed):
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(rows.x), generator=generator)  # as in training: the first rows have the most noise
    with torch.no_grad():
        return denoiser.loss(rows[order].dequantize(generator), generator).item()


@pytest.mark.parametrize("name", ["anchored", "paper"])
def test_the_loss_of_a_batch_is_linear_in_the_weights(name):
    codec, rows = rows_of()
    denoiser = denoiser_of(name, codec, rows)
    ones, more = np.ones(len(WEIGHTS)), WEIGHTS / WEIGHTS.mean()
    one, other, mean = (loss(denoiser, weigh(rows, each), 0) for each in (ones, more, (ones + more) / 2))
    assert mean == pytest.approx((one + other) / 2, rel=1e-5)
    assert loss(denoiser, weigh(rows, ones), 3) == loss(denoiser, rows, 3)


@pytest.mark.parametrize("name", ["anchored", "paper"])
def test_the_expected_loss_is_that_of_repeated_rows(name):
    codec, rows = rows_of()
    denoiser = denoiser_of(name, codec, rows)
    repeated = rows[torch.from_numpy(np.repeat(np.arange(len(WEIGHTS)), WEIGHTS))]
    ours = [loss(denoiser, weigh(rows, WEIGHTS), seed) for seed in range(SEEDS)]
    theirs = [loss(denoiser, repeated, seed) for seed in range(SEEDS)]
    error = np.hypot(np.std(ours), np.std(theirs)) / SEEDS**0.5
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * error
    if name == "anchored":  # the test can tell: without weights the loss is another one
        unweighted = [loss(denoiser, rows, seed) for seed in range(SEEDS)]
        assert abs(np.mean(unweighted) - np.mean(theirs)) > 4 * error


def test_moments_and_the_gaussian_baseline_are_those_of_repeated_rows():
    codec, rows = rows_of()
    repeated = rows[torch.from_numpy(np.repeat(np.arange(len(WEIGHTS)), WEIGHTS))]
    ours, theirs = (denoiser_of("anchored", codec, each) for each in (weigh(rows, WEIGHTS), repeated))
    for name in ("mean", "variance"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
    assert ours.baseline
    for each, data in ((ours.baseline, weigh(rows, WEIGHTS)), (theirs.baseline, repeated)):
        each.initialize(data)  # without the random ranks of dequantised rows
    for name in ("center", "scale"):
        torch.testing.assert_close(getattr(ours.baseline, name), getattr(theirs.baseline, name))
    # The prior weighs as much as two rows, of which there are more if rows are repeated.
    for name in ("mean", "covariance"):
        torch.testing.assert_close(getattr(ours.baseline, name), getattr(theirs.baseline, name), rtol=0.05, atol=0.05)


def test_the_uncertainty_of_parameters_is_that_of_the_effective_rows():
    codec, rows = rows_of()
    plain, weighted = (denoiser_of("anchored", codec, each).baseline.n_rows for each in (rows, weigh(rows, WEIGHTS)))
    fraction = WEIGHTS.sum() ** 2 / (WEIGHTS**2).sum() / len(WEIGHTS)
    torch.testing.assert_close(weighted, plain * fraction)


class Judge(torch.nn.Module):
    """A model with made-up scores: the first half of the rows is predicted well, the second badly."""

    def at_max_noise(self):
        return self

    def score_cells(self, rows, count, generator):
        n = len(rows.x)
        row = torch.arange(n)
        first = row < n // 2
        inside = torch.where(first, 0.5, 0.999)
        nan = torch.full((n,), torch.nan)
        return CellScores(first.float(), nan, torch.zeros(n, dtype=torch.bool), inside, row)


def test_calibration_counts_cells_by_the_weights_of_their_rows():
    _, rows = rows_of()
    half = np.where(np.arange(len(WEIGHTS)) < len(WEIGHTS) // 2, 3.0, 1.0)
    measure = [measure_calibration(Judge(), each, 0, SingleProcess()) for each in (rows, weigh(rows, half))]
    assert [each.coverage for each in measure] == pytest.approx([0.5, 0.75])
    assert [each.gain for each in measure] == pytest.approx([0.5, 0.75])
    assert [each.cells for each in measure] == [60, 60]  # a number of cells counts cells
