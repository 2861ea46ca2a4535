"""Descriptions of the answers of /v1/jobs for the OpenAPI page."""

from __future__ import annotations

from typing import Any

from kestrel.service.jobs.intake import JobRequest
from kestrel.service.routes.documented import CLOSED, CLOSING, FAILED, LOADING, SPEECH_ERRORS, error, example

_OFF = example(
    "no jobs on this server: another server (process 4711) stores its jobs in /var/lib/kestrel; stop it or set "
    "KESTREL_JOBS_FOLDER",
    "unavailable_error",
    None,
    "jobs_unavailable",
)
_DISK = example(
    "the state of jobs cannot be stored: database or disk is full", "unavailable_error", None, "storage_failed"
)
_UNAVAILABLE = error("No jobs, or none just now.", _OFF, _DISK, retry=True)
_UNKNOWN = error(
    "There is no such job.",
    example(
        "no such job; it may have been deleted or have expired; GET /v1/jobs",
        "invalid_request_error",
        None,
        "unknown_job",
    ),
)
_EXAMPLES = {
    "book": {
        "summary": "A long text, kept for a day",
        "value": {"text": "Chapter one. It was a quiet morning.", "seed": 7, "retention_seconds": 86400},
    }
}

CREATE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": JobRequest.model_json_schema(), "examples": _EXAMPLES}},
    }
}

CREATE: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "Accepted.",
        "headers": {"Location": {"description": "Path of the job.", "schema": {"type": "string"}}},
    },
    400: error(
        "As of POST /v1/tts, and these.",
        example("text: Field required", "invalid_request_error", "text", "missing_field"),
        example("unknown voice 'alto'; valid: default", "invalid_request_error", "voice", "unknown_voice"),
        example(
            "retention_seconds is 1e+09; the limit is 604800",
            "invalid_request_error",
            "retention_seconds",
            "retention_too_long",
        ),
        example(
            "the audio would take about 2133336000 bytes; all jobs together may take 1000000; send a shorter text or a "
            "smaller max_seconds",
            "invalid_request_error",
            "text",
            "audio_too_large",
        ),
    ),
    408: SPEECH_ERRORS[408],
    413: SPEECH_ERRORS[413],
    415: SPEECH_ERRORS[415],
    429: error(
        "Too many unfinished jobs, or no room for the audio.",
        example("100 jobs are unfinished, as many as may be; try again in 12 s", "overloaded_error", None, "jobs_full"),
        example(
            "no room for about 3200000 bytes of audio; DELETE jobs that are not needed, or try later",
            "overloaded_error",
            None,
            "storage_full",
        ),
        retry=True,
    ),
    503: error(
        "Loading, shutting down, failed, or no jobs.", LOADING, CLOSING, FAILED, CLOSED, _OFF, _DISK, retry=True
    ),
}

LIST: dict[int | str, dict[str, Any]] = {
    400: error(
        "A parameter is wrong.",
        example("limit: Input should be less than or equal to 100", "invalid_request_error", "limit", "invalid_value"),
    ),
    503: _UNAVAILABLE,
}

SHOW: dict[int | str, dict[str, Any]] = {404: _UNKNOWN, 503: _UNAVAILABLE}

EVENTS_HEADER: dict[str, Any] = {
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "description": "Id of the last event that was received.",
            "schema": {"type": "string"},
        }
    ]
}

EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`sentence` events with `number`, `ends_at_seconds`, `audio_seconds` and `finish_reason`; "
        "`status` events with the job; an `error` event if the job is deleted.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    204: {"description": "The job has ended, and the client has had every event."},
    **SHOW,
}

AUDIO_HEADERS: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}
        for name, description in (
            ("Range", "One range of bytes; several, or a malformed one, give the whole."),
            ("If-Range", "ETag or Last-Modified of the part at hand; if it does not match, the whole is sent."),
            ("If-None-Match", "ETags at hand."),
        )
    ]
}

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_AUDIO = {"audio/wav": _BINARY, "audio/pcm": _BINARY}

AUDIO: dict[int | str, dict[str, Any]] = {
    200: {"description": "All of it.", "content": _AUDIO},
    206: {"description": "The range that was asked for.", "content": _AUDIO},
    304: {"description": "The client has it already."},
    400: error(
        "The format is wrong.",
        example("format: Input should be 'wav' or 'pcm'", "invalid_request_error", "format", "invalid_value"),
        example(
            "a WAV file holds at most 2147483625 samples, not 2200000000; ask for format=pcm",
            "invalid_request_error",
            "format",
            "too_long_for_format",
        ),
    ),
    404: _UNKNOWN,
    409: error(
        "There is no audio yet, or there will be none.",
        example(
            "the job is running: 4 of 9 sentences; its audio comes when it is completed",
            "invalid_request_error",
            None,
            "job_unfinished",
        ),
        example(
            "the job has failed: speech generation failed: out of memory", "invalid_request_error", None, "job_failed"
        ),
        example("begun with model a 1; this server has b 1", "invalid_request_error", None, "model_changed"),
        retry=True,
    ),
    410: error(
        "The file is gone.",
        example(
            "the audio has been removed from the disk by another program", "invalid_request_error", None, "audio_lost"
        ),
    ),
    416: error(
        "The range begins behind the end.",
        example(
            "the audio has 32044 bytes; the range begins behind its end",
            "invalid_request_error",
            None,
            "range_not_satisfiable",
        ),
    ),
    503: _UNAVAILABLE,
}
