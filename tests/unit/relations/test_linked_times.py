"""Point estimates of timestamps that follow from others: known ones stay, unknown ones follow, null ones have none."""

import numpy as np
import pandas as pd
import pytest

from harpoon.data import count_columns, dataframe
from harpoon.data.schema import Schema
from harpoon.encoding.row_codec import RowCodec
from harpoon.relations import Formula, link_times

N = 200
RANDOM = np.random.default_rng(0)
START = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(RANDOM.integers(0, 900, N), unit="D"))
FRAME = pd.DataFrame(
    {name: START + pd.Timedelta(days=day) for day, name in enumerate("abc")}
    | {"ab": RANDOM.normal(size=N), "bc": RANDOM.normal(size=N)}
)


@pytest.fixture(scope="module")
def codec():
    counts = count_columns(dataframe.read(FRAME))
    return RowCodec.fit(Schema.from_counts(counts), counts, encoding="mixed", scaling="standard", calendar_parts=True)


@pytest.fixture(scope="module")
def formulas(codec):
    """The equations b = a + ab and c = b + bc, each solved for both timestamps."""
    index = [each.column.name for each in codec.quantities].index
    return [
        Formula(index(target), (index(source), index(length)), (1.0, sign), None)
        for start, end, length in (("a", "b", "ab"), ("b", "c", "bc"))
        for target, source, sign in ((end, start, 1.0), (start, end, -1.0))
    ]


def link(codec, formulas, unknown, null=""):
    """Link the times 100, 200 and 300, between which are 1 and 5."""
    values = dict(zip(["a", "b", "c", "ab", "bc"], np.array([[100.0], [200.0], [300.0], [1.0], [5.0]]), strict=True))
    unknown, null = ({name: np.array([name in names]) for name in values} for names in (unknown, null))
    found = link_times(values, unknown, null, codec, formulas)
    return [float(found[name][0]) for name in "abc"]


@pytest.mark.parametrize(
    ("unknown", "expected"),
    [
        ("", [100, 200, 300]),
        ("b", [100, 101, 300]),
        ("a", [199, 200, 300]),
        ("bc", [100, 101, 106]),
        ("ab", [294, 295, 300]),
        ("ac", [199, 200, 205]),
        ("abc", [100, 101, 106]),
    ],
)
def test_unknown_times_follow_from_known_ones(codec, formulas, unknown, expected):
    assert link(codec, formulas, unknown) == expected


def test_nothing_follows_from_a_null(codec, formulas):
    assert link(codec, formulas, "bc", null="a") == [100, 200, 205]


def test_times_without_a_relation_keep_their_values(codec):
    assert link_times({}, {}, {}, codec, []) == {}
