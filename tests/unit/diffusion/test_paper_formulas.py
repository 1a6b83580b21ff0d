"""The paper preset against values worked out here from the paper's formulas."""

import math

import numpy as np
import pytest
import torch

from harpoon.config import PRESETS
from harpoon.diffusion.denoiser import initialize_linear
from harpoon.diffusion.guidance import Guidance, constant, linear, tangential_gradient
from harpoon.diffusion.reconstruction_penalty import reconstruction_penalty
from harpoon.diffusion.reverse_process import INITIAL_NOISE, matched_noise, reverse_process, standard_noise
from harpoon.diffusion.schedules import LinearSchedule
from harpoon.diffusion.solvers import SOLVERS, StepInputs
from harpoon.encoding.codec import ColumnSlice, PartType
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks.paper_denoiser import PaperDenoiser, PaperNetwork
from harpoon.networks.time_embeddings import sinusoidal_embedding, truncated_embedding

T, BETA_1, BETA_T = 200, 1e-4, 0.02


def betas() -> list[float]:
    return [BETA_1 + (BETA_T - BETA_1) * i / (T - 1) for i in range(T)]


def alpha_bars() -> list[float]:
    products, product = [1.0], 1.0
    for beta in betas():
        product *= 1 - beta
        products.append(product)
    return products


def test_the_schedule_is_the_product_of_the_alphas():
    schedule = LinearSchedule()
    expected = alpha_bars()
    for t in range(T + 1):
        level = schedule.level(t)
        assert level.signal == pytest.approx(math.sqrt(expected[t]), abs=1e-12)
        assert level.noise == pytest.approx(math.sqrt(1 - expected[t]), abs=1e-12)
    assert schedule.times(T) == list(range(T, -1, -1))
    assert schedule.times(4) == [200, 150, 100, 50, 0]
    a, s = schedule.levels(torch.tensor([1, 100, 200]))
    assert a.shape == (3, 1)
    assert s[2].item() == pytest.approx(math.sqrt(1 - expected[200]), rel=1e-6)


def test_the_forward_process_does_not_end_at_pure_noise():
    assert LinearSchedule().level(T).signal ** 2 == pytest.approx(0.1322, abs=1e-3)


def test_the_preset_has_the_options_of_the_paper():
    s = PRESETS["paper"]
    assert (s.hidden, s.diffusion_steps, s.beta_start, s.beta_end) == (1024, 200, 1e-4, 0.02)
    assert (s.batch_size, s.learning_rate, s.max_epochs) == (1024, 1e-4, 1000)
    assert (s.reconstruction_loss, s.guidance_scale, s.guidance_schedule) == ("mae", 0.2, "constant")
    assert (s.encoding, s.scaling, s.solver, s.initial_noise) == ("onehot", "standard", "ddpm_printed", "standard")


@pytest.mark.parametrize("width", [3, 107])
def test_the_network_has_the_paper_s_layers(width):
    with torch.device("meta"):
        network = PaperNetwork(width, 1024)
    layers = [(width, 1024), (1024, 1024), (1024, 1024), (1024, 2048), (2048, 2048), (2048, 1024), (1024, width)]
    assert sum(p.numel() for p in network.parameters()) == sum(i * o + o for i, o in layers)
    assert network(torch.empty(5, width, device="meta"), torch.empty(5, device="meta")).shape == (5, width)


def test_the_time_embedding_is_sines_and_cosines_of_geometric_frequencies():
    embedded = sinusoidal_embedding(torch.tensor([7]), 8)[0]
    frequencies = [10_000 ** (-i / 4) for i in range(4)]
    expected = [math.sin(7 * f) for f in frequencies] + [math.cos(7 * f) for f in frequencies]
    assert embedded.tolist() == pytest.approx(expected, abs=1e-6)


def test_the_truncated_embedding_has_one_frequency_and_counts_steps_from_zero():
    steps = torch.arange(1, 201)
    embedded = truncated_embedding(steps, 8)
    varying = embedded.std(dim=0) > 0
    assert varying.tolist() == [True, False, False, False, True, False, False, False]
    integers = (10_000.0 ** (-torch.arange(4) / 4)).long()  # the cast of the published code
    angles = (steps - 1).unsqueeze(1) * integers
    assert torch.allclose(embedded, torch.cat([angles.sin(), angles.cos()], dim=1))


