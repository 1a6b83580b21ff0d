"""Likelihoods of rows under a model: how well each cell is predicted from the other cells of its row."""

from __future__ import annotations

import numpy as np
import torch

from harpoon.data import Columns, Floats, missing_as_null, n_rows, take
from harpoon.diffusion import Denoiser
from harpoon.encoding import RowCodec

BATCH_ROWS = 128  # of which every cell is a row of the network


@torch.no_grad()
def pseudo_log_likelihoods(denoiser: Denoiser, codec: RowCodec, rows: Columns, seed: int) -> Floats | None:
    """Return the mean log-likelihood of the cells of each row, (n,); None if the network predicts no distributions.

    That of a cell is conditional on the other cells of its row, minus that under its column alone (Besag, 1975). That a
    cell is missing is scored where the model knows missing cells.
    """
    network, device = denoiser.at_max_noise(), denoiser.mean.device
    found = [np.zeros(0)]
    for start in range(0, n_rows(rows), BATCH_ROWS):
        part = missing_as_null(take(rows, slice(start, start + BATCH_ROWS)))
        batch = codec.to_training_batch(part).to(device)
        generator = torch.Generator(device).manual_seed((seed + start) % 2**63)
        scores = network.score_cells(batch, batch.x.numel(), generator)
        if scores is None:
            return None
        total = torch.zeros(len(batch.x), dtype=torch.float64).index_add_(
            0, scores.row.cpu(), scores.gain.double().cpu()
        )
        count = torch.bincount(scores.row.cpu(), minlength=len(batch.x)).clamp(min=1)
        found.append((total / count).numpy())
    return np.concatenate(found)
