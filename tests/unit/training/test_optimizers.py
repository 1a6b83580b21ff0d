"""Steps of the weights, beside those of torch."""

import pytest
import torch
from torch import nn

from harpoon.diffusion.schedules import LinearSchedule
from harpoon.networks.paper import PaperDenoiser
from harpoon.training import optimizers
from harpoon.training.optimizers import OPTIMIZERS, newton_schulz


class Network(nn.Module):
    """Two inner matrices, a last one and a bias."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = (40, 20), (12, 30), (3, 40), (3,)
        self.weights = nn.ParameterList(torch.randn(shape, generator=generator) for shape in shapes)

    def inner_matrices(self) -> list[nn.Parameter]:
        return list(self.weights[:2])

    def learn(self, step: int) -> None:
        """Gradients of this step."""
        generator = torch.Generator().manual_seed(step)
        for weight in self.weights:
            weight.grad = torch.randn(weight.shape, generator=generator) * (1 + torch.arange(weight.shape[-1]))


@pytest.mark.parametrize("shape", [(8, 8), (5, 40), (40, 5), (1, 7)])
@pytest.mark.parametrize("coarse", [False, True])
def test_an_orthogonal_step_has_the_singular_vectors_of_the_gradient_and_singular_values_near_one(
    shape, coarse, monkeypatch
):
    monkeypatch.setattr(optimising, "coarse_is_fast", lambda _device: coarse)
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    of_step = left.T @ newton_schulz(matrix) @ right.T
    assert torch.allclose(of_step, of_step.diag().diag(), atol=0.1 if coarse else 1e-4)
    assert of_step.diag()[values > 0.05 * values.max()].sub(1).abs().max() < 0.45


def test_a_gradient_of_nothing_moves_nothing():
    assert not newton_schulz(torch.zeros(4, 6)).any()


def test_the_steps_are_those_of_torch(monkeypatch):
    """Inner matrices: torch.optim.Muon's; all others: torch.optim.AdamW's."""
    monkeypatch.setattr(optimising, "coarse_is_fast", lambda _device: True)  # torch's are always coarse
    ours, theirs = Network(), Network()
    rate, decay = 0.01, 0.1
    steps = OPTIMIZERS["muon"](ours, rate, decay)
    inner = torch.optim.Muon(theirs.inner_matrices(), lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
    groups = [{"params": [theirs.weights[2]], "weight_decay": decay}, {"params": [theirs.weights[3]]}]
    others = torch.optim.AdamW(groups, lr=rate, betas=optimizers.MOMENTS, weight_decay=0)
    for step in range(5):
        ours.learn(step)
        theirs.learn(step)
        for optimiser in (steps, inner, others):
            optimiser.step()
    for one, other, before in zip(ours.weights, theirs.weights, Network().weights, strict=True):
        assert torch.allclose(one, other, atol=2e-3)
        assert (one - before).abs().max() > 0.01  # they have moved


def test_a_training_goes_on_from_the_momentum_that_was_kept():
    straight, broken = Network(), Network()
    one, two = (OPTIMIZERS["muon"](network, 0.01, 0.0) for network in (straight, broken))
    for step in range(2):
        for network, optimiser in ((straight, one), (broken, two)):
            network.learn(step)
            optimiser.step()
    again = OPTIMIZERS["muon"](broken, 0.01, 0.0)
    again.load_state_dict(two.state_dict())
    for network, optimiser in ((straight, one), (broken, again)):
        network.learn(2)
        optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(straight.weights, broken.weights, strict=True))


def test_a_weight_without_a_gradient_stays():
    network = Network()
    before = [weight.detach().clone() for weight in network.weights]
    OPTIMIZERS["muon"](network, 0.01, 0.1).step()
    assert all(torch.equal(a, b) for a, b in zip(before, network.weights, strict=True))


def test_a_network_without_inner_matrices_is_left_to_adam():
    ours, theirs = Network(), Network()
    ours.inner_matrices = list  # none
    decaying = [{"params": list(theirs.weights[:3]), "weight_decay": 0.1}, {"params": [theirs.weights[3]]}]
    steps = OPTIMIZERS["muon"](ours, 0.01, 0.1)
    adam = torch.optim.AdamW(decaying, lr=0.01, betas=optimizers.MOMENTS, weight_decay=0, fused=True)
    for network, optimiser in ((ours, steps), (theirs, adam)):
        network.learn(0)
        optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.weights, theirs.weights, strict=True))
    assert PaperDenoiser(2, 16, LinearSchedule(steps=20)).muon_parameters() == []
