"""The OpenAPI page against the code: what it promises must be true and complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kestrel.service import errors, routes
from kestrel.service.app import create_app
from kestrel.service.openai_schema import OPENAI_EXAMPLES, OpenAiSpeechRequest
from kestrel.service.schema import SPEECH_EXAMPLES, SpeechRequest


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    return create_app().openapi()


def test_every_route_is_described_with_its_errors(page: dict[str, Any]) -> None:
    """Catches routes without a summary, errors without an example, and the framework's own 422 that we never send."""
    assert set(page["paths"]) == {
        "/v1/tts", "/v1/audio/speech", "/v1/voices", "/v1/models", "/v1/models/{model}", "/livez", "/readyz",
        "/metrics", "/v1/jobs", "/v1/jobs/{job_id}", "/v1/jobs/{job_id}/events", "/v1/jobs/{job_id}/audio",
    }  # fmt: skip
    for path, operations in page["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            assert operation["description"], path
            assert "HTTPValidationError" not in str(operation["responses"].get("422")), path
            for status, answer in operation["responses"].items():
                assert answer["description"], (path, status)
                if path.startswith("/v1") and status >= "400":
                    assert answer["content"]["application/json"]["examples"], (path, status)
    assert set(page["paths"]["/v1/tts"]["post"]["responses"]) == {
        "200", "400", "401", "408", "413", "415", "422", "429", "500", "503", "504",
    }  # fmt: skip


def test_every_field_is_described_and_has_an_example(page: dict[str, Any]) -> None:
    """A field without either cannot be used from the page."""
    for body in ("SpeechRequest", "OpenAiSpeechRequest"):
        schema = page["components"]["schemas"][body]
        assert schema["additionalProperties"] is False
        for name, field in schema["properties"].items():
            assert field["description"], name
            assert field.get("examples") or field.get("enum"), name
    for example in SPEECH_EXAMPLES.values():
        SpeechRequest.model_validate(example["value"])
    for example in OPENAI_EXAMPLES.values():
        OpenAiSpeechRequest.model_validate(example["value"])


def test_every_error_code_in_the_code_is_on_the_page(page: dict[str, Any]) -> None:
    """Catches a new refusal that nobody documented."""
    folder = Path(errors.__file__).parent
    source = "".join(
        path.read_text()
        for path in [*folder.glob("*.py"), *folder.glob("jobs/*.py"), *Path(routes.__file__).parent.glob("[!d]*.py")]
    )
    raised = set(re.findall(r'code="(\w+)"', source)) | set(re.findall(r'code = "(\w+)"', source))
    documented = set(re.findall(r"'code': '(\w+)'", str(page)))
    # Not of a route: unknown paths and methods; the framework's own; a full engine queue, which admission prevents;
    # what is refused before there is a request; WebSockets, which OpenAPI does not know.
    assert raised - documented == {
        "not_found", "method_not_allowed", "http_error", "engine_busy", "headers_too_large", "headers_timeout",
        "invalid_http", "invalid_handshake", "origin_not_allowed",
    }  # fmt: skip
