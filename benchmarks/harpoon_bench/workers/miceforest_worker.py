"""miceforest: chained random forests, fitted on training rows and incomplete rows together.

`impute_new_data` would fit on the training rows only, but in version 6.0.5 it returns its random initial values,
because it never counts its rounds.
"""

from __future__ import annotations

import miceforest
import pandas as pd
from job import Job, run


def impute(job: Job) -> None:
    """Impute; numbers are averaged over the completed tables, and the most frequent category is taken."""
    train, incomplete, options = job.table("train"), job.table("incomplete"), job.settings["options"]
    stacked = pd.concat([train, incomplete], ignore_index=True)
    stacked[job.discrete] = stacked[job.discrete].astype("category")
    kernel = miceforest.ImputationKernel(
        stacked,
        num_datasets=options["datasets"],
        mean_match_candidates=options["candidates"],
        # "normal" compares log-odds of categories, which are infinite for probabilities of 0 or 1.
        mean_match_strategy={name: "fast" if name in job.discrete else "normal" for name in stacked},
        random_state=job.settings["seed"],
    )
    kernel.mice(options["rounds"])
    tables = [kernel.complete_data(i).tail(len(incomplete)).astype("float64") for i in range(options["datasets"])]
    by_row = pd.concat(tables).groupby(level=0)
    imputed = by_row.mean()
    for name in job.discrete:
        imputed[name] = by_row[name].agg(lambda values: values.mode().iloc[0])
    job.write_result(imputed)


if __name__ == "__main__":
    run(impute)
