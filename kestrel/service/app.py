"""Application factory: puts settings, engine, routes, metrics and error answers together. Nothing happens at import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from kestrel import __version__
from kestrel.service import errors, routes
from kestrel.service.jobs.jobs import Jobs
from kestrel.service.keys import KeyRing, RequireKey, read_keys
from kestrel.service.limits import ClientLimits, LimitClients
from kestrel.service.metrics import Metrics
from kestrel.service.middleware import BodyLimit, RequestContext
from kestrel.service.runtime import EngineFactory, Runtime, load_engine
from kestrel.service.settings import Settings
from kestrel.service.web import ACCEPTED_HEADERS, EXPOSED_HEADERS, CheckOrigin, SecurityHeaders, origins

_DESCRIPTION = """
Text to speech on a native engine, streamed while it is still being made.

* **Reproducible**: the same `seed`, `text` and options give the same samples, whatever else the server does.
* **Status first**: the status line is decided when the first audio or the failure exists. A reply that breaks off after
  its first byte ends without the final chunk, so HTTP clients report it as incomplete.
* **Bounded**: more requests than can run and wait are answered with 429; `Retry-After` tells when the audio ahead of
  them will be done.
* **Errors** all have the body `{"error": {"message", "type", "param", "code"}}`, and the message says what is valid.

Every answer carries `X-Request-Id`: the client's own if it sent one of up to 64 letters, digits, `.`, `_`, `-`.
"""


class _Api(FastAPI):
    """FastAPI, without the 422 answers it documents of its own accord: ours are documented by the routes."""

    def openapi(self) -> dict[str, Any]:
        schema = super().openapi()
        for operations in schema["paths"].values():
            for operation in operations.values():
                if "HTTPValidationError" in str(operation["responses"].get("422")):
                    del operation["responses"]["422"]
        for name in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(name, None)
        return schema


def create_app(settings: Settings | None = None, engine_factory: EngineFactory = load_engine) -> FastAPI:
    """The service as an ASGI application. The lifespan owns the engine, its loading task and the queue.

    `engine_factory` makes the engine from the settings, in a worker thread; tests pass their own. Raises KeysError or
    OSError for API keys that cannot be used.
    """
    settings = settings or Settings()
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        runtime = Runtime(settings, metrics, engine_factory)
        app.state.runtime = runtime
        jobs = Jobs(settings, runtime, metrics)
        app.state.jobs = jobs
        runtime.start(before=jobs.open)
        try:
            yield
        finally:
            runtime.drain()
            await jobs.stop()
            await runtime.close()
            await jobs.close()

    app = _Api(
        title="Kestrel",
        summary="Text-to-speech server",
        description=_DESCRIPTION,
        version=__version__,
        lifespan=lifespan,
        openapi_tags=routes.TAGS,
    )
    app.state.settings = settings
    app.state.metrics = metrics
    _protect(app, settings)
    app.add_middleware(RequestContext, metrics=metrics)  # added last: outermost
    errors.install(app)
    for router in routes.ROUTERS:
        app.include_router(router)
    return app


def _protect(app: FastAPI, settings: Settings) -> None:
    """Middleware from the inside out: what comes later sees a request earlier, and every answer."""
    allowed = origins(settings.cors_origins)
    keys = KeyRing(read_keys(settings.api_keys.get_secret_value(), settings.api_keys_file))
    limits = ClientLimits(settings.client_concurrency, settings.client_requests_per_minute, settings.client_burst)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes, larger={"/v1/jobs": settings.jobs_max_body_bytes})
    app.add_middleware(LimitClients, limits=limits, retry_after=lambda: app.state.runtime.admission.retry_after())
    if keys.locked:
        app.add_middleware(RequireKey, keys=keys)
    if allowed:  # outside of the keys: a browser's preflight request carries none
        app.add_middleware(
            CORSMiddleware,
            allow_origins=allowed,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=ACCEPTED_HEADERS,
            expose_headers=EXPOSED_HEADERS,
        )
    app.add_middleware(CheckOrigin, allowed=allowed)
    app.add_middleware(SecurityHeaders)
