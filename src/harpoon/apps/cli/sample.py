"""`harpoon sample`: rows under a condition."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import load_model, read_for
from harpoon.config import DEFAULT_SAMPLE_ROWS
from harpoon.exceptions import InvalidOption, InvalidTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harpoon.data import Column
    from harpoon.estimator import Harpoon
    from harpoon.io import Location


SAMPLE = (
    "harpoon sample penguins.harpoon -n 1000 -o new.csv",
    "harpoon sample penguins.harpoon -n 50 --where \"body_mass_g >= 5000 or island = 'Dream'\" -o heavy.parquet",
    "harpoon sample penguins.harpoon -n 20 --given species=Gentoo --given sex=female",
    "harpoon sample penguins.harpoon -n 500 --target 'mean(body_mass_g)=4500' --target \"share(sex = 'male')=0.5\"",
    "harpoon sample penguins.harpoon --given partial.csv -o completed.csv",
    "harpoon sample penguins.harpoon -n 1000 --complete -o complete.csv",
    "harpoon sample penguins.harpoon -n 1000000000 --engine ray --workers 100 -o new/",
)


@dataclass(frozen=True)
class SampleOptions:
    """Options that say which rows to sample."""

    n: Annotated[
        int | None,
        Option("-n", min=1, metavar="N", help=f"Number of rows; {DEFAULT_SAMPLE_ROWS} by default.", show_default=False),
    ] = None
    where: options.Where = None
    given: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN=VALUE",
            help="A value that all rows share (may be repeated); COLUMN= is a missing cell. Or a table of "
            "partial rows, each of which is completed.",
        ),
    ] = None
    target: Annotated[
        list[str] | None,
        Option(
            metavar="AGGREGATE=VALUE",
            help="A value that the rows have together (may be repeated): mean(x)=5, share(a = 'b')=0.5, std(x)=2, "
            "corr(x, y)=0.3; with a tolerance, mean(x)=5+-0.1.",
        ),
    ] = None
    strategy: Annotated[
        str,
        Option(
            help="How to satisfy the condition: auto, rejection, conditioning, guidance or paper.",
            autocompletion=options.complete_from("harpoon.inference.conditional.strategies:STRATEGIES"),
        ),
    ] = "auto"
    complete: Annotated[
        bool,
        Option("--complete", help="Fill missing cells, which rows otherwise have as often as the training table."),
    ] = False
    allow_fewer: Annotated[
        bool,
        Option("--allow-fewer", help="Accept fewer than -n rows if the condition is too rare, or rows near targets."),
    ] = False
    option: options.OptionValues = None
    seed: options.Seed = None

    @property
    def tables(self) -> list[str]:
        """The values of `--given` that are tables."""
        return [text for text in self.given or () if "=" not in text or Path(text).exists() or "://" in text]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that a call of `Harpoon.sample` and of an engine have in common."""
        missing = "complete" if self.complete else "as_trained"
        return {"where": self.where, "strategy": self.strategy, "missing": missing, "random_state": self.seed}


