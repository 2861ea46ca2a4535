"""What a player at the other end of a stream would hear: gaps between the chunks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Playback:
    """A player that starts with the first chunk and plays without pre-buffering. Times are monotonic seconds."""

    underrun_seconds: float = 0.0
    _ends_at: float | None = None

    def arrive(self, now: float, audio_seconds: float) -> None:
        """A chunk arrives at `now`; if the audio before it has run out, the wait was heard as a gap."""
        if self._ends_at is not None and now > self._ends_at:
            self.underrun_seconds += now - self._ends_at
            self._ends_at = now
        self._ends_at = (now if self._ends_at is None else self._ends_at) + audio_seconds
