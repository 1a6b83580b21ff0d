"""HyperImpute and MIRACLE of the package hyperimpute, fitted on training rows and incomplete rows together.

As published they are fitted on the incomplete rows only; the settings of the job decide.
"""

from __future__ import annotations

import time

import pandas as pd
from hyperimpute.plugins.imputers import Imputers
from job import Job, run


class BudgetSpent(Exception):
    """The budget is spent; carries the table of HyperImpute's last round."""

    def __init__(self, rounds: int, table: pd.DataFrame) -> None:
        super().__init__(f"stopped after {rounds} rounds")
        self.rounds, self.table = rounds, table


def impute(job: Job) -> None:
    """Standardise the rows by the training rows, impute, and write the incomplete rows."""
    train, incomplete = job.table("train"), job.table("incomplete")
    mean, std = train.mean(), train.std(ddof=0).replace(0, 1)
    parts = [train, incomplete] if job.settings["uses_training_rows"] else [incomplete]
    stacked = pd.concat(parts, ignore_index=True)
    imputed, note = fill(job, (stacked - mean) / std)
    imputed.columns = stacked.columns
    job.write_result(imputed.tail(len(incomplete)) * std + mean, note)


def fill(job: Job, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the imputed table, and a note if the budget ended the imputation."""
    name, options = job.settings["method"], dict(job.settings["options"])
    if name == "hyperimpute" and job.settings["seconds"] is not None:
        deadline = time.monotonic() + job.settings["seconds"]

        def check_clock(rounds: int, table: pd.DataFrame) -> None:
            if rounds > 0 and time.monotonic() > deadline:
                raise BudgetSpent(rounds, table)

        options["inner_loop_hook"] = check_clock
    imputer = Imputers().get(name, random_state=job.settings["seed"], **options)
    try:
        return pd.DataFrame(imputer.fit_transform(table.copy())), ""
    except BudgetSpent as spent:
        return spent.table, f"stopped by its budget after {spent.rounds} of {imputer.n_inner_iter} rounds"


if __name__ == "__main__":
    run(impute)
