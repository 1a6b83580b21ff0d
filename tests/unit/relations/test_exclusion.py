"""Exclusions between labels, and columns that determine each other."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import dataframe, read_columns
from harpoon.data.chance import MIN_EXPECTED_ROWS
from harpoon.data.column_array import NO_INDEX
from harpoon.data.schema import Schema
from harpoon.data.value_counts import count_columns
from harpoon.encoding.row_codec import RowCodec
from harpoon.relations import Domains, Exclusions
from harpoon.relations.exclusion import (
    MAX_CHANCE,
    MIN_EXPECTED_CLEAR_ROWS,
    MIN_IMPLICATION_ROWS,
    RARE_PAIR_ROWS,
    PairCounts,
    find_dependency,
)

LABELS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=30)


@given(LABELS, st.integers(1, 8))
def test_excluded_labels_never_occur_together_and_would_by_chance(pairs, repeats):
    pairs = pairs * repeats
    found = {tuple(pair) for pair in PairCounts.from_labels(torch.tensor(pairs)).exclusions()[:, [1, 3]].tolist()}
    one, other = zip(*pairs, strict=True)
    frequent = [pairs.count(pair) for pair in set(pairs) if min(one.count(pair[0]), other.count(pair[1])) >= 10]
    is_clear = min(frequent, default=RARE_PAIR_ROWS) >= RARE_PAIR_ROWS
    for a, b in itertools.product(range(3), range(2)):
        expected = one.count(a) * other.count(b) / len(pairs)
        needed = MIN_EXPECTED_CLEAR_ROWS if is_clear else MIN_EXPECTED_ROWS
        assert ((a, b) in found) == ((a, b) not in pairs and expected >= needed - 1e-9)


def test_rows_in_which_a_label_is_missing_prove_nothing():
    one, other = torch.arange(400) % 2, torch.zeros(400, dtype=torch.long)
    other[one == 0] = NO_INDEX
    assert not len(PairCounts.from_labels(torch.stack([one, other], dim=1)).exclusions())


@pytest.mark.parametrize("n", [4, 6, 60])
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_a_rare_label_implies_another_if_chance_would_not(n, share):
    """Six of six rows with a label of one row in five are no chance; with one of nine in ten they are."""
    random = np.random.default_rng(0)
    one, other = random.integers(1, 4, 2000), (random.random(2000) < share).astype(int)
    one[:n], other[:n] = 0, 1
    found = PairCounts.from_labels(torch.from_numpy(np.stack([one, other], axis=1)), MIN_IMPLICATION_ROWS)
    p, tests = other.mean(), 4 + 2 - (n < MIN_IMPLICATION_ROWS)
    expected = n >= MIN_IMPLICATION_ROWS and p**n * tests <= MAX_CHANCE
    assert found.implications().tolist() == ([[0, 0, 1, 1]] if expected else [])


def test_independent_rare_labels_imply_nothing_more_often_than_allowed():
    """In 200 independent tables, implications are found in about `MAX_CHANCE` of them at most."""
    random, found = np.random.default_rng(0), 0
    for _ in range(200):
        labels = random.choice(12, (300, 4), p=np.array([200, 40, 20, 10, 6, 6, 4, 4, 3, 3, 2, 2]) / 300)
        found += len(PairCounts.from_labels(torch.from_numpy(labels), MIN_IMPLICATION_ROWS).implications()) > 0
    assert found <= 200 * MAX_CHANCE + 3 * np.sqrt(200 * MAX_CHANCE)


def test_independent_columns_have_no_exclusions():
    labels = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (500, 30)))
    assert not len(PairCounts.from_labels(labels).exclusions())


@given(st.lists(st.integers(0, 5), min_size=2, max_size=200), st.integers(0, 1000))
def test_a_dependency_holds_in_every_row_and_one_exception_refutes_it(source, seed):
    random = np.random.default_rng(seed)
    image = random.integers(0, 3, 6)
    a, b = torch.tensor(source), torch.from_numpy(image[source])
    found = find_dependency(a, b)
    if found is not None:
        assert (found[a] == b).all()
        rows = next(i for i, n in enumerate(source) if source.count(n) > 1)
        b[rows] = 3
        assert find_dependency(a, b) is None


def test_labels_that_occur_once_prove_no_dependency():
    random = np.random.default_rng(0)
    assert find_dependency(torch.arange(1000), torch.from_numpy(random.integers(0, 3, 1000))) is None
    few = torch.from_numpy(random.permutation(np.repeat(np.arange(10), 2)))
    assert find_dependency(few, few % 2) is None  # ten rows that agree could be chance


@pytest.fixture(scope="module")
def places():
    """Cities (many: hierarchical), states and countries, and a number that the country determines."""
    random = np.random.default_rng(0)
    state_of, country_of = random.integers(0, 12, 300), np.arange(12) % 4
    city = np.concatenate([np.arange(300), random.integers(0, 300, 1200)])
    country = country_of[state_of[city]]
    frame = pd.DataFrame(
        {
            "city": [f"city {c:03d}" for c in city],
            "state": [f"state {s}" for s in state_of[city]],
            "country": [f"country {c}" for c in country],
            "code": 10 * country + 3,
        }
    )
    with pytest.warns(match="300 categories"):
        return search(frame)


def search(frame):
    """Return the exclusions of a table, and its one-hot categories."""
    table = dataframe.read(pa.Table.from_pandas(frame))
    counts = count_columns(table)
    schema = Schema.from_counts(counts)
    codec = RowCodec.fit(schema, counts, encoding="mixed", scaling="standard", missing_indicators=True)
    rows = {name: replace(cells, null=cells.missing) for name, cells in read_columns(table, schema).items()}
    x = torch.from_numpy(codec.encode(rows)).float()
    dims = [d for part in codec.slices if part.is_categorical for d in range(part.start, part.stop)]
    exclusions = Exclusions(codec)
    exclusions.initialize(x[:, dims])
    return exclusions, x[:, dims]


@pytest.fixture(scope="module")
def calls():
    """The outcome of an earlier call, which is null without one, and otherwise follows from the number of calls."""
    frame = pd.DataFrame({"calls": [0, 0, 1, 3] * 50, "outcome": [None, None, "success", "failure"] * 50})
    return search(frame)


def test_a_null_outcome_determines_nothing(calls):
    """Whatever is known of a training row, its other labels stay possible, and no contradictory ones."""
    exclusions, categories = calls
    assert set(exclusions.dependencies()) == {("calls", "outcome"), ("outcome", "calls")}
    domains = Domains(exclusions, torch.device("cpu"))
    positions = [variable.features.flatten() for variable in exclusions.variables]
    for n_known, row in itertools.product(range(3), range(4)):
        for known_variables in itertools.combinations(positions, n_known):
            known = torch.zeros_like(categories[:1])
            for features in known_variables:
                known[:, features] = categories[row : row + 1, features]
            assert not domains.excluded(known)[0, categories[row] > 0].any()
    null, number, _ = positions
    known = torch.zeros_like(categories[:1])
    known[:, null[1]] = 1
    assert domains.excluded(known)[0, number].tolist() == [False, True, True]


def test_levels_determine_each_other(places):
    exclusions, _ = places
    assert set(exclusions.dependencies()) == {
        ("city", "state"),
        ("city", "country"),
        ("city", "code"),
        ("state", "country"),
        ("state", "code"),
        ("country", "code"),
        ("code", "country"),
    }


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1499), st.sets(st.integers(0, 3)), st.integers(0, 2**32))
def test_what_is_chosen_agrees_with_what_is_known(places, row, known_variables, seed):
    exclusions, categories = places
    domains = Domains(exclusions, torch.device("cpu"))
    known = torch.zeros_like(categories[:1])
    for index in known_variables:
        features = exclusions.variables[index].features.flatten()
        known[:, features] = categories[row : row + 1, features]
    p = torch.rand(known.shape, generator=torch.Generator().manual_seed(seed))
    possible = domains.restrict(known)
    own = torch.cat([(categories[row, v.features].amin(dim=1) > 0) for v in domains.variables])
    assert possible[0, own].all()  # the row itself is never excluded
    chosen = domains.most_probable(p, known, discrete=True)
    assert domains.is_possible((chosen == 1).float()).all()
    for index in known_variables:
        features = exclusions.variables[index].features.flatten()
        assert not domains.excluded(known)[0, features[known[0, features] > 0]].any()


@pytest.mark.parametrize("limit", ["MAX_MEMBERSHIPS", "MAX_PAIRS"])
def test_large_variables_restrict_as_small_ones(places, monkeypatch, limit):
    exclusions, categories = places
    small = Domains(exclusions, torch.device("cpu"))
    monkeypatch.setattr(f"harpoon.relations.label_domains.{limit}", 0)
    large = Domains(exclusions, torch.device("cpu"))
    hidden = torch.rand(categories.shape, generator=torch.Generator().manual_seed(0)) < 0.7
    known = categories.masked_fill(hidden, 0.0)
    assert torch.equal(small.excluded(known), large.excluded(known))
    assert small.excluded(known).any()


def test_contradictory_labels_stay(places):
    exclusions, categories = places
    domains = Domains(exclusions, torch.device("cpu"))
    state, country = (exclusions.variables[i].features[:, 0] for i in (1, 2))
    known = torch.zeros_like(categories[:1])
    known[:, state] = categories[:1, state]
    other = next(row for row in categories if not torch.equal(row[country], categories[0, country]))
    known[:, country] = other[country]
    assert not domains.is_possible(known).item()
    assert torch.equal(domains.restrict(known)[:, domains.slices[1]].sum(), torch.tensor(1))
    excluded = domains.excluded(known)[0]
    assert not excluded[state[known[0, state] > 0]].any()
    assert not excluded[country[known[0, country] > 0]].any()
