"""The paper preset, trained for a short time on Shoppers, against filling in the mean and the mode.

    python benchmarks/shoppers_paper.py --data FOLDER [--minutes 20] [--seeds 1] [--tune] [--output FILE]

FOLDER holds shoppers.csv.gz (the paper's data). The split and the masks follow the paper's protocol:
70/30 by RandomState(1234), MAR at 25 %. The last 15 % of the training rows are not trained on: on them (`--tune`) the
strength of the guidance was chosen. Writes one JSON file with the settings, the scores and the versions.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
import torch

import harpoon
from harpoon import masks, metrics
from harpoon.bench.datasets import load, with_holes

HERE = Path(__file__).parent


def kept_for_tuning(train: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    cut = int(0.85 * len(train))
    return train.iloc[:cut], train.iloc[cut:].reset_index(drop=True)


def mean_and_mode(train: pd.DataFrame, table: pd.DataFrame, schema: harpoon.Schema) -> pd.DataFrame:
    fill = {c.name: train[c.name].mean() if c.kind.numeric else train[c.name].mode()[0] for c in schema.modelled}
    return table.astype(object).fillna(fill).infer_objects()


def score(schema: harpoon.Schema, truth: Any, filled: Any, mask: Any, train: Any) -> dict[str, float]:  # noqa: ANN401
    numbers = harpoon.Schema(
        tuple(c if c.kind.discrete else harpoon.Column(c.name, harpoon.Kind.NUMBER) for c in schema)
    )
    return {
        "mse": metrics.standardised_mse(numbers, truth, filled, mask, train),
        "accuracy": metrics.accuracy(numbers, truth, filled, mask),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--strength", type=float, default=0.05)
    parser.add_argument("--tune", action="store_true", help="score the rows kept for tuning, not the test rows")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--ratio", type=float, default=0.25)
    parser.add_argument("--model", type=Path, help="keep the trained model here, and use it if it is there")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "shoppers_paper.json")
    arguments = parser.parse_args()

    dataset = load("shoppers", arguments.data)
    train, test, schema = dataset.train, dataset.test, dataset.schema
    learnt, tuning = kept_for_tuning(train)
    test = tuning if arguments.tune else test
    if arguments.model and arguments.model.exists():
        model = harpoon.load(arguments.model)
    else:
        quick = {"batch_size": 256, "learning_rate": 3e-4, "max_time": 60 * arguments.minutes}
        model = harpoon.Harpoon("paper", schema=schema, random_state=0, **quick).fit(learnt)
        if arguments.model:
            model.save(arguments.model)

    runs = []
    for seed in range(arguments.seeds):
        mask = masks.draw("MAR", test, arguments.ratio, seed)
        incomplete = with_holes(test, mask)
        began = perf_counter()
        filled = model.impute(incomplete, random_state=seed, strength=arguments.strength)
        seconds = perf_counter() - began
        baseline = mean_and_mode(train, incomplete, schema)
        run = {
            "seed": seed,
            "hidden_share": float(mask.mean()),
            "impute_seconds": round(seconds, 1),
            "harpoon_paper": score(schema, test, filled, mask, train),
            "mean_mode": score(schema, test, baseline, mask, train),
        }
        print(json.dumps(run), flush=True)
        runs.append(run)
        record = {
            "script": "benchmarks/shoppers_paper.py",
            "mask": f"MAR {arguments.ratio:g}",
            "rows": "kept for tuning" if arguments.tune else "test",
            "strength": arguments.strength,
            "settings": model.settings_.to_json(),
            "epochs_trained": len(model.history_.epochs),
            "train_seconds": round(model.history_.seconds, 1),
            "held_out_loss": model.history_.epochs[-1].held_out_loss,
            "versions": {
                "harpoon": harpoon.__version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "runs": runs,
        }
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
