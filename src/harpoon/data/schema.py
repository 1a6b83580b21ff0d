"""Schema: the kind, categories, range and resolution of each column.

`Schema.infer` reads a table. The result is plain data that can be printed, edited as JSON and given to
`Harpoon(schema=...)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harpoon._formatting import format_list
from harpoon._utils import cards
from harpoon.data import dataframe
from harpoon.data.coercion import check_finite
from harpoon.data.column import KINDS, Column, Kind, describe
from harpoon.data.date_parts import is_zone
from harpoon.data.personal_data import IDENTIFIERS, find_personal
from harpoon.data.value_counts import ColumnCounts, TableCounts, count_columns
from harpoon.exceptions import ExtraColumnWarning, InvalidOption, SchemaMismatch, warn

MIN_IDENTIFIER_ROWS = 20  # in shorter tables, distinct values do not make an identifier or a text
MIN_DENSE_ROWS = 50  # rows from which consecutive integers are row numbers
MAX_DISTINCT_TEXT_FRACTION = 0.5  # of the cells: texts with more distinct values are not categories
MAX_IDENTIFIER_LENGTH = 40  # characters
NUMBER = re.compile(r"(?=.*\d)[+-]?(\d{1,3}(,\d{3})+|[1-9]\d*|0)?(\.\d+)?([eE][+-]?\d+)?")
AMOUNT = re.compile(  # a number with a sign of money or per cent, or a decimal comma
    r"\s*(?=.*[$€£¥%,])[+-]?[$€£¥]?\s*[+-]?(\d{1,3}([,.' ]\d{3})+|\d+)([.,]\d+)?\s*[%$€£¥]?\s*"
)
MONTH, DAY = "(0?[1-9]|1[0-2])", "(0?[1-9]|[12][0-9]|3[01])"
CLOCK = r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*([AaPp][Mm])?)?\s*(Z|[+-]\d{2}:?\d{2})?\s*"
DATES = tuple(  # year, month and day in some order, the same in all texts of a column
    re.compile(rf"\s*{date}{CLOCK}")
    for date in (
        rf"[12][0-9]{{3}}[-/.]{MONTH}[-/.]{DAY}",
        rf"({DAY}[-./]{MONTH}[-./][12][0-9]{{3}}|{DAY}/{MONTH}/[0-9]{{2}})",
        rf"({MONTH}[-./]{DAY}[-./][12][0-9]{{3}}|{MONTH}/{DAY}/[0-9]{{2}})",
    )
)
MAX_DATE_CATEGORIES = 31  # so many different dates may be categories
WEIGHT_NOTE = "the weight of each row"
NOTES: dict[str, str] = {Kind.WEIGHT: WEIGHT_NOTE}  # of columns of a kind that the user has chosen
MAX_FEW_VALUES, MIN_CELLS_PER_VALUE = 10, 5  # a number with at most so many values, each in as many cells on average


@dataclass(frozen=True)
class Schema(cards.Displayed):
    """The columns of a table, in order.

    A column may have any number of categories; beyond 256 the default model learns the rare ones in groups.

    >>> import pyarrow as pa
    >>> schema = Schema.infer(pa.table({"age": [31, 40, None, 55], "job": ["chef", "nurse", "chef", None]}))
    >>> print(schema)
    age  integer   31 to 55, step 1, 25 % missing
    job  category  2 values: 'chef', 'nurse', 25 % missing
    >>> schema["job"].categories
    ('chef', 'nurse')
    """

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Column:
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            raise InvalidOption.no_column("The schema", name, self.names)
        return found

    def __str__(self) -> str:
        name_width = max((len(column.name) for column in self), default=0)
        kind_width = max((len(column.kind) for column in self), default=0)
        return "\n".join(f"{c.name:<{name_width}}  {c.kind:<{kind_width}}  {describe(c)}".rstrip() for c in self)

    def _card(self) -> cards.Html:
        n_modelled = len(self.modelled)
        title = f"Schema: {len(self)} columns" + (f", {n_modelled} of them modelled" if n_modelled < len(self) else "")
        return cards.card(title, column_table(self))

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self]

    @property
    def modelled(self) -> list[Column]:
        """The columns that the model learns."""
        return [column for column in self if column.kind.modelled]

    @property
    def labelled(self) -> list[str]:
        """The names of the columns whose labels the schema has: categories, booleans and constants."""
        return [column.name for column in self if column.categories is not None]

    @property
    def weights(self) -> str | None:
        """The column with the weight of each row, if there is one: `impute` does not need it."""
        found = [column.name for column in self if column.kind is Kind.WEIGHT]
        if len(found) > 1:
            raise InvalidOption(f"A table can have one column of weights, and the schema has {format_list(found)}.")
        return found[0] if found else None

    @property
    def required(self) -> list[str]:
        """The columns that a table to impute must have: all but that of weights."""
        return [name for name in self.names if name != self.weights]

    def with_weights(self, name: str) -> Schema:
        """Return a copy in which a column holds the weight of each row, and any other such column is skipped."""
        others = self
        if self.weights not in (None, name):
            others = self.replace(str(self.weights), kind=Kind.SKIPPED)
        return others.replace(name, kind=Kind.WEIGHT, note=WEIGHT_NOTE)

    @property
    def constants(self) -> dict[str, Any]:
        """The value of each constant column."""
        return {column.name: (column.categories or (None,))[0] for column in self if column.kind is Kind.CONSTANT}

    @classmethod
    def infer(cls, data: object, *, kinds: Mapping[str, str] | None = None, exclude: Iterable[str] = ()) -> Schema:
        """Infer the schema from a table.

        Args:
            data: A pandas, polars or pyarrow frame.
            kinds: Kinds to use instead of the inferred ones, for example `{"EDUCATION": "category"}`.
            exclude: Columns to leave out of the model.
        """
        return cls.from_counts(count_columns(dataframe.read(data)), kinds=kinds, exclude=exclude)

    @classmethod
    def from_counts(
        cls, counts: TableCounts, *, kinds: Mapping[str, str] | None = None, exclude: Iterable[str] = ()
    ) -> Schema:
        """Infer the schema from the counts of a table, which may be merged from parts."""
        names, exclude = list(counts), [str(name) for name in exclude]
        wanted = {**{str(n): kind for n, kind in (kinds or {}).items()}, **dict.fromkeys(exclude, Kind.SKIPPED)}
        unknown = sorted(set(wanted) - set(names))
        if unknown:
            raise InvalidOption.no_column("The table", unknown[0], names)
        given = {}
        for name, kind in wanted.items():
            if str(kind) not in KINDS:
                raise InvalidOption.one_of(f"The kind of column {name!r}", kind, list(KINDS))
            given[name] = Column(
                name, Kind(kind), note="left out on request" if name in exclude else NOTES.get(kind, "")
            )
        return cls(tuple(_infer_column(name, counts[name], given.get(name)) for name in names))

    def complete(self, data: object) -> Schema:
        """Return the schema with attributes that are None inferred from a table."""
        return self.complete_from_counts(count_columns(dataframe.read(data)))

    def complete_from_counts(self, counts: TableCounts) -> Schema:
        """Return the schema with attributes that are None inferred from the counts of a table."""
        check_columns(list(counts), self.names, of="schema")
        return Schema(tuple(_infer_column(column.name, counts[column.name], column) for column in self))

    def replace(self, name: str, **changes: Any) -> Schema:  # noqa: ANN401
        """Return a copy in which one column differs.

        A new kind resets categories, range and resolution, which are then inferred from the training table.
        """
        column = self[name]
        if "kind" in changes:
            column = Column(name, column.kind, missing=column.missing)
        changed = Column.from_json({**column.to_json(), **changes})
        return Schema(tuple(changed if other.name == name else other for other in self))

    def to_json(self) -> str:
        """Return JSON text that can be read and edited."""
        columns = ",\n    ".join(json.dumps(column.to_json(), ensure_ascii=False) for column in self)
        return f'{{\n  "columns": [\n    {columns}\n  ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Restore from `to_json`."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError, TypeError) as error:
            raise InvalidOption(f"A schema must be JSON: {error}.") from None
        if not isinstance(data, dict) or not isinstance(data.get("columns"), list):
            raise InvalidOption('A schema must be a JSON object with a list "columns".')
        columns = tuple(Column.from_json(column) for column in data["columns"])
        if len({column.name for column in columns}) < len(columns):
            raise InvalidOption("A schema must name each column once.")
        return cls(columns)

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file."""
        try:
            Path(path).write_text(self.to_json(), encoding="utf-8")
        except (OSError, ValueError, TypeError) as error:
            raise InvalidOption(f"The schema cannot be written to {str(path)!r}: {error}.") from None

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read it from a JSON file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError, TypeError) as error:
            raise InvalidOption(f"The schema cannot be read from {str(path)!r}: {error}.") from None
        return cls.from_json(text)


