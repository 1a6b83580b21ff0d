"""The neural methods of the bench: what they learn, what they leave alone, and the laws of their parts."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from harpoon import Schema, metrics
from harpoon._utils.rng import row_noise
from harpoon.diffusion.samplers import STARTS, reverse_process
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.diffusion.solvers import STEPS
from harpoon.encoding.batch import EncodedRows
from harpoon.exceptions import InvalidOption
from harpoon_bench.baselines import METHODS, CannotDraw, method
from harpoon_bench.baselines.diffputer import DiffPuter, OutOfTime, Spending
from harpoon_bench.baselines.edm import EdmDenoiser, KarrasSchedule, ancestral, heun, preconditioning
from harpoon_bench.baselines.gain import UNTOLD, hint
from harpoon_bench.baselines.neural import Encoder, Limit, moments, span
from harpoon_bench.baselines.remasker import Autoencoder, Settings, learning_rate, remasked
from harpoon_bench.baselines.repaint import noised, repainted, visited, writing

# Enough for a table of three columns; what the authors chose is enough for theirs.
SMALL = {
    "gain": {"width": 16, "iterations": 1200, "batch_size": 500, "hint_rate": 0.5, "learning_rate": 3e-4},
    "remasker": {"width": 16, "depth": 1, "decoder_depth": 1, "epochs": 15, "mask_ratio": 0.3, "learning_rate": 1e-2},
    "repaint": {"hidden": 64, "epochs": 60, "diffusion_steps": 50, "batch_size": 128, "learning_rate": 1e-3},
    "diffputer": {
        "hidden": 64,
        "epochs": 60,
        "iterations": 2,
        "draws": 5,
        "steps": 20,
        "hidden_share": 0.1,
        "batch_size": 128,
        "learning_rate": 1e-3,
    },
}
TINY = {
    "gain": {"iterations": 5},
    "remasker": {"width": 8, "depth": 1, "decoder_depth": 1, "epochs": 1},
    "repaint": {"hidden": 8, "epochs": 1, "diffusion_steps": 5},
    "diffputer": {"hidden": 8, "epochs": 1, "iterations": 2, "draws": 2, "steps": 4},
}


def rows_of_law(n, seed):
    """Two normals with correlation 0.9, and a label that says in which part of its range the first one is."""
    rng = np.random.default_rng(seed)
    x, noise, blur = rng.standard_normal((3, n))
    part = np.digitize(x + 0.3 * blur, [-0.5, 0.5])
    return pd.DataFrame(
        {
            "x": 3 + 2 * x,
            "y": -5 + 1.5 * (0.9 * x + math.sqrt(1 - 0.81) * noise),
            "part": np.array(["1 low", "2 middle", "3 high"])[part],
        }
    )


def one_hole_per_row(table, seed):
    return np.eye(table.shape[1], dtype=bool)[np.random.default_rng(seed).integers(0, table.shape[1], len(table))]


@pytest.fixture(scope="module")
def law():
    train, test = rows_of_law(1500, 0), rows_of_law(600, 1)
    mask = one_hole_per_row(test, 2)
    return {"train": train, "test": test, "mask": mask, "holes": test.mask(mask), "schema": Schema.infer(train)}


def scores(law, filled):
    mse = metrics.standardised_mse(law["schema"], law["test"], filled, law["mask"], law["train"])
    return mse, metrics.accuracy(law["schema"], law["test"], filled, law["mask"])


@pytest.mark.parametrize("name", SMALL)
def test_a_short_training_beats_mean_and_mode(law, name):
    mse, accuracy = scores(law, method("mean").fit(law["train"], law["schema"]).impute(law["holes"]))
    trained = method(name, **SMALL[name]).fit(law["train"], law["schema"])
    filled = trained.impute(law["holes"])
    ours_mse, ours_accuracy = scores(law, filled)
    assert ours_mse < 0.9 * mse
    assert ours_accuracy > accuracy + 0.03


@pytest.fixture(scope="module", params=TINY)
def tiny(request, law):
    return method(request.param, seed=3, **TINY[request.param]).fit(law["train"].head(100), law["schema"])


def test_holes_are_filled_and_the_rest_is_left_alone(tiny, law):
    holes = law["holes"].set_index(np.arange(600) * 2)
    holes.iloc[0] = None
    filled = tiny.impute(holes)
    assert not filled.isna().any().any()
    assert filled["x"].dtype == filled["y"].dtype == np.float64
    assert set(filled["part"]) <= set(law["schema"]["part"].labels)
    pd.testing.assert_frame_equal(filled.where(holes.notna()), holes)


def test_whole_numbers_with_labels_of_numbers_come_back_as_floats_and_labels():
    rng = np.random.default_rng(0)
    train = pd.DataFrame(
        {"age": rng.integers(20, 60, 80), "grade": rng.integers(1, 4, 80), "sure": rng.random(80) < 0.5}
    )
    schema = Schema.infer(train, kinds={"grade": "category"})
    holes = train.astype(object).mask(rng.random(train.shape) < 0.4).infer_objects()
    filled = method("remasker", **TINY["remasker"]).fit(train, schema).impute(holes)
    assert filled["age"].dtype == np.float64
    assert set(filled["grade"]) <= {1, 2, 3}
    assert set(filled["sure"]) <= {True, False}
    known = holes.notna()
    assert (filled[known] == train[known])[known].fillna(True).all().all()


@pytest.mark.parametrize("name", TINY)
def test_the_seed_decides_and_the_global_one_does_not(law, name):
    tables = []
    for seed in (5, 5, 6):
        torch.manual_seed(len(tables))
        before = torch.get_rng_state()
        trained = method(name, seed=seed, **TINY[name]).fit(law["train"].head(100), law["schema"])
        tables.append(trained.impute(law["holes"].head(50)))
        assert torch.equal(torch.get_rng_state(), before)
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not tables[0].equals(tables[2])


def test_every_method_is_under_its_name():
    for name in TINY:
        assert method(name).name == name
        assert name in METHODS
    with pytest.raises(InvalidOption, match=r"The solver of DiffPuter must be one of 'heun', 'sde', got 'euler'"):
        DiffPuter(solver="euler").fit(rows_of_law(30, 0), Schema.infer(rows_of_law(30, 0)))
    with pytest.raises(InvalidOption, match=r"An option of GAIN must be one of .*hint_rate.*, got 'hint_rat'"):
        method("gain", hint_rat=0.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"draws": 0}, "The option draws of DiffPuter must be a whole number of at least 1, got 0"),
        ({"steps": 2.5}, "a whole number of at least 1, got 2.5"),
        ({"learning_rate": "fast"}, "a number of at least 0, got 'fast'"),
        ({"hidden_share": -0.1}, "a number of at least 0, got -0.1"),
        ({"solver": 3}, "a text, got 3"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, words):
    with pytest.raises(InvalidOption, match=words):
        DiffPuter(**options)


# Budgets, by a clock that ticks once each time it is looked at.


def test_training_ends_with_the_steps_or_with_the_time():
    rows = EncodedRows(torch.arange(10.0)[:, None], torch.ones(10, 1, dtype=torch.bool))
    batches = list(Limit(7).batches(rows, 4, torch.Generator()))
    assert [len(batch.x) for batch, _ in batches] == [4, 4, 2, 4, 4, 2, 4]
    assert sorted(torch.cat([batch.x for batch, _ in batches[:3]]).flatten().tolist()) == list(range(10))
    timed = list(Limit(1000, 6.0, itertools.count().__next__).batches(rows, 4, torch.Generator()))
    assert [done for _, done in timed] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6])


@pytest.mark.parametrize("name", ["gain", "remasker"])
def test_a_budget_ends_a_training(law, name):
    looks = itertools.count()
    trained = method(
        name, budget=20.0, **{**TINY[name], **({"iterations": 10**9} if name == "gain" else {"epochs": 10**9})}
    )
    trained.clock = looks.__next__
    trained.fit(law["train"].head(100), law["schema"])
    assert next(looks) == 21


def test_an_expectation_that_the_budget_cannot_pay_is_left_off(law):
    looks = itertools.count()
    trained = DiffPuter(budget=12.0, **{**TINY["diffputer"], "iterations": 50})
    trained.clock = looks.__next__
    filled = trained.fit(law["train"].head(100), law["schema"]).impute(law["holes"].head(20))
    assert next(looks) <= 16
    assert not filled.isna().any().any()
    with pytest.raises(OutOfTime):
        Spending(1.0, lambda: 2.0).check()


# Tables as numbers.


def test_scales_are_those_of_the_known_cells():
    train = pd.DataFrame({"x": [1.0, 2.0, 4.0, np.nan] * 5, "kind": ["a", "b", None, "a"] * 5})
    for scale, shift, size in ((span, "amin", None), (moments, "mean", "std")):
        encoder = Encoder.fit(train, Schema.infer(train), encoding="onehot", scale=scale)
        rows = encoder.rows(train)
        for place in range(3):
            known = rows.x[rows.known[:, place], place]
            assert getattr(known, shift)().item() == pytest.approx(0, abs=1e-6)
            spread = known.amax() if size is None else known.std(unbiased=False)
            assert spread.item() == pytest.approx(1, abs=1e-5)
        assert not rows.x[~rows.known].any()


def test_a_category_is_hidden_as_a_whole(law):
    encoder = Encoder.fit(law["train"], law["schema"], encoding="onehot", scale=span)
    hidden = encoder.hiding(encoder.rows(law["train"]), 0.3, torch.Generator().manual_seed(0))
    assert (hidden.known[:, 2:] == hidden.known[:, 2:3]).all()
    assert 1 - hidden.known[:, :3].float().mean().item() == pytest.approx(0.3, abs=0.03)
    assert not hidden.x[~hidden.known].any()


# GAIN.


def test_a_hint_says_as_much_of_the_mask_as_it_is_told_to():
    known = torch.rand((200, 50), generator=torch.Generator().manual_seed(0)) < 0.7
    assert torch.equal(hint(known, torch.ones_like(known)), known.float())
    assert (hint(known, torch.zeros_like(known)) == UNTOLD).all()
    told = torch.rand(known.shape, generator=torch.Generator().manual_seed(1)) < 0.9
    clue = hint(known, told)
    assert torch.equal(clue[told], known[told].float())
    assert (clue != UNTOLD).float().mean().item() == pytest.approx(0.9, abs=0.02)


# ReMasker.


def test_what_is_hidden_does_not_reach_the_autoencoder():
    torch.manual_seed(0)
    network = Autoencoder(Settings(width=8, depth=2, decoder_depth=1))
    x = torch.rand(6, 5)
    visible = torch.rand(6, 5) < 0.6
    other = torch.where(visible, x, torch.rand(6, 5))
    assert torch.allclose(network(x, visible), network(other, visible), atol=1e-6)
    assert not torch.allclose(network(x, visible), network(x.flip(0), visible), atol=1e-4)
    assert torch.isfinite(network(x, torch.zeros_like(visible))).all()


def test_a_row_keeps_half_of_its_cells_and_only_known_ones():
    known = torch.ones(500, 8, dtype=torch.bool)
    known[:, :2] = False
    visible = remasked(known, 0.5, torch.Generator().manual_seed(0))
    assert (visible.sum(dim=1) == 4).all()
    assert not visible[:, :2].any()
    assert visible[:, 2:].float().mean(dim=0).numpy() == pytest.approx(np.full(6, 4 / 6), abs=0.08)


def test_the_learning_rate_rises_and_falls():
    settings = Settings()
    rates = [learning_rate(done, settings) for done in np.linspace(0, 1, 601)]
    assert rates[0] == 0
    assert max(rates) == rates[40] == pytest.approx(1e-3)
    assert rates[-1] == pytest.approx(1e-5)


# RePaint.


def test_repaint_of_nothing_is_plain_sampling(law):
    trained = method("repaint", seed=7, **TINY["repaint"]).fit(law["train"].head(100), law["schema"])
    denoiser = trained.model.denoiser_
    width = trained.encoder.codec.width
    nothing = EncodedRows(torch.zeros(9, width), torch.zeros(9, width, dtype=torch.bool))
    plain = reverse_process(
        denoiser,
        row_noise(7, np.arange(9), 6, width),
        times=denoiser.schedule.times(5),
        initial_noise=STARTS["standard"],
        step=STEPS["variance"],
    )
    assert torch.equal(trained.completed(nothing), plain)


def test_repaint_draws_rows_with_the_labels_that_a_condition_pins(law):
    trained = method("repaint", **TINY["repaint"]).fit(law["train"].head(100), law["schema"])
    rows = trained.sample(40, "x > 3 and part = '3 high'")
    assert rows.shape == (40, 3)
    assert set(rows["part"]) == {"3 high"}
    assert rows["x"].nunique() == 40
    assert len(set(trained.sample(40)["part"])) > 1
    with pytest.raises(CannotDraw, match=r"GAIN fills holes; it cannot draw 3 rows"):
        method("gain").sample(3)


def test_known_cells_are_noised_as_the_time_asks():
    now, after = NoiseLevel(0.6, 0.8), NoiseLevel(0.8, 0.6)
    x, z = torch.rand(4, 3), torch.rand(4, 3)
    known = torch.tensor([[True, False, True]]).expand(4, 3)
    step = writing(EncodedRows(x, known), lambda x_t, x0_hat, now, after, z: x0_hat)
    moved = step(torch.zeros(4, 3), torch.full((4, 3), 7.0), now, after, z)
    assert torch.equal(moved[known], (0.8 * x + 0.6 * z)[known])
    assert (moved[~known] == 7).all()


def test_a_way_back_up_has_the_law_of_the_later_time():
    now, after = NoiseLevel(0.8, 0.6), NoiseLevel(0.6, 0.8)
    generator = torch.Generator().manual_seed(0)
    x_0, noise, z = torch.full((100_000, 1), 2.0), *torch.randn((2, 100_000, 1), generator=generator)
    up = noised(now.signal * x_0 + now.noise * noise, now, after, z)
    assert up.mean().item() == pytest.approx(after.signal * 2, abs=0.01)
    assert up.std().item() == pytest.approx(after.noise, abs=0.01)
    stays = writing(EncodedRows(x_0, torch.ones_like(x_0, dtype=torch.bool)), STEPS["none"])
    assert torch.equal(stays(noise, x_0, now, after, z), noised(noise, now, after, z))


def test_more_passes_visit_every_stretch_again():
    times = list(range(200, -1, -1))
    assert visited(times, 10, 1) == times
    way = visited(times, 10, 10)
    assert way[0] == 200
    assert way[-1] == 0
    falls = [a - b for a, b in itertools.pairwise(way)]
    assert set(falls) == {1, -10}
    assert falls.count(-10) == 20 * 9


# EDM.


def test_preconditioning_gives_the_network_unit_variance():
    sigma, deviation = torch.tensor([[1e-3], [0.1], [0.5], [3.0], [80.0]], dtype=torch.float64), 0.5
    skip, out, inner = preconditioning(sigma, deviation)
    assert torch.allclose(inner**2 * (deviation**2 + sigma**2), torch.ones_like(sigma))
    target = (1 - skip) ** 2 * deviation**2 + skip**2 * sigma**2  # of F: (x_0 - c_skip (x_0 + σ ε)) / c_out
    assert torch.allclose(target, out**2)
    assert torch.allclose(preconditioning(torch.zeros(1), deviation)[0], torch.ones(1))
    weight = (sigma**2 + deviation**2) / (sigma * deviation) ** 2
    assert torch.allclose(weight * out**2, torch.ones_like(sigma))


def test_rows_without_noise_are_what_they_are():
    torch.manual_seed(0)
    noise = {"deviation": 0.5, "log_mean": -1.2, "log_deviation": 1.2}
    denoiser = EdmDenoiser(3, 8, KarrasSchedule(), **noise)
    x = torch.rand(4, 3)
    assert torch.allclose(denoiser(x, 1e-6), x, atol=1e-5)


class Normal:
    """The exact denoiser of rows that are normal: mean 1, deviation 0.5."""

    schedule = KarrasSchedule(churn=0.0)

    def knowing(self, given=None):
        return lambda x, t: (0.25 * x + t**2) / (0.25 + t**2)


@pytest.mark.parametrize(("solver", "steps"), [("heun", 30), ("sde", 400)])
def test_steps_draw_the_law_of_the_denoiser(solver, steps):
    normal, nothing = Normal(), EncodedRows(torch.zeros(4000, 1), torch.zeros(4000, 1, dtype=torch.bool))
    drawn = repainted(
        normal,
        nothing,
        times=normal.schedule.times(steps),
        initial_noise=lambda denoiser, z: 80 * z,
        step=ancestral if solver == "sde" else heun(normal.knowing(), 0.0),
        seed=0,
        rows_at_once=4000,
    )
    assert drawn.mean().item() == pytest.approx(1, abs=0.03)
    assert drawn.std().item() == pytest.approx(0.5, abs=0.03)


def test_churn_raises_the_noise_to_where_the_next_step_begins():
    step = heun(lambda x, t: torch.zeros_like(x), 0.5)
    z = torch.randn((50_000, 1), generator=torch.Generator().manual_seed(0))
    x = 3 * torch.randn((50_000, 1), generator=torch.Generator().manual_seed(1))
    moved = step(x, torch.zeros_like(x), NoiseLevel(1.0, 3.0), NoiseLevel(1.0, 1.5), z)
    assert moved.std().item() == pytest.approx(1.5, abs=0.02)


def test_a_complete_table_leaves_nothing_to_expect(law):
    options = {**TINY["diffputer"], "hidden_share": 0.0}
    one, many = (DiffPuter(**{**options, "iterations": n}).fit(law["train"].head(60), law["schema"]) for n in (1, 9))
    for name, weight in one.denoiser.state_dict().items():
        assert torch.equal(weight, many.denoiser.state_dict()[name])
    assert one.note == ""
    assert "30 %" in DiffPuter(**TINY["diffputer"]).fit(law["train"].head(60), law["schema"]).note