def sample(
    model: options.ModelFile,
    output: options.OutputTable = "-",
    *,
    wanted: SampleOptions,
    engine: options.EngineOptions,
    csv: options.CsvOptions,
    force: options.Force = False,
    console: Console,
) -> None:
    """Sample new rows, each of which satisfies the condition."""
    from harpoon import io
    from harpoon.engines.job import SampleJob

    options.check_table_output(output, console)
    values = options.parse_options(wanted.option, ["sampling", "guidance"])
    if csv.is_given and (engine.engine is not None or not wanted.tables):
        raise InvalidOption("--delimiter, --encoding and --missing are for a table of --given. Leave them out.")
    targets = parse_targets(wanted.target or ())
    if engine.engine is not None:
        engine.check_output(output)
        if targets:
            raise InvalidOption("An engine samples blocks of rows one by one. Leave --target or --engine out.")
        if wanted.allow_fewer:
            raise InvalidOption("An engine samples all rows or none. Leave --allow-fewer out.")
        with console.warnings_as_notes():
            cells = parse_given(wanted.given or (), load_model(model, console))
            rows = DEFAULT_SAMPLE_ROWS if wanted.n is None else wanted.n
            job = SampleJob.create(rows, model, given=cells, options=values, **wanted.arguments())
            engine.run(job, output, console, force=force)
        return
    destination = io.Location.parse(output).with_format(engine.format)
    io.check_writable(destination, force=force)
    loaded = load_model(model, console)
    with console.warnings_as_notes():
        frame = loaded.sample(
            wanted.n,
            targets=targets,
            given=_read_given(wanted, loaded, csv, console),
            on_shortfall="return" if wanted.allow_fewer else "raise",
            **wanted.arguments(),
            **values,
        )
    _write(frame, loaded, destination, console, force=force)


def _write(frame: object, model: Harpoon, destination: Location, console: Console, *, force: bool) -> None:
    """Write sampled rows, and print how they were sampled."""
    from harpoon import io
    from harpoon.data import dataframe

    table = model.template_.with_types(dataframe.read(frame).arrow)
    io.write_table(destination, table, force)
    info = getattr(model, "sampling_info_", None)
    summary = {
        "output": destination.text,
        "rows": table.num_rows,
        "sampling_info": None if info is None else asdict(info),
        "support": None if info is None or info.support is None else info.support.to_json(),
    }
    console.summary(summary, f"{table.num_rows:,} rows sampled" if info is None else str(info))


def _read_given(wanted: SampleOptions, model: Harpoon, csv: options.CsvOptions, console: Console) -> Any:  # noqa: ANN401
    """Return values that all rows share, or a table of partial rows."""
    given = wanted.given or ()
    if not wanted.tables:
        return parse_given(given, model)
    if len(given) > 1:
        raise InvalidOption("--given takes one table of partial rows, or values only: --given column=value.")
    return read_for(model.schema_, wanted.tables[0], csv, console)


def parse_given(given: Sequence[str], model: Harpoon) -> dict[str, Any]:
    """Return the values of `--given COLUMN=VALUE`, in the types of the model's columns; None without a value."""
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidOption(f"--given takes COLUMN=VALUE, such as sex=female, got {text!r}.")
        if name in values:
            raise InvalidOption(
                f'--given has two values for {name}. Give one value, or several with --where "{name} in (...)".'
            )
        column = model.schema_[name]
        values[name] = _cast(value, column) if value or "" in (column.categories or ()) else None
    return values


def parse_targets(texts: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of `--target AGGREGATE=VALUE`, or pairs of a value and a tolerance; None if there are none."""
    targets: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            numbers = [float(part) for part in value.split("+-", 1)]
        except ValueError:
            numbers = []
        if not equals or not numbers:
            raise InvalidOption(
                f"--target takes AGGREGATE=VALUE, such as mean(age)=40 or mean(age)=40+-1, got {text!r}."
            )
        if name.strip() in targets:
            raise InvalidOption(f"--target has two values for {name.strip()}. Give one.")
        targets[name.strip()] = numbers
    return targets or None


def _cast(text: str, column: Column) -> Any:  # noqa: ANN401
    """Return a text in the type of a column."""
    import pyarrow as pa

    from harpoon.data import Schema
    from harpoon.data.arrow_types import text_types
    from harpoon.io.text_types import TYPE_NAMES, cast_texts

    dtype = text_types(Schema((column,))).get(column.name, pa.string())
    try:
        return cast_texts(pa.chunked_array([[text]]), dtype, missing=())[0].as_py()
    except InvalidTable:
        wanted = TYPE_NAMES.get(str(dtype), f"times ({dtype})")
        raise InvalidOption(f"--given: column {column.name!r} should hold {wanted}, got {text!r}.") from None
