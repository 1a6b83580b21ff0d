"""HyperImpute and MIRACLE of the package hyperimpute, on the rows with holes and, above them, the training rows."""

from __future__ import annotations

import time

import pandas as pd
from hyperimpute.plugins.imputers import Imputers
from job import Job, work


class BudgetSpent(Exception):
    """HyperImpute reports its table between rounds; this carries the last one out."""

    def __init__(self, rounds: int, table: pd.DataFrame) -> None:
        super().__init__(f"stopped after {rounds} rounds")
        self.rounds, self.table = rounds, table


def impute(job: Job) -> None:
    """Both imputers learn from the very table that they fill, so the training rows stand in it."""
    train, holes = job.table("train"), job.table("holes")
    mean, deviation = train.mean(), train.std(ddof=0).replace(0, 1)
    stacked = pd.concat([train, holes], ignore_index=True)
    filled, note = fill(job, (stacked - mean) / deviation)
    filled.columns = stacked.columns
    job.answer(filled.tail(len(holes)) * deviation + mean, note)


def fill(job: Job, table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The standardised table without holes, and a note where the budget ended it."""
    name, options = job.settings["method"], dict(job.settings["options"])
    if name == "hyperimpute" and job.settings["seconds"] is not None:
        deadline = time.monotonic() + job.settings["seconds"]

        def look_at_clock(rounds: int, table: pd.DataFrame) -> None:
            if rounds > 0 and time.monotonic() > deadline:
                raise BudgetSpent(rounds, table)

        options["inner_loop_hook"] = look_at_clock
    imputer = Imputers().get(name, random_state=job.settings["seed"], **options)
    try:
        return pd.DataFrame(imputer.fit_transform(table.copy())), ""
    except BudgetSpent as spent:
        return spent.table, f"stopped by its budget after {spent.rounds} of {imputer.n_inner_iter} rounds"


if __name__ == "__main__":
    work(impute)
