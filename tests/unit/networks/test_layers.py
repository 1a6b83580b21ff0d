"""Products of fewer digits, while a network learns."""

import pytest
import torch
from torch.nn import functional

from harpoon.networks import layers
from harpoon.networks.layers import Linear, linear


@pytest.fixture(params=[True, False])
def fast(request, monkeypatch):
    monkeypatch.setattr(products, "coarse_is_fast", lambda _device: request.param)
    return request.param


def test_a_layer_is_coarse_while_it_learns_and_only_where_that_is_fast(fast):
    layer, x = Linear(30, 20), torch.randn(50, 30, generator=torch.Generator().manual_seed(0))
    exact = functional.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer.eval()(x), exact)
    learnt = layer.train()(x)
    assert learnt.dtype == x.dtype
    assert torch.allclose(learnt, exact, atol=0.05)
    assert torch.equal(learnt, exact) is not fast


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_a_coarse_product_are_those_of_the_exact_one_up_to_its_digits(fast, bias):
    layer, x = Linear(30, 20, bias=bias), torch.randn(50, 30, requires_grad=True)
    inputs = [x, *layer.parameters()]
    both = [
        torch.autograd.grad(linear(x, layer.weight, layer.bias, reduced_precision=coarse).square().sum(), inputs)
        for coarse in (True, False)
    ]
    for coarse, exact in zip(*both, strict=True):
        assert coarse.dtype == exact.dtype
        assert (coarse - exact).norm() < 0.02 * exact.norm()


def test_where_there_are_no_instructions_for_it_nothing_is_coarse():
    assert not layers.has_fast_bfloat16("cuda")
