"""Descriptions of error answers for the OpenAPI page, with an example each."""

from __future__ import annotations

from typing import Any

from kestrel.service.schema import ErrorBody

_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}


def example(message: str, kind: str, param: str | None, code: str) -> dict[str, Any]:
    """One named example of an error body."""
    return {"summary": code, "value": {"error": {"message": message, "type": kind, "param": param, "code": code}}}


def error(description: str, *examples: dict[str, Any], retry: bool = False) -> dict[str, Any]:
    """One error answer."""
    named = {item["value"]["error"]["code"]: item for item in examples}
    answer: dict[str, Any] = {
        "model": ErrorBody,
        "description": description,
        "content": {"application/json": {"examples": named}},
    }
    if retry:
        answer["headers"] = _RETRY_AFTER
    return answer


LOADING = example(
    "the model is still loading; GET /readyz tells when it is ready", "unavailable_error", None, "loading"
)
CLOSING = example("the server is shutting down; try another or come back later", "unavailable_error", None, "closing")

FAILED = example(
    "the engine cannot speak: model.gguf: key kestrel.format is missing", "unavailable_error", None, "engine_failed"
)
CLOSED = example("the engine takes no work: the engine is closed", "unavailable_error", None, "engine_closed")

UNAUTHORIZED: dict[int | str, dict[str, Any]] = {
    401: error(
        "The server wants an API key.",
        example(
            "send an API key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'",
            "authentication_error",
            None,
            "missing_api_key",
        ),
        example("the API key is not valid", "authentication_error", None, "invalid_api_key"),
    )
}
UNAVAILABLE: dict[int | str, dict[str, Any]] = {
    503: error("Loading, shutting down, or failed.", LOADING, CLOSING, FAILED, CLOSED, retry=True)
}

MODEL_NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: error(
        "There is no such model.",
        example("unknown model 'tts-9'; valid: kestrel-v0", "invalid_request_error", "model", "model_not_found"),
    )
}

MODEL_ERRORS = {**MODEL_NOT_FOUND, **UNAUTHORIZED, **UNAVAILABLE}

SPEECH_ERRORS: dict[int | str, dict[str, Any]] = {
    400: error(
        "The request is wrong; the message says how and what is valid.",
        example("the body is not valid JSON: Expecting value", "invalid_request_error", None, "invalid_json"),
        example("text: Field required", "invalid_request_error", "text", "missing_field"),
        example(
            "unknown field 'pitch'; valid fields: text, voice, language, seed, temperature, top_p, top_k, max_seconds, "
            "speed, deadline_seconds, stream, format, timings",
            "invalid_request_error",
            "pitch",
            "unknown_field",
        ),
        example("top_p: Input should be less than or equal to 1", "invalid_request_error", "top_p", "invalid_value"),
        example("unknown voice 'alto'; valid: default", "invalid_request_error", "voice", "unknown_voice"),
        example("unknown language 'xx'; valid: en", "invalid_request_error", "language", "unknown_language"),
        example("the text has 100000 characters; the limit is 5000", "invalid_request_error", "text", "text_too_long"),
        example(
            "the text holds nothing to say; it needs at least one letter or digit",
            "invalid_request_error",
            "text",
            "invalid_text",
        ),
        example(
            "max_seconds is 7200; the limit is 600", "invalid_request_error", "max_seconds", "max_seconds_too_large"
        ),
        example(
            "deadline_seconds is 7200; the limit is 600",
            "invalid_request_error",
            "deadline_seconds",
            "deadline_too_large",
        ),
    ),
    408: error(
        "The body did not come in time.",
        example("the body did not come within 30 s", "invalid_request_error", None, "body_timeout"),
    ),
    413: error(
        "The body is too large.",
        example(
            "the request body is larger than 262144 bytes, the limit", "invalid_request_error", None, "body_too_large"
        ),
    ),
    415: error(
        "The body is not declared as JSON.",
        example(
            "send the body as Content-Type: application/json", "invalid_request_error", None, "unsupported_media_type"
        ),
    ),
    429: error(
        "Too much is being spoken already, by everyone or by this client.",
        example("all places are taken and 16 requests wait; try again in 12 s", "overloaded_error", None, "queue_full"),
        example(
            "speech would begin in about 12 s, after the deadline of 5 s; try again in 7 s",
            "overloaded_error",
            None,
            "deadline_unreachable",
        ),
        example(
            "this client may send 30 requests a minute; try again in 2 s", "overloaded_error", None, "rate_limited"
        ),
        example(
            "4 requests of this client run or wait, the limit is 4; try again in 9 s",
            "overloaded_error",
            None,
            "client_concurrency",
        ),
        retry=True,
    ),
    500: error(
        "The engine failed.",
        example("speech generation failed: out of memory", "server_error", None, "engine_error"),
        example("the engine gave no audio for this text", "server_error", None, "no_audio"),
        example("internal error; the log has the details", "server_error", None, "internal_error"),
    ),
    504: error(
        "The request took too long before its first audio.",
        example(
            "the request took longer than 600 s, the limit; send a shorter text or try when fewer are waiting",
            "server_error",
            None,
            "deadline_exceeded",
        ),
    ),
    **UNAUTHORIZED,
    **UNAVAILABLE,
}


