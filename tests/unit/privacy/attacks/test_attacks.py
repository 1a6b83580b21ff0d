"""Attacks: a generator that copies is caught, one that draws from the true distribution is not."""

import json
import math
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harpoon.data import Schema, dataframe
from harpoon.privacy import ATTACKS, audit_rows
from harpoon.privacy.attacks import singling_out
from harpoon.privacy.attacks.copies import NEAR_FRACTION, nearness_bound, rare_values
from harpoon.privacy.audit import MIN_ROWS, choose_rows
from harpoon.privacy.records import read_records

ROWS = 800
REPEATS = 12


def draw(rng, n=ROWS):
    """Draw rows of a distribution that is known."""
    group = rng.integers(0, 5, n)
    x = rng.normal(size=n) + group
    return pa.table(
        {
            "group": [f"g{i}" for i in group],
            "x": x,
            "income": np.exp(x + rng.normal(size=n)),
            "count": rng.poisson(5, n),
            "code": [f"r{i}" for i in rng.geometric(0.05, n)],
            "maybe": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.2),
        }
    )


def attack(train, holdout, synthetic, seed=0, **arguments):
    tables = [dataframe.read(table) for table in (train, holdout, synthetic)]
    chosen = choose_rows(tables[0].n_rows, tables[1].n_rows, 10**6, seed)
    return audit_rows(Schema.infer(train), *tables, chosen=chosen, k=10, seed=seed, **arguments)


@pytest.fixture(autouse=True)
def few_attempts(monkeypatch):
    """Give up soon where a table has fewer descriptions of several columns than are searched for."""
    monkeypatch.setattr(singling_out, "MAX_ATTEMPTS", 2 * singling_out.N_ATTACKS)


@pytest.fixture(scope="module")
def null_audits():
    """Audits of an oracle: its rows come from the distribution of the real ones."""
    found = []
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=ROWS), rng.normal(size=ROWS)
        found.append(attack(draw(rng), draw(rng), draw(rng), seed, likelihoods=scores))
    return found


def test_an_oracle_is_never_red_and_its_risk_is_covered(null_audits):
    lights = Counter((one.name, one.light) for audit in null_audits for one in audit.attacks)
    assert not any(light in ("red", "none") for _, light in lights), lights
    covered = [one.interval[0] <= 0 <= one.interval[1] for audit in null_audits for one in audit.attacks]
    assert np.mean(covered) > 0.95  # each interval is one of 99.4 %


def test_most_lights_of_an_oracle_are_green(null_audits):
    lights = Counter(one.light for audit in null_audits for one in audit.attacks)
    assert lights["green"] > 0.85 * lights.total()


def test_baselines_of_membership_are_at_chance(null_audits):
    for name in ("membership_distance", "membership_likelihood"):
        values = np.array([audit[name].baseline for audit in null_audits])
        assert abs(values.mean() - 0.5) < 4 * values.std() / np.sqrt(len(values))


@pytest.fixture(scope="module")
def copying_audit():
    rng = np.random.default_rng(0)
    train = draw(rng)
    return attack(train, draw(rng), train, likelihoods=(np.ones(ROWS), np.zeros(ROWS)))


@pytest.mark.parametrize("name", [name for name in ATTACKS if name != "near_copies"])
def test_every_attack_catches_a_generator_that_returns_the_training_rows(copying_audit, name):
    assert copying_audit[name].light == "red", copying_audit[name]
    assert copying_audit[name].rate > copying_audit[name].baseline


def test_exact_copies_are_no_near_copies(copying_audit):
    near = copying_audit["near_copies"]
    assert (near.light, near.risk) == ("none", None)
    assert "that equal no synthetic row" in near.sentence


