"""The laws, for the anchored denoiser: closed form (9), geometry (10), known cells and incomplete training."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import ColumnLeftOutWarning, Harpoon, InvalidOption
from harpoon.diffusion.geometry import gradient_angle, gradient_angles
from harpoon.diffusion.guidance import tangential_gradient
from harpoon.diffusion.schedules import NoiseLevel
from harpoon.encoding.base import ColumnSlice, PartType
from harpoon.encoding.batch import EncodedRows
from harpoon.networks.anchored import AnchoredDenoiser, MaskingConfig
from harpoon.networks.backbone import Contrast
from tests.support.oracles import CENTRES, CLASS_PROBABILITIES, class_probabilities, mixture_table, y_moments


class NoScales:
    """Scales of which none can be told on another."""

    def unit(self, column):
        return None

    def ends(self, column, slots):
        return np.linspace(-2, 2, slots - 1)


NO_SCALES = NoScales()
BLOCKS = (
    ColumnSlice("x", 0, 0, 1, PartType.CONTINUOUS),
    ColumnSlice("x", 0, 1, 4, PartType.CATEGORICAL),
    ColumnSlice("c", 1, 4, 6, PartType.CATEGORICAL),
)


def denoiser() -> AnchoredDenoiser:
    made = AnchoredDenoiser(
        BLOCKS, hidden=16, depth=2, input_bins=4, rank_bins=8, masking=MaskingConfig(0.5, 0.3), scales=NO_SCALES
    )
    made.prepare(data(), torch.Generator().manual_seed(0))
    return made


def data(rows: int = 200) -> EncodedRows:
    generator = torch.Generator().manual_seed(1)
    spike = torch.randint(0, 3, (rows,), generator=generator)
    kind = torch.randint(0, 2, (rows,), generator=generator)
    number = torch.randn(rows, generator=generator)
    one_hot = torch.nn.functional.one_hot
    x = torch.cat([number[:, None], one_hot(spike, 3).float(), one_hot(kind, 2).float()], dim=1)
    return EncodedRows(x, torch.ones_like(x, dtype=torch.bool))


def test_categories_are_always_estimated_on_the_simplex():
    x_t = 10 * torch.randn(50, 6, generator=torch.Generator().manual_seed(2))
    estimate = denoiser()(x_t, 0.7)
    for part in (slice(1, 4), slice(4, 6)):
        assert estimate[:, part].min() >= 0
        assert torch.allclose(estimate[:, part].sum(dim=1), torch.ones(50))


def test_what_is_known_is_estimated_to_be_what_it_is():
    rows = data(20)
    known = torch.zeros_like(rows.observed)
    known[:, :4] = True
    estimate = denoiser()(
        torch.randn(20, 6, generator=torch.Generator().manual_seed(3)), 0.9, EncodedRows(rows.x, known)
    )
    assert torch.equal(estimate[:, :4], rows.x[:, :4])


def test_where_there_is_only_noise_the_noise_does_not_matter():
    generator = torch.Generator().manual_seed(4)
    rows, model = data(20), denoiser()
    known = torch.zeros_like(rows.observed)
    known[:, 4:] = True
    noises = [torch.randn(20, 6, generator=generator) for _ in range(2)]
    noisiest = model.schedule.max_time
    first, second = (model(noise, noisiest, EncodedRows(rows.x, known)) for noise in noises)
    assert torch.allclose(first, second, atol=0.02)


@pytest.mark.parametrize("known", [[], [0], [1], [0, 1]])
def test_without_noise_the_estimate_is_that_of_the_noisiest_time(known):
    rows, model = data(20), denoiser()
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for weight in model.parameters():  # also those that are nothing at first
            weight.add_(torch.randn(weight.shape, generator=generator) / 10)
    columns = torch.tensor([0, 0, 0, 0, 1, 1])
    given = EncodedRows(rows.x, torch.isin(columns, torch.tensor(known)).expand(20, -1))
    nothing = torch.zeros(1, 6)
    assert torch.allclose(model.at_noise().expected(given), model(nothing, model.schedule.max_time, given), atol=1e-4)


def test_near_the_clean_end_the_estimate_is_the_row():
    rows = data(50)
    level = denoiser().schedule.level(0.01)
    x_t = level.signal * rows.x + level.noise * torch.randn(rows.x.shape, generator=torch.Generator().manual_seed(5))
    assert torch.allclose(denoiser()(x_t, 0.01), rows.x, atol=0.1)


def test_a_cell_that_is_missing_in_training_is_never_a_target():
    rows = data(100)
    known = rows.observed.clone()
    known[:, 4:] = False
    model = denoiser()
    model.loss(EncodedRows(torch.where(known, rows.x, 0.0), known), torch.Generator().manual_seed(0)).backward()
    gradient = model.backbone.out.weight.grad
    assert gradient[:4].abs().sum() > 0
    assert gradient[4:].abs().sum() == 0


MEANS = (
    ColumnSlice("x", 0, 0, 1, PartType.REGRESSION),
    ColumnSlice("x", 0, 1, 2, PartType.CONTINUOUS),
    ColumnSlice("n", 1, 2, 3, PartType.REGRESSION),
    ColumnSlice("n", 1, 3, 6, PartType.CATEGORICAL),
)


def with_means() -> AnchoredDenoiser:
    made = AnchoredDenoiser(
        MEANS, hidden=16, depth=2, input_bins=4, rank_bins=8, masking=MaskingConfig(0.5, 0.3), scales=NO_SCALES
    )
    made.prepare(data(), torch.Generator().manual_seed(0))
    return made


def test_means_are_no_part_of_the_noisy_row():
    model, generator = with_means(), torch.Generator().manual_seed(1)
    x_t = torch.randn(20, 6, generator=generator)
    other = x_t.clone()
    other[:, [0, 2]] = 100.0
    assert torch.equal(model(x_t, 0.5), model(other, 0.5))
    _, gradient = tangential_gradient(model, x_t, 0.5, lambda x: (x**2).sum(dim=1))
    assert (gradient[:, [0, 2]] == 0).all()
    assert (gradient[:, [1, 3, 4, 5]] != 0).all()


def test_means_do_not_turn_the_angle_of_a_gradient():
    model, level = with_means(), NoiseLevel(0.8, 0.6)
    x_t = torch.randn(20, 6, generator=torch.Generator().manual_seed(1))
    shifted = x_t.clone()
    shifted[:, [0, 2]] += 50.0
    angles = [
        gradient_angle(model, x, 0.5, lambda x: (x**2).sum(dim=1), level, noised=[1, 3, 4, 5]) for x in (x_t, shifted)
    ]
    assert torch.equal(*angles)
    everything = gradient_angle(model, shifted, 0.5, lambda x: (x**2).sum(dim=1), level)
    assert not torch.allclose(angles[0], everything)


def test_contrasts_begin_with_the_ranks_that_go_together():
    x = torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    x[:, 2] = -x[:, 0] + 0.1 * x[:, 1]
    contrast = Contrast(3)
    contrast.initialize(x, torch.ones_like(x, dtype=torch.bool))
    assert contrast.weight[0].tolist() == [1.0, 0.0, 1.0]  # they go against each other, so their sum is small
    assert contrast(x).shape == (500, 3)
    assert contrast(x)[:, 0].std() < 0.2


@pytest.mark.parametrize(("ranks", "pairs"), [(0, 0), (1, 0), (2, 1), (12, 64)])
def test_there_are_as_many_contrasts_as_there_are_pairs_up_to_a_limit(ranks, pairs):
    contrast = Contrast(ranks)
    x = torch.randn(20, ranks, generator=torch.Generator().manual_seed(0))
    contrast.initialize(x, torch.ones_like(x, dtype=torch.bool))
    assert contrast(x).shape == (20, pairs)


RNG = np.random.default_rng(0)
HOLE = np.arange(60) % 4 == 0
TINY = {
    "one number": {"x": RNG.normal(size=60)},
    "one number of few values": {"n": RNG.integers(0, 4, 60)},
    "one number with holes": {"x": pa.array(RNG.normal(size=60), mask=HOLE)},
    "one category": {"c": np.array(list("abc"))[RNG.integers(0, 3, 60)]},
    "one boolean with holes": {"b": pa.array(RNG.random(60) < 0.5, mask=HOLE)},
    "only categories": {"c": np.array(list("abc"))[RNG.integers(0, 3, 60)], "b": RNG.random(60) < 0.3},
    "one number and one category": {"x": RNG.normal(size=60), "c": np.array(list("ab"))[RNG.integers(0, 2, 60)]},
    "two numbers": {"x": RNG.normal(size=60), "y": RNG.normal(size=60)},
    "a number that is hardly there": {"x": RNG.normal(size=60), "y": pa.array([0.5, 1.5] + [None] * 58)},
}


@pytest.mark.parametrize("columns", TINY.values(), ids=TINY)
def test_tables_with_few_ranks_or_none_are_learnt_filled_drawn_and_saved(columns, tmp_path):
    table = pa.table(columns)
    model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    empty = pa.table({field.name: pa.nulls(5, field.type) for field in table.schema})
    model.save(tmp_path / "m")
    loaded = Harpoon.load(tmp_path / "m", progress=False)
    for made in (model, loaded):
        for filled in (made.impute(table), made.impute(empty), made.sample(5), *made.impute(empty, draws=2)):
            assert filled.schema == table.schema
            assert all(column.null_count == 0 for column in filled.columns)
    assert loaded.sample(5).equals(model.sample(5))


def test_a_column_without_a_cell_stays_empty_beside_one_that_is_learnt():
    table = pa.table({"x": RNG.normal(size=60), "nothing": pa.nulls(60, pa.float64())})
    with pytest.warns(ColumnLeftOutWarning, match="empty"):
        model = Harpoon(hidden=16, max_epochs=2, random_state=0, progress=False).fit(table)
    assert model.impute(table)["nothing"].null_count == 60


@pytest.fixture(scope="module")
def trained():
    options = {"hidden": 64, "depth": 2, "batch_size": 256, "max_epochs": 150, "learning_rate": 3e-3}
    return Harpoon("anchored", random_state=0, progress=False, **options).fit(mixture_table(4000, seed=0))


@pytest.mark.parametrize("x", [-2.0, -0.5, 1.0, 2.0])
def test_one_evaluation_is_the_conditional_mean_and_the_class_probability(trained, x):
    holes = pa.table({"x": [x], "y": pa.nulls(1, pa.float64()), "c": pa.nulls(1, pa.string())})
    expected = trained.expect(holes)
    assert expected.numbers["y"][0] == pytest.approx(y_moments(x)[0], abs=0.3)
    assert expected.labels["c"] == ("a", "b")
    assert expected.probabilities["c"][0] == pytest.approx(class_probabilities(x), abs=0.12)
    filled = trained.impute(holes)
    assert filled["c"].to_pylist() == ["a" if expected.probabilities["c"][0, 0] > 0.5 else "b"]
    assert filled["y"].to_pylist() == [pytest.approx(expected.numbers["y"][0], abs=1e-6)]


@pytest.mark.parametrize("x", [-2.0, -0.5, 1.0, 2.0])
def test_draws_of_unknown_cells_follow_the_conditional_law(trained, x):
    drawn = trained.sample(2000, given={"x": x}, random_state=1)
    mean, deviation = y_moments(x)
    assert np.mean(drawn["y"]) == pytest.approx(mean, abs=0.3)
    assert np.std(drawn["y"]) == pytest.approx(deviation, rel=0.15)
    assert np.mean(np.asarray(drawn["c"]) == "a") == pytest.approx(class_probabilities(x)[0], abs=0.12)


def test_draws_follow_the_law(trained):
    drawn, truth = trained.sample(4000, random_state=1), mixture_table(200_000, seed=1)
    is_a = np.asarray(drawn["c"]) == "a"
    assert is_a.mean() == pytest.approx(CLASS_PROBABILITIES[0], abs=0.05)
    for name in ("x", "y"):
        assert np.mean(drawn[name]) == pytest.approx(np.mean(truth[name]), abs=0.15)
        assert np.std(drawn[name]) == pytest.approx(np.std(truth[name]), rel=0.07)
    assert np.mean(np.asarray(drawn["x"])[is_a]) == pytest.approx(CENTRES[0, 0], abs=0.2)


def test_gradient_angles_of_the_anchored_denoiser_stay_near_the_right_angle(trained):
    found = gradient_angles(trained, mixture_table(200, seed=2), times=[0.6, 0.4, 0.2, 0.1])
    for angles in found.values():
        assert np.all(np.abs(angles.mean - 90) < 35)


def test_training_on_an_incomplete_table_still_finds_the_conditional_law():
    table = mixture_table(4000, seed=0)
    rng = np.random.default_rng(99)  # not the table's own seed, or the holes would know the classes
    holes = {name: pa.array(table[name].to_pylist(), mask=rng.random(4000) < 0.3) for name in table.column_names}
    options = {"hidden": 64, "depth": 2, "batch_size": 256, "max_epochs": 100, "learning_rate": 3e-3}
    model = Harpoon("anchored", random_state=0, progress=False, **options).fit(pa.table(holes))
    for x in (-2.0, 1.0):
        question = pa.table({"x": [x], "y": pa.nulls(1, pa.float64()), "c": pa.nulls(1, pa.string())})
        expected = model.expect(question)
        assert expected.numbers["y"][0] == pytest.approx(y_moments(x)[0], abs=0.25)
        assert expected.probabilities["c"][0] == pytest.approx(class_probabilities(x), abs=0.12)


@pytest.fixture(scope="module")
def spiked():
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(3000) < 0.8, 0.0, rng.gamma(2, 500, 3000).round(2))
    hours = np.where(rng.random(3000) < 0.5, 40, rng.integers(1, 90, 3000))
    level = rng.integers(1, 6, 3000)
    table = pa.table({"gain": gain, "hours": hours, "level": level, "name": np.array(list("abcde"))[level - 1]})
    options = {"hidden": 64, "depth": 2, "max_epochs": 250, "max_time": 600, "learning_rate": 3e-3}
    return Harpoon("anchored", random_state=0, progress=False, **options).fit(table), table


def test_point_masses_are_drawn_as_often_as_they_occur(spiked):
    model, table = spiked
    drawn = model.sample(3000, random_state=0)
    assert np.mean(np.asarray(drawn["gain"]) == 0) == pytest.approx(0.8, abs=0.04)
    share = np.mean(np.asarray(table["hours"]) == 40)
    assert np.mean(np.asarray(drawn["hours"]) == 40) == pytest.approx(share, abs=0.05)
    assert drawn.schema == table.schema


def test_a_functional_dependency_survives(spiked):
    model, _ = spiked
    drawn = model.sample(2000, random_state=0)
    names = np.array(list("abcde"))[np.asarray(drawn["level"]) - 1]
    assert np.mean(names == np.asarray(drawn["name"])) > 0.95


def test_the_paper_s_denoiser_has_no_expectation(trained):
    table = mixture_table(50, seed=0)
    paper = Harpoon("paper", hidden=8, max_epochs=1, steps=3, random_state=0, progress=False).fit(table)
    with pytest.raises(InvalidOption, match="anchored"):
        paper.expect(table)
