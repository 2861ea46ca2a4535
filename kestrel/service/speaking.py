"""One utterance on its way through the engine, seen from the event loop.

The engine calls back from its owner thread; the callbacks given here are called on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from kestrel.engine import Chunk, Engine, Result, Stream, Utterance
from kestrel.service.containers import Pcm

_CANCEL_PATIENCE = 10.0
"""Seconds to wait for the engine to confirm a cancellation; it needs one frame. Only a dead engine takes longer."""


async def speak(
    engine: Engine,
    utterance: Utterance,
    heard: Callable[[Pcm], None],
    left: Callable[[float, Result | None], None] = lambda seconds, result: None,
) -> Result:
    """Speaks one utterance; `heard` gets its samples as they are made. Raises what the engine failed with.

    Cancelling frees the engine's slot before it returns; `left` then gets the seconds that took, and the part's result.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Result] = loop.create_future()

    def arrived(event: Chunk | Result | Exception) -> None:
        if isinstance(event, Chunk):
            heard(event.pcm)
        elif isinstance(event, Result):
            ended.set_result(event)
        else:
            ended.set_exception(event)

    def sink(event: Chunk | Result | Exception) -> None:
        loop.call_soon_threadsafe(arrived, event)

    # Text work (tokenizer, lexicon) happens inside submit, hence the thread.
    submitting = asyncio.ensure_future(asyncio.to_thread(engine.submit, utterance, sink))
    try:
        await asyncio.shield(submitting)
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        abandoning = asyncio.ensure_future(_abandon(submitting, ended, left))
        while not abandoning.done():
            try:
                await asyncio.shield(abandoning)
            except asyncio.CancelledError:
                continue  # a second cancellation (deadline, then disconnect) must not leave the slot behind
        raise


async def _abandon(
    submitting: asyncio.Future[Stream],
    ended: asyncio.Future[Result],
    left: Callable[[float, Result | None], None],
) -> None:
    """Cancels an utterance and waits until the engine has let go of its slot.

    Admission must not hand the place on before that, else the next job would find no slot. The submission may still be
    running in its thread when the cancellation comes; its stream must not be left to speak on unheard.
    """
    started = monotonic()
    await asyncio.wait([submitting])
    if submitting.exception() is not None:
        return
    submitting.result().cancel()
    await asyncio.wait([ended], timeout=_CANCEL_PATIENCE)
    left(monotonic() - started, ended.result() if ended.done() and ended.exception() is None else None)
