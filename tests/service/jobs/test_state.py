"""Properties of the decisions about jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrel.service.jobs.state import (
    Progress,
    Sentence,
    Work,
    audio_left,
    concluded,
    fold,
    intact,
    is_id,
    new_id,
    over,
    seconds_left,
)
from kestrel.service.speech import Speech, Totals
from tests.service.fake_engine import FakeStream

REASONS = ["eos", "length", "repetition", "silence", "context"]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Speech, list[tuple[int, str]]]:
    """A limit, and what the engine would make of each sentence: samples and finish reason."""
    made = draw(st.lists(st.tuples(st.integers(0, 40_000), st.sampled_from(REASONS)), min_size=1, max_size=12))
    return Speech("", max_seconds=draw(st.floats(0.05, 20.0))), made


def sentence(number: int, made: tuple[int, str], size: int) -> Sentence:
    samples, reason = made
    return Sentence(number, size + 2 * samples, samples / 16000, samples / 8000, reason)


def undisturbed(speech: Speech, made: list[tuple[int, str]]) -> tuple[Progress, list[Sentence]]:
    progress, told = Progress(len(made)), []
    while not over(progress, speech):
        told.append(sentence(progress.done, made[progress.done], progress.size))
        progress = progress.add(told[-1])
    return concluded(progress), told


@given(runs(), st.lists(st.tuples(st.integers(0, 12), st.floats(0, 1)), max_size=6))
def test_crashes_change_nothing(run: tuple[Speech, list[tuple[int, str]]], crashes: list[tuple[int, float]]) -> None:
    """Catches a restart that skips, repeats or shifts a sentence, or that sums times in another order.

    Each crash comes after some more sentences and leaves a file of which part may have been taken away.
    """
    speech, made = run
    expected, _ = undisturbed(speech, made)
    progress, told = Progress(len(made)), list[Sentence]()
    for steps, left in crashes:
        for _ in range(steps):
            if over(progress, speech):
                break
            told.append(sentence(progress.done, made[progress.done], progress.size))
            progress = progress.add(told[-1])
        file_size = int(progress.size * left)
        told = list(intact(told, file_size))
        progress = fold(len(made), told)
        assert progress.size <= file_size
    while not over(progress, speech):
        progress = progress.add(sentence(progress.done, made[progress.done], progress.size))
    assert concluded(progress) == expected


@given(runs())
def test_a_job_counts_as_a_request_does(run: tuple[Speech, list[tuple[int, str]]]) -> None:
    """A job's figures must be those of /v1/tts: the same limit, sums and finish reason, or its samples would differ."""
    speech, made = run
    progress, _ = undisturbed(speech, made)
    totals, events = Totals(), []
    for samples, reason in made:
        if speech.exhausted(totals.audio_seconds):
            totals = totals.cut_short()
            break
        stream = FakeStream(speech.utterance("x", 0, 0), events.append)
        stream.samples = samples
        stream.end(reason)
        totals = totals.add(events[-1])
    assert (progress.done, progress.audio_seconds) == (totals.pieces, totals.audio_seconds)
    assert progress.finish_reason == totals.finish_reason


@given(runs(), st.integers(-1, 13))
def test_only_the_next_sentence_can_be_added(run: tuple[Speech, list[tuple[int, str]]], number: int) -> None:
    """A sentence kept twice or out of order would be heard so."""
    progress, told = undisturbed(*run)
    if not told:
        return
    progress = fold(len(run[1]), told[:-1])
    wanted = replace(told[-1], number=number)
    if number == progress.done:
        assert progress.add(wanted).done == number + 1
    else:
        with pytest.raises(ValueError, match="cannot follow"):
            progress.add(wanted)


@given(runs(), st.integers(0, 1_000_000))
def test_what_is_left_is_never_negative_nor_beyond_the_limit(run: tuple[Speech, list[tuple[int, str]]], n: int) -> None:
    """Catches negative estimates and reservations of disk space beyond max_seconds."""
    speech, made = run
    progress = Progress(len(made))
    while not over(progress, speech):
        assert 0 <= audio_left(progress, n, speech.max_seconds) <= speech.max_seconds
        progress = progress.add(sentence(progress.done, made[progress.done], progress.size))
    if progress.done == progress.total:
        assert audio_left(progress, n, speech.max_seconds) == 0


@given(st.lists(st.tuples(st.floats(0, 1e5), st.none() | st.floats(0, 10)), min_size=1, max_size=8),
       st.floats(0, 10), st.integers(1, 4))  # fmt: skip
def test_a_later_job_waits_no_less(work: list[tuple[float, float | None]], rtf: float, lanes: int) -> None:
    """Catches an estimate that forgets the jobs before, or its own work."""
    unfinished = [Work(str(index), *each) for index, each in enumerate(work)]
    for index, each in enumerate(unfinished):
        own = each.audio_seconds * (rtf if each.rtf is None else each.rtf)
        estimate = seconds_left(each.id, unfinished, rtf, lanes)
        assert estimate >= own
        if index < lanes:
            assert estimate == own


def test_estimate_in_numbers() -> None:
    """One lane, RTF 0.5: 100 s before it and 20 s of its own."""
    work = [Work("a", 100.0, None), Work("b", 20.0, None)]
    assert seconds_left("b", work, 0.5, 1) == 60.0


@given(st.text(max_size=50) | st.from_regex(r"job_[0-9a-f]{32}\s?"))
def test_ids_hold_nothing_that_means_something_in_a_path(text: str) -> None:
    """Catches a pattern that forgets the end of the line, and other alphabets' digits."""
    if is_id(text):
        assert len(text) == 36
        assert text.isascii()
        assert text[:4] == "job_"
        assert text[4:].isalnum()


def test_new_ids_are_ids_and_differ() -> None:
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(map(is_id, ids))
