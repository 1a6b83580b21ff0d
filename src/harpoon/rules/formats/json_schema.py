"""JSON Schema of one row as an object: a missing cell is a property that is absent or null.

A property that is absent breaks no rule about its value, as an unknown rule is not broken. Inside of "not", "anyOf",
"oneOf" and "if" that makes a difference, and "or it is null" is added there. Types are those of the model's columns.
The specification is draft 2020-12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harpoon.conditions.language.expressions import Not, Or, Predicate, conjunction, disjunction
from harpoon.conditions.language.functions import col
from harpoon.exceptions import InvalidCondition
from harpoon.rules.formats import translation as tr
from harpoon.rules.formats.translation import Check, Translation

NOTES = (
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
)
SCALAR_TYPES = ("string", "number", "integer", "boolean")
READ_APART = ("properties", "required", "allOf", "then", "else", "type", *NOTES)  # the schema of a row is read in parts
MAX_DEPTH = 20
NO_COUNTERPART = "it has no counterpart in a condition"


def read(content: Mapping[str, Any], translation: Translation) -> None:
    """Read a schema."""
    _read_row(content, translation, "")


def _read_row(schema: Mapping[str, Any], translation: Translation, path: str) -> None:
    """Add a rule for each part of the schema of a row that must hold; those of `allOf` are parts too."""
    for name, schema_of in tr.mapping(schema.get("properties") or {}, "`properties`").items():
        _read_property(name, schema_of, translation)
    for name in tr.sequence(schema.get("required") or [], "`required`"):
        translation.add(f"{tr.text(name, 'A name of `required`')} required", tr.not_null(name))
    for number, part in enumerate(tr.sequence(schema.get("allOf") or [], "`allOf`"), start=1):
        if path.count("/") > MAX_DEPTH:
            raise RecursionError
        if isinstance(part, Mapping):
            _read_row(part, translation, f"{path}allOf {number}/")
        elif part is not True:
            translation.skip(f"{path}allOf {number}", NO_COUNTERPART)
    for key in schema:
        if key not in READ_APART:
            what = f"{path}{key}"
            with translation.part(what):
                translation.add(what, _row_part(key, schema, 0))


def _read_property(name: str, schema: object, translation: Translation) -> None:
    """Add a rule for each keyword of the schema of a property."""
    if schema is True:
        return
    if not isinstance(schema, Mapping):
        translation.skip(name, NO_COUNTERPART)
        return
    for key, value in schema.items():
        if key in NOTES:
            continue
        what = f"{name} {key}"
        with translation.part(what):
            if key == "type":
                _read_type(name, value, translation)
            else:
                translation.add(what, _keyword(name, key, value))


def _read_type(name: str, value: object, translation: Translation) -> None:
    types = value if isinstance(value, list) else [value]
    if "array" in types or "object" in types:
        translation.skip(f"{name} type {value}", NO_COUNTERPART)
    else:
        translation.skip("types of properties", "the schema of a model has them; a missing cell is an absent property")


def _keyword(name: str, key: str, value: Any) -> Predicate:  # noqa: ANN401
    if key not in KEYWORDS or (isinstance(value, bool) and key != "const"):
        raise InvalidCondition(NO_COUNTERPART)
    return KEYWORDS[key](name, value)


def _row_part(key: str, schema: Mapping[str, Any], depth: int) -> Predicate:
    """Return a keyword of the schema of a row as a condition."""
    value = schema[key]
    if depth > MAX_DEPTH:
        raise InvalidCondition("it is nested too deeply")
    match key:
        case "anyOf":
            return disjunction(_row(part, depth + 1) for part in _parts(value))
        case "oneOf":
            parts = [_row(part, depth + 1) for part in _parts(value)]
            others = [[Not(part) for j, part in enumerate(parts) if j != i] for i in range(len(parts))]
            return disjunction(conjunction((part, *rest)) for part, rest in zip(parts, others, strict=True))
        case "not":
            return Not(_row(value, depth + 1))
        case "if":
            return _choice(schema, depth + 1)
        case "dependentRequired":
            pairs = [(a, b) for a, needed in tr.mapping(value, key).items() for b in tr.sequence(needed, key)]
            return _all_of((Or((col(a).is_null(), tr.not_null(tr.text(b, key)))) for a, b in pairs), "it is empty")
        case "dependentSchemas":
            given = tr.mapping(value, key).items()
            return _all_of((Or((col(name).is_null(), _row(part, depth + 1))) for name, part in given), "it is empty")
        case _:
            raise InvalidCondition(NO_COUNTERPART)


def _choice(schema: Mapping[str, Any], depth: int) -> Predicate:
    """Return if, then, else as a condition."""
    premise = _row(schema["if"], depth)
    parts = [Or((Not(premise), _row(schema["then"], depth)))] if "then" in schema else []
    parts += [Or((premise, _row(schema["else"], depth)))] if "else" in schema else []
    return _all_of(parts, "it has neither `then` nor `else`")


def _parts(value: object) -> list[Any]:
    parts = value if isinstance(value, list) else []
    if not parts:
        raise InvalidCondition("it must be a list of schemas")
    return parts


def _row(schema: object, depth: int) -> Predicate:
    """Return the schema of a row as a condition that is true or false, never unknown."""
    if not isinstance(schema, Mapping):
        raise InvalidCondition(NO_COUNTERPART)
    if depth > MAX_DEPTH:
        raise InvalidCondition("it is nested too deeply")
    return _all_of(_row_conditions(schema, depth), "a schema without conditions is always true")


def _all_of(parts: Iterable[Predicate], if_none: str) -> Predicate:
    """Join conditions by "and"; raise InvalidCondition for this reason if there are none."""
    members = tuple(parts)
    if not members:
        raise InvalidCondition(if_none)
    return conjunction(members)


def _row_conditions(schema: Mapping[str, Any], depth: int) -> Iterator[Predicate]:
    for name, schema_of in tr.mapping(schema.get("properties") or {}, "`properties`").items():
        for key, value in tr.mapping(schema_of, f"The property {name!r}").items():
            if key == "type" and value == "null":
                yield col(name).is_null()
            elif key not in NOTES and not (key == "type" and value in SCALAR_TYPES):
                yield Or((col(name).is_null(), _keyword(name, key, value)))
    for name in tr.sequence(schema.get("required") or [], "`required`"):
        yield tr.not_null(tr.text(name, "A name of `required`"))
    for part in tr.sequence(schema.get("allOf") or [], "`allOf`"):
        yield _row(part, depth + 1)
    for key in schema:
        if key not in READ_APART:
            yield _row_part(key, schema, depth)


KEYWORDS: dict[str, Check] = {
    **tr.BOUNDS,
    "const": tr.comparison("="),
    "enum": tr.one_of,
    "pattern": tr.matches,
}
