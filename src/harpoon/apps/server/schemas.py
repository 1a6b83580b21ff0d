"""What can be asked: records that are checked when they arrive, and described in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from harpoon.apps.server.limits import MOST_CELLS, MOST_COLUMNS

MOST_FIELDS = 50  # of a body; there are fewer that mean something
MOST_FAULTS = 20  # that are described one by one
LONGEST_CONDITION = 20_000
LARGEST_SEED = 2**53 - 1  # the largest number that JavaScript counts to


def one_row(row: Any) -> Any:  # noqa: ANN401
    """Refuse what is far from a row before each of its faults is described, which for a million takes a minute."""
    if isinstance(row, dict):
        _not_too_many(len(row))
        _mostly_cells(row.values())
    return row


def some_rows(rows: Any) -> Any:  # noqa: ANN401
    """Refuse what is far from a table, or wider than a table is."""
    if isinstance(rows, list):
        names = set[str]()
        for row in rows:
            names.update(row if isinstance(row, dict) else ())
            _not_too_many(len(names))
        if len(rows) * len(names) > MOST_CELLS:
            raise ValueError(f"a table has at most {MOST_CELLS:,} cells")
        _mostly_cells(cell for row in rows for cell in (row.values() if isinstance(row, dict) else (row,)))
    return rows


def some_cells(cells: Any) -> Any:  # noqa: ANN401
    """Refuse what is far from a list of cells."""
    if isinstance(cells, list):
        _mostly_cells(cells)
    return cells


def some_columns(columns: Any) -> Any:  # noqa: ANN401
    """Refuse what names more columns than a table has."""
    if isinstance(columns, dict):
        _not_too_many(len(columns))
    return columns


def _mostly_cells(cells: Iterable[Any]) -> None:
    faults = (1 for cell in cells if isinstance(cell, list | dict) or (isinstance(cell, float) and not isfinite(cell)))
    if sum(islice(faults, MOST_FAULTS + 1)) > MOST_FAULTS:
        raise ValueError("many of its cells are no text, finite number, true, false or null")


def _not_too_many(columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise ValueError(f"a table has at most {MOST_COLUMNS:,} columns")


Cell = str | bool | int | float | None
Row = dict[str, Cell]
Where = Annotated[str | None, Field(description="A condition, as in SQL.", max_length=LONGEST_CONDITION)]
Given = Annotated[Row | None, BeforeValidator(one_row), Field(description="Values that all rows have.")]
Strategy = Annotated[
    Literal["auto", "rejection", "conditioning", "guidance", "paper"],
    Field(description="How to meet the condition; `known` is the fastest for one that few rows meet."),
]
Seed = Annotated[
    int | None,
    Field(
        ge=0, le=LARGEST_SEED, description="The same seed gives the same answer; without one, one is chosen and told."
    ),
]


Interval = Annotated[list[float], Field(min_length=2, max_length=2)]


class Body(BaseModel):
    """Fields that nobody knows are refused: most of them are misspelt."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, fields: Any) -> Any:  # noqa: ANN401
        if isinstance(fields, dict) and len(fields) > MOST_FIELDS:
            raise ValueError(f"a body has at most {MOST_FIELDS} fields")
        return fields


class SampleBody(Body):
    """Rows to draw."""

    n: Annotated[int, Field(ge=1, description="How many rows.")] = 100
    where: Where = None
    given: Given = None
    strategy: Strategy = "auto"
    fewer: Annotated[bool, Field(description="Take what there is if too few rows meet the condition.")] = False
    seed: Seed = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"n": 100, "where": "age >= 60", "seed": 0}]})


class FeasibilityBody(Body):
    """A condition to judge."""

    where: Annotated[str, Field(description="A condition, as in SQL.", max_length=LONGEST_CONDITION)]
    given: Given = None
    seed: Seed = None


class ProfileBody(Body):
    """A condition whose effects to look at."""

    where: Where = None
    given: Given = None
    n: Annotated[int, Field(ge=1, description="How many rows to draw under it.")] = 2000
    strategy: Strategy = "auto"
    show: Annotated[int, Field(ge=0, le=1000, description="How many of them to send along.")] = 0
    seed: Seed = 0


class Filling(Body):
    """How to fill holes. Where the table is no JSON, these stand in the address."""

    draws: Annotated[int | None, Field(ge=1, description="Completed tables to draw, to see how sure a value is.")] = (
        None
    )
    level: Annotated[float, Field(gt=0, lt=1, description="Of the intervals of numbers.")] = 0.9
    where: Annotated[
        str | None, Field(description="A rule that every completed row has to meet.", max_length=LONGEST_CONDITION)
    ] = None
    seed: Seed = None


class ImputeBody(Filling):
    """A table with holes: null, or a key that is not there, is a missing cell."""

    rows: Annotated[list[Row], BeforeValidator(some_rows)]


class Control(Body):
    """What is asked of one column: a range of numbers or times, or some of its labels."""

    low: Cell = None
    high: Cell = None
    low_open: Annotated[bool, Field(description="Whether the low end itself is outside.")] = False
    high_open: Annotated[bool, Field(description="Whether the high end itself is outside.")] = False
    labels: Annotated[list[Cell] | None, BeforeValidator(some_cells)] = None


class ConditionBody(Body):
    """A condition as text, or as controls."""

    where: Where = None
    controls: Annotated[
        dict[str, Control] | None, BeforeValidator(some_columns), Field(description="By the names of columns.")
    ] = None
    rest: Annotated[Where, Field(description="What no control can show, to be asked for besides them.")] = None


class Told(BaseModel):
    """An error: a word for programs and a sentence for people."""

    kind: str
    message: str


class Error(BaseModel):
    """Every answer but a good one."""

    error: Told


class Health(BaseModel):
    """The service is there."""

    status: Literal["ok"] = "ok"
    version: str


class Described(BaseModel):
    """The model, its columns, how plain rows spread over them, and what may be asked."""

    name: str
    preset: str
    version: str
    rows: int
    columns: list[dict[str, Any]]
    limits: dict[str, float]


class Rows(BaseModel):
    """Rows, what it took to draw them, and the seed that draws them again."""

    rows: list[dict[str, Any]]
    report: dict[str, Any]
    seed: int


class Likelihood(BaseModel):
    """How likely a condition is, each of its parts by itself, and what to relax."""

    condition: str
    probability: float
    interval: Interval
    parts: list[dict[str, Any]]
    training_share: float | None
    rows: int
    suggestion: str
    message: str
    seed: int


class Profile(BaseModel):
    """What a condition does to every column, the strongest change first; how likely it is among plain rows."""

    where: str | None
    probability: float
    interval: Interval
    rows: int
    report: dict[str, Any]
    columns: list[dict[str, Any]]
    drawn: list[dict[str, Any]]
    seed: int


class Filled(BaseModel):
    """A table without holes, and each cell that was filled."""

    rows: list[dict[str, Any]]
    filled: list[dict[str, Any]]
    passed_on: list[str]
    notes: list[str]
    seed: int


class Condition(BaseModel):
    """A condition as text, what controls can show of it, whether that is all, and the rest where it is not."""

    where: str | None
    controls: dict[str, dict[str, Any]]
    complete: bool
    rest: str | None
