"""The application: addresses, what they take and what they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import Response
from fastapi.security import HTTPBearer

from harpoon._version import __version__
from harpoon.apps.server import handlers, openapi, schemas, static
from harpoon.apps.server.access_log import AccessLog
from harpoon.apps.server.controls import beyond, condition_of, controls_of
from harpoon.apps.server.errors import EXPECTED, ApiError, response_of
from harpoon.apps.server.formats import JSON, TABLES, Payload, accepted, as_json
from harpoon.apps.server.limits import LOCAL, Limits
from harpoon.apps.server.middleware import BodyLimit, SecurityHeaders, TokenAuth
from harpoon.apps.server.responses import Dispatcher
from harpoon.apps.server.served_model import ServedModel
from harpoon.apps.server.uploads import opened, received, unsupported
from harpoon.apps.server.workers import JobControl, Workers
from harpoon.conditions.expressions import Predicate
from harpoon.conditions.parser import parse
from harpoon.estimator import Harpoon


def create_app(
    model: Harpoon,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    name: str = "model",
    hosts: Collection[str] = LOCAL,
) -> FastAPI:
    """The service of one model, for any server of ASGI.

    Args:
        model: A model that has been trained or loaded.
        limits: What one request may cost.
        token: What clients have to send. Without one, only programs and pages of this machine are answered.
        name: Of the model, for people.
        hosts: The names by which this machine may be called where there is no token.
    """
    served = ServedModel.of(model, name, limits or Limits())
    workers = Workers(served.limits)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
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
    described = [] if token is None else [Depends(HTTPBearer(auto_error=False))]  # the door is elsewhere
    for router in (_facts(served), _questions(served, Dispatcher(workers, served.limits))):
        app.include_router(router, dependencies=described)
    static.add_pages(app)
    for kind in (ApiError, *EXPECTED):
        app.add_exception_handler(kind, _answered)
    app.add_middleware(BodyLimit, limits=served.limits, large=["/impute"])
    app.add_middleware(TokenAuth, token=token, hosts=hosts, open_paths=["/health", *static.files()])
    app.add_middleware(SecurityHeaders)
    app.add_middleware(AccessLog)  # the last one is the outermost
    return app


def _facts(served: ServedModel) -> APIRouter:
    """What is answered at once."""
    router, schema = APIRouter(), served.model.schema_
    described = as_json(served.described())

    @router.get("/health", summary="Whether the service is there", response_model=schemas.Health)
    async def health() -> Any:  # noqa: ANN401
        return {"version": __version__}

    @router.get(
        "/schema",
        summary="The columns, and how plain rows spread over them",
        responses={200: {"model": schemas.Described}, **openapi.errors(401, 403)},
    )
    async def columns() -> Response:
        return Response(described, media_type=JSON)

    @router.post(
        "/condition",
        summary="A condition as controls for each column, and back",
        dependencies=[Depends(_takes_json)],
        response_model=schemas.Condition,
        responses=openapi.errors(),
    )
    def condition(body: schemas.ConditionBody) -> Any:  # noqa: ANN401
        asked = {name: control.model_dump() for name, control in (body.controls or {}).items()}
        written = _parsed(body.where)
        tree = condition_of(asked, schema, _parsed(body.rest)) if written is None else written
        controls, complete = ({}, True) if tree is None else controls_of(tree, schema)
        rest = None if tree is None else beyond(tree, schema)
        return {"where": _text(tree), "controls": controls, "complete": complete, "rest": _text(rest)}

    return router


def _questions(served: ServedModel, desk: Dispatcher) -> APIRouter:
    """What takes a while."""
    router, json_only = APIRouter(), [Depends(_takes_json)]
    schema, most = served.model.schema_, served.limits.rows

    @router.post(
        "/sample",
        summary="Draw rows",
        dependencies=json_only,
        responses=openapi.answers(schemas.Rows, tables=True),
    )
    async def sample(request: Request, body: schemas.SampleBody) -> Response:
        return await desk.reply(
            request, lambda watch: handlers.sample(served, body, watch), _format(request, tables=True)
        )

    @router.post(
        "/feasibility",
        summary="How likely a condition is, and what to relax",
        dependencies=json_only,
        responses=openapi.answers(schemas.Likelihood),
    )
    async def feasibility(request: Request, body: schemas.FeasibilityBody) -> Response:
        return await desk.reply(request, lambda watch: handlers.feasibility(served, body, watch), _format(request))

    @router.post(
        "/profile",
        summary="What a condition does to every column",
        dependencies=json_only,
        responses=openapi.answers(schemas.Profile),
    )
    async def profile(request: Request, body: schemas.ProfileBody) -> Response:
        return await desk.reply(request, lambda watch: handlers.profile(served, body, watch), _format(request))

    @router.post(
        "/impute",
        summary="Fill the holes of a table",
        openapi_extra=openapi.TABLE_BODY,
        responses=openapi.answers(schemas.Filled, tables=True),
    )
    async def impute(request: Request, asked: Annotated[schemas.Filling, Query()]) -> Response:
        media = _format(request, tables=True)
        kind, content = await received(request)

        def job(watch: JobControl) -> Payload:
            upload, how = opened(kind, content, asked, schema, most)
            if media in TABLES:
                return handlers.filled(served, upload, how, watch, media)
            return handlers.filled_and_told(served, upload, how, watch)

        return await desk.reply(request, job, media)

    return router


def _parsed(text: str | None) -> Predicate | None:
    return parse(text) if text and text.strip() else None


def _text(tree: Predicate | None) -> str | None:
    return None if tree is None else str(tree)


def _format(request: Request, *, tables: bool = False) -> str:
    return accepted(request.headers.get("accept", ""), tables=tables)


async def _takes_json(request: Request) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise unsupported([JSON])


async def _answered(_request: Request, error: Exception) -> Response:
    return response_of(ApiError.of(error))
