"""Support, calibration and grades reach Python, the command line, reports and the service."""

import json
import warnings
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
import requests
from scipy.stats import beta
from scipy.stats import t as student

from harpoon import ExtrapolationWarning, Harpoon, ShortTrainingWarning, load
from harpoon.apps.server.routes import create_app
from harpoon.engines.job import ImputeRequest, SampleJob
from harpoon.inference.diagnostics.support import MIN_SUPPORT_ROWS
from harpoon.report import Page, describe, evaluate
from harpoon.training.trainer import MIN_EPOCHS
from tests.support.cli import call
from tests.support.frames import fit
from tests.support.server import serving
from tests.support.studio import people

TABLE = people()
NEVER = "age < 20 and income > 2200"  # incomes grow with age
OFTEN = "age >= 40"
MET = duckdb.from_arrow(TABLE).filter(OFTEN).count("*").fetchall()[0][0]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("support")
    model = fit(TABLE, hidden=32, max_epochs=15)
    model.save(folder / "m.harpoon")
    pa.csv.write_csv(TABLE, folder / "t.csv")
    return SimpleNamespace(model=model, file=folder / "m.harpoon", table=folder / "t.csv", folder=folder)


# Python


def test_every_conditional_call_warns_of_an_extrapolation(work):
    loaded = load(work.file, progress=False)
    calls = (
        lambda: loaded.sample(3, where=NEVER, on_shortfall="return", random_state=0),
        lambda: loaded.sample(3, given={"age": 18, "income": 4000.0}, random_state=0),
        lambda: loaded.feasibility(NEVER, random_state=0),
        lambda: loaded.impute(TABLE.slice(0, 0), where=NEVER),
        lambda: SampleJob.create(3, loaded, where=NEVER),
        lambda: ImputeRequest.create(loaded, where=NEVER),
    )
    for ask in calls:
        with pytest.warns(ExtrapolationWarning, match="training rows"):
            ask()


def test_imputation_has_support_also_if_no_row_has_to_be_completed(work):
    work.model.impute(TABLE, where="age > 0")
    assert work.model.sampling_info_.support.count == pytest.approx(TABLE.num_rows)
    assert work.model.sampling_info_.rows == 0


def test_the_interval_of_feasibility_contains_the_posterior_of_the_training_count(work):
    found = work.model.feasibility(OFTEN, data=TABLE, random_state=0)
    posterior = beta(MET + 0.5, TABLE.num_rows - MET + 0.5)
    assert found.interval[0] <= posterior.ppf(0.025) + 1e-12
    assert found.interval[1] >= posterior.ppf(0.975) - 1e-12
    assert found.support.exact == MET


def test_given_cells_leave_few_rows_to_learn_from(work):
    wide, narrow = (work.model.feasibility("member", given=given, random_state=0) for given in ({"age": 30}, None))
    assert wide.support.given_rows < 20 < narrow.support.given_rows
    assert wide.interval[1] - wide.interval[0] > 2 * (narrow.interval[1] - narrow.interval[0])


def test_a_training_that_its_time_limit_stops_early_warns(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(4000, 3)), columns=list("xyz"))
    with pytest.warns(ShortTrainingWarning, match="longer max_time") as caught:
        model = Harpoon(max_time=0.01, random_state=0, progress=False).fit(table)
    assert caught[0].filename == __file__
    assert model.history_.epochs[-1].number < MIN_EPOCHS
    table.to_csv(tmp_path / "t.csv", index=False)
    done = call("fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--max-time", "0.01", "--json")
    assert "Note: The time limit stopped the training after" in done.said
    assert "--max-time" in done.said
    assert json.loads(done.out)["calibration"]


# Command line


def test_the_command_line_says_how_many_rows_support_an_answer(work):
    out = work.folder / "out.csv"
    commands = {
        "sample": ("sample", work.file, "-n", 3, "--allow-fewer", "--where", NEVER, "-o", out, "-f"),
        "check": ("check", work.file, "--where", NEVER),
        "impute": ("impute", work.file, work.table, "--where", "age > 0", "-o", out, "-f"),
    }
    for name, command in commands.items():
        done = call(*command, "--seed", 0, "--json")
        support = json.loads(done.out)["support"]
        assert support["rows"] == TABLE.num_rows, done.said
        assert support["is_extrapolation"] == (name != "impute")
        assert ("Note: Extrapolation: the condition" in done.said) == (name != "impute")


def test_an_engine_says_it_too(work):
    out = work.folder / "rows.parquet"
    done = call("sample", work.file, "-n", 5, "--where", OFTEN, "--engine", "local", "-o", out, "-f", "--json")
    assert json.loads(done.out)["support"]["estimate"] == pytest.approx(MET, abs=6)


