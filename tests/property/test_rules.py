"""Rules as people write them: implications, `case when` and tuples agree with DuckDB, missing cells included."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harpoon import case, col, cols, greatest, least, lit
from harpoon.conditions import bind, evaluate, negate, parse
from harpoon.conditions.language.expressions import Comparison, Literal
from tests.support.conditions import QUARTERS, TEXTS, cells, leaves, numbers, tables

NAMESPACE = {"col": col, "lit": lit, "least": least, "greatest": greatest, "case": case}


def outcomes(duck, table, sql):
    """What DuckDB says of each row: true, false, or None."""
    duck.register("rows", table)
    return [row[0] for row in duck.execute(f"select ({sql}) from rows").fetchall()]  # noqa: S608


def own_outcomes(schema, table, tree):
    bound, rows = bind(tree, schema), cells(schema, table)
    true, false = evaluate(bound, rows), evaluate(negate(bound), rows)
    assert not (true & false).any()
    return [True if t else False if f else None for t, f in zip(true, false, strict=True)]


@st.composite
def number_cases(draw):
    """A schema, a table, and a comparison of numbers that a case chooses."""
    schema, table, by_kind = draw(tables().filter(lambda found: {"number", "integer"} & set(found[2])))
    conditions = draw(st.lists(leaves(schema, by_kind), min_size=1, max_size=3))
    values = numbers(by_kind)
    results = [draw(st.none() | values) for _ in conditions]
    chosen = case(*zip(conditions, results, strict=True), otherwise=draw(st.none() | values))
    shifted = draw(st.sampled_from([chosen, chosen + 1, abs(chosen)]))
    tree = Comparison(draw(st.sampled_from(["=", "!=", "<", ">="])), shifted, draw(values))
    return schema, table, tree


@given(number_cases())
@settings(max_examples=60, deadline=None)
def test_a_case_of_numbers_means_what_it_means_in_duckdb(duck, example):
    schema, table, tree = example
    for each in (tree, ~tree):
        assert own_outcomes(schema, table, each) == outcomes(duck, table, str(each))
        assert parse(str(each)) == each
        assert eval(repr(each), {**NAMESPACE, "datetime": __import__("datetime")}) == each  # noqa: S307


@st.composite
def label_cases(draw):
    schema, table, by_kind = draw(tables().filter(lambda found: set(TEXTS) & set(found[2])))
    column = draw(st.sampled_from([column for kind in TEXTS for column in by_kind.get(kind, [])]))
    labels = st.none() | st.sampled_from(column.categories)
    conditions = draw(st.lists(leaves(schema, by_kind), min_size=1, max_size=2))
    chosen = case(*((condition, draw(labels)) for condition in conditions), otherwise=draw(labels))
    return schema, table, Comparison(draw(st.sampled_from(["=", "!="])), col(column.name), chosen)


@given(label_cases())
@settings(max_examples=40, deadline=None)
def test_a_case_of_labels_means_what_it_means_in_duckdb(duck, example):
    schema, table, tree = example
    assert own_outcomes(schema, table, tree) == outcomes(duck, table, str(tree))


@st.composite
def implications(draw):
    schema, table, by_kind = draw(tables())
    return schema, table, [draw(leaves(schema, by_kind)) for _ in range(3)]


@given(implications(), st.sampled_from(["{} implies {}", "if {} then {}", "{} => {}", "(if {} then {})"]))
@settings(max_examples=40, deadline=None)
def test_an_implication_is_false_only_where_its_premise_holds_and_its_conclusion_does_not(duck, example, template):
    schema, table, (premise, conclusion, _) = example
    tree = parse(template.format(premise, conclusion))
    assert tree == premise.implies(conclusion)
    both = zip(outcomes(duck, table, str(premise)), outcomes(duck, table, str(conclusion)), strict=True)
    expected = [True if a is False or b is True else False if a is True and b is False else None for a, b in both]
    assert own_outcomes(schema, table, tree) == expected


@given(implications())
@settings(max_examples=30, deadline=None)
def test_an_implication_with_else_is_a_choice(duck, example):
    schema, table, (premise, conclusion, otherwise) = example
    tree = parse(f"if {premise} then {conclusion} else {otherwise}")
    of_case = parse(f"case when {premise} then {conclusion} else {otherwise} end")
    known = [outcome is not None for outcome in outcomes(duck, table, str(premise))]
    expected = outcomes(duck, table, f"case when {premise} then {conclusion} else {otherwise} end")
    assert own_outcomes(schema, table, of_case) == expected
    found = own_outcomes(schema, table, tree)
    assert [a for a, k in zip(found, known, strict=True) if k] == [a for a, k in zip(expected, known, strict=True) if k]


@given(implications())
@settings(max_examples=30, deadline=None)
def test_a_case_of_conditions_without_else_is_unknown_where_none_is_true(duck, example):
    schema, table, (premise, conclusion, other) = example
    sql = f"case when {premise} then {conclusion} when {other} then null end"
    assert own_outcomes(schema, table, parse(sql)) == outcomes(duck, table, sql)


@given(tables().filter(lambda found: "integer" in found[2] and set(TEXTS) & set(found[2])), st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_tuples_of_columns_are_compared_column_by_column(duck, found, data):
    schema, table, by_kind = found
    number = by_kind["integer"][0]
    text = next(column for kind in TEXTS for column in by_kind.get(kind, []))
    pairs = st.tuples(st.integers(-9, 9), st.sampled_from(text.categories))
    options = data.draw(st.lists(pairs, min_size=1, max_size=4))
    tree = cols(number.name, text.name).is_in(options)
    a, b = str(col(number.name)), str(col(text.name))
    listed = ", ".join(f"({x}, {Literal(y)})" for x, y in options)
    assert parse(f"({a}, {b}) in ({listed})") == tree
    expected = " or ".join(f"({a} = {x} and {b} = {Literal(y)})" for x, y in options)
    assert own_outcomes(schema, table, tree) == outcomes(duck, table, expected)
    is_selected = [outcome is True for outcome in outcomes(duck, table, f"({a}, {b}) in ({listed})")]
    assert evaluate(bind(tree, schema), cells(schema, table)).tolist() == is_selected


@given(implications())
@settings(max_examples=20, deadline=None)
def test_a_list_of_conditions_is_their_conjunction(duck, example):
    from harpoon.conditions import to_predicate

    schema, table, trees = example
    found = evaluate(bind(to_predicate([str(trees[0]), *trees[1:]]), schema), cells(schema, table))
    each = [outcomes(duck, table, str(tree)) for tree in trees]
    assert found.tolist() == [all(outcome is True for outcome in row) for row in zip(*each, strict=True)]


@given(st.lists(QUARTERS, min_size=2, max_size=2))
@settings(max_examples=5, deadline=None)
def test_quarters_compare_between_columns_with_arithmetic(duck, values):
    import pyarrow as pa

    from harpoon import Column, Kind, Schema

    schema = Schema((Column("a", Kind.NUMBER), Column("b", Kind.NUMBER)))
    table = pa.table({"a": [values[0], None, values[0]], "b": [values[1], 1.0, values[0] * 2]})
    for sql in ("a * 2 = b", "a + b != 3 * a", "abs(a - b) <= a / 2"):
        assert own_outcomes(schema, table, parse(sql)) == outcomes(duck, table, sql)