def test_one_network_evaluation_agrees_with_plain_matrix_algebra():
    network = PaperNetwork(3, 8).eval()
    initialize_linear(network, torch.Generator().manual_seed(0))
    w = {name: value.detach().double().numpy() for name, value in network.state_dict().items()}

    def linear_layer(x, name):
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def silu(x):
        return x / (1 + np.exp(-x))

    x, t = np.array([0.3, -1.0, 2.0]), 17
    frequencies = 10_000.0 ** (-np.arange(4) / 4)
    time = np.concatenate([np.sin(t * frequencies), np.cos(t * frequencies)])
    time = linear_layer(silu(linear_layer(time, "time.0")), "time.2")
    h = linear_layer(x, "project") + time
    for name in ("layers.0", "layers.2", "layers.4"):
        h = silu(linear_layer(h, name))
    expected = linear_layer(h, "layers.6")
    got = network(torch.tensor(x, dtype=torch.float32)[None], torch.tensor([t]))[0]
    assert got.tolist() == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-5)


class LinearMap(torch.nn.Module):
    def __init__(self, matrix: torch.Tensor) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, x, _t, index=None):
        return x @ self.matrix.T


class LinearNoise(PaperDenoiser):
    """A denoiser whose predicted noise is M x: its gradients are known by hand."""

    def __init__(self, matrix: torch.Tensor, schedule: LinearSchedule) -> None:
        super().__init__(len(matrix), 2, schedule)
        self.noise = LinearMap(matrix)


@pytest.mark.parametrize("solver", ["ddpm_printed", "ddpm"])
@pytest.mark.parametrize("t", [200, 57, 2, 1])
def test_one_step_of_algorithm_1_agrees_with_the_paper(solver, t):
    matrix = torch.tensor([[0.4, -0.2], [0.1, 0.3]])
    denoiser = LinearNoise(matrix, LinearSchedule())
    x_t, target, z = np.array([0.7, -1.2]), np.array([0.5, 9.9]), np.array([0.25, -0.5])
    given = EncodedRows(torch.tensor([[0.5, 0.0]]), torch.tensor([[True, False]]))  # the second cell is not observed
    eta = 0.2

    # By hand, in the paper's symbols.
    M, bars = matrix.double().numpy(), alpha_bars()
    alpha, bar, bar_before = 1 - betas()[t - 1], bars[t], bars[t - 1]
    epsilon = M @ x_t
    x0_hat = (x_t - math.sqrt(1 - bar) * epsilon) / math.sqrt(bar)
    jacobian = (np.eye(2) - math.sqrt(1 - bar) * M) / math.sqrt(bar)
    g = jacobian.T @ np.array([np.sign(x0_hat[0] - target[0]), 0.0])
    sigma = (1 - alpha) * (1 - bar_before) / (1 - bar)
    sigma = math.sqrt(sigma) if solver == "ddpm" else sigma
    x_denoised = (x_t - (1 - alpha) / math.sqrt(1 - bar) * epsilon) / math.sqrt(alpha) + sigma * z
    expected = x_denoised - eta * g

    estimate, gradient = tangential_gradient(
        denoiser, torch.tensor(x_t[None], dtype=torch.float32), t, reconstruction_penalty("mae", given, ())
    )
    now, after = denoiser.schedule.level(t), denoiser.schedule.level(t - 1)
    rows, noise = (torch.tensor(value[None], dtype=torch.float32) for value in (x_t, z))
    inputs = StepInputs(rows, estimate, now, after, noise, None, denoiser, (t, t - 1))
    got = (SOLVERS[solver].step(inputs) - eta * gradient)[0]
    assert estimate[0].tolist() == pytest.approx(x0_hat.tolist(), rel=1e-4)
    assert got.tolist() == pytest.approx(expected.tolist(), rel=1e-3, abs=1e-5)


