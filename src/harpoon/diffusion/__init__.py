"""The diffusion process, independent of tables: noise schedules, solvers, the reverse process and its guidance.

Rows are encoded: tensors of shape (n, d), one row per table row. Time 0 is the clean row x_0. References are to the
Harpoon paper unless another one is named.
"""

from harpoon.diffusion.denoiser import CellScores, Denoiser, DenoiserFn, MaxNoiseModel
from harpoon.diffusion.reconstruction_penalty import sum_penalties
from harpoon.diffusion.reverse_process import INITIAL_NOISE, reverse_process
from harpoon.diffusion.schedules import CosineSchedule, LinearSchedule
from harpoon.diffusion.smc import SMCResampler
from harpoon.diffusion.solvers import SOLVERS

__all__ = [
    "INITIAL_NOISE",
    "SOLVERS",
    "CellScores",
    "CosineSchedule",
    "Denoiser",
    "DenoiserFn",
    "LinearSchedule",
    "MaxNoiseModel",
    "SMCResampler",
    "reverse_process",
    "sum_penalties",
]
