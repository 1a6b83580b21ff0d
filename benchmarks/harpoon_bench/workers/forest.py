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
    train, holes, options = job.table("train"), job.table("holes"), job.settings["options"]
    stacked = pd.concat([train, holes], ignore_index=True)
    stacked[job.discrete] = stacked[job.discrete].astype("category")
    kernel = miceforest.ImputationKernel(
        stacked,
        num_datasets=options["datasets"],
        mean_match_candidates=options["candidates"],
        # "normal" compares the log-odds of labels, which are infinite where a forest is sure of one.
        mean_match_strategy={name: "fast" if name in job.discrete else "normal" for name in stacked},
        random_state=job.settings["seed"],
    )
    kernel.mice(options["rounds"])
    tables = [kernel.complete_data(i).tail(len(holes)).astype("float64") for i in range(options["datasets"])]
    by_row = pd.concat(tables).groupby(level=0)
    filled = by_row.mean()
    for name in job.discrete:
        filled[name] = by_row[name].agg(lambda values: values.mode().iloc[0])
    job.answer(filled)


if __name__ == "__main__":
    work(impute)
