"""Conditions on categories that the schema does not have, judged by DuckDB."""

import duckdb
import pyarrow as pa
import pytest

from harpoon import Schema
from harpoon.metrics.constraints import satisfies

TRAINING = pa.table(
    {"job": ["chef", "nurse", "cook"] * 9, "past": ["chef", "diver", "cook"] * 9, "code": [1, 2, 5] * 9}
)
ROWS = pa.table(
    {
        "job": ["chef", "diver", "actor", "actor", None, "nurse", "diver"],
        "past": ["chef", "diver", "actor", "clerk", "actor", None, "nurse"],
        "code": [1, 7, None, 0, 2, 7, 3],
    }
)
CONDITIONS = [
    "job = 'chef'",
    "job <> 'chef'",
    "job in ('chef', 'cook')",
    "job not in ('chef', 'cook')",
    "job like '%er'",
    "not (job like '%c%') or past like 'c%'",
    "job is null",
    "job is not null and past is not null",
    "job = past",
    "job <> past",
    "not (job = past)",
    "code > 2",
    "not (code between 1 and 5)",
    "code <> 2 and (job = 'nurse' or code < 4)",
]


@pytest.mark.parametrize("where", CONDITIONS)
def test_unknown_categories_are_read_as_they_are(where):
    schema = Schema.infer(TRAINING, kinds={"code": "category"})
    wanted = duckdb.from_arrow(ROWS).project(f"coalesce({where}, false)").fetchall()
    assert satisfies(schema, ROWS, where).tolist() == [truth for (truth,) in wanted]


def test_an_unknown_category_has_no_rank():
    dtype = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    schema = Schema.infer(pa.table({"grade": pa.array(["low", "mid", "high"] * 9).cast(dtype)}))
    rows = pa.table({"grade": ["low", "top", "high"]})
    assert satisfies(schema, rows, "grade >= 'mid'").tolist() == [False, False, True]
    assert satisfies(schema, rows, "grade < 'mid'").tolist() == [True, False, False]