@pytest.mark.parametrize("name", ["membership_distance", "exact_copies"])
def test_a_generator_that_copies_every_fifth_row_is_caught(name):
    rng = np.random.default_rng(1)
    train = draw(rng)
    synthetic = pa.concat_tables([train[: ROWS // 5], draw(rng, 4 * ROWS // 5)])
    assert attack(train, draw(rng), synthetic)[name].light == "red"


def test_noise_on_copies_does_not_hide_them():
    rng = np.random.default_rng(2)
    train = draw(rng)
    noisy = np.asarray(train["x"]) + rng.normal(scale=0.01, size=ROWS)
    audit = attack(train, draw(rng), train.set_column(1, "x", pa.array(noisy)))
    assert audit["exact_copies"].rate == 0
    assert audit["near_copies"].light == audit["membership_distance"].light == "red"


def test_near_copies_count_the_rows_that_their_sentence_names():
    """Many rows are equally far from the closest synthetic row; none of them is counted beyond the 5 %."""
    rng = np.random.default_rng(11)
    tables = [pa.table({name: rng.integers(0, 4, ROWS) for name in "abcdef"}) for _ in range(3)]
    near = attack(*tables)["near_copies"]
    assert near.details["counted"] > 0
    assert near.details["largest_distance"] > 0
    assert math.copysign(1, near.details["largest_distance"]) == 1
    low, high = sorted((near.rate, near.baseline))
    assert low <= near.details["counted"] <= high


@given(st.lists(st.integers(1, 9).map(float), min_size=1, max_size=200).map(np.array))
def test_at_most_one_row_in_twenty_is_near_unless_more_are_equally_near(distances):
    bound = nearness_bound(distances)
    fraction = np.mean(distances <= bound)
    assert fraction <= NEAR_FRACTION or bound == distances.min()
    above = distances[distances > bound]
    assert not len(above) or np.mean(distances <= above.min()) > NEAR_FRACTION


def test_singling_out_names_the_column_that_does_it():
    """Unique numbers of one column are copied; those of the other are new."""
    rng = np.random.default_rng(12)
    train, holdout, other = (pa.table({"kept": rng.normal(size=300), "new": rng.normal(size=300)}) for _ in range(3))
    found = attack(train, holdout, other.set_column(0, "kept", train["kept"]))["singling_out"]
    assert "due to kept" in found.sentence
    kept, new = found.details["columns"]
    assert (kept["name"], kept["training_rows"], kept["holdout_rows"]) == ("kept", 300 + 2, 0 + kept["holdout_rows"])
    assert new["training_rows"] <= 4  # the ends of the range
    assert sum(each["descriptions"] for each in found.details["columns"]) == found.attacks


def rare_table(values):
    """Return a table with some labels of one row each, beside common ones."""
    return pa.table({"label": [*values, *["common"] * (100 - len(values))]})


@pytest.mark.parametrize(("drawn", "lights"), [(17, {"yellow", "red"}), (2, {"none"}), (0, {"none", "green"})])
def test_few_rare_values_are_judged_if_their_interval_decides(drawn, lights):
    own, other = [f"a{i}" for i in range(19)], [f"b{i}" for i in range(14)]
    audit = attack(rare_table(own), rare_table(other), rare_table(own[:drawn]))
    found = audit["rare_values"]
    assert found.light in lights
    assert ("too few to judge" in found.sentence) == (found.light == "none")


def test_no_interval_says_what_is_impossible(copying_audit, null_audits):
    for one in (*copying_audit.attacks, *(one for audit in null_audits for one in audit.attacks)):
        if one.interval is not None:
            assert one.interval[0] <= one.risk <= one.interval[1] <= 1
            assert 0 <= one.baseline_interval[0] <= one.baseline_interval[1] <= 1


def test_a_unique_row_that_is_copied_is_named():
    rng = np.random.default_rng(3)
    train, holdout, synthetic = draw(rng), draw(rng), draw(rng)
    audit = attack(train, holdout, pa.concat_tables([synthetic, train[123:124]]))
    assert audit["exact_copies"].details == {"copied_rows": 1, "row_numbers": [123]}


def test_rare_labels_and_extremes_are_found():
    table = pa.table({"x": [float(i) for i in range(30)] + [5.0] * 9, "c": ["a"] * 20 + ["b"] * 2 + ["d"] * 17})
    (records,) = read_records(Schema.infer(table), [dataframe.read(table)])
    labels = Schema.infer(table)["c"].categories
    assert [labels[int(code)] for code in rare_values(records, 1, 3)] == ["b"]
    assert rare_values(records, 0, 3).tolist() == [0, 1, 2, 27, 28, 29]


def test_the_same_seed_gives_the_same_result():
    rng = np.random.default_rng(4)
    tables = draw(rng, 100), draw(rng, 100), draw(rng, 100)
    assert attack(*tables, seed=7).to_json() == attack(*tables, seed=7).to_json()


def test_the_result_is_json_and_text():
    rng = np.random.default_rng(5)
    audit = attack(draw(rng, 100), draw(rng, 100), draw(rng, 100))
    data = json.loads(json.dumps(audit.to_json(), allow_nan=False))
    assert [one["name"] for one in data["attacks"]] == list(ATTACKS)
    assert data["light"] == audit.light
    assert all(one.sentence in str(audit) for one in audit.attacks)


def test_hold_out_rows_that_are_training_rows_are_noticed():
    rng = np.random.default_rng(6)
    train = draw(rng)
    holdout = pa.concat_tables([train[:200], draw(rng, ROWS - 200)])
    assert any("equal a training row" in note for note in attack(train, holdout, draw(rng)).notes)
    assert not any("equal a training row" in note for note in attack(train, draw(rng), draw(rng)).notes)


def test_duplicates_that_any_table_of_this_kind_has_are_no_overlap():
    rng = np.random.default_rng(7)
    tables = [pa.table({"a": rng.integers(0, 3, 300), "b": rng.integers(0, 3, 300)}) for _ in range(3)]
    audit = attack(*tables)
    assert not any("equal a training row" in note for note in audit.notes)
    assert audit["exact_copies"].light in ("green", "yellow")


def rare_tables():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 20, 600)
    labels = [*["X"] * 5, *["A"] * 295] * 2
    return [pa.table({"c": labels[:300], "v": values[part]}) for part in (slice(300), slice(300, 600))]


def test_rare_values_that_hold_out_rows_also_have_are_not_judged():
    train, holdout = rare_tables()
    for other in (holdout, train):
        found = attack(train, other, train)["rare_values"]
        assert (found.light, found.signal, found.details["shared"] > 0) == ("none", "not judged", True)
        assert "attacked hold-out rows also have all" in found.sentence
        assert "No label" not in found.sentence
    common = pa.table({"c": ["A"] * 300, "v": [1, 2, 3] * 100})
    found = attack(common, common, common)["rare_values"]
    assert (found.light, found.sentence[:8]) == ("green", "No label")


def test_rare_values_of_both_tables_are_counted_beside_those_that_are_judged():
    train, holdout = rare_tables()
    train = train.append_column("n", pa.array(np.arange(300.0)))
    holdout = holdout.append_column("n", pa.array(np.arange(300.0) + 0.5))
    found = attack(train, holdout, train)["rare_values"]
    assert found.details["values"] == 20
    assert found.sentence.count(f"also have are not judged: {found.details['shared']}.") == 1


def mismatches(train, holdout):
    audit = attack(train, holdout, train)
    return [note for note in audit.notes if "labels that only" in note or "fraction of missing" in note]


def test_missing_cells_and_labels_of_one_table_alone_are_named(null_audits):
    assert not any("tell the two tables apart" in note for audit in null_audits for note in audit.notes)
    rng = np.random.default_rng(7)
    train, holdout = draw(rng), draw(rng)
    holed = holdout.set_column(1, "x", pa.array(holdout["x"].to_numpy(), mask=rng.random(ROWS) < 0.2))
    (note,) = mismatches(train, holed)
    assert re.match("Column 'x' has a different .*: 0 % of the training rows and (18|19|20|21|22) % of the hold", note)
    renamed = holed.set_column(0, "group", pa.array(["G" + label.as_py()[1:] for label in holed["group"]]))
    (note,) = mismatches(train, renamed)
    assert "Column 'group' has labels that only one table has: 100 % of the training rows have one" in note
    assert note.count("a risk may be due to them") == 1
    lost = renamed.set_column(3, "count", pa.nulls(ROWS, pa.int64()))
    assert (
        "2 columns have a different fraction of missing cells, most of all 'count': 0 %" in mismatches(train, lost)[0]
    )


def test_few_rows_are_not_judged():
    rng = np.random.default_rng(8)
    audit = attack(draw(rng), draw(rng, MIN_ROWS - 1), draw(rng))
    assert {one.light for one in audit.attacks} == {"none"} == {audit.light}
    assert f"needs {MIN_ROWS}" in audit["linkability"].sentence


@pytest.mark.filterwarnings("ignore::harpoon.exceptions.HarpoonWarning")
@pytest.mark.parametrize("columns", [{"x": [1.0, 2.0] * 40}, {"x": [None, 2.0] * 40, "c": ["a", None] * 40}])
def test_narrow_tables_can_be_audited(columns):
    table = pa.table(columns)
    audit = attack(table, table, table)
    json.dumps(audit.to_json(), allow_nan=False)
    if len(columns) == 1:
        assert audit["linkability"].light == "none"


def test_cells_that_are_all_missing_or_all_equal_can_be_audited():
    rng = np.random.default_rng(9)
    train = draw(rng, 100)
    constant = train.set_column(0, "group", pa.array(["g0"] * 100)).set_column(1, "x", pa.nulls(100, pa.float64()))
    audit = attack(train, constant, constant)
    json.dumps(audit.to_json(), allow_nan=False)


def test_labels_that_the_schema_does_not_have_can_be_audited():
    rng = np.random.default_rng(10)
    train = draw(rng, 100)
    unseen = train.set_column(0, "group", pa.array(["new"] * 100))
    assert attack(train, unseen, unseen)["exact_copies"].baseline == 1