def column_table(schema: Schema) -> cards.Html:
    """Return the columns of a schema as a table of a card."""
    rows = [
        (
            cards.code(column.name),
            column.kind,
            describe(replace(column, missing=0.0)),
            cards.bar(column.missing) if column.missing else "none",
        )
        for column in schema
    ]
    return cards.table(["column", "kind", "values", "missing"], rows, what="columns")


def check_columns(
    got: list[str],
    required: list[str],
    *,
    of: str = "model",
    partial: bool = False,
    extra: bool = False,
    weights: str | None = None,
) -> None:
    """Raise SchemaMismatch unless a table has the columns of the schema, in any order, or some of them if `partial`.

    With `extra` it may have other columns, which are warned of. It may lack the column of weights.
    """
    missing = [name for name in required if name not in set(got) and name != weights]
    if missing and not partial:
        raise SchemaMismatch.missing_columns(missing, got, of=of)
    others = [name for name in got if name not in set(required)]
    if others and extra:
        warn(ExtraColumnWarning.of(others, required))
    elif others:
        raise SchemaMismatch.extra_columns(others, required, of=of)


def _infer_column(name: str, counts: ColumnCounts, given: Column | None = None) -> Column:
    """Infer one column from its counts. Attributes that are `given` stay."""
    cells = counts.values
    check_finite(name, cells, counts.counts)
    kind, note = _infer_kind(name, counts) if given is None else (given.kind, given.note)
    if given is not None and given.kind not in (Kind.SKIPPED, Kind.EMPTY) and not counts.n_distinct:
        return Column(name, Kind.EMPTY, missing=1.0, note="every cell is missing")
    if given is not None and given.unit and cells.unit and given.unit != cells.unit:
        raise InvalidOption(f"Column {name!r} of the schema counts in {given.unit!r}, the table in {cells.unit!r}.")
    inferred = Column(name, kind, missing=counts.missing_fraction, note=note)
    if kind is Kind.CONSTANT:
        value = cells.values[0].item()
        inferred = replace(inferred, categories=(cells.categories[value] if cells.categories else value,))
    if kind.modelled:
        inferred = replace(inferred, **_infer_attributes(counts.coerced(inferred), kind))
    if given is None:
        return inferred
    stated = {name: value for name, value in vars(given).items() if name in given.to_json() and name != "missing"}
    return replace(inferred, **stated)


