"""`harpoon serve`: a model over HTTP, and Studio, its page in the browser."""

from __future__ import annotations

import webbrowser
from functools import partial
from threading import Thread
from typing import Annotated

from typer import Option

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console, Debug, Quiet
from harpoon.apps.cli.loading import load_model, read_for
from harpoon.apps.server.limits import LOCAL, MEGABYTE, Limits
from harpoon.exceptions import InvalidOption, MissingExtra

SERVE = (
    "harpoon serve penguins.harpoon --open",
    "harpoon serve penguins.harpoon --data penguins.csv",
    "harpoon serve penguins.harpoon --port 9000 --max-rows 1000 --max-time 10s",
    "HARPOON_TOKEN=$(openssl rand -hex 16) harpoon serve penguins.harpoon --host 0.0.0.0",
)
MIN_TOKEN_LENGTH = 16


def serve(
    model: options.ModelFile,
    port: Annotated[int, Option(min=0, max=65535, metavar="N", help="0 takes any free port.")] = 8420,
    host: Annotated[str, Option(help="Address to listen at; other machines need a token.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        Option(
            envvar="HARPOON_TOKEN",
            show_envvar=True,
            help="Secret that clients must send (Authorization: Bearer TOKEN). Use the variable: other users of this "
            "machine can see command lines.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        Option(metavar="TABLE", help="Real rows: Studio counts those that satisfy a condition and shows them below."),
    ] = None,
    max_rows: Annotated[int, Option(min=1, metavar="N", help="Most rows that a request may sample or send.")] = 100_000,
    max_body: Annotated[int, Option(min=1, metavar="MEGABYTES", help="Largest request.")] = 16,
    max_time: Annotated[str, Option(metavar="DURATION", help="Longest time for an answer: 90s, 2m or 1h30m.")] = "60s",
    workers: Annotated[int, Option(min=1, metavar="N", help="Requests that are computed at the same time.")] = 2,
    browse: Annotated[bool, Option("--open", help="Open Studio in a browser.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Serve a model over HTTP, with Studio, a page for what-if questions.

    Ctrl-C ends it. Each request is one line of JSON on the standard error, which holds no cells.
    """
    seconds = options.parse_duration(max_time)
    _check_token(token, host)
    try:
        from harpoon.apps.server.real_table import RealTable
        from harpoon.apps.server.routes import create_app
        from harpoon.apps.server.run import listen, run
    except ModuleNotFoundError as error:
        raise MissingExtra.for_package(str(error.name), "serve", "`harpoon serve`") from None

    console = Console(quiet=quiet)
    limits = Limits(rows=max_rows, body=max_body * MEGABYTE, seconds=seconds, workers=workers)
    with listen(host, port) as sock:
        loaded = load_model(model, console, progress=False)
        real = None
        if data is not None:
            read = partial(read_for, loaded.schema_, data, options.CsvOptions(), console)
            real = RealTable(loaded.schema_, read, lambda: app.state.stop())  # noqa: PLW0108  # the app follows
        app = create_app(loaded, limits, token=token, name=model.stem, hosts={*LOCAL, host}, data=real)
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{sock.getsockname()[1]}/"
        console.message(f"{model.name} is served at {address} Press Ctrl-C to stop.")
        if browse:  # in a thread: a browser in a terminal returns when it is closed
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        try:
            run(app, sock, limits, quiet=quiet)
        except KeyboardInterrupt:  # the normal end
            console.message("Stopped.")
        if real is not None and real.error is not None:
            raise real.error


def _check_token(token: str | None, host: str) -> None:
    if token is None and host not in LOCAL:
        raise InvalidOption(
            f"To listen at {host}, which other machines can reach, the service needs a token. Set the variable "
            f"HARPOON_TOKEN to a random text, or listen at {LOCAL[0]}."
        )
    if token is not None and (len(token) < MIN_TOKEN_LENGTH or not token.isascii() or token != token.strip()):
        raise InvalidOption(
            f"A token needs at least {MIN_TOKEN_LENGTH} ASCII characters, without spaces around it. This makes one: "
            "python -c 'import secrets; print(secrets.token_hex())'"
        )
