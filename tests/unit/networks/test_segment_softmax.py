"""Probabilities of many categories at once are those of each by itself."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from harpoon.networks.layers import SegmentSoftmax


@given(widths=st.lists(st.integers(1, 40), max_size=12), seed=st.integers(0, 99), rows=st.integers(0, 5))
def test_all_together_are_as_each_by_itself_and_so_are_the_gradients(widths, seed, rows):
    logits = (30 * torch.randn(rows, sum(widths), generator=torch.Generator().manual_seed(seed))).requires_grad_()
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(seed + 1))
    together = SegmentSoftmax(widths).log_softmax(logits)
    each = torch.cat([part.log_softmax(dim=1) for part in logits.split_with_sizes(widths, dim=1)] or [logits], dim=1)
    assert torch.allclose(together, each, atol=1e-4)
    gradients = [torch.autograd.grad((log_p * weights).sum(), logits)[0] for log_p in (together, each)]
    assert torch.allclose(*gradients, atol=1e-4)
    assert not gradients[0].isnan().any()
