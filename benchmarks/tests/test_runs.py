"""Runs of the bench on small made tables: records, and going on after whatever happened."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harpoon_bench.commands import app
from harpoon_bench.measures import WrongAnswer, check_filled, theorems
from typer.testing import CliRunner

from harpoon.exceptions import InvalidOption
from harpoon_bench.baselines import method
from harpoon_bench.datasets import SPECS, load
from harpoon_bench.experiments import ABLATIONS, Run, cells
from harpoon_bench.models import trained
from harpoon_bench.records import Cell, RecordDamaged, Results
from harpoon_bench.worker import Job, work

BENCH = [sys.executable, "-c", "from harpoon_bench.commands import app; app()"]
SMALL = {"hidden": 16, "max_epochs": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two made data sets under the names of real ones."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    x = rng.normal(size=120)
    magic = pd.DataFrame({"a": x, "b": x + rng.normal(size=120), "class": "g"})
    magic.to_csv(folder / "magic.csv", index=False)
    age = rng.integers(17, 90, 300)
    adult = pd.DataFrame({"age": age, "hours": rng.integers(1, 99, 300)})
    for name in SPECS["adult"].categorical:
        adult[name] = rng.choice(["one", "two"], 300)
    adult["workclass"] = rng.choice(["State-gov", "Private"], 300)
    adult["sex"] = np.where(age > 40, "Male", "Female")
    adult.assign(income="low").to_csv(folder / "adult.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Trained once for all tests of this file."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def run(tmp_path, data, models):
    return Run(tmp_path / "results", data, models)


def inside(run, todo):
    """Do cells in this process, which saves starting another."""
    for _, group in groupby(todo, key=lambda cell: (cell.dataset, cell.variant)):
        job = Job([cell.to_json() for cell in group], str(run.results), str(run.models), str(run.data))
        work(job, lambda _word: None)


def records(run, experiment):
    return [record for _, record in Results(run.results).records(experiment)]


def test_the_cells_of_the_paper():
    imputation = cells("imputation")
    assert len(imputation) == 8 * 9 * 5
    assert len({cell.place for cell in imputation}) == len(imputation)
    assert {cell.condition for cell in cells("constraints")} == {"range", "category", "and", "or"}
    # A loss, a schedule, an encoding and a scaling each have one variant that is the preset itself.
    variants = {cell.variant for cell in cells("ablation")}
    assert len(variants) == sum(len(options) for options in ABLATIONS.values()) - 3
    assert not cells("constraints", datasets=["magic"])


def test_wrong_choices_are_told_before_anything_runs():
    with pytest.raises(InvalidOption, match="Did you mean 'imputation'"):
        cells("imputatoin")
    with pytest.raises(InvalidOption, match="One of the methods must be one of"):
        cells("imputation", methods=["magick"])
    with pytest.raises(InvalidOption, match="has no masks to choose from"):
        cells("constraints", masks=["MAR"])
    with pytest.raises(InvalidOption, match="An option of KNNImputer"):
        cells("imputation", methods=["knn"], options=[{"neighbours": 3}])
    for wrong in ({"ratios": [1.5]}, {"ratios": [float("nan")]}, {"seeds": [-1]}, {"budget": -5.0}):
        with pytest.raises(InvalidOption, match=r"got -|got 1\.5|got nan"):
            cells("imputation", **wrong)
    with pytest.raises(InvalidOption, match="limit"):
        Run(Path("results"), limit=-1.0)
    assert (
        len(cells("imputation", datasets=["bean"], methods=["mean"], masks=["MAR"], ratios=[0.25, 0.250], seeds=[0, 0]))
        == 1
    )


def test_whatever_an_option_holds_its_record_is_found(tmp_path):
    results = Results(tmp_path)
    for value in ("org/model", "../../elsewhere", "x" * 300):
        results.write(Cell("imputation", "bean", "great", options={"llm": value}), {"metrics": {}})
    assert len(list(results.records("imputation"))) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["imputation"]


def test_a_record_says_what_was_measured_and_how(run):
    inside(run, cells("imputation", datasets=["adult"], methods=["mean"], masks=["MCAR"], ratios=[0.25], seeds=[3]))
    (record,) = records(run, "imputation")
    assert record["cell"] == {
        "experiment": "imputation",
        "dataset": "adult",
        "method": "mean",
        "mask": "MCAR",
        "ratio": 0.25,
        "condition": None,
        "seed": 3,
        "budget": None,
        "options": {},
    }
    assert set(record["metrics"]) == {"mse", "accuracy"}
    assert record["hidden"] == pytest.approx(0.25, abs=0.03)
    assert record["fit_seconds"] > 0 < record["answer_seconds"]
    assert record["answer_peak_mib"] > 10 < record["fit_peak_mib"]
    assert {"python", "torch", "harpoon"} <= set(record["versions"])
    assert len(record["data_sha256"]) == 64


def test_what_is_done_is_not_done_again_and_models_are_kept(run):
    todo = cells("imputation", datasets=["magic"], methods=["anchored"], masks=["MCAR"], ratios=[0.25], options=[SMALL])
    inside(run, todo[:2])
    before = {path: path.stat().st_mtime_ns for path in run.results.rglob("*.json")}
    assert len(before) == 2
    assert run.left(todo) == todo[2:]
    counted = []
    run(todo, counted.append)
    assert counted == todo[2:]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len({record["fit_seconds"] for record in records(run, "imputation")}) == 1


def test_what_cannot_be_read_is_learnt_again(data, tmp_path):
    dataset = load("magic", data)
    first = trained(method("mean"), dataset, tmp_path)
    (path,) = tmp_path.rglob("*.pickle")
    assert trained(method("mean"), dataset, tmp_path) == first
    path.write_bytes(b"no pickle")
    again = method("mean")
    assert trained(again, dataset, tmp_path) != first
    assert again.fills["a"] == dataset.train["a"].mean()


def test_conditions_are_scored_with_every_metric(run):
    options = [{**SMALL, "max_epochs": 20}]
    todo = cells("constraints", datasets=["adult"], methods=["anchored"], seeds=[0], options=options)
    inside(run, [cell for cell in todo if cell.condition == "or"])
    (record,) = records(run, "constraints")
    assert record["where"] == "age >= 50 or workclass = 'State-gov'"
    assert record["metrics"]["violation"] == 0.0
    assert {"alpha", "ks", "utility", "detection_linear", "identifiability", "closest"} <= set(record["metrics"])
    assert all(len(pair) == 2 for pair in record["branches"].values())
    assert record["facts"]["report"]["rows"] == record["rows"]


def test_rows_without_a_condition_and_real_ones(run):
    inside(run, cells("fidelity", datasets=["adult"], methods=["real"]))
    (record,) = records(run, "fidelity")
    assert record["rows"] == 90
    assert "violation" not in record["metrics"]
    assert record["metrics"]["authenticity"] == 0.0  # training rows are copies of training rows


def test_angles_and_theorems(run):
    options = [{**SMALL, "diffusion_steps": 5, "sampling_steps": 5}]
    inside(run, cells("geometry", datasets=["magic", "sphere"], methods=["paper", "exact"], options=options))
    found = {record["cell"]["dataset"]: record for record in records(run, "geometry")}
    assert set(found["magic"]["angles"]) == {"mae", "mse", "mae+ce", "mse+ce"}
    assert len(found["magic"]["angles"]["mae"]["mean"]) == 5
    assert len(found["sphere"]["theorems"]) == 5


@pytest.mark.parametrize("dimension", [2, 3])
def test_both_theorems_hold_in_the_limit(dimension):
    rows = theorems(dimension, seed=0)["theorems"]
    distances, shares = ([row[name] for row in rows] for name in ("distance_to_projection", "normal_share"))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-3
    assert shares[-1] < 1e-2 < shares[0]


def test_a_failure_is_a_record_and_is_repeated_on_request(run):
    todo = cells("imputation", datasets=["magic"], methods=["real"], masks=["MAR"], ratios=[0.25], seeds=[0, 1])
    inside(run, todo)
    assert [record["error"]["kind"] for record in records(run, "imputation")] == ["CannotFill", "CannotFill"]
    assert run.left(todo) == []
    assert Run(run.results, run.data, run.models, again=True).left(todo) == todo


def test_a_training_that_fails_is_a_record_of_each_cell(run):
    options = [{"hidden": 3}]
    todo = cells("imputation", datasets=["magic"], methods=["paper"], masks=["MAR"], ratios=[0.25], options=options)
    inside(run, todo)
    errors = [record["error"] for record in records(run, "imputation")]
    assert len(errors) == 5
    assert {(error["while"], error["message"]) for error in errors} == {("training", "hidden must be even, got 3.")}


def test_what_takes_too_long_is_ended_and_recorded(run):
    todo = cells("imputation", datasets=["magic"], methods=["paper"], masks=["MAR"], ratios=[0.25], seeds=[0])
    Run(run.results, run.data, run.models, limit=0.05)(todo)
    (record,) = records(run, "imputation")
    assert record["error"]["kind"] == "OutOfTime"
    assert record["error"]["while"] == "training"


def many(count):
    return cells("imputation", datasets=["magic"], methods=["mean"], masks=["MCAR"], ratios=[0.25], seeds=range(count))


def test_a_killed_run_loses_at_most_the_cell_it_was_in(run):
    todo = many(500)
    choice = ["--datasets", "magic", "--methods", "mean", "--masks", "MCAR", "--ratios", "0.25"]
    folders = ["--data", str(run.data), "--models", str(run.models), "--results", str(run.results)]
    seeds = ",".join(str(cell.seed) for cell in todo)
    command = [*BENCH, "imputation", *choice, *folders, "--seeds", seeds]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        while len(list(run.results.rglob("*.json"))) < 3:
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()
    done = 0
    while done < (done := len(list(run.results.rglob("*.json")))):
        time.sleep(0.5)  # until its worker has noticed
    assert 3 <= done < len(todo)
    assert len(records(run, "imputation")) == done  # every one of them can be read
    left = run.left(todo)
    assert len(left) == len(todo) - done
    inside(run, left[:5])
    assert len(records(run, "imputation")) == done + 5


def test_a_worker_does_not_outlive_its_run(run):
    choice = ["--datasets", "magic", "--methods", "paper", "--masks", "MAR", "--ratios", "0.25", "--seeds", "0"]
    folders = ["--data", str(run.data), "--models", str(run.models), "--results", str(run.results)]
    with subprocess.Popen([*BENCH, "imputation", *choice, *folders], stderr=subprocess.DEVNULL) as process:  # noqa: S603
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.05)
        time.sleep(3)  # until it has begun to train, for minutes
        process.kill()
    for _ in range(200):
        if not Path("/proc", found[0]).exists():
            break
        time.sleep(0.1)
    assert not Path("/proc", found[0]).exists()


def test_a_worker_that_dies_costs_one_cell(run):
    todo, finished = many(200), []

    def on_cell(cell):
        finished.append(cell)
        if len(finished) == 3:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            os.kill(int(children[-1]), signal.SIGKILL)

    run(todo, on_cell)
    found = records(run, "imputation")
    died = [record["error"] for record in found if "error" in record]
    assert len(found) == len(todo) == len(finished)
    assert [error["kind"] for error in died] == ["Died"]


def test_a_damaged_record_is_named(run):
    cell = Cell("imputation", "magic", "mean", "MAR", 0.25)
    Results(run.results).write(cell, {"metrics": {"mse": float("nan")}})
    path = run.results / cell.place
    assert json.loads(path.read_text())["metrics"] == {"mse": None}
    path.write_text("{")
    with pytest.raises(RecordDamaged, match=r"MAR-0\.25-0\.json.*Delete it"):
        list(Results(run.results).records("imputation"))


def test_wrong_answers_are_no_results():
    holes = pd.DataFrame({"x": [1.0, None], "c": ["a", None]})
    check_filled(holes, pd.DataFrame({"x": [1.0, 2.0], "c": ["a", "b"]}))
    with pytest.raises(WrongAnswer, match="no hole, and has 1"):
        check_filled(holes, pd.DataFrame({"x": [1.0, None], "c": ["a", "b"]}))
    with pytest.raises(WrongAnswer, match="changes 1 cells"):
        check_filled(holes, pd.DataFrame({"x": [1.5, 2.0], "c": ["a", "b"]}))
    with pytest.raises(WrongAnswer, match="in their order"):
        check_filled(holes, holes[["c", "x"]])


def test_the_command_says_what_it_did(run):
    folders = ["--data", str(run.data), "--models", str(run.models), "--results", str(run.results)]
    choice = ["--datasets", "magic", "--methods", "mean", "--masks", "MAR", "--seeds", "0,1", "--ratios", "0.25"]
    for text in ("2 cells done now, 0 before", "0 cells done now, 2 before"):
        outcome = CliRunner().invoke(app, ["imputation", *choice, *folders], catch_exceptions=False)
        assert outcome.exit_code == 0
        assert text in outcome.output
    late = CliRunner().invoke(app, ["imputation", *choice, "--budget", "9", "--limit", "1e-9", *folders])
    assert "2 of them failed" in late.stderr
    assert CliRunner().invoke(app, ["imputation", "--seeds", "one"]).exit_code == 2
    assert "anchored" in CliRunner().invoke(app, ["methods"]).output
