"""Training: from a table to the weights of a denoiser.

`fit.ModelFitter` has the whole recipe; `trainer.train` has the loop.
"""

from harpoon.training.checkpoints import Checkpoint
from harpoon.training.distributed import SingleProcess
from harpoon.training.fit import ModelFitter, TrainingData
from harpoon.training.fitted_model import FittedModel
from harpoon.training.trainer import History

__all__ = ["Checkpoint", "FittedModel", "History", "ModelFitter", "SingleProcess", "TrainingData"]
