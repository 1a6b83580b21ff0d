"""The command line: one module per group of commands.

Nothing heavy is imported before a command runs, so that `harpoon --help` answers at once.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer
from typer import Option

from harpoon._version import __version__
from harpoon.apps.cli import audit, demo, doctor, evaluate, fit, impute, info, options, rules, sample, serve
from harpoon.apps.cli.console import Commands, escape_other_characters, replace_closed_streams

EXIT_CODES = (
    "Exit codes: 0 success, 1 something cannot be read, written or done, 2 wrong usage (an option, or a condition that "
    "makes no sense), 3 the condition cannot be met, 4 rows break a rule (harpoon check), 130 stopped by Ctrl-C, 141 "
    "the reader of the output closed the pipe (as head does), 143 stopped by SIGTERM."
)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)


def _paragraphs(docstring: str | None) -> str:
    """Return a docstring with one line per paragraph: the terminal breaks it."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in str(docstring).split("\n\n"))


def _version(show: bool) -> None:
    if show:
        typer.echo(f"harpoon {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train one diffusion model on a table, then fill its missing cells and sample rows under any condition.

    Tables are CSV, TSV, Parquet, Feather or JSON lines, gzipped or not; - is a standard stream;
    duckdb:///file.db#table, sqlite:///file.db#table and postgresql://host/database#table are tables of databases, and
    ?query=select ... in place of #table is the result of a query.
    """


app.callback(help=_paragraphs(root.__doc__))(root)


for _command, _examples in (
    (fit.fit, fit.FIT),
    (impute.impute, impute.IMPUTE),
    (sample.sample, sample.SAMPLE),
    (rules.check, rules.CHECK),
    (rules.rules, rules.RULES),
    (evaluate.evaluate, evaluate.EVALUATE),
    (evaluate.report, evaluate.REPORT),
    (audit.audit, audit.AUDIT),
    (serve.serve, serve.SERVE),
    (info.info, info.INFO),
    (info.schema, info.SCHEMA),
    (options.options, options.OPTIONS),
    (demo.demo, demo.DEMO),
    (doctor.doctor, doctor.DOCTOR),
):
    app.command(help=_paragraphs(_command.__doc__), epilog="Examples:\n\n" + "\n\n".join(_examples))(
        options.expand_records(_command)
    )


def main() -> None:
    """Run a command. SIGTERM ends it like Ctrl-C: files that are half written are removed."""
    replace_closed_streams()
    escape_other_characters()
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    app()
