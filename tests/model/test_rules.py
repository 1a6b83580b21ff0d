"""Rules that a model carries, finds and checks: DuckDB judges the rows."""

import copy
import json

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import harpoon
from harpoon import (
    BrokenRuleWarning,
    Harpoon,
    InfeasibleCondition,
    InvalidCondition,
    InvalidOption,
    InvalidTable,
    ModelFileError,
    Rule,
    RuleSet,
    col,
    report,
)
from harpoon._utils import model_file
from harpoon.apps.cli import app
from harpoon.apps.server.limits import Limits
from harpoon.apps.server.served_model import ServedModel
from harpoon.engines import sample as sample_by_engine
from harpoon.rules.rule_set import RuleCheck
from tests.support import frames


def make_table(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 100, rows)
    price, postage = np.round(rng.gamma(2, 10, rows), 2), np.round(rng.gamma(1, 3, rows), 2)
    city = rng.choice(["Basel", "Bern", "Lyon", "Paris"], rows)
    sex = rng.choice(["f", "m"], rows)
    status = np.where(sex == "m", rng.choice(["husband", "single"], rows), rng.choice(["wife", "single"], rows))
    note = np.where(rng.random(rows) < 0.2, np.nan, rng.integers(0, 30, rows))
    return pd.DataFrame(
        {
            "start": start,
            "finish": start + rng.integers(1, 30, rows),
            "price": price,
            "postage": postage,
            "total": np.round(price + postage, 2),
            "city": city,
            "country": np.where(np.isin(city, ["Basel", "Bern"]), "CH", "FR"),
            "sex": sex,
            "status": status,
            "note": note,
            "planet": "earth",
        }
    )


TABLE = make_table()
RULES = {
    "order": "start < finish",
    "married": "status = 'husband' implies sex = 'm'",
    "cheap": "if country = 'CH' then price < 70 else price < 80",
    "noted": "note between 3 and 25",
}


@pytest.fixture(scope="module")
def model():
    with pytest.warns(harpoon.ColumnLeftOutWarning):
        return Harpoon(hidden=32, depth=2, max_epochs=15, random_state=0, progress=False).fit(TABLE)


def broken_in_duckdb(rows, rules):
    """Return how many rows break each rule in DuckDB: where it is false, and not where it is unknown."""
    with duckdb.connect() as connection:
        connection.register("drawn_rows", rows)
        query = "SELECT count(*) FROM drawn_rows WHERE NOT ({})"
        return {rule.name: connection.execute(query.format(rule.text)).fetchone()[0] for rule in rules}


def test_every_sampled_row_obeys_the_rules(model):
    strict = model.with_rules(RULES)
    rows = strict.sample(400, random_state=1)
    assert len(rows) == 400
    assert set(broken_in_duckdb(rows, strict.rules_).values()) == {0}
    assert max(broken_in_duckdb(model.sample(400, random_state=1), strict.rules_).values()) > 0
    assert strict.sampling_info_.probability < 1
    assert strict.sample(400, random_state=1).equals(rows)


def test_a_missing_cell_leaves_a_rule_unknown(model):
    rows = model.with_rules(RULES).sample(400, random_state=2)
    assert 0.05 < rows["note"].isna().mean() < 0.5
    complete = model.with_rules(RULES).sample(200, missing="complete", random_state=2)
    assert complete["note"].between(3, 25).all()


def test_rows_do_not_depend_on_how_they_are_partitioned(model):
    strict = model.with_rules(["start < finish", "price < 60"])
    whole = strict.sample(60, random_state=3)
    parts = [strict.sample(30, row_offset=offset, random_state=3) for offset in (0, 30)]
    assert pd.concat(parts, ignore_index=True).equals(whole)


def test_rare_rules_and_conditions_together(model):
    strict = model.with_rules(["city = 'Basel'", "start < finish"])
    rows = strict.sample(50, where=["price > 20", "sex = 'f'"], random_state=0)
    assert len(rows) == 50
    assert (rows["city"] == "Basel").all()
    assert (rows["price"] > 20).all()
    assert (rows["sex"] == "f").all()
    assert (rows["start"] < rows["finish"]).all()
    seldom = model.with_rules(["price > 50"]).sample(30, random_state=0)
    assert (seldom["price"] > 50).all()


