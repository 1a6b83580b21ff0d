"""`harpoon serve`: a model over HTTP, and Studio, a page to ask it in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from harpoon.apps.cli import options
from harpoon.apps.cli.console import Console
from harpoon.apps.cli.loading import load_model
from harpoon.apps.server.limits import LOCAL, MEGABYTE, Limits
from harpoon.exceptions import InvalidOption, MissingExtra

SERVE = (
    "harpoon serve penguins.harpoon --open",
    "harpoon serve penguins.harpoon --port 9000 --max-rows 1000 --max-time 10s",
    "HARPOON_TOKEN=$(openssl rand -hex 16) harpoon serve penguins.harpoon --host 0.0.0.0",
)
SHORTEST_TOKEN = 16


def serve(
    model: options.ModelFile,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8420,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine only with a token.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HARPOON_TOKEN",
            show_envvar=True,
            help="What clients must send (Authorization: Bearer TOKEN). Others on this machine see what you type, but "
            "not the variable.",
        ),
    ] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows that one request may draw or send.")] = 100_000,
    max_body: Annotated[int, typer.Option(min=1, metavar="MEGABYTES", help="How large a request may be.")] = 16,
    max_time: Annotated[
        str, typer.Option(metavar="DURATION", help="How long an answer may take: 90s, 2m or 1h30m.")
    ] = "60s",
    workers: Annotated[int, typer.Option(min=1, help="Answers that are worked on at the same time.")] = 2,
    browse: Annotated[bool, typer.Option("--open", help="Open Studio in a browser.")] = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Serve a model over HTTP, and Studio, a page to ask it what-if questions.

    Ctrl-C ends it. There is one line of JSON on the standard error for each request; it holds no cells.
    """
    seconds = options.seconds_of(max_time)
    _check_token(token, host)
    try:
        from harpoon.apps.server.app import create_app
        from harpoon.apps.server.run import listening, run
    except ModuleNotFoundError as error:
        raise MissingExtra.named(str(error.name), "serve", "`harpoon serve`") from None

    talk = Console(quiet=quiet)
    limits = Limits(rows=max_rows, body=max_body * MEGABYTE, seconds=seconds, at_once=workers)
    with listening(host, port) as sock:
        loaded = load_model(model, talk, progress=False)
        app = create_app(loaded, limits, token=token, name=model.stem, hosts={*LOCAL, host})
        place = f"[{host}]" if ":" in host else host
        address = f"http://{place}:{sock.getsockname()[1]}/"
        talk.say(f"{model.name} is served at {address} until Ctrl-C.")
        if browse:
            _open(address)
        try:
            run(app, sock, limits, quiet=quiet)
        except KeyboardInterrupt:  # which is how it is meant to end
            talk.say("Stopped.")


def _open(address: str) -> None:
    """Open a page that will be there in a moment. A browser in a terminal may take as long as it is read."""
    import webbrowser
    from threading import Thread

    Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _check_token(token: str | None, host: str) -> None:
    if token is None and host not in LOCAL:
        raise InvalidOption(
            f"To listen at {host}, where others can reach it, the service needs a token. Set the variable "
            f"HARPOON_TOKEN to a text that nobody guesses, or listen at {LOCAL[0]}."
        )
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or token != token.strip()):
        raise InvalidOption(
            f"A token needs {SHORTEST_TOKEN} plain characters or more, without spaces around it. This one does: "
            "python -c 'import secrets; print(secrets.token_hex())'"
        )
