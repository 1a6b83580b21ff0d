"""Theorems 3.1 and 3.2 on manifolds with a closed form: estimates are projections, and gradients are tangential."""

from itertools import pairwise

import pytest
import torch

from harpoon import InvalidOption
from harpoon.diffusion.geometry import Sphere, gradient_angle
from harpoon.diffusion.guidance import tangential_gradient
from harpoon.diffusion.schedules import NoiseLevel

LOSSES = {
    "squared distance to a point": lambda x: ((x - torch.tensor([2.0, -1.0, 0.5])[: x.shape[1]]) ** 2).sum(dim=1),
    "absolute distance": lambda x: (x - 0.3).abs().sum(dim=1),
    "a bound": lambda x: torch.relu(0.9 - x[:, 0]) ** 2,
    "cross-entropy": lambda x: -x.log_softmax(dim=1)[:, 0],
    "a product": lambda x: (x[:, 0] - 2) * (x[:, 1] + 2) + x[:, 0].exp(),
}


def level(s: float) -> NoiseLevel:
    return NoiseLevel((1 - s**2) ** 0.5, s)


def noisy(sphere: Sphere, n: int, s: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x_0 = sphere.sample(n, generator)
    return level(s).signal * x_0 + s * torch.randn(x_0.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("s", [0.9, 0.5, 0.2])
def test_the_posterior_mean_agrees_with_an_average_over_the_manifold(dimension, s):
    sphere = Sphere(dimension)
    x_t = noisy(sphere, 20, s)
    points = sphere.sample(400_000, torch.Generator().manual_seed(1))
    log_weights = -((x_t[:, None] - level(s).signal * points[None]) ** 2).sum(dim=2) / (2 * s**2)
    by_average = log_weights.softmax(dim=1) @ points
    assert torch.allclose(sphere.posterior_mean(x_t, level(s)), by_average, atol=0.02)


@pytest.mark.parametrize("dimension", [2, 3])
def test_theorem_3_1_the_estimate_approaches_the_projection(dimension):
    sphere = Sphere(dimension)
    distances = []
    for s in (0.3, 0.1, 0.03, 0.01, 0.001):
        x_t = noisy(sphere, 200, s)
        gap = (sphere.posterior_mean(x_t, level(s)) - sphere.project(x_t)).norm(dim=1)
        distances.append(gap.max().item())
    assert all(later < earlier / 5 for earlier, later in pairwise(distances))
    assert distances[-1] < 2e-6


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_theorem_3_2_gradients_of_any_loss_become_tangential(dimension, loss):
    sphere = Sphere(dimension)
    normal_fractions = []
    for s in (0.3, 0.1, 0.03, 0.01):
        x_t = noisy(sphere, 200, s)
        here = level(s)
        estimate = lambda x, _t, here=here: sphere.posterior_mean(x, here)  # noqa: E731
        x0_hat, g = tangential_gradient(estimate, x_t, 0, loss)
        g, point = g[g.norm(dim=1) > 1e-9], sphere.project(x0_hat)[g.norm(dim=1) > 1e-9]
        normal = (g - sphere.tangential(point, g)).norm(dim=1) / g.norm(dim=1)
        normal_fractions.append(normal.mean().item())
    assert normal_fractions[-1] < 0.01
    assert normal_fractions[-1] < normal_fractions[0] / 10


def test_gradients_are_orthogonal_to_the_denoising_direction_on_the_sphere():
    sphere, here = Sphere(3), level(0.02)
    x_t = noisy(sphere, 100, 0.02)
    estimate = lambda x, _t: sphere.posterior_mean(x, here)  # noqa: E731
    angles = gradient_angle(estimate, x_t, 0, LOSSES["squared distance to a point"], here)
    assert abs(angles.mean().item() - 90) < 1.5


def test_a_sphere_has_two_or_three_dimensions():
    with pytest.raises(InvalidOption, match="circle"):
        Sphere(4)


def test_projection_and_tangent_space_of_the_circle():
    circle = Sphere(2)
    point = torch.tensor([[3.0, 4.0]])
    assert circle.project(point).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]
    at = torch.tensor([[1.0, 0.0]])
    assert circle.tangential(at, torch.tensor([[5.0, 7.0]])).tolist() == [[0.0, 7.0]]
