"""Reports: the quality of a model or of a synthetic table, as plain data and as one page of HTML.

    evaluate(model, test)       a model on rows that it was not trained on
    compare(real, synthetic)    two tables, no model
    describe(model)             a model alone
    summarize_audit(audit)      attacks on a model (`Harpoon.audit`)

Each returns a summary: a dictionary that JSON can hold, with the keys of `harpoon.report.summary`. `Page(summary)` is
the page; it needs the extra "report" (Jinja2). `harpoon.plots` draws figures; it needs the extra "plots".
"""

from harpoon.report.build import compare, describe, evaluate
from harpoon.report.html import Page
from harpoon.report.privacy import summarize_audit

__all__ = ["Page", "compare", "describe", "evaluate", "summarize_audit"]
