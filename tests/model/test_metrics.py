"""Scores of a fitted model."""

import numpy as np
import pyarrow as pa

from harpoon import Harpoon, metrics


def test_coverage_takes_the_intervals_of_draws():
    rng = np.random.default_rng(0)
    truth = pa.table({"x": rng.normal(size=400), "c": rng.choice(["a", "b"], 400)})
    mask = rng.random((400, 2)) < 0.5
    incomplete = pa.table(
        {
            "x": pa.array(np.where(mask[:, 0], np.nan, truth["x"].to_numpy()), from_pandas=True),
            "c": pa.array(
                [
                    None if hidden else category
                    for hidden, category in zip(mask[:, 1], truth["c"].to_pylist(), strict=True)
                ]
            ),
        }
    )
    model = Harpoon(hidden=16, max_epochs=30, random_state=0, progress=False).fit(truth)
    draws = model.impute(incomplete, draws=19)
    assert 0.75 < metrics.coverage(model.schema_, truth, draws.interval(0.9), mask) <= 1.0
    assert metrics.coverage(model.schema_, truth, draws.interval(0.9), ~mask) == 1.0