def test_dozens_of_conditions_hold_together(model):
    where = [f"not (status = 'husband' and price > {10 + i})" for i in range(8)]
    where += [f"start > {i} implies finish - start < {9 + i}" for i in range(8)]
    where += [
        f"city = '{city}' implies total < {60 + 5 * i}" for i, city in enumerate(("Bern", "Basel", "Lyon", "Paris"))
    ]
    where += [f"price > {i / 10}" for i in range(12)]
    rows = model.sample(60, where=where, random_state=0)
    assert len(where) == 32
    assert set(broken_in_duckdb(rows, RuleSet.of(where)).values()) == {0}


def random_table(random, rows=150):
    """Return a table of random kinds of columns, some with missing cells, and their names by kind."""
    kinds = {"number": random.integers(1, 4), "label": random.integers(1, 3), "day": random.integers(0, 2)}
    names = {kind: [f"{kind}{i}" for i in range(count)] for kind, count in kinds.items()}
    numbers = {name: np.round(random.normal(0, 5, rows), int(random.integers(0, 3))) for name in names["number"]}
    labels = {name: random.choice(["p", "q", "r"], rows) for name in names["label"]}
    days = {
        name: pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 400, rows), "D") for name in names["day"]
    }
    table = pd.DataFrame({**numbers, **labels, **days})
    table.loc[random.random(rows) < 0.2, names["number"][0]] = np.nan
    return table, names


def random_rules(random, table, names, count):
    """Return rules that some complete row of a table obeys: none of them contradict each other."""
    row, rules = table.dropna().iloc[int(random.integers(20))], []
    for _ in range(count):
        x, y = random.choice(names["number"], 2)
        label, slack = random.choice(names["label"]), float(random.uniform(1, 6))
        other = random.choice([value for value in "pqr" if value != row[label]])
        bound = f"{x} <= {row[x] + slack}"
        rules += random.choice(
            [
                f"{x} >= {row[x] - slack}",
                f"{label} in ('{row[label]}', '{other}')",
                f"{label} = '{other}' implies {bound}",
                f"{label} = '{row[label]}' or {x} > {row[x]}",
                f"{x} - {y} <= {row[x] - row[y] + slack}",
                f"{x} < case when {label} = '{other}' then {row[x]} else {row[x] + slack} end",
                *(f"month({day}) = {row[day].month} or {bound}" for day in names["day"]),
                *(f"{day} >= '{row[day] - pd.Timedelta(90, 'D'):%Y-%m-%d}'" for day in names["day"]),
            ],
            1,
        ).tolist()
    return list(dict.fromkeys(rules))


@pytest.mark.parametrize("seed", range(4))
def test_random_rules_hold_in_all_rows_of_random_tables(seed):
    random = np.random.default_rng(seed)
    table, names = random_table(random)
    rules = random_rules(random, table, names, 3 * (seed + 1))
    plain = Harpoon(hidden=16, depth=1, max_epochs=2, random_state=0, progress=False).fit(table)
    strict = plain.with_rules(rules)
    rows = strict.sample(30, random_state=seed)
    assert len(rows) == 30
    assert set(broken_in_duckdb(rows, strict.rules_).values()) == {0}


def test_given_cells_that_break_a_rule_are_an_error(model):
    with pytest.raises(InvalidCondition, match="violated by observed cells"):
        model.with_rules(["sex = 'm' implies status != 'wife'"]).sample(3, given={"sex": "m", "status": "wife"})


def test_the_model_that_rules_are_added_to_stays_as_it_is(model):
    before = model.sample(20, random_state=0)
    strict = model.with_rules(RULES)
    assert strict.denoiser_ is model.denoiser_
    assert not model.rules_
    assert model.sample(20, random_state=0).equals(before)
    assert strict.with_rules([]).sample(20, random_state=0).equals(before)


# Imputation


@pytest.fixture(scope="module")
def holes():
    rng = np.random.default_rng(5)
    table = TABLE.head(120).astype({"start": "float64", "finish": "float64"}).copy()
    for name in ("finish", "price", "sex", "status", "note"):
        table.loc[rng.random(len(table)) < 0.4, name] = None if table[name].dtype == object else np.nan
    return table


def observed_cells_are_kept(before, after):
    return all(
        after.loc[before[name].notna(), name].tolist() == before.loc[before[name].notna(), name].tolist()
        for name in before
    )


