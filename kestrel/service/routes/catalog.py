"""GET /v1/voices and /v1/models: what a client may ask for."""

from __future__ import annotations

from fastapi import APIRouter, Request

from kestrel.service.containers import CONTAINERS
from kestrel.service.routes.documented import UNAVAILABLE
from kestrel.service.runtime import Runtime
from kestrel.service.schema import Limits, Model, ModelList, Voice, VoiceList

router = APIRouter(tags=["catalog"])


@router.get("/v1/voices", summary="List the voices", responses=UNAVAILABLE)
async def voices(request: Request) -> VoiceList:
    """Every voice that `voice` of a speech request can name."""
    info = _runtime(request).engine().info
    return VoiceList(data=[Voice(id=name, model=info.name, languages=list(info.languages)) for name in info.voices])


@router.get("/v1/models", summary="List the models", responses=UNAVAILABLE)
async def models(request: Request) -> ModelList:
    """The loaded model with its limits."""
    runtime = _runtime(request)
    info, settings = runtime.engine().info, runtime.settings
    model = Model(
        id=info.name,
        version=info.version,
        license=info.license,
        sample_rate=info.sample_rate,
        frame_size=info.frame_size,
        text_mode=info.text_mode,
        voices=list(info.voices),
        languages=list(info.languages),
        formats=list(CONTAINERS),
        parameters=info.parameters,
        limits=Limits(
            max_text_chars=settings.max_text_chars,
            max_seconds=settings.max_seconds,
            max_body_bytes=settings.max_body_bytes,
            slots=info.slots,
            queue_size=settings.queue_size,
        ),
    )
    return ModelList(data=[model])


def _runtime(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime
