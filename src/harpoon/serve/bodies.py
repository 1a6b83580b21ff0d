"""What can be asked, as records that are checked when they arrive and described in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harpoon.conditional import STRATEGIES

LONGEST_CONDITION = 20_000
LARGEST_SEED = 2**53 - 1  # the largest number that JavaScript counts to

Where = Annotated[
    str | None,
    Field(description="A condition as in SQL.", max_length=LONGEST_CONDITION, examples=["age >= 60 and sex = 'f'"]),
]
Seed = Annotated[
    int | None,
    Field(
        ge=0, le=LARGEST_SEED, description="The same seed gives the same answer. Without one it is chosen, and told."
    ),
]
Cell = str | bool | int | float | None
Row = dict[str, Cell]


class Body(BaseModel):
    """Fields that nobody knows are refused: most are misspelt."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SampleBody(Body):
    """Rows to draw."""

    n: Annotated[int, Field(ge=1, description="How many rows.")] = 100
    where: Where = None
    given: Annotated[Row | None, Field(description="Values that all rows have.")] = None
    seed: Seed = None
    strategy: Annotated[Literal[STRATEGIES], Field(description="How to meet the condition.")] = "auto"  # type: ignore[valid-type]
    fewer: Annotated[bool, Field(description="Take what there is if too few rows meet the condition.")] = False


class FeasibilityBody(Body):
    """A condition to judge."""

    where: Annotated[str, Field(max_length=LONGEST_CONDITION)]
    given: Row | None = None
    seed: Seed = None


class ProfileBody(Body):
    """A condition whose effects to look at."""

    where: Where = None
    given: Row | None = None
    n: Annotated[int, Field(ge=1)] = 2000
    seed: Seed = 0
    strategy: Annotated[Literal[STRATEGIES], Field(description="How to meet the condition.")] = "auto"  # type: ignore[valid-type]
    show: Annotated[int, Field(ge=0, le=1000, description="How many of the rows to send along.")] = 0


class Filling(Body):
    """How to fill holes; beside a table that is no JSON these stand in the address."""

    draws: Annotated[int | None, Field(ge=1, description="How many completed tables to draw, for intervals.")] = None
    level: Annotated[float, Field(gt=0, lt=1, description="Of the intervals.")] = 0.9
    where: Annotated[Where, Field(description="A rule that every completed row has to meet.")] = None
    seed: Seed = None


class ImputeBody(Filling):
    """A table with holes: null, or a key that is not there, is a missing cell."""

    rows: list[Row]


class ConditionBody(Body):
    """A condition as text, or as one control per column: one of both."""

    where: Where = None
    controls: dict[str, dict[str, Any]] | None = None
