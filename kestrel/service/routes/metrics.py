"""GET /metrics: Prometheus text, or OpenMetrics for a scraper that asks for it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder

from kestrel.service.metrics import Metrics
from kestrel.service.routes.documented import UNAUTHORIZED

router = APIRouter(tags=["operations"])

_EXAMPLE = "# HELP tts_inflight Requests that hold a slot.\n# TYPE tts_inflight gauge\ntts_inflight 1.0\n"


@router.get(
    "/metrics",
    summary="Metrics",
    response_class=Response,
    responses={
        **UNAUTHORIZED,
        200: {
            "description": "All metrics; `tts_phase_duration_seconds` has the phases whose stack is the RTF.",
            "content": {"text/plain": {"example": _EXAMPLE}, "application/openmetrics-text": {"example": _EXAMPLE}},
        },
    },
)
async def scrape(request: Request) -> Response:
    """Counters, gauges and histograms, all named `tts_*`, and the process's own."""
    metrics: Metrics = request.app.state.metrics
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(metrics.registry), headers={"Content-Type": content_type})
