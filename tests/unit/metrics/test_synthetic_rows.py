"""Scores of synthetic rows: values by hand, invariants, and reference implementations."""

import sys
from datetime import date, timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon import InvalidOption, InvalidTable, MissingExtra, Schema, SchemaMismatch, metrics
from tests.support.frames import LIBRARIES, make

ROWS = 600
DISTANCE_SCORES = (metrics.alpha_precision, metrics.beta_recall, metrics.authenticity)


def people(seed, rows=ROWS):
    """Age depends on the job, and the day of hire on age."""
    rng = np.random.default_rng(seed)
    job = rng.integers(0, 6, rows)
    age = np.round(30 + 5 * job + rng.normal(0, 2, rows))
    hired = [date(2020, 1, 1) + timedelta(days=int(a)) for a in 10 * age]
    income = np.exp(rng.normal(0.1 * job, 0.3))
    return {"age": age.astype(int), "job": [f"job {j}" for j in job], "hired": hired, "income": income}


def shuffled(columns, seed=0):
    """The same columns, made independent."""
    rng = np.random.default_rng(seed)
    return {name: [values[i] for i in rng.permutation(len(values))] for name, values in columns.items()}


def reordered(table, seed=0):
    return table.take(np.random.default_rng(seed).permutation(len(table)))


REAL, OTHER = (pa.table(people(seed)) for seed in (0, 1))
SHUFFLED = pa.table(shuffled(people(1)))
SCHEMA = Schema.infer(REAL)
CONSTANT = pa.table({name: [REAL[name][0].as_py()] * ROWS for name in REAL.schema.names})


# Similarity


def test_a_table_is_similar_to_itself_in_every_column():
    assert metrics.similarity(SCHEMA, REAL, reordered(REAL)) == dict.fromkeys(SCHEMA.names, 1.0)


def test_disjoint_columns_have_similarity_0():
    real = pa.table({"x": [1, 2, 3], "c": ["a", "b", "a"], "d": [date(2020, 1, 1)] * 2 + [date(2020, 1, 5)]})
    synthetic = pa.table({"x": [7, 8], "c": ["c", "d"], "d": [date(2021, 1, 1)] * 2})
    schema = Schema.infer(real, kinds={"x": "integer", "c": "category", "d": "date"})
    assert metrics.similarity(schema, real, synthetic) == {"x": 0.0, "c": 0.0, "d": 0.0}


def test_missing_cells_are_left_out_of_similarity():
    real = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "b", "a", "b"]})
    synthetic = pa.table({"x": [1.0, None, 3.0, None], "c": ["a", None, None, "b"]})
    assert metrics.similarity(Schema.infer(real), real, synthetic) == {"x": 0.75, "c": 1.0}
    with pytest.raises(InvalidTable, match="'x'"):
        metrics.similarity(Schema.infer(real), real, pa.table({"x": pa.nulls(2, pa.float64()), "c": ["a", "b"]}))


values = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=30)


@given(values, values)
def test_the_distance_of_numbers_is_the_largest_difference_of_cdfs(left, right):
    schema = Schema.infer(pa.table({"x": left + right}), kinds={"x": "number"})
    ours = metrics.similarity(schema, pa.table({"x": left}), pa.table({"x": right}))["x"]
    cdfs = [[np.mean(np.array(side) <= x) for x in range(-5, 6)] for side in (left, right)]
    assert ours == pytest.approx(1 - np.max(np.abs(np.subtract(*cdfs))), abs=1e-12)


categories = st.lists(st.sampled_from("abcd"), min_size=1, max_size=30)


@given(categories, categories)
def test_the_distance_of_categories_is_the_largest_difference_over_all_sets(left, right):
    sets = [{c for i, c in enumerate("abcd") if bits >> i & 1} for bits in range(16)]
    frequencies = [[np.mean([c in some for c in side]) for some in sets] for side in (left, right)]
    schema = Schema.infer(pa.table({"c": left}), kinds={"c": "category"})
    ours = metrics.similarity(schema, pa.table({"c": left}), pa.table({"c": right}))["c"]
    assert ours == pytest.approx(1 - np.max(np.abs(np.subtract(*frequencies))), abs=1e-12)


