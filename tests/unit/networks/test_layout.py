"""The layout of encoded rows."""

import torch

from harpoon.encoding.codec import ColumnSlice, PartType
from harpoon.networks.layout import EncodedLayout

SLICES = (
    ColumnSlice("x", 0, 0, 1, PartType.REGRESSION),  # a numeric column with spikes
    ColumnSlice("x", 0, 1, 2, PartType.CONTINUOUS),
    ColumnSlice("x", 0, 2, 5, PartType.CATEGORICAL),
    ColumnSlice("c", 1, 5, 7, PartType.CATEGORICAL),  # a hierarchical category: groups, then members
    ColumnSlice("c", 1, 7, 10, PartType.CATEGORICAL),
    ColumnSlice("z", 2, 10, 11, PartType.CONTINUOUS),
)
LAYOUT = EncodedLayout(SLICES)


def test_dimensions_are_sorted_by_type_of_part():
    assert LAYOUT.width == 11
    assert LAYOUT.continuous.positions == [1, 10]
    assert LAYOUT.categories.positions == [2, 3, 4, 5, 6, 7, 8, 9]
    assert LAYOUT.standardised.positions == [0]
    assert LAYOUT.category_widths == [3, 2, 3]
    assert LAYOUT.part_of_category.positions == [0, 0, 0, 1, 1, 2, 2, 2]


def test_each_column_has_a_last_dimension():
    assert LAYOUT.column_of.positions == [0] * 5 + [1] * 5 + [2]
    assert LAYOUT.n_columns == 3
    assert LAYOUT.last_of.positions == [4, 9, 10]


def test_a_normal_score_beside_a_standardised_value_is_not_an_input():
    assert LAYOUT.inputs.positions == [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert LAYOUT.numeric_inputs.positions == [0, 10]
    assert [LAYOUT.inputs.positions[i] for i in LAYOUT.input_categories.positions] == LAYOUT.categories.positions


def test_the_groups_of_a_hierarchical_category_are_its_first_part():
    assert LAYOUT.group_categories.positions == [5, 6]


def test_split_rows_are_joined_again():
    x = torch.randn(4, 11)
    parts = LAYOUT.split(x)
    assert [part.shape[1] for part in parts] == [2, 8, 1]
    assert torch.equal(LAYOUT.join(parts), x)
