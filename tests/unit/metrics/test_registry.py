"""Scores against values worked out by hand."""

import numpy as np
import pyarrow as pa
import pytest

from harpoon import Harpoon, InvalidTable, Schema, metrics

TRAIN = pa.table({"x": [0.0, 2.0, 4.0, 6.0], "n": [1, 2, 3, 4], "c": ["a", "b", "a", "b"]})
TRUTH = pa.table({"x": [1.0, 2.0, 3.0], "n": [1, 2, 3], "c": ["a", "b", "c"]})
FILLED = pa.table({"x": [3.0, 2.0, 5.0], "n": [1, 4, 3], "c": ["a", "a", "a"]})
MASK = np.array([[True, False, True], [False, True, True], [False, False, True]])


def test_mse_is_in_deviations_of_the_training_column():
    expected = np.mean([(2.0 / np.std([0, 2, 4, 6])) ** 2, (2.0 / np.std([1, 2, 3, 4])) ** 2])
    assert metrics.standardised_mse(Schema.infer(TRAIN), TRUTH, FILLED, MASK, TRAIN) == pytest.approx(expected)


def test_accuracy_counts_a_label_that_training_never_saw_as_a_miss():
    assert metrics.accuracy(Schema.infer(TRAIN), TRUTH, FILLED, MASK) == pytest.approx(1 / 3)


def test_without_hidden_cells_there_is_no_score():
    nothing = np.zeros_like(MASK)
    assert np.isnan(metrics.accuracy(Schema.infer(TRAIN), TRUTH, FILLED, nothing))
    assert np.isnan(metrics.standardised_mse(Schema.infer(TRAIN), TRUTH, FILLED, nothing, TRAIN))


def test_a_table_with_holes_cannot_be_scored():
    holes = FILLED.set_column(2, "c", pa.array(["a", None, "b"]))
    with pytest.raises(InvalidTable, match="'c'"):
        metrics.accuracy(Schema.infer(TRAIN), TRUTH, holes, MASK)


def test_coverage_counts_hidden_numbers_between_the_ends_or_on_them():
    low, high = (pa.table({"x": [x, 2.0, 2.5], "n": [n, 3, 9]}) for x, n in ((1.0, 0), (5.0, 1)))
    schema = Schema.infer(TRAIN)
    assert metrics.coverage(schema, TRUTH, (low, high), MASK) == pytest.approx(1 / 2)  # x of row 0, not n of row 1
    everything = np.ones_like(MASK)
    assert metrics.coverage(schema, TRUTH, (low, high), everything) == pytest.approx(3 / 6)
    assert np.isnan(metrics.coverage(schema, TRUTH, (low, high), np.zeros_like(MASK)))


def test_coverage_takes_the_intervals_of_draws():
    rng = np.random.default_rng(0)
    truth = pa.table({"x": rng.normal(size=400), "c": rng.choice(["a", "b"], 400)})
    mask = rng.random((400, 2)) < 0.5
    holes = pa.table(
        {
            "x": pa.array(np.where(mask[:, 0], np.nan, truth["x"].to_numpy()), from_pandas=True),
            "c": pa.array(
                [None if hidden else label for hidden, label in zip(mask[:, 1], truth["c"].to_pylist(), strict=True)]
            ),
        }
    )
    model = Harpoon(hidden=16, max_epochs=30, random_state=0, progress=False).fit(truth)
    draws = model.impute(holes, draws=19)
    assert 0.75 < metrics.coverage(model.schema_, truth, draws.interval(0.9), mask) <= 1.0
    assert metrics.coverage(model.schema_, truth, draws.interval(0.9), ~mask) == 1.0


def test_a_mask_must_have_the_shape_of_its_table():
    with pytest.raises(InvalidTable, match="shape"):
        metrics.accuracy(Schema.infer(TRAIN), TRUTH, FILLED, MASK[:, :2])


def test_a_value_that_is_an_end_to_six_digits_is_inside():
    truth, end = pa.table({"x": [1.0, 1.0, -2.0]}), pa.table({"x": [1.0000005, 1.001, -2.0000005]})
    mask = np.ones((3, 1), dtype=bool)
    assert metrics.coverage(Schema.infer(truth), truth, (end, end), mask) == pytest.approx(2 / 3)
