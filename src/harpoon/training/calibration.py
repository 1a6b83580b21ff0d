"""Calibration: how well a model predicts cells of rows that it was not trained on.

At the end of a training, cells of the validation rows are hidden one at a time, and the network predicts each from the
other cells of its row. Validation rows also decide when a training stops, so that the result is slightly optimistic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from harpoon._formatting import format_percent, format_rounded
from harpoon._utils import cards
from harpoon._utils.letter_grades import grade_of
from harpoon.diffusion import CellScores, Denoiser
from harpoon.encoding import EncodedRows
from harpoon.training.distributed import SingleProcess

LEVEL = 0.9  # of the intervals
MAX_CELLS = 4096  # hidden cells, at most
MIN_GRADED_CELLS = 100  # a grade of fewer would be noise
N_BINS = 10  # of predicted probabilities
N_TOTALS = 7  # sums that are not those of a bin
CALIBRATION_BOUNDS = {"A": 0.02, "B": 0.05, "C": 0.1}  # the largest error of probabilities and of coverage by grade
SINGLE_CELLS = (
    "This is about single cells, and does not say whether whole rows look real: the report of harpoon evaluate does."
)


@dataclass(frozen=True)
class Calibration(cards.Displayed):
    """How well held-out cells are predicted from the other cells of their row.

    Attributes:
        cells: How many cells were held out; 0: not measured.
        gain: The mean log likelihood of a cell, minus that under the distribution of its column alone, in nats.
        calibration_error: By how much the probability of the most probable category differs from how often it is
            right, on average (expected calibration error), beyond what chance explains; None without categories.
        coverage: The fraction of numbers inside their 90 % interval; None without numbers.
        categories: How many of the cells are categories.
        numbers: How many of the cells are numbers.
    """

    cells: int = 0
    gain: float | None = None
    calibration_error: float | None = None
    coverage: float | None = None
    categories: int = 0
    numbers: int = 0

    @property
    def grade(self) -> str:
        """From A to D: the worse of calibration error and coverage, D if columns alone predict better; "": none.

        Bounds are those of `CALIBRATION_BOUNDS`, after the standard error of the coverage is subtracted.
        """
        if self.cells < MIN_GRADED_CELLS or self.gain is None:
            return ""
        return grade_of(max(self._excess(), -self.gain), CALIBRATION_BOUNDS)

    def _excess(self) -> float:
        """Return the larger of calibration error and error of coverage, the latter less its standard error."""
        excess = [0.0]
        if self.calibration_error is not None:
            excess.append(self.calibration_error)
        if self.coverage is not None:
            excess.append(abs(self.coverage - LEVEL) - math.sqrt(LEVEL * (1 - LEVEL) / self.numbers))
        return max(excess)

    def __str__(self) -> str:
        if not self.cells or self.gain is None:
            return "Calibration was not measured: there were no validation rows, or the network has no likelihood."
        ratio = math.exp(self.gain)
        likely = f"{format_rounded(ratio, 3)} times as probable, on average over {self.cells:,} held-out cells"
        facts = [f"Knowing the other cells of a row makes a hidden cell {likely}"]
        if self.calibration_error is not None:
            facts.append(f"probabilities are off by {format_percent(self.calibration_error)} on average")
        if self.coverage is not None:
            facts.append(f"{format_percent(LEVEL)} intervals hold {format_percent(self.coverage)} of the numbers")
        return f"Calibration: {self.grade or 'too few held-out cells for a grade'}. {'; '.join(facts)}. {SINGLE_CELLS}"

    def _card(self) -> cards.Html:
        cells = f"{self.categories:,} categories, {self.numbers:,} numbers" if self.cells else None
        return cards.card("Calibration", cards.paragraph(self), cards.facts({"cells": cells}))


@torch.no_grad()
def measure_calibration(
    denoiser: Denoiser, rows: EncodedRows | None, seed: int, processes: SingleProcess
) -> Calibration:
    """Hide cells of validation rows one at a time and measure how well the others predict them.

    That is one evaluation of the network for each cell, of at most `MAX_CELLS`. Processes add up what they count. Cells
    count by the weights of their rows.
    """
    sums = torch.zeros(N_TOTALS + 4 * N_BINS, dtype=torch.float64)
    if rows is not None:
        generator = torch.Generator(rows.x.device).manual_seed(seed)
        scores = denoiser.at_max_noise().score_cells(rows, MAX_CELLS, generator)
        sums = sums if scores is None else _sums(scores, rows.row_weights[scores.row, 0])
    sums = processes.all_reduce_mean(sums) * processes.world_size
    n_cells, n_categories, n_numbers, weight, gain, of_numbers, covered = sums[:N_TOTALS].tolist()
    of_bins, hits, predicted, variance = sums[N_TOTALS:].view(4, N_BINS)
    if not n_cells:
        return Calibration()
    # A perfect model has an error, too: the mean absolute deviation of the hits from what is predicted.
    error = ((hits - predicted).abs() - (variance * 2 / math.pi).sqrt()).clamp(min=0).sum().item()
    of_categories = of_bins.sum().item()
    return Calibration(
        cells=round(n_cells),
        gain=gain / weight,
        calibration_error=error / of_categories if n_categories else None,
        coverage=covered / of_numbers if n_numbers else None,
        categories=round(n_categories),
        numbers=round(n_numbers),
    )


def _sums(scores: CellScores, weights: Tensor) -> Tensor:
    """Return what is counted of cells with some weights, (n,), as (N_TOTALS + 4 * N_BINS,).

    Those are cells, categories and numbers; then, added up by weight: cells, their gain, numbers, and covered numbers;
    then, for each bin of the probability of the most probable category, by weight: categories, how often that one is
    right, the sum of its probability, and of its variance.
    """
    weights = weights.double().cpu()
    pit, p = (values.double().cpu() for values in (scores.cumulative, scores.probability))
    is_number, is_category = ~pit.isnan(), ~p.isnan()
    covered = (pit >= (1 - LEVEL) / 2) & (pit <= (1 + LEVEL) / 2)
    totals = [weights, weights * scores.gain.double().cpu(), weights * is_number, weights * covered]
    n_categories, n_numbers = is_category.sum(), is_number.sum()
    p, correct, weights = p[is_category], scores.correct.double().cpu()[is_category], weights[is_category]
    rows = torch.stack([weights, weights * correct, weights * p, weights**2 * p * (1 - p)])
    by_bin = torch.zeros(4, N_BINS, dtype=torch.float64)
    by_bin.index_add_(1, (p * N_BINS).long().clamp(max=N_BINS - 1), rows)
    counts = torch.stack([torch.tensor(len(pit)), n_categories, n_numbers]).double()
    return torch.cat([counts, torch.stack([value.sum() for value in totals]), by_bin.flatten()])
