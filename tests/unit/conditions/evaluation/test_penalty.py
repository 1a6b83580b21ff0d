"""Penalties by hand: inequalities, categories, conjunctions and disjunctions (eq. 9 and 10)."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import Schema
from harpoon.conditions.binding.binder import bind
from harpoon.conditions.evaluation import penalty as penalties
from harpoon.conditions.evaluation.penalty import CATEGORY_PENALTIES, ConditionPenalty
from harpoon.conditions.language.parser import parse
from harpoon.config import GuidanceConfig, declared
from harpoon.data import dataframe
from harpoon.data.reader import read_columns
from harpoon.data.value_counts import count_columns
from harpoon.encoding.row_codec import RowCodec

TABLE = pa.table({"x": [0.0, 2.0, 4.0, 6.0], "job": ["chef", "nurse", "pilot", "chef"]})
SCHEMA = Schema.infer(TABLE, kinds={"x": "number", "job": "category"})
STD = np.std([0, 2, 4, 6])


def penalty(where, **options):
    source = dataframe.read(TABLE)
    codec = RowCodec.fit(SCHEMA, count_columns(source), encoding="onehot", scaling="standard")
    x = torch.from_numpy(codec.encode(read_columns(source, SCHEMA)))
    return ConditionPenalty(codec, GuidanceConfig(**options), x).penalty(bind(parse(where), SCHEMA))(x).numpy()


def test_an_inequality_is_the_squared_violation_in_standard_deviations():
    expected = (np.array([3, 1, 0, 0]) / STD) ** 2
    assert penalty("x >= 3") == pytest.approx(expected, abs=1e-6)
    assert penalty("x >= 3", inequality_weight=2.0, inequality_power=1.0) == pytest.approx(2 * expected**0.5, abs=1e-6)


def test_a_category_is_the_l1_distance_to_the_nearest_allowed_one():
    assert penalty("job = 'chef'") == pytest.approx([0, 2, 2, 0], abs=1e-6)
    assert penalty("job in ('chef', 'pilot')", category_weight=3.0) == pytest.approx([0, 6, 0, 0], abs=1e-6)


def test_and_is_a_sum_and_or_is_a_product():
    number, category = penalty("x >= 3"), penalty("job = 'chef'")
    assert penalty("x >= 3 and job = 'chef'") == pytest.approx(number + category)
    assert penalty("x >= 3 or job = 'chef'") == pytest.approx(number * category)


def test_the_registry_has_the_losses_that_the_config_names():
    assert tuple(CATEGORY_PENALTIES) == dict(declared(GuidanceConfig))["category_loss"].choices


def test_a_penalty_of_categories_is_looked_up_by_name(monkeypatch):
    def constant(rows, column, allowed, config):
        return rows.x.new_full((len(rows.x),), float(len(allowed)))

    monkeypatch.setitem(penalties.CATEGORY_PENALTIES, "ce", constant)
    assert penalty("job != 'chef'", category_loss="ce").tolist() == [2.0] * 4
