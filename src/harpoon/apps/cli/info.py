"""`harpoon info` and `harpoon schema`: a description of a model, and of the columns of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.fit import ColumnOptions, read_with_schema, training_summary
from harpoon.apps.cli.loading import load_model

INFO = ("harpoon info penguins.harpoon", "harpoon info penguins.harpoon --json | jq .validation_loss")
SCHEMA = (
    "harpoon schema penguins.csv",
    "harpoon schema penguins.csv -o schema.json   (edit it, then: harpoon fit penguins.csv --schema schema.json ...)",
)

NOT_KEPT = "epochs", "loss", "validation_loss", "seconds"  # of a training with differential privacy


def info(model: options.ModelFile, *, console: Console) -> None:
    """Describe a model: its columns, how it was trained, and how large it is."""
    from harpoon._utils import model_file
    from harpoon.apps.cli.terminal_tables import fact_table, listing, schema_table

    loaded = load_model(model, console)
    about: dict[str, Any] = {
        "model": str(model),
        "version": model_file.read_tensors(model)[1].get("version"),
        "bytes": model.stat().st_size,
        "preset": loaded.preset,
        "columns": len(loaded.schema_),
        "modelled": len(loaded.schema_.modelled),
        "weights": sum(part.numel() for part in loaded.denoiser_.parameters()),
        **training_summary(loaded),
    }
    columns, relations = [column.to_json() for column in loaded.schema_], loaded.relations()
    left_out = {"grade", "calibration", "privacy", *(() if loaded.privacy_ is None else NOT_KEPT)}
    facts = {name: fact for name, fact in about.items() if name not in left_out}
    quality = about["calibration"] if loaded.privacy_ is None else f"Differential privacy: {loaded.privacy_}"
    parts = [fact_table(facts), f"{quality}\n", schema_table(loaded.schema_)]
    parts += [listing("relations", relations)] if relations else []
    carried = loaded.rules_
    parts += [listing("rules", [str(rule) for rule in carried])] if carried else []
    found = len(loaded.rules())
    parts += [f"\n{found} rules found in the training table: harpoon rules {model}"] if found else []
    rules = {"rules": carried.to_json(), "discovered_rules": found}
    console.result({**about, "schema": columns, "relations": relations, **rules}, *parts)


def schema(
    table: options.Table,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="A JSON file to edit, for `harpoon fit --schema`.")
    ] = None,
    *,
    columns: ColumnOptions,
    csv: options.CsvOptions,
    force: options.Force = False,
    console: Console,
) -> None:
    """Describe the columns of a table: kinds, missing cells, and which a model would leave out and why."""
    from harpoon._utils.files import replace_atomically
    from harpoon.apps.cli.terminal_tables import schema_table

    if output is not None:
        options.check_output(output, force=force)
    rows, found = read_with_schema(table, csv, console, columns)
    if output is not None:
        with replace_atomically(output) as temporary:
            temporary.write_text(found.to_json(), encoding="utf-8")
    facts = {"rows": rows.num_rows, "columns": [column.to_json() for column in found]}
    console.result(facts, schema_table(found, rows))
