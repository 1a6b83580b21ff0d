"""Gradients of single rows agree with those of PyTorch, and no row adds more than the norm to their sum."""

import pytest
import torch
from torch import nn

from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks import layers
from harpoon.networks.anchored_denoiser import RowDraws
from harpoon.networks.per_example_gradients import RowGradients
from tests.unit.networks.test_anchored_denoiser import data, denoiser

ROWS, N_MAX_NOISE = 12, 7
MAX_NORM = 0.5


@pytest.fixture
def network(monkeypatch):
    """Return a network whose weights are not those of the start, and the loss of some rows under a fixed noise."""
    monkeypatch.setattr(layers, "has_fast_bfloat16", lambda _device: False)  # to compare without its rounding
    made = denoiser(gaussian_baseline=False).train()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    uniform = torch.rand(2, ROWS, generator=generator)
    draws = RowDraws(uniform[0], uniform[1], N_MAX_NOISE, N_MAX_NOISE // 2)
    t, masked = made._sample_masks(draws, generator)
    batch = data(ROWS)
    epsilon = torch.randn(batch.x.shape, generator=generator)

    def loss(index):
        chosen = torch.tensor(index, dtype=torch.long)
        monkeypatch.setattr(made, "_sample_masks", lambda *_: (t[chosen], masked[chosen]))
        monkeypatch.setattr(torch, "randn", lambda *_, **__: epsilon[chosen])
        n = sum(row < N_MAX_NOISE for row in index)
        return made._sum_losses(batch[chosen], draws._replace(n_max_noise=n), generator)

    return made, loss


def gradient_of(network, loss):
    """Return the gradient of a loss in all weights, in one vector, by PyTorch."""
    found = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
    zeros = [torch.zeros_like(weight) for weight in network.parameters()]
    return torch.cat([(g if g is not None else z).flatten() for g, z in zip(found, zeros, strict=True)])


def flat(network, gradients):
    return torch.cat([gradients.get(weight, torch.zeros_like(weight)).flatten() for weight in network.parameters()])


def clip(gradient):
    return gradient * min(1.0, MAX_NORM / max(float(gradient.norm()), 1e-9))


def test_norms_and_sums_are_those_of_single_rows(network):
    network, loss = network
    single = [gradient_of(network, loss([row])) for row in range(ROWS)]
    gradients, norms = RowGradients(network).sum_clipped(lambda: loss(list(range(ROWS))), MAX_NORM)
    assert norms.float() == pytest.approx(torch.stack([g.norm() for g in single]), rel=1e-3)
    assert (norms > MAX_NORM).any()
    assert (norms < MAX_NORM).any()
    expected = torch.stack([clip(gradient) for gradient in single]).sum(dim=0)
    assert flat(network, gradients) == pytest.approx(expected, abs=2e-4)


def test_the_loss_is_a_sum_over_rows_that_depend_on_themselves_alone(network):
    network, loss = network
    total = gradient_of(network, loss(list(range(ROWS))))
    parts = sum(gradient_of(network, loss([row])) for row in range(ROWS))
    assert total == pytest.approx(parts, abs=1e-3)


@pytest.mark.parametrize("removed", range(ROWS))
def test_a_neighbouring_table_changes_the_sum_by_at_most_the_norm(network, removed):
    network, loss = network
    rows, sums = list(range(ROWS)), RowGradients(network)
    whole, _ = sums.sum_clipped(lambda: loss(rows), MAX_NORM)
    without, _ = sums.sum_clipped(lambda: loss(rows[:removed] + rows[removed + 1 :]), MAX_NORM)
    change = float((flat(network, whole) - flat(network, without)).double().norm())
    assert 0 < change <= MAX_NORM * (1 + 1e-5)  # beyond the rounding of sums


def test_losses_are_independent_of_the_number_of_rows():
    """The expected loss of a batch is that of its rows: the mean over many batches is the same for any size."""
    made = denoiser(gaussian_baseline=False)
    generator = torch.Generator().manual_seed(0)
    rows = data(200)
    with torch.no_grad():
        whole = sum(float(made.sum_independent_losses(rows, generator)) for _ in range(40))
        parts = sum(
            float(made.sum_independent_losses(rows[slice(i, i + 20)], generator))
            for i in range(0, 200, 20)
            for _ in range(40)
        )
    assert whole == pytest.approx(parts, rel=0.04)
    with torch.no_grad():
        assert float(made.sum_independent_losses(rows[:0], generator)) == 0.0


def test_the_loss_of_independent_rows_is_the_training_loss_on_average():
    made, rows = denoiser(gaussian_baseline=False), data(400)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        usual = sum(float(made.loss(rows, generator)) for _ in range(50)) / 50
        private = sum(float(made.sum_independent_losses(rows, generator)) for _ in range(50)) / 50 / 400
    assert private == pytest.approx(usual, rel=0.04)


def test_a_row_whose_gradient_is_not_finite_counts_as_none():
    layer = nn.Linear(2, 1)
    x = torch.tensor([[1.0, 2.0], [torch.inf, 0.0]])
    gradients, norms = RowGradients(layer).sum_clipped(lambda: layer(x).sum(), 1.0)
    assert norms[0] == pytest.approx(6**0.5)
    assert not norms[1].isfinite()
    assert gradients[layer.weight].flatten() == pytest.approx(torch.tensor([1.0, 2.0]) / 6**0.5, rel=1e-3)


def test_unknown_layers_and_layers_that_are_used_twice_are_refused():
    with pytest.raises(TypeError, match=r"not known for 0\.weight"):
        RowGradients(nn.Sequential(nn.Embedding(3, 2)))
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="is used twice"):
        RowGradients(layer).sum_clipped(lambda: layer(layer(torch.ones(1, 2))).sum(), 1.0)


def test_missing_cells_and_empty_batches_have_gradients(network):
    network, _ = network
    generator = torch.Generator().manual_seed(0)
    none_observed = data(5)
    none_observed = EncodedRows(none_observed.x * 0, torch.zeros_like(none_observed.observed))
    for rows in (none_observed, data(5)[:0]):
        gradients, norms = RowGradients(network).sum_clipped(
            lambda rows=rows: network.sum_independent_losses(rows, generator), 1.0
        )
        assert len(norms) == len(rows.x)
        assert not flat(network, gradients).any()
