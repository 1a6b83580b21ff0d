"""Timestamps in autoregressive sampling: possible parts, and ranks of times that have the sampled ones."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import ndtri

from harpoon.data import NO_INDEX, dataframe, read_columns
from harpoon.data.schema import Schema
from harpoon.data.value_counts import count_columns
from harpoon.encoding.row_codec import RowCodec
from harpoon.inference.sampling.timestamps import SampledTimestamp, _coverage

MONTHS = pd.date_range("2015-01-01", "2020-12-01", freq="MS")
TIMES = {
    "days": pd.date_range("2015-01-01", "2020-12-31"),
    "few days": pd.date_range("2019-01-01", "2020-12-31"),
    "twice a month": MONTHS.union(MONTHS + pd.Timedelta(days=14)),
    "hours": pd.date_range("2020-01-01", "2020-12-31 23:00", freq="h", tz="Europe/Berlin"),
}


def sampled_timestamp(times):
    table = dataframe.read(pd.DataFrame({"t": times}))
    counts = count_columns(table)
    schema = Schema.from_counts(counts)
    codec = RowCodec.fit(schema, counts, encoding="mixed", scaling="standard", calendar_parts=True)
    columns = sorted({part.column for part in codec.slices})
    x = torch.from_numpy(codec.encode(read_columns(table, schema)))
    return SampledTimestamp.from_codec(codec, codec.timestamps[0], columns), x


@pytest.mark.parametrize("name", TIMES)
def test_parts_of_a_possible_time_are_never_excluded(name):
    each, x = sampled_timestamp(TIMES[name])
    assert not (each.impossible_parts(x.float()) & (x[:, each.joint] > 0)).any()


def test_only_weekdays_that_a_date_can_have_remain():
    times = TIMES["twice a month"]
    each, x = sampled_timestamp(times)
    parts = {part.part: index for index, part in each.timestamp.parts.items()}
    rows = x.float().clone()
    rows[:, each.features[parts["weekday"]]] = 0
    impossible = torch.zeros(len(x), x.shape[1], dtype=torch.bool)
    impossible[:, each.joint] = each.impossible_parts(rows)
    possible = ~impossible[:, each.features[parts["weekday"]]].numpy()
    sunday_first = (times.day_of_week.to_numpy() + 1) % 7
    for row in range(len(times)):
        same = (times.month == times[row].month) & (times.day == times[row].day)
        assert set(np.flatnonzero(possible[row])) == set(sunday_first[same])


@pytest.mark.parametrize("name", TIMES)
def test_every_rank_of_a_group_decodes_to_a_time_with_its_parts(name):
    each, x = sampled_timestamp(TIMES[name])
    group = each.groups.of_rows(x)
    assert (group != NO_INDEX).all()
    low, high = each.groups.intervals[group].unbind(dim=2)
    random = torch.rand(low.shape, generator=torch.Generator().manual_seed(0), dtype=low.dtype)
    rank = torch.lerp(low, high, random)
    score = next(part.start for part in each.codec.slices if part.type == "continuous")
    for time in range(rank.shape[1]):
        exists = high[:, time] > low[:, time]
        rows = x[exists].clone()
        rows[:, score] = torch.from_numpy(ndtri(rank[exists, time].numpy()))
        decoded = each.codec.decode(rows.numpy())["t"]
        parts = each.codec.encode({"t": decoded})
        for index in each.timestamp.parts:
            assert np.array_equal(parts[:, each.features[index]], rows[:, each.features[index]].numpy())


@pytest.mark.parametrize("n_bins", [5, 64, 1000])
def test_the_ranks_of_all_groups_cover_the_bins_once(n_bins):
    each, _ = sampled_timestamp(TIMES["days"])
    intervals = each.groups.intervals.numpy()
    covered = sum(_coverage(group[group[:, 1] > 0], n_bins) for group in intervals)
    np.testing.assert_allclose(covered[1:-1], 1.0, atol=0.02)
    assert (each.groups.density(n_bins) >= 1).all()


def test_written_rows_have_a_time_with_the_sampled_parts_and_a_copy_has_its_own():
    each, x = sampled_timestamp(TIMES["hours"])
    rows = torch.arange(100)
    mixed = x[rows].float()
    for index in each.timestamp.parts:
        mixed[:, each.features[index]] = x[rows + 4000][:, each.features[index]].float()
    is_copy = rows % 2 == 0
    written = mixed.clone()
    each.write(written, rows, is_copy)
    for index in each.timestamp.parts:
        features = each.features[index]
        assert torch.equal(written[~is_copy][:, features], mixed[~is_copy][:, features])
        assert torch.equal(written[is_copy][:, features], x[rows][is_copy][:, features].float())
    assert torch.equal(written[is_copy, each.standardised], mixed[is_copy, each.standardised])
    assert each.has_parts(written, written[:, [each.standardised]]).all()
