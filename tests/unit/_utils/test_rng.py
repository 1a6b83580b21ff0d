"""Random numbers: streams share no key, and the noise of a row depends on nothing but its number."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from harpoon import InvalidOption
from harpoon._utils.rng import (
    MAX_BRANCH,
    Stream,
    check_random_state,
    generator,
    partition_seed,
    row_noise,
    stream_key,
    to_seed,
)
from harpoon.conditions.binding.branches import MAX_BRANCHES
from harpoon.inference.conditional.completion import CANDIDATES_PER_ROW, DRAW_STRIDE, MAX_GUIDED_ROUNDS
from harpoon.inference.conditional.conditional_sampler import GIBBS_FRACTIONS

BRANCHES, STEPS, DRAWS = range(1 + MAX_BRANCHES), range(16), 2**20  # branch 0 is the whole condition
ROUNDS_OF_COMPLETION = len(CANDIDATES_PER_ROW) + MAX_GUIDED_ROUNDS + 2 * len(BRANCHES)


def key_ranges():
    """Yield each stream's keys, as ranges of the last word of the counter."""
    yield "draws, rounds of completion", range(Stream.CELLS, Stream.CELLS + ROUNDS_OF_COMPLETION * DRAW_STRIDE)
    for branch in BRANCHES:
        yield f"guided, {branch}", range(key := stream_key(Stream.GUIDED, branch), key + 1)
        yield f"unconstrained, {branch}", range(key := stream_key(Stream.UNCONSTRAINED, branch), key + 1)
        key = stream_key(Stream.GIBBS, branch)
        yield f"gibbs, {branch}", range(key, key + len(STEPS))
        yield f"gibbs mask, {branch}", range(Stream.GIBBS_MASK + key, Stream.GIBBS_MASK + key + len(STEPS))
    for stream in (Stream.BRANCHES, Stream.PROPOSALS, Stream.COMPLETION, Stream.RESAMPLING):
        yield stream.name, range(stream, stream + 1)


def test_no_two_streams_share_a_key():
    assert DRAW_STRIDE >= DRAWS
    assert len(GIBBS_FRACTIONS) <= len(STEPS)
    ordered = sorted(key_ranges(), key=lambda item: item[1].start)
    for (name, keys), (other, others) in pairwise(ordered):
        assert keys.stop <= others.start, (name, other)
    assert ordered[-1][1].stop <= 2**64


@given(st.integers(0, MAX_BRANCH - 1), st.integers(0, MAX_BRANCH - 1), st.integers(0, len(STEPS) - 1))
def test_keys_of_the_last_branch_stay_in_their_stream(branch, other, step):
    keys = {stream_key(stream, b) + step for stream in (Stream.GUIDED, Stream.GIBBS) for b in {branch, other}}
    assert len(keys) == 2 * len({branch, other})
    assert max(keys) < Stream.GIBBS_MASK
    assert Stream.GIBBS_MASK + max(keys) < Stream.BRANCHES


@pytest.mark.parametrize("branch", [-1, MAX_BRANCH])
def test_a_branch_beyond_the_keys_is_an_error(branch):
    with pytest.raises(ValueError, match="branch must be from 0 to"):
        stream_key(Stream.GUIDED, branch)


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=8), st.integers(0, 7))
def test_the_noise_of_a_row_does_not_depend_on_its_batch(rows, at):
    index = np.array(rows)
    whole, alone = row_noise(3, index, 2, 5), row_noise(3, index[at % len(rows)][None], 2, 5)
    assert torch.equal(whole[:, [at % len(rows)]], alone)
    assert torch.equal(row_noise(3, index[::-1].copy(), 2, 5), whole.flip(1))


def test_the_noise_of_a_row_depends_on_its_number_the_seed_and_the_draw():
    row = np.array([7])
    noise = [row_noise(*key, 1, 64, draw=draw) for key in ((3, row), (3, row + 1), (4, row)) for draw in (0, 1)]
    values = torch.cat(noise).flatten().tolist()
    assert len(set(values)) == len(values)


def test_noise_differs_between_rows_and_steps():
    noise = row_noise(0, np.arange(50), 4, 5)
    assert noise.shape == (4, 50, 5)
    assert len(torch.unique(noise)) == noise.numel()


def test_noise_is_standard_normal():
    noise = row_noise(7, np.arange(2000), 5, 4)
    assert kstest(noise.flatten().numpy(), "norm").pvalue > 0.001
    assert abs(np.corrcoef(noise[0, :, 0], noise[1, :, 0])[0, 1]) < 0.1
    assert abs(np.corrcoef(noise[0, 1:, 0], noise[0, :-1, 0])[0, 1]) < 0.1


@given(st.integers(0, 2**63), st.lists(st.integers(1, 2**62), min_size=2, max_size=5, unique=True))
def test_parts_of_a_table_have_seeds_of_their_own_and_the_first_has_that_of_the_whole(seed, offsets):
    assert partition_seed(seed, 0) == seed
    seeds = [partition_seed(seed, offset) for offset in offsets]
    assert len({seed, *seeds}) == 1 + len(offsets)
    assert seeds == [partition_seed(seed, offset) for offset in offsets]


def test_generators_of_two_streams_or_words_differ():
    words = [(Stream.BRANCHES, 0, 0), (Stream.PROPOSALS, 0, 0), (Stream.PROPOSALS, 1, 0), (Stream.PROPOSALS, 1, 1)]
    first = [generator(5, *word).random() for word in words]
    assert len(set(first)) == len(words)
    assert first == [generator(5, *word).random() for word in words]


def test_a_seed_is_repeatable_and_a_generator_is_advanced():
    assert to_seed(3) == to_seed(3) != to_seed(4)
    source = np.random.default_rng(0)
    assert to_seed(source) != to_seed(source)
    assert to_seed(None) != to_seed(None)


@pytest.mark.parametrize("state", [-1, 1.5, "0", True, [1]], ids=repr)
def test_a_bad_random_state_is_an_error(state):
    with pytest.raises(InvalidOption, match="random_state must be an integer of at least 0"):
        check_random_state(state)