def test_info_shows_the_calibration(work):
    assert json.loads(call("info", work.file, "--json").out)["grade"] == work.model.calibration_.grade
    assert str(work.model.calibration_) in call("info", work.file).out.decode()


# Reports


def test_a_report_has_support_and_grade_of_its_condition(work):
    summary = evaluate(work.model, TABLE, where=OFTEN, rows=300, random_state=0)
    found = summary["condition"]
    assert found["support"]["estimate"] == pytest.approx(MET, abs=6)
    assert found["agreement"]["rows"] == MET
    assert found["agreement"]["grade"] in "ABCD"
    page = Page(summary).html
    assert f"<b>Grade {found['agreement']['grade']}</b>" in page
    assert "<b>Support</b>" in page
    assert summary["training"]["calibration"] == str(work.model.calibration_)
    assert "Calibration" in page
    income = next(one for one in found["what_if"] if one["name"] == "income")
    assert income["interval"][0] < income["interval"][1]
    assert income["interval_text"] in page.replace("\N{NO-BREAK SPACE}", " ")
    excess = [max((one["effect"] or 0) - one["noise"], 0) for one in found["what_if"]]
    assert excess == sorted(excess, reverse=True)


@pytest.mark.parametrize("given", ["test rows", "training rows", "no rows"])
def test_a_report_of_a_condition_on_two_columns_has_intervals_where_rows_are_at_hand(work, given):
    where = "age between 30 and 70 and income > 1500"
    met = duckdb.from_arrow(TABLE).filter(where).to_arrow_table()
    half = TABLE.slice(0, 40)
    if given == "no rows":
        summary = describe(work.model, where=where, rows=200, random_state=0)
    else:
        test, train = (TABLE, None) if given == "test rows" else (half, TABLE)
        summary = evaluate(work.model, test, train=train, where=where, rows=200, random_state=0)
    page = " ".join(Page(summary).html.replace("\N{NO-BREAK SPACE}", " ").split())
    changes = {one["name"]: one for one in summary["condition"]["region"] + summary["condition"]["what_if"]}
    if given == "no rows":
        assert {one["interval"] for one in changes.values()} == {None}
        assert "There are no intervals" in page
        return
    whose = "the training rows" if given == "training rows" else "the real rows that satisfy the condition"
    assert f"Intervals contain the error of {whose} and of the simulation." in page
    low, high = changes["income"]["interval"]
    income = met["income"].to_numpy()
    half_width = student.ppf(0.975, len(income) - 1) * income.std(ddof=1) / np.sqrt(len(income))
    assert low <= income.mean() - half_width * 0.999
    assert high >= income.mean() + half_width * 0.999
    assert all(one["interval_text"] for one in summary["condition"]["what_if"])


def test_a_report_of_an_extrapolation_has_a_banner(work):
    summary = describe(work.model, where="age < 24 and income > 1990", rows=200, random_state=0)
    assert summary["condition"]["support"]["is_extrapolation"]
    assert summary["condition"]["agreement"]["grade"] == "D"
    assert "<b>Extrapolation</b>" in Page(summary).html


