"""GET /livez and /readyz: probes for a supervisor."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from kestrel.service.runtime import Runtime
from kestrel.service.schema import Liveness, Readiness

router = APIRouter(tags=["operations"])


@router.get("/livez", summary="Is the process alive?")
async def livez() -> Liveness:
    """Answers as long as the event loop turns, whatever the engine does."""
    return Liveness()


@router.get(
    "/readyz",
    summary="Can it speak?",
    responses={503: {"model": Readiness, "description": "Loading, warming up, shutting down, or failed to load."}},
)
async def readyz(request: Request, response: Response) -> Readiness:
    """200 once the model has spoken its warm-up text; 503 with the progress before, and while shutting down."""
    runtime: Runtime = request.app.state.runtime
    if runtime.status != "ready":
        response.status_code = 503
        response.headers["Retry-After"] = "2"
    return runtime.readiness()