# Distances


def test_the_alpha_score_by_hand():
    """Real distances to the centre are 0, 0.5, 0.5 of the range; all synthetic rows are in the centre."""
    real, synthetic = pa.table({"x": [0.0, 1.0, 2.0]}), pa.table({"x": [1.0, 1.0]})
    alphas = np.linspace(0, 1, 30)
    expected = 1 - (1 - alphas).sum() / alphas.sum()
    schema = Schema.infer(real, kinds={"x": "number"})
    assert metrics.alpha_precision(schema, real, synthetic) == pytest.approx(expected, abs=1e-12)


def test_authenticity_by_hand():
    """0.1 is nearer to 0 than 1 is: a copy. 5.5 is farther from 4 than 3 is, -1 as far from 0 as 1: no copies."""
    real = pa.table({"x": [0.0, 1.0, 3.0, 4.0]})
    schema = Schema.infer(real, kinds={"x": "number"})
    assert metrics.authenticity(schema, real, pa.table({"x": [0.1, 5.5, -1.0]})) == pytest.approx(2 / 3)


def test_beta_recall_counts_covered_rows():
    """Half of the rows are covered, by synthetic rows of equal distance to the centre, so the same half at any β."""
    real, synthetic = pa.table({"x": [0.0, 1.0, 7.0, 8.0]}), pa.table({"x": [0.0, 12.0]})
    schema = Schema.infer(real, kinds={"x": "number"})
    alphas = np.linspace(0, 1, 30)
    expected = 1 - np.abs(alphas - 0.5).sum() / alphas.sum()
    assert metrics.beta_recall(schema, real, synthetic) == pytest.approx(expected, abs=1e-12)
    assert metrics.beta_recall(schema, real, pa.table({"x": [100.0, 200.0]})) == 0.0


def test_rows_of_the_same_distribution_score_high_and_constant_rows_low():
    assert metrics.alpha_precision(SCHEMA, REAL, OTHER) > 0.95
    assert metrics.alpha_precision(SCHEMA, REAL, CONSTANT) < 0.6
    assert metrics.beta_recall(SCHEMA, REAL, OTHER) > 0.4
    assert metrics.beta_recall(SCHEMA, REAL, CONSTANT) < 0.1
    assert 0.4 < metrics.authenticity(SCHEMA, REAL, OTHER) < 0.6
    assert metrics.authenticity(SCHEMA, REAL, REAL) == 0.0


def test_half_of_a_table_scores_as_the_published_upper_bounds():
    rng = np.random.default_rng(0)
    table = {f"x{i}": rng.normal(size=4000) for i in range(4)} | {"c": rng.choice(list("abc"), 4000)}
    halves = [pa.table({name: part[half] for name, part in table.items()}) for half in (slice(2000), slice(2000, None))]
    assert 0.97 < metrics.alpha_precision(Schema.infer(halves[0]), *halves) <= 1.0


@pytest.mark.parametrize("score", DISTANCE_SCORES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_does_not_matter(score, seed):
    small, other = REAL.slice(0, 80), OTHER.slice(0, 60)
    schema = Schema.infer(small)
    expected = score(schema, small, other)
    assert 0.0 <= expected <= 1.0
    assert score(schema, reordered(small, seed), reordered(other, seed + 1)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("score", DISTANCE_SCORES)
@settings(max_examples=15, deadline=None)
@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-1e3, 1e3))
def test_the_unit_of_a_numeric_column_does_not_matter(score, scale, shift):
    rng = np.random.default_rng(0)
    real, synthetic = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))

    def scaled_score(scale, shift):
        pair = [pa.table({"x": scale * part[:, 0] + shift, "y": part[:, 1]}) for part in (real, synthetic)]
        return score(Schema.infer(pair[0]), *pair)

    assert scaled_score(scale, shift) == pytest.approx(scaled_score(1.0, 0.0), abs=1e-6)


def test_a_table_without_numeric_columns_can_be_scored():
    real, synthetic = pa.table({"c": list("aabb") * 5}), pa.table({"c": list("abab") * 5})
    schema = Schema.infer(real)
    for score in DISTANCE_SCORES:
        assert 0.0 <= score(schema, real, synthetic) <= 1.0
    assert metrics.detection(schema, real, synthetic, classifier="linear") < 0.6
    assert metrics.detection(schema, real, synthetic, folds=2) < 0.6