def test_a_rare_condition_is_graded_by_all_real_rows_although_few_rows_are_used(work):
    where = "age between 40 and 44"
    met = duckdb.from_arrow(TABLE).filter(where).count("*").fetchall()[0][0]
    many = pa.concat_tables([TABLE] * -(-60 // met))
    found = evaluate(work.model, many, where=where, rows=100, train=TABLE, random_state=0)["condition"]
    assert found["real_rows"] == met * many.num_rows // TABLE.num_rows >= 60
    assert found["real_fraction"] == pytest.approx(met / TABLE.num_rows)
    assert found["agreement"]["source"] == "real rows"
    assert found["agreement"]["grade"]
    assert found["support"]["exact"] == met


def test_a_report_with_the_training_table_counts_and_warns_once(work):
    where = "age < 24 and income > 1950"
    met = duckdb.from_arrow(TABLE).filter(where).count("*").fetchall()[0][0]
    assert met < MIN_SUPPORT_ROWS
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExtrapolationWarning)
        summary = evaluate(work.model, TABLE, where=where, rows=100, train=TABLE, random_state=0)
    (message,) = (str(one.message) for one in caught if issubclass(one.category, ExtrapolationWarning))
    assert f"is met by {met} of {TABLE.num_rows} training rows" in message
    page = " ".join(Page(summary).html.split())
    assert f"{met} of {TABLE.num_rows} training rows satisfy it." in page
    assert f"About {met} of" not in page


def test_a_model_alone_has_a_grade_that_says_where_it_comes_from(work):
    model = fit(pa.concat_tables([TABLE] * 4), hidden=32)
    found = describe(model, where=OFTEN, rows=200, random_state=0)
    own = model.calibration_.grade
    assert own
    assert found["condition"]["agreement"]["source"] == "model"
    assert found["condition"]["agreement"]["grade"] == own
    assert "calibration and support, not from a comparison with real rows" in Page(found).html.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    model.sample(5, where=OFTEN, random_state=0)
    assert model.sampling_info_.own_grade.grade == own
    assert "not from a comparison with real rows" in str(model.sampling_info_)
    model.save(work.folder / "own.harpoon")
    done = call("sample", work.folder / "own.harpoon", "-n", 3, "--where", OFTEN, "-o", work.folder / "own.csv")
    assert "not from a comparison with real rows" in done.said
    with serving(create_app(model, name="people")) as url:
        shown = requests.post(f"{url}/profile", json={"where": OFTEN, "n": 100, "seed": 0}, timeout=60).json()
    assert shown["agreement"]["grade"] == shown["sampling_info"]["own_grade"]["grade"] == own
    assert "not from a comparison with real rows" in shown["agreement"]["sentence"]


# Service


@pytest.fixture(scope="module", params=["with the table", "alone"])
def url(request, work):
    data = TABLE if request.param == "with the table" else None
    with serving(create_app(work.model, name="people", data=data)) as url:
        yield url


def test_the_service_says_it_in_every_answer(work, url):
    body = {"where": OFTEN, "n": 20, "seed": 0}
    has_table = requests.get(f"{url}/schema", timeout=9).json()["real_rows"] is not None
    support = work.model.support(OFTEN, data=TABLE if has_table else None).to_json()
    assert support["exact"] == (MET if has_table else None)
    for route in ("profile", "feasibility"):
        asked = {"where": OFTEN, "seed": 0} if route == "feasibility" else body
        assert requests.post(f"{url}/{route}", json=asked, timeout=60).json()["support"]["exact"] == support["exact"]
    sampled = requests.post(f"{url}/sample", json=body, timeout=60)
    assert sampled.json()["support"] == support
    assert sampled.json()["notes"] == []
    rows = requests.post(f"{url}/sample", json=body, headers={"Accept": "text/csv"}, timeout=60)
    assert json.loads(rows.headers["X-Harpoon-Support"]) == support
    never = requests.post(f"{url}/feasibility", json={"where": NEVER, "seed": 0}, timeout=60).json()
    assert never["support"]["is_extrapolation"]
    assert never["notes"][0].startswith("Extrapolation: ")
    assert requests.get(f"{url}/schema", timeout=9).json()["calibration"]["sentence"] == str(work.model.calibration_)
    assert requests.post(f"{url}/sample", json={"n": 2}, timeout=60).json()["support"] is None


def test_a_profile_has_intervals_and_with_the_table_a_grade(url):
    found = requests.post(f"{url}/profile", json={"where": OFTEN, "n": 200, "seed": 0}, timeout=60).json()
    posterior = beta(MET + 0.5, TABLE.num_rows - MET + 0.5)
    assert found["interval"][0] <= posterior.ppf(0.025) + 0.01
    assert found["interval"][1] >= posterior.ppf(0.975) - 0.01
    assert {column["name"]: column["interval"] is not None for column in found["columns"]}["income"]
    if found["real"] is None:
        assert found["agreement"]["source"] == "model"
        assert found["agreement"]["sentence"].startswith("No grade: the model has none of its own")  # of few cells
    else:
        assert found["real"]["rows"] == found["agreement"]["rows"] == MET
        assert found["agreement"]["sentence"].startswith(f"Grade {found['agreement']['grade']}: ")


def test_intervals_under_two_columns_need_the_table(url):
    where = "age >= 40 and job = 'pilot'"
    found = requests.post(f"{url}/profile", json={"where": where, "n": 100, "seed": 0}, timeout=60).json()
    income = next(column for column in found["columns"] if column["name"] == "income")
    assert (income["interval"] is None) == (found["real"] is None)


def test_a_condition_on_three_columns_has_an_answer_on_every_route(url):
    """Its support is the model's probability, which must be plain data."""
    where = "age >= 30 and income > 0 and member"
    for route in ("profile", "sample", "feasibility"):
        body = {"where": where} if route == "feasibility" else {"where": where, "n": 20, "seed": 0}
        answer = requests.post(f"{url}/{route}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        assert answer.json()["support"]["is_extrapolation"] is False
