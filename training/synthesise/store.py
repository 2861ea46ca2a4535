"""Audio of a corpus on disk: one raw file of samples and one JSON line an utterance, both only ever appended to."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from training.synthesise.teacher import Spoken

SAMPLE_BYTES = 2


class Store:
    """Appends utterances; opening it again continues after the last complete one.

    `audio.i16`: little-endian 16-bit samples. `index.jsonl`: line number in the corpus, text, phonemes, durations,
    frames cut at the start, offset and number of samples. A line the teacher refused is recorded with zero samples,
    so that it is not retried.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        index = folder / "index.jsonl"
        self.next_line, self.samples, good = 0, 0, 0
        if index.exists():
            for raw in index.read_bytes().splitlines(keepends=True):
                if not raw.endswith(b"\n"):
                    break  # cut off while writing
                entry = json.loads(raw)
                good += len(raw)
                self.next_line, self.samples = entry["line"] + 1, entry["offset"] + entry["samples"]
        self._index = index.open("ab")
        self._audio = (folder / "audio.i16").open("ab")
        self._index.truncate(good)
        self._audio.truncate(self.samples * SAMPLE_BYTES)

    def add(self, text: str, spoken: Spoken | None) -> None:
        """Append one line of the corpus; None records a refusal."""
        entry: dict[str, Any] = {"line": self.next_line, "text": text, "offset": self.samples, "samples": 0}
        if spoken is not None:
            self._audio.write(spoken.pcm.astype("<i2").tobytes())
            self._audio.flush()  # before the index: an index entry promises that its samples are there
            entry |= {"phonemes": spoken.phonemes, "durations": spoken.durations.tolist()}
            entry |= {"lead_frames": spoken.lead_frames, "samples": len(spoken.pcm)}
        self._index.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        self._index.flush()
        self.next_line += 1
        self.samples += int(entry["samples"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._index.close()
        self._audio.close()
