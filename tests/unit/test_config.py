"""Options: each registry has exactly the names that the configuration declares as choices."""

import pytest

from harpoon.config import Config, declared
from harpoon.diffusion.guidance import GUIDANCE_SCHEDULES
from harpoon.diffusion.reconstruction_penalty import RECONSTRUCTION_LOSSES
from harpoon.diffusion.reverse_process import INITIAL_NOISE
from harpoon.diffusion.solvers import SOLVERS
from harpoon.networks.build import NETWORKS
from harpoon.training.optimizers import OPTIMIZERS

REGISTRIES = {
    "network": NETWORKS,
    "solver": SOLVERS,
    "initial_noise": INITIAL_NOISE,
    "guidance_schedule": GUIDANCE_SCHEDULES,
    "reconstruction_loss": RECONSTRUCTION_LOSSES,
    "optimizer": OPTIMIZERS,
}


@pytest.mark.parametrize("option", REGISTRIES)
def test_a_registry_has_the_declared_choices(option):
    assert set(REGISTRIES[option]) == set(dict(declared(Config))[option].choices)
