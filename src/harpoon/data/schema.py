"""Schema: the kind, categories, range and resolution of each column.

`Schema.infer` reads a table. The result is plain data that can be printed, edited as JSON and given to
`Harpoon(schema=...)`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harpoon._text import closest_matches, format_list
from harpoon.data import dataframe
from harpoon.data.column import KINDS, Column, Kind, describe
from harpoon.data.schema_inference import infer_column
from harpoon.data.statistics import TableCounts, count_columns
from harpoon.exceptions import InvalidOption, SchemaMismatch


@dataclass(frozen=True)
class Schema:
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
            near = closest_matches(name, self.names)
            hint = f" Did you mean {near[0]!r}?" if near else f" It has {format_list(self.names)}."
            raise InvalidOption(f"The schema has no column {name!r}.{hint}")
        return found

    def __str__(self) -> str:
        name_width = max((len(column.name) for column in self), default=0)
        kind_width = max((len(column.kind) for column in self), default=0)
        return "\n".join(f"{c.name:<{name_width}}  {c.kind:<{kind_width}}  {describe(c)}".rstrip() for c in self)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self]

    @property
    def modelled(self) -> list[Column]:
        """The columns that the model learns."""
        return [column for column in self if column.kind.modelled]

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
            raise InvalidOption(f"The table has no column {format_list(unknown)}; it has {format_list(names)}.")
        given = []
        for name in names:
            if name in wanted and str(wanted[name]) not in KINDS:
                raise InvalidOption.one_of(f"The kind of column {name!r}", wanted[name], list(KINDS))
            note = "left out on request" if name in exclude else ""
            given.append((name, Column(name, Kind(wanted[name]), note=note) if name in wanted else None))
        return cls(tuple(infer_column(name, counts[name], column) for name, column in given))

    def complete(self, data: object) -> Schema:
        """Return the schema with attributes that are None inferred from a table."""
        return self.complete_from_counts(count_columns(dataframe.read(data)))

    def complete_from_counts(self, counts: TableCounts) -> Schema:
        """Return the schema with attributes that are None inferred from the counts of a table."""
        check_columns(list(counts), self.names, of="schema")
        return Schema(tuple(infer_column(column.name, counts[column.name], column) for column in self))

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


def check_columns(got: list[str], required: list[str], *, of: str = "model") -> None:
    """Raise SchemaMismatch unless a table has exactly the columns of the schema, in any order."""
    missing = [name for name in required if name not in set(got)]
    if missing:
        raise SchemaMismatch.missing_columns(missing, got, of=of)
    check_known_columns(got, required, of=of)


def check_known_columns(got: list[str], valid: list[str], *, of: str = "model") -> None:
    """Raise SchemaMismatch if a table has a column that the schema does not have."""
    extra = [name for name in got if name not in set(valid)]
    if extra:
        raise SchemaMismatch.extra_columns(extra, valid, of=of)
