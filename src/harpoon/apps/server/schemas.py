"""Request and response bodies: validated on arrival, and described in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import isfinite, isinf
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    WithJsonSchema,
    model_validator,
)

from harpoon.apps.server.limits import MAX_CELLS, MAX_COLUMNS
from harpoon.config import DEFAULT_SAMPLE_ROWS, GROUPS, Option, declared
from harpoon.exceptions import InvalidOption
from harpoon.inference.conditional.strategies import STRATEGIES, check_strategy
from harpoon.inference.diagnostics.support import Support

MAX_FIELDS = 50  # of a body
MAX_CELL_ERRORS = 20  # that are described one by one
MAX_CONDITION_LENGTH = 20_000
MAX_TARGETS = 100
MAX_SEED = 2**53 - 1  # the largest integer that JavaScript counts to
SERVER_SIDE = ("sampling_batch_size",)  # decides about the memory of the server, so that no client may set it
CALL_OPTIONS: dict[str, Option] = {
    name: option
    for group in ("sampling", "guidance")
    for name, option in declared(GROUPS[group])
    if name not in SERVER_SIDE
}


def check_row(row: Any) -> Any:  # noqa: ANN401
    """Refuse a row with very many errors, or with too many columns."""
    return check_rows([row])[0]


def check_rows(rows: Any) -> Any:  # noqa: ANN401
    """Refuse a table with too many columns or cells, or with very many errors.

    Pydantic would describe each error, which for a million takes a minute.
    """
    if isinstance(rows, list):
        names = set[str]()
        for row in rows:
            names.update(row if isinstance(row, dict) else ())
            _check_column_count(len(names))
        if len(rows) * len(names) > MAX_CELLS:
            raise ValueError(f"a table has at most {MAX_CELLS:,} cells")
        _check_cells(cell for row in rows for cell in (row.values() if isinstance(row, dict) else (row,)))
    return rows


def check_cell_list(cells: Any) -> Any:  # noqa: ANN401
    """Refuse a list of cells with very many errors."""
    if isinstance(cells, list):
        _check_cells(cells)
    return cells


def check_columns(columns: Any) -> Any:  # noqa: ANN401
    """Refuse more columns than a table may have."""
    if isinstance(columns, dict):
        _check_column_count(len(columns))
    return columns


def check_options(options: Any) -> Any:  # noqa: ANN401
    """Refuse options that `harpoon.config` does not declare for one call, and values out of their range."""
    if isinstance(options, dict):
        for name, value in options.items():
            if name not in CALL_OPTIONS:
                raise InvalidOption.one_of("an option", name, CALL_OPTIONS)
            CALL_OPTIONS[name].validate(name, value)
    return options


def option_schema(option: Option) -> dict[str, Any]:
    """Return the JSON schema of an option.

    >>> option_schema(Option("Width.", 1, 64, integer=True))
    {'type': 'integer', 'minimum': 1, 'maximum': 64, 'description': 'Width.'}
    """
    if option.choices:
        return {"type": "string", "enum": list(option.choices), "description": option.help}
    if option.boolean:
        return {"type": "boolean", "description": option.help}
    ends = {"minimum": option.low, "maximum": option.high}
    schema = {"type": "integer" if option.integer else "number", **{k: v for k, v in ends.items() if not isinf(v)}}
    return {**schema, "description": option.help}


OPTIONS_SCHEMA = {
    "type": "object",
    "description": "Sampling and guidance options of this call.",
    "properties": {name: option_schema(option) for name, option in CALL_OPTIONS.items()},
    "additionalProperties": False,
}


def _check_cells(cells: Iterable[Any]) -> None:
    wrong = (1 for cell in cells if isinstance(cell, list | dict) or (isinstance(cell, float) and not isfinite(cell)))
    if sum(islice(wrong, MAX_CELL_ERRORS + 1)) > MAX_CELL_ERRORS:
        raise ValueError("many of its cells are not a text, a finite number, true, false or null")


def _check_column_count(columns: int) -> None:
    if columns > MAX_COLUMNS:
        raise ValueError(f"a table has at most {MAX_COLUMNS:,} columns")


def _check_strategy(strategy: str) -> str:
    check_strategy(strategy)
    return strategy


Cell = str | bool | int | float | None
Row = dict[str, Cell]
Where = Annotated[str | None, Field(description="A condition, as in SQL.", max_length=MAX_CONDITION_LENGTH)]
Given = Annotated[
    Row | None, BeforeValidator(check_row), Field(description="Values that all rows have; null: the cell is missing.")
]
Options = Annotated[dict[str, Any], BeforeValidator(check_options), WithJsonSchema(OPTIONS_SCHEMA)]
OptionsText = Annotated[
    Json[Options],
    WithJsonSchema({"type": "string", "contentMediaType": "application/json", "contentSchema": OPTIONS_SCHEMA}),
]
Strategy = Annotated[
    str,
    AfterValidator(_check_strategy),
    Field(
        description="How to satisfy the condition; `conditioning` is fast for a rare one.",
        json_schema_extra={"enum": list(STRATEGIES)},
    ),
]
Missing = Annotated[
    Literal["as_trained", "complete"],
    Field(
        description="`as_trained`: cells are missing as often as in the training table. `complete`: they are filled."
    ),
]
Seed = Annotated[
    int | None,
    Field(ge=0, le=MAX_SEED, description="The same seed gives the same answer. Without one, the answer has its own."),
]
Targets = Annotated[
    dict[str, float | Annotated[list[float], Field(min_length=2, max_length=2)]] | None,
    Field(
        description="Values that the rows have together, such as `mean(income)`; a pair is a value and its tolerance.",
        max_length=MAX_TARGETS,
    ),
]
Interval = Annotated[list[float], Field(min_length=2, max_length=2)]


class Body(BaseModel):
    """A request. Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_field_count(cls, fields: Any) -> Any:  # noqa: ANN401
        if isinstance(fields, dict) and len(fields) > MAX_FIELDS:
            raise ValueError(f"a body has at most {MAX_FIELDS} fields")
        return fields


