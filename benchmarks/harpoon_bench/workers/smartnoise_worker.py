"""AIM and MST of the package smartnoise-synth: noisy marginals, and a graphical model that fits them."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
from job import Job, run
from snsynth import Synthesizer


def do_task(job: Job) -> None:
    """Fit or sample; `fit` saves the synthesizer for `sample`."""
    np.random.seed(job.settings["seed"])
    {"fit": fit, "sample": sample}[job.settings["task"]](job)


def fit(job: Job) -> None:
    """Fit on all rows. Numbers are divided into equal bins of their range, which is public knowledge, as labels are."""
    options, train = job.settings["options"], job.table("train")
    codes, edges = {}, {}
    for column in job.columns:
        name = column["name"]
        if name in job.discrete:
            codes[name] = train[name].to_numpy().astype(int)
            continue
        edges[name] = bin_edges(column, options["bins"])
        codes[name] = np.clip(np.searchsorted(edges[name], train[name], side="right") - 1, 0, len(edges[name]) - 2)
    synthesizer = Synthesizer.create(job.settings["method"], epsilon=options["epsilon"], delta=options["delta"])
    synthesizer.fit(pd.DataFrame(codes), categorical_columns=list(codes), preprocessor_eps=0.0)
    with (job.folder / "state.pickle").open("wb") as file:
        cloudpickle.dump((synthesizer, edges), file)
    job.write_note(f"numbers in {options['bins']} equal bins of their range")


def bin_edges(column: dict[str, Any], bins: int) -> Any:
    """Return equal bins of the range of a column; an integer has at most one for each value."""
    low, high = float(column["minimum"]), float(column["maximum"])
    if column["kind"] == "integer":
        bins, high = min(bins, round(high - low) + 1), high + 1
    return np.linspace(low, high, bins + 1)


def sample(job: Job) -> None:
    """Sample rows; a number is uniform in its bin."""
    with (job.folder / "state.pickle").open("rb") as file:
        synthesizer, edges = cloudpickle.load(file)
    rows = synthesizer.sample(job.settings["rows"]).astype(int)
    random = np.random.default_rng(job.settings["seed"])
    numbers = rows.astype("float64")
    for column in job.columns:
        name = column["name"]
        if name in edges:
            low, high = edges[name][rows[name]], edges[name][rows[name] + 1]
            values = random.uniform(low, high)
            numbers[name] = np.floor(values) if column["kind"] == "integer" else values
    job.write_result(numbers[[column["name"] for column in job.columns]])


if __name__ == "__main__":
    run(do_task)