def test_the_whole_loop_is_algorithm_1():
    matrix = torch.tensor([[0.4, -0.2], [0.1, 0.3]], dtype=torch.float64)
    denoiser = LinearNoise(matrix, LinearSchedule(steps=12))
    noise = torch.randn(13, 4, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    given = EncodedRows(torch.full((4, 2), 0.5, dtype=torch.float64), torch.tensor([[True, False]] * 4))
    got = reverse_process(
        denoiser,
        noise,
        times=denoiser.schedule.times(12),
        initial_noise=standard_noise,
        solver=SOLVERS["ddpm_printed"],
        guidance=Guidance(reconstruction_penalty("mse", given, ()), linear(0.2)),
    )

    M, x = matrix.numpy(), noise[0].numpy()
    steps = 12
    beta = np.linspace(BETA_1, BETA_T, steps)
    bars = np.concatenate([[1.0], np.cumprod(1 - beta)])
    for t in range(steps, 0, -1):
        alpha, bar = 1 - beta[t - 1], bars[t]
        epsilon = x @ M.T
        x0_hat = (x - math.sqrt(1 - bar) * epsilon) / math.sqrt(bar)
        residual = np.stack([2 * (x0_hat[:, 0] - 0.5), np.zeros(4)], axis=1)
        g = residual @ (np.eye(2) - math.sqrt(1 - bar) * M) / math.sqrt(bar)
        z = noise[steps - t + 1].numpy() if t > 1 else 0.0
        sigma = (1 - alpha) * (1 - bars[t - 1]) / (1 - bar)
        x = (x - (1 - alpha) / math.sqrt(1 - bar) * epsilon) / math.sqrt(alpha) + sigma * z
        x = x - 0.2 * (steps - t) / steps * g
    assert np.allclose(got.numpy(), x, rtol=1e-10, atol=1e-12)


def test_the_training_loss_is_the_mean_squared_error_of_the_noise():
    denoiser = LinearNoise(torch.zeros(2, 2), LinearSchedule())
    data = EncodedRows(torch.zeros(50_000, 2), torch.ones(50_000, 2, dtype=torch.bool))
    loss = denoiser.loss(data, torch.Generator().manual_seed(0))
    assert loss.item() == pytest.approx(1.0, abs=0.02)  # a prediction of 0 leaves the variance of the noise


def test_a_missing_cell_is_never_a_target():
    denoiser = PaperDenoiser(2, 8, LinearSchedule())
    initialize_linear(denoiser, torch.Generator().manual_seed(0))
    observed = torch.tensor([[True, False]] * 6)
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(1))
    denoiser.loss(EncodedRows(torch.where(observed, x, 0.0), observed), torch.Generator().manual_seed(2)).backward()
    last = denoiser.noise.layers[-1]
    assert last.weight.grad[0].abs().sum() > 0
    assert last.weight.grad[1].abs().sum() == 0


SLICES = (ColumnSlice("x", 0, 0, 1, PartType.CONTINUOUS), ColumnSlice("c", 1, 1, 4, PartType.CATEGORICAL))


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("mae", 1.5 + (0.2 + 0.3 + 0.1)),
        ("mse", 1.5**2 + (0.04 + 0.09 + 0.01)),
        ("mae+ce", 1.5 + 0.6 - math.log(math.exp(0.8) / (math.exp(0.8) + math.exp(0.3) + math.exp(-0.1)))),
        ("mse+ce", 1.5**2 + 0.14 - math.log(math.exp(0.8) / (math.exp(0.8) + math.exp(0.3) + math.exp(-0.1)))),
    ],
)
def test_the_four_losses_by_hand(loss, expected):
    given = EncodedRows(torch.tensor([[2.0, 1.0, 0.0, 0.0]]), torch.ones(1, 4, dtype=torch.bool))
    x0_hat = torch.tensor([[0.5, 0.8, 0.3, -0.1]])
    assert reconstruction_penalty(loss, given, SLICES)(x0_hat).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", ["mae", "mse", "mae+ce", "mse+ce"])
def test_missing_cells_do_not_count(loss):
    nothing = EncodedRows(torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool))
    assert reconstruction_penalty(loss, nothing, SLICES)(torch.tensor([[5.0, 1.0, 2.0, 3.0]])).item() == 0


def test_guidance_schedules():
    assert [constant(0.2)(p) for p in (0.0, 0.5)] == [0.2, 0.2]
    assert [linear(0.2)(p) for p in (0.0, 0.5)] == [0.0, 0.1]


def test_matched_noise_has_the_moments_at_the_end_of_the_forward_process():
    schedule = LinearSchedule()
    denoiser = PaperDenoiser(2, 4, schedule)
    rng = np.random.default_rng(0)
    rows = torch.tensor(np.stack([rng.normal(3, 0.5, 20_000), rng.random(20_000) < 0.1], axis=1), dtype=torch.float32)
    denoiser.fit_moments(EncodedRows(rows, torch.ones_like(rows, dtype=torch.bool)))
    z = torch.randn(200_000, 2, generator=torch.Generator().manual_seed(0))
    x_T = matched_noise(denoiser, z)
    level = schedule.level(T)
    assert x_T.mean(dim=0).tolist() == pytest.approx([level.signal * 3, level.signal * 0.1], abs=0.01)
    expected = [math.sqrt(level.signal**2 * v + level.noise**2) for v in (0.25, 0.09)]
    assert x_T.std(dim=0).tolist() == pytest.approx(expected, abs=0.01)
    assert torch.equal(INITIAL_NOISE["standard"](denoiser, z), z)
