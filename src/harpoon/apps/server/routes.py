"""The application: its routes, what they take and what they return."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import FileResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from harpoon._version import __version__
from harpoon.apps.server import handlers, openapi, schemas
from harpoon.apps.server.errors import EXPECTED, ApiError, to_response
from harpoon.apps.server.form_controls import from_controls, remainder, to_controls
from harpoon.apps.server.limits import LOCAL, Limits
from harpoon.apps.server.middleware import AccessLog, BodyLimit, TokenAuth
from harpoon.apps.server.responses import JSON, TABLE_FORMATS, Dispatcher, Payload, accepted_format, as_json
from harpoon.apps.server.served_model import ServedModel
from harpoon.apps.server.uploads import media_type, open_upload, receive_table, unsupported_media_type
from harpoon.apps.server.workers import JobControl, Workers
from harpoon.conditions import parse
from harpoon.estimator import Harpoon

Route = TypeVar("Route", bound=Callable[..., Any])
STUDIO = Path(__file__).parent / "studio"


def create_app(
    model: Harpoon,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    name: str = "model",
    hosts: Collection[str] = LOCAL,
    data: object = None,
) -> FastAPI:
    """Return the service of one model, for any ASGI server.

    Args:
        model: A fitted model.
        limits: Limits of requests.
        token: A secret that clients have to send. Without one, only programs and pages of this machine are answered.
        name: The name of the model, for people.
        hosts: The host names of this machine, for a service without a token.
        data: Real rows, a dataframe with the columns of the training table. Studio then counts those that satisfy a
            condition and shows their distributions; no row leaves the service. A `RealTable` is read while the
            service answers already.
    """
    served = ServedModel.prepare(model, name, limits or Limits(), data)
    workers = Workers(served.limits)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        if served.data is not None and served.data.is_reading:
            served.data.read_in_background()
        yield
        workers.close()

    app = FastAPI(
        title=f"Harpoon: {name}",
        version=__version__,
        description=openapi.ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.workers = workers
    app.state.stop = lambda: None  # ends the server that runs it (`run`)
    described = [] if token is None else [Depends(HTTPBearer(auto_error=False))]  # TokenAuth is what checks it
    for router in (_fast_routes(served), _job_routes(served, Dispatcher(workers, served.limits))):
        app.include_router(router, dependencies=described)
    files = {"/": STUDIO / "index.html", **{f"/{path.name}": path for path in sorted(STUDIO.iterdir())}}
    for address, path in files.items():  # each file under its own name, and nothing else
        app.add_route(address, partial(_send_file, path), include_in_schema=False)
    for kind in (ApiError, *EXPECTED):
        app.add_exception_handler(kind, _error_response)
    app.add_middleware(BodyLimit, limits=served.limits, large=["/impute"])
    app.add_middleware(TokenAuth, token=token, hosts=hosts, open_paths=["/health", *files])
    app.add_middleware(AccessLog)  # the last one is the outermost
    return app


def _fast_routes(served: ServedModel) -> APIRouter:
    """Return the routes that answer at once."""
    router, schema = APIRouter(), served.model.schema_
    description = served.describe()

    @router.get("/health", summary="Whether the service is running", response_model=schemas.Health)
    async def health() -> Any:  # noqa: ANN401
        return {"version": __version__}

    @router.get(
        "/schema",
        summary="The columns and their unconditional distributions",
        responses={200: {"model": schemas.ModelDescription}, **openapi.error_responses(401, 403)},
    )
    async def columns() -> Response:
        return Response(as_json({**description, **served.describe_data()}), media_type=JSON)

    @router.post(
        "/condition",
        summary="A condition as controls for each column, and back",
        dependencies=[Depends(_require_json)],
        response_model=schemas.ConditionResponse,
        responses=openapi.error_responses(),
    )
    def condition(body: schemas.ConditionBody) -> Any:  # noqa: ANN401
        written, rest = (parse(text) if text and text.strip() else None for text in (body.where, body.rest))
        chosen = {name: control.model_dump() for name, control in (body.controls or {}).items()}
        tree = from_controls(chosen, schema, rest) if written is None else written
        if tree is None:
            return {"where": None, "controls": {}, "complete": True, "rest": None}
        controls, complete = to_controls(tree, schema)
        left = remainder(tree, schema)
        rest_text = None if left is None else str(left)
        return {"where": str(tree), "controls": controls, "complete": complete, "rest": rest_text}

    return router


def _job_routes(served: ServedModel, dispatcher: Dispatcher) -> APIRouter:
    """Return the routes that run a job."""
    router, schema, max_rows = APIRouter(), served.model.schema_, served.limits.rows

    def post(path: str, summary: str, answer: type[BaseModel], *, tables: bool = False) -> Callable[[Route], Route]:
        """Return the decorator of a route that takes JSON."""
        responses = openapi.job_responses(answer, tables=tables)
        return router.post(path, summary=summary, dependencies=[Depends(_require_json)], responses=responses)

    @post("/sample", "Sample rows", schemas.SampleResponse, tables=True)
    async def sample(request: Request, body: schemas.SampleBody) -> Response:
        return await dispatcher.respond(request, lambda control: handlers.sample(served, body, control), tables=True)

    @post("/feasibility", "The probability of a condition, and what to relax", schemas.FeasibilityResponse)
    async def feasibility(request: Request, body: schemas.FeasibilityBody) -> Response:
        return await dispatcher.respond(request, lambda control: handlers.feasibility(served, body, control))

    @post("/profile", "The effect of a condition on every column", schemas.ProfileResponse)
    async def profile(request: Request, body: schemas.ProfileBody) -> Response:
        return await dispatcher.respond(request, lambda control: handlers.profile(served, body, control))

    @router.post(
        "/impute",
        summary="Fill the missing cells of a table",
        openapi_extra=openapi.TABLE_BODY,
        responses=openapi.job_responses(schemas.ImputeResponse, tables=True),
    )
    async def impute(request: Request, query: Annotated[schemas.ImputeParameters, Query()]) -> Response:
        media = accepted_format(request, tables=True)
        upload_media, content = await receive_table(request)

        def job(control: JobControl) -> Payload:
            upload, parameters = open_upload(upload_media, content, query, schema, max_rows)
            if media in TABLE_FORMATS:
                return handlers.impute_table(served, upload, parameters, control, media)
            return handlers.impute_cells(served, upload, parameters, control)

        return await dispatcher.respond(request, job, tables=True)

    return router


async def _send_file(path: Path, _request: Request) -> Response:
    return FileResponse(path)


async def _require_json(request: Request) -> None:
    if media_type(request.headers.get("content-type", "")) != JSON:
        raise unsupported_media_type([JSON])


async def _error_response(_request: Request, error: Exception) -> Response:
    return to_response(ApiError.from_exception(error))
