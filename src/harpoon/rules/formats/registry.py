"""Registry of rule formats (`RULE_FORMATS`), and files and databases as rules.

To add a format, write a function that reads the content of a file into a `Translation`, and add one entry:

    RULE_FORMATS["contract"] = RuleFormat("contract", "data contracts", lambda content: "models" in content, read)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harpoon._formatting import format_list
from harpoon.exceptions import HarpoonError, InvalidCondition, InvalidOption, MissingExtra, RuleFileError
from harpoon.io import DATABASES, Location
from harpoon.io.registry import database_of_scheme
from harpoon.rules.formats.translation import Translation, Untranslated
from harpoon.rules.rule_set import RuleSet

if TYPE_CHECKING:
    from harpoon.data import Schema

MAX_BYTES = 10_000_000
MAX_NODES = 1_000_000  # of the content of a file, in which a part may be repeated by reference
SQL_SUFFIXES = (".sql", ".ddl")


@dataclass(frozen=True)
class RuleFormat:
    """A format of rules.

    Attributes:
        name: Its name.
        title: Its name in messages.
        recognise: Whether the content of a JSON or YAML file, an object, is of this format. That of a database or of an
            SQL file is never asked.
        read: Reads content into a translation: an object, the text of an SQL file, or the location of a table.
    """

    name: str
    title: str
    recognise: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Any, Translation], None]


@dataclass(frozen=True)
class RuleFile:
    """The rules of a file or a database table.

    Attributes:
        format: The name of the format, a key of `RULE_FORMATS`.
        rules: What was translated.
        untranslated: What was not, and why.
    """

    format: str
    rules: RuleSet
    untranslated: tuple[Untranslated, ...]

    def for_schema(self, schema: Schema) -> RuleFile:
        """Return the rules that a model with this schema can carry; the others are listed as not translated."""
        usable, rest = [], list(self.untranslated)
        for rule in self.rules:
            try:
                RuleSet((rule,)).bind(schema)
                usable.append(rule)
            except InvalidCondition as error:
                rest.append(Untranslated(rule.name, str(error)))
        return RuleFile(self.format, RuleSet(tuple(usable)), tuple(rest))

    def to_json(self) -> dict[str, Any]:
        """Return the rules as plain data."""
        rest = [{"what": each.what, "why": each.why} for each in self.untranslated]
        return {"format": self.format, "rules": self.rules.to_json(), "untranslated": rest}

    def __str__(self) -> str:
        lines = [f"{len(self.rules)} rules ({RULE_FORMATS[self.format].title}):", *(f"  {rule}" for rule in self.rules)]
        if self.untranslated:
            lines += [f"{len(self.untranslated)} not translated:", *(f"  {each}" for each in self.untranslated)]
        return "\n".join(lines)


def read_rules(source: str | os.PathLike[str], format: str = "") -> RuleFile:  # noqa: A002
    """Read the rules of a file or of a database table.

    Args:
        source: A JSON, YAML or SQL file; or `duckdb:///file.db#table` or `sqlite:///file.db#table`.
        format: One of `RULE_FORMATS`, where it should not be recognised.
    """
    if format and format not in RULE_FORMATS:
        raise InvalidOption.one_of("format", format, RULE_FORMATS)
    name = os.fspath(source)
    try:
        chosen, content = _open(name, format)
        translation = Translation(chosen.name)
        chosen.read(content, translation)
    except RecursionError:
        raise RuleFileError(f"{name!r} cannot be read: it is nested too deeply.") from None
    except RuleFileError as error:
        raise RuleFileError(f"{name!r} cannot be read: {error}") from None
    return RuleFile(chosen.name, translation.rule_set, tuple(translation.untranslated))


def _open(name: str, format: str) -> tuple[RuleFormat, Any]:  # noqa: A002
    """Return the format of a file or table, and its content."""
    scheme = name.partition("://")[0].lower()
    if "://" in name and database_of_scheme(scheme) is not None:
        if scheme not in RULE_FORMATS:
            readable = " and ".join(each.title for each in DATABASES.values() if each.name in RULE_FORMATS)
            raise RuleFileError(f"rules are read from tables of {readable}. Save CREATE TABLE as an SQL file.")
        return RULE_FORMATS[scheme], Location.parse(name)
    data = _read_bytes(Path(name))
    for database in DATABASES.values():
        if database.magic and data[database.magic_offset :].startswith(database.magic):
            raise RuleFileError(f"it is a {database.title} file. Name a table: {database.name}:///{name}#table.")
    try:
        decoded = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RuleFileError("it is not UTF-8 text.") from None
    if format == "sql" or (not format and name.lower().endswith(SQL_SUFFIXES)):
        return RULE_FORMATS["sql"], decoded
    content = _parse(decoded)
    if not isinstance(content, Mapping):
        raise RuleFileError(f"it must hold one object, got {type(content).__name__}.")
    _check_size(content)
    if format:
        return RULE_FORMATS[format], content
    found = next((each for each in RULE_FORMATS.values() if each.recognise(content)), None)
    if found is None:
        titles = ", ".join(each.title for each in RULE_FORMATS.values())
        raise RuleFileError(f"its format is unknown (its keys are {format_list(content)}). Readable are {titles}.")
    return found, content


def _read_bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise RuleFileError("there is no such file.")
        if path.stat().st_size > MAX_BYTES:
            raise RuleFileError(f"it is larger than {MAX_BYTES:,} bytes.")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, HarpoonError):
            raise
        raise RuleFileError(f"{getattr(error, 'strerror', None) or error}.") from None


def _parse(decoded: str) -> Any:  # noqa: ANN401
    """Parse JSON, or YAML if it is not JSON."""
    try:
        return json.loads(decoded)
    except ValueError as error:
        if decoded.lstrip().startswith(("{", "[")):
            raise RuleFileError(f"it is not valid JSON: {error}.") from None
    try:
        import yaml
    except ImportError:
        raise MissingExtra.for_package("pyyaml", "rules", "Reading YAML") from None
    try:
        return yaml.safe_load(decoded)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise RuleFileError(f"it is neither JSON nor YAML: {reason}.") from None


def _check_size(content: object) -> None:
    """Raise RuleFileError if content with references is too large when it is written out."""
    stack, count = [content], 0
    while stack:
        node = stack.pop()
        count += 1
        if count > MAX_NODES:
            raise RuleFileError(f"it has more than {MAX_NODES:,} parts.")
        if isinstance(node, Mapping):
            stack += [*node.keys(), *node.values()]
        elif isinstance(node, list | tuple | set):
            stack += node


def _lazy(module: str) -> Callable[[Any, Translation], None]:
    """Return the `read` of a module of this folder, which is imported when it is called."""

    def read(content: Any, translation: Translation) -> None:  # noqa: ANN401
        import_module(f"harpoon.rules.formats.{module}").read(content, translation)

    return read


def _never(_content: Mapping[str, Any]) -> bool:
    return False


# The first format that recognises a file reads it, so that JSON Schema, whose keys are common words, is the last.
RULE_FORMATS: dict[str, RuleFormat] = {
    "duckdb": RuleFormat("duckdb", "CHECK constraints of DuckDB", _never, _lazy("duckdb")),
    "sqlite": RuleFormat("sqlite", "CHECK constraints of SQLite", _never, _lazy("sqlite")),
    "sql": RuleFormat("sql", "CREATE TABLE in SQL", _never, _lazy("sql")),
    "pandera": RuleFormat(
        "pandera",
        "Pandera schemas",
        lambda content: "schema_type" in content and "columns" in content,
        _lazy("pandera"),
    ),
    "great_expectations": RuleFormat(
        "great_expectations",
        "expectation suites of Great Expectations",
        lambda content: "expectations" in content,
        _lazy("great_expectations"),
    ),
    "frictionless": RuleFormat(
        "frictionless",
        "table schemas of Frictionless",
        lambda content: "fields" in content or "resources" in content,
        _lazy("frictionless"),
    ),
    "json_schema": RuleFormat(
        "json_schema",
        "JSON Schema",
        lambda content: bool({"$schema", "properties", "allOf", "anyOf", "oneOf", "required", "if"} & set(content)),
        _lazy("json_schema"),
    ),
}
