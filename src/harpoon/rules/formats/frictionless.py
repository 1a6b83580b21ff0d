"""Table schemas of Frictionless, alone or as the schemas of a data package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harpoon.conditions.language.expressions import Literal, Predicate
from harpoon.exceptions import InvalidCondition
from harpoon.rules.formats import translation as tr
from harpoon.rules.formats.translation import SEVERAL_ROWS, Check, Translation

NUMBERS = {"integer": int, "number": float, "year": int}  # types whose values a schema may write as text


def read(content: Mapping[str, Any], translation: Translation) -> None:
    """Read a table schema, or those of the resources of a package."""
    if "fields" in content:
        _read_schema(content, translation)
        return
    for resource in tr.sequence(content["resources"], "`resources`"):
        schema = tr.mapping(resource, "A resource").get("schema")
        if isinstance(schema, Mapping):
            _read_schema(schema, translation)
        else:
            translation.skip(f"resource {resource.get('name')}", "its schema is not in this file")


def _read_schema(schema: Mapping[str, Any], translation: Translation) -> None:
    for each in tr.sequence(schema.get("fields"), "`fields`"):
        field = tr.mapping(each, "A field")
        name = tr.text(field.get("name"), "The name of a field")
        for check, value in tr.mapping(field.get("constraints") or {}, f"`constraints` of {name!r}").items():
            if value is False or value is None:
                continue  # the constraint is switched off
            with translation.part(f"{name} {check}"):
                translation.add(f"{name} {check}", _constraint(name, check, _typed(field, value)))
    keys = schema.get("primaryKey") or []
    for key in [keys] if isinstance(keys, str) else tr.sequence(keys, "`primaryKey`"):
        translation.add(f"{tr.text(key, 'A key')} required", tr.not_null(key))
    for part in ("primaryKey", "foreignKeys", "uniqueKeys"):
        if schema.get(part):
            translation.skip(part, SEVERAL_ROWS)
    if schema.get("missingValues"):
        translation.skip("missingValues", "it says how a file is read: harpoon --missing")
    if schema.get("fields"):
        translation.skip("types of fields", "the schema of a model has them")


def _constraint(column: str, check: str, value: Any) -> Predicate:  # noqa: ANN401
    if check not in CONSTRAINTS:
        raise InvalidCondition(SEVERAL_ROWS if check == "unique" else "it has no counterpart in a condition")
    return CONSTRAINTS[check](column, value)


def _typed(field: Mapping[str, Any], value: Any) -> Any:  # noqa: ANN401
    """Return a value in the type of its field: a schema may write numbers as text."""
    if isinstance(value, list):
        return [_typed(field, each) for each in value]
    convert = NUMBERS.get(str(field.get("type")))
    if convert is None or not isinstance(value, str):
        return value
    try:
        return Literal(convert(value)).value
    except ValueError:
        return value


CONSTRAINTS: dict[str, Check] = {
    "required": lambda column, _value: tr.not_null(column),
    **tr.BOUNDS,
    "enum": tr.one_of,
    "pattern": lambda column, value: tr.matches(column, value, starts=True, ends=True),
}
