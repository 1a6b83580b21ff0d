"""The card of a model: what a notebook shows of it."""

from __future__ import annotations

from harpoon._utils import cards
from harpoon.data.schema import column_table
from harpoon.rules.rule_set import RuleSet
from harpoon.training import FittedModel

MAX_COLUMNS_UNFOLDED = 12


def model_display(title: str, fitted: FittedModel, rules: RuleSet) -> cards.Html:
    """Return the card of a fitted model: its training, its calibration and its columns."""
    schema, history = fitted.schema, fitted.history
    n_modelled = len(schema.modelled)
    pairs = {
        "training rows": ("" if fitted.privacy is None else "about ") + f"{fitted.contingency.n_rows:,}",
        "training": history if fitted.privacy is None else fitted.privacy.describe_steps(),
        "calibration": history.calibration if fitted.privacy is None else None,  # it would be measured on rows
        "differential privacy": fitted.privacy,
        "rules": f"{len(rules)} obeyed" if rules else None,
        "rules that the training rows obey": f"{len(fitted.discovered)}: see rules()" if fitted.discovered else None,
    }
    columns = column_table(schema)
    count = f"{len(schema)} columns, {n_modelled} of them modelled"
    below = cards.folded(count, columns) if len(schema) > MAX_COLUMNS_UNFOLDED else columns
    grade = history.calibration.grade
    return cards.card(title, cards.facts(pairs), below, badge=f"Calibration: {grade}" if grade else "")
