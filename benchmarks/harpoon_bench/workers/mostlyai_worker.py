"""TabularARGN of the package mostlyai-engine: an autoregressive network, with or without differential privacy."""

from __future__ import annotations

import importlib.util
from typing import Any

import pandas as pd
from job import Job, run

CATEGORY, NUMBER = "TABULAR_CATEGORICAL", "TABULAR_NUMERIC_AUTO"


def do_task(job: Job) -> None:
    """Fit or sample; `fit` leaves a workspace for `sample`."""
    hide_torchvision()
    from mostlyai.engine import set_random_state

    set_random_state(job.settings["seed"])
    {"fit": fit, "sample": sample}[job.settings["task"]](job)


def hide_torchvision() -> None:
    """Hide torchvision from transformers: it has no build for this build of torch, and cannot be imported."""
    find = importlib.util.find_spec

    def find_all_others(name: str, *arguments: Any) -> Any:
        return None if name == "torchvision" else find(name, *arguments)

    importlib.util.find_spec = find_all_others


def fit(job: Job) -> None:
    """Train on all rows; with ε, training ends when it is spent. Ranges and labels are taken as public knowledge."""
    from mostlyai import engine
    from mostlyai.engine.domain import DifferentialPrivacyConfig

    options, workspace = job.settings["options"], job.folder / "state"
    rows = job.table("train")
    for column in job.columns:
        if column["name"] in job.discrete:
            rows[column["name"]] = rows[column["name"]].astype("Int64").astype("string")
        elif column["kind"] == "integer":
            rows[column["name"]] = rows[column["name"]].astype("Int64")
    encodings = {name: CATEGORY if name in job.discrete else NUMBER for name in rows}
    privacy = None
    if options["epsilon"] is not None:
        privacy = DifferentialPrivacyConfig(max_epsilon=options["epsilon"], delta=options["delta"])
    seconds = job.settings["seconds"]
    engine.split(tgt_data=rows, tgt_encoding_types=encodings, workspace_dir=workspace)
    engine.analyze(value_protection=False, workspace_dir=workspace)
    engine.encode(workspace_dir=workspace)
    limit = {} if seconds is None else {"max_training_time": seconds / 60}  # in minutes
    engine.train(differential_privacy=privacy, workspace_dir=workspace, **limit)
    progress = pd.read_csv(workspace / "ModelStore" / "model-data" / "progress-messages.csv")
    kept = progress[progress["is_checkpoint"] == 1].iloc[-1]
    spent = "" if privacy is None else f", epsilon {kept['dp_eps']:.2f}"
    job.write_note(f"weights after {kept['epoch']:.1f} epochs{spent}")


def sample(job: Job) -> None:
    """Sample rows."""
    from mostlyai import engine

    workspace = job.folder / "state"
    engine.generate(sample_size=job.settings["rows"], workspace_dir=workspace)
    rows = pd.read_parquet(workspace / "SyntheticData")
    names = [column["name"] for column in job.columns]
    numbers = pd.DataFrame({name: pd.to_numeric(rows[name], errors="coerce") for name in names}, dtype="float64")
    job.write_result(numbers)


if __name__ == "__main__":
    run(do_task)