@pytest.mark.parametrize("draws", [None, 2])
def test_imputed_rows_obey_and_observed_cells_are_kept(model, holes, draws):
    strict = model.with_rules({**RULES, "late": "finish >= start + 5"})
    whole = holes[holes["finish"].isna() | (holes["finish"] >= holes["start"] + 5)]
    whole = whole[whole["note"].isna() | whole["note"].between(3, 25)]
    filled = strict.impute(whole, draws=draws, random_state=0)
    for rows in [filled] if draws is None else filled.tables:
        assert set(broken_in_duckdb(rows, strict.rules_).values()) == {0}
        assert observed_cells_are_kept(whole, rows)


def test_rows_that_observed_cells_break_are_named_and_obey_the_other_rules(model):
    table = TABLE.head(6).astype({"start": "float64", "price": "float64"}).copy()
    table.loc[3, ["start", "finish", "price"]] = [99.0, 5, np.nan]
    strict = model.with_rules({"order": "start < finish", "cheap": "price < 15"})
    table.loc[[0, 1, 2, 4, 5], "price"] = np.nan
    with pytest.warns(BrokenRuleWarning, match=r"order in row 3"):
        filled = strict.impute(table, random_state=0)
    assert filled.loc[3, ["start", "finish"]].tolist() == [99.0, 5]
    assert (filled["price"] < 15).all()
    assert strict.check(filled).counts == {"order": 1, "cheap": 0}


def test_values_that_no_rule_set_leaves_are_filled_with_a_warning(model):
    table = TABLE.head(3).astype({"start": "float64", "finish": "float64"}).copy()
    table[["start", "finish"]] = [[5.0, 9.0], [99.0, np.nan], [10.0, np.nan]]
    strict = model.with_rules(["finish > start", "finish < 60"])
    with pytest.warns(BrokenRuleWarning, match=r"No values were found .* row 1"):
        filled = strict.impute(table, random_state=0)
    assert filled.loc[1, "start"] == 99
    assert 10 < filled.loc[2, "finish"] < 60


def test_shift_cannot_be_combined_with_rules(model, holes):
    with pytest.raises(InvalidOption, match="rules"):
        model.with_rules(RULES).impute(holes, draws=2, shift={"price": 0.2})


# Checking tables


@pytest.mark.parametrize("library", frames.LIBRARIES)
def test_check_says_which_rows_break_which_rule(model, library):
    columns = {"start": [1, 5, 3, 9], "finish": [2, 4, None, 8], "note": [None, 1.0, 5.0, 99.0]}
    found = model.with_rules({name: RULES[name] for name in ("order", "noted")}).check(frames.make(library, columns))
    assert isinstance(found, RuleCheck)
    assert found.counts == {"order": 2, "noted": 2}
    assert found.rows.tolist() == [1, 3]
    assert not found.ok
    assert str(found).splitlines()[0] == "2 of 4 rows break a rule."
    one = model.with_rules([RULES["order"]])
    assert str(one.check(TABLE)) == "All 600 rows obey the rule."
    assert str(one.check(TABLE[:1])) == "The row obeys the rule."
    worse = TABLE[:3].assign(finish=[999, -5, 999])
    assert str(one.check(worse)).splitlines()[0] == "1 of 3 rows breaks a rule."
    lines = harpoon.data.dataframe.read(found.table)
    assert lines.library == library
    assert lines.arrow.to_pydict() == {"row": [1, 1, 3, 3], "rule": ["order", "noted", "order", "noted"]}


def test_a_constant_column_is_checked_in_the_table(model):
    strict = model.with_rules(["planet = 'earth'"])
    assert strict.check(pd.DataFrame({"planet": ["earth", "mars", None]})).rows.tolist() == [1]
    assert strict.check(strict.sample(5)).ok


def test_a_table_without_the_columns_of_the_rules_is_refused(model):
    with pytest.raises(InvalidTable, match="finish"):
        model.with_rules(RULES).check(TABLE[["start", "status", "sex", "country", "price", "note"]])


@given(st.lists(st.sampled_from(sorted(RULES)), min_size=1, unique=True), st.integers(0, 1000))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_check_agrees_with_duckdb(model, names, seed):
    strict = model.with_rules({name: RULES[name] for name in names})
    rows = model.sample(100, random_state=seed)
    assert strict.check(rows).counts == broken_in_duckdb(rows, strict.rules_)


# Reading rules, and contradictions


