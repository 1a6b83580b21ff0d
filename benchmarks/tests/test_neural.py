"""The neural methods: imputation, budgets, and properties of their parts."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from harpoon import Schema, metrics
from harpoon._utils.rng import row_noise
from harpoon.diffusion.reverse_process import INITIAL_NOISE, reverse_process
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.diffusion.solvers import SOLVERS, Solver, StepInputs
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.exceptions import InvalidOption
from harpoon_bench.baselines import METHODS, CannotSample, make_method
from harpoon_bench.baselines.diffputer import BudgetClock, BudgetSpent, DiffPuter
from harpoon_bench.baselines.edm import EdmDenoiser, KarrasSchedule, ancestral, heun, preconditioning
from harpoon_bench.baselines.gain import NO_HINT
from harpoon_bench.baselines.neural import ScaledCodec, TrainingLimit, mean_and_std, min_and_range
from harpoon_bench.baselines.remasker import Autoencoder, Options, learning_rate, sample_visible
from harpoon_bench.baselines.repaint import add_noise, repaint, replace_observed, times_with_jumps

# Enough for a table of three columns.
SMALL = {
    "gain": {"width": 16, "iterations": 1200, "batch_size": 500, "hint_rate": 0.5, "learning_rate": 3e-4},
    "remasker": {"width": 16, "depth": 1, "decoder_depth": 1, "epochs": 15, "mask_ratio": 0.3, "learning_rate": 1e-2},
    "repaint": {"hidden": 64, "epochs": 60, "diffusion_steps": 50, "batch_size": 128, "learning_rate": 1e-3},
    "diffputer": {
        "hidden": 64,
        "epochs": 60,
        "iterations": 2,
        "draws": 5,
        "sampling_steps": 20,
        "hidden_fraction": 0.1,
        "batch_size": 128,
        "learning_rate": 1e-3,
    },
}
TINY = {
    "gain": {"iterations": 5},
    "remasker": {"width": 8, "depth": 1, "decoder_depth": 1, "epochs": 1},
    "repaint": {"hidden": 8, "epochs": 1, "diffusion_steps": 5},
    "diffputer": {"hidden": 8, "epochs": 1, "iterations": 2, "draws": 2, "sampling_steps": 4},
}


def sample_rows(n, seed):
    """Return two normals with correlation 0.9, and a category that is the range of the first one, with noise."""
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


def hide_one_cell_per_row(table, seed):
    return np.eye(table.shape[1], dtype=bool)[np.random.default_rng(seed).integers(0, table.shape[1], len(table))]


@pytest.fixture(scope="module")
def task():
    train, test = sample_rows(1500, 0), sample_rows(600, 1)
    mask = hide_one_cell_per_row(test, 2)
    return {"train": train, "test": test, "mask": mask, "incomplete": test.mask(mask), "schema": Schema.infer(train)}


def score(task, imputed):
    mse = metrics.standardised_mse(task["schema"], task["test"], imputed, task["mask"], task["train"])
    return mse, metrics.accuracy(task["schema"], task["test"], imputed, task["mask"])


@pytest.mark.parametrize("name", SMALL)
def test_short_training_beats_mean_and_mode(task, name):
    mse, accuracy = score(task, make_method("mean").fit(task["train"], task["schema"]).impute(task["incomplete"]))
    trained = make_method(name, **SMALL[name]).fit(task["train"], task["schema"])
    ours_mse, ours_accuracy = score(task, trained.impute(task["incomplete"]))
    assert ours_mse < 0.9 * mse
    assert ours_accuracy > accuracy + 0.03


@pytest.fixture(scope="module", params=TINY)
def tiny(request, task):
    return make_method(request.param, seed=3, **TINY[request.param]).fit(task["train"].head(100), task["schema"])


def test_impute_fills_missing_cells_only(tiny, task):
    incomplete = task["incomplete"].set_index(np.arange(600) * 2)
    incomplete.iloc[0] = None
    imputed = tiny.impute(incomplete)
    assert not imputed.isna().any().any()
    assert imputed["x"].dtype == imputed["y"].dtype == np.float64
    assert set(imputed["part"]) <= set(task["schema"]["part"].categories)
    pd.testing.assert_frame_equal(imputed.where(incomplete.notna()), incomplete)


def test_integers_become_floats_and_categories_keep_their_type():
    rng = np.random.default_rng(0)
    train = pd.DataFrame(
        {"age": rng.integers(20, 60, 80), "grade": rng.integers(1, 4, 80), "member": rng.random(80) < 0.5}
    )
    schema = Schema.infer(train, kinds={"grade": "category"})
    incomplete = train.astype(object).mask(rng.random(train.shape) < 0.4).infer_objects()
    imputed = make_method("remasker", **TINY["remasker"]).fit(train, schema).impute(incomplete)
    assert imputed["age"].dtype == np.float64
    assert set(imputed["grade"]) <= {1, 2, 3}
    assert set(imputed["member"]) <= {True, False}
    observed = incomplete.notna()
    assert (imputed[observed] == train[observed])[observed].fillna(True).all().all()


@pytest.mark.parametrize("name", TINY)
def test_results_depend_on_the_seed_only(task, name):
    tables = []
    for seed in (5, 5, 6):
        torch.manual_seed(len(tables))
        before = torch.get_rng_state()
        trained = make_method(name, seed=seed, **TINY[name]).fit(task["train"].head(100), task["schema"])
        tables.append(trained.impute(task["incomplete"].head(50)))
        assert torch.equal(torch.get_rng_state(), before)
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not tables[0].equals(tables[2])


def test_methods_have_their_name_and_check_their_options():
    for name in TINY:
        assert make_method(name).name == name
        assert name in METHODS
    with pytest.raises(InvalidOption, match=r"The solver of DiffPuter must be one of 'heun', 'sde', got 'euler'"):
        DiffPuter(solver="euler").fit(sample_rows(30, 0), Schema.infer(sample_rows(30, 0)))
    with pytest.raises(InvalidOption, match=r"An option of GAIN must be one of .*hint_rate.*, got 'hint_rat'"):
        make_method("gain", hint_rat=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "The option draws of DiffPuter must be an integer of at least 1, got 0"),
        ({"sampling_steps": 2.5}, "an integer of at least 1, got 2.5"),
        ({"learning_rate": "fast"}, "a number of at least 0, got 'fast'"),
        ({"hidden_fraction": -0.1}, "a number of at least 0, got -0.1"),
        ({"solver": 3}, "a string, got 3"),
    ],
)
def test_invalid_options_are_errors(options, message):
    with pytest.raises(InvalidOption, match=message):
        DiffPuter(**options)


# Budgets, with a clock that advances at each reading.


def test_training_ends_at_the_limit_of_steps_or_time():
    rows = EncodedRows(torch.arange(10.0)[:, None], torch.ones(10, 1, dtype=torch.bool))
    batches = list(TrainingLimit(7).batches(rows, 4, torch.Generator()))
    assert [len(batch.x) for batch, _ in batches] == [4, 4, 2, 4, 4, 2, 4]
    assert sorted(torch.cat([batch.x for batch, _ in batches[:3]]).flatten().tolist()) == list(range(10))
    timed = list(TrainingLimit(1000, 6.0, itertools.count().__next__).batches(rows, 4, torch.Generator()))
    assert [done for _, done in timed] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6])


@pytest.mark.parametrize("name", ["gain", "remasker"])
def test_budget_ends_a_training(task, name):
    readings = itertools.count()
    trained = make_method(
        name, budget=20.0, **{**TINY[name], **({"iterations": 10**9} if name == "gain" else {"epochs": 10**9})}
    )
    trained.clock = readings.__next__
    trained.fit(task["train"].head(100), task["schema"])
    assert next(readings) == 21


def test_expectation_beyond_the_budget_is_skipped(task):
    readings = itertools.count()
    trained = DiffPuter(budget=12.0, **{**TINY["diffputer"], "iterations": 50})
    trained.clock = readings.__next__
    imputed = trained.fit(task["train"].head(100), task["schema"]).impute(task["incomplete"].head(20))
    assert next(readings) <= 16
    assert not imputed.isna().any().any()
    with pytest.raises(BudgetSpent):
        BudgetClock(1.0, lambda: 2.0).check()


# Encoded tables.


def test_scales_are_those_of_the_observed_cells():
    train = pd.DataFrame({"x": [1.0, 2.0, 4.0, np.nan] * 5, "kind": ["a", "b", None, "a"] * 5})
    for scale, shift, size in ((min_and_range, "amin", None), (mean_and_std, "mean", "std")):
        codec = ScaledCodec.fit(train, Schema.infer(train), encoding="onehot", scale=scale)
        rows = codec.encode(train)
        for index in range(3):
            observed = rows.x[rows.observed[:, index], index]
            assert getattr(observed, shift)().item() == pytest.approx(0, abs=1e-6)
            spread = observed.amax() if size is None else observed.std(unbiased=False)
            assert spread.item() == pytest.approx(1, abs=1e-5)
        assert not rows.x[~rows.observed].any()


def test_all_dimensions_of_a_category_are_hidden_together(task):
    codec = ScaledCodec.fit(task["train"], task["schema"], encoding="onehot", scale=min_and_range)
    hidden = codec.hide(codec.encode(task["train"]), 0.3, torch.Generator().manual_seed(0))
    assert (hidden.observed[:, 2:] == hidden.observed[:, 2:3]).all()
    assert 1 - hidden.observed[:, :3].float().mean().item() == pytest.approx(0.3, abs=0.03)
    assert not hidden.x[~hidden.observed].any()


# GAIN.


def test_hint_reveals_the_chosen_part_of_the_mask():
    observed = torch.rand((200, 50), generator=torch.Generator().manual_seed(0)) < 0.7
    gain = make_method("gain")
    assert torch.equal(gain.make_hint(observed, torch.ones_like(observed)), observed.float())
    assert (gain.make_hint(observed, torch.zeros_like(observed)) == NO_HINT).all()
    hinted = torch.rand(observed.shape, generator=torch.Generator().manual_seed(1)) < 0.9
    hint = gain.make_hint(observed, hinted)
    assert torch.equal(hint[hinted], observed[hinted].float())
    assert (hint != NO_HINT).float().mean().item() == pytest.approx(0.9, abs=0.02)
    published = make_method("gain_published").make_hint(observed, hinted)
    assert torch.equal(published, (observed & hinted).float())


# ReMasker.


def test_autoencoder_ignores_hidden_cells():
    torch.manual_seed(0)
    network = Autoencoder(Options(width=8, depth=2, decoder_depth=1), [1, 3, 1])
    x = torch.rand(6, 5)
    visible = torch.rand(6, 3) < 0.6
    assert torch.equal(network.cells(visible[:, network.cell_of]), visible)
    other = torch.where(visible[:, network.cell_of], x, torch.rand(6, 5))
    assert torch.allclose(network(x, visible), network(other, visible), atol=1e-6)
    assert not torch.allclose(network(x, visible), network(x.flip(0), visible), atol=1e-4)
    assert torch.isfinite(network(x, torch.zeros_like(visible))).all()


def test_a_category_is_one_cell_with_an_embedding_for_each_value():
    network = Autoencoder(Options(width=8, depth=1, decoder_depth=1), [1, 3, 1])
    torch.nn.init.normal_(network.category_embed)
    values = torch.arange(5.0).expand(2, 5)
    assert network.sum_features(values).tolist() == [[0.0, 6.0, 4.0]] * 2
    shared = network.per_feature(torch.tensor(7.0), torch.tensor([1.0, 2.0, 3.0]))
    assert shared.tolist() == [7.0, 1.0, 2.0, 3.0, 7.0]
    visible = torch.ones(3, 3, dtype=torch.bool)
    by_category = network(torch.nn.functional.pad(torch.eye(3), (1, 1)), visible)
    assert not torch.allclose(by_category[0], by_category[1], atol=1e-4)


def test_remasker_fills_the_most_probable_category_not_one_between_two(task):
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"x": rng.normal(size=600), "size": rng.choice(["a", "b", "c"], 600, p=[0.4, 0.02, 0.58])})
    schema = Schema.infer(train)
    incomplete = train.assign(size=None).astype({"size": object})
    filled = {
        encoding: make_method("remasker", encoding=encoding, **{**TINY["remasker"], "epochs": 30})
        .fit(train, schema)
        .impute(incomplete)["size"]
        .value_counts(normalize=True)
        for encoding in ("onehot", "integer")
    }
    assert filled["onehot"]["c"] > 0.9
    assert filled["integer"].get("b", 0) > 0.9  # the code between those of "a" and "c"


def test_half_of_the_cells_stay_visible_and_only_observed_ones():
    observed = torch.ones(500, 8, dtype=torch.bool)
    observed[:, :2] = False
    visible = sample_visible(observed, 0.5, torch.Generator().manual_seed(0))
    assert (visible.sum(dim=1) == 4).all()
    assert not visible[:, :2].any()
    assert visible[:, 2:].float().mean(dim=0).numpy() == pytest.approx(np.full(6, 4 / 6), abs=0.08)


def test_learning_rate_warms_up_and_decays():
    options = Options()
    rates = [learning_rate(done, options) for done in np.linspace(0, 1, 601)]
    assert rates[0] == 0
    assert max(rates) == rates[40] == pytest.approx(1e-3)
    assert rates[-1] == pytest.approx(1e-5)


# RePaint.


def test_repaint_without_observed_cells_is_unconditional_sampling(task):
    trained = make_method("repaint", seed=7, **TINY["repaint"]).fit(task["train"].head(100), task["schema"])
    denoiser = trained.model.denoiser_
    width = trained.codec.row_codec.width
    empty = EncodedRows(torch.zeros(9, width), torch.zeros(9, width, dtype=torch.bool))
    expected = reverse_process(
        denoiser,
        row_noise(7, np.arange(9), 6, width),
        times=denoiser.schedule.times(5),
        initial_noise=INITIAL_NOISE["standard"],
        solver=SOLVERS["ddpm_printed"],
    )
    assert torch.equal(trained.complete(empty), expected)


def test_repaint_samples_rows_with_fixed_categories(task):
    trained = make_method("repaint", **TINY["repaint"]).fit(task["train"].head(100), task["schema"])
    rows = trained.sample(40, "x > 3 and part = '3 high'")
    assert rows.shape == (40, 3)
    assert set(rows["part"]) == {"3 high"}
    assert rows["x"].nunique() == 40
    assert len(set(trained.sample(40)["part"])) > 1
    with pytest.raises(CannotSample, match=r"GAIN only imputes; it cannot sample 3 rows"):
        make_method("gain").sample(3)


def step_inputs(x_t, x0_hat, now, after, noise, *, denoise=None):
    return StepInputs(x_t, x0_hat, now, after, noise, None, denoise, (1.0, 0.0))


def test_observed_cells_are_noised_to_the_next_level():
    now, after = NoiseLevel(0.6, 0.8), NoiseLevel(0.8, 0.6)
    x, noise = torch.rand(4, 3), torch.rand(4, 3)
    observed = torch.tensor([[True, False, True]]).expand(4, 3)
    solver = replace_observed(EncodedRows(x, observed), Solver(lambda inputs: inputs.x0_hat, stochastic=False))
    result = solver.step(step_inputs(torch.zeros(4, 3), torch.full((4, 3), 7.0), now, after, noise))
    assert torch.equal(result[observed], (0.8 * x + 0.6 * noise)[observed])
    assert (result[~observed] == 7).all()


def test_jump_back_has_the_distribution_of_the_noisier_time():
    now, after = NoiseLevel(0.8, 0.6), NoiseLevel(0.6, 0.8)
    generator = torch.Generator().manual_seed(0)
    x_0, noise, z = torch.full((100_000, 1), 2.0), *torch.randn((2, 100_000, 1), generator=generator)
    up = add_noise(now.signal * x_0 + now.noise * noise, now, after, z)
    assert up.mean().item() == pytest.approx(after.signal * 2, abs=0.01)
    assert up.std().item() == pytest.approx(after.noise, abs=0.01)
    solver = replace_observed(EncodedRows(x_0, torch.ones_like(x_0, dtype=torch.bool)), SOLVERS["ddim"])
    inputs = step_inputs(noise, x_0, now, after, z)
    assert torch.equal(solver.step(inputs), add_noise(noise, now, after, z))


def test_passes_repeat_every_jump():
    times = list(range(200, -1, -1))
    assert times_with_jumps(times, 10, 1) == times
    visited = times_with_jumps(times, 10, 10)
    assert visited[0] == 200
    assert visited[-1] == 0
    steps = [a - b for a, b in itertools.pairwise(visited)]
    assert set(steps) == {1, -10}
    assert steps.count(-10) == 20 * 9


# EDM.


def test_preconditioning_gives_the_network_unit_variance():
    sigma, data_std = torch.tensor([[1e-3], [0.1], [0.5], [3.0], [80.0]], dtype=torch.float64), 0.5
    skip, out, inner = preconditioning(sigma, data_std)
    assert torch.allclose(inner**2 * (data_std**2 + sigma**2), torch.ones_like(sigma))
    target = (1 - skip) ** 2 * data_std**2 + skip**2 * sigma**2  # of F: (x_0 - c_skip (x_0 + σ ε)) / c_out
    assert torch.allclose(target, out**2)
    assert torch.allclose(preconditioning(torch.zeros(1), data_std)[0], torch.ones(1))
    weight = (sigma**2 + data_std**2) / (sigma * data_std) ** 2
    assert torch.allclose(weight * out**2, torch.ones_like(sigma))


def test_denoiser_keeps_rows_without_noise():
    torch.manual_seed(0)
    noise = {"data_std": 0.5, "log_noise_mean": -1.2, "log_noise_std": 1.2}
    denoiser = EdmDenoiser(3, 8, KarrasSchedule(), **noise)
    x = torch.rand(4, 3)
    assert torch.allclose(denoiser(x, 1e-6), x, atol=1e-5)


class Normal:
    """The exact denoiser of normal rows with mean 1 and standard deviation 0.5."""

    schedule = KarrasSchedule(churn=0.0)

    def condition_on(self, observed=None):
        return lambda x, t: (0.25 * x + t**2) / (0.25 + t**2)


@pytest.mark.parametrize(("solver", "steps"), [("heun", 30), ("sde", 400)])
def test_solvers_sample_the_distribution_of_the_denoiser(solver, steps):
    normal, empty = Normal(), EncodedRows(torch.zeros(4000, 1), torch.zeros(4000, 1, dtype=torch.bool))
    sampled = repaint(
        normal,
        empty,
        times=normal.schedule.times(steps),
        initial_noise=lambda denoiser, z: 80 * z,
        solver=Solver(ancestral, stochastic=True) if solver == "sde" else heun(0.0),
        seed=0,
        batch_size=4000,
    )
    assert sampled.mean().item() == pytest.approx(1, abs=0.03)
    assert sampled.std().item() == pytest.approx(0.5, abs=0.03)


def test_churn_raises_the_noise_to_the_start_of_the_next_step():
    solver = heun(0.5)
    z = torch.randn((50_000, 1), generator=torch.Generator().manual_seed(0))
    x = 3 * torch.randn((50_000, 1), generator=torch.Generator().manual_seed(1))
    levels = NoiseLevel(1.0, 3.0), NoiseLevel(1.0, 1.5)
    inputs = step_inputs(x, torch.zeros_like(x), *levels, z, denoise=lambda x, t: torch.zeros_like(x))
    assert solver.step(inputs).std().item() == pytest.approx(1.5, abs=0.02)


def test_complete_rows_need_one_maximisation(task):
    options = {**TINY["diffputer"], "hidden_fraction": 0.0}
    one, many = (DiffPuter(**{**options, "iterations": n}).fit(task["train"].head(60), task["schema"]) for n in (1, 9))
    for name, weight in one.denoiser.state_dict().items():
        assert torch.equal(weight, many.denoiser.state_dict()[name])
    assert one.note == ""
    assert "30 %" in DiffPuter(**TINY["diffputer"]).fit(task["train"].head(60), task["schema"]).note