def _infer_kind(name: str, counts: ColumnCounts) -> tuple[Kind, str]:
    """Return a kind, and for one that is not modelled the reason."""
    cells = counts.values
    if cells.storage == "other":
        problem = "its values are of mixed types, nested, or of a type that is not modelled, such as times of day"
        return Kind.SKIPPED, f"{problem}; convert the column to model it"
    if not counts.n_distinct:
        return Kind.EMPTY, "every cell is missing"
    if counts.n_distinct == 1 and not counts.n_missing:
        return Kind.CONSTANT, "every cell has the same value"
    kind, note = _infer_kind_of_values(name, counts)
    personal = find_personal(name, counts)
    if personal and not (personal == IDENTIFIERS and kind is Kind.IDENTIFIER):
        return Kind.PERSONAL, f"it looks like {personal}"
    return kind, note


def _infer_kind_of_values(name: str, counts: ColumnCounts) -> tuple[Kind, str]:
    storage = counts.values.storage
    if storage == "text":
        return _infer_text_kind(counts)
    if storage == "integer" and _is_identifier(name, counts):
        return Kind.IDENTIFIER, "every row has its own value, and the values count rows"
    by_storage = {"float": Kind.NUMBER, "boolean": Kind.BOOLEAN, "category": Kind.CATEGORY}
    return by_storage.get(storage) or Kind(storage), ""


