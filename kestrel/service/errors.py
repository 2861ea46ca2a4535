"""The one place where failures become HTTP answers.

Every error body is `{"error": {"message", "type", "param", "code"}}`; the message says what is valid. An exception that
is not listed here is a fault of ours: it is logged with its traceback and answered with a plain 500.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kestrel.engine import BusyError, CharactersError, ClosedError, EngineError, TextError
from kestrel.service.admission import DeadlineUnreachable, QueueFull, Refused
from kestrel.service.jobs.folder import StorageError
from kestrel.service.planner import PlanError

_log = logging.getLogger("kestrel.service")

INVALID = "invalid_request_error"
AUTHENTICATION = "authentication_error"
OVERLOADED = "overloaded_error"
UNAVAILABLE = "unavailable_error"
SERVER = "server_error"


class ApiError(Exception):
    """A refusal or failure with its place in the HTTP answer. `param` names the field at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        kind: str = INVALID,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = kind
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, dict[str, str | None]]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        # ASCII escapes: a message may quote a lone surrogate from the request, which UTF-8 cannot encode.
        content = json.dumps(self.body(), ensure_ascii=True).encode()
        return Response(content, self.status, self.headers, media_type="application/json")


def body_too_large(limit: int) -> ApiError:
    return ApiError(413, f"the request body is larger than {limit} bytes, the limit", code="body_too_large")


def no_such_path(headers: Mapping[str, str] | None = None) -> ApiError:
    message = "no such path; GET /openapi.json or open /docs for the valid ones"
    return ApiError(404, message, code="not_found", headers=headers)


def unavailable(message: str, *, retry_after: int, code: str) -> ApiError:
    """503 for a server that is loading, draining or has lost its engine."""
    headers = {"Retry-After": str(retry_after)}
    return ApiError(503, message, code=code, kind=UNAVAILABLE, headers=headers)


def model_not_found(name: str, valid: str) -> ApiError:
    """404, as OpenAI's API answers, in the path or in a body."""
    return ApiError(404, f"unknown model {name!r}; valid: {valid}", code="model_not_found", param="model")


def deadline_exceeded(seconds: float) -> ApiError:
    message = (
        f"the request took longer than {seconds:g} s, the limit; send a shorter text or try when fewer are waiting"
    )
    return ApiError(504, message, code="deadline_exceeded", kind=SERVER)


def to_api_error(error: Exception) -> ApiError:
    """Maps any exception of this product, of the framework, or unknown, to its HTTP answer."""
    match error:
        case ApiError():
            return error
        case QueueFull():
            headers = {"Retry-After": str(error.retry_after)}
            return ApiError(429, str(error), code="queue_full", kind=OVERLOADED, headers=headers)
        case DeadlineUnreachable():
            headers = {"Retry-After": str(error.retry_after)}
            return ApiError(429, str(error), code="deadline_unreachable", kind=OVERLOADED, headers=headers)
        case RequestValidationError():
            return validation_error(error.errors())
        case HTTPException():
            return _http_error(error)
        case CharactersError():
            return ApiError(422, str(error), code="unsupported_characters", param="text")
        case StorageError():
            _log.error("storage error", exc_info=error)
            return unavailable(str(error), retry_after=5, code="storage_failed")
        case PlanError() | TextError():
            return ApiError(400, str(error), code="invalid_text", param="text")
        case BusyError():
            return ApiError(429, str(error), code="engine_busy", kind=OVERLOADED, headers={"Retry-After": "1"})
        case ClosedError():
            return unavailable(f"the engine takes no work: {error}", retry_after=5, code="engine_closed")
        case EngineError():
            _log.error("engine error", exc_info=error)
            return ApiError(500, f"speech generation failed: {error}", code="engine_error", kind=SERVER)
        case _:
            _log.error("unexpected error", exc_info=error)
            return ApiError(500, "internal error; the log has the details", code="internal_error", kind=SERVER)


def _http_error(error: HTTPException) -> ApiError:
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return no_such_path(headers)
    if error.status_code == 405:
        message = f"this path does not take that method; valid: {headers.get('Allow', 'see /docs')}"
        return ApiError(405, message, code="method_not_allowed", headers=headers)
    if error.status_code == 400:
        return ApiError(400, "the body cannot be parsed; it must be one JSON object in UTF-8", code="invalid_json")
    kind = INVALID if error.status_code < 500 else SERVER
    return ApiError(error.status_code, str(error.detail), code="http_error", kind=kind, headers=headers)


def validation_error(details: Sequence[Any]) -> ApiError:
    """400 that tells every problem of a request body in one message; `param` is the first field at fault."""
    first = details[0]
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", "syntax error")
        return ApiError(400, f"the body is not valid JSON: {reason}", code="invalid_json")
    if first["type"] == "missing" and tuple(first["loc"]) == ("body",):
        return ApiError(400, "the body is empty; it must be one JSON object", code="invalid_json")
    problems: list[str] = []
    params: list[str | None] = []
    for detail in details:
        place = detail["loc"][1:] if detail["loc"][:1] in (("body",), ("query",), ("path",)) else detail["loc"]
        path = [str(part) for part in place]
        # A field we refuse by name cannot be a `loc`, because it is not part of the model.
        param = detail.get("ctx", {}).get("param") or (".".join(path) or None)
        params.append(param)
        message = str(detail["msg"])
        problems.append(f"{param}: {message}" if param and path else message)
    code = "missing_field" if first["type"] == "missing" and params[0] else "invalid_value"
    if first["type"] == "unknown_field":
        code = "unknown_field"
    return ApiError(400, "; ".join(problems), code=code, param=params[0])


async def handle(request: Request, error: Exception) -> Response:
    """Exception handler of the application; leaves the code for the log and the counters."""
    failure = to_api_error(error)
    # An interface may call its fields otherwise than /v1/tts, whose names the checks use.
    names: Mapping[str | None, str] = getattr(request.state, "param_names", {})
    failure.param = names.get(failure.param, failure.param)
    record = getattr(request.state, "record", None)
    if record is not None:
        record.error_code = failure.code
    return failure.response()


def install(app: FastAPI) -> None:
    """Makes every failure of the application answer in the one shape."""
    for kind in (ApiError, Refused, PlanError, EngineError, StorageError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, handle)
