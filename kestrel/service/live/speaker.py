"""Speaks what a draft holds, utterance by utterance, into an outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kestrel.engine import ClosedError, Engine, Result
from kestrel.service.admission import expected_audio_seconds
from kestrel.service.containers import Pcm
from kestrel.service.errors import SERVER, ApiError, deadline_exceeded, to_api_error
from kestrel.service.live.account import Account
from kestrel.service.live.draft import Draft, Utterance
from kestrel.service.live.outbox import Outbox
from kestrel.service.live.place import Place
from kestrel.service.live.protocol import Event, failure, sentence_start, words
from kestrel.service.live.sentences import Sentence
from kestrel.service.planner import PlanError
from kestrel.service.runtime import Runtime
from kestrel.service.speaking import speak


class Speaker:
    """Run `run` as a task; call `wake` after every change of the draft."""

    def __init__(self, request_id: str, runtime: Runtime, engine: Engine, draft: Draft, outbox: Outbox) -> None:
        self.closing = False
        self.spoken_seconds = 0.0
        self._request_id = request_id
        self._runtime, self._engine = runtime, engine
        self._draft, self._outbox = draft, outbox
        self._log_text = runtime.settings.log_text
        self._rate = engine.info.sample_rate
        self._read_ahead = int(runtime.settings.read_ahead_seconds * self._rate)
        self._news = asyncio.Event()
        self._accounts: list[Account] = []  # of utterances whose last event has not left
        self._cleared: list[Account] = []
        self._current: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Speaks until `closing` is set and everything is spoken. Cancelling it frees the engine's slot first."""
        try:
            while True:
                utterance = await self._next()
                if utterance is None:
                    return
                account = Account(self._request_id, utterance, self._engine.info, log_text=self._log_text)
                self._accounts.append(account)
                self._current = asyncio.create_task(self._speak(utterance, account))
                await asyncio.wait({self._current})
                if self._current.cancelled():
                    account.close(self._runtime.metrics, "clear")
                else:
                    self._current.result()
                self._draft.done(utterance)
        finally:
            await self._stop()
            for account in self._cleared:  # the session ended before the engine had let go
                account.close(self._runtime.metrics, "clear")

    def wake(self) -> None:
        self._news.set()

    def clear(self) -> Callable[[], Event]:
        """Drops everything that was not sent; the engine stops before its next frame. Returns what tells it."""
        cleared = self._draft.clear()
        open_accounts = self._accounts
        self._accounts = []
        for account in open_accounts:
            account.utterance.dropped = True
        self._outbox.drop([*cleared, *(account.utterance for account in open_accounts)])
        if self._current is not None:
            self._current.cancel()
        for account in open_accounts:
            if account.utterance not in cleared or self._current is None or self._current.done():
                account.close(self._runtime.metrics, "clear")
        self._cleared = [account for account in (*self._cleared, *open_accounts) if not account.closed]
        numbers = sorted({utterance.number for utterance in cleared} | {a.utterance.number for a in open_accounts})
        following = self._draft.next_number

        def event() -> Event:  # made when it leaves: a chunk that was just being sent counts as sent
            sent = {account.utterance.number: round(account.sent_seconds, 6) for account in open_accounts}
            utterances = [{"utterance": number, "sent_seconds": sent.get(number, 0.0)} for number in numbers]
            return {"type": "cleared", "utterances": utterances, "next_utterance": following}

        return event

    def give_up(self, cause: str) -> None:
        """The session has ended: closes the accounts that are open."""
        for account in self._accounts:
            account.close(self._runtime.metrics, cause)
        self._accounts = []

    @property
    def busy(self) -> bool:
        """Something is being spoken or waits for its place."""
        first = self._draft.first()
        return first is not None and (first.complete or bool(first.sentences))

    async def _next(self) -> Utterance | None:
        while True:
            utterance = self._draft.first()
            if utterance is not None and (utterance.sentences or utterance.complete):
                return utterance
            if self.closing and utterance is None:
                return None
            self._news.clear()
            await self._news.wait()

    async def _stop(self) -> None:
        """Ends the current utterance and waits for its slot; a second cancellation must not leave it behind."""
        task = self._current
        while task is not None and not task.done():
            task.cancel()
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue

    async def _speak(self, utterance: Utterance, account: Account) -> None:
        try:
            await self._say(utterance, account)
            if not account.totals.pieces and utterance.characters and not utterance.refused:
                raise PlanError("the text holds nothing to say; it needs at least one letter or digit")
        except Exception as error:
            self._refuse(utterance, account, error)
        while not utterance.complete:
            self._news.clear()
            await self._news.wait()
        self._finish(utterance, account)

    def _refuse(self, utterance: Utterance, account: Account, error: Exception) -> None:
        if isinstance(error, ClosedError):
            self._runtime.lost(error)
        refusal = to_api_error(error)
        account.error = refusal.status, refusal.code
        utterance.refuse()
        self._outbox.put(failure(refusal, utterance.number), utterance)

    def _finish(self, utterance: Utterance, account: Account) -> None:
        totals = account.totals
        reason = "error" if account.error or (utterance.refused and totals.finish_reason != "length") else None
        self.spoken_seconds += totals.audio_seconds
        rtf = (
            (totals.wall_seconds - totals.phases.get("queue", 0.0)) / totals.audio_seconds
            if totals.audio_seconds
            else None
        )
        if rtf is not None:
            self._runtime.admission.measured(rtf)
        event: Event = {
            "type": "utterance.done",
            "utterance": utterance.number,
            "finish_reason": reason or totals.finish_reason or "empty",
            "sentences": totals.pieces,
            "audio_seconds": round(totals.audio_seconds, 6),
            "seed": utterance.speech.seed,
            "rtf": None if rtf is None else round(rtf, 6),
            "phases": {name: round(seconds, 6) for name, seconds in totals.phases.items()},
        }

        def sent() -> None:
            account.close(self._runtime.metrics)
            if account in self._accounts:
                self._accounts.remove(account)

        self._outbox.put(event, utterance, sent=sent)

    async def _say(self, utterance: Utterance, account: Account) -> None:
        self._runtime.speaking_engine()  # raises while shutting down
        with self._runtime.busy():
            async with Place(self._runtime.admission, self._runtime.settings.request_timeout) as place:
                while (sentence := await self._sentence(utterance, place)) is not None:
                    if utterance.speech.exhausted(account.totals.audio_seconds):
                        account.totals = account.totals.cut_short()
                        utterance.refuse()
                        return
                    await self._say_one(utterance, sentence, account, place)

    async def _sentence(self, utterance: Utterance, place: Place) -> Sentence | None:
        """The next sentence, once there is one and the client is close enough behind; None at the end."""
        while not utterance.sentences:
            if utterance.complete or utterance.refused:
                return None
            await place.rest(0.0)
            self._news.clear()
            await self._news.wait()
        if self._outbox.unsent_samples > self._read_ahead:
            await place.rest(expected_audio_seconds(utterance.unspoken, utterance.speech.max_seconds))
            await self._outbox.room(lambda: self._outbox.unsent_samples <= self._read_ahead)
        return utterance.sentences.popleft() if utterance.sentences else None

    async def _say_one(self, utterance: Utterance, sentence: Sentence, account: Account, place: Place) -> None:
        seconds = self._runtime.settings.request_timeout
        number, begun = account.totals.pieces, account.totals.audio_seconds
        try:
            async with asyncio.timeout(seconds) as deadline:
                ahead = sum(len(more.text) for more in utterance.sentences)
                left = utterance.speech.max_seconds - begun
                account.began(sentence.text)
                ticket = await place.take(expected_audio_seconds(len(sentence.text) + ahead, left))
                account.queue_seconds = place.waited_seconds
                produced, samples, chunks = ticket.produced_seconds, 0, 0
                self._outbox.put(sentence_start(utterance.number, number, sentence, begun), utterance)

                def heard(pcm: Pcm) -> None:
                    nonlocal samples, chunks
                    if utterance.dropped:
                        return
                    start = begun + samples / self._rate
                    samples += len(pcm)
                    ticket.produced_seconds = produced + samples / self._rate
                    event: Event = {
                        "type": "audio",
                        "utterance": utterance.number,
                        "sentence": number,
                        "chunk": chunks,
                        "start_seconds": round(start, 6),
                        "samples": len(pcm),
                    }
                    if utterance.audio == "base64":
                        event["audio"] = ""
                    chunks += 1
                    length = len(pcm) / self._rate
                    self._outbox.put(event, utterance, pcm=pcm, sent=lambda: account.sent(length))

                def abandoned(seconds: float, result: Result | None) -> None:
                    account.abandoned(seconds)
                    if result is not None:
                        account.totals = account.totals.add(result)

                piece = utterance.speech.utterance(sentence.text, number, begun)
                result = await speak(self._engine, piece, heard, abandoned)
        except TimeoutError:
            if deadline.expired():
                raise deadline_exceeded(seconds) from None
            raise
        account.totals = account.totals.add(result)
        if not samples:
            raise ApiError(500, "the engine gave no audio for this sentence", code="no_audio", kind=SERVER)
        event: Event = {
            "type": "sentence.done",
            "utterance": utterance.number,
            "sentence": number,
            "finish_reason": result.finish_reason,
            "audio_seconds": round(result.audio_seconds, 6),
            "words": words(sentence, result.words, begun),
        }
        self._outbox.put(event, utterance)
