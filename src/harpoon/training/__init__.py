"""Training: from a table to the weights of a denoiser.

`fit.ModelFitter` has the whole recipe; `trainer.train` has the loop.
"""

from harpoon.training.checkpoints import CHECKPOINT_KEY, Checkpoint, TrainingState
from harpoon.training.distributed import ProcessGroup, SingleProcess
from harpoon.training.fit import INVALID_CONTENT, FittedModel, ModelFitter, TrainingData, from_content, to_content
from harpoon.training.optimizers import OPTIMIZERS
from harpoon.training.trainer import Epoch, History, train

__all__ = [
    "CHECKPOINT_KEY",
    "INVALID_CONTENT",
    "OPTIMIZERS",
    "Checkpoint",
    "Epoch",
    "FittedModel",
    "History",
    "ModelFitter",
    "ProcessGroup",
    "SingleProcess",
    "TrainingData",
    "TrainingState",
    "from_content",
    "to_content",
    "train",
]
