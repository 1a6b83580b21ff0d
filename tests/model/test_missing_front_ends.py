"""Sampled rows have missing cells as the training table has: command line, service, engines, report and plots."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import requests

from harpoon import InvalidOption, plots
from harpoon.apps.server.routes import create_app
from harpoon.engines import local
from harpoon.report import Page, describe, evaluate
from tests.support.cli import call
from tests.support.frames import fit

NULLABLE = ("spouse_age", "score", "word")


def households(rows=400, seed=0):
    """Only couples have a spouse; a fifth of the scores and nearly all words are missing."""
    rng = np.random.default_rng(seed)
    couple = rng.random(rows) < 0.6
    frame = pd.DataFrame({"home": np.where(couple, "couple", "single"), "age": rng.integers(20, 80, rows)})
    frame["spouse_age"] = np.where(couple, frame["age"] + rng.integers(-3, 4, rows), np.nan)
    frame["score"] = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(0, 1, rows).round(2))
    frame["word"] = pd.Series(np.where(rng.random(rows) < 0.95, None, rng.choice(["yes", "no"], rows)), dtype=object)
    return frame


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder, table = tmp_path_factory.mktemp("work"), households()
    model = fit(table, hidden=32, max_epochs=20)
    model.save(folder / "model.harpoon")
    return SimpleNamespace(folder=folder, table=table, model=model, file=folder / "model.harpoon")


def assert_same_where_observed(incomplete, complete):
    """Assert that rows are equal, except that missing cells of the first are filled in the second."""
    assert incomplete[list(NULLABLE)].isna().any().all()
    assert complete.notna().all(axis=None)
    pd.testing.assert_frame_equal(incomplete, complete.where(incomplete.notna()), check_dtype=False)


# Command line


def sampled(work, *arguments):
    done = call("sample", work.file, "-n", 200, "--seed", 1, *arguments)
    assert done.code == 0, done.said
    return pd.read_csv(io.BytesIO(done.out))


def test_the_command_samples_missing_cells_and_fills_them_if_asked(work):
    assert_same_where_observed(sampled(work), sampled(work, "--complete"))
    assert sampled(work, "--complete")["age"].tolist() == work.model.sample(200, random_state=1)["age"].tolist()


def test_a_given_column_without_a_value_is_missing(work):
    rows = sampled(work, "--given", "score=", "--given", "home=couple")
    assert rows["score"].isna().all()
    assert set(rows["home"]) == {"couple"}
    refused = call("sample", work.file, "--given", "age=")
    assert refused.code == 2
    assert "never missing" in refused.said
    checked = call("check", work.file, "--where", "score is null", "--given", "score=", "--json")
    assert json.loads(checked.out)["probability"] == 1


def test_a_file_keeps_the_type_of_a_column_without_values(work, tmp_path):
    assert call("sample", work.file, "-n", 3, "--given", "word=", "-o", tmp_path / "rows.parquet").code == 0
    assert pq.read_schema(tmp_path / "rows.parquet").field("word").type == pa.string()


# Engines


@pytest.mark.parametrize("missing", ["as_trained", "complete"])
def test_rows_of_an_engine_do_not_depend_on_the_block_size(work, tmp_path, missing):
    whole = work.model.sample(60, missing=missing, random_state=2)
    for size in (7, 50, 1000):  # most blocks of 7 rows have no word at all
        out = local.sample(60, work.model, tmp_path / f"{size}", missing=missing, block_size=size, random_state=2)
        rows = pq.read_table(out).to_pandas()
        pd.testing.assert_frame_equal(rows, whole, check_dtype=False)
    local.sample(60, work.model, tmp_path / "rows.parquet", missing=missing, block_size=7, random_state=2)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rows.parquet"), whole, check_dtype=False)


def test_an_engine_refuses_other_words_and_runs_the_flag_of_the_command(work, tmp_path):
    with pytest.raises(InvalidOption, match="missing"):
        local.sample(5, work.model, tmp_path / "rows", missing="filled")
    arguments = ("--complete", "--engine", "local", "-o", tmp_path / "rows.csv")
    assert call("sample", work.file, "-n", 60, "--seed", 2, *arguments).code == 0
    rows = pd.read_csv(tmp_path / "rows.csv")
    pd.testing.assert_frame_equal(
        rows, work.model.sample(60, missing="complete", random_state=2), check_dtype=False, check_exact=False
    )


# Service


@pytest.fixture(scope="module")
def url(work, tools):
    with tools.serving(create_app(work.model)) as address:
        yield address


def ask(url, path, body, accept="application/json"):
    answer = requests.post(url + path, json=body, headers={"Accept": accept}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


def test_rows_of_the_service_have_nulls_in_every_format(url):
    question = {"n": 150, "seed": 3}
    rows = pd.DataFrame(ask(url, "/sample", question).json()["rows"])
    complete = pd.DataFrame(ask(url, "/sample", {**question, "missing": "complete"}).json()["rows"])
    assert_same_where_observed(rows, complete)
    stream = ask(url, "/sample", question, "application/vnd.apache.arrow.stream")
    arrow = pa.ipc.open_stream(stream.content).read_all()
    text = ask(url, "/sample", question, "text/csv")
    empty = pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    parsed = pa.csv.read_csv(io.BytesIO(text.content), convert_options=empty)
    for name in NULLABLE:
        assert arrow[name].null_count == parsed[name].null_count == rows[name].isna().sum() > 0


def test_a_given_null_is_a_missing_cell(url):
    rows = ask(url, "/sample", {"n": 20, "given": {"score": None}}).json()["rows"]
    assert {row["score"] for row in rows} == {None}
    told = ask(url, "/feasibility", {"where": "score is not null", "given": {"score": None}}).json()
    assert told["probability"] == 0


def test_another_word_is_refused(url):
    answer = requests.post(f"{url}/sample", json={"n": 1, "missing": "filled"}, timeout=60)
    assert answer.status_code == 422
    assert "as_trained" in answer.text


def test_the_schema_tells_which_columns_have_missing_cells(url, work):
    columns = {one["name"]: one for one in requests.get(f"{url}/schema", timeout=60).json()["columns"]}
    assert {name for name, one in columns.items() if one["nullable"]} == set(NULLABLE)
    for name, one in columns.items():
        assert one["before"]["missing"] == pytest.approx(work.table[name].isna().mean(), abs=0.12)
        assert sum(one["before"]["fractions"]) == pytest.approx(1)


def test_a_profile_counts_missing_cells_or_fills_them(url):
    question = {"where": "home = 'single'", "n": 300, "show": 300}
    told, filled = (ask(url, "/profile", {**question, "missing": word}).json() for word in ("as_trained", "complete"))
    as_trained, complete = ({one["name"]: one for one in answer["columns"]} for answer in (told, filled))
    assert as_trained["spouse_age"]["after"]["missing"] == 1
    assert as_trained["spouse_age"]["before"]["missing"] == pytest.approx(0.4, abs=0.12)
    assert as_trained["spouse_age"]["sentence"] == "no cells"
    assert {one[when]["missing"] for one in complete.values() for when in ("before", "after")} == {0}
    assert complete["score"]["before"]["edges"] == as_trained["score"]["before"]["edges"]  # as in /schema
    assert all(value is not None for row in filled["sampled"] for value in row.values())
    nulls = {"where": "spouse_age is null", "n": 50}
    assert ask(url, "/profile", nulls).json()["probability"] == pytest.approx(0.4, abs=0.12)
    assert ask(url, "/profile", {**nulls, "missing": "complete"}).json()["probability"] == 0


# Report and plots


def test_a_report_shows_the_fractions_of_missing_cells(work):
    test = households(seed=1)
    summary = evaluate(work.model, test, train=work.table, where="spouse_age is null", rows=300, random_state=0)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    pictures = {one["name"]: one["picture"] for one in summary["marginals"]}
    for name in test:
        of_real, of_synthetic = pictures[name]["missing"]["real"], pictures[name]["missing"]["synthetic"]
        assert of_real == pytest.approx(test[name].isna().mean(), abs=0.06)
        assert of_synthetic == pytest.approx(test[name].isna().mean(), abs=0.12)
    (region,) = summary["condition"]["region"]
    assert region["picture"]["missing"]["after"] == 1
    assert region["effect"] is None
    page = Page(summary).html
    assert "missing: <b" in page
    alone = describe(work.model, rows=100, random_state=0)["marginals"]
    assert {one["name"] for one in alone if one["picture"]["missing"]["synthetic"]} == set(NULLABLE)


def test_plots_take_sampled_missing_cells(work):
    rows = work.model.sample(200, random_state=0)
    figure = plots.marginals(work.table, rows)
    texts = [axes.get_xlabel() for axes in figure.axes]
    assert sum("missing: " in text for text in texts) == len(NULLABLE)
    under = work.model.sample(100, where="home = 'single'", random_state=0)
    figure = plots.what_if(rows, under, where="home = 'single'")
    assert any("spouse_age (empty in one table)" in text.get_text() for text in figure.texts)


def test_feasibility_ignores_missing_cells_in_what_comes_closest(work):
    found = work.model.feasibility("spouse_age < 10", random_state=0)
    assert found.probability == 0
    assert "The closest sampled rows have 0" not in found.suggestion
