"""What is known about one HTTP request when it ends: the source of its log line and its metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from kestrel.service.speech import Totals

OUTCOMES = ("ok", "client_error", "rejected", "cancelled", "engine_error", "truncated")
TRUNCATED = ("length", "repetition", "silence", "context")


@dataclass(slots=True)
class SpeechRecord:
    """The part of a record that only a speech request has. Holds the text only if the log is to have it."""

    model: str
    voice: str
    format: str
    stream: bool
    characters: int
    seed: int
    totals: Totals = field(default_factory=Totals)
    phases: dict[str, float] = field(default_factory=dict)
    queue_seconds: float = 0.0
    first_audio_seconds: float | None = None
    underrun_seconds: float = 0.0
    cancelled: str | None = None
    cancel_seconds: float | None = None
    failed: bool = False
    text: str | None = None

    @property
    def rtf(self) -> float | None:
        """Wall seconds of the engine per audio second, without the wait for a slot."""
        if not self.totals.audio_seconds:
            return None
        busy = self.totals.wall_seconds - self.totals.phases.get("queue", 0.0)
        return busy / self.totals.audio_seconds


@dataclass(slots=True)
class RequestRecord:
    """One HTTP request."""

    request_id: str
    method: str
    started: float = field(default_factory=monotonic)
    endpoint: str = "other"
    status: int = 0
    seconds: float = 0.0
    error_code: str | None = None
    speech: SpeechRecord | None = None

    @property
    def outcome(self) -> str:
        """One of OUTCOMES."""
        if self.speech is not None:
            if self.speech.cancelled:
                return "cancelled"
            if self.speech.failed:
                return outcome_of_status(self.status) if self.status >= 400 else "engine_error"
            if self.status == 200 and self.speech.totals.finish_reason in TRUNCATED:
                return "truncated"
        return outcome_of_status(self.status)

    def as_log(self) -> dict[str, Any]:
        """Fields of the request's log line."""
        line: dict[str, Any] = {
            "request_id": self.request_id,
            "method": self.method,
            "endpoint": self.endpoint,
            "status": self.status,
            "outcome": self.outcome,
            "error_code": self.error_code,
            "seconds": round(self.seconds, 6),
        }
        speech = self.speech
        if speech is not None:
            line |= {
                "model": speech.model,
                "voice": speech.voice,
                "format": speech.format,
                "stream": speech.stream,
                "characters": speech.characters,
                "text": speech.text,
                "seed": speech.seed,
                "pieces": speech.totals.pieces,
                "finish_reason": speech.totals.finish_reason or None,
                "frames": speech.totals.frames,
                "audio_seconds": round(speech.totals.audio_seconds, 6),
                "first_audio_seconds": _rounded(speech.first_audio_seconds),
                "rtf": _rounded(speech.rtf),
                "underrun_seconds": round(speech.underrun_seconds, 6),
                "cancel_seconds": _rounded(speech.cancel_seconds),
                "phases": {name: round(seconds, 6) for name, seconds in speech.phases.items()},
            }
        return {name: value for name, value in line.items() if value is not None}


def outcome_of_status(status: int) -> str:
    """Outcome of a request that only its status tells about; 0 means that no answer was begun."""
    if status == 0:
        return "cancelled"
    if status < 400:
        return "ok"
    if status in (429, 503):
        return "rejected"
    return "client_error" if status < 500 else "engine_error"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