# Classifiers


@pytest.mark.parametrize("classifier", ["xgboost", "linear"])
def test_rows_of_the_same_distribution_are_not_detected(classifier):
    assert 0.45 < metrics.detection(SCHEMA, REAL, OTHER, classifier=classifier) < 0.55
    assert metrics.detection(SCHEMA, REAL, reordered(REAL), classifier=classifier) < 0.55


def test_independent_columns_are_detected_by_trees_only():
    assert min(metrics.similarity(SCHEMA, OTHER, SHUFFLED).values()) == 1.0
    assert metrics.detection(SCHEMA, REAL, SHUFFLED, classifier="linear") < 0.6
    assert metrics.detection(SCHEMA, REAL, SHUFFLED) > 0.9


@pytest.mark.parametrize("classifier", ["xgboost", "linear"])
def test_a_repeated_row_is_detected(classifier):
    assert metrics.detection(SCHEMA, REAL, CONSTANT, classifier=classifier) > 0.95


def test_a_category_of_synthetic_rows_only_is_detected():
    synthetic = OTHER.set_column(1, "job", pa.array(["astronaut"] * ROWS))
    assert metrics.detection(SCHEMA, REAL, synthetic) == 1.0


def test_detection_balances_the_tables_and_is_reproducible():
    few = OTHER.slice(0, 100)
    first = metrics.detection(SCHEMA, REAL, few, folds=2, random_state=3)
    assert first == metrics.detection(SCHEMA, REAL, few, folds=2, random_state=3)
    assert first != metrics.detection(SCHEMA, REAL, few, folds=2, random_state=4)
    assert 0.3 < first < 0.7
    assert 0.3 < metrics.detection(SCHEMA, REAL, few, random_state=np.random.default_rng(0)) < 0.7


def test_detection_rejects_invalid_options():
    with pytest.raises(InvalidOption, match="classifier"):
        metrics.detection(SCHEMA, REAL, OTHER, classifier="forest")
    with pytest.raises(InvalidOption, match="folds"):
        metrics.detection(SCHEMA, REAL, OTHER, folds=1)
    with pytest.raises(InvalidTable, match="folds"):
        metrics.detection(SCHEMA, REAL, OTHER.slice(0, 3))


def test_utility_is_higher_for_dependent_columns():
    real = metrics.utility(SCHEMA, REAL, OTHER, "job")
    assert real > 0.7
    assert metrics.utility(SCHEMA, SHUFFLED, OTHER, "job") < real - 0.4


def test_utility_with_categories_of_one_table_only():
    train = pa.table({"x": [0.0, 1.0] * 50, "c": ["a", "b"] * 50})
    test = pa.table({"x": [0.0, 1.0, 1.0, 0.0], "c": ["a", "b", "c", "a"]})
    assert metrics.utility(Schema.infer(train), train, test, "c") == 0.75
    one = pa.table({"x": [0.0, 1.0] * 50, "c": ["a"] * 100})
    assert metrics.utility(Schema.infer(train), one, test, "c") == 0.5


def test_utility_as_auc():
    train = pa.table({"x": [0.0, 1.0] * 50, "c": ["a", "b"] * 50})
    schema = Schema.infer(train, kinds={"x": "number"})
    assert metrics.utility(schema, train, train, "c", score="auc") == 1.0
    # Of the 2 × 2 pairs of a "b" and an "a", one is in the right order, one in the wrong order, and two are ties.
    test = pa.table({"x": [0.0, 1.0, 1.0, 0.0], "c": ["a", "b", "a", "b"]})
    assert metrics.utility(schema, train, test, "c", score="auc") == 0.5
    # A category unknown to training has probability 0, so its row ranks below the others.
    new = pa.table({"x": [0.0, 1.0, 1.0], "c": ["a", "b", "new"]})
    assert 0.5 < metrics.utility(schema, train, new, "c", score="auc") < 1.0
    assert np.isnan(metrics.utility(schema, train, train.filter(pa.array([True, False] * 50)), "c", score="auc"))
    assert metrics.utility(SCHEMA, REAL, OTHER, "job", score="auc") > metrics.utility(SCHEMA, REAL, OTHER, "job")
    with pytest.raises(InvalidOption, match="score"):
        metrics.utility(SCHEMA, REAL, OTHER, "job", score="f1")


