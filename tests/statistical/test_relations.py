"""Relations between numeric columns: found in the training rows, predicted by the heads, exact in sampled rows."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import Harpoon
from harpoon.data import dataframe, read_columns
from harpoon.data.column_array import NO_INDEX
from harpoon.data.schema import Schema
from harpoon.data.value_counts import count_columns
from harpoon.diffusion.geometry import gradient_angles
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.networks.gaussian_baseline import LinearPrediction
from harpoon.networks.heads.copy_head import CopyDistribution, CopyHead
from harpoon.networks.heads.pointer_head import N_KERNELS, PointerHead
from harpoon.networks.heads.rank_head import RankHead, flat_index
from harpoon.relations.relation import RelationBank

RNG = np.random.default_rng(0)
ROWS, N_BINS = 2000, 32
BILL = RNG.gamma(2, 1000, ROWS).round()
PAID = np.where(RNG.random(ROWS) < 0.5, BILL, RNG.gamma(1, 500, ROWS).round())
AGE = RNG.integers(18, 90, ROWS)
BOUGHT = np.where(RNG.random(ROWS) < 0.6, 0, RNG.gamma(1, 800, ROWS).round())
BALANCE = BILL - PAID + BOUGHT  # equal to bill - payment in six rows of ten
HEIGHT, WIDTH = RNG.lognormal(3, 0.5, ROWS), RNG.lognormal(2, 0.7, ROWS)


def encoded(columns):
    table = dataframe.read(pa.table(columns))
    counts = count_columns(table)
    codec = RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard")
    return codec, read_columns(table, codec.schema)


def initialized(columns):
    codec, cells = encoded(columns)
    rows = codec.to_batch(cells)
    head = RankHead(codec.slices, hidden=8, n_bins=N_BINS)
    head.initialize(rows, codec, cells, has_baseline=False)
    return head, rows, codec


@pytest.fixture(scope="module")
def bills():
    head, rows, _ = initialized({"bill": BILL, "age": AGE, "paid": PAID})
    return head, rows


def stored(bank: RelationBank):
    """Each stored relation as its target and the signs or powers of its sources."""
    numbers = bank.n_columns
    kept = (bank.weights != 0).any(dim=1).nonzero()[:, 0].tolist()
    sums = {
        (
            form // bank.per_column,
            tuple((int(s), float(bank.weights[form, s].sign())) for s in _sources(bank, form, 0)),
        )
        for form in kept
        if _sources(bank, form, 0)
    }
    products = {
        (
            form // bank.per_column,
            tuple((int(s), float(bank.weights[form, numbers + s])) for s in _sources(bank, form, 1)),
        )
        for form in kept
        if _sources(bank, form, 1)
    }
    return sums, products


def _sources(bank, form, half):
    part = bank.weights[form, half * bank.n_columns : (half + 1) * bank.n_columns]
    return part.nonzero()[:, 0].tolist()


def test_a_bill_and_its_payment_are_related_and_an_age_is_not(bills):
    head, _ = bills
    both = {(0, ((2, 1.0),)), (2, ((0, 1.0),))}
    assert stored(head.pointers.relations) == (both, set())
    assert stored(head.copies.relations) == (both, set())


def test_a_difference_is_found_for_each_of_its_columns():
    head, _, _ = initialized({"bill": BILL, "paid": PAID + 1, "balance": BALANCE})
    sums, _ = stored(head.copies.relations)
    assert sums == set()  # it is off by one
    head, _, _ = initialized({"bill": BILL, "paid": PAID, "balance": BALANCE, "age": AGE})
    sums, products = stored(head.copies.relations)
    assert {(2, ((0, 1.0), (1, -1.0))), (0, ((1, 1.0), (2, 1.0))), (1, ((0, 1.0), (2, -1.0)))} <= sums
    assert not products
    assert not any(target == 3 for target, _ in sums)


def test_a_product_is_found_for_each_of_its_columns():
    area = (HEIGHT * WIDTH).round(2)
    _, products = stored(initialized({"height": HEIGHT, "width": WIDTH, "area": area})[0].copies.relations)
    assert (2, ((0, 1.0), (1, 1.0))) in products  # rounded, but equal at its resolution
    exact = {"height": HEIGHT, "width": WIDTH, "area": HEIGHT * WIDTH, "root": np.sqrt(WIDTH), "other": AGE + 0.5}
    head, rows, _ = initialized(exact)
    _, products = stored(head.copies.relations)
    assert {(2, ((0, 1.0), (1, 1.0))), (0, ((1, -1.0), (2, 1.0))), (3, ((1, 0.5),)), (1, ((3, 2.0),))} <= products
    assert not any(target == 4 for target, _ in products)
    values, observed = head.standardised.select(rows.x), head.standardised.select(rows.observed)
    same = head.copies.relation_features(head.relation_inputs(rows).copies, values, observed)
    assert same.sum(dim=1).min() >= len(products) - 1


def test_relations_are_found_in_a_table_with_missing_cells_and_zeros():
    def with_missing(values):
        return pa.array(values, mask=RNG.random(ROWS) < 0.3)

    height = np.where(RNG.random(ROWS) < 0.1, 0.0, HEIGHT)  # zero has no logarithm
    table = {
        "height": with_missing(height),
        "width": with_missing(WIDTH),
        "area": with_missing(height * WIDTH),
        "age": with_missing(AGE + 0.5),
    }
    _, products = stored(initialized(table)[0].copies.relations)
    assert products == {(0, ((1, -1.0), (2, 1.0))), (1, ((0, -1.0), (2, 1.0))), (2, ((0, 1.0), (1, 1.0)))}
    ledger = {
        "bill": with_missing(BILL),
        "paid": with_missing(PAID),
        "balance": with_missing(BALANCE),
        "age": with_missing(AGE),
    }
    sums, _ = stored(initialized(ledger)[0].copies.relations)
    assert {(2, ((0, 1.0), (1, -1.0))), (0, ((1, 1.0), (2, 1.0))), (1, ((0, 1.0), (2, -1.0)))} <= sums


def test_a_product_of_negative_or_missing_values_makes_no_prediction():
    head, rows, codec = initialized({"height": HEIGHT, "width": WIDTH, "area": HEIGHT * WIDTH})
    means, known = head.standardised.select(rows.x), head.standardised.select(rows.observed)
    below = means.clone()
    below[:, 0] = head.copies.relations.zeros[0] - 1.0
    for look in (head.copies.relations.predict(below, known), head.copies.relations.predict(means, known & False)):
        of_area = look.target == 2
        assert not look.observed[:, of_area].any()
        assert look.values.isfinite().all()
    assert codec.unit(0).kind == "number"


def test_a_pointer_raises_the_bin_of_the_related_value(bills):
    head, rows = bills
    pointers = head.pointers
    with torch.no_grad():
        pointers.gates.weight.zero_()
        pointers.gates.bias.view(-1, N_KERNELS)[:] = torch.tensor(
            [5.0] + [0.0] * (N_KERNELS - 1)
        )  # equal, and nothing else
    known = rows.observed.clone()
    known[:, [block for block in range(known.shape[1]) if block >= head.standardised.positions[2]]] = False
    logits, at = torch.zeros(ROWS * 3, N_BINS), torch.arange(ROWS * 3).view(ROWS, 3)
    means, there = head.standardised.select(rows.x), head.standardised.select(known)
    at = at.masked_fill(there, NO_INDEX)
    said = pointers(logits, torch.zeros(ROWS, 8), pointers.predict(means, there), at).view(ROWS, 3, N_BINS)
    assert (said[:, :2] == 0).all()  # they are observed
    own = (torch.special.ndtr(head.ranks.select(rows.x)) * N_BINS).long()
    equal = torch.from_numpy(PAID == BILL)
    hits = (said[:, 2].argmax(dim=1) - own[:, 2]).abs() <= 1  # a value at the edge of a bin may fall on either side
    assert hits[equal].double().mean() > 0.95
    nothing = pointers(logits, torch.zeros(ROWS, 8), pointers.predict(means, torch.zeros_like(there)), at)
    assert torch.equal(nothing, logits)


def test_columns_of_different_units_are_never_related():
    days = np.array([dt.date(2020, 1, 1) + dt.timedelta(int(day)) for day in AGE * 3])
    head, _, codec = initialized({"day": days, "number": AGE * 3 + 0.5, "name": np.array(list("ab"))[AGE % 2]})
    assert codec.unit(0).kind != codec.unit(1).kind
    assert codec.unit(2) is None
    assert stored(head.copies.relations) == stored(head.pointers.relations) == (set(), set())


def test_times_that_single_precision_cannot_distinguish_are_not_copies():
    begun = np.datetime64("2015-01-01T00:00:00", "us") + RNG.integers(0, 10 * 365 * 86400, ROWS).astype(
        "timedelta64[s]"
    )
    ended = begun + RNG.integers(0, 5, ROWS).astype("timedelta64[s]")
    assert stored(initialized({"begun": begun, "ended": ended})[0].copies.relations) == (set(), set())
    same_day = {"ordered": begun.astype("datetime64[D]"), "sent": begun.astype("datetime64[D]")}
    assert stored(initialized(same_day)[0].copies.relations)[0] == {(0, ((1, 1.0),)), (1, ((0, 1.0),))}


def test_heads_of_one_column_or_none_change_nothing():
    for numbers in (0, 1):
        pointers, copies = PointerHead(numbers, hidden=4, n_bins=N_BINS), CopyHead(numbers, hidden=4)
        logits, h = torch.zeros(5 * numbers, N_BINS), torch.zeros(5, 4)
        empty, at = torch.zeros(5, numbers), torch.arange(5 * numbers).view(5, numbers)
        looked = pointers.predict(empty, empty.bool())
        assert torch.equal(pointers(logits, h, looked, at), logits)
        copied = copies(h, copies.relations.predict(empty, empty.bool())).select(
            torch.ones(5, numbers, dtype=torch.bool)
        )
        assert copied.log_p.shape == (5 * numbers, 1)
        assert (copied.log_p == 0).all()


def test_distributions_do_not_depend_on_what_else_is_requested(bills):
    head, rows = bills
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(ROWS, 8, generator=generator)
    looked = head.relation_inputs(EncodedRows(rows.x, rows.observed & (torch.rand(ROWS, 1, generator=generator) < 0.5)))
    copied = head.copies(h, looked.copies)
    every, some = torch.ones(ROWS, 3, dtype=torch.bool), torch.rand(ROWS, 3, generator=generator) < 0.5
    baseline = LinearPrediction(torch.zeros(ROWS, 3), torch.zeros(ROWS, 3), torch.zeros(ROWS, 0))
    told, of_some = (head(h, looked.pointers, copied, baseline, asked) for asked in (every, some))
    places, which = flat_index(every)[some], flat_index(some)[some]
    assert told[0].shape == (3 * ROWS, N_BINS)
    for of_all, of_few in zip((told[0], *told[1], *told[2]), (of_some[0], *of_some[1], *of_some[2]), strict=True):
        assert torch.allclose(of_few[which], of_all[places], atol=1e-5)


def test_copy_probabilities_sum_to_one_and_weight_the_posterior_mean(bills):
    head, rows = bills
    h = torch.randn(ROWS, 8, generator=torch.Generator().manual_seed(0))
    looked = head.relation_inputs(rows)
    copied = head.copies(h, looked.copies)
    assert torch.allclose(copied.log_p.exp().sum(dim=2), torch.ones(ROWS, 3))
    otherwise, free = torch.full((ROWS, 3), 7.0), torch.full((ROWS, 3), 0.5)
    share = copied.log_p[:, :, 1:].exp() * 0.5
    wanted = (1 - share.sum(dim=2)) * 7 + (share * copied.values).sum(dim=2)
    assert torch.allclose(head.copies.posterior_mean(copied, otherwise, free), wanted, atol=1e-4)


def test_the_likelihood_of_a_copy_is_its_probability(bills):
    head, _ = bills
    form = 2 * head.copies.relations.per_column
    copied = CopyDistribution(
        torch.log(torch.tensor([[0.3, 0.7], [0.3, 0.7]])),
        torch.tensor([[0.25], [0.25]]),
        torch.tensor([[form], [form]]),
        torch.tensor([[False], [False]]),
        torch.tensor([[False], [False]]),
    )
    otherwise = torch.tensor([-1.0, -1.0])
    log_p = head.copies.log_likelihood(copied, torch.tensor([0.25, 0.5]), otherwise)
    assert log_p.tolist() == pytest.approx([np.log(0.7), np.log(0.3) - 1])


@pytest.fixture(scope="module")
def ledger():
    net = RNG.gamma(2, 50, 600).round(2)
    tax = np.where(RNG.random(600) < 0.5, (net / 5).round(2), 0.0)
    table = pa.table(
        {"net": net, "tax": tax, "gross": (net + tax).round(2), "kind": np.where(tax > 0, "taxed", "free")}
    )
    return table, Harpoon(hidden=32, max_epochs=60, random_state=0, progress=False).fit(table)


def test_sampled_totals_are_exact_sums(ledger):
    _, model = ledger
    rows = model.sample(300, random_state=0).to_pandas()
    assert np.mean((rows["net"] + rows["tax"] - rows["gross"]).abs() < 0.005) > 0.8


def test_relations_are_described_as_one_would_write_them(ledger):
    _, model = ledger
    assert {"gross = net + tax (100 %)", "net = gross - tax (100 %)"} <= set(model.relations())
    columns = {"radius": HEIGHT, "circle": np.pi * HEIGHT**2, "depth": WIDTH, "tin": np.pi * HEIGHT**2 * WIDTH}
    described = Harpoon(hidden=8, max_epochs=1, random_state=0, progress=False).fit(pa.table(columns)).relations()
    area, tin = "circle = 3.14159 * radius^2 (100 %)", "tin = circle * depth (100 %)"
    assert {area, tin, "depth = circle^-1 * tin (100 %)"} <= set(described)
    paper = Harpoon("paper", hidden=8, max_epochs=1, random_state=0, progress=False).fit(pa.table(columns))
    assert paper.relations() == []


def test_a_missing_total_is_imputed_with_the_sum(ledger):
    table, model = ledger
    holes = table.set_column(2, "gross", pa.nulls(600, pa.float64()))
    filled = model.impute(holes)["gross"].to_numpy()
    assert np.median(np.abs(filled - table["gross"].to_numpy())) < 1.0
    draws = model.impute(holes, draws=1, random_state=0).tables[0]["gross"].to_numpy()
    assert np.mean(np.abs(draws - table["gross"].to_numpy()) < 0.005) > 0.8


def test_relations_are_saved_and_loaded(ledger, tmp_path):
    _, model = ledger
    model.save(tmp_path / "ledger.harpoon")
    again = Harpoon.load(tmp_path / "ledger.harpoon", progress=False)
    assert again.sample(20, random_state=1).equals(model.sample(20, random_state=1))


def test_columns_of_very_different_scales_are_not_related_and_the_model_is_saved(tmp_path):
    masses = pa.table({"mass": RNG.lognormal(size=200) * 2e30, "section": RNG.lognormal(size=200) * 1e-45})
    model = Harpoon(hidden=8, max_epochs=2, random_state=0, progress=False).fit(masses)
    model.save(tmp_path / "m.harpoon")
    assert (
        Harpoon.load(tmp_path / "m.harpoon", progress=False)
        .sample(5, random_state=0)
        .equals(model.sample(5, random_state=0))
    )


def test_sampled_products_are_exact():
    price, quantity = RNG.gamma(2, 20, 600).round(2) + 1, RNG.gamma(3, 30, 600).round() + 1
    table = pa.table({"price": price, "quantity": quantity, "amount": (price * quantity).round(2)})
    model = Harpoon(hidden=32, max_epochs=60, random_state=0, progress=False).fit(table)
    holes = table.set_column(2, "amount", pa.nulls(600, pa.float64()))
    sampled = model.impute(holes, draws=1, random_state=0).tables[0]["amount"].to_numpy()
    assert np.mean(np.abs(sampled - table["amount"].to_numpy()) < 0.006) > 0.9
    exact = pa.table({"h": HEIGHT, "w": WIDTH, "a": HEIGHT * WIDTH})
    model = Harpoon(hidden=32, max_epochs=20, random_state=0, progress=False).fit(exact)
    rows = model.sample(300, random_state=0).to_pandas()
    assert np.mean(np.abs(rows["h"] * rows["w"] / rows["a"] - 1) < 1e-6) > 0.7


def test_a_nearly_constant_ratio_is_not_a_product():
    x = RNG.normal(size=ROWS)
    shifted = {(0, ((1, 1.0),)), (1, ((0, 1.0),))}  # b = a + 5
    assert stored(initialized({"a": 1e6 + x, "b": 1e6 + 5 + x})[0].copies.relations) == (shifted, set())
    assert stored(initialized({"a": 1e3 + x, "b": 1e3 + 5 + x})[0].copies.relations)[1] == set()
    twice = {"a": HEIGHT, "b": HEIGHT}
    assert stored(initialized(twice)[0].copies.relations) == ({(0, ((1, 1.0),)), (1, ((0, 1.0),))}, set())


def test_columns_beyond_single_precision_are_fitted():
    x = RNG.normal(size=60)
    table = pa.table({"a": x / 1e40, "b": x, "c": x * 1e40})
    assert Harpoon(hidden=8, max_epochs=2, random_state=0, progress=False).fit(table).sample(3).num_rows == 3


def test_names_that_are_not_identifiers_are_quoted():
    table = pa.table({"x + y": HEIGHT, "two\nlines": HEIGHT, "é": WIDTH})
    described = Harpoon(hidden=8, max_epochs=1, random_state=0, progress=False).fit(table).relations()
    assert described == ['"x + y" = "two\\nlines" (100 %)', '"two\\nlines" = "x + y" (100 %)']


def test_a_relation_is_found_in_every_direction_whatever_is_missing():
    net = RNG.gamma(2, 500, ROWS).round(2)
    tax = (net * RNG.choice([0.0, 0.07, 0.19], ROWS)).round(2)
    table = {"net": net, "tax": tax, "gross": pa.array((net + tax).round(2), mask=RNG.random(ROWS) < 0.3)}
    sums, _ = stored(initialized(table)[0].copies.relations)
    assert {(2, ((0, 1.0), (1, 1.0))), (0, ((1, -1.0), (2, 1.0))), (1, ((0, -1.0), (2, 1.0)))} <= sums


@pytest.fixture(scope="module")
def orders():
    """Orders whose postage is mostly one of a few prices, so that it is a spike more often than not."""
    rng = np.random.default_rng(0)
    net = rng.lognormal(3.5, 0.8, 1200).round(2)
    tax = (net * rng.choice([0.07, 0.19], 1200)).round(2)
    postage = np.where(net > 40, 0, rng.choice([2.99, 4.99, 9.9], 1200))
    odd = rng.random(1200) < 0.15
    postage = np.where(odd, (postage + rng.gamma(2, 1, 1200)).round(2), postage)
    columns = {"net": net, "tax": tax, "gross": net + tax, "postage": postage, "total": net + tax + postage}
    return pa.table({name: values.round(2) for name, values in columns.items()})


@pytest.fixture(scope="module")
def of_orders(orders):
    return Harpoon(hidden=32, max_epochs=30, random_state=0, progress=False).fit(orders)


def test_a_sum_is_found_for_each_column_though_one_is_mostly_spikes(of_orders):
    found = of_orders.relations()
    for relation in ("gross = net + tax", "net = gross - tax", "tax = gross - net"):
        assert f"{relation} (100 %)" in found
    for relation in ("total = gross + postage", "gross = total - postage", "postage = total - gross"):
        assert f"{relation} (100 %)" in found


def test_a_determined_value_is_imputed_exactly_spike_or_not(of_orders, orders):
    holes = orders.set_column(3, "postage", pa.nulls(len(orders), pa.float64()))
    truth = orders["postage"].to_numpy()
    assert of_orders.impute(holes)["postage"].to_numpy() == pytest.approx(truth)
    draws = of_orders.impute(holes, draws=3, random_state=0)
    for table in draws:
        assert table["postage"].to_numpy() == pytest.approx(truth)
    assert all(np.allclose(end["postage"].to_numpy(), truth) for end in draws.interval(0.5))


def test_sampled_orders_add_up_and_differences_are_plausible(of_orders, orders):
    sampled = {name: of_orders.sample(1000, random_state=0)[name].to_numpy() for name in orders.column_names}
    assert np.isclose(sampled["net"] + sampled["tax"], sampled["gross"]).mean() > 0.97
    assert np.isclose(sampled["gross"] + sampled["postage"], sampled["total"]).mean() > 0.97
    assert np.mean(sampled["tax"] == sampled["tax"].min()) < 0.02  # a clipped difference would be
    assert np.mean(sampled["postage"] == 0) == pytest.approx(np.mean(orders["postage"].to_numpy() == 0), abs=0.08)


def test_gradient_angles_of_a_model_with_relations_are_finite():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 300)).round(3)
    table = pa.table({"a": a, "b": b, "c": (a + b).round(3)})
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    assert model.relations()
    angles = gradient_angles(model.denoiser_, model.encode(table), model.codec_.slices, rows=20, times=[0.5])
    assert all(np.isfinite(angle.mean).all() for angle in angles.values())


def test_coincidences_are_not_listed_and_rare_copies_are():
    """Of 3,000 rows, 1 to 3 % agree by chance where integers have few values, related or not."""
    rng = np.random.default_rng(0)
    rows = 3000
    age, score, bill = rng.integers(0, 60, rows), rng.integers(0, 60, rows), rng.integers(0, 10**5, rows)
    near = age + np.rint(rng.normal(0, 12, rows)).astype(int)
    paid = np.where(rng.random(rows) < 0.04, bill, rng.integers(0, 10**5, rows))
    assert 0.01 < (age == score).mean() < (age == near).mean() < 0.06
    table = pa.table({"age": age, "score": score, "near": near, "bill": bill, "paid": paid})
    found = Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(table).relations()
    assert [line.partition(" (")[0] for line in found] == ["bill = paid", "paid = bill"]
    assert all(0.03 < float(line.partition(" (")[2].split()[0]) / 100 < 0.06 for line in found)


@pytest.fixture(scope="module")
def hidden_parts():
    """Parts and their total, one row in five without a part, and a bonus that some kinds of rows cannot have."""
    rng, n = np.random.default_rng(3), 1500
    a, b = rng.integers(0, 30, (2, n))
    kind, salary, bonus = rng.choice(["staff", "temp"], n), rng.integers(20, 60, n), rng.integers(5, 15, n)
    is_staff, is_known = kind == "staff", rng.random(n) >= 0.2
    table = pa.table(
        {
            "a": a,
            "b": pa.array(b, mask=~is_known),
            "total": a + b,
            "kind": kind,
            "salary": salary,
            "bonus": pa.array(bonus, mask=~is_staff),
            "pay": np.where(is_staff, salary + bonus, salary),
        }
    )
    return table, Harpoon(max_epochs=20, hidden=64, random_state=0, progress=False).fit(table)


def test_rows_are_the_same_with_and_without_nulls_and_a_hidden_part_has_a_value(hidden_parts):
    _, model = hidden_parts
    rows, complete = (dataframe.read(model.sample(1500, random_state=1, missing=m)) for m in ("as_trained", "complete"))
    for name in rows.names:
        before, after = rows.column(name), complete.column(name)
        assert (before.values == after.values)[~before.missing].all(), name
        assert not after.missing.any()
    column = {name: complete.column(name).values for name in rows.names}
    assert (column["a"] + column["b"] == column["total"]).all()
    hidden = rows.column("b").missing
    implied = (rows.column("total").values - rows.column("a").values)[hidden]
    assert ((implied >= 0) & (implied <= 29)).all()
    assert hidden.mean() == pytest.approx(0.2, abs=0.05)  # rows are sampled again with the same nulls


def test_a_cell_that_cannot_have_a_value_keeps_no_relation(hidden_parts):
    """Without a bonus, the pay is the salary; were it their difference from a bonus, such rows would all be wrong."""
    table, model = hidden_parts
    rows = dataframe.read(model.sample(1500, random_state=1))
    is_temp = rows.column("bonus").missing
    difference = (rows.column("pay").values - rows.column("salary").values)[is_temp]
    assert (difference < 5).mean() > 0.8
    assert is_temp.mean() == pytest.approx(table["bonus"].null_count / len(table), abs=0.06)


def test_clock_times_written_as_numbers_are_no_sums():
    """10:05 less 9:55 is 10 minutes; 1005 - 955 is 50. Copies of such a sum would make sampled delays too long."""
    rng = np.random.default_rng(0)
    start, delay = rng.integers(300, 1200, ROWS), rng.gamma(1, 15, ROWS).round().astype(int)
    clock = [at // 60 * 100 + at % 60 for at in (start, start + delay)]
    head, _, _ = initialized({"planned": clock[0], "actual": clock[1], "delay": delay})
    assert not len(head.copies.relations.stored)


def test_sums_with_other_exceptions_are_copies():
    rng = np.random.default_rng(0)
    head, _, _ = initialized({"bill": BILL, "paid": PAID, "balance": BILL - PAID + rng.choice([0, 0, 1], ROWS)})
    assert (0, ((1, 1.0), (2, 1.0))) in stored(head.copies.relations)[0]


def test_a_fee_of_few_values_is_no_clock():
    """gross = total fails by the fee, which another column has."""
    rng = np.random.default_rng(0)
    gross, fee = rng.gamma(2, 100, ROWS).round(), rng.choice([0.0, 4.9, 9.9], ROWS)
    head, _, _ = initialized(
        {"gross": gross, "fee": fee, "total": (gross + fee).round(1), "net": rng.gamma(2, 9, ROWS)}
    )
    assert (0, ((1, 1.0),)) in stored(head.copies.relations)[0]  # the fee has few values, and comes last
