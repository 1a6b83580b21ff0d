"""Membership inference with shadow models: is a row more likely under the model than under models without it?

A row may be likely because it is an ordinary one. So the attacker trains *shadow models* of the same kind on random
halves of the rows, and subtracts from the likelihood of a row under the attacked model the mean of its likelihoods
under the shadow models that were trained without it. This is the offline variant of the likelihood-ratio attack (LiRA;
Carlini et al., 2022) with one variance for all rows, as few shadow models do not give one for each. The score is then
that of Watson et al. (2022). The baseline is the same attack on two halves of the hold-out rows: it is at chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harpoon._utils.rng import Stream, generator
from harpoon.data import Floats
from harpoon.privacy.attack_results import SHADOW_MODELS, Attack
from harpoon.privacy.attacks.membership import attack_by_scores
from harpoon.privacy.records import Mask

MIN_SHADOW_MODELS = 2
HOW = "by how much more likely it is under the model than under shadow models without it"


@dataclass(frozen=True)
class ShadowTraining:
    """How to train shadow models.

    Attributes:
        n_models: How many.
        n_rows: How many rows there are to train them on: all training rows, then all hold-out rows.
        attacked: The attacked training rows, then the attacked hold-out rows, by their index among these, (m,).
        likelihoods: Trains a model on some of the rows, by index, and returns the log-likelihoods of the attacked rows
            under it, (m,); None if it has none.
    """

    n_models: int
    n_rows: int
    attacked: NDArray[np.int64]
    likelihoods: Callable[[NDArray[np.int64]], Floats | None]


def attack_by_shadow_models(train: Floats, holdout: Floats, shadows: ShadowTraining, seed: int) -> Attack:
    """Score rows by their log-likelihood, (n,) and (m,), less its mean under shadow models trained without them."""
    rng = generator(seed, Stream.AUDIT, 2)
    halves = complementary_halves(shadows.n_rows, shadows.n_models, rng)
    found = [one for half in halves if (one := shadows.likelihoods(np.flatnonzero(half))) is not None]
    if len(found) < shadows.n_models:
        return Attack.not_run(SHADOW_MODELS, "a shadow model has no likelihood")
    scores = calibrate(np.concatenate([train, holdout]), np.stack(found), halves[:, shadows.attacked])
    attack = attack_by_scores(SHADOW_MODELS, scores[: len(train)], scores[len(train) :], HOW, rng)
    return replace(attack, details={**attack.details, "shadow_models": shadows.n_models})


def complementary_halves(n_rows: int, n_models: int, rng: np.random.Generator) -> Mask:
    """Return which rows each shadow model is trained on, (models, n).

    Each second model has the rows that the one before it does not have. So every row is new to at least one of two.
    """
    halves = np.zeros((n_models, n_rows), dtype=np.bool_)
    for first in range(0, n_models, 2):
        halves[first, rng.permutation(n_rows)[: n_rows // 2]] = True
        halves[first + 1 : first + 2] = ~halves[first]
    return halves


def calibrate(scores: Floats, shadows: Floats, has_seen: Mask) -> Floats:
    """Return scores, (n,), less the mean of those of the shadow models, (models, n), that have not seen the row.

    >>> shadows, has_seen = np.array([[1.0, 9.0], [9.0, 2.0]]), np.array([[False, True], [True, False]])
    >>> calibrate(np.array([4.0, 4.0]), shadows, has_seen).tolist()
    [3.0, 2.0]
    """
    expected: Floats = np.mean(shadows, axis=0, where=~has_seen)
    return scores - expected
