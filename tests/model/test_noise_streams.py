"""Random numbers of one call: none is used twice, neither by two strategies nor by two branches of a condition."""

import pytest

from harpoon.conditions.binding.binder import bind
from harpoon.conditions.language.parser import to_predicate
from harpoon.data import dataframe
from harpoon.data.column_array import repeat_row
from harpoon.data.reader import read_columns
from harpoon.inference.conditional import conditional_sampler as conditional
from harpoon.inference.conditional.conditional_sampler import ConditionalSampler
from harpoon.inference.sampling.row_sampler import RowSampler


def test_guided_branches_share_no_random_numbers(continuous_model):
    """Branches that used the same noise once returned the same rows."""
    model = continuous_model
    base = read_columns(dataframe.constant_table({}, 1), model.schema_, partial=True)
    predicate = bind(to_predicate("x >= 0 and c = 'b'"), model.schema_)
    query = ConditionalSampler(model._sampler(seed=7), predicate, base)
    first, second = (
        query.guide(150, lambda _start, count: repeat_row(base, count), predicate, branch=branch) for branch in (1, 2)
    )
    free = set(first["y"].values.tolist()), set(second["y"].values.tolist())
    assert min(map(len, free)) > 100
    assert len(free[0] & free[1]) <= 1


@pytest.fixture
def used(monkeypatch):
    """The stream and the row of all noise that is used."""
    keys, sample = [], RowSampler.sample

    def spy(self, given, index, *, draw=0, **options):
        keys.extend((int(draw), row) for row in index.tolist())
        return sample(self, given, index, draw=draw, **options)

    monkeypatch.setattr(RowSampler, "sample", spy)
    return keys


@pytest.mark.parametrize("strategy", ["auto", "rejection", "conditioning", "guidance"])
def test_no_noise_is_used_twice_in_a_call(continuous_model, used, strategy):
    continuous_model.sample(100, where="x > 1 or x + y < -1", strategy=strategy, random_state=1)
    assert len(used) == len(set(used))


def test_no_noise_is_used_twice_where_every_branch_is_guided(continuous_model, used, monkeypatch):
    monkeypatch.setattr(conditional, "MAX_BRANCH_ROWS", 0)
    monkeypatch.setattr(conditional, "BRANCH_PILOT_ROWS", 8)
    where = "c = 'a' and x + y > 0 or c = 'b' and x > y"
    rows = continuous_model.sample(60, where=where, strategy="conditioning", random_state=1)
    assert continuous_model.sampling_info_.strategy == "guidance"
    assert rows.num_rows == 60
    assert len(used) == len(set(used))
