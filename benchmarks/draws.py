"""Whether several draws say how sure they are: intervals, probabilities and pooled estimates.

    python benchmarks/draws.py --data FOLDER --models FOLDER [--minutes 5] [--datasets adult,bean] [--draws 20]
                               [--rows 1000] [--masks 3] [--results FOLDER]

For each data set: train on 70 % of the rows (or read the model from --models), hide cells of at most --rows test rows
by each of the paper's nine masks (completely at random, by other columns, by their own values; a quarter, a half and
three quarters of them), and draw 20 completed tables. Then:

- intervals: the share of hidden numbers inside their 90 % interval, over all masks and under each. Where values repeat,
  such as zeros, an interval may have to hold more than 90 %, even if the draws are perfect; the share of a draw itself
  inside the interval of the other draws says how much to expect;
- agreed: the share of hidden numbers that all draws agree on, to six digits, because other cells determine them; how
  many of these are right; and how many of the others, whose intervals have a length, are inside;
- ranks: the same without intervals. The true value gets its place among the draws, at random among those that are equal
  to it; of perfect draws 90 % of the truths are in the middle 90 % of the places, whatever repeats;
- probabilities: of hidden labels, how probable the model called the labels that it drew, and how often these were
  right; the same for the most probable label. Where a model knows how sure it is, the two agree;
- pooling: a linear regression of one number on three others, by Rubin's rules over the draws. The regression on the
  rows before anything was hidden says what should have come out. The pooled 95 % interval also allows for the choice of
  the rows, which the two regressions share, so it should cover more than 95 %; an interval made from the differences
  between the draws alone should cover about 95 %, if cells are not hidden for what they are.

One JSON file per data set; what is there is not done again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

import harpoon
from harpoon import metrics
from harpoon.inference.intervals import attainable_coverage
from harpoon.metrics import masks
from harpoon.metrics.imputation import RELATIVE_TOLERANCE
from harpoon_bench.datasets import NAMES, load, with_holes
from models import trained
from records import each, facts, parser

SHARES = (0.25, 0.5, 0.75)
LEVEL, POOLED_LEVEL = 0.9, 0.95
OVER_NUMBERS = ("inside", "attainable", "by_rank", "agreed", "agreed_right", "open_inside")
WEIGHTS = {"agreed_right": "agreed_numbers", "open_inside": "open_numbers"}  # of shares that are not of all numbers
COVERED = ("covered", "covered_by_draws_alone")
REGRESSIONS = {
    "adult": ("hours-per-week", ["age", "education-num", "capital-gain"]),
    "default": ("LIMIT_BAL", ["AGE", "BILL_AMT1", "PAY_AMT1"]),
    "shoppers": ("ExitRates", ["BounceRates", "PageValues", "SpecialDay"]),
    "gesture": ("1", ["2", "7", "13"]),
    "magic": ("fSize", ["fLength", "fWidth", "fConc"]),
    "letter": ("onpix", ["width", "high", "x-bar"]),
    "bean": ("roundness", ["Area", "AspectRation", "Extent"]),
    "california": ("median_house_value", ["median_income", "housing_median_age", "latitude"]),
}
Floats = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Regression:
    """Least squares with an intercept: coefficients and their variances, as `pool` takes them."""

    def __init__(self, name: str, reference: pd.DataFrame) -> None:
        self.target, self.inputs = REGRESSIONS[name]
        columns = [self.target, *self.inputs]
        self.mean, self.deviation = reference[columns].mean(), reference[columns].std()

    def __call__(self, table: pd.DataFrame) -> tuple[Floats, Floats]:
        """Fit it, in units of the complete rows, so that coefficients of all data sets are alike."""
        scaled = (table[list(self.mean.index)].astype(float) - self.mean) / self.deviation
        X = np.column_stack([np.ones(len(table)), scaled[self.inputs].to_numpy()])
        y = scaled[self.target].to_numpy()
        inverse = np.linalg.inv(X.T @ X)
        coefficients = inverse @ X.T @ y
        variance = ((y - X @ coefficients) ** 2).sum() / (len(y) - X.shape[1])
        return coefficients, variance * np.diag(inverse)


def pooling(name: str, rows: pd.DataFrame, draws: harpoon.MultipleImputation) -> list[dict[str, Any]]:
    """One record per coefficient."""
    regression = Regression(name, rows)
    complete, _ = regression(rows)
    pooled = draws.pool(regression)
    low, high = pooled.interval(POOLED_LEVEL)
    between = np.sqrt(pooled.missing_information) * pooled.error
    reach = t.ppf(0.5 + POOLED_LEVEL / 2, len(draws) - 1) * between
    return [
        {
            "coefficient": coefficient,
            "complete": float(complete[i]),
            "pooled": float(pooled.estimate[i]),
            "error": float(pooled.error[i]),
            "missing_information": float(pooled.missing_information[i]),
            "covered": bool(low[i] <= complete[i] <= high[i]),
            "covered_by_draws_alone": bool(abs(complete[i] - pooled.estimate[i]) <= reach[i]),
        }
        for i, coefficient in enumerate(["intercept", *regression.inputs])
    ]


def drawn(draws: harpoon.MultipleImputation, name: str, hidden: Mask) -> Floats:
    """The hidden numbers of a column, (draws, hidden)."""
    return np.stack([table[name].to_numpy(dtype=float)[hidden] for table in draws])


def numeric(schema: harpoon.Schema, rows: pd.DataFrame, mask: Mask) -> Mask:
    """The hidden cells that are numbers."""
    numbers: Mask = mask & np.array([schema[name].kind.numeric for name in rows.columns])
    return numbers


def agreed(schema: harpoon.Schema, draws: harpoon.MultipleImputation, mask: Mask) -> Mask:
    """The hidden numbers that are the same in all draws, to six digits."""
    columns, found = draws.tables[0].columns, np.zeros_like(mask)
    for place, name in enumerate(columns):
        if schema[name].kind.numeric:
            values, hidden = drawn(draws, name, mask[:, place]), mask[:, place]
            found[hidden, place] = np.ptp(values, axis=0) <= RELATIVE_TOLERANCE * np.abs(values[0])
    return found


def intervals(
    schema: harpoon.Schema, rows: pd.DataFrame, draws: harpoon.MultipleImputation, mask: Mask
) -> dict[str, float]:
    """The share of hidden numbers inside their interval: of all, and of those that the draws agree on or not."""
    ends, numbers, same = draws.interval(LEVEL), numeric(schema, rows, mask), agreed(schema, draws, mask)
    return {
        "numbers": int(numbers.sum()),
        "agreed_numbers": int(same.sum()),
        "open_numbers": int((numbers & ~same).sum()),
        "inside": metrics.coverage(schema, rows, ends, numbers),
        "attainable": attainable_of_all(schema, draws, numbers),
        "agreed": float(same[numbers].mean()),
        "agreed_right": metrics.coverage(schema, rows, ends, same) if same.any() else 1.0,
        "open_inside": metrics.coverage(schema, rows, ends, numbers & ~same),
    }


def attainable_of_all(schema: harpoon.Schema, draws: harpoon.MultipleImputation, mask: Mask) -> float:
    """The share of drawn numbers inside the interval of the other draws."""
    hidden = {name: mask[:, place] for place, name in enumerate(draws.tables[0].columns) if mask[:, place].any()}
    shares = [attainable_coverage(drawn(draws, name, rows), LEVEL, schema[name]) for name, rows in hidden.items()]
    return float(np.average(shares, weights=[rows.sum() for rows in hidden.values()]))


def by_rank(
    schema: harpoon.Schema,
    rows: pd.DataFrame,
    draws: harpoon.MultipleImputation,
    mask: Mask,
    generator: np.random.Generator,
) -> float:
    """The share of hidden numbers whose place among the draws is in the middle of all, by chance among equals."""
    inside = []
    for column in schema.modelled:
        if column.kind.numeric:
            hidden = mask[:, rows.columns.get_loc(column.name)]
            truth, values = rows[column.name].to_numpy(dtype=float)[hidden], drawn(draws, column.name, hidden)
            equal = np.abs(values - truth) <= RELATIVE_TOLERANCE * np.abs(truth)
            below = ((values < truth) & ~equal).sum(axis=0)
            place = below + generator.uniform(0, equal.sum(axis=0) + 1)
            inside.append(np.abs(place / (len(values) + 1) - 0.5) <= LEVEL / 2)
    return float(np.concatenate(inside).mean())


def probabilities(
    model: harpoon.Harpoon,
    rows: pd.DataFrame,
    holes: pd.DataFrame,
    draws: harpoon.MultipleImputation,
    mask: Mask,
) -> dict[str, float]:
    """How probable the drawn and the most probable labels were called, and how often they were right."""
    expected = model.expect(holes)
    parts: dict[str, list[Floats]] = {"drawn": [], "drawn_right": [], "likeliest": [], "likeliest_right": []}
    for name, labels in expected.labels.items():
        hidden = mask[:, rows.columns.get_loc(name)]
        place = {label: i for i, label in enumerate(labels)}
        truth = rows[name].map(place).fillna(-1).to_numpy().astype(int)[hidden]
        called = expected.probabilities[name][hidden]
        drawn = np.stack([table[name].map(place).to_numpy().astype(int)[hidden] for table in draws])
        parts["drawn"].append(np.take_along_axis(called, drawn.T, axis=1).ravel())
        parts["drawn_right"].append((truth[:, None] == drawn.T).ravel().astype(float))
        parts["likeliest"].append(called.max(axis=1))
        parts["likeliest_right"].append((called.argmax(axis=1) == truth).astype(float))
    return {part: float(np.concatenate(values).mean()) for part, values in parts.items() if values}


def run(arguments: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    dataset = load(name, arguments.data)
    model = trained(arguments.data, name, arguments.minutes, arguments.models)
    schema, rows = dataset.schema, dataset.test.head(arguments.rows)
    runs: list[dict[str, Any]] = []
    for mechanism, share, seed in product(masks.MECHANISMS, SHARES, range(arguments.masks)):
        mask = masks.sample_mask(mechanism, rows, share, seed)
        holes, began = with_holes(rows, mask), perf_counter()
        draws = model.impute(holes, draws=arguments.draws, random_state=seed)
        runs.append(
            {
                "mechanism": mechanism,
                "hidden": share,
                "seed": seed,
                "impute_seconds": round(perf_counter() - began, 1),
                **intervals(schema, rows, draws, mask),
                "by_rank": by_rank(schema, rows, draws, mask, np.random.default_rng(seed)),
                "probabilities": probabilities(model, rows, holes, draws, mask),
                "regression": pooling(name, rows, draws),
            }
        )
        print(name, mechanism, share, seed, *(f"{key} {runs[-1][key]:.4f}" for key in OVER_NUMBERS), flush=True)
    return {
        "script": "benchmarks/draws.py",
        "dataset": name,
        "rows": len(rows),
        "draws": arguments.draws,
        "level": LEVEL,
        **{key: over(runs, key) for key in OVER_NUMBERS},
        "under": {f"{mechanism} {share}": over(some, "inside") for (mechanism, share), some in by_mask(runs).items()},
        **{key: float(np.mean([c[key] for run in runs for c in run["regression"]])) for key in COVERED},
        "runs": runs,
        **facts(model),
    }


def over(runs: Iterable[dict[str, Any]], key: str) -> float:
    """A share of numbers, over all runs."""
    weight = WEIGHTS.get(key, "numbers")
    some = [run for run in runs if run[weight]]
    return float(np.average([run[key] for run in some], weights=[run[weight] for run in some])) if some else 1.0


def by_mask(runs: Iterable[dict[str, Any]]) -> dict[tuple[str, float], list[dict[str, Any]]]:
    """The runs of each mechanism and share."""
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault((run["mechanism"], run["hidden"]), []).append(run)
    return found


def summary(records: Iterable[dict[str, Any]]) -> str:
    """One line per data set."""
    return "\n".join(
        f"{r['dataset']}: {100 * r['inside']:.1f} % inside ({100 * min(r['under'].values()):.1f} to "
        f"{100 * max(r['under'].values()):.1f} % under a mask; {100 * r['attainable']:.1f} % of perfect draws), "
        f"{100 * r['by_rank']:.1f} % by rank; the draws agree on {100 * r['agreed']:.1f} % and "
        f"{100 * r['agreed_right']:.2f} % of these are right, of the others {100 * r['open_inside']:.1f} % are inside; "
        f"coefficients covered {r['covered']:.2f}, by the draws alone {r['covered_by_draws_alone']:.2f}"
        for r in records
    )


def main() -> None:
    arguments = parser(Path(__file__).stem, NAMES)
    arguments.add_argument("--draws", type=int, default=20)
    arguments.add_argument("--rows", type=int, default=1000)
    arguments.add_argument("--masks", type=int, default=3)
    given = arguments.parse_args()
    print(summary(each(given.datasets, given.results, lambda name: run(given, name)).values()))


if __name__ == "__main__":
    main()
