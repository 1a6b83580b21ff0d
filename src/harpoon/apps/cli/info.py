"""`harpoon info` and `harpoon schema`: what a model is, and what a table holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.fit import prepared, trained
from harpoon.apps.cli.loading import load_model

INFO = ("harpoon info penguins.harpoon", "harpoon info penguins.harpoon --json | jq .held_out_loss")
SCHEMA = (
    "harpoon schema penguins.csv",
    "harpoon schema penguins.csv -o schema.json   (edit it, then: harpoon fit penguins.csv --schema schema.json ...)",
)


def info(
    model: options.ModelFile,
    seed: options.Seed = None,  # noqa: ARG001
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Say what a model is: its columns, how it was trained, and how large it is."""
    from harpoon._utils import tensor_file
    from harpoon.apps.cli.tables import facts, listing, schema_table

    loaded = load_model(model, Console(json, quiet))
    about: dict[str, Any] = {
        "model": str(model),
        "version": tensor_file.read_tensors(model)[1].get("version"),
        "bytes": model.stat().st_size,
        "preset": loaded.preset,
        "columns": len(loaded.schema_),
        "modelled": len(loaded.schema_.modelled),
        "weights": sum(part.numel() for part in loaded.denoiser_.parameters()),
        **trained(loaded),
    }
    columns, relations = [column.to_json() for column in loaded.schema_], loaded.relations()
    words = [facts(about), schema_table(loaded.schema_), *([listing("relations", relations)] if relations else [])]
    Console(json, quiet).answer({**about, "schema": columns, "relations": relations}, *words)


def schema(
    table: options.Table,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A JSON file, to edit and give to `harpoon fit`."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out. May be repeated.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help="What a column is: region=category. May be repeated."),
    ] = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    missing: options.Missing = None,
    seed: options.Seed = None,  # noqa: ARG001
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Say what the columns of a table are, which cells are missing, and what a model would leave out and why."""
    from harpoon._utils.files import replace_atomically
    from harpoon.apps.cli.tables import schema_table

    talk = Console(json, quiet)
    if output is not None:
        options.check_free(output, force=force)
    how = options.reading(delimiter, encoding, missing)
    rows, found = prepared(table, how, talk, file=None, kinds=kind or (), exclude=exclude or ())
    if output is not None:
        with replace_atomically(output) as temporary:
            temporary.write_text(found.to_json(), encoding="utf-8")
    columns = [column.to_json() for column in found]
    talk.answer({"rows": rows.num_rows, "columns": columns}, schema_table(found, rows))