class SampleBody(Body):
    """Rows to sample."""

    n: Annotated[int, Field(ge=1, description="Number of rows.")] = DEFAULT_SAMPLE_ROWS
    where: Where = None
    targets: Targets = None
    given: Given = None
    strategy: Strategy = "auto"
    allow_fewer: Annotated[
        bool, Field(description="Accept fewer rows if the condition is too rare, or rows near the targets.")
    ] = False
    missing: Missing = "as_trained"
    options: Options = Field(default_factory=dict)
    seed: Seed = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"n": 100, "where": "age >= 60", "seed": 0}]})


class FeasibilityBody(Body):
    """A condition whose probability is wanted."""

    where: Annotated[str, Field(description="A condition, as in SQL.", max_length=MAX_CONDITION_LENGTH)]
    given: Given = None
    seed: Seed = None


class ProfileBody(Body):
    """A condition whose effect on every column is wanted."""

    where: Where = None
    given: Given = None
    n: Annotated[int, Field(ge=1, description="Number of rows to sample under it.")] = 2000
    strategy: Strategy = "auto"
    missing: Missing = "as_trained"
    options: Options = Field(default_factory=dict)
    show: Annotated[int, Field(ge=0, le=1000, description="Number of these rows to return.")] = 0
    seed: Seed = 0


class ImputeParameters(Body):
    """How to impute. For a table that is not JSON, these are query parameters."""

    draws: Annotated[int | None, Field(ge=1, description="Completed tables to sample, for the uncertainty.")] = None
    level: Annotated[float, Field(gt=0, lt=1, description="Level of the intervals of numeric cells.")] = 0.9
    where: Annotated[
        str | None, Field(description="A rule that every completed row satisfies.", max_length=MAX_CONDITION_LENGTH)
    ] = None
    options: OptionsText = Field(default_factory=dict)
    seed: Seed = None


