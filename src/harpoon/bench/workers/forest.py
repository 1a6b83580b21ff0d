"""miceforest: chained random forests, on the rows with holes and, above them, the training rows.

`impute_new_data` would keep the two apart, but in version 6.0.5 its answer is the random start: it never counts the
rounds that it has done. The table of both is what the package is made for.
"""

from __future__ import annotations

import miceforest
import pandas as pd
from job import Job, work


def impute(job: Job) -> None:
    """Numbers are averaged over the completed tables, of labels the most frequent is taken."""
    train, holes = job.table("train"), job.table("holes")
    stacked = pd.concat([train, holes], ignore_index=True)
    stacked[job.discrete] = stacked[job.discrete].astype("category")
    # miceforest keeps what its models are called in the names of the columns: plain ones are safe.
    stacked.columns = [f"c{i}" for i in range(stacked.shape[1])]
    kernel = miceforest.ImputationKernel(
        stacked,
        num_datasets=job.settings["options"]["datasets"],
        mean_match_candidates=job.settings["options"]["candidates"],
        random_state=job.settings["seed"],
    )
    kernel.mice(job.settings["options"]["rounds"])
    tables = [kernel.complete_data(i).tail(len(holes)).astype("float64") for i in range(kernel.num_datasets)]
    together = pd.concat(tables).groupby(level=0)
    filled = together.mean()
    filled.columns = holes.columns
    modes = together.agg(lambda values: values.mode().iloc[0])
    modes.columns = holes.columns
    filled[job.discrete] = modes[job.discrete]
    job.answer(filled)


if __name__ == "__main__":
    work(impute)
