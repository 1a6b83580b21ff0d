"""Autoregressive sampling from conditional distributions that are known exactly: the joint distribution is exact."""

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm

from harpoon.data import dataframe, read_columns
from harpoon.data.schema import Schema
from harpoon.data.value_counts import count_columns
from harpoon.encoding.codec import ColumnSlice, PartType
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.inference.sampling.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler
from harpoon.inference.sampling.variable_order import next_variables, order_offset
from harpoon.inference.sampling.variables import Variables
from harpoon.networks.heads.category_logits import DenseLogits
from harpoon.networks.heads.copy_head import CopyDistribution
from harpoon.networks.heads.rank_head import ConditionalDistributions, DeterminedValues, GaussianComponent, RankHead
from tests.support.cellwise import PredictsAnew

ROWS = 20_000
JOINT = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(4, 3, 2)  # probabilities of three categories
WIDTHS = JOINT.shape
NUMBER = (ColumnSlice("x", 0, 0, 1, PartType.REGRESSION), ColumnSlice("x", 0, 1, 2, PartType.CONTINUOUS))


def fit_codec(table: pa.Table) -> RowCodec:
    counts = count_columns(dataframe.read(table))
    return RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard")


def no_gaussian(ranks):
    """Return Gaussian components with weight zero."""
    return GaussianComponent(torch.full((ranks,), -torch.inf), torch.zeros(ranks), torch.ones(ranks))


def no_copies(ranks):
    """Return copy distributions without relations."""
    nothing = torch.zeros(ranks, 0)
    return CopyDistribution(torch.zeros(ranks, 1), nothing, nothing.long(), nothing.bool(), nothing.bool())


def none_determined(rows, columns=0):
    """Return no values of numbers with few values."""
    return DeterminedValues(torch.zeros(rows, columns, dtype=torch.bool), torch.zeros(rows, columns))


class FakePredictor:
    """A prediction of given distributions, in which no number is determined."""

    def __init__(
        self,
        rows: int,
        ranks: int,
        distributions: Callable[[torch.Tensor], ConditionalDistributions],
        few_valued: int = 0,
    ):
        self.shape, self.distributions = (rows, ranks), distributions
        self.few_valued = none_determined(rows, few_valued)

    def determined(self) -> torch.Tensor:
        return torch.zeros(self.shape, dtype=torch.bool)


class NoExclusions(PredictsAnew):
    """Of models in which all categories can occur together."""

    def excluded_categories(self, x):
        return None


class ExactCategories(NoExclusions):
    """Predicts the conditional distributions of three categories by marginalising their joint distribution."""

    constrained = torch.zeros(3, 0, dtype=torch.bool)

    def predict(self, given: EncodedRows) -> FakePredictor:
        return FakePredictor(len(given.x), 0, lambda _: self.distributions(given))

    def distributions(self, given: EncodedRows) -> ConditionalDistributions:
        observed, one_hot = given.observed.numpy(), given.x.numpy()
        starts = np.cumsum([0, *WIDTHS])
        p = np.zeros((len(observed), starts[-1]))
        for row in range(len(observed)):
            conditional = JOINT
            for axis, (start, stop) in enumerate(itertools.pairwise(starts)):
                if observed[row, start]:
                    conditional = np.take(conditional, [one_hot[row, start:stop].argmax()], axis=axis)
            for axis, (start, stop) in enumerate(itertools.pairwise(starts)):
                if not observed[row, start]:
                    p[row, start:stop] = conditional.sum(axis=tuple({0, 1, 2} - {axis}))
        return ConditionalDistributions(
            DenseLogits(torch.from_numpy(np.log(p + 1e-300))),
            torch.zeros(0, 1),
            no_gaussian(0),
            no_copies(0),
            none_determined(len(p)),
        )


