"""Operations on rows keep the masks of missing and of null cells."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harpoon.data.column_array import (
    ColumnArray,
    concat,
    fill_missing,
    missing_as_null,
    null_as_unknown,
    repeat_row,
    scatter,
    take,
)

VALUE, UNKNOWN, NULL = range(3)  # the state of a cell


@st.composite
def columns(draw, n=None):
    """Rows of one column, and the state of each cell; the mask of null cells may be absent if there are none."""
    n = draw(st.integers(1, 8)) if n is None else n
    state = np.array(draw(st.lists(st.integers(VALUE, NULL), min_size=n, max_size=n)), dtype=int)
    values = np.array(draw(st.lists(st.integers(1, 99), min_size=n, max_size=n)), dtype=np.int64)
    null = state == NULL
    mask = None if not null.any() and draw(st.booleans()) else null
    return {"x": ColumnArray("integer", np.where(state == VALUE, values, 0), state != VALUE, null=mask)}


def state_of(rows):
    cells = rows["x"]
    assert not (cells.is_null & ~cells.missing).any()
    assert (cells.unknown == (cells.missing & ~cells.is_null)).all()
    assert (cells.values[cells.missing] == 0).all()
    return np.where(cells.is_null, NULL, np.where(cells.missing, UNKNOWN, VALUE))


@given(columns(), columns())
def test_concatenated_rows_keep_the_states_of_their_cells(left, right):
    assert state_of(concat([left, right])).tolist() == [*state_of(left), *state_of(right)]


@given(columns(), st.data())
def test_selected_and_repeated_rows_keep_the_states_of_their_cells(rows, data):
    index = np.array(data.draw(st.lists(st.integers(0, len(rows["x"]) - 1), max_size=9)), dtype=np.int64)
    assert state_of(take(rows, index)).tolist() == state_of(rows)[index].tolist()
    assert state_of(take(rows, slice(1, None))).tolist() == state_of(rows)[1:].tolist()
    assert state_of(repeat_row(take(rows, slice(0, 1)), 3)).tolist() == [state_of(rows)[0]] * 3


@given(st.data())
def test_scattered_rows_replace_values_and_states(data):
    rows = data.draw(columns())
    chosen = data.draw(st.lists(st.integers(0, len(rows["x"]) - 1), unique=True))
    new, index = data.draw(columns(len(chosen))), np.array(chosen, dtype=np.int64)
    before = state_of(rows).tolist()
    found = scatter(rows, new, index)
    others = np.setdiff1d(np.arange(len(rows["x"])), index)
    for part, source in ((take(found, index), new), (take(found, others), take(rows, others))):
        assert state_of(part).tolist() == state_of(source).tolist()
        assert part["x"].values.tolist() == source["x"].values.tolist()
    assert state_of(rows).tolist() == before  # the arguments are unchanged


@given(st.data())
def test_filling_changes_unknown_cells_only(data):
    rows = data.draw(columns())
    new = data.draw(columns(len(rows["x"])))
    before, filled = state_of(rows), fill_missing(rows, new)
    is_unknown = before == UNKNOWN
    assert state_of(filled).tolist() == np.where(is_unknown, state_of(new), before).tolist()
    assert filled["x"].values.tolist() == np.where(is_unknown, new["x"].values, rows["x"].values).tolist()


@given(columns())
def test_missing_cells_become_null_and_null_cells_unknown(rows):
    missing = rows["x"].missing
    assert state_of(missing_as_null(rows)).tolist() == np.where(missing, NULL, VALUE).tolist()
    assert state_of(null_as_unknown(rows)).tolist() == np.where(missing, UNKNOWN, VALUE).tolist()
    assert not rows["x"].with_values(rows["x"].values).missing.any()
    assert state_of({"x": rows["x"].with_null(rows["x"].unknown)}).tolist() == np.where(missing, NULL, VALUE).tolist()