def test_utility_with_an_input_category_unknown_to_training():
    train = pa.table({"d": list("pqrstu") * 20, "c": ["a", "b"] * 60})
    test = pa.table({"d": ["p", "q", "new", "newer"], "c": ["a", "b", "a", "b"]})
    assert metrics.utility(Schema.infer(train), train, test, "c") >= 0.5


def test_utility_needs_a_categorical_target_and_another_column():
    with pytest.raises(InvalidOption, match="'age'"):
        metrics.utility(SCHEMA, REAL, OTHER, "age")
    alone = pa.table({"c": ["a", "b"] * 5})
    with pytest.raises(InvalidOption, match="only column"):
        metrics.utility(Schema.infer(alone), alone, alone, "c")


def test_without_xgboost_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtra, match=r'pip install -c constraints\.txt "\.\[metrics\]"'):
        metrics.detection(SCHEMA, REAL, OTHER)
    assert metrics.detection(SCHEMA, REAL, OTHER, classifier="linear") < 0.6


# All scores

SCORES = {
    "similarity": metrics.similarity,
    **{score.__name__: score for score in DISTANCE_SCORES},
    "linear": lambda *tables: metrics.detection(*tables, classifier="linear", folds=2),
    "xgboost": lambda *tables: metrics.detection(*tables, folds=2),
    "utility": lambda *tables: metrics.utility(*tables, "job"),
}


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_any_library_scores_the_same(score):
    tables = {library: [make(library, people(seed, 60)) for seed in (0, 1)] for library in LIBRARIES}
    scores = [score(Schema.infer(tables["pyarrow"][0]), *pair) for pair in tables.values()]
    assert scores[0] == scores[1] == scores[2]


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_every_score_names_what_a_table_lacks(score):
    with pytest.raises(SchemaMismatch, match="'income'"):
        score(SCHEMA, REAL, OTHER.drop_columns(["income"]))
    with pytest.raises(InvalidTable, match="rows"):
        score(SCHEMA, REAL, OTHER.slice(0, 0))
    with pytest.raises(InvalidTable, match="pandas, polars or pyarrow"):
        score(SCHEMA, REAL, [1, 2, 3])


@pytest.mark.parametrize("classifier", ["xgboost", "boosted"])
def test_boosted_trees_read_missing_cells(classifier):
    def with_gaps(table):
        jobs = pa.array(table["job"].to_pylist(), mask=np.arange(table.num_rows) % 2 == 0)
        return table.set_column(table.schema.get_field_index("job"), "job", jobs)

    alike = [with_gaps(REAL), with_gaps(OTHER)]
    assert metrics.detection(SCHEMA, *alike, classifier=classifier) < 0.6
    assert metrics.detection(SCHEMA, REAL, alike[1], classifier=classifier) > 0.7
    nothing = OTHER.set_column(OTHER.schema.get_field_index("income"), "income", pa.nulls(OTHER.num_rows, pa.float64()))
    assert metrics.detection(SCHEMA, REAL, nothing, classifier=classifier) == 1.0


@pytest.mark.parametrize("score", [s for n, s in SCORES.items() if n not in ("similarity", "xgboost", "utility")])
def test_distances_and_linear_models_need_complete_tables(score):
    incomplete = OTHER.set_column(3, "income", pa.array([None, *OTHER["income"].to_pylist()[1:]]))
    with pytest.raises(InvalidTable, match="'income'"):
        score(SCHEMA, REAL, incomplete)


def test_columns_that_are_not_modelled_are_ignored():
    schema = Schema.infer(pl.from_arrow(REAL), exclude=["income", "hired"])
    synthetic = OTHER.drop_columns(["income", "hired"])
    assert set(metrics.similarity(schema, REAL, synthetic)) == {"age", "job"}
    assert metrics.alpha_precision(schema, REAL, synthetic) > 0.9