def test_rules_are_read_from_texts_expressions_mappings_and_rules(model):
    given_rules = ["start  <  finish", (col("price") > 0).implies(col("total") > 0), Rule("own", col("note") < 99)]
    found = model.with_rules(given_rules).rules_
    assert found.names == ["start < finish", "not (price > 0) or total > 0", "own"]
    assert model.with_rules(found).rules_ == found
    assert RuleSet.of("a > 1").names == ["a > 1"]
    with pytest.raises(InvalidCondition, match="Two rules"):
        RuleSet.of([Rule("x", col("a") > 1), Rule("x", col("a") > 2)])
    with pytest.raises(InvalidCondition, match="'prise'"):
        model.with_rules({"wrong": "prise > 3"})
    with pytest.raises(InvalidOption, match="order"):
        model.rules().select("ordr(start, finish)")


def test_a_contradiction_names_the_smallest_set(model):
    with pytest.raises(InfeasibleCondition, match=r"price > 40 and price < 30 exclude each other") as caught:
        model.with_rules(["sex = 'm'", "price > 40", "start < finish", "price < 30", "postage > 1"])
    assert "postage" not in str(caught.value)
    with pytest.raises(InfeasibleCondition, match="price < 30 and price > 40 exclude"):
        model.with_rules(["price > 40"]).sample(3, where="price < 30")


def test_rules_that_leave_a_column_no_value_are_told(model):
    """A missing cell obeys both rules, so that there is no contradiction."""
    with pytest.warns(
        BrokenRuleWarning, match=r"no value to column 'note': note > 20 and note < 10 exclude each other"
    ):
        strict = model.with_rules(["note > 20", "price > 1", "note < 10"])
    assert strict.sample(10, random_state=0)["note"].isna().all()
    with pytest.raises(InfeasibleCondition, match="note > 20 and note < 10 exclude each other"):
        strict.impute(TABLE.assign(note=np.nan).head(5))
    model.with_rules(["note is null", "note > 20 or price > 1"])  # no warning: the rule asks for it


def test_rules_of_a_new_model_are_checked_before_it_is_trained():
    with pytest.raises(InfeasibleCondition, match="exclude each other"), pytest.warns(harpoon.ColumnLeftOutWarning):
        Harpoon(rules=["price > 40", "price < 30"], max_epochs=1, progress=False).fit(TABLE)
    with pytest.raises(InvalidCondition, match="prise"), pytest.warns(harpoon.ColumnLeftOutWarning):
        Harpoon(rules=["prise > 40"], max_epochs=1, progress=False).fit(TABLE)


def test_training_rows_that_break_rules_are_counted():
    table = TABLE.head(100).drop(columns="planet")
    with pytest.warns(BrokenRuleWarning, match=r"price < 20 \(\d+ rows\)"):
        model = Harpoon(rules=["price < 20"], hidden=16, max_epochs=1, random_state=0, progress=False).fit(table)
    assert (model.sample(30)["price"] < 20).all()


# Files


def test_rules_are_saved_and_loaded(model, tmp_path):
    strict = model.with_rules(RULES)
    strict.save(tmp_path / "model.harpoon")
    loaded = harpoon.load(tmp_path / "model.harpoon", progress=False)
    assert loaded.rules_ == strict.rules_
    assert loaded.rules() == strict.rules()
    assert loaded.sample(30, random_state=4).equals(strict.sample(30, random_state=4))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content.update(rules={"a": 1}),
        lambda content: content.update(rules=[{"name": "a"}]),
        lambda content: content.update(rules=[{"name": "a", "text": "price >"}]),
        lambda content: content.update(rules=[{"name": "a", "text": "nothing > 3"}]),
        lambda content: content.update(rules=[{"name": 3, "text": "price > 3"}]),
        lambda content: content.update(discovered_rules=[{"name": "a", "text": "price > 3", "support": "many"}]),
        lambda content: content.update(discovered_rules=3),
    ],
)
def test_damaged_rules_are_a_damaged_file(model, tmp_path, damage):
    path = tmp_path / "model.harpoon"
    model.save(path)
    tensors, content = model_file.read_tensors(path)
    content = copy.deepcopy(content)
    damage(content)
    model_file.write_tensors(path, tensors, content)
    with pytest.raises(ModelFileError):
        harpoon.load(path, progress=False)


# Discovered rules


def test_rules_are_found_with_their_support(model):
    found = {rule.name: rule for rule in model.rules()}
    assert found["order(start, finish)"].text == "start < finish"
    assert found["order(start, finish)"].support == len(TABLE)
    assert found["range(start)"].text == f"start between {TABLE['start'].min()} and {TABLE['start'].max()}"
    assert found["implies(status = husband, sex = m)"].support == int((TABLE["status"] == "husband").sum())
    assert found["sum(total)"].text == "abs(total - (price + postage)) <= 0.00501"
    assert "determines(city, country)" in found
    assert "determines(country, city)" not in found
    assert set(broken_in_duckdb(TABLE, model.rules()).values()) == {0}


