"""Reports: what a model or a table is worth, as plain data and as one page of HTML.

    evaluated(model, test)         a model on rows that it was not trained on
    compared(real, synthetic)      two tables, no model
    described(model)               a model alone

Each gives a summary: a dictionary that JSON can hold, whose names `harpoon.report.summary` lists. `Page(summary)` is
the page, which the extra "report" brings Jinja2 for.
"""

from harpoon.report.build import compare, describe, evaluate
from harpoon.report.html import Page

__all__ = ["Page", "compare", "describe", "evaluate"]
