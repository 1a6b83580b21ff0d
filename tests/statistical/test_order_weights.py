"""The likelihood of rows in any order, and the weights of rows that were sampled in another order than plain ones."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harpoon import Harpoon
from harpoon._utils.weighted_rows import truncate
from harpoon.conditions import bind, to_predicate
from harpoon.data import repeat_row, take
from harpoon.inference.conditional.importance_sampling import branch_proposals
from harpoon.inference.conditional.order_weights import OrderWeights, can_weigh_orders
from harpoon.inference.imputation.partial_table import given_rows
from harpoon.inference.sampling.row_likelihood import RowLikelihood

LABELS = {"a": ["p", "q", "r"], "b": ["no", "yes"], "c": [1, 2, 3, 4]}


@pytest.fixture(scope="module")
def model():
    rng, n = np.random.default_rng(0), 800
    a = rng.choice(LABELS["a"], n, p=[0.5, 0.4, 0.1])
    b = np.where(rng.random(n) < np.where(a == "p", 0.8, 0.2), "no", "yes")
    c = rng.choice(LABELS["c"], n) * (b == "no") + rng.choice([1, 2], n) * (b == "yes")
    x = rng.normal(c, 1.0)
    options = {"hidden": 32, "depth": 1, "max_epochs": 8, "learning_rate": 3e-3, "batch_size": 128}
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "x": x})
    return Harpoon(random_state=0, progress=False, **options).fit(frame)


@pytest.fixture(scope="module")
def sampler(model):
    sampler = model._sampler(3)
    sampler.missing = "as_trained"
    return sampler


def test_the_probabilities_of_all_rows_sum_to_one_in_every_order(model, sampler):
    every = pd.DataFrame(itertools.product(*LABELS.values()), columns=list(LABELS)).assign(x=0.0)
    rows, variables = model.encode(every), sampler.autoregressive.variables
    likelihood = RowLikelihood(sampler.model.distributions, variables)
    unknown = torch.zeros(len(every), len(variables), dtype=torch.bool)
    totals = []
    for order in itertools.permutations([0.0, 1.0, 2.0]):
        places = torch.tensor([*order, torch.inf]).expand(len(every), -1)
        with torch.no_grad():
            log_p = likelihood.in_order(rows, unknown, places)
        assert (log_p[:, 3] == 0).all()
        totals.append(log_p.sum(dim=1).exp().sum().item())
    assert totals == pytest.approx([1.0] * 6, abs=1e-5)


@pytest.mark.parametrize(
    "where",
    [
        "x > -100",
        "b in ('no', 'yes') and x > -100",
        "c >= 1 and a in ('p', 'q', 'r') and b in ('no', 'yes') and x > -9",
    ],
)
def test_weights_have_mean_one_and_give_the_shares_of_plain_rows(model, sampler, where):
    """Every row satisfies these conditions: columns come first, and nothing else changes."""
    n, base = 6000, given_rows(None, 1, model.schema_, model.codec_.nullable)
    assert can_weigh_orders(sampler)
    (proposal,) = branch_proposals(sampler, bind(to_predicate(where, model.schema_.names), model.schema_), base)
    first = [predictor.name for predictor in proposal.predictors]
    assert len(first) == where.count("and") + 1
    rows = proposal.sample_candidates(0, n)
    weights = OrderWeights(sampler, base, first, draw=proposal.index).of_rows(rows, np.arange(n))
    assert weights.std() > 0.01
    assert weights.mean() == pytest.approx(1.0, abs=5 * weights.std() / np.sqrt(n))
    plain = sampler.sample(repeat_row(base, 4 * n), np.arange(4 * n))
    for name in LABELS:
        for value in np.unique(plain[name].values):
            share = float(np.average(rows[name].values == value, weights=weights))
            assert share == pytest.approx(float((plain[name].values == value).mean()), abs=0.03)


def test_the_weight_of_a_row_does_not_depend_on_the_batch(model, sampler):
    base, index = given_rows(None, 1, model.schema_, model.codec_.nullable), np.arange(100)
    rows = sampler.sample(repeat_row(base, 100), index, draw=4)
    weigh = OrderWeights(sampler, base, ["x", "a"], draw=4)
    together, some = weigh.of_rows(rows, index), weigh.of_rows(take(rows, slice(30, 64)), index[30:64])
    assert some == pytest.approx(together[30:64], rel=1e-4)


@given(arrays(float, st.integers(1, 40), elements=st.floats(0, 1e6)), st.floats(1.1, 10))
def test_truncated_weights_are_the_largest_below_the_limit(weights, most):
    cut = truncate(weights, most)
    assert (cut <= weights).all()
    assert cut.max() <= most * cut.mean() * (1 + 1e-9) + 1e-12 or not cut.any()
    changed = cut < weights
    if changed.any() and cut.any():
        assert cut[changed] == pytest.approx(most * cut.mean())
