"""`harpoon serve`: a model over HTTP, and Studio, a page to ask it in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from harpoon.cli import options
from harpoon.cli.loading import load_model
from harpoon.cli.talking import Talk
from harpoon.errors import InvalidOption, MissingExtra

SERVE = (
    "harpoon serve penguins.harpoon",
    "harpoon serve penguins.harpoon --port 9000",
    "HARPOON_TOKEN=$(openssl rand -hex 16) harpoon serve penguins.harpoon --host 0.0.0.0",
)
LOCAL = ("127.0.0.1", "localhost", "::1")
SHORTEST_TOKEN = 16


def serve(
    model: options.ModelFile,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any port that is free.")] = 8420,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine a token is needed.")] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="HARPOON_TOKEN", help="What clients must send: `Authorization: Bearer TOKEN`."),
    ] = None,
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001
) -> None:
    """Serve a model over HTTP, with Studio, a page to ask it what-if questions.

    Ctrl-C ends it.
    """
    if token is None and host not in LOCAL:
        raise InvalidOption(
            f"To listen at {host}, beyond this machine, a token is needed: set HARPOON_TOKEN, or --token."
        )
    try:
        from harpoon.serve.app import create_app
        from harpoon.serve.limits import Limits
        from harpoon.serve.running import bound_socket, run
    except ModuleNotFoundError as error:
        raise MissingExtra.named(str(error.name), "serve", "`harpoon serve`") from None

    talk, limits = Talk(False, quiet), Limits()
    listening = bound_socket(host, port)
    app = create_app(
        load_model(model, talk, progress=False), limits, token=token, name=model.stem, hosts={*LOCAL, host}
    )
    place = f"[{host}]" if ":" in host else host
    talk.say(f"{model.name} is served at http://{place}:{listening.getsockname()[1]}/ until Ctrl-C.")
    run(app, listening, limits, quiet=quiet)
