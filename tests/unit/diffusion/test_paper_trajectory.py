"""The way of rows through Algorithm 1, step by step, against NumPy written from the paper's equations alone.

Weights and noise are fixed. Nothing of `harpoon` computes the expected rows: neither the network and its gradient, nor
the schedule, the losses, the solver or the encoding.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch

from harpoon import Harpoon
from harpoon.diffusion.guidance import GUIDANCE_SCHEDULES, Guidance
from harpoon.diffusion.reconstruction_penalty import reconstruction_penalty
from harpoon.diffusion.reverse_process import reverse_process, standard_noise
from harpoon.diffusion.solvers import SOLVERS, Solver
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.inference.conditional.condition_search import guiding_penalty
from harpoon.inference.conditional.query import Query

T, ETA, ROWS, HIDDEN = 200, 0.2, 7, 8
CATEGORIES = ("a", "b", "c")
CONDITIONS = {
    "range": "pages >= 4",
    "category": "kind = 'b'",
    "and": "pages >= 4 and kind = 'b'",
    "or": "pages >= 4 or kind = 'b'",
}
Loss = Callable[[np.ndarray], np.ndarray]  # x̂_0, (n, d), to the gradient of the loss at x̂_0, (n, d)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "pages": rng.poisson(2.5, 60),
            "price": rng.normal(30.0, 5.0, 60),
            "kind": rng.choice(CATEGORIES, 60, p=[0.5, 0.3, 0.2]),
        }
    )


@pytest.fixture(scope="module", params=["truncated", "sinusoidal"])
def model(request, table):
    options = {
        "hidden": HIDDEN,
        "max_epochs": 150,
        "batch_size": 60,
        "learning_rate": 0.02,
    }  # untrained, squares diverge
    fitted = Harpoon("paper", time_embedding=request.param, progress=False, random_state=0, **options).fit(table)
    fitted.denoiser_.double()
    return fitted


@pytest.fixture(autouse=True)
def double_precision():
    """Time embeddings are double, too: steps of the sign of a residual make rounding errors grow."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@dataclass
