"""A job of three sentences for tests of the store, and its way to the end."""

from __future__ import annotations

from collections.abc import Callable

from kestrel.service.jobs.database import Line, NewJob
from kestrel.service.jobs.store import Spoken, Store
from kestrel.service.speech import Speech

KEPT, DROPPED = "job_" + "a" * 32, "job_" + "d" * 32
TEXTS = ["One.", "Two.", "Three."]
AUDIO = [bytes([number]) * (200 + 2 * number) for number in range(3)]
PLENTY = 1 << 30


def new(job: str = KEPT, retention: float = 1000.0) -> NewJob:
    speech = Speech("", seed=7, max_seconds=60.0)
    return NewJob(
        job, 1.0, retention, "m", "1", 16000, "wav", sum(map(len, TEXTS)), speech, [Line(text) for text in TEXTS]
    )


def spoken(number: int, pcm: bytes | None = None) -> Spoken:
    pcm = AUDIO[number] if pcm is None else pcm
    return Spoken(number, pcm, len(pcm) / 32000, 0.1 * number, "eos")


def finish(store: Store, done: Callable[[str], None] = lambda step: None) -> None:
    """Brings the one job from whatever state to its end, telling each step that is safe."""
    if store.find(KEPT) is None:
        store.create(new(), 10)
        done("created")
    if store.find(KEPT).status == "completed":  # type: ignore[union-attr]
        return
    job = store.take()
    assert job is not None
    assert job.id == KEPT
    for number in range(job.progress.done, len(TEXTS)):
        assert store.line(job, number) == Line(TEXTS[number])
        store.record(job, spoken(number))
        done(f"spoken {number}")
    store.complete(KEPT)
    done("completed")
