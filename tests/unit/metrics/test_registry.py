"""The registry of metrics."""

import inspect

import numpy as np
import pyarrow as pa
import pytest

from harpoon import Schema
from harpoon.metrics import METRICS

TABLES = [
    pa.table({"x": rng.normal(size=40), "y": rng.normal(size=40), "c": rng.choice(["a", "b"], 40)})
    for rng in map(np.random.default_rng, (0, 1))
]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_declares_direction_help_and_inputs(name):
    metric = METRICS[name]
    assert metric.direction in ("higher", "lower", "level")
    assert metric.minimum < metric.maximum
    assert metric.help.endswith(".")
    assert len(metric.help) < 120
    parameters = inspect.signature(metric.function).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty]
    assert required == ["schema", *metric.inputs]


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.inputs == ("real", "synthetic")])
def test_a_score_of_two_tables_is_a_float_in_its_range(name):
    value = METRICS[name].function(Schema.infer(TABLES[0]), *TABLES)
    assert type(value) is float
    assert METRICS[name].minimum <= value <= METRICS[name].maximum


def test_the_best_value_depends_on_the_direction():
    values = [0.2, float("nan"), 0.6]
    assert {m.direction: m.best(values) for m in METRICS.values()} == {"higher": 0.6, "lower": 0.2, "level": None}
    assert METRICS["ks"].best([float("nan")]) is None
