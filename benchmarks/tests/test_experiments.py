"""Runs on small synthetic tables: records, failures and resuming."""

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
from typer.testing import CliRunner

from harpoon.exceptions import InvalidOption
from harpoon_bench.__main__ import app, main
from harpoon_bench.baselines import make_method
from harpoon_bench.datasets import SPECS, load
from harpoon_bench.experiments import (
    ABLATIONS,
    Job,
    Run,
    WrongAnswer,
    check_imputed,
    make_cells,
    measure_theorems,
)
from harpoon_bench.models import train_or_load
from harpoon_bench.published_scores import METRICS as PUBLISHED_METRICS
from harpoon_bench.published_scores import PREFIX
from harpoon_bench.records import Cell, RecordDamaged, Results
from harpoon_bench.worker import work

BENCH = [sys.executable, "-m", "harpoon_bench"]
SMALL = {"hidden": 16, "max_epochs": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two synthetic data sets with the names of real ones."""
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
    """A folder of models for all tests of this file."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def run(tmp_path, data, models):
    return Run(tmp_path / "results", data, models)


def measure_here(run, todo):
    """Measure cells in this process, without starting a worker."""
    for _, group in groupby(todo, key=lambda cell: (cell.dataset, cell.variant)):
        job = Job([cell.to_json() for cell in group], str(run.results), str(run.models), str(run.data))
        work(job, lambda _stage: None)


def records(run, experiment):
    return [record for _, record in Results(run.results).records(experiment)]


def test_default_cells_are_those_of_the_paper():
    imputation = make_cells("imputation")
    assert len(imputation) == 8 * 9 * 5
    assert len({cell.path for cell in imputation}) == len(imputation)
    assert {cell.condition for cell in make_cells("constraints")} == {"range", "category", "and", "or"}
    # One variant of each ablation is the preset itself.
    variants = {cell.variant for cell in make_cells("ablation")}
    assert len(variants) == sum(len(options) for options in ABLATIONS.values()) - 3
    assert not make_cells("constraints", datasets=["magic"])


def test_wrong_selections_are_errors():
    with pytest.raises(InvalidOption, match="Did you mean 'imputation'"):
        make_cells("imputatoin")
    with pytest.raises(InvalidOption, match="One of the methods must be one of"):
        make_cells("imputation", methods=["magick"])
    with pytest.raises(InvalidOption, match="has no masks"):
        make_cells("constraints", masks=["MAR"])
    with pytest.raises(InvalidOption, match="An option of KNNImputer"):
        make_cells("imputation", methods=["knn"], options=[{"neighbours": 3}])
    for wrong in ({"ratios": [1.5]}, {"ratios": [float("nan")]}, {"seeds": [-1]}, {"budget": -5.0}):
        with pytest.raises(InvalidOption, match=r"got -|got 1\.5|got nan"):
            make_cells("imputation", **wrong)
    with pytest.raises(InvalidOption, match="limit"):
        Run(Path("results"), limit=-1.0)
    assert (
        len(
            make_cells(
                "imputation", datasets=["bean"], methods=["mean"], masks=["MAR"], ratios=[0.25, 0.250], seeds=[0, 0]
            )
        )
        == 1
    )


def test_records_of_any_option_value_are_found(tmp_path):
    results = Results(tmp_path)
    for value in ("org/model", "../../elsewhere", "x" * 300):
        results.write(Cell("imputation", "bean", "great", options={"llm": value}), {"metrics": {}})
    assert len(list(results.records("imputation"))) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["imputation"]


def test_record_of_an_imputation(run):
    measure_here(
        run, make_cells("imputation", datasets=["adult"], methods=["mean"], masks=["MCAR"], ratios=[0.25], seeds=[3])
    )
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
    assert record["hidden_fraction"] == pytest.approx(0.25, abs=0.03)
    assert record["fit_seconds"] > 0 < record["answer_seconds"]
    assert record["answer_peak_mib"] > 10 < record["fit_peak_mib"]
    assert {"python", "torch", "harpoon"} <= set(record["versions"])
    assert len(record["commit"]) == 40
    assert record["clean"] in (True, False)
    assert len(record["data_sha256"]) == 64


def test_runs_resume_and_share_models(run):
    todo = make_cells(
        "imputation", datasets=["magic"], methods=["anchored"], masks=["MCAR"], ratios=[0.25], options=[SMALL]
    )
    measure_here(run, todo[:2])
    before = {path: path.stat().st_mtime_ns for path in run.results.rglob("*.json")}
    assert len(before) == 2
    assert run.remaining(todo) == todo[2:]
    measured = []
    run(todo, measured.append)
    assert measured == todo[2:]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len({record["fit_seconds"] for record in records(run, "imputation")}) == 1


def test_unreadable_model_is_trained_again(data, tmp_path):
    dataset = load("magic", data)
    first = train_or_load(make_method("mean"), dataset, tmp_path)
    (path,) = tmp_path.rglob("*.pickle")
    assert train_or_load(make_method("mean"), dataset, tmp_path) == first
    path.write_bytes(b"no pickle")
    again = make_method("mean")
    assert train_or_load(again, dataset, tmp_path) != first
    assert again.values["a"] == dataset.train["a"].mean()


def test_record_of_conditional_samples(run):
    options = [{**SMALL, "max_epochs": 20}]
    todo = make_cells("constraints", datasets=["adult"], methods=["anchored"], seeds=[0], options=options)
    measure_here(run, [cell for cell in todo if cell.condition == "or"])
    (record,) = records(run, "constraints")
    assert record["where"] == "age >= 50 or workclass = 'State-gov'"
    assert record["metrics"]["violation"] == 0.0
    assert {"alpha", "ks", "utility", "detection_linear", "identifiability", "closest"} <= set(record["metrics"])
    assert all(len(pair) == 2 for pair in record["branches"].values())
    assert record["facts"]["sampling_info"]["rows"] == record["rows"]


def test_record_of_the_paper_preset_has_scores_as_published(run):
    options = [{**SMALL, "diffusion_steps": 5, "sampling_steps": 5}]
    todo = make_cells("constraints", datasets=["adult"], methods=["paper"], seeds=[0], options=options)
    measure_here(run, [cell for cell in todo if cell.condition == "range"])
    (record,) = records(run, "constraints")
    assert {PREFIX + name for name in PUBLISHED_METRICS} <= set(record["metrics"])
    assert record["metrics"]["published_violation"] >= record["metrics"]["violation"]  # rounding satisfies more


def test_record_of_statistics(run):
    measure_here(run, make_cells("statistics", datasets=["adult", "magic"]))
    adult, magic = records(run, "statistics")
    assert adult["counts"] == {"rows": 300, "numeric": 2, "categorical": 8, "train": 210, "test": 90}
    assert magic["shares"] == {}
    rows = load("adult", run.data).train
    expected = (rows["age"] >= 50) | (rows["workclass"] == "State-gov")
    assert adult["shares"]["or"]["train"] == pytest.approx(expected.mean())
    assert adult["commit"]


def test_record_of_real_rows(run):
    measure_here(run, make_cells("fidelity", datasets=["adult"], methods=["real"]))
    (record,) = records(run, "fidelity")
    assert record["rows"] == 90
    assert "violation" not in record["metrics"]
    assert record["metrics"]["authenticity"] == 0.0  # training rows are copies of training rows


def test_records_of_angles_and_theorems(run):
    options = [{**SMALL, "diffusion_steps": 5, "sampling_steps": 5}]
    measure_here(run, make_cells("geometry", datasets=["magic", "sphere"], methods=["paper", "exact"], options=options))
    found = {record["cell"]["dataset"]: record for record in records(run, "geometry")}
    assert set(found["magic"]["angles"]) == {"mae", "mse", "mae+ce", "mse+ce"}
    assert len(found["magic"]["angles"]["mae"]["mean"]) == 5
    assert len(found["sphere"]["theorems"]) == 5


@pytest.mark.parametrize("dimension", [2, 3])
def test_theorems_hold_in_the_limit(dimension):
    rows = measure_theorems(dimension, seed=0)["theorems"]
    distances, fractions = ([row[name] for row in rows] for name in ("distance_to_projection", "normal_fraction"))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-3
    assert fractions[-1] < 1e-2 < fractions[0]


def test_failures_are_recorded_and_can_be_retried(run):
    todo = make_cells("imputation", datasets=["magic"], methods=["real"], masks=["MAR"], ratios=[0.25], seeds=[0, 1])
    measure_here(run, todo)
    assert [record["error"]["kind"] for record in records(run, "imputation")] == ["CannotImpute", "CannotImpute"]
    assert run.remaining(todo) == []
    assert Run(run.results, run.data, run.models, retry_failed=True).remaining(todo) == todo


def test_failed_training_is_recorded_for_each_cell(run):
    options = [{"hidden": 3}]
    todo = make_cells(
        "imputation", datasets=["magic"], methods=["paper"], masks=["MAR"], ratios=[0.25], options=options
    )
    measure_here(run, todo)
    errors = [record["error"] for record in records(run, "imputation")]
    assert len(errors) == 5
    assert {(error["stage"], error["message"]) for error in errors} == {("training", "hidden must be even, got 3.")}


def test_time_limit_is_recorded(run):
    todo = make_cells("imputation", datasets=["magic"], methods=["paper"], masks=["MAR"], ratios=[0.25], seeds=[0])
    Run(run.results, run.data, run.models, limit=0.05)(todo)
    (record,) = records(run, "imputation")
    assert record["error"]["kind"] == "OutOfTime"
    assert record["error"]["stage"] == "training"


def make_many(count):
    return make_cells(
        "imputation", datasets=["magic"], methods=["mean"], masks=["MCAR"], ratios=[0.25], seeds=range(count)
    )


def child_of(process):
    """Return the folder in /proc of the process that another one has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.05)
    return Path("/proc", found[0])


def wait_for_the_end(process):
    for _ in range(1200):
        if not process.exists():
            return
        time.sleep(0.1)
    raise AssertionError("the process does not end")


def test_killed_run_loses_at_most_one_cell(run):
    todo = make_many(500)
    choice = ["--datasets", "magic", "--methods", "mean", "--masks", "MCAR", "--ratios", "0.25"]
    folders = ["--data", str(run.data), "--models", str(run.models), "--results", str(run.results)]
    seeds = ",".join(str(cell.seed) for cell in todo)
    command = [*BENCH, "imputation", *choice, *folders, "--seeds", seeds]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        while len(list(run.results.rglob("*.json"))) < 3:
            assert process.poll() is None
            time.sleep(0.005)
        worker = child_of(process)
        process.kill()
    wait_for_the_end(worker)
    done = len(list(run.results.rglob("*.json")))
    assert 3 <= done < len(todo)
    assert len(records(run, "imputation")) == done  # all can be read
    remaining = run.remaining(todo)
    assert len(remaining) == len(todo) - done
    measure_here(run, remaining[:5])
    assert len(records(run, "imputation")) == done + 5


def test_worker_ends_with_its_run(run):
    choice = ["--datasets", "magic", "--methods", "paper", "--masks", "MAR", "--ratios", "0.25", "--seeds", "0"]
    folders = ["--data", str(run.data), "--models", str(run.models), "--results", str(run.results)]
    with subprocess.Popen([*BENCH, "imputation", *choice, *folders], stderr=subprocess.DEVNULL) as process:  # noqa: S603
        worker = child_of(process)
        time.sleep(3)  # until training has started, which takes minutes
        process.kill()
    wait_for_the_end(worker)


def test_dead_worker_costs_one_cell(run):
    todo, finished = make_many(60), []

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


def test_damaged_record_is_an_error(run):
    cell = Cell("imputation", "magic", "mean", "MAR", 0.25)
    Results(run.results).write(cell, {"metrics": {"mse": float("nan")}})
    path = run.results / cell.path
    assert json.loads(path.read_text())["metrics"] == {"mse": None}
    path.write_text("{")
    with pytest.raises(RecordDamaged, match=r"MAR-0\.25-0\.json.*Delete it"):
        list(Results(run.results).records("imputation"))


def test_check_imputed():
    incomplete = pd.DataFrame({"x": [1.0, None], "c": ["a", None]})
    check_imputed(incomplete, pd.DataFrame({"x": [1.0, 2.0], "c": ["a", "b"]}))
    with pytest.raises(WrongAnswer, match="has 1 missing cells"):
        check_imputed(incomplete, pd.DataFrame({"x": [1.0, None], "c": ["a", "b"]}))
    with pytest.raises(WrongAnswer, match="changes 1 observed cells"):
        check_imputed(incomplete, pd.DataFrame({"x": [1.5, 2.0], "c": ["a", "b"]}))
    with pytest.raises(WrongAnswer, match="in the same order"):
        check_imputed(incomplete, incomplete[["c", "x"]])


def test_command_line(run):
    folders = ["--data", str(run.data), "--models", str(run.models), "--results", str(run.results)]
    choice = ["--datasets", "magic", "--methods", "mean", "--masks", "MAR", "--seeds", "0,1", "--ratios", "0.25"]
    for text in ("2 cells measured, 0 measured before", "0 cells measured, 2 measured before"):
        outcome = CliRunner().invoke(app, ["imputation", *choice, *folders], catch_exceptions=False)
        assert outcome.exit_code == 0
        assert text in outcome.output
    late = CliRunner().invoke(app, ["imputation", *choice, "--budget", "9", "--limit", "1e-9", *folders])
    assert "2 of them failed" in late.stderr
    assert CliRunner().invoke(app, ["imputation", "--seeds", "one"]).exit_code == 2
    assert "anchored" in CliRunner().invoke(app, ["methods"]).output


def test_errors_are_one_line_and_exit_code_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["harpoon-bench", "imputation", "--datasets", "adlut"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("Error: One of the datasets must be one of")
