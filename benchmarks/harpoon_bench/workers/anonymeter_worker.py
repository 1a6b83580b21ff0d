"""Attacks of the package Anonymeter, for rows in Parquet files: singling out, linkability and attribute inference.

    python anonymeter_worker.py FOLDER

FOLDER holds train.parquet, holdout.parquet, synthetic.parquet and job.json: the two halves of the columns to link, the
number of descriptions, and the level of intervals. The results are written to scores.json there.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator


def rates(evaluator: object, level: float) -> dict[str, object]:
    """Return the successes on training and hold-out rows, and the risk with its interval."""
    found = evaluator.results(confidence_level=level)
    risk = found.risk()
    return {
        "attacks": int(found.n_attacks_ori),
        "train": int(found.n_success),
        "holdout": int(found.n_control),
        "risk": float(risk.value),
        "interval": [float(end) for end in risk.ci],
    }


def main() -> None:
    folder = Path(sys.argv[1])
    train, holdout, synthetic = (pd.read_parquet(folder / f"{n}.parquet") for n in ("train", "holdout", "synthetic"))
    job = json.loads((folder / "job.json").read_text())
    np.random.seed(0)
    size, level, columns = len(train), job["level"], list(train.columns)
    scores: dict[str, object] = {}
    warnings.simplefilter("ignore")
    for name, mode in (("singling_out", "univariate"), ("singling_out_combined", "multivariate")):
        evaluator = SinglingOutEvaluator(
            train, synthetic, control=holdout, n_attacks=job["descriptions"][name], max_attempts=100_000, seed=0
        )
        scores[name] = rates(evaluator.evaluate(mode=mode), level)
    evaluator = LinkabilityEvaluator(
        train, synthetic, control=holdout, n_attacks=size, aux_cols=tuple(job["halves"]), n_neighbors=1
    )
    scores["linkability"] = rates(evaluator.evaluate(n_jobs=1), level)
    scores["attribute_inference"] = {}
    for secret in columns:
        others = [column for column in columns if column != secret]
        is_number = pd.api.types.is_numeric_dtype(train[secret])
        evaluator = InferenceEvaluator(
            train, synthetic, control=holdout, aux_cols=others, secret=secret, n_attacks=size, regression=is_number
        )
        scores["attribute_inference"][secret] = rates(evaluator.evaluate(n_jobs=1), level)
    text = {"scores": scores, "versions": {name: version(name) for name in ("anonymeter", "numpy", "pandas")}}
    (folder / "scores.json").write_text(json.dumps(text))


if __name__ == "__main__":
    main()