def _header(description: str, kind: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


_BINARY = {"schema": {"type": "string", "format": "binary"}}
_EVENTS = {"schema": {"type": "string"}}
_AUDIO = dict.fromkeys(("audio/wav", "audio/pcm", "audio/mpeg", "audio/ogg", "audio/aac", "audio/flac"), _BINARY)

_COMMON_HEADERS = {
    "X-Request-Id": _header("Id of the request in the log.", "string"),
    "X-Model": _header("Name of the model.", "string"),
    "X-Voice": _header("Name of the voice.", "string"),
    "X-Sample-Rate": _header("Samples a second.", "integer"),
    "X-Seed": _header("The seed in use; send it again to get the same samples.", "integer"),
    "Content-Disposition": _header("A file name with the extension of the format.", "string"),
}

SPEECH_SUCCESS: dict[str, Any] = {
    "description": "Audio, mono. A streamed reply is chunked; its WAV header holds 0xFFFFFFFF as both sizes, its FLAC "
    "header no length, and its finish reason and figures, unknown when the headers are sent, are in the server's log "
    "and metrics. Decoders give 1105 samples of silence before a streamed MP3 and 1024 before AAC, which neither "
    "format can tell them to drop. An HTTP/1.0 client, which cannot tell broken audio from its end, gets it whole.\n\n"
    '`stream: "sse"`: events `audio` (base64, `index`, `sentence`, `span` of that sentence in the text in '
    "characters, `start` in seconds), `sentence` behind its audio (`start`, `end`, `words` where the model knows them, "
    "`phases` in seconds), at the end `done` with the figures, or `error` in the shape of every error.\n\n"
    "`timings: true`: one JSON object with `audio` in base64, those `sentences`, and the figures.",
    "content": {**_AUDIO, "text/event-stream": _EVENTS, "application/json": {"schema": {"type": "object"}}},
    "headers": {
        **_COMMON_HEADERS,
        "X-Finish-Reason": _header(
            "`stream=false` only. `eos`: the text was spoken to its end. `length`: `max_seconds` or the frame budget "
            "of the text ended it. `repetition`, `silence`: a guard ended a runaway. `context`: the context is full.",
            "string",
        ),
        "X-Audio-Seconds": _header("`stream=false` only. Length of the audio.", "number"),
        "X-Wall-Seconds": _header("`stream=false` only. Arrival of the request to its reply.", "number"),
        "X-RTF": _header(
            "`stream=false` only. Engine wall seconds per audio second at speed 1, without the wait for a slot.",
            "number",
        ),
        "Server-Timing": _header(
            "`stream=false` only. Milliseconds a phase (W3C Server Timing): queue, text, prefill, falcon_step, sample, "
            "fast_graph, codec_build, codec_compute, encode, send_wait (0: nothing was sent before this header).",
            "string",
        ),
    },
}

OPENAI_ERRORS: dict[int | str, dict[str, Any]] = {**SPEECH_ERRORS, **MODEL_NOT_FOUND}

OPENAI_SUCCESS: dict[str, Any] = {
    "description": "Audio, 24 kHz mono, chunked, sent while the rest is still being made; WAV with sizes 0xFFFFFFFF. "
    '`stream_format: "sse"`: events `speech.audio.delta` with `audio` in base64, at the end `speech.audio.done` with '
    "`usage`, or `error`.",
    "content": {**_AUDIO, "text/event-stream": _EVENTS},
    "headers": {
        **_COMMON_HEADERS,
        "X-Unused-Parameters": _header("Fields that were accepted and had no effect: `instructions`.", "string"),
    },
}
