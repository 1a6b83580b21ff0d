"""Optimizers, compared with those of torch."""

import pytest
import torch
from torch import nn

from harpoon.diffusion.schedules import LinearSchedule
from harpoon.networks.paper_denoiser import PaperDenoiser
from harpoon.training import optimizers
from harpoon.training.optimizers import OPTIMIZERS, newton_schulz
from tests.support.precision import without_onednn


@pytest.fixture
def _plain_products():
    with without_onednn():
        yield


class Network(nn.Module):
    """Two inner matrices, a last one and a bias."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = (40, 20), (12, 30), (3, 40), (3,)
        self.weights = nn.ParameterList(torch.randn(shape, generator=generator) for shape in shapes)

    def muon_parameters(self) -> list[nn.Parameter]:
        return list(self.weights[:2])

    def set_gradients(self, step: int) -> None:
        """Set the gradients of this step."""
        generator = torch.Generator().manual_seed(step)
        for weight in self.weights:
            weight.grad = torch.randn(weight.shape, generator=generator) * (1 + torch.arange(weight.shape[-1]))


@pytest.mark.parametrize("shape", [(8, 8), (5, 40), (40, 5), (1, 7)])
@pytest.mark.parametrize("fast_bfloat16", [False, True])
@pytest.mark.usefixtures("_plain_products")
def test_newton_schulz_keeps_singular_vectors_and_brings_singular_values_near_one(shape, fast_bfloat16, monkeypatch):
    monkeypatch.setattr(optimizers, "has_fast_bfloat16", lambda _device: fast_bfloat16)
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    rotated = left.T @ newton_schulz(matrix) @ right.T
    assert torch.allclose(rotated, rotated.diag().diag(), atol=0.1 if fast_bfloat16 else 1e-4)
    assert rotated.diag()[values > 0.05 * values.max()].sub(1).abs().max() < 0.45


def test_newton_schulz_of_zeros_is_zero():
    assert not newton_schulz(torch.zeros(4, 6)).any()


@pytest.mark.usefixtures("_plain_products")
def test_the_updates_are_those_of_torch(monkeypatch):
    """Inner matrices: torch.optim.Muon's; all others: torch.optim.AdamW's."""
    monkeypatch.setattr(optimizers, "has_fast_bfloat16", lambda _device: True)  # torch always uses bfloat16
    ours, theirs = Network(), Network()
    rate, decay = 0.01, 0.1
    steps = OPTIMIZERS["muon"](ours, rate, decay)
    inner = torch.optim.Muon(theirs.muon_parameters(), lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
    groups = [{"params": [theirs.weights[2]], "weight_decay": decay}, {"params": [theirs.weights[3]]}]
    others = torch.optim.AdamW(groups, lr=rate, betas=optimizers.ADAM_BETAS, weight_decay=0)
    for step in range(5):
        ours.set_gradients(step)
        theirs.set_gradients(step)
        for optimizer in (steps, inner, others):
            optimizer.step()
    for one, other, before in zip(ours.weights, theirs.weights, Network().weights, strict=True):
        assert torch.allclose(one, other, atol=2e-3)
        assert (one - before).abs().max() > 0.01


def test_a_resumed_optimizer_has_the_stored_momentum():
    uninterrupted, resumed = Network(), Network()
    one, two = (OPTIMIZERS["muon"](network, 0.01, 0.0) for network in (uninterrupted, resumed))
    for step in range(2):
        for network, optimizer in ((uninterrupted, one), (resumed, two)):
            network.set_gradients(step)
            optimizer.step()
    again = OPTIMIZERS["muon"](resumed, 0.01, 0.0)
    again.load_state_dict(two.state_dict())
    for network, optimizer in ((uninterrupted, one), (resumed, again)):
        network.set_gradients(2)
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(uninterrupted.weights, resumed.weights, strict=True))


def test_a_weight_without_a_gradient_does_not_change():
    network = Network()
    before = [weight.detach().clone() for weight in network.weights]
    OPTIMIZERS["muon"](network, 0.01, 0.1).step()
    assert all(torch.equal(a, b) for a, b in zip(before, network.weights, strict=True))


def test_a_network_without_inner_matrices_is_optimised_by_adamw():
    ours, theirs = Network(), Network()
    ours.muon_parameters = list  # none
    decaying = [{"params": list(theirs.weights[:3]), "weight_decay": 0.1}, {"params": [theirs.weights[3]]}]
    steps = OPTIMIZERS["muon"](ours, 0.01, 0.1)
    adam = torch.optim.AdamW(decaying, lr=0.01, betas=optimizers.ADAM_BETAS, weight_decay=0, fused=True)
    for network, optimizer in ((ours, steps), (theirs, adam)):
        network.set_gradients(0)
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.weights, theirs.weights, strict=True))
    assert PaperDenoiser(2, 16, LinearSchedule(steps=20)).muon_parameters() == []
