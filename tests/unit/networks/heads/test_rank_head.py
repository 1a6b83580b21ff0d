"""The rank head: which cells are targets of its loss."""

import torch

from harpoon.encoding.codec import ColumnSlice, PartType
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks.gaussian_baseline import LinearPrediction
from harpoon.networks.heads.rank_head import RankHead

SPIKED = (
    ColumnSlice("x", 0, 0, 1, PartType.REGRESSION),
    ColumnSlice("x", 0, 1, 2, PartType.CONTINUOUS),
    ColumnSlice("x", 0, 2, 4, PartType.CATEGORICAL),  # no spike, a spike
)


def test_the_normal_score_of_a_spike_is_never_a_target():
    head = RankHead(SPIKED, hidden=4, n_bins=8)
    h, x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(6, 4)
    inputs = head.relation_inputs(EncodedRows(x, torch.zeros(6, 4, dtype=torch.bool)))
    copies = head.copies(h, inputs.copies)
    baseline = LinearPrediction(torch.zeros(6, 1), torch.zeros(6, 1), torch.zeros(6, 0))

    def loss(targets):
        return head.loss(h, inputs.pointers, copies, baseline, x_0=x, targets=targets)

    x[:, 3] = 1.0
    assert loss(torch.ones(6, 4)) == 0
    x[:, 2:] = torch.tensor([1.0, 0.0])
    assert loss(torch.ones(6, 4)) != 0
    assert loss(torch.zeros(6, 4)) == 0
