"""Cells drawn in turn have the law that their laws say, whatever the order and whatever is known."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm

from harpoon import Harpoon
from harpoon.data import dataframe
from harpoon.data.schema import Schema
from harpoon.data.statistics import count_columns
from harpoon.encoding.batch import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.inference.autoregressive import UNIFORMS_PER_VARIABLE, AutoregressiveSampler
from harpoon.networks.copy_head import CopyDistribution
from harpoon.networks.rank_head import ConditionalDistributions, GaussianComponent, RankHead
from tests.statistical.test_anchored import MEANS

ROWS = 20_000
SHARES = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(4, 3, 2)  # of the labels of a, b and c
WIDTHS = SHARES.shape


def codec_of(table: pa.Table) -> RowCodec:
    read = dataframe.read(table)
    tallies = count_columns(read)
    return RowCodec.fit(Schema.from_counts(tallies), tallies, encoding="mixed", scaling="standard")


def no_peaks(ranks):
    """Peaks that are never drawn from."""
    return GaussianComponent(torch.full((ranks,), -torch.inf), torch.zeros(ranks), torch.ones(ranks))


def no_copies(ranks):
    """Numbers that are copies of nothing."""
    nothing = torch.zeros(ranks, 0)
    return CopyDistribution(torch.zeros(ranks, 1), nothing, nothing.long(), nothing.bool())


class Told:
    """A reading of which every law is known beforehand."""

    def __init__(self, rows: int, ranks: int, laws: Callable[[torch.Tensor], ConditionalDistributions]):
        self.shape, self.laws = (rows, ranks), laws

    def settled(self) -> torch.Tensor:
        return torch.zeros(self.shape, dtype=torch.bool)


class Exact:
    """Tells the laws of three categories by adding up their shares."""

    bound = torch.zeros(2, 0, dtype=torch.bool)

    def read(self, given: EncodedRows) -> Told:
        return Told(len(given.x), 0, lambda _: self.laws(given))

    def laws(self, given: EncodedRows) -> ConditionalDistributions:
        known, labels = given.observed.numpy(), given.x.numpy()
        places = np.cumsum([0, *WIDTHS])
        told = np.zeros((len(known), places[-1]))
        for row in range(len(known)):
            left = SHARES
            for axis, (start, stop) in enumerate(itertools.pairwise(places)):
                if known[row, start]:
                    left = np.take(left, [labels[row, start:stop].argmax()], axis=axis)
            for axis, (start, stop) in enumerate(itertools.pairwise(places)):
                if not known[row, start]:
                    told[row, start:stop] = left.sum(axis=tuple({0, 1, 2} - {axis}))
        return ConditionalDistributions(
            torch.from_numpy(np.log(told + 1e-300)), torch.zeros(0, 1), no_peaks(0), no_copies(0)
        )


@pytest.fixture(scope="module")
def three():
    names = [[f"{axis}{label}" for label in range(width)] for axis, width in enumerate(WIDTHS)]
    return codec_of(pa.table(dict(zip("abc", zip(*itertools.product(*names), strict=True), strict=True))))


def nothing_known(rows, width):
    return EncodedRows(torch.zeros(rows, width), torch.zeros(rows, width, dtype=torch.bool))


def chances(rows, pieces, seed=0):
    return torch.rand(UNIFORMS_PER_VARIABLE, rows, pieces, generator=torch.Generator().manual_seed(seed))


def counted(x):
    places = np.cumsum([0, *WIDTHS])
    labels = [x[:, start:stop].argmax(dim=1).numpy() for start, stop in itertools.pairwise(places)]
    found = np.zeros(WIDTHS)
    np.add.at(found, tuple(labels), 1)
    return found


def test_exact_laws_give_the_exact_joint_law(three):
    turns = AutoregressiveSampler.from_codec(three)
    rows = 3_000
    x = turns.sample(Exact(), nothing_known(rows, three.width), chances(rows, len(turns)), 32, lambda: None).x
    assert chisquare(counted(x).ravel(), rows * SHARES.ravel()).pvalue > 0.001


def test_in_one_turn_each_cell_is_drawn_by_itself(three):
    turns = AutoregressiveSampler.from_codec(three)
    rows = 3_000
    x = turns.sample(Exact(), nothing_known(rows, three.width), chances(rows, len(turns)), 1, lambda: None).x
    a, b, c = (SHARES.sum(axis=tuple({0, 1, 2} - {axis})) for axis in range(3))
    alone = np.einsum("i,j,k->ijk", a, b, c)
    assert chisquare(counted(x).ravel(), rows * alone.ravel()).pvalue > 0.001
    assert chisquare(counted(x).ravel(), rows * SHARES.ravel()).pvalue < 1e-6


@settings(max_examples=30, deadline=None)
@given(known=st.lists(st.booleans(), min_size=3, max_size=3), ar_steps=st.integers(1, 5), seed=st.integers(0, 99))
def test_what_is_known_stays_every_cell_is_drawn_and_turns_are_told(three, known, turns, seed):
    spread = torch.from_numpy(three.spread(np.array([known] * 8)))
    x = torch.zeros(8, three.width)
    x[:, [0, 4, 7]] = 1.0
    told = []
    drawn = (
        AutoregressiveSampler.from_codec(three)
        .sample(Exact(), EncodedRows(x, spread), chances(8, 3, seed), turns, lambda: told.append(1))
        .x
    )
    assert torch.equal(drawn[spread], x[spread])
    for start, stop in itertools.pairwise(np.cumsum([0, *WIDTHS])):
        assert (drawn[:, start:stop].sort(dim=1).values[:, -2:] == torch.tensor([0.0, 1.0])).all()
    assert len(told) == turns


class Fixed:
    """Tells the same laws of every row, whatever is known."""

    def __init__(self, labels: int, slots: torch.Tensor, peaks: GaussianComponent | None = None):
        self.labels, self.slots, self.peaks = torch.zeros(1, labels), slots, peaks or no_peaks(len(slots))
        self.bound = torch.zeros(2, len(slots), dtype=torch.bool)

    def read(self, given: EncodedRows) -> Told:
        labels = self.labels.expand(len(given.x), -1)

        def laws(asked: torch.Tensor) -> ConditionalDistributions:
            rank = asked.T.nonzero()[:, 0]
            peaks = GaussianComponent(*(part[rank] for part in self.peaks))
            return ConditionalDistributions(labels, self.slots[rank], peaks, no_copies(len(rank)))

        return Told(len(given.x), len(self.slots), laws)


def test_a_number_is_drawn_from_its_ranks_and_its_mean_goes_with_it():
    values = np.random.default_rng(0).gamma(2, 100, 2000)
    codec = codec_of(pa.table({"x": values}))
    turns = AutoregressiveSampler.from_codec(codec)
    drawn = turns.sample(
        Fixed(0, torch.zeros(1, 8)), nothing_known(5000, codec.width), chances(5000, 1), 32, lambda: None
    ).x
    cells = codec.decode(drawn.double().numpy())
    assert kstest(cells["x"].values, values).pvalue > 0.001
    again = codec.encode(cells)
    middle = np.abs(again[:, 1]) < 2  # between the last rungs the ladder is straight, and a tail is not
    assert drawn[middle, 0].numpy() == pytest.approx(again[middle, 0], abs=0.02)


def test_a_number_of_nothing_but_masses_is_always_one_of_them():
    codec = codec_of(pa.table({"n": np.arange(40) % 4 * 1.5}))
    drawn = (
        AutoregressiveSampler.from_codec(codec)
        .sample(Fixed(5, torch.zeros(0, 8)), nothing_known(500, codec.width), chances(500, 1), 32, lambda: None)
        .x
    )
    cells = codec.decode(drawn.double().numpy())["n"].values
    assert set(cells.tolist()) == {0.0, 1.5, 3.0, 4.5}
    assert drawn.double().numpy() == pytest.approx(codec.encode(codec.decode(drawn.double().numpy())), abs=1e-6)


def test_the_rank_of_a_mass_is_never_a_target():
    blocks = (*MEANS[:2], MEANS[2].__class__("x", 0, 2, 4, MEANS[3].type))
    laws = RankHead(blocks, hidden=4, n_bins=8)
    h, x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(6, 4)
    looked = laws.relation_inputs(nothing_known(6, 4))
    said = looked, laws.copy_distribution(h, looked)
    x[:, 3] = 1.0  # the mass
    assert laws.loss(h, *said, x, torch.ones(6, 4)) == 0
    x[:, 2:] = torch.tensor([1.0, 0.0])
    assert laws.loss(h, *said, x, torch.ones(6, 4)) != 0
    assert laws.loss(h, *said, x, torch.zeros(6, 4)) == 0


def test_the_likelihood_is_that_of_the_mixture_that_is_drawn_from():
    slots = torch.randn(1, 8, generator=torch.Generator().manual_seed(1))
    peaks = GaussianComponent(torch.tensor([0.3]), torch.tensor([0.7]), torch.tensor([0.2]))
    laws, ranks = RankHead(MEANS[:2], hidden=4, n_bins=8), torch.linspace(-4, 4, 101)
    of_all = slots.expand(101, 8), GaussianComponent(*(part.expand(101) for part in peaks))
    density = np.exp(laws.log_likelihood(*of_all, ranks).numpy()) * norm.pdf(ranks)
    assert np.trapezoid(density, ranks) == pytest.approx(1, abs=0.02)
    codec = codec_of(pa.table({"x": np.random.default_rng(0).normal(size=2000)}))
    blank = nothing_known(ROWS, codec.width)
    drawn = (
        AutoregressiveSampler.from_codec(codec)
        .sample(Fixed(0, slots, peaks), blank, chances(ROWS, 1), 8, lambda: None)
        .x[:, 1]
    )
    expected = [np.trapezoid(density[i : i + 11], ranks[i : i + 11]) for i in range(0, 100, 10)]
    assert np.histogram(drawn, ranks[::10])[0] / ROWS == pytest.approx(np.array(expected), abs=0.02)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    table = pa.table(
        {"x": x, "n": rng.poisson(3, 400), "c": np.where(x > 0, "up", "down"), "y": x + rng.normal(size=400)}
    )
    return Harpoon(hidden=16, max_epochs=3, random_state=0, progress=False).fit(table)


def test_rows_drawn_in_turn_do_not_depend_on_the_batch(model):
    whole = model.sample(200, random_state=1)
    assert model.sample(200, random_state=1, sampling_batch_size=7).equals(whole)
    assert model.sample(50, random_state=1, row_offset=100).equals(whole.slice(100, 50))


def test_turns_are_an_option(model):
    in_turn, together = model.sample(50, random_state=1), model.sample(50, random_state=1, ar_steps=0)
    assert not in_turn.equals(together)
    assert together.equals(model.sample(50, random_state=1, ar_steps=0))
    assert model.sample(50, random_state=1, ar_steps=4).equals(in_turn)  # there are but four cells
    assert not model.sample(50, random_state=1, ar_steps=2).equals(in_turn)


def test_moving_draws_a_share_of_the_cells_again_and_keeps_what_is_known(model):
    drawer = model._drawer(seed=3)
    table = model.sample(300, random_state=1)
    rows = model.codec_.read(dataframe.read(table))
    known = model.codec_.read(dataframe.read(table.set_column(2, "c", pa.nulls(300, pa.string()))))
    index = np.arange(300)
    hidden = {name: replace(cells, missing=np.ones(300, dtype=np.bool_)) for name, cells in rows.items()}
    assert same(drawer.moved(rows, hidden, index, share=0.0, draw=1), rows) == {"x": 1, "n": 1, "c": 1, "y": 1}
    half = same(drawer.moved(rows, hidden, index, share=0.5, draw=1), rows)
    assert 0.3 < half["x"] < 0.7
    moved = same(drawer.moved(rows, known, index, share=1.0, draw=1), rows)
    assert {name: moved[name] for name in ("x", "n", "y")} == {"x": 1, "n": 1, "y": 1}
    assert moved["c"] < 1


def same(rows, others):
    """The share of cells of each column that are the same in both."""
    return {name: np.mean(cells.values == others[name].values) for name, cells in rows.items()}


class Settled(Told):
    """Says that some numbers follow from others."""

    def __init__(self, settled: list[list[bool]]):
        self._settled = torch.tensor(settled)

    def settled(self) -> torch.Tensor:
        return self._settled


NOTHING, NUMBERS, DONE = [False] * 3, ("x", "y", "z"), float("inf")


def three_numbers():
    rng = np.random.default_rng(0)
    sizes = zip(NUMBERS, (10.0, 1.0, 100.0), strict=True)
    return AutoregressiveSampler.from_codec(
        codec_of(pa.table({name: rng.normal(size, size / 10, 50) for name, size in sizes}))
    )


@pytest.mark.parametrize(
    ("settled", "queue", "turns", "asked"),
    [
        ([NOTHING], [[2, 0, 1]], 3, [[1]]),
        ([[False, False, True]], [[0, 1, 2]], 3, [[2]]),  # what follows comes before anything else
        ([[False, True, True]], [[0, 1, 2]], 3, [[1, 2]]),
        ([[True, False, False]], [[DONE, 0, 1]], 3, [[1]]),  # it was known all along
        ([NOTHING], [[2, 0, 1]], 2, [[1, 2]]),  # with fewer turns, several at once
        ([[False, True, False]], [[1, 0, 2]], 2, [[0, 1]]),
        ([NOTHING], [[2, 0, 1]], 1, [[0, 1, 2]]),
        ([NOTHING, [True, False, False]], [[2, 0, 1], [2, 0, 1]], 3, [[1], [0]]),
    ],
)
def test_which_numbers_are_drawn_next(settled, queue, turns, asked):
    found = three_numbers()._requested(Settled(settled), torch.tensor(queue, dtype=torch.float32), turns)
    assert [row.nonzero()[:, 0].tolist() for row in found] == asked


@pytest.mark.parametrize(
    ("by_sums", "by_products", "late"),
    [
        ([0, 0, 0], [0, 0, 0], [0, 0, 0]),
        ([1, 1, 1], [0, 0, 0], [2, 1, 3]),  # small before large
        ([1, 0, 1], [0, 0, 0], [1, 0, 2]),  # behind what no relation binds
        ([0, 0, 1], [1, 0, 0], [1, 0, 2]),
    ],
)
def test_numbers_that_relations_bind_come_late_and_by_their_size(by_sums, by_products, late):
    found = three_numbers()._order_offset(
        torch.tensor(by_sums, dtype=torch.bool), torch.tensor(by_products, dtype=torch.bool)
    )
    assert found.tolist() == late


def test_numbers_that_a_relation_binds_have_the_law_that_they_should():
    """A tip is small beside its bill: what a total that is drawn first, as finely as laws are, leaves of it is off."""
    rng = np.random.default_rng(0)
    net, tip = rng.lognormal(4, 0.5, 1000), rng.gamma(4, 0.25, 1000)
    table = pa.table({"net": net, "tip": tip, "total": net + tip})
    model = Harpoon(hidden=32, max_epochs=30, random_state=0, progress=False).fit(table)
    unknown = pa.nulls(1000, pa.float64())
    drawn = model.impute(pa.table({"net": net, "tip": unknown, "total": unknown}), draws=1, random_state=0).tables[0]
    tips, totals = (np.asarray(drawn[name]) for name in ("tip", "total"))
    assert tips.std() == pytest.approx(tip.std(), rel=0.1)
    assert np.isclose(net + tips, totals, rtol=1e-6).mean() > 0.99
