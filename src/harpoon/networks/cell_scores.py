"""How well cells are predicted from the other cells of their rows: for calibration, and for likelihoods of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from harpoon.diffusion import CellScores
from harpoon.encoding import EncodedRows

if TYPE_CHECKING:
    from harpoon.networks.one_step_prediction import FusedMaxNoiseModel


def score_cells(model: FusedMaxNoiseModel, rows: EncodedRows, count: int, generator: torch.Generator) -> CellScores:
    """Hide random observed cells, one at a time and at most `count`, and predict each from its row.

    Of a hierarchical category the group is scored. A spike is scored as a category, other numbers as numbers. A
    timestamp is hidden with its calendar parts and the time between it and others, which are no cells.
    """
    denoiser, layout, head = model.denoiser, model.denoiser.layout, model.denoiser.rank_head
    cells = layout.last_of.select(rows.observed)
    cells[:, denoiser.calendar_parts.index] = False
    cells[:, list(denoiser.elapsed_between)] = False
    row, column = cells.nonzero(as_tuple=True)
    chosen = torch.randperm(len(row), generator=generator, device=row.device)[:count]
    row_of_cell = row[chosen]
    rows = rows[row_of_cell].dequantize(generator)
    hidden = functional.one_hot(column[chosen], layout.n_columns).bool()
    target = layout.column_of.select(hidden)
    hidden[:, denoiser.calendar_parts.index] |= denoiser.timestamps.select(hidden)
    for elapsed, ends in denoiser.elapsed_between.items():
        hidden[:, elapsed] |= hidden[:, list(ends)].any(dim=1)
    # A value is visible only with its indicator.
    hidden[:, denoiser.indicated.index] |= denoiser.indicators.select(hidden)
    predictor = model.evaluate(EncodedRows(rows.x, rows.observed & ~layout.column_of.select(hidden))).predictor

    log_p = denoiser.softmax.log_softmax(predictor.category_logits.dense())
    scored = layout.categories.select(target) & layout.is_first_part.to(target.device)
    one_hot = layout.categories.select(rows.x) * scored
    gain = (one_hot * (log_p - denoiser._log_prior())).sum(dim=1)
    # A column of -1 comes first: there may be no categories.
    probability, best = functional.pad(log_p.exp().masked_fill(~scored, -1.0), (1, 0), value=-1.0).max(dim=1)
    correct = functional.pad(one_hot, (1, 0)).gather(1, best.unsqueeze(1)).squeeze(1) > 0

    requested = head.target_weights(rows.x, target.to(rows.x.dtype)) > 0
    z, value = (part.select(rows.x).T[requested.T] for part in (head.ranks, head.standardised))
    distributions = predictor.distributions(requested)
    density, below = head.score(
        distributions, z, value, torch.rand(z.shape, generator=generator, dtype=z.dtype, device=z.device)
    )
    index = requested.T.nonzero()[:, 1]
    cumulative = torch.full_like(gain, torch.nan).index_copy(0, index, below)
    gain = gain.index_add(0, index, density)
    probability = probability.masked_fill(probability < 0, torch.nan)
    return CellScores(gain, probability, correct, cumulative, row_of_cell)
