"""Every method of the bench on a small table: the contract, and what each is good for."""

import numpy as np
import pandas as pd
import pytest

from harpoon import Schema, metrics
from harpoon.exceptions import InfeasibleCondition, InvalidOption
from harpoon.metrics import masks
from harpoon_bench.baselines import METHODS, CannotDraw, CannotFill, kind_of, method
from harpoon_bench.baselines.base import Method
from harpoon_bench.datasets import with_holes
from harpoon_bench.measures import check_filled, off_grid

QUICK = {
    "anchored": {"hidden": 16, "max_epochs": 10},
    "guided": {"hidden": 16, "max_epochs": 3},
    "rejection": {"hidden": 16, "max_epochs": 3},
    "paper": {"hidden": 16, "max_epochs": 3, "diffusion_steps": 5, "sampling_steps": 5},
}
MINE = ("anchored", "guided", "rejection", "paper", "mean", "iterative", "knn", "real")


def table(rows, seed):
    """Numbers that follow from each other, labels that are numbers, texts and truths."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    frame = pd.DataFrame({"x": x, "twice": 2 * x + 0.1 * rng.normal(size=rows), "count": rng.integers(0, 5, rows)})
    frame["code"] = np.where(x > 0.3, 3, 7)
    frame["word"] = np.where(frame["count"] > 2, "many", "few")
    frame["sign"] = x > 0
    return frame


@pytest.fixture(scope="module")
def data():
    train, test = table(300, 0), table(80, 1)
    schema = Schema.infer(train, kinds={"code": "category", "word": "category", "sign": "category"})
    mask = masks.sample_mask("MCAR", test, 0.3, seed=0)
    return train, test, schema, mask


@pytest.fixture(scope="module")
def fitted(data):
    """Each method, trained when it is first asked for."""
    train, _, schema, _ = data
    made = {}

    def get(name):
        if name not in made:
            made[name] = method(name, **QUICK.get(name, {})).fit(train, schema)
        return made[name]

    return get


@pytest.mark.parametrize("name", [name for name in MINE if name != "real"])
def test_a_method_fills_every_hole_and_nothing_else(fitted, data, name):
    _, test, schema, mask = data
    holes = with_holes(test, mask).set_axis(range(7, 87))
    before = holes.copy()
    answer = fitted(name).impute(holes)
    pd.testing.assert_frame_equal(holes, before)
    check_filled(holes, answer)
    for column in schema.modelled:
        if column.kind.discrete:
            assert set(answer[column.name]) <= set(column.labels)


@pytest.mark.parametrize("name", ["iterative", "knn"])
def test_plain_imputers_learn_what_the_mean_does_not(fitted, data, name):
    train, test, schema, mask = data
    holes, plain = with_holes(test, mask), off_grid(schema)
    scores = {
        one: (
            metrics.standardised_mse(plain, test, fitted(one).impute(holes), mask, train),
            metrics.accuracy(plain, test, fitted(one).impute(holes), mask),
        )
        for one in (name, "mean")
    }
    assert scores[name][0] < 0.8 * scores["mean"][0]
    assert scores[name][1] > scores["mean"][1]


def test_iterative_goes_through_more_than_one_round(fitted):
    assert fitted("iterative").fitted.n_iter_ > 1


def test_neighbours_answer_as_a_search_by_hand(fitted, data):
    train, test, _, _ = data
    holes = test.head(1).copy()
    holes["twice"] = np.nan
    spread = fitted("knn").spread
    known = np.delete(spread.numbers(train), 1, axis=1)
    distances = np.linalg.norm(known - np.delete(spread.numbers(holes), 1, axis=1), axis=1)
    expected = train["twice"].iloc[np.argsort(distances)[:5]].mean()
    assert fitted("knn").impute(holes)["twice"].iloc[0] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["anchored", "guided", "rejection", "real"])
def test_drawn_rows_meet_the_condition(fitted, name):
    rows = fitted(name).sample(30, "word = 'many' and count >= 3")
    assert len(rows) == 30
    assert (rows["word"] == "many").all()
    assert (rows["count"] >= 3).all()


def test_strategies_are_what_their_names_say(fitted):
    for name, strategy in (("guided", "guided"), ("rejection", "kept"), ("paper", "paper")):
        fitted(name).sample(20, "x > 0")
        assert fitted(name).facts()["report"]["strategy"] == strategy


def test_the_paper_preset_takes_its_variants(data):
    train, _, schema, _ = data
    variants = {"loss": "mse+ce", "guidance_schedule": "linear", "encoding": "integer", "scaling": "quantile"}
    chosen = method("paper", **QUICK["paper"], **variants).fit(train, schema)
    assert (chosen.model.settings_.encoding, chosen.model.settings_.scaling) == ("integer", "quantile")
    assert chosen.asked() == {"loss": "mse+ce", "guidance_schedule": "linear", "sampling_steps": 5}
    with pytest.raises(InvalidOption, match="Did you mean 'loss'"):
        method("paper", los="mse")


def test_a_budget_ends_the_training(data):
    train, _, schema, _ = data
    chosen = method("anchored", budget=0.2, hidden=16).fit(train, schema)
    assert chosen.facts()["stopped_by"] == "time"


def test_real_rows_are_those_of_the_training(fitted, data):
    train, _, _, _ = data
    rows = fitted("real").sample(len(train))
    pd.testing.assert_frame_equal(rows.sort_values("x", ignore_index=True), train.sort_values("x", ignore_index=True))
    assert len(fitted("real").sample(1000)) == 1000
    with pytest.raises(InfeasibleCondition, match="No training row"):
        fitted("real").sample(5, "x > 100")
    with pytest.raises(CannotFill, match="cannot fill"):
        fitted("real").impute(train)


def test_what_only_fills_says_so(fitted):
    with pytest.raises(CannotDraw, match="cannot draw 5 rows with x > 0"):
        fitted("knn").sample(5, "x > 0")


@pytest.mark.parametrize("name", MINE)
def test_names_are_what_the_list_says(name):
    kind = kind_of(name)
    assert issubclass(kind, Method)
    assert kind.name == name
    assert kind.trained_as is None or kind.trained_as in METHODS


def test_a_name_that_is_none():
    with pytest.raises(InvalidOption, match="Did you mean 'anchored'"):
        method("anchord")