class Network:
    """ε_θ(x_t, t) and its vector-Jacobian product, for an MLP with SiLU (appendix G.2)."""

    weights: dict[str, np.ndarray]
    embedding: str

    def linear(self, x, name):
        return x @ self.weights[f"noise.{name}.weight"].T + self.weights[f"noise.{name}.bias"]

    def embed(self, t):
        """The published code counts steps from 0 and casts the frequencies to integers; the text has both whole."""
        frequencies = 10_000.0 ** (-np.arange(HIDDEN // 2) / (HIDDEN // 2))
        angles = (t - 1) * frequencies.astype(int) if self.embedding == "truncated" else t * frequencies
        return np.concatenate([np.sin(angles), np.cos(angles)])

    def __call__(self, x, t):
        """Return ε, (n, d), and a function from v, (n, d), to vᵀ ∂ε/∂x_t, (n, d)."""
        h = self.linear(x, "project") + self.linear(silu(self.linear(self.embed(t), "time.0")), "time.2")
        inner = []
        for name in ("layers.0", "layers.2", "layers.4"):
            inner.append(self.linear(h, name))
            h = silu(inner[-1])

        def transposed(v):
            v = v @ self.weights["noise.layers.6.weight"]
            for name, z in zip(("layers.4", "layers.2", "layers.0"), reversed(inner), strict=True):
                v = v * silu_slope(z) @ self.weights[f"noise.{name}.weight"]
            return v @ self.weights["noise.project.weight"]

        return self.linear(h, "layers.6"), transposed


def silu(z):
    return z / (1 + np.exp(-z))


def silu_slope(z):
    p = 1 / (1 + np.exp(-z))
    return p * (1 + z * (1 - p))


def algorithm_1(network: Network, noise: np.ndarray, gradient: Loss, *, schedule: str = "constant") -> list[np.ndarray]:
    """Return x_T, ..., x_0, each (n, d), in the paper's symbols."""
    alpha = 1 - np.linspace(1e-4, 0.02, T)  # α_1 = 0.9999 to α_T = 0.98
    alpha_bar = np.concatenate([[1.0], np.cumprod(alpha)])
    x = noise[0]
    rows = [x]
    for t in range(T, 0, -1):
        a, bar, bar_before = alpha[t - 1], alpha_bar[t], alpha_bar[t - 1]
        z = noise[T - t + 1] if t > 1 else 0.0
        epsilon, transposed = network(x, t)
        x0_hat = (x - np.sqrt(1 - bar) * epsilon) / np.sqrt(bar)
        slope = gradient(x0_hat)
        g = (slope - np.sqrt(1 - bar) * transposed(slope)) / np.sqrt(bar)
        sigma = (1 - a) * (1 - bar_before) / (1 - bar)
        x = (x - (1 - a) / np.sqrt(1 - bar) * epsilon) / np.sqrt(a) + sigma * z
        x = x - (ETA if schedule == "constant" else ETA * (T - t) / T) * g
        rows.append(x)
    return rows


def reconstruction_gradient(loss: str, target: np.ndarray, observed: np.ndarray) -> Loss:
    """The gradient of L_imp: |x̂_0 - x_0| or its square at observed cells, plus a cross-entropy of the category."""

    def gradient(x0_hat):
        residual = x0_hat - target
        slope = np.where(observed, np.sign(residual) if loss.startswith("mae") else 2 * residual, 0.0)
        if loss.endswith("ce"):
            p = np.exp(x0_hat[:, 2:]) / np.exp(x0_hat[:, 2:]).sum(axis=1, keepdims=True)
            slope[:, 2:] += np.where(observed[:, 2:], p - target[:, 2:], 0.0)
        return slope

    return gradient


def condition_gradient(kind: str, bound: float, target: np.ndarray) -> Loss:
    """The gradient of eq. 9: ReLU(l - x)² of a standardised bound and the 1-norm of a category; eq. 10 for "or"."""

    def gradient(x0_hat):
        missing = np.maximum(bound - x0_hat[:, 0], 0.0)
        in_range, range_slope = missing**2, np.zeros_like(x0_hat)
        range_slope[:, 0] = -2 * missing
        residual = x0_hat[:, 2:] - target
        in_category, category_slope = np.abs(residual).sum(axis=1), np.zeros_like(x0_hat)
        category_slope[:, 2:] = np.sign(residual)
        if kind == "or":
            return in_category[:, None] * range_slope + in_range[:, None] * category_slope
        return (kind != "category") * range_slope + (kind != "range") * category_slope

    return gradient


def run(model, penalty, schedule="constant"):
    """Return the rows at each step of our loop, and its noise."""
    rows, printed = [], SOLVERS["ddpm_printed"]

    def step(inputs):
        rows.append(inputs.x_t.numpy())
        return printed.step(inputs)

    noise = torch.randn(T + 1, ROWS, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    last = reverse_process(
        model.denoiser_,
        noise,
        times=model.denoiser_.schedule.times(T),
        initial_noise=standard_noise,
        solver=Solver(step, stochastic=True),
        guidance=Guidance(penalty, GUIDANCE_SCHEDULES[schedule](ETA)),
    )
    return [*rows, last.numpy()], noise.numpy()


def network_of(model):
    weights = {name: value.numpy() for name, value in model.denoiser_.state_dict().items()}
    return Network(weights, model.config.time_embedding)


def assert_same_way(got, expected):
    assert len(got) == len(expected) == T + 1
    for step, (ours, paper) in enumerate(zip(got, expected, strict=True)):
        np.testing.assert_allclose(ours, paper, rtol=1e-6, atol=1e-6, err_msg=f"after {step} steps")


def encode(table):
    """Standardised numbers, then the one-hot category, (n, 5), with the moments of the table."""
    numbers = table[["pages", "price"]].to_numpy(dtype=float)
    one_hot = (table["kind"].to_numpy()[:, None] == np.array(CATEGORIES)).astype(float)
    return np.hstack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), one_hot])


@pytest.mark.parametrize("schedule", ["constant", "linear"])
@pytest.mark.parametrize("loss", ["mae", "mse", "mae+ce", "mse+ce"])
def test_imputation_takes_the_way_of_the_paper(model, table, loss, schedule):
    target = encode(table)[:ROWS]
    cells = np.random.default_rng(2).random((ROWS, 3)) < 0.6
    observed = np.hstack([cells[:, :2], np.repeat(cells[:, 2:], 3, axis=1)])
    given = EncodedRows(torch.from_numpy(np.where(observed, target, 0.0)), torch.from_numpy(observed))
    got, noise = run(model, reconstruction_penalty(loss, given, model.codec_.slices), schedule)
    gradient = reconstruction_gradient(loss, target, observed)
    assert_same_way(got, algorithm_1(network_of(model), noise, gradient, schedule=schedule))


@pytest.mark.parametrize("kind", CONDITIONS)
def test_conditions_take_the_way_of_the_paper(model, table, kind):
    query = Query.create(model.codec_, CONDITIONS[kind])
    penalty = guiding_penalty(model._sampler(0, {}), query.predicate)
    got, noise = run(model, penalty)
    pages = table["pages"].to_numpy(dtype=float)
    gradient = condition_gradient(kind, (4 - pages.mean()) / pages.std(), np.array([0.0, 1.0, 0.0]))
    assert_same_way(got, algorithm_1(network_of(model), noise, gradient))
