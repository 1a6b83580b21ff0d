"""Numbers of one unit that are often near each other point to each other."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import Harpoon, frames
from harpoon.codec import Codec
from harpoon.drawing import seen
from harpoon.laws import RankLaws, numbered
from harpoon.network import Given
from harpoon.pointers import NOWHERE, SHAPES, Pointers
from harpoon.schema import Schema
from harpoon.tallies import tallied

RNG = np.random.default_rng(0)
ROWS, SLOTS = 2000, 32
BILL = RNG.gamma(2, 1000, ROWS).round()
PAID = np.where(RNG.random(ROWS) < 0.5, BILL, RNG.gamma(1, 500, ROWS).round())
AGE = RNG.integers(18, 90, ROWS)


def encoded(columns):
    table = frames.read(pa.table(columns))
    tallies = tallied(table)
    codec = Codec.fit(Schema.of_tallies(tallies), tallies, encoding="spiked", scaling="standard")
    return codec, seen(codec, codec.read(table))


@pytest.fixture(scope="module")
def bills():
    codec, rows = encoded({"bill": BILL, "age": AGE, "paid": PAID})
    laws = RankLaws(codec.blocks, hidden=8, slots=SLOTS)
    laws.prepare(rows, codec.crossing)
    return laws, rows


def pairs(pointers: Pointers):
    found = zip(pointers.target.tolist(), pointers.source.tolist(), pointers.useful.tolist(), strict=True)
    return {(target, source) for target, source, useful in found if useful}


def test_a_bill_and_its_payment_point_to_each_other_and_an_age_to_nothing(bills):
    laws, _ = bills
    assert pairs(laws.pointers) == {(0, 2), (2, 0)}


def test_a_pointer_says_where_the_known_number_stands_among_the_unknown_one_s(bills):
    laws, rows = bills
    pointers = laws.pointers
    with torch.no_grad():
        pointers.gates.weight.zero_()
        pointers.gates.bias.view(-1, SHAPES)[:] = torch.tensor(
            [5.0] + [0.0] * (SHAPES - 1)
        )  # the same, and nothing else
    known = rows.known.clone()
    known[:, [block for block in range(known.shape[1]) if block >= laws.means.listed[2]]] = False
    logits, at = torch.zeros(ROWS * 3, SLOTS), torch.arange(ROWS * 3).view(ROWS, 3)
    means, there = laws.means.of(rows.x), laws.means.of(known)
    at = at.masked_fill(there, NOWHERE)
    said = pointers(logits, torch.zeros(ROWS, 8), means, there, at).view(ROWS, 3, SLOTS)
    assert (said[:, :2] == 0).all()  # they are known
    own = (torch.special.ndtr(laws.ranks.of(rows.x)) * SLOTS).long()
    equal = torch.from_numpy(PAID == BILL)
    hits = (said[:, 2].argmax(dim=1) - own[:, 2]).abs() <= 1  # a value at the end of a slot may fall on either side
    assert hits[equal].double().mean() > 0.95
    nothing = pointers(logits, torch.zeros(ROWS, 8), means, torch.zeros_like(there), at)
    assert torch.equal(nothing, logits)


def test_numbers_of_other_units_are_never_compared():
    days = np.array([dt.date(2020, 1, 1) + dt.timedelta(int(day)) for day in AGE * 3])
    codec, _ = encoded({"day": days, "number": AGE * 3, "name": np.array(list("ab"))[AGE % 2]})
    assert codec.crossing(0, 1, SLOTS) is None
    assert codec.crossing(1, 2, SLOTS) is None
    assert codec.crossing(1, 1, SLOTS) is not None


def test_the_crossing_of_a_number_with_a_copy_of_it_in_other_whole_units_keeps_the_values():
    codec, rows = encoded({"small": BILL.astype(np.int64), "large": (BILL + 10**6).astype(np.int64)})
    ends = codec.crossing(0, 0, SLOTS)
    own = np.searchsorted(ends, rows.x[:, 0].numpy())
    rank = (torch.special.ndtr(rows.x[:, 1]) * SLOTS).long().numpy()
    assert np.mean(np.abs(own - rank) <= 1) == 1
    assert (np.searchsorted(codec.crossing(0, 1, SLOTS), rows.x[:, 2].numpy()) == SLOTS - 1).all()  # all beyond


def test_one_number_or_none_has_no_pointers():
    for numbers in (0, 1):
        pointers = Pointers(numbers, hidden=4, slots=SLOTS)
        logits = torch.zeros(5 * numbers, SLOTS)
        empty, at = torch.zeros(5, numbers), torch.arange(5 * numbers).view(5, numbers)
        pointers.prepare(empty, empty, empty.bool(), lambda *_: None)
        assert torch.equal(pointers(logits, torch.zeros(5, 4), empty, empty.bool(), at), logits)


def test_ranks_have_the_same_laws_whatever_else_is_asked_for(bills):
    laws, rows = bills
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(ROWS, 8, generator=generator)
    given = Given(rows.x, rows.known & (torch.rand(ROWS, 1, generator=generator) < 0.5))
    every, some = torch.ones(ROWS, 3, dtype=torch.bool), torch.rand(ROWS, 3, generator=generator) < 0.5
    (slots, peaks), (some_slots, some_peaks) = (laws(h, given, asked) for asked in (every, some))
    places = numbered(every)[some]
    assert slots.shape == (3 * ROWS, SLOTS)
    assert torch.allclose(some_slots[numbered(some)[some]], slots[places], atol=1e-5)
    for of_some, of_all in zip(some_peaks, peaks, strict=True):
        assert torch.allclose(of_some[numbered(some)[some]], of_all[places], atol=1e-6)


def test_numbers_of_scales_too_far_apart_do_not_point_and_the_model_is_read_back(tmp_path):
    masses = pa.table({"mass": RNG.lognormal(size=200) * 2e30, "section": RNG.lognormal(size=200) * 1e-45})
    model = Harpoon(hidden=8, max_epochs=2, random_state=0, progress=False).fit(masses)
    model.save(tmp_path / "m.harpoon")
    assert (
        Harpoon.load(tmp_path / "m.harpoon", progress=False)
        .sample(5, random_state=0)
        .equals(model.sample(5, random_state=0))
    )
