"""What is constant of a trained model, computed on first use and shared by all calls and threads."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import torch

from harpoon.conditions.logic.invariants import Invariants
from harpoon.diffusion import Denoiser, MaxNoiseModel
from harpoon.encoding import RowCodec
from harpoon.inference.sampling.autoregressive import AutoregressiveSampler
from harpoon.inference.sampling.fitted_relations import FittedRelations
from harpoon.inference.sampling.model_invariants import find_invariants
from harpoon.inference.sampling.variables import Variables
from harpoon.networks.one_step_prediction import FusedMaxNoiseModel


class TrainedModel:
    """A trained network with its codec, and all that follows from the two alone.

    The weights must not change afterwards: a network that is trained again, or moved, needs another `TrainedModel`.
    Nothing here changes once it is computed. Threads that need it at the same time may each compute it, to the same
    result. It is not pickled.
    """

    def __init__(self, denoiser: Denoiser, codec: RowCodec) -> None:
        self.denoiser, self.codec = denoiser, codec
        self._placed = _placement(denoiser)

    def __reduce__(self) -> tuple[type[TrainedModel], tuple[Denoiser, RowCodec]]:
        return TrainedModel, (self.denoiser, self.codec)

    @property
    def is_current(self) -> bool:
        """Whether the network is still on the same device, in the same precision."""
        return self._placed == _placement(self.denoiser)

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return self._placed[0]

    @cached_property
    def at_max_noise(self) -> MaxNoiseModel:
        """The network at maximal noise."""
        with torch.inference_mode(mode=False):  # what is made in it is for all later calls
            return self.denoiser.at_max_noise()

    @property
    def distributions(self) -> FusedMaxNoiseModel | None:
        """The network at maximal noise, if it predicts the conditional distribution of every cell."""
        model = self.at_max_noise
        return cast("FusedMaxNoiseModel", model) if model.predicts_distributions else None

    @cached_property
    def autoregressive(self) -> AutoregressiveSampler | None:
        """The autoregressive sampler, if the network and the codec support it."""
        if self.distributions is None or not AutoregressiveSampler.supports(self.codec):
            return None
        return AutoregressiveSampler(self.distributions, Variables.from_codec(self.codec).to(self.device))

    @cached_property
    def relations(self) -> FittedRelations:
        """The relations that the network keeps."""
        return FittedRelations(self.codec, self.distributions)

    @cached_property
    def invariants(self) -> Invariants:
        """What every row keeps; none if the network does not keep any."""
        return find_invariants(self.relations)


def _placement(denoiser: Denoiser) -> tuple[torch.device, torch.dtype]:
    return denoiser.mean.device, denoiser.mean.dtype