class FixedDistributions(NoExclusions):
    """Predicts the same distributions for every row and any observed cells."""

    def __init__(
        self, categories: int, bin_logits: torch.Tensor, gaussian: GaussianComponent | None = None, few_valued: int = 0
    ):
        self.category_logits, self.bin_logits = torch.zeros(1, categories), bin_logits
        self.gaussian = gaussian or no_gaussian(len(bin_logits))
        self.constrained = torch.zeros(3, len(bin_logits) + few_valued, dtype=torch.bool)
        self.few_valued = few_valued

    def predict(self, given: EncodedRows) -> FakePredictor:
        category_logits = self.category_logits.expand(len(given.x), -1)

        def distributions(requested: torch.Tensor) -> ConditionalDistributions:
            rank = requested.T.nonzero()[:, 0]
            gaussian = GaussianComponent(*(part[rank] for part in self.gaussian))
            few_valued = none_determined(len(given.x), self.few_valued)
            return ConditionalDistributions(
                DenseLogits(category_logits), self.bin_logits[rank], gaussian, no_copies(len(rank)), few_valued
            )

        return FakePredictor(len(given.x), len(self.bin_logits), distributions, self.few_valued)


@pytest.fixture(scope="module")
def three_categories():
    names = [[f"{axis}{category}" for category in range(width)] for axis, width in enumerate(WIDTHS)]
    return fit_codec(pa.table(dict(zip("abc", zip(*itertools.product(*names), strict=True), strict=True))))


def all_missing(rows, width):
    return EncodedRows(torch.zeros(rows, width), torch.zeros(rows, width, dtype=torch.bool))


def sample(codec, model, given, steps, *, seed=0, on_step=lambda: None):
    sampler = AutoregressiveSampler(model, Variables.from_codec(codec))
    generator = torch.Generator().manual_seed(seed)
    uniforms = torch.rand(UNIFORMS_PER_VARIABLE, len(given.x), len(sampler), generator=generator)
    return sampler.sample(given, uniforms, steps, on_step).x


def contingency_table(x):
    starts = np.cumsum([0, *WIDTHS])
    categories = [x[:, start:stop].argmax(dim=1).numpy() for start, stop in itertools.pairwise(starts)]
    found = np.zeros(WIDTHS)
    np.add.at(found, tuple(categories), 1)
    return found


def test_exact_conditionals_give_the_exact_joint_distribution(three_categories):
    rows = 3_000
    x = sample(three_categories, ExactCategories(), all_missing(rows, three_categories.width), steps=32)
    assert chisquare(contingency_table(x).ravel(), rows * JOINT.ravel()).pvalue > 0.001


def test_in_one_step_cells_are_sampled_independently(three_categories):
    rows = 3_000
    x = sample(three_categories, ExactCategories(), all_missing(rows, three_categories.width), steps=1)
    a, b, c = (JOINT.sum(axis=tuple({0, 1, 2} - {axis})) for axis in range(3))
    independent = np.einsum("i,j,k->ijk", a, b, c)
    assert chisquare(contingency_table(x).ravel(), rows * independent.ravel()).pvalue > 0.001
    assert chisquare(contingency_table(x).ravel(), rows * JOINT.ravel()).pvalue < 1e-6


@settings(max_examples=30, deadline=None)
@given(observed=st.lists(st.booleans(), min_size=3, max_size=3), steps=st.integers(1, 5), seed=st.integers(0, 99))
def test_observed_cells_are_kept_every_cell_is_sampled_and_steps_are_counted(three_categories, observed, steps, seed):
    mask = torch.from_numpy(three_categories.repeat_per_part(np.array([observed] * 8)))
    x = torch.zeros(8, three_categories.width)
    x[:, [0, 4, 7]] = 1.0
    calls = []
    given = EncodedRows(x, mask)
    sampled = sample(three_categories, ExactCategories(), given, steps, seed=seed, on_step=lambda: calls.append(1))
    assert torch.equal(sampled[mask], x[mask])
    for start, stop in itertools.pairwise(np.cumsum([0, *WIDTHS])):
        assert (sampled[:, start:stop].sort(dim=1).values[:, -2:] == torch.tensor([0.0, 1.0])).all()
    assert len(calls) == steps


def test_a_number_is_sampled_by_its_normal_score_and_its_standardised_value_agrees():
    values = np.random.default_rng(0).gamma(2, 100, 2000)
    codec = fit_codec(pa.table({"x": values}))
    x = sample(codec, FixedDistributions(0, torch.zeros(1, 8)), all_missing(5000, codec.width), steps=32)
    cells = codec.decode(x.double().numpy())
    assert kstest(cells["x"].values, values).pvalue > 0.001
    again = codec.encode(cells)
    middle = np.abs(again[:, 1]) < 2  # between its last points the quantile table is linear, and a tail is not
    assert x[middle, 0].numpy() == pytest.approx(again[middle, 0], abs=0.02)


