"""Membership inference: was a row in the training table?

Each attack gives every real row a score, and calls rows with a high score members. Scores of training rows are
compared with those of as many hold-out rows. The baseline is the same attack on two halves of the hold-out rows: it is
at chance.
"""

from __future__ import annotations

import numpy as np

from harpoon._formatting import format_percent
from harpoon.data import Floats
from harpoon.privacy.attack_results import LEVEL, Attack
from harpoon.privacy.rates import Estimate, advantage, area_under_curve
from harpoon.privacy.records import Records, nearest, with_ranks

BY_DISTANCE = "by its distance to the closest synthetic row"
BY_LIKELIHOOD = "by its likelihood under the model"


def attack_by_distance(train: Records, holdout: Records, synthetic: Records, rng: np.random.Generator) -> Attack:
    """Score rows by how near the closest synthetic row is (distance to the closest record); numbers count as ranks."""
    scores = closeness(train, holdout, synthetic)
    return attack_by_scores("membership_distance", *scores, BY_DISTANCE, rng)


def attack_by_likelihood(train: Floats, holdout: Floats, rng: np.random.Generator) -> Attack:
    """Score rows by their likelihood under the model, (n,) each."""
    return attack_by_scores("membership_likelihood", train, holdout, BY_LIKELIHOOD, rng)


def closeness(train: Records, holdout: Records, synthetic: Records) -> tuple[Floats, Floats]:
    """Return minus the distance of each training row and each hold-out row to the closest synthetic row."""
    ranked = with_ranks([train, holdout, synthetic])
    return -nearest(ranked[0], ranked[2])[1], -nearest(ranked[1], ranked[2])[1]


def attack_by_scores(name: str, train: Floats, holdout: Floats, how: str, rng: np.random.Generator) -> Attack:
    """Judge the scores of training rows and of hold-out rows, (n,) and (m,)."""
    area = area_under_curve(train, holdout, LEVEL)
    half, other = np.array_split(rng.permutation(holdout), 2)
    baseline = area_under_curve(half, other, LEVEL)
    gained = advantage(train, holdout, LEVEL, rng)
    risk = Estimate(2 * area.value - 1, 2 * area.low - 1, 2 * area.high - 1)
    sentence = (
        f"Of a training row and a hold-out row, an attacker who judges {how} tells which is which in "
        f"{format_percent(area.value)} of all pairs; guessing is right in 50 %."
    )
    details = {
        "auc_interval": [area.low, area.high],
        "advantage": gained.value,
        "advantage_interval": [gained.low, gained.high],
    }
    return Attack.judged(
        name, sentence, risk=risk, rate=area.value, baseline=baseline, attacks=len(train), details=details
    )
