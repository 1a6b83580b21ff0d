"""Why cells are structurally missing: the values of other columns beside which a column is always missing."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from harpoon.conditions.logic.explanation import label_text
from harpoon.inference.sampling.row_sampler import RowSampler

MAX_NAMED = 3  # values


def structural_causes(sampler: RowSampler, columns: Collection[str]) -> dict[str, str]:
    """Return beside which values columns are always missing in the training rows, as conditions."""
    found: dict[str, list[str]] = {}
    for pair in sampler.model.invariants.pairs:
        for axis, other, possible in (
            (pair.left, pair.right, pair.possible),
            (pair.right, pair.left, pair.possible.T),
        ):
            if axis.is_indicator and axis.column in columns:
                labels = np.flatnonzero(~possible[0] & possible[1]).tolist()
                found.setdefault(axis.column, []).extend(label_text(other, n, sampler.codec.schema) for n in labels)
    return {name: _join(list(dict.fromkeys(texts))) for name, texts in found.items() if texts}


def _join(texts: list[str]) -> str:
    shown = [*texts[:MAX_NAMED], *([f"{len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else [])]
    return " or ".join(shown)
