"""Scores of imputed cells against values computed by hand."""

import numpy as np
import pyarrow as pa
import pytest

from harpoon import InvalidTable, Schema, metrics

TRAIN = pa.table({"x": [0.0, 2.0, 4.0, 6.0], "n": [1, 2, 3, 4], "c": ["a", "b", "a", "b"]})
TRUTH = pa.table({"x": [1.0, 2.0, 3.0], "n": [1, 2, 3], "c": ["a", "b", "c"]})
IMPUTED = pa.table({"x": [3.0, 2.0, 5.0], "n": [1, 4, 3], "c": ["a", "a", "a"]})
MASK = np.array([[True, False, True], [False, True, True], [False, False, True]])


def test_mse_is_in_standard_deviations_of_the_training_column():
    expected = np.mean([(2.0 / np.std([0, 2, 4, 6])) ** 2, (2.0 / np.std([1, 2, 3, 4])) ** 2])
    assert metrics.standardised_mse(Schema.infer(TRAIN), TRUTH, IMPUTED, MASK, TRAIN) == pytest.approx(expected)


def test_accuracy_counts_a_category_unknown_to_training_as_wrong():
    assert metrics.accuracy(Schema.infer(TRAIN), TRUTH, IMPUTED, MASK) == pytest.approx(1 / 3)


def test_without_hidden_cells_the_score_is_nan():
    nothing = np.zeros_like(MASK)
    assert np.isnan(metrics.accuracy(Schema.infer(TRAIN), TRUTH, IMPUTED, nothing))
    assert np.isnan(metrics.standardised_mse(Schema.infer(TRAIN), TRUTH, IMPUTED, nothing, TRAIN))


def test_a_table_with_missing_cells_cannot_be_scored():
    incomplete = IMPUTED.set_column(2, "c", pa.array(["a", None, "b"]))
    with pytest.raises(InvalidTable, match="'c'"):
        metrics.accuracy(Schema.infer(TRAIN), TRUTH, incomplete, MASK)


def test_coverage_counts_hidden_values_between_the_ends_or_on_them():
    low, high = (pa.table({"x": [x, 2.0, 2.5], "n": [n, 3, 9]}) for x, n in ((1.0, 0), (5.0, 1)))
    schema = Schema.infer(TRAIN)
    assert metrics.coverage(schema, TRUTH, (low, high), MASK) == pytest.approx(1 / 2)  # x of row 0, not n of row 1
    everything = np.ones_like(MASK)
    assert metrics.coverage(schema, TRUTH, (low, high), everything) == pytest.approx(3 / 6)
    assert np.isnan(metrics.coverage(schema, TRUTH, (low, high), np.zeros_like(MASK)))


def test_a_mask_must_have_the_shape_of_its_table():
    with pytest.raises(InvalidTable, match="shape"):
        metrics.accuracy(Schema.infer(TRAIN), TRUTH, IMPUTED, MASK[:, :2])


def test_a_value_that_equals_an_end_to_six_digits_is_covered():
    truth, end = pa.table({"x": [1.0, 1.0, -2.0]}), pa.table({"x": [1.0000005, 1.001, -2.0000005]})
    mask = np.ones((3, 1), dtype=bool)
    assert metrics.coverage(Schema.infer(truth), truth, (end, end), mask) == pytest.approx(2 / 3)
