"""GET /v1/voices and /v1/models: what a client may ask for."""

from __future__ import annotations

from fastapi import APIRouter, Request

from kestrel.service.errors import model_not_found
from kestrel.service.formats import FORMATS
from kestrel.service.routes.documented import MODEL_ERRORS, UNAUTHORIZED, UNAVAILABLE
from kestrel.service.runtime import Runtime
from kestrel.service.schema import Limits, Model, ModelList, Voice, VoiceList

router = APIRouter(tags=["catalog"])


@router.get("/v1/voices", summary="List the voices", responses={**UNAUTHORIZED, **UNAVAILABLE})
async def voices(request: Request) -> VoiceList:
    """Every voice that `voice` of a speech request can name."""
    info = _runtime(request).engine().info
    return VoiceList(data=[Voice(id=name, model=info.name, languages=list(info.languages)) for name in info.voices])


@router.get("/v1/models", summary="List the models", responses={**UNAUTHORIZED, **UNAVAILABLE})
async def models(request: Request) -> ModelList:
    """The loaded model with its limits."""
    return ModelList(data=[_model(_runtime(request))])


@router.get("/v1/models/{model}", summary="Describe a model", responses=MODEL_ERRORS)
async def model(request: Request, model: str) -> Model:
    """The model of that name, with its limits."""
    loaded = _model(_runtime(request))
    if model != loaded.id:
        raise model_not_found(model, loaded.id)
    return loaded


def _model(runtime: Runtime) -> Model:
    info, settings = runtime.engine().info, runtime.settings
    return Model(
        id=info.name,
        created=runtime.model_created,
        owned_by="kestrel",
        version=info.version,
        license=info.license,
        sample_rate=info.sample_rate,
        frame_size=info.frame_size,
        text_mode=info.text_mode,
        voices=list(info.voices),
        languages=list(info.languages),
        formats=list(FORMATS),
        parameters=info.parameters,
        limits=Limits(
            max_text_chars=settings.max_text_chars,
            max_seconds=settings.max_seconds,
            max_body_bytes=settings.max_body_bytes,
            deadline_seconds=settings.request_timeout,
            slots=info.slots,
            queue_size=settings.queue_size,
            jobs_max_text_chars=settings.jobs_max_text_chars,
            jobs_max_seconds=settings.jobs_max_seconds,
        ),
    )


def _runtime(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime
