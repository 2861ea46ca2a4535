"""The figures of one utterance of a session: its log line, its metrics, and what its client has been sent."""

from __future__ import annotations

from time import monotonic

from kestrel.engine import ModelInfo
from kestrel.service.live.draft import Utterance
from kestrel.service.logs import log_request
from kestrel.service.metrics import Metrics
from kestrel.service.playback import Playback
from kestrel.service.record import RequestRecord, SpeechRecord
from kestrel.service.speech import Totals, add_phases

ENDPOINT = "/v1/tts/stream"


class Account:
    """Kept from the first sentence of an utterance until its last event has left or it was given up."""

    def __init__(self, request_id: str, utterance: Utterance, info: ModelInfo, *, log_text: bool) -> None:
        self.utterance = utterance
        self.totals = Totals()
        self.queue_seconds = 0.0
        self.text_seconds = 0.0
        self.sent_seconds = 0.0
        self.error: tuple[int, str] | None = None  # status and code
        self.record = RequestRecord(f"{request_id}.{utterance.number}", "WS", endpoint=ENDPOINT, status=200)
        speech = utterance.speech
        self.speech = SpeechRecord(info.name, speech.voice, "pcm", True, 0, speech.seed)
        if log_text:
            self.speech.text = ""
        self._playback = Playback()
        self.closed = False

    def began(self, sentence: str) -> None:
        """A sentence is about to be spoken."""
        if self.speech.text is not None:
            self.speech.text = f"{self.speech.text} {sentence}".lstrip()

    def sent(self, seconds: float) -> None:
        """A chunk has left."""
        now = monotonic()
        self.sent_seconds += seconds
        self._playback.arrive(now, seconds)
        if self.speech.first_audio_seconds is None:
            self.speech.first_audio_seconds = now - self.record.started

    def abandoned(self, seconds: float) -> None:
        """The engine has let go of a sentence that was cut off, after so many seconds."""
        self.speech.cancel_seconds = seconds

    def close(self, metrics: Metrics, cancelled: str | None = None) -> None:
        """Counts and logs it, once."""
        if self.closed:
            return
        self.closed = True
        record, speech = self.record, self.speech
        if self.error is not None:
            record.status, record.error_code = self.error
            speech.failed = True
        speech.cancelled = cancelled
        speech.characters = self.utterance.characters
        speech.totals = self.totals
        speech.queue_seconds = self.queue_seconds + self.totals.phases.get("queue", 0.0)
        speech.underrun_seconds = self._playback.underrun_seconds
        speech.phases = add_phases([self.totals.phases, {"queue": self.queue_seconds, "text": self.text_seconds}])
        record.speech = speech
        record.seconds = monotonic() - record.started
        metrics.ended(record)
        log_request(record)
