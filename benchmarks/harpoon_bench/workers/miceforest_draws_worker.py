"""miceforest: several tables, each completed several times by chained random forests."""

from __future__ import annotations

import miceforest
from job import Job, run


def impute(job: Job) -> None:
    """Complete `incomplete_<number>.csv` for each number of the settings; write `completed_<number>_<draw>.csv`."""
    options = job.settings["options"]
    for number in job.settings["tables"]:
        table = job.table(f"incomplete_{number}")
        table[job.discrete] = table[job.discrete].astype("category")
        kernel = miceforest.ImputationKernel(
            table,
            num_datasets=options["datasets"],
            mean_match_candidates=options["candidates"],
            # "normal" compares log-odds of categories, which are infinite for probabilities of 0 or 1.
            mean_match_strategy={name: "fast" if name in job.discrete else "normal" for name in table},
            random_state=number,
        )
        kernel.mice(options["rounds"])
        for draw in range(options["datasets"]):
            completed = kernel.complete_data(draw).astype("float64")
            completed.to_csv(job.folder / f"completed_{number}_{draw}.csv", index=False)


if __name__ == "__main__":
    run(impute)
