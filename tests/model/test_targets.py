"""Targets for the table: DuckDB computes from the sampled rows what was asked for."""

import json

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harpoon import Harpoon, InfeasibleCondition, InvalidOption
from harpoon.apps.server.routes import create_app
from harpoon.inference.conditional import targets as targeting
from tests.support.cli import call

N = 120
ROUNDING = 1e-6
POOL = 2400  # rows: 20 for each of N
SQL = {
    "mean(x)": "avg(x)",
    "std(y)": "stddev(y)",
    "corr(x, y)": "corr(x, y)",
    "share(kind = 'a')": "avg((kind = 'a')::int)",
    "mean(count)": "avg(count)",
    "share(count > 2 or kind = 'b')": "avg((count > 2 or kind = 'b')::int)",
    "mean(least(x, count))": "avg(least(x, count))",
}


def make_table(rows=1500):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    x = rng.normal(np.where(kind == "a", -1.0, 1.0), 0.7)
    count = rng.poisson(np.exp(1 + 0.3 * x))
    return pa.table(
        {
            "x": x,
            "y": x + rng.normal(0, 1, rows),
            "kind": kind,
            "count": pa.array(count, mask=rng.random(rows) < 0.15),
        }
    )


@pytest.fixture(scope="module", autouse=True)
def small_pool():
    """Few rows are asked for, so that a pool of the usual size is much larger than needed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targeting, "MIN_POOL", POOL)
        yield


@pytest.fixture(scope="module")
def model(tools):
    return tools.fit(make_table())


def select(table, expressions):
    """Return what DuckDB computes."""
    return duckdb.from_arrow(table).aggregate(expressions).fetchall()[0]


def judge(table, texts):
    values = select(table, ", ".join(SQL[text] for text in texts))
    return dict(zip(texts, values, strict=True))


@pytest.fixture(scope="module")
def sorted_rows(model):
    return model.sample(200, random_state=9).sort_by("x")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_duckdb_finds_every_target_met(model, sorted_rows, data):
    texts = data.draw(st.lists(st.sampled_from(sorted(SQL)), min_size=1, max_size=3, unique=True))
    # Some rows of the model have these values, so that they can be met together.
    targets = judge(sorted_rows.slice(data.draw(st.integers(0, 50)), 150), texts)
    tolerance = data.draw(st.sampled_from([None, 0.03]))
    asked = {text: value if tolerance is None else (value, tolerance) for text, value in targets.items()}
    table = model.sample(N, targets=asked, random_state=data.draw(st.integers(0, 3)))
    assert table.num_rows == N
    scale = {"mean(count)": 3.0}  # its standard deviation is below that
    for text, value in judge(table, texts).items():
        allowed = max(0.02 * scale.get(text, 1.0), 1 / N) if tolerance is None else tolerance
        assert value == pytest.approx(targets[text], abs=allowed + ROUNDING)
        assert value == pytest.approx(model.sampling_info_.targets[text], abs=ROUNDING)


def test_rows_satisfy_the_condition_and_the_rules_as_well(model):
    ruled = model.with_rules(["kind = 'a' implies x < 1"])
    targets = {"mean(x)": 0.2, "share(kind = 'a')": 0.6}
    table = ruled.sample(N, where="y > -1", targets=targets, random_state=0)
    assert select(table, "count(*) filter (not y > -1 or (kind = 'a' and x >= 1))") == (0,)
    assert ruled.check(table).ok
    assert judge(table, targets) == pytest.approx(targets, abs=0.02)
    assert ruled.sampling_info_.rows == N


def test_given_cells_are_kept(model):
    table = model.sample(N, given={"kind": "c"}, targets={"mean(x)": 0.3}, random_state=0)
    assert set(table["kind"].to_pylist()) == {"c"}
    assert judge(table, ["mean(x)"])["mean(x)"] == pytest.approx(0.3, abs=0.02)


def test_every_row_is_a_row_of_the_pool_and_the_seed_decides(model):
    first, second = (model.sample(N, targets={"mean(x)": 0.4}, random_state=3) for _ in range(2))
    assert first.equals(second)
    assert not first.equals(model.sample(N, targets={"mean(x)": 0.4}, random_state=4))
    assert not first.equals(model.sample(N, targets={"mean(x)": 0.4}, random_state=3, row_offset=N))
    pool = set(model.sample(POOL, random_state=3)["x"].to_pylist())
    assert set(first["x"].to_pylist()) <= pool


def test_a_pool_may_be_smaller_than_usual_under_a_rare_condition(model):
    table = model.sample(20, where="kind = 'b' and x > 1.5", targets={"mean(y)": (1.9, 0.05)}, random_state=0)
    assert select(table, "count(*) filter (kind = 'b' and x > 1.5)") == (20,)


def test_an_impossible_condition_and_an_impossible_target_say_why(model, monkeypatch):
    monkeypatch.setattr(targeting, "MAX_SEARCH", 4000)  # rows
    with pytest.raises(InfeasibleCondition, match="cannot be met"):
        model.sample(5, where="x > 1 and x < 0", targets={"mean(y)": 0})
    with pytest.raises(InfeasibleCondition, match="it can be from 0 to 0"):
        model.sample(5, where="kind = 'b'", targets={"share(kind = 'a')": 0.5})
    empty = model.sample(5, where="x > 1 and x < 0", targets={"mean(y)": 0}, on_shortfall="return")
    assert empty.num_rows == 0


@pytest.mark.parametrize(
    "call_options",
    [
        {"loss_batch": lambda row: row["x"].mean()},
        {"where": "x > 0", "strategy": "paper"},
        {"given": pa.table({"kind": ["a"]})},
    ],
)
def test_arguments_that_exclude_targets_are_errors(model, call_options):
    with pytest.raises(InvalidOption, match="targets cannot be combined"):
        model.sample(targets={"mean(x)": 0}, **call_options)


def test_the_command_line_and_the_service_sample_the_same_rows(model, tmp_path, tools):
    path = tmp_path / "m.harpoon"
    model.save(path)
    targets = {"mean(x)": [0.4, 0.05], "share(kind = 'a')": 0.5}
    options = ("--target", "mean(x)=0.4+-0.05", "--target", "share(kind = 'a')=0.5", "--seed", 1)
    out = tmp_path / "rows.parquet"
    done = call("sample", path, "-n", 50, *options, "-o", out)
    assert done.code == 0, done.said
    assert "share(kind = 'a') = 0.5" in done.said
    expected = Harpoon.load(path, progress=False).sample(50, targets=targets, random_state=1)
    assert pa.parquet.read_table(out).to_pydict() == expected.to_pydict()
    with tools.serving(create_app(model)) as url:
        answer = requests.post(f"{url}/sample", json={"n": 50, "targets": targets, "seed": 1}, timeout=60).json()
    assert answer["sampling_info"]["targets"]["share(kind = 'a')"] == 0.5
    assert [row["x"] for row in answer["rows"]] == expected["x"].to_pylist()
    assert json.loads(json.dumps(answer["sampling_info"]))["rows"] == 50


@pytest.mark.parametrize("text", ["mean(x)", "mean(x)=much", "mean(x)=1+-"])
def test_a_target_without_a_number_is_an_error_of_the_command_line(model, tmp_path, text):
    path = tmp_path / "m.harpoon"
    model.save(path)
    done = call("sample", path, "--target", text)
    assert done.code != 0
    assert "AGGREGATE=VALUE" in done.said
