"""Columns that determine each other agree in all sampled and imputed rows."""

import numpy as np
import pandas as pd
import pytest
import torch

from harpoon import Harpoon, load
from harpoon.exceptions import HarpoonError

STATES, COUNTRIES = 12, 4
STATE_OF = np.random.default_rng(1).permutation(np.arange(300) % STATES)
pytestmark = pytest.mark.filterwarnings("ignore::harpoon.CategoriesGroupedWarning")


def linked(city):
    """The state, the country and the code of the country that each city determines."""
    state = STATE_OF[city]
    return state, state % COUNTRIES, 10 * (state % COUNTRIES) + 3


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    city = np.concatenate([np.arange(300), random.integers(0, 300, 900)])
    state, country, code = linked(city)
    return pd.DataFrame(
        {
            "city": [f"city {c:03d}" for c in city],
            "state": [f"state {s}" for s in state],
            "country": [f"country {c}" for c in country],
            "code": code,
            "x": random.normal(size=len(city)) + country,
        }
    )


@pytest.fixture(scope="module")
def model(table):
    return Harpoon(hidden=32, depth=1, max_epochs=3, random_state=0, progress=False).fit(table)


def agree(rows):
    state, country, code = linked(rows["city"].str[5:].astype(int).to_numpy())
    pairs = (
        (rows["state"], [f"state {s}" for s in state]),
        (rows["country"], [f"country {c}" for c in country]),
        (rows["code"], code),
    )
    return all((column == expected).all() for column, expected in pairs)


def test_dependencies_are_listed(model):
    assert "state is determined by city (100 %)" in model.relations()
    assert "code is determined by country (100 %)" in model.relations()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ar_steps": 2},
        {"ar_steps": 0},
        {"given": {"country": "country 1"}},
        {"given": {"code": 23}},
        {"where": "x > 4", "strategy": "rejection"},
        {"where": "country = 'country 1' and x > 2", "strategy": "conditioning"},
        {"where": "state in ('state 1', 'state 2') or code < 10", "strategy": "conditioning"},
        {"where": "code = 13 and x < 0", "strategy": "guidance"},
        {"where": "x > 5"},
    ],
)
def test_all_sampled_rows_agree(model, options):
    rows = model.sample(100, random_state=0, **options)
    assert len(rows) == 100
    assert agree(rows)


@pytest.mark.parametrize("draws", [None, 2])
def test_all_imputed_rows_agree(model, table, draws):
    holes = table.mask(np.random.default_rng(2).random(table.shape) < 0.5)
    imputed = model.impute(holes, draws=draws, random_state=0)
    for rows in [imputed] if draws is None else imputed:
        assert agree(rows)
        kept = holes.notna()
        assert rows[kept].equals(table[kept])


def test_contradictory_observed_cells_are_kept(model):
    state, _, code = linked(np.array([7]))
    row = pd.DataFrame({"city": ["city 007"], "state": [f"state {(state[0] + 1) % STATES}"], "country": [None]})
    row = row.assign(code=pd.Series([None], dtype="Int64"), x=[0.5])
    imputed = model.impute(row)
    assert imputed[["city", "state", "x"]].equals(row[["city", "state", "x"]])
    assert imputed.notna().all().all()
    assert code[0] in {10 * c + 3 for c in range(COUNTRIES)}


def test_no_row_meets_a_condition_that_contradicts_a_dependency(model):
    _, country, _ = linked(np.array([7]))
    with pytest.raises(HarpoonError):
        model.sample(5, where=f"city = 'city 007' and country = 'country {(country[0] + 1) % COUNTRIES}'")


def test_a_saved_model_keeps_dependencies(model, tmp_path):
    model.save(tmp_path / "places.harpoon")
    loaded = load(tmp_path / "places.harpoon", progress=False)
    assert loaded.relations() == model.relations()
    assert torch.equal(loaded.denoiser_.exclusions.determined, model.denoiser_.exclusions.determined)
    assert loaded.sample(50, random_state=1).equals(model.sample(50, random_state=1))


def test_a_label_determines_a_number_and_the_other_way_round():
    random = np.random.default_rng(0)
    level = random.integers(0, 16, 600)
    names = np.array([f"level {n}" for n in random.permutation(16)])
    table = pd.DataFrame({"education": names[level], "education-num": level + 1, "age": random.integers(17, 90, 600)})
    model = Harpoon(hidden=16, depth=1, max_epochs=2, random_state=0, progress=False).fit(table)
    number_of = dict(zip(names, range(1, 17), strict=True))
    rows = model.sample(500, random_state=0)
    assert (rows["education"].map(number_of) == rows["education-num"]).all()
    holes = table.copy()
    holes.loc[::2, "education"] = None
    holes.loc[1::2, "education-num"] = np.nan
    pd.testing.assert_frame_equal(model.impute(holes), table, check_dtype=False)


def test_no_penguin_lives_where_its_species_does_not():
    palmerpenguins = pytest.importorskip("palmerpenguins")
    table = palmerpenguins.load_penguins()
    model = Harpoon(hidden=16, depth=1, max_epochs=2, random_state=0, progress=False).fit(table)
    rows = model.sample(1000, random_state=0)
    seen = set(zip(table["species"], table["island"], strict=True))
    assert set(zip(rows["species"], rows["island"], strict=True)) <= seen


def test_a_rare_label_keeps_its_implication():
    """Six rows with a label of three in ten are enough evidence, and two are not."""
    random, n = np.random.default_rng(0), 900
    maker, size = random.choice(list("abcd"), n), random.choice(["s", "m", "l"], n, p=[0.5, 0.3, 0.2])
    maker[:6], size[:6] = "r", "m"
    table = pd.DataFrame({"maker": maker, "size": size, "x": random.normal(size=n)})
    model = Harpoon(hidden=32, depth=1, max_epochs=3, random_state=0, progress=False).fit(table)
    assert (model.sample(300, given={"maker": "r"}, random_state=0)["size"] == "m").all()
    assert (model.sample(300, given={"size": "s"}, random_state=0)["maker"] != "r").all()
    hidden = table.assign(size=None)
    assert (model.impute(hidden)["size"][:6] == "m").all()
