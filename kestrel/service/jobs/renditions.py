"""A completed job's audio in the format that was asked for.

The disk holds bare samples. A format that is those samples behind a header is served from that file, whatever range is
asked for. A format that has to be encoded belongs here as one more entry of RENDITIONS: a function that encodes the
samples once, into `ID.format` beside them, under that name only when complete, and returns that file.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from kestrel.service.containers import container
from kestrel.service.errors import ApiError
from kestrel.service.jobs.database import StoredJob
from kestrel.service.ranges import Span

_BLOCK = 256 << 10


@dataclass(frozen=True, slots=True)
class Rendition:
    """Bytes to serve: `head`, then the file."""

    media_type: str
    head: bytes
    path: Path
    size: int  # of both

    async def read(self, file: int, span: Span) -> AsyncIterator[bytes]:
        """The bytes of a span, block by block, from the opened file. OSError if that has been cut meanwhile."""
        at = span.start
        while at < span.end:
            if at < len(self.head):
                block = self.head[at : span.end]
            else:
                wanted = min(_BLOCK, span.end - at)
                block = await anyio.to_thread.run_sync(os.pread, file, wanted, at - len(self.head))
            if not block:
                raise OSError("the audio file has become shorter")
            at += len(block)
            yield block


def _plain(name: str) -> Callable[[StoredJob, Path], Rendition]:
    """The samples behind the header of a container."""

    def rendition(job: StoredJob, path: Path) -> Rendition:
        size = job.progress.size
        kind = container(name, job.sample_rate)
        try:
            head = kind.header(size // 2)
        except ValueError as error:
            message = f"{error}; ask for format=pcm"
            raise ApiError(400, message, code="too_long_for_format", param="format") from error
        return Rendition(kind.media_type, head, path, len(head) + size)

    return rendition


RENDITIONS: dict[str, Callable[[StoredJob, Path], Rendition]] = {"wav": _plain("wav"), "pcm": _plain("pcm")}
"""Blocking functions: called in a worker thread."""
