"""Write docs/command-line-reference.md from the commands themselves: python docs/command_line.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from harpoon.apps.cli import app

PAGE = Path(__file__).with_name("command-line-reference.md")
INTRODUCTION = """# Command line reference

<!-- Written by docs/command_line.py from harpoon.apps.cli. Do not edit. -->

Arguments and options of every command, as in `harpoon COMMAND --help`. The [guide](command-line.md) explains tables,
streams, exit codes and how the commands go together.

Every command also has `--help` (`-h`), `--quiet` (`-q`: no messages and no progress bars) and `--debug` (show the
traceback of an error).
"""
SHARED = ("quiet", "debug", "help")  # described once, in the introduction
VALUES = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def page() -> str:
    """Return the page."""
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    return "\n".join([INTRODUCTION, *(_section(name, command) for name, command in commands.items())])


def _section(name: str, command: Any) -> str:  # noqa: ANN401
    """Return usage, description, arguments, options and examples of a command."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name not in SHARED]
    required = [f"{one.opts[-1]} {_value(one, command)}" for one in options if one.required]
    words = ["harpoon", name, *map(_argument, arguments), *required, "[OPTIONS]"]
    lines = [f"## harpoon {name}", "", "```text", " ".join(words), "```", "", str(command.help), ""]
    if arguments:
        rows = [f"| `{_escape(_argument(one))}` | {_escape(one.help)} |" for one in arguments]
        lines += ["| argument | meaning |", "|---|---|", *rows, ""]
    rows = [_option(one, command) for one in options]
    lines += ["| option | value | default | meaning |", "|---|---|---|---|", *rows, ""]
    examples = [line for line in str(command.epilog).removeprefix("Examples:").splitlines() if line]
    return "\n".join([*lines, "Examples:", "", "```text", *examples, "```", ""])


def _argument(argument: Any) -> str:  # noqa: ANN401
    name = argument.metavar.strip("[]")
    return name if argument.required else f"[{name}]"


def _option(option: Any, command: Any) -> str:  # noqa: ANN401
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else f"`{_escape(_value(option, command))}`"
    default = "*required*" if option.required else "" if option.is_flag else _default(option.default)
    variable = f" Environment variable: `{option.envvar}`." if option.envvar else ""
    return f"| {names} | {value} | {default} | {_escape(option.help)}{variable} |"


def _value(option: Any, command: Any) -> str:  # noqa: ANN401
    """Return the placeholder of an option's value."""
    if option.metavar:
        return str(option.metavar)
    hint = get_type_hints(command.callback)[option.name]
    return VALUES[next((one for one in (hint, *get_args(hint)) if one in VALUES), str)]


def _default(value: object) -> str:
    return "" if value in (None, "") else f"`{value}`"


def _escape(text: str) -> str:
    """Return a text for a cell of a table: no bars, and no HTML outside code."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
