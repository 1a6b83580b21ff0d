"""Layers: bfloat16 products in training, and softmax over segments."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from harpoon.networks import layers
from harpoon.networks.layers import ColumnIndex, Linear, SegmentSoftmax, has_fast_bfloat16, linear
from tests.support.precision import without_onednn


@pytest.fixture(params=[True, False])
def fast(request, monkeypatch):
    monkeypatch.setattr(layers, "has_fast_bfloat16", lambda _device: request.param)
    with without_onednn():
        yield request.param


def test_a_layer_uses_bfloat16_in_training_and_only_where_it_is_fast(fast):
    layer, x = Linear(30, 20), torch.randn(50, 30, generator=torch.Generator().manual_seed(0))
    exact = functional.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer.eval()(x), exact)
    reduced = layer.train()(x)
    assert reduced.dtype == x.dtype
    assert torch.allclose(reduced, exact, atol=0.05)
    assert torch.equal(reduced, exact) is not fast


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_a_bfloat16_product_are_those_of_the_exact_one_up_to_rounding(fast, bias):
    layer, x = Linear(30, 20, bias=bias), torch.randn(50, 30, requires_grad=True)
    inputs = [x, *layer.parameters()]
    both = [
        torch.autograd.grad(linear(x, layer.weight, layer.bias, reduced_precision=reduced).square().sum(), inputs)
        for reduced in (True, False)
    ]
    for reduced, exact in zip(*both, strict=True):
        assert reduced.dtype == exact.dtype
        assert (reduced - exact).norm() < 0.02 * exact.norm()


@pytest.mark.parametrize(
    ("capabilities", "limit", "expected"),
    [
        ({"avx512_bf16": True}, "", True),
        ({"avx512_bf16": True, "amx_tile": False}, "", True),
        ({"avx512_bf16": True, "amx_tile": True}, "", False),
        ({"avx512_bf16": True, "amx_tile": True}, "AVX512_CORE_BF16", True),
        ({"avx512_bf16": True, "amx_tile": True}, "AVX512_CORE_AMX", False),
        ({"amx_tile": True}, "AVX512_CORE_BF16", False),
        ({}, "", False),
    ],
)
def test_bfloat16_is_fast_with_its_instructions_and_without_amx(monkeypatch, capabilities, limit, expected):
    """Some virtual machines advertise AMX and kill a process that uses it, unless oneDNN is limited."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert has_fast_bfloat16.__wrapped__("cpu") is expected
    assert has_fast_bfloat16.__wrapped__("cuda") is False


@given(widths=st.lists(st.integers(1, 40), max_size=12), seed=st.integers(0, 99), rows=st.integers(0, 5))
def test_softmax_of_all_segments_equals_softmax_of_each_and_so_do_gradients(widths, seed, rows):
    logits = (30 * torch.randn(rows, sum(widths), generator=torch.Generator().manual_seed(seed))).requires_grad_()
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(seed + 1))
    together = SegmentSoftmax(widths).log_softmax(logits)
    each = torch.cat([part.log_softmax(dim=1) for part in logits.split_with_sizes(widths, dim=1)] or [logits], dim=1)
    assert torch.allclose(together, each, atol=1e-4)
    gradients = [torch.autograd.grad((log_p * weights).sum(), logits)[0] for log_p in (together, each)]
    assert torch.allclose(*gradients, atol=1e-4)
    assert not gradients[0].isnan().any()


def test_a_column_index_selects_dimensions_in_its_order():
    index = ColumnIndex([2, 0])
    assert len(index) == 2
    assert index.select(torch.tensor([[1.0, 2.0, 3.0]])).tolist() == [[3.0, 1.0]]
