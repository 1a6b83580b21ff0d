"""The exponential moving average of the weights."""

import torch

from harpoon.diffusion.denoiser import initialize_linear
from harpoon.diffusion.schedules import LinearSchedule
from harpoon.networks.paper_denoiser import PaperDenoiser
from harpoon.training.ema import build_average


def weights(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])


def denoiser(seed: int) -> PaperDenoiser:
    network = PaperDenoiser(2, 4, LinearSchedule(steps=3))
    initialize_linear(network, torch.Generator().manual_seed(seed))
    return network


def test_the_decay_warms_up_to_its_limit():
    network = denoiser(0)
    average = build_average(network, decay=0.5)
    expected = weights(network)
    assert torch.equal(weights(average.module), expected)
    for step in range(1, 30):
        initialize_linear(network, torch.Generator().manual_seed(step))
        average.update_parameters(network)
        decay = min(0.5, step / (step + 10))
        expected = decay * expected + (1 - decay) * weights(network)
        assert torch.allclose(weights(average.module), expected, atol=1e-6)


def test_without_decay_the_average_is_the_model():
    network = denoiser(0)
    average = build_average(network, decay=0.0)
    initialize_linear(network, torch.Generator().manual_seed(1))
    average.update_parameters(network)
    assert torch.equal(weights(average.module), weights(network))


def test_an_average_resumes_from_its_state():
    network, other = denoiser(0), denoiser(1)
    average = build_average(network, decay=0.9)
    for _ in range(5):
        average.update_parameters(other)
    resumed = build_average(network, decay=0.9)
    resumed.load_state_dict(average.state_dict())
    for model in (average, resumed):
        model.update_parameters(network)
    assert torch.equal(weights(average.module), weights(resumed.module))