def _infer_text_kind(counts: ColumnCounts) -> tuple[Kind, str]:
    n_cells, n_distinct, texts = counts.n_observed, counts.n_distinct, counts.values.categories
    if n_distinct > MAX_DATE_CATEGORIES and any(all(map(date.fullmatch, texts)) for date in DATES):
        return Kind.TEXT, "dates or times are written as text; convert the column, such as by pandas.to_datetime"
    if n_cells < MIN_IDENTIFIER_ROWS or n_distinct <= MAX_DISTINCT_TEXT_FRACTION * n_cells:
        return Kind.CATEGORY, ""
    is_code = n_distinct == n_cells and all(text.isdecimal() for text in texts)
    if not is_code and all(map(_is_number, texts)):
        return Kind.TEXT, "numbers are written as text; convert the column to numbers to model it"
    if all(map(AMOUNT.fullmatch, texts)):
        return Kind.TEXT, "amounts or percentages are written as text; convert the column to numbers to model it"
    has_words = any(" " in text.strip() for text in texts)
    if n_distinct == n_cells and not has_words and max(map(len, texts)) <= MAX_IDENTIFIER_LENGTH:
        return Kind.IDENTIFIER, "every row has its own value"
    return Kind.TEXT, f"free text ({n_distinct} different values in {n_cells} rows)"


def _is_number(text: str) -> bool:
    """Return whether a text is a number, perhaps with commas between thousands; what begins with 0 is a code."""
    return NUMBER.fullmatch(text.strip()) is not None


def _is_identifier(name: str, counts: ColumnCounts) -> bool:
    n_cells, values = counts.n_observed, counts.values.values
    if counts.n_distinct < n_cells or n_cells < MIN_IDENTIFIER_ROWS:
        return False
    has_name = name.casefold() in ("id", "index", "key") or name.endswith(("_id", " id", "Id", "ID"))
    is_dense = n_cells >= MIN_DENSE_ROWS and int(values[-1]) - int(values[0]) + 1 == n_cells
    return has_name or is_dense


def _infer_attributes(counts: ColumnCounts, kind: Kind) -> dict[str, Any]:
    """Return the categories of distinct cells in ascending order, or their range and resolution."""
    cells = counts.values
    if kind is Kind.BOOLEAN:
        return {"categories": (False, True)}
    if kind.discrete:
        if cells.storage == "category":
            return {"categories": cells.categories, "ordered": cells.ordered}
        return {"categories": tuple(sorted(cells.categories, key=lambda category: (str(type(category)), category)))}
    low, high, step = cells.values[0].item(), cells.values[-1].item(), kind.spec.step(cells.values, cells.unit)
    zone = cells.zone if is_zone(cells.zone) else ""
    found = {"minimum": low, "maximum": high, "step": step, "unit": cells.unit, "zoned": cells.zoned, "zone": zone}
    return {**found, "values": tuple(cells.values.tolist())} if _has_few_values(counts, kind) else found


def _has_few_values(counts: ColumnCounts, kind: Kind) -> bool:
    """Return whether a column is a number with so few values that each is a label, such as a flag or a rating."""
    is_number = kind in (Kind.NUMBER, Kind.INTEGER) and 1 < counts.n_distinct <= MAX_FEW_VALUES
    return is_number and counts.n_observed >= MIN_CELLS_PER_VALUE * counts.n_distinct
