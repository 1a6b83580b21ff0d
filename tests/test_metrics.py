"""Scores against values worked out by hand."""

import numpy as np
import pyarrow as pa
import pytest

from harpoon import InvalidTable, Schema, metrics

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
