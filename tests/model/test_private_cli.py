"""Differential privacy from the command line: the budget is spent, stored and shown, and the schema is a file."""

import json
import re

import numpy as np
import pytest

from harpoon import Column, Harpoon, InvalidOption, Kind, Privacy, Schema
from tests.support.cli import call

SCHEMA = Schema(
    (
        Column("x", Kind.NUMBER, minimum=-5, maximum=5),
        Column("kind", Kind.CATEGORY, categories=("high", "low")),
    )
)
BUDGET = "--epsilon", "4", "--delta", "1e-6"


@pytest.fixture
def files(tmp_path):
    x = np.random.default_rng(0).normal(size=200)
    lines = ["x,kind", *(f"{value:.3f},{'high' if value > 0 else 'low'}" for value in x)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    SCHEMA.save(tmp_path / "schema.json")
    return tmp_path


def fit(files, *more):
    return call("fit", files / "rows.csv", "-o", files / "m.harpoon", "--option", "hidden=8", *more)


def test_a_private_model_is_trained_and_described(files):
    done = fit(files, "--schema", files / "schema.json", *BUDGET, "--secure", "--json", "--dp-steps", "300")
    assert done.code == 0, done.said
    summary = json.loads(done.out)
    assert summary["privacy"]["epsilon_spent"] <= 4
    assert summary["privacy"]["privacy"]["secure"] is True
    assert "rows" not in summary
    assert not re.search(r"(?<![\d,])200\b", done.said)  # the number of rows is private
    assert "only if the schema was written without a look at the rows" in done.said
    assert summary["steps"] == 300
    about = call("info", files / "m.harpoon")
    assert b"steps" in about.out
    assert b"epochs" not in about.out
    assert b"loss" not in about.out
    assert b"Differential privacy: epsilon" in about.out
    described = json.loads(call("info", files / "m.harpoon", "--json").out)
    assert described["privacy"]["unit"] == "row"


def test_steps_and_sample_rate_are_options(files):
    chosen = "--dp-steps", 7, "--dp-rate", 0.2
    done = fit(files, "--schema", files / "schema.json", *BUDGET, *chosen, "--json")
    assert done.code == 0, done.said
    privacy = json.loads(done.out)["privacy"]
    assert (privacy["privacy"]["steps"], privacy["privacy"]["sample_rate"]) == (7, 0.2)
    assert "too few to learn how columns depend on each other" in done.said


@pytest.mark.parametrize(("secure", "words"), [((), "pseudo-random noise, not secure"), (("--secure",), "(secure)")])
def test_info_says_where_the_noise_came_from(files, secure, words):
    done = fit(files, "--schema", files / "schema.json", *BUDGET, *secure, "--dp-steps", 2, "--quiet")
    assert done.code == 0, done.said
    assert words in b" ".join(call("info", files / "m.harpoon").out.split()).decode()


def test_a_seed_is_for_tests_only(files):
    done = fit(files, "--schema", files / "schema.json", *BUDGET, "--seed", 1, "--dp-steps", 2, "--quiet")
    assert done.code == 0, done.said
    assert "for tests only, no guarantee" in call("info", files / "m.harpoon").out.decode()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", 2), "--epsilon and --delta"),
        (("--secure",), "--epsilon and --delta"),
        (("--dp-steps", 5), "--epsilon and --delta"),
        ((*BUDGET, "--schema", "schema.json", "--dp-rate", 0.9), "sample_rate"),
        (BUDGET, "--schema FILE"),
        ((*BUDGET, "--schema", "schema.json", "--max-time", "1m"), "Privacy(steps=...)"),
    ],
)
def test_what_is_missing_is_named(files, options, words, monkeypatch):
    monkeypatch.chdir(files)
    done = fit(files, *options)
    assert done.code == 2
    assert words in done.said
    assert "Traceback" not in done.said


def test_the_help_says_that_a_public_schema_is_written_by_hand():
    assert b"for --epsilon, in one written by hand" in b" ".join(call("fit", "--help").out.split())


def test_ray_refuses_a_private_model():
    ray_train = pytest.importorskip("harpoon.engines.ray_train")
    model = Harpoon(privacy=Privacy(1.0, 1e-6), schema=SCHEMA, progress=False)
    with pytest.raises(InvalidOption, match="privacy is not possible with engine Ray"):
        ray_train.fit(model, None)
