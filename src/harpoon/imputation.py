"""What an imputation can be besides one filled table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Expectation:
    """What a model expects of every cell, given the known cells of its row.

    Attributes:
        numbers: For each numeric column, its mean in the table's units (days or ticks for dates and times). A known
            cell has its own value, up to the rounding of single precision.
        probabilities: For each boolean or categorical column, (rows, labels).
        labels: The labels that the probabilities belong to.
    """

    numbers: dict[str, NDArray[np.float64]]
    probabilities: dict[str, NDArray[np.float64]]
    labels: dict[str, tuple[Any, ...]]
