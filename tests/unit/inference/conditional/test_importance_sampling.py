"""What rows are worth that were resampled between two columns: families of rows with one ancestor are independent."""

from types import SimpleNamespace

import numpy as np
import pytest

from harpoon.data import ColumnArray
from harpoon.inference.conditional.importance_sampling import MAX_ROUNDS, MIN_PARTICLES, BranchProposal


class TwoColumns(BranchProposal):
    """A proposal whose rows are numbered by their first column; its predictors are weights of rows, (n,)."""

    def _sample_column(self, rows, predictor, random, *, same=False):
        numbers = np.arange(len(predictor)) if same else rows["x"].values
        return {"x": ColumnArray("number", numbers.astype(float), np.zeros(len(numbers), bool))}, predictor


def propose(first, second):
    base = {"x": ColumnArray("number", np.zeros(1), np.ones(1, dtype=bool))}
    return TwoColumns(SimpleNamespace(seed=0), base, None, 1, [first, second])


def weights_of(values):
    return np.concatenate([values, np.zeros(MIN_PARTICLES - len(values))])


@pytest.mark.parametrize("ancestors", [2, 8, 32])
def test_rows_that_collapse_to_few_ancestors_are_worth_those(ancestors):
    proposal = propose(weights_of(np.ones(ancestors)), np.ones(MIN_PARTICLES))
    rows = proposal.sample_restricted(0, 512)
    assert len(proposal.weights) == MAX_ROUNDS  # the weights of the second column are equal, and yet it is not enough
    assert set(rows["x"].values) == set(range(ancestors))
    assert proposal.effective_size == pytest.approx(MAX_ROUNDS * ancestors, rel=1e-3)
    assert proposal.efficiency == pytest.approx(MAX_ROUNDS * ancestors / 512, rel=1e-3)
    assert proposal.probability == pytest.approx(ancestors / MIN_PARTICLES)
    # Of MAX_ROUNDS * MIN_PARTICLES independent trials, each of which succeeds with this probability.
    p = proposal.probability
    assert proposal.relative_variance == pytest.approx((1 - p) / p / (MAX_ROUNDS * MIN_PARTICLES))


def test_unequal_families_are_worth_less_than_their_number():
    """Two ancestors with weights 2 and 1: (2 + 1)² / (2² + 1²) = 9 / 5 in each round."""
    proposal = propose(weights_of(np.array([2.0, 1.0])), np.ones(MIN_PARTICLES))
    proposal.sample_restricted(0, 300)
    assert proposal.effective_size == pytest.approx(MAX_ROUNDS * 9 / 5, rel=0.02)


def test_rows_without_resampling_are_worth_what_kish_says():
    """With weights w of the second column only, no row is a copy before the last choice: E = (Σw)² / Σw²."""
    w = np.random.default_rng(0).lognormal(0, 0.5, MIN_PARTICLES)
    proposal = propose(np.ones(MIN_PARTICLES), w)
    proposal.sample_restricted(0, 100)
    assert len(proposal.weights) == 1
    assert proposal.effective_size == pytest.approx(100, rel=0.05)  # 100 of 1024 rows are hardly ever twice the same
    assert proposal.relative_variance == pytest.approx(w.var() / w.mean() ** 2 / len(w))


def test_a_round_is_enough_if_its_families_are():
    proposal = propose(weights_of(np.ones(400)), np.ones(MIN_PARTICLES))  # fewer than half: they are resampled
    proposal.sample_restricted(0, 300)
    assert len(proposal.weights) == 1