class ImputeBody(ImputeParameters):
    """A table with missing cells: null, or a key that is not there."""

    rows: Annotated[list[Row], BeforeValidator(check_rows)]
    options: Options = Field(default_factory=dict)


class Control(Body):
    """The condition on one column: a range of numbers or times, or some of its categories."""

    low: Cell = None
    high: Cell = None
    low_open: Annotated[bool, Field(description="Whether the low end itself is excluded.")] = False
    high_open: Annotated[bool, Field(description="Whether the high end itself is excluded.")] = False
    categories: Annotated[list[Cell] | None, BeforeValidator(check_cell_list)] = None


class ConditionBody(Body):
    """A condition as text, or as controls."""

    where: Where = None
    controls: Annotated[
        dict[str, Control] | None, BeforeValidator(check_columns), Field(description="By the names of columns.")
    ] = None
    rest: Annotated[Where, Field(description="The part of the condition that no control can show.")] = None


class ErrorContent(BaseModel):
    """A name for programs and a sentence for people."""

    kind: str
    message: str


class Error(BaseModel):
    """An error response."""

    error: ErrorContent


class Health(BaseModel):
    """The service is running."""

    status: Literal["ok"] = "ok"
    version: str


class ModelDescription(BaseModel):
    """The model, its columns with their unconditional distributions, and the limits."""

    name: str
    preset: str
    version: str
    rows: int
    real_rows: int | None
    reading: bool
    training_rows: int
    calibration: dict[str, Any]
    rules: list[dict[str, Any]]
    columns: list[dict[str, Any]]
    limits: dict[str, float]


class SupportContent(BaseModel):
    """How many training rows satisfy a condition: an upper bound and an estimate, and a sentence."""

    __annotations__ = {**Support.__annotations__, "is_extrapolation": bool, "text": str}  # `Support.to_json`


class SampleResponse(BaseModel):
    """Rows, diagnostics of the sampling, the training rows behind them, and the seed."""

    rows: list[dict[str, Any]]
    sampling_info: dict[str, Any]
    support: SupportContent | None
    notes: list[str]
    seed: int


class FeasibilityResponse(BaseModel):
    """The probability of a condition and of each of its parts, the training rows behind it, and what to relax."""

    condition: str
    probability: float
    interval: Interval
    support: SupportContent
    parts: list[dict[str, Any]]
    rows: int
    suggestion: str
    message: str
    notes: list[str]
    seed: int


class RealRows(BaseModel):
    """How many real rows satisfy a condition, and their fraction with its 95 % interval."""

    rows: int
    of: int
    fraction: float
    interval: Interval


class AgreementContent(BaseModel):
    """Rows that are sampled under a condition, compared with the real rows that satisfy it: a grade and a sentence.

    With too few real rows, the grade is from the model's calibration and support (`source` is "model").
    """

    source: str
    grade: str
    rows: int
    column: str | None
    excess: float | None
    sentence: str


class ProfileResponse(BaseModel):
    """The effect of a condition on every column, the strongest beyond chance first, and its probability.

    Intervals contain the error of the training sample and of the simulation.
    """

    where: str | None
    probability: float
    interval: Interval
    support: SupportContent | None
    real: RealRows | None
    agreement: AgreementContent | None
    rows: int
    sampling_info: dict[str, Any]
    columns: list[dict[str, Any]]
    sampled: list[dict[str, Any]]
    notes: list[str]
    seed: int


class ImputeResponse(BaseModel):
    """A completed table, and each cell that was filled."""

    rows: list[dict[str, Any]]
    filled: list[dict[str, Any]]
    copied_columns: list[str]
    notes: list[str]
    seed: int


class ConditionResponse(BaseModel):
    """A condition as text and as controls; `rest` is the part that no control can show."""

    where: str | None
    controls: dict[str, dict[str, Any]]
    complete: bool
    rest: str | None
