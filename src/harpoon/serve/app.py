"""The application: addresses, what they take and what they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from harpoon._version import __version__
from harpoon.errors import HarpoonError
from harpoon.model import Harpoon
from harpoon.parsing import condition as parsed
from harpoon.serve import answers, pages
from harpoon.serve.bodies import ConditionBody, FeasibilityBody, Filling, ImputeBody, ProfileBody, SampleBody
from harpoon.serve.controls import condition_of, controls_of
from harpoon.serve.faults import Fault
from harpoon.serve.formats import ARROW, CSV, JSON, TABLES, Answer, accepted, as_json
from harpoon.serve.guards import Door, Logged, Scales, response_of
from harpoon.serve.limits import Limits
from harpoon.serve.replies import reply
from harpoon.serve.served import Served
from harpoon.serve.uploads import Upload, from_arrow, from_rows, from_text
from harpoon.serve.work import Watch, Workers

LOCAL = ("127.0.0.1", "localhost", "::1")


def create_app(
    model: Harpoon,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    name: str = "model",
    hosts: Collection[str] = LOCAL,
) -> FastAPI:
    """The service of one model."""
    served = Served.of(model, name, limits or Limits())
    workers = Workers(served.limits)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        workers.close()

    app = FastAPI(
        title="Harpoon", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.include_router(_routes(served, workers))
    pages.add_pages(app)
    for kind in (Fault, HarpoonError, ValidationError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answered)
    app.add_middleware(Scales, limits=served.limits, large=["/impute"])
    app.add_middleware(Door, token=token, hosts=hosts, open_paths=["/health", *pages.files()])
    app.add_middleware(Logged)
    return app


def _routes(served: Served, workers: Workers) -> APIRouter:
    router = APIRouter()
    limits = served.limits
    schema = as_json(served.described())

    @router.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @router.get("/schema")
    async def columns() -> Response:
        return Response(schema, media_type=JSON)

    @router.post("/sample")
    async def sample(request: Request, body: SampleBody) -> Response:
        return await reply(request, lambda watch: answers.sample(served, body, watch), workers, limits, tables=True)

    @router.post("/feasibility")
    async def feasibility(request: Request, body: FeasibilityBody) -> Response:
        return await reply(request, lambda watch: answers.feasibility(served, body, watch), workers, limits)

    @router.post("/profile")
    async def profile(request: Request, body: ProfileBody) -> Response:
        return await reply(request, lambda watch: answers.profile(served, body, watch), workers, limits)

    @router.post("/condition")
    async def condition(body: ConditionBody) -> dict[str, Any]:
        schema_ = served.model.schema_
        tree = condition_of(body.controls, schema_) if body.controls is not None else parsed(body.where)
        if tree is None:
            return {"where": None, "controls": {}, "complete": True}
        controls, complete = controls_of(tree, schema_)
        return {"where": str(tree), "controls": controls, "complete": complete}

    @router.post("/impute")
    async def impute(request: Request, query: Annotated[Filling, Query()]) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        content = await request.body()
        if kind == "multipart/form-data":
            form = await request.form()
            upload = next(v for v in form.values() if hasattr(v, "read"))
            kind, content = upload.content_type or CSV, await upload.read()
            kind = CSV if kind != ARROW else kind
        media = accepted(request.headers.get("accept", ""), tables=True)

        def job(watch: Watch) -> Answer:
            schema_ = served.model.schema_
            asked = query
            if kind == ARROW:
                source = from_arrow(content, limits.rows)
            elif kind in (CSV, "text/plain", "application/csv"):
                source = from_text(content, schema_)
            else:
                body = ImputeBody.model_validate_json(content)
                asked, source = body, from_rows(body.rows, schema_)
            up = Upload.of(source, schema_, limits.rows)
            if media in TABLES:
                return answers.impute(served, up, asked, watch, written="csv" if media == CSV else "")
            return answers.impute_told(served, up, asked, watch)

        return await reply(request, job, workers, limits, tables=True)

    return router


async def _answered(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return response_of(Fault(error.status_code, "Http", str(error.detail)))
    if isinstance(error, (RequestValidationError, ValidationError)):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return response_of(Fault(422, "InvalidBody", f"{where}: {first['msg']}"))
    return response_of(Fault.of(error))
