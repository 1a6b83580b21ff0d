"""`harpoon check` and `harpoon rules`: tables and conditions against a model, and rules of files and models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import is_model, load_model, read_for, save_model
from harpoon.apps.cli.sample import parse_given
from harpoon.exceptions import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harpoon.estimator import Harpoon
    from harpoon.rules.rule_set import RuleSet

CHECK = (
    "harpoon check penguins.harpoon new.csv",
    "harpoon check penguins.harpoon new.csv --where 'bill_length_mm > bill_depth_mm' --json",
    "harpoon check penguins.harpoon --where \"body_mass_g >= 6000 and species = 'Adelie'\"",
    "harpoon check penguins.harpoon --where 'bill_length_mm > 50' --data penguins.csv",
    "harpoon check penguins.harpoon --where 'bill_length_mm > 50' --given sex=female --json",
)
RULES = (
    "harpoon rules penguins.harpoon",
    "harpoon rules penguins.harpoon --accept 'range(year)' -o strict.harpoon",
    "harpoon rules contract.yaml",
    "harpoon rules duckdb:///shop.db#orders --model orders.harpoon -o strict.harpoon",
)
IMPOSSIBLE, BROKEN = 3, 4
EVERY = "all"


def check(
    model: options.ModelFile,
    table: Annotated[
        str | None, Argument(metavar="TABLE", help="A table to check: which rows break a rule of the model.")
    ] = None,
    where: Annotated[
        str | None,
        Option(metavar="CONDITION", help="A condition, as in SQL; beside a TABLE, one more rule.", show_default=False),
    ] = None,
    given: Annotated[
        list[str] | None,
        Option(metavar="COLUMN=VALUE", help="A value that all rows share; COLUMN= is a missing cell. May be repeated."),
    ] = None,
    data: Annotated[
        str | None, Option(metavar="TABLE", help="A table in which to count the rows that satisfy the condition, too.")
    ] = None,
    *,
    csv: options.CsvOptions,
    seed: options.Seed = None,
    console: Console,
) -> None:
    """Check a table against the rules that a model carries; or, without a table, estimate the probability of --where.

    The exit code is 4 if a row of the table breaks a rule, and 3 if the probability of the condition is 0.
    """
    if table is None and where is None:
        raise InvalidOption("Name a TABLE to check against the rules of the model, or a condition with --where.")
    loaded = load_model(model, console)
    if table is not None:
        if given or data is not None:
            raise InvalidOption("--given and --data are for --where without a TABLE. Leave them out.")
        _check_table(loaded, table, where, csv, console)
        return
    with console.warnings_as_notes():
        cells = parse_given(given or (), loaded)
        counted = None if data is None else read_for(loaded.schema_, data, csv, console)
        found = loaded.feasibility(where, given=cells, data=counted, random_state=seed)
    of_table = ("training_fraction", "weighted_fraction")
    facts = {name: value for name, value in asdict(found).items() if name not in of_table or value is not None}
    console.result({**facts, "support": found.support.to_json()}, str(found))
    if not found.probability:
        raise typer.Exit(IMPOSSIBLE)


def _check_table(model: Harpoon, table: str, where: str | None, csv: options.CsvOptions, console: Console) -> None:
    """Print which rows of a table break which rule."""
    from harpoon.rules.rule_set import NO_RULES

    if where is not None:
        model = model.with_rules([*model.rules_, where])
    if not model.rules_:
        raise InvalidOption(f"{NO_RULES} Add one with --where, or some with harpoon rules.")
    with console.warnings_as_notes():
        found = model.check(read_for(model.schema_, table, csv, console))
    rows, names = found.pairs()
    broken = [{"row": row, "rule": name} for row, name in zip(rows.tolist(), names, strict=True)]
    console.result({**found.to_json(), "broken": broken}, str(found))
    if not found.ok:
        raise typer.Exit(BROKEN)


def rules(
    source: Annotated[
        str,
        Argument(
            metavar="SOURCE",
            help="A model; a schema of Pandera, Frictionless or JSON, an expectation suite, CREATE TABLE statements "
            "in SQL; or duckdb:///file.db#table or sqlite:///file.db#table.",
        ),
    ],
    model: Annotated[
        Path | None, Option(metavar="MODEL", help="A model that the rules of a file are for; others are listed.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        Option(metavar="NAME", help=f"The name of a rule to accept, or {EVERY}; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="MODEL", help="The file for the model that also carries these rules."),
    ] = None,
    force: options.Force = False,
    *,
    console: Console,
) -> None:
    """Show the rules that a model carries and has found in its training table, or those of a file of another tool.

    With -o, write the model so that it carries them: all of a file, or those of --accept.
    """
    from harpoon.rules import read_rules

    if output is not None:
        options.check_output(output, force=force)
    if is_model(source):
        if model is not None:
            raise InvalidOption("--model is for rules of a file. Leave it out.")
        loaded = load_model(Path(source), console)
        carried, found = loaded.rules_, loaded.rules()
        console.result(
            {"rules": carried.to_json(), "discovered": found.to_json()}, *_listing(carried, found, bool(accept))
        )
        _write(loaded, _accepted(found, accept or ()), output, console)
        return
    file = read_rules(source)
    target = None if model is None else load_model(model, console)
    file = file if target is None else file.for_schema(target.schema_)
    console.result(file.to_json(), str(file))
    if output is not None and target is None:
        raise InvalidOption("-o writes a model that carries the rules. Name the model with --model.")
    if target is not None:
        _write(target, _accepted(file.rules, accept or (EVERY,)), output, console)


def _listing(carried: RuleSet, found: RuleSet, accepts: bool) -> list[str]:
    """Return the lines about the rules of a model."""
    lines = [f"{len(carried)} rules that the model carries:", *(f"  {rule}" for rule in carried)]
    lines += [f"{len(found)} rules found in the training table:", *(f"  {rule}" for rule in found)]
    return ["\n".join(lines if found or carried or accepts else ["The model carries no rules, and has found none."])]


def _accepted(rules: RuleSet, names: Sequence[str]) -> RuleSet:
    return rules if EVERY in names else rules.select(*names) if names else rules[:0]


def _write(model: Harpoon, accepted: RuleSet, output: Path | None, console: Console) -> None:
    """Write a model that also carries these rules."""
    if output is None:
        return
    both = model.with_rules([*model.rules_, *accepted])
    save_model(both, output)
    console.message(f"Model that carries {len(both.rules_)} rules: {output}")
