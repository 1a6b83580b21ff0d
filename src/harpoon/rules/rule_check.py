"""Which rows of a table break which rule, and a warning about those of the training table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harpoon._formatting import format_list
from harpoon.conditions.language.expressions import column_names
from harpoon.data import Column, Kind, Schema, Table, dataframe, read_columns
from harpoon.data.column_array import ColumnArray
from harpoon.exceptions import BrokenRuleWarning, InvalidTable, warn
from harpoon.rules.rule_set import BoundRules, RuleCheck, RuleSet

MAX_NAMED = 5
LABELS = ("boolean", "text", "category")


def check_rules(rules: RuleSet, schema: Schema, table: Table) -> RuleCheck:
    """Return which rows of a table break which rule; the table has the columns that the rules use."""
    used = set().union(*(column_names(rule.predicate) for rule in rules))
    absent = sorted(used - set(table.names))
    if absent:
        raise InvalidTable(f"The rules use the columns {format_list(absent)}, which the table does not have. Add them.")
    columns = tuple(_column_to_check(column, table) for column in schema if column.name in used)
    own = Schema(columns)
    arrow = table.arrow.select([column.name for column in columns])
    rows = read_columns(dataframe.read(arrow), own, partial=True)
    none = np.zeros((table.n_rows, len(rules)), dtype=np.bool_)
    broken = rules.bind(own).broken(rows) if rows else none
    check = RuleCheck(rules, broken)
    numbers, names = check.pairs()
    lines = {"row": ColumnArray("integer", numbers, np.zeros(len(numbers), dtype=np.bool_)), "rule": _texts(names)}
    return check.with_table(dataframe.build_like(table, lines))


def warn_training_rows(rules: BoundRules, table: Table) -> None:
    """Warn if rows of the training table break rules of the model."""
    if not rules:
        return
    check = check_rules(rules.rules, rules.schema, table)
    if not check.ok:
        named = [f"{name} ({count:,} rows)" for name, count in check.counts.items() if count]
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        message = f"Training rows break rules: {', '.join(named[:MAX_NAMED])}{more}. Sampled rows will not."
        warn(BrokenRuleWarning(message))


def _column_to_check(column: Column, table: Table) -> Column:
    """Return a column of the schema; one that was constant in training may have other values in the table."""
    if column.kind is not Kind.CONSTANT:
        return column
    cells, constant = table.column(column.name), (column.categories or ("",))[0]
    if cells.storage in LABELS:
        values = {cells.categories[code] for code in np.unique(cells.observed).tolist()} | {constant}
        if len({isinstance(value, str) for value in values}) == 1:
            return Column(column.name, Kind.CATEGORY, tuple(sorted(values)))
    if cells.storage in ("float", "integer") and isinstance(constant, int | float):
        return replace(column, kind=Kind.NUMBER, categories=None, note="")
    return column


def _texts(names: list[str]) -> ColumnArray:
    labels = sorted(set(names))
    codes = np.array([labels.index(name) for name in names], dtype=np.int64)
    return ColumnArray("text", codes, np.zeros(len(codes), dtype=np.bool_), categories=tuple(labels))
