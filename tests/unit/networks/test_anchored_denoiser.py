"""The anchored denoiser before training: preconditioning, observed cells, masks and contrasts."""

import numpy as np
import pytest
import torch

from harpoon.diffusion.geometry import gradient_angle
from harpoon.diffusion.guidance import tangential_gradient
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.encoding.codec import ColumnSlice, PartType
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks.anchored_denoiser import AnchoredDenoiser
from harpoon.networks.backbone import Contrast


class FakeCodec:
    """Columns without a common unit, missing cells and timestamps."""

    def __init__(self, slices):
        self.slices, self.indicator_of, self.timestamps, self.elapsed_between = slices, {}, (), {}
        self.codecs = ()  # so that no labels exclude each other

    def unit(self, column):
        return None

    def bin_edges(self, column, n_bins):
        return np.linspace(-2, 2, n_bins - 1)


SLICES = (
    ColumnSlice("x", 0, 0, 1, PartType.CONTINUOUS),
    ColumnSlice("x", 0, 1, 4, PartType.CATEGORICAL),
    ColumnSlice("c", 1, 4, 6, PartType.CATEGORICAL),
)


def denoiser(slices=SLICES, *, gaussian_baseline=True) -> AnchoredDenoiser:
    made = AnchoredDenoiser(
        FakeCodec(slices),
        hidden=16,
        depth=2,
        input_bins=4,
        rank_bins=8,
        max_noise_fraction=0.5,
        unconditional_fraction=0.3,
        gaussian_baseline=gaussian_baseline,
    )
    made.initialize(data(), torch.Generator().manual_seed(0))
    return made


def data(rows: int = 200) -> EncodedRows:
    generator = torch.Generator().manual_seed(1)
    spike = torch.randint(0, 3, (rows,), generator=generator)
    kind = torch.randint(0, 2, (rows,), generator=generator)
    number = torch.randn(rows, generator=generator)
    one_hot = torch.nn.functional.one_hot
    x = torch.cat([number[:, None], one_hot(spike, 3).float(), one_hot(kind, 2).float()], dim=1)
    return EncodedRows(x, torch.ones_like(x, dtype=torch.bool))


def test_categories_are_always_estimated_on_the_simplex():
    x_t = 10 * torch.randn(50, 6, generator=torch.Generator().manual_seed(2))
    estimate = denoiser()(x_t, 0.7)
    for part in (slice(1, 4), slice(4, 6)):
        assert estimate[:, part].min() >= 0
        assert torch.allclose(estimate[:, part].sum(dim=1), torch.ones(50))


def test_the_estimate_of_an_observed_cell_is_its_value():
    rows = data(20)
    observed = torch.zeros_like(rows.observed)
    observed[:, :4] = True
    estimate = denoiser()(
        torch.randn(20, 6, generator=torch.Generator().manual_seed(3)), 0.9, EncodedRows(rows.x, observed)
    )
    assert torch.equal(estimate[:, :4], rows.x[:, :4])


def test_at_the_largest_noise_level_the_noise_does_not_matter():
    generator = torch.Generator().manual_seed(4)
    rows, model = data(20), denoiser()
    observed = torch.zeros_like(rows.observed)
    observed[:, 4:] = True
    noises = [torch.randn(20, 6, generator=generator) for _ in range(2)]
    t = model.schedule.max_time
    first, second = (model(noise, t, EncodedRows(rows.x, observed)) for noise in noises)
    assert torch.allclose(first, second, atol=0.02)


@pytest.mark.parametrize("columns_observed", [[], [0], [1], [0, 1]])
def test_the_fused_model_gives_the_estimate_of_the_largest_time(columns_observed):
    rows, model = data(20), denoiser()
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for weight in model.parameters():  # also those that are 0 initially
            weight.add_(torch.randn(weight.shape, generator=generator) / 10)
    columns = torch.tensor([0, 0, 0, 0, 1, 1])
    given = EncodedRows(rows.x, torch.isin(columns, torch.tensor(columns_observed)).expand(20, -1))
    expected = model(torch.zeros(1, 6), model.schedule.max_time, given)
    assert torch.allclose(model.at_max_noise().posterior_mean(given), expected, atol=1e-4)


def test_at_a_small_noise_level_the_estimate_is_the_row():
    rows = data(50)
    level = denoiser().schedule.level(0.01)
    x_t = level.signal * rows.x + level.noise * torch.randn(rows.x.shape, generator=torch.Generator().manual_seed(5))
    assert torch.allclose(denoiser()(x_t, 0.01), rows.x, atol=0.1)


def test_a_cell_that_is_missing_in_training_is_never_a_target():
    rows = data(100)
    observed = rows.observed.clone()
    observed[:, 4:] = False
    model = denoiser()
    model.loss(EncodedRows(torch.where(observed, rows.x, 0.0), observed), torch.Generator().manual_seed(0)).backward()
    gradient = model.backbone.out.weight.grad
    assert gradient[:4].abs().sum() > 0
    assert gradient[4:].abs().sum() == 0


STANDARDISED = (
    ColumnSlice("x", 0, 0, 1, PartType.REGRESSION),
    ColumnSlice("x", 0, 1, 2, PartType.CONTINUOUS),
    ColumnSlice("n", 1, 2, 3, PartType.REGRESSION),
    ColumnSlice("n", 1, 3, 6, PartType.CATEGORICAL),
)


def test_standardised_values_are_not_noised():
    model, generator = denoiser(STANDARDISED), torch.Generator().manual_seed(1)
    x_t = torch.randn(20, 6, generator=generator)
    other = x_t.clone()
    other[:, [0, 2]] = 100.0
    assert torch.equal(model(x_t, 0.5), model(other, 0.5))
    _, gradient = tangential_gradient(model, x_t, 0.5, lambda x: (x**2).sum(dim=1))
    assert (gradient[:, [0, 2]] == 0).all()
    assert (gradient[:, [1, 3, 4, 5]] != 0).all()


def test_standardised_values_do_not_change_the_angle_of_a_gradient():
    model, level = denoiser(STANDARDISED), NoiseLevel(0.8, 0.6)
    x_t = torch.randn(20, 6, generator=torch.Generator().manual_seed(1))
    shifted = x_t.clone()
    shifted[:, [0, 2]] += 50.0
    angles = [
        gradient_angle(model, x, 0.5, lambda x: (x**2).sum(dim=1), level, noised=[1, 3, 4, 5]) for x in (x_t, shifted)
    ]
    assert torch.equal(*angles)
    everything = gradient_angle(model, shifted, 0.5, lambda x: (x**2).sum(dim=1), level)
    assert not torch.allclose(angles[0], everything)


def test_contrasts_start_with_the_most_correlated_pairs():
    x = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    x[:, 2] = -x[:, 0] + 0.1 * x[:, 1]
    contrast = Contrast(3)
    contrast.initialize(x, torch.ones_like(x, dtype=torch.bool))
    assert contrast.weight[0].tolist() == [1.0, 0.0, 1.0]  # a negative correlation, so their sum is small
    assert contrast(x).shape == (500, 3)
    assert contrast(x)[:, 0].std() < 0.2


@pytest.mark.parametrize(("n_ranks", "n_pairs"), [(0, 0), (1, 0), (2, 1), (12, 64)])
def test_there_are_as_many_contrasts_as_pairs_up_to_a_limit(n_ranks, n_pairs):
    contrast = Contrast(n_ranks)
    x = torch.randn(20, n_ranks, generator=torch.Generator().manual_seed(0))
    contrast.initialize(x, torch.ones_like(x, dtype=torch.bool))
    assert contrast(x).shape == (20, n_pairs)