@pytest.mark.parametrize("values", [np.random.default_rng(0).gamma(2, 100, 5000), np.arange(4000.0) // 30])
def test_the_probability_of_lower_values_is_the_rank_that_a_value_is_encoded_with(values):
    codec = fit_codec(pa.table({"x": values}))
    encoded = torch.from_numpy(codec.encode(read_columns(dataframe.read(pa.table({"x": values})), codec.schema)))
    found = Variables.from_codec(codec).cdf(torch.zeros(len(values), dtype=torch.long), encoded[:, 0].float())
    assert torch.allclose(found.double(), torch.special.ndtr(encoded[:, 1]), atol=0.004)


class Doubled(FixedDistributions):
    """Predicts that the second number, in standard deviations, is the first one."""

    def predict(self, given: EncodedRows) -> FakePredictor:
        predictor = super().predict(given)

        def distributions(requested: torch.Tensor) -> ConditionalDistributions:
            of_second, m = requested.T.nonzero()[:, 0] == 1, int(requested.sum())
            log_p = torch.where(of_second[:, None], torch.tensor([-torch.inf, 0.0]), torch.tensor([0.0, -torch.inf]))
            values = given.x[requested.T.nonzero()[:, 1], :1]
            flags = torch.ones(m, 1, dtype=torch.bool)
            copies = CopyDistribution(log_p, values, torch.zeros(m, 1, dtype=torch.long), flags, flags)
            return predictor.distributions(requested)._replace(copies=copies)

        return FakePredictor(len(given.x), 2, distributions)


def test_a_copy_has_the_normal_score_of_its_value():
    values = np.random.default_rng(0).gamma(2, 100, 2000)
    table = pa.table({"x": values, "double": 2 * values})
    codec = fit_codec(table)
    rows = codec.to_batch(read_columns(dataframe.read(table), codec.schema))
    known = torch.zeros_like(rows.observed)
    known[:, : codec.width // 2] = True
    x = sample(codec, Doubled(0, torch.zeros(2, 8)), EncodedRows(rows.x * known, known), steps=2)
    assert torch.allclose(x[:, 2], rows.x[:, 2], atol=1e-5)
    inside = rows.x[:, 3].abs() < 2  # between its last points the quantile table is linear, and a tail is not
    assert torch.allclose(x[inside, 3], rows.x[inside, 3], atol=0.05)


def test_a_number_with_spikes_only_is_always_one_of_them():
    codec = fit_codec(pa.table({"n": np.arange(40) % 4 * 1.5}))
    x = sample(codec, FixedDistributions(5, torch.zeros(0, 8), few_valued=1), all_missing(500, codec.width), steps=32)
    cells = codec.decode(x.double().numpy())
    assert set(cells["n"].values.tolist()) == {0.0, 1.5, 3.0, 4.5}
    assert x.double().numpy() == pytest.approx(codec.encode(cells), abs=1e-6)


def test_the_likelihood_is_that_of_the_distribution_that_is_sampled():
    bin_logits = torch.randn(1, 8, generator=torch.Generator().manual_seed(1))
    gaussian = GaussianComponent(torch.tensor([0.3]), torch.tensor([0.7]), torch.tensor([0.2]))
    head, z = RankHead(NUMBER, hidden=4, n_bins=8), torch.linspace(-4, 4, 101)
    repeated = bin_logits.expand(101, 8), GaussianComponent(*(part.expand(101) for part in gaussian))
    density = np.exp(head.log_likelihood(*repeated, z).numpy()) * norm.pdf(z)
    assert np.trapezoid(density, z) == pytest.approx(1, abs=0.02)
    codec = fit_codec(pa.table({"x": np.random.default_rng(0).normal(size=2000)}))
    x = sample(codec, FixedDistributions(0, bin_logits, gaussian), all_missing(ROWS, codec.width), steps=8)
    expected = [np.trapezoid(density[i : i + 11], z[i : i + 11]) for i in range(0, 100, 10)]
    assert np.histogram(x[:, 1], z[::10])[0] / ROWS == pytest.approx(np.array(expected), abs=0.02)


# The order


class FakeDetermined(FakePredictor):
    """A prediction in which some numbers are determined by the observed cells."""

    def __init__(self, determined: list[list[bool]]):
        self._determined, self.few_valued = torch.tensor(determined), none_determined(len(determined))

    def determined(self) -> torch.Tensor:
        return self._determined


NONE, NAMES, DONE = [False] * 3, ("x", "y", "z"), float("inf")


@pytest.fixture(scope="module")
def three_numbers():
    rng = np.random.default_rng(0)
    scales = zip(NAMES, (10.0, 1.0, 100.0), strict=True)
    table = pa.table({name: rng.normal(scale, scale / 10, 50) for name, scale in scales})
    return Variables.from_codec(fit_codec(table))


@pytest.mark.parametrize(
    ("determined", "priority", "steps", "expected"),
    [
        ([NONE], [[2, 0, 1]], 3, [[1]]),
        ([[False, False, True]], [[0, 1, 2]], 3, [[2]]),  # determined numbers come first
        ([[False, True, True]], [[0, 1, 2]], 3, [[1, 2]]),
        ([[True, False, False]], [[DONE, 0, 1]], 3, [[1]]),  # it was observed already
        ([NONE], [[2, 0, 1]], 2, [[1, 2]]),  # with fewer steps, several at once
        ([[False, True, False]], [[1, 0, 2]], 2, [[0, 1]]),
        ([NONE], [[2, 0, 1]], 1, [[0, 1, 2]]),
        ([NONE, [True, False, False]], [[2, 0, 1], [2, 0, 1]], 3, [[1], [0]]),
    ],
)
def test_the_next_variables(three_numbers, determined, priority, steps, expected):
    predictor = FakeDetermined(determined)
    unconstrained = torch.zeros(3, dtype=torch.bool)
    found = next_variables(three_numbers, predictor, torch.tensor(priority, dtype=torch.float32), steps, unconstrained)
    assert [row.nonzero()[:, 0].tolist() for row in found] == expected


def test_constrained_variables_have_a_step_each(three_numbers):
    """The others share the steps that are left, so that a total is sampled after its parts."""
    last_two = torch.tensor([False, True, True])
    found = next_variables(three_numbers, FakeDetermined([NONE]), torch.tensor([[0.0, 1.0, 2.0]]), 2, last_two)
    assert found.nonzero()[:, 1].tolist() == [0]


def test_coarse_terms_of_a_sum_come_before_fine_ones():
    """The last one is computed: a loan in hundreds would otherwise be a balance in cents plus a payment in cents."""
    rng = np.random.default_rng(0)
    loan, paid = rng.integers(10, 400, 200) * 100, rng.uniform(1, 900, 200).round(2)
    variables = Variables.from_codec(fit_codec(pa.table({"paid": paid, "loan": loan, "balance": loan - paid})))
    all_three = torch.ones(3, dtype=torch.bool)
    offset = order_offset(variables, all_three, ~all_three, all_three)
    assert offset.argsort().tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("by_sums", "by_products", "expected"),
    [
        ([0, 0, 0], [0, 0, 0], [0, 0, 0]),
        ([1, 1, 1], [0, 0, 0], [2, 1, 3]),  # small before large
        ([1, 0, 1], [0, 0, 0], [1, 0, 2]),  # after numbers without a relation
        ([0, 0, 1], [1, 0, 0], [1, 0, 2]),
    ],
)
def test_numbers_with_relations_come_last_and_by_scale(three_numbers, by_sums, by_products, expected):
    found = order_offset(
        three_numbers,
        torch.tensor(by_sums, dtype=torch.bool),
        torch.tensor(by_products, dtype=torch.bool),
        torch.ones(3, dtype=torch.bool),
    )
    assert found.tolist() == expected


def test_a_number_that_determines_no_other_comes_at_the_very_end(three_numbers):
    constrained, none = torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)
    found = order_offset(three_numbers, constrained, none, torch.tensor([True, False, True]))
    assert found.argsort().tolist() == [0, 2, 1]
