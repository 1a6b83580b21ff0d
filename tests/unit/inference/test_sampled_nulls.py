"""Autoregressive sampling of missing cells from distributions that are known exactly."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import chisquare

from harpoon.data import dataframe
from harpoon.data.schema import Schema
from harpoon.data.value_counts import count_columns
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.encoding.missing_indicators import NULL, OBSERVED
from harpoon.encoding.row_codec import RowCodec
from harpoon.inference.sampling.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler
from harpoon.inference.sampling.variables import Variables
from harpoon.networks.heads.category_logits import DenseLogits
from harpoon.networks.heads.copy_head import CopyDistribution
from harpoon.networks.heads.rank_head import ConditionalDistributions, DeterminedValues, GaussianComponent
from tests.support.cellwise import PredictsAnew

# P(a, b), in which the last category of a column is that it is missing; a = a1 excludes a missing b.
JOINT = np.array([[0.10, 0.05, 0.15], [0.08, 0.12, 0.0], [0.30, 0.05, 0.15]])
ROWS = 6000
STATES = 2  # of an indicator
WIDTHS = (STATES, STATES, 2, 2)  # the indicators of a and b, a, b
STARTS = np.cumsum([0, *WIDTHS])


@pytest.fixture(scope="module")
def codec():
    values = list(itertools.product(["a0", "a1", None], ["b0", "b1", None]))
    table = pa.table(dict(zip("ab", zip(*values, strict=True), strict=True)))
    counts = count_columns(dataframe.read(table))
    schema = Schema.from_counts(counts)
    return RowCodec.fit(schema, counts, encoding="mixed", scaling="standard", missing_indicators=True)


def possible(one_hot, observed):
    """Which values of a column, the last of which is null, agree with its encoded indicator and value."""
    allowed = np.ones(3, dtype=bool)
    (indicator, value), (sees_indicator, sees_value) = one_hot, observed
    if sees_indicator:
        allowed &= [indicator[OBSERVED], indicator[OBSERVED], indicator[NULL]]
    if sees_value:
        allowed &= [*value, False]
    return allowed


class ExactJoint(PredictsAnew):
    """Predicts the conditional distributions of a joint distribution; a value given that there is one."""

    constrained = torch.zeros(3, 0, dtype=torch.bool)

    def __init__(self, *, exclusions):
        self.exclusions = exclusions
        self.excludable = torch.ones(int(STARTS[-1]), dtype=torch.bool) if exclusions else None

    def excluded_categories(self, x):
        if not self.exclusions:
            return None
        excluded = torch.zeros(len(x), int(STARTS[-1]), dtype=torch.bool)
        is_a1, b_is_null = x[:, STARTS[2] + 1] > 0, x[:, STARTS[1] + NULL] > 0
        excluded[:, STARTS[1] + NULL], excluded[:, STARTS[2] + 1] = is_a1, b_is_null
        return excluded

    def predict(self, given):
        self.given = given
        none = torch.zeros(len(given.x), 0)
        self.few_valued = DeterminedValues(none.bool(), none)
        return self

    def determined(self):
        return torch.zeros(len(self.given.x), 0, dtype=torch.bool)

    def distributions(self, _):
        x, seen = self.given.x.numpy() > 0, self.given.observed.numpy()[:, STARTS[:-1]]
        p = np.zeros((len(x), STARTS[-1]))
        for row in range(len(x)):
            parts = [x[row, start:stop] for start, stop in itertools.pairwise(STARTS)]
            a, b = (possible(parts[i::2], seen[row, i::2]) for i in range(2))
            joint = JOINT * np.outer(a, b)
            for i, marginal in enumerate((joint.sum(axis=1), joint.sum(axis=0))):
                p[row, STARTS[i] : STARTS[i] + 2] = marginal[:2].sum(), marginal[2]
                p[row, STARTS[2 + i] : STARTS[2 + i] + 2] = marginal[:2]
        empty = torch.zeros(0, 0)
        gaussian = GaussianComponent(torch.zeros(0), torch.zeros(0), torch.ones(0))
        copies = CopyDistribution(torch.zeros(0, 1), empty, empty.long(), empty.bool(), empty.bool())
        logits = torch.from_numpy(np.log(p + 1e-300))
        return ConditionalDistributions(DenseLogits(logits), torch.zeros(0, 1), gaussian, copies, self.few_valued)


def sample(codec, model, *, steps, nulls=True, given=None, rows=ROWS):
    sampler = AutoregressiveSampler(model, Variables.from_codec(codec))
    uniforms = torch.rand(UNIFORMS_PER_VARIABLE, rows, len(sampler), generator=torch.Generator().manual_seed(0))
    nothing = EncodedRows(torch.zeros(rows, codec.width), torch.zeros(rows, codec.width, dtype=torch.bool))
    return sampler.sample(nothing if given is None else given, uniforms, steps, lambda: None, nulls=nulls).x


def count(codec, x):
    cells, found = codec.decode(x.double().numpy(), nulls=True), np.zeros(JOINT.shape)
    codes = (np.where(cells[name].is_null, 2, cells[name].values) for name in "ab")
    np.add.at(found, tuple(codes), 1)
    return found


@pytest.mark.parametrize("exclusions", [False, True])
def test_exact_conditionals_give_the_exact_joint_distribution_of_values_and_missing_cells(codec, exclusions):
    found = count(codec, sample(codec, ExactJoint(exclusions=exclusions), steps=8))
    is_possible = JOINT > 0
    assert found[~is_possible].sum() == 0
    assert chisquare(found[is_possible], ROWS * JOINT[is_possible]).pvalue > 0.001


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_no_step_writes_two_categories_that_exclude_each_other(codec, steps):
    found = count(codec, sample(codec, ExactJoint(exclusions=True), steps=steps, rows=2000))
    assert found[JOINT == 0].sum() == 0


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_a_value_is_written_exactly_where_its_indicator_says_that_there_is_one(codec, steps):
    x = sample(codec, ExactJoint(exclusions=False), steps=steps, rows=2000)
    for i in range(2):
        indicator, value = x[:, STARTS[i] : STARTS[i] + 2], x[:, STARTS[2 + i] : STARTS[2 + i] + 2]
        assert (indicator.sum(dim=1) == 1).all()
        assert (value.sum(dim=1) == indicator[:, OBSERVED]).all()


def test_filled_rows_have_values_everywhere_and_no_indicators(codec):
    x = sample(codec, ExactJoint(exclusions=True), steps=8, nulls=False, rows=2000)
    assert (x[:, : STARTS[2]] == 0).all()
    assert (x[:, STARTS[2] :].sum(dim=1) == 2).all()


def test_a_cell_that_is_given_as_null_stays_null(codec):
    x, observed = torch.zeros(500, codec.width), torch.zeros(500, codec.width, dtype=torch.bool)
    x[:, STARTS[1] + NULL] = 1.0
    observed[:, STARTS[1] : STARTS[2]] = True
    found = count(codec, sample(codec, ExactJoint(exclusions=True), steps=8, given=EncodedRows(x, observed), rows=500))
    p = JOINT[:, 2] / JOINT[:, 2].sum()
    assert found[:, :2].sum() == 0
    assert found[:, 2] == pytest.approx(500 * p, abs=4 * np.sqrt(500 / 4))
