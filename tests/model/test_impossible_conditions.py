"""A condition that no row can satisfy has a plain reason before any row is sampled: in Python, CLI and service."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import requests
from typer.testing import CliRunner

from harpoon import InfeasibleCondition, load
from harpoon.apps.cli import app
from harpoon.apps.cli.rules import IMPOSSIBLE
from harpoon.apps.server.routes import create_app
from harpoon.inference.sampling.row_sampler import RowSampler
from tests.support.frames import fit
from tests.support.server import serving

CITIES = ["Berlin", "Bonn", "Lyon", "Milan", "Nice", "Paris", "Rome", "Turin"]
COUNTRY_OF = ["Germany", "Germany", "France", "Italy", "France", "France", "Italy", "Italy"]
ZONE = "America/New_York"
REASONS = {
    "city = 'Paris' and age > 20 and country = 'Italy'": "city = 'Paris' and country = 'Italy' exclude each other, "
    "because city = 'Paris' is only found with country = 'France'",
    "country = 'France' and code = 39": "because country = 'France' is only found with code = 33",
    "sex = 'm' and pregnant = 'yes'": "because sex = 'm' is only found with pregnant = 'no'",
    "age = 30.5": "because age is an integer",
    "age > 30 and age < 31": "age > 30 and age < 31 exclude each other, because age is an integer",
    "rating > 2 and rating < 3": "rating > 2 and rating < 3 exclude each other, because rating is an integer",
    "low > high": "because high is from 2 to 3 and low is from 0 to 1 in the training table",
    "total < part and city = 'Paris'": "total < part is never true, because",
    "part = 3.333": "because part is a multiple of 0.01",
    "finish < start": "because finish - start is from 1 hour to 4 hours in the training table",
    "start > '2024-06-01' and age > 20": "because start is from 2024-01-01 08:00 to 2024-04-09",
    "hour(start) = 3 and age > 20": "hour(start) = 3 is never true, because hour(start) is from 8 to 12",
}


def make_table(rows=600):
    rng = np.random.default_rng(0)
    city, sex = rng.integers(0, len(CITIES), rows), rng.choice(["m", "f"], rows)
    country = np.array(COUNTRY_OF)[city]
    cents, rest = rng.integers(0, 5000, (2, rows))
    days = np.append([0], rng.integers(0, 100, rows - 1))
    start = pd.Timestamp("2024-01-01 08:00") + pd.to_timedelta(days * 24 + np.arange(rows) % 5, unit="h")
    return pd.DataFrame(
        {
            "city": np.array(CITIES)[city],
            "country": country,
            "code": pd.Series(country).map({"France": 33, "Italy": 39, "Germany": 49}),
            "age": rng.integers(18, 80, rows),
            "rating": rng.integers(1, 6, rows),
            "part": cents / 100,
            "rest": rest / 100,
            "total": (cents + rest) / 100,
            "sex": sex,
            "pregnant": np.where((sex == "f") & (rng.random(rows) < 0.4), "yes", "no"),
            "low": np.append([0.0, 1.0], rng.random(rows - 2)),
            "high": np.append([2.0, 3.0], 2 + rng.random(rows - 2)),
            "start": start.tz_localize(ZONE),
            "finish": start.tz_localize(ZONE) + pd.to_timedelta(1 + np.arange(rows) // 5 % 4, unit="h"),
        }
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("impossible") / "m.harpoon"
    fit(make_table()).save(path)
    return path


@pytest.fixture
def model(file, monkeypatch):
    """A loaded model that cannot sample."""

    def fail(*_, **__):
        raise AssertionError("rows were sampled")

    monkeypatch.setattr(RowSampler, "sample", fail)
    return load(file, progress=False)


CONTRADICTIONS = [
    "age > 30 and age < 31",
    "rating > 2 and rating < 3",
    "low > high and low < high",
    "city = 'Paris' and city = 'Rome'",
    "age > 50 and age < 40 or code = 33 and code = 39",
]


@pytest.mark.parametrize("where", CONTRADICTIONS)
def test_a_contradiction_has_probability_zero_in_every_table(model, where):
    found = model.feasibility(where)
    assert found.support.is_contradiction
    assert found.interval == (0, 0)
    assert "interval" not in str(found)


NOT_SEEN = [where for where in REASONS if where not in (*CONTRADICTIONS, "age = 30.5")]


@pytest.mark.parametrize("where", [*NOT_SEEN, "age > 999", "city like 'Z%'"])
def test_what_no_training_row_is_may_still_exist(model, where):
    """0 of 600 rows leave a probability of up to 1 - 0.05^(1/600): a number beyond the range is not disproved."""
    found = model.feasibility(where)
    assert found.support.is_impossible
    assert not found.support.is_contradiction
    assert found.interval == (0, pytest.approx(1 - 0.05 ** (1 / 600)))
    assert "95 % interval 0 % to 0.498 %, for 600 training rows)" in str(found)


@pytest.mark.parametrize("where", REASONS)
def test_python_says_why_without_sampling(model, where):
    with pytest.raises(InfeasibleCondition) as error:
        model.sample(5, where=where)
    assert REASONS[where] in str(error.value)
    with pytest.raises(InfeasibleCondition):
        model.impute(make_table(3).map(lambda _: None), where=where)
    found = model.feasibility(where)
    assert found.probability == found.interval[0] == 0
    assert REASONS[where] in found.suggestion
    assert str(found).splitlines()[1].startswith("  No row can satisfy it: ")
    assert "xtrapolation" not in str(found)
    assert model.support(where).is_impossible
    assert len(model.sample(5, where=where, on_shortfall="return")) == 0


def test_the_part_that_is_never_true_has_the_probability_0(model):
    parts = {part.text: part.probability for part in model.feasibility("hour(start) = 3 and age > 20").parts}
    assert parts["hour(start) = 3"] == 0 < parts["age > 20"]


def test_times_are_written_as_the_clocks_of_their_zone_show_them(model):
    described = next(line for line in str(model.schema_).splitlines() if line.startswith("start"))
    assert "2024-01-01 08:00 to 2024-04-09 " in described
    assert described.endswith(f"({ZONE})")
    texts = " ".join(rule.text for rule in model.rules() if "start" in rule.text)
    assert "timestamptz '2024-01-01 08:00:00-05:00'" in texts


def test_given_cells_count_too(model):
    with pytest.raises(InfeasibleCondition, match="city = 'Paris' is only found with country = 'France'"):
        model.sample(5, where="country = 'Italy'", given={"city": "Paris"})


def test_observed_cells_that_contradict_a_rule_are_kept(file):
    table = make_table(3).assign(city="Paris", country="Italy", age=None)
    filled = load(file, progress=False).impute(table, where="city = 'Paris' and country = 'Italy'")
    assert filled["age"].notna().all()


def test_the_command_line_says_why(model, file, tmp_path):
    where = "city = 'Paris' and country = 'Italy'"
    for arguments in (["sample", file, "--where", where, "-o", tmp_path / "x.csv"], ["check", file, "--where", where]):
        done = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, [str(one) for one in arguments])
        assert done.exit_code == IMPOSSIBLE
        assert "only found with country = 'France'" in done.stdout + done.stderr


def test_the_service_says_why(file, monkeypatch):
    served = create_app(load(file, progress=False), data=pa.Table.from_pandas(make_table()))
    monkeypatch.setattr(RowSampler, "sample", None)
    where = "total < part and age > 20"
    with serving(served) as address:
        sampled = requests.post(f"{address}/sample", json={"where": where, "n": 5}, timeout=60)
        found = requests.post(f"{address}/feasibility", json={"where": where}, timeout=60).json()
        shown = requests.post(f"{address}/profile", json={"where": where}, timeout=60).json()
    assert sampled.status_code == 400
    for text in (json.dumps(sampled.json()), found["suggestion"]):
        assert "total < part is never true, because" in text
        assert "in every training row" in text
    assert found["message"] == found["suggestion"]
    assert shown["rows"] == 0
    assert shown["interval"] == [0, pytest.approx(1 - 0.05 ** (1 / 600))]
    assert shown["agreement"]["grade"] == ""
    for answer in (found, shown):
        assert answer["support"]["is_impossible"]
        assert not answer["support"]["is_extrapolation"]
        assert answer["notes"] == []
