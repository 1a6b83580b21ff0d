"""The registry of metrics."""

import pytest

from harpoon.metrics import METRICS


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_declares_direction_help_and_inputs(name):
    metric = METRICS[name]
    assert metric.direction in ("higher", "lower", "level")
    assert metric.minimum < metric.maximum
    assert metric.help.endswith(".")
    assert len(metric.help) < 120
    assert not metric.help.startswith("Return")
    cells = {"mse": ("truth", "imputed", "mask", "train"), "accuracy": ("truth", "imputed", "mask")}
    others = {"coverage": ("truth", "interval", "mask"), "violation": ("rows", "where")}
    utility = dict.fromkeys(("utility", "utility_accuracy"), ("train", "test", "target"))
    assert metric.inputs == (cells | others | utility).get(name, ("real", "synthetic"))


def test_the_best_value_depends_on_the_direction():
    values = [0.2, float("nan"), 0.6]
    assert {m.direction: m.best(values) for m in METRICS.values()} == {"higher": 0.6, "lower": 0.2, "level": None}
    assert METRICS["ks"].best([float("nan")]) is None
