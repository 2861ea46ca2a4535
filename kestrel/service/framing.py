"""How the bytes of a reply are laid out: bare audio, server-sent events, or one JSON object.

Every layout takes the same calls in the same order: audio as it is encoded, the end of each sentence, then the end or
the failure. Server-sent events: WHATWG HTML, "Server-sent events"; each is one JSON object with its `type`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Protocol

from kestrel.service.output import AudioOutput
from kestrel.service.script import Span
from kestrel.service.timings import Sentence

EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the reply some audio belongs: its sentence, and the seconds of audio before it."""

    sentence: int
    span: Span
    start: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known about a reply at its end."""

    model: str
    voice: str
    seed: int
    characters: int
    frames: int
    finish_reason: str
    audio_seconds: float
    wall_seconds: float
    rtf: float
    phases: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "voice": self.voice,
            "seed": self.seed,
            "finish_reason": self.finish_reason,
            "audio_seconds": round(self.audio_seconds, 6),
            "wall_seconds": round(self.wall_seconds, 6),
            "rtf": round(self.rtf, 6),
            "phases": {name: round(seconds, 6) for name, seconds in self.phases.items()},
        }


class Framing(Protocol):
    """Layout of one reply."""

    media_type: str
    timed: bool
    """Whether it has a use for sentences; finding their times is work."""

    def audio(self, data: bytes, place: Place) -> bytes:
        """Encoded audio that is not the last."""
        ...

    def sentence(self, sentence: Sentence) -> bytes:
        """A sentence has been spoken."""
        ...

    def done(self, data: bytes, place: Place, summary: Summary) -> bytes:
        """The last encoded audio, or all of a whole reply, and the end."""
        ...

    def failed(self, body: dict[str, Any]) -> bytes:
        """The reply breaks off here; `body` is an error body."""
        ...


class BareAudio:
    """The audio and nothing else."""

    timed = False

    def __init__(self, output: AudioOutput) -> None:
        self.media_type = output.media_type

    def audio(self, data: bytes, place: Place) -> bytes:
        return data

    def sentence(self, sentence: Sentence) -> bytes:
        return b""

    def done(self, data: bytes, place: Place, summary: Summary) -> bytes:
        return data

    def failed(self, body: dict[str, Any]) -> bytes:
        return b""


class OpenAiEvents:
    """`speech.audio.delta` and `speech.audio.done`, as OpenAI's speech API sends them.

    Usage is counted in what this engine counts: characters of the text in, codec frames out.
    """

    media_type = EVENT_STREAM
    timed = False

    def audio(self, data: bytes, place: Place) -> bytes:
        return event({"type": "speech.audio.delta", "audio": b64encode(data).decode()})

    def sentence(self, sentence: Sentence) -> bytes:
        return b""

    def done(self, data: bytes, place: Place, summary: Summary) -> bytes:
        usage = {
            "input_tokens": summary.characters,
            "output_tokens": summary.frames,
            "total_tokens": summary.characters + summary.frames,
        }
        last = self.audio(data, place) if data else b""
        return last + event({"type": "speech.audio.done", "usage": usage})

    def failed(self, body: dict[str, Any]) -> bytes:
        return event({"type": "error", **body})


class TimedEvents:
    """`audio`, `sentence` and `done`: audio with its place in the text, times of words, figures at the end."""

    media_type = EVENT_STREAM
    timed = True

    def __init__(self, output: AudioOutput) -> None:
        self._format = {
            "format": output.format.name,
            "media_type": output.media_type,
            "sample_rate": output.sample_rate,
        }
        self._index = 0

    def audio(self, data: bytes, place: Place) -> bytes:
        index, self._index = self._index, self._index + 1
        return event(
            {
                "type": "audio",
                "index": index,
                "sentence": place.sentence,
                "span": list(place.span),
                "start": round(place.start, 6),
                "audio": b64encode(data).decode(),
            }
        )

    def sentence(self, sentence: Sentence) -> bytes:
        return event({"type": "sentence", **sentence.as_json()})

    def done(self, data: bytes, place: Place, summary: Summary) -> bytes:
        last = self.audio(data, place) if data else b""
        return last + event({"type": "done", **self._format, **summary.as_json()})

    def failed(self, body: dict[str, Any]) -> bytes:
        return event({"type": "error", **body})


class Envelope:
    """One JSON object with the audio, the times of its sentences and words, and the figures. Whole replies only."""

    media_type = "application/json"
    timed = True

    def __init__(self, output: AudioOutput) -> None:
        self._output = output
        self._sentences: list[Sentence] = []

    def audio(self, data: bytes, place: Place) -> bytes:
        raise AssertionError("a whole reply has no audio before its end")

    def sentence(self, sentence: Sentence) -> bytes:
        self._sentences.append(sentence)
        return b""

    def done(self, data: bytes, place: Place, summary: Summary) -> bytes:
        body = {
            "object": "speech",
            "format": self._output.format.name,
            "media_type": self._output.media_type,
            "sample_rate": self._output.sample_rate,
            **summary.as_json(),
            "sentences": [sentence.as_json() for sentence in self._sentences],
            "audio": b64encode(data).decode(),
        }
        return json.dumps(body).encode()

    def failed(self, body: dict[str, Any]) -> bytes:
        return b""


def event(fields: dict[str, Any]) -> bytes:
    """One server-sent event. JSON escapes line ends, so it is one line."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"