def test_accepted_rules_hold_in_every_sampled_row(model):
    accepted = model.with_rules(model.rules())
    rows = accepted.sample(500, random_state=6)
    assert set(broken_in_duckdb(rows, accepted.rules_).values()) == {0}
    one = model.with_rules(model.rules().select("order(start, finish)"))
    assert one.rules_.names == ["order(start, finish)"]


def test_independent_columns_have_ranges_only():
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            **{f"x{i}": rng.normal(size=300) for i in range(4)},
            **{f"c{i}": rng.choice(list("abcd"), 300) for i in range(4)},
            "n": rng.integers(0, 5, 300),
        }
    )
    found = Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(table).rules()
    assert {rule.name.partition("(")[0] for rule in found} == {"range"}


def test_few_exceptions_are_allowed_and_not_counted_exactly():
    table = make_table(800, seed=1).drop(columns="planet")
    table.loc[[5, 9], ["start", "finish"]] = [[50, 20], [40, 10]]
    model = Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(table)
    (rule,) = model.rules().select("order(start, finish)")
    assert rule.exceptions == 4  # small counts are stored as 4
    assert "at most 4 exceptions in 800 rows" in str(rule)
    assert "order(start, finish)" not in model.rules().select(where=lambda each: not each.exceptions).names


# Engines


def test_engines_obey_rules(model, tmp_path):
    strict = model.with_rules(RULES)
    sample_by_engine(50, strict, tmp_path / "rows.csv", random_state=0, progress=False)
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert set(broken_in_duckdb(rows, strict.rules_).values()) == {0}


# Front ends


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_line_checks_tables_and_adds_rules(model, tmp_path):
    model.save(tmp_path / "model.harpoon")
    TABLE.to_csv(tmp_path / "rows.csv", index=False)
    listed = json.loads(run("rules", tmp_path / "model.harpoon", "--json").stdout)
    assert "order(start, finish)" in [rule["name"] for rule in listed["discovered"]]
    (tmp_path / "table.sql").write_text(
        "CREATE TABLE t (price DOUBLE CHECK (price > 5), absent INT CHECK (absent > 0))"
    )
    added = run(
        "rules", tmp_path / "table.sql", "--model", tmp_path / "model.harpoon", "-o", tmp_path / "strict.harpoon"
    )
    assert added.exit_code == 0
    assert harpoon.load(tmp_path / "strict.harpoon", progress=False).rules_.names == ["price > 5"]
    assert "absent" in added.stdout
    checked = run("check", tmp_path / "strict.harpoon", tmp_path / "rows.csv", "--json")
    assert checked.exit_code == 4
    found = json.loads(checked.stdout)
    assert found["broken_rows"] == int((TABLE["price"] <= 5).sum()) == len(found["broken"])
    assert run("check", tmp_path / "model.harpoon", tmp_path / "rows.csv", "--where", "price >= 0").exit_code == 0
    without = run("check", tmp_path / "model.harpoon", tmp_path / "rows.csv")
    assert without.exit_code == 2
    for said in (without.stdout + without.stderr, str(model.check(TABLE))):
        assert "The model carries no rules, so nothing was checked." in " ".join(said.split())
    assert json.loads(run("info", tmp_path / "strict.harpoon", "--json").stdout)["rules"][0]["text"] == "price > 5"


def test_reports_and_the_service_show_the_rules(model):
    strict = model.with_rules({"order": "start < finish"})
    assert report.describe(strict, rows=30)["training"]["rules"] == [
        {"name": "order", "text": "start < finish", "broken": None}
    ]
    served = ServedModel.prepare(strict, "shop", Limits())
    assert served.describe()["rules"] == [{"name": "order", "text": "start < finish"}]


def test_a_column_may_be_the_product_of_several_pairs():
    """As the area of a bean: its length by a shape factor, and its convex area by its solidity."""
    rng = np.random.default_rng(0)
    a, b, c = rng.uniform(1, 9, (3, 400)).round(3)
    area = a * b
    table = pd.DataFrame({"a": a, "b": b, "area": area, "c": c, "d": area / c, "e": area * c})
    model = frames.fit(table)
    names = [rule.name for rule in model.rules()]
    products = [name for name in names if name.startswith("product(")]
    assert len(products) == len(set(products)) >= 2
    assert model.with_rules(model.rules()).check(table).ok
