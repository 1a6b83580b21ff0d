"""The search for linear equations: sums of many columns, constants, affine maps, spans of time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.encoding import AffineUnit
from harpoon.relations.linear import MAX_TERMS, LinearSearch

ROWS, DAY = 400, 86_400 * 10**9


def units_of(values, *, step=1.0):
    scales = values.std(axis=0)
    return {
        i: AffineUnit("number", scales[i], -values[:, i].mean() / scales[i], step, True) for i in range(len(scales))
    }


def search(values, *, observed=None, units=None, n_ranked=None, step=1.0):
    observed = np.ones(values.shape, dtype=bool) if observed is None else observed
    units = units_of(values, step=step) if units is None else units
    tensors = torch.from_numpy(np.where(observed, values, 0.0)), torch.from_numpy(observed)
    return LinearSearch(*tensors, units, values.shape[1] if n_ranked is None else n_ranked).relations()


def found(relations):
    return {(r.target, tuple(sorted(zip(r.sources, r.coefficients, strict=True))), r.constant) for r in relations}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from([1.0, -1.0]), min_size=2, max_size=10), st.integers(-9, 9))
def test_a_sum_is_found_for_each_of_its_columns_whatever_is_missing(seed, signs, constant):
    rng, n = np.random.default_rng(seed), len(signs)
    parts, others = (rng.gamma(2, 200, (ROWS, k)).round() for k in (n, 3))
    values = np.column_stack([parts, others, parts @ np.array(signs) + constant])
    relations = found(search(values, observed=rng.random(values.shape) > 0.05))
    total = tuple(sorted(zip(range(n), signs, strict=True)))
    assert (n + 3, total, float(constant)) in relations
    assert {target for target, *_ in relations} == {*range(n), n + 3}  # solved for each part, and for nothing else


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_columns_that_are_not_related_are_not_found(seed):
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(ROWS, 6)) @ rng.normal(size=(6, 6)) * 10
    noise = mixed @ np.ones(6) + rng.normal(0, 3, ROWS)  # a sum, but never exactly
    assert search(np.column_stack([mixed, noise]).round()) == []
    assert search(rng.integers(0, 3, (ROWS, 6)).astype(float), n_ranked=0) == []


def test_a_sum_holds_in_all_rows_but_those_that_are_wrong():
    rng = np.random.default_rng(0)
    parts = rng.gamma(2, 200, (2000, 5)).round()
    total = parts.sum(axis=1)
    wrong = rng.random(2000) < 0.1
    relations = search(np.column_stack([parts, np.where(wrong, (total * rng.uniform(0.5, 0.9, 2000)).round(), total)]))
    assert {relation.target for relation in relations} == set(range(6))
    assert [relation.fraction for relation in relations] == pytest.approx([1 - wrong.mean()] * len(relations))
    assert not any(relation.is_judged for relation in relations)


def test_a_rare_part_belongs_to_the_sum():
    rng = np.random.default_rng(0)
    parts = rng.gamma(2, 200, (3000, 3)).round()
    parts[:, 2] *= rng.random(3000) < 0.02
    relations = search(np.column_stack([parts, parts.sum(axis=1)]))
    assert (3, ((0, 1.0), (1, 1.0), (2, 1.0)), 0.0) in found(relations)


def test_rare_flags_that_often_agree_are_not_equal():
    rng = np.random.default_rng(0)
    flag = rng.random(4000) < 0.005
    values = np.column_stack([flag, flag & (rng.random(4000) < 0.7), rng.normal(size=4000)]).astype(float)
    assert search(values, n_ranked=1) == []


@pytest.mark.parametrize(("slope", "constant"), [(1.8, 32.0), (-0.45, 7.0), (12.5, -3.0), (-1.0, 100.0), (1.0, 5.0)])
def test_an_affine_map_is_found(slope, constant):
    x = np.random.default_rng(0).normal(20, 8, ROWS).round(1)
    relations = search(np.column_stack([x, (slope * x + constant).round(3)]), step=0.001)
    forward = next(relation for relation in relations if relation.target == 1)
    assert forward.coefficients == pytest.approx((slope,))
    assert forward.constant == pytest.approx(constant)
    assert forward.is_judged
    assert {relation.target for relation in relations} == {0, 1}


@pytest.mark.parametrize(("length", "counted"), [(DAY, 2.0), (3600 * 10**9, 30.0), (10**9, 5e4)])
def test_a_span_of_time_is_found_in_its_unit(length, counted):
    rng = np.random.default_rng(0)
    start, number = rng.integers(0, 400, ROWS) * float(DAY), rng.gamma(2, counted, ROWS).round()
    values = np.column_stack([start, start + number * length, number])
    ticks = AffineUnit("datetime us", 1e13, 0.0, 10**6, False, 1000)
    units = {0: ticks, 1: ticks, 2: AffineUnit("number", number.std(), 0.0, 1.0, True)}
    relations = {relation.target: relation for relation in search(values, units=units)}
    assert dict(zip(relations[2].sources, relations[2].coefficients, strict=True)) == pytest.approx(
        {1: 1000 / length, 0: -1000 / length}
    )
    assert dict(zip(relations[1].sources, relations[1].coefficients, strict=True)) == {0: 1.0, 2: length / 1000}


def test_times_that_are_a_constant_apart_are_related():
    start = np.random.default_rng(0).integers(0, 3000, ROWS) * float(DAY)
    day = AffineUnit("date ", 900.0, 0.0, 1.0, False, DAY)
    relations = search(np.column_stack([start, start + 30 * DAY]), units={0: day, 1: day})
    assert found(relations) == {(0, ((1, 1.0),), -30.0), (1, ((0, 1.0),), 30.0)}


@pytest.mark.parametrize("spread", [0, 25])
def test_a_time_on_the_full_hour_is_no_other_time_less_some_minutes(spread):
    rng = np.random.default_rng(0)
    hour, minute = 3600 * 10**9, 60 * 10**9
    start = rng.integers(0, 10**4, ROWS) * hour
    values = np.column_stack([start, start + (30 + rng.integers(-spread, spread + 1, ROWS)) * minute]).astype(float)
    units = {i: AffineUnit("datetime ns", values[:, i].std(), 0.0, (hour, minute)[i], False, 1) for i in (0, 1)}
    shifts = {(0, ((1, 1.0),), -30.0 * minute), (1, ((0, 1.0),), 30.0 * minute)}
    assert found(search(values, units=units)) == (set() if spread else shifts)


def test_the_number_of_terms_is_bounded():
    parts = np.random.default_rng(0).gamma(2, 200, (ROWS, MAX_TERMS + 2)).round()
    assert search(np.column_stack([parts, parts.sum(axis=1)])) == []


@pytest.mark.parametrize("origin", [0, 4 * 10**15, 4 * 10**18])
def test_large_integers_are_exact_or_have_no_relation(origin):
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 10**6, ROWS) * 2.0, rng.integers(0, 4, ROWS).astype(float)
    values = np.column_stack([first + origin, second, first + second + origin])  # doubles round the last ones to 512
    expected = {
        (0, ((1, -1.0), (2, 1.0)), 0.0),
        (1, ((0, -1.0), (2, 1.0)), 0.0),
        (2, ((0, 1.0), (1, 1.0)), 0.0),
    }
    sums = [relation for relation in search(values) if len(relation.sources) > 1]
    assert found(sums) == (expected if origin < 2**53 else set())


def test_a_constant_with_more_digits_than_are_stored_is_refused():
    first = np.random.default_rng(0).integers(0, 10**6, ROWS) * 2.0
    relations = search(np.column_stack([first, first + 10**12]))
    assert {relation.constant for relation in relations} == {1e12, -1e12}
    assert search(np.column_stack([first, first + 4 * 10**15 + 123])) == []


def test_numbers_without_a_resolution_are_not_equal_if_rounding_hides_what_they_differ_by():
    rng = np.random.default_rng(0)
    first = 1e9 + rng.normal(0, 100, ROWS)
    assert search(np.column_stack([first, first + rng.normal(0, 10, ROWS)]), step=0.0) == []


def test_a_part_is_a_copy_of_the_total_where_the_other_part_is_0():
    """In cents, single precision cannot judge the copy: too many neighbours round to the same number."""
    rng = np.random.default_rng(0)
    total = rng.integers(10, 400, 2000) * 100.0
    rest = np.where(rng.random(2000) < 0.05, 0.0, (total * rng.uniform(0.1, 0.9, 2000)).round(2))
    values = np.column_stack([total, (total - rest).round(2), rest])
    copies = {(r.target, r.sources): r for r in search(values, step=0.01) if len(r.sources) == 1}
    assert set(copies) == {(1, (0,)), (0, (1,))}
    assert copies[1, (0,)].fraction == pytest.approx((rest == 0).mean())
    assert copies[1, (0,)].coefficients == (1.0,)
    assert copies[1, (0,)].constant == 0.0
